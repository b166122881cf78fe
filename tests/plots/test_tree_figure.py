"""The tree of rungs, an edge per base."""

from __future__ import annotations

from pathlib import Path

import pytest
from figure_helpers import texts
from matplotlib.figure import Figure

from plots.figures import tree
from plots.lib.options import Options
from plots.lib.record import TIMES, Record

pytest_plugins = ("figure_fixtures",)


def test_the_tree_has_an_edge_per_base_with_the_gain_over_it(
    mixed: Record, figures: dict[str, Figure], tmp_path: Path
) -> None:
    drawn, _ = tree.draw(mixed.only(["grapes_k300"]), tmp_path, Options(workloads=("grapes_k300",)))
    assert [stem for stem, _ in drawn] == ["tree_gpu_iteration_grapes_k300", "tree_cpu_iteration_grapes_k300"]
    figure = figures["tree_gpu_iteration_grapes_k300"]
    edges = {line.get_gid() for line in figure.axes[0].get_lines() if (line.get_gid() or "").startswith("edge")}
    bases = [(base, variant) for variant, base in mixed.bases.items() if base and variant[0] in "gh"]
    assert edges == {f"edge {base} {variant}" for base, variant in bases}
    gains = dict(zip(texts(figure, "name"), texts(figure, "gain"), strict=True))
    assert gains["g1_plain"] == gains["h1_matrix"] == "root"
    assert float(gains["g4_update"].rstrip(TIMES)) == pytest.approx(4.2 / 1.05, rel=0.05)
    assert gains["h3_crash"].startswith("failed [")
    assert "the idea of g5_fused" in texts(figure, "idea")


def test_the_largest_branch_of_the_tree_keeps_its_lane() -> None:
    bases = {"r": "", "long": "r", "side": "r", "long1": "long", "long2": "long1", "twig": "long1", "alone": "gone"}
    nodes = tree.forest(bases)
    assert [(node.variant, node.lane) for node in nodes] == [
        ("r", 0), ("side", 1), ("long", 0), ("long1", 0), ("long2", 1), ("twig", 0), ("alone", 0),
    ]  # fmt: skip
    assert {node.variant: node.parent for node in nodes}["alone"] is None


def test_a_tree_without_workload_takes_the_largest_that_most_variants_ran(mixed: Record) -> None:
    chosen = tree.usual_workload(mixed, "cuda", "iteration")
    assert chosen
    timed = {
        w: sum(row.workload == w and row.timed and row.device == "cuda" for row in mixed.rows) for w in mixed.workloads
    }
    enough = [mixed.workloads[w] for w, count in timed.items() if count >= 0.75 * max(timed.values())]
    assert len(enough) < len(timed), "some have too few"
    assert chosen.n * chosen.d * chosen.k == max(w.n * w.d * w.k for w in enough)
    assert tree.usual_workload(mixed, "cuda", "iteration") == chosen
