"""What one rung gained over another: the ratio of their times, with an interval where one was measured.

Where the record compared the two in sessions that took turns, the interval is that comparison's (95 %). Else each has
one session, which cannot show how far two sessions of the same code lie apart: the ratio has no interval
(docs/comparing.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from plots.lib.record import SPACE, TIMES, Comparison, Gap, Record, Row, Rung, Workload, geometric_mean, number

IN_TURNS = "interleaved"  # a comparison's method, where its interval was measured
BRACKETS = "in brackets its 95 % interval from n sessions, base + rung, in turns"
ONE_SESSION = "one session each: no interval"
Texts = dict[str, set[str]]  # by variant: the hashes of the text that was measured


@dataclass(frozen=True)
class Interval:
    """Of 95 %, from sessions of the base and of the rung in turns."""

    low: float
    high: float
    base_sessions: int
    sessions: int


@dataclass(frozen=True)
class Gain:
    """Above 1: faster. Over several workloads the geometric mean, and that of each end of their intervals; no interval
    where one of them has none."""

    value: float
    interval: Interval | None
    unstable: bool
    workloads: tuple[str, ...]

    @property
    def text(self) -> str:
        told = f"{number(self.value)}{TIMES}"
        if found := self.interval:
            told += f" ({number(found.low)} to {number(found.high)}, n = {found.base_sessions} + {found.sessions})"
        return told

    @property
    def faster(self) -> bool:
        """Shown by its interval."""
        return self.interval is not None and self.interval.low > 1

    @property
    def slower(self) -> bool:
        return self.interval is not None and self.interval.high < 1

    @property
    def inverse(self) -> Gain:
        turned = self.interval and Interval(
            1 / self.interval.high,
            1 / self.interval.low if self.interval.low else math.inf,
            self.interval.sessions,
            self.interval.base_sessions,
        )
        return Gain(1 / self.value, turned, self.unstable, self.workloads)


def ends(low: float, high: float) -> str:
    """Of an interval, with as many digits as tell its ends apart, five at most: 1.04 to 1.11, 1.321 to 1.324."""
    digits = next((count for count in (3, 4) if f"{low:.{count}g}" != f"{high:.{count}g}"), 5)
    one, other = (number(end) if digits == 3 else f"{end:,.{max(0, digits - whole(end))}f}" for end in (low, high))
    return f"{one}{SPACE}to{SPACE}{other}"


def whole(value: float) -> int:
    """Digits before the point."""
    return len(str(int(abs(value))))


def timed(record: Record, rung: Rung, workload: str, scope: str) -> Row | Gap:
    row = record.row(rung, workload, scope)
    if row is None:
        return Gap("not run", f"{rung.variant} has no {scope} row on {workload}.")
    return row if row.timed and row.median_ms else Gap(row.status, row.reason)


def gain_of(comparison: Comparison) -> Gain:
    """Of sessions in turns. A comparison has times over the base's, a gain is their inverse."""
    c = comparison
    return Gain(c.ratio, Interval(c.low, c.high, c.candidate_sessions, c.base_sessions), False, (c.workload,)).inverse


def texts_of(record: Record) -> Texts:
    """Of the rows that say of which text they are."""
    texts: Texts = {}
    for row in record.rows:
        if row.source_hash:
            texts.setdefault(row.variant, set()).add(row.source_hash)
    return texts


def of_earlier_text(record: Record, newest: Texts) -> list[Comparison]:
    """Those of the record of which `newest` has another text of the rung or of its base, and none of those compared."""
    here = texts_of(record)

    def earlier(variant: str) -> bool:
        return bool(here.get(variant)) and bool(newest.get(variant)) and not here[variant] & newest[variant]

    return [c for c in record.comparisons if earlier(c.candidate) or earlier(c.base)]


def between(record: Record, rung: Rung, over: Rung, workload: str, scope: str) -> Gain | Gap:
    """Of `rung` over `over`; the two may be of different devices."""
    for c in record.comparisons:
        if c.method == IN_TURNS and (c.candidate, c.base, c.workload, c.device, c.scope) == (
            rung.variant, over.variant, workload, rung.device, scope
        ) and rung.device == over.device:  # fmt: skip
            return gain_of(c)
    mine, other = timed(record, rung, workload, scope), timed(record, over, workload, scope)
    if isinstance(mine, Gap):
        return mine
    if isinstance(other, Gap):
        return Gap("no base", f"{over.variant} has no valid {scope} time here.")
    return of_rows(mine, other)


def of_rows(mine: Row, other: Row) -> Gain:
    """Of one session each: the ratio of the medians."""
    assert mine.median_ms and other.median_ms
    unstable = "unstable" in (mine.status, other.status)
    return Gain(other.median_ms / mine.median_ms, None, unstable, (mine.workload,))


def measured_so(gains: Sequence[Gain]) -> str:
    """What a page says once of its gains: what stands in brackets, and what has none."""
    kinds = {gain.interval is not None for gain in gains}
    said = {frozenset({True}): BRACKETS, frozenset({False}): ONE_SESSION}
    return said.get(frozenset(kinds), f"{BRACKETS}; without brackets, {ONE_SESSION}") if kinds else ""


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
        and row.turns is None
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
    """The geometric mean, and of each end of the intervals where all have one: wider than that of independent ones. Its
    sessions are the fewest that any has."""
    found = [gain.interval for gain in gains if gain.interval]
    interval = None
    if found and len(found) == len(gains):
        interval = Interval(
            geometric_mean(i.low for i in found),
            math.inf if any(math.isinf(i.high) for i in found) else geometric_mean(i.high for i in found),
            min(i.base_sessions for i in found),
            min(i.sessions for i in found),
        )
    return Gain(
        geometric_mean(g.value for g in gains),
        interval,
        any(g.unstable for g in gains),
        tuple(name for g in gains for name in g.workloads),
    )


def device_of(record: Record, variant: str) -> Rung | None:
    """The variant on a GPU where the record has it there, else as native CPU code; never on simt."""
    for device in ("cuda", "cpu"):
        if any(row.variant == variant and row.device == device for row in record.rows):
            return Rung(variant, device)
    return None
