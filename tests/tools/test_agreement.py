"""What `--dump` hands out, held against scikit-learn: an independent Lloyd on the same points."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from agreement import Card, disagreement, nearest
from conftest import BUILD, Ladder
from sklearn.cluster import KMeans

DATASETS = Path(__file__).resolve().parents[3] / "shared" / "datasets"


def blobs(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal(size=(9, d))[rng.integers(9, size=n)] * 6 + rng.normal(size=(n, d))


def skin() -> np.ndarray:
    path = DATASETS / "skin" / "Skin_NonSkin.txt"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return np.loadtxt(path, delimiter="\t")[::512, :3]


def letter() -> np.ndarray:
    path = DATASETS / "letter" / "letter-recognition.data"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return np.loadtxt(path, delimiter=",", usecols=range(1, 17))[::40]


def cards(ladder: Ladder) -> dict[str, Card]:
    return {variant["id"]: variant for variant in json.loads(ladder("list", "--json").stdout)["variants"]}


@pytest.mark.parametrize(
    ("name", "k", "stop", "dtype", "part"),  # each data set in each type would take a minute more
    [
        ("blobs", 9, "exact", np.float32, slice(None)),
        ("blobs", 9, "exact", np.float64, slice(0, None, 2)),
        ("skin", 12, "fixed:5", np.float64, slice(1, None, 2)),
        ("letter", 26, "reassigned:0.01", np.float32, slice(0, None, 2)),
    ],
)
def test_scikit_learn_agrees(
    ladder: Ladder, tmp_path: Path, name: str, k: int, stop: str, dtype: type, part: slice
) -> None:
    points = {"blobs": lambda: blobs(300, 7), "skin": skin, "letter": letter}[name]().astype(dtype)
    np.save(tmp_path / f"{name}.npy", points)
    everyone = cards(ladder)
    chosen = list(everyone)
    if "LADDER_TEST_ALL" not in os.environ:  # what rungs keep that others build upon is tried through those
        upon = (BUILD / "rungs_built_upon.txt").read_text().split()
        chosen = [variant for variant in everyone if variant not in upon][part]
    record = ladder.run(
        "--device",
        "simt",
        "--variants",
        ",".join(chosen),
        "--data",
        tmp_path / f"{name}.npy",
        "--k",
        str(k),
        "--stop",
        stop,
        "--scopes",
        "solve",
        "--check",
        "--time-limit",  # the CPU device takes long over shuffles
        "300",
        "--dump",
        tmp_path / "dump",
    )
    assert record["workloads"][0]["type"] == ("f32" if dtype is np.float32 else "f64")
    # What draws first centroids leaves those alone.
    folders = sorted(labels.parent for labels in (tmp_path / "dump" / name).glob("*/labels.npy"))
    # A library that is not installed is refused, and leaves nothing.
    assert len(folders) == len({r["variant"] for r in record["rows"] if r["status"] == "checked"})
    for folder in folders:
        assert disagreement(points, folder, everyone[folder.name]) == "", folder.name
        differ = np.mean(nearest(points, np.load(folder / "centroids.npy")) != np.load(folder / "labels.npy"))
        assert differ < (0.05 if everyone[folder.name]["input_roundoff"] else 1e-3), folder.name
    for row in record["rows"]:
        assert row["status"] != "checked" or (ladder.folder / row["dump"]).is_dir()


def test_given_centroids_are_used(ladder: Ladder, tmp_path: Path) -> None:
    points = blobs(500, 4).astype(np.float32)
    np.save(tmp_path / "p.npy", points)
    np.save(tmp_path / "c.npy", points[10:15])
    ladder.run(
        "--device",
        "cpu",
        "--variants",
        "c0*",
        "--data",
        tmp_path / "p.npy",
        "--k",
        "5",
        "--init",
        tmp_path / "c.npy",
        "--stop",
        "fixed:3",
        "--dump",
        tmp_path / "dump",
    )
    folder = tmp_path / "dump" / "p" / "c0_serial"
    assert np.array_equal(np.load(folder / "initial_centroids.npy"), points[10:15])
    model = KMeans(n_clusters=5, init=points[10:15].astype(np.float64), n_init=1, max_iter=3, tol=0).fit(points)
    assert np.load(folder / "centroids.npy") == pytest.approx(model.cluster_centers_, rel=1e-4)
