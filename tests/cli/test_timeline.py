"""`ladder timeline`: the worker gets the library, what that leaves becomes the file, and what is missing is said; and
plots/timeline.py: what it reads, sums up and draws.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Ladder
from fake_build import END, FakeBuild, doing, result, session, timed

from plots import timeline
from plots.lib.record import RecordError

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
    assert len(build.asked()) == 6 and made["samples"] == 3
    assert (made["variant"], made["workload"], made["scope"], made["n"]) == ("x1", "grapes", "end_to_end", 1000)
    assert made["events"] == EVENTS["events"] and made["gpu"]["name"] == "fake GPU 0"
    request = build.asked()[-1]
    assert request["profile"] and request["scopes"] == ["end_to_end"]


def test_the_sample_of_median_length_is_kept(build: FakeBuild) -> None:
    of = [
        [doing("end_to_end"), timed("end_to_end"), {"timeline": EVENTS | {"us": us}}, result(), END] for us in (9, 2, 5)
    ]
    build.plan["sessions"]["x1"] = of
    assert recorded(build).returncode == 0
    assert json.loads((build.folder / "t.json").read_text())["timelines"][0]["us"] == 5


def test_what_is_missing_is_said(build: FakeBuild) -> None:
    build.plan["sessions"]["x1"] = session()
    done = recorded(build)
    assert done.returncode == 1 and "failed: CUPTI recorded nothing" in done.stdout + done.stderr
    build.plan["sessions"]["x1"] = [{"print": "timeline: subscribing: CUPTI_ERROR_X"}, *session()]
    done = recorded(build)
    assert done.returncode == 1 and "failed: timeline: subscribing: CUPTI_ERROR_X" in done.stdout + done.stderr
    (build.folder / "t.json").write_text('{"rows": []}')
    done = recorded(build)
    assert done.returncode == 2 and "t.json: field schema_version: it is missing" in done.stderr
    assert (build.folder / "t.json").read_text() == '{"rows": []}'
    (build.build / "libladder_timeline.so").unlink()
    done = recorded(build)
    assert done.returncode == 2 and "CUPTI" in done.stderr
    build.plan["devices"] = []
    done = recorded(build)
    assert done.returncode == 2 and "a timeline needs a GPU" in done.stderr


# ------------------------------------------------------------------------------------------------------- its picture

COPY = {"kind": "copy", "name": "host to device", "stream": 7, "bytes": 1 << 22}
KERNEL = {"kind": "kernel", "name": "assign", "stream": 8, "bytes": 0}


def entry(variant: str, events: list[dict]) -> dict:
    last = max(e["start_us"] + e["us"] for e in events)
    place = {"variant": variant, "workload": "w", "scope": "end_to_end", "gpu": {"name": "GPU"}, "git_sha": "0" * 40}
    return {**place, "us": last, "events": events}


def written(folder: Path, *entries: dict) -> Path:
    path = folder / "timeline.json"
    path.write_text(json.dumps({"schema_version": 1, "timelines": list(entries)}))
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    copies = [{**COPY, "start_us": 0, "us": 4000}, {**COPY, "start_us": 9000, "us": 10, "bytes": 4}]
    kernels = [{**KERNEL, "start_us": 1000, "us": 1000}, {**KERNEL, "start_us": 1500, "us": 1000, "stream": 9}]
    late = [{**KERNEL, "start_us": 5000, "us": 3000}, {"kind": "wait", "name": "host", "stream": -1, "bytes": 0}]
    late[1] |= {"start_us": 4000, "us": 6000}
    return written(tmp_path, entry("va", copies + kernels + late), entry("vb", copies[:1] + kernels))


def test_stretches(two: Path) -> None:
    a, b = timeline.timelines_of(two)
    assert a.ms == 10 and a.copied_until_ms() == 4  # the late copy is a count's
    assert a.union_ms(0, 4, ("kernel",)) == pytest.approx(1.5)  # the two kernels overlap for 0.5 ms
    assert a.union_ms(4, 10, ("kernel",)) == 3
    assert a.streams() == [7, 8, 9, -1] and b.streams() == [7, 8, 9]
    assert "| `va` | w | 10.00 ms | 4.00 ms | 1.50 ms | 6.00 ms | 3.00 ms |" in timeline.table([a, b])


def test_some_variants_alone(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert timeline.main([str(two), "--table", "--variants", "vb", "x*"]) == 0
    assert "`vb`" in (out := capsys.readouterr().out) and "`va`" not in out
    assert timeline.main([str(two), "--table", "--variants", "x*"]) == 2
    assert "no timeline is of x*" in capsys.readouterr().err


def test_page(two: Path, tmp_path: Path) -> None:
    assert timeline.main([str(two), "--out", str(tmp_path / "out")]) == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "timeline_w_end_to_end.png",
        "timeline_w_end_to_end.svg",
    ]


@pytest.mark.parametrize("text", ['{"rows": []}', '{"timelines": []}', '{"timelines": [{"variant": "v"}]}', "[]"])
def test_other_files(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(RecordError):
        timeline.timelines_of(path)
    assert timeline.main([str(path), "--table"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
