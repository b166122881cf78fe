"""What the reader of a record asks to see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from plots.lib.record import Over, Record, Workload

# On simt the times are CPU times of kernels written for a GPU: as a picture they would teach the wrong lesson.
DEFAULT_DEVICES = ("cuda", "cpu")


LEAST_BARS = 3  # a picture of fewer compares next to nothing


def bars(record: Record, device: str, workloads: Iterable[Workload], scopes: Iterable[str]) -> int:
    """How many variants have a time on this device, in any of these workloads and scopes."""
    names, wanted = {w.name for w in workloads}, set(scopes)
    rows = (row for row in record.rows if row.device == device and row.workload in names and row.scope in wanted)
    return len({row.variant for row in rows if row.timed})


def too_few(record: Record, device: str, count: int) -> bool:
    """Whether so many bars are fewer than a picture needs. A record of one or two variants is drawn all the same."""
    timed = {row.variant for row in record.rows if row.device == device and row.timed}
    return count < min(LEAST_BARS, len(timed))


@dataclass(frozen=True)
class Options:
    devices: tuple[str, ...] = DEFAULT_DEVICES
    scopes: tuple[str, ...] = ()  # empty: what the figure shows by itself
    over: Over = "root"
    workloads: tuple[str, ...] = ()  # as asked for: names, families or globs; empty: all of the record
    points: Path | None = None  # the file behind a workload of one's own

    @property
    def suffix(self) -> str:
        """What a picture of speedups is called beside the usual one."""
        return "" if self.over == "root" else f"_over_{self.over}"

    def signature(
        self,
        record: Record,
        figure: str,
        device: str | None = None,
        scope: str | None = None,
        workload: str | None = None,
        over: bool = False,
    ) -> list[str]:
        """The foot of a page: machine, time and sources; and the command that draws this page from its records."""
        command = ["python -m plots.draw", *(source.shown for source in record.sources), "--only", figure]
        if scope:
            command += ["--scope", scope]
        if over and self.over != "root":
            command += ["--over", self.over]
        for name in (workload,) if workload else self.workloads:
            command += ["--workload", quote(name)]
        if device and device not in DEFAULT_DEVICES:
            command += ["--device", device]
        return [record.footer(device), "drawn by " + " ".join(command)]


def with_columns(record: Record, options: Options, device: str, scope: str) -> list[str]:
    """The workloads that get a column: those with a valid time that is not of sessions in turns.

    Sessions in turns are for ratios, often of two rungs alone: their times fill gaps in a column. They make a column
    only where workloads are asked for by name, or where the record has no other times.
    """
    names = record.workloads_on(device, [scope])
    rows = [row for row in record.rows if (row.device, row.scope) == (device, scope) and row.timed]
    alone = {row.workload for row in rows if row.turns is None}
    return [name for name in names if name in alone or options.workloads or not alone]
