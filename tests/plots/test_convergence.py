"""Convergence: labels changed per iteration, its time, and what was counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_record
from figure_helpers import part_of, record_of, timed_iterations
from matplotlib.figure import Figure

from plots.figures import convergence
from plots.lib.options import Options
from plots.lib.record import Record, Rung

pytest_plugins = ("figure_fixtures",)


def test_convergence_says_which_variants_differ(mixed: Record) -> None:
    assert convergence.agreement(convergence.walks(mixed)).startswith("All 10 variants")
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "g4_update" and row["workload"] == "embedding" and row["reassigned"]:
            row["reassigned"][3] += 7
        if row["status"] == "invalid":
            row["reassigned"] = [1, 2, 3]  # a wrong variant is no witness
    walks = {walk.workload.name: walk for walk in convergence.walks(record_of(document))}
    assert walks["grapes_k100"].differing == []
    assert Rung("h2_tiles", "cuda") not in walks["grapes_k100"].reassigned
    walk = walks["embedding"]
    assert {rung.variant for rung in walk.differing} == {"g4_update"}
    assert "embedding: 2 of 16 (g4_update)" in convergence.agreement([walk])
    low, high = convergence.band(list(walk.reassigned.values()))
    assert high[3] - low[3] == 7
    assert high[2] == low[2] == walk.usual[2]


def test_convergence_draws_the_share_and_the_threshold(
    mixed: Record, figures: dict[str, Figure], tmp_path: Path
) -> None:
    convergence.draw(mixed, tmp_path, Options())
    assert {"convergence_grapes", "convergence_embedding", "convergence_cloud"} <= set(figures)
    lines = figures["convergence_embedding"].axes[0].get_lines()
    assert list(lines[0].get_ydata()[:3]) == [1.0, 0.5, 0.25]
    assert any(list(line.get_ydata()) == [0.01, 0.01] for line in lines)
    assert any(list(line.get_xdata()) == [10, 10] for line in figures["convergence_cloud"].axes[0].get_lines())


def test_convergence_shows_the_time_of_each_iteration_and_what_was_counted(
    figures: dict[str, Figure], tmp_path: Path
) -> None:
    record = timed_iterations()
    drawn, left_out = convergence.draw(record, tmp_path, Options())
    stems = {stem for stem, _ in drawn if stem.startswith("convergence_gpu_")}
    # A page per workload, one for the whole family of many.
    assert stems == {f"convergence_gpu_{w.name}" for w in record.workloads.values() if w.family != "cloud"} | {
        "convergence_gpu_cloud_00"
    }
    assert left_out == ["convergence (cpu): no row has the times of single iterations"]
    axes = figures["convergence_gpu_grapes_k300"].axes
    assert len(axes) == 3
    row = record.row(Rung("g1_plain", "cuda"), "grapes_k300", "solve")
    assert row
    assert any(list(line.get_ydata()) == row.iteration_ms for line in axes[1].get_lines())
    (counted,) = axes[2].get_lines()
    assert list(counted.get_ydata()[:2]) == pytest.approx([100, 50], rel=1e-3)
    assert axes[0].get_yticklabels()[0].get_text() == "0"  # where the last iteration changed none


def test_a_variant_that_counts_is_never_one_of_the_grey_lines(figures: dict[str, Figure], tmp_path: Path) -> None:
    document = part_of(sample_record.tall(), {"grapes_k16"})
    slow = "v01_an_idea_with_a_long_name"
    for row in document["rows"]:
        row["counters"] = {"distances": [6497 * 16, 3000]} if row["variant"] == slow and row["median_ms"] else {}
    convergence.draw(record_of(document), tmp_path, Options())
    (legend,) = figures["convergence_gpu_grapes_k16"].legends
    names = [text.get_text() for text in legend.get_texts()]
    assert slow in names and any(name.endswith(" others") for name in names)


@pytest.mark.parametrize(("share", "text"), [(1, "100 %"), (0.001, "0.1 %"), (1e-7, "0.00001 %")])
def test_small_shares_have_no_exponent(share: float, text: str) -> None:
    assert convergence.percent_text(share) == text
