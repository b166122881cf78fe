"""docs/counting.md: what `ladder count` counts on the CPU device beside what Nsight Compute counts on a GPU.

`python -m plots.counting_page --update docs/counting.md` writes the page's table from two committed files: a profile of
small workloads (`ladder profile`), and the counts of the same kernels (`ladder count`; --count makes them anew, with
the axes of the profile). `--check` exits 1 where the page says anything else. A value that differs must have its reason
in REASONS; one that has none ends the command.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from plots.lib import outputs
from plots.lib.inputs import InputError, in_sentences, read_json, read_text
from plots.lib.record import ROOT, number

PROFILE = ROOT / "results" / "nvidia-h100" / "profile_small.json"
APART = ROOT / "results" / "nvidia-h100" / "profile_tiles.json"  # kernels that the rules of counting do not know
COUNTS = ROOT / "results" / "cpu" / "counts.json"
BEGIN, END = "<!-- counting:table -->", "<!-- /counting:table -->"

COMPARED = (
    "load_requests", "sectors_per_load", "store_requests", "sectors_per_store", "wavefronts_load", "wavefronts_store",
    "bank_conflicts_load", "bank_conflicts_store", "global_atomics", "shared_atomics",
    "fadd", "fmul", "ffma", "dadd", "dmul", "dfma",
)  # fmt: skip
MARGIN = 0.02  # a small kernel's counters scatter by about so much from one profile to the next
PER_REQUEST = ("sectors_per_load", "sectors_per_store")
CONFLICTS = {"bank_conflicts_load": "wavefronts_load", "bank_conflicts_store": "wavefronts_store"}

# Kernel, counters, why they differ: read off the kernel's machine code (nvcc 13.0.88, sm_90).
REASONS = (
    ("sum_shared_kernel*", ("wavefronts_load", "bank_conflicts_load", "shared_atomics", "dadd"),
     "shared memory has no addition of doubles. SASS: `LDS.64`, `DADD`, `ATOMS.CAST.SPIN.64`, and back to `LDS.64` in "
     "the lanes that did not succeed: 18 turns for an addition of a warp, where it is counted once. Lanes of one warp "
     "with the same address explain 4 of the 18. Of the others the counters do not tell which are due to lanes in the "
     "same bank and which to the block's other warps, so there is no rule for them"),
    ("norms_kernel*", ("sectors_per_store",),
     "scatter of ncu: SASS has one `STG` of one lane, which takes a whole sector, and 18 profiles of this kernel with "
     "the same data have 0.93 to 1.10"),
    ("inverse_kernel*", ("sectors_per_store",),
     "scatter of ncu: SASS has one `STG` of one lane, which takes a whole sector"),
)  # fmt: skip


@dataclass(frozen=True)
class Value:
    rung: str
    kernel: str
    counter: str
    gpu: float
    cpu: float
    scale: float  # what a difference is held against

    @property
    def equal(self) -> bool:
        return abs(self.gpu - self.cpu) <= MARGIN * self.scale + 1e-9

    @property
    def is_possible(self) -> bool:
        """No GPU has less than one sector for a request."""
        return not (self.counter in PER_REQUEST and 0 < self.gpu < 1)

    @property
    def reason(self) -> str:
        for kernel, counters, why in REASONS:
            if fnmatchcase(self.kernel, kernel) and self.counter in counters:
                return why
        return ""


def profiles(file: Path | None = None) -> list[dict[str, Any]]:
    """Those of whole scopes of one step: of a solve, ncu profiles the first launches only."""
    whole = read_json(file or PROFILE, "`ladder profile`")["profiles"]
    return [p for p in whole if p["scope"] != "solve" and not p["cut_short"]]


def counted_kernels(document: dict[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        (c["variant"], c["workload"], s["scope"], k["name"], tuple(k["grid"]), tuple(k["block"])): k["metrics"]
        for c in document["counts"]
        for s in c["scopes"]
        for k in s["kernels"]
    }


def values(document: dict[str, Any], file: Path | None = None) -> Iterator[Value]:
    """Of each kernel that both have: each counter of either that is not zero in both."""
    counted = counted_kernels(document)
    for p in profiles(file):
        for k in p["kernels"]:
            key = (p["variant"], p["workload"], p["scope"], k["name"], tuple(k["grid"]), tuple(k["block"]))
            if key not in counted:
                continue
            for name in COMPARED:
                gpu, cpu = k["metrics"].get(name) or 0.0, counted[key].get(name) or 0.0
                scale = k["metrics"].get(CONFLICTS.get(name, name)) or 0.0
                if gpu or cpu:
                    yield Value(p["variant"], k["name"], name, gpu, cpu, scale)


def table(document: dict[str, Any]) -> str:
    found = list(values(document))
    if bad := [v for v in found if not v.equal and not v.reason]:
        v = bad[0]
        raise InputError(
            f"{v.rung}, {v.kernel}: {v.counter} is {v.gpu:g} on the GPU and {v.cpu:g} counted, and REASONS in "
            f"plots/counting_page.py has no reason for it ({len(bad)} such values)"
        )
    equal, impossible = sum(v.equal for v in found), sum(not v.is_possible for v in found)
    gpu = profiles()[0]["gpu"]["name"]
    kernels = len({(v.rung, v.kernel) for v in found})
    lines = [
        f"{gpu}, ncu {profiles()[0]['ncu']}, workloads `kmcuda_tiny` and `angular_tiny`: of {len(found)} values of "
        f"{kernels} kernels in {len({v.rung for v in found})} rungs, {equal} are equal ({100 * equal / len(found):.1f} "
        f"%). Equal means within {100 * MARGIN:.0f} %, bank conflicts within {100 * MARGIN:.0f} % of the wavefronts. "
        + (
            f"{impossible} of the others no GPU can have (less than one sector for a store); of the "
            f"{len(found) - impossible} without them {100 * equal / (len(found) - impossible):.1f} % are equal. "
            if impossible
            else ""
        )
        + "The others, each with its reason:",
        "",
        "| kernel | counter | values | GPU | counted | reason |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    different = [v for v in found if not v.equal]
    many = Counter((v.kernel.split("<")[0], v.counter, v.reason) for v in different)
    for (kernel, counter, reason), count in sorted(many.items()):
        first = next(v for v in different if (v.kernel.split("<")[0], v.counter, v.reason) == (kernel, counter, reason))
        lines.append(
            f"| `{kernel}` in `{first.rung}`" + (f" and {count - 1} more" if count > 1 else "") + f" | `{counter}` | "
            f"{count} | {number(first.gpu)} | {number(first.cpu)} | {reason} |"
        )
    apart = list(values(document, APART))
    same = sum(v.equal for v in apart)
    rungs = ", ".join(f"`{rung}`" for rung in sorted({v.rung for v in apart}))
    lines += [
        "",
        f"Not in this table are the kernels of {rungs}, for which rules are missing: pieces of "
        "16 bytes that g++ reads in halves, `min` where g++ branches, and scaling by powers of two "
        f"(`scalbn`). {same} of their {len(apart)} values are equal; with them {equal + same} of "
        f"{len(found) + len(apart)} ({100 * (equal + same) / (len(found) + len(apart)):.1f} %).",
    ]
    return "\n".join(lines)


def count(ladder: Path) -> None:
    """Counts every rung of the profile, with the axes that it was profiled with, into COUNTS."""
    wanted = sorted({(p["variant"], p["workload"], json.dumps(p["axes"])) for p in profiles() + profiles(APART)})
    listed = subprocess.run([str(ladder), "list", "--json"], capture_output=True, text=True, check=True).stdout
    axes = {
        (v["id"], axis["name"]): axis["values"] for v in json.loads(listed)["variants"] for axis in v.get("axes", [])
    }
    fewest = {rung: min(values) for (rung, name), values in axes.items() if name == "points"}
    document: dict[str, Any] = {"counts_version": 1, "counts": []}
    for at, (rung, workload, axes) in enumerate(wanted, 1):
        print(f"[{at}/{len(wanted)}] {rung} {workload}", file=sys.stderr)
        words = [str(ladder), "count", rung, "--workload", workload]
        for name, value in json.loads(axes).items():
            # Where a grid would leave multiprocessors idle, a rung takes fewest points per thread whatever the axis
            # says. The CPU device has few of them, and a profiled GPU has more than these workloads fill.
            words += ["--axis", f"{name}={fewest[rung] if name == 'points' else value}"]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "counts.json"
            done = subprocess.run([*words, "--out", str(out)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"  left out: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                continue
            document["counts"] += read_json(out, "`ladder count`")["counts"]
    outputs.write(COUNTS, json.dumps(document, separators=(",", ":")).replace('{"axes"', '\n{"axes"') + "\n")


@in_sentences
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--update", type=Path, metavar="FILE", help="write the table in the page")
    what.add_argument("--check", type=Path, metavar="FILE", help="exit 1 where the page says anything else")
    what.add_argument("--count", type=Path, metavar="LADDER", help="count anew, with this program (build/ladder)")
    arguments = parser.parse_args(argv)
    if arguments.count:
        count(arguments.count)
        return 0
    page = arguments.update or arguments.check
    text = read_text(page)
    if BEGIN not in text or END not in text:
        raise InputError(f"{page}: lacks the lines {BEGIN} and {END} around its table")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    made = table(read_json(COUNTS, "`ladder count`"))
    new = f"{text[:begin]}\n{made}\n{text[end:]}"
    if arguments.update:
        outputs.write(page, new)
    elif new != text:
        print(f"{page}: run `python -m plots.counting_page --update {page}`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
