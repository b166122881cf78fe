"""The ladder: speedups of every rung, by scope and workload."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_record
from figure_helpers import ALL_DEVICES, FEW, ITERATION, cells, newer, part_of, record_of, roofed, strip, texts
from matplotlib.figure import Figure

from plots import draw, table
from plots.figures import ladder, sweep, tree
from plots.lib.options import Options
from plots.lib.record import DAGGER, Record, Rung, Speedup, geometric_mean

pytest_plugins = ("figure_fixtures",)


def with_lone_roots(document: dict[str, Any]) -> dict[str, Any]:
    """Two variants on cuda that have no base and of which none is the base: one fast, one slow."""
    for w in document["workloads"]:
        for name, ms in (("p_fast", 0.5), ("p_slow", 3.0)):
            document["rows"] += sample_record.session(name, "", w, "cuda", ms)
    return document


def test_a_lone_root_is_compared_with_that_of_the_largest_tree(figures: dict[str, Figure], tmp_path: Path) -> None:
    record = record_of(with_lone_roots(part_of(sample_record.make(), FEW)))
    rung = Rung("p_fast", "cuda")
    assert [v for v in record.bases if record.lone(v)] == ["p_fast", "p_slow"]
    assert (record.against(rung), record.against(Rung("h1_matrix", "cuda"))) == ("g1_plain", "h1_matrix")
    root = record.row(Rung("g1_plain", "cuda"), "embedding", "iteration")
    own = record.row(rung, "embedding", "iteration")
    assert root and own and root.median_ms and own.median_ms
    found = record.speedup(rung, "embedding", "iteration")
    assert isinstance(found, Speedup)
    assert (found.reference, found.value) == ("g1_plain", pytest.approx(root.median_ms / own.median_ms))
    over_base = record.speedup(rung, "embedding", "iteration", "base")
    assert isinstance(over_base, Speedup)
    assert (over_base.reference, over_base.value) == ("p_fast", 1)
    ladder.draw(record, tmp_path, ITERATION)
    page = texts(figures["ladder_gpu_iteration"])
    assert page.count("GPU, each a root of its own") == 1
    assert "Roots from which nothing was made are compared with g1_plain." in page
    assert cells(table.markdown(record), "GPU times", "p_fast")[1] == "root; compared with `g1_plain`"
    # Where the other root has no time, it stands over itself, and says why.
    rows = [dataclasses.replace(row, status="failed", median_ms=None) if row is root else row for row in record.rows]
    alone = Record(record.sources, record.workloads, rows).speedup(rung, "embedding", "iteration")
    assert isinstance(alone, Speedup)
    assert (alone.reference, alone.value) == ("p_fast", 1)
    assert alone.instead == "over p_fast: g1_plain has no valid iteration time here."


def test_few_samples_have_no_quartiles_and_no_whiskers(figures: dict[str, Figure], tmp_path: Path) -> None:
    document = part_of(sample_record.make(), FEW)
    for row in document["rows"]:
        row["q1_ms"] = row["q3_ms"] = None
    record = newer(document)
    found = record.speedup(Rung("g4_update", "cuda"), "embedding", "iteration")
    assert isinstance(found, Speedup)
    assert (found.low, found.high) == (None, None)
    ladder.draw(record, tmp_path, ITERATION)
    sweep.draw(record, tmp_path, ITERATION)
    assert "ladder_gpu_iteration_grapes" in figures and "sweep_gpu_iteration_grapes" in figures


def test_scopes_of_the_ladder_are_iteration_and_those_where_a_change_shows(mixed: Record, tall: Record) -> None:
    assert ladder.scopes_of(mixed, "cuda") == ["assign", "update", "iteration", "end_to_end"]
    assert ladder.scopes_of(tall, "cuda") == ["assign", "iteration"]


def test_a_simt_time_is_in_no_figure_of_another_device(figures: dict[str, Figure], tmp_path: Path) -> None:
    """Times of simt and cpu are changed; the GPU's pages must not notice, the CPU's must."""
    before, after = (part_of(sample_record.make(), FEW, ALL_DEVICES) for _ in range(2))
    for row in after["rows"]:
        if row["device"] != "cuda" and row["samples_ms"] and row["base"]:
            for key in ("q1_ms", "median_ms", "q3_ms"):
                row[key] *= 3
    drawn = []
    for document in (before, after):
        ladder.draw(newer(document), tmp_path, Options(devices=ALL_DEVICES, scopes=("iteration",)))
        sweep.draw(newer(document), tmp_path, Options(devices=ALL_DEVICES))
        drawn.append({stem: texts(figure) + lines_of(figure) for stem, figure in figures.items()})
    by = {name: {stem for stem in drawn[0] if f"_{name}_" in stem} for name in ("gpu", "cpu", "simt")}
    assert by["gpu"] == {"ladder_gpu_iteration", "ladder_gpu_iteration_grapes", "sweep_gpu_iteration_grapes"}
    assert len(by["cpu"]) == len(by["simt"]) == 3
    assert all(drawn[0][stem] == drawn[1][stem] for stem in by["gpu"])
    assert all(drawn[0][stem] != drawn[1][stem] for stem in by["cpu"] | by["simt"])
    for stem in by["cpu"] | by["simt"]:
        assert any("CPU times" in text for text in texts(figures[stem]))
    for stem in by["gpu"]:
        assert not any(word in text for text in texts(figures[stem]) for word in ("simt", "s1_serial", "CPU"))
    for stem in by["cpu"]:
        assert not any(word in text for text in texts(figures[stem]) for word in ("simt", "g1_plain"))


def test_times_on_simt_are_drawn_only_when_asked_for(figures: dict[str, Figure], tmp_path: Path) -> None:
    record = record_of(part_of(sample_record.make(gpu=False), FEW, ALL_DEVICES))
    for drawer in draw.FIGURES.values():
        drawer(record, tmp_path, Options())
    assert figures
    for stem in figures:
        assert "_simt_" not in stem
    ladder.draw(record, tmp_path, Options(devices=("simt",), scopes=("iteration",)))
    assert "ladder_simt_iteration" in figures


def lines_of(figure: Figure) -> list[str]:
    return [str(np.asarray(line.get_data())) for ax in figure.axes for line in ax.get_lines()]


def test_a_record_without_gpu_has_no_gpu_page(figures: dict[str, Figure], tmp_path: Path) -> None:
    _, left_out = ladder.draw(record_of(sample_record.make(gpu=False)), tmp_path, ITERATION)
    assert set(figures) == {"ladder_cpu_iteration", "ladder_cpu_iteration_grapes"}
    assert left_out == ["ladder (gpu): no row on cuda"]


def test_gaps_carry_status_and_reason(mixed: Record, figures: dict[str, Figure], tmp_path: Path) -> None:
    ladder.draw(mixed, tmp_path, ITERATION)
    page = texts(figures["ladder_gpu_iteration_grapes"])
    gaps = texts(figures["ladder_gpu_iteration_grapes"], "gap")
    statuses = sorted(gap.split(" ")[0] for gap in gaps)
    assert statuses == ["failed"] * 6 + ["invalid"] + ["refused"] * 2
    for gap in gaps:
        mark = gap[gap.index("[") : gap.index("]") + 1]
        note = next(text for text in page if text.startswith(mark))
        assert len(note) > 20
    values = texts(figures["ladder_gpu_iteration"], "value")
    assert any(value.endswith("unstable") for value in values)
    assert any(value.startswith(f"4 of 6{DAGGER} (refused) [") for value in values)


def test_a_family_is_its_geometric_mean(mixed: Record) -> None:
    members = tuple(w for w in mixed.workloads.values() if w.family == "cloud")
    made = ladder.mark(mixed, Rung("g4_update", "cuda"), ladder.Panel("cloud", members), "iteration")
    each = [mixed.speedup(Rung("g4_update", "cuda"), w.name, "iteration") for w in members]
    assert made.value == pytest.approx(geometric_mean(s.value for s in each if isinstance(s, Speedup)))
    assert len(made.dots) == len(members) == 8


def test_the_ladder_over_the_base_says_so_and_names_what_it_is_over_instead(
    figures: dict[str, Figure], tmp_path: Path
) -> None:
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "h2_tiles":
            strip(row, "refused", "it does not fit.")
            row["dump"] = None
    record = record_of(document)
    ladder.draw(record, tmp_path, Options(scopes=("iteration",), over="base"))
    page = texts(figures["ladder_gpu_iteration_over_base"])
    assert "Speedup over the base, on the GPU: one iteration" in page
    assert any(text.startswith("speedup over the variant's own base") for text in page)
    assert any(text.endswith("--only ladder --scope iteration --over base") for text in page)
    note = next(text for text in page if "over h1_matrix: h2_tiles has no valid iteration time here." in text)
    mark = note[: note.index("]") + 1]
    assert any(text.endswith(mark) for text in texts(figures["ladder_gpu_iteration_over_base"], "value"))
    ladder.draw(record, tmp_path, ITERATION)
    assert "Speedup over the root, on the GPU: one iteration" in texts(figures["ladder_gpu_iteration"])


def test_launch_bound_times_are_marked_in_every_picture(figures: dict[str, Figure], tmp_path: Path) -> None:
    record = roofed()
    some = record.only(["grapes_k16", "grapes_k300"])
    for name in ("ladder", "scopes", "sweep"):
        draw.FIGURES[name](some, tmp_path, ITERATION)
    tree.draw(record.only(["grapes_k16"]), tmp_path, ITERATION)
    values = texts(figures["ladder_gpu_iteration_grapes"], "value")
    assert len([value for value in values if DAGGER in value]) == 7  # the eighth, h3_crash, failed
    assert all(text.endswith(f"ms{DAGGER}") for text in texts(figures["tree_gpu_iteration_grapes_k16"], "time"))
    assert any(text.endswith(f"ms{DAGGER}") for text in texts(figures["scopes_gpu_grapes_k16"], "value"))
    assert not any(DAGGER in text for text in texts(figures["scopes_gpu_grapes_k300"]))
    rings = [line for line in figures["sweep_gpu_iteration_grapes"].axes[0].get_lines() if line.get_gid() == "hollow"]
    assert [np.isfinite(line.get_ydata()).tolist() for line in rings] == [[True, False]] * 7
    assert not any(DAGGER in text for text in texts(figures["ladder_cpu_iteration_grapes"]))
    for stem in ("ladder_gpu_iteration_grapes", "tree_gpu_iteration_grapes_k16", "scopes_gpu_grapes_k16"):
        assert any(text.startswith(f"{DAGGER} under ten times") for text in texts(figures[stem])), stem
    assert any(text.startswith("hollow: under ten times") for text in texts(figures["sweep_gpu_iteration_grapes"]))
