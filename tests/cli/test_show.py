"""`ladder show`: what the table says of a record, and that it cuts nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sample_record
from conftest import Ladder

WORDS = (
    "illegal address: kernel assign_kernel reads 4 bytes past the end of x, file.cu:41, block (3, 0, 0), thread 255; "
)


def of_three(without: str = "") -> dict:
    """A root of 8 ms, its child of 4 ms, and its grandchild of 1 ms; a fourth that failed, and a fifth that refused."""
    record = sample_record.make()
    (workload,) = record["workloads"] = [sample_record.workload("grapes", "grapes", 1000, 4, 16)]
    rows = []
    for variant, base, ms in (("r", "", 8.0), ("s", "r", 4.0), ("t", "s", 1.0)):
        rows += [sample_record.row(variant, base, workload, "cuda", scope, ms) for scope in ("assign", "update")]
    for variant, status in (("broken", "failed"), ("choosy", "refused")):
        reason = WORDS + "launch <<<(4, 1, 1), (256, 1, 1), 0 bytes>>> on the second of its streams"
        rows += [sample_record.row(variant, "s", workload, "cuda", "assign", status=status, reason=reason)]
    record["rows"] = [row for row in rows if row["variant"] != without]
    return record


def shown(ladder: Ladder, folder: Path, record: dict, *words: str) -> str:
    done = ladder("show", sample_record.write(record, folder / "record.json"), *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ratios(table: str) -> dict[str, list[float]]:
    """Of each variant, the speedups in its line."""
    lines = [line.split() for line in table.splitlines() if line.startswith("grapes ")]
    return {line[1]: [float(word[:-1]) for word in line if re.fullmatch(r"[\d.]+x", word)] for line in lines}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"s": [2, 2, 2, 2], "t": [4, 8, 4, 8]}),
        (["--over", "base"], {"s": [2, 2], "t": [4, 4]}),
        (["--over", "root"], {"s": [2, 2], "t": [8, 8]}),
        (["--scopes", "assign"], {"s": [2, 2], "t": [4, 8]}),
    ],
)
def test_speedups_over_base_and_root(ladder: Ladder, tmp_path: Path, words: list[str], expected: dict) -> None:
    found = ratios(shown(ladder, tmp_path, of_three(), *words))
    assert {name: found[name] for name in "st"} == {name: pytest.approx(of, rel=0.05) for name, of in expected.items()}
    assert found["r"] == []


@pytest.mark.parametrize("over", ["both", "root", "base"])
def test_a_record_without_its_root_falls_back_to_bases(ladder: Ladder, tmp_path: Path, over: str) -> None:
    table = shown(ladder, tmp_path, of_three(without="r"), "--over", over)
    assert ratios(table)["t"] == pytest.approx([4, 4], rel=0.05)
    assert "base: so many times faster" in table and "root:" not in table


def test_columns_stand_under_their_names(ladder: Ladder, tmp_path: Path) -> None:
    lines = shown(ladder, tmp_path, of_three()).splitlines()
    (line,) = (line for line in lines if line.startswith("grapes ") and " t " in line)
    ends = [match.end() for match in re.finditer(r"base|root|roof", lines[1])]
    assert ends == [match.end() for match in re.finditer(r"[\d.]+x|\d+%", line)]


def test_the_preparation_stands_beside_whole_runs(ladder: Ladder, tmp_path: Path) -> None:
    record = of_three()
    assert "prepare" not in shown(ladder, tmp_path, record)
    whole = [row | {"scope": "end_to_end", "prepare_ms": 12.5, "key": row["key"] + "e"} for row in record["rows"][:2]]
    record["rows"] += whole
    lines = shown(ladder, tmp_path, record).splitlines()
    assert lines[0].endswith(" prepare") and "before end_to_end" in "".join(lines)
    (line,) = (line for line in lines if line.startswith("grapes ") and " r " in line)
    assert line.endswith(" 12.5") and len(line) == len(lines[0])


def test_reasons_are_shown_whole_cause_first(ladder: Ladder, tmp_path: Path) -> None:
    record = of_three()
    lines = shown(ladder, tmp_path, record).splitlines()
    for status in ("failed", "refused"):
        (reason,) = (row["reason"] for row in record["rows"] if row["status"] == status)
        assert f"    {status}: {reason}" in lines


def test_axes_and_other_settings_have_a_line_of_their_own(ladder: Ladder, tmp_path: Path) -> None:
    record = of_three()
    for row in record["rows"]:
        if row["variant"] == "t":
            row |= {"axes": {"block": 64, "tile": 4}, "cache": "cold"}
    lines = shown(ladder, tmp_path, record).splitlines()
    (at,) = (i for i, line in enumerate(lines) if line.startswith("grapes ") and " t " in line)
    assert lines[at + 1] == "    cold block=64 tile=4"


def test_a_row_of_the_cpu_device_is_right_and_no_speedup(ladder: Ladder, tmp_path: Path) -> None:
    record = of_three()
    (workload,) = record["workloads"]
    simt = [sample_record.row(*of, workload, "simt", "assign", ms) for of, ms in ((("r", ""), 1.0), (("s", "r"), 4.0))]
    record["rows"] += simt
    lines = [line for line in shown(ladder, tmp_path, record).splitlines() if line.startswith("grapes ")]
    assert [line.split()[4] for line in lines if " simt " in line] == ["right", "right"]
    assert not any(re.search(r"\dx", line) for line in lines if " simt " in line)
    record["rows"] = simt
    alone = shown(ladder, tmp_path, record)
    assert re.search(r"^grapes .* s .*simt +4\.\d+ +right$", alone, re.MULTILINE)
    assert "says nothing of a GPU" in alone and not re.search(r"\dx", alone)


def test_a_brief_table_counts_what_says_little(ladder: Ladder, tmp_path: Path) -> None:
    record = of_three()
    workload = record["workloads"][0]
    record["rows"] += [sample_record.row(name, "", workload, "simt", "assign", 3.0) for name in ("r", "s")]
    record["rows"] += [sample_record.row("poor", "", workload, "simt", "assign", status="refused", reason="too large")]
    table = shown(ladder, tmp_path, record, "--brief")
    assert {line.split()[1] for line in table.splitlines() if line.startswith("grapes ")} == {"r", "s", "t", "broken"}
    assert "simt" not in table and "too large" not in table and WORDS in table
    assert (
        "2 lines are left out: a GPU's source on the CPU, right" in table and "2 lines are left out: refused" in table
    )


def test_the_rung_that_gained_most_is_named_with_what_shows_it(ladder: Ladder, tmp_path: Path) -> None:
    record = of_three()
    (workload,) = record["workloads"]
    chain = (("r", "", 8.0), ("s", "r", 4.0), ("t", "s", 0.8), ("u", "t", 0.7))
    record["rows"] = [sample_record.row(v, base, workload, "cuda", "iteration", ms) for v, base, ms in chain]
    record["rows"][2]["counter"] = "sectors_per_load"
    told = shown(ladder, tmp_path, record)
    assert re.search(r"^grapes on cuda: t gained most over its base, 5\.?\d*x: ", told, re.MULTILINE)
    assert "sectors_per_load, by `build/ladder profile s t --workload grapes`" in told
    for row in record["rows"]:
        row["device"] = "simt"
    assert "gained most" not in shown(ladder, tmp_path, record)
    record["rows"] = [row | {"device": "cuda"} for row in record["rows"][:3]]
    assert "gained most" not in shown(ladder, tmp_path, record)  # of two there is no choice
