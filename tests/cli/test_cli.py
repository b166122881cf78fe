"""The command line, as a student would use it: what it lists, runs, refuses, survives and writes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import BUILD, BUILT_FIXTURES, FIXTURES, GPU_ONLY, LADDER, PATIENT, QUICK, ROOT, Ladder

sys.path.insert(0, str(ROOT / "results"))
import make_record

SCOPES = ["upload", "download", "assign", "update", "iteration", "solve", "end_to_end"]


def ids(*patterns: str, folder: str = "variants") -> list[str]:
    return sorted(path.stem for pattern in patterns for path in (ROOT / folder).glob(pattern))


ALL = ("*/*.cu", "*/*.cpp", "*/p_*.py")  # of variants/, chapter by chapter


def is_for_this_build(name: str) -> bool:
    """A file that links one of the GPU's libraries is built with CUDA alone; of some preset ci makes no module."""
    if name in (BUILD / "rungs_checked.txt").read_text().split():
        return False
    files = list((ROOT / "variants").glob(f"*/{name}.cu"))
    linked = files and re.search(r"^// link: *(cublas|cusparse|nccl)", files[0].read_text(), re.M)
    return not linked or (BUILD / "ladder_worker_cuda").exists()


def write_points(path: Path, n: int = 400, d: int = 5, dtype: type = np.float32) -> np.ndarray:
    points = np.random.default_rng(7).normal(size=(n, d)).astype(dtype)
    np.save(path, points)
    return points


# ------------------------------------------------------------------------------------------------------------- listing


def test_list_names_every_file_workload_and_device(ladder: Ladder) -> None:
    listed = json.loads(ladder("list", "--json").stdout)
    assert [v["id"] for v in listed["variants"]] == [name for name in ids(*ALL) if is_for_this_build(name)]
    for variant in listed["variants"]:
        assert variant["idea"] and variant["devices"]
    document = json.loads((ROOT / "datasets" / "workloads.json").read_text())
    assert [w["name"] for w in listed["workloads"]] == [w["name"] for w in document["workloads"]]
    for workload in listed["workloads"]:
        assert workload["available"] or workload["reason"]
    assert {"cpu", "simt"} <= {d["kind"] for d in listed["devices"]}


def test_every_base_is_a_variant(ladder: Ladder) -> None:
    for base in {v["base"] for v in json.loads(ladder("list", "--json").stdout)["variants"]}:
        assert base == "" or base in ids(*ALL)


def test_a_variant_that_was_not_built_is_listed_with_its_reason(ladder: Ladder, tmp_path: Path) -> None:
    (tmp_path / "expected.txt").write_text("cpu/gone\n")
    listed = {v["id"]: v for v in json.loads(ladder("list", "--json", "--modules", tmp_path).stdout)["variants"]}
    assert listed["gone"]["devices"] == [] and "was not built" in listed["gone"]["broken"]["cpu"]


def test_missing_data_is_listed_with_its_reason(ladder: Ladder, tmp_path: Path) -> None:
    listed = json.loads(ladder("list", "--json", env={**os.environ, "LADDER_CACHE": str(tmp_path)}).stdout)
    missing = [w for w in listed["workloads"] if not w["available"]]
    assert missing and all("prepare.py" in w["reason"] for w in missing)
    assert any(w["available"] for w in listed["workloads"]), "generated workloads need no file"


# ------------------------------------------------------------------------------------------------------------- running


def test_variants_on_tiny_workloads(ladder: Ladder) -> None:
    scopes = ["iteration", "end_to_end"]
    # Each rung takes the first, and a tenth of the rest; a tenth of them the one in double, whose many iterations cost
    # as much as all others (the session tests try doubles of each rung). Who refuses all of them takes those that
    # differ in kind. Rungs that others change a step of are tried through those, unless LADDER_TEST_ALL is set: then a
    # fifth of all takes the one in double.
    few = ["outlier_tiny", "points2d_tiny"]
    kinds = {"halves_tiny", "sparse_tiny", "letter_tiny", "kernel_tiny", "angular_tiny", "points2d_tiny"}
    words = ["--device", "simt", *PATIENT, "--check", "--scopes", ",".join(scopes)]
    listed = json.loads(ladder("list", "--json").stdout)
    here = {v["id"] for v in listed["variants"] if {"simt", "cpu"} & set(v["devices"])}  # no GPU library
    variants = [name for name in ids("*/*.cu", "*/*.cpp") if name in here and name[0] in "vmck"]
    upon = set((BUILD / "rungs_built_upon.txt").read_text().split())
    assert "v44_active_set" in upon
    in_double = {0, 5}
    if "LADDER_TEST_ALL" not in os.environ:
        in_double = {5}
        variants = [name for name in variants if name not in upon or name in GPU_ONLY]
    tiny = [w["name"] for w in listed["workloads"] if w["name"].endswith("_tiny")]
    missing = {w["name"] for w in listed["workloads"] if not w["available"]} & set(tiny)
    assert kinds < set(tiny)
    rest = [name for name in tiny if name not in few]
    parts = [(variants[part::10], {*few[: 1 + (part in in_double)], *rest[part::10]}) for part in range(10)]
    parts.append(([], kinds))
    rows = []
    for some, workloads in parts:
        some = some or sorted(set(variants) - {r["variant"] for r in rows if r["status"] == "checked"})
        record = ladder.run(*words, "--variants", ",".join(some), "--workloads", ",".join(sorted(workloads - missing)))
        assert record["context"]["complete"] and record["context"]["left_out"] == []
        assert {(r["variant"], r["workload"], r["scope"]) for r in record["rows"]} == {
            (variant, workload, scope) for workload in workloads - missing for variant in some for scope in scopes
        }
        rows += record["rows"]
    for row in rows:
        assert row["status"] in ("checked", "refused"), row
        assert row["status"] == "refused" or row["validation"]["labels_wrong"] == 0
    runs = {r["variant"] for r in rows if r["status"] == "checked"}
    lacking = set(variants) - GPU_ONLY - runs
    assert not runs & GPU_ONLY and (not lacking or missing), f"each runs somewhere: {lacking}, without {missing}"
    reasons = {r["reason"] for r in rows if r["variant"] in GPU_ONLY and r["workload"] == few[0]}
    assert reasons == {
        "its products are those of warpgroups (wgmma), which a GPU of compute capability 9.0 has: "
        "the CPU device has none of Hopper's instructions"
    }
    # All follow the same path: Lloyd's, from the same centroids; but for those that round the points.
    rounding = {v["id"] for v in listed["variants"] if v.get("input_roundoff", 0) > 0}
    same = [r for r in rows if r["reassigned"] and r["variant"] not in rounding]
    for workload in set(tiny) - missing:
        counts = {tuple(r["reassigned"]) for r in same if r["workload"] == workload}
        iterations = {len(c) for c in counts}
        assert max(iterations) - min(iterations) <= 2, "rounding may end a solve an iteration earlier, not more"
    assert not list(ladder.folder.glob("record.json?*")), "neither lock nor temporary file stays"


def test_all_scopes_are_timed_by_default(ladder: Ladder) -> None:
    rows = ladder.run("--device", "simt", "--variants", "v01_global,c0*", "--workloads", "kmcuda_tiny")["rows"]
    assert [(r["variant"], r["scope"]) for r in rows] == [(v, s) for v in ("c0_serial", "v01_global") for s in SCOPES]
    assert {r["status"] for r in rows} == {"ok"}
    for row in rows:
        if row["scope"] in ("solve", "end_to_end") and row["status"] == "ok":
            assert row["per_iteration_ms"] and row["iteration_ms"] and row["prepare_ms"] >= 0, row


def test_a_simt_row_says_simt(ladder: Ladder) -> None:
    record = ladder.run("--device", "simt", "--variants", "v01*", "--workloads", "kmcuda_tiny", "--scopes", "assign")
    assert {r["device"] for r in record["rows"]} == {"simt"}
    assert record["context"]["gpu"] is None


def test_scopes_that_a_fused_variant_lacks_are_refused(ladder: Ladder) -> None:
    rows = ladder.run(
        "--modules",
        BUILT_FIXTURES / "contract",
        "--variants",
        "t2_fused,t1_whole_solve",
        "--device",
        "simt",
        "--workloads",
        "kmcuda_tiny",
    )["rows"]
    refused = {(r["variant"], r["scope"]) for r in rows if r["status"] == "refused"}
    assert refused == {
        ("t2_fused", "assign"),
        ("t2_fused", "update"),
        ("t1_whole_solve", "assign"),
        ("t1_whole_solve", "update"),
        ("t1_whole_solve", "iteration"),
        ("t1_whole_solve", "download"),
    }
    assert all(r["reason"] for r in rows if r["status"] == "refused")


def test_an_axis_is_set_and_recorded(ladder: Ladder) -> None:
    words = ["--modules", BUILT_FIXTURES / "contract", "--variants", "t1_whole_solve", "--device", "simt"]
    words += ["--workloads", "kmcuda_tiny", "--scopes", "solve", "--axis"]
    assert ladder.run(*words, "block=64")["rows"][0]["axes"] == {"block": 64}
    done = ladder("run", *words, "block=65", "--out", ladder.folder / "r.json")
    assert done.returncode == 2 and "65" in done.stderr


def test_google_benchmark_flags_pass_through(ladder: Ladder) -> None:
    rows = ladder.run(
        "--device",
        "simt",
        "--variants",
        "v01_global",
        "--workloads",
        "kmcuda_tiny",
        "--benchmark_repetitions=4",
        "--benchmark_filter=/(assign|update)/",
    )["rows"]
    assert {r["scope"]: len(r["samples_ms"]) for r in rows if r["status"] == "ok"} == {"assign": 4, "update": 4}
    assert all("--benchmark_filter" in r["reason"] for r in rows if r["status"] == "refused")


def test_too_much_work_for_the_cpu_is_refused_beforehand(ladder: Ladder, tmp_path: Path) -> None:
    write_points(tmp_path / "many.npy", n=200_000, d=60)
    rows = ladder.run(
        "--device",
        "cpu",
        "--variants",
        "c0_serial",
        "--data",
        tmp_path / "many.npy",
        "--k",
        "5000",
        "--time-limit",
        "20",
        status=2,
    )["rows"]
    assert {r["status"] for r in rows} == {"refused"}
    assert "--time-limit" in rows[0]["reason"]


# --------------------------------------------------------------------------------------- what others' faults may do


def test_broken_variants_fail_their_own_rows_only(ladder: Ladder) -> None:
    words = ["--modules", BUILT_FIXTURES / "broken", "--device", "simt"]
    words += ["--workloads", "kmcuda_tiny", "--scopes", "assign,iteration"]
    rows = ladder.run(*words, "--variants", "b1_*,b3_*,b4_*,v01_global", status=1)["rows"]
    rows += ladder.run(*words, "--variants", "b2_*", "--time-limit", "5", status=1)["rows"]
    status = {(r["variant"], r["status"]) for r in rows}
    broken = ids("b[1-4]_*.cu", folder="tests/fixtures/broken")
    assert status == {("v01_global", "ok")} | {(b, "failed") for b in broken}
    reason = {r["variant"]: r["reason"] for r in rows}
    assert "SIGABRT" in reason["b1_abort"] or "Aborted" in reason["b1_abort"]
    assert "--time-limit" in reason["b2_endless"]
    assert "Segmentation" in reason["b3_segfault"] or "SEGV" in reason["b3_segfault"] or "null" in reason["b3_segfault"]
    assert "bytes of device memory" in reason["b4_throws"]


def test_wrong_variants_are_invalid_and_have_no_times(ladder: Ladder) -> None:
    rows = ladder.run(
        "--modules",
        BUILT_FIXTURES / "wrong",
        "--variants",
        "w1_off_by_one",
        "--device",
        "simt",
        "--workloads",
        "kmcuda_tiny",
        status=1,
    )["rows"]
    assert {r["status"] for r in rows} == {"invalid"}
    assert all(r["median_ms"] is None and "label" in r["reason"] for r in rows)


@pytest.mark.parametrize(("flags", "checked"), [((), 1000), (("--all-labels",), 1100)])
def test_all_labels_that_a_solve_hands_out_are_compared_where_asked(
    ladder: Ladder, tmp_path: Path, flags: tuple[str, ...], checked: int
) -> None:
    write_points(tmp_path / "own.npy", n=1100)
    words = ("--data", tmp_path / "own.npy", "--k", 4, "--stop", "fixed:2", "--validation-budget", "10")
    words += ("--device", "simt", "--scopes", "solve")
    for row in ladder.run("--variants", "v01_global,v46_graph_loop", *words, *flags)["rows"]:
        assert row["status"] == "ok" and row["validation"]["last_rows_checked"] == checked, "of 1,100 points"


def test_an_interrupted_run_keeps_its_rows_and_resumes(ladder: Ladder) -> None:
    out = ladder.folder / "record.json"
    words = ["--device", "simt", "--workloads", "kmcuda_tiny", "--scopes", "assign"]
    # b2_endless comes first in the order of ids, so let v01_global's rows be there from before.
    ladder.run(*words, "--variants", "v01_global")
    words += ["--modules", BUILT_FIXTURES / "broken", "--variants", "v01_global,b2_endless"]
    command = [LADDER, "run", *words, *QUICK, "--out", out, "--resume"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def in_a_session() -> bool:
        for child in children.read_text().split():
            with contextlib.suppress(OSError):  # it may have ended
                if b"ladder_worker_simt\0run\0" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return True
        return False

    for _ in range(600):
        if in_a_session():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    record = json.loads(out.read_text())
    assert not record["context"]["complete"]
    assert {(r["variant"], r["status"]) for r in record["rows"]} == {("v01_global", "ok"), ("b2_endless", "failed")}
    assert make_record.CUT_OFF in record["rows"][-1]["reason"], "by which it knows that there is no measurement"


def test_what_is_kept_is_not_run_again_and_still_counts(ladder: Ladder) -> None:
    words = ["--device", "simt", "--modules", BUILT_FIXTURES / "wrong", "--variants", "v01_global,w1_off_by_one"]
    words += ["--workloads", "kmcuda_tiny", "--scopes", "assign"]
    before = ladder.run(*words, status=1)
    out = ladder.folder / "record.json"
    again = ladder("run", *words, *QUICK, "--out", out, "--resume")
    assert "kmcuda_tiny: 2 of 2 sessions kept from before" in again.stderr
    assert again.returncode == 1, "one of the rows is invalid"
    assert json.loads(out.read_text())["rows"] == before["rows"]


def test_a_workload_without_data_is_left_out_in_one_line(ladder: Ladder, tmp_path: Path) -> None:
    words = [
        "--device",
        "cpu",
        "--variants",
        "c0_serial,c1_fused",
        "--workloads",
        "photo_tiny,kmcuda_tiny",
        "--scopes",
        "iteration",
    ]
    out = tmp_path / "record.json"
    done = ladder("run", *words, *QUICK, "--out", out, env={**os.environ, "LADDER_CACHE": str(tmp_path)})
    assert done.returncode == 1, "it was asked for by its name"
    lines = [line for line in done.stderr.splitlines() if line]
    assert [line for line in lines if "photo_tiny" in line] == [line for line in lines if "is left out: " in line]
    assert len(lines) == 4 and lines[-2].startswith("[2/2 "), "what does not run is not counted"
    assert lines[-1] == "a workload was named, but not run: see 'left out' above"
    record = json.loads(out.read_text())
    assert [w["workload"] for w in record["context"]["left_out"]] == ["photo_tiny"]
    assert {row["workload"] for row in record["rows"]} == {"kmcuda_tiny"}
    reason = record["context"]["left_out"][0]["reason"]
    assert ladder("show", out).stdout.splitlines()[-1] == f"{'photo_tiny':<18} left out: {reason}"


def test_a_record_of_other_sources_is_not_resumed(ladder: Ladder) -> None:
    words = ["--device", "simt", "--variants", "v01_global", "--workloads", "kmcuda_tiny", "--scopes", "assign"]
    record = ladder.run(*words)
    record["context"]["git_sha"] = "0" * 40
    out = ladder.folder / "record.json"
    out.write_text(json.dumps(record))
    done = ladder("run", *words, *QUICK, "--out", out, "--resume")
    assert done.returncode == 2 and "git_sha" in done.stderr
    assert json.loads(out.read_text()) == record, "what was there is not lost"


# ------------------------------------------------------------------------------------------------------------ bad usage


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--variants", "v99*"], "v99*"),
        (["run", "--workloads", "nowhere"], "nowhere"),
        (["run", "--scopes", "assign,asign"], "asign"),
        (["run", "--device", "tpu"], "tpu"),
        (["run", "--nonsense"], "--nonsense"),
        (["run", "--axis", "block"], "block"),
        (["run", "--variants", ","], "no variant is named"),
        (["run", "--workloads", ""], "--workloads ''"),
        (["run", "--variants", "v01_global", "--device", "cpu"], "none of the chosen variants is for cpu"),
        (["run", "--resume"], "--resume requires --out"),
        (["run", "--out", "tests"], "tests is a folder"),
        (["run", "--device", "cpu", "--cache", "cold"], "--cache cold"),
        (["run", "--k", "3"], "--data"),
        (["join", "a.json"], "pieces"),
        (["join", "out.json", "nowhere.json", "nowhere.json"], "nowhere.json"),
        (["run", "--data", "nowhere.npy", "--k", "3"], "nowhere.npy"),
        (["show", "nowhere.json"], "nowhere.json"),
        ([], "subcommand"),
        (["run", "--max-time", "0"], "--max-time: give a number above 0, not '0'"),
        (["run", "--min-time", "-1"], "--min-time: give a number of at least 0, not '-1'"),
        (["tune", "--max-time", "long"], "--max-time: give a number above 0, not 'long'"),
        (["compare", "--margin", "nan", "a.json", "b.json"], "--margin nan: a finite number is needed"),
    ],
)
def test_bad_usage_is_one_sentence_and_status_2(ladder: Ladder, words: list[str], says: str) -> None:
    done = ladder(*words)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2


def test_runs_that_begin_in_one_second_write_records_of_their_own() -> None:
    words = [str(LADDER), "run", "--variants", "v01_global", "--device", "cpu"]  # ends once it has its record's lock
    runs = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(8)]
    for process in runs:
        assert "none of the chosen variants is for cpu" in process.communicate(timeout=60)[1]


@pytest.mark.parametrize(
    ("spoil", "words", "says"),
    [
        (lambda p: p.__setitem__((3, 1), np.nan), ["--k", "4"], "row 3, column 1 is NaN"),
        (lambda p: p.__setitem__((0, 4), np.inf), ["--k", "4"], "row 0, column 4 is infinite"),
        (lambda p: None, ["--k", "401"], "K = 401 is more than N = 400"),
        (lambda p: None, ["--k", "0"], "K = 0"),
        (lambda p: None, ["--k", "4", "--stop", "soon"], "soon"),
    ],
)
def test_points_that_cannot_be_clustered(
    ladder: Ladder, tmp_path: Path, spoil: Callable[[np.ndarray], None], words: list[str], says: str
) -> None:
    points = write_points(tmp_path / "own.npy")
    spoil(points)
    np.save(tmp_path / "own.npy", points)
    done = ladder("run", "--data", tmp_path / "own.npy", *words, "--out", tmp_path / "r.json")
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert not (tmp_path / "r.json").exists()


def test_a_row_without_a_direction_is_refused_with_its_number(ladder: Ladder, tmp_path: Path) -> None:
    points = write_points(tmp_path / "own.npy")
    points[37] = points[41] = 0
    np.save(tmp_path / "own.npy", points)
    words = ["run", "--data", tmp_path / "own.npy", "--k", "4", "--out", tmp_path / "r.json", "--metric"]
    done = ladder(*words, "cosine")
    assert done.returncode == 2 and "row 37 is the zero vector, which has no direction" in done.stderr, done.stderr
    done = ladder(*words, "cosine", "--kernel", "linear")
    assert done.returncode == 2 and "kernel k-means has a distance of its own" in done.stderr, done.stderr
    assert not (tmp_path / "r.json").exists()


def test_what_no_variant_takes_is_an_error(ladder: Ladder, tmp_path: Path) -> None:
    write_points(tmp_path / "wide.npy", n=40, d=3000)
    words = ["run", "--data", tmp_path / "wide.npy", "--device", "simt", "--k", "30", "--out", tmp_path / "r.json"]
    done = ladder(*words, "--variants", "v01a_constant", *QUICK)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "none of the chosen variants takes wide (40 x 3000, K = 30): v01a_constant " in last, last
    assert "65536" in last, last
    assert {row["status"] for row in json.loads((tmp_path / "r.json").read_text())["rows"]} == {"refused"}


# ------------------------------------------------------------------------------------------- sparse rows of one's own


def write_rows(stem: Path, shape: object = (3, 4), **parts: list) -> Path:
    """Sparse rows as `prepare.py convert` leaves them; returns the name that it was given."""
    rows = {"row_begin": [0, 2, 3, 4], "column": [0, 2, 1, 3], "value": [1, 2, 3, 4]} | parts
    for part, dtype in (("row_begin", np.int64), ("column", np.int32), ("value", np.float32)):
        np.save(f"{stem}.{part}.npy", np.array(rows[part], dtype))
    stem.with_suffix(".json").write_text(json.dumps({"shape": shape}))
    return stem.with_suffix(".npy")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_are_the_points_that_they_stand_for(ladder: Ladder, tmp_path: Path, dtype: type) -> None:
    rng = np.random.default_rng(2)
    dense = np.where(rng.random((300, 40)) < 0.1, rng.normal(size=(300, 40)), 0).astype(np.float32)
    at = np.argwhere(dense)
    begin = np.concatenate([[0], np.cumsum((dense != 0).sum(1))])
    rows = write_rows(tmp_path / "rows", dense.shape, row_begin=begin, column=at[:, 1], value=dense[dense != 0])
    np.save(tmp_path / "dense.npy", dense.astype(dtype))
    init = tmp_path / "init.npy"
    np.save(init, dense[:6].astype(dtype))
    kind = ["--type", "f64"] if dtype is np.float64 else []
    right = solved(ladder, "--data", tmp_path / "dense.npy", "--init", init)
    found = solved(ladder, "--data", rows, "--init", init, *kind)
    assert all((found[name] == right[name]).all() for name in ("labels", "centroids", "initial_centroids"))
    assert found["record"]["data_hash"] == right["record"]["data_hash"]
    assert found["record"]["nonzeros"] == len(at) and found["record"]["type"] == ("f64" if kind else "f32")
    words = ["--variants", "v04a_csr,v01_global", "--scopes", "upload", "--data", rows, "--init", init, *kind]
    assert {row["status"] for row in ladder.run("--device", "simt", *words)["rows"]} == {"ok"}


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"column": [2, 0, 1, 3]}, "row 0 has column 0 after column 2: sort the entries of each row by column"),
        ({"column": [2, 2, 1, 3]}, "row 0 has two entries in column 2: add them up, or keep one"),
        ({"column": [0, 2, 1, 4]}, "row 2 has an entry in column 4: columns are 0 to 3"),
        ({"column": [0, 2, -1, 3]}, "row 1 has an entry in column -1: columns are 0 to 3"),
        ({"value": [1, 2, np.nan, 4]}, "row 1, column 1 is NaN"),
        ({"value": [1, 2, 3]}, "holds 3 values and"),
        ({"row_begin": [1, 2, 3, 4]}, "row 0 begins at entry 1, where the first entry is 0"),
        ({"row_begin": [0, 3, 2, 4]}, "row 1 begins at entry 3 and ends before entry 2: rows follow each other"),
        ({"row_begin": [0, 2, 3, 9]}, "the last row ends after entry 9 of 4: rows hold all entries"),
        ({"row_begin": [0]}, "at least one row needs two, its begin and its end"),
        ({"row_begin": [0, 2, 4]}, "holds 2 rows, 3 are expected"),
        ({"shape": (3, -4)}, "has the shape [3,-4]: rows and columns are numbers from 1 to 2147483647"),
        ({"shape": (3, 2**40)}, "has the shape [3,1099511627776]"),
        ({"shape": (3,)}, "has the shape [3]"),
        ({"shape": None}, "has the shape null"),
    ],
)
def test_sparse_rows_that_cannot_be(ladder: Ladder, tmp_path: Path, parts: dict, says: str) -> None:
    (tmp_path / "data").mkdir()
    rows = write_rows(tmp_path / "data" / "rows", **parts)
    before = sorted(path.name for path in (tmp_path / "data").iterdir())
    done = ladder("run", "--data", rows, "--k", "2", "--out", tmp_path / "r.json")
    assert done.returncode == 2 and says in done.stderr and str(tmp_path / "data") in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "r.json").exists()
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == before


def test_sparse_rows_need_their_description(ladder: Ladder, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows")
    rows.with_suffix(".json").unlink()
    done = ladder("run", "--data", rows, "--k", "2")
    assert done.returncode == 2 and "rows.json is not there, which tells how many columns" in done.stderr


def test_a_matrix_that_no_disk_holds_is_refused(ladder: Ladder, tmp_path: Path) -> None:
    most = 2**31 - 1
    rows = write_rows(tmp_path / "rows", (3, most), column=[0, 2, 1, most - 1])
    small = {**os.environ, "TMPDIR": str(tmp_path)}
    limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 1000; exec "$@"', "-", LADDER, "run", "--data", rows, "--k", "2"]
    done = subprocess.run(limited, cwd=ROOT, env=small, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "bytes of disk" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def solved(ladder: Ladder, *words: str | Path) -> dict[str, np.ndarray]:
    """What a solve of one's own data left, and the record's workload."""
    options = ["--device", "cpu", "--variants", "c0_serial", "--scopes", "solve", "--stop", "fixed:3"]
    record = ladder.run(*options, *words, "--dump", ladder.folder / "dump")
    folder = ladder.folder / record["rows"][0]["dump"]
    names = ("labels", "centroids", "initial_centroids")
    return {name: np.load(folder / f"{name}.npy") for name in names} | {"record": record["workloads"][0]}


def test_fortran_order_is_converted_and_said(ladder: Ladder, tmp_path: Path) -> None:
    points = write_points(tmp_path / "own.npy")
    (tmp_path / "f").mkdir()
    np.save(tmp_path / "f" / "own.npy", np.asfortranarray(points))
    np.save(tmp_path / "init.npy", points[:3])
    np.save(tmp_path / "f" / "init.npy", np.asfortranarray(points[:3]))
    right = solved(ladder, "--data", tmp_path / "own.npy", "--init", tmp_path / "init.npy")
    words = ["--data", tmp_path / "f" / "own.npy", "--init", tmp_path / "f" / "init.npy"]
    found = solved(ladder, *words)
    assert all((found[name] == right[name]).all() for name in ("labels", "centroids", "initial_centroids"))
    assert found["record"]["data_hash"] == right["record"]["data_hash"]
    said = ladder(
        "run", *words, "--device", "cpu", "--variants", "c0_serial", "--check", "--out", tmp_path / "r"
    ).stderr
    for name in ("own.npy", "init.npy"):
        assert f"{tmp_path / 'f' / name} is in Fortran order: converted for this run" in said


def test_points_and_centroids_of_one_file_name_stay_apart(ladder: Ladder, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    points = write_points(tmp_path / "a" / "x.npy")
    np.save(tmp_path / "b" / "x.npy", points[5:12])
    words = ["--data", tmp_path / "a" / "x.npy", "--init", tmp_path / "b" / "x.npy", "--type"]
    for kind, dtype in (("f64", np.float64), ("f32", np.float32)):
        found = solved(ladder, *words, kind)
        assert found["labels"].shape == (400,) and (found["record"]["n"], found["record"]["k"]) == (400, 7)
        assert found["initial_centroids"].dtype == dtype and (found["initial_centroids"] == points[5:12]).all()
        difference = points[:, None, :].astype(float) - found["centroids"][None, :, :]
        assert ((difference**2).sum(2).argmin(1) == found["labels"]).mean() > 0.9, "near its own centroids"


# ------------------------------------------------------------------------------------------------------ names and files


def test_harness_and_plots_name_no_variant() -> None:
    names = ids(*ALL)
    for folder in ("harness", "plots"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                text = path.read_text(errors="replace")
                assert not [name for name in names if name in text], path


def test_every_variant_tells_what_differs() -> None:
    paths = [path for ending in ("cu", "cpp") for path in ROOT.glob(f"variants/*/*.{ending}")]
    assert len(paths) > 40
    for path in paths:
        first = path.read_text().splitlines()[0]
        assert first.startswith(f"// {path.stem.split('_')[0]}: "), f"{path.name} opens with: {first}"


def test_the_sanitized_build_names_kernel_block_thread_and_line(ladder: Ladder) -> None:
    sanitized = ROOT / "build-asan"
    if not (sanitized / "ladder_worker_simt").exists():
        pytest.skip("the asan preset is not built")
    out = ladder.folder / "record.json"
    # It calls the workers, and offers the variants, that lie beside it.
    program = ladder.folder / "ladder"
    shutil.copy2(LADDER, program)
    for name in ("ladder_worker_simt", "variants"):
        (ladder.folder / name).symlink_to(sanitized / name)
    command = [
        program,
        "run",
        "--modules",
        sanitized / "tests" / "fixtures" / "broken",
        "--device",
        "simt",
        "--variants",
        "b5_out_of_bounds,v13d_folded_norms",
        "--workloads",
        "kmcuda_tiny",
        "--scopes",
        "assign",
        *QUICK,
        "--out",
        out,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    rows = {r["variant"]: r for r in json.loads(out.read_text())["rows"]}
    assert rows["v13d_folded_norms"]["status"] == "ok"
    reason = rows["b5_out_of_bounds"]["reason"]
    line = 1 + next(
        i
        for i, text in enumerate((FIXTURES / "broken" / "b5_out_of_bounds.cu").read_text().splitlines())
        if "both faults" in text
    )
    for word in (
        "host memory",
        "kernel assign_kernel",
        "block (0, 0, 0)",
        f"b5_out_of_bounds.cu:{line}",
    ):
        assert word in reason, reason
    # Threads run in an order drawn anew in each launch: any of them may be the first to go wrong.
    assert re.search(r"thread \(\d+, 0, 0\)", reason), reason


def test_check_says_what_a_variant_has_not(ladder: Ladder) -> None:
    words = ["--check", "--variants", "i1_random", "--workloads", "points2d_tiny", "--scopes", "initialise,solve"]
    rows = {row["scope"]: row for row in ladder.run(*words)["rows"]}
    assert rows["initialise"]["status"] == "checked"
    assert rows["solve"]["status"] == "refused"
    assert rows["solve"]["reason"] == "this variant is about initialisation alone"


def test_drawn_centroids_are_dumped_for_another_run(ladder: Ladder) -> None:
    """The first centroids that a rung of initialisation drew are what `--init` takes."""
    dump = ladder.folder / "dump"
    ladder.run("--variants", "i1_random", "--workloads", "points2d_tiny", "--scopes", "initialise", "--dump", dump)
    drawn = np.load(dump / "points2d_tiny" / "i1_random" / "initial_centroids.npy")
    assert drawn.shape == (20, 2)
    points = np.load(ROOT / "datasets" / "cache" / "points2d_tiny.npy")
    assert all((row == points).all(axis=1).any() for row in drawn)
