"""The plots read records only: what they say of made-up ones, and that nothing is clipped or overlaps."""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil
import sys
import xml.etree.ElementTree
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "plots"))

import sample_record
from conftest import ROOT

from plots import draw, table
from plots.figures import (
    convergence,
    image,
    ladder,
    per_workload,
    percent_of_peak,
    points,
    scopes,
    shape_map,
    sweep,
    tree,
    tuning,
)
from plots.lib import schema, style
from plots.lib.options import Options
from plots.lib.record import (
    DAGGER,
    SCHEMA,
    SCOPE_TITLES,
    SCOPES,
    SPACE,
    TIMES,
    Cell,
    Column,
    Gap,
    Record,
    RecordError,
    Rung,
    Speedup,
    from_document,
    geometric_mean,
    merged,
    number,
    percent,
    together,
    tree_order,
)

ITERATION = Options(scopes=("iteration",))
ALL_DEVICES = ("cuda", "cpu", "simt")


def record_of(document: dict[str, Any], path: Path = Path("record.json")) -> Record:
    return from_document(document, path)


@pytest.fixture(scope="module")
def mixed() -> Record:
    return record_of(sample_record.make())


@pytest.fixture(scope="module")
def tall() -> Record:
    document = sample_record.tall()
    assert schema.violations(document) == []
    return record_of(document)


def part_of(document: dict[str, Any], names: set[str], devices: tuple[str, ...] = ("cuda", "cpu")) -> dict[str, Any]:
    """The document without other workloads and devices: few rows are checked and drawn in little time."""
    rows = [row for row in document["rows"] if row["workload"] in names and row["device"] in devices]
    return document | {"workloads": [w for w in document["workloads"] if w["name"] in names], "rows": rows}


FEW = {"grapes_k16", "grapes_k1500", "embedding"}


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures by their stem, kept instead of written."""
    kept: dict[str, Figure] = {}

    def keep(page: style.Page, folder: Path, stem: str) -> list[Path]:
        kept[stem] = page.figure
        return []

    monkeypatch.setattr(style.Page, "save", keep)
    return kept


def texts(figure: Figure, gid: str | None = None) -> list[str]:
    found = figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_text() != "" and artist.get_visible())
    return [text.get_text() for text in found if gid is None or text.get_gid() == gid]


# ---------------------------------------------------------------------------------------------- trees and speedups


def test_the_tree_goes_down_a_chain_before_the_next_branch() -> None:
    bases = {"r": "", "a": "r", "b": "r", "a1": "a", "other": "", "b1": "b", "lost": "gone", "a2": "a1"}
    assert tree_order(bases) == ["r", "a", "a1", "a2", "b", "b1", "other", "lost"]


def test_the_root_is_at_the_end_of_the_chain_of_bases(mixed: Record) -> None:
    assert mixed.root("g5_fused") == "g1_plain"
    assert mixed.root("h3_crash") == "h1_matrix"
    assert mixed.root("s1_serial") == "s1_serial"


def without(variant: str, document: dict[str, Any] | None = None) -> Record:
    document = document or sample_record.make()
    document["rows"] = [row for row in document["rows"] if row["variant"] != variant]
    return record_of(document)


def test_a_record_without_its_root_falls_back_to_bases() -> None:
    found = without("g3_pinned")
    assert found.root("g5_fused") is None
    assert found.foot("g5_fused") == "g4_update"
    assert found.root("g2_constant") == "g1_plain"
    over = found.speedup(Rung("g5_fused", "cuda"), "grapes_k16", "iteration")
    assert isinstance(over, Speedup)
    assert over.reference == "g4_update"
    assert over.value == pytest.approx(31 / 4.2, rel=0.05)
    assert over.instead == "over g4_update: the root of g5_fused is not in this record."
    foot = found.speedup(Rung("g4_update", "cuda"), "grapes_k16", "iteration")
    assert isinstance(foot, Speedup)
    assert (foot.reference, foot.value, foot.instead) == ("g4_update", 1, "")


def test_speedup_over_the_base_is_not_that_over_the_root(mixed: Record) -> None:
    rung = Rung("g5_fused", "cuda")
    over_root = mixed.speedup(rung, "grapes_k300", "iteration")
    over_base = mixed.speedup(rung, "grapes_k300", "iteration", "base")
    assert isinstance(over_root, Speedup) and isinstance(over_base, Speedup)
    assert (over_root.reference, over_base.reference) == ("g1_plain", "g4_update")
    assert over_root.value == pytest.approx(31, rel=0.05)
    assert over_base.value == pytest.approx(31 / 4.2, rel=0.05)
    assert over_root.instead == over_base.instead == ""


def test_a_base_without_a_time_is_replaced_by_the_nearest_ancestor_and_named(mixed: Record) -> None:
    found = mixed.speedup(Rung("h3_crash", "cuda"), "embedding", "iteration", "base")
    assert isinstance(found, Speedup)
    assert found.reference == "h2_tiles"
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "h2_tiles":
            strip(row, "invalid", "17 labels are wrong.")
    found = record_of(document).speedup(Rung("h3_crash", "cuda"), "embedding", "iteration", "base")
    assert isinstance(found, Speedup)
    assert found.reference == "h1_matrix"
    assert found.instead == "over h1_matrix: h2_tiles has no valid iteration time here."


def test_a_root_without_a_time_is_replaced_by_the_ancestor_next_to_it(mixed: Record) -> None:
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "g1_plain":
            strip(row, "invalid", "17 labels are wrong.")
    record = record_of(document)
    *_, next_to_root, root = mixed.ancestors("g5_fused")
    assert root == "g1_plain" and next_to_root != mixed.bases["g5_fused"]
    found = record.speedup(Rung("g5_fused", "cuda"), "grapes_k300", "iteration")
    assert isinstance(found, Speedup) and found.reference == next_to_root
    assert found.instead == f"over {next_to_root}: g1_plain has no valid iteration time here."


def strip(row: dict[str, Any], status: str, reason: str) -> None:
    """Takes a row's times away."""
    gone = ("median_ms", "q1_ms", "q3_ms", "per_iteration_ms", "gflops", "gbs", "roof_percent")
    row.update(status=status, reason=reason, samples_ms=[], **{key: None for key in gone if key in row})
    for per_sample in ("sm_mhz", "solve_iterations"):
        if isinstance(row.get(per_sample), list):
            row[per_sample] = []


def test_speedup_is_of_medians_on_the_same_device_with_the_variants_own_quartiles(mixed: Record) -> None:
    rung, root = Rung("g4_update", "simt"), Rung("g1_plain", "simt")
    mine, its = mixed.row(rung, "grapes_k300", "solve"), mixed.row(root, "grapes_k300", "solve")
    found = mixed.speedup(rung, "grapes_k300", "solve")
    assert isinstance(found, Speedup)
    assert mine and its
    assert found.value == pytest.approx(np.median(its.samples_ms) / np.median(mine.samples_ms))
    assert found.low == pytest.approx(np.median(its.samples_ms) / np.percentile(mine.samples_ms, 75))
    assert found.high == pytest.approx(np.median(its.samples_ms) / np.percentile(mine.samples_ms, 25))
    assert found.low < found.value < found.high


@pytest.mark.parametrize(
    ("variant", "workload", "status"),
    [
        ("g2_constant", "embedding", "refused"),
        ("h2_tiles", "grapes_k100", "invalid"),
        ("h3_crash", "grapes_k16", "failed"),
        ("s1_serial", "grapes_k16", "not run"),
    ],
)
def test_what_is_not_valid_has_no_speedup(mixed: Record, variant: str, workload: str, status: str) -> None:
    gap = mixed.speedup(Rung(variant, "cuda"), workload, "iteration")
    assert isinstance(gap, Gap)
    assert gap.status == status


def test_nothing_is_faster_than_a_root_that_is_wrong() -> None:
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "g1_plain":
            strip(row, "invalid", "1 label is wrong.")
    found = record_of(document)
    gap = found.speedup(Rung("g3_pinned", "cuda"), "grapes_k16", "iteration")
    assert gap == Gap("no base", "g1_plain has no valid iteration time here.")
    other = found.speedup(Rung("g4_update", "cuda"), "grapes_k16", "iteration")
    assert isinstance(other, Speedup)
    assert other.reference == "g3_pinned"
    assert other.instead.startswith("over g3_pinned: g1_plain has no valid")


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


def test_an_unstable_root_makes_its_tree_unstable() -> None:
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "g1_plain":
            row.update(status="unstable", reason="the clock fell.")
    found = record_of(document).speedup(Rung("g5_fused", "cuda"), "grapes_k16", "iteration")
    assert isinstance(found, Speedup)
    assert found.unstable


def test_scopes_are_those_of_the_schema() -> None:
    stated = json.loads(SCHEMA.read_text())["$defs"]["scope"]["enum"]
    assert list(SCOPES) == stated
    assert set(SCOPE_TITLES) == set(stated)
    assert "SCOPES: tuple[str, ...] = tuple(json" in (Path(draw.__file__).parent / "record.py").read_text()


def newer(document: dict[str, Any]) -> Record:
    """A document whose rows have fields of schema 2, as the plots read it; whether it is sound is not asked."""
    return from_document(document | {"schema_version": 2}, Path("record.json"))


def test_rows_of_both_schemas_are_read_and_what_is_absent_is_none() -> None:
    row = {
        "variant": "a", "base": "", "idea": "", "shows": "assign", "workload": "w", "device": "cuda", "scope": "solve",
        "status": "ok", "reason": "", "axes": {}, "cache": "warm", "samples_ms": [2.0], "median_ms": 2.0,
        "sm_mhz": 1500.0,
    }  # fmt: skip
    workload = dict(sample_record.workload("w", "w", 100, 10, 3))
    for key in ("nonzeros", "metric", "kernel", "init_hash", "made_by"):
        workload.pop(key, None)
    old = {"schema_version": 1, "context": sample_record.context(), "workloads": [workload], "rows": [row]}
    (read,) = from_document(old, Path("old.json")).rows
    assert (read.q1_ms, read.roof_percent, read.launch_bound, read.key, read.prepare_ms) == (None,) * 5
    assert (read.sm_mhz, read.median_mhz, read.iteration_ms, read.counters) == ([], 1500.0, [], {})
    new = copy.deepcopy(old)
    new["schema_version"] = 2
    new["workloads"][0] |= {"nonzeros": 100, "made_by": "blobs"}
    fields = {"sm_mhz": [1500.0], "roof_percent": 12.5, "iteration_ms": [1, 1], "counters": {"distances": [9, 8]}}
    new["rows"][0] |= fields | {"key": "a w cuda", "module_hash": "x", "launch_bound": True, "from_the_future": 1}
    found = from_document(new, Path("new.json"))
    (read,) = found.rows
    assert (read.sm_mhz, read.roof_percent, read.counters) == ([1500.0], 12.5, {"distances": [9, 8]})
    assert read.launch_bound
    assert found.workloads["w"].kind == "sparse"
    assert from_document(old, Path("old.json")).workloads["w"].kind == ""
    del row["median_ms"]
    with pytest.raises(RecordError, match=r"a row of the record lacks median_ms"):
        from_document(old, Path("old.json"))


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


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 %"), (0.042, "0.04 %"), (0.31, "0.3 %"), (1.2, "1 %"), (8.4, "8 %"), (74.4, "74 %")]
)
def test_percent_is_short(value: float, text: str) -> None:
    assert percent(value).replace("\N{NO-BREAK SPACE}", " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1, "1.00"), (12.34, "12.3"), (99.99, "100.0"), (1234.5, "1,234")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


# ------------------------------------------------------------------------------------------------------ the ladder


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


# ---------------------------------------------------------------------------------------------------- other figures


def test_scopes_stack_to_the_whole(mixed: Record) -> None:
    members = [mixed.workloads["grapes_k300"]]
    plain = scopes.iteration_stack(mixed, Rung("g1_plain", "cuda"), members)
    assert isinstance(plain, scopes.Stack)
    assert [name for name, _ in plain.parts] == ["assign", "update", "rest of the iteration"]
    whole = mixed.row(Rung("g1_plain", "cuda"), "grapes_k300", "iteration")
    assert whole
    assert sum(ms for _, ms in plain.parts) == pytest.approx(whole.median_ms)
    fused = scopes.iteration_stack(mixed, Rung("g5_fused", "cuda"), members)
    assert isinstance(fused, scopes.Stack)
    assert [name for name, _ in fused.parts] == ["fused iteration"]
    run = scopes.run_stack(mixed, Rung("g1_plain", "cuda"), members)
    assert isinstance(run, scopes.Stack)
    assert [name for name, _ in run.parts] == ["solve", "transfers and layout"]
    refused = scopes.iteration_stack(mixed, Rung("g2_constant", "cuda"), [mixed.workloads["embedding"]])
    assert isinstance(refused, Gap)
    assert refused.status == "refused"


def test_a_whole_shorter_than_its_parts_is_marked_too() -> None:
    assert scopes.Stack((("solve", 3.0),), 2.0, False, False).whole_apart
    assert scopes.Stack((("solve", 3.0), ("transfers and layout", 1.0)), 4.0, False, False).whole_apart
    assert not scopes.Stack((("fused iteration", 3.0),), 3.0, False, False).whole_apart
    assert not scopes.Stack((("solve", 3.0),), None, False, False).whole_apart


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


def test_a_sweep_needs_several_k_of_the_same_points(mixed: Record) -> None:
    found = sweep.sweeps(mixed, "cuda", "iteration")
    assert list(found) == ["grapes"]
    assert [w.k for w in found["grapes"]] == [16, 100, 300, 900, 1500, 2100]


def test_a_sweep_draws_no_line_through_a_refusal(mixed: Record, figures: dict[str, Figure], tmp_path: Path) -> None:
    sweep.draw(mixed, tmp_path, Options())
    lines = figures["sweep_gpu_iteration_grapes"].axes[0].get_lines()
    times = [line.get_ydata() for line in lines if line.get_gid() != "hollow"]
    missing = sorted(tuple(np.flatnonzero(np.isnan(line))) for line in times if np.isnan(line).any())
    assert missing == [(1,), (4, 5)]  # invalid at the second K, refused at the last two


# ------------------------------------------------------------------------------------------------- time over an axis


@pytest.fixture(scope="module")
def swept() -> Record:
    document = sample_record.tuned()
    assert schema.violations(document) == []
    return record_of(document)


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


# -------------------------------------------------------------------------------------------------------- the photo


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record with an image of 4 x 6 pixels and two dumps; returns its path."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("LADDER_CACHE", str(cache))
    points = np.repeat(np.arange(24, dtype=np.float32)[:, None] * 10, 3, axis=1)
    np.save(cache / "snapshot.npy", points)
    (cache / "snapshot.json").write_text(json.dumps({"image": {"height": 4, "width": 6}}))
    workloads = [sample_record.workload(f"snapshot_k{k}", "snapshot", 24, 3, k) for k in (2, 3)]
    rows = []
    for w in workloads:
        made = sample_record.session("g1_plain", "", w, "cpu", 1.0)
        for row in made:
            row["dump"] = f"dump/g1_plain/{w['name']}"
        folder = tmp_path / made[0]["dump"]
        folder.mkdir(parents=True)
        np.save(folder / "labels.npy", (np.arange(24) % w["k"]).astype(np.int32))
        np.save(folder / "centroids.npy", np.array([[0, 0, 0], [255, 0, 51], [0, 255, 0]], np.float32)[: w["k"]])
        rows += made
    document = sample_record.make(gpu=False) | {"workloads": workloads, "rows": rows}
    return sample_record.write(document, tmp_path / "record.json")


def test_the_photo_is_rebuilt_from_labels_and_centroids(
    pictures: Path, figures: dict[str, Figure], tmp_path: Path
) -> None:
    drawn, left_out = image.draw(schema.load(pictures), tmp_path, Options())
    assert [stem for stem, _ in drawn] == ["photo_snapshot"]
    assert left_out == []
    images = [ax.get_images()[0].get_array() for ax in figures["photo_snapshot"].axes]
    assert [picture.shape for picture in images] == [(4, 6, 3)] * 3
    assert images[0][0, 5, 0] == pytest.approx(50 / 255)
    assert images[1][0, 1].tolist() == pytest.approx([1, 0, 0.2])
    assert images[2][0, 2].tolist() == pytest.approx([0, 1, 0])
    captions = [ax.get_title(loc="left") for ax in figures["photo_snapshot"].axes]
    assert captions[0] == "original: 24 colours"
    assert captions[2].startswith("K = 3 colours")


def test_a_photo_without_dump_or_data_is_left_out_with_its_reason(
    pictures: Path, figures: dict[str, Figure], tmp_path: Path
) -> None:
    (tmp_path / "dump/g1_plain/snapshot_k3/labels.npy").unlink()
    _, left_out = image.draw(schema.load(pictures), tmp_path, Options())
    assert left_out == ["photo (snapshot_k3): no row has a dump beside the record, run with --dump"]
    assert len(figures["photo_snapshot"].axes) == 2
    (tmp_path / "cache/snapshot.npy").unlink()
    drawn, left_out = image.draw(schema.load(pictures), tmp_path, Options())
    assert drawn == []
    assert "snapshot.npy is missing" in left_out[0]


def test_a_dump_that_does_not_fit_is_an_error(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "dump/g1_plain/snapshot_k2/labels.npy", np.full(24, 2, np.int32))
    assert draw.main([str(pictures), "--out", str(tmp_path / "out"), "--only", "photo"]) == 1
    assert "holds labels outside 0 .. 1" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------ the program


def test_draw_writes_png_svg_and_an_index(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert draw.main([str(pictures), "--out", str(out)]) == 0
    names = {path.name for path in out.iterdir()}
    stems = {name.removesuffix(".png") for name in names if name.endswith(".png")}
    assert {"ladder_cpu_iteration", "scopes_cpu_snapshot_k2", "convergence_snapshot", "photo_snapshot"} <= stems
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")} | {"index.html"}
    for stem in stems:
        png = (out / f"{stem}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert int.from_bytes(png[16:20]) == 1920
        assert int.from_bytes(png[20:24]) >= 1080
        assert xml.etree.ElementTree.parse(out / f"{stem}.svg").getroot().tag.endswith("svg")
    index = (out / "index.html").read_text()
    said = capsys.readouterr().out.splitlines()
    for stem in stems:
        assert f'src="{stem}.png"' in index
        assert any(line.startswith("drew ") and f"{stem}.png" in line for line in said)
    assert any(line.startswith("left out ladder (gpu): no row on cuda") for line in said)


def test_only_draws_only_that(pictures: Path, tmp_path: Path) -> None:
    assert draw.main([str(pictures), "--out", str(tmp_path / "out"), "--only", "convergence"]) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        *(p.name for p in (tmp_path / "out").glob("convergence_cpu_*")),  # of records with iteration_ms
        "convergence_snapshot.png",
        "convergence_snapshot.svg",
        "index.html",
    }


def test_records_of_several_machines_are_drawn_apart(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    second = tmp_path / "b" / "record.json"
    document = json.loads(pictures.read_text())
    document["context"]["host"]["cpu"] = "Another CPU"
    second.write_text(json.dumps(document))
    assert draw.main([str(pictures), str(second), "--out", str(tmp_path / "out"), "--only", "convergence"]) == 0
    assert (tmp_path / "out/record/convergence_snapshot.png").is_file()
    assert (tmp_path / "out/b_record/convergence_snapshot.png").is_file()
    assert 'src="b_record/convergence_snapshot.png"' in (tmp_path / "out/index.html").read_text()


def test_a_broken_record_is_not_drawn(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(pictures.read_text())
    document["rows"][0]["median_ms"] *= 2
    sample_record.write(document, pictures)
    assert draw.main([str(pictures), "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert "is not a sound record" in error
    assert "median_ms is" in error


def test_records_of_one_kind_of_machine_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = sample_record.make(gpu=False)
    whole = part_of(whole, {w["name"] for w in whole["workloads"]}, ("cpu",))
    family = {w["name"] for w in whole["workloads"] if w["family"] == "cloud"}
    rest = {w["name"] for w in whole["workloads"]} - family
    first, second = part_of(whole, rest), part_of(copy.deepcopy(whole), family | {"grapes_k16"})
    second["context"]["time"] = "2026-11-21T08:00:00Z"
    second["rows"] = [row for row in second["rows"] if row["device"] == "cpu"]
    paths = [
        sample_record.write(document, tmp_path / name) for document, name in ((first, "one.json"), (second, "two.json"))
    ]
    (record,) = together([schema.load(path) for path in paths])
    assert set(record.workloads) == family | rest
    assert record.skipped == len([row for row in second["rows"] if row["workload"] == "grapes_k16"])
    assert "2026-11-20 23:00:00 UTC, 2026-11-21 08:00:00 UTC" in record.footer()
    assert table.main([*map(str, paths), "--markdown"]) == 0
    said = capsys.readouterr().out
    assert "Records: `one.json`, `two.json`." in said
    assert "embedding" in said and "cloud" in said
    assert draw.main([*map(str, paths), "--out", str(tmp_path / "out"), "--only", "files"]) == 0
    assert "together, being of one kind of machine: one.json + two.json" in capsys.readouterr().out
    assert (tmp_path / "out" / "files_cpu_iteration_cloud.png").is_file()


def test_records_that_contradict_each_other_are_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def changed(change: Callable[[dict[str, Any]], object]) -> Record:
        document = part_of(sample_record.make(gpu=False), FEW, ALL_DEVICES)
        change(document)
        return from_document(document, tmp_path / "two.json")

    first = changed(lambda _: None)
    for change, words in [
        (lambda d: d.update(schema_version=99), r"is of schema \d, two.json of schema 99"),
        (lambda d: d["context"]["host"].update(cores=2), "their times do not belong together"),
        (lambda d: d["workloads"][0].update(k=17), "mean different problems by workload grapes_k16"),
        (lambda d: [r.update(base="x") for r in d["rows"] if r["variant"] == "g2_constant"], "says 'x'"),
    ]:
        with pytest.raises(RecordError, match=words):
            merged([first, changed(change)])
    one, other = (part_of(sample_record.make(gpu=False), FEW) for _ in range(2))
    other["context"]["host"]["cpu"] = "Another CPU"
    paths = [
        str(sample_record.write(document, tmp_path / name))
        for document, name in ((one, "one.json"), (other, "two.json"))
    ]
    assert table.main([*paths, "--markdown"]) == 1
    assert "their times do not belong together" in capsys.readouterr().err


def test_a_workload_that_is_not_there_is_an_error(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(pictures), "--out", str(tmp_path / "out"), "--only", "tree", "--workload"]
    assert draw.main([*arguments, "snapshot_k9"]) == 1
    assert "has no workload snapshot_k9, but snapshot_k2, snapshot_k3" in capsys.readouterr().err
    assert draw.main([*arguments, "snapshot_k[2x]"]) == 0
    assert (tmp_path / "out" / "tree_cpu_iteration_snapshot_k2.png").is_file()


# ----------------------------------------------------------------------------------------------------- the new figures


def roofed() -> Record:
    """Every timed row on cuda states a percent of roof; those of one workload are bound by launches."""
    document = sample_record.make()
    for row in document["rows"]:
        timed = row["device"] == "cuda" and row["median_ms"] is not None
        row["roof_percent"] = (40.0 if row["variant"] == "g5_fused" else 0.31) if timed else None
        row["bound_by"] = "bytes" if row["workload"] == "embedding" else "flop"
        row["launch_bound"] = timed and row["workload"] == "grapes_k16"
    document["context"]["ceilings"] = {"cuda": {"empty_event_us": 1.5}}
    return newer(document)


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


def test_the_way_to_the_device_and_back_has_its_own_parts_where_it_was_timed() -> None:
    document = part_of(sample_record.make(), FEW)
    w = next(w for w in document["workloads"] if w["name"] == "embedding")
    document["rows"] += [sample_record.row("g1_plain", "", w, "cuda", s, ms=2.0) for s in ("upload", "download")]
    run = scopes.run_stack(record_of(document), Rung("g1_plain", "cuda"), [record_of(document).workloads["embedding"]])
    assert isinstance(run, scopes.Stack)
    assert [name for name, _ in run.parts] == ["upload", "solve", "download", "rest of the run"]
    assert run.whole == pytest.approx(sum(ms for _, ms in run.parts))


@pytest.mark.parametrize(("low", "high"), [(0.9, 2.1), (0.03, 90), (2e-4, 3e4), (1e-9, 1e9)])
def test_ticks_of_a_log_axis_do_not_touch(low: float, high: float, figures: dict[str, Figure]) -> None:
    for which, inches in (("x", 2.5), ("x", 12.0), ("y", 5.0)):
        page = style.Page("title", "", [], [])
        ax = page.axes(3, 3, inches if which == "x" else 5, inches if which == "y" else 5)
        ax.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
        style.log_ticks(ax, which, inches, TIMES)
        assert overlaps(page.figure) == []
        axis = ax.xaxis if which == "x" else ax.yaxis
        assert 1.0 in axis.get_ticklocs()
        assert 1 + (inches > 4) <= len(axis.get_ticklocs()) <= 20


def test_text_is_broken_where_it_ends() -> None:
    for bold in (False, True):
        lines = style.wrap("a title of some length " * 9 + "/" + "x" * 300, 15, style.TITLE, bold)
        assert " ".join(lines).replace(" ", "").count("x") == 300
        assert all(style.text_width(line, style.TITLE, bold) <= 15 for line in lines)
        following = [f"{line} {after.split(' ')[0]}" for line, after in pairwise(lines)]
        assert all(style.text_width(line, style.TITLE, bold) > 15 for line in following)
    assert style.wrap("", 15) == []


def test_the_roof_has_a_cell_per_rung_and_workload(figures: dict[str, Figure], tmp_path: Path) -> None:
    record = roofed()
    drawn, left_out = percent_of_peak.draw(record, tmp_path, Options())
    assert [stem for stem, _ in drawn] == ["roof_gpu_iteration"]
    assert left_out == ["roof (cpu, iteration): no row states its percent of roof"]
    figure = figures["roof_gpu_iteration"]
    values = [text.replace("\N{NO-BREAK SPACE}", " ") for text in texts(figure, "value")]
    assert len(values) + len(texts(figure, "gap")) == 8 * 8
    assert values.count("40 %") == 7 and values.count(f"40 %{DAGGER}") == 1
    assert f"0.3 %{DAGGER}" in values and "0.3 %*" in values
    page = texts(figure)
    assert any(
        text.startswith(f"{DAGGER} under ten times what two events measure") and "1.50 µs" in text for text in page
    )
    assert "embedding\n(bytes)" in page
    assert any(text.startswith("refused [") for text in texts(figure, "gap"))
    colours = {percent_of_peak.shade(value)[0] for value in (0.05, 0.3, 8, 100)}
    assert len(colours) == 4
    assert percent_of_peak.shade(0)[0] == percent_of_peak.shade(0.1)[0]


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


def test_a_tree_without_workload_takes_the_one_that_most_variants_ran(mixed: Record) -> None:
    chosen = tree.usual_workload(mixed, "cuda", "iteration")
    assert chosen
    timed = [
        sum(row.workload == w and row.timed and row.device == "cuda" for row in mixed.rows) for w in mixed.workloads
    ]
    assert sum(row.workload == chosen.name and row.timed and row.device == "cuda" for row in mixed.rows) == max(timed)
    assert tree.usual_workload(mixed, "cuda", "iteration") == chosen


def with_zeros(document: dict[str, Any]) -> dict[str, Any]:
    """Every third file of the family is dense, the others have 10 % down to 4 % that is not zero."""
    for index, w in enumerate(w for w in document["workloads"] if w["family"] == "cloud"):
        w["nonzeros"] = int(w["n"] * w["d"] * (0.95 if index % 3 == 0 else 0.1 - index / 120))
    return document


def test_time_per_file_has_a_line_per_variant_in_the_order_of_zeros(figures: dict[str, Figure], tmp_path: Path) -> None:
    record = newer(with_zeros(sample_record.make()))
    drawn, _ = per_workload.draw(record, tmp_path, Options())
    assert [stem for stem, _ in drawn] == ["files_gpu_iteration_cloud", "files_cpu_iteration_cloud"]
    ax = figures["files_gpu_iteration_cloud"].axes[0]
    lines = {line.get_gid(): line.get_ydata() for line in ax.get_lines() if (line.get_gid() or "").startswith("line")}
    assert len(lines) == 8 and set(texts(figures["files_gpu_iteration_cloud"], "name")) == {k[5:] for k in lines}
    order = [label.get_text().split("\n") for label in ax.get_xticklabels()]
    assert [name for name, _ in order] == ["0", "3", "6", "1", "2", "4", "5", "7"]
    assert [int(share) for _, share in order] == sorted(int(share) for _, share in order)
    fifth = record.row(Rung("g4_update", "cuda"), "cloud_05", "iteration")
    assert fifth and lines["line g4_update"][6] == fifth.median_ms


@pytest.mark.parametrize("pitch", [0.2, 0.9])
def test_labels_are_spread_in_order(pitch: float) -> None:
    wanted = [0.5, 0.52, 0.51, 3.9, 0.1, 4.0, 4.0]
    places = style.spread(wanted, pitch, 0, 4)
    ordered = [places[i] for i in sorted(range(7), key=lambda i: wanted[i])]
    assert all(0 <= place <= 4 + 1e-9 for place in places)
    assert all(b - a >= min(pitch, 4 / 6) - 1e-9 for a, b in pairwise(ordered))


def timed_iterations() -> Record:
    document = sample_record.make()
    for row in document["rows"]:
        if row["scope"] == "solve" and row["median_ms"] and row["device"] == "cuda":
            row["iteration_ms"] = [row["median_ms"] / (i + 2) for i in range(sample_record.ITERATIONS)]
            if row["variant"] == "g5_fused":
                pairs = next(w["n"] * w["k"] for w in document["workloads"] if w["name"] == row["workload"])
                row["counters"] = {"distances": [pairs // (i + 1) for i in range(sample_record.ITERATIONS)]}
        else:
            row["iteration_ms"] = []
    return newer(document)


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


def plane(tmp_path: Path, n: int, k: int) -> Path:
    """A record of one's own points in the plane, with a dump; two clusters are empty where k allows."""
    rng = np.random.default_rng(7)
    made = rng.random((n, 2))
    centroids = rng.random((k, 2))
    full = max(1, k - 2)
    labels = np.argmin(((made[:, None] - centroids[None, :full]) ** 2).sum(axis=2), axis=1).astype(np.int32)
    np.save(tmp_path / "mine.npy", made)
    w = sample_record.workload("mine", "mine", n, 2, k) | {"source": "a file of one's own: mine.npy"}
    rows = sample_record.session("g1_plain", "", w, "cpu", 1.0)
    for row in rows:
        row["dump"] = "dump"
    (tmp_path / "dump").mkdir()
    np.save(tmp_path / "dump" / "labels.npy", labels)
    np.save(tmp_path / "dump" / "centroids.npy", centroids)
    np.save(tmp_path / "dump" / "initial_centroids.npy", made[:k] if k <= n else centroids)
    document = sample_record.make(gpu=False) | {"workloads": [w], "rows": rows}
    document["context"]["argv"] = ["ladder", "run", "--data", "mine.npy", "--k", str(k), "--dump", "dump"]
    return sample_record.write(document, tmp_path / "record.json")


@pytest.mark.parametrize(("n", "k"), [(300, 3), (30_000, 100), (50, 1), (50, 2)])
def test_points_in_the_plane_are_drawn_by_label_with_centroids(
    n: int, k: int, figures: dict[str, Figure], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "nothing"))
    drawn, left_out = points.draw(schema.load(plane(tmp_path, n, k)), tmp_path, Options())
    assert (left_out, [stem for stem, _ in drawn]) == ([], ["points_mine"])
    figure = figures["points_mine"]
    ax = figure.axes[0]
    (scatter,) = [c for c in ax.collections if c.get_gid() == "points"]
    assert len(scatter.get_offsets()) == min(n, points.MOST_POINTS)
    ways = [line for line in ax.get_lines() if line.get_gid() == "way"]
    assert len(ways) == (k if k <= points.MOST_WAYS else 0)
    made, ended = np.load(tmp_path / "mine.npy"), np.load(tmp_path / "dump" / "centroids.npy")
    assert all(np.allclose(way.get_xydata(), [start, end]) for way, start, end in zip(ways, made, ended, strict=False))
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    box = ax.get_position()
    scales = (x1 - x0) / (box.width * style.WIDTH), (y1 - y0) / (box.height * figure.get_size_inches()[1])
    assert scales[0] == pytest.approx(scales[1])  # distances are as long along both axes
    bars = [bar.get_width() for bar in figure.axes[1].patches]
    assert bars == sorted(np.bincount(np.load(tmp_path / "dump" / "labels.npy"), minlength=k).tolist(), reverse=True)
    assert overlaps(figure) == []
    marks = {line.get_gid(): len(line.get_xdata()) for line in ax.get_lines() if line.get_gid() != "way"}
    used = len(set(np.load(tmp_path / "dump" / "labels.npy").tolist()))
    assert marks == {"centroids": used} | ({"empty": k - used} if used < k else {})
    assert any("drawn: 20,000 points, a random sample (seed 1)" in text for text in texts(figure)) == (n > 20_000)


def test_what_is_kept_of_a_plane_is_drawn_without_its_dump(
    figures: dict[str, Figure], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "nothing"))
    path = plane(tmp_path, 8_000, 5)
    sizes = np.bincount(np.load(tmp_path / "dump" / "labels.npy"), minlength=5)
    assert points.main([str(path), "--keep", "mine"]) == 0
    kept = tmp_path / "plane" / "mine.npz"
    assert capsys.readouterr().out == f"{kept}\n" and kept.stat().st_size < 200_000
    shutil.rmtree(tmp_path / "dump")
    (tmp_path / "mine.npy").unlink()
    drawn, left_out = points.draw(schema.load(path), tmp_path, Options())
    assert (left_out, len(drawn)) == ([], 1)
    ax, beside = figures["points_mine"].axes[:2]
    (scatter,) = [c for c in ax.collections if c.get_gid() == "points"]
    assert len(scatter.get_offsets()) == points.KEPT_POINTS
    assert sorted(bar.get_width() for bar in beside.patches) == sorted(sizes.tolist())
    assert any("computed by g1_plain on cpu" in text for text in texts(figures["points_mine"]))
    assert points.main([str(path), "--keep", "mine"]) == 1
    assert "mine has no dump; run it with --dump." in capsys.readouterr().err
    assert points.main([str(path), "--keep", "theirs"]) == 1
    assert "has no workload 'theirs' of two features" in capsys.readouterr().err
    with np.load(kept) as file:
        np.savez(kept, **(dict(file) | {"sizes": sizes[:4]}))
    with pytest.raises(RecordError, match="is not of mine"):
        points.draw(schema.load(path), tmp_path, Options())


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_in_the_plane_have_different_colours(seed: int) -> None:
    centroids = np.random.default_rng(seed).normal(size=(100, 2))
    found = points.colours(centroids)
    assert set(found) <= set(range(len(style.COLOURS)))
    edges = points.neighbours(centroids)
    assert len(edges) > 200
    assert all(found[a] != found[b] for a, b in edges)
    line = np.stack([np.arange(8.0), np.zeros(8)], axis=1)
    assert all(a != b for a, b in zip(points.colours(line), points.colours(line)[1:], strict=False))


def test_points_are_found_by_hand_or_left_out_with_the_reason(
    figures: dict[str, Figure], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "nothing"))
    record = schema.load(plane(tmp_path, 60, 4))
    elsewhere = tmp_path / "elsewhere.npy"
    (tmp_path / "mine.npy").rename(elsewhere)
    _, left_out = points.draw(record, tmp_path, Options())
    assert left_out == ["points (mine): its points were not found, name their file by --points"]
    drawn, _ = points.draw(record, tmp_path, Options(points=elsewhere))
    assert len(drawn) == 1
    np.save(elsewhere, np.zeros((61, 2)))
    with pytest.raises(RecordError, match=r"its shape \(61, 2\) is not that of mine \(60, 2\)"):
        points.draw(record, tmp_path, Options(points=elsewhere))
    (tmp_path / "dump" / "labels.npy").unlink()
    _, left_out = points.draw(record, tmp_path, Options())
    assert left_out == ["points (mine): no row has a dump beside the record, run with --dump"]


def outside(axis: Axis) -> list[Text]:
    """Labels of ticks beyond the limits: matplotlib keeps them and does not draw them."""
    low, high = sorted(axis.get_view_interval())
    ticks = axis.get_major_ticks() + axis.get_minor_ticks()
    return [label for t in ticks if not low <= t.get_loc() <= high for label in (t.label1, t.label2)]


def overlaps(figure: Figure) -> list[str]:
    """Pairs of texts that touch, and texts that leave the page."""
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    page = figure.bbox
    found = []
    unseen = {label for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) for label in outside(axis)}
    placed: list[tuple[str, Any]] = []
    for text in figure.findobj(lambda artist: isinstance(artist, Text)):
        if text in unseen or not text.get_visible() or not text.get_text().strip():
            continue
        box = text.get_window_extent(renderer)
        if text.get_gid() == "gap" and box.x1 > text.axes.bbox.x1 + 1:
            found.append(f"{text.get_text()} leaves its panel")
        if box.x0 < -1 or box.y0 < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1:
            found.append(f"{text.get_text()} leaves the page")
        # Boxes of text hold its line spacing too: half a point of it may be shared by neighbours.
        placed.append((text.get_text(), box.padded(-1.5)))
    for index, (one, box) in enumerate(placed):
        found += [f"{one} / {other}" for other, its in placed[index + 1 :] if box.overlaps(its)]
    return found


NARROW_SMALLEST = 9 * style.WIDTH / 12  # points that are nine on a page 12 inches wide


@pytest.mark.parametrize("which", ["mixed", "tall", "roofed", "timed", "swept", "mapped"])
def test_pages_are_legible(
    which: str, request: pytest.FixtureRequest, figures: dict[str, Figure], tmp_path: Path
) -> None:
    """No text is clipped, overlaps or is small; every page names its record and the command that draws it."""
    if which in ("mixed", "tall"):
        record = request.getfixturevalue(which)
        if which == "mixed":
            record = record.only(["grapes_k100", "grapes_k1500", "embedding", "cloud"])
        for name in ("ladder", "tree", "scopes", "sweep", "files", "convergence"):
            draw.FIGURES[name](record, tmp_path, ITERATION)
        ladder.draw(record, tmp_path, Options(scopes=("iteration",), over="base"))
    elif which == "roofed":
        percent_of_peak.draw(roofed(), tmp_path, Options())
    elif which == "swept":
        tuning.draw(request.getfixturevalue(which), tmp_path, Options())
    elif which == "mapped":
        shape_map.draw(record_of(with_gaps(sample_record.grid())), tmp_path, Options())
    else:
        convergence.draw(timed_iterations(), tmp_path, Options())
    assert len(figures) > {"roofed": 0, "swept": 1, "mapped": 1}.get(which, 5)
    found = {stem: overlaps(figure)[:5] for stem, figure in figures.items()}
    assert {stem: overlapping for stem, overlapping in found.items() if overlapping} == {}
    for stem, figure in figures.items():
        assert figure.get_size_inches()[0] == style.WIDTH
        found_texts = figure.findobj(lambda artist: isinstance(artist, Text))
        assert min(text.get_fontsize() for text in found_texts if text.get_text()) >= NARROW_SMALLEST, stem
        page = texts(figure)
        assert any(text.startswith("drawn by python -m plots.draw record.json --only ") for text in page), stem
        assert any("git 0123456789" in text for text in page), stem


# ------------------------------------------------------------------------------------------------- the map of shapes


def with_gaps(document: dict[str, Any]) -> dict[str, Any]:
    """The largest shape refused by the peers, and another by the rungs; one time that is not to be trusted."""
    for row in document["rows"]:
        if row["workload"] == "map_flat_n1000000_d2048_k100000" and row["base"] == "":
            strip(row, "refused", "400,000,000,000 bytes are needed, 150,000,000,000 are there.")
        if row["workload"] == "map_flat_n1000000_d2048_k10000" and row["base"] != "":
            strip(row, "failed", "ended by signal 9.")
        if row["workload"] == "map_flat_n10000_d32_k100" and row["variant"] == "v1_few_threads":
            row.update(status="unstable", reason="the clock fell.")
    return document


def test_the_map_has_the_best_rung_over_the_best_peer_of_each_shape(figures: dict[str, Figure], tmp_path: Path) -> None:
    document = sample_record.grid()
    assert schema.violations(document) == []
    drawn, left_out = shape_map.draw(record_of(document), tmp_path, Options(devices=("cuda",)))
    assert [stem for stem, _ in drawn] == ["map_gpu_iteration", "map_gpu_solve"] and left_out == []
    page = figures["map_gpu_iteration"]
    # D = 32: four times faster than p_one; D = 2048: slower than it. p_two has no iteration.
    ratios = [round(float(text.strip(f"{TIMES}{DAGGER}")), 1) for text in texts(page, "value")]
    assert sorted(ratios) == [0.8] * 4 + [4.0] * 4
    assert sorted(texts(page, "name")) == ["v1_few_threads"] * 4 + ["v2_many_threads"] * 4
    assert "The ladder is ahead on 4 of 8 shapes: " in " ".join(texts(page))
    assert "The best rung: v1_few_threads on 4, v2_many_threads on 4." in texts(page)
    titles = [ax.get_title(loc="left") for ax in page.axes]
    assert titles == ["an even load, N = 10,000", "an even load, N = 1,000,000"]
    # Of a solve, per iteration; the best of two peers, and which.
    page = figures["map_gpu_solve"]
    ratios = [round(float(text.strip(f"{TIMES}{DAGGER}")), 1) for text in texts(page, "value")]
    assert sorted(ratios) == [0.8] * 4 + [2.0] * 4
    assert texts(page, "name").count("over p_two") == texts(page, "name").count("over p_one") == 4
    assert "than the best of p_one, p_two: blue is faster" in " ".join(texts(page))


def test_ahead_is_blue_and_behind_is_orange(figures: dict[str, Figure], tmp_path: Path) -> None:
    shape_map.draw(record_of(sample_record.grid()), tmp_path, ITERATION)
    seen = set()
    for ax in figures["map_gpu_iteration"].axes:
        for square, text in zip(ax.patches, [t for t in ax.texts if t.get_gid() == "value"], strict=True):
            red, _, blue, _ = square.get_facecolor()
            seen.add((text.get_text()[:3], "blue" if blue > red else "orange"))
    assert {colour for ratio, colour in seen if float(ratio) > 1} == {"blue"}
    assert {colour for ratio, colour in seen if float(ratio) < 1} == {"orange"}


def test_the_map_says_where_there_is_no_peer_or_no_rung(figures: dict[str, Figure], tmp_path: Path) -> None:
    shape_map.draw(record_of(with_gaps(sample_record.grid())), tmp_path, ITERATION)
    page = figures["map_gpu_iteration"]
    assert sorted(texts(page, "gap")) == ["no peer [2]", "no rung [1]"]
    assert "[1] v1_few_threads is failed: ended by signal 9." in texts(page)
    assert any(text.startswith("[2] p_one is refused: 400,000,000,000 bytes") for text in texts(page))
    assert [text for text in texts(page, "value") if text.endswith("*")]
    assert "* unstable: the samples are not to be trusted." in texts(page)
    assert "The ladder is ahead on 4 of 6 shapes: " in " ".join(texts(page))


def test_without_peers_or_without_shapes_there_is_no_map(mixed: Record, tmp_path: Path) -> None:
    document = sample_record.grid()
    document["rows"] = [row for row in document["rows"] if row["base"]]
    why = "no family with several D and K at the same N, and times of a rung and of a peer"
    for record in (record_of(document), mixed):
        drawn, left_out = shape_map.draw(record, tmp_path, Options(devices=("cuda",), scopes=("iteration",)))
        assert drawn == [] and left_out == [f"map (gpu, iteration): {why}"]


def test_names_are_short_only_where_that_tells_them_apart() -> None:
    assert shape_map.short_names(["v1_one", "v2_two"], 9) == {"v1_one": "v1_one", "v2_two": "v2_two"}
    assert shape_map.short_names(["v1_one", "v2_two"], 0.5) == {"v1_one": "v1", "v2_two": "v2"}
    assert shape_map.short_names(["p_one", "p_two"], 0.1) == {"p_one": "p_one", "p_two": "p_two"}


# -------------------------------------------------------------------------------------------------------- the table


def cells(markdown: str, section: str, variant: str) -> list[str]:
    part = markdown[markdown.index(f"**{section}") :]
    line = next(line for line in part.splitlines() if line.startswith(f"| `{variant}`"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def spaced(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_table_holds_times_speedups_roofs_and_footnotes() -> None:
    record = roofed()
    text = spaced(table.markdown(record))
    row = record.row(Rung("g4_update", "cuda"), "grapes_k100", "iteration")
    assert row and row.median_ms
    assert cells(text, "GPU times", "g4_update")[3] == f"{number(row.median_ms)} ms · 4.20{TIMES} · 0.3 %"
    assert f" ms{DAGGER} · 4.2" in cells(text, "GPU times", "g4_update")[2]
    assert TIMES not in cells(text, "GPU times", "g1_plain")[2]
    assert cells(text, "GPU times", "g4_update")[8].endswith("(unstable)")
    refused = cells(text, "GPU times", "g2_constant")[6]
    assert refused.startswith("refused<sup>")
    mark = refused.removeprefix("refused<sup>").removesuffix("</sup>")
    assert f"\n{mark}. the centroids take 66000 bytes" in text
    header = next(line for line in text.splitlines() if line.startswith("| variant"))
    assert "| gain over its base |" in header
    assert "| embedding | cloud dense (8 files)<sup>" in header or "| embedding | cloud (8 files)<sup>" in header
    gpu = text[text.index("**GPU times") : text.index("**CPU")]
    assert "simt" not in gpu
    assert "s1_serial" not in gpu
    assert cells(text, "CPU", "s2_threads")[0] == "`s2_threads`"
    first_line = text.splitlines()[0]
    assert all(word in first_line for word in ("Example GPU X1", "2026-11-20", "git 0123456789", "percent of the"))
    assert text.rstrip().endswith("(1.50 µs): mostly launch (of several workloads: one at least).")


def test_the_table_says_what_a_variant_gained_over_its_base(mixed: Record) -> None:
    text = spaced(table.markdown(mixed))
    assert cells(text, "GPU times", "g1_plain")[1] == "root"
    fused = cells(text, "GPU times", "g5_fused")[1]
    assert fused.endswith(") over `g4_update`")
    assert float(fused[: fused.index(TIMES)]) == pytest.approx(31 / 4.2, rel=0.05)
    assert cells(text, "GPU times", "h3_crash")[1].endswith(" on 2 of 8 over `h2_tiles`")
    over_base = spaced(table.markdown(mixed, over="base"))
    assert "gain over" not in over_base
    assert "speedup over the base" in over_base
    assert f" · {number(31 / 4.2)[:3]}" in cells(over_base, "GPU times", "g5_fused")[4]
    lost = without("g1_plain")
    assert cells(spaced(table.markdown(lost)), "GPU times", "g3_pinned")[1] == "`g1_plain` is not in this record"


def test_rows_on_simt_are_right_and_no_speedup(mixed: Record) -> None:
    text = spaced(table.markdown(mixed))
    row = mixed.row(Rung("g4_update", "simt"), "grapes_k100", "iteration")
    assert row and row.median_ms
    simt = text[text.index("**The GPU's source on the CPU device simt") :]
    assert cells(simt, "The GPU", "g4_update")[2] == f"(right, {number(row.median_ms)} ms)"
    lines = [line for line in simt.splitlines() if line.startswith("| `")]
    assert len(lines) == 8
    assert not any(TIMES in line for line in lines)


def test_a_family_of_many_has_a_column_per_kind_with_medians_and_the_spread() -> None:
    document = with_zeros(sample_record.make())
    for row in document["rows"]:
        if row["workload"] in ("cloud_01", "cloud_02", "cloud_04", "cloud_05") and row["median_ms"]:
            factor = 2.0 if row["variant"] == "g4_update" else 1.0
            factor *= 0.5 if row["workload"] == "cloud_01" else 0.25
            for key in ("median_ms", "q1_ms", "q3_ms"):
                row[key] *= factor
    record = newer(document)
    dense, sparse = (column for column in record.columns(record.workloads) if column.name.startswith("cloud"))
    assert (dense.name, sparse.name) == ("cloud dense (3 files)", "cloud sparse (5 files)")
    rung = Rung("g4_update", "cuda")
    cell = record.cell(rung, sparse, "iteration")
    assert isinstance(cell, Cell)
    rows = [record.row(rung, w.name, "iteration") for w in sparse.workloads]
    assert cell.ms == pytest.approx(np.median([row.median_ms for row in rows if row]))
    speedups = [record.speedup(rung, w.name, "iteration") for w in sparse.workloads]
    assert cell.speedup == pytest.approx(np.median([s.value for s in speedups if isinstance(s, Speedup)]))
    note = next(line for line in table.markdown(record).splitlines() if "cloud sparse (5 files): medians" in line)
    assert "A variant's slowest file takes" in note
    assert isinstance(record.cell(Rung("g2_constant", "cuda"), Column("x", sparse.workloads), "nothing"), Gap)


def test_update_writes_the_table_and_check_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = part_of(sample_record.make(), FEW)
    source = sample_record.write(document, tmp_path / "record.json")
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{table.BEGIN}\nyesterday\n{table.END}\nafter\n")
    assert table.main([str(source), "--check", str(readme)]) == 1
    assert table.main([str(source), "--update", str(readme)]) == 0
    text = readme.read_text()
    assert text.startswith(f"before\n{table.BEGIN}\nExample GPU X1")
    assert text.endswith(f"{table.END}\nafter\n")
    assert "yesterday" not in text
    assert table.main([str(source), "--check", str(readme)]) == 0
    changed = copy.deepcopy(document)
    for row in changed["rows"]:
        if row["variant"] == "g5_fused" and row["samples_ms"]:
            row["reason"], row["status"] = "the clock fell.", "unstable"
    sample_record.write(changed, source)
    capsys.readouterr()
    assert table.main([str(source), "--check", str(readme)]) == 1
    assert "--update" in capsys.readouterr().err


def test_the_whole_run_is_told_before_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = sample_record.make()
    source = sample_record.write(document, tmp_path / "record.json")
    rows = [r for r in document["rows"] if r["scope"] == "end_to_end" and r["device"] != "simt" and r["status"] == "ok"]
    workload = rows[0]["workload"]
    best = min((r for r in rows if r["workload"] == workload), key=lambda r: r["median_ms"])
    assert table.main([str(source), "--workload", workload, "--whole-run", workload, "--markdown"]) == 0
    sentence = capsys.readouterr().out.splitlines()[0]
    assert f"by `{best['variant']}`" in sentence and f"**{number(best['median_ms'])}{SPACE}ms**" in sentence
    assert f"{best['validation']['rows_checked']:,} labels held against fp64, 0 are wrong" in sentence
    best |= {"q1_ms": None, "q3_ms": None, "samples_ms": best["samples_ms"][:1]}  # few samples have no quartiles
    assert "quartiles" in sentence and "quartiles" not in table.whole_run(from_document(document, source), workload)
    assert table.main([str(source), "--whole-run", "nothing", "--markdown"]) == 1
    assert "has no valid end_to_end time on 'nothing'" in capsys.readouterr().err


def test_update_refuses_a_file_without_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = sample_record.write(part_of(sample_record.make(gpu=False), FEW), tmp_path / "record.json")
    readme = tmp_path / "README.md"
    readme.write_text("nothing here\n")
    assert table.main([str(source), "--update", str(readme)]) == 1
    assert readme.read_text() == "nothing here\n"
    assert "must hold the lines" in capsys.readouterr().err
