"""Rungs whose labels are those of the exact minimum, on data that is made to mislead them; and that the data would find
a bound that is too narrow, or a row that is not rechecked."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import BUILD, GPU_ONLY, ROOT, Ladder

Data = tuple[np.ndarray, np.ndarray]  # points, centroids

PLANTED = "v23_certified"  # the rung whose copies get a fault


def near_ties() -> Data:
    """Points between two centroids, off the middle by 2^-2 to 2^-24 of their distance, at scales 2^-30 to 2^30."""
    rng = np.random.default_rng(1)
    middle, apart = rng.standard_normal((20, 24)), rng.standard_normal((20, 24))
    scale = 2.0 ** rng.integers(-30, 31, (20, 1))
    centroids = np.concatenate([middle + apart, middle - apart]) * np.concatenate([scale, scale])
    which, off = rng.integers(0, 20, 600), rng.choice([-1, 1], 600) * 2.0 ** -rng.integers(2, 25, 600)
    return (middle[which] + apart[which] * off[:, None]) * scale[which], centroids


def far_from_the_origin() -> Data:
    rng = np.random.default_rng(2)
    places = rng.standard_normal((30, 16))
    return places[rng.integers(0, 30, 500)] + rng.standard_normal((500, 16)) + 1e6, places + 1e6


def one_far_centroid() -> Data:
    rng = np.random.default_rng(3)
    centroids = rng.standard_normal((40, 20))
    centroids[7], centroids[30] = 1e30, -3e4
    return rng.standard_normal((400, 20)), centroids


def one_far_point() -> Data:
    rng = np.random.default_rng(4)
    points = rng.standard_normal((400, 3))
    points[100] = 1e30
    return points, points[:30]


def duplicates() -> Data:
    """Whole numbers: ties are exact. Each centroid is there three times."""
    rng = np.random.default_rng(5)
    return rng.integers(-4, 5, (500, 6)), np.tile(rng.integers(-4, 5, (15, 6)), (3, 1))


def denormals() -> Data:
    points, centroids = duplicates()
    return points * 2.0**-146, centroids * 2.0**-146


def one_direction() -> Data:
    rng = np.random.default_rng(6)
    line = rng.standard_normal(50)
    return np.outer(rng.standard_normal(400), line), np.outer(rng.standard_normal(60), line)


def aligned() -> Data:
    """Every value is rounded by nearly half a unit, all in the same direction: the nearest centroid's product is too
    small by two thirds of its bound, and the next one, 0, is as near to 2^-17 or so."""
    value = 1 + 2.0**-11 - 2.0**-20
    points = np.repeat([[value], [-value]], 64, axis=0) * np.ones(64)
    return points, np.outer([2 * value - 2.0**-16, 0, -2 * value + 2.0**-16], np.ones(64))


def mostly_zeros() -> Data:
    """Zeros times large halves, which a tensor core lines up as if they were something; rows of nothing but zeros."""
    rng = np.random.default_rng(7)
    points = rng.standard_normal((400, 40)) * (rng.random((400, 40)) < 0.1)
    centroids = rng.standard_normal((50, 40)) * (rng.random((50, 40)) < 0.1) * 2.0 ** rng.integers(-30, 10, (50, 1))
    points[::40], centroids[20] = 0, 0
    return points, centroids


ADVERSARIAL: list[Callable[[], Data]] = [
    near_ties,
    far_from_the_origin,
    one_far_centroid,
    one_far_point,
    duplicates,
    denormals,
    one_direction,
    aligned,
    mostly_zeros,
]


def run(ladder: Ladder, make: Callable[[], Data], variants: str, *words: str | Path, status: int = 0) -> list[dict]:
    for name, rows in zip(("points", "centroids"), make(), strict=True):
        np.save(ladder.folder / f"{name}.npy", rows.astype(np.float32))
    points, centroids = ladder.folder / "points.npy", ladder.folder / "centroids.npy"
    k = str(len(np.load(centroids)))
    chosen = ["--variants", variants, "--device", "simt", "--check", *words]
    return ladder.run(*chosen, "--data", points, "--init", centroids, "--k", k, "--stop", "fixed:1", status=status)[
        "rows"
    ]


@pytest.mark.parametrize("make", ADVERSARIAL, ids=lambda make: make.__name__)
def test_every_label_is_that_of_the_exact_minimum(ladder: Ladder, make: Callable[[], Data]) -> None:
    listed = json.loads(ladder("list", "--json").stdout)["variants"]
    exact = [card["id"] for card in listed if card.get("arithmetic") == "exact" and "simt" in card["devices"]]
    exact = [variant for variant in exact if variant not in GPU_ONLY]
    assert PLANTED in exact
    rows = run(ladder, make, ",".join(exact))
    assert {row["variant"] for row in rows} == set(exact)
    assert {row["status"] for row in rows} == {"checked"}, [row["reason"] for row in rows]


def test_doubles_are_refused_by_who_has_too_few_bits_and_taken_by_who_rechecks(ladder: Ladder) -> None:
    chosen = [
        "--workloads",
        "points2d_tiny",
        "--variants",
        f"v22_tensor_split,{PLANTED}",
        "--device",
        "simt",
        "--check",
    ]
    rows = {row["variant"]: row for row in ladder.run(*chosen)["rows"]}
    assert rows["v22_tensor_split"]["status"] == "refused"
    reason = rows["v22_tensor_split"]["reason"]
    assert reason == "has no f64 form: two halves hold 22 bits of a value, a double has 53"
    assert rows[PLANTED]["status"] == "checked"


def test_more_features_than_the_bounds_are_proven_for_are_refused(ladder: Ladder) -> None:
    (row, *_) = run(ladder, lambda: (np.eye(4, 65537), np.eye(2, 65537)), PLANTED, status=2)
    assert row["status"] == "refused"
    assert row["reason"] == "its bounds are proven for up to 65536 features, these points have 65537"


def faulty_copy(folder: Path, faults: list[tuple[str, str, str]], planted: str = PLANTED) -> Path:
    """The planted rung under another name, with one text of each of these files replaced: the folder of its module."""
    shutil.copytree(ROOT / "variants" / "parts", folder / "variants" / "parts")
    (folder / "harness").symlink_to(ROOT / "harness")
    copy = folder / "variants" / "faulty.cu"
    copy.write_text((ROOT / "variants" / f"{planted}.cu").read_text().replace(planted, "faulty"))
    for file, right, wrong in faults:
        text = (folder / "variants" / file).read_text()
        assert text.count(right) == 1, f"{file} does not say `{right}` once"
        (folder / "variants" / file).write_text(text.replace(right, wrong))
    (folder / "faulty.cpp").write_text(f'#include "{copy}"\n')
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if Path(entry["file"]).name == f"{planted}.cpp" and "/simt/" in entry["file"]:
            break
    else:
        pytest.fail(f"{planted} is not in {BUILD / 'compile_commands.json'}")
    (folder / "built" / "simt").mkdir(parents=True)
    module = folder / "built" / "simt" / "faulty.so"
    command = [word for word in shlex.split(entry["command"]) if word != "ccache"]
    command = [*command[: command.index("-o")], "-O1", "-shared", "-o", module, folder / "faulty.cpp"]
    subprocess.run(command, cwd=entry["directory"], check=True)
    subprocess.run([BUILD / "ladder_worker_simt", "card", module, "simt", module.with_suffix(".json")], check=True)
    (folder / "built" / "expected.txt").write_text("simt/faulty\n")
    return folder / "built"


@pytest.mark.parametrize(
    ("make", "file", "right", "wrong"),
    [
        pytest.param(
            aligned,
            "parts/certificate.cuh",
            "(slack > least_weight ? slack : least_weight) *",
            "(slack > least_weight ? slack : least_weight) / 2 *",
            id="a_bound_half_as_wide",
        ),
        pytest.param(
            near_ties,
            "parts/recheck.cuh",
            "at < doubts->pairs;",
            "at < doubts->pairs - 1;",
            id="a_list_without_its_last_row",
        ),
    ],
)
def test_a_fault_is_found(
    ladder: Ladder, tmp_path: Path, make: Callable[[], Data], file: str, right: str, wrong: str
) -> None:
    modules = faulty_copy(tmp_path / "copy", [(file, right, wrong)])
    (row, *_) = run(ladder, make, "faulty", "--modules", modules, status=1)
    assert row["status"] == "invalid", row["reason"]
