"""results/make_record.py: from a plan to one record."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, Ladder
from fake_build import wait_for

sys.path.insert(0, str(ROOT / "results"))
import make_record

from plots.lib import plans, schema
from plots.lib.inputs import InputError

LISTED = {
    "variants": [
        {"id": "a_one", "devices": ["cuda", "simt"]},
        {"id": "b_two", "devices": ["cuda"]},
        {"id": "c_cpu", "devices": ["cpu"]},
    ],
    "workloads": [
        {"name": "small", "available": True, "reason": "", "n": 1000, "d": 20, "k": 10},
        {"name": "smaller", "available": True, "reason": "", "n": 100, "d": 20, "k": 10},
        {"name": "lost", "available": False, "reason": "no file", "n": 100, "d": 2, "k": 10},
    ],
}


def planned(*parts: dict) -> tuple[list[tuple[str, str, str]], list[str]]:
    found, left_out = make_record.jobs({"run": "--min-time 1", "part": list(parts)}, LISTED)
    return [(job.device, job.workload, job.variants) for job in found], left_out


def test_parts_in_their_order_and_nothing_twice() -> None:
    first = {"workloads": "smaller", "variants": "b*"}
    found, left_out = planned(first, {"workloads": "small*", "variants": "*", "together": 1})
    assert found == [
        ("cuda", "smaller", "b_two"),
        ("cuda", "small", "a_one"),
        ("cuda", "small", "b_two"),
        ("cuda", "smaller", "a_one"),
    ]
    assert left_out == []


def test_a_parts_option_takes_the_place_of_the_plans() -> None:
    part = {"workloads": "small", "variants": "a*", "options": "--no-keep --min-time 2"}
    found, _ = make_record.jobs({"run": "--min-time 1 --gpu 3", "part": [part]}, LISTED)
    assert found[0].options == ["--gpu", "3", "--no-keep", "--min-time", "2"]


def test_what_cannot_run_is_named() -> None:
    found, left_out = planned({"workloads": "lost,small,gone*", "variants": "c*", "device": "cpu"})
    assert found == [("cpu", "small", "c_cpu")]
    assert left_out == [
        "'gone*' of the plan fits no workload here: `ladder list` shows what there is",
        "lost is left out: no file",
    ]


def test_what_is_only_for_the_cpu_can_have_a_gpus_turn() -> None:
    found, _ = planned({"workloads": "small", "variants": "b*,c*", "device": "auto"})
    assert found == [("auto", "small", "b_two,c_cpu")]


def test_a_build_without_nvcc_knows_what_a_gpu_would_run() -> None:
    listed = LISTED | {"variants": [{"id": "a_rung", "devices": ["simt"]}, {"id": "c_cpu", "devices": ["cpu"]}]}
    plan = {"part": [{"workloads": "small", "variants": "*"}]}
    for unbuilt, names in ((False, []), (True, ["a_rung"])):
        assert [job.variants for job in make_record.jobs(plan, listed, unbuilt)[0]] == names


def test_every_option_of_a_part_is_one() -> None:
    with pytest.raises(InputError, match="'varints'"):
        plans.checked(Path("p.toml"), {"part": [{"workloads": "*", "variants": "*", "varints": "*"}]})


def test_a_part_may_be_for_some_sizes_alone() -> None:
    every = {"workloads": "small*", "variants": "a*"}
    assert planned(every | {"least": {"nd": 2001}})[0] == [("cuda", "small", "a_one")]
    assert planned(every | {"most": {"n": 100, "nkd": 20_000}})[0] == [("cuda", "smaller", "a_one")]
    assert planned(every | {"least": {"d": 21}})[0] == []
    with pytest.raises(InputError, match="limits 'depth'"):
        plans.checked(Path("p.toml"), {"part": [every | {"most": {"depth": 3}}]})


def test_workloads_with_the_same_variants_are_batched() -> None:
    part = {"workloads": "small*", "variants": "*", "batch": 10, "together": 1}
    assert planned(part)[0] == [("cuda", "small,smaller", "a_one"), ("cuda", "small,smaller", "b_two")]
    found, _ = planned({"workloads": "small", "variants": "a*"}, part)
    assert found == [
        ("cuda", "small", "a_one"),
        ("cuda", "small", "b_two"),
        ("cuda", "smaller", "a_one"),
        ("cuda", "smaller", "b_two"),
    ]


def test_a_library_is_measured_on_each_device_that_a_part_is_for() -> None:
    listed = LISTED | {"variants": [{"id": "d_both", "devices": ["cpu", "cuda"]}, {"id": "c_cpu", "devices": ["cpu"]}]}
    parts = [{"workloads": "small", "variants": "*", "device": device} for device in ("cuda", "cpu", "auto")]
    found, _ = make_record.jobs({"part": parts}, listed)
    assert [(job.device, job.variants) for job in found] == [("cuda", "d_both"), ("cpu", "d_both,c_cpu")]
    assert len({job.name for job in found}) == 2


def test_comparisons_are_pieces_of_their_own() -> None:
    part = {"workloads": "small", "variants": "a*"}
    found, _ = make_record.jobs({"part": [part, part | {"options": "--compare base"}, part]}, LISTED)
    assert [job.compares for job in found] == [False, True]
    assert len({job.name for job in found}) == 2


def test_pieces_with_long_names_have_files_of_their_own() -> None:
    names = [f"workload_{i}" for i in range(30)]
    jobs = [make_record.Job(",".join([*names, end]), "v", "cuda", []) for end in ("a", "b")]
    assert len({job.name for job in jobs}) == 2 and max(len(job.name) for job in jobs) <= 150


PLANS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("results/*/*.toml"))


@pytest.mark.parametrize("plan", PLANS)
def test_the_committed_plans_name_what_there_is(plan: str) -> None:
    done = run(ROOT / plan, "--list")
    assert done.returncode == 0, done.stderr
    assert "no workload" not in done.stdout


@pytest.mark.parametrize("plan", PLANS)
def test_a_run_takes_the_options_of_the_committed_plans(ladder: Ladder, plan: str) -> None:
    """Each reaches the choice of variants, which comes after its options are read."""
    document = plans.read(ROOT / plan)
    words = [make_record.options_of(document.get("run", ""), part.get("options", "")) for part in document["part"]]
    for options in {tuple(each) for each in words}:
        done = ladder("run", *options, "--variants", "nobody", "--workloads", "kmcuda_tiny", "--device", "cpu")
        assert done.returncode == 2 and "nobody" in done.stderr, (options, done.stderr)


def test_workloads_of_the_goals_alone_are_in_no_other_plan() -> None:
    names = [w["name"] for w in json.loads((ROOT / "datasets/workloads.json").read_text())["workloads"]]
    goals = json.loads((ROOT / "docs/goals.json").read_text())["goals"]
    compared = {name for goal in goals if "beside" in goal for name in (goal["workload"], goal["beside"])}
    met: dict[str, list[str]] = {}
    for path in ROOT.glob("results/*/*.toml"):
        globs = ",".join(part["workloads"] for part in tomllib.loads(path.read_text())["part"])
        met[path.name] = make_record.matching(names, globs)
    planned = set(met.pop("goals.toml"))
    assert compared <= planned, "both of a ratio are measured in one run"
    alone = planned - compared
    assert len(alone) == 3 and not [name for found in met.values() for name in found if name in alone]


def test_a_plan_becomes_one_record(ladder: Ladder, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'run = "--min-time 0 --max-time 0.05 --scopes assign"\n'
        '[[part]]\nworkloads = "kmcuda_tiny,points2d_tiny"\nvariants = "c0*"\ndevice = "cpu"\n'
    )
    words = [plan, "--parts", tmp_path / "parts", "--out", tmp_path / "all.json"]
    done = run(*words, "--budget", "0")
    assert done.returncode != 0 and "not begun within 0 s: kmcuda_tiny c0_serial" in done.stdout
    done = run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "all.json").read_text())["rows"]
    assert {(row["workload"], row["status"]) for row in rows} == {("kmcuda_tiny", "ok"), ("points2d_tiny", "ok")}
    done = run(plan, "--parts", tmp_path / "parts", "--out", tmp_path / "one.json", "--only", "kmcuda_tiny")
    assert done.returncode == 0, "one piece is a record, too: " + done.stdout + done.stderr
    assert json.loads((tmp_path / "one.json").read_text())["rows"] == [
        r for r in rows if r["workload"] == "kmcuda_tiny"
    ]


@pytest.mark.parametrize("by", ["budget", "SIGTERM"])
def test_what_lasts_too_long_is_interrupted_and_the_rest_is_kept(ladder: Ladder, tmp_path: Path, by: str) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "all.json"
    parts = "".join(
        f'[[part]]\nworkloads = "{name}"\nvariants = "c0*"\ndevice = "cpu"\n'
        for name in ("points2d_tiny", "kmcuda_tiny", "wine_tiny")
    )
    plan.write_text('run = "--scopes assign --min-time 0 --max-time 0.05"\n' + parts)
    slow = tmp_path / "ladder"  # as the real one, but for a minute's run that ends as Ctrl-C has it
    slow.write_text(
        '#!/bin/sh\ncase "$*" in\n"run "*kmcuda_tiny*) trap "kill \\$!; exit 130" INT; sleep 60 & wait ;;\n'
        f'*) exec {BUILD / "ladder"} "$@" ;;\nesac\n'
    )
    slow.chmod(0o755)
    words = [sys.executable, ROOT / "results/make_record.py", plan, "--build", tmp_path, "--parts", tmp_path]
    log = tmp_path / "log"
    with log.open("w") as to:
        made = subprocess.Popen(
            [*words, "--out", out, "--budget", "4" if by == "budget" else "300"], stdout=to, stderr=to
        )
        if by == "SIGTERM":
            wait_for(lambda: "[1/3" in log.read_text() and list(tmp_path.glob("kmcuda-tiny*.log")))
            made.terminate()
        status = made.wait(timeout=60)
    said = log.read_text()
    assert status == (0 if by == "budget" else 130), said
    assert "not begun" in said and "wine_tiny c0_serial" in said
    assert "interrupted after" in said and "kmcuda_tiny c0_serial" in said
    rows = json.loads(out.read_text())["rows"]
    assert [(row["workload"], row["status"]) for row in rows][:1] == [("points2d_tiny", "ok")]


def test_a_plan_of_comparisons_becomes_one_record(ladder: Ladder, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'run = "--min-time 0 --max-time 0.05"\n[[part]]\nworkloads = "kmcuda_tiny"\nvariants = "c1_*,c1b*"\n'
        'together = 1\noptions = "--compare base"\ndevice = "cpu"\n'
    )
    words = [plan, "--parts", tmp_path / "parts", "--out", tmp_path / "all.json"]
    done = run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    first = json.loads((tmp_path / "all.json").read_text())
    assert schema.violations(first) == []
    found = [(c["base"], c["candidate"], c["base_sessions"], c["method"]) for c in first["comparisons"]]
    assert sorted(found) == [("c0_serial", "c1_fused", 5, "interleaved"), ("c1_fused", "c1b_vectors", 5, "interleaved")]
    assert len(first["rows"]) == 20, "c1_fused has five sessions with each of its two neighbours"

    only = tmp_path / "only.json"  # where c1_fused is there as the base of another alone
    later = [row for row in first["rows"] if row["turns"]["variants"] == ["c1_fused", "c1b_vectors"]]
    only.write_text(json.dumps(first | {"rows": later}))
    said = run(plan, "--stale", "--out", only).stdout
    assert len(later) == 10 and "kmcuda_tiny, not in the record: c1_fused\n" in said and "1 to measure" in said, said
    assert "up to date" in run(plan, "--stale", "--out", tmp_path / "all.json").stdout
    for row in later:
        row["source_hash"] = "0" * 16 if row["variant"] == "c1_fused" else row["source_hash"]
    only.write_text(json.dumps(first | {"rows": later}))
    said = run(plan, "--stale", "--out", only).stdout
    assert "kmcuda_tiny, stale: c1b_vectors\n" in said, "its base has another text by now"

    (piece,) = (tmp_path / "parts").glob("*c1b*.json")
    piece.write_text(json.dumps(json.loads(piece.read_text()) | {"context": half_done(piece)}))
    done = run(*words)
    assert done.returncode == 0 and "[1/1" in done.stdout, "only the piece that was not complete is made anew"
    second = json.loads((tmp_path / "all.json").read_text())
    assert len(second["rows"]) == 20
    c1 = [next(c for c in record["comparisons"] if c["candidate"] == "c1_fused") for record in (first, second)]
    assert c1[0] == c1[1]


def half_done(piece: Path) -> dict:
    return json.loads(piece.read_text())["context"] | {"complete": False}


def test_a_part_for_any_device_is_run_by_a_lane_of_the_gpus(ladder: Ladder, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'run = "--min-time 0 --max-time 0.05 --scopes assign"\n'
        '[[part]]\nworkloads = "kmcuda_tiny,points2d_tiny"\nvariants = "c0*"\ndevice = "auto"\n'
    )
    done = run(plan, "--parts", tmp_path / "parts", "--out", tmp_path / "all.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "auto 0: kmcuda_tiny c0_serial" in done.stdout
    rows = json.loads((tmp_path / "all.json").read_text())["rows"]
    assert {(row["device"], row["status"]) for row in rows} == {("cpu", "ok")}


def test_without_a_build_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path / "plan.toml", "--list", "--build", tmp_path)
    assert done.returncode == 2 and "is not there: ./run_all.sh build makes it" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "results/make_record.py"), "--build", str(BUILD), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
