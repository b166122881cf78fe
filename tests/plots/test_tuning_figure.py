"""Time over an axis that was tuned."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import sample_record
from conftest import ROOT
from figure_helpers import record_of, texts
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.figures import tuning
from plots.lib.options import Options
from plots.lib.record import Record

pytest_plugins = ("figure_fixtures",)


def marked(figure: Figure, gid: str, panel: int = 0) -> list[Line2D]:
    return [line for line in figure.axes[panel].get_lines() if line.get_gid() == gid]


def test_time_over_an_axis_has_a_line_per_workload_and_its_marks(
    swept: Record, figures: dict[str, Figure], tmp_path: Path
) -> None:
    drawn, _ = tuning.draw(swept, tmp_path, Options())
    assert [stem for stem, _ in drawn] == ["tuning_gpu_assign_points", "tuning_gpu_assign_block"]
    figure = figures["tuning_gpu_assign_block"]
    assert len(marked(figure, "line")) == 4
    # The value that is refused breaks the line and is a cross; the standard one and the source's are marked.
    (gap,) = marked(figure, "gap")
    assert list(gap.get_xdata()) == list(range(800, 1025, 32))
    assert all(np.isnan(y) == (x in gap.get_xdata()) for x, y in marked(figure, "line")[2].get_xydata())
    assert any("grapes_k2100 (points 4) at 800 to 1024: refused: needs 800 threads" in text for text in texts(figure))
    assert [line.get_xdata()[0] for line in marked(figure, "standard")] == [128]
    assert [line.get_xdata()[0] for line in marked(figure, "reported")] == [256, 512]
    assert [line.get_xdata()[0] for line in marked(figure, "best")] == [128, 128, 192, 192]
    # At the right the same over the time with the standard values, which for the last are those of another line.
    at_standard = [dict(line.get_xydata())[128] for line in marked(figure, "line", panel=1)]
    assert at_standard[:3] == [1, 1, 1] and at_standard[3] < 0.9
    names = texts(figure, "name")
    assert "grapes_k16 (points 4): block 128 (standard)" in names
    assert any(name.startswith("embedding (points 2): block 192, 0.") for name in names)


def test_a_line_that_does_not_lead_through_the_best_point_has_no_star(
    swept: Record, figures: dict[str, Figure], tmp_path: Path
) -> None:
    tuning.draw(swept, tmp_path, Options(workloads=("embedding",)))
    figure = figures["tuning_gpu_assign_points"]
    assert len(marked(figure, "best")) == 2, "of the two whose block size is the standard one"
    assert any(name.startswith("embedding (block 128): best at points 2, block 192") for name in texts(figure, "name"))


def test_a_long_curve_is_drawn_rather_than_two_points_through_the_best(
    figures: dict[str, Figure], tmp_path: Path
) -> None:
    document = sample_record.tuned()
    (entry,) = [t for t in document["tuning"] if t["workload"] == "embedding"]
    # The other axis was swept last and moved on: of the best point's own curve only two points were measured.
    entry["best"] = {"points": 1, "block": 192}
    document["tuning"] = [entry]
    rows = document["rows"]
    (point,) = [r for r in rows if r["workload"] == "embedding" and r["axes"] == {"points": 2, "block": 192}]
    rows.append(copy.deepcopy(point) | {"axes": {"points": 1, "block": 192}})
    tuning.draw(record_of(document), tmp_path, Options())
    figure = figures["tuning_gpu_assign_block"]
    (line,) = marked(figure, "line")
    assert list(line.get_xdata()) == list(range(32, 1025, 32)) and not marked(figure, "best")
    assert any(name.startswith("embedding (points 2): best at points 1, block 192") for name in texts(figure, "name"))


@pytest.mark.parametrize("file", sorted(ROOT.glob("results/*/tune.json")), ids=lambda file: file.parent.name)
def test_committed_sweeps_have_whole_curves(file: Path) -> None:
    record = record_of(json.loads(file.read_text()))
    assert record.tuning
    for swept_axes in record.tuning:
        axis = max(swept_axes.axes, key=lambda axis: len(axis.values))
        line = tuning.line_of(record, swept_axes, axis)
        assert line and sorted(line.rows) == sorted(axis.values), f"{swept_axes.variant} on {swept_axes.workload}"


def test_sessions_in_turns_are_no_points_of_the_curve(figures: dict[str, Figure], tmp_path: Path) -> None:
    document = sample_record.tuned()
    extra = copy.deepcopy(document["rows"][0])
    document["rows"].insert(0, extra | {"session": 0, "median_ms": 1e6, "key": "another"})
    tuning.draw(record_of(document), tmp_path, Options())
    assert all(
        max(y for y in line.get_ydata() if y == y) < 1e6 for line in marked(figures["tuning_gpu_assign_block"], "line")
    )


def test_a_record_without_a_sweep_has_no_such_page(mixed: Record, tmp_path: Path) -> None:
    drawn, left_out = tuning.draw(mixed, tmp_path, Options())
    assert not drawn and "`ladder tune` does" in left_out[0]


def test_values_below_one_stand_in_even_steps() -> None:
    assert tuning.places([-1, 0, 25, 100]) == ({-1: 0, 0: 1, 25: 2, 100: 3}, False)
    assert tuning.places([1, 2, 4]) == ({1: 1, 2: 2, 4: 4}, False)
    assert tuning.places([1, 8])[1]
