"""The rung that bounds scores in a few directions, made to do so where its pilot would not: right on data that is made
to mislead it, honest about what it did, and found out where a bound is too narrow or a row is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Ladder
from test_certified import ADVERSARIAL, Data, faulty_copy, run

PROJECTED = "v40_rank_selection"


def near_few_directions() -> Data:
    """As embeddings are: 6 directions, and a little of all others."""
    rng = np.random.default_rng(11)
    along = rng.standard_normal((6, 70))
    points = rng.standard_normal((500, 6)) @ along + 0.3 * rng.standard_normal((500, 70))
    return points, points[:60]


def many_near_few_directions() -> Data:
    """So many centroids that a pilot pays."""
    rng = np.random.default_rng(13)
    points = rng.standard_normal((700, 6)) @ rng.standard_normal((6, 100)) + 0.03 * rng.standard_normal((700, 100))
    return points, points[:600]


def flat() -> Data:
    """No direction is better than another: bounds say nothing."""
    rng = np.random.default_rng(12)
    points = rng.standard_normal((300, 70))
    return points, points[:60]


def hardly_any_flat() -> Data:
    """All but three points are centroids: only these three can be left."""
    points = np.random.default_rng(14).standard_normal((303, 70))
    return points, points[:300]


def counted(row: dict, name: str) -> int:
    return row["counters"][name][0]


@pytest.mark.parametrize(
    "make", [*ADVERSARIAL, near_few_directions, flat, hardly_any_flat], ids=lambda make: make.__name__
)
def test_labels_are_exact_whatever_the_directions_say(ladder: Ladder, make: Callable[[], Data]) -> None:
    rows = run(ladder, make, PROJECTED, "--axis", "short_row_width=32", "--scopes", "iteration")
    assert {row["status"] for row in rows} == {"checked"}, [row["reason"] for row in rows]


def test_the_record_says_which_way_rows_went(ladder: Ladder) -> None:
    def of(make: Callable[[], Data], width: int) -> dict:
        (row,) = run(ladder, make, PROJECTED, "--axis", f"short_row_width={width}", "--scopes", "solve")
        return row

    few = of(near_few_directions, 32)
    assert counted(few, "halves of a short row") == 32
    assert counted(few, "rows of all features") == 0
    assert 0 < counted(few, "rows compared") < 250
    all_features = of(flat, 32)
    assert counted(all_features, "rows of all features") > 150, "25 directions of 70 tell nothing apart"
    assert counted(all_features, "rows rechecked against all") < 100, "most of them are proven there"
    spared = of(hardly_any_flat, 32)
    assert 1 <= counted(spared, "rows of all features") <= 3
    assert counted(spared, "rows rechecked against all") == counted(spared, "rows of all features")
    assert counted(of(flat, 128), "rows of all features") == 0, "all 70 directions do"
    piloted = of(many_near_few_directions, -1)
    assert counted(piloted, "halves of a short row") == 32
    assert counted(piloted, "rows of all features") == 0
    base = of(near_few_directions, -1)
    assert counted(base, "halves of a short row") == 0, "60 centroids are not worth a pilot"
    assert counted(base, "rows of all features") == 500


@pytest.mark.parametrize("variant", [PROJECTED, "v42_distance_bounds", "v45_overlapped_upload"])
@pytest.mark.parametrize("workload", ["kmcuda_tiny", "points2d_tiny"])
def test_whole_solves_are_exact_with_what_is_known_from_before(ladder: Ladder, workload: str, variant: str) -> None:
    chosen = ["--workloads", workload, "--variants", variant, "--device", "simt", "--check"]
    (row,) = ladder.run(*chosen, "--axis", "short_row_width=48", "--scopes", "solve")["rows"]
    assert row["status"] == "checked", row["reason"]
    assert set(row["counters"]["halves of a short row"]) == {48}


# One width and one type are enough for a fault, and sooner compiled.
LESS = [
    ("filter/short_rows.cuh", "dispatch<32, 48, 64, 96, 128>", "dispatch<32>"),
    ("faulty.cu", r"\.f64 = phases<double>", ".f64 = {}"),
]


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        pytest.param("filter/short_rows.cuh", r"half_up\(\w+\.rest\);", "half_up(0);", id="a_remainder_left_out"),
        pytest.param(
            "certified/candidates.cuh",
            r"(\w+) < \*(\w+); \1 \+= gridDim",
            r"\1 < *\2 - 1; \1 += gridDim",
            id="a_row_that_is_not_compared",
        ),
    ],
)
def test_a_fault_is_found(ladder: Ladder, tmp_path: Path, file: str, right: str, wrong: str) -> None:
    modules = faulty_copy(tmp_path / "copy", [*LESS, (file, right, wrong)], PROJECTED)
    how = ["--modules", modules, "--axis", "short_row_width=32", "--scopes", "iteration"]
    (row,) = run(ladder, near_few_directions, "faulty", *how, status=1)
    assert row["status"] == "invalid", row["reason"]
