"""tests/tools/random_data.py passes correct results and finds wrong ones, also those that validation would pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from agreement import Card, nearest, squares
from conftest import BUILD, BUILT_FIXTURES
from random_data import Trial, compare, draw, lloyd, main

CARD: Card = {
    "arithmetic": "difference",
    "distance_roundoff": 0.0,
    "input_roundoff": 0.0,
    "sum_roundoff": 2.0**-53,
    "centred": False,
    "library": "",
    "draws": "nothing",
}


Main = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Main:
    """The script: its exit status, and the lines that it prints."""
    monkeypatch.setenv("LADDER_BUILD", str(BUILD))

    def call(*words: str | Path) -> tuple[int, list[str]]:
        status = main(["--device", "simt", "--trials", "2", "--most-points", "300", *map(str, words)])
        return status, capsys.readouterr().out.splitlines()

    return call


def test_two_trials_agree(run: Main) -> None:
    status, (*trials, last) = run("--variants", "c0*,v01_*,v14_block_size")
    assert [line.split(":")[0] for line in trials] == ["trial 1", "trial 2"]
    assert last.startswith("All 6 solves of 2 trials agree with scikit-learn's Lloyd") and status == 0


def test_a_wrong_variant_is_found(run: Main) -> None:
    status, (*_, last) = run("--modules", BUILT_FIXTURES / "wrong", "--variants", "c0*,w1_off_by_one")
    assert last.startswith("2 disagree with scikit-learn's Lloyd, the first in trial 1: w1_off_by_one is invalid: ")
    assert status == 1


def test_where_nothing_runs_nothing_is_claimed(run: Main) -> None:
    status, (*_, last) = run("--variants", "k1*")
    assert (status, last) == (2, "nothing was compared: no rung of 'k1*' ran on simt")


def left_by(trial: Trial, folder: Path) -> dict:
    """What a right rung would leave, and the record's row for it."""
    centroids = lloyd(trial)
    assert centroids is not None
    labels = nearest(trial.points, centroids).astype(np.int32)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "centroids.npy", centroids)
    (folder / "inertia.txt").write_text(str(squares(trial.points, centroids[labels]).sum()))
    return {"rows": [{"variant": "r1", "status": "checked", "dump": "."}]}


@pytest.fixture
def trial() -> Trial:
    points = np.random.default_rng(5).normal(size=(200, 3))
    return Trial(points, points[:4], "normal", "fixed:3")


def test_a_right_one_agrees_in_labels_and_centroids(trial: Trial, tmp_path: Path) -> None:
    found = compare(trial, left_by(trial, tmp_path), tmp_path, {"r1": CARD})
    assert (found.wrong, found.agree, found.whole_way) == ([], 1, True)


def test_a_label_that_validation_let_pass_is_found(trial: Trial, tmp_path: Path) -> None:
    record = left_by(trial, tmp_path)
    labels = np.load(tmp_path / "labels.npy")
    labels[77] = (labels[77] + 1) % 4
    np.save(tmp_path / "labels.npy", labels)
    (said,) = compare(trial, record, tmp_path, {"r1": CARD}).wrong
    assert said.startswith(f"r1: 1 of 200 labels are wrong: row 77 has label {labels[77]}, scikit-learn says ")


def test_another_way_to_other_centroids_is_found(trial: Trial, tmp_path: Path) -> None:
    record = left_by(Trial(trial.points, trial.initial, trial.kind, "fixed:1"), tmp_path)
    (said,) = compare(trial, record, tmp_path, {"r1": CARD}).wrong
    assert "from where scikit-learn's Lloyd ends" in said


def test_a_wrong_inertia_is_found(trial: Trial, tmp_path: Path) -> None:
    record = left_by(trial, tmp_path)
    (tmp_path / "inertia.txt").write_text("1.0")
    (said,) = compare(trial, record, tmp_path, {"r1": CARD}).wrong
    assert "r1: the inertia is 1.0, by scikit-learn's labels " in said


def test_where_rounding_may_decide_no_centroids_are_expected() -> None:
    points = np.array([[0.0], [2.0], [1.0]])
    assert lloyd(Trial(points, points[:2], "whole numbers", "fixed:1")) is None


def test_trials_are_the_same_in_every_run_and_their_centroids_distinct() -> None:
    for number in range(1, 41):
        a, b = draw(1, number, 500), draw(1, number, 500)
        assert (a.points == b.points).all() and (a.initial == b.initial).all() and a.stop == b.stop
        assert len(np.unique(a.initial, axis=0)) == len(a.initial) <= len(a.points)
