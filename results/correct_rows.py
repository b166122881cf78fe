"""Corrects the rows of a record that are `ok` or `unstable` without a completed validation: they become `failed`.

    python results/correct_rows.py RECORD.json ...

A session that was stopped by its time limit used to leave such rows: their samples had been taken, but the session
ended before it reported its validation. The runner now calls these rows `failed`; this script does the same to older
records. Their times are removed, as in every failed row; measuring them again replaces them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the checkout
from plots.lib import outputs
from plots.lib.inputs import in_sentences, read_text
from plots.lib.schema import load

REASON = "the session was stopped by its time limit before it reported its validation"
WITHOUT_TIMES = {
    "status": "failed",
    "reason": REASON,
    "samples_ms": [],
    "median_ms": None,
    "q1_ms": None,
    "q3_ms": None,
    "per_iteration_ms": None,
    "verdict": "",
    "warm_up_seconds": 0.0,
    "sm_mhz": [],
    "median_mhz": None,
    "settled_mhz": None,
    "watts": None,
    "watt_limit": None,
    "retries": 0,
    "solve_iterations": [],
    "labels_differ": 0,
    "gflops": None,
    "gbs": None,
    "roof_percent": None,
    "launch_bound": False,
}


def corrected(row: dict) -> dict:
    validation = row["validation"]
    if row["status"] not in ("ok", "unstable") or (validation and validation["steps_checked"] > 0):
        return row
    new = row | WITHOUT_TIMES
    new.pop("samples_taken", None)
    return new


def correct(path: Path) -> int:
    """Rewrites the lines of these rows alone; returns how many there are."""
    load(path, retired=True)  # a sound record
    lines = read_text(path).split("\n")
    lines = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
    changed = 0
    for i, line in enumerate(lines):
        if '"samples_ms"' not in line:
            continue
        text = line.strip()
        row = json.loads(text.removesuffix(","))
        new = corrected(row)
        if new is row:
            continue
        changed += 1
        dumped = json.dumps(new, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        lines[i] = " " + dumped + ("," if text.endswith(",") else "") + "\n"
    if changed:
        outputs.write(path, "".join(lines))
    return changed


@in_sentences
def main(names: list[str]) -> int:
    for name in names:
        print(f"{name}: {correct(Path(name))} rows corrected")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
