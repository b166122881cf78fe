"""The plots read records only: what they say of made-up ones, and that nothing is clipped or overlaps."""

from __future__ import annotations

import copy
import json
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "plots"))

import check
import convergence
import draw
import ladder
import photo
import sample_record
import scopes
import style
import sweep
import table
from record import TIMES, Gap, Record, Rung, Speedup, from_document, geometric_mean, number, tree_order


def record_of(document: dict[str, Any], path: Path = Path("record.json")) -> Record:
    assert check.violations(document) == []
    return from_document(document, path)


@pytest.fixture(scope="module")
def mixed() -> Record:
    return record_of(sample_record.make())


@pytest.fixture(scope="module")
def tall() -> Record:
    return record_of(sample_record.tall())


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


def test_a_chain_that_leaves_the_record_has_no_root_and_no_speedup() -> None:
    document = sample_record.make()
    document["rows"] = [row for row in document["rows"] if row["variant"] != "g3_pinned"]
    found = record_of(document)
    assert found.root("g5_fused") is None
    assert found.root("g2_constant") == "g1_plain"
    gap = found.speedup(Rung("g5_fused", "cuda"), "embedding", "iteration")
    assert isinstance(gap, Gap)
    assert gap.status == "no root"


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
            row.update(status="invalid", reason="1 label is wrong.")
    gap = record_of(document).speedup(Rung("g4_update", "cuda"), "grapes_k16", "iteration")
    assert isinstance(gap, Gap)
    assert gap.status == "no root"


def test_an_unstable_root_makes_its_tree_unstable() -> None:
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "g1_plain":
            row.update(status="unstable", reason="the clock fell.")
    found = record_of(document).speedup(Rung("g5_fused", "cuda"), "grapes_k16", "iteration")
    assert isinstance(found, Speedup)
    assert found.unstable


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1, "1.00"), (12.34, "12.3"), (99.99, "100.0"), (1234.5, "1,234")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


# ------------------------------------------------------------------------------------------------------ the ladder


def test_scopes_of_the_ladder_are_iteration_and_those_where_a_change_shows(mixed: Record, tall: Record) -> None:
    assert ladder.scopes_of(mixed, "gpu") == ["assign", "update", "iteration", "end_to_end"]
    assert ladder.scopes_of(tall, "gpu") == ["assign", "iteration"]


def test_a_simt_time_is_in_no_gpu_figure(figures: dict[str, Figure], tmp_path: Path) -> None:
    """Times of simt and cpu are changed; the GPU's pages must not notice, the CPU's must."""
    before, after = sample_record.make(), sample_record.make()
    for row in after["rows"]:
        if row["device"] != "cuda" and row["samples_ms"]:
            row["samples_ms"] = [ms * (3 if row["base"] else 1) for ms in row["samples_ms"]]
            row["q1_ms"], row["median_ms"], row["q3_ms"] = (
                float(q) for q in np.percentile(row["samples_ms"], [25, 50, 75])
            )
    drawn = []
    for document in (before, after):
        ladder.draw(record_of(document), tmp_path, ["iteration"])
        sweep.draw(record_of(document), tmp_path)
        drawn.append({stem: texts(figure) + lines_of(figure) for stem, figure in figures.items()})
    gpu = {stem for stem in drawn[0] if "_gpu_" in stem}
    cpu = {stem for stem in drawn[0] if "_cpu_" in stem}
    assert gpu == {"ladder_gpu_iteration", "ladder_gpu_iteration_grapes", "sweep_gpu_iteration_grapes"}
    assert all(drawn[0][stem] == drawn[1][stem] for stem in gpu)
    assert len(cpu) == len(gpu)
    assert all(drawn[0][stem] != drawn[1][stem] for stem in cpu)
    for stem in cpu:
        assert any("CPU times" in text for text in texts(figures[stem]))
    for stem in gpu:
        assert not any(word in text for text in texts(figures[stem]) for word in ("simt", "s1_serial", "CPU"))


def lines_of(figure: Figure) -> list[str]:
    return [str(np.asarray(line.get_data())) for ax in figure.axes for line in ax.get_lines()]


def test_a_record_without_gpu_has_no_gpu_page(figures: dict[str, Figure], tmp_path: Path) -> None:
    _, left_out = ladder.draw(record_of(sample_record.make(gpu=False)), tmp_path, ["iteration"])
    assert set(figures) == {"ladder_cpu_iteration", "ladder_cpu_iteration_grapes"}
    assert left_out == ["ladder (gpu): no row on cuda"]


def test_gaps_carry_status_and_reason(mixed: Record, figures: dict[str, Figure], tmp_path: Path) -> None:
    ladder.draw(mixed, tmp_path, ["iteration"])
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
    assert any(value.startswith("only 4 of 6 (refused)") for value in values)


def test_a_family_is_its_geometric_mean(mixed: Record) -> None:
    members = tuple(w for w in mixed.workloads.values() if w.family == "cloud")
    made = ladder.mark(mixed, Rung("g4_update", "cuda"), ladder.Panel("cloud", members), "iteration")
    each = [mixed.speedup(Rung("g4_update", "cuda"), w.name, "iteration") for w in members]
    assert made.value == pytest.approx(geometric_mean(s.value for s in each if isinstance(s, Speedup)))
    assert len(made.dots) == len(members) == 8


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
    assert scopes.Stack((("solve", 3.0),), 2.0, False).whole_apart
    assert scopes.Stack((("solve", 3.0), ("transfers and layout", 1.0)), 4.0, False).whole_apart
    assert not scopes.Stack((("fused iteration", 3.0),), 3.0, False).whole_apart
    assert not scopes.Stack((("solve", 3.0),), None, False).whole_apart


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
    convergence.draw(mixed, tmp_path)
    assert set(figures) == {"convergence_grapes", "convergence_embedding", "convergence_cloud"}
    lines = figures["convergence_embedding"].axes[0].get_lines()
    assert list(lines[0].get_ydata()[:3]) == [1.0, 0.5, 0.25]
    assert any(list(line.get_ydata()) == [0.01, 0.01] for line in lines)
    assert any(list(line.get_xdata()) == [10, 10] for line in figures["convergence_cloud"].axes[0].get_lines())


def test_a_sweep_needs_several_k_of_the_same_points(mixed: Record) -> None:
    found = sweep.sweeps(mixed, ("cuda",), "iteration")
    assert list(found) == ["grapes"]
    assert [w.k for w in found["grapes"]] == [16, 100, 300, 900, 1500, 2100]


def test_a_sweep_draws_no_line_through_a_refusal(mixed: Record, figures: dict[str, Figure], tmp_path: Path) -> None:
    sweep.draw(mixed, tmp_path)
    times = [line.get_ydata() for line in figures["sweep_gpu_iteration_grapes"].axes[0].get_lines()]
    missing = sorted(tuple(np.flatnonzero(np.isnan(line))) for line in times if np.isnan(line).any())
    assert missing == [(1,), (4, 5)]  # invalid at the second K, refused at the last two


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
        made = sample_record.session("g1_plain", "", w, "simt", 1.0)
        for row in made:
            row["dump"] = f"dump/g1_plain/{w['name']}"
        folder = tmp_path / made[0]["dump"]
        folder.mkdir(parents=True)
        np.save(folder / "labels.npy", (np.arange(24) % w["k"]).astype(np.int32))
        np.save(folder / "centroids.npy", np.array([[0, 0, 0], [255, 0, 51], [0, 255, 0]], np.float32)[: w["k"]])
        rows += made
    document = {"schema_version": 1, "context": sample_record.context(False), "workloads": workloads, "rows": rows}
    return sample_record.write(document, tmp_path / "record.json")


def test_the_photo_is_rebuilt_from_labels_and_centroids(
    pictures: Path, figures: dict[str, Figure], tmp_path: Path
) -> None:
    drawn, left_out = photo.draw(check.load(pictures), tmp_path)
    assert [stem for stem, _ in drawn] == ["photo_snapshot"]
    assert left_out == []
    images = [ax.get_images()[0].get_array() for ax in figures["photo_snapshot"].axes]
    assert [image.shape for image in images] == [(4, 6, 3)] * 3
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
    _, left_out = photo.draw(check.load(pictures), tmp_path)
    assert left_out == ["photo (snapshot_k3): no row has a dump beside the record, run with --dump"]
    assert len(figures["photo_snapshot"].axes) == 2
    (tmp_path / "cache/snapshot.npy").unlink()
    drawn, left_out = photo.draw(check.load(pictures), tmp_path)
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
        "convergence_snapshot.png",
        "convergence_snapshot.svg",
        "index.html",
    }


def test_records_of_several_machines_are_drawn_apart(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    second = tmp_path / "b" / "record.json"
    second.write_text(pictures.read_text())
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


def outside(axis: Axis) -> list[Text]:
    """Labels of ticks beyond the limits: matplotlib keeps them and does not draw them."""
    low, high = sorted(axis.get_view_interval())
    ticks = axis.get_major_ticks() + axis.get_minor_ticks()
    return [label for t in ticks if not low <= t.get_loc() <= high for label in (t.label1, t.label2)]


def overlaps(figure: Figure) -> list[str]:
    """Pairs of texts that touch, and texts that leave the page."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
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


@pytest.mark.parametrize("which", ["mixed", "tall"])
def test_no_text_is_clipped_or_overlaps(
    which: str, request: pytest.FixtureRequest, figures: dict[str, Figure], tmp_path: Path
) -> None:
    found = request.getfixturevalue(which)
    ladder.draw(found, tmp_path, ["iteration"])
    scopes.draw(found, tmp_path)
    convergence.draw(found, tmp_path)
    sweep.draw(found, tmp_path)
    bad = {stem: overlaps(figure) for stem, figure in figures.items()}
    assert {stem: pairs[:5] for stem, pairs in bad.items() if pairs} == {}


def test_no_font_is_smaller_than_fourteen_points(tall: Record, figures: dict[str, Figure], tmp_path: Path) -> None:
    ladder.draw(tall, tmp_path, ["iteration"])
    scopes.draw(tall, tmp_path)
    sizes = {
        text.get_fontsize()
        for figure in figures.values()
        for text in figure.findobj(lambda artist: isinstance(artist, Text))
        if text.get_text()
    }
    assert min(sizes) >= 14
    assert all(figure.get_size_inches()[0] == 19.2 for figure in figures.values())


# -------------------------------------------------------------------------------------------------------- the table


def cells(markdown: str, section: str, variant: str) -> list[str]:
    part = markdown[markdown.index(f"**{section}") :]
    line = next(line for line in part.splitlines() if line.startswith(f"| `{variant}`"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_holds_times_speedups_and_footnotes(mixed: Record) -> None:
    text = table.markdown(mixed)
    row = mixed.row(Rung("g4_update", "cuda"), "grapes_k16", "iteration")
    assert row and row.median_ms
    assert cells(text, "GPU", "g4_update")[1] == f"{number(row.median_ms)} ms, 4.20{TIMES}"
    assert TIMES not in cells(text, "GPU", "g1_plain")[1]
    assert cells(text, "GPU", "g4_update")[7].endswith("(unstable)")
    refused = cells(text, "GPU", "g2_constant")[5]
    assert refused.startswith("refused<sup>")
    mark = refused.removeprefix("refused<sup>").removesuffix("</sup>")
    assert f"\n{mark}. the centroids take 66000 bytes" in text
    header = next(line for line in text.splitlines() if line.startswith("| variant"))
    assert header.endswith("| embedding | cloud (mean of 8) |")
    gpu = text[text.index("**GPU") : text.index("**CPU")]
    assert "simt" not in gpu
    assert "s1_serial" not in gpu
    assert cells(text, "CPU", "s2_threads")[0] == "`s2_threads` (cpu)"
    first_line = text.splitlines()[0]
    assert all(word in first_line for word in ("Example GPU X1", "2026-11-20", "git 0123456789"))


def test_update_writes_the_table_and_check_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = sample_record.make()
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
            row["samples_ms"] = [row["q3_ms"]]
            row["q1_ms"] = row["median_ms"] = row["q3_ms"]
    sample_record.write(changed, source)
    capsys.readouterr()
    assert table.main([str(source), "--check", str(readme)]) == 1
    assert "--update" in capsys.readouterr().err


def test_update_refuses_a_file_without_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = sample_record.write(sample_record.make(gpu=False), tmp_path / "record.json")
    readme = tmp_path / "README.md"
    readme.write_text("nothing here\n")
    assert table.main([str(source), "--update", str(readme)]) == 1
    assert readme.read_text() == "nothing here\n"
    assert "must hold the lines" in capsys.readouterr().err
