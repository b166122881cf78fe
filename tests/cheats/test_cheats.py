"""Variants that do not earn their times, or harm the session: each ends with a true reason, between two honest ones
that it leaves as they are. `//! NAME: STATUS: WORDS` in the sources says how."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import BUILD, LADDER, ROOT

from plots.lib.schema import violations

BUILT = BUILD / "tests" / "cheats"
pytestmark = pytest.mark.alone


class Cheat(NamedTuple):
    name: str
    status: str
    how: str
    words: str


def cheats_in(file: str) -> list[Cheat]:
    text = (Path(__file__).parent / file).read_text()
    found = re.findall(r"^//! (\w+): (invalid|failed|unstable)(?: \((\w+)\))?: (.*)$", text, re.M)
    return [Cheat(*fields) for fields in found]


HOST, GPU = cheats_in("host_cheats.cpp"), cheats_in("device_cheats.cu")
DEVICE = [cheat for cheat in GPU if cheat.how != "cuda"]


def copies(folder: Path, home: str, module: Path, names: list[str]) -> None:
    """The module under each of these names, with its card."""
    (folder / home).mkdir(parents=True)
    for name in names:
        copy = folder / home / f"{name}.so"
        shutil.copy(module, copy)
        worker = BUILD / ("ladder_worker_cuda" if home == "cuda" else "ladder_worker_simt")
        subprocess.run([worker, "card", copy, home, copy.with_suffix(".json")], check=True, timeout=60)
    (folder / "expected.txt").write_text("".join(f"{home}/{name}\n" for name in names))


def rows_of(folder: Path, home: str, module: Path, cheats: list[Cheat], *words: str) -> dict[str, list[dict[str, Any]]]:
    """By variant: the rows of a run in which an honest variant precedes and follows the cheats."""
    names = ["a_honest", *(f"{cheat.name}" for cheat in cheats), "zz_honest"]
    copies(folder / "modules", home, module, names)
    rng = np.random.default_rng(3)
    points, k = (9000, 32) if home != "cuda" else (400_000, 256)  # what a GPU does in microseconds hides in margins
    np.save(folder / "points.npy", rng.normal(size=(points, 24)).astype(np.float32))
    command = [LADDER, "run", "--modules", folder / "modules", "--variants", ",".join(names), "--device", home]
    command += ["--data", folder / "points.npy", "--k", str(k), "--stop", "fixed:12", "--judge", "apart"]
    command += ["--min-time", "0.02", "--max-time", "0.1", "--out", folder / "record.json", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
    assert (folder / "record.json").exists(), done.stderr
    record = json.loads((folder / "record.json").read_text())
    assert violations(record) == []
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for row in record["rows"]:
        found[row["variant"]].append(row)
    return found


def run_all(folder: Path, home: str, module: Path, cheats: list[Cheat]) -> dict[str, list[dict[str, Any]]]:
    if not module.exists():
        pytest.skip(f"{module} is not built")
    quick = [cheat for cheat in cheats if cheat.how != "patient"]
    patient = [cheat for cheat in cheats if cheat.how == "patient"]
    if not patient:
        return rows_of(folder / "quick", home, module, quick, "--time-limit", "60")
    with ThreadPoolExecutor() as pool:  # the patient ones wait for their limit, and leave the cores to the others
        waiting = pool.submit(rows_of, folder / "patient", home, module, patient, "--time-limit", "4")
        found = rows_of(folder / "quick", home, module, quick, "--time-limit", "60")
        slow = waiting.result()
    for honest in ("a_honest", "zz_honest"):
        found[honest] += slow.pop(honest)
    return found | slow


class Runs:
    """The runs of one file of cheats. Some are found by their times alone, and what a time says is a matter of chance
    where a machine has other work, too: if a test does not hold in the first run, it must in both of two more."""

    def __init__(self, folder: Path, home: str, module: Path, cheats: list[Cheat]) -> None:
        self.folder, self.home, self.module, self.cheats = folder, home, module, cheats
        self.rows: list[dict[str, list[dict[str, Any]]]] = []

    def run(self, number: int) -> dict[str, list[dict[str, Any]]]:
        while len(self.rows) <= number:
            folder = self.folder / str(len(self.rows))
            self.rows.append(run_all(folder, self.home, self.module, self.cheats))
        return self.rows[number]

    def hold(self, wrong: Callable[[dict[str, list[dict[str, Any]]]], str]) -> None:
        """`wrong` says what is not as it ought to be in a run; nothing where all is well."""
        first = wrong(self.run(0))
        if first:
            said = [wrong(self.run(number)) for number in (1, 2)]
            assert not any(said), "\n".join(("of three runs:", first, *said))


@pytest.fixture(scope="module")
def host_runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("host"), "cpu", BUILT / "cpu" / "host_cheats.so", HOST)


@pytest.fixture(scope="module")
def simt_runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("simt"), "simt", BUILT / "simt" / "device_cheats.so", DEVICE)


@pytest.fixture(scope="module")
def gpu_runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("cuda"), "cuda", BUILT / "cuda" / "device_cheats.so", GPU)


ALL = {"host_runs": HOST, "simt_runs": DEVICE, "gpu_runs": GPU}


@pytest.mark.parametrize(
    ("which", "cheat"),
    [pytest.param(which, cheat, id=f"{which}-{cheat.name}") for which, cheats in ALL.items() for cheat in cheats],
)
def test_a_cheat_is_found(which: str, cheat: Cheat, request: pytest.FixtureRequest) -> None:
    def wrong(rows: dict[str, list[dict[str, Any]]]) -> str:
        reasons = {(row["status"], row["reason"]) for row in rows[cheat.name] if row["status"] != "refused"}
        told = [reason for status, reason in reasons if status == cheat.status]
        found = any(words in reason for reason in told for words in cheat.words.split(" | "))
        return "" if found else f"{cheat.name} has {sorted(reasons)}"

    request.getfixturevalue(which).hold(wrong)


@pytest.mark.parametrize("which", ALL)
def test_honest_variants_beside_cheats_are_left_as_they_are(which: str, request: pytest.FixtureRequest) -> None:
    def wrong(rows: dict[str, list[dict[str, Any]]]) -> str:
        told = {
            (name, row["scope"], row["status"], row["reason"])
            for name in ("a_honest", "zz_honest")
            for row in rows[name]
            if row["status"] not in ("ok", "refused")
        }
        return str(sorted(told)) if told else ""

    request.getfixturevalue(which).hold(wrong)
