"""Runs and their records: which rows belong together, and what passes from one run to the next."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from conftest import ROOT, Ladder

sys.path.insert(0, str(ROOT / "plots"))

import check
import sample_record

# -------------------------------------------------------------------------------------------------- pieces of one run


def piece(workload: str, variants: list[str], ms: float = 1.0, **context: object) -> dict[str, Any]:
    """A record of made-up variants on one workload, in `assign`."""
    problem = sample_record.workload(workload, "grapes", 6497, 11, 16)
    rows = [sample_record.row(v, "", problem, "cuda", "assign", ms=ms) for v in variants]
    made = sample_record.context() | {"argv": ["ladder", "run", workload]} | context
    return {"schema_version": 2, "context": made, "workloads": [problem], "rows": rows}


def try_join(ladder: Ladder, *pieces: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    names = [sample_record.write(document, ladder.folder / f"{i}.json") for i, document in enumerate(pieces)]
    return ladder("join", ladder.folder / "joined" / "all.json", *names)


def join(ladder: Ladder, *pieces: dict[str, Any]) -> dict[str, Any]:
    done = try_join(ladder, *pieces)
    assert done.returncode == 0, done.stderr
    record = json.loads((ladder.folder / "joined" / "all.json").read_text())
    assert check.violations(record) == []
    return record


def test_pieces_of_a_run_become_one_record(ladder: Ladder) -> None:
    left_out = {"workload": "photo", "reason": "no data"}
    record = join(
        ladder,
        piece("one", ["b", "c"], time="2026-11-20T23:05:00Z", left_out=[left_out]),
        piece("two", ["b"], time="2026-11-20T23:00:00Z", left_out=[left_out]),
        piece("one", ["a"]),
    )
    assert [(row["workload"], row["variant"]) for row in record["rows"]] == [
        ("one", "a"),
        ("one", "b"),
        ("one", "c"),
        ("two", "b"),
    ]
    assert [w["name"] for w in record["workloads"]] == ["one", "two"]
    context = record["context"]
    assert context["time"] == "2026-11-20T23:00:00Z" and context["complete"]
    assert context["argv"][1] == "join"
    assert [run["argv"][-1] for run in context["pieces"]] == ["one", "two", "one"]
    assert context["left_out"] == [left_out]


def test_of_a_row_in_two_pieces_the_later_counts(ladder: Ladder) -> None:
    record = join(ladder, piece("one", ["a", "b"], ms=1), piece("one", ["a"], ms=5))
    assert {row["variant"]: round(row["median_ms"]) for row in record["rows"]} == {"a": 5, "b": 1}


def test_a_record_holds_one_build_of_a_variant(ladder: Ladder) -> None:
    anew = piece("one", ["a"], ms=5)
    anew["rows"][0] |= {"module_hash": "another", "key": "another"}
    record = join(ladder, piece("one", ["a", "b"]), anew)
    assert [row["module_hash"] for row in record["rows"]] == ["another", "b-cuda"]


def test_a_piece_without_a_gpu_joins_those_with_one(ladder: Ladder) -> None:
    native = piece("one", [], gpu=None, floor_us=None, ceilings={"cpu": sample_record.ceilings(False)})
    native["rows"] = [sample_record.row("n", "", native["workloads"][0], "cpu", "assign")]
    context = join(ladder, native, piece("one", ["a"]))["context"]
    assert context["gpu"]["name"] == "Example GPU X1" and context["floor_us"]
    assert set(context["ceilings"]) == {"cuda", "simt", "cpu"}


def test_joined_records_join_again(ladder: Ladder) -> None:
    first = join(ladder, piece("one", ["a"]), piece("one", ["b"]))
    again = join(ladder, first, piece("two", ["a"]))
    assert [run["argv"][-1] for run in again["context"]["pieces"]] == ["one", "one", "two"]
    assert len(again["rows"]) == 3


def test_a_dump_is_found_from_the_joined_record(ladder: Ladder) -> None:
    first = piece("one", ["a"])
    first["rows"][0]["dump"] = "dump/one/a"
    assert join(ladder, first, piece("one", ["b"]))["rows"][0]["dump"] == "../dump/one/a"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda d: d["context"].update(git_sha="f" * 40), "git_sha"),
        (lambda d: d["context"].update(git_dirty=True), "uncommitted changes"),
        (lambda d: d["context"]["gpu"].update(name="another"), "another gpu"),
        (lambda d: d["context"]["host"].update(cpu="another"), "another host"),
        (lambda d: d["workloads"][0].update(k=17), "different problems of the name one: k is 16 there, 17 here"),
        (lambda d: d.update(comparisons=[]), "comparisons"),
        (lambda d: d.update(schema_version=1), "version 1"),
        (lambda d: d.pop("rows"), "is not a record"),
    ],
)
def test_records_that_do_not_belong_together_are_not_joined(
    ladder: Ladder, spoil: Callable[[dict[str, Any]], None], words: str
) -> None:
    spoilt = copy.deepcopy(piece("one", ["a"]))
    spoil(spoilt)
    done = try_join(ladder, piece("one", ["b"]), piece("one", ["c"], gpu=None), spoilt)
    assert done.returncode == 2
    assert words in done.stderr and "2.json" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (ladder.folder / "joined" / "all.json").exists()
