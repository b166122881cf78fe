"""The ladder in a dozen steps: the chain from the root to the fastest rung of a workload, thinned to its largest steps.

Which rungs these are follows from the record alone. Libraries stand beside them: peers written in Python, those for the
CPU of the same host too, roots from which nothing was made, and rungs whose file links a library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plots.lib import cards
from plots.lib.record import Record, RecordError, Row, Rung, Workload
from plots.lib.slope import differ_in_iterations, iterations_of

SCOPE = "end_to_end"
COLD = "cold_start"
COLD_PARTS = ("process", "context", "module", "import", "prepare", "run")  # in their order
MOST_BARS = 12
MOST_LIBRARIES = 6  # beside the steps, where the caller does not say
NOISE = 0.02  # a share by which two runs of one rung may differ


@dataclass(frozen=True)
class Step:
    rung: Rung
    row: Row
    rungs: int  # of the ladder since the step before, this one included
    gain: float | None  # over the step before

    @property
    def ms(self) -> float:
        return time_of(self.row)


def time_of(row: Row) -> float:
    assert row.median_ms
    return row.median_ms


def idea_of(record: Record, variant: str) -> str:
    """As today's card has it; of a variant without a card the record's."""
    known = cards.load()
    return known[variant].idea if variant in known else record.ideas[variant]


def timed_rows(record: Record, device: str, workload: str) -> dict[Rung, Row]:
    """Rungs with a valid whole run there. An unstable time counts for nothing here."""
    found = {rung: record.row(rung, workload, SCOPE) for rung in record.rungs(device)}
    return {rung: row for rung, row in found.items() if row and row.status == "ok" and row.median_ms}


def cold_start(record: Record, rung: Rung, whole_run: Row) -> Row | None:
    """The valid cold start beside a whole run, where the record has one."""
    row = record.row(rung, whole_run.workload, COLD)
    return row if row and row.status == "ok" and row.median_ms else None


def device_of(record: Record, workload: str) -> str:
    """The GPU where the record has whole runs on one, else the CPU."""
    for device in ("cuda", "cpu"):
        if timed_rows(record, device, workload):
            return device
    raise RecordError(f"{record.names} has no valid {SCOPE} time on '{workload}': name another workload.")


def fastest(record: Record, workload: str) -> tuple[Rung, Row]:
    """Of the rungs of a ladder; a library counts only where there is nothing else. A rung is the fastest if it is so by
    more than two runs differ: of those that are as fast, the one with the fewest steps before it."""
    rows = timed_rows(record, device_of(record, workload), workload)
    ladder = {rung: row for rung, row in rows.items() if not record.lone(rung.variant)} or rows
    least = min(map(time_of, ladder.values()))
    equal = (rung for rung in ladder if time_of(ladder[rung]) <= (1 + NOISE) * least)
    best = min(equal, key=lambda rung: (len(record.ancestors(rung.variant)), time_of(ladder[rung])))
    return best, ladder[best]


def steps(record: Record, workload: str, most: int = MOST_BARS) -> list[Step]:
    """The root, the fastest rung, and between them the rungs that shortened the run most; slowest first."""
    best, _ = fastest(record, workload)
    rows = timed_rows(record, best.device, workload)
    chain = [Rung(variant, best.device) for variant in reversed([best.variant, *record.ancestors(best.variant)])]
    gains: dict[Rung, float] = {}
    least = math.inf
    for rung in chain:
        if rung in rows and time_of(rows[rung]) < least:
            gains[rung] = least / time_of(rows[rung])
            least = time_of(rows[rung])
    # The first has no gain and the last is the message: both stay.
    ends = [next(iter(gains)), best]
    middle = sorted((rung for rung in gains if rung not in ends), key=lambda rung: -gains[rung])
    kept = {*ends, *middle[: max(0, most - len(set(ends)))]}
    found: list[Step] = []
    before = 0
    for place, rung in enumerate(chain):
        if rung in kept:
            gain = found[-1].ms / time_of(rows[rung]) if found else None
            found.append(Step(rung, rows[rung], place - before, gain))
            before = place
    return found


def fixed_twins(record: Record, workload: Workload, iterations: int | None) -> list[Workload]:
    """The same problem with this number of iterations in place of the workload's stop rule."""
    return [
        w for w in record.workloads.values() if iterations_of(w) == iterations and differ_in_iterations(w, workload)
    ]


def is_peer(variant: str) -> bool:
    """Is it written in Python, as the peers are, for which a library does the work?"""
    return variant in cards.load() and cards.path_of(variant).suffix == ".py"


def libraries(record: Record, workload: str, most: int = MOST_LIBRARIES) -> list[tuple[Rung, Row]]:
    """The fastest, slowest first. Of several rungs that link the same library the first one of the ladder; none that is
    on the way to the fastest rung, and so a step itself. A library that does not have the workload's stop rule is taken
    from the same problem with as many iterations as the fastest rung takes."""
    device = device_of(record, workload)
    best, best_row = fastest(record, workload)
    rows: dict[Rung, Row] = {}
    twins = [twin.name for twin in fixed_twins(record, record.workloads[workload], best_row.iterations)]
    for name in [*twins, workload]:
        there = timed_rows(record, device, name)
        there |= {r: row for r, row in timed_rows(record, "cpu", name).items() if is_peer(r.variant)}
        if name != workload:
            there = {r: row for r, row in there.items() if record.lone(r.variant) or is_peer(r.variant)}
        rows |= there
    known = cards.load()
    chain = (best.variant, *record.ancestors(best.variant))
    found: list[tuple[Rung, Row]] = []
    for rung, row in rows.items():
        if rung.variant in chain:
            continue
        links = known[rung.variant].links if rung.variant in known else ()
        base = record.bases[rung.variant]
        first = links and not (base in known and set(links) & set(known[base].links))
        if record.lone(rung.variant) or is_peer(rung.variant) or first:
            found.append((rung, row))
    found.sort(key=lambda entry: time_of(entry[1]))
    return sorted(found[:most], key=lambda entry: -time_of(entry[1]))


def library_name(record: Record, rung: Rung) -> str:
    """What it is known by: the head of its idea where that names it, else the id."""
    head, colon, _ = idea_of(record, rung.variant).partition(":")
    return f"{head} ({rung.variant})" if colon and len(head.split()) <= 4 else rung.variant


def siblings(record: Record, workload: Workload) -> Sequence[Workload]:
    """Workloads of the same size and stop rule on other data, with a whole run."""
    alike = ("n", "d", "k", "type", "stop", "metric", "kernel")
    return [
        w
        for w in record.workloads.values()
        if w.data_hash != workload.data_hash
        and all(getattr(w, name) == getattr(workload, name) for name in alike)
        and any(timed_rows(record, device, w.name) for device in ("cuda", "cpu"))
    ]
