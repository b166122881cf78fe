"""ladder tune: which points are swept, which is called best, and what `ladder run` makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import QUICK, ROOT, Ladder
from fake_build import END, Event, FakeBuild, doing, one_sentence, result, timed, wait_for

from plots.lib import schema

Point = dict[str, int]
BLOCK = {"name": "block", "values": [32, 64, 128], "standard": 64, "reported": [128]}
POINTS = {"name": "points", "values": [1, 2, 4], "standard": 1}


def at(ms: float) -> list[Event]:
    return [doing("iteration"), timed("iteration", ms), result(), END]


@pytest.fixture
def fake(ladder: Ladder, tmp_path: Path) -> FakeBuild:
    """x1 has a block size: 64 by standard; 32 takes 3 ms, 64 takes 2 and 128 takes 1."""
    made = FakeBuild(tmp_path)
    made.add("x1", axes=[BLOCK])
    for block, ms in ((32, 3.0), (64, 2.0), (128, 1.0)):
        made.plan["sessions"][f"x1 block={block}"] = at(ms)
    return made


def tune(fake: FakeBuild, *words: str | Path, status: int = 0) -> tuple[dict[str, Any], str]:
    """The record of a sweep, and what was said."""
    words = words if any(word.startswith("--workload") for word in map(str, words)) else (*words, "--workload=grapes")
    words = words if "x1" in words or "x2" in words else ("x1", *words)
    done = fake("tune", *words, "--device", "cuda", "--tuned", fake.folder / "tuned.json")
    assert done.returncode == status, done.stdout + done.stderr
    record = json.loads(fake.out.read_text())
    assert schema.violations(record) == []
    return record, done.stdout + done.stderr


def entries(fake: FakeBuild) -> list[dict[str, Any]]:
    document = json.loads((fake.folder / "tuned.json").read_text())
    assert schema.violations(document) == []
    return document["entries"]


def swept(fake: FakeBuild) -> list[Point]:
    return [request["axes"] for request in fake.asked()]


def run(fake: FakeBuild, *words: str) -> dict[str, Any]:
    """The one row of a run."""
    words = (*words, *(() if "--untuned" in words else ("--tuned", str(fake.folder / "tuned.json"))))
    fake.out.unlink(missing_ok=True)
    rows = fake.run("--device", "cuda", "--scopes", "iteration", *words)["rows"]
    assert len(rows) == 1
    return rows[0]


# ---------------------------------------------------------------------------------------------------------- the sweep


def test_all_points_are_measured_and_the_fastest_is_noted(fake: FakeBuild) -> None:
    record, said = tune(fake)
    assert "x1: all 3 points" in said and "to go" in said
    assert [(row["axes"], row["median_ms"]) for row in record["rows"]] == [
        ({"block": 64}, 2.0),
        ({"block": 32}, 3.0),
        ({"block": 128}, 1.0),
    ], "the standard one first: it is what a picture of variants shows"
    assert {row["scope"] for row in record["rows"]} == {"iteration"}, "where the variant's change shows"
    (found,) = record["tuning"]
    assert (found["best"], found["best_ms"], found["standard"], found["standard_ms"]) == (
        {"block": 128},
        1.0,
        {"block": 64},
        2.0,
    )
    assert (found["decided_by"], found["method"], found["ratio"]) == ("apart", "grid", 0.5)
    assert found["axes"][0]["reported"] == [128]
    (entry,) = entries(fake)
    assert entry["axes"] == {"block": 128} and entry["machine"] == "fake GPU 0" and entry["scope"] == "iteration"
    assert (entry["n"], entry["d"], entry["k"], entry["type"], entry["filled"]) == (1000, 3, 5, "f32", 100)
    assert not list(fake.folder.glob("tuned.json?*")), "neither lock nor temporary file stays"


def test_a_refused_point_is_a_gap_with_its_reason(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1 block=128"] = [{"event": "refused", "reason": "needs 128 registers"}, END]
    record, _ = tune(fake)
    (gap,) = [row for row in record["rows"] if row["status"] == "refused"]
    assert gap["axes"] == {"block": 128} and gap["reason"] == "needs 128 registers"
    (found,) = record["tuning"]
    assert (found["points"], found["gaps"], found["best"], found["decided_by"]) == (3, 1, {"block": 64}, "median")
    assert entries(fake)[0]["axes"] == {"block": 64}, "that nothing is faster is worth knowing too"
    shown = fake("show", fake.out)
    assert "block=128" in shown.stdout and "refused: needs 128 registers" in shown.stdout


def test_a_point_that_crashes_is_tried_once(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1 block=128"] = [doing("iteration"), {"signal": 11}]
    record, _ = tune(fake, status=1)
    assert [row["status"] for row in record["rows"]] == ["ok", "ok", "failed"]
    assert len(swept(fake)) == 3


def test_where_nothing_runs_nothing_is_noted(fake: FakeBuild) -> None:
    for block in BLOCK["values"]:
        fake.plan["sessions"][f"x1 block={block}"] = [{"event": "refused", "reason": "is for others"}, END]
    record, said = tune(fake)
    assert record["tuning"][0]["best"] is None and "no point has a time: is for others" in said
    assert not (fake.folder / "tuned.json").exists()


def test_a_standard_value_without_a_time_is_no_measure(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1 block=64"] = [{"event": "refused", "reason": "not 64"}, END]
    assert tune(fake)[0]["tuning"][0]["decided_by"] == "alone"
    assert entries(fake)[0]["axes"] == {"block": 128}


@pytest.mark.parametrize(
    "turns, by, best",
    [
        ([1.98], "margin", 64),  # gains one percent: not worth it
        ([1.80], "interleaved", 128),  # a tenth, in every session
        ([1.80, 2.10, 1.80, 2.20, 1.90, 2.00], "interleaved", 64),  # a tenth, by luck
        ([1.00], "apart", 128),
    ],
)
def test_the_standard_value_stays_within_noise(fake: FakeBuild, turns: list[float], by: str, best: int) -> None:
    fake.plan["sessions"]["x1 block=128"] = [at(ms) for ms in turns]
    record, _ = tune(fake)
    (found,) = record["tuning"]
    assert (found["decided_by"], found["best"]) == (by, {"block": best})
    assert len(record["rows"]) == (13 if by == "interleaved" else 3)
    order = [row["axes"]["block"] for row in record["rows"][3:]]
    assert [sorted(order[i : i + 2]) for i in range(0, len(order), 2)] == [[64, 128]] * (len(order) // 2)
    assert entries(fake)[0]["axes"] == {"block": best}


def test_many_points_are_swept_one_axis_after_the_other(fake: FakeBuild) -> None:
    fake.add("x1", axes=[BLOCK, POINTS])
    cost = {32: 1.0, 64: 1.6, 128: 2.0}
    for block in BLOCK["values"]:
        for points in POINTS["values"]:
            # With one point per thread the smallest block is best, with four the largest: the axes hang together.
            ms = cost[block] if points == 1 else 3.0 if points == 2 else 0.2 * (1 + 1000 / block)
            fake.plan["sessions"][f"x1 block={block} points={points}"] = at(ms)
    record, said = tune(fake, "--grid", "4")
    assert "9 points are more than --grid 4: one axis after the other" in said
    asked = [tuple(point.values()) for point in swept(fake)]
    # Blocks with one point, points with the best of those; the first axis again would need another's gain.
    assert asked[:5] == [(64, 1), (32, 1), (128, 1), (32, 2), (32, 4)]
    assert len(asked) == 5 and record["tuning"][0]["best"] == {"block": 32, "points": 1}
    assert record["tuning"][0]["method"] == "descent"
    # Where the second axis gains, the first is swept once more at its new value.
    fake.plan["sessions"]["x1 block=32 points=4"] = at(0.5)
    fake.plan["sessions"]["x1 block=128 points=4"] = at(0.2)
    fake.out.unlink()
    record, _ = tune(fake, "--grid", "4")
    assert record["tuning"][0]["best"] == {"block": 128, "points": 4}
    # All of them find it as well.
    fake.out.unlink()
    record, said = tune(fake)
    assert len(record["rows"]) == 9 and record["tuning"][0]["best"] == {"block": 128, "points": 4}


def test_an_axis_held_by_hand_leaves_the_file_alone(fake: FakeBuild) -> None:
    fake.add("x1", axes=[BLOCK, POINTS])
    record, said = tune(fake, "--axis", "points=2")
    assert {(row["axes"]["block"], row["axes"]["points"]) for row in record["rows"]} == {(64, 2), (32, 2), (128, 2)}
    assert record["tuning"][0]["held"] == {"points": 2} and "left as it is" in said
    assert not (fake.folder / "tuned.json").exists()


def test_a_sweep_that_was_killed_goes_on(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1 block=128"] = [{"sleep": 30}]
    words = ["x1", "--device", "cuda", "--workload", "grapes", "--tuned", str(fake.folder / "tuned.json")]
    first = fake.start("tune", *words)
    wait_for(lambda: len(fake.asked()) == 3)
    first.kill()
    first.communicate()
    fake.plan["sessions"]["x1 block=128"] = at(1.0)
    record, said = tune(fake, "--resume", "--out", fake.out)
    assert "grapes: 2 of 3 sessions kept from before" in said
    assert [point["block"] for point in swept(fake)] == [64, 32, 128, 128]
    assert record["context"]["complete"] and entries(fake)[0]["axes"] == {"block": 128}
    # Once more there is nothing to measure, and the same to say.
    (fake.folder / "tuned.json").unlink()
    assert tune(fake, "--resume", "--out", fake.out)[0]["tuning"] == record["tuning"]
    assert len(swept(fake)) == 4 and len(entries(fake)) == 1


def test_sweeps_side_by_side_lose_nothing(fake: FakeBuild) -> None:
    names = [f"x{i}" for i in range(1, 7)]
    for name in names:
        fake.add(name, axes=[BLOCK])
    words = ["--device", "cuda", "--workload", "grapes", "--tuned", str(fake.folder / "tuned.json"), *QUICK]
    sweeps = [fake.start("tune", n, *words, "--out", str(fake.folder / f"{n}.json")) for n in names]
    for sweep in sweeps:
        assert sweep.wait(timeout=120) == 0, sweep.communicate()
    assert [entry["variant"] for entry in entries(fake)] == names


def test_a_sweep_of_the_same_again_replaces_its_entry(fake: FakeBuild) -> None:
    tune(fake)
    fake.plan["sessions"]["x1 block=32"] = at(0.5)
    fake.out.unlink()
    tune(fake)
    assert [entry["axes"] for entry in entries(fake)] == [{"block": 32}]


def test_joined_sweeps_keep_what_came_of_each(fake: FakeBuild) -> None:
    pieces = [fake.folder / f"{name}.json" for name in ("grapes", "plums")]
    for piece in pieces:
        tune(fake, "--workload", piece.stem)
        fake.out.rename(piece)
    done = fake("join", fake.out, *pieces)
    assert done.returncode == 0, done.stderr
    record = json.loads(fake.out.read_text())
    assert schema.violations(record) == []
    assert [found["workload"] for found in record["tuning"]] == ["grapes", "plums"]


# --------------------------------------------------------------------------------------------------------- bad usage


def test_bad_usage_is_one_sentence(fake: FakeBuild) -> None:
    fake.add("x2")
    for words, says in (
        (["x9", "--workload", "grapes"], ["no variant matches 'x9'"]),
        (["x1", "--workload", "grape"], ["no workload matches 'grape'"]),
        (["x1"], ["on what?", "--workload"]),
        (["x1", "x2", "--workload", "grapes"], ["x2 has no axis to tune", "variants that have: x1"]),
        (["[x]2", "--workload", "grapes"], ["no chosen variant has an axis to tune", "x1"]),
        (["x1", "--workload", "grapes", "--axis", "blocks=64"], ["no chosen variant has such an axis", "block"]),
        (["x1", "--workload", "grapes", "--axis", "block=65"], ["block can be 32, 64, 128"]),
        (["x1", "--workload", "grapes", "--scope", "assing"], ["scope 'assing' is unknown"]),
    ):
        one_sentence(fake("tune", *words, "--device", "cuda", "--tuned", fake.folder / "tuned.json"), *says)
    assert not fake.asked(), "before anything is measured"


def test_a_glob_passes_over_variants_without_axes(fake: FakeBuild) -> None:
    fake.add("x2")
    tune(fake, "x*", "x1")
    assert {request["variant"] for request in fake.asked()} == {"x1"}


def test_a_file_that_holds_something_else_is_not_overwritten(fake: FakeBuild) -> None:
    file = fake.folder / "tuned.json"
    tuning, running = ("tune", "x1", "--workload", "grapes"), ("run", "--workloads", "grapes")
    wrong = ["{", "[]", '{"schema_version": 2, "entries": []}', '{"schema_version": 1, "entries": [{}]}']
    for words, text in zip((tuning, running, tuning, running), wrong, strict=True):
        file.write_text(text)
        done = fake(*words, "--device", "cuda", "--tuned", file)
        one_sentence(done, str(file))
        assert file.read_text() == text and not fake.asked()


# ------------------------------------------------------------------------------------------------- runs that use it


def test_a_run_takes_the_tuned_values_and_says_so(fake: FakeBuild) -> None:
    tune(fake)
    words = ["--device", "cuda", "--workloads", "grapes", "--scopes", "iteration"]
    words += ["--tuned", str(fake.folder / "tuned.json")]
    fake.out.unlink()
    said = fake("run", *words)
    (row,) = json.loads(fake.out.read_text())["rows"]
    assert (row["axes"], row["tuned"], row["median_ms"]) == ({"block": 128}, True, 1.0)
    assert "tuned block=128" in said.stderr
    assert "block=128 (tuned)" in fake("show", fake.out).stdout
    asked = len(fake.asked())
    assert fake.run(*words, "--resume", "--out", str(fake.out), *QUICK)["rows"] == [row]
    assert len(fake.asked()) == asked
    # By hand is by hand, and the file can be left aside.
    for more, block in ((("--axis", "block=32"), 32), (("--untuned",), 64)):
        row = run(fake, *more)
        assert row["axes"] == {"block": block} and "tuned" not in row
    # A value does not go by the compiler that built the module.
    fake.add("x1", module="by another compiler", axes=[BLOCK])
    assert run(fake)["tuned"]


def test_of_values_that_belong_together_none_is_taken_alone(fake: FakeBuild) -> None:
    fake.add("x1", axes=[BLOCK, POINTS])
    fake.plan["sessions"]["x1 block=128 points=4"] = at(0.1)
    tune(fake)
    assert entries(fake)[0]["axes"] == {"block": 128, "points": 4}
    assert run(fake, "--axis", "block=32")["axes"] == {"block": 32, "points": 1}


def test_without_a_file_all_is_standard(fake: FakeBuild) -> None:
    (row,) = fake.run("--device", "cuda", "--scopes", "iteration")["rows"]
    assert row["axes"] == {"block": 64} and "tuned" not in row
    done = fake("run", "--device", "cuda", "--workloads", "grapes", "--tuned", fake.folder / "none.json")
    one_sentence(done, "none.json", "`ladder tune` writes one")


def test_values_of_another_place_are_not_taken(fake: FakeBuild) -> None:
    tune(fake)
    file = fake.folder / "tuned.json"
    document = json.loads(file.read_text())
    (entry,) = document["entries"]
    others = {"machine": "another GPU", "device": "simt", "gpus": 2, "n": 999, "d": 4, "k": 6, "type": "f64"}
    others |= {"metric": "cosine", "kernel": "linear", "filled": 50}
    document["entries"] = [entry | {key: value} for key, value in others.items()]
    file.write_text(json.dumps(document))
    assert schema.violations(document) == []
    assert run(fake)["axes"] == {"block": 64}


def test_a_stale_entry_is_left_aside_aloud(fake: FakeBuild) -> None:
    tune(fake)
    file = fake.folder / "tuned.json"
    document = json.loads(file.read_text())
    (entry,) = document["entries"]
    document["entries"] = [entry | {"variant": f"x{i}"} for i in range(1, 5)]
    file.write_text(json.dumps(document))
    today = {
        "x1": ([BLOCK | {"values": [32, 64]}], "its axis block has no value 128 any more: it has 32, 64"),
        "x2": ([BLOCK, POINTS], "it has an axis points today, and was tuned without"),
        "x3": ([BLOCK], ""),
    }
    for name, (axes, _) in today.items():
        fake.add(name, module="second", axes=axes)
    fake.plan["sessions"]["x1"] = fake.plan["sessions"]["x2"]
    del fake.plan["sessions"]["x1 block=64"]
    document["entries"][3]["axes"] = {"block": 128, "warps": 4}
    file.write_text(json.dumps(document))
    fake.add("x4", axes=[BLOCK])
    today["x4"] = ([BLOCK], "it has no axis warps any more")
    fake.out.unlink()
    words = ["--device", "cuda", "--workloads", "grapes", "--scopes", "iteration", "--tuned", file]
    done = fake("run", *words, "--variants", "x*")
    assert done.returncode == 0, done.stderr
    rows = {row["variant"]: row for row in json.loads(fake.out.read_text())["rows"]}
    for name, (axes, why) in today.items():
        if not why:
            assert rows[name]["tuned"] and rows[name]["axes"] == {"block": 128}
            continue
        assert done.stderr.count(why) == 1 and f"`ladder tune {name}` finds new ones" in done.stderr
        assert "tuned" not in rows[name]
        assert rows[name]["axes"] == {axis["name"]: axis["standard"] for axis in axes}


def test_what_was_tuned_is_compared_with_what_was_not(fake: FakeBuild) -> None:
    """Each at the values that it runs with, where one of them was tuned; in turns, both at standard ones."""
    fake.add("x2", base="x1", axes=[BLOCK])
    tune(fake)
    fake.out.unlink()
    words = ["--device", "cuda", "--variants", "x*", "--scopes", "iteration"]
    rows = fake.run(*words, "--tuned", str(fake.folder / "tuned.json"))["rows"]
    assert [(row["variant"], row["axes"]["block"]) for row in rows] == [("x1", 128), ("x2", 64)]
    done = fake("compare", fake.out, "--over", "base", "--json")
    assert [c["candidate"] for c in json.loads(done.stdout)["comparisons"]] == ["x2"]
    record = fake.run("--device", "cuda", "--compare", "x1,x2", "--scopes", "iteration")
    assert {row["axes"]["block"] for row in record["rows"]} == {64}


# -------------------------------------------------------------------------------------------------------- for real


def test_a_real_sweep_on_the_cpu_device_keeps_no_value(ladder: Ladder) -> None:
    words = ["--device", "simt", "--tuned", ladder.folder / "tuned.json"]
    out = ladder.folder / "tune.json"
    done = ladder("tune", "v10_points_per_thread", "--workload", "kmcuda_tiny", *words, *QUICK, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text())
    assert schema.violations(record) == []
    rows = [row for row in record["rows"] if "session" not in row]
    assert [row["axes"] for row in rows] == [{"points": 2}, {"points": 1}, {"points": 4}]
    assert all(row["status"] == "ok" and row["validation"]["labels_wrong"] == 0 for row in rows)
    assert "its time says nothing of a GPU" in done.stderr and "left as it is" in done.stdout
    assert not (ladder.folder / "tuned.json").exists() and "tuning" not in record
    words = ["--variants", "v10_points_per_thread", "--workloads", "kmcuda_tiny", "--scopes", "assign"]
    (row,) = ladder.run("--device", "simt", *words)["rows"]
    assert not row.get("tuned") and row["axes"] == {"points": 2}


def test_check_tells_what_is_wrong_with_tuned_values(fake: FakeBuild) -> None:
    tune(fake)
    file = fake.folder / "tuned.json"
    document = json.loads(file.read_text())
    document["entries"] *= 2
    file.write_text(json.dumps(document))
    command = [sys.executable, "-m", "plots.check", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "is there twice" in done.stderr
    document["entries"] = [document["entries"][0] | {"axes": {"block": "large"}}]
    assert '"large" is not of type "integer"' in schema.violations(document)[0]


def test_committed_tuned_values_are_sound() -> None:
    file = ROOT / "results" / "tuned.json"
    if file.exists():
        assert schema.violations(json.loads(file.read_text())) == []
