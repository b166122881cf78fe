"""Tables of the chapters' README files that begin with `<!-- recomputed: ... -->` say what the record says.

Between the colon and the end there is an entry for each column after the first: `ms of SCOPE on WORKLOAD` is the
median, `us/iteration of` an iteration's share of it, `ms/second of` the second of its iterations; `-` is a column of
words. Columns without an entry are not compared. A cell that begins with a number is held to its digits.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plots.lib import schema
from plots.lib.record import ROOT, Record, Row, of_one_gpu

MARK = re.compile(r"<!-- recomputed: (.+?) -->\n\n((?:\|.*\n)+)")
COLUMN = re.compile(r"(us|ms)(?:/(iteration|second))? of (\w+) on (\w+)")
NUMBER = re.compile(r"[\d,]+(?:\.\d+)?")
TABLES = [
    (path, found[1], found[2])
    for path in sorted((ROOT / "variants").glob("*/README.md"))
    for found in MARK.finditer(path.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module", name="record")
def _record() -> Record:
    return of_one_gpu([schema.load(ROOT / "results" / "nvidia-h200" / "record.json")])


def timed(record: Record, variant: str, scope: str, workload: str) -> Row:
    (row,) = [
        r for r in record.rows if (r.variant, r.scope, r.workload, r.device) == (variant, scope, workload, "cuda")
    ]
    assert row.timed, f"{variant} has no time for {scope} on {workload}: {row.reason}"
    return row


def value(row: Row, unit: str, share: str | None) -> float:
    ms = {None: row.median_ms, "iteration": row.per_iteration_ms, "second": [*row.iteration_ms, None, None][1]}[share]
    assert ms is not None
    return ms * (1000 if unit == "us" else 1)


def wrong_cells(record: Record, columns: str, table: str) -> list[str]:
    found = []
    for line in table.splitlines()[2:]:
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for wanted, cell in zip(columns.split(";"), cells, strict=False):
            told = NUMBER.match(cell)
            if wanted.strip() == "-" or not told:
                continue
            column = COLUMN.fullmatch(wanted.strip())
            assert column, f"{wanted} is none of the forms above"
            is_now = value(timed(record, name.strip("`"), column[3], column[4]), column[1], column[2])
            digits = len(told[0].partition(".")[2])
            if abs(float(told[0].replace(",", "")) - is_now) > 0.51 * 10**-digits:
                found.append(f"{name}: {told[0]}, the record has {is_now:.4g} ({wanted.strip()})")
    return found


def test_there_are_such_tables() -> None:
    assert len(TABLES) >= 5


@pytest.mark.parametrize(("path", "columns", "table"), TABLES, ids=[f"{p.parent.name}-{c}" for p, c, _ in TABLES])
def test_a_table_says_what_the_record_says(record: Record, path: Path, columns: str, table: str) -> None:
    assert len(table.splitlines()) > 2
    assert wrong_cells(record, columns, table) == []


def test_another_number_is_found(record: Record) -> None:
    columns, table = next((columns, table) for _, columns, table in TABLES if not columns.startswith("-"))
    first = table.splitlines()[2]
    told = NUMBER.search(first.partition("|")[2].partition("|")[2])
    assert told
    planted = first.replace(f"| {told[0]}", f"| {float(told[0].replace(',', '')) * 1.05 + 0.02:.3f}", 1)
    assert len(wrong_cells(record, columns, table.replace(first, planted))) == 1
