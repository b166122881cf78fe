"""docs/choosing.md: the section that is made from a record."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_record

from plots import choosing_page
from plots.choosing_page import BEGIN, END


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "choosing.md"
    path.write_text(f"# Which rung\n\n{BEGIN}\nold\n{END}\n\nthe rest\n")
    return path


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return sample_record.write(sample_record.scattered(), tmp_path / "map.json")


def test_the_section_is_written_between_its_marks_and_checked(
    page: Path, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert choosing_page.main([str(record), "--check", str(page)]) == 1
    assert choosing_page.main([str(record), "--update", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(f"# Which rung\n\n{BEGIN}\n![") and text.endswith(f"{END}\n\nthe rest\n")
    assert "\nold\n" not in text and (page.parent / "choice_gpu.png").stat().st_size > 10_000
    assert choosing_page.main([str(record), "--check", str(page)]) == 0, capsys.readouterr().err


def test_each_rung_has_the_shapes_on_which_it_is_the_fastest(page: Path, record: Path) -> None:
    choosing_page.main([str(record), "--update", str(page)])
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    assert {row[0] for row in rows} == {"`v1_few_threads`", "`v2_many_threads`", "`v3_few_features`"}
    counts = [int(row[2]) for row in rows]
    assert sum(counts) == 40 and counts == sorted(counts, reverse=True)
    few = next(row for row in rows if row[0] == "`v3_few_features`")
    assert few[4].split()[-1] in {str(d) for d in range(2, 32)}, "D up to 31"
    assert "an even load (20), doubles (20)" in page.read_text()


def test_what_is_no_map_is_said_in_a_sentence(page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = sample_record.write(sample_record.grid(), tmp_path / "grid.json")
    assert choosing_page.main([str(other), "--update", str(page)]) == 2
    assert "has no family of scattered shapes" in capsys.readouterr().err
    assert choosing_page.main(["--update", str(page)]) == 2
    assert "no record is named" in capsys.readouterr().err
    page.write_text("no marks")
    record = sample_record.write(sample_record.scattered(), tmp_path / "map.json")
    assert choosing_page.main([str(record), "--update", str(page)]) == 2
    assert f"must hold the lines {BEGIN} and {END} once" in capsys.readouterr().err
