"""Is a verdict to be believed? A variant against its exact copy, and against one that does 3 % more work.

Each trial is a run of its own, `ladder run --compare x0_base,x1_copy,x2_slower`: five sessions of each, in turns. A
copy called faster or slower is a false verdict; they may be one in twenty. The slower one may be too hard to tell
(UNSURE), but never FASTER.

    python tests/compare/experiment.py --trials 40 --workload wine_k2100 --out results/compare.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BASE, COPY, SLOWER = "x0_base", "x1_copy", "x2_slower"
VERDICTS = ("SAME", "UNSURE", "FASTER", "SLOWER")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the folder that holds ladder")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--sessions", type=int, default=5, help="of each variant in a trial")
    parser.add_argument("--workload", default="wine_k2100")
    parser.add_argument("--scope", default="assign")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds of samples in a session")
    parser.add_argument("--max-time", type=float, default=0.3, help="seconds spent on a session's samples, at most")
    parser.add_argument("--warm-up", type=float, default=0.1, help="seconds of load before a session's first sample")
    parser.add_argument("--validation-budget", default="2e6", help="multiply-adds per check of labels")
    parser.add_argument("--out", type=Path, required=True, help="JSON: every ratio, interval and verdict")
    return parser.parse_args()


def trial(options: argparse.Namespace, record: Path) -> dict:
    """The record of one run, without its samples."""
    command = [options.build / "ladder", "run", "--compare", f"{BASE},{COPY},{SLOWER}"]
    command += ["--modules", options.build / "tests" / "compare", "--sessions", options.sessions]
    command += ["--workloads", options.workload, "--scopes", options.scope, "--device", options.device]
    command += ["--gpu", options.gpu, "--min-time", options.min_time, "--max-time", options.max_time]
    command += ["--warm-up", options.warm_up, "--validation-budget", options.validation_budget, "--out", record]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"a trial ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(record.read_text())


def medians(record: dict) -> list[dict]:
    """Each session's median in the order in which they ran, for whoever would judge them another way."""
    return [{key: row[key] for key in ("session", "variant", "device", "median_ms")} for row in record["rows"]]


def main() -> int:
    options = arguments()
    begin = time.monotonic()
    trials = []
    context: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.trials):
            record = trial(options, Path(folder) / "record.json")
            context = record["context"]
            trials.append({"comparisons": record["comparisons"], "sessions": medians(record)})
            said = ", ".join(f"{c['candidate']} {c['ratio']:.4f} {c['verdict']}" for c in record["comparisons"])
            print(f"[{number + 1}/{options.trials} {time.monotonic() - begin:.0f} s] {said}", file=sys.stderr)
    count = {
        name: Counter(c["verdict"] for t in trials for c in t["comparisons"] if c["candidate"] == name)
        for name in (COPY, SLOWER)
    }
    for what, name in (("copy", COPY), ("3 % slower", SLOWER)):
        verdicts = ", ".join(f"{verdict} {count[name][verdict]}" for verdict in VERDICTS)
        print(f"{what}: {verdicts} of {count[name].total()}")
    false = count[COPY]["FASTER"] + count[COPY]["SLOWER"]
    accepted = 20 * false <= count[COPY].total() and count[SLOWER]["FASTER"] == 0
    print("accepted" if accepted else "not accepted: more than one false verdict in twenty, or the slower FASTER")
    setting = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
    for key in ("build", "out"):
        del setting[key]
    result = {"setting": setting, "context": context, "count": count, "accepted": accepted, "trials": trials}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if accepted else 1


if __name__ == "__main__":
    sys.exit(main())
