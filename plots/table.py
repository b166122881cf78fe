#!/usr/bin/env python3
"""The README's table, from a record.

`table.py RECORD --markdown` prints it: variants by workloads, median of an iteration and speedup over the root.
`table.py RECORD --update README.md` puts it between the marks <!-- ladder:table --> and <!-- /ladder:table -->;
`--check README.md` exits 1 where the file says anything else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import check
from record import (
    DEVICE_CLASSES,
    MANY_WORKLOADS,
    SCOPE_TITLES,
    SCOPES,
    TIMES,
    Gap,
    Record,
    RecordError,
    Rung,
    Speedup,
    Workload,
    geometric_mean,
    number,
)

BEGIN, END = "<!-- ladder:table -->", "<!-- /ladder:table -->"
CLASS_TITLES = {"gpu": "GPU times", "cpu": "CPU times (native code, and the GPU's source on the CPU device simt)"}


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


def columns(record: Record, workloads: Sequence[str]) -> list[tuple[str, list[Workload]]]:
    """A column per workload; one for all of a family of many."""
    found: list[tuple[str, list[Workload]]] = []
    for family, members in record.families(workloads).items():
        if len(members) > MANY_WORKLOADS:
            found.append((f"{family} (mean of {len(members)})", members))
        else:
            found += [(w.name, [w]) for w in members]
    return found


def cell(record: Record, rung: Rung, workloads: Sequence[Workload], scope: str, notes: Footnotes) -> str:
    """Median ms (a mean over several workloads) and speedup, or why there is none."""
    results = [record.speedup(rung, w.name, scope) for w in workloads]
    gaps = [r for r in results if isinstance(r, Gap)]
    good = [r for r in results if isinstance(r, Speedup)]
    for gap in gaps:
        if gap.status == "no root":
            rows = [record.row(rung, w.name, scope) for w in workloads]
            times = [row.median_ms for row in rows if row and row.timed and row.median_ms]
            if len(times) == len(workloads):
                return f"{number(sum(times) / len(times))} ms{notes.mark(cell_text(gap.reason))}"
    if gaps:
        count = f" on {len(gaps)} of {len(results)}" if len(results) > 1 else ""
        if gaps[0].status == "not run":
            return f"not run{count}"
        return f"{gaps[0].status}{count}{notes.mark(cell_text(gaps[0].reason))}"
    ms = sum(s.ms for s in good) / len(good)
    text = f"{number(ms)} ms"
    if record.root(rung.variant) != rung.variant:
        text += f", {number(geometric_mean(s.value for s in good))}{TIMES}"
    if any(s.unstable for s in good):
        text += " (unstable)"
    return text


def markdown(record: Record, scope: str = "iteration") -> str:
    """Context line, a table per device class, footnotes."""
    lines = [f"{record.footer()}. {SCOPE_TITLES[scope].capitalize()}: median time, speedup over the root of the tree."]
    notes = Footnotes()
    for device_class, devices in DEVICE_CLASSES.items():
        table = columns(record, record.workloads_on(devices, [scope]))
        if not table:
            continue
        in_scope = {(row.variant, row.device) for row in record.rows if row.scope == scope}
        rungs = [rung for rung in record.rungs(devices) if (rung.variant, rung.device) in in_scope]
        roots = {record.root(rung.variant): None for rung in rungs}
        named_roots = ", ".join(f"`{root}`" for root in roots if root)
        lines += ["", f"**{CLASS_TITLES[device_class]}**, over {named_roots or 'no root of this record'}", ""]
        several = len({rung.device for rung in rungs}) > 1
        lines.append("| variant | " + " | ".join(name for name, _ in table) + " |")
        lines.append("| --- |" + " ---: |" * len(table))
        for rung in rungs:
            name = f"`{rung.variant}`" + (f" ({rung.device})" if several else "")
            cells = [cell(record, rung, workloads, scope, notes) for _, workloads in table]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if notes.texts:
        lines.append("")
        lines += [f"{index}. {text}" for index, text in enumerate(notes.texts, 1)]
    return "\n".join(lines) + "\n"


def replaced(text: str, table: str, name: str) -> str:
    """The text with what stands between the marks replaced."""
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin or text.count(BEGIN) != 1 or text.count(END) != 1:
        raise RecordError(f"{name}: must hold the lines {BEGIN} and {END} once, in this order.")
    return f"{text[: begin + len(BEGIN)]}\n{table}{text[end:]}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The README's table, from a record.")
    parser.add_argument("record", type=Path, metavar="RECORD")
    parser.add_argument("--scope", choices=SCOPES, default="iteration")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--markdown", action="store_true", help="print the table")
    what.add_argument("--update", type=Path, metavar="FILE", help="put the table between the marks of this file")
    what.add_argument("--check", type=Path, metavar="FILE", help="exit 1 where this file's table is another")
    arguments = parser.parse_args(argv)
    try:
        table = markdown(check.load(arguments.record), arguments.scope)
        if arguments.markdown:
            print(table, end="")
            return 0
        path: Path = arguments.update or arguments.check
        before = path.read_text(encoding="utf-8")
        after = replaced(before, table, str(path))
        if arguments.update:
            if after != before:
                path.write_text(after, encoding="utf-8")
            return 0
        if after != before:
            print(
                f"{path}: its table is not that of {arguments.record}; run "
                f"`plots/table.py {arguments.record} --update {path}`.",
                file=sys.stderr,
            )
            return 1
        return 0
    except RecordError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
