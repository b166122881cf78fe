"""A command that is killed at any moment leaves a whole record, and what it left otherwise the next command removes.

LADDER_KILLS says how often each of three commands is killed: 51 times in all by default.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest
import sample_record
from conftest import Ladder
from fake_build import FakeBuild

from plots.lib import schema

KILLS = int(os.environ.get("LADDER_KILLS", "17"))


@pytest.fixture
def fake(ladder: Ladder, tmp_path: Path) -> FakeBuild:
    made = FakeBuild(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "tmp").mkdir()
    made.out = tmp_path / "out" / "record.json"
    return made


def killed(fake: FakeBuild, words: list[str | Path], after: float) -> bool:
    """Whether it was killed before it ended."""
    process = fake.start(*words, TMPDIR=str(fake.folder / "tmp"))
    try:
        process.communicate(timeout=after)
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True


def seconds_of(fake: FakeBuild, words: list[str | Path]) -> float:
    begin = time.monotonic()
    done = fake(*words, TMPDIR=str(fake.folder / "tmp"))
    assert done.returncode == 0, done.stderr
    return time.monotonic() - begin


def left_behind(fake: FakeBuild) -> list[str]:
    """All but results and locks, which the system has released."""
    found = [*(fake.folder / "tmp").iterdir(), *(fake.folder / "out").iterdir()]
    return [path.name for path in found if path.suffix not in (".json", ".lock")]


def test_what_a_killed_writer_left_is_removed_and_what_one_writes_is_not(fake: FakeBuild) -> None:
    piece = sample_record.write(sample_record.small(), fake.folder / "a.json")
    left, held, other = (
        fake.out.with_name(name) for name in ("record.json.tmp.1.0", "record.json.tmp.1.1", "x.tmp.1.0")
    )
    for path in (left, held, other):
        path.write_text("half")
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        seconds_of(fake, ["join", fake.out, piece])
        assert [path.exists() for path in (left, held, other)] == [False, True, True]
    seconds_of(fake, ["join", fake.out, piece])
    assert [path.exists() for path in (left, held, other)] == [False, False, True]


@pytest.mark.parametrize("command", ["run", "tune", "join"])
def test_a_killed_command_leaves_a_whole_record(fake: FakeBuild, command: str) -> None:
    for name in ("x2", "x3"):
        fake.add(name, axes=[{"name": "block", "values": [64, 128, 256], "standard": 128}])
    tuned = fake.folder / "out" / "tuned.json"
    words: dict[str, list[str | Path]] = {
        "run": ["run", "--workloads", "grapes", "--device", "cuda", "--force"],
        "tune": ["tune", "x2", "x3", "--workload", "grapes", "--device", "cuda", "--tuned", tuned, "--force"],
        "join": ["join", fake.out, fake.folder / "a.json", fake.folder / "b.json"],
    }
    piece = sample_record.small()
    for name in ("a", "b"):
        sample_record.write(piece, fake.folder / f"{name}.json")
    seconds = seconds_of(fake, words[command])
    chance = random.Random(command)
    before, kills, tries = fake.out.read_text(), 0, 0
    while kills < KILLS and tries < 3 * KILLS:
        tries += 1
        begin = time.monotonic()
        if killed(fake, words[command], chance.uniform(0, 1.1 * seconds)):
            kills += 1
        else:  # the first run may have been the slowest
            seconds = min(seconds, time.monotonic() - begin)
        record = json.loads(fake.out.read_text())
        assert schema.violations(record) == []
        if tuned.exists():
            assert schema.violations(json.loads(tuned.read_text())) == []
        if command == "join":
            assert fake.out.read_text().count("\n") == before.count("\n")
    assert kills == KILLS, f"of {tries} tries"
    seconds_of(fake, words[command])
    assert left_behind(fake) == []
