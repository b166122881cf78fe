"""How near each rung is to the best that its device can do: percent of roof, rungs down, workloads across.

The record states the least time that the work can take there (`floor_ms`: its operations, its bytes, or its bytes over
the link to the host) and what share of the median that is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from choice import Choice
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from record import DAGGER, DEVICES, SCOPE_TITLES, Cell, Column, Gap, Record, Rung, percent
from style import BODY, GREY, LINE, SMALL, WIDTH, Lines, Notes, Page, text_width

MOST_COLUMNS = 12
MOST_INCHES = 3.0  # of a column: few of them do not fill the page
SCALE = colormaps["cividis"]  # one for any colour vision: from dark blue to bright yellow
LEAST = 0.1  # percent: darkest; brightest is 100
BOUNDS = {"flop": "flop", "bytes": "bytes", "link": "link"}


def shade(value: float) -> tuple[str, str]:
    """Colour of a cell and of its text, on a log scale."""
    place = math.log(min(max(value, LEAST), 100) / LEAST) / math.log(100 / LEAST)
    red, green, blue, _ = SCALE(place)
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    return to_hex((red, green, blue)), "white" if dark else "black"


def folded(name: str, inches: float, points: float) -> str:
    """The name on several lines, broken at spaces and after underscores, where it does not fit."""
    lines = [""]
    for part in name.replace("_", "_\n").replace(" ", " \n").split("\n"):
        if lines[-1] and text_width(lines[-1] + part, points) > inches:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def bound_of(cells: Sequence[Cell | Gap]) -> str:
    """What bounds most of a column's rungs."""
    found = Counter(cell.bound_by for cell in cells if isinstance(cell, Cell) and cell.bound_by)
    return BOUNDS.get(found.most_common(1)[0][0], "") if found else ""


def cell_text(cell: Cell | Gap, inches: float, notes: Notes) -> str:
    if isinstance(cell, Gap):
        text = f"{cell.status} [{notes.cite(cell.reason)}]"
        return text if text_width(text) < inches else f"[{notes.cite(cell.reason)}]"
    if cell.roof_percent is None:
        return "no roof"
    return percent(cell.roof_percent) + (DAGGER if cell.launch_bound else "") + ("*" if cell.unstable else "")


def draw_cells(
    ax: Axes, cells: dict[Rung, list[Cell | Gap]], lines: Lines, inches: float, notes: Notes, count: int
) -> None:
    ax.set_xlim(0, count)
    ax.set_xticks([])
    ax.grid(visible=False)
    ax.spines["bottom"].set_visible(False)
    for rung, row in cells.items():
        for x, cell in enumerate(row):
            y = lines.y[rung]
            colour, ink = "#F2F2F2", GREY
            if isinstance(cell, Cell) and cell.roof_percent is not None:
                colour, ink = shade(cell.roof_percent)
            ax.add_patch(Rectangle((x + 0.02, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="none"))
            ax.text(
                x + 0.5,
                y,
                cell_text(cell, 0.94 * inches, notes),
                ha="center",
                va="center",
                color=ink,
                style="italic" if isinstance(cell, Gap) else "normal",
                gid="gap" if isinstance(cell, Gap) else "value",
            )


def draw_page(
    record: Record, choice: Choice, device: str, scope: str, table: Sequence[Column], rungs: Sequence[Rung], stem: str,
    folder: Path,
) -> str:  # fmt: skip
    lines = Lines(record, rungs)
    cells = {rung: [record.cell(rung, column, scope) for column in table] for rung in lines.y}
    left = 0.35 + lines.label_width
    inches = min(MOST_INCHES, (WIDTH - 0.35 - left) / len(table))
    notes = Notes()
    for row in cells.values():  # the notes must be known before the page is laid out
        for cell in row:
            cell_text(cell, 0.94 * inches, notes)
    bounds = [bound_of([row[index] for row in cells.values()]) for index in range(len(table))]
    points = SMALL if len(table) > 6 else BODY
    heads = [
        folded(column.name, inches - 0.2, points) + (f"\n({bound})" if bound else "")
        for column, bound in zip(table, bounds, strict=True)
    ]
    legend = "the least time that the work can take on this device, over the median; brighter is nearer to the roof; "
    legend += "in brackets: what bounds it, operations (flop), bytes of memory or the link to the host"
    every = [cell for row in cells.values() for cell in row if isinstance(cell, Cell)]
    remarks = []
    several = any(len(column.workloads) > 1 for column in table)
    if any(cell.launch_bound for cell in every):
        remarks.append(record.launch_note(device, of_several=several))
    if any(cell.unstable for cell in every):
        remarks.append("* unstable: the samples are not to be trusted.")
    title = f"Percent of roof, {DEVICES[device].title}: {SCOPE_TITLES[scope]}"
    above = max(head.count("\n") + 1 for head in heads) * points * LINE / 72 + 0.15
    foot = choice.signature(record, "roof", device, scope)
    page = Page(title, legend, [*remarks, *notes.lines()], foot, body=lines.height() * 1.15 + above)
    room = page.top - above - page.bottom - 0.1
    # Few rungs do not make tall cells.
    height = min(room, lines.count * 0.75)
    ax = page.axes(left, page.top - above - height, inches * len(table), height)
    lines.label(ax, visible=True, bold=[rung for rung in rungs if record.shows[rung.variant] == scope])
    draw_cells(ax, cells, lines, inches, notes, len(table))
    for index, head in enumerate(heads):
        page.figure.text(
            (left + (index + 0.5) * inches) / WIDTH,
            (page.top - above + 0.08) / page.height,
            head,
            ha="center",
            va="bottom",
            fontsize=points,
            linespacing=1.25,
        )
    page.save(folder, stem)
    return title


def draw(record: Record, folder: Path, choice: Choice) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in choice.devices:
        name = DEVICES[device].stem
        for scope in choice.scopes or ("iteration",):
            rows = [row for row in record.rows if row.device == device and row.scope == scope]
            if not any(row.roof_percent is not None for row in rows):
                left_out.append(f"roof ({name}, {scope}): no row states its percent of roof")
                continue
            present = {row.variant for row in rows}
            rungs = [rung for rung in record.rungs(device) if rung.variant in present]
            table = record.columns(record.workloads_on(device, [scope]))
            for start in range(0, len(table), MOST_COLUMNS):
                stem = f"roof_{name}_{scope}" + (f"_{start // MOST_COLUMNS + 1}" if start else "")
                some = table[start : start + MOST_COLUMNS]
                drawn.append((stem, draw_page(record, choice, device, scope, some, rungs, stem, folder)))
    return drawn, left_out
