"""What stands beside `<!-- recomputed: ... -->` in a page that people write says what the record says.

Before a table there is an entry for each column after the first: `ms of SCOPE on WORKLOAD` is the median,
`us/iteration of` an iteration's share of it, `ms/second of` and `ms/last of` one of its iterations, `ms/least of` and
`ms/most of` the ends of its samples, `ms/messages of` what it communicates; `-` is a column of words. Columns without
an entry, and rows whose first cell is more than a rung, are not compared. A cell that begins with a number is held to
its digits.

Behind a paragraph there is an entry for each number: `5.1 = ms of SCOPE of VARIANT on WORKLOAD`; `less OTHER` behind it
subtracts another variant's time, `with AXIS=VALUE,...` chooses one of a sweep, and `by 2 GPUs` (or `ranks`) says how
many there were.

Both are of the H200's record; where ` in GPU/FILE.json` ends an entry, or the entries of a table, of that one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from plots import timeline
from plots.lib import schema
from plots.lib.record import ROOT, Record, Row, of_one_gpu

MARK = re.compile(r"<!-- recomputed: (?![\d.,]+ = )(.+?) -->\n\n((?:\|.*\n)+)")
TIME = r"(?P<unit>us|ms)(?:/(?P<share>iteration|second|last|least|most|messages))? of (?P<scope>\w+)"
COLUMN = re.compile(TIME + r" on (?P<workload>\w+)")
PROSE = re.compile(r"<!-- recomputed:\s+([\d.,]+ = .+?) -->", re.DOTALL)
ENTRY = re.compile(
    rf"(?P<told>[\d.,]+) = {TIME} of (?P<variant>\w+) on (?P<workload>\w+)(?: with (?P<axes>\S+))?"
    r"(?: by (?P<many>\d+) (?P<what>GPUs|ranks))?(?: less (?P<less>\w+))?(?: in (?P<file>\S+))?"
)
NUMBER = re.compile(r"[\d,]+(?:\.\d+)?")
RUNG = re.compile(r"`(\w+)`")
RESULTS = ROOT / "results"
MAIN = "nvidia-h200/record.json"
# Of these sections each number of milliseconds has an entry.
WHOLE = {ROOT / "docs" / "results.md": "## What the rungs teach on this GPU"}
TABLES = [
    (path, found[1], found[2])
    for path in sorted((ROOT / "variants").glob("*/README.md"))
    for found in MARK.finditer(path.read_text(encoding="utf-8"))
]


@cache
def record_of(file: str) -> Record:
    return of_one_gpu([schema.load(RESULTS / file, retired=file != MAIN)])


def timed(
    record: Record,
    variant: str,
    time: re.Match[str],
    axes: dict[str, int] | None = None,
    processors: tuple[int, int] = (1, 1),
) -> Row:
    """`time`: what names scope and workload; `processors`: GPUs of each rank, and ranks."""
    scope, workload = time["scope"], time["workload"]
    (row,) = [
        r
        for r in record.rows
        if (r.variant, r.scope, r.workload, r.device) == (variant, scope, workload, "cuda")
        and axes in (None, r.axes)
        and (r.gpus or 1, r.ranks or 1) == processors
    ]
    assert row.timed, f"{variant} has no time for {scope} on {workload}: {row.reason}"
    return row


def value(row: Row, time: re.Match[str]) -> float:
    each = [*row.iteration_ms, None, None]
    last = each[len(row.iteration_ms) - 1]
    ms = {
        None: row.median_ms,
        "iteration": row.per_iteration_ms,
        "second": each[1],
        "last": last,
        "least": min(row.samples_ms),
        "most": max(row.samples_ms),
        "messages": row.communication_ms,
    }[time["share"]]
    assert ms is not None
    return ms * (1000 if time["unit"] == "us" else 1)


def says(told: str, is_now: float) -> bool:
    """To as many digits as it has."""
    digits = len(told.partition(".")[2])
    return abs(float(told.replace(",", "")) - is_now) <= 0.51 * 10**-digits


def wrong_cells(columns: str, table: str) -> list[str]:
    found = []
    columns, _, file = columns.partition(" in ")
    of = record_of(file or MAIN)
    for line in table.splitlines()[2:]:
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rung = RUNG.fullmatch(name)
        for wanted, cell in zip(columns.split(";"), cells, strict=False):
            told = NUMBER.match(cell)
            if wanted.strip() == "-" or not told or not rung:
                continue
            column = COLUMN.fullmatch(wanted.strip())
            assert column, f"{wanted} is none of the forms above"
            is_now = value(timed(of, rung[1], column), column)
            if not says(told[0], is_now):
                found.append(f"{name}: {told[0]}, the record has {is_now:.4g} ({wanted.strip()})")
    return found


def test_there_are_such_tables() -> None:
    assert len(TABLES) >= 5


@pytest.mark.parametrize(("path", "columns", "table"), TABLES, ids=[f"{p.parent.name}-{c}" for p, c, _ in TABLES])
def test_a_table_says_what_the_record_says(path: Path, columns: str, table: str) -> None:
    assert len(table.splitlines()) > 2
    assert wrong_cells(columns, table) == []


def test_another_number_is_found() -> None:
    columns, table = next((columns, table) for _, columns, table in TABLES if not columns.startswith("-"))
    first = table.splitlines()[2]
    told = NUMBER.search(first.partition("|")[2].partition("|")[2])
    assert told
    planted = first.replace(f"| {told[0]}", f"| {float(told[0].replace(',', '')) * 1.05 + 0.02:.3f}", 1)
    assert len(wrong_cells(columns, table.replace(first, planted))) == 1


def test_what_ran_when_is_what_the_timeline_says() -> None:
    page = (ROOT / "variants" / "6_whole_run" / "README.md").read_text(encoding="utf-8")
    assert timeline.table(timeline.timelines_of(RESULTS / "nvidia-h100" / "tools" / "timeline.json")).strip() in page


@dataclass(frozen=True)
class Paragraph:
    text: str
    entries: list[re.Match[str]]


def paragraphs(page: str) -> list[Paragraph]:
    """Those with entries: from the blank line, or the point of a list, before a comment up to it."""
    found = []
    for comment in PROSE.finditer(page):
        text = re.split(r"\n\n|\n- ", page[: comment.start()])[-1]
        entries = []
        for entry in re.split(r";\s*", " ".join(comment[1].split())):
            form = ENTRY.fullmatch(entry)
            assert form, f"{entry} has not the form of an entry"
            entries.append(form)
        found.append(Paragraph(text, entries))
    return found


def wrong_numbers(paragraph: Paragraph) -> list[str]:
    found = []
    for entry in paragraph.entries:
        of = record_of(entry["file"] or MAIN)
        axes = {k: int(v) for k, v in (pair.split("=") for pair in entry["axes"].split(","))} if entry["axes"] else None
        many = int(entry["many"] or 1)
        processors = (1, many) if entry["what"] == "ranks" else (many, 1)
        is_now = 0.0
        for sign, name in ((1, entry["variant"]), (-1, entry["less"])):
            if name:
                is_now += sign * value(timed(of, name, entry, axes, processors), entry)
        if not says(entry["told"], is_now):
            found.append(f"{entry[0]}: the record has {is_now:.4g}")
        if not re.search(rf"(?<![\d.,]){re.escape(entry['told'])}(?![.,]?\d)", paragraph.text):
            found.append(f"{entry[0]}: the paragraph does not say so")
    return found


PAGES = [
    path
    for path in sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "variants").glob("*/README.md")])
    if PROSE.search(path.read_text(encoding="utf-8"))
]


def test_no_comment_is_left_unread() -> None:
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        assert page.count("<!-- recomputed:") == len(PROSE.findall(page)) + len(MARK.findall(page)), path


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_a_paragraph_says_what_the_record_says(path: Path) -> None:
    found = [wrong for of in paragraphs(path.read_text(encoding="utf-8")) for wrong in wrong_numbers(of)]
    assert found == []


@pytest.mark.parametrize("path", WHOLE, ids=[path.name for path in WHOLE])
def test_each_time_of_these_sections_is_recomputed(path: Path) -> None:
    section = path.read_text(encoding="utf-8").split(f"{WHOLE[path]}\n")[1].split("\n## ")[0]
    known = {entry["told"] for paragraph in paragraphs(section) for entry in paragraph.entries}
    times = set(re.findall(r"([\d.,]*\d)\s(?:ms|us)\b", PROSE.sub("", section)))
    assert len(times) >= 10 and times <= known


def test_another_number_in_a_paragraph_is_found() -> None:
    page = next(iter(WHOLE)).read_text(encoding="utf-8")
    first = paragraphs(page)[0]
    told = first.entries[0]["told"]
    planted = f"{float(told) * 1.01:.1f}"
    (wrong,) = wrong_numbers(Paragraph(first.text.replace(told, planted), first.entries))
    assert wrong.endswith("the paragraph does not say so")
    both = page.replace(told, planted)
    assert [w for w in wrong_numbers(paragraphs(both)[0]) if "the record has" in w]
