"""The verdict on a source's claim: the verdict follows from RULE alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from plots.lib import schema
from plots.lib.record import SCOPE_TITLES, TIMES, Record, Row, Rung, number
from plots.lib.sources import ARROW, Claim
from plots.lib.speedup import Gain, between, device_of, fastest_row, meant, of_rows, timed, together

RULE = (
    "gone: the interval of our ratio contains 1, or lies on the other side of it; weaker: it lies on the claim's side "
    "and does not reach the claimed ratio; holds: it reaches it, or the source stated none. Where no interval was "
    "measured, the ratio as it is printed stands for it, of one session each, beside the claim as printed. "
    "A claim about a tuning axis compares the fastest points of a sweep, on both sides. Of a cost, ours is what the "
    "rung takes longer than the other. Two solves go the same way if as many points change their cluster in each "
    "iteration; the claim holds if they do so on every workload and no checked label is wrong."
)
HEAD = ("claim", "the source", "ours", "verdict", "why")
SWEEP = "tune.json"  # beside a record
MOST_NAMED = 4  # workloads in a sentence


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    gain: Gain | None
    verdict: str  # holds, weaker, gone, not measured
    where: str
    found: str = ""  # ours, where it is no gain


def as_printed(ratio: float) -> float:
    return float(number(ratio).replace(",", ""))


def verdict_of(claim: Claim, gain: Gain) -> str:
    ratio = claim.ratio
    if gain.interval is None:
        gain = Gain(as_printed(gain.value), None, gain.unstable, gain.workloads)
        ratio = as_printed(ratio) if ratio else None
    ours, claimed = (gain, ratio) if claim.faster else (gain.inverse, 1 / ratio if ratio else None)
    low, high = (ours.interval.low, ours.interval.high) if ours.interval else (ours.value, ours.value)
    if low <= 1:
        return "gone"
    return "holds" if claimed is None or high >= claimed else "weaker"


def named(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]}, {len(names)} workloads"


@lru_cache
def sweep(path: Path) -> Record | None:
    """The record of `ladder tune`; None where there is none."""
    return schema.load(path) if path.is_file() else None


def swept(record: Record) -> list[Record]:
    """Sweeps that lie beside the record's files and were made on the same GPU."""
    folders = dict.fromkeys(source.path.resolve().parent for source in record.sources)
    gpu = (record.sources[0].context["gpu"] or {}).get("name")
    beside = [found for folder in folders if (found := sweep(folder / SWEEP))]
    return [other for other in beside if (other.sources[0].context["gpu"] or {}).get("name") == gpu]


def swept_rows(record: Record) -> list[Row]:
    """The record's rows and those of its sweeps."""
    return [*record.rows, *(row for other in swept(record) for row in other.rows)]


def at(axes: dict[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in axes.items())


def judged_tuned(record: Record, claim: Claim, rung: Rung, over: Rung) -> Verdict | None:
    """Of a claim about values of axes: the fastest row over the fastest with the axes held that the claim names."""
    rows = swept_rows(record)
    gains: list[Gain] = []
    points: list[str] = []
    for w in claim.where(record):
        mine = fastest_row(rows, rung, w.name, claim.scope)
        other = fastest_row(rows, over, w.name, claim.scope, claim.over_axes)
        if mine and other:
            gains.append(of_rows(mine, other))
            points.append(f"{w.name}: {at(mine.axes)} over {at(other.axes)}".rstrip())
    if not gains:
        return None
    gain = together(gains)
    where = f"{SCOPE_TITLES[claim.scope]}, tuned ({'; '.join(points)})"
    return Verdict(claim, gain, verdict_of(claim, gain), where)


def part_of(record: Record, claim: Claim, count: int) -> str:
    """Where fewer workloads are measured than the claim is about, of how many; and where the rest is planned."""
    every = len(claim.where(record))
    if not claim.plan or count >= every:
        return ""
    return f", {count} of {every}; {claim.plan} plans the rest"


def not_measured(claim: Claim) -> Verdict:
    return Verdict(claim, None, "not measured", f"{claim.scope} of {claim.rung} and {claim.over}")


def judged_means(record: Record, claim: Claim, rung: Rung, over: Rung) -> Verdict | None:
    """As a table of averages counts: the mean time over the files that both have, over that of the other."""
    pairs = [
        (mine, other)
        for w in claim.where(record)
        if isinstance(mine := timed(record, rung, w.name, claim.scope), Row)
        and isinstance(other := timed(record, over, w.name, claim.scope), Row)
    ]
    if not pairs:
        return None
    mine, other = (fmean(row.median_ms or math.nan for row in rows) for rows in zip(*pairs, strict=True))
    unstable = any("unstable" in (a.status, b.status) for a, b in pairs)
    gain = Gain(other / mine, None, unstable, tuple(row.workload for row, _ in pairs))
    means = f"mean times {number(other)} ms {ARROW} {number(mine)} ms"
    rest = part_of(record, claim, len(pairs))
    where = f"{SCOPE_TITLES[claim.scope]} on {named(gain.workloads)} ({means}){rest}"
    return Verdict(claim, gain, verdict_of(claim, gain), where)


def judged_cost(record: Record, claim: Claim, rung: Rung, over: Rung) -> Verdict | None:
    """How much longer the rung takes than the other, on average over the workloads that both have."""
    assert claim.costs is not None
    longer: dict[str, float] = {}
    for w in claim.where(record):
        mine, other = timed(record, rung, w.name, claim.scope), timed(record, over, w.name, claim.scope)
        if isinstance(mine, Row) and isinstance(other, Row) and mine.median_ms and other.median_ms:
            longer[w.name] = mine.median_ms - other.median_ms
    if not longer:
        return None
    cost = fmean(longer.values())
    verdict = "gone" if cost <= 0 else "holds" if cost >= claim.costs else "weaker"
    where = f"{SCOPE_TITLES[claim.scope]} on {named(list(longer))}{part_of(record, claim, len(longer))}"
    return Verdict(claim, None, verdict, where, f"{number(cost)} ms")


def judged_same(record: Record, claim: Claim, rung: Rung, over: Rung) -> Verdict | None:
    """Whether the two solves go the same way, by what the rows say of each iteration."""
    same: list[str] = []
    other_way: list[str] = []
    checked = wrong = 0
    for w in claim.where(record):
        mine, other = record.row(rung, w.name, "solve"), record.row(over, w.name, "solve")
        if not (mine and other and mine.timed and other.timed and mine.reassigned and other.reassigned):
            continue
        (same if mine.reassigned == other.reassigned else other_way).append(w.name)
        checked += (mine.validation or {}).get("rows_checked", 0)
        wrong += (mine.validation or {}).get("labels_wrong", 0)
    every = len(same) + len(other_way)
    if not every:
        return None
    found = f"as many points change their cluster in each iteration on {len(same)} of {every} workloads"
    found += f" (not on {named(other_way)})" if other_way else ""
    found += f", and {wrong:,} of {checked:,} labels that were checked with fp64 are wrong"
    verdict = "gone" if wrong or not same else "weaker" if other_way else "holds"
    return Verdict(claim, None, verdict, SCOPE_TITLES["solve"], found)


def judged(record: Record, claim: Claim) -> Verdict:
    rung, over = device_of(record, claim.rung), device_of(record, claim.over)
    special = judged_same if claim.same else judged_means if claim.of_means else None
    special = judged_cost if claim.costs is not None else special
    if special:
        return (special(record, claim, rung, over) if rung and over else None) or not_measured(claim)
    if rung and over and claim.tuned and (verdict := judged_tuned(record, claim, rung, over)):
        return verdict
    if rung and over:
        own = [w.name for w in claim.where(record)]
        other = [w.name for w in meant(record, claim.elsewhere) if w.name not in own]
        for names, note in ((own, ""), (other, "; the source's own problem is not in the record")):
            gains = [g for n in names if isinstance(g := between(record, rung, over, n, claim.scope), Gain)]
            if gains:
                gain = max(gains, key=lambda g: g.value) if claim.take == "most" else together(gains)
                what = " (geometric mean)" if len(gain.workloads) > 1 else ""
                what += part_of(record, claim, len(gains)) if names is own else ""
                where = f"{SCOPE_TITLES[claim.scope]} on {named(gain.workloads)}{what}{note}"
                return Verdict(claim, gain, verdict_of(claim, gain), where)
    return not_measured(claim)


def cells(v: Verdict) -> tuple[str, ...]:
    """The row of a verdict under HEAD."""
    claim = v.claim
    ratio = f" = {number(claim.ratio)}{TIMES}" if claim.ratio and ARROW in claim.stated else ""
    held = f" at {at(claim.over_axes)}" if claim.over_axes else ""
    what = f"{claim.text} ({claim.rung}{' tuned' if claim.tuned else ''} over {claim.over}{held})"
    ours = v.found or (v.gain.text if v.gain else "")
    ours = f"{ours}, {v.where}" if ours else f"no valid row: {v.where}"
    if v.verdict == "not measured" and claim.plan:
        ours += f"; {claim.plan} plans it"
    return what, f"{claim.stated}{ratio} ({claim.place})", ours, v.verdict, claim.why.get(v.verdict, "")
