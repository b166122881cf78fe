"""docs/outliers.md: what a made-up record says, and that the picture is legible."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sample_record
from figure_helpers import overlaps, record_of, smallest_letters, texts
from matplotlib.figure import Figure

from plots import outliers_page
from plots.lib import style
from plots.lib.record import TIMES

pytest_plugins = ("figure_fixtures",)

GPU = "cuda"
SIZES = (4, 12, 24)
PLAIN = sample_record.workload("grapes", "grapes", 300_000, 408, 5000, "fixed:12")
COST = {"v1_one_unit": {4: 1.01, 12: 40.0, 24: 41.0}, "v2_quantile": {4: 1.0, 12: 1.05, 24: 1.06}}


def document(**fields: object) -> dict[str, Any]:
    """Two rungs of 10 and 2 ms per iteration without an outlier row. `fields`: of the second one at 2^24."""
    made = [PLAIN, *(PLAIN | {"name": f"grapes_outlier_{e}", "family": "grapes_outlier"} for e in SIZES)]
    rows: list[dict[str, Any]] = []
    for w in made:
        exponent = int(w["name"].rpartition("_")[2]) if w is not PLAIN else 0
        for variant, base, ms in (("v1_one_unit", "", 10.0), ("v2_quantile", "v1_one_unit", 2.0)):
            extra = fields if (variant, exponent) == ("v2_quantile", 24) else {}
            times = ms * COST[variant].get(exponent, 1.0)
            rows += [r for r in sample_record.session(variant, base, w, GPU, times, **extra) if r["scope"] != "update"]
    return {"schema_version": 2, "context": sample_record.context(), "workloads": made, "rows": rows}


def write(tmp_path: Path) -> tuple[Path, Path]:
    """A record, and the path of a page beside it."""
    return sample_record.write(document(), tmp_path / "record.json"), tmp_path / "outliers.md"


def test_page_and_picture_have_each_time_over_that_without_an_outlier(
    tmp_path: Path, drawn: list[Figure], capsys: pytest.CaptureFixture[str]
) -> None:
    record, page = write(tmp_path)
    assert outliers_page.main([str(record), "--update", str(page)]) == 0, capsys.readouterr().err
    text = page.read_text()
    assert "| rung | no outlier row | 2^4 | 2^12 | 2^24 |" in text and text.count("| `v1_one_unit` |") == 2
    solve, whole = text.split("## ")[1:]
    assert solve.startswith("The solve") and whole.startswith("The whole run")
    (row,) = [line for line in solve.splitlines() if line.startswith("| `v2_quantile` |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1].startswith("2.0") and [cell.rpartition(" ")[2][:3] for cell in cells[2:]] == ["1.0", "1.0", "1.0"]
    assert f"- `v2_quantile` stays within 1.1{TIMES} at every size: most at 2^24, 1.0" in solve
    assert f"- `v1_one_unit` takes more than 1.1{TIMES} at 2^12, 2^24: most at 2^24, 4" in solve
    assert "labels compared with fp64 0 are wrong" in text and "](outliers.png)" in text
    assert sorted(p.name for p in tmp_path.glob("outliers.*")) == ["outliers.md", "outliers.png"]
    assert outliers_page.main([str(record), "--check", str(page)]) == 0
    page.write_text(text.replace("| 2^12 |", "| 2^13 |", 1))
    assert outliers_page.main([str(record), "--check", str(page)]) == 1
    # The picture is legible, and drawn by --update alone.
    (figure,) = drawn
    assert overlaps(figure) == []
    assert smallest_letters(figure) >= 12
    assert {"none", "2^4", "2^12", "2^24"} <= set(texts(figure)) and "v2_quantile" in texts(figure)
    assert any(re.fullmatch("One row 2\\^24 times as long: 41.* with v1_one_unit", t) for t in texts(figure))
    assert len(texts(figure, "most")) == 2
    lines = {line.get_gid(): line for ax in figure.axes for line in ax.lines if str(line.get_gid()).startswith("line")}
    colours = {name: line.get_color() for name, line in lines.items()}
    assert len(set(colours.values())) == 2 <= len({line.get_marker() for line in lines.values()})
    assert set(colours.values()) <= set(style.COLOURS), "told apart with any colour vision"
    assert list(lines["line v1_one_unit"].get_ydata()) == pytest.approx([1, 1.01, 40, 41], rel=0.03)
    assert [ax.get_yscale() for ax in figure.axes] == ["log", "log"]


@pytest.mark.parametrize("status", ["refused", "unstable"])
def test_what_has_no_time_says_why(status: str) -> None:
    record = record_of(document(status=status, reason="of the moon."))
    text = outliers_page.markdown(outliers_page.outliers_of(record), [], Path("outliers.png"))
    assert f"- v2_quantile on grapes_outlier_24 is {status}: of the moon." in text
    (row,) = [line for line in text.split("## ")[1].splitlines() if line.startswith("| `v2_quantile` |")]
    assert row.rstrip(" |").endswith(status)
    assert ("most at 2^24" if status == "unstable" else "most at 2^12") in text


def test_what_is_no_such_record_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "outliers.md"

    def said(made: dict[str, Any]) -> str:
        record = sample_record.write(made, tmp_path / "record.json")
        assert outliers_page.main([str(record), "--update", str(page)]) == 2 and not page.exists()
        return capsys.readouterr().err

    assert "must have workloads NAME_outlier_S of one NAME on a GPU, and has none." in said(sample_record.grid())
    made = document()
    made["rows"] = [row for row in made["rows"] if row["workload"] != PLAIN["name"]]
    made["workloads"] = made["workloads"][1:]
    assert "has no time on grapes, what the others are compared with." in said(made)
    monkeypatch.setattr(outliers_page, "USUAL", outliers_page.ROOT / "results" / "none.json")
    assert outliers_page.main(["--update", str(page)]) == 2
    assert capsys.readouterr().err.startswith(
        "error: results/none.json is not there yet: python results/make_record.py "
    )


def test_the_title_says_what_the_picture_shows_where_no_row_costs_much(tmp_path: Path, drawn: list[Figure]) -> None:
    made = document()
    made["rows"] = [row for row in made["rows"] if row["variant"] == "v2_quantile"]
    record = sample_record.write(made, tmp_path / "record.json")
    assert outliers_page.main([str(record), "--update", str(tmp_path / "outliers.md")]) == 0
    shown = texts(drawn[0])
    assert any(text.startswith("One row that is up to 2^24 times as long adds at most ") for text in shown)
    assert overlaps(drawn[0]) == []
