"""python -m plots.draw: the files that it writes, and the records that it refuses."""

from __future__ import annotations

import copy
import json
import xml.etree.ElementTree
from pathlib import Path

import pytest
import sample_record
from figure_helpers import part_of

from plots import draw, table
from plots.lib import schema
from plots.lib.record import together

pytest_plugins = ("figure_fixtures",)


def test_draw_writes_png_svg_and_an_index(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert draw.main([str(pictures), "--out", str(out)]) == 0
    names = {path.name for path in out.iterdir()}
    stems = {name.removesuffix(".png") for name in names if name.endswith(".png")}
    assert {"ladder_cpu_iteration", "scopes_cpu_snapshot_k2", "convergence_snapshot", "photo_snapshot"} <= stems
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")} | {"index.html"}
    for stem in stems:
        png = (out / f"{stem}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert int.from_bytes(png[16:20]) == 1920
        assert int.from_bytes(png[20:24]) >= 1080
        assert xml.etree.ElementTree.parse(out / f"{stem}.svg").getroot().tag.endswith("svg")
    index = (out / "index.html").read_text()
    said = capsys.readouterr().out.splitlines()
    for stem in stems:
        assert f'src="{stem}.png"' in index
        assert any(line.startswith("drew ") and f"{stem}.png" in line for line in said)
    assert any(line.startswith("left out ladder (gpu): no row on cuda") for line in said)


def test_only_draws_only_that(pictures: Path, tmp_path: Path) -> None:
    assert draw.main([str(pictures), "--out", str(tmp_path / "out"), "--only", "convergence"]) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        *(p.name for p in (tmp_path / "out").glob("convergence_cpu_*")),  # of records with iteration_ms
        "convergence_snapshot.png",
        "convergence_snapshot.svg",
        "index.html",
    }


def test_records_of_several_machines_are_drawn_apart(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    second = tmp_path / "b" / "record.json"
    document = json.loads(pictures.read_text())
    document["context"]["host"]["cpu"] = "Another CPU"
    second.write_text(json.dumps(document))
    assert draw.main([str(pictures), str(second), "--out", str(tmp_path / "out"), "--only", "convergence"]) == 0
    assert (tmp_path / "out/record/convergence_snapshot.png").is_file()
    assert (tmp_path / "out/b_record/convergence_snapshot.png").is_file()
    assert 'src="b_record/convergence_snapshot.png"' in (tmp_path / "out/index.html").read_text()


def test_a_broken_record_is_not_drawn(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(pictures.read_text())
    document["rows"][0]["median_ms"] *= 2
    sample_record.write(document, pictures)
    assert draw.main([str(pictures), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "is not a sound record" in error
    assert "median_ms is" in error


def test_records_of_one_kind_of_machine_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = sample_record.make(gpu=False)
    whole = part_of(whole, {w["name"] for w in whole["workloads"]}, ("cpu",))
    family = {w["name"] for w in whole["workloads"] if w["family"] == "cloud"}
    rest = {w["name"] for w in whole["workloads"]} - family
    first, second = part_of(whole, rest), part_of(copy.deepcopy(whole), family | {"grapes_k16"})
    second["context"]["time"] = "2026-11-21T08:00:00Z"
    second["rows"] = [row for row in second["rows"] if row["device"] == "cpu"]
    paths = [
        sample_record.write(document, tmp_path / name) for document, name in ((first, "one.json"), (second, "two.json"))
    ]
    (record,) = together([schema.load(path) for path in paths])
    assert set(record.workloads) == family | rest
    assert record.skipped == len([row for row in second["rows"] if row["workload"] == "grapes_k16"])
    assert "2026-11-20 23:00:00 UTC, 2026-11-21 08:00:00 UTC" in record.footer()
    assert table.main([*map(str, paths), "--markdown"]) == 0
    said = capsys.readouterr().out
    assert "Records: `one.json`, `two.json`." in said
    assert "embedding" in said and "cloud" in said
    assert draw.main([*map(str, paths), "--out", str(tmp_path / "out"), "--only", "files"]) == 0
    assert "together, being of one kind of machine: one.json + two.json" in capsys.readouterr().out
    assert (tmp_path / "out" / "files_cpu_iteration_cloud.png").is_file()


def test_a_workload_that_is_not_there_is_an_error(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(pictures), "--out", str(tmp_path / "out"), "--only", "tree", "--workload"]
    assert draw.main([*arguments, "snapshot_k9"]) == 2
    assert "has no workload snapshot_k9, but snapshot_k2, snapshot_k3" in capsys.readouterr().err
    assert draw.main([*arguments, "snapshot_k[2x]"]) == 0
    assert (tmp_path / "out" / "tree_cpu_iteration_snapshot_k2.png").is_file()
