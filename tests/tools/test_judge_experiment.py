"""tests/tools/judge_experiment.py and the table that plots/judges_page.py makes of its result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import BUILD, ROOT

from plots import judges_page


def experiment(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tests" / "tools" / "judge_experiment.py", "--build", BUILD, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)


def result(inside: list[float], apart: list[float]) -> dict[str, Any]:
    medians = [{"workload": "grapes", "variant": "v1", "scope": "solve", "inside": inside, "apart": apart}]
    context = {"gpu": {"name": "NVIDIA X1"}, "git_sha": "a" * 40}
    part = ["grapes", "v1", "solve"]
    return {"judges": "", "runs": [{"parts": [part], "rounds": len(inside), "context": context, "medians": medians}]}


def test_sessions_of_both_judges_become_a_table(tmp_path: Path) -> None:
    out = tmp_path / "judges.json"
    done = experiment("--device", "cpu", "--part", "wine_tiny", "c0_serial", "iteration", "--rounds", "2", "--out", out)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(out.read_text())["runs"]
    (median,) = run["medians"]
    assert len(median["inside"]) == len(median["apart"]) == 2
    run["context"]["gpu"] = {"name": "NVIDIA X1"}  # the page is of a GPU's result
    table = judges_page.table({"runs": [run]}, "judges.json")
    assert "| wine_tiny | iteration | 1 |" in table
    again = experiment("--part", "wine_tiny", "c0_serial", "", "--out", ROOT / "README.md")
    assert again.returncode == 2 and "is no result of this program" in again.stderr


def test_a_difference_is_named_where_its_interval_shows_it() -> None:
    inside = [1.0, 1.01, 0.99, 1.0]
    assert "| none |" in judges_page.table(result(inside, [1.001 * ms for ms in inside]), "r.json")
    assert "| `v1` |" in judges_page.table(result(inside, [1.05 * ms for ms in inside]), "r.json")
    assert "| none |" in judges_page.table(result(inside, [1.2, 0.9, 1.3, 0.8]), "r.json"), "scatter is no difference"


@pytest.mark.parametrize("broken", [{}, {"runs": []}, {"runs": [{"medians": [{"variant": "v1"}]}]}])
def test_what_is_no_result_is_refused_in_a_sentence(broken: dict[str, Any]) -> None:
    with pytest.raises(judges_page.InputError, match=r"r\.json: is no result of tests/tools/judge_experiment\.py"):
        judges_page.table(broken, "r.json")
