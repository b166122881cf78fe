"""docs/libraries.md: the libraries beside the fastest rung, on problems that all can take.

`python -m plots.libraries_page --update docs/libraries.md` writes it; `--check` exits 1 where the file says anything
but what the records say. A problem is a pair of workloads that differ in their fixed number of iterations alone: an
iteration's time is the slope between the two solves (plots/lib/slope.py).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Sequence

from plots.lib import schema, short
from plots.lib.inputs import in_sentences
from plots.lib.pages import cell_text, keep_page, page_arguments
from plots.lib.record import ROOT, TIMES, Record, RecordError, Row, Rung, ms, number, of_one_gpu
from plots.lib.slope import differ_in_iterations, iterations_of, slope_ms

DEVICE = "cuda"
H200 = ("nvidia-h200/record.json",)
H100 = ("nvidia-h100/libraries.json", "nvidia-h100/cold_start.json", "nvidia-h100/map.json")
USUAL = tuple(tuple(ROOT / "results" / name for name in gpu) for gpu in (H200, H100))
MANY = 20  # lines about cold starts: of more those alone that a short picture shows
MAPS = ("map_", "grid_")  # beginnings of the names of workloads that are maps of shapes
NEAREST = 5  # shapes that a map's table has


def cell(value: float | None) -> str:
    return ms(value) if value else ""


def whole_run(record: Record, row: Row) -> str:
    """Of the row's variant on its workload; empty where it has no time."""
    whole = record.row(Rung(row.variant, row.device), row.workload, short.SCOPE)
    return cell(whole.median_ms) if whole and whole.timed else ""


def problems(record: Record) -> list[str]:
    """Of workloads that differ in their number of iterations alone, and on which a library has a solve, the one with
    the most, where a library and a rung have the time of an iteration."""
    solves: dict[str, list[Row]] = {name: [] for name in record.workloads}
    for row in record.rows:
        if (row.scope, row.device) == ("solve", DEVICE):
            solves[row.workload].append(row)
    found = []
    for name, workload in record.workloads.items():
        alike = (w for w in record.workloads.values() if differ_in_iterations(w, workload))
        counts = [iterations_of(w) or 0 for w in alike if any(short.is_peer(row.variant) for row in solves[w.name])]
        timed = {row.variant for row in solves[name] if slope_ms(record, row)}
        if iterations_of(workload) == max(counts, default=0) and len(set(map(short.is_peer, timed))) == 2:
            found.append(name)
    return found


def labels(row: Row) -> str:
    seen = row.validation or {}
    text = f"{seen.get('labels_differ', 0):,} of {seen.get('rows_checked', 0):,}"
    return f"{text}; {seen['note']}" if seen.get("note") else text


def problem_table(record: Record, name: str) -> list[str]:
    found = [r for r in record.rows if (r.workload, r.scope) == (name, "solve")]
    found = [r for r in found if r.device == DEVICE or (r.device == "cpu" and short.is_peer(r.variant))]
    rows = list({(r.variant, r.device): r for r in reversed(found)}.values())  # of several records the first one's
    timed = {(r.variant, r.device): slope_ms(record, r) for r in rows if r.timed}
    fastest = min(value for (variant, _), value in timed.items() if value and not short.is_peer(variant))
    workload = record.workloads[name]
    hosts = [r for r in rows if r.device == "cpu"]
    cpu = record.sources[0].context["host"]["cpu"]
    on_the_cpu = f" On the CPU: {record.cores_of(hosts)} cores of {cpu}." if hosts else ""
    lines = [
        f"**`{name}`**: {workload.title}; {workload.size}.{on_the_cpu}",
        "",
        "| variant | idea | an iteration | over the fastest rung | whole run | labels not the nearest |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in sorted(rows, key=lambda r: -(timed.get((r.variant, r.device)) or float("inf"))):
        time = timed.get((row.variant, row.device))
        variant = f"`{row.variant}`" + (" on the CPU" if row.device == "cpu" else "")
        if not row.timed:
            lines.append(f"| {variant} | {cell_text(row.idea)} | {row.status}: {cell_text(row.reason)} | | | |")
            continue
        ratio = f"{number(time / fastest)}{TIMES}" if time else "the other solve has no time"
        cells = (cell(time), ratio, whole_run(record, row), labels(row))
        lines.append(f"| {variant} | {cell_text(row.idea)} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def map_text(record: Record, beginning: str) -> list[str]:
    """How far the fastest rung is ahead of the fastest library, over the shapes of a map on which both have a time."""
    times: dict[str, dict[bool, tuple[float, str]]] = {}
    for row in record.rows:
        if not row.workload.startswith(beginning) or (row.scope, row.device) != ("solve", DEVICE):
            continue
        found = times.setdefault(row.workload, {})
        if row.status == "ok" and row.median_ms:
            library = short.is_peer(row.variant)
            found[library] = min(found.get(library, (math.inf, "")), (row.median_ms, row.variant))
    ratios = sorted((of[True][0] / of[False][0], name) for name, of in times.items() if len(of) == 2)
    if not ratios:
        return []
    ahead = sum(ratio > 1 for ratio, _ in ratios)
    mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
    least, most = (f"{number(ratios[end][0])}{TIMES}" for end in (0, -1))
    lines = [
        f"**`{beginning}*`**: on {len(ratios)} of {len(times)} shapes a library and a rung have a time of a whole "
        f"solve. The fastest rung is ahead on {ahead} of them: {least} to {most}, {number(mean)}{TIMES} in the "
        "geometric mean. Where the library comes nearest:",
        "",
        "| shape | library | rung | ahead |",
        "| --- | ---: | ---: | ---: |",
    ]
    for ratio, name in ratios[:NEAREST]:
        library, rung = (f"`{times[name][which][1]}` {ms(times[name][which][0])}" for which in (True, False))
        lines.append(f"| {cell_text(record.workloads[name].title)} | {library} | {rung} | {number(ratio)}{TIMES} |")
    return [*lines, ""]


def cold_table(records: Sequence[Record]) -> list[str]:
    tables: list[str] = []
    for record in records:
        rows, told = cold_rows(record), record.machine(DEVICE)
        if len(rows) > MANY:
            rows = cold_rows(record, main_steps(record))
            told += f": the libraries, and the steps that shorten a whole run most ({sources_of(record)} has all)"
        tables += [f"{told}.", "", *rows] if rows else []
    if not tables:
        return []
    return [
        "## What a program waits for",
        "",
        "A cold start is the time from the start of a process that finds the points in its memory, not page-locked, to "
        "labels and centroids there ([its definition](records.md#the-time-that-a-user-waits)). A whole run is the same "
        "work in a process that is prepared: memory is allocated and page-locked, and the library is loaded. Medians.",
        "",
        *tables,
    ]


def sources_of(record: Record) -> str:
    return ", ".join(f"`{source.shown}`" for source in record.sources)


def main_steps(record: Record) -> set[tuple[str, str]]:
    """Variant and workload of the steps and libraries that a short picture of each workload shows."""
    found: set[tuple[str, str]] = set()
    for name in {row.workload for row in record.rows if row.scope == short.COLD and row.timed}:
        found |= {(step.rung.variant, name) for step in short.steps(record, name)}
        found |= {(rung.variant, name) for rung, _ in short.libraries(record, name)}
    return found


def cold_rows(record: Record, only: Collection[tuple[str, str]] = ()) -> list[str]:
    rows = [r for r in record.rows if (r.scope, r.device) == (short.COLD, DEVICE) and r.timed]
    rows = [r for r in rows if not only or (r.variant, r.workload) in only]
    if not rows:
        return []
    lines = [
        "| variant | workload | whole run | cold start | " + " | ".join(short.COLD_PARTS) + " |",
        "| --- | --- | ---: | ---: | " + "---: | " * len(short.COLD_PARTS),
    ]
    for row in sorted(rows, key=lambda r: -(r.median_ms or 0)):
        parts = [cell(row.parts_ms.get(part)) for part in short.COLD_PARTS]
        cells = (whole_run(record, row), cell(row.median_ms), *parts)
        lines.append(f"| `{row.variant}` | `{row.workload}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def markdown(records: Sequence[Record], command: str) -> str:
    """A section for each record, which is of a GPU of its own."""
    lines = [
        "# The libraries beside the ladder",
        "",
        f"<!-- Generated: {command}. Do not edit by hand. -->",
        "",
        "Each library is used as [its page](../variants/peers/README.md) says, and every row is held against fp64 like "
        "a rung's. An iteration is the slope between solves of two fixed numbers of iterations, so that what a solve "
        "does once does not count; a whole run goes from host memory to host memory. Labels that are not the nearest "
        "centroid's, of those that were compared, lie within the rounding of the library's arithmetic.",
        "",
    ]
    for record in records:
        names = problems(record)
        if not names:
            raise RecordError(f"{record.names}: no library and rung have solves of two numbers of iterations there.")
        lines += [f"## {record.machine(DEVICE)}", "", f"From {sources_of(record)}.", ""]
        for name in names:
            lines += problem_table(record, name)
    for record in records:
        maps = [line for beginning in MAPS for line in map_text(record, beginning)]
        lines += [f"## On maps of shapes, {record.machine(DEVICE)}", "", *maps] if maps else []
    return "\n".join(lines + cold_table(records)).rstrip() + "\n"


@in_sentences
def main(argv: Sequence[str] | None = None) -> int:
    usual = " and ".join(path.relative_to(ROOT).as_posix() for group in USUAL for path in group)
    arguments = page_arguments(list(argv) if argv is not None else None, "docs/libraries.md", usual)
    groups = [arguments.records] if arguments.records else USUAL
    records = [of_one_gpu([schema.load(path) for path in group]) for group in groups]
    program = "python -m plots.libraries_page"
    named = " ".join(map(str, arguments.records))
    command = f"{program} {named + ' ' if named else ''}--update docs/libraries.md"
    return keep_page(arguments, markdown(records, command), program)


if __name__ == "__main__":
    sys.exit(main())
