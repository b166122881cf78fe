"""The ladder in one picture: rungs down, workloads across, the speedup as colour and number, refusals as reasons.

A column per family: of several workloads the one that most rungs have a time on; of those, the one with most work.
A family of many that most of its rungs have times on throughout has a column of means. All workloads have columns where
they are asked for by name, or where they are few. Sessions in turns alone make no column beside others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.colors import to_hex, to_rgb

from plots.lib.heatmap import MOST_COLUMNS, NONE, Square, column_inches, draw_grid, gap_square, readable_on
from plots.lib.options import LEAST_BARS, Options, bars, too_few, with_columns
from plots.lib.record import DAGGER, DEVICES, MANY_WORKLOADS, SCOPE_TITLES, Cell, Column, Gap, Record, Rung, number
from plots.lib.style import Lines, Notes, lone_remarks, times

MOST_NOTES = 14
SLOWER, SAME, FASTER = "#D55E00", "#FFFFFF", "#08306B"  # told apart with any colour vision
SLOWEST = 0.1  # darkest orange


def shade(speedup: float, most: float) -> tuple[str, str]:
    """Colour and ink on a log scale: white at 1, blue up to `most`, orange down to a tenth."""
    if speedup >= 1:
        end, place = FASTER, math.log(speedup) / math.log(most) if most > 1 else 0.0
    else:
        end, place = SLOWER, math.log(speedup) / math.log(SLOWEST)
    place = min(1.0, place)
    red, green, blue = (a + (b - a) * place for a, b in zip(to_rgb(SAME), to_rgb(end), strict=True))
    return to_hex((red, green, blue)), readable_on(red, green, blue)


def chosen(record: Record, options: Options, device: str, scope: str) -> list[Column]:
    names = with_columns(record, options, device, scope)
    every = record.columns(names)
    if options.workloads or len(every) <= MOST_COLUMNS:
        return every
    timed = record.timed_variants(device, scope)
    found = []
    for family, members in record.families(names).items():
        best = max(members, key=lambda w: (len(timed[w.name]), w.n * w.d * w.k))
        throughout = set.intersection(*(timed[w.name] for w in members))
        if len(members) > MANY_WORKLOADS and 2 * len(throughout) > len(timed[best.name]):
            found += [column for column in every if column.workloads[0].family == family]
        else:
            found.append(Column(best.name, (best,)))
    return found


def below(column: Column) -> str:
    """What stands under the name of a column: its K."""
    ks = sorted({w.k for w in column.workloads})
    return f"K = {ks[0]:,}" if len(ks) == 1 else f"K = {ks[0]:,} … {ks[-1]:,}"


def square_of(cell: Cell | Gap, rung: Rung, most: float, inches: float, notes: Notes) -> Square:
    if isinstance(cell, Gap):
        return gap_square(cell, inches, notes)
    marks = (DAGGER if cell.launch_bound else "") + ("*" if cell.unstable else "")
    if cell.speedup is None:
        return Square(f"{number(cell.ms)} ms{marks}", SAME, "black")
    if cell.reference == rung.variant:
        return Square(f"{number(cell.ms)} ms{marks}", SAME, "black")
    over = "".join(f" [{notes.cite(note)}]" for note in cell.notes)
    return Square(times(cell.speedup) + marks + over, *shade(cell.speedup, most))


def draw_page(
    record: Record, options: Options, device: str, scope: str, table: Sequence[Column], rungs: Sequence[Rung],
    stem: str, folder: Path,
) -> str:  # fmt: skip
    lines = Lines(record, rungs)
    cells = {rung: [record.cell(rung, column, scope, options.over) for column in table] for rung in lines.y}
    every = [cell for row in cells.values() for cell in row if isinstance(cell, Cell)]
    most = max([2.0, *(cell.speedup for cell in every if cell.speedup)])
    notes = Notes()
    inches = 0.94 * column_inches(lines, len(table))
    squares = {
        rung: [square_of(cell, rung, most, inches, notes) for cell in row] for rung, row in cells.items()
    }  # fmt: skip
    heads = [(column.name, below(column)) for column in table]
    what = "the root of its tree" if options.over == "root" else "its base"
    legend = f"how many times faster than {what}: blue is faster, white the same, orange slower; of a root: its time"
    remarks = lone_remarks(record, rungs, options.over)
    if any(cell.launch_bound for cell in every):
        remarks.append(record.launch_note(device, of_several=any(len(column.workloads) > 1 for column in table)))
    if any(cell.unstable for cell in every):
        remarks.append("* unstable: the samples are not to be trusted.")
    if any(square.text == NONE for row in squares.values() for square in row):
        remarks.append(f"{NONE}: the record has no such row, or not of all files.")
    title = f"The ladder, {DEVICES[device].title}: speedup, {SCOPE_TITLES[scope]}"
    foot = options.signature(record, "overview", device, scope, over=True)
    numbered = notes.lines(MOST_NOTES)
    draw_grid(record, lines, squares, heads, title, legend, [*remarks, *numbered], foot, scope, folder, stem)
    return title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        name = DEVICES[device].stem
        for scope in options.scopes or ("iteration",):
            table = chosen(record, options, device, scope)
            if not table:
                left_out.append(f"overview ({name}, {scope}): no valid time")
                continue
            for start in range(0, len(table), MOST_COLUMNS):
                stem = f"overview_{name}_{scope}{options.suffix}" + (f"_{start // MOST_COLUMNS + 1}" if start else "")
                some = table[start : start + MOST_COLUMNS]
                shown = [workload for column in some for workload in column.workloads]
                if too_few(record, device, bars(record, device, shown, [scope])):
                    left_out.append(f"overview ({name}, {scope}): fewer than {LEAST_BARS} rungs on {some[0].name}")
                    continue
                names = {workload.name for workload in shown}
                of_page = [r for r in record.rows if (r.device, r.scope) == (device, scope) and r.workload in names]
                present = {row.variant for row in of_page}
                rungs = [rung for rung in record.rungs(device) if rung.variant in present]
                drawn.append((stem, draw_page(record, options, device, scope, some, rungs, stem, folder)))
    return drawn, left_out
