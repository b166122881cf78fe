"""`ladder compare` and `ladder run --compare`: which rows meet, what the verdicts are, and what is said of the rest."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
import sample_record
from conftest import BUILD, BUILT_FIXTURES, QUICK, ROOT, Ladder

GPU = sample_record.context()["gpu"]


def make_row(variant: str, workload: str, samples: np.ndarray, base: str = "", **more: object) -> dict:
    """Of an unknown module: whether two rows are of the same code is told by `more`, or by their records' commits."""
    fields: dict[str, Any] = {
        "module_hash": "",
        "samples_ms": [float(x) for x in samples],
        "sm_mhz": [1980.0] * len(samples),
        "median_ms": float(np.median(samples)),
        "launch_bound": False,
    }
    return sample_record.row(variant, base, problem(workload), "cuda", "assign") | fields | more


def problem(name: str) -> dict:
    return sample_record.workload(name, "some", 100, 4, 3) | {"data_hash": "1"}


def make_record(rows: list[dict], **context: object) -> dict:
    names = sorted({row["workload"] for row in rows})
    return {
        "schema_version": 2,
        "context": sample_record.context() | {"git_sha": "0123456789abcdef"} | context,
        "workloads": [problem(name) for name in names],
        "rows": rows,
    }


def one_run(seed: int, changed: dict[str, float] | None = None, scatter: float = 0.01) -> dict:
    """Forty variants, a session each, that scatter by one percent; those of `changed` take so much longer."""
    random = np.random.default_rng(seed)
    rows = []
    for i in range(40):
        name = f"a{i:02}"
        session = np.exp(random.normal(0, scatter)) * (1 + (changed or {}).get(name, 0))
        rows.append(make_row(name, "wide", 0.1 * (i + 1) * session * (1 + 0.005 * random.normal(size=30))))
    return make_record(rows)


class Compare:
    def __init__(self, ladder: Ladder, folder: Path) -> None:
        self.ladder, self.folder, self.count = ladder, folder, 0

    def __call__(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Records among the words become files."""
        said: list[str] = []
        for word in words:
            if isinstance(word, dict):
                self.count += 1
                file = self.folder / f"record{self.count}.json"
                file.write_text(json.dumps(word))
                said.append(str(file))
            else:
                said.append(str(word))
        return self.ladder("compare", *said)

    def verdicts(self, *words: object, status: int = 0) -> dict:
        done = self(*words, "--json")
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def compare(ladder: Ladder, tmp_path: Path) -> Compare:
    return Compare(ladder, tmp_path)


# --------------------------------------------------------------------------------------------------------- two records


def test_equal_code_in_two_runs_is_neither_faster_nor_slower(compare: Compare) -> None:
    found = compare.verdicts(one_run(1), one_run(2))
    assert len(found["comparisons"]) == 40
    said = [c["verdict"] for c in found["comparisons"]]
    assert said.count("FASTER") + said.count("SLOWER") <= 2
    assert all(c["low"] <= c["ratio"] <= c["high"] and c["method"] == "apart" for c in found["comparisons"])
    assert "40 rows that both records have" in found["scatters"][0]


def test_what_changed_is_found_among_what_did_not(compare: Compare) -> None:
    changed = {"a03": 0.6, "a11": -0.4}
    found = {c["candidate"]: c for c in compare.verdicts(one_run(1), one_run(2, changed))["comparisons"]}
    assert found["a03"]["verdict"] == "SLOWER" and found["a03"]["ratio"] == pytest.approx(1.6, rel=0.05)
    assert found["a11"]["verdict"] == "FASTER"
    table = compare(one_run(1), one_run(2, changed)).stdout
    assert any("a03" in line and "SLOWER" in line and "[1.5" in line for line in table.splitlines())
    assert table.splitlines()[-1].startswith("SAME ") and table.splitlines()[-1].endswith("of 40 rows")


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def of_one_commit(seed: int, offset: float = 0.0) -> dict:
    """A run of 43 kernels that repeat within 0.3 % and 40 times with the host in them that repeat within 8 %."""
    random = np.random.default_rng(seed)
    rows = []
    for scope, scatter, ms in (("assign", 0.003, 1.0), ("upload", 0.08, 20.0), ("update", 0.08, 3.0)):
        for i in range(43 if scope == "assign" else 20):
            session = ms * np.exp(random.normal(0, scatter)) * (1 + offset)
            within = 0.03 if scope == "update" else 0.002
            rows.append(make_row(f"a{i:02}", "wide", session * (1 + within * random.normal(size=30)), scope=scope))
    return make_record(rows, git_sha=COMMIT)


@pytest.mark.parametrize("offset", [0.0, 0.01])
def test_two_runs_of_one_commit_tell_their_own_scatter(compare: Compare, offset: float) -> None:
    found = compare.verdicts(of_one_commit(1), of_one_commit(2, offset))
    assert len(found["scatters"]) == 2, "kernels, and what has the host in it: by its scope, or by uneven samples"
    assert "43 rows of the same code" in found["scatters"][0] and "40 rows of the same code" in found["scatters"][1]
    said = [c["verdict"] for c in found["comparisons"]]
    assert said.count("FASTER") + said.count("SLOWER") <= 0.05 * len(said)
    scatter = {c["scope"]: c["scatter"] for c in found["comparisons"]}
    assert scatter["assign"] < 0.011 and scatter["update"] == scatter["upload"] > 0.04
    if offset == 0:
        kernels = [c["verdict"] for c in found["comparisons"] if c["scope"] == "assign"]
        assert kernels.count("SAME") >= 35


def test_the_same_code_on_another_machine_is_no_scatter(compare: Compare) -> None:
    elsewhere = of_one_commit(2, offset=-0.4)
    elsewhere["context"]["gpu"] = GPU | {"name": "another GPU"}
    found = compare.verdicts(of_one_commit(1), elsewhere)
    assert {c["verdict"] for c in found["comparisons"] if c["scope"] == "assign"} == {"FASTER"}


def first_five_are_faster(compare: Compare, was: dict[str, Any], now: dict[str, Any]) -> None:
    """They are made so here, and are not of the same code; all other rows are."""
    for row in now["rows"][:5]:
        row["samples_ms"] = [0.6 * ms for ms in row["samples_ms"]]
        row["median_ms"] *= 0.6
    found = compare.verdicts(was, now, "--scope", "assign")
    assert "38 rows of the same code" in found["scatters"][0]
    assert [c["verdict"] for c in found["comparisons"]][:5] == ["FASTER"] * 5


def test_equal_modules_are_the_same_code_at_another_commit(compare: Compare) -> None:
    was, now = of_one_commit(1), of_one_commit(2)
    now["context"]["git_sha"] = COMMIT[::-1]
    for record in (was, now):
        for row in record["rows"]:
            row["module_hash"] = row["variant"]
    for row in now["rows"][:5]:
        row["module_hash"] = "new"
    first_five_are_faster(compare, was, now)


def test_a_row_that_another_commit_left_is_not_of_the_same_code(compare: Compare) -> None:
    was, now = of_one_commit(1), of_one_commit(2)
    for row in was["rows"][:5]:
        row["git_sha"] = COMMIT[::-1]
    first_five_are_faster(compare, was, now)


def test_noise_of_the_run_widens_what_the_samples_say(compare: Compare) -> None:
    """Each row's samples agree within 0.5 %, but the sessions scatter by 10 %: no row may be called different."""
    said = [c["verdict"] for c in compare.verdicts(one_run(1, scatter=0.1), one_run(2, scatter=0.1))["comparisons"]]
    assert said.count("FASTER") + said.count("SLOWER") <= 2


@pytest.mark.parametrize(("sessions", "verdict"), [(1, "UNSURE"), (4, "UNSURE"), (5, "SLOWER")])
def test_one_session_that_strays_is_no_verdict(compare: Compare, sessions: int, verdict: str) -> None:
    """30 % more is what one session in twenty shows of equal code: it takes several to believe it."""
    was, now = one_run(1), one_run(2, {"a03": 0.3})
    for record in (was, now):
        rows = [row for row in record["rows"] if row["variant"] == "a03"]
        record["rows"] += [row | {"session": i} for row in rows for i in range(1, sessions)]
    (found,) = (c for c in compare.verdicts(was, now)["comparisons"] if c["candidate"] == "a03")
    assert (found["verdict"], found["base_sessions"]) == (verdict, sessions)


def test_few_rows_are_judged_by_a_scatter_that_is_assumed_and_says_so(compare: Compare) -> None:
    was, now = one_run(1), one_run(2)
    for record in (was, now):
        del record["rows"][3:]
    found = compare.verdicts(was, now)
    assert found["scatters"] == ["scatter between sessions (cuda, kernels): 3.0 %, assumed, since too few rows tell"]
    lines = [line for line in compare(was, now).stdout.splitlines() if line.startswith("a0")]
    assert len(lines) == 3 and all("not measured" in line and "[" not in line for line in lines)


def test_fail_if_slower(compare: Compare) -> None:
    slower = one_run(2, {"a03": 0.6})
    assert compare(one_run(1), slower, "--fail-if", "slower").returncode == 1
    assert compare(slower, one_run(1), "--fail-if", "slower").returncode == 0, "that is FASTER"
    assert compare(one_run(1), slower).returncode == 0


def test_another_machine_is_named_and_only_warned_of(compare: Compare) -> None:
    elsewhere = one_run(2)
    elsewhere["context"]["gpu"] = GPU | {"name": "another GPU", "driver": "1.3"}
    done = compare(one_run(1), elsewhere)
    assert done.returncode == 0
    assert "GPU Example GPU X1, then another GPU" in done.stderr and "driver 570.10, then 1.3" in done.stderr
    assert "processor" not in done.stderr
    assert compare(one_run(1), one_run(2)).stderr == ""


@pytest.mark.parametrize(
    ("name", "value"), [("data_hash", "2"), ("k", 4), ("stop", "fixed:3"), ("seed", 2), ("type", "f64")]
)
def test_rows_of_another_problem_do_not_meet(compare: Compare, name: str, value: object) -> None:
    other = one_run(2)
    other["workloads"][0][name] = value
    done = compare(one_run(1), other)
    assert done.returncode == 2 and "nothing to compare" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("cache", "cold"), ("axes", {"block": 64}), ("scope", "update"), ("gpus", 2)]
)
def test_rows_measured_otherwise_do_not_meet(compare: Compare, name: str, value: object) -> None:
    other = one_run(2)
    other["rows"][0][name] = value
    found = compare.verdicts(one_run(1), other)
    assert len(found["comparisons"]) == 39
    assert "1 timed rows of the base have no match in the candidate" in found["left_out"]


def test_a_row_without_a_time_is_left_out_with_its_reason(compare: Compare) -> None:
    failed = one_run(2)
    none = sample_record.row(failed["rows"][5]["variant"], "", problem("wide"), "cuda", "assign", status="failed")
    failed["rows"][5] = none | {"reason": "it hung"}
    found = compare.verdicts(one_run(1), failed)
    assert found["left_out"] == ["a05 on wide (cuda, assign) has no time in the candidate: failed: it hung"]
    assert "not compared: a05 on wide" in compare(one_run(1), failed).stdout


def test_filters(compare: Compare) -> None:
    was, now = one_run(1), one_run(2)
    for record in (was, now):
        record["rows"] += [row | {"workload": "thin", "scope": "update"} for row in copy.deepcopy(record["rows"][:7])]
        record["workloads"].append(record["workloads"][0] | {"name": "thin", "family": "other"})
    assert len(compare.verdicts(was, now)["comparisons"]) == 47
    assert len(compare.verdicts(was, now, "--workloads", "other")["comparisons"]) == 7
    assert len(compare.verdicts(was, now, "--scope", "assign")["comparisons"]) == 40
    assert len(compare.verdicts(was, now, "--variants", "a0*")["comparisons"]) == 17


def test_the_margin_decides_what_is_the_same(compare: Compare) -> None:
    was, now = one_run(1), one_run(2)
    assert {c["verdict"] for c in compare.verdicts(was, now, "--margin", "50")["comparisons"]} == {"SAME"}
    assert "SAME" not in {c["verdict"] for c in compare.verdicts(was, now, "--margin", "0.01")["comparisons"]}


# ---------------------------------------------------------------------------------------------------------- one record


def ladder_of_three() -> dict:
    random = np.random.default_rng(3)
    rows = []
    for variant, base, ms in (("r", "", 4.0), ("s", "r", 2.0), ("t", "s", 1.0)):
        rows.append(make_row(variant, "wide", ms * (1 + 0.001 * random.normal(size=30)), base))
    return make_record(rows)


def test_two_variants_of_one_record(compare: Compare) -> None:
    found = compare.verdicts(ladder_of_three(), "--variants", "t,r")["comparisons"]
    assert [(c["base"], c["candidate"], c["verdict"]) for c in found] == [("t", "r", "SLOWER")]
    assert found[0]["ratio"] == pytest.approx(4, rel=0.01)
    assert found[0]["scatter"] == 0.03, "one session each: the samples' own spread is not enough"


@pytest.mark.parametrize(("over", "pairs"), [("base", {("r", "s"), ("s", "t")}), ("root", {("r", "s"), ("r", "t")})])
def test_each_over_its_base_or_its_root(compare: Compare, over: str, pairs: set[tuple[str, str]]) -> None:
    found = compare.verdicts(ladder_of_three(), "--over", over)["comparisons"]
    assert {(c["base"], c["candidate"]) for c in found} == pairs
    only = compare.verdicts(ladder_of_three(), "--over", over, "--variants", "t")["comparisons"]
    assert [c["candidate"] for c in only] == ["t"]


@pytest.mark.parametrize(
    ("base", "candidate", "meet"),
    [
        ({}, {"block": 64}, True),
        ({"tile": 4}, {"tile": 4, "block": 64}, True),
        ({"tile": 4, "wide": 1}, {"tile": 4}, True),
        ({"tile": 4}, {"tile": 8, "block": 64}, False),
    ],
)
def test_only_an_axis_that_both_have_must_agree(compare: Compare, base: dict, candidate: dict, meet: bool) -> None:
    record = ladder_of_three()
    for row, axes in zip(record["rows"], (base, candidate, {}), strict=True):
        row["axes"] = axes
    done = compare(record, "--variants", "r,s", "--json")
    assert done.returncode == (0 if meet else 2), done.stderr
    assert meet or "s on wide (cuda, assign) has no timed row of r beside it" in done.stderr


def interleaved(factor: float, drift: float = 0.0) -> dict:
    random = np.random.default_rng(4)
    rows = []
    for session in range(10):
        variant = "ABBAABBAAB"[session]
        time = 3 * (factor if variant == "B" else 1) * np.exp(drift * session + random.normal(0, 0.003))
        rows.append(make_row(variant, "wide", time * np.ones(5), session=session))
    return make_record(rows)


def test_sessions_in_turns_are_judged_by_their_medians(compare: Compare) -> None:
    (c,) = compare.verdicts(interleaved(1.03, drift=0.02), "--variants", "A,B")["comparisons"]
    assert (c["verdict"], c["method"], c["base_sessions"], c["scatter"]) == ("SLOWER", "interleaved", 5, None)
    assert c["ratio"] == pytest.approx(1.03, abs=0.006), "the drift is no part of it"
    (c,) = compare.verdicts(interleaved(1.0, drift=0.02), "--variants", "A,B")["comparisons"]
    assert c["verdict"] == "SAME"


@pytest.mark.parametrize("pair", [True, False])
def test_sessions_of_one_run_in_turns_meet_at_each_ones_own_axes(compare: Compare, pair: bool) -> None:
    record = interleaved(1.03)
    for row in record["rows"]:
        row["axes"] = {"width": 64 if row["variant"] == "A" else -1}
        row["turns"] = {"variants": ["A", "B"], "seed": 1 if pair or row["variant"] == "A" else 2}
    done = compare(record, "--variants", "A,B", "--json")
    assert done.returncode == (0 if pair else 2), done.stderr


# ----------------------------------------------------------------------------------------------------------- bad usage


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([ladder_of_three()], "--variants BASE,CANDIDATE"),
        ([ladder_of_three(), "--variants", "r"], "--variants BASE,CANDIDATE"),
        ([ladder_of_three(), "--variants", "r,nobody"], "no row of variant 'nobody'"),
        ([one_run(1), one_run(2), "--over", "base"], "one record"),
        ([one_run(1), one_run(2), "--workloads", "nowhere"], "nothing to compare"),
        ([one_run(1), one_run(2), "--scope", "asign"], "asign"),
        ([one_run(1), "nowhere.json"], "nowhere.json"),
        ([one_run(1), one_run(2), "--fail-if", "faster"], "--fail-if"),
    ],
)
def test_bad_usage_is_status_2(compare: Compare, words: list, says: str) -> None:
    done = compare(*words)
    assert done.returncode == 2 and says in done.stderr, done.stderr


# --------------------------------------------------------------------------------------------------- sessions in turns


@pytest.mark.alone
def test_a_run_in_turns(ladder: Ladder) -> None:
    out = ladder.folder / "record.json"
    words = ["run", "--compare", "c0_serial,c1_fused", "--workloads", "kmcuda_tiny", "--scopes", "assign,iteration"]
    done = ladder(*words, *QUICK, "--order-seed", 1, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text())
    jsonschema_rs.validate(json.loads((ROOT / "harness" / "records" / "record.schema.json").read_text()), record)
    order = [row["variant"] for row in record["rows"] if row["scope"] == "iteration"]
    a, b = "c0_serial", "c1_fused"
    assert order == [b, a, a, b, b, a, b, a, a, b]
    assert all(row["turns"] == {"variants": [a, b], "seed": 1} for row in record["rows"])
    assert [row["session"] for row in record["rows"] if row["scope"] == "iteration"] == list(range(10))
    (c,) = (c for c in record["comparisons"] if c["scope"] == "iteration")
    told = ("base", "candidate", "method", "base_sessions", "candidate_sessions", "order_seed")
    assert tuple(c[key] for key in told) == (a, b, "interleaved", 5, 5, 1)
    line = next(line for line in done.stdout.splitlines() if line.startswith(f"{b} ") and "iteration" in line)
    assert c["verdict"] in line and f"{c['ratio']:.3f}" in line and "5 + 5" in line
    check = [sys.executable, "-m", "plots.check", out]
    checked = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    again = ladder("compare", out, "--variants", f"{a},{b}", "--scope", "iteration", "--json")
    assert json.loads(again.stdout)["comparisons"] == [c], "the record says the same when it is asked again"


@pytest.mark.alone
def test_each_rung_over_the_base_that_its_card_names(ladder: Ladder) -> None:
    """Its pairs one after another, each in the scope of its card; the shared one has sessions of its own in each."""
    out = ladder.folder / "record.json"
    words = ["run", "--compare", "base", "--variants", "c1_fused,c1b_vectors,c0_serial", "--device", "cpu"]
    done = ladder(*words, "--workloads", "blobs30_tiny,kmcuda_tiny", *QUICK, "--order-seed", 7, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text())
    jsonschema_rs.validate(json.loads((ROOT / "harness" / "records" / "record.schema.json").read_text()), record)
    found = {(c["candidate"], c["base"], c["scope"], c["workload"], c["method"]) for c in record["comparisons"]}
    pairs = {("c1_fused", "c0_serial"), ("c1b_vectors", "c1_fused")}
    assert found == {(*p, "iteration", w, "interleaved") for p in pairs for w in ("blobs30_tiny", "kmcuda_tiny")}
    assert sorted(c["order_seed"] for c in record["comparisons"]) == [7, 8, 9, 10]
    assert [len(row["turns"]["variants"]) for row in record["rows"]] == 40 * [2]
    assert len({row["key"] for row in record["rows"]}) == 40
    again = json.loads(ladder("compare", out, "--over", "base", "--json").stdout)
    assert again["left_out"] == []
    assert sorted(map(str, again["comparisons"])) == sorted(map(str, record["comparisons"]))


def test_a_wrong_variant_is_not_run_again_and_again(ladder: Ladder) -> None:
    out = ladder.folder / "record.json"
    words = ["run", "--compare", "v01_global,w1_off_by_one", "--modules", BUILT_FIXTURES / "wrong", "--device", "simt"]
    done = ladder(*words, "--workloads", "kmcuda_tiny", "--scopes", "assign", *QUICK, "--order-seed", 5, "--out", out)
    assert done.returncode == 1
    record = json.loads(out.read_text())
    assert [(row["variant"], row["status"]) for row in record["rows"]] == [
        ("v01_global", "ok"),
        ("w1_off_by_one", "invalid"),
    ]
    assert record["comparisons"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--compare", "c0_serial"], "at least one other"),
        (["--compare", "c0_serial,nobody"], "nobody"),
        (["--compare", "c0_serial,c0_serial"], "twice"),
        (["--compare", "c0_serial,v01_global"], "no device"),
        (["--compare", "c0_serial,c1_fused", "--sessions", "4"], "--sessions"),
        (["--compare", "c0_serial,c1_fused", "--resume"], "--resume"),
        (["--sessions", "6"], "--compare"),
        (["--order-seed", "6"], "--compare"),
        (["--compare", "c0_serial,c1_fused", "--variants", "c2*"], "leave --variants out"),
        (["--compare", "base", "--variants", "v01_global"], "none of the variants has a base"),
        (["--compare", "base", "--variants", "nobody*"], "nobody"),
    ],
)
def test_what_cannot_be_compared_is_refused(ladder: Ladder, words: list[str], says: str) -> None:
    done = ladder("run", *words, "--device", "simt", "--out", ladder.folder / "r.json")
    assert done.returncode == 2 and says in done.stderr, done.stderr


def experiment(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tests" / "tools" / "compare_experiment.py", *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def test_the_experiment(tmp_path: Path) -> None:
    out = tmp_path / "compare.json"
    small = ["--device", "simt", "--points", "2000", "--features", "8", "--k", "100", "--min-time", "0", "--max-time"]
    done = experiment("--build", BUILD, *small, "0.05", "--trials", "2", "--gpus", "0,0", "--out", out)
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(out.read_text())
    assert len(result["trials"]) == 2 and all(len(trial["sessions"]) == 15 for trial in result["trials"])
    for name in ("x1_copy", "x2_slower"):
        assert sum(result["count"][name].values()) == 2
    assert [line.split(":")[0] for line in done.stdout.splitlines()[:2]] == ["copy", "3 % slower"]
    assert result["accepted"] == (done.returncode == 0)

    joined = tmp_path / "joined.json"
    assert str(ROOT) not in out.read_text(), "what is committed names no place of a machine"
    done = experiment("--join", out, out, "--out", joined)
    both = json.loads(joined.read_text())
    assert len(both["trials"]) == 4 and both["setting"] == result["setting"]
    assert both["count"]["x1_copy"] == {verdict: 2 * n for verdict, n in result["count"]["x1_copy"].items()}


@pytest.mark.parametrize("again", sorted(ROOT.glob("results/*/again.json")), ids=lambda file: file.parent.name)
def test_a_record_made_anew_compares_as_equal(ladder: Ladder, again: Path) -> None:
    """The record's own promise, and the sentence in docs/comparing.md that tells it."""
    commit = json.loads(again.read_text())["context"]["git_sha"]
    first = ladder.folder / "first.json"  # what the run of that commit was split into
    parts = [
        str(file)
        for file in sorted(again.parent.glob("seeds*.json"))
        if json.loads(file.read_text())["context"]["git_sha"] == commit
    ]
    assert ladder("join", first, *parts).returncode == 0
    answer = json.loads(ladder("compare", str(first), str(again), "--json").stdout)
    verdicts = [c["verdict"] for c in answer["comparisons"] if c["device"] == "cuda"]
    equal = sum(verdict in ("SAME", "UNSURE") for verdict in verdicts)
    assert len(verdicts) >= 300 and equal >= 0.95 * len(verdicts)
    told = re.search(r"(\d+) of (\d+) rows SAME or\s+UNSURE", (ROOT / "docs" / "comparing.md").read_text())
    assert told and (int(told[1]), int(told[2])) == (equal, len(verdicts))


def written_result(file: Path, verdicts: list[tuple[str, str]], **setting: object) -> Path:
    """As the experiment would have written it; each trial's verdicts on the copy and on the slower one."""
    trials = [
        {"comparisons": [{"candidate": "x1_copy", "verdict": a}, {"candidate": "x2_slower", "verdict": b}]}
        for a, b in verdicts
    ]
    context = {"git_sha": "1", "gpu": GPU, "host": {}}
    file.write_text(json.dumps({"setting": setting, "context": context, "trials": trials}))
    return file


@pytest.mark.parametrize(
    ("false", "slower", "accepted"),
    [(2, "SLOWER", True), (3, "SLOWER", False), (0, "UNSURE", True), (0, "FASTER", False)],
)
def test_the_experiment_accepts_two_false_verdicts_of_forty(
    tmp_path: Path, false: int, slower: str, accepted: bool
) -> None:
    trials = [("FASTER", "SLOWER")] * false + [("SAME", slower)] * (40 - false)
    done = experiment("--join", written_result(tmp_path / "one.json", trials), "--out", tmp_path / "all.json")
    assert json.loads((tmp_path / "all.json").read_text())["accepted"] == accepted == (done.returncode == 0)


def test_results_of_two_settings_are_not_joined(tmp_path: Path) -> None:
    files = [written_result(tmp_path / f"{k}.json", [("SAME", "SLOWER")], k=k) for k in (100, 200)]
    done = experiment("--join", *files, "--out", tmp_path / "all.json")
    assert done.returncode == 1 and "another setting" in done.stderr
