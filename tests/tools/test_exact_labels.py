"""tests/tools/exact_labels.py: that it counts, goes on for as long as it may, and does not let a wrong label pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from adversarial import EVERY, beyond_95_bits, one_ulp, typed
from conftest import BUILD, BUILT_FIXTURES
from exact_labels import cases, main, probe, tally_of, trial
from whole_numbers import judge

from plots import labels_page

Main = Callable[..., tuple[int, list[str]]]
CARDS = [{"id": "a", "axes": []}, {"id": "b", "axes": [{"name": "width", "values": [1, 2]}]}]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Main:
    """The command: its exit status, and the lines that it prints."""
    monkeypatch.setenv("LADDER_BUILD", str(BUILD))

    def call(*words: str | Path) -> tuple[int, list[str]]:
        status = main(["--device", "simt", *map(str, words)])
        return status, capsys.readouterr().out.splitlines()

    return call


def test_every_label_of_every_step_is_counted(run: Main) -> None:
    status, lines = run("--variants", "v01_global", "--sets", "duplicates", "--trials", "1", "--points", "200")
    # The labels of two iterations, of the last centroids, and of one more iteration from others.
    assert lines[0].startswith("[1 of 2, 0:0") and "duplicates 1: 200 x 6 float32, K = 45, fixed:2: 800" in lines[0]
    tried = "2 cases (1 of them trials, 2 shapes)"
    assert lines[-1].endswith(f" labels of 1 rungs in {tried} are those of the exact minimum.") and status == 0


def test_trials_are_reached_without_any_set(run: Main) -> None:
    for sets in ("none", ""):
        status, lines = run("--variants", "v01_global", "--sets", sets, "--trials", "2", "--points", "100")
        assert status == 0 and " trial 1" in lines[0] and "in 2 cases (2 of them trials, 2 shapes) are" in lines[-1]


def test_a_wrong_variant_is_found(run: Main) -> None:
    words = ["--modules", BUILT_FIXTURES / "wrong", "--variants", "w1_off_by_one", "--trials", "0"]
    status, lines = run(*words, "--sets", "far_from_the_origin,flat_spectrum", "--points", "200")
    assert status == 1 and "2 faults, the first: far_from_the_origin 1: 200 x 16" in lines[-1]
    assert sum(line.startswith("  ") and "w1_off_by_one is invalid: " in line for line in lines) == 2


def test_what_came_of_each_rung_is_kept(run: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "labels.json"
    words = ["--variants", "v01_global,v03k*", "--sets", "aligned,duplicates", "--trials", "0", "--points", "100"]
    for _ in range(2):  # it replaces its own results
        status, lines = run(*words, "--out", path)
        found = json.loads(path.read_text())
        assert status == 0 and found["complete"] and found["cases"] == 2 and found["faults"] == []
        assert sum(rung["labels"] for rung in found["rungs"].values()) == int(lines[-1].split()[1].replace(",", ""))
        assert found["rungs"]["v01_global"]["judged_in_whole_numbers"] == 400 and found["context"]["git_sha"]
    found["context"] |= {"git_sha": "a" * 40, "git_dirty": False}
    rungs = found["rungs"].values()
    counts = [f"{sum(r[key] for r in rungs):,}" for key in ("labels", "judged_in_whole_numbers", "wrong")]
    (line,) = labels_page.table([(found, "l.json")]).splitlines()[2:]
    assert line == f"| the CPU device | `{'a' * 10}` | 2 | 2 | 2 | {' | '.join(counts)} |"
    stopped = labels_page.table([(found | {"complete": False}, "l.json")])
    assert "| 2, stopped before its end |" in stopped
    for broken in ({}, found | {"rungs": {"v01": {}}}, found | {"context": {"gpu": None, "git_sha": None}}):
        with pytest.raises(labels_page.InputError, match=r"l\.json: is no result of tests/tools/exact_labels\.py"):
            labels_page.table([(broken, "l.json")])
    words = ["--modules", BUILT_FIXTURES / "wrong", "--variants", "w1_off_by_one", "--sets", "flat_spectrum"]
    assert run(*words, "--trials", "0", "--points", "200", "--out", path)[0] == 1
    found = json.loads(path.read_text())
    with pytest.raises(labels_page.InputError, match=r"l\.json: has 1 faults, the first: flat_spectrum"):
        labels_page.table([(found, "l.json")])
    assert len(found["faults"]) == 1 and found["rungs"]["w1_off_by_one"]["wrong"] > 0
    assert [file.name for file in tmp_path.iterdir()] == ["labels.json"]
    other = tmp_path / "mine.json"
    other.write_text("{}")
    for place, says in ((other, "is no result of this program"), (tmp_path / "no" / "x.json", "there is no folder")):
        with pytest.raises(SystemExit):
            run(*words, "--out", place)
        assert says in capsys.readouterr().err
    assert other.read_text() == "{}"


def test_it_goes_on_until_its_time_is_over(run: Main) -> None:
    status, lines = run("--variants", "v01_global", "--sets", "aligned", "--trials", "0", "--seconds", "1")
    assert status == 0 and len(lines) > 3
    assert "aligned 1:" in lines[0] and "aligned 1001:" in lines[1]


def test_where_nothing_runs_nothing_is_claimed(run: Main) -> None:
    status, lines = run("--variants", "k1*", "--sets", "aligned", "--trials", "0")
    assert status == 2 and lines[-1] == "nothing was compared: no rung took any of 1 cases on simt"
    assert run("--variants", "none*")[0] == 2


def test_what_validation_did_not_pass_is_a_fault() -> None:
    found = {"rows_checked": 10, "labels_wrong": 0}
    rows = [
        {"variant": "a", "status": "checked", "reason": "", "validation": found},
        {"variant": "b", "status": "failed", "reason": "ended by signal 9", "validation": None},
        {"variant": "c", "status": "refused", "reason": "too large", "validation": None},
    ]
    tally = tally_of(rows, "here")
    assert tally.labels == {"a": 10} and tally.refused == {"c": 1}
    assert tally.faults == ["here: b is failed: ended by signal 9"]


@pytest.mark.parametrize("status", [0, 1])
def test_what_the_probe_finds_is_said_and_counts(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "nvcc"
    compiler.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n'
        f"printf '#!/bin/sh\\necho 0.1 of some kind; exit {status}' > $2; chmod +x $2\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert probe() == (["0.1 of some kind"], status == 0)


def test_rungs_with_axes_go_through_each_set_twice_and_cases_are_the_same_in_every_run() -> None:
    first = list(islice(cases(["near_ties", "aligned"], 3, 1, CARDS, endless=True), 9))
    assert [case.variants for case in first] == ["a,b", "b", "a,b", "b", "a,b", "a,b", "a,b", "a,b", "b"]
    assert [bool(case.axes) for case in first] == [False, True, False, True, True, False, True, False, True]
    assert first == list(islice(cases(["near_ties", "aligned"], 3, 1, CARDS, endless=True), 9))
    assert len(list(cases(["near_ties", "aligned"], 3, 1, CARDS, endless=False))) == 7


def test_trials_are_the_same_in_every_run_and_as_large_as_allowed() -> None:
    kinds = set()
    for number in range(1, 60):
        ((points, centroids), kind, stop), again = trial(1, number, 500, 1e6), trial(1, number, 500, 1e6)
        assert (points == again[0][0]).all() and (centroids == again[0][1]).all() and (kind, stop) == again[1:]
        assert np.isfinite(points).all() and points.shape[0] <= 500
        assert points.shape[0] * points.shape[1] * len(centroids) <= 2e6
        kinds.add(kind)
    assert len(kinds) == 8


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_sets_have_as_many_rows_as_asked_for_and_are_finite(make: Callable) -> None:
    points, centroids = typed(make, 1000, 3)
    assert len(points) == 1000 and points.shape[1] == centroids.shape[1]
    assert points.dtype == centroids.dtype and np.isfinite(points).all() and np.isfinite(centroids).all()


def test_there_are_many_kinds() -> None:
    assert len({make.__name__ for make in EVERY}) == len(EVERY) >= 57


@pytest.mark.parametrize("make", [one_ulp, beyond_95_bits], ids=lambda make: make.__name__)
def test_the_judge_agrees_with_fractions(make: Callable) -> None:
    points, centroids = typed(make, 40, 1)

    def distance(i: int, j: int) -> Fraction:
        pairs = zip(points[i], centroids[j], strict=True)
        return sum(((Fraction(float(x)) - Fraction(float(c))) ** 2 for x, c in pairs), Fraction(0))

    right = np.array([min(range(len(centroids)), key=lambda j: (distance(i, j), j)) for i in range(len(points))])
    verdict = judge(points, centroids, right)
    assert (verdict.judged, verdict.wrong, verdict.first) == (40, 0, "")
    right[5] = (right[5] + 1) % len(centroids)
    verdict = judge(points, centroids, right)
    assert verdict.wrong == 1 and verdict.first.startswith("row 5 has label ")


def test_of_equal_centroids_the_judge_wants_the_first() -> None:
    points, centroids = np.zeros((3, 2), np.float32), np.array([[1, 0], [0, 0.5], [-0.0, 0.5], [0, -0.5]], np.float32)
    assert judge(points, centroids, np.array([1, 1, 1])).wrong == 0
    assert judge(points, centroids, np.array([1, 2, 3])).wrong == 2
