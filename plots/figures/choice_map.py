"""Which rung is the fastest for which shape: panels by kind of data and by D, in each a mark for every measured shape.

Drawn of families whose shapes are scattered over N, D and K. The colour and the form of a mark say from which chapter
its fastest rung is; the area around it has its colour, paler. Of a whole solve, the time per iteration is compared. A
peer is a root from which nothing was made (a library's, say); all others are the ladder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import NullLocator

from plots.figures.shape_map import SIZES, fastest, heading, milliseconds, short_names
from plots.lib import cards
from plots.lib.heatmap import folded
from plots.lib.options import Options
from plots.lib.record import DEVICES, SCOPE_TITLES, Gap, Record, Row, Workload, geometric_mean
from plots.lib.style import (
    BODY,
    COLOURS,
    GREY,
    MARGIN,
    MARKERS,
    SMALL,
    WIDTH,
    Page,
    text_width,
    times,
)

SCOPE = "solve"
FEWEST = 16  # shapes of a family, with several values of N, of D and of K
FEWEST_VALUES = 3
BANDS = ((1, 3), (4, 31), (32, 255), (256, 10**9))  # of D: a column each
OTHERS = "others"
PALE = 0.28  # of a mark's colour in the area around it
GAP = 0.16  # inches between two panels
AXIS = 0.62  # inches below the last row: its values of N, and what they are
HEAD = 0.4  # inches above the first row: the values of D
ROW = 1.2  # inches of a row of panels, at least
NAMES = 1.35  # inches of a row's name
LEGEND = 0.36  # inches of a line of the legend
FRAME = (160, 80)  # colours of the areas: across and up
FACE, INSIDE = 13.0, 6.0  # points across a mark, and across its white centre


@dataclass(frozen=True)
class Shape:
    """A measured shape: its fastest rung, the fastest of each chapter, and the fastest peer."""

    workload: Workload
    rung: Row
    next_best: Row | None  # of another chapter
    peer: Row | None

    @property
    def chapter(self) -> str:
        return chapter(self.rung.variant)

    @property
    def over_peer(self) -> float | None:
        return milliseconds(self.peer) / milliseconds(self.rung) if self.peer else None


def chapter(variant: str) -> str:
    """The chapter in words; the variant itself where it is in none."""
    return cards.chapters().get(variant, variant)


def shape_of(record: Record, device: str, workload: Workload) -> Shape | None:
    rung = fastest(record, device, workload, SCOPE, peers=False)
    peer = fastest(record, device, workload, SCOPE, peers=True)
    if isinstance(rung, Gap):
        return None
    others = [
        row
        for r in record.rungs(device)
        if not record.lone(r.variant) and chapter(r.variant) != chapter(rung.variant)
        if (row := record.row(r, workload.name, SCOPE)) and row.timed and row.median_ms
    ]
    next_best = min(others, key=milliseconds, default=None)
    return Shape(workload, rung, next_best, None if isinstance(peer, Gap) else peer)


def scattered(record: Record, device: str) -> dict[str, list[Shape]]:
    """The families whose shapes are scattered, with the shapes on which a rung has a time."""
    found = {}
    for family, members in record.families(record.workloads).items():
        values = [len({size(w) for w in members}) for size in SIZES]
        if len(members) >= FEWEST and min(values) >= FEWEST_VALUES:
            shapes = [shape for w in members if (shape := shape_of(record, device, w))]
            if shapes:
                found[family] = shapes
    return found


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str


def looks(shapes: Sequence[Shape]) -> dict[str, Look]:
    """Of each chapter that has the fastest rung somewhere, the most frequent first; the last ones are one."""
    order = [name for name, _ in Counter(shape.chapter for shape in shapes).most_common()]
    free = [Look(colour, marker) for colour, marker in zip(COLOURS, MARKERS, strict=False)]
    own = order if len(order) <= len(free) + 1 else order[: len(free)]
    found = dict(zip(own, [*free, Look("#333333", MARKERS[len(free)])], strict=False))
    return found | dict.fromkeys(order[len(own) :], Look("#333333", MARKERS[len(free)]))


def legend_entries(shapes: Sequence[Shape], look: dict[str, Look]) -> list[tuple[Look, str]]:
    """Of each look: its chapters, and how often which of their rungs is the fastest."""
    wins = Counter(shape.rung.variant for shape in shapes)
    called = short_names(sorted(wins), 0)  # by their numbers
    entries = []
    for one in dict.fromkeys(look.values()):
        members = [name for name in look if look[name] == one]
        rungs = [f"{called[v]} {count}" for v, count in wins.most_common() if chapter(v) in members]
        title = members[0] if len(members) == 1 else OTHERS
        # A variant that is in no chapter is its own.
        entries.append((one, ", ".join(rungs) if title in wins else f"{title}: {', '.join(rungs)}"))
    return entries


def draw_mark(ax: Axes, x: float, y: float, look: Look, hollow: bool) -> None:
    """`hollow`: a library is faster than all rungs."""
    style = {"marker": look.marker, "linestyle": "none", "clip_on": False, "mew": 1.2}
    ax.plot([x], [y], markersize=FACE, mfc=look.colour, mec="white", zorder=3, gid="shape", **style)
    if hollow:
        ax.plot([x], [y], markersize=INSIDE, mfc="white", mec="white", zorder=4, gid="library", **style)


def draw_areas(ax: Axes, shapes: Sequence[Shape], look: dict[str, Look]) -> None:
    """The colour of the nearest shape of the panel, by factors in N and K; white where K is above N."""
    low, high = np.log(ax.get_xlim()), np.log(ax.get_ylim())
    across, up = FRAME
    x = low[0] + (np.arange(across) + 0.5) / across * (low[1] - low[0])
    y = high[0] + (np.arange(up) + 0.5) / up * (high[1] - high[0])
    at = np.log([(s.workload.n, s.workload.k) for s in shapes])
    distance = (x[None, :, None] - at[:, 0]) ** 2 + (y[:, None, None] - at[:, 1]) ** 2
    colours = np.array([1 - PALE * (1 - np.array(to_rgb(look[s.chapter].colour))) for s in shapes])
    picture = colours[distance.argmin(axis=2)]
    picture[y[:, None] > x[None, :]] = 1
    # Edges of cells on logarithmic axes, so that the picture lies where its numbers say.
    edges = [np.exp(np.linspace(*ends, count + 1)) for ends, count in ((low, across), (high, up))]
    ax.pcolormesh(*edges, picture, zorder=0, rasterized=True)


def short(value: int) -> str:
    """1k for a thousand, 1M for a million."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if value >= unit:
            return f"{value // unit}{letter}"
    return str(value)


def limits(values: Sequence[int]) -> tuple[float, float]:
    return min(values) / 1.6, max(values) * 1.6


def band_title(low: int, high: int, present: Sequence[int]) -> str:
    inside = [d for d in present if low <= d <= high]
    return f"D = {min(inside):,}" if min(inside) == max(inside) else f"D = {min(inside):,} to {max(inside):,}"


def verdict(shapes: Sequence[Shape]) -> str:
    ratios = [ratio for shape in shapes if (ratio := shape.over_peer)]
    if not ratios:
        return f"{len(shapes)} shapes, without a library's times."
    ahead = sum(ratio > 1 for ratio in ratios)
    return (
        f"The fastest rung is ahead of the best library on {ahead} of {len(ratios)} shapes: {times(min(ratios))} to "
        f"{times(max(ratios))}, {times(geometric_mean(ratios))} in the geometric mean."
    )


def lines_of(entries: Sequence[tuple[Look, str]], inches: float) -> list[list[tuple[float, Look, str]]]:
    """The legend's entries line by line, each with its place in inches."""
    lines: list[list[tuple[float, Look, str]]] = [[]]
    x = 0.0
    for look, text in entries:
        width = 0.3 + text_width(text) + 0.35
        if x + width > inches and lines[-1]:
            lines.append([])
            x = 0.0
        lines[-1].append((x, look, text))
        x += width
    return lines


def draw_legend(page: Page, lines: Sequence[Sequence[tuple[float, Look, str]]]) -> None:
    height = len(lines) * LEGEND
    ax = page.axes(MARGIN, page.top - height, WIDTH - 2 * MARGIN, height)
    ax.set_xlim(0, WIDTH - 2 * MARGIN)
    ax.set_ylim(0, height)
    ax.axis("off")
    for index, line in enumerate(lines):
        y = height - (index + 0.5) * LEGEND
        for x, look, text in line:
            draw_mark(ax, x + 0.1, y, look, hollow=False)
            ax.text(x + 0.3, y, text, va="center", fontsize=SMALL, gid="legend")


def draw_page(record: Record, options: Options, device: str, found: dict[str, list[Shape]]) -> tuple[Page, str]:
    every = [shape for shapes in found.values() for shape in shapes]
    ds = [shape.workload.d for shape in every]
    bands = [(low, high) for low, high in BANDS if any(low <= d <= high for d in ds)]
    look = looks(every)
    entries = lines_of(legend_entries(every, look), WIDTH - 2 * MARGIN)

    each = ", per iteration" if any(shape.rung.per_iteration_ms for shape in every) else ""
    title = f"The fastest rung for N, D and K, {DEVICES[device].title}: {SCOPE_TITLES[SCOPE]}{each}"
    subtitle = (
        "A mark is a measured shape, its colour the chapter of the fastest rung; around it, paler, what is nearest "
        f"to it. {verdict(every)}"
    )
    remarks = ["White areas: more clusters than points."]
    slower = [(shape.over_peer, shape) for shape in every if shape.over_peer and shape.over_peer < 1]
    if slower:
        ratio, worst = min(slower, key=lambda pair: pair[0])
        remarks.append(
            f"A white centre: a library is faster, at most {times(1 / ratio)} ({worst.peer.variant} on "
            f"{worst.workload.name})."
        )
    unstable = sum(shape.rung.status == "unstable" for shape in every)
    if unstable:
        remarks.append(f"{unstable} of the times are unstable: the samples are not to be trusted.")

    ns, ks = limits([s.workload.n for s in every]), limits([s.workload.k for s in every])
    ticks = max(text_width(short(10**power)) for power in range(7)) + 0.15
    left = MARGIN + NAMES + ticks
    across = (WIDTH - MARGIN - left - GAP * (len(bands) - 1)) / len(bands)
    above = len(entries) * LEGEND + HEAD
    footer = options.signature(record, "choice", device)
    page = Page(title, subtitle, remarks, footer, body=above + len(found) * (ROW + GAP) + AXIS)
    draw_legend(page, entries)
    height = (page.top - page.bottom - above - AXIS) / len(found) - GAP
    for at, (family, shapes) in enumerate(found.items()):
        bottom = page.top - above - (at + 1) * height - at * GAP
        page.figure.text(
            MARGIN / WIDTH,
            (bottom + height / 2) / page.height,
            folded(heading(family, [shape.workload for shape in shapes]), NAMES - 0.1, BODY),
            fontsize=BODY,
            weight="bold",
            va="center",
            linespacing=1.25,
            gid="family",
        )
        for column, (low, high) in enumerate(bands):
            ax = page.axes(left + column * (across + GAP), bottom, across, height)
            inside = [shape for shape in shapes if low <= shape.workload.d <= high]
            draw_panel(ax, inside, look, ns, ks)
            if column > 0:
                ax.set_yticklabels([])
            if at < len(found) - 1:
                ax.set_xticklabels([])
            else:
                ax.set_xlabel("N, points", color=GREY, fontsize=SMALL, labelpad=1)
            if at == 0:
                ax.set_title(band_title(low, high, ds), loc="left", pad=7)
    page.figure.text(
        MARGIN / WIDTH,
        (page.top - above + 0.09) / page.height,
        "K, clusters",
        fontsize=SMALL,
        color=GREY,
        ha="left",
        va="bottom",
    )
    return page, title


def draw_panel(
    ax: Axes,
    shapes: Sequence[Shape],
    look: dict[str, Look],
    ns: tuple[float, float],
    ks: tuple[float, float],
) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*ns)
    ax.set_ylim(*ks)
    ax.grid(visible=False)
    for axis, (low, high) in ((ax.xaxis, ns), (ax.yaxis, ks)):
        powers = [10**power for power in range(8) if low <= 10**power <= high]
        axis.set_ticks(powers, [short(value) for value in powers])
        axis.set_minor_locator(NullLocator())
    ax.tick_params(length=3)
    if not shapes:
        ax.text(0.5, 0.5, "no shape measured", transform=ax.transAxes, ha="center", va="center", color=GREY, gid="gap")
        return
    draw_areas(ax, shapes, look)
    for shape in shapes:
        hollow = shape.over_peer is not None and shape.over_peer < 1
        draw_mark(ax, shape.workload.n, shape.workload.k, look[shape.chapter], hollow)


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        stem = f"choice_{DEVICES[device].stem}"
        found = scattered(record, device)
        if not found:
            why = f"no family of {FEWEST} shapes and more that are scattered over N, D and K"
            left_out.append(f"choice ({DEVICES[device].stem}): {why}")
            continue
        page, title = draw_page(record, options, device, found)
        page.save(folder, stem)
        drawn.append((stem, title))
    return drawn, left_out
