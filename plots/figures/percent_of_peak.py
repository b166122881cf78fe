"""How near each rung is to the best that its device can do: percent of roof, rungs down, workloads across.

The record states the least time that the work can take there (`floor_ms`: its operations, its bytes, or its bytes over
the link to the host) and what share of the median that is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from matplotlib import colormaps
from matplotlib.colors import to_hex

from plots.lib.heatmap import MOST_COLUMNS, Square, column_inches, draw_grid, gap_square, readable_on
from plots.lib.options import LEAST_BARS, Options, bars, too_few, with_columns
from plots.lib.record import DAGGER, DEVICES, SCOPE_TITLES, Cell, Column, Gap, Record, Rung, percent
from plots.lib.style import Lines, Notes

SCALE = colormaps["cividis"]  # one for any colour vision: from dark blue to bright yellow
LEAST = 0.1  # percent: darkest; brightest is 100
BOUNDS = {"flop": "flop", "bytes": "bytes", "link": "link"}


def shade(value: float) -> tuple[str, str]:
    """Colour of a cell and of its text, on a log scale."""
    place = math.log(min(max(value, LEAST), 100) / LEAST) / math.log(100 / LEAST)
    red, green, blue, _ = SCALE(place)
    return to_hex((red, green, blue)), readable_on(red, green, blue)


def bound_of(cells: Sequence[Cell | Gap]) -> str:
    """What bounds most of a column's rungs."""
    found = Counter(cell.bound_by for cell in cells if isinstance(cell, Cell) and cell.bound_by)
    return BOUNDS.get(found.most_common(1)[0][0], "") if found else ""


def square_of(cell: Cell | Gap, inches: float, notes: Notes) -> Square:
    if isinstance(cell, Gap):
        return gap_square(cell, inches, notes)
    if cell.roof_percent is None:
        return Square("no roof")
    marks = (DAGGER if cell.launch_bound else "") + ("*" if cell.unstable else "")
    return Square(percent(cell.roof_percent) + marks, *shade(cell.roof_percent))


def draw_page(
    record: Record, options: Options, device: str, scope: str, table: Sequence[Column], rungs: Sequence[Rung],
    stem: str, folder: Path,
) -> str:  # fmt: skip
    lines = Lines(record, rungs)
    cells = {rung: [record.cell(rung, column, scope) for column in table] for rung in lines.y}
    notes = Notes()
    inches = 0.94 * column_inches(lines, len(table))
    squares = {rung: [square_of(cell, inches, notes) for cell in row] for rung, row in cells.items()}
    bounds = [bound_of([row[index] for row in cells.values()]) for index in range(len(table))]
    heads = [(column.name, f"({bound})" if bound else "") for column, bound in zip(table, bounds, strict=True)]
    legend = "the least time that the work can take on this device, over the median; brighter is nearer to the roof; "
    legend += "in brackets: what bounds it, operations (flop), bytes of memory or the link to the host"
    every = [cell for row in cells.values() for cell in row if isinstance(cell, Cell)]
    remarks = []
    if any(cell.launch_bound for cell in every):
        remarks.append(record.launch_note(device, of_several=any(len(column.workloads) > 1 for column in table)))
    if any(cell.unstable for cell in every):
        remarks.append("* unstable: the samples are not to be trusted.")
    title = f"Percent of roof, {DEVICES[device].title}: {SCOPE_TITLES[scope]}"
    foot = options.signature(record, "roof", device, scope)
    draw_grid(record, lines, squares, heads, title, legend, [*remarks, *notes.lines()], foot, scope, folder, stem)
    return title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        name = DEVICES[device].stem
        for scope in options.scopes or ("iteration",):
            rows = [row for row in record.rows if row.device == device and row.scope == scope]
            if not any(row.roof_percent is not None for row in rows):
                left_out.append(f"roof ({name}, {scope}): no row states its percent of roof")
                continue
            present = {row.variant for row in rows}
            rungs = [rung for rung in record.rungs(device) if rung.variant in present]
            table = record.columns(with_columns(record, options, device, scope))
            for start in range(0, len(table), MOST_COLUMNS):
                stem = f"roof_{name}_{scope}" + (f"_{start // MOST_COLUMNS + 1}" if start else "")
                some = table[start : start + MOST_COLUMNS]
                shown = [workload for column in some for workload in column.workloads]
                if too_few(record, device, bars(record, device, shown, [scope])):
                    left_out.append(f"roof ({name}, {scope}): fewer than {LEAST_BARS} rungs on {some[0].name}")
                    continue
                drawn.append((stem, draw_page(record, options, device, scope, some, rungs, stem, folder)))
    return drawn, left_out
