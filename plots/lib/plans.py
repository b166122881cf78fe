"""Plans of records, results/DEVICE/*.toml: results/make_record.py says what each entry means."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from plots.lib.inputs import InputError, number, read_toml

DEVICES = ("cuda", "cpu", "simt", "auto")
TEXTS, SIZES, COUNTS = ("workloads", "variants", "options"), ("least", "most"), ("together", "batch")
PART = {*TEXTS, *SIZES, *COUNTS, "seconds", "device"}
NUMBERED = ("--gpus", "--ranks")


def _wrong_words(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        return f"'{text}' cannot be taken apart into words ({error}): close what it opens"
    for option, value in zip(words, [*words[1:], ""], strict=False):
        if option in NUMBERED and not (value.isascii() and value.isdigit() and 0 < int(value[:9]) == int(value)):
            return f"{option} '{value}' is no number of processes: give a whole number from 1"
    return ""


def _wrong_size(value: object) -> str:
    if not isinstance(value, dict):
        return f"is {value!r}: give limits, such as {{nd = 1e6}}"
    for of, limit in value.items():
        if not of or set(of) - set("nkd"):
            return f"limits '{of}': limit n, d, k or products of them, such as nkd"
        if not number(limit):
            return f"limits {of} to {limit!r}: give a number"
    return ""


def _wrong(key: str, value: object) -> str:
    """What is wrong with an entry of a part, and what to do; empty where nothing is."""
    if key in TEXTS:
        if not isinstance(value, str):
            return f"is {value!r}: give a text"
        return _wrong_words(value) if key == "options" else ""
    if key in SIZES:
        return _wrong_size(value)
    if key == "device":
        return "" if value in DEVICES else f"is {value!r}: give one of {', '.join(DEVICES)}"
    if key == "seconds":
        return "" if number(value, 0) else f"is {value!r}: give a number that is not negative"
    return "" if number(value, 1) and isinstance(value, int) else f"is {value!r}: give a whole number from 1"


def checked(path: Path, plan: dict[str, Any]) -> dict[str, Any]:
    if unknown := set(plan) - {"run", "part"}:
        raise InputError(f"{path}: has '{min(unknown)}', which means nothing: a plan has `run` and [[part]].")
    run, parts = plan.get("run", ""), plan.get("part")
    if why := _wrong("options", run):
        raise InputError(f"{path}: run {why}.")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise InputError(f"{path}: has no parts: each begins with a line [[part]].")
    for place, part in enumerate(parts, start=1):
        if unknown := set(part) - PART:
            raise InputError(f"{path}: part {place} has '{min(unknown)}', which means nothing: see --help.")
        for key in ("workloads", "variants"):
            if key not in part:
                raise InputError(f'{path}: part {place} has no {key}: give globs, such as {key} = "*".')
        for key, value in part.items():
            if why := _wrong(key, value):
                raise InputError(f"{path}: part {place}, {key} {why}.")
    return plan


def read(path: Path) -> dict[str, Any]:
    """Throws InputError where the file is no sound plan."""
    return checked(path, read_toml(path))
