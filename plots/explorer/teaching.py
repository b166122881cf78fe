"""The lesson of a rung, from the text of its file: what its counters must be by arithmetic, a question, its answer.

harness/contract/lesson.hpp says what LADDER_LESSON(...) may hold; `ladder explain` reads the same. Here formulas become
trees of operations, which the page's script evaluates for any N, D and K.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from plots.lib.cards import FIELD, PIECE
from plots.lib.inputs import InputError

LESSON = re.compile(r"^LADDER_LESSON\(", re.MULTILINE)
TEXT = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
PREDICTION = re.compile(rf"\{{\s*{TEXT},\s*{TEXT}(?:,\s*{TEXT})?\}}")
OPERATIONS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
FUNCTIONS = ("min", "max", "ceil", "floor", "occupancy", "from_dram")
ARITHMETIC: dict[str, Callable[..., float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "negative": operator.neg,
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "floor": math.floor,
}


def joined(literals: str) -> str:
    """Neighbouring literals are one, as the compiler has it."""
    return "".join(ast.literal_eval(f'"{piece}"') for piece in PIECE.findall(literals or ""))


def tree_of(formula: str) -> Any:  # noqa: ANN401, a number, a name or [operation, ...]
    """Throws InputError where it is no formula."""

    def of(node: ast.expr) -> Any:  # noqa: ANN401
        match node:
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name):
                return name
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return ["negative", of(operand)]
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in OPERATIONS:
                return [OPERATIONS[type(operation)], of(left), of(right)]
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                return [name, *map(of, arguments)]
        raise InputError(f"`{formula}`: {ast.unparse(node)} is nothing that a formula may hold.")

    try:
        return of(ast.parse(formula.strip(), mode="eval").body)
    except SyntaxError:
        raise InputError(f"`{formula}`: is no formula.") from None


def value_of(tree: Any, names: dict[str, float], l2_bytes: float) -> float | None:  # noqa: ANN401
    """None where it needs what is not named, or the occupancy, which the page's script computes."""
    if isinstance(tree, str):
        return names.get(tree)
    if not isinstance(tree, list):
        return float(tree)
    values = [value_of(part, names, l2_bytes) for part in tree[1:]]
    if any(value is None for value in values) or tree[0] == "occupancy":
        return None
    if tree[0] == "from_dram":
        return values[0] if values[0] <= l2_bytes else values[0] * values[1]
    return ARITHMETIC[tree[0]](*values)


def predicted(
    lesson: dict[str, Any], workload: str, names: dict[str, float], l2_bytes: float = math.inf
) -> dict[str, float]:
    """By counter, in order: a formula may use those before it."""
    known, found = dict(names), {}
    for name, plan in lesson.get("predicted", {}).items():
        where = plan["where"].split(",") if plan["where"] else ["*"]
        value = value_of(plan["tree"], known, l2_bytes)
        if value is not None and any(fnmatchcase(workload, glob.strip()) for glob in where):
            known[name] = found[name] = value
    return found


def lesson_of(text: str) -> dict[str, Any]:
    """predicted: by counter the formula, its tree and the workloads that it holds on; question, answer. Empty where the
    file has no lesson."""
    begin = LESSON.search(text)
    if not begin:
        return {}
    lesson = text[begin.end() :]
    fields = {name: joined(literals) for name, literals in FIELD.findall(lesson)}
    found = {
        name: {"formula": formula, "tree": tree_of(formula), "where": where}
        for name, formula, where in (map(joined, parts) for parts in PREDICTION.findall(lesson))
    }
    return {"predicted": found, "question": fields.get("ask", ""), "answer": fields.get("answer", "")}
