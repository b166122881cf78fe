"""What one rung gained over another: the ratio of their times, with an interval.

Where the record compared the two in sessions that took turns, the interval is that comparison's (95 %). Else each has
one session: the quartiles of its samples, widened by how far two sessions of the same code lie apart
(docs/comparing.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from plots.lib.record import TIMES, Gap, Record, Row, Rung, Workload, geometric_mean, number

KERNEL_SCATTER, OTHER_SCATTER = 0.03, 0.10  # between sessions; 0.10: times in which the host may have a part
KERNEL_SCOPES = ("assign", "update")
INTERLEAVED = "95 % of sessions in turns"
APART = "quartiles of one session each, and their scatter"


@dataclass(frozen=True)
class Gain:
    """Above 1: faster. Over several workloads the geometric mean of each end."""

    value: float
    low: float
    high: float
    how: str
    unstable: bool
    workloads: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{number(self.value)}{TIMES} ({number(self.low)} to {number(self.high)})"

    @property
    def inverse(self) -> Gain:
        return Gain(1 / self.value, 1 / self.high, 1 / self.low, self.how, self.unstable, self.workloads)


def scatter(rung: Rung, scope: str) -> float:
    return KERNEL_SCATTER if rung.device == "cuda" and scope in KERNEL_SCOPES else OTHER_SCATTER


def timed(record: Record, rung: Rung, workload: str, scope: str) -> Row | Gap:
    row = record.row(rung, workload, scope)
    if row is None:
        return Gap("not run", f"{rung.variant} has no {scope} row on {workload}.")
    return row if row.timed and row.median_ms else Gap(row.status, row.reason)


def between(record: Record, rung: Rung, over: Rung, workload: str, scope: str) -> Gain | Gap:
    """Of `rung` over `over`; the two may be of different devices."""
    for c in record.comparisons:
        if (c.candidate, c.base, c.workload, c.device, c.scope) == (
            rung.variant, over.variant, workload, rung.device, scope
        ) and rung.device == over.device:  # fmt: skip
            return Gain(1 / c.ratio, 1 / c.high, 1 / c.low if c.low else math.inf, INTERLEAVED, False, (workload,))
    mine, other = timed(record, rung, workload, scope), timed(record, over, workload, scope)
    if isinstance(mine, Gap):
        return mine
    if isinstance(other, Gap):
        return Gap("no base", f"{over.variant} has no valid {scope} time here.")
    return of_rows(mine, other, rung, over)


def of_rows(mine: Row, other: Row, rung: Rung, over: Rung) -> Gain:
    """Of one session each: the ratio of the medians, and the quartiles widened by the scatter between sessions."""
    assert mine.median_ms and other.median_ms
    wider = 1 + max(scatter(rung, mine.scope), scatter(over, mine.scope))
    return Gain(
        other.median_ms / mine.median_ms,
        (other.q1_ms or min(other.samples_ms)) / (mine.q3_ms or max(mine.samples_ms)) / wider,
        (other.q3_ms or max(other.samples_ms)) / (mine.q1_ms or min(mine.samples_ms)) * wider,
        APART,
        "unstable" in (mine.status, other.status),
        (mine.workload,),
    )


def fastest_row(
    rows: Sequence[Row], rung: Rung, workload: str, scope: str, axes: dict[str, int] | None = None
) -> Row | None:
    """Over all values of the rung's axes, or with some of them held."""
    held = (axes or {}).items()
    found = [
        row
        for row in rows
        if row.place == (rung.variant, rung.device, workload, scope)
        and row.status == "ok"
        and row.median_ms
        and all(row.axes.get(name) == value for name, value in held)
    ]
    return min(found, key=lambda row: row.median_ms or math.inf, default=None)


def meant(record: Record, patterns: Sequence[str]) -> list[Workload]:
    """Workloads by globs over their names. Those that end in _tiny are for trying out, and count for nothing."""
    return [
        w
        for name, w in record.workloads.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns) and not name.endswith("_tiny")
    ]


def together(gains: Sequence[Gain]) -> Gain:
    """The geometric mean of each end."""
    return Gain(
        geometric_mean(g.value for g in gains),
        geometric_mean(g.low for g in gains),
        math.inf if any(math.isinf(g.high) for g in gains) else geometric_mean(g.high for g in gains),
        " and ".join(sorted({g.how for g in gains})),
        any(g.unstable for g in gains),
        tuple(name for g in gains for name in g.workloads),
    )


def device_of(record: Record, variant: str) -> Rung | None:
    """The variant on a GPU where the record has it there, else as native CPU code; never on simt."""
    for device in ("cuda", "cpu"):
        if any(row.variant == variant and row.device == device for row in record.rows):
            return Rung(variant, device)
    return None
