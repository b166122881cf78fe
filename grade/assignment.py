"""The teacher's assignment: a TOML file, checked key by key. A mistake in it is one sentence."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCOPES = ("assign", "update", "iteration", "solve")
PARTS = ("right", "clean", "predicted", "fast")


class MistakeError(Exception):
    """What is wrong with what the caller gave, in a sentence."""


@dataclass
class Prediction:
    value: float
    tolerance: float


@dataclass
class Assignment:
    file: Path
    template: str
    base: str
    reference: str
    functions: list[str]
    points: dict[str, float]
    public: list[str]
    title: str = ""
    hidden: list[str] = field(default_factory=list)
    clean: list[str] = field(default_factory=list)
    helpers: bool = True
    outside: str = "refuse"
    scopes: list[str] = field(default_factory=lambda: ["iteration", "solve"])
    predict: dict[str, Prediction] = field(default_factory=dict)
    fast_scope: str = "assign"
    fast_workload: str = ""
    steps: list[tuple[float, float]] = field(default_factory=list)
    floor: float = 0.0
    sessions: int = 5
    similar: float = 0.6
    seconds: float = 20.0

    @property
    def total(self) -> float:
        return sum(self.points.values())


def _number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


KINDS = {
    "text": (lambda v: isinstance(v, str) and v.strip() != "", "a text in quotes"),
    "texts": (lambda v: isinstance(v, list) and all(isinstance(t, str) and t for t in v), "a list of texts"),
    "number": (lambda v: _number(v) and v >= 0, "a number of at least 0"),
    "share": (lambda v: _number(v) and 0 <= v <= 1, "a number from 0 to 1"),
    "flag": (lambda v: isinstance(v, bool), "true or false"),
    "table": (lambda v: isinstance(v, dict), "a table"),
    "steps": (
        lambda v: isinstance(v, list) and all(isinstance(s, list) and len(s) == 2 and all(map(_number, s)) for s in v),
        "a list of pairs [ratio to the base, points]",
    ),
}

KEYS: dict[str, dict[str, tuple[str, bool]]] = {
    "": {
        **dict.fromkeys(("template", "base", "reference"), ("text", True)),
        "title": ("text", False),
        "functions": ("texts", True),
        "helpers": ("flag", False),
        "outside": ("text", False),
        "scopes": ("texts", False),
        "similar": ("share", False),
        "seconds": ("number", False),
        "points": ("table", True),
        "workloads": ("table", True),
        "predict": ("table", False),
        "fast": ("table", False),
    },
    "points": dict.fromkeys(PARTS, ("number", False)),
    "workloads": {"public": ("texts", True), "hidden": ("texts", False), "clean": ("texts", False)},
    "fast": {
        "scope": ("text", False),
        "workload": ("text", True),
        "steps": ("steps", True),
        "floor": ("share", False),
        "sessions": ("number", False),
    },
}


def _check(file: Path, where: str, table: dict[str, Any]) -> None:
    known = KEYS[where]
    name = (lambda key: f"{where}.{key}") if where else (lambda key: key)
    for key in table:
        if key not in known:
            raise MistakeError(
                f"{file}: {name(key)!r} is not a key here: take one of {', '.join(known)}, or leave it out"
            )
    for key, (kind, due) in known.items():
        if key not in table:
            if due:
                raise MistakeError(f"{file}: {name(key)!r} is missing: give {KINDS[kind][1]}")
            continue
        holds, words = KINDS[kind]
        if not holds(table[key]):
            raise MistakeError(f"{file}: {name(key)!r} is {table[key]!r}: give {words}")


def _one_of(file: Path, key: str, value: str, known: tuple[str, ...] | list[str]) -> None:
    if value not in known:
        raise MistakeError(f"{file}: {key!r} names {value!r}: take one of {', '.join(known)}")


def read_assignment(file: Path, root: Path) -> Assignment:
    """Throws MistakeError, with the file, the key and what to write there."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise MistakeError(f"{file}: cannot be read ({error.strerror}): give the file of an assignment") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MistakeError(f"{file}: is not TOML ({str(error).splitlines()[0]}): correct it there") from None
    _check(file, "", table)
    for part in ("points", "workloads", "fast"):
        if part in table:
            _check(file, part, table[part])
    points = {part: float(table["points"].get(part, 0)) for part in PARTS}
    _one_of(file, "outside", table.get("outside", "refuse"), ("refuse", "named"))
    for scope in table.get("scopes", []):
        _one_of(file, "scopes", scope, SCOPES)
    for key in ("template", "base", "reference"):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", table[key]) or not source_of(table[key], root):
            raise MistakeError(
                f"{file}: {key!r} names {table[key]!r}, and there is no such rung: `ladder list` shows them"
            )
    workloads = [w["name"] for w in json.loads((root / "datasets" / "workloads.json").read_text())["workloads"]]
    lists = table["workloads"]
    if not lists["public"]:
        raise MistakeError(f"{file}: 'workloads.public' is empty: name one workload at least")
    for key in ("public", "hidden", "clean"):
        for name in lists.get(key, []):
            if name not in workloads:
                raise MistakeError(f"{file}: 'workloads.{key}' names {name!r}: `ladder list` shows the workloads")
    made = Assignment(
        file=file,
        points=points,
        public=lists["public"],
        hidden=lists.get("hidden", []),
        clean=lists.get("clean", []),
        **{k: table[k] for k in KEYS[""] if k in table and k not in ("points", "workloads", "predict", "fast")},
    )
    if not made.functions:
        raise MistakeError(f"{file}: 'functions' is empty: name those that a submission may change")
    for name, entry in table.get("predict", {}).items():
        if not isinstance(entry, dict) or set(entry) != {"value", "tolerance"} or not all(map(_number, entry.values())):
            raise MistakeError(f"{file}: 'predict.{name}' is {entry!r}: give {{value = NUMBER, tolerance = NUMBER}}")
        made.predict[name] = Prediction(float(entry["value"]), float(entry["tolerance"]))
    if points["predicted"] and not made.predict:
        raise MistakeError(
            f"{file}: 'points.predicted' is {points['predicted']:g}, and 'predict' is missing: name a number"
        )
    fast = table.get("fast", {})
    if points["fast"] and not fast:
        raise MistakeError(
            f"{file}: 'points.fast' is {points['fast']:g}, and 'fast' is missing: give its workload and steps"
        )
    if fast:
        made.fast_scope = fast.get("scope", made.fast_scope)
        _one_of(file, "fast.scope", made.fast_scope, SCOPES)
        _one_of(file, "fast.workload", fast["workload"], workloads)
        made.fast_workload = fast["workload"]
        made.steps = sorted((float(r), float(p)) for r, p in fast["steps"])
        made.floor, made.sessions = float(fast.get("floor", 0)), max(5, int(fast.get("sessions", 5)))
    return made


def source_of(rung: str, root: Path) -> Path | None:
    """The file of a rung; a template is CUDA."""
    return next(iter(sorted((root / "variants").glob(f"*/{rung}.cu"))), None)
