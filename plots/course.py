"""The weeks of the course as its pages have them: what a week is called, its goals, rungs, questions and answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from plots.lib.inputs import InputError, read_text
from plots.lib.record import ROOT

FOLDER = ROOT / "docs" / "course"
ANSWERS = "teachers.md"
RUNG = re.compile(r"\[`(\w+)`\]\([^)]*variants/[^)]*\)")
ITEM = re.compile(r"(?ms)^\d+\. (.*?)(?=^\d+\. |^\S|\Z)")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Week:
    number: int
    title: str
    goals: tuple[str, ...]
    rungs: tuple[str, ...]  # in the order of reading
    questions: tuple[tuple[str, str], ...]  # each with its answer, which may be empty


def section(text: str, heading: str) -> str:
    """What stands below a heading, as far as the next one of its level or above; empty where there is none."""
    found = re.search(rf"(?m)^({'#' * heading.count('#')}) {re.escape(heading.lstrip('# '))}\n", text)
    if not found:
        return ""
    rest = text[found.end() :]
    end = re.search(rf"(?m)^#{{1,{len(found[1])}}} ", rest)
    return rest[: end.start()] if end else rest


def items(text: str) -> tuple[str, ...]:
    """Of a numbered list, each in one line and without marks."""
    return tuple(plain(item) for item in ITEM.findall(text))


def plain(text: str) -> str:
    return " ".join(re.sub(r"[*`]", "", LINK.sub(r"\1", text)).split())


def week_of(path: Path, answers: str) -> Week:
    text = read_text(path)
    number = int(re.sub(r"\D", "", path.stem))
    title = re.match(r"# (.+)\n", text)
    reading = section(text, "## Reading order")
    if not title or not RUNG.search(reading):
        raise InputError(f"{path}: must begin with its title and list its rungs under `## Reading order`.")
    asked = items(section(text, "## Questions"))
    answered = items(section(section(answers, f"## Week {number}"), "### Questions"))
    return Week(
        number,
        title[1],
        items(section(text, "## Goals")),
        tuple(dict.fromkeys(RUNG.findall(reading))),
        tuple(zip(asked, answered if len(answered) == len(asked) else [""] * len(asked), strict=True)),
    )


def weeks(folder: Path = FOLDER) -> list[Week]:
    """Throws InputError where there are none."""
    paths = sorted(folder.glob("week*.md"))
    if not paths:
        raise InputError(f"{folder}: has no week*.md, of which slides could be made: name the folder of the course.")
    answers = read_text(folder / ANSWERS) if (folder / ANSWERS).is_file() else ""
    return [week_of(path, answers) for path in paths]
