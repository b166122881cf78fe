"""Own points (`ladder run --data`) with N, D, K, type, kind and stop rule drawn at random: every rung that runs must
agree with scikit-learn's Lloyd from the same centroids.

    .venv/bin/python tests/tools/random_data.py --trials 40 [--device simt|cuda|cpu] [--variants GLOBS]

Trial t of a seed is the same in every run. Of each rung, the labels for its last centroids are held against
scikit-learn's (up to exact ties and the rounding that its card declares), and its centroids against those that Lloyd
with scikit-learn's labels reaches from the same start, as far as no rounding decided on the way. Exit status: 0 all
agree, 1 some do not, 2 nothing was compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from agreement import Card, disagreement, nearest, roundings

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("blobs", "normal", "far from zero", "whole numbers", "nearly all zeros")
TYPES = ("float32", "float64")
PLAIN: Card = {"distance_roundoff": 0.0}  # distances in the points' own type


@dataclass
class Trial:
    points: np.ndarray  # N x D
    initial: np.ndarray  # K x D: distinct points
    kind: str
    stop: str

    def __str__(self) -> str:
        n, d = self.points.shape
        return f"{n} x {d} {self.points.dtype}, K = {len(self.initial)}, {self.stop}, {self.kind}"


def between(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number whose logarithm is uniform: small sizes are where loops end early."""
    return int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))


def draw(seed: int, number: int, most_points: int) -> Trial:
    rng = np.random.default_rng([seed, number])
    n, d, kind = between(rng, 2, most_points), between(rng, 1, 130), str(rng.choice(KINDS))
    points = rng.normal(size=(n, d))
    if kind == "blobs":
        points += 6 * rng.normal(size=(9, d))[rng.integers(9, size=n)]
    elif kind == "far from zero":
        points += 30
    elif kind == "whole numbers":  # ties and repeated points
        points = rng.integers(-3, 4, size=(n, d)).astype(float)
    elif kind == "nearly all zeros":
        points *= rng.random(size=(n, d)) < 0.08
    points = points.astype(str(rng.choice(TYPES)))
    distinct = np.unique(points, axis=0, return_index=True)[1]
    k = between(rng, 1, min(len(distinct), 300))
    stop = "exact" if rng.random() < 0.25 else f"fixed:{rng.integers(1, 7)}"
    return Trial(points, points[rng.choice(distinct, k, replace=False)], kind, stop)


def lloyd(trial: Trial) -> np.ndarray | None:
    """The centroids that Lloyd reaches by scikit-learn's labels, in double, rounded to the points' type in each
    iteration as a rung's are; a centroid without points stays. None where on the way two centroids were so near to
    being equally near to a point that rounding may decide, or where it would not end."""
    x, centroids, k = trial.points.astype(np.float64), trial.initial, len(trial.initial)
    rows, labels = np.arange(len(x)), np.full(len(x), -1)
    for _ in range(300 if trial.stop == "exact" else int(trial.stop.split(":")[1])):
        before, labels = labels, nearest(trial.points, centroids)
        c = centroids.astype(np.float64)
        x_norm, c_norm = np.linalg.norm(x, axis=1)[:, None], np.linalg.norm(c, axis=1)
        distance = x_norm**2 + c_norm**2 - 2 * x @ c.T
        scale = (x_norm + c_norm) ** 2 + (x_norm + c_norm[labels][:, None]) ** 2
        near = (
            distance - distance[rows, labels][:, None] <= 4 * roundings(PLAIN, trial.points.dtype, x.shape[1]) * scale
        )
        near[rows, labels] = False
        if near.any():
            return None
        counts = np.bincount(labels, minlength=k)
        sums = np.zeros((k, x.shape[1]))
        np.add.at(sums, labels, x)
        means = (sums / np.maximum(counts, 1)[:, None]).astype(trial.points.dtype)
        centroids = np.where(counts[:, None] > 0, means, centroids)
        if (before == labels).all():
            return centroids
    return None if trial.stop == "exact" else centroids


def centroids_differ(trial: Trial, expected: np.ndarray, folder: Path, card: Card) -> str:
    """The centroids in the folder against those expected, up to the rounding of sums that the card declares."""
    ours = np.load(folder / "centroids.npy").astype(np.float64)
    unit = float(np.finfo(trial.points.dtype).eps)
    allowed = (8 * unit + len(trial.points) * (card["sum_roundoff"] or unit)) * np.abs(trial.points).max()
    off = np.abs(ours - expected).max(axis=1)
    if not off.max() > allowed:
        return ""
    return f"centroid {off.argmax()} is off by {off.max():.3g} from where scikit-learn's Lloyd ends"


@dataclass
class Found:
    wrong: list[str]  # a sentence for each rung that disagrees
    agree: int = 0
    refused: int = 0
    whole_way: bool = False  # were the centroids compared too?


def compare(trial: Trial, record: dict, folder: Path, cards: dict[str, Card]) -> Found:
    """What the record's rungs left in the folder, against scikit-learn."""
    expected = lloyd(trial)
    found = Found(wrong=[], whole_way=expected is not None)
    for row in {row["variant"]: row for row in record["rows"]}.values():
        id, card = row["variant"], cards[row["variant"]]
        if row["status"] == "refused":
            found.refused += 1
            continue
        if row["status"] not in ("ok", "checked"):
            found.wrong.append(f"{id} is {row['status']}: {row['reason']}")
            continue
        if card["draws"] != "nothing":
            continue  # it draws centroids of its own
        if "dump" not in row:
            found.wrong.append(f"{id} left no labels")
            continue
        said = disagreement(trial.points, folder / row["dump"], card)
        # Rounded points, and a peer that moves clusters without points, go another way.
        if not said and expected is not None and not card["input_roundoff"] and not card["library"]:
            said = centroids_differ(trial, expected, folder / row["dump"], card)
        if said:
            found.wrong.append(f"{id}: {said}")
        else:
            found.agree += 1
    return found


def modules(options: argparse.Namespace) -> list[str]:
    return ["--modules", *options.modules] if options.modules else []


def run(trial: Trial, options: argparse.Namespace, ladder: Path, folder: Path) -> dict:
    """The record of one run; without rows where every rung refused. Ends the program where there is none."""
    np.save(folder / "points.npy", trial.points)
    np.save(folder / "initial.npy", trial.initial)
    command = [ladder, "run", "--check", "--device", options.device, "--variants", options.variants]
    command += ["--data", folder / "points.npy", "--init", folder / "initial.npy", "--k", len(trial.initial)]
    command += ["--stop", trial.stop, "--out", folder / "record.json", "--dump", folder / "dump"]
    peers = os.environ | {"LADDER_PYTHON": os.environ.get("LADDER_PYTHON", sys.executable)}
    command = [*map(str, command), *modules(options)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=peers, check=False)
    if done.returncode == 2 and "none of the chosen variants takes" in done.stderr:
        return {"rows": []}
    if done.returncode not in (0, 1) or not (folder / "record.json").exists():
        print(f"{trial}: `ladder run` ended with status {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    return json.loads((folder / "record.json").read_text())


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, help="the number of the first trial (1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-points", type=int, default=3000, help="N is at most this (3000)")
    parser.add_argument("--device", choices=("auto", "simt", "cuda", "cpu"), default="auto")
    parser.add_argument("--variants", default="*", help="globs, with commas between them (*)")
    parser.add_argument("--modules", nargs="*", default=[], help="more folders with built variants")
    options = parser.parse_args(words)

    ladder = Path(os.environ.get("LADDER_BUILD", ROOT / "build")).resolve() / "ladder"
    if not ladder.exists():
        parser.error(f"{ladder} is not built: cmake --build build, or set LADDER_BUILD to the folder that holds it")
    listed = subprocess.run([ladder, "list", "--json", *modules(options)], capture_output=True, text=True, check=True)
    cards = {card["id"]: card for card in json.loads(listed.stdout)["variants"]}
    wrong: list[str] = []
    solves = whole_ways = 0
    for number in range(options.first, options.first + options.trials):
        trial = draw(options.seed, number, options.most_points)
        with tempfile.TemporaryDirectory() as folder:
            record = run(trial, options, ladder, Path(folder))
            found = compare(trial, record, Path(folder), cards)
        solves, whole_ways = solves + found.agree, whole_ways + found.whole_way
        print(
            f"trial {number}: {trial}: {found.agree} agree{'' if found.whole_way else ' (labels only)'}, "
            f"{found.refused} refused, {len(found.wrong)} wrong",
            flush=True,
        )
        for sentence in found.wrong:
            print(f"  {sentence}", flush=True)
        wrong += [f"trial {number}: {sentence}" for sentence in found.wrong]
    if wrong:
        print(f"{len(wrong)} disagree with scikit-learn's Lloyd, the first in {wrong[0]}")
        return 1
    if not solves:
        print(f"nothing was compared: no rung of '{options.variants}' ran on {options.device}")
        return 2
    print(
        f"All {solves} solves of {options.trials} trials agree with scikit-learn's Lloyd from the same centroids: in "
        f"their labels, and in {whole_ways} of the trials also in where their centroids went."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
