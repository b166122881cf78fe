"""The record of a whole machine: every variant on every workload, shared by its GPUs.

Each job is a `ladder run` of its own into a record of its own; a GPU that is done takes the next. At the end `ladder
join` makes one record of the pieces. A piece that is there already is resumed, so that the command may be repeated.

    python results/record.py --gpus 0,1,2,3 --out results/nvidia-h200/record.json

Where --budget ends it early, what was not begun is named.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Job:
    workload: str
    variants: str
    options: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        kept = (c if c.isalnum() or c in "._-" else "_" for c in f"{self.workload}--{self.variants}")
        return "".join(kept).replace("_", "-")[:150]


# A variant alone on one workload is a job where that takes minutes: operations of an iteration from here on.
LONG = 1e11
# Several variants share a job where making the points takes long, and nothing else does: bytes from here on.
LARGE = 1e9


def jobs(workloads: list[dict], variants: list[str], few: list[str], few_on: list[str]) -> list[Job]:
    """In the workloads' order, so that what a budget cuts off is the last of them."""
    found: list[Job] = []
    for w in workloads:
        name, operations, entries = w["name"], w["n"] * w["d"] * w["k"], w["n"] * w["d"]
        chosen = few if any(fnmatch(name, glob) for glob in few_on) else variants
        large = 4 * entries >= LARGE
        at_once = 1 if operations >= LONG and not large else 6 if large else len(chosen)
        options = ["--time-limit", "240", "--validation-budget", "2e9"] if operations >= LONG or large else []
        options += ["--no-keep"] if large and chosen is few else []
        for at in range(0, len(chosen), at_once):
            found.append(Job(name, ",".join(chosen[at : at + at_once]), options))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the folder that holds ladder")
    parser.add_argument("--gpus", default="0", help="with commas between them")
    parser.add_argument("--device", default="cuda", choices=("cuda", "simt", "cpu"))
    parser.add_argument("--variants", default="*", help="globs, with commas between them")
    parser.add_argument("--workloads", default="*", help="globs, in the order of their importance; no tiny ones")
    parser.add_argument("--few", default="*", help="globs: the variants that run on --few-on")
    parser.add_argument("--few-on", default="", help="globs: workloads on which only some variants run")
    parser.add_argument("--parts", type=Path, default=ROOT / "results/local/parts", help="folder for the pieces")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no job begins")
    parser.add_argument("--run", default="", help="more options for `ladder run`, in one word list")
    parser.add_argument("--out", type=Path, required=True)
    o = parser.parse_args()

    ladder = str(o.build / "ladder")
    listed = json.loads(subprocess.run([ladder, "list", "--json"], capture_output=True, check=True).stdout)
    here = [v["id"] for v in listed["variants"] if o.device in v["devices"]]
    split = [v for v in here if any(fnmatch(v, word) for word in o.variants.split(","))]
    few = [v for v in split if any(fnmatch(v, word) for word in o.few.split(","))]
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    full = {w["name"]: w for w in listed["workloads"] if not w["name"].endswith("_tiny")}
    named = dict.fromkeys(name for glob in o.workloads.split(",") for name in full if fnmatch(name, glob))
    for name in [name for name in named if not full[name]["available"]]:
        print(f"{name} is left out: {full[name]['reason']}")
    available = [full[name] for name in named if full[name]["available"]]
    planned = jobs(available, split, few, o.few_on.split(","))
    for job in planned:
        todo.put(job)
    o.parts.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    done: list[Job] = []
    bad: list[str] = []

    def work(gpu: str) -> None:
        while time.monotonic() - begin < o.budget:
            try:
                job = todo.get_nowait()
            except queue.Empty:
                return
            part = o.parts / f"{job.name}.json"
            command = [ladder, "run", "--device", o.device, "--workloads", job.workload, "--variants", job.variants]
            command += [*job.options, *o.run.split(), "--out", str(part)]
            command += ["--gpu", gpu] if o.device == "cuda" else []
            command += ["--resume"] if part.exists() else []
            start = time.monotonic()
            with part.with_suffix(".log").open("w") as log:
                status = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
            done.append(job)
            if status != 0:
                bad.append(f"{job.workload} {job.variants}: status {status}, see {part.with_suffix('.log')}")
            now = time.monotonic()
            to_go = (now - begin) / len(done) * (len(planned) - len(done))
            clock = f"[{len(done)}/{len(planned)} {now - begin:.0f} s, about {to_go:.0f} s to go]"
            ended = f"{now - start:.0f} s{'' if status == 0 else f', STATUS {status}'}"
            print(f"{clock} GPU {gpu}: {job.workload} {job.variants[:60]} {ended}", flush=True)

    workers = [threading.Thread(target=work, args=(gpu,)) for gpu in o.gpus.split(",")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    while not todo.empty():
        job = todo.get_nowait()
        print(f"not begun within {o.budget:.0f} s: {job.workload} {job.variants}")
    for line in bad:
        print(line)
    parts = [str(o.parts / f"{job.name}.json") for job in planned if (o.parts / f"{job.name}.json").exists()]
    if len(parts) < 2:
        sys.exit(f"{len(parts)} pieces in {o.parts}: there is nothing to join")
    o.out.parent.mkdir(parents=True, exist_ok=True)
    return subprocess.run([ladder, "join", str(o.out), *parts], check=False).returncode or int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
