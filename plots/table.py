"""Tables in Markdown, from one record or several of one kind of machine; by default the committed ones of a GPU.

`python -m plots.table [RECORD...] --markdown` prints the table of docs/results.md: variants by workloads; median of an
iteration, speedup over the root, percent of roof; and beside each variant its gain over its base. With `--over base`
the speedups in the cells are over the base. `--short` makes the table of the README instead: whole runs on one
workload, the largest steps of the ladder, libraries beside them. `--update FILE` puts the table between the marks
<!-- ladder:table --> and <!-- /ladder:table --> of the file; `--check FILE` exits 1 where the file says anything else.
`--whole-run WORKLOAD` puts a sentence before the table, or names the workload of `--short`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote

from plots.figures.tree import usual_workload
from plots.lib import cards, outputs, schema, short
from plots.lib.inputs import in_sentences, read_json, read_text
from plots.lib.pages import between_marks
from plots.lib.record import (
    DAGGER,
    DEVICES,
    ROOT,
    SCOPE_TITLES,
    SCOPES,
    SPACE,
    TIMES,
    Cell,
    Column,
    Gap,
    Over,
    Record,
    RecordError,
    Row,
    Rung,
    Workload,
    committed,
    geometric_mean,
    ms,
    number,
    percent,
)

BEGIN, END = "<!-- ladder:table -->", "<!-- /ladder:table -->"
DOT = " \N{MIDDLE DOT} "
TITLES = {
    "cuda": "GPU times",
    "cpu": "CPU times, native code",
    "simt": "The GPU's source on the CPU device simt: whether it is right (in brackets CPU times, which say nothing of "
    "a GPU)",
}


def cell_text(text: str) -> str:
    """Text that breaks neither a cell nor a list item."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


class Footnotes:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return f"<sup>{self.texts.index(text) + 1}</sup>"


def cell_of(
    record: Record, rung: Rung, column: Column, scope: str, over: Over, notes: Footnotes, daggers: set[str]
) -> str:
    """Median, speedup and percent of roof; of simt that it is right; or why there is none."""
    cell = record.cell(rung, column, scope, over)
    if isinstance(cell, Gap):
        if cell.status == "checked" or cell.status.startswith("not run"):
            return "right" if cell.status == "checked" else cell.status
        return f"{cell.status}{notes.mark(cell_text(cell.reason))}"
    if rung.device == "simt":
        return f"(right, {ms(cell.ms)})"
    if cell.launch_bound:
        daggers.add(rung.device)
    parts = [ms(cell.ms) + (DAGGER if cell.launch_bound else "")]
    marks = "".join(notes.mark(cell_text(note)) for note in cell.notes)
    if cell.speedup is not None and cell.reference != rung.variant:
        parts.append(f"{number(cell.speedup)}{TIMES}{marks}")
    else:
        parts[0] += marks
    if cell.roof_percent is not None:
        parts.append(percent(cell.roof_percent))
    return DOT.join(parts) + (" (unstable)" if cell.unstable else "")


def gain(record: Record, rung: Rung, columns: Sequence[Column], scope: str) -> str:
    """What the variant gained over its base: geometric mean over the columns that both have, and their range."""
    base = record.bases[rung.variant]
    if not base:
        other = record.against(rung)
        return "root" if other == rung.variant else f"root; compared with `{other}`"
    cells = [record.cell(rung, column, scope, "base") for column in columns]
    values = [c.speedup for c in cells if isinstance(c, Cell) and c.speedup is not None and c.reference == base]
    if not values:
        return f"`{base}` has no time here" if base in record.bases else f"`{base}` is not in this record"
    text = f"{number(geometric_mean(values))}{TIMES}"
    if len(values) > 1:
        text += f" ({number(min(values))} to {number(max(values))} by workload)"
    if len(values) < len(columns):
        text += f" on {len(values)} of {len(columns)}"
    return f"{text} over `{base}`"


def spread_note(record: Record, rungs: Sequence[Rung], column: Column, scope: str) -> str:
    """How far the times of a variant differ between the files of a column."""
    ratios: dict[str, float] = {}
    for rung in rungs:
        rows = [record.row(rung, w.name, scope) for w in column.workloads]
        times = [row.median_ms for row in rows if row and row.timed and row.median_ms]
        if len(times) == len(column.workloads):
            ratios[rung.variant] = max(times) / min(times)
    note = f"{column.name}: medians over the files."
    if ratios:
        least, most = min(ratios, key=lambda v: ratios[v]), max(ratios, key=lambda v: ratios[v])
        note += f" A variant's slowest file takes {number(ratios[least])}{TIMES} (`{least}`)"
        if most != least:
            note += f" to {number(ratios[most])}{TIMES} (`{most}`)"
        note += " the time of its fastest."
    return note


def markdown(record: Record, scope: str = "iteration", over: Over = "root") -> str:
    """Context line, a table per device, footnotes."""
    what = "the root of the tree" if over == "root" else "the base"
    lines = [
        f"{record.footer()}. {SCOPE_TITLES[scope].capitalize()}: median time{DOT}speedup over {what}"
        + (f"{DOT}percent of the device's roof." if any(row.roof_percent is not None for row in record.rows) else ".")
    ]
    if len(record.sources) > 1:
        lines[0] += f" Records: {', '.join(f'`{source.shown}`' for source in record.sources)}."
    notes, daggers = Footnotes(), set[str]()
    for device in DEVICES:
        table = record.columns(record.workloads_on(device, [scope]))
        if not table:
            continue
        in_scope = {row.variant for row in record.rows if row.scope == scope and row.device == device}
        asked = [rung for rung in record.rungs(device) if rung.variant in in_scope]
        timed = {row.variant for row in record.rows if row.scope == scope and row.device == device and row.timed}
        rungs = [rung for rung in asked if rung.variant in timed]
        if not rungs:
            continue
        feet = dict.fromkeys(record.against(rung) for rung in rungs)
        compared = device != "simt"
        title = f"**{TITLES[device]}**"
        if compared and over == "root":
            title += f", over {', '.join(f'`{foot}`' for foot in feet)}"
        lines += ["", title, ""]
        heads = [
            column.name + (notes.mark(spread_note(record, rungs, column, scope)) if len(column.workloads) > 1 else "")
            for column in table
        ]
        gains = compared and over == "root"
        lines.append("| variant | " + ("gain over its base | " if gains else "") + " | ".join(heads) + " |")
        lines.append("| --- |" + (" --- |" if gains else "") + " ---: |" * len(table))
        for rung in rungs:
            cells = [gain(record, rung, table, scope)] if gains else []
            cells += [cell_of(record, rung, column, scope, over, notes, daggers) for column in table]
            lines.append(f"| `{rung.variant}` | " + " | ".join(cells) + " |")
        without = [f"`{rung.variant}`" for rung in asked if rung not in rungs]
        if without:
            lines += ["", f"No time here, for the reasons in the record: {', '.join(without)}."]
    if notes.texts or daggers:
        lines.append("")
    lines += [f"{index}. {text}" for index, text in enumerate(notes.texts, 1)]
    if daggers:
        lines += [""] if notes.texts else []
        lines += [record.launch_note(device, of_several=True) for device in DEVICES if device in daggers]
    return "\n".join(lines) + "\n"


def whole_run(record: Record, name: str) -> str:
    """One sentence: the fastest whole run on a workload, and the root of its tree beside it.

    Throws RecordError where the record has no valid one.
    """
    scope = "end_to_end"
    if not any(short.timed_rows(record, device, name) for device in ("cuda", "cpu")):
        raise RecordError(f"{record.names} has no valid {scope} time on '{name}': leave --whole-run out.")
    best, row = short.fastest(record, name)
    timed = {rung: short.time_of(row) for rung, row in short.timed_rows(record, best.device, name).items()}
    workload = record.workloads[name]
    text = (
        f"**A whole run on `{name}`** ({workload.n:,} {TIMES} {workload.d:,}, K = {workload.k:,}, {row.iterations} "
        f"iterations), host memory to host memory: **{number(timed[best])}{SPACE}ms** by `{best.variant}`"
    )
    if row.q1_ms and row.q3_ms:
        text += f" (quartiles {number(row.q1_ms)} to {number(row.q3_ms)})"
    foot = Rung(record.against(best), best.device)
    if foot != best and foot in timed:
        gain = number(timed[foot] / timed[best])
        text += f", {number(timed[foot])}{SPACE}ms by `{foot.variant}`, its root: {gain}{TIMES}"
    if row.prepare_ms:
        text += f"; {ms(row.prepare_ms)} of preparation are not in `{best.variant}`'s time"
    if start := short.cold_start(record, best, row):
        text += f", and a cold start takes {ms(short.time_of(start))}{parts_text(start)}"
    return f"{text}. {labels_sentence(record, row, workload)}"


def labels_checked(row: Row, points: int) -> str:
    """How many labels were compared with fp64, and what a sample leaves open: if `m` random labels of many are right,
    a share beyond -ln(0.05) / m of them would be wrong in one case of twenty at most."""
    seen = row.validation or {}
    checked, wrong, last = (seen.get(key) or 0 for key in ("rows_checked", "labels_wrong", "last_rows_checked"))
    if last >= points:
        return (
            f"All {points:,} labels that it hands out, and {checked - last:,} of its earlier iterations, are compared "
            f"with fp64: {wrong} are wrong."
        )
    text = f"Of {checked:,} labels compared with fp64, {wrong} are wrong"
    if last and not wrong:
        text += (
            f"; of those that it hands out {last:,} were drawn for that, so that with 95 % certainty at most "
            f"{percent(-100 * math.log(0.05) / last)} of them are"
        )
    return f"{text}."


def labels_sentence(record: Record, row: Row, workload: Workload) -> str:
    """labels_checked, of the run with this row's history of which most were."""
    seen, where = most_checked(record, row, workload.name)
    text = labels_checked(seen, workload.n)
    return f"{text.removesuffix('.')} (a run of the same history, in `{where}`)." if where else text


def same_history(row: Row, other: Row) -> bool:
    """Did as many labels move in every iteration of both, to the same inertia?"""
    return bool(row.reassigned) and (row.reassigned, row.inertia) == (other.reassigned, other.inertia)


def most_checked(record: Record, row: Row, workload: str) -> tuple[Row, str]:
    """Of the rows of the same variant with the same history on the same kind of GPU, in the record and in those beside
    it, the one of which most labels were compared with fp64; and, where it is another, the record that has it."""

    def count(of: Row) -> int:
        return int((of.validation or {}).get("rows_checked") or 0)

    def candidates(of: Record) -> list[tuple[Row, str]]:
        same = (row.variant, workload, row.device, row.gpus, "ok")
        rows = [r for r in of.rows if (r.variant, r.workload, r.device, r.gpus, r.status) == same]
        return [(r, of.behind([r]).sources[0].shown) for r in rows if same_history(row, r)]

    found = [(row, ""), *candidates(record)]
    for path in records_beside(row.path, f'"{row.variant}"'):
        if other := of_the_same_gpu(record, path, workload):
            found += candidates(other)
    return max(found, key=lambda entry: count(entry[0]))


def records_beside(path: Path, word: str) -> list[Path]:
    """The committed records in a committed record's folder that hold the word; none beside another file."""
    if path not in committed():
        return []
    beside = [p for p in sorted(path.parent.glob("*.json")) if p != path and word in p.read_text()]
    return [p for p in beside if {"rows", "schema_version"} <= read_json(p).keys()]


def of_the_same_gpu(record: Record, path: Path, workload: str) -> Record | None:
    """The record at the path, if it has the same problem on the same kind of GPU."""
    other = schema.load(path)
    gpus = [(of.sources[0].context["gpu"] or {}).get("name") for of in (record, other)]
    there = other.workloads.get(workload)
    same = gpus[0] == gpus[1] and there and there.problem == record.workloads[workload].problem
    return other if same else None


def cold_starts(record: Record, runs: Sequence[tuple[Rung, Row]]) -> dict[Rung, Row]:
    """Of these whole runs, from the record or one beside it."""
    workload = runs[0][1].workload
    beside = [of_the_same_gpu(record, path, workload) for path in records_beside(runs[0][1].path, f'"{short.COLD}"')]
    found: dict[Rung, Row] = {}
    for of in (record, *filter(None, beside)):
        for rung, row in runs:
            if rung not in found and (start := short.cold_start(of, rung, row)):
                found[rung] = start
    return found


def fastest_cold_start(record: Record, last: short.Step, cold: dict[Rung, Row]) -> tuple[Rung, Row, Row] | None:
    """A rung, its whole run and its cold start: of the last step, else of the fastest rung of the ladder with both."""
    if start := cold.get(last.rung):
        return last.rung, last.row, start
    rows = short.timed_rows(record, last.rung.device, last.row.workload)
    runs = sorted(((r, row) for r, row in rows.items() if not record.lone(r.variant)), key=lambda run: run[1].median_ms)
    every = cold_starts(record, runs)
    return next(((rung, row, every[rung]) for rung, row in runs if rung in every), None)


def from_beside(record: Record, row: Row) -> str:
    """In which record the row is, where it is another."""
    there = row.path and row.path not in {source.path for source in record.sources}
    return f", in `{row.path.relative_to(ROOT).as_posix()}`" if there else ""


def one_history(record: Record, workload: str, row: Row) -> str:
    """How many rungs moved as many labels as this row in every iteration, to the same inertia; empty where it is alone.
    Labels and sums that are exact leave them no other way."""
    if not row.reassigned:
        return ""
    same = {
        other.variant
        for other in record.rows
        if (other.workload, other.status) == (workload, "ok") and same_history(row, other)
    }
    if len(same) < 2:
        return ""
    return (
        f"{len(same)} rungs have one history here, to the last digit: as many labels moved in each of the "
        f"{len(row.reassigned)} iterations, and the same inertia after each."
    )


SHORT_ROWS = 14


def linked(variant: str) -> str:
    """The id, with a link to the variant's file from the root of the repository."""
    if variant not in cards.load():
        return f"`{variant}`"
    return f"[`{variant}`]({cards.path_of(variant).relative_to(ROOT).as_posix()})"


def parts_text(start: Row) -> str:
    """In brackets, what the parts of a cold start took; empty where the record does not say."""
    parts = [f"{name} {ms(start.parts_ms[name])}" for name in short.COLD_PARTS if start.parts_ms.get(name)]
    return f" ({', '.join(parts)})" if parts else ""


def short_table(record: Record, name: str | None) -> str:
    """At most SHORT_ROWS rows: the largest steps of a whole run, libraries among them; and what the time is of.

    Throws RecordError where the record has no valid whole run.
    """
    usual = usual_workload(record, "cuda", short.SCOPE) or usual_workload(record, "cpu", short.SCOPE)
    if name is None and usual is None:
        raise RecordError(f"{record.names} has no valid {short.SCOPE} time.")
    workload = record.workloads[name] if name else usual
    assert workload
    beside = short.libraries(record, workload.name)
    steps = short.steps(record, workload.name, SHORT_ROWS - len(beside))
    first, last = steps[0], steps[-1]

    shown = [*((step.rung, step.row, "") for step in steps), *((rung, row, "*") for rung, row in beside)]
    shown.sort(key=lambda entry: -short.time_of(entry[1]))
    cold = cold_starts(record, [(rung, row) for rung, row, _ in shown])
    # A time that is not in the record leaves its cell empty; a column without any time is left out.
    columns: list[tuple[str, Callable[[Rung, Row], str]]] = [
        ("whole run", lambda _, row: ms(short.time_of(row))),
        ("prepare", lambda _, row: ms(row.prepare_ms) if row.prepare_ms else ""),
        ("cold start", lambda rung, _: ms(short.time_of(cold[rung])) if rung in cold else ""),
        (
            "speedup",
            lambda _, row: f"{number(first.ms / t)}{TIMES}" if (t := short.time_of(row)) != first.ms else f"1{TIMES}",
        ),
    ]
    columns = [column for column in columns if any(column[1](rung, row) for rung, row, _ in shown)]

    def line(rung: Rung, row: Row, mark: str) -> str:
        cells = [linked(rung.variant), cell_text(short.idea_of(record, rung.variant))]
        cells += [value(rung, row) for _, value in columns]
        return "| " + " | ".join(f"{mark}{cell}{mark}" if cell else "" for cell in cells) + " |"

    time, variant = ms(last.ms), f"`{last.rung.variant}`"
    machine = record.machine(last.rung.device).split(" (")[0]
    used = [*(step.row for step in steps), *(row for _, row in beside), *cold.values()]
    bullets = [
        f"**{time}** ({variant}): {workload.size}, {last.row.iterations} iterations, host memory to host memory, one "
        f"{machine}. {labels_sentence(record, last.row, workload)}"
    ]
    if same := one_history(record, workload.name, last.row):
        bullets.append(same)
    if fixed := list(dict.fromkeys(row.workload for _, row in beside if row.workload != workload.name)):
        names = ", ".join(f"`{name}`" for name in fixed)
        bullets.append(f"Libraries without this stop rule run as many iterations from the same start ({names}).")
    others = []
    for other in short.siblings(record, workload):
        _, row = short.fastest(record, other.name)
        used.append(row)
        there = f"{number(short.time_of(row))}{SPACE}ms in {row.iterations} iterations"
        others.append(f"{there} on `{other.name}` ({other.title})")
    kind = f"The data: {workload.title}."
    bullets.append(kind + (f" The same size on other data: {'; '.join(others)}." if others else ""))
    records = ", ".join(f"`{source.shown}`" for source in record.behind(used).sources)
    if last.row.prepare_ms:
        bullets.append(
            f"Not in {time}: {ms(last.row.prepare_ms)} of preparation, once per process (device memory, "
            f"page-locked memory and the copy of the points into it). Records: {records}."
        )
    if known := fastest_cold_start(record, last, cold):
        rung, row, start = known
        which = f"`{rung.variant}`"
        if rung != last.rung:
            which = f"the fastest rung that has one, {which} ({ms(short.time_of(row))})"
        bullets.append(
            f"A cold start of {which}, from a fresh process to labels and centroids: {ms(short.time_of(start))}"
            f"{parts_text(start)}{from_beside(record, start)}."
        )
    head = ["| step | idea | " + " | ".join(name for name, _ in columns) + " |"]
    head.append("| --- | --- |" + " ---: |" * len(columns))
    return "\n".join([*head, *(line(*entry) for entry in shown), "", *(f"- {text}" for text in bullets)]) + "\n"


@in_sentences
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Tables in Markdown, from records.")
    parser.add_argument(
        "records", nargs="*", type=Path, metavar="RECORD", help="default: the committed ones of one GPU machine"
    )
    parser.add_argument("--short", action="store_true", help=f"whole runs on one workload, at most {SHORT_ROWS} rows")
    parser.add_argument("--scope", choices=SCOPES, default="iteration")
    parser.add_argument("--over", choices=("root", "base"), default="root", help="what the speedups are over")
    parser.add_argument(
        "--workload", action="append", default=[], metavar="GLOB", help="these alone, or families (may be repeated)"
    )
    parser.add_argument(
        "--whole-run", metavar="WORKLOAD", help="before the table the fastest whole run on it; of --short its workload"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--markdown", action="store_true", help="print the table")
    what.add_argument("--update", type=Path, metavar="FILE", help="put the table between the marks of this file")
    what.add_argument("--check", type=Path, metavar="FILE", help="exit 1 where this file's table is another")
    arguments = parser.parse_args(argv)
    record = schema.of_one_machine(arguments.records)
    if arguments.short:
        table = short_table(record, arguments.whole_run)
    else:
        head = f"{whole_run(record, arguments.whole_run)}\n\n" if arguments.whole_run else ""
        if arguments.workload:
            record = record.only(arguments.workload)
        table = head + markdown(record, arguments.scope, arguments.over)
    if arguments.markdown:
        print(table, end="")
        return 0
    path: Path = arguments.update or arguments.check
    before = read_text(path)
    after = between_marks(before, BEGIN, END, table, str(path))
    if arguments.update:
        if after != before:
            outputs.write(path, after)
        return 0
    if after != before:
        names = " ".join(str(record) for record in arguments.records) or "the committed records"
        more = " --short" if arguments.short else ""
        more += "" if arguments.scope == "iteration" else f" --scope {arguments.scope}"
        more += "" if arguments.over == "root" else f" --over {arguments.over}"
        more += "".join(f" --workload {quote(glob)}" for glob in arguments.workload)
        more += f" --whole-run {quote(arguments.whole_run)}" if arguments.whole_run else ""
        given = f" {names}" if arguments.records else ""
        print(
            f"{path}: its table is not that of {names}; run `python -m plots.table{given}{more} --update {path}`.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
