"""docs/goals.md: what the project set out to reach, what was measured, and why a goal is missed.

`python -m plots.goals_page [RECORD...] --update docs/goals.md` writes it with its picture beside it; `--check` exits 1
where the file says anything but what the records say. Without a record: those of every GPU in results/, which are
record.json and what NAMES has. docs/goals.json has the goals, and in words what limits each and what was tried;
verdicts follow from the numbers alone.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.patches import Patch

from plots.figures import counters, roofline, shape_map
from plots.figures.shape_map import Place
from plots.lib import outputs, plans, schema
from plots.lib.claims import named
from plots.lib.heatmap import NONE
from plots.lib.inputs import in_sentences, read_text
from plots.lib.pages import between_marks, cell_text, keep_page, page_arguments
from plots.lib.record import (
    ROOT,
    SCOPE_TITLES,
    TIMES,
    Gap,
    Record,
    RecordError,
    Row,
    committed,
    number,
    percent,
    read_json,
)
from plots.lib.record import together as by_machine
from plots.lib.sources import quoted
from plots.lib.style import COLOURS, GREY, SMALL, WIDTH, Page, log_ticks, text_width

DEVICE = "cuda"
GOALS = ROOT / "docs" / "goals.json"
WORKLOADS_FILE = ROOT / "datasets" / "workloads.json"
NAMES = (
    "grid.json",
    "grid_peers.json",
    "grid_clusters.json",
    "sustained.json",
    "goals.json",
    "shapes_sustained.json",
    "shapes_sustained_real.json",
    "kinds_sustained.json",
    "outliers.json",
    "outliers_sustained.json",
    "steps.json",
    "integers.json",
    "large_isotropic.json",
    "large.json",
    "large_24gb.json",
    "halves.json",
    "cover.json",
    "figure12.json",
    "figure12_rest.json",
    "three_kinds.json",
)  # in a GPU's folder of results/, beside record.json; of one GPU each
LEAST_SUSTAINED = 1.0  # seconds of the same work before a row is one that a power limit acts on
PLANS = ("goals.toml", "large.toml")  # there, too; the first: of what no other plan has
VALUES = ("median_ms", "per_iteration_ms")
BEGIN, END = "<!-- ladder:goals -->", "<!-- /ladder:goals -->"  # of the short form, on the first page
FEW_WORDS = 4
HEAD = (
    "goal", "asked", "measured", "by", "labels checked, wrong", "clock, MHz", "drawn, W", "verdict", "GPU", "commit",
)  # fmt: skip
MOST_KERNELS = 5
COUNTED = {  # what the table of kernels has of each
    "tensor cores": "tensor_percent",
    "DRAM": "dram_percent",
    "L2": "l2_percent",
    "instructions per cycle": "instructions_per_cycle",
    "occupancy": "occupancy_achieved_percent",
}
STREAMED = "bytes streamed"  # the counter of a rung that copies points in each iteration
REACHED, MISSED = COLOURS[0], COLOURS[1]


@dataclass(frozen=True)
class Goal:
    """At `most` so many ms, or so many times the time of the workload `beside`; or at `least` so many times as fast as
    `over`, or as the best library, on all of `map`; or at `least` so many percent of the slower of link and kernels,
    where a rung copies its points in each iteration and `in_memory` is the one that has them on the device; or at
    `most` so many times as long as before a change, in each row that two builds were timed on: `before` and `after` fit
    the names of their records, in the folder of the first GPU that has both. These serve no other goal."""

    goal: str
    scope: str
    limiter: str
    tried: list[str]
    workload: str = ""
    value: str = "per_iteration_ms"
    most: float | None = None
    least: float | None = None
    sustained: bool = False  # rows alone after LEAST_SUSTAINED of the same work, which have clock and power
    beside: str = ""
    over: str = ""
    map: str = ""
    in_memory: str = ""
    before: str = ""
    after: str = ""
    kernels_of: dict[str, str] = field(default_factory=dict)  # workload, scope; note: what must be said of them

    @property
    def asked(self) -> str:
        if self.beside:
            return f"at most {self.most:g}{TIMES} the time of `{self.beside}`"
        if self.before:
            return f"at most {self.most:g}{TIMES} the time before"
        if self.in_memory:
            return f"at least {percent(self.least or 0)} of the slower of link and kernels"
        return f"at most {self.most:g} ms" if self.most else f"at least {self.least:g}{TIMES}"

    def workloads(self, known: Sequence[str]) -> list[str]:
        if self.map:
            return [name for name in known if fnmatchcase(name, self.map)]
        return [name for name in (self.workload, self.beside) if name]


@dataclass(frozen=True)
class Result:
    goal: Goal
    share: float | None = None  # measured over asked, of a ratio asked over measured: up to 1 it is reached
    measured: str = "not measured"
    row: Row | None = None
    commits: tuple[str, ...] = ()
    gpu: str = ""  # of the record
    count: int = 1  # workloads
    lacks: tuple[str, ...] = ()  # where there is nothing to compare: which, why, and what measures it
    lacking: int = 0  # workloads

    @property
    def verdict(self) -> str:
        if self.share is None:
            return "not measured"
        if self.share > 1:
            return "missed"
        return f"reached on {self.count - self.lacking} of {self.count}" if self.lacking else "reached"


# -------------------------------------------------------------------------------------------------- goals and records


def goal_of(entry: dict[str, Any], known: Sequence[str], path: Path) -> Goal:
    """Throws RecordError where the entry is no goal."""
    name = f"{path}: the goal '{entry.get('goal', '?')}'"
    if strange := sorted(set(entry) - {f.name for f in fields(Goal)}):
        raise RecordError(f"{name} has {', '.join(strange)}, which means nothing.")
    if lacks := [key for key in ("goal", "scope", "limiter", "tried") if key not in entry]:
        raise RecordError(f"{name} lacks {', '.join(lacks)}.")
    goal = Goal(**entry)
    if (goal.most is None) == (goal.least is None) or sum(map(bool, (goal.map, goal.workload, goal.before))) != 1:
        raise RecordError(f"{name} must have one of most and least, and one of workload, map and before.")
    if bool(goal.before) != bool(goal.after) or (goal.before and goal.most is None):
        raise RecordError(f"{name} has one of before and after: they come together, with most.")
    if goal.most is not None and (goal.map or goal.over):
        raise RecordError(f"{name} is a time: over and map are of ratios.")
    if goal.beside and goal.most is None:
        raise RecordError(f"{name} has beside, which is of goals with most.")
    if goal.in_memory and (goal.least is None or goal.map or goal.over or goal.scope != "iteration"):
        raise RecordError(f"{name} has in_memory, which is of an iteration on one workload, with least, without over.")
    if goal.scope not in SCOPE_TITLES or goal.value not in VALUES:
        raise RecordError(f"{name} asks for {goal.value} of {goal.scope}: there is no such time.")
    if goal.kernels_of and not {"workload", "scope"} <= set(goal.kernels_of) <= {"workload", "scope", "note"}:
        raise RecordError(f"{name} has kernels_of {goal.kernels_of}, which must be a workload, a scope, maybe a note.")
    named_there = [pattern for pattern in (goal.map, goal.workload, goal.beside) if pattern]
    for pattern in (*named_there, *([goal.kernels_of["workload"]] if goal.kernels_of else [])):
        if not any(fnmatchcase(workload, pattern) for workload in known):
            raise RecordError(f"{name} asks for workload {pattern}, which datasets/workloads.json has not.")
    return goal


def load_goals(path: Path) -> list[Goal]:
    known = workload_names()
    found = read_json(path).get("goals")
    if not isinstance(found, list):
        raise RecordError(f"{path}: has no list of goals.")
    return [goal_of(entry, known, path) for entry in found]


def workload_names() -> list[str]:
    return [workload["name"] for workload in read_json(WORKLOADS_FILE)["workloads"]]


def folders() -> list[Path]:
    """Of each GPU's records; of the committed ones first."""
    return list(dict.fromkeys([path.parent for path in committed()] + sorted((ROOT / "results").glob("nvidia-*"))))


def usual_records() -> list[Path]:
    """The committed ones, and what NAMES has in the folder of each GPU."""
    return committed() + [path for folder in folders() for name in NAMES if (path := folder / name).is_file()]


def sustained(row: Row) -> bool:
    """After enough of the same work; its time, if it has one, with clock and power."""
    long = (row.sustained_seconds or 0) >= LEAST_SUSTAINED
    return long and not (row.timed and None in (row.settled_mhz, row.watts))


def counting(record: Record, goal: Goal) -> Record:
    """The same with the rows that count for this goal alone; an unstable one stays as the reason that there is none."""
    rows = [
        replace(row, median_ms=None) if row.status == "unstable" else row
        for row in record.rows
        if row.device == DEVICE and (not goal.sustained or sustained(row))
    ]
    return Record(record.sources, record.workloads, rows)


def commit(record: Record) -> str:
    return f"`{record.git.removeprefix('git ')}`"


def commit_of(row: Row, record: Record) -> str:
    """The row's own, where its record has rows of several."""
    return f"`{row.git_sha[:10]}`" if row.git_sha else commit(Record(record.sources, record.workloads, []))


def gpu_of(record: Record) -> str:
    return str(record.sources[0].context["gpu"]["name"]).removeprefix("NVIDIA ")


# ------------------------------------------------------------------------------------------------------------ results


def command(goal: Goal, names: Sequence[str], variants: Sequence[str], folder: Path) -> str:
    """What measures it: a plan that has all of these workloads, if there is one."""
    for plan in (folder / name for name in PLANS):
        parts = plans.read(plan)["part"] if plan.is_file() else []
        planned = [glob for part in parts for glob in part["workloads"].split(",")]
        if all(any(fnmatchcase(name, glob) for glob in planned) for name in names):
            shown = plan.resolve().relative_to(ROOT) if plan.resolve().is_relative_to(ROOT) else plan
            return f".venv/bin/python results/make_record.py {shown} --out {shown.with_suffix('.json')}"
    words = ["build/ladder run", *([f"--variants {quoted(list(variants))}"] if variants else [])]
    words += [f"--workloads {quoted(list(names))} --scopes {goal.scope}"]
    return " ".join([*words, "--sustained 1"] if goal.sustained else words)


def lacks_text(goal: Goal, names: Sequence[str], gap: Gap, variants: Sequence[str], folder: Path) -> str:
    where = " and ".join(f"`{name}`" for name in names) if len(names) < 3 else named(names)
    why = gap.reason.rstrip(".") + (", sustained" if goal.sustained and gap.status == "not run" else "")
    return f"On {where}: {why}. `{command(goal, names, variants, folder)}` measures it."


def fastest_ms(record: Record, goal: Goal, workload: str) -> tuple[float, Row] | Gap:
    """The time of the fastest rung there, by what the goal asks for."""
    found = shape_map.fastest(record, DEVICE, record.workloads[workload], goal.scope, peers=False)
    if not isinstance(found, Row):
        return found
    ms = getattr(found, goal.value) or found.median_ms
    assert ms
    return ms, found


def timed_result(records: Sequence[Record], goal: Goal, folder: Path) -> Result:
    """Of a goal in ms: the fastest rung of the first GPU that has one. Beside another workload: both of one record."""
    rows: list[tuple[float, Row, Record]] = []
    gap = Gap("not run", "no rung has run there.")
    for record in (counting(r, goal) for r in records if set(goal.workloads([])) <= set(r.workloads)):
        found = fastest_ms(record, goal, goal.workload)
        other = fastest_ms(record, goal, goal.beside) if goal.beside else (1.0, None)
        for missing in (found, other):
            if isinstance(missing, Gap) and missing.status != "not run":
                gap = missing
        if not isinstance(found, Gap) and not isinstance(other, Gap):
            rows.append((found[0] / other[0], found[1], record))
    if not rows:
        return Result(goal, lacks=(lacks_text(goal, goal.workloads([]), gap, (), folder),), lacking=1)
    gpu = gpu_of(rows[0][2])
    ms, row, record = min((entry for entry in rows if gpu_of(entry[2]) == gpu), key=lambda entry: entry[0])
    assert goal.most
    measured = f"{number(ms)}{TIMES if goal.beside else ' ms'}"
    return Result(goal, ms / goal.most, measured, row, (commit_of(row, record),), gpu)


def ratio_result(records: Sequence[Record], goal: Goal, folder: Path) -> Result:
    """Of a goal over libraries: the worst of its workloads."""
    names = goal.workloads(workload_names())
    counted = [counting(record, goal) for record in records if set(names) & set(record.workloads)]
    peers: dict[str, None] = {}
    found: dict[str, Place | Gap] = dict.fromkeys(names, Gap("not run", "no rung has run there."))
    for record in by_machine(counted):
        rungs = record.rungs(DEVICE)
        peers |= dict.fromkeys(r.variant for r in rungs if record.lone(r.variant) and goal.over in ("", r.variant))
        wanted = record.restricted(r for r in rungs if not record.lone(r.variant) or r.variant in peers)
        for name in names:
            if name in record.workloads and not isinstance(found[name], Place):
                found[name] = shape_map.place_of(wanted, DEVICE, record.workloads[name], goal.scope)
    places = {name: place for name, place in found.items() if isinstance(place, Place)}
    lacking: dict[Gap, list[str]] = {}
    for name, gap in found.items():
        if isinstance(gap, Gap):
            lacking.setdefault(gap, []).append(name)
    lacks = tuple(lacks_text(goal, of, gap, list(peers), folder) for gap, of in lacking.items())
    count = {"count": len(names), "lacks": lacks, "lacking": len(names) - len(places)}
    if not places:
        return Result(goal, **count)
    name, worst = min(places.items(), key=lambda item: item[1].ratio)
    where = f", least on `{name}`" if len(names) > 1 else ""
    sources = [record for record in counted if any(row is worst.rung or row is worst.peer for row in record.rows)]
    assert goal.least
    return Result(
        goal,
        goal.least / worst.ratio,
        f"{number(worst.ratio)}{TIMES} over `{worst.peer.variant}`{' (its slope)' if worst.slope else ''}{where}",
        worst.rung,
        tuple(
            dict.fromkeys(
                commit_of(row, record) for record in sources for row in (worst.rung, worst.peer) if row in record.rows
            )
        ),
        gpu_of(sources[0]),
        **count,
    )


def streamed_result(records: Sequence[Record], goal: Goal, folder: Path) -> Result:
    """Of a goal in percent of the slower of link and kernels: the best rung of all records. The link's time is that of
    the bytes which an iteration copied, at the link's ceiling; the kernels' that of an iteration without copies."""
    found: list[tuple[float, str, Row, Record]] = []
    gap = Gap("not run", "no rung has run there.")
    for record in (counting(r, goal) for r in records if goal.workload in r.workloads):
        rows = [r for r in record.rows if (r.workload, r.scope, r.gpus) == (goal.workload, goal.scope, 1)]
        rate = roofline.ceilings_of(record, DEVICE).get("pinned_h2d_gbs")
        whole = [r.median_ms for r in rows if r.variant == goal.in_memory and r.timed and r.median_ms]
        for row in rows:
            if not (copied := row.counters.get(STREAMED)):
                continue
            if not row.timed or not row.median_ms:
                gap = Gap(row.status, f"{row.variant} is {row.status}: {row.reason}")
            elif not rate or not whole:
                lacking = f"`{goal.in_memory}`" if rate else "the ceiling of the link"
                gap = Gap("not run", f"the record lacks {lacking}.")
            else:
                link, kernels = median(copied) / rate / 1e6, min(whole)
                slower = f"the {'link' if link > kernels else 'kernels'}, {number(max(link, kernels))} ms"
                found.append((100 * max(link, kernels) / row.median_ms, slower, row, record))
    if not found:
        return Result(goal, lacks=(lacks_text(goal, [goal.workload], gap, (), folder),), lacking=1)
    share, slower, row, record = max(found, key=lambda entry: entry[0])
    assert goal.least
    return Result(
        goal, goal.least / share, f"{percent(share)} of {slower}", row, (commit_of(row, record),), gpu_of(record)
    )


def load(path: Path) -> Record:
    return schema.load(path, retired=True)


def two_builds(goal: Goal) -> tuple[list[Path], list[Path]]:
    """The records of before and of after, of the first GPU that has both."""
    for folder in folders():
        before, after = sorted(folder.glob(goal.before)), sorted(folder.glob(goal.after))
        if before and after:
            return before, after
    return [], []


def changed_result(goal: Goal) -> Result:
    """Of a goal over an earlier build: the row that got slower by most. A row's time is the median of its sessions."""
    before, after = (list(map(load, paths)) for paths in two_builds(goal))

    def sessions(records: Sequence[Record]) -> dict[tuple[str, str], list[Row]]:
        found: dict[tuple[str, str], list[Row]] = {}
        for row in (row for record in records for row in record.rows):
            if (row.device, row.scope, row.status) == (DEVICE, goal.scope, "ok") and row.median_ms:
                found.setdefault((row.variant, row.workload), []).append(row)
        return found

    def ms(rows: Sequence[Row]) -> float:
        return median(row.median_ms or 0 for row in rows)

    was, now = sessions(before), sessions(after)
    ratios = {place: ms(now[place]) / ms(was[place]) for place in now if place in was}
    if not ratios:
        why = f"no record fits `{goal.before}` and `{goal.after}` with rows of {goal.scope} in common."
        return Result(goal, lacks=(why,), lacking=1)
    assert goal.most
    (variant, workload), most = max(ratios.items(), key=lambda item: item[1])
    within = sum(ratio <= goal.most for ratio in ratios.values())
    measured = f"{number(most)}{TIMES} on `{workload}`, most of {len(ratios)}; {within} are within it"
    commits = tuple(dict.fromkeys(commit(record) for record in (*before, *after)))
    return Result(goal, most / goal.most, measured, now[variant, workload][0], commits, gpu_of(after[0]))


def result_of(records: Sequence[Record], goal: Goal, folder: Path) -> Result:
    if goal.before:
        return changed_result(goal)
    if goal.in_memory:
        return streamed_result(records, goal, folder)
    return (timed_result if goal.most else ratio_result)(records, goal, folder)


# ----------------------------------------------------------------------------------------------------------- the page


def recorded(value: float | None) -> str:
    return "not recorded" if value is None else number(value)


def cells(result: Result) -> tuple[str, ...]:
    """The row of a result under HEAD."""
    goal, row = result.goal, result.row
    first = (goal.goal, goal.asked + (", sustained" if goal.sustained else ""), result.measured)
    if row is None:
        return *first, NONE, NONE, NONE, NONE, result.verdict, NONE, NONE
    seen = row.validation or {}
    labels = f"{seen.get('rows_checked', 0):,}, {seen.get('labels_wrong')}"
    watts = recorded(row.watts) + (f" of {number(row.watt_limit)}" if row.watts and row.watt_limit else "")
    clock = recorded(row.settled_mhz or row.median_mhz)
    return *first, f"`{row.variant}`", labels, clock, watts, result.verdict, result.gpu, ", ".join(result.commits)


def times_at(records: Sequence[Record], workload: str, scope: str) -> dict[str, float]:
    """Of each rung that has a time there the least, ms."""
    times: dict[str, float] = {}
    for record in records:
        for row in record.rows:
            there = (row.device, row.workload, row.scope) == (DEVICE, workload, scope)
            if there and row.timed and row.median_ms and not record.lone(row.variant):
                times[row.variant] = min(row.median_ms, times.get(row.variant, row.median_ms))
    return times


def kernel_time(kernel: dict[str, Any]) -> float:
    return (kernel["metrics"].get("time_ms") or 0) * kernel["launches"]


def kernel_cells(kernel: dict[str, Any], units: dict[str, str], whole: float) -> list[str]:
    found = [f"`{kernel['name']}`", percent(100 * kernel_time(kernel) / whole), str(kernel["launches"])]
    for metric in COUNTED.values():
        value = kernel["metrics"].get(metric)
        found.append(NONE if value is None else percent(value) if units.get(metric) == "%" else number(value))
    stall = next(iter(kernel["stalls"]), None)
    return [*found, f"{stall['reason'].replace('_', ' ')}, {percent(100 * stall['share'])}" if stall else NONE]


def kernel_lines(
    profile: counters.Profile | None, records: Sequence[Record], result: Result, told: dict[tuple[str, str], str]
) -> list[str]:
    """`told`: the goal under which kernels of (workload, scope) have their table already. The profile is of the GPU of
    the first record."""
    wanted = result.goal.kernels_of
    if not wanted:
        return []
    place = (wanted["workload"], wanted["scope"])
    if place in told:
        return [f"**Its kernels** are those of the table under “{told[place]}”."]
    times = times_at([record for record in records if gpu_of(record) == gpu_of(records[0])], *place)
    entries = [e for e in (profile.entries if profile else []) if (e["workload"], e["scope"]) == place and e["kernels"]]
    entry = min((e for e in entries if e["variant"] in times), key=lambda e: times[e["variant"]], default=None)
    if entry is None or profile is None:
        variant = min(times, key=lambda name: times[name], default="VARIANT")
        counts = f"`build/ladder profile {variant} --workload {place[0]} --scopes {place[1]}` counts them"
        return [f"**Its kernels** on `{place[0]}` are not in the profile yet: {counts}."]
    told[place] = result.goal.goal
    kernels = sorted(entry["kernels"], key=kernel_time, reverse=True)
    whole = sum(map(kernel_time, kernels))
    shown = kernels[:MOST_KERNELS]
    text = f"**Its kernels**: those of `{entry['variant']}`, {SCOPE_TITLES[place[1]]} on `{place[0]}`, commit "
    text += f"`{entry['git_sha'][:10]}`. The {len(shown)} that take most of the sum of kernel times, of {len(kernels)}."
    head = ["kernel", "share of time", "launches", *COUNTED, "warps wait most for"]
    return [
        f"{text} {wanted.get('note', '')}".rstrip(),
        "",
        "| " + " | ".join(head) + " |",
        "| --- |" + " ---: |" * (len(head) - 2) + " --- |",
        *("| " + " | ".join(kernel_cells(kernel, profile.units, whole)) + " |" for kernel in shown),
    ]


def result_lines(
    profile: counters.Profile | None, records: Sequence[Record], result: Result, told: dict[tuple[str, str], str]
) -> list[str]:
    goal = result.goal
    lines = [f"### {goal.goal[0].upper()}{goal.goal[1:]}", ""]
    lines.append(f"- **Asked**: {goal.asked}. **Measured**: " + " ".join([f"{result.measured}.", *result.lacks]))
    lines.append(f"- **What limits it**: {goal.limiter}")
    if goal.tried:
        lines += ["- **What was tried**, and is not enough:", *(f"  - {text}" for text in goal.tried)]
    kernels = kernel_lines(profile, records, result, told)
    return [*lines, *([f"- {kernels[0]}", *kernels[1:]] if kernels else []), ""]


def listed(records: Sequence[Record], results: Sequence[Result]) -> list[Record]:
    """These, and those of two builds."""
    changed = [result.goal for result in results if result.goal.before]
    return [*records, *(load(path) for goal in changed for paths in two_builds(goal) for path in paths)]


def markdown(records: Sequence[Record], results: Sequence[Result], given: Sequence[Path], picture: Path | None) -> str:
    profile = counters.beside(records[0])
    left = [result for result in results if result.verdict != "reached"]
    verdicts = [result.verdict for result in results]
    reached = sum(verdict.startswith("reached") for verdict in verdicts)
    files = "".join(f" {path}" for path in given)
    machines = " and ".join(dict.fromkeys(record.machine(DEVICE) for record in records))
    lines = [
        "# The goals, and what was measured",
        "",
        f"<!-- Generated: python -m plots.goals_page{files} --update docs/goals.md. Do not edit by hand. -->",
        "",
        f"Goals for the top of the ladder, as times on {machines}. Of {len(results)} goals {reached} reached, "
        f"{verdicts.count('missed')} missed, {verdicts.count('not measured')} not measured.",
        "",
        "A time is the median of the samples; of a solve, per iteration. The fastest rung counts; libraries do not. A "
        "row has a time only if its labels were compared with fp64: the table says how many were, and how many of them "
        "are wrong. *Sustained*: timed after at least a second of the same work, so that the power limit acts. Of the "
        "GPUs that have a time for a goal, the one that comes first above counts, and each row names it; a ratio is of "
        "one GPU. The clock is the one that the GPU settled at under this load; beside it stands the power drawn and "
        "its limit (older records have neither; [reading a record](records.md)). A rung that was merged into another "
        "since it was measured keeps its earlier name. `docs/goals.json` holds the goals and the texts below.",
        "",
    ]
    if picture:
        lines += [f"![What was measured over what was asked, goal by goal]({picture.name})", ""]
    lines += ["| " + " | ".join(HEAD) + " |", "| --- | --- | --- | --- | ---: | ---: | ---: | --- | --- | --- |"]
    lines += ["| " + " | ".join(cell_text(cell) for cell in cells(result)) + " |" for result in results]
    lines += ["", "Records, and the commits that they were made at:", ""]
    lines += [
        f"- `{record.sources[0].shown}`: {gpu_of(record)}, {commit(record)}, {record.when}"
        for record in listed(records, results)
    ]
    if left:
        lines += ["", "## Missed, or not measured", ""]
        if profile:
            lines += [
                f"Kernels and their counters are from `{profile.shown}` ([profiling](profiling.md) explains each "
                "counter). Times under the profiler compare the kernels of one sample and nothing else.",
                "",
            ]
    told: dict[tuple[str, str], str] = {}
    for result in left:
        lines += result_lines(profile, records, result, told)
    return "\n".join(lines).rstrip("\n") + "\n"


def in_short(text: str) -> str:
    """The first sentence, without links; the next one, too, where it is of a few words."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    first, *others = re.split(r"(?<=[.;])\s+(?=[A-Z])", plain)
    return f"{first} {others[0]}" if others and len(first.split()) < FEW_WORDS else first


def short_markdown(results: Sequence[Result]) -> str:
    """How many goals are reached, and a line for each of the others, folded away."""
    left = [result for result in results if not result.verdict.startswith("reached")]
    lines = [
        f"<details><summary>{len(results) - len(left)} of {len(results)} goals for the top of the ladder are reached; "
        f"what limits each of the others</summary>",
        "",
        "| goal | asked | measured | what limits it |",
        "| --- | --- | --- | --- |",
    ]
    for result in left:
        short = (result.goal.goal, result.goal.asked, result.measured, in_short(result.goal.limiter))
        lines.append("| " + " | ".join(map(cell_text, short)) + " |")
    return "\n".join([*lines, "", "[All goals](docs/goals.md), with what was tried.", "</details>"])


# -------------------------------------------------------------------------------------------------------- the picture


def label(result: Result) -> str:
    plain = result.measured.split(",")[0]
    plain += f" ({result.gpu.split()[0]})" if result.gpu else ""
    verdict = f": {result.verdict}" if result.share is not None else ""
    return f"{plain}, {result.goal.asked}{verdict}".replace("`", "")


def draw(results: Sequence[Result], records: Sequence[Record], given: Sequence[Path], path: Path) -> None:
    """A bar per goal: measured over asked, with a line where the goal is. Logarithmic, so that one goal that is missed
    by far leaves room to tell the others apart."""
    title = "The goals: what was measured over what was asked"
    machines = dict.fromkeys(record.machine(DEVICE) for record in records)
    subtitle = f"{' and '.join(machines)}; a bar that ends at or left of the line has reached its goal. Of ratios "
    subtitle += "the bar is what was asked over what was measured, so that shorter is better everywhere"
    files = "".join(f" {record}" for record in given)
    commits = ", ".join(dict.fromkeys(commit for record in listed(records, results) for commit in record.commits))
    foot = [commits, f"drawn by python -m plots.goals_page{files} --update"]
    page = Page(title, subtitle, [], foot, body=len(results) * 0.6 + 1.6)
    left = 0.35 + max(text_width(result.goal.goal) for result in results) + 0.3
    inches = WIDTH - left - 0.35
    bottom = page.bottom + 0.85
    height = min(page.top - 0.5 - bottom, 0.9 * len(results))
    ax = page.axes(left, page.top - 0.5 - height, inches, height)
    shares = [result.share for result in results if result.share is not None]
    low = min([*shares, 1.0]) / 1.5
    decades = 0.1
    for result in results:  # room for a label right of its bar
        room = max(inches - text_width(label(result)) - 0.3, 0.3 * inches)
        decades = max(decades, math.log10(max(result.share or 1, 1) / low) * inches / room)
    ax.set_xscale("log")
    ax.set_xlim(low, low * 10**decades)
    for y, result in enumerate(results):
        if result.share is None:
            place = {"va": "center", "color": GREY, "style": "italic", "gid": "gap"}
            ax.annotate(label(result), (1, y), xytext=(8, 0), textcoords="offset points", **place)
            continue
        colour = MISSED if result.share > 1 else REACHED
        ax.barh(y, result.share, height=0.62, color=colour, zorder=2, gid=f"bar {result.goal.goal}")
        end = max(result.share, 1.0)  # no label stands across the line
        ax.annotate(
            label(result), (end, y), xytext=(8, 0), textcoords="offset points", va="center", zorder=4, gid="value"
        )
    ax.axvline(1, color="black", linewidth=2.5, zorder=3)
    ax.set_ylim(len(results) - 0.4, -0.6)
    ax.set_yticks(range(len(results)), [result.goal.goal for result in results])
    ax.tick_params(axis="y", length=0, labelsize=SMALL)
    ax.grid(axis="y", visible=False)
    log_ticks(ax, "x", inches)
    ax.set_xlabel("measured over asked, logarithmic; 1: the goal")
    kinds = ((REACHED, "reached", min(shares, default=2) <= 1), (MISSED, "missed", max(shares, default=0) > 1))
    page.legend(left, [Patch(color=colour, label=text) for colour, text, there in kinds if there])
    page.save(path.parent, path.stem, svg=False)


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "docs/goals.md", "those of every GPU in results/", generated=False)
    path: Path = arguments.page
    page = read_text(path) if path.is_file() else ""
    in_marks = BEGIN in page
    if arguments.update and not in_marks:
        outputs.need_place(path, outputs.PAGE, arguments.records)
    goals = load_goals(GOALS)
    records = [load(record) for record in arguments.records or usual_records()]
    records = [record for record in records if record.workloads_on(DEVICE)]
    if not records:
        raise RecordError("no record has a time on a GPU, and the goals are about one.")
    folder = records[0].sources[0].path.parent
    results = [result_of(records, goal, folder) for goal in goals]
    if in_marks:
        text = between_marks(page, BEGIN, END, short_markdown(results) + "\n", str(path))
        return keep_page(arguments, text, "python -m plots.goals_page")
    picture = path.with_suffix(".png")
    if arguments.update:
        draw(results, records, arguments.records, picture)
    text = markdown(records, results, arguments.records, picture if picture.is_file() else None)
    return keep_page(arguments, text, "python -m plots.goals_page")


if __name__ == "__main__":
    sys.exit(main())
