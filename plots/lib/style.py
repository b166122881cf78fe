"""What all figures share: colours, fonts, and a page laid out in inches so that nothing is clipped or overlaps.

Fonts are in points on a page of 19.2 x 10.8 inches (1920 x 1080 pixels); the smallest, footers included, would be nine
points on a page 12 inches wide: legible from the last row of a lecture hall. A page with many rungs grows taller; its
fonts stay.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import get_hinting_flag
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import FuncFormatter, MaxNLocator

from plots.lib import origin, outputs
from plots.lib.record import DEVICES, TIMES, Gap, Over, Record, Rung, number

# Okabe and Ito, "Color Universal Design" (2008): told apart with any colour vision. Black and yellow are kept out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
GREY = "#6E6E6E"
PALE = "#D9D9D9"
MARKERS = "osD^vPX"

WIDTH, HEIGHT, DPI = 19.2, 10.8, 100  # inches, inches, pixels per inch
SMALL, BODY, TITLE = 15, 17, 25  # points
LINE = 1.45  # line pitch over font size
MARGIN = 0.35  # inches
TICK_ROOM = 0.3  # inches between two labels of a vertical axis
ROW = 0.26  # inches: the least pitch at which lines of SMALL text do not touch

matplotlib.rcParams.update(
    {
        "font.size": SMALL,
        "axes.titlesize": BODY,
        "axes.labelsize": BODY,
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
        "legend.fontsize": SMALL,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": PALE,
        "svg.hashsalt": "ladder",  # the same record gives the same bytes
        "text.parse_math": False,  # a reason may hold a dollar sign
    }
)


FONT_FILES = {bold: findfont(FontProperties(weight="bold" if bold else "normal")) for bold in (False, True)}


@lru_cache(maxsize=8192)
def text_width(text: str, points: float = SMALL, bold: bool = False) -> float:
    """Inches that the text takes."""
    font = get_font(FONT_FILES[bold])
    font.set_size(points, DPI)  # at the resolution of the page: letters are fitted to its pixels
    font.set_text(text, 0, flags=get_hinting_flag())
    return float(font.get_width_height()[0]) / 64 / DPI


def shorten(text: str, inches: float, points: float = SMALL) -> str:
    """The text, cut at a word where it does not fit."""
    if text_width(text, points) <= inches:
        return text
    words = text.split()
    while words and text_width(" ".join(words) + " …", points) > inches:
        words.pop()
    return " ".join(words) + " …"


def pieces(word: str, inches: float, points: float, bold: bool) -> Iterator[str]:
    """The word in parts that fit: whole, nearly always."""
    while text_width(word, points, bold) > inches and len(word) > 1:
        count = max(1, int(len(word) * inches / text_width(word, points, bold)))
        while count > 1 and text_width(word[:count], points, bold) > inches:
            count -= 1
        yield word[:count]
        word = word[count:]
    yield word


def wrap(text: str, inches: float, points: float = SMALL, bold: bool = False) -> list[str]:
    """Lines of at most so many inches, broken between words; a number and its % are one."""
    space = text_width("n n", points, bold) - text_width("nn", points, bold)
    lines: list[str] = []
    used = math.inf
    for word in text.replace(" %", "\u00a0%").split(" "):
        for piece in pieces(word, inches, points, bold):
            width = text_width(piece, points, bold)
            if used + space + width > inches:
                lines.append(piece)
                used = width
            else:
                lines[-1] += " " + piece
                used += space + width
    return [line.replace("\u00a0%", " %") for line in lines if line.strip()]


class Notes:
    """Numbered remarks at the foot of a page; the same remark has one number."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def cite(self, text: str) -> int:
        """The number of this remark."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1

    def lines(self, most: int = 8) -> list[str]:
        numbered = [f"[{i}] {text}" for i, text in enumerate(self.texts, 1)]
        if len(numbered) > most:
            numbered[most - 1 :] = [f"[{most}] to [{len(numbered)}]: see the reasons in the record."]
        return numbered


class Page:
    """A figure with title, subtitle, body, notes and footer; the body's height in inches may ask for a taller page."""

    def __init__(self, title: str, subtitle: str, notes: Sequence[str], footer: Sequence[str], body: float = 0) -> None:
        inner = WIDTH - 2 * MARGIN
        heading = wrap(title, inner, TITLE, bold=True)
        below = wrap(subtitle, inner, BODY)
        foot = [line for note in notes for line in wrap(note, inner)]
        signature = [line for part in footer for line in wrap(part, inner)]

        def height(lines: Sequence[str], points: float) -> float:
            return len(lines) * points * LINE / 72

        top = MARGIN + height(heading, TITLE) + height(below, BODY) + 0.15
        self.bottom = 0.2 + height(foot, SMALL) + height(signature, SMALL)  # inches, where the body begins
        self.height = max(HEIGHT, top + body + self.bottom)
        self.top = self.height - top  # inches, where the body ends
        self.figure = Figure(figsize=(WIDTH, self.height), dpi=DPI)

        y = self.height - MARGIN
        for lines, points, colour in ((heading, TITLE, "black"), (below, BODY, "#333333")):
            for line in lines:
                self._text(line, y, points, colour, bold=points == TITLE)
                y -= points * LINE / 72
        y = self.bottom - 0.05
        for lines, colour in ((foot, "#333333"), (signature, GREY)):
            for line in lines:
                self._text(line, y, SMALL, colour)
                y -= SMALL * LINE / 72

    def _text(self, text: str, top: float, points: float, colour: str, bold: bool = False) -> None:
        self.figure.text(
            MARGIN / WIDTH,
            top / self.height,
            text,
            fontsize=points,
            color=colour,
            weight="bold" if bold else "normal",
            ha="left",
            va="top",
        )

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Axes at a place in inches from the page's lower left corner."""
        h = self.height
        return self.figure.add_axes((left / WIDTH, bottom / h, width / WIDTH, height / h))

    def legend(self, left: float, handles: Sequence[Any]) -> None:
        """In one line above the axes that begin `left` inches from the edge."""
        self.figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(left / WIDTH, self.top / self.height),
            ncols=max(1, len(handles)),
            frameon=False,
            borderaxespad=0,
            fontsize=BODY,
        )

    def save(self, folder: Path, stem: str, svg: bool = True) -> list[Path]:
        """Throws InputError where a file that is no such picture would be lost."""
        kinds = [("png", outputs.PICTURE, origin.metadata()), ("svg", outputs.DRAWING, {"Date": None})]
        paths = []
        for suffix, kind, metadata in kinds if svg else kinds[:1]:
            content = io.BytesIO()
            self.figure.savefig(content, format=suffix, metadata=metadata)
            paths.append(folder / f"{stem}.{suffix}")
            outputs.write(paths[-1], content.getvalue(), kind)
        return paths


# ------------------------------------------------------------------------------------------------ lines of rungs


class Lines:
    """The y axis of a figure with a line per rung: each tree under a heading, the first at the top."""

    def __init__(self, record: Record, rungs: Sequence[Rung]) -> None:
        self.y: dict[Rung, float] = {}
        self.colour: dict[Rung, str] = {}
        self.headings: list[tuple[float, str]] = []
        trees: dict[str, list[Rung]] = {}
        for rung in rungs:
            trees.setdefault(heading(record, rung), []).append(rung)
        y = 0.0
        for index, (text, members) in enumerate(trees.items()):
            y += 0.4 if index else 0
            self.headings.append((y, text))
            y += 1
            for rung in members:
                self.y[rung] = y
                self.colour[rung] = COLOURS[index % len(COLOURS)]
                y += 1
        self.count = y
        self.label_width = max(text_width(rung.variant, SMALL, bold=True) for rung in rungs) + 0.25

    def height(self) -> float:
        """Inches that the lines need."""
        return self.count * ROW

    def label(self, ax: Axes, visible: bool, bold: Sequence[Rung] = ()) -> None:
        """Sets the y axis: one tick per rung, named where `visible`; headings over the first panel."""
        top, bottom = -0.6, self.count - 0.4
        ax.set_ylim(bottom, top)
        ax.set_yticks([self.y[rung] for rung in self.y], [rung.variant if visible else "" for rung in self.y])
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        ax.spines["left"].set_visible(False)
        for label, rung in zip(ax.get_yticklabels(), self.y, strict=True):
            label.set_color(self.colour[rung])
            label.set_fontweight("bold" if rung in bold else "normal")
        if not visible:
            return
        box = ax.get_position()
        for y, text in self.headings:
            ax.figure.text(
                MARGIN / WIDTH,
                box.y1 - (y - top) / (bottom - top) * box.height,
                text,
                fontsize=SMALL,
                style="italic",
                color=GREY,
                va="center",
                ha="left",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
                gid="heading",
            )


def heading(record: Record, rung: Rung) -> str:
    """Of the tree that the rung stands in; lone roots stand together."""
    where = DEVICES[rung.device].heading
    if record.lone(rung.variant) and record.against(rung) != rung.variant:
        return f"{where}, each a root of its own"
    foot = record.foot(rung.variant)
    base = record.bases[foot]
    return f"{where}, from {foot}: its base {base} is not in this record" if base else f"{where}, root {foot}"


def lone_remarks(record: Record, rungs: Sequence[Rung], over: Over) -> list[str]:
    """Over what the speedups of lone roots are, where they are over anything."""
    lone = {rung.variant: record.against(rung) for rung in rungs if record.lone(rung.variant)}
    others = list(dict.fromkeys(other for variant, other in lone.items() if other != variant))
    if over == "base" or not others:
        return []
    return [f"Roots from which nothing was made are compared with {', '.join(others)}."]


def gap_text(gap: Gap, inches: float, notes: Notes) -> str:
    """The status with its reason where there is room for it, else with the number of a note."""
    full = f"{gap.status}: {gap.reason}"
    if text_width(full) <= inches:
        return full
    numbered = f"{gap.status} [{notes.cite(gap.reason)}]"
    room = inches - text_width(numbered) - text_width(": ")
    start = shorten(gap.reason, room) if room > 2.5 else ""
    return f"{numbered}: {start}" if len(start) > 2 else numbered


# ------------------------------------------------------------------------------------------------ numbers and scales


def tick(value: float) -> str:
    return f"{value:.12g}" if abs(value) < 1e6 else f"{value:.0e}".replace("e+0", "e")


MOST_COLOURED = 12  # lines that an eye can tell apart; the others are grey


def coloured(order: Sequence[Rung], feet: Sequence[Rung]) -> list[Rung]:
    """Those of `order`, slowest first, that get a colour: all where they are few, else the feet and the fastest."""
    if len(order) <= MOST_COLOURED:
        return list(order)
    fastest = [rung for rung in reversed(order) if rung not in feet]
    chosen = [*feet, *fastest][:MOST_COLOURED]
    return [rung for rung in order if rung in chosen]


# Over the markers of launch-bound times.
RING: dict[str, Any] = {"linestyle": "none", "mfc": "white", "mew": 2, "zorder": 4, "gid": "hollow"}


def line_style(index: int | None) -> dict[str, Any]:
    """Of the index-th coloured line; of a grey one without an index."""
    if index is None:
        return {"color": "#BBBBBB", "linewidth": 1.2, "zorder": 2}
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": "-" if index < len(COLOURS) else "--",
        "linewidth": 2.2,
        "markersize": 8,
        "zorder": 3,
    }


def spread(wanted: Sequence[float], pitch: float, low: float, high: float) -> list[float]:
    """Places for labels between low and high, near to where they are wanted, in that order, `pitch` apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pitch = min(pitch, (high - low) / max(1, len(wanted) - 1))
    places = list(wanted)
    least = low
    for i in order:
        places[i] = least = max(wanted[i], least)
        least += pitch
    most = high
    for i in reversed(order):
        places[i] = most = min(places[i], most)
        most -= pitch
    return places


def times(value: float) -> str:
    return f"{number(value)}{TIMES}"


def log_values(low: float, high: float, apart: float) -> list[float]:
    """1, 2, 5 times powers of ten between two limits, or powers alone, or every other one: `apart` decades at least."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if apart <= math.log10(2):
        values = [digit * 10.0**e for e in range(first, last + 1) for digit in (1, 2, 5)]
    else:
        step = math.ceil(apart)
        values = [10.0**e for e in range(step * (first // step), last + 1, step)]
    return [value for value in values if low <= value <= high]


def log_ticks(ax: Axes, which: str, inches: float, suffix: str = "") -> None:
    """Ticks of an axis whose limits are set: as many as have room. None on the x axis reaches into a neighbour's."""
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    per_decade = inches / math.log10(high / low)
    if which == "x":
        ends = log_values(low, high, 0)
        room = max((text_width(f"{tick(value)}{suffix}") for value in ends), default=0) + 0.15
    else:
        room = TICK_ROOM
    values = log_values(low, high, room / per_decade)
    if len(values) < 3 and high / low < 10:  # finer steps beside those, as far apart
        for value in (digit * 10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
                      for digit in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)):  # fmt: skip
            if low <= value <= high and all(abs(math.log10(value / v)) * per_decade >= room for v in values):
                values.append(value)
        values.sort()
    if which == "x":
        half = {value: text_width(f"{tick(value)}{suffix}") / 2 - 0.1 for value in values}
        values = [v for v in values if half[v] / per_decade <= min(math.log10(v / low), math.log10(high / v))]
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_ticks(values, [f"{tick(value)}{suffix}" for value in values])
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def linear_ticks(ax: Axes, inches: float) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(nbins=max(2, min(8, int(inches / 0.9))), steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
