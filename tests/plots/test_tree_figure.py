"""The tree of rungs, an edge per base."""

from __future__ import annotations

from pathlib import Path

import pytest
from figure_helpers import texts
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from plots.figures import tree, waterfall
from plots.lib.options import Options
from plots.lib.record import TIMES, Comparison, Record, number
from plots.lib.speedup import ONE_SESSION

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


def compared(record: Record, candidate: str, ratio: float) -> Record:
    """With sessions in turns of one step, whose interval is 2 % wide to each side."""
    base = record.bases[candidate]
    ends = (ratio * 0.98, ratio * 1.02, 1.0, ratio, 5, 6, "interleaved")
    found = [Comparison(base, candidate, "grapes_k300", "cuda", "iteration", ratio, *ends)]
    return Record(record.sources, record.workloads, record.rows, record.tuning, found)


@pytest.mark.parametrize(("ratio", "colour"), [(0.5, tree.FASTER), (2.0, tree.SLOWER), (1.0, tree.SAME)])
def test_only_a_measured_interval_gives_a_step_a_colour(
    mixed: Record, figures: dict[str, Figure], tmp_path: Path, ratio: float, colour: str
) -> None:
    options = Options(workloads=("grapes_k300",), devices=("cuda",))
    record = compared(mixed.only(["grapes_k300"]), "g4_update", ratio)
    tree.draw(record, tmp_path, options)
    figure = figures["tree_gpu_iteration_grapes_k300"]
    labels = {text.get_text(): to_hex(text.get_color()) for text in figure.axes[0].texts if text.get_gid() == "gain"}
    (filled,) = [text for text, ink in labels.items() if ink == "#ffffff"]
    assert filled.startswith(f"{number(1 / ratio)}{TIMES} (") and filled.endswith("n = 5 + 6)")
    edges = {line.get_gid(): to_hex(line.get_color()) for line in figure.axes[0].get_lines() if line.get_gid()}
    assert edges[f"edge {record.bases['g4_update']} g4_update"] == to_hex(colour)
    assert {ink for gid, ink in edges.items() if gid.startswith("edge") and "g4" not in gid} == {to_hex(tree.SAME)}


def test_a_step_without_an_interval_has_no_bar_of_error(
    mixed: Record, figures: dict[str, Figure], tmp_path: Path
) -> None:
    options = Options(workloads=("grapes_k300",), devices=("cuda",))
    plain = mixed.only(["grapes_k300"])
    for record, intervals in ((plain, []), (compared(plain, "g4_update", 0.5), ["interval g4_update"])):
        waterfall.draw(record, tmp_path, options)
        figure = figures["waterfall_gpu_iteration_grapes_k300"]
        found = [c.get_gid() for c in figure.axes[0].collections if (c.get_gid() or "").startswith("interval")]
        assert found == intervals
        steps = {p.get_gid(): to_hex(p.get_facecolor()) for p in figure.axes[0].patches if p.get_gid()}
        unproven = {gid for gid, ink in steps.items() if ink == to_hex(waterfall.UNPROVEN)}
        assert unproven == set(steps) - {i.replace("interval", "step") for i in intervals} and len(steps) > 2
        legend = [text.get_text() for each in figure.legends for text in each.get_texts()]
        assert legend.count(ONE_SESSION) == 1 and ("faster" in legend) == bool(intervals)
        values = [text for text in texts(figure, "value") if "(" in text]
        assert len(values) == len(intervals) and all("n = 5 + 6)" in value for value in values)
