"""Pages of docs/course: tables that set what a reader computes on paper beside what a GPU counted.

`python -m plots.course_page --update docs/course/week1.md` fills the tables of a page; `--check` exits 1 where they say
anything but what the profile says. A table stands behind a comment that says what it holds:

    <!-- counted WORKLOAD SCOPE METRIC
    RUNG: EXPRESSION
    -->
    (the table)
    <!-- /counted -->

EXPRESSION is arithmetic with + - * / ( ), ceil( ), floor( ), the sizes N, D, K of the workload, and R, the registers
of a thread. METRIC is one of profile.json, or one of DERIVED.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plots.figures import counters
from plots.lib.inputs import in_sentences, read_text
from plots.lib.pages import cell_text, keep_page, page_arguments
from plots.lib.record import ROOT, TIMES, RecordError, number

TABLE = re.compile(
    r"(?P<head><!-- counted (?P<of>[^\n]+)\n(?P<rows>.*?)^-->\n)(?P<table>.*?)(?P<end><!-- /counted -->)", re.S | re.M
)
PROFILE = ROOT / "results" / "nvidia-h200" / counters.NAME
WITHIN = 0.1  # of the value on paper; more is an error of the page

Entry = dict[str, Any]
SIGNS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
ROUNDED: dict[str, Callable[[float], int]] = {"ceil": math.ceil, "floor": math.floor}


@dataclass(frozen=True)
class Metric:
    title: str
    value: Callable[[Entry, dict[str, float]], float]  # of a profile's entry, and the metrics of its largest kernel


def pairs(entry: Entry) -> float:
    """Multiply-adds of an assignment."""
    return float(entry["n"]) * entry["k"] * entry["d"]


def point_bytes(entry: Entry) -> float:
    return float(entry["n"]) * entry["d"] * (8 if entry["type"] == "f64" else 4)


DERIVED = {
    "loads_per_multiply_add": Metric(
        "loads of a warp per multiply-add of a warp", lambda e, m: m["load_requests"] * 32 / pairs(e)
    ),
    "reads_of_the_points": Metric(
        "bytes from device memory over the bytes of the points", lambda e, m: m["dram_bytes"] / point_bytes(e)
    ),
    "additions_per_pair": Metric("additions per multiply-add", lambda e, m: m["fadd"] / pairs(e)),
    "occupancy": Metric("warps that a multiprocessor holds, % of 64", lambda e, m: m["occupancy_theoretical_percent"]),
}


def evaluated(text: str, sizes: dict[str, float]) -> float:
    """Throws RecordError where the text is no arithmetic of the sizes."""

    def of(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        if isinstance(node, ast.Name) and node.id in sizes:
            return sizes[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
            return SIGNS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ROUNDED:
            return float(ROUNDED[node.func.id](of(node.args[0])))
        raise RecordError(
            f"`{text}` is no arithmetic: take numbers, + - * / ( ), ceil( ), floor( ) and {', '.join(sizes)}."
        )

    try:
        return of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, IndexError):
        raise RecordError(f"`{text}` cannot be computed: mend the expression.") from None


def shown(value: float) -> str:
    for scale, name in ((1e9, "billion"), (1e6, "million")):
        if abs(value) >= scale:
            return f"{number(value / scale)} {name}"
    return number(value)


def table_of(profile: counters.Profile, page: str, of: str, rows: str) -> str:
    """Throws RecordError where the profile lacks a rung, or paper and count are far apart."""
    words = of.split()
    if len(words) != 3:
        raise RecordError(f"{page}: `counted {of}` must name a workload, a scope and a metric.")
    workload, scope, name = words
    if name not in DERIVED and name not in profile.meanings:
        known = ", ".join([*DERIVED, *profile.meanings])
        raise RecordError(f"{page}: {name} is no metric: take one of {known}.")
    metric = DERIVED.get(name) or Metric(f"`{name}`", lambda _, m: m[name])
    lines = [f"| rung | on paper | | counted: {metric.title} |", "| --- | --- | ---: | ---: |"]
    builds = set()
    for row in filter(None, rows.splitlines()):
        rung, _, expression = (part.strip() for part in row.partition(":"))
        found = profile.kernel(rung, scope, (workload,))
        entry = profile.entry(rung, scope, (workload,))
        if not found or not entry:
            raise RecordError(
                f"{page}: {profile.shown} has no {scope} of {rung} on {workload}: `build/ladder profile {rung} "
                f"--workload {workload}` counts it."
            )
        builds.add(f"{entry['git_sha'][:10]} of {entry['time'][:10]}")
        sizes = {"N": entry["n"], "D": entry["d"], "K": entry["k"], "R": found[0]["metrics"].get("registers") or 0}
        paper = evaluated(expression, sizes)
        counted = metric.value(entry, found[0]["metrics"])
        if abs(counted - paper) > WITHIN * max(abs(paper), 0.1):
            raise RecordError(
                f"{page}: {rung}: {expression} is {shown(paper)}, but {shown(counted)} was counted: find out why, or "
                "mend the derivation."
            )
        text = cell_text(expression.replace("*", TIMES))
        lines.append(f"| `{rung}` | {text} | {shown(paper)} | {shown(counted)} |")
    lines.append("")
    lines.append(f"Counted on `{workload}` by `ladder profile` (`{profile.shown}`; git {', '.join(sorted(builds))}).")
    return "\n".join(lines) + "\n"


def page_of(profile: counters.Profile, text: str, page: str) -> str:
    if not TABLE.search(text):
        raise RecordError(f"{page}: holds no table: `<!-- counted WORKLOAD SCOPE METRIC` begins one.")
    return TABLE.sub(lambda m: f"{m['head']}{table_of(profile, page, m['of'], m['rows'])}{m['end']}", text)


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "a page of the course", f"{PROFILE.relative_to(ROOT)}", generated=False)
    profile = counters.of_file(arguments.records[0] if arguments.records else PROFILE)
    text = page_of(profile, read_text(arguments.page), arguments.page.name)
    return keep_page(arguments, text, "python -m plots.course_page")


if __name__ == "__main__":
    sys.exit(main())
