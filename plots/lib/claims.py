"""What is left of a source's claim in a record: the verdict follows from RULE alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plots.lib.record import SCOPE_TITLES, TIMES, Record, number
from plots.lib.sources import ARROW, Claim
from plots.lib.speedup import Gain, between, device_of, meant, together

RULE = (
    "gone: the interval of our ratio holds 1, or lies on the other side of it; weaker: it lies on the claim's side and "
    "does not reach the claimed ratio; holds: it reaches it, or the source stated none."
)
HEAD = ("claim", "the source", "ours", "verdict", "why")
MOST_NAMED = 4  # workloads in a sentence


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    gain: Gain | None
    verdict: str  # holds, weaker, gone, not measured
    where: str


def verdict_of(claim: Claim, gain: Gain) -> str:
    ours, claimed = (gain, claim.ratio) if claim.faster else (gain.inverse, 1 / claim.ratio if claim.ratio else None)
    if ours.low <= 1:
        return "gone"
    return "holds" if claimed is None or ours.high >= claimed else "weaker"


def named(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]}, {len(names)} workloads"


def judged(record: Record, claim: Claim) -> Verdict:
    rung, over = device_of(record, claim.rung), device_of(record, claim.over)
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
    what = f"{claim.text} ({claim.rung} over {claim.over})"
    ours = f"{v.gain.text}, {v.where}" if v.gain else f"no valid row: {v.where}"
    return what, f"{claim.stated}{ratio} ({claim.place})", ours, v.verdict, claim.why.get(v.verdict, "")
