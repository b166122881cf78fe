"""Points in the plane, each in the colour of its cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import sample_record
from figure_helpers import overlaps, texts
from matplotlib.figure import Figure

from plots import keep_points
from plots.figures import points
from plots.lib import schema, style
from plots.lib.options import Options
from plots.lib.record import RecordError

pytest_plugins = ("figure_fixtures",)


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
    assert keep_points.main([str(path), "--keep", "mine"]) == 0
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
    assert keep_points.main([str(path), "--keep", "mine"]) == 2
    assert "mine has no dump; run it with --dump." in capsys.readouterr().err
    assert keep_points.main([str(path), "--keep", "theirs"]) == 2
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
