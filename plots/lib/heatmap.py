"""A table as a picture: rungs down, columns across, a colour and a number in each square, or the reason for none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from plots.lib.record import Gap, Record, Rung
from plots.lib.style import BODY, GREY, LINE, SMALL, WIDTH, Lines, Notes, Page, text_width

MOST_COLUMNS = 12
MOST_INCHES = 3.0  # of a column: few of them do not fill the page
EMPTY = "#F2F2F2"
NUMBER = re.compile(r"\d[\d.,]*")
OTHERS = " (elsewhere with other numbers)"
NONE = "\N{EN DASH}"  # where the record has no row


@dataclass(frozen=True)
class Square:
    text: str
    colour: str = EMPTY
    ink: str = GREY
    gap: bool = False


def gap_square(gap: Gap, inches: float, notes: Notes) -> Square:
    """Why there is no value: the status where it fits, and the number of a remark."""
    if gap.status == "not run":
        return Square(NONE, gap=True)
    # Reasons that differ by their numbers alone are one remark, which says so.
    shape = NUMBER.sub("#", gap.reason)
    for index, text in enumerate(notes.texts):
        said = text.removesuffix(OTHERS)
        if said != gap.reason and NUMBER.sub("#", said) == shape:
            notes.texts[index] = said + OTHERS
            break
        if said == gap.reason:
            break
    else:
        index = notes.cite(gap.reason) - 1
    mark = f"[{index + 1}]"
    text = f"{gap.status} {mark}"
    return Square(text if text_width(text) < inches else mark, gap=True)


def readable_on(red: float, green: float, blue: float) -> str:
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"


def folded(name: str, inches: float, points: float) -> str:
    """The name on several lines, broken at spaces and after underscores, where it does not fit."""
    lines = [""]
    for part in name.replace("_", "_\n").replace(" ", " \n").split("\n"):
        if lines[-1] and text_width(lines[-1] + part, points) > inches:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def column_inches(lines: Lines, count: int) -> float:
    return min(MOST_INCHES, (WIDTH - 0.35 - 0.35 - lines.label_width) / count)


def draw_squares(ax: Axes, squares: dict[Rung, list[Square]], lines: Lines, count: int) -> None:
    ax.set_xlim(0, count)
    ax.set_xticks([])
    ax.grid(visible=False)
    ax.spines["bottom"].set_visible(False)
    for rung, row in squares.items():
        for x, square in enumerate(row):
            y = lines.y[rung]
            ax.add_patch(Rectangle((x + 0.02, y - 0.46), 0.96, 0.92, facecolor=square.colour, edgecolor="none"))
            ax.text(
                x + 0.5,
                y,
                square.text,
                ha="center",
                va="center",
                color=square.ink,
                style="italic" if square.gap else "normal",
                gid="gap" if square.gap else "value",
            )


def draw_grid(
    record: Record,
    lines: Lines,
    squares: dict[Rung, list[Square]],
    heads: Sequence[tuple[str, str]],
    title: str,
    legend: str,
    remarks: Sequence[str],
    foot: Sequence[str],
    scope: str,
    folder: Path,
    stem: str,
) -> None:
    """`heads`: of each column its name, and what stands below that."""
    left = 0.35 + lines.label_width
    inches = column_inches(lines, len(heads))
    points = SMALL if len(heads) > 6 else BODY
    names = [folded(name, inches - 0.2, points) + (f"\n{below}" if below else "") for name, below in heads]
    above = max(name.count("\n") + 1 for name in names) * points * LINE / 72 + 0.15
    page = Page(title, legend, remarks, foot, body=lines.height() * 1.15 + above)
    room = page.top - above - page.bottom - 0.1
    # Few rungs do not make tall cells.
    height = min(room, lines.count * 0.75)
    ax = page.axes(left, page.top - above - height, inches * len(heads), height)
    lines.label(ax, visible=True, bold=[rung for rung in lines.y if record.shows[rung.variant] == scope])
    draw_squares(ax, squares, lines, len(heads))
    for index, name in enumerate(names):
        page.figure.text(
            (left + (index + 0.5) * inches) / WIDTH,
            (page.top - above + 0.08) / page.height,
            name,
            ha="center",
            va="bottom",
            fontsize=points,
            linespacing=1.25,
        )
    page.save(folder, stem)
