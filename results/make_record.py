"""The record of a whole machine, from a plan: which variants on which workloads, in the order of their importance.

Each job of the plan is a `ladder run` of its own into a record of its own; a GPU that is done takes the next. At the
end `ladder join` makes one record of the pieces, with at most 100 samples of each row. A piece that is there already is
resumed, so that the command may be repeated; with --go-on a piece that is complete is not looked at again, for a build
that has not changed in between. Sessions in turns are of one run alone: a complete piece of such is left alone, another
one is made anew.

    python results/make_record.py results/nvidia-h200/plan.toml --gpus 0,1 --out results/nvidia-h200/record.json

A plan is a list of parts, and options of `ladder run` for all of them:

    run = "--min-time 0.1"
    [[part]]
    workloads = "wine_k900,wine*"   # globs
    variants = "*"                  # globs; what an earlier part has on a workload is not measured again, unless on
                                    # another device or number of GPUs (--gpus or --ranks in the options), or in turns
                                    # with its base
    options = "--time-limit 60"     # of `ladder run`, for this part alone, in place of the same one above;
                                    # --compare base: sessions of each rung and its base in turns
    least = {nd = 1e6}              # of the workloads those alone whose N x D is no smaller; likewise n, d, k, nk, kd,
    most = {k = 64, nkd = 1e9}      # nkd, and those that are no larger
    together = 6                    # variants per job, default all: how finely the GPUs share a workload
    batch = 10                      # workloads per job, default 1: where they are small, and the start of a run is not
    seconds = 4                     # what a variant takes on one workload, about: --list prints the sum, and with
                                    # --budget no job begins that would not end in time
    device = "cpu"                  # default cuda; these jobs run one after another, after those of the GPUs, as both
                                    # need the host's cores
                                    # auto: these in a GPU's turn, and one after another what is only for the CPU

Where --budget ends it early, what was not begun is named, and the record holds what there is: a run that lasts longer
than `seconds` said is interrupted then, and keeps its finished rows. So does Ctrl-C or a SIGTERM, as of `timeout`.

--stale lists, by workload and rung, what the record lacks of the plan (of scopes that the plan names, too), whose rows
are stale (the rung's text is another by now: comments and the harness do not count), and whose rows do not say of which
text they are; --renew measures these and no others, and puts their rows into the record. All its other rows stay, with
the commit that they were measured at. Where nothing of the plan is out of date then, the record is complete, whatever
was interrupted on the way.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the checkout
from plots.lib import plans
from plots.lib.inputs import INTERRUPTED, InputError, in_sentences, json_object, read_json
from plots.lib.outputs import RECORD, need_place

ROOT = Path(__file__).resolve().parent.parent
CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "check": False}

LANES = ("cuda", "cpu")
CUT_OFF = "interrupted (Ctrl-C)"  # in the reason of a row whose session was, which says nothing of the rung
LACKING, STALE, UNKNOWN = "not in the record", "stale", "of an unknown text"
Rows = dict[tuple[str, str, str, tuple[int, int]], list[dict[str, Any]]]  # workload, variant, device, GPUs and ranks
KINDS = ("--gpus", "--ranks", "--compare")


@dataclass(frozen=True)
class Job:
    workload: str  # or several, with commas between them
    variants: str
    device: str
    options: list[str]
    seconds: float = 0  # about; 0: not estimated

    @property
    def kind(self) -> str:
        """The options that say on how many GPUs it runs, and whether its sessions take turns with those of a base."""
        pairs = zip(self.options, self.options[1:], strict=False)
        return " ".join(f"{option} {value}" for option, value in pairs if option in KINDS)

    @property
    def compares(self) -> bool:
        return "--compare" in self.options

    @property
    def given(self) -> dict[str, str]:
        """Options and what stands behind them."""
        return dict(zip(self.options, self.options[1:], strict=False))

    @property
    def processes(self) -> tuple[int, int]:
        """GPUs and ranks."""
        return int(self.given.get("--gpus", 1)), int(self.given.get("--ranks", 1))

    @property
    def scopes(self) -> list[str]:
        """Those that it names."""
        return [scope for scope in self.given.get("--scopes", "").split(",") if scope]

    @property
    def name(self) -> str:
        what = f"{self.workload}--{self.device}--{self.variants}{self.kind}"
        kept = (c if c.isalnum() or c in "._-" else "_" for c in what)
        whole = "".join(kept).replace("_", "-")
        return whole if len(whole) <= 150 else f"{whole[:140]}-{zlib.crc32(whole.encode()):08x}"


class Lack(NamedTuple):
    """What a record does not answer for."""

    workload: str
    variant: str
    why: str
    scopes: tuple[str, ...] = ()  # these alone, or all of the job


def options_of(*texts: str) -> list[str]:
    """The words of all texts; an option that several have, as the last of them has it."""
    found: dict[str, list[str]] = {}
    for text in texts:
        last = ""
        for word in shlex.split(text):
            if word.startswith("--"):
                found.pop(last := word, None)
            found.setdefault(last, []).append(word)
    return [word for words in found.values() for word in words]


def matching(names: list[str], globs: str) -> list[str]:
    """The names that any of the globs fits, in the globs' order."""
    return list(dict.fromkeys(name for glob in globs.split(",") for name in names if fnmatch(name, glob)))


def in_turns(things: Sequence[str], most: int) -> list[Sequence[str]]:
    """In runs of at most so many."""
    return [things[at : at + most] for at in range(0, len(things), most)]


def within(workload: dict[str, Any], part: dict[str, Any]) -> bool:
    """Whether the workload is of a size that the part is for."""

    def size(of: str) -> int:
        return prod(workload[letter] for letter in of)

    low, high = part.get("least", {}), part.get("most", {})
    return all(size(of) >= value for of, value in low.items()) and all(size(of) <= value for of, value in high.items())


def could_run_on(device: str, variant: dict[str, Any], unbuilt: bool) -> bool:
    """Whether what was built of a variant runs there; with `unbuilt` also what a build with nvcc would add, which is
    every rung that the CPU device runs."""
    devices = variant["devices"]
    return device in (*devices, "auto") or (unbuilt and device == "cuda" and "simt" in devices)


def devices_of(device: str, variant: dict[str, Any]) -> list[str]:
    """Where `ladder run` measures it, of a part for this device."""
    if device != "auto":
        return [device]
    return [each for each in LANES if each in variant["devices"]][:1]


def jobs(plan: dict[str, Any], listed: dict[str, Any], unbuilt: bool = False) -> tuple[list[Job], list[str]]:
    """The jobs of a plan, in its order, of what `ladder list --json` has; and what is left out, with the reason."""
    workloads = {w["name"]: w for w in listed["workloads"]}
    found: list[Job] = []
    left_out: dict[str, None] = {}
    planned: set[tuple[str, ...]] = set()
    for part in plan["part"]:
        device = part.get("device", "cuda")
        here = {v["id"]: devices_of(device, v) for v in listed["variants"] if could_run_on(device, v, unbuilt)}
        words = options_of(plan.get("run", ""), part.get("options", ""))
        for key, names in (("workloads", list(workloads)), ("variants", [v["id"] for v in listed["variants"]])):
            for glob in part[key].split(","):
                if not matching(names, glob):
                    left_out[f"'{glob}' of the plan fits no {key[:-1]} here: `ladder list` shows what there is"] = None
        kind = Job("", "", device, words).kind
        batch = part.get("batch", 1)
        alike: dict[tuple[tuple[str, ...], str], list[str]] = {}  # workloads by the variants that they get
        for name in matching(list(workloads), part["workloads"]):
            if not within(workloads[name], part):
                continue
            if not workloads[name]["available"]:
                left_out[f"{name} is left out: {workloads[name]['reason']}"] = None
                continue
            wanted = matching(list(here), part["variants"])
            chosen = tuple(v for v in wanted if (name, v, kind, *here[v]) not in planned)
            planned |= {(name, v, kind, *here[v]) for v in chosen}
            alike.setdefault((chosen, "" if batch > 1 else name), []).append(name)
        for (chosen, _), names in alike.items():
            for some_names in in_turns(names, batch):
                for some in in_turns(chosen, part.get("together", max(1, len(chosen)))):
                    seconds = len(some_names) * len(some) * part.get("seconds", 0)
                    found.append(Job(",".join(some_names), ",".join(some), device, words, seconds))
    return found, list(left_out)


def complete(piece: Path) -> bool:
    """Whether a run has ended there."""
    if not piece.exists():
        return False
    context = read_json(piece).get("context")
    if not isinstance(context, dict):
        raise InputError(f"{piece}: is no record of a piece: delete it, and it is made anew.")
    return context.get("complete") is True


def todays_hash(variant: dict[str, Any], device: str) -> str:
    """Of the rung's text as it is now; of one that lies outside variants/, of what was built."""
    return variant["text_hash"] or variant["source_hash"].get(device, "")


def out_of_date(planned: list[Job], listed: dict[str, Any], record: dict[str, Any]) -> list[tuple[Job, list[Lack]]]:
    """Of each job what the rows in the record do not answer for. Of a rung in turns with its base these are the rows of
    the two that took turns; not those that it has as the base of another."""
    renamed = read_json(ROOT / "results/renamed.json")["renamed"]
    variants = {v["id"]: v for v in listed["variants"]}
    rows: Rows = {}
    steps: Rows = {}  # by the rung: its rows in turns with its base, and those of the base
    for row in record["rows"]:
        if CUT_OFF in row.get("reason", ""):
            continue
        variant = renamed.get(row["variant"], row["variant"])
        base, *over = [renamed.get(v, v) for v in (row.get("turns") or {}).get("variants", [])] or [""]
        processes = (row.get("gpus") or 1, row.get("ranks") or 1)
        entry = row | {"variant": variant}
        rows.setdefault((row["workload"], variant, row["device"], processes), []).append(entry)
        for rung in over if variant == base else {variant} & set(over):
            steps.setdefault((row["workload"], rung, row["device"], processes), []).append(entry)
    found = []
    for job in planned:
        answers = steps if "--compare" in job.options else rows
        why = []
        for workload in job.workload.split(","):
            for name in job.variants.split(","):
                for device in devices_of(job.device, variants[name]):
                    there = answers.get((workload, name, device, job.processes), [])
                    mine = [row for row in there if row["variant"] == name]
                    known = {row.get("source_hash", "") for row in mine}
                    measured = {(row["variant"], row.get("source_hash", "")) for row in there}
                    if not known:
                        why.append(Lack(workload, name, LACKING))
                    elif "" in known:
                        why.append(Lack(workload, name, UNKNOWN))
                    elif any(text != todays_hash(variants[v], device) for v, text in measured if v in variants):
                        why.append(Lack(workload, name, STALE))
                    elif missing := tuple(s for s in job.scopes if s not in {row["scope"] for row in mine}):
                        why.append(Lack(workload, name, LACKING, missing))
        if why:
            found.append((job, why))
    return found


def jobs_for(found: list[tuple[Job, list[Lack]]]) -> list[Job]:
    """Jobs of these measurements alone; workloads of a job that need the same of the same variants stay together."""
    smaller = []
    for job, why in found:
        each = job.seconds / (job.workload.count(",") + 1) / (job.variants.count(",") + 1)
        for scopes in dict.fromkeys(lack.scopes for lack in why):
            alike: dict[str, list[str]] = {}
            needed = [lack for lack in why if lack.scopes == scopes]
            for workload in dict.fromkeys(lack.workload for lack in needed):
                alike.setdefault(",".join(n.variant for n in needed if n.workload == workload), []).append(workload)
            options = options_of(shlex.join(job.options), f"--scopes {','.join(scopes)}") if scopes else job.options
            share = len(scopes) / len(job.scopes) if scopes else 1
            for variants, workloads in alike.items():
                seconds = each * share * len(workloads) * (variants.count(",") + 1)
                smaller.append(
                    replace(job, workload=",".join(workloads), variants=variants, seconds=seconds, options=options)
                )
    return smaller


def say_what_is_out_of_date(found: list[tuple[Job, list[Lack]]]) -> None:
    every = [entry for _, why in found for entry in why]
    for workload in dict.fromkeys(e.workload for e in every):
        for reason in (LACKING, STALE, UNKNOWN):
            names = dict.fromkeys(e.variant for e in every if (e.workload, e.why) == (workload, reason))
            if names:
                print(f"{workload}, {reason}: {', '.join(names)}")
    counts = ", ".join(f"{sum(e.why == r for e in every)} {r}" for r in (LACKING, STALE, UNKNOWN))
    seconds = sum(job.seconds for job in jobs_for(found))
    about = f"; about {seconds:.0f} s" if seconds else ""
    print(f"{len(every)} to measure: {counts}{about}" if every else "the record is up to date with the plan")


def built_for_the_plan(plan: dict[str, Any], listed: dict[str, Any], unbuilt: bool) -> None:
    """Throws InputError where nothing was built for a device of the plan, and names what was not: no list is complete
    without it."""
    for device in dict.fromkeys(part.get("device", "cuda") for part in plan["part"]):
        if device != "auto" and not any(could_run_on(device, v, unbuilt) for v in listed["variants"]):
            raise InputError(
                f"nothing here is built for {device}, which the plan is for: build where there is such a device"
            )
    lacking: dict[str, None] = {}
    for part in plan["part"]:
        device = part.get("device", "cuda")
        broken = [v["id"] for v in listed["variants"] if device in (v.get("broken") or {})]
        lacking |= dict.fromkeys(matching(broken, part["variants"]))
    if lacking:
        print(f"not built here, and so left out: {', '.join(lacking)}")


def built_from_todays_text(renewed: list[Job], listed: dict[str, Any]) -> None:
    """Throws InputError where it would measure what is not the text of now."""
    variants = {v["id"]: v for v in listed["variants"]}
    old = {
        name: None
        for job in renewed
        for name in job.variants.split(",")
        for device in devices_of(job.device, variants[name])
        if variants[name]["source_hash"].get(device, "") != todays_hash(variants[name], device)
    }
    if old:
        raise InputError(
            f"built from another text than that of now: {', '.join(old)}; ./run_all.sh build builds them anew"
        )


def clean_commit() -> str:
    """The commit of the sources. Throws InputError where they differ from it: rows would not name what they are of."""
    if sha := os.environ.get("LADDER_GIT_SHA", ""):
        return sha
    git = ["git", "-C", str(ROOT)]
    state = subprocess.run([*git, "status", "--porcelain", "--", ".", ":(exclude)results/tuned.json"], **CAPTURED)
    if state.returncode != 0 or state.stdout.strip():
        raise InputError(
            "--renew needs committed sources, and here there are changes: commit them, so that rows name a commit"
        )
    return subprocess.run([*git, "rev-parse", "HEAD"], **CAPTURED).stdout.strip()


@in_sentences
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the folder that holds ladder")
    parser.add_argument("--gpus", default="0", help="with commas between them")
    parser.add_argument("--parts", type=Path, default=ROOT / "results/local/parts", help="folder for the pieces")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds in which all jobs are to end")
    parser.add_argument("--go-on", action="store_true", help="leave pieces alone that are complete")
    parser.add_argument("--only", default="*", help="globs: workloads of the plan that are run")
    parser.add_argument("--list", action="store_true", help="print the jobs, and run nothing")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--stale", action="store_true", help="list what is out of date in the record, and run nothing")
    what.add_argument("--renew", action="store_true", help="measure that alone, and put it into the record")
    parser.add_argument("--out", type=Path, help="the record")
    o = parser.parse_args()
    if not o.list and not o.out:
        parser.error("--out FILE is missing")

    # Records keep their command line: it should hold on another machine, too.
    ladder, folder = os.path.relpath(o.build / "ladder"), Path(os.path.relpath(o.parts))
    if not Path(ladder).is_file():
        raise InputError(f"{ladder} is not there: ./run_all.sh build makes it, or name another folder by --build")
    words = ["list", "--json", *(["--texts"] if o.stale or o.renew else [])]
    if o.out and not (o.list or o.stale):
        need_place(o.out, RECORD, [o.plan], force=o.renew or None)  # what is renewed is read, and refused there
    plan = plans.read(o.plan)
    answer = subprocess.run([ladder, *words], capture_output=True, check=False)
    if answer.returncode != 0:
        raise InputError(f"{ladder}: `{' '.join(words)}` failed: {answer.stderr.decode(errors='replace')}")
    listed = json_object(Path(ladder), answer.stdout, "`ladder list --json`")
    every, left_out = jobs(plan, listed, o.stale)
    planned = [job for job in every if matching(job.workload.split(","), o.only)]
    print(*left_out, sep="\n", end="\n" if left_out else "")
    if o.list:
        for job in planned:
            print(job.device, job.workload, job.variants, *job.options)
        for device in LANES:
            seconds = sum(job.seconds for job in planned if (job.device == "cpu") == (device == "cpu"))
            print(f"{device}: about {seconds:.0f} s")
        return 0
    if o.stale or o.renew:
        built_for_the_plan(plan, listed, o.stale)
    renewed = (o.stale or o.renew) and o.out.exists()
    if o.stale or o.renew:
        try:
            record = read_json(o.out) if renewed else {"rows": []}
            found = out_of_date(planned, listed, record)
            others = out_of_date([job for job in every if job not in planned], listed, record)
            if o.renew and renewed and record["context"]["git_dirty"]:
                raise InputError(
                    f"{o.out} was made from sources with uncommitted changes: make it anew, without --renew"
                )
        except (KeyError, TypeError, AttributeError):
            raise InputError(f"{o.out} is no record: python -m plots.check {o.out} says why") from None
        if o.stale or not found:
            say_what_is_out_of_date(found)
            return 0
        planned = jobs_for(found)
        built_from_todays_text(planned, listed)
        folder /= clean_commit()[:10]  # pieces of an earlier commit are not resumed
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    todo = deque(job for job in planned if not ((o.go_on or job.compares) and complete(folder / f"{job.name}.json")))
    most = len(todo)
    taking, over = threading.Lock(), threading.Event()
    done: list[Job] = []
    bad: list[str] = []
    cut: list[str] = []
    running: set[subprocess.Popen[bytes]] = set()

    def interrupt() -> None:
        """Nothing is begun any more, and what runs keeps the rows that it has."""
        with taking:
            over.set()
            told = list(running)
        for process in told:
            process.send_signal(signal.SIGINT)

    def take(device: str) -> Job | None:
        with taking:
            spare = o.budget - (time.monotonic() - begin)
            fit = (job for job in todo if (job.device == "cpu") == (device == "cpu") and job.seconds <= spare)
            job = None if over.is_set() else next(fit, None)
            if job:
                todo.remove(job)
            return job

    def work(device: str, gpu: str) -> None:
        while time.monotonic() - begin < o.budget and (job := take(device)):
            part = folder / f"{job.name}.json"
            command = [ladder, "run", "--device", job.device, "--workloads", job.workload, "--variants", job.variants]
            command += [*job.options, "--out", str(part)]
            command += ["--gpu", gpu] if device == "cuda" else []
            command += ["--resume"] if part.exists() and not job.compares else []
            start = time.monotonic()
            with part.with_suffix(".log").open("w") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
                with taking:
                    running.add(process)
                    late = over.is_set()
                if late:
                    process.send_signal(signal.SIGINT)
                status = process.wait()
                running.discard(process)
            done.append(job)
            if status in (INTERRUPTED, -signal.SIGINT):
                cut.append(f"interrupted after {time.monotonic() - start:.0f} s: {job.workload} {job.variants}")
            elif status != 0:
                bad.append(f"{job.workload} {job.variants}: status {status}, see {part.with_suffix('.log')}")
            now = time.monotonic()
            to_go = (now - begin) / len(done) * (most - len(done))
            clock = f"[{len(done)}/{most} {now - begin:.0f} s, about {to_go:.0f} s to go]"
            ended = f"{now - start:.0f} s{'' if status == 0 else f', STATUS {status}'}"
            print(f"{clock} {job.device} {gpu}: {job.workload[:60]} {job.variants[:60]} {ended}", flush=True)

    gpus = [("cuda", gpu) for gpu in o.gpus.split(",")]
    for name in (signal.SIGTERM, signal.SIGINT):  # a background job ignores SIGINT, and so would its runs
        signal.signal(name, signal.default_int_handler)
    stopped = False
    for lanes in (gpus, [("cpu", "")]):
        with ThreadPoolExecutor(len(lanes)) as pool:
            works = [pool.submit(work, *lane) for lane in lanes]
            try:
                _, late = wait(works, timeout=max(0.0, begin + o.budget - time.monotonic()))
            except KeyboardInterrupt:
                stopped = True
            if stopped or late:
                interrupt()
        for each in works:
            each.result()

    for job in todo:
        print(f"not begun{'' if stopped else f' within {o.budget:.0f} s'}: {job.workload} {job.variants}")
    print(*cut, *bad, sep="\n", end="\n" if cut or bad else "")
    kept = (folder / f"{job.name}.json" for job in planned)
    parts = [str(part) for part in kept if part.exists() and read_json(part).get("rows")]
    if renewed and parts:
        whole = [] if others or todo or cut or bad else ["--complete"]
        parts = ["--renew", *whole, str(o.out), *parts]
    elif not parts:
        raise InputError(f"no pieces in {folder}: there is nothing to join")
    o.out.parent.mkdir(parents=True, exist_ok=True)
    joined = subprocess.run([ladder, "join", str(o.out), *parts, "--samples", "100"], check=False)
    return joined.returncode or (INTERRUPTED if stopped else int(bool(bad)))


if __name__ == "__main__":
    sys.exit(main())
