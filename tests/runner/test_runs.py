"""Runs and their records: which rows belong together, and what passes from one run to the next."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_record
from conftest import FIXTURES, Ladder
from fake_build import END, GPUS, SCOPES, Event, FakeBuild, doing, one_sentence, result, session, timed, wait_for

from plots.lib import schema


@pytest.fixture
def fake(ladder: Ladder, tmp_path: Path) -> FakeBuild:
    return FakeBuild(tmp_path)


def by_scope(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["scope"]: row for row in record["rows"]}


def sound(record: dict[str, Any]) -> dict[str, Any]:
    assert schema.violations(record) == []
    return record


# ----------------------------------------------------------------------------------------------------- a session's rows


def test_rows_hold_what_the_session_said(fake: FakeBuild) -> None:
    record = sound(fake.run("--device", "cuda"))
    rows = by_scope(record)
    assert tuple(rows) == SCOPES, "all standard scopes, transfers among them"
    solve = rows["solve"]
    assert solve["status"] == "ok" and solve["samples_ms"] == [1.0] * 6 and solve["q1_ms"] == 1.0
    assert solve["per_iteration_ms"] == 0.25 and solve["solve_iterations"] == [4] * 6
    assert solve["iteration_ms"] == [0.5, 0.4, 0.3, 0.2] and solve["reassigned"] == [1000, 20, 3, 0]
    assert solve["counters"] == {"distances": [9, 9, 5, 4]}
    assert solve["prepare_ms"] == 2.5 and solve["peak_device_bytes"] == 4096 and solve["verdict"] == "settled"
    assert solve["sm_mhz"] == [1980.0] * 6 and solve["median_mhz"] == solve["settled_mhz"] == 1980.0
    assert (solve["watts"], solve["watt_limit"]) == (412.5, 700.0)
    assert rows["assign"]["per_iteration_ms"] is None
    assert record["context"]["gpu"]["name"] == "fake GPU 0"


def test_labels_that_differ_are_told_and_counted(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = [timed("solve", labels_differ=3), result(), END]
    assert fake.run("--device", "cuda", "--scopes", "solve")["rows"][0]["labels_differ"] == 3


def test_few_samples_have_no_quartiles(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = [timed("assign", samples=4, verdict="time"), result(), END]
    row = sound(fake.run("--device", "cuda", "--scopes", "assign"))["rows"][0]
    assert (row["q1_ms"], row["q3_ms"], row["verdict"]) == (None, None, "time")


def test_initialisation_is_timed_where_it_is_what_a_variant_shows(fake: FakeBuild) -> None:
    fake.add("x2", shows="initialise")
    fake.plan["sessions"]["x2"] = [timed("initialise"), *session()]
    fake.run("--device", "cuda")
    assert {r["variant"]: "initialise" in r["scopes"] for r in fake.asked()} == {"x1": False, "x2": True}


def test_check_validates_and_times_nothing(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = [doing("validation"), result(), END]
    words = ["--device", "cuda", "--scopes", "assign,solve"]
    rows = sound(fake.run(*words, "--check"))["rows"]
    assert [row["status"] for row in rows] == ["checked", "checked"]
    assert all(row["median_ms"] is None and row["validation"]["rows_checked"] for row in rows)
    assert fake.asked()[0]["check_only"]
    fake.plan["sessions"]["x1"] = session()
    assert {r["status"] for r in fake.run(*words, "--check", "--resume")["rows"]} == {"checked"}
    assert len(fake.asked()) == 1, "what is checked need not be checked again"
    assert {r["status"] for r in fake.run(*words, "--resume")["rows"]} == {"ok"}, "but it is not timed yet"


def test_check_finds_a_fault(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = [result(fault="17 labels are wrong"), END]
    rows = sound(fake.run("--device", "cuda", "--check", status=1))["rows"]
    assert {(row["status"], row["reason"]) for row in rows} == {("invalid", "17 labels are wrong")}


def test_the_worker_is_asked_for_what_the_options_say(fake: FakeBuild) -> None:
    fake.add("x2", gpus=8)
    words = ["--gpus", "2", "--sustained", "3", "--warm-up", "0.5", "--cache", "cold", "--device", "cuda"]
    rows = sound(fake.run(*words))["rows"]
    asked = {request["variant"]: request for request in fake.asked()}
    assert asked["x1"]["ordinals"] == [0], "it can use one only"
    assert asked["x2"]["ordinals"] == [0, 1]
    assert {(row["variant"], row["gpus"]) for row in rows} == {("x1", 1), ("x2", 2)}
    assert asked["x1"]["sustained_seconds"] == 3 and asked["x1"]["warm_up_seconds"] == 0.5 and asked["x1"]["cold"]
    assert {(row["cache"], row["sustained_seconds"]) for row in rows} == {("cold", 3.0)}
    assert " x2 cold" in fake("show", fake.out).stdout


def test_gpus_that_are_not_there_are_refused(fake: FakeBuild) -> None:
    for words in (["--gpus", "3"], ["--gpu", "2"], ["--gpu", "1", "--gpus", "2"]):
        one_sentence(fake("run", *words), "--gpu 2", "this machine's GPUs are numbered 0 to 1")
    assert not fake.out.exists()


def test_the_chosen_gpu_is_in_the_record_and_asked_for_once(fake: FakeBuild) -> None:
    record = fake.run("--gpu", "1", "--scopes", "assign")
    assert record["context"]["gpu"]["name"] == "fake GPU 1"
    assert fake.asked()[0]["ordinals"] == [1]
    assert fake.asked("devices").count("cuda") == 1


def test_a_run_that_uses_no_gpu_asks_for_none(fake: FakeBuild) -> None:
    fake.add("x2", "cpu")
    assert fake.run("--device", "cpu", "--scopes", "assign")["context"]["gpu"] is None
    assert fake.asked("devices") == []


# ----------------------------------------------------------------------------------------- what a device can do at most


def test_ceilings_are_measured_once_and_kept_in_the_context(fake: FakeBuild) -> None:
    record = fake.run("--device", "cuda")
    assert record["context"]["ceilings"] == {
        "cuda": sample_record.ceilings(True),
        "cpu": sample_record.ceilings(False),
    }
    assert record["context"]["floor_us"] == {"empty_event_us": 1.0, "empty_launch_us": 2.0}
    fake.run("--device", "cuda")
    assert sorted(fake.asked("ceilings")) == ["cuda", "simt"]
    fake.run("--device", "cuda", "--measure-ceilings")
    assert len(fake.asked("ceilings")) == 4
    fake.plan["devices"] = [gpu | {"driver": "1.3"} for gpu in GPUS]
    fake.run("--device", "cuda")
    assert len(fake.asked("ceilings")) == 5, "another driver, another device"


def test_runs_side_by_side_measure_ceilings_one_after_the_other(fake: FakeBuild) -> None:
    fake.plan["ceilings_seconds"] = 0.5
    words = ["run", "--device", "cuda", "--workloads", "grapes", "--min-time", "0"]
    runs = [fake.start(*words, "--gpu", str(i), "--out", fake.folder / f"{i}.json") for i in (0, 1)]
    for process in runs:
        assert process.communicate(timeout=60) and process.returncode == 0
    # Two GPUs, each by its name, and the host once.
    assert sorted(fake.asked("ceilings")) == ["cuda", "cuda", "simt"]


def test_a_row_has_its_share_of_the_roof(fake: FakeBuild) -> None:
    rows = by_scope(fake.run("--device", "cuda"))
    n, d, k = 1000, 3, 5
    flop = 2 * n * d * k
    assert rows["assign"]["flop"] == flop and rows["assign"]["bytes"] == 4 * (n * d + k * d + n)
    assert rows["assign"]["gflops"] == pytest.approx(flop / 1e6)
    assert rows["assign"]["bound_by"] == "flop" and rows["assign"]["floor_ms"] == pytest.approx(flop / 60e9)
    assert rows["assign"]["roof_percent"] == pytest.approx(100 * flop / 60e9)
    assert rows["upload"]["bytes"] == 4 * n * d and rows["upload"]["bound_by"] == "link"
    assert rows["end_to_end"]["bound_by"] == "link"
    assert rows["end_to_end"]["floor_ms"] == pytest.approx(4 * n * d / 55e6)
    assert rows["solve"]["flop"] == pytest.approx(4 * (flop + n * d))


def test_no_share_of_a_roof_that_was_not_measured(fake: FakeBuild) -> None:
    """Whoever rounds may use units whose rate the ceilings lack: a share of the rest would look like a bad one."""
    fake.add("x1", input_roundoff=2**-11)
    row = by_scope(fake.run("--device", "cuda"))["end_to_end"]
    assert row["status"] == "ok" and row["bound_by"] == "link" and row["roof_percent"] is None


TENSOR = {"fp16": 600e3, "tf32": 300e3, "int8": 1200e3, "fp64": 50e3}


@pytest.mark.parametrize(
    ("card", "of", "rate"),
    [
        ({}, "fp32", 60e3),
        ({"arithmetic": "exact", "operands": "fp16"}, "fp16", 600e3),
        ({"input_roundoff": 2**-11, "operands": "fp16"}, "fp16", 600e3),
        ({"input_roundoff": 2**-10, "operands": "tf32"}, "tf32", 300e3),
        ({"arithmetic": "exact", "operands": "int8"}, "int8", 1200e3),
        ({"arithmetic": "exact", "operands": "own"}, "fp32", 60e3),
        ({"arithmetic": "exact"}, "fastest", 1200e3),
        ({"input_roundoff": 2**-11}, "fastest", 600e3),
    ],
)
def test_the_roof_is_that_of_the_arithmetic_that_the_card_names(
    fake: FakeBuild, card: dict[str, Any], of: str, rate: float
) -> None:
    fake.plan["ceilings"]["cuda"] |= {f"tensor_{name}_gflops": value for name, value in TENSOR.items()}
    fake.add("x1", **card)
    rows = by_scope(sound(fake.run("--device", "cuda")))
    flop = 2 * 1000 * 3 * 5
    assert (rows["assign"]["bound_by"], rows["assign"]["roof_of"]) == ("flop", of)
    assert rows["assign"]["floor_ms"] == pytest.approx(flop / rate / 1e6)
    assert rows["assign"]["roof_percent"] == pytest.approx(100 * flop / rate / 1e6)
    assert rows["upload"]["roof_of"] is None
    # The link carries floats, whatever becomes of them.
    assert rows["upload"]["floor_ms"] == pytest.approx(4 * 1000 * 3 / 55e6)
    assert rows["download"]["floor_ms"] == pytest.approx(4 * (1000 + 5 * 3) / 55e6)


def test_doubles_have_the_roof_of_the_tensor_cores_that_have_them(fake: FakeBuild) -> None:
    fake.workloads[0]["type"] = "f64"
    row = by_scope(fake.run("--device", "cuda"))["assign"]
    assert (row["roof_of"], row["floor_ms"]) == ("fp64", pytest.approx(30000 / 60e9)), "twice the rate, unmeasured"
    fake.plan["ceilings"]["cuda"]["tensor_fp64_gflops"] = TENSOR["fp64"]
    row = by_scope(fake.run("--device", "cuda", "--measure-ceilings"))["assign"]
    assert (row["roof_of"], row["floor_ms"]) == ("fp64", pytest.approx(30000 / 50e9))


def test_faster_than_the_product_of_a_library_is_no_fault(fake: FakeBuild) -> None:
    fake.plan["ceilings"]["cuda"] |= {"tensor_fp16_gflops": 600e3}
    fake.add("x1", arithmetic="exact", operands="fp16")
    fake.plan["sessions"]["x1"] = [timed("assign", 4e-8), result(), END]
    row = sound(fake.run("--device", "cuda", "--scopes", "assign"))["rows"][0]
    assert row["status"] == "ok" and row["roof_percent"] == pytest.approx(125)


@pytest.mark.parametrize(
    ("scope", "ms", "words"),
    [("assign", 3e-7, "GFLOP"), ("end_to_end", 1e-4, "over the link"), ("solve", 1e-6, "GFLOP")],
)
def test_a_time_below_the_floor_is_invalid(fake: FakeBuild, scope: str, ms: float, words: str) -> None:
    fake.plan["sessions"]["x1"] = [timed(scope, ms), result(), END]
    row = sound(fake.run("--device", "cuda", "--scopes", scope, status=1))["rows"][0]
    assert row["status"] == "invalid" and row["median_ms"] is None and row["samples_ms"] == []
    assert row["reason"].startswith("faster than this device can be") and words in row["reason"]


def test_the_floor_leaves_a_cpu_more_room(fake: FakeBuild) -> None:
    fake.add("x1", "cpu")
    fake.plan["sessions"]["x1"] = [timed("assign", 2e-5), result(), END]
    row = sound(fake.run("--device", "cpu", "--scopes", "assign"))["rows"][0]
    assert row["status"] == "ok" and row["roof_percent"] > 100


def test_the_table_shows_the_roof_and_marks_what_is_launch(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = [timed("assign", 0.009), timed("iteration", 0.011), result(), END]
    rows = by_scope(fake.run("--device", "cuda", "--scopes", "assign,iteration"))
    assert rows["assign"]["launch_bound"] and not rows["iteration"]["launch_bound"], "ten times 1 us"
    table = fake("show", fake.out).stdout
    assert "0.009*" in table and "0.011 " in table and "0%" in table


# ---------------------------------------------------------------------------------------------- sessions that end badly


def test_the_table_says_what_a_single_sample_is_and_why_a_whole_run_is_left_out(fake: FakeBuild) -> None:
    late = "the session has no time left for a solve: raise --time-limit"
    left_out = timed("solve", status="refused", reason=late, samples_ms=[], median_ms=None, q1_ms=None, q3_ms=None)
    fake.plan["sessions"]["x1"] = [timed("assign", samples=1), timed("update"), left_out, result(), END]
    done = fake("run", "--device", "cuda", "--workloads", "grapes", "--scopes", "assign,update,solve")
    assert done.returncode == 0, done.stderr
    assert f"    solve: refused: {late}\n" in done.stdout
    assert "    assign: n = 1, a median of one sample\n" in done.stdout


def test_the_cpu_device_gives_no_verdict(fake: FakeBuild) -> None:
    fake.add("x1", "simt")
    fake.add("x2", "simt")
    fake.plan["sessions"]["x2"] = session(9.0)
    done = fake("run", "--compare", "x1,x2", "--device", "simt", "--workloads", "grapes", "--scopes", "assign")
    assert done.returncode == 0, done.stderr
    assert "its time says nothing of a GPU" in done.stdout and "SAME 0, FASTER 0, SLOWER 0, UNSURE 1" in done.stdout
    assert [c["verdict"] for c in json.loads(fake.out.read_text())["comparisons"]] == ["UNSURE"]


def of_one_scope(**fields: object) -> list[Event]:
    return [timed("assign", **fields), result(), END]


SHAKEN = of_one_scope(status="unstable", reason="another program ran.")


def test_a_session_in_doubt_is_run_again_at_its_place(fake: FakeBuild) -> None:
    fake.add("x2")
    fake.plan["sessions"]["x2"] = [of_one_scope(), of_one_scope(), SHAKEN, SHAKEN, *3 * [of_one_scope()]]
    words = ["run", "--compare", "x1,x2", "--device", "cuda", "--workloads", "grapes", "--scopes", "assign"]
    done = fake(*words)
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count("once more, for it is unstable: another program ran.") == 2
    record = json.loads(fake.out.read_text())
    assert {row["status"] for row in record["rows"]} == {"ok"}
    assert [row["session"] for row in record["rows"]] == list(range(10))
    (c,) = record["comparisons"]
    assert (c["method"], c["base_sessions"], c["candidate_sessions"]) == ("interleaved", 5, 5)
    assert "not compared" not in done.stdout


def test_a_session_that_took_too_long_is_not_run_again(fake: FakeBuild) -> None:
    fake.add("x2")
    late = [timed("assign"), result(), doing("update"), {"sleep": 600}]
    fake.plan["sessions"]["x2"] = [late, *4 * [session()]]
    words = ["run", "--compare", "x1,x2", "--device", "cuda", "--workloads", "grapes", "--scopes", "assign,update"]
    done = fake(*words, "--time-limit", "2")
    assert "once more" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert len(fake.asked()) == 10
    reasons = {row["reason"] for row in json.loads(fake.out.read_text())["rows"] if row["status"] == "unstable"}
    assert reasons and all(reason.startswith("the session was stopped before its last check") for reason in reasons)


def test_too_few_sessions_in_turns_are_compared_as_if_apart_and_that_is_said(fake: FakeBuild) -> None:
    fake.add("x2")
    fake.plan["sessions"]["x2"] = [*3 * [SHAKEN], *4 * [of_one_scope()]]
    words = ["run", "--compare", "x1,x2", "--device", "cuda", "--workloads", "grapes", "--scopes", "assign"]
    done = fake(*words)
    assert done.returncode == 0, done.stderr
    said = "with x1 in turns: 5 + 4 sessions have times, and each side needs 5: compared as if apart"
    assert f"not compared: x2 on grapes (cuda, assign) {said}" in done.stdout
    record = json.loads(fake.out.read_text())
    assert sorted(row["status"] for row in record["rows"]) == [*9 * ["ok"], "unstable"]
    (c,) = record["comparisons"]
    assert c["method"] == "apart"


def test_what_a_session_finished_before_its_time_was_up_is_kept_and_unstable(fake: FakeBuild) -> None:
    events = [result(), doing("assign"), timed("assign"), doing("solve"), timed("solve")]
    events += [doing("last check"), {"sleep": 60}]
    fake.plan["sessions"]["x1"] = events
    words = ["--device", "cuda", "--scopes", "assign,solve,end_to_end", "--time-limit", "5"]
    rows = by_scope(sound(fake.run(*words, status=1)))
    assert {scope: row["status"] for scope, row in rows.items()} == {
        "assign": "unstable",
        "solve": "unstable",
        "end_to_end": "failed",
    }
    assert rows["solve"]["median_ms"] == 1.0
    assert "stopped before its last check" in rows["solve"]["reason"]
    for row in rows.values():
        assert all(word in row["reason"] for word in ("not done after 5 s", "last check", "--time-limit"))


def test_times_without_a_validation_are_failed(fake: FakeBuild) -> None:
    words = ["--device", "cuda", "--scopes", "assign", "--time-limit", "5"]
    fake.plan["sessions"]["x1"] = [doing("assign"), timed("assign"), doing("solve"), {"sleep": 60}]
    (row,) = sound(fake.run(*words, status=1))["rows"]
    assert (row["status"], row["median_ms"], row["validation"]) == ("failed", None, None)
    assert "reported no validation" in row["reason"] and "not done after 5 s" in row["reason"]
    fake.plan["sessions"]["x1"] = [timed("assign"), END]
    (row,) = sound(fake.run(*words, status=1))["rows"]
    assert (row["status"], row["reason"]) == ("failed", "the session reported no validation")


def test_a_session_that_crashed_is_not_believed(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = [timed("assign"), doing("solve"), {"print": "oh no"}, {"signal": 11}]
    rows = sound(fake.run("--device", "cuda", "--scopes", "assign,solve", status=1))["rows"]
    assert {row["status"] for row in rows} == {"failed"}
    assert "oh no" in rows[0]["reason"] and "signal 11" in rows[0]["reason"] and "in solve" in rows[0]["reason"]


def test_a_fault_found_at_the_end_takes_all_times_away(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = [timed("assign"), timed("solve"), result(fault="late"), END]
    rows = sound(fake.run("--device", "cuda", "--scopes", "assign,solve", status=1))["rows"]
    assert {(row["status"], row["reason"], row["median_ms"]) for row in rows} == {("invalid", "late", None)}


# -------------------------------------------------------------------------------------------------- going on with a run


def scopes_asked(fake: FakeBuild) -> list[list[str]]:
    return [request["scopes"] for request in fake.asked()]


def test_rows_of_other_scopes_stay(fake: FakeBuild) -> None:
    words = ["--device", "cuda", "--resume", "--scopes"]
    fake.run(*words, "assign")
    rows = by_scope(sound(fake.run(*words, "solve,assign")))
    assert set(rows) == {"assign", "solve"}
    assert scopes_asked(fake) == [["assign"], ["solve"]]
    assert len(fake.run(*words, "solve")["rows"]) == 2 and len(fake.asked()) == 2


@pytest.mark.parametrize(
    "words",
    [["--cache", "cold"], ["--axis", "block=64"], ["--gpus", "2"], ["--sustained", "2"]],
    ids=lambda words: words[0],
)
def test_rows_measured_in_another_way_are_others(fake: FakeBuild, words: list[str]) -> None:
    fake.add("x1", gpus=2, axes=[{"name": "block", "values": [64, 256], "standard": 256}])
    same = ["--device", "cuda", "--scopes", "assign", "--resume"]
    fake.run(*same)
    rows = sound(fake.run(*same, *words))["rows"]
    assert len(rows) == 2 and len(fake.asked()) == 2
    assert rows[0]["key"] != rows[1]["key"]
    fake.run(*same)
    assert len(fake.run(*same, *words)["rows"]) == 2 and len(fake.asked()) == 2, "both are known now"


def test_a_variant_that_was_built_anew_is_measured_anew(fake: FakeBuild) -> None:
    fake.add("x2")
    same = ["--device", "cuda", "--scopes", "assign", "--resume"]
    before = fake.run(*same)["rows"]
    fake.add("x1", module="second")
    fake.plan["sessions"]["x1"] = session(2.0)
    done = fake("run", *same, "--workloads", "grapes")
    assert done.returncode == 0 and "x1 was built anew: 1 rows of its former build are taken out" in done.stderr
    after = {row["variant"]: row for row in sound(json.loads(fake.out.read_text()))["rows"]}
    assert after["x1"]["median_ms"] == 2.0 and after["x1"]["module_hash"] != before[0]["module_hash"]
    assert after["x2"] == before[1] and [r["variant"] for r in fake.asked()] == ["x1", "x2", "x1"]


def test_what_failed_is_tried_again(fake: FakeBuild) -> None:
    same = ["--device", "cuda", "--scopes", "assign", "--resume"]
    fake.plan["sessions"]["x1"] = [{"signal": 9}]
    fake.run(*same, status=1)
    fake.plan["sessions"]["x1"] = session()
    assert [row["status"] for row in sound(fake.run(*same))["rows"]] == ["ok"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 6}, ["k is 5 there, 6 here"]),
        ({"stop": "fixed:3"}, ["stop is"]),
        ({"seed": 2}, ["seed is 1 there, 2 here"]),
        ({"type": "f64"}, ["type is"]),
        ({"metric": "cosine"}, ["metric is"]),
    ],
    ids=str,
)
def test_another_problem_under_the_same_name_is_not_added_to(
    fake: FakeBuild, change: dict[str, Any], words: list[str]
) -> None:
    same = ["--device", "cuda", "--scopes", "assign", "--workloads", "grapes", "--resume"]
    before = fake.run(*same)
    fake.workloads[0] |= change
    one_sentence(fake("run", *same), "grapes", "choose another --out", *words)
    assert json.loads(fake.out.read_text()) == before


@pytest.mark.parametrize(
    ("status", "dirty"), [("exit 0", False), ("echo ' M a.cpp'", True), ("exit 128", True), ("kill -INT $$", True)]
)
def test_sources_are_clean_only_where_git_says_so(fake: FakeBuild, tmp_path: Path, status: str, dirty: bool) -> None:
    git = tmp_path / "git"
    git.write_text(f'#!/bin/sh\ncase "$*" in *rev-parse*) echo {"2" * 40};; *) {status};; esac\n')
    git.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    context = fake.run("--scopes", "assign", "--workloads", "grapes", PATH=path, LADDER_GIT_SHA="")["context"]
    assert (context["git_sha"], context["git_dirty"]) == ("2" * 40, dirty)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"LADDER_GIT_SHA": "1" * 40}, "git_sha"),
        ({"LADDER_GIT_DIRTY": "1"}, "uncommitted changes"),
    ],
    ids=str,
)
def test_rows_of_other_sources_get_into_no_record(fake: FakeBuild, environment: dict[str, str], words: str) -> None:
    same = ["--device", "cuda", "--scopes", "assign", "--workloads", "grapes", "--resume"]
    before = fake.run(*same)
    one_sentence(fake("run", *same, **environment), words, "choose another --out")
    assert json.loads(fake.out.read_text()) == before
    fake.out.unlink()
    fake.run(*same, **environment)
    one_sentence(fake("run", *same), words)


def test_a_run_without_the_gpu_keeps_what_is_known_of_it(fake: FakeBuild) -> None:
    fake.add("x2", "cpu")
    fake.run("--device", "cuda", "--variants", "x1")
    record = sound(fake.run("--device", "cpu", "--variants", "x2", "--resume"))
    assert record["context"]["gpu"]["name"] == "fake GPU 0"
    assert set(record["context"]["ceilings"]) == {"cuda", "cpu"} and record["context"]["floor_us"]
    assert {row["device"] for row in record["rows"]} == {"cuda", "cpu"}


def test_a_record_of_the_first_version_is_shown_but_not_added_to(fake: FakeBuild) -> None:
    old = FIXTURES / "records" / "version1.json"
    assert "g1_plain" in fake("show", old).stdout
    fake.out.write_text(old.read_text())
    done = fake("run", "--device", "cuda", "--workloads", "grapes", "--resume")
    one_sentence(done, "schema version 1", "choose another --out")
    assert fake.out.read_text() == old.read_text()


def test_what_was_left_out_stays_noted_until_it_runs(fake: FakeBuild) -> None:
    same = ["--device", "cuda", "--scopes", "assign", "--resume", "--workloads"]
    fake.sources[1] = {"name": "plums", "kind": "file", "n": 1000, "d": 4}
    fake.run(*same, "plums,grapes", status=1)
    left_out = fake.run(*same, "grapes")["context"]["left_out"]
    assert [entry["workload"] for entry in left_out] == ["plums"]
    assert fake.run(*same, "plums", status=1)["context"]["left_out"] == left_out, "once"
    np.save(fake.folder / "cache" / "plums.npy", np.ones((1000, 4), np.float32))
    assert sound(fake.run(*same, "plums"))["context"]["left_out"] == []


def test_a_kept_record_needs_no_data(fake: FakeBuild) -> None:
    same = ["--device", "cuda", "--scopes", "assign", "--resume", "--no-keep"]
    fake.run(*same)
    assert not (fake.folder / "cache" / "grapes.npy").exists()
    fake.run(*same)
    assert len(fake.asked()) == 1 and not (fake.folder / "cache" / "grapes.npy").exists()


# ------------------------------------------------------------------------------------------------- one writer at a time


def test_a_second_run_into_a_record_is_refused(fake: FakeBuild) -> None:
    go_on = fake.folder / "go_on"
    fake.plan["sessions"]["x1"] = [doing("assign"), {"wait_for": str(go_on)}, *session()]
    first = fake.start("run", "--device", "cuda", "--workloads", "grapes")
    wait_for(fake.asked)
    second = fake("run", "--device", "cuda", "--workloads", "plums")
    one_sentence(second, str(fake.out), f"process {first.pid}", "choose another --out")
    join = fake("join", fake.out, fake.out, fake.out)
    one_sentence(join, f"process {first.pid}")
    go_on.touch()
    assert first.wait(timeout=60) == 0
    assert {row["workload"] for row in json.loads(fake.out.read_text())["rows"]} == {"grapes"}
    assert not [path.name for path in fake.folder.glob("record.json?*")], "neither lock nor temporary file stays"
    fake.run("--device", "cuda")


def test_a_run_that_was_killed_holds_no_lock(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = [{"sleep": 30}]
    first = fake.start("run", "--device", "cuda", "--workloads", "grapes")
    wait_for(fake.asked)
    first.kill()
    first.communicate()
    fake.plan["sessions"]["x1"] = session()
    fake.run("--device", "cuda")


# ------------------------------------------------------------------------------------------------------- generated data


def test_data_are_generated_anew_when_their_parameters_change(fake: FakeBuild) -> None:
    file = fake.folder / "cache" / "grapes.npy"
    seen = []
    for source in (
        fake.source("grapes"),
        fake.source("grapes", seed=2),
        fake.source("grapes", seed=2, parameters={"clusters": 3, "spread": 2.0}),
        fake.source("grapes"),
    ):
        fake.sources[0] = source
        workload = fake.run("--device", "cuda")["workloads"][0]
        assert (
            json.loads(workload["made_by"])["seed"] == source["seed"] and f"seed {source['seed']}" in workload["source"]
        )
        seen.append((workload["data_hash"], file.read_bytes()))
    assert len(set(seen)) == 3 and seen[0] == seen[3]


def test_data_that_were_changed_by_others_are_made_anew(fake: FakeBuild) -> None:
    before = fake.run("--device", "cuda")["workloads"][0]["data_hash"]
    points = np.load(fake.folder / "cache" / "grapes.npy")
    np.save(fake.folder / "cache" / "grapes.npy", points + 1)
    assert fake.run("--device", "cuda")["workloads"][0]["data_hash"] == before
    assert (np.load(fake.folder / "cache" / "grapes.npy") == points).all()


def test_points_that_another_run_reads_are_not_deleted(fake: FakeBuild) -> None:
    go_on, points = fake.folder / "go_on", fake.folder / "cache" / "grapes.npy"
    fake.add("x2")
    fake.plan["sessions"]["x1"] = [{"wait_for": str(go_on)}, *session()]
    words = ["run", "--device", "cuda", "--workloads", "grapes", "--no-keep"]
    first = fake.start(*words, "--variants", "x1")
    wait_for(fake.asked)
    assert fake(*words, "--variants", "x2", "--out", fake.folder / "2.json").returncode == 0
    assert points.exists(), "the other's session may still map it"
    go_on.touch()
    assert first.wait(timeout=60) == 0
    assert not points.exists(), "the last one deletes them"


def test_runs_side_by_side_share_generated_data(fake: FakeBuild) -> None:
    """Each makes, uses and deletes the same points again and again: nobody loses what it is reading."""
    fake.sources[0] |= {"n": 200_000, "d": 20}
    fake.plan["sessions"]["x1"] = [timed("assign"), result(reassigned=[]), END]
    fake.workloads = [fake.workload(f"grapes{i}", source="grapes", family="grapes") for i in range(6)]
    words = ["run", "--device", "cuda", "--workloads", "grapes*", "--scopes", "assign", "--no-keep", "--min-time", "0"]
    runs = [fake.start(*words, "--out", fake.folder / f"{i}.json") for i in range(4)]
    for i, process in enumerate(runs):
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0 and "left out" not in output + errors, output + errors
        record = sound(json.loads((fake.folder / f"{i}.json").read_text()))
        assert {row["status"] for row in record["rows"]} == {"ok"} and len(record["rows"]) == 6
    assert {path.name for path in (fake.folder / "cache").iterdir()} == {"grapes.npy.facts.json"}


# ------------------------------------------------------------------------------------------------------- plain mistakes


def test_an_axis_that_no_chosen_variant_has_is_an_error(fake: FakeBuild) -> None:
    fake.add("x2", axes=[{"name": "block", "values": [64, 256], "standard": 256}])
    run = ["run", "--device", "cuda", "--workloads", "grapes", "--axis"]
    one_sentence(fake(*run, "blok=64"), "--axis blok", "they have block")
    one_sentence(fake(*run, "block=64", "--variants", "x1"), "--axis block", "they have none")
    one_sentence(fake(*run, "block=65"), "--axis block=65", "64, 256")
    for word in ("block=", "block=64k", "=64", "block"):
        one_sentence(fake(*run, word), f"--axis '{word}'")
    rows = sound(fake.run(*run[1:], "block=64", "--scopes", "assign"))["rows"]
    assert {row["variant"]: row["axes"] for row in rows} == {"x1": {}, "x2": {"block": 64}}


def test_a_value_that_one_variant_lacks_is_refused_there(fake: FakeBuild) -> None:
    fake.add("x1", axes=[{"name": "block", "values": [256], "standard": 256}])
    fake.add("x2", axes=[{"name": "block", "values": [64, 256], "standard": 256}])
    rows = sound(fake.run("--device", "cuda", "--axis", "block=64", "--scopes", "assign"))["rows"]
    assert {row["variant"]: row["status"] for row in rows} == {"x1": "refused", "x2": "ok"}
    assert "no value 64: it has 256" in rows[0]["reason"]


def test_cold_caches_are_a_gpus(fake: FakeBuild) -> None:
    fake.add("x2", "cpu")
    one_sentence(fake("run", "--device", "cpu", "--workloads", "grapes", "--cache", "cold"), "--cache cold", "GPU")
    rows = sound(fake.run("--device", "cuda", "--cache", "cold", "--scopes", "assign"))["rows"]
    assert {row["variant"]: row["status"] for row in rows} == {"x1": "ok", "x2": "refused"}
    assert [r["variant"] for r in fake.asked()] == ["x1"]


@pytest.mark.parametrize(
    ("pattern", "status"), [("plums,grapes", 1), ("plums", 1), ("*,plums", 1), ("p*,grapes", 0), ("*", 0)]
)
def test_a_named_workload_without_data_is_no_success(fake: FakeBuild, pattern: str, status: int) -> None:
    fake.sources[1] = {"name": "plums", "kind": "file", "n": 5, "d": 2}
    done = fake("run", "--device", "cuda", "--scopes", "assign", "--workloads", pattern)
    assert done.returncode == status, done.stderr
    assert "plums is left out: not prepared yet: run datasets/prepare.py 'plums'" in done.stderr
    assert ("a workload was named, but not run" in done.stderr) == bool(status)
    record = sound(json.loads(fake.out.read_text()))
    assert [left["workload"] for left in record["context"]["left_out"]] == ["plums"]


# ---------------------------------------------------------------------------------------------------- pieces of one run


def piece(workload: str, variants: list[str], ms: float = 1.0, **context: object) -> dict[str, Any]:
    """A record of made-up variants on one workload, in `assign`."""
    problem = sample_record.workload(workload, "grapes", 6497, 11, 16)
    rows = [sample_record.row(v, "", problem, "cuda", "assign", ms=ms) for v in variants]
    made = sample_record.context() | {"argv": ["ladder", "run", workload]} | context
    return {"schema_version": 2, "context": made, "workloads": [problem], "rows": rows}


def try_join(ladder: Ladder, *pieces: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    names = [sample_record.write(document, ladder.folder / f"{i}.json") for i, document in enumerate(pieces)]
    return ladder("join", ladder.folder / "joined" / "all.json", *names)


def join(ladder: Ladder, *pieces: dict[str, Any]) -> dict[str, Any]:
    done = try_join(ladder, *pieces)
    assert done.returncode == 0, done.stderr
    record = json.loads((ladder.folder / "joined" / "all.json").read_text())
    assert schema.violations(record) == []
    return record


def test_pieces_of_a_run_become_one_record(ladder: Ladder) -> None:
    left_out = {"workload": "photo", "reason": "no data"}
    record = join(
        ladder,
        piece("one", ["b", "c"], time="2026-11-20T23:05:00Z", left_out=[left_out]),
        piece("two", ["b"], time="2026-11-20T23:00:00Z", left_out=[left_out]),
        piece("one", ["a"]),
    )
    assert [(row["workload"], row["variant"]) for row in record["rows"]] == [
        ("one", "a"),
        ("one", "b"),
        ("one", "c"),
        ("two", "b"),
    ]
    assert [w["name"] for w in record["workloads"]] == ["one", "two"]
    context = record["context"]
    assert context["time"] == "2026-11-20T23:00:00Z" and context["complete"]
    assert context["argv"][1] == "join"
    assert [run["argv"][-1] for run in context["pieces"]] == ["one", "two", "one"]
    assert context["left_out"] == [left_out]
    # Rows and sessions have a line each, which a reader of a difference sees, and which takes little room.
    lines = [line.strip(" ,") for line in (ladder.folder / "joined" / "all.json").read_text().splitlines()]
    for one in (*record["rows"], *context["pieces"]):
        assert json.dumps(one, separators=(",", ":"), sort_keys=True) in lines


def test_what_one_piece_left_out_and_another_ran_is_there(ladder: Ladder) -> None:
    first = piece("one", ["a"], left_out=[{"workload": "two", "reason": "no data"}])
    assert join(ladder, first, piece("two", ["a"]))["context"]["left_out"] == []


def test_of_a_row_in_two_pieces_the_later_counts(ladder: Ladder) -> None:
    record = join(ladder, piece("one", ["a", "b"], ms=1), piece("one", ["a"], ms=5))
    assert {row["variant"]: round(row["median_ms"]) for row in record["rows"]} == {"a": 5, "b": 1}


def test_a_record_holds_one_build_of_a_variant(ladder: Ladder) -> None:
    anew = piece("one", ["a"], ms=5)
    anew["rows"][0] |= {"module_hash": "another", "key": "another"}
    record = join(ladder, piece("one", ["a", "b"]), anew)
    assert [row["module_hash"] for row in record["rows"]] == ["another", "b-cuda"]


@pytest.mark.parametrize("dirty", [False, True])
def test_builds_of_one_commit_stand_side_by_side(ladder: Ladder, dirty: bool) -> None:
    first, anew = piece("one", ["a"], git_dirty=dirty), piece("one", ["a"], git_dirty=dirty)
    anew["rows"][0] |= {"module_hash": "another", "key": "another", "scope": "update"}
    scopes = [row["scope"] for row in join(ladder, first, anew)["rows"]]
    assert scopes == (["update"] if dirty else ["assign", "update"])


def test_a_piece_without_a_gpu_joins_those_with_one(ladder: Ladder) -> None:
    native = piece("one", [], gpu=None, floor_us=None, ceilings={"cpu": sample_record.ceilings(False)})
    native["rows"] = [sample_record.row("n", "", native["workloads"][0], "cpu", "assign")]
    context = join(ladder, native, piece("one", ["a"]))["context"]
    assert context["gpu"]["name"] == "Example GPU X1" and context["floor_us"]
    assert set(context["ceilings"]) == {"cuda", "simt", "cpu"}


def test_a_joined_record_has_the_best_ceilings_of_its_host(ladder: Ladder) -> None:
    """Other work on a host lowers what a session measures, so that the last piece's may say less than the first's."""
    pieces = [piece(name, [name]) for name in ("one", "other", "elsewhere")]
    for of, reading, event in zip(pieces, (4600.0, 4550.0, 9e3), (1.5, 2.75, 0.5), strict=True):
        of["context"]["ceilings"]["cuda"] |= {"read_gbs": reading, "empty_event_us": event, "tensor_gflops": None}
        of["context"]["floor_us"] |= {"empty_event_us": event}
    pieces[1]["context"]["ceilings"]["cuda"]["tensor_gflops"] = 9e5
    pieces[2]["context"]["host"]["cores"] += 1
    for these in (pieces[:2], pieces[1::-1]):
        context = join(ladder, *these)["context"]
        found = context["ceilings"]["cuda"]
        assert [found[name] for name in ("read_gbs", "empty_event_us", "tensor_gflops")] == [4600, 1.5, 9e5]
        assert context["floor_us"]["empty_event_us"] == 1.5
    out = ladder.folder / "renewed.json"
    names = [sample_record.write(of, ladder.folder / f"{i}.json") for i, of in enumerate(pieces[1:])]
    done = ladder("join", "--renew", out, *names)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())["context"]["ceilings"]["cuda"]
    assert (found["read_gbs"], found["empty_event_us"]) == (9e3, 0.5), "what another host can do is not known of this"


def test_joined_records_join_again(ladder: Ladder) -> None:
    first = join(ladder, piece("one", ["a"]), piece("one", ["b"]))
    again = join(ladder, first, piece("two", ["a"]))
    assert [run["argv"][-1] for run in again["context"]["pieces"]] == ["one", "one", "two"]
    assert len(again["rows"]) == 3


def turns(base: str, candidate: str, ratio: float, sessions: int = 5) -> dict[str, Any]:
    """A piece of sessions in turns."""
    made = piece("one", [base, candidate] * sessions)
    for place, row in enumerate(made["rows"]):
        row |= {"session": place, "turns": {"variants": [base, candidate], "seed": 3}}
        row["key"] += f" turns={base},{candidate} session={place}"
    compared = {"base": base, "candidate": candidate, "workload": "one", "device": "cuda", "scope": "assign"}
    compared |= {"axes": {}, "cache": "warm", "verdict": "UNSURE", "ratio": ratio, "low": 0.5, "high": 1.5, "p": 0.5}
    compared |= {"base_ms": 1.0, "candidate_ms": ratio, "base_sessions": sessions, "candidate_sessions": sessions}
    return made | {"comparisons": [compared | {"method": "interleaved", "scatter": None, "order_seed": 3}]}


def test_comparisons_of_several_pieces_are_kept(ladder: Ladder) -> None:
    record = join(ladder, turns("a", "b", 0.8), piece("one", ["a"]), turns("b", "c", 0.9))
    assert [(c["base"], c["candidate"], c["ratio"]) for c in record["comparisons"]] == [
        ("a", "b", 0.8),
        ("b", "c", 0.9),
    ]
    count = [sum(row["variant"] == v for row in record["rows"]) for v in "abc"]
    assert count == [6, 10, 5], "b has sessions of its own with a and with c, a one more of its own run"


def test_of_a_pair_that_two_pieces_compare_the_later_counts(ladder: Ladder) -> None:
    record = join(ladder, turns("a", "b", 0.8, sessions=7), turns("a", "b", 0.7))
    assert [c["ratio"] for c in record["comparisons"]] == [0.7]
    assert len(record["rows"]) == 10, "none of the former's sessions is left among the latter's"


def with_samples(record: dict[str, Any], samples: list[float]) -> dict[str, Any]:
    """A piece whose row has these, and a clock and an iteration count that tell them apart."""
    q1, median, q3 = np.percentile(samples, [25, 50, 75])
    (row,) = record["rows"]
    row |= {"samples_ms": samples, "q1_ms": q1, "median_ms": median, "q3_ms": q3, "gflops": None, "gbs": None}
    row |= {"sm_mhz": [1000 + ms for ms in samples], "solve_iterations": [], "floor_ms": None, "roof_percent": None}
    return record


def test_a_joined_record_may_keep_some_samples_of_many(ladder: Ladder) -> None:
    many = with_samples(piece("one", ["a"]), [1 + (37 * i) % 1001 / 1001 for i in range(1001)])
    few = with_samples(piece("one", ["b"]), [1 + i / 7 for i in range(7)])
    names = [sample_record.write(document, ladder.folder / f"{i}.json") for i, document in enumerate([many, few])]
    assert ladder("join", ladder.folder / "all.json", *names, "--samples", 50).returncode == 0
    record = json.loads((ladder.folder / "all.json").read_text())
    assert schema.violations(record) == []
    (of_many, of_few) = record["rows"]
    assert of_few == few["rows"][0]
    assert of_many["samples_taken"] == 1001 and len(of_many["samples_ms"]) == 50
    assert of_many["median_ms"] == many["rows"][0]["median_ms"]
    places = [many["rows"][0]["samples_ms"].index(ms) for ms in of_many["samples_ms"]]
    assert all(i * 1001 // 50 <= place <= (i + 1) * 1001 // 50 for i, place in enumerate(places))
    assert len({place % 20 for place in places}) > 15  # not always the same phase of what has a period
    assert of_many["sm_mhz"] == [1000 + ms for ms in of_many["samples_ms"]]

    of_many["median_ms"] += 0.4
    assert "but the 50 that are kept have it between" in " ".join(schema.violations(record))
    of_many |= {"median_ms": of_many["median_ms"] - 0.4, "samples_taken": 20}
    assert "samples_taken is 20, but 50 are kept" in " ".join(schema.violations(record))


def test_a_dump_is_found_from_the_joined_record(ladder: Ladder) -> None:
    first = piece("one", ["a"])
    first["rows"][0]["dump"] = "dump/one/a"
    assert join(ladder, first, piece("one", ["b"]))["rows"][0]["dump"] == "../dump/one/a"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda d: d["context"].update(git_sha="f" * 40), "git_sha"),
        (lambda d: d["context"].update(git_dirty=True), "uncommitted changes"),
        (lambda d: d["context"]["gpu"].update(name="another"), "another gpu"),
        (lambda d: d["context"]["host"].update(cpu="another"), "another host"),
        (lambda d: d["workloads"][0].update(k=17), "different problems of the name one: k is 16 there, 17 here"),
        (lambda d: d.update(comparisons=[]), "do not say what they took turns with"),
        (lambda d: d.update(schema_version=1), "2.json"),
        (lambda d: d.pop("rows"), "field rows: it is missing"),
    ],
)
def test_records_that_do_not_belong_together_are_not_joined(
    ladder: Ladder, spoil: Callable[[dict[str, Any]], None], words: str
) -> None:
    spoilt = copy.deepcopy(piece("one", ["a"]))
    spoil(spoilt)
    of_no_gpu = piece("one", ["c"], gpu=None)
    of_no_gpu["rows"] = [row | {"device": "cpu"} for row in of_no_gpu["rows"]]
    done = try_join(ladder, piece("one", ["b"]), of_no_gpu, spoilt)
    assert done.returncode == 2
    assert words in done.stderr and "2.json" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (ladder.folder / "joined" / "all.json").exists()
