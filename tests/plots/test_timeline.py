"""plots/timeline.py: what it reads, sums up and draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plots import timeline
from plots.lib.record import RecordError

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
