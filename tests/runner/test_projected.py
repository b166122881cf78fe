"""The rung that bounds scores in a few directions, made to do so where its pilot would not: right on data that is made
to mislead it, honest about what it did, and found out where a bound is too narrow or a row is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Ladder
from test_certified import SETS, Data, faulty_copy, in_turn, run, with_fault

PROJECTED = "v40_rank_selection"
BUILT_UPON_IT = ["v42_distance_bounds", "v45_overlapped_upload"]


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


@pytest.mark.parametrize("make", [*SETS, near_few_directions, flat, hardly_any_flat], ids=lambda make: make.__name__)
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


@pytest.mark.parametrize(
    ("workload", "variant"),
    [
        ("kmcuda_tiny", PROJECTED),
        *((workload, variant) for workload in ("kmcuda_tiny", "points2d_tiny") for variant in BUILT_UPON_IT),
    ],
)
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


FAULTS = {
    "a_remainder_left_out": ("filter/short_rows.cuh", r"half_up\(\w+\.rest\)(?=;)", "half_up(0)"),
    "a_row_that_is_not_compared": ("certified/candidates.cuh", r"(?<=< )\*\w+(?=; \w+ \+= gridDim)", r"\g<0> - 1"),
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faults = [in_turn(digit, fault) for digit, fault in enumerate(FAULTS.values(), 1)]
    return faulty_copy(tmp_path_factory.mktemp("faults") / "copy", [*LESS, *faults], PROJECTED)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(ladder: Ladder, tmp_path: Path, modules: Path, name: str) -> None:
    how = ["--axis", "short_row_width=32", "--scopes", "iteration", "--modules"]
    (row,) = run(ladder, near_few_directions, "faulty", *how, modules)
    assert row["status"] == "checked", row["reason"]
    planted = with_fault(1 + list(FAULTS).index(name), modules, tmp_path / "modules")
    (row,) = run(ladder, near_few_directions, "faulty", *how, planted, status=1)
    assert row["status"] == "invalid", row["reason"]
