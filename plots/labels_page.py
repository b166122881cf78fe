"""The table in docs/trust.md: labels of all exact rungs on adversarial data, and how many are wrong.

`python -m plots.labels_page [RESULT...] --update docs/trust.md` writes it between its marks, `--check` exits 1
where the page says anything else. RESULT is what tests/tools/exact_labels.py kept by --out; without one, those of every
device in results/.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from plots.lib.inputs import InputError, in_sentences, read_json, read_text
from plots.lib.pages import between_marks, keep_page, page_arguments
from plots.lib.record import ROOT

PROGRAM = "tests/tools/exact_labels.py"
BEGIN, END = "<!-- labels: begin -->", "<!-- labels: end -->"
HEAD = ("device", "commit", "kinds of data", "cases", "rungs", "labels", "compared twice", "wrong")


def usual() -> list[Path]:
    return sorted((ROOT / "results").glob("*/tools/labels.json"), reverse=True)  # GPUs first


def row(result: dict[str, Any], name: str) -> str:
    try:
        gpu = result["context"]["gpu"]
        device = gpu["name"].removeprefix("NVIDIA ") if gpu else "the CPU device"
        rungs = result["rungs"].values()
        compared = [rung for rung in rungs if rung["labels"]]
        sums = [sum(rung[key] for rung in rungs) for key in ("labels", "judged_in_whole_numbers", "wrong")]
        commit = result["context"]["git_sha"][:10] + (", with changes" if result["context"]["git_dirty"] else "")
        kinds, cases = len(result["sets"]), result["cases"]
        ended = "" if result["complete"] else ", stopped before its end"
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{name}: is no result of {PROGRAM} ({error!r}); name one") from error
    if len(result["faults"]) > 0:
        raise InputError(f"{name}: has {len(result['faults'])} faults, the first: {result['faults'][0]}; mend it first")
    cells = [device, f"`{commit}`", str(kinds), f"{cases:,}{ended}", str(len(compared)), *(f"{of:,}" for of in sums)]
    return "| " + " | ".join(cells) + " |"


def table(results: list[tuple[dict[str, Any], str]]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | --- |" + " ---: |" * (len(HEAD) - 2)]
    return "\n".join([*lines, *(row(result, name) for result, name in results)]) + "\n"


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "the table of docs/trust.md", "those of every device", generated=False)
    paths = arguments.records or usual()
    made = table([(read_json(path, PROGRAM), str(path)) for path in paths])
    text = between_marks(read_text(arguments.page), BEGIN, END, made, str(arguments.page))
    return keep_page(arguments, text, "python -m plots.labels_page")


if __name__ == "__main__":
    sys.exit(main())
