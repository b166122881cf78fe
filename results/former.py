"""Compares the rungs of today with the same rungs under their former ids: times, and the history of each solve.

    .venv/bin/python results/former.py [--more 3] [--folder results/nvidia-h200]

A rung's row was measured in several of today's records; the fastest of these is held against the slowest of the earlier
ones, in each scope that runs on the device alone. It prints the rows that take more than --more percent longer, and how
many pairs of rows have equal histories: the number of points that changed their cluster, iteration by iteration.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the checkout
from plots.lib.inputs import InputError, in_sentences, number, read_json

ROOT = Path(__file__).resolve().parent.parent
TODAY = ("record_16_cores.json", "record_all.json", "record_shapes_trial.json")
FORMER = (
    "record_bounds.json",
    "record_seeds.json",
    "record_seeds_points2d.json",
    "record_seeds_wine.json",
    "record_summit.json",
)
SCOPES = ("assign", "update", "iteration", "solve", "initialise")

Key = tuple[str, str, str]  # variant by today's id, workload, scope


def rows_in(file: Path) -> list[dict]:
    """Throws InputError where they lack what is compared here."""
    rows = read_json(file).get("rows")
    for row in rows if isinstance(rows, list) else [None]:
        texts = ("status", "device", "variant", "workload", "scope")
        sound = isinstance(row, dict) and all(isinstance(row.get(name), str) for name in texts)
        if sound and row["status"] == "ok":
            sound = isinstance(row.get("reassigned"), list) and number(row.get("median_ms"), 0)
        if not sound:
            raise InputError(f"{file}: is no sound record: python -m plots.check says what is wrong.")
    return rows


def rows_of(files: list[Path], renamed: dict[str, str]) -> dict[Key, list[dict]]:
    """All valid rows on a GPU."""
    found: dict[Key, list[dict]] = defaultdict(list)
    for file in files:
        for row in rows_in(file):
            if row["status"] == "ok" and row["device"] == "cuda":
                found[renamed.get(row["variant"], row["variant"]), row["workload"], row["scope"]].append(row)
    return found


@in_sentences
def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--more", type=float, default=3, help="percent")
    parser.add_argument("--folder", type=Path, default=ROOT / "results/nvidia-h200")
    options = parser.parse_args(words)
    renamed = read_json(ROOT / "results/renamed.json")["renamed"]
    now = rows_of([options.folder / name for name in TODAY], {})
    then = rows_of([options.folder / name for name in FORMER], renamed)

    compared, slower = 0, []
    equal, other = 0, defaultdict(int)
    for key in sorted(now.keys() & then.keys()):
        variant, workload, scope = key
        for a in now[key]:
            for b in then[key]:
                if a["reassigned"] and b["reassigned"]:
                    same = a["reassigned"] == b["reassigned"]
                    equal += same
                    other[variant] += not same
        if scope not in SCOPES or variant.startswith("p_"):
            continue
        compared += 1
        ratio = min(row["median_ms"] for row in now[key]) / max(row["median_ms"] for row in then[key])
        if ratio > 1 + options.more / 100:
            times = [", ".join(f"{row['median_ms']:.4g}" for row in rows[key]) for rows in (now, then)]
            slower.append(f"{variant} on {workload}, {scope}: {times[0]} ms, before {times[1]} ms: {ratio:.3f}x")
    for line in slower:
        print(line)
    print(f"{compared} rows compared, {compared - len(slower)} take at most {options.more:g} % longer than before")
    differ = ", ".join(f"{count} of {variant}" for variant, count in other.items() if count) or "none"
    print(f"{equal} pairs of rows have equal histories; with others: {differ}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
