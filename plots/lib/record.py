"""Records as the plots read them: their rows, the tree of bases, and speedups over the root of a tree or over the base.

Nothing here knows a variant, a workload or a family by name: all of them are found in the records. Records of schema
versions 1 and 2 are read; what an older one does not state is None or empty.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from plots.lib import origin
from plots.lib.inputs import InputError, json_object, read_bytes

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "harness" / "records" / "record.schema.json"
SCOPES: tuple[str, ...] = tuple(json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]["scope"]["enum"])
RENAMED = ROOT / "results" / "renamed.json"
LOCAL = ("latest", "local")  # folders of results/ that are not committed
OF_SOURCES = ("seeds*.json", "shapes.json")  # beside record.json: the workloads of the sources' figures
OF_TURNS = "comparisons*.json"  # beside record.json: sessions of rungs and their bases in turns
# How a scope is called in a title; one that has no phrase here is called by its name.
PHRASES = {
    "upload": "the upload of the points",
    "download": "the download of the results",
    "initialise": "the initial centroids",
    "assign": "the assignment",
    "update": "the update",
    "iteration": "one iteration",
    "solve": "the solve (all iterations)",
    "end_to_end": "the whole run, host memory to host memory",
    "cold_start": "a cold start, from a fresh process to the results",
}
SCOPE_TITLES = {scope: PHRASES.get(scope, scope.replace("_", " ")) for scope in SCOPES}
TIMES = "\N{MULTIPLICATION SIGN}"
SPACE = "\N{NO-BREAK SPACE}"  # where a line must not end
DAGGER = "\N{DAGGER}"
# A family with more workloads than this is drawn and tabled by kind, not workload by workload.
MANY_WORKLOADS = 6

Over = Literal["root", "base"]
T = TypeVar("T")


RecordError = InputError  # a sentence: which record, what is wrong with it, and what to do


@dataclass(frozen=True)
class Device:
    stem: str  # in the names of pictures
    title: str
    heading: str


# Times of different devices never meet in one figure. Those on simt are CPU times of a GPU's kernels.
DEVICES = {
    "cuda": Device("gpu", "on the GPU", "GPU"),
    "cpu": Device("cpu", "CPU times, native code", "cpu (native host code)"),
    "simt": Device("simt", "CPU times of the GPU's source (simt)", "simt (the .cu text on the CPU)"),
}


@dataclass(frozen=True)
class Renamed:
    """results/renamed.json: today's ids of variants that older records call otherwise, and why some are gone."""

    ids: dict[str, str] = field(default_factory=dict)  # old id -> today's
    retired: dict[str, str] = field(default_factory=dict)  # old id -> why no variant of today is the same

    def today(self, variant: str) -> str:
        return self.ids.get(variant, variant)

    def concerns(self, variants: Iterable[str]) -> bool:
        """Whether any of these is an id of the past, so that the record is an older one."""
        return any(variant in self.ids or variant in self.retired for variant in variants)


@lru_cache
def renamed(path: Path = RENAMED) -> Renamed:
    """The table of the repository; an empty one where there is none."""
    if not path.is_file():
        return Renamed()
    document = read_json(path)
    parts = [document.get(part, {}) for part in ("renamed", "retired")]
    if not all(isinstance(part, dict) and all(isinstance(text, str) for text in part.values()) for part in parts):
        raise RecordError(f"{path}: `renamed` and `retired` must hold a text for each id.")
    return Renamed(*parts)


@lru_cache
def card_bases() -> dict[str, str]:
    """Base of every variant as today's cards have it."""
    from plots.lib import cards  # cards read their files through this module

    return {card.id: card.base for card in cards.load().values()}


@lru_cache
def field_names(kind: type) -> tuple[frozenset[str], tuple[str, ...]]:
    """Of a dataclass all fields, and those without a default: asked once, not once per row."""
    known = fields(kind)
    needed = tuple(f.name for f in known if f.default is f.default_factory is MISSING)
    return frozenset(f.name for f in known), needed


def made(kind: type[T], entry: dict[str, Any]) -> T:
    """The dataclass from the entries that are its fields; a field without an entry keeps its default."""
    known, needed = field_names(kind)
    if missing := [name for name in needed if name not in entry]:
        what = f"a {kind.__name__.lower()} of the record lacks {', '.join(missing)}"
        raise RecordError(f"{what}: run python -m plots.check.")
    return kind(**{name: value for name, value in entry.items() if name in known})


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
    metric: str = "euclidean"
    kernel: str = "none"
    init_hash: str | None = None
    nonzeros: int | None = None  # coordinates that are not zero

    @property
    def size(self) -> str:
        return f"{self.n:,} {TIMES} {self.d}, K = {self.k:,}".replace(" ", SPACE).replace(f",{SPACE}", ", ")

    @property
    def kind(self) -> str:
        """dense or sparse; empty where the record does not count zeros."""
        if self.nonzeros is None:
            return ""
        return "sparse" if 2 * self.nonzeros < self.n * self.d else "dense"

    @property
    def problem(self) -> tuple[object, ...]:
        """What must be equal in two records under one name; older records have no init_hash."""
        return (self.n, self.d, self.k, self.type, self.stop, self.seed, self.metric, self.kernel, self.data_hash)


@dataclass(frozen=True)
class Row:
    """One row; the fields are those of harness/records/record.schema.json."""

    variant: str
    base: str
    workload: str
    device: str
    scope: str
    status: str
    reason: str
    samples_ms: list[float]
    median_ms: float | None
    q1_ms: float | None = None  # quartiles: None below five samples
    q3_ms: float | None = None
    key: str | None = None
    source_hash: str = ""  # of the rung's text that was measured; empty in older records
    idea: str = ""
    shows: str = ""
    axes: dict[str, int] = field(default_factory=dict)
    cache: str = "warm"
    tuned: bool = False  # the axes are those that `ladder tune` found
    session: int | None = None  # place among several sessions of the same; None where there is one
    turns: dict[str, Any] | None = None  # the variants whose sessions took turns with this one
    gpus: int | None = None  # of each rank
    ranks: int | None = None
    communication_ms: float | None = None
    communication_share: float | None = None
    parallel_efficiency: float | None = None
    sustained_seconds: float | None = None
    per_iteration_ms: float | None = None
    verdict: str | None = None
    validation: dict[str, Any] | None = None
    iterations: int | None = None
    solve_iterations: list[int] = field(default_factory=list)  # per sample
    reassigned: list[int] = field(default_factory=list)  # this and the next three: per iteration
    inertia: list[float] = field(default_factory=list)
    iteration_ms: list[float] = field(default_factory=list)
    counters: dict[str, list[int]] = field(default_factory=dict)
    labels_differ: int | None = None
    retries: int | None = None
    sm_mhz: list[float] = field(default_factory=list)  # per sample
    median_mhz: float | None = None
    settled_mhz: float | None = None
    watts: float | None = None
    watt_limit: float | None = None
    prepare_ms: float | None = None
    parts_ms: dict[str, float] = field(default_factory=dict)  # of a cold start
    peak_device_bytes: int | None = None
    flop: float | None = None
    bytes: float | None = None
    gflops: float | None = None
    gbs: float | None = None
    floor_ms: float | None = None
    bound_by: str | None = None
    roof_percent: float | None = None
    launch_bound: bool | None = None
    dump: str | None = None
    git_sha: str | None = None  # the commit that it was measured at, where that is not the record's
    host_cores: int | None = None  # of the host that it was measured on, likewise
    folder: Path = Path()  # of the record: what a dump is relative to
    path: Path = Path()  # of the record

    @property
    def timed(self) -> bool:
        """Its time may be drawn: it is valid. An unstable one is drawn, and marked."""
        return self.status in ("ok", "unstable")

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Variant, device, workload and scope: what the time is of."""
        return self.variant, self.device, self.workload, self.scope


@dataclass(frozen=True)
class Axis:
    """A tuning axis as the card declares it."""

    name: str
    values: list[int]
    standard: int
    reported: list[int] = field(default_factory=list)  # what the card's source found best, on its device


@dataclass(frozen=True)
class Tuning:
    """Result of a sweep of a variant's axes on a workload; the curve is in the rows."""

    variant: str
    workload: str
    device: str
    scope: str
    axes: list[Axis]
    held: dict[str, int]
    standard: dict[str, int]
    standard_ms: float | None
    best: dict[str, int] | None
    best_ms: float | None
    reason: str
    method: str
    points: int
    gaps: int

    def axis(self, name: str) -> Axis | None:
        """The axis of that name, where it was swept."""
        return next((a for a in self.axes if a.name == name and name not in self.held), None)


@dataclass(frozen=True)
class Comparison:
    """Times of one variant to those of another from several sessions of each; ratios below 1 are faster."""

    base: str
    candidate: str
    workload: str
    device: str
    scope: str
    ratio: float
    low: float
    high: float
    base_ms: float
    candidate_ms: float
    base_sessions: int
    candidate_sessions: int
    method: str  # interleaved: the sessions took turns; apart: its interval rests on a scatter from elsewhere
    verdict: str = "UNSURE"  # FASTER, SLOWER, SAME, UNSURE (docs/comparing.md)


@dataclass(frozen=True)
class Rung:
    """A variant on a device: what a line of a figure or table stands for."""

    variant: str
    device: str


@dataclass(frozen=True)
class Gap:
    """Where a time or a speedup should be and is not."""

    status: str  # refused, failed, invalid, checked, not run, no base
    reason: str


@dataclass(frozen=True)
class Speedup:
    """Median of the reference over that of the variant. Quartiles are the variant's own, None below five samples."""

    value: float
    low: float | None
    high: float | None
    ms: float
    unstable: bool
    reference: str  # the variant whose time the value is over; its own name where it has nothing below it
    instead: str = ""  # why not over the one that was asked for; empty where it is
    launch_bound: bool = False

    @property
    def reference_ms(self) -> float:
        return self.ms * self.value


@dataclass(frozen=True)
class Column:
    """A workload; or all of one kind of a family of many, which stand together by their median."""

    name: str
    workloads: tuple[Workload, ...]


@dataclass(frozen=True)
class Cell:
    """A rung in a column: medians over its workloads."""

    ms: float
    speedup: float | None  # None: nothing to compare with
    reference: str | None  # over which variant, where it is one for all
    roof_percent: float | None
    bound_by: str | None
    launch_bound: bool  # on any
    unstable: bool  # on any
    notes: tuple[str, ...]  # what must be said of the speedup


@dataclass(frozen=True)
class Source:
    """A file that rows are from."""

    path: Path
    context: dict[str, Any]
    version: int
    older: bool = False  # it calls variants by ids of the past
    retired: tuple[str, ...] = ()  # variants of the past whose rows were left out

    @property
    def machine_kind(self) -> str:
        """GPU and processor. With a GPU the number of host cores may differ: it is shown beside the figures."""
        gpu, host = self.context["gpu"], self.context["host"]
        return f"{gpu['name']}, {host['cpu']}" if gpu else f"no GPU, {host['cpu']}, {host['cores']} cores"

    @property
    def shown(self) -> str:
        """The path as a reader finds it: from the root of the project, or its name alone."""
        path = self.path.resolve()
        return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


@dataclass
class Record:
    """One record, or several of one kind of machine with their rows together."""

    sources: list[Source]
    workloads: dict[str, Workload]
    rows: list[Row]
    tuning: list[Tuning] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    bases: dict[str, str] = field(init=False)  # variant -> base, in the order of the record
    shows: dict[str, str] = field(init=False)
    ideas: dict[str, str] = field(init=False)
    skipped: int = field(init=False)  # rows that repeat a key with other axes, another cache state or in another file

    def __post_init__(self) -> None:
        first = {}  # the first row of a variant: of several records, that of the newest card
        for row in self.rows:
            first.setdefault(row.variant, row)
        self.bases = {variant: row.base for variant, row in first.items()}
        if any(source.older for source in self.sources):
            self._bridge()
        self.shows = {variant: row.shows for variant, row in first.items()}
        self.ideas = {variant: row.idea for variant, row in first.items()}
        self._index: dict[tuple[str, str, str, str], Row] = {}
        # A row of a run of its own stands before those of sessions in turns, which are for ratios.
        for row in sorted(self.rows, key=lambda row: row.turns is not None):
            self._index.setdefault(row.place, row)
        self.skipped = len(self.rows) - len(self._index)
        self._largest: dict[str, tuple[str, int]] = {}  # device -> foot of its largest tree, and how many are in that

    def _bridge(self) -> None:
        """Of an older record: a base that it has no rows of gives way to the next one below it that it has."""
        below = card_bases()
        for variant, base in self.bases.items():
            found = base
            while found and found not in self.bases:
                found = below.get(found, "")
            self.bases[variant] = found or base

    @property
    def retired_note(self) -> str:
        """Which variants of the past are left out, and why; empty where there are none."""
        names = dict.fromkeys(name for source in self.sources for name in source.retired)
        reasons = renamed().retired
        return "; ".join(f"{name}: {reasons[name]}" for name in names)

    def row(self, rung: Rung, workload: str, scope: str) -> Row | None:
        """The first row of that key: a run puts the standard axes first. One of several sessions in turns only where
        there is no other."""
        return self._index.get((rung.variant, rung.device, workload, scope))

    def only(self, patterns: Iterable[str]) -> Record:
        """The same without other workloads than these: names or families, or globs over them.

        Throws RecordError where one of them meets none.
        """
        kept: dict[str, Workload] = {}
        for pattern in patterns:
            found = {
                n: w for n, w in self.workloads.items() if fnmatchcase(n, pattern) or fnmatchcase(w.family, pattern)
            }
            if not found:
                raise RecordError(f"{self.names}: has no workload {pattern}, but {', '.join(self.workloads)}.")
            kept |= found
        workloads = {name: workload for name, workload in self.workloads.items() if name in kept}
        rows = [row for row in self.rows if row.workload in workloads]
        return Record(
            self.sources,
            workloads,
            rows,
            [t for t in self.tuning if t.workload in workloads],
            [c for c in self.comparisons if c.workload in workloads],
        )

    def restricted(self, rungs: Iterable[Rung]) -> Record:
        """The same without the rows of other rungs."""
        wanted = set(rungs)
        rows = [row for row in self.rows if Rung(row.variant, row.device) in wanted]
        return Record(self.sources, self.workloads, rows, self.tuning, self.comparisons)

    def behind(self, rows: Iterable[Row]) -> Record:
        """The same with only the sources that these rows are from, so that a footer names no others."""
        paths = {row.path for row in rows}
        sources = [source for source in self.sources if source.path in paths] or self.sources
        return Record(sources, self.workloads, self.rows, self.tuning, self.comparisons)

    def families(self, names: Iterable[str]) -> dict[str, list[Workload]]:
        """The named workloads by family, both in the order of the record."""
        wanted = set(names)
        found: dict[str, list[Workload]] = {}
        for workload in self.workloads.values():
            if workload.name in wanted:
                found.setdefault(workload.family, []).append(workload)
        return found

    def columns(self, names: Iterable[str]) -> list[Column]:
        """A column per workload; one per kind for a family of many."""
        found: list[Column] = []
        for family, members in self.families(names).items():
            if len(members) <= MANY_WORKLOADS:
                found += [Column(w.name, (w,)) for w in members]
                continue
            for kind in dict.fromkeys(w.kind for w in members):
                alike = tuple(w for w in members if w.kind == kind)
                found.append(Column(f"{family}{' ' if kind else ''}{kind} ({len(alike)} files)", alike))
        return found

    def workloads_on(self, device: str, scopes: Iterable[str] = SCOPES) -> list[str]:
        """Workloads with at least one valid time on this device in these scopes."""
        wanted = set(scopes)
        names = {row.workload for row in self.rows if row.device == device and row.scope in wanted and row.timed}
        return [name for name in self.workloads if name in names]

    def timed_variants(self, device: str, scope: str) -> dict[str, set[str]]:
        """By workload those with a valid time on this device in this scope."""
        found: dict[str, set[str]] = {name: set() for name in self.workloads_on(device, [scope])}
        for row in self.rows:
            if row.device == device and row.scope == scope and row.timed:
                found[row.workload].add(row.variant)
        return found

    def rungs(self, device: str) -> list[Rung]:
        """All variants that have rows on this device, in the order of the tree."""
        present = {row.variant for row in self.rows if row.device == device}
        return [Rung(variant, device) for variant in tree_order(self.bases) if variant in present]

    def ancestors(self, variant: str) -> list[str]:
        """The chain of bases as far as it stays in the record, the base first."""
        chain: list[str] = []
        while (base := self.bases.get(variant, "")) in self.bases:
            chain.append(base)
            variant = base
        return chain

    def root(self, variant: str) -> str | None:
        """The variant at the foot of the chain of bases, or None where the chain leaves the record."""
        foot = self.foot(variant)
        return foot if self.bases.get(foot) == "" else None

    def foot(self, variant: str) -> str:
        """The last variant of the chain of bases that is in the record: the root, or one whose base is not here."""
        return ([variant, *self.ancestors(variant)])[-1]

    def lone(self, variant: str) -> bool:
        """A root from which nothing was made: a library's, for one."""
        return self.bases[variant] == "" and variant not in self.bases.values()

    def against(self, rung: Rung) -> str:
        """The foot of its tree; for a lone root that of the largest tree on its device, so that it has a measure."""
        if not self.lone(rung.variant):
            return self.foot(rung.variant)
        if rung.device not in self._largest:
            feet = Counter(self.foot(other.variant) for other in self.rungs(rung.device))
            self._largest[rung.device] = feet.most_common(1)[0]
        foot, members = self._largest[rung.device]
        return foot if members > 1 else rung.variant

    def speedup(self, rung: Rung, workload: str, scope: str, over: Over = "root") -> Speedup | Gap:
        """How much faster than its root or its base, on the same device, workload and scope.

        Without the root in the record it is over the base. Where the root has no time here, it is over the ancestor
        next to it that has one; where the base has none, over the nearest; and it says so. A lone root is over that of
        the largest tree; what has nothing at all below it is its own reference.
        """
        row = self.row(rung, workload, scope)
        if row is None:
            return Gap("not run", f"{rung.variant} has no {scope} row on {workload}.")
        if not row.timed or row.median_ms is None:
            return Gap(row.status, row.reason)
        chain = self.ancestors(rung.variant)
        foot = self.against(rung)
        if over == "root" and foot != rung.variant and not chain:
            chain = [foot, rung.variant]
        instead = ""
        below: Row | None = row
        if chain:
            root = foot if self.bases[foot] == "" else None
            asked = root if over == "root" and root else chain[0]
            if over == "root" and not root:
                instead = f"the root of {rung.variant} is not in this record"
            others = reversed(chain) if asked == root else chain
            below = next((r for r in (self._time(v, row) for v in (asked, *others)) if r), None)
            if below is None:
                return Gap("no base", f"{asked} has no valid {scope} time here.")
            if below.variant != asked:
                instead = f"{asked} has no valid {scope} time here"
            if instead:
                instead = f"over {below.variant}: {instead}."
        assert below and below.median_ms
        top = below.median_ms
        return Speedup(
            top / row.median_ms,
            top / row.q3_ms if row.q3_ms else None,
            top / row.q1_ms if row.q1_ms else None,
            row.median_ms,
            "unstable" in (row.status, below.status),
            below.variant,
            instead,
            bool(row.launch_bound),
        )

    def _time(self, variant: str, row: Row) -> Row | None:
        """The variant's row of the same measurement, where it has a valid time."""
        found = self.row(Rung(variant, row.device), row.workload, row.scope)
        return found if found and found.timed and found.median_ms else None

    def cell(self, rung: Rung, column: Column, scope: str, over: Over = "root") -> Cell | Gap:
        """Medians over the column's workloads, or why one of them has no time."""
        results = [self.speedup(rung, w.name, scope, over) for w in column.workloads]
        missing = [r for r in results if isinstance(r, Gap) and r.status != "no base"]
        if absent := next((gap for gap in missing if gap.status == "not run"), None):
            return absent
        if missing:
            count = f" on {len(missing)} of {len(results)}" if len(results) > 1 else ""
            return Gap(missing[0].status + count, missing[0].reason)
        rows = [row for w in column.workloads if (row := self.row(rung, w.name, scope)) and row.median_ms]
        good = [r for r in results if isinstance(r, Speedup)]
        references = {s.reference for s in good}
        notes = [r.reason if isinstance(r, Gap) else r.instead for r in results]
        roofs = [row.roof_percent for row in rows if row.roof_percent is not None]
        bounds = [row.bound_by for row in rows if row.bound_by]
        return Cell(
            median(row.median_ms for row in rows if row.median_ms),
            # A median over fewer workloads than its neighbours' would not compare.
            median(s.value for s in good) if len(good) == len(results) else None,
            references.pop() if len(references) == 1 else None,
            median(roofs) if len(roofs) == len(rows) else None,
            max(set(bounds), key=bounds.count) if bounds else None,
            any(row.launch_bound for row in rows),
            any(s.unstable for s in good) or any(row.status == "unstable" for row in rows),
            tuple(dict.fromkeys(note for note in notes if note)),
        )

    # ----------------------------------------------------------------------------------------------- where it is from

    @property
    def names(self) -> str:
        return " + ".join(source.path.name for source in self.sources)

    @property
    def when(self) -> str:
        found = [str(source.context["time"]).replace("T", " ").replace("Z", " UTC") for source in self.sources]
        return ", ".join(dict.fromkeys(found))

    @property
    def commits(self) -> list[str]:
        found = []
        for context in (source.context for source in self.sources):
            sha = str(context["git_sha"])[:10] or "unknown"
            found.append(f"git {sha}" + (" with uncommitted changes" if context["git_dirty"] else ""))
        found += [f"git {row.git_sha[:10]}" for row in self.rows if row.git_sha]
        return list(dict.fromkeys(found))

    @property
    def git(self) -> str:
        return ", ".join(self.commits)

    def machine(self, device: str | None = None) -> str:
        """The processor behind the figures of a device, or all of this record's."""
        parts = []
        for context in (source.context for source in self.sources):
            gpu = context["gpu"]
            if gpu and device in ("cuda", None) and any(row.device == "cuda" for row in self.rows):
                parts.append(f"{gpu['name']} (driver {gpu['driver']}, CUDA {gpu['cuda']})")
        if device != "cuda":
            hosts = [source.context["host"] for source in self.sources]
            every = [host["cores"] for host in hosts] + [row.host_cores for row in self.rows if row.host_cores]
            cores = " or ".join(dict.fromkeys(str(count) for count in every))
            parts.append(f"{hosts[0]['cpu']} ({cores} cores)")
        return " · ".join(dict.fromkeys(parts))

    def cores_of(self, rows: Iterable[Row]) -> str:
        """How many cores the hosts had on which these rows were measured: 16, or 16 or 32."""
        of_record = {source.path: source.context["host"]["cores"] for source in self.sources}
        counts = {row.host_cores or of_record[row.path] for row in rows}
        return " or ".join(map(str, sorted(counts)))

    def footer(self, device: str | None = None) -> str:
        complete = all(source.context["complete"] for source in self.sources)
        state = [] if complete else ["the run was not complete"]
        return " · ".join([self.machine(device), self.when, self.git, *state])

    def event_floor_us(self, device: str) -> float | None:
        """What two events measure on this device with nothing between them."""
        for source in self.sources:
            ceilings = (source.context.get("ceilings") or {}).get(device) or {}
            if ceilings.get("empty_event_us"):
                return float(ceilings["empty_event_us"])
        return None

    def launch_note(self, device: str, mark: str = DAGGER, of_several: bool = False) -> str:
        """What the mark of a launch-bound time means; `of_several`: where it may stand at a mean over workloads."""
        floor = self.event_floor_us(device)
        measured = f" ({number(floor)} µs)" if floor else ""
        where = " (of several workloads: one at least)" if of_several else ""
        return (
            f"{mark} under ten times what two events measure with nothing between them{measured}: mostly launch{where}."
        )


def tree_order(bases: dict[str, str]) -> list[str]:
    """Each variant after its base, as deep as the chain goes, before the base's next child; roots that nothing was made
    from, as of libraries, last; otherwise as given."""
    children: dict[str, list[str]] = {}
    for variant, base in bases.items():
        children.setdefault(base if base in bases else "", []).append(variant)
    order: list[str] = []
    roots = sorted(children.get("", []), key=lambda root: root not in children)
    pending = list(reversed(roots))
    while pending:
        variant = pending.pop()
        order.append(variant)
        pending.extend(reversed(children.get(variant, [])))
    return order


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


def percent(value: float) -> str:
    """One digit below one, none above: 0.04 %, 0.3 %, 8 %, 74 %."""
    if value <= 0 or value >= 0.95:
        return f"{value:.0f}{SPACE}%"
    return f"{value:.{-math.floor(math.log10(value))}f}{SPACE}%"


def ms(value: float) -> str:
    return f"{number(value)}{SPACE}ms"


def number(value: float) -> str:
    """Three digits, without an exponent: 0.0123, 1.20, 12.3, 123, 12,300."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)) + 1e-9)
    return f"{value:.{digits}f}"


def read_json(path: Path) -> dict[str, Any]:
    """The file's JSON object; where it is one of the repository's records, pictures name it."""
    content = read_bytes(path)
    document = json_object(path, content, "`ladder run`")
    origin.note(path, content)
    return document


def today(document: dict[str, Any], retired: bool) -> dict[str, Any]:
    """The document with today's ids in place of those of the past, and bases as today's cards have them.

    Rows of retired variants are left out, or keep their ids where `retired`. A document without ids of the past is
    returned as it is.
    """
    names = renamed()
    entries = {part: document.get(part, []) for part in ("rows", "tuning", "comparisons")}
    if not names.concerns(entry["variant"] for part in ("rows", "tuning") for entry in entries[part]):
        return document
    recorded = {row["variant"]: row["base"] for row in entries["rows"]}

    def base_of(variant: str) -> str:
        base = recorded.get(variant, "")
        while base in names.retired and base in recorded:  # one without a row stays: a rung is no root
            base = recorded[base]
        return card_bases().get(names.today(variant), names.today(base))

    def kept(entry: dict[str, Any]) -> bool:
        ids = (
            {entry.get(key) for key in ("variant", "base", "candidate")} if "candidate" in entry else {entry["variant"]}
        )
        return retired or not ids & set(names.retired)

    def renewed(entry: dict[str, Any]) -> dict[str, Any]:
        if "candidate" in entry:
            return entry | {key: names.today(entry[key]) for key in ("base", "candidate")}
        base = {"base": base_of(entry["variant"])} if "base" in entry else {}
        return entry | {"variant": names.today(entry["variant"])} | base

    return document | {part: [renewed(e) for e in found if kept(e)] for part, found in entries.items()}


def from_document(document: dict[str, Any], path: Path, retired: bool = False) -> Record:
    """A record from a document that python -m plots.check found sound, with today's ids.

    Rows of variants that are retired are left out; with `retired` they are kept, by their old ids.
    """
    past = [row["variant"] for row in document["rows"]]
    left_out = () if retired else tuple(dict.fromkeys(v for v in past if v in renamed().retired))
    older = renamed().concerns(past)
    document = today(document, retired)
    workloads = {entry["name"]: made(Workload, entry) for entry in document["workloads"]}
    rows = []
    place = {"folder": path.resolve().parent, "path": path}
    for entry in document["rows"]:
        if not isinstance(entry.get("sm_mhz"), list):  # schema 1 had one clock for all samples
            entry = entry | {"sm_mhz": [], "median_mhz": entry.get("sm_mhz")}
        rows.append(made(Row, entry | place))
    tuning = [
        made(Tuning, entry | {"axes": [made(Axis, axis) for axis in entry["axes"]]})
        for entry in document.get("tuning", [])
    ]
    comparisons = [made(Comparison, entry) for entry in document.get("comparisons", [])]
    source = Source(path, document["context"], document["schema_version"], older, left_out)
    return Record([source], workloads, rows, tuning, comparisons)


def together(records: Sequence[Record]) -> list[Record]:
    """Records of one schema on one kind of machine as one, in the order given; those of others stay apart."""
    groups: dict[tuple[int, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.sources[0].version, record.sources[0].machine_kind), []).append(record)
    return [merged(group) for group in groups.values()]


def of_one_gpu(records: Sequence[Record], what: str = "the page") -> Record:
    """The one that has rows of a GPU, of records that are of one kind of machine each."""
    found = [record for record in together(records) if record.workloads_on("cuda")]
    if len(found) != 1:
        raise RecordError(f"the records are of no GPU, or of several kinds: {what} is of one.")
    return found[0]


def committed() -> list[Path]:
    """The repository's record of each machine: results/DEVICE/record.json."""
    found = [p for p in sorted((ROOT / "results").glob("*/record.json")) if p.parent.name not in LOCAL]
    if not found:
        raise RecordError("results/ holds no record: name one, or make one by `ladder run --out`.")
    return found


def committed_with(*names: str) -> list[Path]:
    """The same, and beside each those of its folder that the globs name."""
    found = committed()
    folders = dict.fromkeys(path.parent for path in found)
    return found + [path for folder in folders for name in names for path in sorted(folder.glob(name))]


def committed_with_turns() -> list[Path]:
    """With those of sessions in turns: what a step gains, with its interval."""
    return committed_with(OF_TURNS)


def committed_for_sources() -> list[Path]:
    """With those of the sources' own workloads."""
    return committed_with(*OF_SOURCES)


def merged(records: Sequence[Record]) -> Record:
    """All rows; of one that is in several records the first, but for refusals where another has a time: a library was
    not installed, say. Throws RecordError where they contradict each other."""
    if len(records) == 1:
        return records[0]
    first = records[0]
    workloads: dict[str, Workload] = {}
    bases: dict[str, tuple[str, Record]] = {}  # variant -> base, and the record that says so
    for record in records:
        if record.sources[0].version != first.sources[0].version:
            raise RecordError(
                f"{first.names} is of schema {first.sources[0].version}, {record.names} of schema "
                f"{record.sources[0].version}: their rows do not mean the same; make the older one anew."
            )
        if record.sources[0].machine_kind != first.sources[0].machine_kind:
            raise RecordError(
                f"{first.names} was made on {first.sources[0].machine_kind}; {record.names} on "
                f"{record.sources[0].machine_kind}: their times do not belong together."
            )
        for name, workload in record.workloads.items():
            if workloads.setdefault(name, workload).problem != workload.problem:
                raise RecordError(f"{first.names} and {record.names} mean different problems by workload {name}.")
        for variant, base in record.bases.items():
            said, by = bases.setdefault(variant, (base, record))
            # An older record lacks rungs between.
            if said == base or record.sources[0].older:
                continue
            if not by.sources[0].older:
                raise RecordError(f"{by.names} says that {variant} is based on '{said}', {record.names} says '{base}'.")
            bases[variant] = (base, record)
    timed = {row.place: record for record in reversed(records) for row in record.rows if row.timed}
    alone = {row.place for record in records for row in record.rows if row.turns is None}
    standard: dict[str, dict[str, int]] = {}  # variant -> its axes' values in the first record that has it
    for record in records:
        for row in record.rows:
            if not row.tuned:
                standard.setdefault(row.variant, row.axes)

    def of_today(row: Row) -> bool:
        today = standard.get(row.variant, {})
        return all(today.get(axis, value) == value for axis, value in row.axes.items())

    rows = [
        row
        for record in records
        for row in record.rows
        # An older record may have been made with other standard values: those rows are of another variant. A sweep has
        # all values.
        if (row.status != "refused" or timed.get(row.place, record) is record)
        and (row.turns is None or row.place not in alone)  # sessions in turns are for ratios
        and (not record.sources[0].older or record.tuning or of_today(row))
    ]
    return Record(
        [s for r in records for s in r.sources],
        workloads,
        rows,
        [t for r in records for t in r.tuning],
        [c for r in records for c in r.comparisons],
    )
