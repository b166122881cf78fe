"""What lies beside a record: the folders that `ladder run --dump` wrote, and the data cache."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from plots.lib.arrays import read_npy
from plots.lib.record import ROOT, RecordError, Row, Workload


def cache_folder() -> Path:
    """Where the converted data lies: LADDER_CACHE, else datasets/cache of this checkout."""
    return Path(os.environ.get("LADDER_CACHE") or ROOT / "datasets" / "cache")


def dump_folder(row: Row) -> Path | None:
    """The row's dump, relative to the record; None where there is none, or where it was removed."""
    if not row.dump:
        return None
    folder = row.folder / row.dump
    complete = all((folder / name).is_file() for name in ("labels.npy", "centroids.npy"))
    return folder if complete else None


def solution(folder: Path, workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Labels (N) and centroids (K x D) of a dump. Throws RecordError where they do not fit the workload."""
    labels, centroids = read_npy(folder / "labels.npy", "iu"), read_npy(folder / "centroids.npy", "f")
    if labels.shape != (workload.n,) or centroids.shape != (workload.k, workload.d):
        raise RecordError(
            f"{folder}: labels {labels.shape} and centroids {centroids.shape} do not fit {workload.name} "
            f"({workload.size}); run with --dump again."
        )
    if labels.min() < 0 or labels.max() >= workload.k:
        raise RecordError(f"{folder}/labels.npy: holds labels outside 0 .. {workload.k - 1}.")
    return labels, centroids


def beginning(folder: Path, workload: Workload) -> np.ndarray | None:
    """The initial centroids (K x D) of a dump; None where it has none that fit."""
    path = folder / "initial_centroids.npy"
    if not path.is_file():
        return None
    centroids = read_npy(path, "f")
    return centroids if centroids.shape == (workload.k, workload.d) else None
