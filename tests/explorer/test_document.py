"""What the explorer's page is made from: code without comments, lessons, and the numbers of committed records."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import sample_record
from conftest import LADDER

from plots.explorer import document, teaching
from plots.figures import counters
from plots.lib import cards
from plots.lib.inputs import InputError, read_text
from plots.lib.record import from_document
from plots.lib.speedup import of_earlier_text, texts_of

FILE = """// v99: the first line
// and the second.
#include "../common/lloyd/phases.cuh"
// link: none

__global__ void kernel(const char* s = "// no comment") {  // why
  return;

}
LADDER_VARIANT(.id = "v99_x", .axes = {{"tile", {4, 8, 16}, 8}, {"block", range(32, 1024, 32), 128}})
LADDER_LESSON(.predict = {{"load_requests", "2 * N * K * D / 32"},
                          {"update.shared_atomics", "N / ceil(tile / 3) "
                           "- -registers", "kmcuda*"}},
              .ask = "Why \\"this\\"?", .answer = "So.")
"""


def test_code_is_what_ladder_diff_compares() -> None:
    code = document.code_of(FILE).splitlines()
    assert code == [
        '#include "../common/lloyd/phases.cuh"',
        '__global__ void kernel(const char* s = "// no comment") {',
        "  return;",
        "}",
    ]
    assert document.remark_of(FILE) == "v99: the first line and the second."
    assert document.axes_of(FILE) == {"tile": 8, "block": 128}
    assert list(document.parts_of(FILE)) == ["lloyd/phases.cuh"]


def test_a_lesson_becomes_trees() -> None:
    lesson = teaching.lesson_of(FILE)
    assert (lesson["question"], lesson["answer"]) == ('Why "this"?', "So.")
    loads, atomics = lesson["predicted"].values()
    assert loads["tree"] == ["/", ["*", ["*", ["*", 2, "N"], "K"], "D"], 32] and loads["where"] == ""
    assert atomics["tree"] == ["-", ["/", "N", ["ceil", ["/", "tile", 3]]], ["negative", "registers"]]
    assert atomics["where"] == "kmcuda*"
    assert teaching.lesson_of("no lesson") == {}


def test_predictions_may_use_those_before_them() -> None:
    text = 'LADDER_LESSON(.predict = {{"tile", "128 / B"}, {"a", "from_dram(N * B, ceil(K / tile))"}, {"b", "N", "x*"},'
    lesson = teaching.lesson_of(text + ' {"c", "occupancy(256, 32, 0)"}, {"d", "max(a, width)"}})')
    names = {"N": 1000.0, "K": 100.0, "B": 4.0}
    assert teaching.predicted(lesson, "y", names, l2_bytes=100) == {"tile": 32, "a": 4 * 4000}
    assert teaching.predicted(lesson, "x1", names, l2_bytes=1e6) == {"tile": 32, "a": 4000, "b": 1000}


@pytest.mark.parametrize("formula", ["2 +", "N ** 2", "__import__('os')", "N.real", "N if K else D", "f(N)"])
def test_what_is_no_formula_is_refused(formula: str) -> None:
    with pytest.raises(InputError, match="formula"):
        teaching.tree_of(formula)


def test_the_document_has_what_the_records_have() -> None:
    data, record, turns = document.committed()
    rungs = {rung["id"]: rung for rung in data["rungs"]}
    assert len(rungs) > 100 and all(rung["base"] in {"", *cards.load()} for rung in rungs.values())
    (machine,) = data["machines"]
    times = [time for of in machine["times"].values() for scopes in of.values() for time in scopes.values()]
    assert len(times) > 1000 and all(time[0] > 0 for time in times)
    assert all(low is None or low <= median <= high for median, low, high, _ in times)
    assert turns
    earlier = of_earlier_text(turns, texts_of(record))
    assert len(data["gains"]) == len(record.comparisons) + len(turns.comparisons) - len(earlier)
    assert record.comparisons and data["gains"][0]["gpu"] == machine["name"] != data["other_gpu"], "this GPU's first"
    assert all(gain["low"] <= gain["value"] <= gain["high"] for gain in data["gains"])
    for rung in rungs.values():
        if rung["counter"]:
            assert rung["counter"] in data["metrics"], rung["id"]
    counted = [count for of in data["counts"].values() for scopes in of.values() for count in scopes.values()]
    profile = counters.beside(record)
    assert profile and len(counted) == sum(bool(entry["kernels"]) for entry in profile.entries) > 60
    assert all(sum(share for _, share in count["stalls"]) < 1.01 for count in counted)


def test_lessons_are_those_of_explain() -> None:
    """Where the program is built: it reads the same text."""
    names = [name for name in cards.load() if teaching.lesson_of(read_text(cards.path_of(name)))]
    if not names or not LADDER.is_file():
        pytest.skip("no rung has a lesson yet, or the program is not built")
    for name in names[:: max(1, len(names) // 3)]:
        answer = subprocess.run([LADDER, "explain", name, "--json"], capture_output=True, text=True, check=True)
        explained, lesson = json.loads(answer.stdout), teaching.lesson_of(read_text(cards.path_of(name)))
        assert (explained["question"] or "", explained["answer"] or "") == (lesson["question"], lesson["answer"])
        formulas = {key: plan["formula"] for key, plan in explained["predicted"].items()}  # and what follows for all
        assert formulas | {key: plan["formula"] for key, plan in lesson["predicted"].items()} == formulas


def test_a_gain_of_an_earlier_text_is_not_shown() -> None:
    newer, older = sample_record.make(), sample_record.make()
    older["comparisons"] = [
        sample_record.comparison(rung, "g1_plain", "grapes_k300") for rung in ("g3_pinned", "g4_update")
    ]
    for made, text in ((newer, "b"), (older, "a")):
        for row in made["rows"]:
            row["source_hash"] = (text if row["variant"] == "g4_update" else "a") * 16
    newest, turns = (from_document(made, Path("record.json")) for made in (newer, older))
    assert [gain["rung"] for gain in document.gains_from(turns, newest)] == ["g3_pinned"]
    assert [gain["rung"] for gain in document.gains_from(turns)] == ["g3_pinned", "g4_update"]
