"""docs/rungs/CHAPTER.md: each rung of a chapter that has a lesson, as `ladder explain` tells it.

`python -m plots.rungs_page --update docs/rungs/1_memory.md` writes the page of variants/1_memory, `--check` exits 1
where the file says anything else. It needs a build (any, without a GPU): build/ladder, or the one of LADDER_BUILD.
"""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from plots.lib import cards
from plots.lib.inputs import InputError, in_sentences, read_text
from plots.lib.pages import keep_page, page_arguments
from plots.lib.record import ROOT, SCOPE_TITLES, TIMES, number

FOLDER = ROOT / "docs" / "rungs"
LESSON = "LADDER_LESSON("
SHORT = 25  # lines of a step that a reader sees without a click
TABLE = ("counter", "predicted", "counted", "ratio", "formula")


@lru_cache
def chapters() -> list[str]:
    """Those that have a page."""
    return sorted(path.stem for path in FOLDER.glob("*.md"))


@lru_cache
def rungs_of(chapter: str) -> list[str]:
    """The rungs of a chapter that have a lesson, each after its base. Throws InputError where there is none."""
    folder = ROOT / "variants" / chapter
    having = [
        name
        for name in cards.load()
        if (path := cards.path_of(name)).parent == folder and f"\n{LESSON}" in read_text(path)
    ]
    if not having:
        raise InputError(
            f"variants/{chapter} has no rung with a lesson: name a page of a chapter, docs/rungs/CHAPTER.md."
        )
    return having


def page_of(rung: str) -> str:
    """Where a rung is explained, from docs/; empty where it is not."""
    chapter = cards.path_of(rung).parent.name
    return f"rungs/{chapter}.md#{rung}" if chapter in chapters() and rung in rungs_of(chapter) else ""


def explained(rungs: Sequence[str]) -> list[dict[str, Any]]:
    program = Path(os.environ.get("LADDER_BUILD", ROOT / "build")) / "ladder"
    if not program.is_file():
        raise InputError(f"{program} is not built: cmake --build build --target ladder, or set LADDER_BUILD.")
    command = [str(program), "explain", *rungs, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise InputError(f"{' '.join(command)}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return found if isinstance(found, list) else [found]


# ----------------------------------------------------------------------------------------------------------- the page


def text_of(text: str) -> str:
    """A sentence of a card or a comment in Markdown: nothing in it is a mark."""
    return html.escape(text, quote=False).replace("*", "\\*").replace("|", "\\|").replace("`", "")


def amount(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    shown = f"{value:.3e}" if abs(value) >= 1e6 else number(value) if value else "0"
    return f"{shown} {unit}".rstrip()


def predicted_lines(e: dict[str, Any]) -> list[str]:
    sizes = e["sizes"]
    axes = "".join(f", {name} = {value:g}" for name, value in sizes["axes"].items())
    problem = (
        f"`{sizes['workload']}`: N = {sizes['N']:g}, K = {sizes['K']:g}, D = {sizes['D']:g}, {sizes['type']}{axes}"
    )
    device = f", counted on an {sizes['device']}" if sizes["device"] else ", not counted yet"
    lines = [f"Predicted and counted, of one launch on {problem}{device}:", ""]
    lines += ["| " + " | ".join(TABLE) + " |", "| --- | ---: | ---: | ---: | --- |"]
    for name in e["order"]:
        p = e["predicted"][name]
        c = e["counted"].get(name)
        there = c["value"] if c and c["workload"] == p["workload"] else None
        ratio = f"{p['value'] / there:.3f}" if p["value"] is not None and there else ""
        predicted = amount(p["value"], p["unit"]) or "needs its registers"
        shown = name.replace("_", "\\_")
        cells = (shown, predicted, amount(there, p["unit"]), ratio, f"`{p['formula']}`")
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def time_lines(e: dict[str, Any]) -> list[str]:
    lines = []
    for t in e["times"]:
        if t["workload"] != e["sizes"]["workload"] or t["scope"] != (e["shows"] or "iteration"):
            continue
        between = (
            f" (95 %: {number(t['low'])} to {number(t['high'])}, {t['sessions']} sessions)"
            if t["low"] is not None
            else " (one session, no interval)"
        )
        lines.append(f"- {t['device']}, {SCOPE_TITLES[t['scope']]}: {number(t['median_ms'])} ms{between}")
    for g in e["gains"]:
        lines.append(
            f"- {g['device']}, {SCOPE_TITLES[g['scope']]} on `{g['workload']}`: {number(g['ratio'])}{TIMES} over "
            f"`{e['base']}` (95 %: {number(g['low'])} to {number(g['high'])}), {g['verdict']}"
        )
    return ["Time:", "", *lines, ""] if lines else []


def rung_lines(e: dict[str, Any]) -> list[str]:
    lines = [f"## `{e['id']}`", "", f"**{text_of(e['idea'])}**", ""]
    if e["flaw"]:
        lines += [f"The flaw of `{e['base']}`: {text_of(e['flaw'])}", ""]
    if e["expect"]:
        lines += [f"Expected before it was measured: {text_of(e['expect'])}.", ""]
    if e["step"]:
        diff = ["```diff", *e["diff"], "```", ""]
        title = f"The step: {e['step']['lines']} lines"
        folded = e["step"]["lines"] > SHORT
        lines += (
            ["<details>", f"<summary>{title}</summary>", "", *diff, "</details>", ""] if folded else [title, "", *diff]
        )
    lines += predicted_lines(e)
    limits = e["limits"]
    if limits["after"]:
        before = f"before, in `{limits['before_rung']}`: {limits['before']}" if limits["before"] else ""
        lines += ["What limits it:", ""]
        lines += (
            [f"- {text_of(before).replace(limits['before_rung'], '`' + limits['before_rung'] + '`')}"] if before else []
        )
        lines += [f"- now: {text_of(limits['after'])}", ""]
    lines += time_lines(e)
    for c in e["claims"]:
        why = f" {text_of(c['why'])}" if c["why"] else ""
        lines += [
            f"Source {c['source']} claims: {text_of(c['claim'])}, {text_of(c['stated'])}. "
            f"Verdict: {c['verdict']}.{why}",
            "",
        ]
    if e["question"]:
        lines += [f"**Question.** {text_of(e['question'])}", ""]
        lines += ["<details>", "<summary>Answer</summary>", "", text_of(e["answer"] or ""), "", "</details>", ""]
    return lines


def markdown(chapter: str, page: str) -> str:
    lines = [
        f"# {chapter.split('_', 1)[1].replace('_', ' ').capitalize()}, rung by rung",
        "",
        f"<!-- Generated: python -m plots.rungs_page --update {page}. Do not edit by hand. -->",
        "",
        f"What `ladder explain` says of each rung of [the chapter](../../variants/{chapter}/README.md), from its card, "
        "its text, the committed records and the committed counters. A formula is stated in the card, in N points, K "
        "clusters, D features, B bytes per value and the rung's tuning axes; its terms are in "
        "`harness/contract/lesson.hpp`. A test holds each against the counters, within 10 %.",
        "",
    ]
    found = explained(rungs_of(chapter))
    lines += [", ".join(f"[`{e['id']}`](#{e['id']})" for e in found) + ".", ""]
    for e in found:
        lines += rung_lines(e)
    return "\n".join(lines).rstrip("\n") + "\n"


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "docs/rungs/CHAPTER.md", "what is committed")
    page = arguments.page
    return keep_page(arguments, markdown(page.stem, str(page)), "python -m plots.rungs_page")


if __name__ == "__main__":
    sys.exit(main())
