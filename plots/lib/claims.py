"""The verdict on a source's claim: the verdict follows from RULE alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from plots.lib import schema
from plots.lib.record import SCOPE_TITLES, TIMES, Record, Row, Rung, number
from plots.lib.sources import ARROW, Claim
from plots.lib.speedup import Gain, between, device_of, fastest_row, meant, of_rows, together

RULE = (
    "gone: the interval of our ratio contains 1, or lies on the other side of it; weaker: it lies on the claim's side "
    "and does not reach the claimed ratio; holds: it reaches it, or the source stated none. Where no interval was "
    "measured, the ratio as it is printed stands for it, of one session each. A claim about a tuning axis compares the "
    "fastest points of a sweep, on both sides."
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


def verdict_of(claim: Claim, gain: Gain) -> str:
    if gain.interval is None:
        gain = Gain(float(number(gain.value).replace(",", "")), None, gain.unstable, gain.workloads)
    ours, claimed = (gain, claim.ratio) if claim.faster else (gain.inverse, 1 / claim.ratio if claim.ratio else None)
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


def judged(record: Record, claim: Claim) -> Verdict:
    rung, over = device_of(record, claim.rung), device_of(record, claim.over)
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
                where = f"{SCOPE_TITLES[claim.scope]} on {named(gain.workloads)}{what}{note}"
                return Verdict(claim, gain, verdict_of(claim, gain), where)
    return Verdict(claim, None, "not measured", f"{claim.scope} of {claim.rung} and {claim.over}")


def cells(v: Verdict) -> tuple[str, ...]:
    """The row of a verdict under HEAD."""
    claim = v.claim
    ratio = f" = {number(claim.ratio)}{TIMES}" if claim.ratio and ARROW in claim.stated else ""
    held = f" at {at(claim.over_axes)}" if claim.over_axes else ""
    what = f"{claim.text} ({claim.rung}{' tuned' if claim.tuned else ''} over {claim.over}{held})"
    ours = f"{v.gain.text}, {v.where}" if v.gain else f"no valid row: {v.where}"
    return what, f"{claim.stated}{ratio} ({claim.place})", ours, v.verdict, claim.why.get(v.verdict, "")
