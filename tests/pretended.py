"""A pretended build: the real `ladder` beside workers that say what a test wants of them. Nothing is computed, so what
the run makes of a session can be tested without the session: times below what a device can do, a time-out at the worst
moment, a module built anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import sample_record
from conftest import LADDER, QUICK, ROOT

Event = dict[str, Any]

# What a worker says of two GPUs.
GPU = {
    "kind": "cuda",
    "compute_capability": "9.0",
    "multiprocessors": 132,
    "memory_bytes": 1 << 37,
    "driver": "1.2",
    "cuda": "13.0",
    "sm_clock_mhz": 1980.0,
    "memory_clock_mhz": 3201.0,
    "ecc": True,
}
GPUS = [{**GPU, "ordinal": i, "name": f"pretended GPU {i}"} for i in range(2)]

WORKER = """\
#!{python} -ISB
import fcntl, json, os, sys, time

PLAN = json.load(open({plan!r}))
with open({asked!r}, "a+") as asked:
    fcntl.flock(asked, fcntl.LOCK_EX)  # workers of other runs ask too, and a line may be half written
    asked.seek(0)
    before = [json.loads(line)[2] for line in asked]
    request = json.load(open(sys.argv[2])) | {{"shares": len(sys.argv) > 4}} if sys.argv[1] == "run" else None
    asked.write(json.dumps([{home!r}, sys.argv[1], request]) + "\\n")
if sys.argv[1] == "devices":
    print(json.dumps(PLAN["devices"] if {home!r} == "cuda" else []))
elif sys.argv[1] == "ceilings":
    time.sleep(PLAN["ceilings_seconds"])
    print(json.dumps(PLAN["ceilings"][{home!r}]))
else:
    out = int(sys.argv[3]) if sys.argv[3].isdigit() else os.open(sys.argv[3], os.O_WRONLY)
    # What was planned for these values of the axes; what was planned for several sessions comes in turns.
    name = request["variant"] + "".join(f" {{a}}={{v}}" for a, v in sorted(request["axes"].items()))
    events = PLAN["sessions"].get(name, PLAN["sessions"][request["variant"]])
    if isinstance(events[0], list):
        same = [r for r in before if r and (r["variant"], r["axes"]) == (request["variant"], request["axes"])]
        events = events[len(same) % len(events)]
    for event in events:
        if "sleep" in event:
            time.sleep(event["sleep"])
        elif "wait_for" in event:
            while not os.path.exists(event["wait_for"]):
                time.sleep(0.05)
        elif "signal" in event:
            os.kill(os.getpid(), event["signal"])
        elif "print" in event:
            print(event["print"], flush=True)
        elif event["event"] != "timed" or event["scope"] in request["scopes"]:
            os.write(out, json.dumps(event).encode() + b"\\n")
"""


def doing(scope: str) -> Event:
    return {"event": "scope", "scope": scope}


def timed(scope: str, ms: float = 1.0, samples: int = 6, **fields: object) -> Event:
    """A scope whose samples lie around `ms`."""
    whole = scope in ("solve", "end_to_end")
    made = {
        "event": "timed",
        "scope": scope,
        "status": "ok",
        "reason": "",
        "samples_ms": [ms] * samples,
        "median_ms": ms,
        "q1_ms": ms if samples >= 5 else None,
        "q3_ms": ms if samples >= 5 else None,
        "per_iteration_ms": ms / 4 if whole else None,
        "verdict": "settled",
        "warm_up_seconds": 1.0,
        "sm_mhz": [1980.0] * samples,
        "settled_mhz": 1980.0,
        "watts": 412.5,
        "watt_limit": 700.0,
        "retries": 0,
        "iterations": [4] * samples if whole else [],
        "labels_differ": 0,
    }
    return made | fields


def result(**fields: object) -> Event:
    validation = {
        "rows_checked": 4000,
        "labels_wrong": 0,
        "ties": 1,
        "labels_differ": 1,
        "steps_checked": 4,
        "worst_regret": 0.0,
        "centroid_error": 1e-7,
        "inertia": 10.0,
    }
    made = {
        "event": "result",
        "fault": "",
        "validation": validation,
        "axes": {},
        "iterations": 4,
        "reassigned": [1000, 20, 3, 0],
        "inertia": [],
        "iteration_ms": [0.5, 0.4, 0.3, 0.2],
        "counters": {"distances": [9, 9, 5, 4]},
        "peak_device_bytes": 4096,
        "prepare_ms": 2.5,
        "dumped": False,
    }
    return made | fields


END: Event = {"event": "end"}
SCOPES = ("upload", "download", "assign", "update", "iteration", "solve", "end_to_end")


def session(ms: float = 1.0) -> list[Event]:
    """All goes well."""
    return [event for scope in SCOPES for event in (doing(scope), timed(scope, ms))] + [result(), END]


class Pretended:
    """A build with the variants x1, x2 (cuda, and cpu where asked for) and a workloads.json of small generated ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.build = folder / "build"
        self.out = folder / "record.json"
        self.plan: dict[str, Any] = {
            "devices": GPUS,
            "ceilings": {"cuda": sample_record.ceilings(True), "simt": sample_record.ceilings(False)},
            "ceilings_seconds": 0,
            "sessions": {},
        }
        self.sources = [self.source("grapes"), self.source("plums", d=4)]
        self.workloads = [self.workload("grapes"), self.workload("plums")]
        self.environment = {
            "LADDER_WORKLOADS_FILE": str(folder / "workloads.json"),
            "LADDER_CACHE": str(folder / "cache"),
            "LADDER_CEILINGS": str(folder / "ceilings"),
            "LADDER_GIT_SHA": "0" * 40,
            "LADDER_GIT_DIRTY": "0",
        }
        self.build.mkdir()
        shutil.copy2(LADDER, self.build / "ladder")
        for home in ("cuda", "simt"):
            worker = self.build / f"ladder_worker_{home}"
            words = {"plan": str(folder / "plan.json"), "asked": str(folder / "asked"), "home": home}
            worker.write_text(WORKER.format(python=sys.executable, **words))
            worker.chmod(0o755)
        (self.build / "variants").mkdir()
        self.add("x1")

    @staticmethod
    def source(name: str, **fields: object) -> dict[str, Any]:
        made = {"name": name, "kind": "generator", "generator": "blobs", "n": 1000, "d": 3, "seed": 1}
        return made | {"parameters": {"clusters": 3, "spread": 1.0}} | fields

    @staticmethod
    def workload(name: str, **fields: object) -> dict[str, Any]:
        return {
            "name": name,
            "family": name,
            "type": "f32",
            "k": 5,
            "stop": "exact",
            "seed": 1,
            "source": name,
        } | fields

    def add(self, variant: str, kind: str = "cuda", module: str = "first", **card: object) -> None:
        """A variant, or another build of it; all goes well in its sessions where nothing else was planned."""
        folder = self.build / "variants" / kind
        folder.mkdir(exist_ok=True)
        (folder / f"{variant}.so").write_text(module)
        made = {
            "id": variant,
            "base": "",
            "idea": f"the idea of {variant}",
            "shows": "iteration",
            "axes": [],
            "gpus": 1,
        }
        (folder / f"{variant}.json").write_text(json.dumps(made | {"arithmetic": "expanded"} | card))
        expected = self.build / "variants" / "expected.txt"
        known = set(expected.read_text().split()) if expected.exists() else set()
        expected.write_text("\n".join(sorted(known | {f"{kind}/{variant}"})) + "\n")
        self.plan["sessions"].setdefault(variant, session())

    def start(self, *words: str | Path, **environment: str) -> subprocess.Popen[str]:
        workloads = {"workloads": self.workloads, "sources": self.sources}
        for name, document in (("plan", self.plan), ("workloads", workloads)):
            part = self.folder / f"{name}.part"
            part.write_text(json.dumps(document))
            part.replace(self.folder / f"{name}.json")  # another run may be reading it
        command = [str(self.build / "ladder"), *map(str, words)]
        if words[0] in ("run", "tune") and "--out" not in words:
            command += [*QUICK, "--out", str(self.out)]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **self.environment, **environment},
        )

    def __call__(self, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **environment)
        output, errors = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def run(self, *words: str | Path, status: int = 0, **environment: str) -> dict[str, Any]:
        """The record of a run."""
        words = words if "--workloads" in words else (*words, "--workloads", "grapes")
        done = self("run", *words, **environment)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(self.out.read_text())

    def asked(self, what: str = "run") -> list[Any]:
        """The requests that workers had so far; of other questions, the home that was asked."""
        if not (self.folder / "asked").exists():
            return []
        with open(self.folder / "asked") as asked:
            fcntl.flock(asked, fcntl.LOCK_SH)
            lines = [json.loads(line) for line in asked]
        return [request or home for home, question, request in lines if question == what]
