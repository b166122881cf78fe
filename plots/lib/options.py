"""What the reader of a record asks to see."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from plots.lib.record import Over, Record

# On simt the times are CPU times of kernels written for a GPU: as a picture they would teach the wrong lesson.
DEFAULT_DEVICES = ("cuda", "cpu")


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
