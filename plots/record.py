"""A record as the plots read it: its rows, the tree of bases, and speedups over the root of a tree.

Nothing here knows a variant, a workload or a family by name: all of them are found in the record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCOPES = ("upload", "download", "initialise", "assign", "update", "iteration", "solve", "end_to_end")
SCOPE_TITLES = {
    "upload": "the upload of the points",
    "download": "the download of labels and centroids",
    "initialise": "the initialisation",
    "assign": "the assignment",
    "update": "the update",
    "iteration": "one iteration",
    "solve": "the solve (all iterations)",
    "end_to_end": "the whole run, host memory to host memory",
}
# A time on simt is a CPU time: the two classes never meet in one figure.
DEVICE_CLASSES = {"gpu": ("cuda",), "cpu": ("cpu", "simt")}
TIMES = "\N{MULTIPLICATION SIGN}"
# A family with more workloads than this is drawn and tabled as its average, not workload by workload.
MANY_WORKLOADS = 6


class RecordError(Exception):
    """A sentence: which record, what is wrong with it, and what to do."""


@dataclass(frozen=True)
class Workload:
    name: str
    family: str
    title: str
    n: int
    d: int
    k: int
    type: str
    stop: str
    data_hash: str
    source: str
    seed: int = 0

    @property
    def size(self) -> str:
        return f"{self.n:,} {TIMES} {self.d}, K = {self.k:,}"


@dataclass(frozen=True)
class Row:
    """One row; the fields are those of harness/records/record.schema.json."""

    variant: str
    base: str
    idea: str
    shows: str
    workload: str
    device: str
    scope: str
    status: str
    reason: str
    axes: dict[str, int]
    cache: str
    samples_ms: list[float]
    median_ms: float | None
    q1_ms: float | None
    q3_ms: float | None
    validation: dict[str, Any] | None
    iterations: int | None
    reassigned: list[int]
    inertia: list[float]
    peak_device_bytes: int | None
    sm_mhz: float | None
    flop: float
    bytes: float
    dump: str | None
    # Not in the first records.
    verdict: str = ""
    warm_up_seconds: float = 0
    settled_mhz: float | None = None
    sm_mhz_samples: list[float] = field(default_factory=list)
    retries: int = 0
    sample_iterations: list[int] = field(default_factory=list)
    labels_differ: int = 0
    per_iteration_ms: float | None = None
    iteration_ms: list[float] = field(default_factory=list)
    counters: dict[str, list[int]] = field(default_factory=dict)
    prepare_ms: float = 0

    @property
    def timed(self) -> bool:
        """Its time may be drawn: it is valid. An unstable one is drawn, and marked."""
        return self.status in ("ok", "unstable")


@dataclass(frozen=True)
class Rung:
    """A variant on a device: what a line of a figure or table stands for."""

    variant: str
    device: str


@dataclass(frozen=True)
class Gap:
    """Where a time should be and is not."""

    status: str  # refused, failed, invalid, not run, no root
    reason: str


@dataclass(frozen=True)
class Speedup:
    """Median of the root over median of the variant; the quartiles are the variant's own."""

    value: float
    low: float
    high: float
    ms: float
    unstable: bool


@dataclass
class Record:
    path: Path
    context: dict[str, Any]
    workloads: dict[str, Workload]
    rows: list[Row]
    bases: dict[str, str] = field(init=False)  # variant -> base, in the order of the record
    shows: dict[str, str] = field(init=False)
    skipped: int = field(init=False)  # rows that repeat a key with other axes or another cache state

    def __post_init__(self) -> None:
        self.bases = {row.variant: row.base for row in self.rows}
        self.shows = {row.variant: row.shows for row in self.rows}
        self._index: dict[tuple[str, str, str, str], Row] = {}
        for row in self.rows:
            self._index.setdefault((row.variant, row.device, row.workload, row.scope), row)
        self.skipped = len(self.rows) - len(self._index)

    def row(self, rung: Rung, workload: str, scope: str) -> Row | None:
        """The first row of that key: a run puts the standard axes first."""
        return self._index.get((rung.variant, rung.device, workload, scope))

    def families(self, names: Iterable[str]) -> dict[str, list[Workload]]:
        """The named workloads by family, both in the order of the record."""
        wanted = set(names)
        found: dict[str, list[Workload]] = {}
        for workload in self.workloads.values():
            if workload.name in wanted:
                found.setdefault(workload.family, []).append(workload)
        return found

    def workloads_on(self, devices: Iterable[str], scopes: Iterable[str] = SCOPES) -> list[str]:
        """Workloads with at least one valid time on these devices in these scopes."""
        names = {
            row.workload for row in self.rows if row.device in set(devices) and row.scope in set(scopes) and row.timed
        }
        return [name for name in self.workloads if name in names]

    def rungs(self, devices: Iterable[str]) -> list[Rung]:
        """All variants that have rows on these devices: device by device, each in the order of the tree."""
        order = tree_order(self.bases)
        present = {(row.variant, row.device) for row in self.rows}
        return [Rung(v, device) for device in devices for v in order if (v, device) in present]

    def root(self, variant: str) -> str | None:
        """The variant at the foot of the chain of bases, or None where the chain leaves the record."""
        while variant in self.bases:
            if not self.bases[variant]:
                return variant
            variant = self.bases[variant]
        return None

    def speedup(self, rung: Rung, workload: str, scope: str) -> Speedup | Gap:
        """How much faster than its root, on the same device, workload and scope."""
        row = self.row(rung, workload, scope)
        if row is None:
            return Gap("not run", f"{rung.variant} has no {scope} row on {workload}.")
        if not row.timed:
            return Gap(row.status, row.reason)
        assert row.median_ms
        root = self.root(rung.variant)
        if root is None:
            return Gap("no root", f"the chain of bases of {rung.variant} leaves the record: run its bases too.")
        root_row = self.row(Rung(root, rung.device), workload, scope)
        if root_row is None or not root_row.timed:
            return Gap("no root", f"{root} has no valid {scope} time here.")
        assert root_row.median_ms
        top = root_row.median_ms
        unstable = "unstable" in (row.status, root_row.status)
        # Fewer than five samples have no quartiles: no interval is drawn then.
        low, high = top / (row.q3_ms or row.median_ms), top / (row.q1_ms or row.median_ms)
        return Speedup(top / row.median_ms, low, high, row.median_ms, unstable)

    @property
    def when(self) -> str:
        return str(self.context["time"]).replace("T", " ").replace("Z", " UTC")

    @property
    def git(self) -> str:
        sha = str(self.context["git_sha"])
        if not sha:
            return "git unknown"
        return f"git {sha[:10]}" + (" with uncommitted changes" if self.context["git_dirty"] else "")

    def machine(self, device_class: str | None = None) -> str:
        """The processors behind the figures of a device class, or all of this record's."""
        gpu, host = self.context["gpu"], self.context["host"]
        devices = {row.device for row in self.rows}
        parts = []
        if gpu and "cuda" in devices and device_class in ("gpu", None):
            parts.append(f"{gpu['name']} (driver {gpu['driver']}, CUDA {gpu['cuda']})")
        if device_class in ("cpu", None):
            parts.append(f"{host['cpu']} ({host['cores']} cores)")
        return " · ".join(parts)

    def footer(self, device_class: str | None = None) -> str:
        state = [] if self.context["complete"] else ["the run was not complete"]
        return " · ".join([self.machine(device_class), self.when, self.git, *state])


def tree_order(bases: dict[str, str]) -> list[str]:
    """Each variant after its base, as deep as the chain goes, before the base's next child; otherwise as given."""
    children: dict[str, list[str]] = {}
    for variant, base in bases.items():
        children.setdefault(base if base in bases else "", []).append(variant)
    order: list[str] = []
    pending = list(reversed(children.get("", [])))
    while pending:
        variant = pending.pop()
        order.append(variant)
        pending.extend(reversed(children.get(variant, [])))
    return order


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


def number(value: float) -> str:
    """Three digits, without an exponent: 0.0123, 1.20, 12.3, 123, 12,300."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)) + 1e-9)
    return f"{value:.{digits}f}"


def read_json(path: Path) -> dict[str, Any]:
    """The file's JSON object. NaN and Infinity, which Python would accept, are not JSON."""

    def refuse(constant: str) -> None:
        raise RecordError(f"{path}: {constant} is not JSON; a number that is not finite must be written as null.")

    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: is not UTF-8 text, so it is no record.") from error
    except json.JSONDecodeError as error:
        raise RecordError(
            f"{path}: is not JSON ({error.msg} in line {error.lineno}); was it written by `ladder run`?"
        ) from error
    if not isinstance(document, dict):
        raise RecordError(
            f"{path}: holds a {type(document).__name__}, not a JSON object; was it written by `ladder run`?"
        )
    return document


def from_document(document: dict[str, Any], path: Path) -> Record:
    """A record from a document that plots/check.py found sound."""
    workloads = {entry["name"]: Workload(**entry) for entry in document["workloads"]}
    return Record(path, document["context"], workloads, [Row(**entry) for entry in document["rows"]])
