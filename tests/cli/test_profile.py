"""`ladder profile`: what ncu prints becomes lesson metrics, whatever it lacks is named, and where it cannot count, one
sentence says why and the committed profile is shown. No GPU: the worker and ncu are fake.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ladder
from fake_build import END, GPUS, FakeBuild, doing, session
from fake_ncu import FakeNcu

from plots.lib import schema

Profile = dict[str, Any]
PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)


def every_name() -> list[str]:
    """All of ncu's names in the table of metrics, as --query-metrics has them."""
    text = (ROOT / "harness" / "records" / "metrics.cpp").read_text()
    quoted = [word for part in text.split('"')[1::2] for word in part.split(" ") if "__" in word]
    return sorted({word.split(".")[0] for word in quoted if not word.startswith(("launch__", "sm__maximum"))})


def without_sass() -> list[str]:
    return [name for name in every_name() if not name.startswith("smsp__sass_l1tex")]


class Bench:
    """A fake build in a checkout of its own, with a fake ncu."""

    def __init__(self, folder: Path) -> None:
        self.build = FakeBuild(folder)
        self.build.add("x1", phases=["assign", "update"])
        self.ncu = FakeNcu(folder, every_name())
        self.source = folder / "checkout"
        self.file = self.source / "results" / "fake-gpu-0" / "profile.json"
        self.build.environment |= {"LADDER_SOURCE": str(self.source), "LADDER_NCU": str(self.ncu.program)}

    def __call__(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        self.ncu.save()
        return self.build("profile", *words, **environment)

    def profiles(self) -> dict[tuple[str, str, str], Profile]:
        document = json.loads(self.file.read_text())
        assert schema.violations(document) == []
        return {(p["variant"], p["workload"], p["scope"]): p for p in document["profiles"]}

    def make(self, *words: str, status: int = 0, **environment: str) -> dict[tuple[str, str, str], Profile]:
        done = self(*words, **environment)
        assert done.returncode == status, done.stdout + done.stderr
        return self.profiles()


@pytest.fixture
def bench(ladder: Ladder, tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    first = done.stderr.strip().splitlines()[0]
    assert done.returncode == 1 and first.startswith("ladder: nothing can be profiled here: "), done.stderr
    assert all(word in first for word in words), first


# ------------------------------------------------------------------------------------------------------- all goes well


def test_what_ncu_counts_becomes_lesson_metrics(bench: Bench) -> None:
    made = bench.make("x1", "--workload", "grapes")
    assert set(made) == {("x1", "grapes", "assign"), ("x1", "grapes", "update")}
    assign = made["x1", "grapes", "assign"]
    assert (assign["n"], assign["d"], assign["k"], assign["type"]) == (1000, 3, 5, "f32")
    assert assign["ncu"] == "2025.3.1.0" and assign["set"] == "full" and assign["gpu"]["name"] == "fake GPU 0"
    assert assign["lacking"] == [] and not assign["cut_short"]
    assert assign["source_hash"] == "", "a made-up module has no text"
    (kernel,) = assign["kernels"]
    assert kernel["name"] == "assign_kernel<float, 16>" and kernel["launches"] == 1
    assert (kernel["grid"], kernel["block"]) == ([1172, 1, 1], [256, 1, 1])
    metrics = kernel["metrics"]
    assert metrics["time_ms"] == 1.23457 and metrics["registers"] == 40 and metrics["shared_bytes"] == 1024
    assert metrics["dram_bytes"] == 2.5e9, "the row of units counts"
    assert metrics["global_atomics"] == 2100 and metrics["ffma"] == 612e9
    assert metrics["constant_requests"] == 0 and metrics["constant_hit_percent"] is None, "n/a is no number"
    assert kernel["limited_by"] == ["registers"]
    assert [(stall["reason"], stall["share"]) for stall in kernel["stalls"]] == [
        ("long_scoreboard", 0.6),
        ("wait", 0.3),
        ("selected", 0.1),
    ]
    (update,) = made["x1", "grapes", "update"]["kernels"]
    assert update["name"] == "sum_kernel" and update["launches"] == 2 and update["metrics"]["time_ms"] == 2.0


@pytest.mark.parametrize(
    ("by_ncu", "name"),
    [
        ("void ladder::<unnamed>::pack<float, ladder::<unnamed>::Rows<(int)8>>(int *)", "pack<float, ladder::Rows<8>>"),
        # Where all names of a report begin alike, ncu takes that off, and half of the unnamed namespace.
        ("void unnamed>::pack<float, unnamed>::Rows<128>>(const T1 *)", "pack<float, Rows<128>>"),
        ("unnamed>::argmax<128, 2, 0>(const uint4 *, int)", "argmax<128, 2, 0>"),
        ("void compare<float, StoreLabel>(const T1 *)", "compare<float, StoreLabel>"),
    ],
)
def test_a_kernel_has_its_name_without_namespaces_before_it_and_parameters(
    bench: Bench, by_ncu: str, name: str
) -> None:
    bench.ncu.plan["launches"]["assign"] = [(by_ncu, (1, 1, 1), (32, 1, 1), {})]
    (kernel,) = bench.make("x1", "--workload", "grapes")["x1", "grapes", "assign"]["kernels"]
    assert kernel["name"] == name


def test_waits_for_other_accesses_are_no_conflicts_where_ncu_counts_by_instruction(bench: Bench) -> None:
    by_instruction = {"sectors_per_load": 4.4, "wavefronts_load": 1060, "bank_conflicts_load": 7}
    by_instruction["bank_conflicts_store"] = 0  # 4 - (40 - 30), of counters from two passes
    at_the_pipe = {"sectors_per_load": 4.5, "wavefronts_load": 1063, "bank_conflicts_load": 10}
    at_the_pipe["bank_conflicts_store"] = 4
    for known, expected in ((every_name(), by_instruction), (without_sass(), at_the_pipe)):
        bench.ncu.plan["known"] = known
        (kernel,) = bench.make("x1", "--workload", "grapes", "--scopes", "assign")["x1", "grapes", "assign"]["kernels"]
        assert {name: kernel["metrics"][name] for name in expected} == expected


def test_ncu_is_asked_as_the_design_says_and_the_report_is_kept(bench: Bench) -> None:
    bench.make("x1", "--workload", "grapes")
    (words,) = bench.ncu.calls()
    line = " ".join(words)
    for flags in ("--clock-control none", "--profile-from-start off", "--nvtx", "--set full", "--import-source yes"):
        assert flags in line
    assert "dram__bytes.sum" in words[words.index("--metrics") + 1].split(",")
    (request,) = bench.build.asked()
    assert request["profile"] and request["scopes"] == ["assign", "update"]
    reports = list((bench.source / "results" / "local" / "profile").iterdir())
    assert [report.name for report in reports] == ["x1-grapes-assign+update.ncu-rep"]
    assert "results/local/" in (ROOT / ".gitignore").read_text()


def test_the_lesson_set_asks_for_less(bench: Bench) -> None:
    assert bench.make("x1", "--workload", "grapes", "--set", "lesson")["x1", "grapes", "assign"]["set"] == "lesson"
    assert "--set" not in bench.ncu.calls()[0] and "WarpStateStats" in bench.ncu.calls()[0]


def test_profiles_are_merged_by_variant_workload_and_scope(bench: Bench) -> None:
    bench.build.add("x2", phases=["iterate"])
    bench.make("x1", "--workload", "grapes")
    bench.ncu.plan["values"] = bench.ncu.plan["values"] | {"launch__registers_per_thread": "64"}
    bench.ncu.plan["launches"]["iteration"] = bench.ncu.plan["launches"]["assign"]
    made = bench.make("x1", "--workload", "grapes", "--scopes", "assign")
    made = bench.make("x2", "--workload", "plums")
    assert set(made) == {("x1", "grapes", "assign"), ("x1", "grapes", "update"), ("x2", "plums", "iteration")}
    registers = {key: p["kernels"][0]["metrics"]["registers"] for key, p in made.items()}
    assert registers["x1", "grapes", "assign"] == 64 and registers["x1", "grapes", "update"] == 40
    assert not list(bench.file.parent.glob("profile.json?*")), "neither lock nor temporary file stays"


def test_all_takes_every_variant_on_its_lesson_and_resume_what_is_left(bench: Bench) -> None:
    bench.build.add("x2", phases=["assign"])
    bench.build.plan["sessions"]["x2"] = [{"event": "refused", "reason": "has seen enough grapes"}, END]
    bench.build.add("x3", kind="cpu")
    made = bench.make("--all", status=1)
    assert {key[:2] for key in made} == {("x1", "grapes")}, "the first workload of workloads.json that it takes"
    assert [request["workload"] for request in bench.build.asked()] == ["grapes", "grapes", "plums"]
    bench.build.plan["sessions"]["x2"] = session()
    made = bench.make("--all", "--resume")
    assert {key[:2] for key in made} == {("x1", "grapes"), ("x2", "grapes")}
    assert [request["variant"] for request in bench.build.asked()[3:]] == ["x2"], "x1 is kept from before"
    bench.build.add("x1", module="another build", phases=["assign", "update"])
    bench.make("--all", "--resume")
    assert [request["variant"] for request in bench.build.asked()[4:]] == ["x1"], "of another build it is not"


def test_workloads_json_names_the_lessons_that_come_first() -> None:
    document = json.loads((ROOT / "datasets" / "workloads.json").read_text())
    assert document["lessons"][0] == "kmcuda"
    assert set(document["lessons"]) <= {workload["name"] for workload in document["workloads"]}


def test_a_scope_without_kernels_says_so(bench: Bench) -> None:
    del bench.ncu.plan["launches"]["update"]
    done = bench("x1", "--workload", "grapes")
    assert done.returncode == 0 and "update: no kernel: the host does it" in done.stdout
    assert bench.profiles()["x1", "grapes", "update"]["kernels"] == []


def test_what_the_limit_kept_away_is_profiled_alone(bench: Bench) -> None:
    bench.ncu.plan["launches"]["assign"] *= 9
    made = bench.make("x1", "--workload", "grapes", "--launches", "3")
    assert [request["scopes"] for request in bench.build.asked()] == [["assign", "update"], ["assign"], ["update"]]
    assert made["x1", "grapes", "assign"]["cut_short"] and not made["x1", "grapes", "update"]["cut_short"]
    assert made["x1", "grapes", "assign"]["kernels"][0]["launches"] == 3
    assert made["x1", "grapes", "update"]["kernels"][0]["launches"] == 2


def test_as_many_launches_as_the_limit_are_all_there_are(bench: Bench) -> None:
    made = bench.make("x1", "--workload", "grapes", "--scopes", "update", "--launches", "2")
    assert not made["x1", "grapes", "update"]["cut_short"] and len(bench.build.asked()) == 1


def test_without_ranges_each_scope_is_profiled_alone(bench: Bench) -> None:
    bench.ncu.plan["ranges"] = False
    made = bench.make("x1", "--workload", "grapes")
    assert [request["scopes"] for request in bench.build.asked()] == [["assign", "update"], ["assign"], ["update"]]
    assert made["x1", "grapes", "assign"]["kernels"][0]["name"] == "assign_kernel<float, 16>"
    assert made["x1", "grapes", "update"]["kernels"][0]["name"] == "sum_kernel"


def test_show_prints_the_lesson_metrics(bench: Bench) -> None:
    bench.make("x1", "--workload", "grapes")
    for words in (["--show"], ["--show", str(bench.file)], ["x*", "--show"], ["--show", "x1"]):
        shown = bench(*words)
        assert shown.returncode == 0, shown.stderr
        for text in ("x1 on grapes (1000 x 3, K = 5, f32)", "assign: assign_kernel<float, 16>   grid 1172, block 256",
                     "DRAM 12.5 %", "moved 2.5 GB", "registers 40", "limited by registers", "FFMA 6.120e+11",
                     "long_scoreboard 60 %", "2 launches, means"):  # fmt: skip
            assert text in shown.stdout, shown.stdout
        assert max(map(len, shown.stdout.splitlines())) <= 160
    assert bench("x9", "--show").returncode == 1


# ------------------------------------------------------------------------------------------------ something is missing


def test_a_metric_that_this_ncu_lacks_is_named(bench: Bench) -> None:
    bench.ncu.plan["known"] = [name for name in every_name() if not name.startswith(("idc__", "dram__throughput"))]
    bench.ncu.plan["sections"] = [name for name in bench.ncu.plan["sections"] if "stalled" not in name]
    done = bench("x1", "--workload", "grapes")
    assert done.returncode == 0, done.stderr
    lacking = ["constant_requests", "constant_hit_percent", "stalls"]
    assert "ncu 2025.3.1.0 does not know: constant_requests, constant_hit_percent\n" in done.stderr
    assert "this ncu has no constant_requests, constant_hit_percent, stalls" in done.stdout
    assign = bench.profiles()["x1", "grapes", "assign"]
    assert assign["lacking"] == lacking and "constant_requests" not in assign["kernels"][0]["metrics"]
    metrics = bench.ncu.calls()[0][bench.ncu.calls()[0].index("--metrics") + 1]
    assert "idc__" not in metrics, "ncu ends where it is asked for what it does not know"
    assert "gpu__dram_throughput.avg" in metrics, "another way to the same"


def test_an_ncu_that_lists_no_metrics_counts_what_sections_hold(bench: Bench) -> None:
    bench.ncu.plan["known"] = []
    done = bench("x1", "--workload", "grapes")
    assert done.returncode == 0 and "lists no metrics" in done.stderr
    assert "--metrics" not in bench.ncu.calls()[0]
    assign = bench.profiles()["x1", "grapes", "assign"]
    assert "time_ms" in assign["lacking"] and assign["kernels"][0]["metrics"]["registers"] == 40


def committed(bench: Bench) -> None:
    """A profile that was counted elsewhere."""
    bench.make("x1", "--workload", "grapes")
    bench.file.parent.rename(bench.file.parent.with_name("another-gpu"))
    bench.file = bench.file.parent.with_name("another-gpu") / "profile.json"


@pytest.mark.parametrize("when", ["before", "after"])
def test_without_permission_the_remedy_is_said_and_the_committed_profile_shown(bench: Bench, when: str) -> None:
    committed(bench)
    before = bench.file.read_text()
    bench.ncu.plan[when] = PERMISSION
    bench.build.add("x2", phases=["assign"])
    done = bench("--all")
    one_sentence(done, "ERR_NVGPUCTRPERM", "root", "NVreg_RestrictProfilingToAdminUsers=0")
    assert "another-gpu/profile.json" in done.stdout and "assign_kernel<float, 16>" in done.stdout
    assert bench.file.read_text() == before and not (bench.source / "results" / "fake-gpu-0").exists()
    assert [request["variant"] for request in bench.build.asked()[1:]] == ["x1"], "no other variant is tried"


def test_without_ncu(bench: Bench) -> None:
    committed(bench)
    done = bench("x1", LADDER_NCU=str(bench.source / "none"))
    one_sentence(done, "ncu", "install")
    assert "assign_kernel<float, 16>" in done.stdout


def test_without_a_gpu_and_without_a_committed_profile(bench: Bench) -> None:
    bench.build.plan["devices"] = []
    done = bench("x1")
    one_sentence(done, "no GPU")
    assert done.stdout == "" and "no committed profile" in done.stderr


def test_an_ncu_that_dies_fails_that_variant_alone(bench: Bench) -> None:
    bench.ncu.plan["dies"] = True
    done = bench("x1", "--workload", "grapes")
    assert done.returncode == 1 and "signal 9" in done.stderr and not bench.file.exists()


def test_a_report_that_was_not_written_is_no_profile_without_kernels(bench: Bench) -> None:
    bench.ncu.plan["dies_late"] = True
    done = bench("x1", "--workload", "grapes")
    assert done.returncode == 1 and "left no report" in done.stderr and "--time-limit" in done.stderr
    assert not bench.file.exists()


def test_an_error_of_ncu_is_passed_on(bench: Bench) -> None:
    bench.ncu.plan["launches"] = {}
    bench.ncu.plan["after"] = '==ERROR== Failed to profile "assign_kernel" in process 7'
    done = bench("x1", "--workload", "grapes")
    assert done.returncode == 1 and 'failed: ncu: Failed to profile "assign_kernel"' in done.stderr
    assert not bench.file.exists()


def test_a_wrong_result_is_not_profiled(bench: Bench) -> None:
    wrong = [event | {"fault": "a label is wrong"} if event.get("event") == "result" else event for event in session()]
    bench.build.plan["sessions"]["x1"] = wrong
    done = bench("x1", "--workload", "grapes")
    assert done.returncode == 1 and "invalid: a label is wrong" in done.stderr and not bench.file.exists()


def test_a_profile_that_takes_too_long_is_stopped(bench: Bench) -> None:
    bench.build.plan["sessions"]["x1"] = [doing("assign"), {"sleep": 30}]
    done = bench("x1", "--workload", "grapes", "--time-limit", "1")
    assert done.returncode == 1 and "not done after 1 s" in done.stderr


def test_bad_usage(bench: Bench) -> None:
    for words, said in (
        ([], "no variant is named"),
        (["y*"], "no variant matches 'y*'"),
        (["x1", "--scopes", "loop"], "loop"),
    ):
        done = bench(*words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = bench("--show", "none.json")
    assert done.returncode == 2 and "none.json is not there" in done.stderr
    bench.file.parent.mkdir(parents=True)
    bench.file.write_text("{}")
    done = bench("--show")
    assert done.returncode == 2 and "is not a profile of version 1" in done.stderr


# ------------------------------------------------------------------------------------------------------------ the check


def first_kernel(document: Profile) -> dict[str, Any]:
    return document["profiles"][0]["kernels"][0]


BROKEN: dict[str, tuple[Callable[[Profile], object], str]] = {
    "another version": (lambda d: d.update(profile_version=2), "profile_version"),
    "a field that nobody knows": (lambda d: d["profiles"][0].update(speed=1), "speed"),
    "no scope": (lambda d: d["profiles"][0].pop("scope"), "scope"),
    "one twice": (lambda d: d["profiles"].append(copy.deepcopy(d["profiles"][0])), "twice"),
    "a metric without a word": (lambda d: first_kernel(d)["metrics"].pop("registers"), "registers"),
    "a metric that nobody knows": (lambda d: first_kernel(d)["metrics"].update(luck=1), "luck"),
    "a lack that nobody knows": (lambda d: d["profiles"][0]["lacking"].append("luck"), "luck"),
    "more than all": (lambda d: first_kernel(d)["metrics"].update(dram_percent=140), "dram_percent"),
    "less than nothing": (lambda d: first_kernel(d)["metrics"].update(registers=-1), "registers"),
    "shares out of order": (lambda d: first_kernel(d)["stalls"].reverse(), "stalls"),
    "a block of two": (lambda d: first_kernel(d)["block"].pop(), "block"),
}


def test_each_way_to_break_a_profile_is_told(bench: Bench) -> None:
    bench.make("x1", "--workload", "grapes")
    sound = json.loads(bench.file.read_text())
    for name, (breaking, word) in BROKEN.items():
        document = copy.deepcopy(sound)
        breaking(document)
        found = schema.violations(document)
        assert found and word in " ".join(found), name


def test_committed_profiles_are_sound() -> None:
    for file in (ROOT / "results").glob("*/profile.json"):
        assert schema.violations(json.loads(file.read_text())) == [], file


def test_the_documentation_says_what_each_metric_tells(bench: Bench) -> None:
    bench.make("x1", "--workload", "grapes")
    text = (ROOT / "docs" / "profiling.md").read_text()
    for metric in json.loads(bench.file.read_text())["metrics"]:
        assert f"| `{metric['name']}` | {metric['unit']} | {metric['meaning']} |" in text


# ------------------------------------------------------------------------------------------------------- ladder doctor


def examine(bench: Bench, **environment: str) -> dict[str, list[dict[str, str]]]:
    bench.ncu.save()
    done = bench.build("doctor", "--json", **environment)
    assert done.returncode == 0, done.stderr
    findings: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        findings.setdefault(finding["name"], []).append(finding)
        assert set(finding) == {"name", "status", "found", "costs", "mend"}
        assert finding["status"] in ("ok", "limited", "missing") and finding["found"]
        assert bool(finding["mend"]) == bool(finding["costs"]) == (finding["status"] != "ok"), finding
    return findings


def test_doctor_names_what_is_here_and_what_is_not(bench: Bench) -> None:
    (bench.source / "results" / "some-gpu").mkdir(parents=True)
    (bench.source / "results" / "some-gpu" / "record.json").write_text("{}")
    found = examine(bench)
    assert set(found) >= {"compiler", "nvcc", "driver", "GPU", "ncu", "clocks", "Python", "data", "build", "records"}
    assert found["GPU"][0]["status"] == "ok" and all(gpu["name"] in found["GPU"][0]["found"] for gpu in GPUS)
    assert found["records"][0]["found"] == "some-gpu/record.json" and found["profiles"][0]["status"] == "missing"
    assert found["data"][0]["found"].startswith("grapes, plums")
    assert [b["status"] for b in found["build"]] == ["missing"] * 3
    assert found["Python"][0]["status"] == "missing", "a checkout without run_all.sh"


def test_doctor_probes_the_counters(bench: Bench) -> None:
    ncu = examine(bench)["ncu"][0]
    assert ncu["status"] == "limited" and "counted nothing" in ncu["mend"]
    bench.ncu.plan["after"] = "    sm__cycles_active.sum    cycle    41,234"
    ncu = examine(bench)["ncu"][0]
    assert ncu["status"] == "ok" and "2025.3.1.0" in ncu["found"]
    bench.ncu.plan["after"] = PERMISSION
    ncu = examine(bench)["ncu"][0]
    assert ncu["status"] == "limited" and "NVreg_RestrictProfilingToAdminUsers=0" in ncu["mend"]
    bench.build.plan["devices"] = []
    found = examine(bench, LADDER_NCU="/none")
    assert found["ncu"][0]["status"] == "missing" and found["GPU"][0]["status"] == "missing"
    assert "clocks" not in found


def test_doctor_needs_nothing(bench: Bench, tmp_path: Path) -> None:
    """Neither compilers nor Python nor nvidia-smi in the PATH: it looks all the same."""
    tools = tmp_path / "few"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    found = examine(bench, PATH=str(tools), LADDER_NCU="/none")
    assert (
        found["compiler"][0]["found"] == "no cmake, g++, ninja" and "run_all.sh setup" in found["compiler"][0]["mend"]
    )


def test_doctor_names_missing_data_once_for_each_kind_of_reason(bench: Bench) -> None:
    where = "is not in LADDER_DATA or beside the checkout (looked in here) and"
    reasons = {"figs": f"figs.csv {where} could not be fetched (a.org: <timed out (9)>)"}
    reasons["dates"] = f"dates.gz {where} could not be fetched (b.org: <refused>)"
    reasons["limes"] = f"limes.svm {where} has no public address in this form"
    for name in [*reasons, "kiwis"]:
        bench.build.sources.append({"name": name, "kind": "file", "data": f"{name}.npy", "n": 9, "d": 2})
        bench.build.workloads.append(bench.build.workload(name))
    (bench.build.folder / "cache").mkdir()
    (bench.build.folder / "cache" / "missing.json").write_text(json.dumps(reasons))
    data = [finding for finding in examine(bench)["data"] if finding["status"] == "missing"]
    assert {finding["found"] for finding in data} == {
        f"figs, dates: a file {where} could not be fetched",
        f"limes: a file {where} has no public address in this form",
        "kiwis: not prepared yet",
    }
    assert any(finding["mend"].endswith("datasets/prepare.py 'figs*' 'dates*'") for finding in data)


def test_doctor_of_this_checkout_fits_a_screen(ladder: Ladder) -> None:
    done = ladder("doctor")
    assert done.returncode == 0 and len(done.stdout.splitlines()) <= 60
    python = subprocess.run([ROOT / "run_all.sh", "--which-python"], capture_output=True, text=True, check=True)
    assert python.stdout.strip() in done.stdout
