"""Outputs replace only what is theirs, and values given by mistake are refused before any work."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from conftest import Ladder
from fake_build import FakeBuild, one_sentence

RUN = ("run", "--device", "cuda", "--workloads", "grapes", "--scopes", "assign")


@pytest.fixture
def fake(ladder: Ladder, tmp_path: Path) -> FakeBuild:
    return FakeBuild(tmp_path)


@pytest.fixture
def points(tmp_path: Path) -> Path:
    file = tmp_path / "own.npy"
    np.save(file, np.random.default_rng(1).random((50, 3), dtype=np.float32))
    return file


def test_a_record_replaces_a_record(fake: FakeBuild) -> None:
    assert fake(*RUN).returncode == fake(*RUN).returncode == 0
    assert len(json.loads(fake.out.read_text())["rows"]) == 1


@pytest.mark.parametrize("held", ["a page of text\n", "{}", "[1, 2]", '{"rows": 5}', "\0\1\2"])
def test_a_file_that_is_no_record_is_kept(fake: FakeBuild, held: str) -> None:
    fake.out.write_text(held)
    one_sentence(fake(*RUN), "is a file, and no record", "--force")
    assert fake.out.read_text() == held and fake.asked() == []
    assert fake(*RUN, "--force").returncode == 0
    assert json.loads(fake.out.read_text())["rows"]


def test_an_input_is_never_replaced(fake: FakeBuild, points: Path, tmp_path: Path) -> None:
    before = points.read_bytes()
    linked = tmp_path / "link.npy"
    linked.symlink_to(points)
    for out in (points, linked):
        words = ("run", "--device", "cuda", "--data", points, "--k", "3", "--scopes", "solve", "--out", out, "--force")
        one_sentence(fake(*words), "which this command reads")
        assert points.read_bytes() == before


def test_a_link_stays_a_link(fake: FakeBuild, tmp_path: Path) -> None:
    for target in (tmp_path / "there.json", tmp_path / "new.json"):
        link = tmp_path / f"link-{target.name}"
        link.symlink_to(target.name)
        assert fake(*RUN, "--out", link).returncode == 0
        assert fake(*RUN, "--out", link).returncode == 0
        assert link.is_symlink() and json.loads(target.read_text())["rows"]
    page = tmp_path / "page.txt"
    page.write_text("a page")
    (tmp_path / "to-page").symlink_to(page)
    one_sentence(fake(*RUN, "--out", tmp_path / "to-page"), "no record")
    assert page.read_text() == "a page"


def test_a_pipe_a_device_and_a_folder_are_no_place_for_a_record(fake: FakeBuild, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "to-pipe"
    link.symlink_to(pipe)
    for out in (pipe, link, tmp_path):
        for force in ([], ["--force"]):
            one_sentence(fake(*RUN, "--out", out, *force), str(out))
    assert stat.S_ISFIFO(pipe.stat().st_mode) and link.is_symlink()
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    one_sentence(fake(*RUN, "--out", loop), "loop")


def test_a_joined_record_replaces_no_other_file(fake: FakeBuild, tmp_path: Path) -> None:
    assert fake(*RUN).returncode == 0
    page = tmp_path / "page.md"
    page.write_text("a page")
    one_sentence(fake("join", page, fake.out, fake.out), "no record")
    assert page.read_text() == "a page"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", ""], "--data ''"),
        (["--workloads", ""], "--workloads ''"),
        (["--out", ""], "--out ''"),
        (["--variants", ""], "--variants ''"),
        (["--time-limit", "nan"], "--time-limit nan"),
        (["--warm-up", "nan"], "--warm-up nan"),
        (["--benchmark_repetitions=-1"], "--benchmark_repetitions=-1"),
        (["--benchmark_repetitions=many"], "--benchmark_repetitions=many"),
        (["--benchmark_filter=("], "no regular expression"),
    ],
)
def test_values_given_by_mistake(fake: FakeBuild, words: list[str], said: str) -> None:
    one_sentence(fake("run", "--device", "cuda", *words), said)
    assert fake.asked() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--init", ""], "--init ''"), (["--seed", "-1"], "--seed -1"), (["--seed", ""], "--seed ''")],
)
def test_values_beside_points_of_ones_own(fake: FakeBuild, points: Path, words: list[str], said: str) -> None:
    one_sentence(fake("run", "--device", "cuda", "--data", points, "--k", "3", *words), said)


def test_a_pipe_is_no_input(fake: FakeBuild, points: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    one_sentence(fake("run", "--device", "cuda", "--data", pipe, "--k", "3"), "pipe.npy")
    one_sentence(fake("run", "--device", "cuda", "--data", points, "--init", pipe), "pipe.npy")
    for command in (["show", pipe], ["compare", pipe, pipe], ["join", tmp_path / "new.json", pipe, pipe]):
        one_sentence(fake(*command), "pipe.npy")
    one_sentence(fake("show", "/dev/zero"), "/dev/zero")


def test_names_of_workloads_are_names(fake: FakeBuild) -> None:
    fake.workloads.append(fake.workload("../outside", source="grapes"))
    one_sentence(fake(*RUN), "'../outside'", "workloads[2]")


def test_a_users_file_gives_a_name_that_a_record_can_hold(fake: FakeBuild, points: Path, tmp_path: Path) -> None:
    odd = points.rename(tmp_path / "..my points.npy")
    done = fake("run", "--device", "cuda", "--data", odd, "--k", "3", "--scopes", "solve", "--dump", tmp_path / "dump")
    assert done.returncode == 0, done.stderr
    assert json.loads(fake.out.read_text())["workloads"][0]["name"] == "points..my-points"
