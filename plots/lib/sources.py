"""The sources of the ladder (docs/seeds/NNN.json): their own numbers, their figures, and what they claimed.

A file states a source's numbers as they stand there, with place and hardware; which of its methods is which rung; and
what to draw for each of its figures. So no plot knows a variant or a workload by name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plots.lib.record import ROOT, Record, RecordError, Rung, Workload, made, read_json
from plots.lib.speedup import device_of, meant

FOLDER = ROOT / "docs" / "seeds"
ARROW = "\N{RIGHTWARDS ARROW}"  # between two numbers of a source: before and after


@dataclass(frozen=True)
class Method:
    """One of the source's methods. `stated`: its own numbers, by the name that a panel asks for."""

    name: str
    rung: str = ""
    workloads: tuple[str, ...] = ()
    stated: dict[str, float] = field(default_factory=dict, compare=False)

    def here(self, record: Record) -> Rung | None:
        return device_of(record, self.rung)


@dataclass(frozen=True)
class FigureSpec:
    id: str
    kind: str
    title: str
    place: str
    methods: tuple[Method, ...] = ()
    panels: tuple[dict[str, Any], ...] = ()
    workloads: tuple[str, ...] = ()
    scope: str = ""
    x: str = ""
    steps: bool = False
    fastest: bool = False
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """That `rung` is faster than `over` by so much; `ratio` None: faster, by how much is not stated."""

    text: str
    rung: str
    over: str
    scope: str
    workloads: tuple[str, ...]
    place: str
    stated: str  # the source's numbers, as it wrote them
    ratio: float | None  # below 1: slower
    faster: bool
    elsewhere: tuple[str, ...] = ()
    kind: str = ""  # dense or sparse workloads alone
    take: str = "mean"  # or most
    tuned: bool = False  # about values of axes: fastest rows of a sweep are compared, not those of standard values
    over_axes: dict[str, int] = field(default_factory=dict)  # of a tuned claim: axes that `over` is held at
    of_means: bool = False  # mean times over the workloads are compared, as in a table of averages
    costs: float | None = None  # the claim is that `rung` takes so many ms longer than `over`
    same: bool = False  # the claim is that the two go the same way, iteration by iteration
    plan: str = ""  # the file that plans the measurement, until it is made
    why: dict[str, str] = field(default_factory=dict)  # by verdict

    def where(self, record: Record) -> list[Workload]:
        return [w for w in meant(record, self.workloads) if not self.kind or w.kind in (self.kind, "")]


@dataclass(frozen=True)
class Source:
    seed: str
    title: str
    by: str
    hardware: str
    problem: str
    tables: list[dict[str, Any]]
    figures: list[FigureSpec]
    claims: list[Claim]


def duration(seconds: float) -> str:
    """48 min; 7 min 16 s; 12 s."""
    minutes, rest = divmod(round(seconds), 60)
    return " ".join([f"{minutes} min"] * (minutes > 0) + [f"{rest} s"] * (rest > 0 or not minutes))


def method_of(entry: dict[str, Any]) -> Method:
    known = {"name", "rung", "workloads"}
    stated = {name: float(value) for name, value in entry.items() if name not in known}
    return Method(entry["name"], entry.get("rung", ""), tuple(entry.get("workloads", ())), stated)


def figure_of(entry: dict[str, Any]) -> FigureSpec:
    methods = tuple(method_of(method) for method in entry.get("methods", ()))
    several = {name: tuple(entry.get(name, ())) for name in ("panels", "workloads")}
    return made(FigureSpec, entry | several | {"methods": methods})


def claim_of(entry: dict[str, Any]) -> Claim:
    ratio: float | None = None
    if "before" in entry:
        before, after, unit = entry["before"], entry["after"], entry["unit"]
        ratio = after / before if entry.get("rate") else before / after
        written = [duration(v) if unit == "s" else f"{v:.9g} {unit}" for v in (before, after)]
        stated = f" {ARROW} ".join(written)
    elif "costs" in entry:
        stated = f"{entry['costs']:g} ms"
    elif entry.get("same"):
        stated = "the same"
    elif "percent_faster" in entry:
        ratio, stated = 1 + entry["percent_faster"] / 100, f"{entry['percent_faster']:g} % faster"
    elif "times" in entry:
        ratio, stated = float(entry["times"]), f"{entry['times']:g} times faster"
    else:
        stated = "faster" if entry["faster"] else "slower"
    lists = {"workloads": tuple(entry["workloads"]), "elsewhere": tuple(entry.get("elsewhere", ()))}
    derived = {"ratio": ratio, "stated": stated, "faster": entry.get("faster", ratio is None or ratio > 1)}
    return made(Claim, entry | lists | derived)


def load(path: Path) -> Source:
    document = read_json(path)
    try:
        figures = [figure_of(entry) for entry in document["figures"]]
        claims = [claim_of(entry) for entry in document["claims"]]
        return made(Source, document | {"figures": figures, "claims": claims})
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path}: is no description of a source: {error!r}.") from error


def load_all(folder: Path = FOLDER) -> list[Source]:
    return [load(path) for path in sorted(folder.glob("[0-9]*.json"))]


def quoted(names: list[str]) -> str:
    return json.dumps(",".join(names)).replace('"', "'")


def missing_rows(record: Record, variants: list[str], workloads: tuple[str, ...], scope: str) -> str:
    """What the record does not hold, and the command that measures it."""
    where = ", ".join(workloads)
    names = " + ".join(source.shown for source in record.sources)
    command = f"build/ladder run --variants {quoted(variants)} --workloads {quoted(list(workloads))}"
    if scope:
        command += f" --scopes {scope}"
    return f"{names} has no valid {scope + ' ' if scope else ''}row of {', '.join(variants)} on {where}: {command}"
