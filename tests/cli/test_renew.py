"""results/make_record.py --stale and --renew: a later commit measures what changed, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import LADDER, ROOT
from fake_build import FakeBuild, doing

from plots.lib import schema
from plots.lib.inputs import InputError

sys.path.insert(0, str(ROOT / "results"))
import make_record

PLAN = """\
run = "--scopes assign,update --min-time 0 --max-time 0.05"
[[part]]
workloads = "grapes,plums"
variants = "x*"
together = 1
seconds = 4
"""
LATER = "1" * 40


@pytest.fixture
def fake(tmp_path: Path) -> FakeBuild:
    fake = FakeBuild(tmp_path)
    fake.add("x1", source_hash="one")
    fake.add("x2", source_hash="two")
    (tmp_path / "plan.toml").write_text(PLAN)
    fake("list")  # writes what the workers are asked for
    return fake


def make(fake: FakeBuild, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "results/make_record.py"
    command = [sys.executable, str(script), str(fake.folder / "plan.toml"), "--build", str(fake.build), "--out"]
    command += [str(fake.out), "--parts", str(fake.folder / "parts"), *words]
    env = {**os.environ, **fake.environment, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, timeout=120, check=False)


def rows(fake: FakeBuild) -> list[dict[str, Any]]:
    document = json.loads(fake.out.read_text())
    assert schema.violations(document) == []
    return document["rows"]


def stale(fake: FakeBuild, *words: str) -> list[str]:
    done = make(fake, "--stale", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_rows_say_of_which_text_they_are(fake: FakeBuild) -> None:
    found = fake.run("--device", "cuda", "--scopes", "assign")["rows"]
    assert {(row["variant"], row["source_hash"]) for row in found} == {("x1", "one"), ("x2", "two")}
    fake.add("x3")  # of a build that does not know
    assert fake.run("--device", "cuda", "--scopes", "assign", "--variants", "x3")["rows"][-1]["source_hash"] == ""


def test_the_build_hashes_what_it_compiles() -> None:
    done = subprocess.run([LADDER, "list", "--json", "--texts"], capture_output=True, text=True, cwd=ROOT, check=True)
    built = [v for v in json.loads(done.stdout)["variants"] if v["devices"]]
    assert built
    assert [v["id"] for v in built if v["text_hash"] and set(v["source_hash"].values()) != {v["text_hash"]}] == []
    assert len({v["text_hash"] for v in built}) == len(built)


def test_rows_of_a_library_say_of_which_text_of_its_file_they_are(tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    words = ["--device", "cpu", "--variants", "p_scipy", "--workloads", "blobs30_tiny", "--scopes", "solve"]
    subprocess.run([LADDER, "run", *words, "--min-time", "0", "--max-time", "0.05", "--out", out], cwd=ROOT, check=True)
    done = subprocess.run([LADDER, "list", "--json", "--texts"], capture_output=True, text=True, cwd=ROOT, check=True)
    now = next(v["text_hash"] for v in json.loads(done.stdout)["variants"] if v["id"] == "p_scipy")
    found = json.loads(out.read_text())["rows"]
    assert now and found and {row["source_hash"] for row in found} == {now}


def test_without_a_record_everything_is_lacking(fake: FakeBuild) -> None:
    assert stale(fake) == [
        "grapes, not in the record: x1, x2",
        "plums, not in the record: x1, x2",
        "4 to measure: 4 not in the record, 0 stale, 0 of an unknown text; about 16 s",
    ]
    assert not fake.out.exists() and fake.asked() == []


def test_only_what_changed_is_measured_anew(fake: FakeBuild) -> None:
    assert make(fake).returncode == 0
    assert stale(fake) == ["the record is up to date with the plan"]
    before = rows(fake)
    document = json.loads(fake.out.read_text())
    for row in document["rows"]:
        if (row["variant"], row["workload"]) == ("x1", "plums"):
            del row["source_hash"]  # as an older record has it
    fake.out.write_text(json.dumps(document))
    fake.add("x2", module="second", source_hash="new", idea="another idea")
    assert stale(fake) == [
        "grapes, stale: x2",
        "plums, stale: x2",
        "plums, of an unknown text: x1",
        "3 to measure: 0 not in the record, 2 stale, 1 of an unknown text; about 12 s",
    ]
    assert stale(fake, "--only", "grapes")[-1].startswith("1 to measure: 0 not in the record, 1 stale")

    (fake.folder / "asked").unlink()
    done = make(fake, "--renew", LADDER_GIT_SHA=LATER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(request["variant"] for request in fake.asked()) == ["x1", "x2", "x2"]
    assert stale(fake) == ["the record is up to date with the plan"]
    after = rows(fake)
    assert len(after) == len(before)
    kept = [row for row in after if row.get("git_sha")]
    assert {(row["variant"], row["workload"], row["git_sha"]) for row in kept} == {("x1", "grapes", "0" * 40)}
    assert json.loads(fake.out.read_text())["context"]["git_sha"] == LATER
    assert {row["source_hash"] for row in after if row["variant"] == "x2"} == {"new"}
    assert schema.load(fake.out).git == "git 1111111111, git 0000000000"

    (fake.folder / "asked").unlink()
    done = make(fake, "--renew", LADDER_GIT_SHA=LATER)
    assert done.returncode == 0 and done.stdout == "the record is up to date with the plan\n" and not fake.asked()


def test_a_scope_that_the_record_lacks_is_measured(fake: FakeBuild) -> None:
    assert make(fake).returncode == 0
    document = json.loads(fake.out.read_text())
    place = ("x1", "plums", "update")
    document["rows"] = [r for r in document["rows"] if (r["variant"], r["workload"], r["scope"]) != place]
    fake.out.write_text(json.dumps(document))
    assert stale(fake) == [
        "plums, not in the record: x1",
        "1 to measure: 1 not in the record, 0 stale, 0 of an unknown text; about 2 s",
    ]
    (fake.folder / "asked").unlink()
    assert make(fake, "--renew", LADDER_GIT_SHA=LATER).returncode == 0
    assert [(request["variant"], request["scopes"]) for request in fake.asked()] == [("x1", ["update"])]
    assert stale(fake) == ["the record is up to date with the plan"]


def test_a_record_that_was_interrupted_is_complete_once_nothing_is_lacking(fake: FakeBuild) -> None:
    sound = fake.plan["sessions"]["x1"]
    fake.plan["sessions"]["x1"] = [doing("assign"), {"signal": signal.SIGSEGV}]
    fake("list")
    assert make(fake).returncode == 1
    document = json.loads(fake.out.read_text())
    document["context"]["complete"] = False
    for row in document["rows"]:
        if row["status"] == "failed":
            row["reason"] = "interrupted (Ctrl-C) in assign"
    fake.out.write_text(json.dumps(document))
    fake.plan["sessions"]["x1"] = sound
    fake("list")
    assert stale(fake)[:2] == ["grapes, not in the record: x1", "plums, not in the record: x1"]
    assert make(fake, "--renew", "--only", "plums", LADDER_GIT_SHA=LATER).returncode == 0
    assert not json.loads(fake.out.read_text())["context"]["complete"], "grapes has one that was cut off"
    assert make(fake, "--renew", LADDER_GIT_SHA="2" * 40).returncode == 0
    assert json.loads(fake.out.read_text())["context"]["complete"]
    assert {row["status"] for row in rows(fake)} == {"ok"}


def test_what_needs_the_hosts_cores_waits_for_the_gpus(fake: FakeBuild) -> None:
    fake.add("x3", "cpu")
    for name in ("x1", "x2"):
        fake.plan["sessions"][name] = [{"sleep": 0.3}, *fake.plan["sessions"][name]]
    fake("list")
    plan = fake.folder / "plan.toml"
    cpu = '[[part]]\nworkloads = "grapes,plums"\nvariants = "x3"\ndevice = "cpu"\n'
    plan.write_text(PLAN.replace("[[part]]", cpu + "[[part]]", 1))
    done = make(fake)
    assert done.returncode == 0, done.stdout + done.stderr
    order = [request["variant"] for request in fake.asked()]
    assert sorted(order[:-2]) == ["x1", "x1", "x2", "x2"] and order[-2:] == ["x3", "x3"]


def test_a_change_of_one_workload_keeps_the_old_rows_of_the_others(fake: FakeBuild) -> None:
    assert make(fake).returncode == 0
    fake.add("x2", module="second", source_hash="new", idea="another idea")
    assert make(fake, "--renew", "--only", "plums", LADDER_GIT_SHA=LATER).returncode == 0
    found = {(row["variant"], row["workload"]): row for row in rows(fake)}
    assert found["x2", "grapes"]["source_hash"] == "two" and found["x2", "plums"]["source_hash"] == "new"
    assert found["x2", "grapes"]["idea"] == "another idea"
    assert stale(fake)[0] == "grapes, stale: x2"


def test_what_cannot_be_renewed_is_said_before_anything_is_measured(fake: FakeBuild) -> None:
    assert make(fake).returncode == 0
    fake.add("x2", source_hash="new")
    (fake.folder / "asked").unlink()
    document = json.loads(fake.out.read_text())
    document["context"]["git_dirty"] = True
    fake.out.write_text(json.dumps(document))
    done = make(fake, "--renew", LADDER_GIT_SHA=LATER)
    assert done.returncode == 2 and "uncommitted changes: make it anew, without --renew" in done.stderr
    fake.out.write_text("{}")
    done = make(fake, "--renew", LADDER_GIT_SHA=LATER)
    assert done.returncode == 2 and "is no record: python -m plots.check" in done.stderr
    assert fake.asked() == [] and fake.out.read_text() == "{}"


def test_a_build_that_lacks_what_the_plan_is_for_is_no_answer(fake: FakeBuild) -> None:
    (fake.build / "variants/cuda/x2.so").unlink()
    assert stale(fake)[0] == "not built here, and so left out: x2"
    plan = fake.folder / "plan.toml"
    plan.write_text(plan.read_text() + 'device = "cpu"\n')
    done = make(fake, "--stale")
    assert done.returncode == 2 and done.stderr.startswith(
        "error: nothing here is built for cpu, which the plan is for"
    )


def test_a_build_older_than_the_text_is_not_measured() -> None:
    listed = {"variants": [{"id": "a", "devices": ["cuda"], "source_hash": {"cuda": "old"}, "text_hash": "new"}]}
    job = make_record.Job("w", "a", "cuda", [])
    record = {"rows": [{"workload": "w", "variant": "a", "device": "cuda", "source_hash": "old"}]}
    assert make_record.out_of_date([job], listed, record) == [(job, [make_record.Lack("w", "a", make_record.STALE)])]
    with pytest.raises(InputError, match=r"built from another text than that of now: a; \./run_all\.sh build"):
        make_record.built_from_todays_text([job], listed)


def test_rows_of_a_later_commit_are_joined_by_renewal_alone(fake: FakeBuild) -> None:
    fake.run("--device", "cuda", "--scopes", "assign")
    later = fake.folder / "later.json"
    words = ("--device", "cuda", "--scopes", "assign", "--workloads", "grapes", "--out", later)
    assert fake("run", *words, LADDER_GIT_SHA=LATER).returncode == 0
    done = fake("join", fake.out, fake.out, later)
    assert done.returncode == 2 and "git_sha" in done.stderr
    document = json.loads(later.read_text())
    document["context"]["gpu"]["numa_node"] = None  # older records lack it
    later.write_text(json.dumps(document))
    assert fake("join", "--renew", fake.out, fake.out, later).returncode == 0
    assert [row.get("git_sha") for row in rows(fake)] == [None, None]
    document = json.loads(later.read_text())
    document["context"]["host"]["cpu"] = "another"
    later.write_text(json.dumps(document))
    done = fake("join", "--renew", fake.out, fake.out, later)
    assert done.returncode == 2 and "another host" in done.stderr


def test_rows_of_a_host_with_other_cores_say_so(fake: FakeBuild) -> None:
    fake.run("--device", "cuda", "--scopes", "assign,end_to_end")
    here = json.loads(fake.out.read_text())["context"]["host"]["cores"]
    later = fake.folder / "later.json"

    def on_another_host(*words: str | Path) -> None:
        done = fake("run", "--device", "cuda", "--workloads", "grapes", *words, "--out", later, LADDER_GIT_SHA=LATER)
        assert done.returncode == 0, done.stderr
        document = json.loads(later.read_text())
        document["context"]["host"]["cores"] = here + 1
        document["context"]["ceilings"]["cuda"]["pageable_h2d_gbs"] = 17.0
        later.write_text(json.dumps(document))

    on_another_host("--scopes", "assign", "--variants", "x1")
    done = fake("join", fake.out, later, fake.out)
    assert done.returncode == 2 and "another git_sha" in done.stderr
    assert fake("join", "--renew", fake.out, fake.out, later).returncode == 0
    context = json.loads(fake.out.read_text())["context"]
    assert context["host"]["cores"] == here + 1 and context["ceilings"]["cuda"]["pageable_h2d_gbs"] == 17.0
    cores = {(row["variant"], row["scope"]): row.get("host_cores") for row in rows(fake)}
    assert cores == {
        ("x1", "assign"): None,
        ("x1", "end_to_end"): here,
        ("x2", "assign"): here,
        ("x2", "end_to_end"): here,
    }
    assert schema.violations(json.loads(fake.out.read_text())) == []

    on_another_host("--scopes", "end_to_end", "--variants", "x1")
    assert fake("join", "--renew", fake.out, fake.out, later).returncode == 0
    (said,) = schema.violations(json.loads(fake.out.read_text()))
    assert said.startswith(f"grapes cuda end_to_end: measured on hosts of {here} and of {here + 1} cores")

    on_another_host("--scopes", "end_to_end")
    assert fake("join", "--renew", fake.out, fake.out, later).returncode == 0
    assert schema.violations(json.loads(fake.out.read_text())) == []


@pytest.mark.parametrize(("text", "scopes"), [("one", ["assign", "update"]), ("new", ["assign"])])
def test_rows_of_another_text_go_even_where_they_were_not_measured_again(
    fake: FakeBuild, text: str, scopes: list[str]
) -> None:
    words = ("--device", "cuda", "--variants", "x1", "--workloads", "grapes")
    fake.run(*words, "--scopes", "assign,update")
    fake.add("x1", module="second", source_hash=text)
    later = fake.folder / "later.json"
    assert fake("run", *words, "--scopes", "assign", "--out", later, LADDER_GIT_SHA=LATER).returncode == 0
    assert fake("join", "--renew", fake.out, fake.out, later).returncode == 0
    assert sorted(row["scope"] for row in rows(fake)) == scopes
