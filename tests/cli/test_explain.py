"""`ladder explain` and `ladder predict`: what they say of each rung with a lesson, in time and without a GPU."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import sample_record
from conftest import ROOT, Ladder

CHAPTERS = ("1_memory", "2_reuse", "3_matrix_products")
RUNGS = [path.stem for chapter in CHAPTERS for path in sorted((ROOT / "variants" / chapter).glob("*.cu"))]
STARTED = ("v22_tensor_split", "v23_half_product")
FIELDS = {
    "id", "chapter", "base", "idea", "flaw", "expect", "diff", "predicted", "counted", "limits", "times", "claims",
    "question", "answer",
}  # fmt: skip
SECONDS = 5


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    done = Ladder(tmp_path_factory.mktemp("explain"))("explain", *RUNGS, *STARTED, "--json")
    assert done.returncode == 0, done.stderr
    return {e["id"]: e for e in json.loads(done.stdout)}


def test_every_rung_of_the_first_chapters_is_explained(explained: dict[str, dict]) -> None:
    assert list(explained) == [*RUNGS, *STARTED]
    for rung, e in explained.items():
        assert set(e) >= FIELDS and e["question"] and e["answer"] and e["predicted"], rung
        assert not e["base"] or (e["flaw"] and e["diff"]), f"{rung}: the head of its file names no base"
        values = [p["value"] for p in e["predicted"].values()]
        assert any(value is not None for value in values), f"{rung} predicts nothing"


def test_it_says_what_the_card_the_records_and_the_counters_say(explained: dict[str, dict]) -> None:
    e = explained["v05_soa"]
    assert "+      const T diff = x[size_t(f) * n + i] - c[size_t(j) * d + f];" in e["diff"]
    assert e["predicted"]["sectors_per_load"]["value"] == e["counted"]["sectors_per_load"]["value"] == 2.5
    assert e["limits"]["before_by"] == "L1" and e["limits"]["before_rung"] == "v04_shared_update"
    assert {c["verdict"] for c in e["claims"]} <= {"holds", "weaker", "gone", "not measured"} and e["claims"]
    with_interval = [t for t in e["times"] if t["low"] is not None]
    assert with_interval and all(t["low"] <= t["median_ms"] <= t["high"] and t["sessions"] >= 5 for t in with_interval)
    assert explained["v01_global"]["base"] is None and explained["v01_global"]["diff"] == []


def test_the_answer_is_shown_when_asked_for(ladder: Ladder, explained: dict[str, dict]) -> None:
    answer = explained["v05_soa"]["answer"]
    begun = time.monotonic()
    assert answer not in ladder("explain", "v05_soa").stdout
    assert time.monotonic() - begun < SECONDS
    assert answer in ladder("explain", "v05_soa", "--answer").stdout


def test_a_rung_without_a_lesson_is_explained_without_predictions(ladder: Ladder) -> None:
    done = ladder("explain", "v46_graph_loop", "p_scipy", "c0_serial", "--json")
    found = json.loads(done.stdout)
    assert [e["predicted"] for e in found] == [{}, {}, {}] and [e["question"] for e in found] == [None] * 3
    assert found[0]["flaw"] and found[0]["times"] and found[1]["idea"]


@pytest.mark.parametrize("measured, gpus", [("a", ["NVIDIA H200"]), ("b", ["NVIDIA H200", "NVIDIA H100"])])
def test_a_gain_of_an_earlier_text_is_left_out(ladder: Ladder, tmp_path: Path, measured: str, gpus: list[str]) -> None:
    """`measured`: the text that the GPU without a whole record has; the one with it has b."""
    for name in ("variants", "docs", "datasets", "harness"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "results" / "cpu").mkdir(parents=True)
    without = sample_record.make(gpu=False)
    for row in without["rows"]:
        row["source_hash"] = "b" * 16
    sample_record.write(without, tmp_path / "results" / "cpu" / "record.json")
    for gpu, file, text in (("H200", "record", "b"), ("H100", "comparisons", measured)):
        made = sample_record.make()
        row = next(r for r in made["rows"] if r["device"] == "cuda" and r["status"] == "ok")
        rungs = {"candidate": "v05_soa", "base": "v04_shared_update"}
        made["context"]["gpu"]["name"] = f"NVIDIA {gpu}"
        made["rows"] = [row | {"variant": rung, "source_hash": text * 16} for rung in rungs.values()]
        made["comparisons"] = [sample_record.comparison(**rungs, workload=row["workload"], scope=row["scope"])]
        place = tmp_path / "results" / f"nvidia-{gpu.lower()}" / f"{file}.json"
        place.parent.mkdir(parents=True)
        sample_record.write(made, place)
    done = ladder("explain", "v05_soa", "--json", env=os.environ | {"LADDER_SOURCE": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    explained = json.loads(done.stdout)
    assert [gain["device"] for gain in explained["gains"]] == gpus
    assert {time["device"] for time in explained["times"]} == set(gpus)


@pytest.mark.parametrize("device", ["h200", "t4", "b200"])
def test_a_band_of_time_is_predicted(ladder: Ladder, device: str) -> None:
    for rung in ("v05_soa", "v13b_cublas", "v23_half_product"):
        begun = time.monotonic()
        done = ladder("predict", rung, "--workload", "kmcuda", "--device", device, "--json")
        assert done.returncode == 0 and time.monotonic() - begun < SECONDS, done.stderr
        f = json.loads(done.stdout)
        assert f["limiter"] == f["floors"][0]["by"] and f["band"]["low_ms"] == f["floors"][0]["ms"]
        assert all(floor["from"] for floor in f["floors"])
        assert f["band"]["high_ms"] > f["band"]["low_ms"]
        assert bool(f["measured"]) == (device == "h200"), "the committed records are of an H200 and an H100"
        if device == "b200" and rung == "v05_soa":
            assert any("states" in why for why in f["unknown"]), "figures that no document states are said to be absent"


@pytest.mark.parametrize("rung", ["v05_soa", "v08_shared_tiles", "v17_double_buffer", "v21_three_stages"])
def test_the_measured_time_is_within_the_band(ladder: Ladder, rung: str) -> None:
    f = json.loads(ladder("predict", rung, "--json").stdout)
    assert all(f["band"]["low_ms"] <= t["median_ms"] <= f["band"]["high_ms"] for t in f["measured"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "v99_none"], "there is no variant 'v99_none'"),
        (["predict", "v46_graph_loop"], "v46_graph_loop has no lesson to predict from"),
        (["predict", "v05_soa", "--device", "voodoo2"], "'voodoo2' is no known GPU: take one of t4, a100"),
        (["predict", "v05_soa", "--workload", "wine*"], "is 7 workloads: name one"),
        (["predict", "v10_points_per_thread", "--axis", "tile=4"], "v10_points_per_thread has no axis 'tile'"),
        (["predict", "v10_points_per_thread", "--axis", "points"], "--axis is NAME=VALUE"),
    ],
)
def test_what_cannot_be_told_is_said_in_a_sentence(ladder: Ladder, words: list[str], said: str) -> None:
    done = ladder(*words)
    assert done.returncode == 2 and done.stdout == "" and said in done.stderr and done.stderr.count("\n") == 1
