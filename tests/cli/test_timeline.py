"""`ladder timeline`: the worker gets the library, what that leaves becomes the file, and what is missing is said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Ladder
from fake_build import END, FakeBuild, doing, result, session, timed

EVENTS = {
    "events": [
        {"kind": "copy", "name": "host to device", "stream": 7, "start_us": 0, "us": 1500, "bytes": 1 << 21},
        {"kind": "kernel", "name": "assign", "stream": 8, "start_us": 1000, "us": 200, "bytes": 0},
        {"kind": "kernel", "name": "update", "stream": 8, "start_us": 1700, "us": 300, "bytes": 0},
    ],
    "us": 2000.0,
    "dropped": 0,
}
SESSION = [doing("end_to_end"), timed("end_to_end"), {"timeline": EVENTS}, result(), END]


@pytest.fixture
def build(ladder: Ladder, tmp_path: Path) -> FakeBuild:
    build = FakeBuild(tmp_path)
    build.add("x1", phases=["assign", "update"])
    build.environment |= {"LADDER_SOURCE": str(tmp_path)}
    (build.build / "libladder_timeline.so").touch()
    build.plan["sessions"]["x1"] = SESSION
    return build


def recorded(build: FakeBuild, *words: str) -> subprocess.CompletedProcess[str]:
    return build("timeline", "x1", "--workload", "grapes", "--out", str(build.folder / "t.json"), *words)


def test_a_sample_is_recorded_and_summed_up(build: FakeBuild) -> None:
    for _ in range(2):  # the second takes the place of the first
        done = recorded(build)
        assert done.returncode == 0, done.stderr
    assert "x1 grapes end_to_end: 2.00 ms" in done.stdout
    assert "stream 8        2 events, busy     0.50 ms, longest gap   0.500 ms at 1.20 ms" in done.stdout
    (made,) = json.loads((build.folder / "t.json").read_text())["timelines"]
    assert (made["variant"], made["workload"], made["scope"], made["n"]) == ("x1", "grapes", "end_to_end", 1000)
    assert made["events"] == EVENTS["events"] and made["gpu"]["name"] == "fake GPU 0"
    request = build.asked()[-1]
    assert request["profile"] and request["scopes"] == ["end_to_end"]


def test_what_is_missing_is_said(build: FakeBuild) -> None:
    build.plan["sessions"]["x1"] = session()
    done = recorded(build)
    assert done.returncode == 1 and "failed: CUPTI recorded nothing" in done.stdout + done.stderr
    build.plan["sessions"]["x1"] = [{"print": "timeline: subscribing: CUPTI_ERROR_X"}, *session()]
    done = recorded(build)
    assert done.returncode == 1 and "failed: timeline: subscribing: CUPTI_ERROR_X" in done.stdout + done.stderr
    (build.folder / "t.json").write_text('{"rows": []}')
    done = recorded(build)
    assert done.returncode == 2 and "is not a file of timelines" in done.stderr
    assert (build.folder / "t.json").read_text() == '{"rows": []}'
    (build.build / "libladder_timeline.so").unlink()
    done = recorded(build)
    assert done.returncode == 2 and "CUPTI" in done.stderr
    build.plan["devices"] = []
    done = recorded(build)
    assert done.returncode == 2 and "a timeline needs a GPU" in done.stderr
