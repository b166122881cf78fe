"""Counts labels that are not those of the exact minimum: of every rung that promises them, on whatever device is here,
on the adversarial sets of tests/tools/adversarial.py and on random shapes. The certificate's claim, tried.

    .venv/bin/python tests/tools/exact_labels.py [--trials 300] [--seconds 60] [--device simt|cuda] [--variants GLOBS]
    .venv/bin/python tests/tools/exact_labels.py --sets none --trials 1000 --seconds 600 --seed 2  # random shapes alone

On a GPU the certificate's probe of the tensor cores (tests/tools/probe_tensor_cores.cu) is built and run beside them.

First all sets, then the trials, then, as long as --seconds are left, all sets with other seeds. A rung that refuses a
set is tried on its first 3 features. A rung with axes goes through each set once more with drawn values, and so through
every other trial: its standard ones may let it go an easy way. What a number or a seed stands for is the same in every
run. Every label is validated (harness/validation): those of each iteration for the centroids that it began with, and
those of the last centroids. Those of the first and the last are judged once more here, in whole numbers
(tests/tools/whole_numbers.py), without any code of the harness or the rungs; on equal distances the lowest index wins.
A rung may refuse a set, in a sentence. --out FILE keeps the counts of each rung, after each case anew.
Exit status: 0 none is wrong, 1 some are, or a rung failed, 2 nothing was compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import whole_numbers
from adversarial import EVERY, Data, spectrum, typed

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("normal", "blobs", "spectrum", "near ties", "far from zero", "whole numbers", "nearly all zeros", "any scale")
MOST_FEATURES, MOST_CLUSTERS = 2048, 5000
FEW_FEATURES = 3
KEPT = "labels, and those that are not of the exact minimum, by rung"  # what a file of --out begins with
# In one process, with its judge inside: judged apart each rung has a GPU's context of its own. A host makes one at a
# time, which takes longer than all else. What judges here is in no process of theirs.
TURNS = ("--share", "--judge", "inside")
# Of a device: rows of a set, and of a trial at most; multiply-adds of a trial's assignment at most; runs side by side.
SIZES = {"simt": (600, 3000, 3e7, 1), "cuda": (1_000_000, 200_000, 5e9, 6)}


@dataclass(frozen=True)
class Case:
    """Something to try: one of the sets with a seed, or a trial by its number."""

    name: str
    seed: int
    variants: str
    number: int = 0
    axes: tuple[str, ...] = ()  # NAME=VALUE

    def __str__(self) -> str:
        return " ".join([self.name, str(self.number or self.seed), *self.axes])


def cases(
    sets: list[str], trials: int, seed: int, cards: list[dict], endless: bool, with_axes: bool = True
) -> Iterator[Case]:
    every, tuned = ",".join(card["id"] for card in cards), ",".join(card["id"] for card in cards if card["axes"])
    values = {axis["name"]: axis["values"] for card in cards for axis in card["axes"]}

    def drawn(*stream: int) -> tuple[str, ...]:
        rng = np.random.default_rng(stream)
        return tuple(f"{name}={rng.choice(some)}" for name, some in values.items())

    def all_sets(seed: int) -> Iterator[Case]:
        for at, name in enumerate(sets):
            yield Case(name, seed, every)
            if values and with_axes:
                yield Case(name, seed, tuned, axes=drawn(seed, at))

    yield from all_sets(seed)
    for number in range(1, trials + 1):
        yield Case("trial", seed, every, number, drawn(seed, number, 1) if number % 2 else ())
    if endless and sets:
        for more in itertools.count(1):
            yield from all_sets(seed + 1000 * more)


def between(rng: np.random.Generator, low: int, high: float) -> int:
    """A whole number whose logarithm is uniform: small sizes are where loops end early."""
    return int(np.exp(rng.uniform(np.log(low), np.log(max(low, high) + 1))))


def trial(seed: int, number: int, most_rows: int, most_work: float) -> tuple[Data, str, str]:
    """Points and centroids of a random shape and kind; the kind and the stop rule."""
    rng = np.random.default_rng([seed, number])
    kind = str(rng.choice(KINDS))
    d = between(rng, 1, min(MOST_FEATURES, most_work / 4))
    n = between(rng, 2, min(most_rows, most_work / d))
    k = between(rng, 2 if rng.random() < 0.95 else 1, min(n, MOST_CLUSTERS, most_work / (n * d)))
    points = rng.standard_normal((n, d))
    if kind == "blobs":
        points += 6 * rng.standard_normal((9, d))[rng.integers(9, size=n)]
    elif kind == "spectrum":
        points = spectrum(rng, n, d, rng.uniform(0, 4))
    elif kind == "far from zero":
        points += 10 ** rng.uniform(0, 6)
    elif kind == "whole numbers":
        points = rng.integers(-3, 4, size=(n, d)).astype(float)
    elif kind == "nearly all zeros":
        points *= rng.random(size=(n, d)) < 0.08
    elif kind == "any scale":
        points *= 2.0 ** rng.uniform(-140, 60)
    centroids = points[rng.choice(n, k, replace=False)]
    if kind == "near ties" and k > 1:  # half of the points between two centroids
        pair, off = rng.integers(k, size=(2, n)), 2.0 ** -rng.integers(2, 25, size=(n, 1))
        middle, apart = (centroids[pair[0]] + centroids[pair[1]]) / 2, centroids[pair[0]] - centroids[pair[1]]
        points = np.where(rng.random((n, 1)) < 0.5, middle + off * apart, points)
    dtype = "float64" if rng.random() < 0.15 else "float32"
    return (points.astype(dtype), centroids.astype(dtype)), kind, f"fixed:{rng.integers(1, 5)}"


@dataclass
class Tally:
    """What came of some cases, by rung."""

    labels: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)  # labels, in whole numbers
    refused: Counter[str] = field(default_factory=Counter)
    trials: int = 0  # of the cases
    shapes: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)  # a sentence for each rung that was wrong, or failed
    context: dict = field(default_factory=dict)  # of the first record

    def add(self, other: Tally) -> None:
        for name in ("labels", "wrong", "judged", "refused"):
            getattr(self, name).update(getattr(other, name))
        self.trials += other.trials
        self.shapes |= other.shapes
        self.faults += other.faults
        self.context = self.context or other.context


def tally_of(rows: list[dict], what: str) -> Tally:
    """What a record says of its rungs."""
    tally = Tally()
    for row in {row["variant"]: row for row in rows}.values():
        variant, status, found = row["variant"], row["status"], row["validation"]
        if found:
            tally.labels[variant] += found["rows_checked"]
            tally.wrong[variant] += found["labels_wrong"]
        if status == "refused" and row["reason"]:
            tally.refused[variant] += 1
        elif status != "checked":
            tally.faults.append(f"{what}: {variant} is {status}: {row['reason']}")
    return tally


def judge(tally: Tally, rows: list[dict], folder: Path, points: np.ndarray, initial: np.ndarray, what: str) -> None:
    """Adds what whole numbers say of the labels that the rungs left: for the centroids that they began with, and for
    those that they ended with."""
    seen: dict[bytes, whole_numbers.Verdict] = {}
    for variant, dump in {row["variant"]: row.get("dump") for row in rows}.items():
        for labels, of in (("first_labels", initial), ("labels", None)):
            if not dump or not (folder / dump / f"{labels}.npy").exists():
                continue
            got = np.load(folder / dump / f"{labels}.npy")
            centroids = np.load(folder / dump / "centroids.npy") if of is None else of
            key = got.tobytes() + centroids.tobytes()  # most rungs end with the same bits
            if key not in seen:
                seen[key] = whole_numbers.judge(points, centroids, got)
            tally.judged[variant] += seen[key].judged
            if seen[key].wrong:
                tally.wrong[variant] += seen[key].wrong
                tally.faults.append(f"{what}: {variant}, {labels}: {seen[key].first}")


def modules(options: argparse.Namespace) -> list[str]:
    return ["--modules", *map(str, options.modules)] if options.modules else []


def attempt(case: Case, options: argparse.Namespace, ladder: Path) -> tuple[str, Tally]:
    """Runs all rungs on a case: what it is in words, and what came of it."""
    set_rows, most_rows, work, _ = SIZES[options.device]
    if case.name == "trial":
        (points, centroids), kind, stop = trial(case.seed, case.number, options.points or most_rows, work)
    else:
        make = next(make for make in EVERY if make.__name__ == case.name)
        (points, centroids), kind, stop = typed(make, options.points or set_rows, case.seed), "", "fixed:2"
    what = f"{case}: {shape_of(points, centroids)}, {stop}{', ' if kind else ''}{kind}"
    tally, declined = compared(case, case.variants, points, centroids, stop, what, options, ladder)
    tally.trials = int(case.name == "trial")
    if case.name != "trial" and declined and points.shape[1] > FEW_FEATURES:
        # Some rungs take few features alone: the same rows, as far as these go.
        few = [np.ascontiguousarray(part[:, :FEW_FEATURES]) for part in (points, centroids)]
        narrow, _ = compared(case, ",".join(declined), *few, stop, f"{what}, of which {FEW_FEATURES}", options, ladder)
        tally.add(narrow)
    return what, tally


def shape_of(points: np.ndarray, centroids: np.ndarray) -> str:
    return f"{points.shape[0]:,} x {points.shape[1]} {points.dtype}, K = {len(centroids):,}"


def compared(
    case: Case, variants: str, points: np.ndarray, centroids: np.ndarray, stop: str, what: str,
    options: argparse.Namespace, ladder: Path,
) -> tuple[Tally, list[str]]:  # fmt: skip
    """What comes of these rungs on these points, and who of them refused them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "points.npy", points)
        np.save(folder / "centroids.npy", centroids)
        command = [ladder, "run", "--check", "--validation-budget", "1e18", "--time-limit", "300", *TURNS]
        command += ["--device", options.device, "--gpu", options.gpu, "--variants", variants]
        command += [word for axis in case.axes for word in ("--axis", axis)]
        command += modules(options)
        command += ["--data", folder / "points.npy", "--init", folder / "centroids.npy", "--k", len(centroids)]
        command += ["--stop", stop, "--out", folder / "record.json", "--dump", folder / "dump"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT, check=False)
        if (folder / "record.json").exists():
            record = json.loads((folder / "record.json").read_text())
            rows = record["rows"]
            tally = tally_of(rows, what)
            tally.context = record["context"]
            judge(tally, rows, folder, points, centroids, what)
            tally.shapes = {shape_of(points, centroids)}
            return tally, sorted(tally.refused)
    said = done.stderr.strip().splitlines()
    why = f"{what}: `ladder run` ended with status {done.returncode}: {said[-1] if said else ''}"
    return Tally(faults=[why]), []


def probe() -> tuple[list[str], bool]:
    """What the probe of the tensor cores says, and whether they are as the certificate assumes."""
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not nvcc:
        return ["the probe of the tensor cores was not run by itself, for want of nvcc: each rung has its own"], True
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "probe"
        smi = shutil.which("nvidia-smi")
        asked = [smi, "--query-gpu=compute_cap", "--format=csv,noheader"]
        capability = subprocess.run(asked, capture_output=True, text=True, check=False).stdout if smi else ""
        hopper = capability.startswith("9.0")  # it has wgmma
        device = ["-gencode", "arch=compute_90a,code=sm_90a", "-DLADDER_PROBE_WGMMA"] if hopper else ["-arch=native"]
        command = [nvcc, "-std=c++20", "--expt-relaxed-constexpr", *device, "-o", str(program)]
        for words in ([*command, "tests/tools/probe_tensor_cores.cu"], [str(program)]):
            done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
            if done.returncode:
                break
    return [*done.stdout.splitlines(), *done.stderr.splitlines()], done.returncode == 0


def keep(options: argparse.Namespace, whole: Tally, done: int, complete: bool) -> None:
    """Into --out, if it is asked for: the whole file or none."""
    if not options.out:
        return
    rungs = {
        variant: {
            "labels": whole.labels[variant], "judged_in_whole_numbers": whole.judged[variant],
            "wrong": whole.wrong[variant], "cases_refused": whole.refused[variant],
        }
        for variant in sorted({*whole.labels, *whole.refused})
    }  # fmt: skip
    found = {
        "exact_labels": KEPT, "argv": options.words, "device": options.device, "complete": complete,
        "context": {name: whole.context.get(name) for name in ("git_sha", "git_dirty", "gpu", "host", "time")},
        "sets": options.sets, "cases": done, "trials": whole.trials, "shapes": len(whole.shapes),
        "faults": whole.faults, "rungs": rungs,
    }  # fmt: skip
    part = options.out.with_name(options.out.name + ".part")
    part.write_text(json.dumps(found, indent=1) + "\n")
    part.replace(options.out)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def go_through(options: argparse.Namespace, cards: list[dict], ladder: Path) -> tuple[Tally, int]:
    """All cases, a line each; the sum, and how many they were."""
    begin = time.monotonic()
    chosen = options.sets, options.trials, options.seed, cards
    with_axes = not options.no_axes
    whole, done, planned = Tally(), 0, sum(1 for _ in cases(*chosen, endless=False, with_axes=with_axes))
    waiting = cases(*chosen, endless=options.seconds > 0, with_axes=with_axes)
    taking = threading.Lock()

    def to_go(spent: float) -> float:
        needed = spent / max(done, 1) * (planned - done)
        return options.seconds - spent if options.seconds else needed

    def work(most: float = math.inf) -> None:
        nonlocal done
        taken = 0
        while taken < most:
            taken += 1
            with taking:
                late = options.seconds and time.monotonic() - begin > options.seconds
                case = None if late else next(waiting, None)
            if case is None:
                return
            what, tally = attempt(case, options, ladder)
            with taking:
                done += 1
                whole.add(tally)
                spent = time.monotonic() - begin
                count = f"{done}" if options.seconds else f"{done} of {planned}"
                state = f"[{count}, {clock(spent)}, {clock(max(0.0, to_go(spent)))} to go]"
                print(
                    f"{state} {what}: {tally.labels.total():,} labels of {len(tally.labels)} rungs, "
                    f"{tally.wrong.total()} wrong; {whole.labels.total():,} in all",
                    *tally.faults, sep="\n  ", flush=True,
                )  # fmt: skip
                keep(options, whole, done, complete=False)

    # The first alone: a run measures what the device can do at most, where none has yet, and keeps it for later ones.
    work(most=1)
    with ThreadPoolExecutor(options.jobs + 1) as pool:
        probing = pool.submit(probe) if options.device == "cuda" else None
        for worker in [pool.submit(work) for _ in range(options.jobs)]:
            worker.result()
    if probing:
        said, holds = probing.result()
        print(*said, sep="\n")
        whole.faults += [] if holds else [f"the probe of the tensor cores: {' '.join(said[-1:])}"]
    return whole, done


def device_here(listed: dict) -> str:
    return "cuda" if any(device["kind"] == "cuda" for device in listed["devices"]) else "simt"


def main(words: list[str] | None = None) -> int:
    names = [make.__name__ for make in EVERY]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300, help="random shapes (300)")
    parser.add_argument("--seconds", type=float, default=0, help="begin nothing after, and go on until then")
    parser.add_argument("--sets", default=",".join(names), help=f"of {', '.join(names)}, or none (all)")
    parser.add_argument("--points", type=int, help="rows of a set, and of a trial at most (by the device)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=tuple(SIZES), help="default: a GPU where there is one, else simt")
    parser.add_argument("--gpu", type=int, default=0, help="which GPU")
    parser.add_argument("--jobs", type=int, help="runs side by side (by the device)")
    parser.add_argument("--variants", default="", help="globs (all whose labels are those of the exact minimum)")
    parser.add_argument("--no-axes", action="store_true", help="sets with the standard values of axes alone")
    parser.add_argument("--modules", nargs="*", default=[], help="more folders with built variants")
    parser.add_argument("--out", type=Path, help="JSON: what came of each rung")
    options = parser.parse_args(words)
    options.words = sys.argv[1:] if words is None else words
    options.sets = [name for name in options.sets.split(",") if name and options.sets != "none"]
    if unknown := set(options.sets) - set(names):
        parser.error(f"there is no set '{min(unknown)}': {', '.join(names)}")

    if options.out and not options.out.parent.is_dir():
        parser.error(f"--out {options.out}: there is no folder {options.out.parent}")
    if options.out and options.out.exists() and KEPT not in options.out.read_text(errors="replace")[:200]:
        parser.error(f"--out {options.out}: is there already, and is no result of this program; name another file")

    ladder = Path(os.environ.get("LADDER_BUILD", ROOT / "build")).resolve() / "ladder"
    if not ladder.exists():
        parser.error(f"{ladder} is not built: cmake --build build, or set LADDER_BUILD to the folder that holds it")
    listed = json.loads(
        subprocess.run([ladder, "list", "--json", *modules(options)], capture_output=True, check=True).stdout
    )
    options.device = options.device or device_here(listed)
    options.jobs = options.jobs or SIZES[options.device][-1]
    cards = [card for card in listed["variants"] if options.device in card["devices"] and "axes" in card]
    if options.variants:
        cards = [card for card in cards if any(fnmatch(card["id"], glob) for glob in options.variants.split(","))]
    else:
        cards = [card for card in cards if card["arithmetic"] == "exact"]
    if not cards:
        print(f"nothing was compared: no such rung is here for {options.device}, see `ladder list`")
        return 2

    whole, done = go_through(options, cards, ladder)
    keep(options, whole, done, complete=True)
    for variant, labels in sorted(whole.labels.items()):
        refused = f", {whole.refused[variant]} cases refused" if whole.refused[variant] else ""
        judged = f"{whole.judged[variant]:,} of them in whole numbers too"
        print(f"{variant}: {labels:,} labels, {judged}, {whole.wrong[variant]:,} wrong{refused}")
    labels, wrong = whole.labels.total(), whole.wrong.total()
    if whole.faults:
        print(f"{wrong:,} of {labels:,} labels are wrong; {len(whole.faults)} faults, the first: {whole.faults[0]}")
        return 1
    if not labels:
        print(f"nothing was compared: no rung took any of {done} cases on {options.device}")
        return 2
    tried = f"{done} cases ({whole.trials} of them trials, {len(whole.shapes)} shapes)"
    print(f"All {labels:,} labels of {len(whole.labels)} rungs in {tried} are those of the exact minimum.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
