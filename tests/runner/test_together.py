"""Sessions of a check share a worker. What one of them does is seen in its own rows only, as if each were alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import BUILD, LADDER, QUICK, ROOT, Ladder
from fake_build import END, Event, FakeBuild, doing, result

Row = dict[str, Any]
BEGIN: Event = {"event": "begin"}
NEXT: Event = {"event": "next"}


class Counted:
    """The build, with a worker that notes each process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules = folder / "modules"
        self.expected: list[str] = []
        self.build = folder / "build"
        self.build.mkdir()
        shutil.copy2(LADDER, self.build / "ladder")
        (self.build / "variants").symlink_to(BUILD.resolve() / "variants")
        real = BUILD.resolve() / "ladder_worker_simt"
        script = f'#!/bin/sh\necho "$@" >> {folder}/started\nexec {real} "$@"\n'
        (self.build / real.name).write_text(script)
        (self.build / real.name).chmod(0o755)
        (self.modules / "simt").mkdir(parents=True)

    def add(self, module: str, begin: str) -> str:
        """A built variant whose name begins so: runs take variants in the order of their names."""
        source = BUILD / f"{module}.so"
        name = begin + source.stem[len(begin) :]
        old, new = source.stem[:8].encode(), name[:8].encode()  # in the module as text, or as a number in the code
        for ending in (".so", ".json"):
            made = self.modules / "simt" / f"{name}{ending}"
            made.write_bytes(source.with_suffix(ending).read_bytes().replace(old, new))
        self.expected.append(f"simt/{name}\n")
        (self.modules / "expected.txt").write_text("".join(self.expected))
        return name

    def run(self, *words: str | Path) -> tuple[list[Row], str, int]:
        """The rows, what was said of the way, and how many processes ran sessions."""
        (self.folder / "started").write_text("")
        out = self.folder / "record.json"
        command = [self.build / "ladder", "run", "--device", "simt", *QUICK, "--time-limit", "3", *words, "--out", out]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        sessions = [line for line in (self.folder / "started").read_text().splitlines() if line.startswith("run ")]
        return json.loads(out.read_text())["rows"], done.stderr, len(sessions)


@pytest.fixture
def counted(ladder: Ladder, tmp_path: Path) -> Counted:
    return Counted(tmp_path)


@pytest.fixture
def fake(ladder: Ladder, tmp_path: Path) -> FakeBuild:
    return FakeBuild(tmp_path)


def test_a_check_has_a_process_for_each_workload_and_a_timed_run_one_for_each_session(counted: Counted) -> None:
    words = ["--variants", "v01_global,v01a_constant,v02_pinned,c0_serial", "--scopes", "assign,solve"]
    words += ["--workloads", "kmcuda_tiny,tiles_tiny"]
    rows, _, processes = counted.run(*words, "--check")
    assert [row["status"] for row in rows] == ["checked"] * 16
    assert processes == 2 * (1 + 1), "native code stays alone"
    rows, _, processes = counted.run(*words)
    assert [row["status"] for row in rows] == ["ok"] * 16 and processes == 8


def alone_but_for_clocks(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "prepare_ms"} for row in rows]


def said_of(errors: str) -> dict[str, str]:
    """The line of each session, and what the session wrote."""
    parts = re.split(r"^\[.*?\] ", errors, flags=re.M)[1:]
    return {part.split()[0]: part for part in parts}


def test_what_goes_wrong_in_the_middle_leaves_all_other_rows_as_they_are_alone(counted: Counted) -> None:
    # Two that are right write something; the next, which ends without a word, is not to be given it.
    modules = ["mistakes/simt/e1_printf", "mistakes/simt/e1_printf", "broken/simt/b1_abort", "broken/simt/b3_segfault"]
    modules += ["broken/simt/b4_throws", "broken/simt/b6_leaves_an_error", "mistakes/simt/e14_shared_overrun"]
    modules += ["mistakes/simt/e15_too_many_threads", "mistakes/simt/e17_endless", "wrong/simt/w1_off_by_one"]
    names = []
    for at, module in enumerate(modules):
        names.append(counted.add("variants/simt/v01_global", f"r{at}0"))
        names.append(counted.add(f"tests/fixtures/{module}", f"r{at}1"))
    names.append(counted.add("variants/simt/v01_global", "rx0"))
    words = [
        "--check",
        "--modules",
        counted.modules,
        "--workloads",
        "kmcuda_tiny",
        "--scopes",
        "solve",
        "--show-output",
    ]
    rows, errors, processes = counted.run(*words, "--variants", "r??*")
    assert [row["variant"] for row in rows] == names
    wrong = {name for name in names if name[2] == "1"} - {names[1], names[3], names[11]}
    assert {row["variant"] for row in rows if row["status"] != "checked"} == wrong
    assert processes == 1 + len(wrong), "a new one after each that went wrong; what leaves an error leaves it apart"
    for row in rows:
        alone, said, _ = counted.run(*words, "--variants", row["variant"])
        assert alone_but_for_clocks([row]) == alone_but_for_clocks(alone)
        assert said_of(errors)[row["variant"]].splitlines() == said_of(said)[row["variant"]].splitlines()
    reasons = {row["variant"]: row["reason"] for row in rows}
    assert reasons[names[5]].startswith("ended by signal 6"), "no words of another"
    for name in (names[13], names[15], names[17]):
        assert "kernel assign_kernel<float>" in reasons[name]


def test_a_worker_that_ends_while_it_waits_costs_nothing(fake: FakeBuild) -> None:
    checked = [BEGIN, doing("validation"), result(), END, NEXT]
    for variant, after in (("x1", [{"signal": 9}]), ("x2", []), ("x3", [{"sleep": 60}])):
        fake.add(variant)
        fake.plan["sessions"][variant] = [*checked, *after]
    begin = time.monotonic()
    rows = fake.run("--device", "cuda", "--check", "--scopes", "solve")["rows"]
    assert time.monotonic() - begin < 30, "nobody waits for the last to end"
    assert [(row["variant"], row["status"]) for row in rows] == [(f"x{i}", "checked") for i in (1, 2, 3)]


def test_one_that_ends_once_it_has_begun_fails(fake: FakeBuild) -> None:
    fake.add("x2")
    fake.plan["sessions"]["x1"] = [BEGIN, result(), {"sleep": 60}]
    fake.plan["sessions"]["x2"] = [BEGIN, doing("validation"), {"signal": 11}]
    rows = fake.run("--device", "cuda", "--check", "--scopes", "solve", "--time-limit", "1", status=1)["rows"]
    assert [row["status"] for row in rows] == ["failed", "failed"]
    assert "not done after 1 s" in rows[0]["reason"] and "signal 11" in rows[1]["reason"]


def test_what_is_timed_or_has_several_gpus_or_is_python_stays_alone(fake: FakeBuild) -> None:
    fake.add("x2", gpus=2)
    fake.add("x3")
    (fake.build / "variants" / "cuda" / "x3.py").write_text("")
    fake.add("x4", "cpu")
    words = ["--device", "cuda", "--gpus", "2", "--scopes", "solve"]
    fake.run(*words, "--check")
    assert {request["variant"]: request["shares"] for request in fake.asked()} == {
        "x1": True,
        "x2": False,
        "x3": False,
        "x4": False,
    }
    fake.run(*words)
    assert not any(request["shares"] for request in fake.asked()[4:])


def test_timed_sessions_share_a_process_where_they_are_asked_to(counted: Counted) -> None:
    words = ["--variants", "v01_global,v02_pinned,c0_serial", "--scopes", "assign,solve", "--share"]
    words += ["--workloads", "kmcuda_tiny,tiles_tiny"]
    rows, _, processes = counted.run(*words)
    assert [row["status"] for row in rows] == ["ok"] * 12
    assert processes == 1 + 2, "one for all workloads; native code stays alone"
    rows, _, processes = counted.run(*words, "--check")
    assert [row["status"] for row in rows] == ["checked"] * 12 and processes == 1 + 2


def test_with_several_gpus_a_timed_session_never_shares(fake: FakeBuild) -> None:
    fake.add("x2", gpus=2)
    fake.add("x3")
    (fake.build / "variants" / "cuda" / "x3.py").write_text("")
    fake.run("--device", "cuda", "--gpus", "2", "--scopes", "solve", "--share")
    assert {r["variant"]: r["shares"] for r in fake.asked()} == {"x1": True, "x2": False, "x3": True}
