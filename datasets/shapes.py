"""The shapes of the map, and those that judge it: writes the families map_* and hold_* into workloads.json.

    python datasets/shapes.py            # rewrites the lines of these families, and no others
    python datasets/shapes.py --list     # prints the shapes, and how much they cover

A kind of data has shapes of its own. They fill N, D and K evenly on logarithmic scales: a point of the unit cube for
each, by an additive sequence (M. Roberts, The Unreasonable Effectiveness of Quasirandom Sequences, 2018), from the
place in the cube where the kind's seed puts its first; points outside of the caps are passed over. The shapes that
judge the map follow the same rule from other seeds. The ends of the ranges, which no such point hits, come first.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the checkout
from plots.lib import outputs
from plots.lib.inputs import in_sentences, read_text

FILE = Path(__file__).resolve().parent / "workloads.json"
AFTER = '  {"name": "grid_'  # what is written follows the last line that begins so, in each list

N, D, K = (1e3, 1e7), (2, 2048), (2, 40_000)
LEAST_PER_CLUSTER = 10  # points
MOST_BYTES = 2e9  # of a shape's points
# Multiply-adds of one assignment that computes all distances; fewer than 32 features cost about what 32 do. At most
# 20 ms by an H200's fp32 units (50 TFLOP/s), and as much by its fp64 units.
MOST_WORK = {"f32": 5e11, "f64": 2.5e11}
FEW_FEATURES = 32
MAP, JUDGES = 0, 1  # seeds
ITERATIONS = 10
# Of flat and decaying spectra: the least N, D and K, the most N, the most D, the most K.
ENDS = ((1000, 2, 2), (10_000_000, 2, 10), (20_000, 2048, 1000), (400_000, 30, 40_000))
# 1/g, 1/g^2 and 1/g^3 of the root g of x^4 = x + 1.
STEPS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)


@dataclass(frozen=True)
class Kind:
    name: str
    title: str
    type: str
    count: int  # on the map
    judges: int  # shapes that the map does not hold
    features: tuple[float, float] = D
    ends: tuple[tuple[int, int, int], ...] = ()


KINDS = (
    Kind("flat", "a flat spectrum", "f32", 40, 13, ends=ENDS),
    Kind("decaying", "a decaying spectrum", "f32", 40, 13, ends=ENDS),
    Kind("sparse", "sparse blobs", "f32", 20, 7, (16, 2048)),
    Kind("double", "doubles", "f64", 24, 7),
)


def two_digits(value: float) -> int:
    step = 10 ** max(0, len(str(int(value))) - 2)
    return round(value / step) * step


def between(ends: tuple[float, float], share: float) -> int:
    low, high = ends
    return two_digits(low * (high / low) ** share)


def candidates(kind: Kind, seed: int) -> Iterator[tuple[int, int, int]]:
    draw = random.Random(f"{kind.name} {seed}")
    at = [draw.random() for _ in STEPS]
    while True:
        at = [(place + step) % 1 for place, step in zip(at, STEPS, strict=True)]
        yield between(N, at[0]), between(kind.features, at[1]), between(K, at[2])


def fits(kind: Kind, n: int, d: int, k: int) -> bool:
    size = 8 if kind.type == "f64" else 4
    work = n * max(d, FEW_FEATURES) * k
    return k * LEAST_PER_CLUSTER <= n and n * d * size <= MOST_BYTES and work <= MOST_WORK[kind.type]


def shapes(kind: Kind, seed: int, count: int) -> list[tuple[int, int, int]]:
    found = list(kind.ends) if seed == MAP else []
    for shape in candidates(kind, seed):
        if len(found) == count:
            break
        if fits(kind, *shape) and shape not in found:
            found.append(shape)
    return found


def points(kind: Kind, index: int, d: int) -> dict[str, Any]:
    """Generator and parameters."""
    if kind.name == "sparse":
        zeros = (0.95, 0.86, 0.75)[index % 3]  # far from tens, to which the choice rounds the share
        return {"generator": "blobs", "parameters": {"clusters": 20, "spread": 1.0, "zeros": zeros}}
    flat = kind.name == "flat" or (kind.name == "double" and index % 2 == 0)
    decaying = {"flavour": "lowrank", "rank": max(1, min(30, d // 4)), "noise": 0.1}
    return {"generator": "embedding", "parameters": {"flavour": "isotropic"} if flat else decaying}


def number(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def entries() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Workloads and sources."""
    workloads, sources = [], []
    for seed, beginning in ((MAP, "map"), (JUDGES, "hold")):
        for kind in KINDS:
            family = f"{beginning}_{kind.name}"
            for index, (n, d, k) in enumerate(shapes(kind, seed, kind.count if seed == MAP else kind.judges)):
                name = f"{family}_{index + 1:02}"
                title = f"{kind.title}, {number(n)} points, {number(d)} features, {number(k)} clusters"
                workloads.append(
                    {"name": name, "family": family, "title": title, "type": kind.type, "k": k}
                    | {"stop": f"fixed:{ITERATIONS}", "seed": 1, "source": name}
                )
                drawn = points(kind, index, d)
                sources.append(
                    {"name": name, "kind": "generator", "generator": drawn["generator"], "n": n, "d": d}
                    | {"parameters": drawn["parameters"], "seed": 500 + len(sources)}
                )
    return workloads, sources


def rewritten(text: str) -> str:
    """The file's text with today's shapes in place of those that it has."""
    families = tuple(f'  {{"name": "{beginning}_{kind.name}_' for beginning in ("map", "hold") for kind in KINDS)
    lines = [line for line in text.splitlines() if not line.startswith(families)]
    for made in reversed(entries()):
        workload = "k" in made[0]
        last = max(at for at, line in enumerate(lines) if line.startswith(AFTER) and ('"k":' in line) == workload)
        lines[last + 1 : last + 1] = [f"  {json.dumps(entry)}," for entry in made]
    return "\n".join(lines) + "\n"


def show() -> None:
    workloads, sources = entries()
    size = {"f32": 4, "f64": 8}
    for w, s in zip(workloads, sources, strict=True):
        print(f"{w['name']:<18} {s['n']:>12,} {s['d']:>6,} {w['k']:>7,} {w['type']} {json.dumps(s['parameters'])}")
    total = sum(4 * s["n"] * s["d"] for s in sources)
    most = max(s["n"] * s["d"] * size[w["type"]] for w, s in zip(workloads, sources, strict=True))
    print(f"{len(workloads)} shapes, {total / 1e9:.1f} GB of generated points, {most / 1e9:.2f} GB at most")


@in_sentences
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the shapes, write nothing")
    if parser.parse_args().list:
        show()
    else:
        outputs.write(FILE, rewritten(read_text(FILE)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
