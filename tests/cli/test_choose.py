"""The choice of a variant for a shape: `ladder choose`, and `ladder run --variants auto`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema_rs
import numpy as np
import pytest
import sample_record
from conftest import QUICK, ROOT, Ladder
from fake_build import one_sentence

SCHEMA = ROOT / "harness" / "records" / "choice.schema.json"


def entry(n: int, k: int, ms: dict[str, float], **more: object) -> dict:
    base = {"device": "cpu", "machine": "here", "workload": f"n{n}_k{k}", "type": "f32", "n": n, "d": 8, "k": k}
    return base | {"filled": 100, "ms": ms} | more


def table(folder: Path, *entries: dict) -> Path:
    path = folder / "choice.json"
    path.write_text(json.dumps({"schema_version": 1, "entries": entries}))
    return path


@pytest.fixture
def crossing(tmp_path: Path) -> Path:
    """c0_serial is faster on few points, c1_fused on many; c2_threads takes no more than ten clusters."""
    few, many = {"c0_serial": 1, "c1_fused": 2}, {"c0_serial": 20, "c1_fused": 10}
    return table(
        tmp_path, entry(1000, 10, few | {"c2_threads": 0.5}), entry(1000, 1000, few), entry(1000000, 1000, many)
    )


def ranked(ladder: Ladder, *words: str | Path) -> list[str]:
    done = ladder("choose", "--device", "cpu", *words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n\n")[1].splitlines()
    return [line.split()[0] for line in lines]


def test_the_nearest_shapes_decide(ladder: Ladder, crossing: Path) -> None:
    assert ranked(ladder, "2000,8,900", "--table", crossing)[0] == "c0_serial"
    assert ranked(ladder, "600000,8,900", "--table", crossing)[0] == "c1_fused"
    assert ranked(ladder, "1500,8,12", "--table", crossing)[0] == "c2_threads"


def test_what_has_no_time_near_by_is_left_out(ladder: Ladder, crossing: Path) -> None:
    assert "c2_threads" not in ranked(ladder, "1000,8,1000", "--table", crossing)


def test_a_machine_of_the_table_is_chosen_by_its_own_times(ladder: Ladder, tmp_path: Path) -> None:
    path = table(
        tmp_path,
        entry(1000, 10, {"c0_serial": 1, "c1_fused": 2}),
        entry(1000, 10, {"c0_serial": 2, "c1_fused": 1}, machine="there"),
    )
    assert ranked(ladder, "1000,8,10", "--table", path, "--machine", "here") == ["c0_serial", "c1_fused"]
    assert ranked(ladder, "1000,8,10", "--table", path, "--machine", "there") == ["c1_fused", "c0_serial"]
    done = ladder("choose", "--device", "cpu", "1000,8,10", "--table", path, "--machine", "elsewhere")
    assert "measured on another machine" in done.stdout


def test_a_shape_is_judged_by_the_others(ladder: Ladder, crossing: Path) -> None:
    done = ladder("choose", "--table", crossing, "--judge", crossing, "--tries", "1")
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "fastest: c1_fused" in lines["n1000000_k1000"], "its own times would have chosen c1_fused"
    assert "2.00" in lines["n1000000_k1000"]
    assert "within 10 % of the fastest on 1 of 3 shapes" in done.stdout
    assert "missed, the worst first: n1000_k10 (2.00), n1000000_k1000 (2.00)" in done.stdout
    done = ladder("choose", "--table", crossing, "--judge", crossing)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("n1000_k1000 "))
    assert "no time here: c2_threads" in line, "it would be tried next"


def test_the_fastest_of_several_that_are_tried_counts(ladder: Ladder, crossing: Path) -> None:
    done = ladder("choose", "--table", crossing, "--judge", crossing, "--tries", "2")
    assert "within 10 % of the fastest on 2 of 3 shapes" in done.stdout
    assert "missed, the worst first: n1000_k10 (2.00)" in done.stdout, "elsewhere c2_threads has no time"


def test_some_shapes_alone_are_judged_or_become_the_table(ladder: Ladder, crossing: Path, tmp_path: Path) -> None:
    done = ladder("choose", "--table", crossing, "--judge", crossing, "--workloads", "n1000_*")
    assert "of 2 shapes" in done.stdout and "n1000000_k1000" not in done.stdout
    done = ladder("choose", "--table", crossing, "--judge", crossing, "--workloads", "absent")
    assert done.returncode == 2 and "no measured shape matches 'absent'" in done.stderr
    path = sample_record.write(sample_record.make(), tmp_path / "record.json")
    done = ladder("choose", "--make", path, "--table", tmp_path / "t.json", "--workloads", "grapes_*,embedding")
    assert done.returncode == 0, done.stderr
    made = {entry["workload"] for entry in json.loads((tmp_path / "t.json").read_text())["entries"]}
    assert made and not any(name.startswith("cloud") for name in made)


def test_a_table_is_made_from_records(ladder: Ladder, tmp_path: Path) -> None:
    out = tmp_path / "choice.json"
    document = sample_record.make()
    path = sample_record.write(document, tmp_path / "record.json")
    done = ladder("choose", "--make", path, "--table", out)
    assert done.returncode == 0, done.stderr
    made = json.loads(out.read_text())
    assert jsonschema_rs.validator_for(json.loads(SCHEMA.read_text())).is_valid(made)
    right = [row for row in document["rows"] if row["scope"] == "solve" and row["status"] in ("ok", "unstable")]
    times = {(e["workload"], e["device"], v): ms for e in made["entries"] for v, ms in e["ms"].items()}
    wanted = {(r["workload"], r["device"], r["variant"]) for r in right if r["device"] != "simt"}
    assert wanted and set(times) == wanted
    for row in right:
        if row["device"] != "simt" and row["per_iteration_ms"]:
            assert times[row["workload"], row["device"], row["variant"]] == pytest.approx(row["per_iteration_ms"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name a shape"),
        (["1,2"], "is not N,D,K"),
        (["0,2,3"], "is not N,D,K"),
        (["10,x,3"], "is not N,D,K"),
        (["10,2,3", "--table", "absent.json"], "is not there"),
    ],
)
def test_what_cannot_be_read_is_said(ladder: Ladder, words: list[str], says: str) -> None:
    done = ladder("choose", *words)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 7, "entries": []}', '{"schema_version": 1}'])
def test_another_file_is_no_table(ladder: Ladder, tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    done = ladder("choose", "10,2,3", "--table", tmp_path / "t.json")
    one_sentence(done, f"ladder: {tmp_path / 't.json'}")


def test_times_that_cannot_be_are_refused(ladder: Ladder, tmp_path: Path) -> None:
    done = ladder("choose", "10,2,3", "--table", table(tmp_path, entry(10, 2, {"c0_serial": 0})))
    one_sentence(done, "field entries[0].ms.c0_serial: 0, where more than 0 is needed")


def automatic(ladder: Ladder, folder: Path, *words: str | Path, status: int = 0) -> tuple[dict, str]:
    """A run that chooses by folder/results/choice.json; its record and what it said."""
    out = folder / "record.json"
    env = os.environ | {"LADDER_SOURCE": str(folder), "LADDER_WORKLOADS_FILE": str(ROOT / "datasets/workloads.json")}
    done = ladder("run", "--variants", "auto", "--device", "cpu", *words, *QUICK, "--out", out, env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(out.read_text()) if out.exists() else {}, done.stderr


def test_a_run_takes_the_choice_of_each_workload_and_says_why(ladder: Ladder, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    table(
        tmp_path / "results",
        entry(100, 2, {"c0_serial": 1, "c1_fused": 2}),
        entry(4000, 64, {"c0_serial": 2, "c1_fused": 1}),
    )
    for n, k, best in ((120, 2, "c0_serial"), (3000, 60, "c1_fused")):
        points = tmp_path / f"points{n}.npy"
        np.save(points, np.random.default_rng(1).normal(size=(n, 8)).astype(np.float32))
        words = ["--data", points, "--k", str(k), "--scopes", "solve"]
        record, said = automatic(ladder, tmp_path, *words, "--tries", "1")
        assert [row["variant"] for row in record["rows"]] == [best]
        assert f"auto: {best} for {n:,} x 8, K = {k}, f32" in said
        (tmp_path / "record.json").unlink()


def test_several_may_be_tried(ladder: Ladder, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    table(tmp_path / "results", entry(100, 2, {"c0_serial": 1, "c1_fused": 2, "c2_threads": 3}))
    words = ["--workloads", "points2d_tiny", "--scopes", "solve"]
    record, said = automatic(ladder, tmp_path, *words, "--tries", "2")
    assert [row["variant"] for row in record["rows"]] == ["c0_serial", "c1_fused"]
    assert "auto: c0_serial for 1,500 x 2" in said and "auto: c1_fused, tried on 1,500 x 2" in said


def test_where_the_choice_refuses_the_next_is_taken(ladder: Ladder, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    table(tmp_path / "results", entry(100, 2, {"c0_serial": 1, "c1_fused": 2}))
    points = tmp_path / "points.npy"
    np.save(points, np.random.default_rng(1).normal(size=(140000, 8)).astype(np.float32))
    words = ["--data", points, "--k", "5000", "--scopes", "solve", "--time-limit", "4"]
    record, said = automatic(ladder, tmp_path, *words, status=2)  # both would take too long
    assert [(row["variant"], row["status"]) for row in record["rows"]] == [
        ("c0_serial", "refused"),
        ("c1_fused", "refused"),
    ]
    assert "c1_fused, as those before it refuse 140,000 x 8" in said


def test_without_times_for_the_device_a_run_says_so(ladder: Ladder, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    table(tmp_path / "results", entry(100, 2, {"c0_serial": 1}, device="cuda"))
    _, said = automatic(ladder, tmp_path, "--workloads", "kmcuda_tiny", status=2)
    assert "has no times for the device cpu" in said


def test_a_time_grows_with_the_shape(ladder: Ladder, tmp_path: Path) -> None:
    """Two planes cross between the measured shapes and beyond them: the nearest shape alone would choose otherwise."""
    times = [(n, n / 1000, 2 + n / 4000) for n in (1000, 2000, 4000, 8000)]
    path = table(tmp_path, *(entry(n, 10, {"c0_serial": a, "c1_fused": b}) for n, a, b in times))
    assert ranked(ladder, "1000,8,10", "--table", path)[0] == "c0_serial"
    assert ranked(ladder, "64000,8,10", "--table", path)[0] == "c1_fused"
    done = ladder("choose", "--device", "cpu", "4000000,8,10", "--table", path)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("c0_serial "))
    assert 1000 < float(line.split()[1]) < 16000, "as N grows, within a factor of four"


def test_the_committed_table_is_right_on_shapes_that_it_does_not_hold(ladder: Ladder) -> None:
    records = [ROOT / "results" / "nvidia-h200" / name for name in ("map.json", "map_rest.json")]
    done = ladder("choose", "--workloads", "hold_*", "--judge", *records)
    assert "within 10 % of the fastest on 40 of 40 shapes" in done.stdout, done.stdout
