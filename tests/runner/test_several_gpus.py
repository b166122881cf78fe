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
from conftest import LADDER, ROOT, Ladder

RUNGS = "v33a_split_rows,v33b_overlapped_sum,v44a_pruned_on_several"
K = 5


@pytest.fixture
def points(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(K, 5))[rng.integers(K, size=90)] * 2 + rng.normal(size=(90, 5))
    np.save(tmp_path / "mine.npy", rows.astype(np.float32))
    return tmp_path / "mine.npy"


def words(points: Path, gpus: int, ranks: int, launcher: str = "own", variants: str = RUNGS) -> list[str | Path]:
    chosen = ["--device", "simt", "--variants", variants, "--data", points, "--k", str(K)]
    return [*chosen, "--gpus", str(gpus), "--ranks", str(ranks), "--launcher", launcher]


def results(ladder: Ladder, points: Path, *of: int | str) -> dict[str, bytes]:
    """All that each rung leaves: labels (the first and the last) and centroids (initial and last)."""
    dump = ladder.folder / "-".join(map(str, of))
    rows = ladder.run(*words(points, *of), "--check", "--dump", dump)["rows"]
    assert {row["status"] for row in rows} <= {"checked", "refused"}
    assert {(row["gpus"], row["ranks"]) for row in rows} == {of[:2]}
    files = sorted(dump.glob("mine/*/*.npy"))
    return {f"{file.parent.name}/{file.name}": file.read_bytes() for file in files}


def test_ranks_give_the_bits_of_one_process(ladder: Ladder, points: Path) -> None:
    of_one = results(ladder, points, 1, 1)
    assert len(of_one) == 4 * len(RUNGS.split(","))
    for gpus, ranks in ((4, 2), (2, 3), (1, 4)):
        assert results(ladder, points, gpus, ranks) == of_one, f"{gpus} devices in each of {ranks} ranks"


@pytest.mark.skipif(not (shutil.which("mpirun") or shutil.which("mpiexec")), reason="no launcher of MPI here")
def test_ranks_of_mpis_launcher_give_the_same(ladder: Ladder, points: Path) -> None:
    assert results(ladder, points, 1, 2, "mpi") == results(ladder, points, 1, 2)


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


def children(of: int) -> Iterator[int]:
    """Processes below this one."""
    for line in Path(f"/proc/{of}/task/{of}/children").read_text().split():
        yield int(line)
        yield from children(int(line))


def command_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_text().split("\0")


@pytest.mark.parametrize("dies", [0, 2])
def test_a_rank_that_dies_ends_the_run_and_is_named(ladder: Ladder, points: Path, dies: int) -> None:
    chosen = [*words(points, 1, 3, variants="v33a_split_rows"), "--scopes", "solve", "--out", ladder.folder / "r.json"]
    command = [str(LADDER), "run", *map(str, chosen), "--min-time", "100", "--max-time", "100"]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wanted = (lambda words: words[1:2] == ["run"]) if dies == 0 else (lambda words: words[1:4:2] == ["follow", "2"])
        deadline = time.monotonic() + 30
        found: list[int] = []
        while not found:
            assert time.monotonic() < deadline and run.poll() is None, "the rank did not begin"
            time.sleep(0.05)
            found = [process for process in children(run.pid) if wanted(command_of(process))]
        time.sleep(1)  # it is at work
        begin = time.monotonic()
        os.kill(found[0], signal.SIGKILL)
        said, _ = run.communicate(timeout=10)
        assert time.monotonic() - begin < 10
        assert run.returncode == 1
        assert f"rank {dies}" in said and "signal 9 (Killed)" in said, said
    finally:
        run.kill()
        run.wait()
