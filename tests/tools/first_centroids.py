"""Which first centroids are drawn where one point of many is far away, and where Lloyd ends from them.

For each seed the variants draw K centroids from a workload's points, and a solver begins with them; all are runs of
`ladder`, so that draws and labels are validated. The points must have been made by a run of the workload.

    build/ladder run --workloads 'far_point*' --variants v01_global --device simt --scopes solve
    python tests/tools/first_centroids.py --seeds 400 --out results/cpu/first_centroids.json
    python -m plots.first_centroids_page --update docs/seeds/first_centroids.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("LADDER_CACHE") or ROOT / "datasets" / "cache")
SHORT = ("--warm-up", "0", "--min-time", "0", "--max-time", "0.001")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the folder that holds ladder")
    parser.add_argument("--workloads", default="far_point_3,far_point_10", help="with commas between them")
    parser.add_argument(
        "--draws",
        default="i1_random,i2_kmeanspp",
        help="the variants that draw, likewise: with equal chances, k-means++",
    )
    parser.add_argument("--solver", default="v01_global", help="the variant that begins with what they draw")
    parser.add_argument("--device", default="simt", choices=("cuda", "simt"))
    parser.add_argument("--seeds", type=int, default=400, help="1 to so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--out", type=Path, required=True, help="JSON: what each seed drew, and where it led")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least one is needed")
    if options.out.exists() and "first_centroids" not in options.out.read_text(errors="replace")[:100]:
        parser.error(f"--out {options.out}: is there already, and is no result of this program; name another file")
    for name in options.workloads.split(","):
        if not (CACHE / f"{name}.npy").is_file():
            parser.error(f"--workloads {name}: its points are not in {CACHE}; a run of the workload makes them")
    return options


def run(options: argparse.Namespace, folder: Path, variants: str, scope: str, words: list[Any]) -> dict[str, Any]:
    """The record of a run that dumps into the folder. Throws RuntimeError where a row is not right."""
    record = folder / "record.json"
    command = [options.build / "ladder", "run", "--device", options.device, "--variants", variants, "--scopes", scope]
    command += [*SHORT, *words, "--dump", folder, "--out", record]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    found = json.loads(record.read_text()) if record.is_file() else {"rows": []}
    if done.returncode != 0 or not found["rows"] or any(row["status"] != "ok" for row in found["rows"]):
        raise RuntimeError(f"a run ended with status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def of_seed(options: argparse.Namespace, data: Path, points: np.ndarray, seed: int) -> tuple[dict[str, Any], list[Any]]:
    """The context, and of each variant that draws: the rows that it drew, the iterations from them, and how many points
    are in the cluster of the point that is farthest from the points' mean."""
    name = data.stem
    k = options.k[name]
    far = int(np.linalg.norm(points - points.mean(axis=0), axis=1).argmax())
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        context = run(options, folder, options.draws, "initialise", ["--data", data, "--k", k, "--seed", seed])
        for variant in options.draws.split(","):
            drawn = folder / name / variant / "initial_centroids.npy"
            rows = [int(np.flatnonzero((points == c).all(axis=1))[0]) for c in np.load(drawn)]
            into = folder / f"from_{variant}"
            into.mkdir()
            solved = run(options, into, options.solver, "solve", ["--data", data, "--k", k, "--init", drawn])
            label = np.load(into / name / options.solver / "labels.npy")
            found.append([rows, solved["rows"][0]["iterations"], int((label == label[far]).sum())])
    return context["context"], found


def main() -> int:
    options = arguments()
    known = {w["name"]: w for w in json.loads((ROOT / "datasets" / "workloads.json").read_text())["workloads"]}
    options.k = {name: known[name]["k"] for name in options.workloads.split(",")}
    context: dict[str, Any] = {}
    workloads = []
    for name in options.workloads.split(","):
        points = np.load(CACHE / f"{name}.npy")
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
            data = Path(folder) / f"{name}.npy"  # of these runs alone: other runs may touch the cache
            np.save(data, points)
            each = list(pool.map(partial(of_seed, options, data, points), range(1, options.seeds + 1)))
        context = each[0][0]
        drawn = [
            {
                "variant": variant,
                "rows": [found[at][0] for _, found in each],
                "iterations": [found[at][1] for _, found in each],
                "beside_far": [found[at][2] for _, found in each],
            }
            for at, variant in enumerate(options.draws.split(","))
        ]
        workloads.append({"name": name, "k": options.k[name], "points": points.tolist(), "drawn": drawn})
        print(f"{name}: {options.seeds} seeds", file=sys.stderr, flush=True)
    result = {
        "first_centroids": "of each seed: rows drawn, Lloyd's iterations, points in the farthest one's cluster",
        "context": {key: context.get(key) for key in ("git_sha", "git_dirty", "host", "time")},
        "device": options.device,
        "solver": options.solver,
        "seeds": options.seeds,
        "workloads": workloads,
    }
    options.out.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
