"""Runs with several processes (ranks) on the CPU device: the bits of one process, what a record says of them, and how
they end where one dies. tests/runner/session/several.cpp tries several devices of one process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import BUILT_FIXTURES, LADDER, ROOT, Ladder

RUNGS = "v33a_split_rows,v33b_overlapped_sum,v44a_pruned_on_several,v32e_chunks_on_several"
K = 5


@pytest.fixture
def points(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(K, 5))[rng.integers(K, size=60)] * 2 + rng.normal(size=(60, 5))
    rows[:30] = np.round(3 * rows[:30])  # a format of the sums for rank 0's rows alone would be wrong
    rows[58] *= 4096
    np.save(tmp_path / "mine.npy", rows.astype(np.float32))
    return tmp_path / "mine.npy"


def words(points: Path, gpus: int, ranks: int, launcher: str = "own", variants: str = RUNGS) -> list[str | Path]:
    chosen = ["--device", "simt", "--variants", variants, "--data", points, "--k", str(K)]
    if "v44a" in variants:
        chosen += ["--axis", "short_row_width=32"]  # few features: a pilot would not prune
    return [*chosen, "--gpus", str(gpus), "--ranks", str(ranks), "--launcher", launcher]


def results(ladder: Ladder, points: Path, gpus: int, ranks: int, *more: str) -> dict[str, object]:
    """All that each rung leaves: labels (the first and the last), centroids (initial and last), and its iterations."""
    dump = ladder.folder / f"{gpus} x {ranks}"
    rows = ladder.run(*words(points, gpus, ranks, *more), "--check", "--dump", dump)["rows"]
    assert {row["status"] for row in rows} <= {"checked", "refused"}
    for row in rows:
        assert {len(values) for values in row["counters"].values()} <= {len(row["reassigned"])}, row["counters"]
    assert {(row["gpus"], row["ranks"]) for row in rows} == {(gpus, ranks)}
    files = sorted(dump.glob("mine/*/*.npy"))
    found: dict[str, object] = {f"{file.parent.name}/{file.name}": file.read_bytes() for file in files}
    return found | {row["variant"]: row["reassigned"] for row in rows if row["reassigned"]}


def test_ranks_give_the_bits_of_one_process(ladder: Ladder, points: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rungs = RUNGS.split(",")
    of_one = results(ladder, points, 1, 1)
    assert len(of_one) == 5 * len(rungs)
    assert all(len(of_one[rung]) > 2 for rung in rungs), "a solve so short shows little"
    for gpus, ranks, some in ((2, 2, rungs[1:]), (1, 3, rungs[::2]), (1, 4, rungs[1::2])):
        monkeypatch.setenv("SIMT_LATE_STREAMS", str(ranks % 2))
        found = results(ladder, points, gpus, ranks, "own", ",".join(some))
        expected = {name: value for name, value in of_one.items() if name.split("/")[0] in some}
        assert found == expected, f"{gpus} devices in each of {ranks} ranks"


NO_MPI = not (shutil.which("mpirun") or shutil.which("mpiexec"))
with_mpi = pytest.mark.skipif(NO_MPI, reason="neither mpirun nor mpiexec is on the PATH")


@with_mpi
def test_ranks_of_mpis_launcher_give_the_same(ladder: Ladder, points: Path) -> None:
    rung = "v33a_split_rows"
    assert results(ladder, points, 1, 3, "mpi", rung) == results(ladder, points, 1, 1, "own", rung)


def test_a_record_has_communication_and_efficiency(ladder: Ladder, points: Path) -> None:
    chosen = ["--scopes", "solve,iteration"]
    (alone, _) = ladder.run(*words(points, 1, 1, variants="v33a_split_rows"), *chosen)["rows"]
    assert alone["ranks"] == 1
    assert alone["communication_ms"] is alone["communication_share"] is alone["parallel_efficiency"] is None
    rows = ladder.run(*words(points, 1, 2, variants="v33a_split_rows"), *chosen, "--resume")["rows"]
    times = {(row["scope"], row["ranks"]): row for row in rows}
    assert len(rows) == len(times) == 4
    for scope in ("solve", "iteration"):
        one, two = times[scope, 1], times[scope, 2]
        assert two["communication_share"] == pytest.approx(two["communication_ms"] / two["median_ms"])
        assert two["parallel_efficiency"] == pytest.approx(one["median_ms"] / (2 * two["median_ms"]))
        assert two["communication_ms"] > 0
    assert "ranks 2" in ladder("show", ladder.folder / "record.json").stdout


def test_what_is_timed_begins_when_all_ranks_are_ready(ladder: Ladder, points: Path) -> None:
    """One of them takes 50 ms more to get the initial centroids, which an iteration's time does not include."""
    chosen = [*words(points, 1, 3, variants="t13_ranks"), "--modules", BUILT_FIXTURES / "contract", "--axis", "fault=6"]
    (row,) = ladder.run(*chosen, "--scopes", "iteration")["rows"]
    assert row["status"] == "ok" and row["median_ms"] < 25


def test_a_variant_of_one_gpu_stays_in_one_process(ladder: Ladder, points: Path) -> None:
    rows = ladder.run(*words(points, 2, 2, variants="v02_pinned"), "--scopes", "assign")["rows"]
    assert [(row["gpus"], row["ranks"], row["status"]) for row in rows] == [(1, 1, "ok")]


@pytest.mark.parametrize(
    ("environment", "launcher", "says"),
    [
        ({"PATH": "/nonexistent"}, "mpi", "neither mpirun nor mpiexec is on the PATH"),
        ({"LADDER_MPIRUN": "/nonexistent/mpirun"}, "auto", "LADDER_MPIRUN=/nonexistent/mpirun"),
    ],
)
def test_a_launcher_that_is_not_there_is_named(
    ladder: Ladder, points: Path, environment: dict[str, str], launcher: str, says: str
) -> None:
    out = ["--out", ladder.folder / "record.json", "--check"]
    done = ladder("run", *words(points, 1, 2, launcher), *out, env=os.environ | environment)
    assert done.returncode != 0 and says in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (1, "rank 1: the second rank is out of order"),
        (2, "rank 1: refuses the points, and rank 0 does not: row 0 is not to its liking"),
        (3, "rank 1 gives 4 bytes where rank 0 gives 8"),
        (4, "ended with status 3: the other ranks were ended, too"),
        (5, "the first rank is out of order"),
    ],
)
def test_a_rank_that_goes_wrong_says_why(ladder: Ladder, points: Path, fault: int, says: str) -> None:
    chosen = [*words(points, 1, 3, variants="t13_ranks"), "--modules", BUILT_FIXTURES / "contract", "--check"]
    begin = time.monotonic()
    rows = ladder.run(*chosen, "--axis", f"fault={fault}", status=1)["rows"]
    assert time.monotonic() - begin < 20, "it waited for the time limit"
    assert {row["status"] for row in rows} == {"failed"}
    assert says in rows[0]["reason"]


def children(of: int) -> Iterator[int]:
    """Processes below this one."""
    for line in Path(f"/proc/{of}/task/{of}/children").read_text().split():
        yield int(line)
        yield from children(int(line))


def command_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_text().split("\0")


def rank_of(process: int) -> int:
    """-1: it is no rank."""
    try:
        words = command_of(process)
    except OSError:  # it has ended
        return -1
    if words[1:2] == ["run"] and Path(words[0]).name.startswith("ladder_worker"):
        return 0
    if words[1:2] == ["follow"]:
        return int(words[3])
    environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0") if words[1:2] == ["launched"] else []
    numbers = [word.split(b"=")[1] for word in environment if word.split(b"=")[0] in RANK_WORDS]
    return int(numbers[0]) if numbers else -1


RANK_WORDS = (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"PMIX_RANK")
dying = [(0, "own"), (2, "own"), pytest.param(0, "mpi", marks=with_mpi), pytest.param(1, "mpi", marks=with_mpi)]


@pytest.mark.parametrize(("dies", "launcher"), dying)
def test_a_rank_that_dies_ends_the_run_and_is_named(ladder: Ladder, points: Path, dies: int, launcher: str) -> None:
    chosen = [*words(points, 1, 3, launcher, "v33a_split_rows"), "--scopes", "solve", "--out", ladder.folder / "r.json"]
    command = [str(LADDER), "run", *map(str, chosen), "--min-time", "100", "--max-time", "100"]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + 30
        found: list[int] = []
        while not found:
            assert time.monotonic() < deadline and run.poll() is None, "the rank did not begin"
            time.sleep(0.05)
            found = [process for process in children(run.pid) if rank_of(process) == dies]
        time.sleep(0.5)  # it is at work
        begin = time.monotonic()
        os.kill(found[0], signal.SIGKILL)
        said, _ = run.communicate(timeout=10)
        assert time.monotonic() - begin < 10
        assert run.returncode == 1
        assert f"rank {dies}" in said, said
        assert "signal 9 (Killed)" in said or (launcher == "mpi" and dies > 0), said
    finally:
        run.kill()
        run.wait()
