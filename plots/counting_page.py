"""docs/counting.md: what `ladder count` counts on the CPU device beside what Nsight Compute counts on a GPU.

`python -m plots.counting_page --update docs/counting.md` writes the page's table from committed files: profiles of
small workloads (`ladder profile`), and the counts of the same kernels (`ladder count`; --count makes them anew, with
the axes of the profiles). `--check` exits 1 where the page says anything else. A value that differs must have its
reason in REASONS; one that has none ends the command.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from plots.lib import outputs
from plots.lib.inputs import InputError, in_sentences, read_json, read_text
from plots.lib.pages import between_marks
from plots.lib.record import ROOT, number

RESULTS = ROOT / "results"
GPU = RESULTS / "nvidia-h200"
COUNTS = RESULTS / "cpu" / "counts.json"
REPEATS = tuple(GPU / f"repeated_profile_{turn}.json" for turn in (1, 2, 3))  # of rungs that have estimates

COMPARED = (
    "load_requests", "sectors_per_load", "store_requests", "sectors_per_store", "wavefronts_load", "wavefronts_store",
    "bank_conflicts_load", "bank_conflicts_store", "global_atomics", "shared_atomics",
    "fadd", "fmul", "ffma", "dadd", "dmul", "dfma",
)  # fmt: skip
MARGIN = 0.02
CONFLICTS = {"bank_conflicts_load": "wavefronts_load", "bank_conflicts_store": "wavefronts_store"}

ANY = float("inf")
ESTIMATE = 0.25  # of counters that the program does not determine
SCHEDULED = (
    "ptxas schedules the last addition of a sum over the warp before or behind the exit that all lanes but one take "
    "(`SHFL`, `@P0 EXIT`, `DADD`): behind it in `quantize_kernel` and `norms_kernel<double>`, before it in "
    "`inverse_kernel`, and two of three in `finish_kernel`. PTX has all of them before it, and there is no rule for it"
)
ATOMICS = "an estimate: how often a warp repeats an addition to shared memory depends on when the other warps come"
# Kernel, counters, by how much they may differ, why: read off the kernel's machine code (nvcc 13.0.88, sm_90).
REASONS = (
    ("sum_shared_kernel*", ("wavefronts_load", "bank_conflicts_load", "shared_atomics", "dadd"), ESTIMATE, ATOMICS),
    ("quantize_kernel*", ("dadd",), ANY, SCHEDULED),
)  # fmt: skip

# Of later rungs, whose rules are not complete: the first that fits.
LATER_REASONS = (
    ("sum_shared_kernel*", ("wavefronts_load", "bank_conflicts_load", "shared_atomics", "dadd"), ESTIMATE, ATOMICS),
    ("sum_kernel*", ("wavefronts_load", "bank_conflicts_load", "shared_atomics", "dadd"), ESTIMATE, ATOMICS),
    ("sum_boxes_kernel<double>", ("wavefronts_load", "bank_conflicts_load", "shared_atomics", "dadd"), ESTIMATE,
     ATOMICS),
    ("finish_kernel*", ("dadd",), ANY, SCHEDULED),
    ("quantize_kernel*", ("dadd",), ANY, SCHEDULED),
)  # fmt: skip

# Of grids as large as the GPU.
FILLING_REASONS = (
    ("solve_kernel*", ("load_requests", "sectors_per_load"), 0.2,
     "an estimate: how often a block loads while it waits at a barrier of the grid depends on when the others come"),
    ("solve_kernel<float, 3, 7>", ("wavefronts_load", "bank_conflicts_load"), ANY,
     "nvcc loads a thread's points behind the branch around the loop over centroids, which alone needs them: 8 of 12 "
     "warps have no centroid and do not load (`@P0 BRA`, then 21 `LDS.128`). The text asks twice whether there is one, "
     "and g++ loads the points between. Also, the distance to a point's own centroid reads the point by reference: all "
     "that nvcc knows of where it lies is that floats do, and it has 12 `LDS`, of rows of 48 bytes, 4 lanes to a bank. "
     "g++ knows the structure's type, and has 3 `LDS.128`"),
    ("solve_kernel<float, 3, 7>", ("fmul",), ANY,
     "nvcc computes the bound of a point once where the text has it twice; g++ makes branches of `min`, between which "
     "it does not see that both are the same"),
)  # fmt: skip

# Of rungs that reuse labels, sums and bounds of the iteration before.
PRUNING_REASONS = (
    ("finish_kernel*", ("dadd",), ANY, SCHEDULED),
    ("set_threshold_kernel*", ("dadd",), ANY, SCHEDULED),
    ("set_threshold_kernel*", ("load_requests", "sectors_per_load"), ANY,
     "nvcc keeps a point's guess, which the text reads in front of a sum over the warp and again behind it. The "
     "counter reads it twice, as the two are in different blocks of code"),
    ("filter_kernel*", ("load_requests", "sectors_per_load"), ANY,
     "a lane's last two halves are replaced by two of another array: nvcc chooses between the addresses and loads once "
     "(`SEL`, `LDG`), g++ loads both"),
    ("filter_kernel*", ("wavefronts_load",), ANY,
     "a warp loads centroids by `LDSM`, together. The CPU device has loads of each lane in its place, and lanes that "
     "wait for no others behind the loop over candidates (`YIELD`) come to them at different times"),
    ("apply_kernel*", ("load_requests", "sectors_per_load"), ANY,
     "nvcc loads both norms where a Gaussian kernel needs them; the workload's is a polynomial. g++ loads them before "
     "it asks"),
)  # fmt: skip

# Of initialisations.
INITIALISING_REASONS = (
    ("pick_kernel*", ("wavefronts_load",), 0.05,
     "nvcc unrolls all 128 rounds of a sum over shared memory, keeps the numbers in registers, and has no `LDS` in the "
     "search behind it. g++ loads in the search what it reads there, one number or a few"),
)  # fmt: skip


@dataclass(frozen=True)
class Held:
    """A profile, the counts that are held against it, and where the page has both."""

    mark: str
    profile: Path
    counts: Path
    reasons: tuple[tuple[str, tuple[str, ...], float, str], ...]
    solves: bool = False  # a solve is compared, too: it is one launch, or its launches were all profiled
    other_work: tuple[str, ...] = ()  # kernels that are not compared: what leaves them their points is another kernel


FIRST = Held("table", GPU / "profile_first.json", COUNTS, REASONS)
LATER = Held("later", GPU / "profile_later.json", RESULTS / "cpu" / "counts_later.json", LATER_REASONS)
FILLING = Held("filling", GPU / "profile_few.json", RESULTS / "cpu" / "counts_few.json", FILLING_REASONS, solves=True)
PRUNING = Held(
    "pruning",
    GPU / "profile_pruning.json",
    RESULTS / "cpu" / "counts_pruning.json",
    PRUNING_REASONS,
    solves=True,
    other_work=("compare_kernel*", "refine_kernel*"),
)
INITIALISING = Held(
    "initialising",
    GPU / "profile_initialise.json",
    RESULTS / "cpu" / "counts_initialise.json",
    INITIALISING_REASONS,
)
ALL = (FIRST, LATER, FILLING, PRUNING, INITIALISING)

# Rung, workload, scope, kernel, grid, block.
Place = tuple[str, str, str, str, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Value:
    rung: str
    kernel: str
    counter: str
    gpu: float
    cpu: float
    scale: float  # what a difference is held against
    again: tuple[float, ...] = ()  # of an estimate: what other profiles of the same kernel have
    is_estimate: bool = False  # the program does not determine it

    @property
    def least(self) -> float:
        return min((self.gpu, *self.again))

    @property
    def most(self) -> float:
        return max((self.gpu, *self.again))

    @property
    def equal(self) -> bool:
        margin = MARGIN * self.scale + 1e-9
        return self.least - margin <= self.cpu <= self.most + margin

    def reason(self, held: Held = FIRST) -> str:
        difference = abs(self.gpu - self.cpu)
        for kernel, counters, most, why in held.reasons:
            known = fnmatchcase(self.kernel, kernel) and self.counter in counters
            if known and difference <= most * self.scale:
                return why
        return ""


def read_profiles(file: Path) -> list[dict[str, Any]]:
    return list(read_json(file, "`ladder profile`")["profiles"])


def profiles(held: Held = FIRST) -> list[dict[str, Any]]:
    """Those of whole scopes, and of a solve where it is one launch: of others ncu profiles the first launches only."""
    whole = [p for p in read_profiles(held.profile) if not p["cut_short"]]
    return [p for p in whole if held.solves or p["scope"] != "solve"]


def plain(name: str) -> str:
    """A kernel's name without the namespace that ncu leaves out where all kernels of a report share it, and with
    brackets that close side by side, as it has them."""
    return name.replace("ladder::", "").replace("> >", ">>")


def kernels_of(profiled: list[dict[str, Any]]) -> dict[Place, dict[str, Any]]:
    return {
        (p["variant"], p["workload"], p["scope"], plain(k["name"]), tuple(k["grid"]), tuple(k["block"])): k["metrics"]
        for p in profiled
        for k in p["kernels"]
    }


def counted_kernels(document: dict[str, Any]) -> dict[Place, dict[str, Any]]:
    return {
        (c["variant"], c["workload"], s["scope"], plain(k["name"]), tuple(k["grid"]), tuple(k["block"])): k["metrics"]
        for c in document["counts"]
        for s in c["scopes"]
        for k in s["kernels"]
    }


def estimates(document: dict[str, Any]) -> set[tuple[str, ...]]:
    """Of the counts those that depend on timing, which no program has: rung, workload, scope, kernel, counter."""
    return {
        (c["variant"], c["workload"], s["scope"], plain(k["name"]), name)
        for c in document["counts"]
        for s in c["scopes"]
        for k in s["kernels"]
        for name in k.get("estimates", ())
    }


def values(document: dict[str, Any], held: Held = FIRST) -> list[Value]:
    """Of each kernel that both have: each counter of either that is not zero in both."""
    counted, estimated = counted_kernels(document), estimates(document)
    repeats = [kernels_of(read_profiles(file)) for file in REPEATS]
    found = []
    for place, of_gpu in kernels_of(profiles(held)).items():
        if place not in counted or any(fnmatchcase(place[3], kernel) for kernel in held.other_work):
            continue
        for name in COMPARED:
            gpu, cpu = of_gpu.get(name) or 0.0, counted[place].get(name) or 0.0
            if not (gpu or cpu):
                continue
            scale = of_gpu.get(CONFLICTS[name]) or 0.0 if name in CONFLICTS else gpu
            is_estimate = (*place[:4], name) in estimated
            again = tuple(r[place][name] for r in repeats if is_estimate and r.get(place, {}).get(name) is not None)
            found.append(Value(place[0], place[3], name, gpu, cpu, scale, again, is_estimate))
    return found


def share(found: list[Value]) -> float:
    """Of the values, how many are equal."""
    return sum(v.equal for v in found) / len(found)


def of_timing(found: list[Value]) -> str:
    """How many values are estimates, and how many of these are the GPU's, in sentences."""
    guessed = [v for v in found if v.is_estimate]
    if not guessed:
        return ""
    settled = [v for v in found if not v.is_estimate]
    turns = max(len(v.again) for v in guessed) + 1
    return (
        f"{len(guessed)} of the values depend on timing. Of these {sum(v.equal for v in guessed)} lie within what up "
        f"to {turns} profiles of the same kernel have. Of the {len(settled)} that the program determines "
        f"{sum(v.equal for v in settled)} are equal ({100 * share(settled):.1f} %)."
    )


def of_all(held: Held, found: list[Value]) -> str:
    """The share of these values and of the sets before together, in a sentence."""
    before = ALL[: ALL.index(held)]
    if not before:
        return ""
    both = [*(v for other in before for v in values(read_json(other.counts, "`ladder count`"), other)), *found]
    settled = [v for v in both if not v.is_estimate]
    return (
        f"With those of the {'first rungs' if len(before) == 1 else 'rungs above'} {sum(v.equal for v in both)} of "
        f"{len(both)} values are equal ({100 * share(both):.1f} %), and of the {len(settled)} that the program "
        f"determines {sum(v.equal for v in settled)} ({100 * share(settled):.1f} %)."
    )


def span(value: Value) -> str:
    """What the GPU counted; of an estimate in all profiles."""
    least, most = number(value.least), number(value.most)
    return least if least == most else f"{least} to {most}"


def table(document: dict[str, Any], held: Held = FIRST) -> str:
    found = values(document, held)
    different = [v for v in found if not v.equal]
    if bad := [v for v in different if not v.reason(held)]:
        v = bad[0]
        raise InputError(
            f"{v.rung}, {v.kernel}: {v.counter} is {v.gpu:g} on the GPU and {v.cpu:g} counted, and REASONS in "
            f"plots/counting_page.py has no reason for it ({len(bad)} such values)"
        )
    of_gpu = profiles(held)
    kernels = len({(v.rung, v.kernel) for v in found})
    *others, last = (f"`{name}`" for name, _ in Counter(p["workload"] for p in of_gpu).most_common())
    named = f"workloads {', '.join(others)} and {last}" if others else f"workload {last}"
    sentences = (
        f"{of_gpu[0]['gpu']['name']}, ncu {of_gpu[0]['ncu']}, {named}: of {len(found)} values of {kernels} kernels in "
        f"{len({v.rung for v in found})} rungs, {len(found) - len(different)} are equal ({100 * share(found):.1f} %).",
        of_timing(found),
        of_all(held, found),
    )
    lines = [
        " ".join(filter(None, sentences)),
        "",
        "The values that differ, and why:",
        "",
        "| kernel | counter | values | GPU | counted | reason |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]

    def kind(v: Value) -> tuple[str, str, str]:
        return v.kernel.split("<")[0], v.counter, v.reason(held)

    for (kernel, counter, reason), count in sorted(Counter(map(kind, different)).items()):
        first = next(v for v in different if kind(v) == (kernel, counter, reason))
        lines.append(
            f"| `{kernel}` in `{first.rung}`" + (f" and {count - 1} more" if count > 1 else "") + f" | `{counter}` | "
            f"{count} | {span(first)} | {number(first.cpu)} | {reason} |"
        )
    return "\n".join(lines)


def count(ladder: Path, held: Held) -> None:
    """Counts every rung of the profiles, with the axes that it was profiled with, and on as many multiprocessors as
    that GPU has, into their file of counts."""
    wanted = sorted(
        {(p["variant"], p["workload"], json.dumps(p["axes"]), p["gpu"]["multiprocessors"]) for p in profiles(held)}
    )
    document: dict[str, Any] = {"counts_version": 1, "counts": []}
    for at, (rung, workload, axes, multiprocessors) in enumerate(wanted, 1):
        print(f"[{at}/{len(wanted)}] {rung} {workload}", file=sys.stderr)
        words = [str(ladder), "count", rung, "--workload", workload, "--multiprocessors", str(multiprocessors)]
        words += [word for name, value in json.loads(axes).items() for word in ("--axis", f"{name}={value}")]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "counts.json"
            done = subprocess.run([*words, "--out", str(out)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"  left out: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                continue
            document["counts"] += read_json(out, "`ladder count`")["counts"]
    outputs.write(held.counts, json.dumps(document, separators=(",", ":")).replace('{"axes"', '\n{"axes"') + "\n")


@in_sentences
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--update", type=Path, metavar="FILE", help="write the table in the page")
    what.add_argument("--check", type=Path, metavar="FILE", help="exit 1 where the page says anything else")
    what.add_argument("--count", type=Path, metavar="LADDER", help="count anew, with this program (build/ladder)")
    arguments = parser.parse_args(argv)
    if arguments.count:
        for held in ALL:
            count(arguments.count, held)
        return 0
    page = arguments.update or arguments.check
    text = new = read_text(page)
    for held in ALL:
        made = table(read_json(held.counts, "`ladder count`"), held)
        new = between_marks(
            new, f"<!-- counting:{held.mark} -->", f"<!-- /counting:{held.mark} -->", f"{made}\n", str(page)
        )
    if arguments.update:
        outputs.write(page, new)
    elif new != text:
        print(f"{page}: run `python -m plots.counting_page --update {page}`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
