"""docs/rungs/CHAPTER.md, and docs/rungs/CHAPTER/RUNG.md: a page for each rung that has a lesson, as `ladder explain`
tells it.

`python -m plots.rungs_page --update docs/rungs/1_memory.md` writes the index of variants/1_memory and the pages of its
rungs in the folder beside it; `--check` exits 1 where one of these files says anything else. It needs a build (any,
without a GPU): build/ladder, or the one of LADDER_BUILD.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from plots.lib import cards, outputs
from plots.lib.inputs import InputError, in_sentences, read_text
from plots.lib.pages import page_arguments
from plots.lib.record import ROOT, SCOPE_TITLES, TIMES, number
from plots.lib.speedup import ends

FOLDER = ROOT / "docs" / "rungs"
LESSON = "LADDER_LESSON("
COMMAND = "python -m plots.rungs_page"
SHORT = 25  # lines of a step that a reader sees without a click
TABLE = ("", "predicted", "counted", "predicted / counted", "formula")
INDEX = ("rung", "idea", "counter", "predicted", "counted", "gain, 95 % interval", "the source's claim")
MEANINGS = {  # of what formulas name, in words; any other name is a value that a later formula uses
    "load_requests": "warp-level loads from global memory",
    "sectors_per_load": "sectors of 32 bytes per load",
    "dram_bytes": "bytes from and to device memory",
    "multiply_adds": "multiply-adds",
    "additions": "additions and subtractions",
    "occupancy_theoretical_percent": "occupancy",
    "shared_bytes": "shared memory of a block",
    "bank_conflicts_load": "bank conflicts of loads",
    "global_atomics": "atomics in global memory",
    "shared_atomics": "atomics in shared memory",
    "tensor_flop": "operations of the tensor cores",
    "flop_per_byte": "operations per byte of device memory",
    "loads_per_fma": "loads per warp's multiply-add",
    "point_reads": "times that the points are read from device memory",
    "constant_hit_percent": "hits in the constant cache",
    "instructions_per_cycle": "instructions per cycle",
    "occupancy_achieved_percent": "occupancy reached",
    "tensor_percent": "tensor cores busy",
    "l1_percent": "use of L1 and shared memory",
    "registers": "registers of a thread",
    "sm_percent": "use of a multiprocessor's pipes",
}
TOLD_BY = {"load_requests": "loads_per_fma", "dram_bytes": "point_reads", "fadd": "additions"}  # in an index
VERDICTS = {"FASTER": "faster", "SLOWER": "slower", "SAME": "no difference that matters", "UNSURE": "cannot be told"}
MARK = re.compile(r"[*|_]")
NAME = re.compile(r"[a-z]+\d")  # of a rung: stays as it is where it begins a sentence
UNITS = ((1e12, " trillion", "TB"), (1e9, " billion", "GB"), (1e6, " million", "MB"))


@lru_cache
def chapters() -> list[str]:
    """Those that have pages."""
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
            f"variants/{chapter} has no rung with a lesson: name the page of a chapter, docs/rungs/CHAPTER.md."
        )
    return having


def page_of(rung: str) -> str:
    """Where a rung is explained, from docs/; empty where it is not."""
    if not rung or rung not in cards.load():
        return ""
    chapter = cards.path_of(rung).parent.name
    return f"rungs/{chapter}/{rung}.md" if chapter in chapters() and rung in rungs_of(chapter) else ""


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


# ------------------------------------------------------------------------------------------------------------ in words


def text_of(text: str) -> str:
    """A sentence of a card or a comment in Markdown: nothing in it is a mark."""
    return MARK.sub(r"\\\g<0>", text.replace("`", "").replace("&", "&amp;").replace("<", "&lt;"))


def sentence(text: str) -> str:
    shown = text_of(text if NAME.match(text) else text[:1].upper() + text[1:])
    return shown if shown.endswith((".", "?", "!")) else f"{shown}."


def amount(value: float | None, unit: str) -> str:
    """38.2 billion, 2.45 TB, 16.5, 100 %."""
    if value is None:
        return ""
    for scale, word, size in UNITS:
        if abs(value) >= scale:
            return f"{number(value / scale)}{f' {size}' if unit == 'byte' else word}"
    shown = f"{value:,.0f}" if float(value).is_integer() else number(value)
    return f"{shown} {'bytes' if unit == 'byte' else unit}".rstrip()


def named(key: str) -> str:
    """What a prediction is of: a counter in words, in the kernel of another phase or on another workload."""
    name, on, workload = key.partition(" on ")
    phase, dot, counter = name.rpartition(".")
    words = MEANINGS.get(counter, f"`{counter}`")
    return words + (f" of the {phase}" if dot else "") + (f" on `{workload}`" if on else "")


def link(rung: str, of: Path) -> str:
    """The name of a rung, linked from a page below docs/ to its own page where it has one."""
    page = page_of(rung)
    return f"[`{rung}`]({os.path.relpath(ROOT / 'docs' / page, of.parent)})" if page else f"`{rung}`"


def table(head: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> list[str]:
    marks = ["---:" if side == "r" else "---" for side in align]
    return ["| " + " | ".join(cells) + " |" for cells in (head, marks, *rows)]


# ----------------------------------------------------------------------------------------------------- a rung's page


def beside(e: dict[str, Any], key: str) -> tuple[str, str, str]:
    """Predicted, counted on the same workload, and the ratio of the two."""
    p, c = e["predicted"][key], e["counted"].get(key)
    there = c["value"] if c and c["workload"] == p["workload"] else None
    ratio = f"{p['value'] / there:.3f}" if p["value"] is not None and there else ""
    return amount(p["value"], p["unit"]) or "needs its registers", amount(there, p["unit"]), ratio


def predicted_lines(e: dict[str, Any]) -> list[str]:
    sizes = e["sizes"]
    axes = "".join(f", {name} = {value:g}" for name, value in sizes["axes"].items())
    problem = f"N = {sizes['N']:,.0f} points, D = {sizes['D']:,.0f} features, K = {sizes['K']:,.0f} clusters"
    device = (
        f"counted by Nsight Compute on an {sizes['device']}" if sizes["device"] else "not counted on a GPU yet: "
        f"`ladder count {e['id']}` counts on the CPU"
    )  # fmt: skip
    what = SCOPE_TITLES.get(sizes["scope"], sizes["scope"])
    lines = [
        "## Predicted and counted",
        "",
        f"One launch of the kernel that takes most of the time, in {what}, on `{sizes['workload']}`: {problem}, "
        f"{sizes['type']}{axes}; {device}. Each formula stands in the rung's file, in N, D, K, B bytes per value and "
        "its tuning axes; a test holds it against the counter.",
        "",
    ]
    rows = []
    for key in e["order"]:
        known = key.rpartition(".")[2].partition(" on ")[0] in MEANINGS
        predicted, counted, ratio = beside(e, key)
        shown = named(key) if known else f"{named(key)}, used below"
        rows.append((shown, predicted, counted, ratio, f"`{e['predicted'][key]['formula']}`"))
    return [*lines, *table(TABLE, "lrrrl", rows), ""]


def limit_lines(e: dict[str, Any], page: Path) -> list[str]:
    limits = e["limits"]
    if not limits["after"]:
        return ["## What limits it", "", "Not profiled yet on the GPU of the record.", ""]
    lines = ["## What limits it", ""]
    if limits["before"]:
        lines += [f"- Before, in {link(limits['before_rung'], page)}: {text_of(limits['before'])}"]
    elif e["base"]:
        lines += [f"- Before, in {link(e['base'], page)}: not profiled on `{limits['workload']}`."]
    return [*lines, f"- Now: {text_of(limits['after'])}", f"- Both on `{limits['workload']}`, {limits['device']}."
            if limits["before"] else f"- On `{limits['workload']}`, {limits['device']}.", ""]  # fmt: skip


def time_lines(e: dict[str, Any], page: Path) -> list[str]:
    """The gain in turns first, then times: on the workload of the counters, else on the first that has one."""
    lines = ["## Time", ""]
    for g in e["gains"]:
        what = SCOPE_TITLES[g["scope"]]
        lines.append(
            f"- Over {link(e['base'], page)}, {what} on `{g['workload']}`: **{number(g['ratio'])}{TIMES}** (95 % "
            f"interval {ends(g['low'], g['high'])}, sessions in turns on an {g['device']}): {VERDICTS[g['verdict']]}."
        )
    scope = e["shows"] or "iteration"
    timed = [t for t in e["times"] if t["scope"] == scope] or e["times"]
    here = [t for t in timed if t["workload"] == e["sizes"]["workload"]] or timed[:1]
    for t in here:
        between = (
            f"95 % interval {ends(t['low'], t['high'])}, {t['sessions']} sessions"
            if t["low"] is not None
            else "one session: no interval"
        )
        what = SCOPE_TITLES[t["scope"]]
        lines.append(f"- {t['device']}, {what} on `{t['workload']}`: {number(t['median_ms'])} ms ({between}).")
    if not e["gains"] and e["base"]:
        lines.append("- Not compared with its base in turns yet: no interval says what it gains.")
    return [*lines, ""] if len(lines) > 2 else [*lines, "Not timed in the record.", ""]


def claim_lines(e: dict[str, Any], page: Path) -> list[str]:
    lines = ["## The source's claim", ""]
    if not e["claims"]:
        return [*lines, "None of the sources gives a figure for this step.", ""]
    for c in e["claims"]:
        ours = f" Ours: {text_of(c['ours'])}." if c["ours"] else ""
        why = f" {text_of(c['why'])}" if c["why"] else ""
        over = f" over {link(c['over'], page)}" if c["over"] else ""
        lines.append(
            f"- {text_of(c['claim'])}{over}. Source {c['source']}, {text_of(c['place'])}, states: "
            f"{text_of(c['stated'])}.{ours} The claim: **{c['verdict']}**.{why}"
        )
    return [*lines, ""]


def step_lines(e: dict[str, Any]) -> list[str]:
    if not e["step"]:
        return []
    count = e["step"]["lines"]
    diff = ["```diff", *e["diff"], "```", ""]
    lines = ["## The step", ""]
    if count <= SHORT:
        return [*lines, f"{count} line{'s' * (count != 1)}; comments and the card are left out.", "", *diff]
    return [*lines, "<details>", f"<summary>{count} lines</summary>", "", *diff, "</details>", ""]


def rung_page(e: dict[str, Any], page: Path, before: str, after: str) -> str:
    index = f"[{title_of(e['chapter'])}](../{e['chapter']}.md)"
    around = [f"before: {link(before, page)}"] * bool(before) + [f"next: {link(after, page)}"] * bool(after)
    source = cards.path_of(e["id"]).relative_to(ROOT)
    file = f"[{source.name}]({os.path.relpath(ROOT / source, page.parent)})"
    lines = [
        f"# {e['id']}: {text_of(e['idea'])}",
        "",
        f"<!-- Generated: {COMMAND} --update docs/rungs/{e['chapter']}.md. Do not edit by hand. -->",
        "",
        " · ".join([index, *around, f"code: {file}", "[glossary](../../glossary.md)"]),
        "",
        "## The idea",
        "",
        sentence(e["idea"]) + (f" Its base is {link(e['base'], page)}." if e["base"] else " It has no base."),
        "",
    ]
    if e["flaw"]:
        lines += [f"What is wrong with the base: {sentence(e['flaw'])}", ""]
    if e["expect"]:
        lines += [f"Expected before it was measured: {sentence(e['expect'])}", ""]
    lines += step_lines(e) + predicted_lines(e) + limit_lines(e, page) + time_lines(e, page) + claim_lines(e, page)
    if e["question"]:
        lines += ["## Question", "", text_of(e["question"]), ""]
        lines += ["<details>", "<summary>Answer</summary>", "", text_of(e["answer"] or ""), "", "</details>", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


# ------------------------------------------------------------------------------------------------------- the chapter's


def title_of(chapter: str) -> str:
    return f"Chapter {chapter.split('_', 1)[0]}, {chapter.split('_', 1)[1].replace('_', ' ')}"


def index_row(e: dict[str, Any], page: Path) -> tuple[str, ...]:
    counter = TOLD_BY.get(e["counter"], e["counter"])
    key = next((k for k in (counter, e["counter"], "loads_per_fma", *e["order"]) if k in e["predicted"]), "")
    predicted, counted, _ = beside(e, key) if key else ("", "", "")
    if counter in e["counted"] and counter not in e["predicted"]:  # no formula says it
        c = e["counted"][counter]
        key, predicted, counted = counter, "", amount(c["value"], c["unit"])
    gain = next(iter(e["gains"]), None)
    told = f"{number(gain['ratio'])}{TIMES} ({ends(gain['low'], gain['high'])})" if gain else ""
    fates = ", ".join(dict.fromkeys(c["verdict"] for c in e["claims"]))
    return link(e["id"], page), text_of(e["idea"]), named(key) if key else "", predicted, counted, told, fates


def index_page(chapter: str, found: Sequence[dict[str, Any]], page: Path) -> str:
    lines = [
        f"# {title_of(chapter)}, rung by rung",
        "",
        f"<!-- Generated: {COMMAND} --update docs/rungs/{chapter}.md. Do not edit by hand. -->",
        "",
        "A page for each rung that has a lesson, as `ladder explain` tells it: the idea and the flaw of its base, the "
        "diff, what its card predicts on paper beside what was counted, what limits it before and after, its time, "
        "what became of the source's claim, and a question. The chapter's own text is in "
        f"[variants/{chapter}](../../variants/{chapter}/README.md).",
        "",
        *table(INDEX, "lllrrrl", (index_row(e, page) for e in found)),
        "",
        "A gain is the time of the base over that of the rung, from sessions in turns; the rung's page names the GPU. "
        "Where none is given, the two were not compared so yet. What becomes of a claim (holds, weaker, gone) follows "
        "from the rule in [the ladder, rung by rung](../ladder.md).",
    ]
    return "\n".join(lines) + "\n"


def pages(chapter: str, index: Path) -> dict[Path, str]:
    """The index first, then a page for each rung."""
    found = explained(rungs_of(chapter))
    names = [e["id"] for e in found]
    made = {index: index_page(chapter, found, FOLDER / f"{chapter}.md")}
    for e, before, after in zip(found, ["", *names], [*names[1:], ""], strict=False):
        place = FOLDER / chapter / f"{e['id']}.md"
        made[index.with_suffix("") / place.name] = rung_page(e, place, before, after)
    return made


def differing(made: dict[Path, str], index: Path) -> list[Path]:
    """Files that say anything else, are missing, or are of no rung any more."""
    there = {path for path in (index, *index.with_suffix("").glob("*.md")) if path.is_file()}
    return sorted({p for p, text in made.items() if p not in there or read_text(p) != text} | (there - set(made)))


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "docs/rungs/CHAPTER.md", "what is committed")
    index: Path = arguments.page
    made = pages(index.stem, index)
    if arguments.update:
        index.with_suffix("").mkdir(exist_ok=True)
        for path in differing(made, index):
            if path in made:
                outputs.write(path, made[path], outputs.PAGE)
            elif outputs.PAGE.own(path):  # of a rung that is gone
                path.unlink()
        return 0
    old = differing(made, index)
    for path in old:
        print(f"{path}: is not what the records say; run `{COMMAND} --update {index}`.", file=sys.stderr)
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main())
