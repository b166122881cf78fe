"""The budget of `./run_all.sh test --ci`: what is above it is named."""

from __future__ import annotations

from pathlib import Path

import budget
import pytest
from conftest import ROOT

TABLE = budget.seconds_in((ROOT / "tests" / "seconds.txt").read_text())


def test_the_budget_fits_into_the_promised_time() -> None:
    assert sum(TABLE.values()) <= 2 * 1800, "two cores, 30 minutes"
    files = [part for part in TABLE if part.endswith(".py")]
    assert files and [name for name in files if not (ROOT / name).exists()] == []


def test_each_part_that_run_all_measures_has_a_budget() -> None:
    script = (ROOT / "run_all.sh").read_text()
    for part in ("build ci", "build asan-ci", "GoogleTest ci", "GoogleTest asan-ci"):
        assert part in TABLE
        assert f'"{part.split()[0]} $' in script


@pytest.mark.parametrize(("seconds", "says"), [(9, ""), (15, "BY 50 %"), (21, "BY 110 %")])
def test_what_is_above_its_budget_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: int, says: str
) -> None:
    (tmp_path / "budget").write_text("# seconds\n10 one\n40 pytest, other files\n")
    (tmp_path / "taken").write_text(f"{seconds - 2} one\n2 one\n20 a.py\n3.5 b.py\n")
    assert budget.main([str(tmp_path / "budget"), str(tmp_path / "taken")]) == 0
    said = capsys.readouterr().out
    assert f"{seconds:8} of    10  one" in said and "24 of    40  pytest, other files" in said
    assert (says in said) if says else "ABOVE" not in said


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert budget.main([str(tmp_path / "none"), str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
