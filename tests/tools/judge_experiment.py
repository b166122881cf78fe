"""What does it cost that a variant is judged from another process? The same sessions, judged inside and apart.

Each round runs every part twice, once with `--judge inside` and once with `--judge apart`, in an order that is drawn
anew; a part is some variants on one workload. The medians of each session are kept, so that the page can compare them
round by round. The points are generated or must be prepared (datasets/prepare.py).

    python tests/tools/judge_experiment.py --rounds 7 --seconds 400 --out results/nvidia-h200/tools/judges.json
    python -m plots.judges_page --update docs/trust.md
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JUDGES = ("inside", "apart")
PARTS = (  # what is compared: workload, variants, scopes; "" for all scopes
    ("kmcuda", "v13_*,v17_*,v23_*,v29_*", "assign,update,iteration"),
    ("kmcuda", "v31_*,v44_*,v46_*,v52_*", "assign,iteration,solve,end_to_end"),
    ("wine_k900", "v05_*,v09_*,v03j_*,v03l_*", ""),
    ("points2d_k_100", "v05_*,v05o_*", ""),
)
SHORT = ("--warm-up", "0.1", "--min-time", "0.05", "--max-time", "0.2", "--validation-budget", "1e8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the folder that holds ladder")
    parser.add_argument("--rounds", type=int, default=7, help="at most; at least two")
    parser.add_argument("--seconds", type=float, default=600, help="no round begins later")
    parser.add_argument("--device", default="cuda", choices=("cuda", "simt", "cpu"))
    parser.add_argument("--part", action="append", nargs=3, metavar=("WORKLOAD", "VARIANTS", "SCOPES"))
    parser.add_argument("--order-seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="JSON: the median of every session")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"--rounds {options.rounds}: an interval needs at least two")
    if options.out.exists() and "judges" not in options.out.read_text(errors="replace")[:100]:
        parser.error(f"--out {options.out}: is there already, and is no result of this program; name another file")
    return options


def sessions(options: argparse.Namespace, part: tuple[str, str, str], judge: str, record: Path) -> dict[str, Any]:
    """The record of one run of a part."""
    workload, variants, scopes = part
    command = [options.build / "ladder", "run", "--workloads", workload, "--variants", variants, "--judge", judge]
    command += ["--device", options.device, *SHORT, "--time-limit", "60", "--out", record]
    command += ["--scopes", scopes] if scopes else []
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"a run ended with status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(record.read_text())


def main() -> int:
    options = arguments()
    parts = [tuple(part) for part in options.part or PARTS]
    draw = random.Random(options.order_seed)
    begin = time.monotonic()
    rows: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    context: dict[str, Any] = {}
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        while done < options.rounds and (done < 2 or time.monotonic() - begin < options.seconds):
            turns = [(part, judge) for part in parts for judge in draw.sample(JUDGES, 2)]
            for part, judge in turns:
                record = sessions(options, part, judge, Path(folder) / f"{len(list(Path(folder).iterdir()))}.json")
                context = record["context"]
                for row in record["rows"]:
                    if row["status"] == "refused":
                        continue
                    if row["status"] != "ok":
                        print(
                            f"{row['variant']}, {row['scope']}, {judge}: {row['status']}: {row['reason']}",
                            file=sys.stderr,
                        )
                        continue
                    key = (row["workload"], row["variant"], row["scope"])
                    rows.setdefault(key, {name: [] for name in JUDGES})[judge].append(row["median_ms"])
            done += 1
            spent = time.monotonic() - begin
            print(f"round {done} of {options.rounds}, {spent:.0f} s", file=sys.stderr, flush=True)
    kept = {name: context.get(name) for name in ("git_sha", "git_dirty", "gpu", "host", "time")}
    run = {
        "order_seed": options.order_seed,
        "parts": parts,
        "options": SHORT,
        "rounds": done,
        "context": kept,
        "medians": [
            {"workload": workload, "variant": variant, "scope": scope, **medians}
            for (workload, variant, scope), medians in sorted(rows.items())
        ],
    }
    result = {
        "judges": "session medians in ms, judged inside the variant's process and apart from it, round by round",
        "runs": [run],
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
