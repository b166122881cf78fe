"""Where the tests find the program, and a run of it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from plots.lib.schema import violations

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("LADDER_BUILD", ROOT / "build"))
LADDER = BUILD / "ladder"
FIXTURES = ROOT / "tests" / "fixtures"
BUILT_FIXTURES = BUILD / "tests" / "fixtures"  # the modules of the variants in FIXTURES

# Revisions by instructions that the CPU device does not have: refused there.
GPU_ONLY = {
    "v26_wgmma",
    "v27_tma_ring",
    "v28_ping_pong",
    "v29_multicast",
    "v30_packed_argmax",
    "v31_bound_columns",
}
SECONDS: Counter[str] = Counter()  # of the CPU, by the file of the tests
QUICK = ["--min-time", "0", "--max-time", "0.05"]
# Threads of libraries wait for work asleep: other tests need the cores on which they would spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of plots; sessions, which keep to OMP_* alone, have all
PATIENT = ["--time-limit", "120"]  # for a machine that has other work, too: nothing is left out as too slow


class Ladder:
    """Runs the program; `run` returns its record, which is sound."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
        command = [str(LADDER), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False, **more)

    def run(self, *words: str | Path, status: int = 0) -> dict:
        out = self.folder / "record.json"
        patient = [] if "--time-limit" in words else PATIENT
        done = self("run", *words, *QUICK, *patient, "--out", out)
        assert done.returncode == status, done.stdout + done.stderr
        record = json.loads(out.read_text())
        assert violations(record) == []
        return record


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The file that builds a clone takes longest: begun last, it would have all but one core wait for it."""
    items.sort(key=lambda item: "clone" not in item.module.__dict__)


def cpu_seconds() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    begin = cpu_seconds()
    yield
    SECONDS[item.nodeid.split("::")[0]] += cpu_seconds() - begin


def pytest_sessionfinish() -> None:
    """With LADDER_TEST_SECONDS: the CPU seconds of each file, at the end of the file of that name."""
    if name := os.environ.get("LADDER_TEST_SECONDS"):
        with Path(name).open("a") as file:
            file.write("".join(f"{seconds:.1f} {part}\n" for part, seconds in SECONDS.items()))


@pytest.fixture(scope="session", autouse=True)
def prepared_data() -> None:
    """The small data sets that this machine can have; what it cannot have is left out, with its reason."""
    command = [sys.executable, str(ROOT / "datasets" / "prepare.py"), "*_tiny"]
    subprocess.run(command, capture_output=True, cwd=ROOT, timeout=300, check=False)


@pytest.fixture
def ladder(tmp_path: Path) -> Ladder:
    if not LADDER.exists():
        pytest.fail(f"{LADDER} is not built: cmake --build build, or set LADDER_BUILD to the folder that holds it")
    return Ladder(tmp_path)
