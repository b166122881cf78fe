"""Peers: a Python file as a variant, asked through a worker as a session asks. Each planted fault must be found."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BUILD, LADDER, PATIENT, ROOT

WORKER = BUILD / "ladder_worker_simt"
SCOPES = ["iteration", "solve", "end_to_end"]

CARD = """\
CARD = {{"id": "{name}", "idea": "NumPy", "devices": ["cpu"], "arithmetic": {{"form": "difference"}}, {more}}}
"""
LLOYD = """
import numpy as np

def nearest(s, c):
    return ((s.points[:, None, :] - c[None, :, :]) ** 2).sum(2).argmin(1)

def means(s, label, c):
    c = c.copy()
    for j in range(s.k):
        if (label == j).any():
            c[j] = s.points[label == j].mean(0, dtype=np.float64)
    return c
"""
STEPS = """
def assign(s):
    s.label[:] = nearest(s, s.c)

def update(s):
    s.c[:] = means(s, s.label, s.c)
"""
# A whole solve as libraries do it: labels for the centroids that it ends with, and no count of those that changed.
LAST = """
def solve(s):
    c, before = s.centroids, None
    for done in range(1, s.stop.most + 1):
        label = nearest(s, c)
        c = means(s, label, c)
        if before is not None and (label == before).all():
            break
        before = label
    s.c[:], s.label[:] = c, nearest(s, c)
    s.reassigned += [-1] * done
"""


def points(n: int = 400, d: int = 5) -> np.ndarray:
    rng = np.random.default_rng(11)
    return (rng.normal(size=(9, d))[rng.integers(9, size=n)] * 2 + rng.normal(size=(n, d))).astype(np.float32)


class Asked:
    """One session of a worker on a peer's file: what it reports, event by event."""

    def __init__(self, folder: Path, module: Path, python: str = sys.executable, **more: object) -> None:
        x = points()
        np.save(folder / "points.npy", x)
        np.save(folder / "centroids.npy", x[:9])
        request = {
            "variant": module.stem,
            "workload": "test",
            "module": str(module),
            "device": "cpu",
            "ordinals": [],
            "ranks": 1,
            "points": str(folder / "points.npy"),
            "centroids": str(folder / "centroids.npy"),
            "csr": "",
            "type": "f32",
            "stop": "exact",
            "metric": "euclidean",
            "kernel": "none",
            "seed": 1,
            "scopes": SCOPES,
            "axes": {},
            "judge": "inside",
            "time_limit": 60,
            "warm_up_seconds": 0,
            "sustained_seconds": 0,
            "min_seconds": 0,
            "max_seconds": 0.05,
            "validation_budget": 2e9,
            "all_labels": False,
            "cold": False,
            "check_only": False,
            "profile": False,
            "dump": "",
            "validated": "",
            "begun": 0,
            "benchmark_flags": [],
        }
        assert not set(more) - set(request)
        (folder / "request.json").write_text(json.dumps(request | more))
        out, end = os.pipe()
        self.worker = subprocess.Popen(
            [str(WORKER), "run", str(folder / "request.json"), str(end)],
            pass_fds=[end],
            env=os.environ | {"LADDER_PYTHON": python},
        )
        os.close(end)
        self.lines: Iterator[str] = os.fdopen(out)

    def all(self) -> list[dict[str, Any]]:
        events = [json.loads(line) for line in self.lines]
        self.worker.wait(60)
        return events


class Told:
    """The same session, once it is over."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        of = {name: [e for e in events if e["event"] == name] for name in ("timed", "refused", "error", "result")}
        self.timed = {event["scope"]: event for event in of["timed"]}
        self.refused = "".join(event["reason"] for event in of["refused"])
        self.error = "".join(event["reason"] for event in of["error"])
        self.result = of["result"][-1] if of["result"] else None  # the first is sent before anything is timed
        self.fault = self.result["fault"] if self.result else None


@pytest.fixture
def write(tmp_path: Path) -> Any:  # noqa: ANN401
    if not WORKER.exists():
        pytest.fail(f"{WORKER} is not built: cmake --build build, or set LADDER_BUILD to the folder that holds it")

    def file(name: str, *parts: str, more: str = "") -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(CARD.format(name=name, more=more) + "".join(parts))
        return path

    return file


def ask(module: Path, **more: Any) -> Told:  # noqa: ANN401
    return Told(Asked(module.parent, module, **more).all())


# ----------------------------------------------------------------------------------------------- right ones, wrong ones


def test_a_right_peer_is_ok(write: Any) -> None:  # noqa: ANN401
    told = ask(write("right", LLOYD, STEPS))
    assert (told.refused, told.error, told.fault) == ("", "", "")
    assert told.result["validation"]["labels_wrong"] == 0
    assert told.result["validation"]["rows_checked"] > 0
    assert told.result["reassigned"][0] == 400
    assert told.result["reassigned"][-1] == 0
    for scope in SCOPES:
        assert told.timed[scope]["status"] == "ok", told.timed[scope]
        assert told.timed[scope]["median_ms"] > 0


@pytest.mark.parametrize("stop", ["exact", "fixed:3", "fixed:200"])
def test_a_right_solve_that_ends_with_an_assignment_is_ok(write: Any, stop: str) -> None:  # noqa: ANN401
    told = ask(write("last", LLOYD, LAST, more='"labels_last": True'), stop=stop)
    assert (told.refused, told.error, told.fault) == ("", "", "")
    assert told.result["iterations"] > 1
    assert told.result["reassigned"] == []  # counts that nobody knows are not made up
    assert told.timed["solve"]["status"] == "ok"


def solve_of(module: Path, tmp_path: Path) -> dict[str, Any]:
    """Its row, by a judge in another process."""
    home = tmp_path / "modules" / "cpu"
    home.mkdir(parents=True)
    shutil.move(module, home / module.name)
    subprocess.run([WORKER, "card", home / module.name, "cpu", home / f"{module.stem}.json"], check=True)
    (home.parent / "expected.txt").write_text(f"cpu/{module.stem}\n")
    np.save(tmp_path / "points.npy", points())
    command = [LADDER, "run", "--modules", home.parent, "--variants", module.stem, "--device", "cpu"]
    command += ["--judge", "apart", "--data", tmp_path / "points.npy", "--k", "9", "--stop", "fixed:3"]
    command += ["--scopes", "solve", "--max-time", "1", *PATIENT, "--out", tmp_path / "record.json"]
    subprocess.run(command, capture_output=True, check=False, env=os.environ | {"LADDER_PYTHON": sys.executable})
    (row,) = [r for r in json.loads((tmp_path / "record.json").read_text())["rows"] if r["scope"] == "solve"]
    return dict(row)


@pytest.mark.parametrize(("seconds", "status"), [(0.08, "ok"), (0.11, "ok"), (0.4, "unstable")])
def test_a_search_for_the_last_labels_in_download_takes_an_iteration(
    write: Any,  # noqa: ANN401
    tmp_path: Path,
    seconds: float,
    status: str,
) -> None:
    # Of two threads, so that the use of the CPU is twice what the clock says.
    works = (
        "\nimport hashlib\nimport threading\nimport time\n\ndef work(seconds):\n    def hashes():\n"
        "        end = time.thread_time() + seconds\n        while time.thread_time() < end:\n"
        "            hashlib.sha256(bytes(1 << 16))\n"
        "    threads = [threading.Thread(target=hashes) for _ in range(2)]\n"
        "    for thread in threads:\n        thread.start()\n    for thread in threads:\n        thread.join()\n"
    )
    slow = LAST.replace("        label = nearest", "        work(0.1)\n        label = nearest")
    download = f"\ndef download(s):\n    work({seconds})\n    s.label[:] = nearest(s, s.c)\n"
    module = write("search", LLOYD, works, slow, download, more='"labels_last": True')
    row = solve_of(module, tmp_path)
    assert row["status"] == status, row
    assert status == "ok" or "work was left to it" in row["reason"]


@pytest.mark.parametrize(("seconds", "status"), [(0.03, "ok"), (30, "unstable")])
def test_threads_of_a_library_may_watch_for_more_work_for_a_while(
    write: Any,  # noqa: ANN401
    tmp_path: Path,
    seconds: float,
    status: str,
) -> None:
    watch = (
        "\nimport hashlib\nimport threading\nimport time\n\ndef watch():\n"
        f"    end = time.monotonic() + {seconds}\n    while time.monotonic() < end:\n"
        "        hashlib.sha256(bytes(1 << 16))\n"
        "\ndef solved(s):\n    threading.Thread(target=watch, daemon=True).start()\n"
    )
    module = write("watching", LLOYD, watch, LAST + "    solved(s)\n", more='"labels_last": True')
    row = solve_of(module, tmp_path)
    assert row["status"] == status, row
    assert status == "ok" or "went on working" in row["reason"]


def test_iterations_and_a_loop_of_its_own_agree(write: Any) -> None:  # noqa: ANN401
    step = "def iterate(s):\n    s.label[:] = nearest(s, s.c)\n    s.c[:] = means(s, s.label, s.c)\n"
    told = ask(write("fused", LLOYD, step))
    assert (told.error, told.fault) == ("", "")
    assert told.result["iterations"] == ask(write("right", LLOYD, STEPS)).result["iterations"]


WRONG = {
    "stale labels": (
        STEPS.replace("s.label[:] = nearest(s, s.c)", "s.label[:] = s.kept = getattr(s, 'kept', nearest(s, s.c))"),
        "",
        "labels are wrong",
    ),
    "a wrong mean": (STEPS.replace("means(s, s.label, s.c)", "means(s, s.label, s.c) * 1.001"), "", "centroid"),
    "labels not written": (STEPS.replace("s.label[:] = nearest(s, s.c)", "nearest(s, s.c)"), "", "label -1"),
    "labels of the centroids before": (
        LAST.replace("c, nearest(s, c)", "c, label").replace("s.stop.most + 1", "min(s.stop.most, 2) + 1"),
        '"labels_last": True',
        "labels are wrong",
    ),
    "a last assignment left out of the card": (LAST, "", ""),
    "centroids of its own to begin with": (
        LAST.replace("c, before = s.centroids", "c, before = s.points[-s.k:]"),
        '"labels_last": True',
        "solve did not begin with the centroids that it was given",
    ),
    "the first solve kept": (
        LAST.replace("def solve(s):", "def again(s):")
        + """
def solve(s):
    if s.stop.rule != "exact":
        return again(s)
    if not hasattr(s, "kept"):
        again(s)
        s.kept = s.c.copy(), s.label.copy(), list(s.reassigned)
    s.c[:], s.label[:], s.reassigned = s.kept
""",
        '"labels_last": True',
        "a centroid is wrong in a timed",
    ),
    "an end before the stop rule's": (
        LAST.replace("s.stop.most + 1", "min(s.stop.most, 2) + 1"),
        '"labels_last": True',
        "which ended where labels still change",
    ),
    "the first centroids it was ever given": (
        LAST.replace(
            "c, before = s.centroids", "s.given = getattr(s, 'given', s.centroids.copy())\n    c, before = s.given"
        ),
        '"labels_last": True',
        "a centroid is wrong in iteration 2 of a solve",
    ),
    "no iteration told": (LAST.replace("[-1] * done", "[]"), '"labels_last": True', "reported no iteration"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_peer_is_rejected_for_its_reason(write: Any, fault: str) -> None:  # noqa: ANN401
    text, more, words = WRONG[fault]
    told = ask(write("wrong", LLOYD, text, more=more))
    assert (told.refused, told.error) == ("", "")
    assert told.fault
    assert words in told.fault


def test_solves_that_add_in_any_order_need_not_meet(write: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """A little more or less in its sums, and in a large cluster a label is another one some iterations later:
    two solves then have no mean in common, and each is right."""
    x = np.random.default_rng(5).random((20_000, 2)).astype(np.float32)
    np.save(tmp_path / "many.npy", x)
    np.save(tmp_path / "begin.npy", x[:9])
    files = {"points": str(tmp_path / "many.npy"), "centroids": str(tmp_path / "begin.npy")}
    any_order = LAST.replace(
        "        if before", "        if done < s.stop.most:\n            c *= noise(c)\n        if before"
    )
    noise = "def noise(c):\n    return (1 + 3e-4 * np.random.default_rng().normal(size=c.shape)).astype(np.float32)\n"
    module = write("any_order", LLOYD, noise, any_order, more='"labels_last": True')
    told = ask(module, stop="fixed:6", max_seconds=0, scopes=["solve"], **files)
    assert (told.refused, told.error, told.fault) == ("", "", "")
    assert told.timed["solve"]["labels_differ"] > 0


# On points without clusters, sums in another order are soon another way: a few labels differ, then their means, then
# more labels. The noise is larger than that of rounding, as a stand-in for many more points.
UNRULY = """
NOISE = np.random.default_rng(1)

def nearest(s, c):
    return ((c * c).sum(1) - 2 * (s.points @ c.T)).argmin(1)

def means(s, label, c):
    order, counts = label.argsort(), np.bincount(label, minlength=s.k)
    assert counts.all()
    begins = counts.cumsum() - counts
    return (np.add.reduceat(s.points[order], begins, dtype=np.float64) / counts[:, None]).astype(np.float32)

def solve(s):
    c, noise = s.centroids, NOISE
    for done in range(1, s.stop.most + 1):
        c = means(s, nearest(s, c), c)
        if done < s.stop.most:
            c = (c * (1 + 1e-4 * noise.normal(size=c.shape))).astype(np.float32)
    s.c[:], s.label[:] = c, nearest(s, c)
    s.reassigned += [-1] * s.stop.most
"""


def unruly(write: Any, tmp_path: Path, solve: str, more: str = '"labels_last": True, ') -> Told:  # noqa: ANN401
    x = np.random.default_rng(5).normal(size=(20_000, 64)).astype(np.float32)
    np.save(tmp_path / "many.npy", x)
    np.save(tmp_path / "begin.npy", x[:100])
    files = {"points": str(tmp_path / "many.npy"), "centroids": str(tmp_path / "begin.npy")}
    module = write("unruly", LLOYD, solve, more=more + '"arithmetic": {"form": "expanded"}')
    return ask(module, stop="fixed:10", max_seconds=0, scopes=["solve"], validation_budget=1e7, **files)


def test_a_way_that_cannot_be_repeated_is_ok_and_noted(write: Any, tmp_path: Path) -> None:  # noqa: ANN401
    told = unruly(write, tmp_path, UNRULY)
    assert (told.refused, told.error, told.fault) == ("", "", "")
    assert told.timed["solve"]["status"] == "ok"
    assert told.timed["solve"]["labels_differ"] > 0
    assert "the path of iterations is not reproducible" in told.result["validation"]["note"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        # an iteration less than asked for
        ("range(1, s.stop.most + 1)", "range(1, max(s.stop.most - 1, 1) + 1)", "wrong at the end of a solve"),
        # centroids that are no means
        (
            "    s.c[:], s",
            "    c = c if done == 1 else c + np.float32(0.1)\n    s.c[:], s",
            "wrong at the end of a solve",
        ),
        # another way than that of single iterations, and the same in each solve
        ("c, noise = s.centroids, NOISE", "c, noise = s.centroids, np.random.default_rng(1)", "at the end of a solve"),
        # noise in the last iteration too, so that none is right
        ("if done < s.stop.most:", "if True:", "centroid"),
    ],
)
def test_a_wrong_solve_is_no_other_way(
    write: Any,  # noqa: ANN401
    tmp_path: Path,
    before: str,
    after: str,
    words: str,
) -> None:
    assert UNRULY.count(before) == 1
    assert words in unruly(write, tmp_path, UNRULY.replace(before, after)).fault


# A script of one's own beside it: labels come before the means, and its phases can be called one by one.
PARTING = """
NOISE = np.random.default_rng(1)

def nearest(s, c):
    return ((c * c).sum(1) - 2 * (s.points @ c.T)).argmin(1)

def means(s, label, c):
    of = (label == np.arange(s.k)[:, None]).astype(np.float64)
    counts = of.sum(1)[:, None]
    return np.where(counts > 0, of @ s.points / np.maximum(counts, 1), c).astype(np.float32)

def solve(s):
    c, noise, most = s.centroids, NOISE, s.stop.most
    for done in range(1, most + 1):
        label = nearest(s, c)
        c = means(s, label, c)
        if done < most:
            c = (c * (1 + 1e-4 * noise.normal(size=c.shape))).astype(np.float32)
    s.c[:], s.label[:] = c, label
    s.reassigned += [-1] * s.stop.most
"""


@pytest.mark.parametrize("phases", [True, False])
def test_a_script_whose_solves_part_is_ok_and_noted(write: Any, tmp_path: Path, *, phases: bool) -> None:  # noqa: ANN401
    told = unruly(write, tmp_path, PARTING + (STEPS if phases else ""), more="")
    assert (told.refused, told.error, told.fault) == ("", "", "")
    assert told.timed["solve"]["status"] == "ok"
    assert told.timed["solve"]["labels_differ"] > 0
    assert "the path of iterations is not reproducible" in told.result["validation"]["note"]


@pytest.mark.parametrize("phases", [True, False])
@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        # an iteration less than asked for
        ("NOISE, s.stop.most", "NOISE, max(s.stop.most - 1, 1)", "labels are wrong"),
        # centroids that are no means
        ("    s.c[:], s", "    c = c if done == 1 else c + np.float32(0.1)\n    s.c[:], s", "a centroid is wrong"),
        # labels of the centroids that it leaves, not of those before
        (
            "= c, label",
            "= c, label if s.stop.most == 1 else nearest(s, c)",
            "a centroid is wrong at the end of a solve",
        ),
        # another way than that of single iterations, and the same in each solve
        ("s.centroids, NOISE", "s.centroids, np.random.default_rng(1)", "labels are wrong"),
        # noise in the last iteration too, so that none is right
        ("if done < most:", "if True:", "centroid"),
    ],
)
def test_a_wrong_script_does_not_pass_for_one_whose_solves_part(
    write: Any,  # noqa: ANN401
    tmp_path: Path,
    before: str,
    after: str,
    words: str,
    *,
    phases: bool,
) -> None:
    assert PARTING.count(before) == 1
    wrong = PARTING.replace(before, after) + (STEPS if phases else "")
    assert words in unruly(write, tmp_path, wrong, more="").fault


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("range(1, s.stop.most + 1)", "range(1, max(s.stop.most - 1, 1) + 1)"),  # an iteration less than asked for
        ("    s.c[:], s", "    c = c if done == 1 else c * np.float32(1.001)\n    s.c[:], s"),
    ],
)
def test_iterations_one_by_one_are_held_against_the_solve(write: Any, before: str, after: str) -> None:  # noqa: ANN401
    wrong = LAST.replace(before, after).replace("[-1] * done", "[-1] * s.stop.most")
    told = ask(write("wrong", LLOYD, wrong, more='"labels_last": True'), stop="fixed:4")
    assert "a centroid is wrong at the end of a solve" in told.fault


# ------------------------------------------------------------------------------------------------ refusals and failures


TRIAL_RUN = "this was in a trial run on the first 32 of 400 points"


def test_a_missing_library_is_a_refusal_and_the_card_is_there(write: Any) -> None:  # noqa: ANN401
    module = write("absent", LLOYD, STEPS, more='"library": {"module": "no_such.part", "package": "no-such"}')
    refused = re.fullmatch(r"no-such is not installed: (\S+) -m pip install no-such", ask(module).refused)
    assert refused and Path(refused[1]).name == Path(sys.executable).name
    out = module.with_suffix(".json")
    python = os.environ | {"LADDER_PYTHON": sys.executable}
    subprocess.run([str(WORKER), "card", str(module), "cpu", str(out)], check=True, env=python)
    card = json.loads(out.read_text())
    assert card["id"] == "absent"
    assert card["library"].startswith("no-such (not installed), Python 3.")


def test_a_python_without_numpy_is_a_refusal(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # -S: no site-packages
    bare.chmod(0o755)
    module = tmp_path / "p_scipy.py"
    module.write_text((ROOT / "variants" / "peers" / module.name).read_text())
    assert ask(module, python=str(bare)).refused.startswith("numpy is not installed: ")


def test_a_peers_own_refusal_is_passed_on(write: Any) -> None:  # noqa: ANN401
    own = "def refuse(shape, device, axes):\n    return f'{shape.n} {shape.k} {shape.stop.rule} {device.kind}'\n"
    assert ask(write("refuses", LLOYD, STEPS, own)).refused == "400 9 exact cpu"


def test_what_a_peer_raises_names_its_line(write: Any) -> None:  # noqa: ANN401
    module = write("raises", LLOYD, STEPS.replace("s.c[:] = means(s, s.label, s.c)", "s.c[:] = 1 / 0"))
    line = module.read_text().splitlines().index("    s.c[:] = 1 / 0") + 1
    cause, where = ask(module).error.split("; ")
    assert cause == f"update raised ZeroDivisionError: division by zero (raises.py:{line})"
    assert where == TRIAL_RUN


def test_shared_memory_is_filled_and_not_replaced(write: Any) -> None:  # noqa: ANN401
    told = ask(write("rebinds", LLOYD, STEPS.replace("s.label[:] = nearest", "s.label = nearest")))
    assert "s.label is shared memory and stays where it is: fill it, s.label[:] = ..." in told.error


def test_a_python_that_dies_is_named(write: Any) -> None:  # noqa: ANN401
    text = "import os, signal\ndef update(s):\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
    told = ask(write("dies", LLOYD, STEPS.partition("def update")[0], text))
    assert told.error == f"Python ended in update of dies.py (signal 11); {TRIAL_RUN}"


def test_no_python_is_said(write: Any) -> None:  # noqa: ANN401
    told = ask(write("right", LLOYD, STEPS), python="/no/such/python")
    assert "right.py needs Python, and '/no/such/python' does not start" in told.error


BAD_CARDS = {
    "an unknown key": ('"pruned": True', STEPS, "the card has 'pruned', which no card has"),
    "half of an iteration": ("", STEPS.partition("def update")[0], "there is assign without update"),
    "no phase": ("", "", "there is no phase that does anything"),
    "a type of no meaning": ('"types": ["f16"]', STEPS, "the card's 'types' has 'f16'"),
    "a value of the wrong kind": ('"prunes": "yes"', STEPS, "has a value of the wrong kind"),
    "a syntax error": ("", "def assign(s)\n", "SyntaxError: expected ':' (bad.py:"),
}


@pytest.mark.parametrize("what", BAD_CARDS)
def test_a_bad_card_is_told_when_it_is_built(write: Any, what: str) -> None:  # noqa: ANN401
    more, text, words = BAD_CARDS[what]
    module = write("bad", text, more=more)
    out = module.with_suffix(".json")
    done = subprocess.run(
        [str(WORKER), "card", str(module), "cpu", str(out)], capture_output=True, text=True, check=True
    )
    assert words in json.loads(out.read_text())["error"]
    assert words in done.stderr


# --------------------------------------------------------------------------------------------------------- its process


def alive(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_peer_that_hangs_ends_with_its_worker(write: Any, tmp_path: Path) -> None:  # noqa: ANN401
    text = f"""
import os, pathlib, time
def update(s):
    pathlib.Path({str(tmp_path / "process")!r}).write_text(str(os.getpid()))
    time.sleep(600)
"""
    asked = Asked(tmp_path, write("hangs", LLOYD, STEPS.partition("def update")[0], text))
    file = tmp_path / "process"
    deadline = time.monotonic() + 30
    while not (file.exists() and file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process = int(file.read_text())
    assert alive(process)
    # What the run does when the session's time is over; the events' pipe must then be seen to end.
    asked.worker.send_signal(signal.SIGKILL)
    assert not any(json.loads(line)["event"] == "result" for line in asked.lines)
    asked.worker.wait(10)
    while alive(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(process)


def test_a_phase_costs_little_beside_its_work(write: Any) -> None:  # noqa: ANN401
    """What harness/worker/peer.hpp says of the round trip, by an empty phase."""
    ours, theirs = socket.socketpair()
    script = ROOT / "harness" / "worker" / "peer.py"
    module = write("right", LLOYD, STEPS)
    with subprocess.Popen([sys.executable, script, module, str(theirs.fileno())], pass_fds=[theirs.fileno()]) as peer:
        theirs.close()
        lines = ours.makefile("rw")

        def call(**request: object) -> dict[str, Any]:
            lines.write(json.dumps(request) + "\n")
            lines.flush()
            return json.loads(lines.readline())

        assert call(call="card")["phases"] == ["assign", "update"]
        times = []
        for _ in range(2000):
            begin = time.perf_counter()
            assert call(call="release", run=0) == {}
            times.append(time.perf_counter() - begin)
        lines.close()
        ours.close()
        assert peer.wait(10) == 0  # a closed socket ends it
    median = sorted(times)[len(times) // 2]
    print(f"a round trip takes {median * 1e6:.0f} us")
    assert median < 2e-3


# -------------------------------------------------------------------------------------- the libraries that are here


INSTALLED = {"p_sklearn_lloyd", "p_sklearn_elkan", "p_scipy"}  # by requirements.txt: a skip for want of them is none


@pytest.mark.parametrize("stop", ["exact", "fixed:4", "reassigned:0.01"])
@pytest.mark.parametrize("module", sorted((ROOT / "variants").glob("peers/*.py")), ids=lambda path: path.stem)
def test_each_peer_of_the_ladder_is_right_or_refuses(module: Path, stop: str, tmp_path: Path) -> None:
    own = tmp_path / module.name
    own.write_text(module.read_text())
    told = ask(own, stop=stop)
    if told.refused:
        assert module.stem not in INSTALLED or "installed" not in told.refused
        pytest.skip(told.refused)
    assert (told.error, told.fault) == ("", "")
    assert told.result["validation"]["labels_wrong"] == 0
    assert told.timed["solve"]["status"] == "ok"


def test_what_a_run_holds_is_given_back_before_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "p_holds.py"
    file.write_text("CARD = {'id': 'p_holds'}\ngiven = []\n\ndef release(s):\n    given.append(s)\n")
    spec = importlib.util.spec_from_file_location("peer", ROOT / "harness" / "worker" / "peer.py")
    peer = importlib.util.module_from_spec(spec)
    sys.modules["peer"] = peer  # its dataclasses look there
    spec.loader.exec_module(peer)
    served = peer.Served(file)
    served.card()
    served.runs[1] = run = object()
    assert served.answer({"call": "release", "run": 1}) == {} and served.runs == {}
    assert served.answer({"call": "release", "run": 1}) == {}, "it may be asked twice"
    assert served.module.given == [run]
