"""Is a verdict to be believed? A variant against its exact copy, and against one that does 3 % more work.

Each trial is a run of its own, `ladder run --compare x0_base,x1_copy,x2_slower`: five sessions of each, in turns, all
short. A copy called faster or slower is a false verdict; they may be one in twenty. The slower one may be too hard to
tell (UNSURE), but never FASTER. The points are drawn anew from a fixed seed: there is nothing to fetch.

    python tests/tools/compare_experiment.py --trials 40 --gpus 0,1,2,3 --out results/nvidia-h200/tools/compare.json

Several GPUs share the trials. What was done in several sittings becomes one result by

    python tests/tools/compare_experiment.py --join first.json second.json --out all.json
"""

from __future__ import annotations

import argparse
import array
import json
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASE, COPY, SLOWER = "x0_base", "x1_copy", "x2_slower"
VERDICTS = ("SAME", "UNSURE", "FASTER", "SLOWER")
NOT_THE_SETTING = {"out", "join", "build", "trials", "gpus"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the folder that holds ladder")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--gpus", default="0", help="which share the trials, with commas between them")
    parser.add_argument("--device", default="cuda", choices=("cuda", "simt"))
    parser.add_argument("--sessions", type=int, default=5, help="of each variant in a trial")
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--k", type=int, default=100, help="of hundreds, 3 %% is a whole number of centroids")
    parser.add_argument("--scope", default="assign")
    parser.add_argument("--min-time", type=float, default=0.1, help="seconds of samples in a session")
    parser.add_argument("--max-time", type=float, default=0.5, help="seconds spent on a session's samples, at most")
    parser.add_argument("--warm-up", type=float, default=0.2, help="seconds of load before a session's first sample")
    parser.add_argument("--validation-budget", default="2e6", help="multiply-adds per check of labels")
    parser.add_argument("--join", type=Path, nargs="+", help="results to be made into one; nothing is run")
    parser.add_argument("--out", type=Path, required=True, help="JSON: every ratio, interval and verdict")
    options = parser.parse_args()
    if options.trials < 1:
        parser.error("--trials: at least one")
    return options


def write_points(file: Path, n: int, d: int) -> None:
    """Uniform points in .npy format, made without numpy: the machine with the GPU may not have it."""
    draw = random.Random(1).random
    points = array.array("f", (draw() for _ in range(n * d)))
    if sys.byteorder == "big":
        points.byteswap()
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({n}, {d}), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + points.tobytes())


def run_trial(options: argparse.Namespace, gpu: int, points: Path, record: Path) -> dict:
    """The record of one run."""
    command = [options.build / "ladder", "run", "--compare", f"{BASE},{COPY},{SLOWER}"]
    command += ["--modules", options.build / "tests" / "fixtures" / "compare", "--sessions", options.sessions]
    command += ["--data", points, "--k", options.k, "--scopes", options.scope, "--device", options.device]
    command += ["--gpu", gpu, "--min-time", options.min_time, "--max-time", options.max_time]
    command += ["--warm-up", options.warm_up, "--validation-budget", options.validation_budget, "--out", record]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"a trial ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(record.read_text())


def short(record: dict, gpu: int, seconds: float) -> dict:
    """What is kept of a trial: the verdicts, and each session's median in the order in which they ran, for whoever
    would judge them another way."""
    keep = ("candidate", "verdict", "ratio", "low", "high", "p", "method")
    return {
        "gpu": gpu,
        "seconds": round(seconds, 1),
        "comparisons": [{key: c[key] for key in keep} for c in record["comparisons"]],
        "sessions": [[row["variant"], row["status"], row["median_ms"]] for row in record["rows"]],
    }


def run_trials(options: argparse.Namespace) -> tuple[list[dict], dict]:
    """All trials, shared by the GPUs, and the context of a run. Stops all at the first that fails."""
    open_trials: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(options.trials):
        open_trials.put(number)
    trials: list[dict] = []
    contexts: list[dict] = []
    errors: list[Exception] = []
    begin = time.monotonic()

    def without_places(argv: list[str]) -> list[str]:
        """The command as it is typed in the checkout, wherever that and the scratch files lie."""
        return [word.replace(f"{ROOT}/", "").replace(f"{scratch}/", "") for word in argv]

    def work(gpu: int, points: Path, record_file: Path) -> None:
        while not errors:
            try:
                open_trials.get_nowait()
            except queue.Empty:
                return
            start = time.monotonic()
            try:
                record = run_trial(options, gpu, points, record_file)
            except Exception as error:  # told by the main thread
                errors.append(error)
                return
            contexts.append(record["context"] | {"argv": without_places(record["context"]["argv"])})
            trials.append(short(record, gpu, time.monotonic() - start))
            said = ", ".join(f"{c['candidate']} {c['ratio']:.4f} {c['verdict']}" for c in trials[-1]["comparisons"])
            done = f"[{len(trials)}/{options.trials} {time.monotonic() - begin:.0f} s]"
            print(f"{done} GPU {gpu}: {said}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        points = Path(scratch) / "points.npy"
        write_points(points, options.points, options.features)
        workers = [
            threading.Thread(target=work, args=(int(gpu), points, Path(scratch) / f"record{number}.json"))
            for number, gpu in enumerate(options.gpus.split(","))
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if errors:
        sys.exit(str(errors[0]))
    return trials, contexts[0]


def evaluate(setting: dict, context: dict, trials: list[dict]) -> dict:
    count = {name: dict.fromkeys(VERDICTS, 0) for name in (COPY, SLOWER)}
    for name in count:
        count[name] |= Counter(c["verdict"] for t in trials for c in t["comparisons"] if c["candidate"] == name)
    judged = {name: sum(verdicts.values()) for name, verdicts in count.items()}
    false = count[COPY]["FASTER"] + count[COPY]["SLOWER"]
    accepted = 20 * false <= judged[COPY] and count[SLOWER]["FASTER"] == 0
    # A trial that judged nothing is no trial.
    accepted = accepted and all(number == len(trials) for number in judged.values())
    return {"setting": setting, "context": context, "count": count, "accepted": accepted, "trials": trials}


def join(files: list[Path]) -> dict:
    results = [json.loads(file.read_text()) for file in files]
    first = results[0]
    for file, other in zip(files, results, strict=True):
        if other["setting"] != first["setting"]:
            sys.exit(f"{file} was made with another setting than {files[0]}: join results of one setting")
        for fact in ("git_sha", "gpu", "host"):
            if other["context"][fact] != first["context"][fact]:
                sys.exit(f"{file} and {files[0]} differ in {fact}: join results of one commit and one kind of machine")
    return evaluate(first["setting"], first["context"], [trial for result in results for trial in result["trials"]])


def text_of(result: dict) -> str:
    """As JSON, a line for each trial."""
    lines = ",\n  ".join(json.dumps(trial) for trial in result["trials"])
    return json.dumps(result | {"trials": []}, indent=1)[: -len("[]\n}")] + "[\n  " + lines + "\n ]\n}\n"


def main() -> int:
    options = arguments()
    if options.join:
        result = join(options.join)
    else:
        trials, context = run_trials(options)
        setting = {name: value for name, value in vars(options).items() if name not in NOT_THE_SETTING}
        result = evaluate(setting, context, trials)
    for what, name in (("copy", COPY), ("3 % slower", SLOWER)):
        verdicts = ", ".join(f"{verdict} {number}" for verdict, number in result["count"][name].items())
        print(f"{what}: {verdicts} of {len(result['trials'])}")
    print("accepted" if result["accepted"] else "not accepted: more than one false verdict in twenty, or slower FASTER")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text_of(result))
    return 0 if result["accepted"] else 1


if __name__ == "__main__":
    sys.exit(main())
