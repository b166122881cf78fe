"""A pretended Nsight Compute: it runs the worker as the real one does, and prints of it what the real one prints
(version 2025.3: a row of units, thousands with commas, n/a, ranges in quotes), or fails as the real one fails.
"""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

SCRIPT = """\
#!{python} -ISB
import csv, io, json, os, signal, subprocess, sys

PLAN = json.load(open({plan!r}))
words = sys.argv[1:]
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(words) + "\\n")

def value(option):
    return words[words.index(option) + 1]

def log(text):
    with open(value("--log-file"), "a") as file:
        file.write(text + "\\n")

def launches(request):
    # As many as --launch-count allows, in the order of the scopes.
    found = []
    for scope in request["scopes"]:
        for name, grid, block, metrics in PLAN["launches"].get(scope, []):
            found.append((request["variant"], scope, name, grid, block, metrics))
    return found[: int(value("--launch-count"))]

def raw_page(request):
    asked = value("--metrics").split(",") if "--metrics" in words else []
    columns = PLAN["sections"] + [name for name in asked if name not in PLAN["sections"]]
    out = io.StringIO()
    out.write("==PROF== Connected to process 7\\n")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    push = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    head = ["ID", "Process ID", "Process Name", "Host Name"] + ([push] if PLAN["ranges"] else [])
    head += ["Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
    writer.writerow(head + columns)
    writer.writerow([""] * len(head) + [PLAN["units"].get(name, "") for name in columns])
    for at, (variant, scope, name, grid, block, metrics) in enumerate(launches(request)):
        ranges = '1  "ladder:%s:none:none:none:none:none:none"  "ladder:%s:none:none:none:none:none:none"'
        row = [at, 7, "ladder_worker_cuda", "127.0.0.1"] + ([ranges % (variant, scope)] if PLAN["ranges"] else [])
        row += [name, 1, 13, str(tuple(block)), str(tuple(grid)), 0, "9.0"]
        writer.writerow(row + [metrics.get(name, PLAN["values"].get(name, "n/a")) for name in columns])
    return out.getvalue()

if "--version" in words:
    print("NVIDIA (R) Nsight Compute Command Line Profiler")
    print("Copyright (c) 2018-2025 NVIDIA Corporation")
    print("Version 2025.3.1.0 (build 36398880) (public-release)")
elif "--query-metrics" in words:
    print("Device NVIDIA H200 (GH100)")
    print("-" * 40)
    print("Metric Name                   Metric Type Metric Unit  Metric Description")
    for name in PLAN["known"]:
        print(f"{{name}}  Counter  inst  # of something")
elif "--import" in words:
    print(open(value("--import")).read(), end="")
else:
    target = words[next(i for i, word in enumerate(words) if word.endswith("ladder_worker_cuda")) :]
    print("==PROF== the real one is silent here: this goes where the worker's own words go", flush=True)
    if PLAN["before"]:
        log(PLAN["before"])
    if PLAN["dies"]:
        os.kill(os.getpid(), signal.SIGKILL)
    done = subprocess.run(target)  # it inherits no open file but the three
    if PLAN["dies_late"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if PLAN["after"]:
        log(PLAN["after"])
    if target[1] == "run" and not PLAN["before"]:
        request = json.load(open(target[2]))
        page = raw_page(request)
        if launches(request):
            open(value("--export"), "w").write(page)
        else:
            log("==WARNING== No kernels were profiled.")
    sys.exit(done.returncode)
"""

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# What sections hold without being asked for by name.
SECTIONS = [
    "launch__registers_per_thread",
    "launch__shared_mem_per_block",
    "launch__waves_per_multiprocessor",
    *(f"launch__occupancy_limit_{what}" for what in ("blocks", "registers", "shared_mem", "warps", "barriers")),
    "sm__maximum_warps_per_active_cycle_pct",
    *(STALLED.format(reason) for reason in ("long_scoreboard", "wait", "selected", "barrier", "barrier_not_issued")),
]
VALUES = {
    "gpu__time_duration.sum": "1,234,567",
    "launch__registers_per_thread": "40",
    "launch__shared_mem_per_block": "1,024",
    "launch__waves_per_multiprocessor": "1.5",
    "launch__occupancy_limit_blocks": "32",
    "launch__occupancy_limit_registers": "6",
    "launch__occupancy_limit_shared_mem": "100",
    "launch__occupancy_limit_warps": "8",
    "launch__occupancy_limit_barriers": "16",
    "sm__maximum_warps_per_active_cycle_pct": "75",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "68.25",
    STALLED.format("long_scoreboard"): "6",
    STALLED.format("wait"): "3",
    STALLED.format("selected"): "1",
    STALLED.format("barrier"): "0",
    STALLED.format("barrier_not_issued"): "90",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "12.5",
    "dram__bytes.sum": "2.5",
    "idc__requests.sum": "0",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": "4.5",
    "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum": "100",
    "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": "2,000",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": "612,000,000,000",
}
ASSIGN = "void ladder::(anonymous namespace)::assign_kernel<float, (int)16>(const T1 *, const T1 *, int *, int, int)"
UPDATE = "ladder::<unnamed>::sum_kernel(const float *, int)"


class PretendedNcu:
    def __init__(self, folder: Path, known: list[str]) -> None:
        self.program = folder / "tools" / "ncu"
        self.plan_file, self.calls_file = folder / "ncu-plan.json", folder / "ncu-calls"
        self.plan: dict[str, Any] = {
            "launches": {
                "assign": [(ASSIGN, (1172, 1, 1), (256, 1, 1), {})],
                "update": [
                    (UPDATE, (10, 2, 1), (128, 1, 1), {"gpu__time_duration.sum": "1,000,000"}),
                    (UPDATE, (10, 2, 1), (128, 1, 1), {"gpu__time_duration.sum": "3,000,000"}),
                ],
            },
            "known": known,
            "sections": SECTIONS,
            "values": VALUES,
            "units": {"gpu__time_duration.sum": "ns", "dram__bytes.sum": "Gbyte"},
            "ranges": True,
            "before": "",  # what it logs before the worker starts; then it profiles nothing
            "after": "",
            "dies": False,
            "dies_late": False,  # before its report is written
        }
        self.program.parent.mkdir()
        words = {"plan": str(self.plan_file), "calls": str(self.calls_file)}
        self.program.write_text(SCRIPT.format(python=sys.executable, **words))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def save(self) -> None:
        self.plan_file.write_text(json.dumps(self.plan))

    def calls(self, option: str = "--export") -> list[list[str]]:
        """The command lines that it had, of those with this option."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return [words for words in map(json.loads, lines) if option in words]
