"""Points that are worked on while they arrive, in whole runs: samples are so small that most points are in none, and
far ones leave their unit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Ladder
from test_certified import SETS, Data, faulty_copy, in_turn, run, with_fault
from test_projected import LESS, counted, many_near_few_directions, near_few_directions

OVERLAPPED = "v45_overlapped_upload"
GRAPH_LOOP = "v46_graph_loop"
CHUNKED_POINTS = 500 * (1 + 3 * 128 * (os.cpu_count() or 1) // 500)  # the CPU device has a multiprocessor per core
SMALL_SAMPLES = [
    *LESS,
    ("projection/pca.cuh", "constexpr int sample_rows = 4096;", "constexpr int sample_rows = 48;"),
    ("lloyd/frame.cuh", r"constexpr int (\w+) = 1024;", r"constexpr int \1 = 32;"),
]


SAME_ROWS = ("overlap/chunked_upload.cuh", r"(?<=\.x \+ first, )(\w+)\.points \+ first", r"\1.points")


@pytest.fixture(scope="module")
def overlapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small_samples") / "copy"
    return faulty_copy(folder, [*SMALL_SAMPLES, in_turn(1, SAME_ROWS)], OVERLAPPED)


@pytest.fixture(scope="module", params=[OVERLAPPED, GRAPH_LOOP])
def modules(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, overlapped: Path) -> Path:
    if request.param == OVERLAPPED:
        return overlapped
    return faulty_copy(tmp_path_factory.mktemp("small_samples") / "copy", SMALL_SAMPLES, request.param)


def one_far_point() -> Data:
    points, centroids = near_few_directions()
    points[301] *= 1000
    return points, centroids


def few_far_points() -> Data:
    points, centroids = near_few_directions()
    points[301:320:2] *= 1000
    return points, centroids


@pytest.mark.parametrize("make", [*SETS, one_far_point, few_far_points], ids=lambda make: make.__name__)
@pytest.mark.parametrize("width", [0, 32])
def test_labels_are_exact(ladder: Ladder, modules: Path, make: Callable[[], Data], width: int) -> None:
    how = ["--modules", modules, "--axis", f"short_row_width={width}", "--scopes", "upload,iteration,end_to_end"]
    rows = run(ladder, make, "faulty", *how)
    assert {row["status"] for row in rows} == {"checked"}, [row["reason"] for row in rows]


def test_the_record_says_whose_points_were_prepared_twice(ladder: Ladder, modules: Path) -> None:
    def of(make: Callable[[], Data], width: int) -> dict:
        how = ["--modules", modules, "--axis", f"short_row_width={width}", "--scopes", "solve"]
        (row,) = run(ladder, make, "faulty", *how)
        return row

    assert counted(of(near_few_directions, 32), "points prepared twice") == 0
    assert counted(of(one_far_point, 32), "points prepared twice") == 0, "it is an outlier row"
    assert counted(of(few_far_points, 32), "points prepared twice") == 500
    piloted = of(many_near_few_directions, -1)
    assert counted(piloted, "points prepared twice") == 0
    assert counted(piloted, "halves of a short row") == 32


def test_points_without_exact_sums_are_refused_by_row_and_column(ladder: Ladder, modules: Path) -> None:
    def far_apart() -> Data:
        points, centroids = near_few_directions()
        points[20, 3], points[433, 7] = 1e-38, 1e38
        return points, centroids

    how = ["--modules", modules, "--axis", "short_row_width=32", "--scopes", "iteration"]
    (row,) = run(ladder, far_apart, "faulty", *how, status=2)
    assert row["status"] == "refused"
    assert "row 20, column 3" in row["reason"] and "row 433, column 7" in row["reason"], row["reason"]


def more_near_few_directions() -> Data:
    """So many points that they come in several chunks, of at least 128 rows for each multiprocessor."""
    points, centroids = near_few_directions()
    return np.concatenate([points + shift for shift in range(CHUNKED_POINTS // len(points))]), centroids


def test_a_fault_is_found(ladder: Ladder, tmp_path: Path, overlapped: Path) -> None:
    """Most labels outlive a unit that does not hold: tests/simt/kernels/upload.cu has that fault, and those of
    streams."""
    planted = with_fault(1, overlapped, tmp_path / "modules")
    how = ["--axis", "short_row_width=32", "--scopes", "iteration", "--modules"]
    (row,) = run(ladder, more_near_few_directions, "faulty", *how, overlapped)
    assert row["status"] == "checked", row["reason"]
    (row,) = run(ladder, more_near_few_directions, "faulty", *how, planted, status=1)
    assert row["status"] == "invalid", row["reason"]
