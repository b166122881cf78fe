"""The command: submissions in, grades out. What is finished is kept, and the same command goes on."""

from __future__ import annotations

import argparse
import csv
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from grade.assignment import PARTS, Assignment, MistakeError, read_assignment, source_of
from grade.build import Bench, ForeignError, bench_of, compile_module
from grade.hidden import Case, cases_of
from grade.page import difference, overview, student_page
from grade.parts import Assembled, UnreadableError, assemble
from grade.similarity import similar_pairs
from grade.submissions import Submission, find_submissions, plain

VERSION = 1
TOO_LONG = "what follows was not tried, for this took too long"
SANITIZED = 5  # times as long as without
COMPILE = 120  # seconds, at least
TIED = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []  # ends with the grader
NOT_HERE = "not judged here: there is no GPU, and times of the CPU device say nothing of one"


def write_whole(file: Path, text: str) -> None:
    """At no moment is the file half written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".new-", delete=False, encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.chmod(out.name, 0o600 if file.name == "secret.json" else 0o644)
    os.replace(out.name, file)


def cell(text: str) -> str:
    """No spreadsheet takes it for a formula."""
    text = plain(text).replace("\n", " ")
    return "'" + text if text[:1] in ("=", "+", "-", "@") else text


class NotGradedError(Exception):
    """The harness failed, which no student is to pay for."""


class Grader:
    def __init__(self, a: Assignment, program: Path, root: Path, out: Path, hide: list[Path]) -> None:
        self.a, self.program, self.root, self.out = a, program, root, out
        self.template = source_of(a.template, root).read_text(encoding="utf-8")
        self.secret = self._secret()
        self.hide = [*hide, out]
        read = ["--read", str(root), "--read", str(program.parent)]
        self.sandbox = [str(program), "sandbox", *read, *(w for folder in self.hide for w in ("--hide", str(folder)))]
        self.gpu = threading.Lock()
        worker = program.parent / "ladder_worker_cuda"
        devices = subprocess.run([worker, "devices"], capture_output=True, text=True) if worker.exists() else None
        self.has_gpu = devices is not None and '"cuda"' in devices.stdout
        self.work = Path(tempfile.mkdtemp(prefix="grade-"))
        self.work.chmod(0o711)
        self.cases: list[Case] = []
        self.benches: dict[str, Bench] = {}

    def _secret(self) -> str:
        file = self.out / "secret.json"
        if not file.exists():
            write_whole(file, json.dumps({"seed": secrets.token_hex(16)}))
        return json.loads(file.read_text())["seed"]

    def absolute(self, text: str) -> str:
        """Parts are found from wherever the text lies."""
        return text.replace('#include "../common/', f'#include "{self.root / "variants" / "common"}/')

    def words(self, text: str) -> str:
        """For a student: without the folders of this machine."""
        for bench in self.benches.values():
            text = text.replace(f"{bench.build}/", "")
        return plain(text.replace(f"{self.root}/", ""))

    def key(self, s: Submission) -> str:
        judge = [str(VERSION), str(self.has_gpu), self.secret, self.a.file.read_text(), self.template]
        parts = [*judge, s.name, s.text, s.fault]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

    def prepare(self) -> None:
        which = subprocess.run([self.program, "sandbox", "--which"], capture_output=True, text=True)
        if which.returncode:
            raise MistakeError(which.stderr.strip().removeprefix("ladder: "))
        self.cases = cases_of(self.a, self.secret, self.root, self.work)
        build = self.program.parent
        try:
            assemble(self.template, self.template, self.a.functions, self.a.helpers)
        except KeyError as error:
            raise MistakeError(
                f"{self.a.file}: 'functions' names {error.args[0]!r}, which {self.a.template} has not: name its own"
            ) from None
        self.benches = {"plain": bench_of(build, "simt", self.a.template)}
        if self.has_gpu:
            self.benches["gpu"] = bench_of(build, "cuda", self.a.template)
        if self.a.points["clean"]:
            checked = self.root / "build-asan"
            if not (checked / "build.ninja").exists():
                say("configuring and building with sanitizers, once (minutes)")
                done = subprocess.run(["cmake", "--preset", "asan"], cwd=self.root, capture_output=True, text=True)
                if done.returncode:
                    raise MistakeError(f"the build with sanitizers cannot be configured: {done.stderr.strip()[-300:]}")
            self.benches["clean"] = bench_of(checked, "simt", self.a.template)
        say("trying the template itself")
        itself = self.judge(Submission("the template", self.template), itself=True)
        if itself["verdict"] != "right" or itself["points"].get("clean", 1) == 0:
            raise MistakeError(
                f"{self.a.file}: the template {self.a.template} is itself not right here, so nothing is graded: "
                f"{itself['reason'] or itself['verdict']}"
            )

    # -------------------------------------------------------------------------------------------- one submission

    def run(self, folder: Path, *words: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
        record = folder / f"record-{len(list(folder.glob('record-*')))}.json"
        hide = [w for place in self.hide for w in ("--hide", str(place))]
        command = [*TIED, self.program, "run", "--sandbox", *hide, "--modules", folder / "modules", "--out", record]
        done = subprocess.run(
            [*map(str, command), *words],
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            errors="replace",
        )
        try:
            return json.loads(record.read_text())
        except (OSError, ValueError):
            said = done.stderr.strip()[-500:] or f"status {done.returncode}"
            raise NotGradedError(f"`ladder run` left no record: {said}") from None

    def check(
        self, s: Submission, folder: Path, cases: list[Case], *more: str
    ) -> tuple[list[str], list[str], list[str]]:
        """Of each workload what came of it: all lines, those that are wrong, those that are refused."""
        chosen = ["--check", "--variants", s.module, "--device", "simt", "--scopes", ",".join(self.a.scopes), *more]
        lines, wrong, refused = [], [], []
        limit = self.a.seconds * (SANITIZED if "--workers" in more else 1)
        chosen += ["--time-limit", f"{limit:.0f}"]
        for case in cases:
            begin = time.monotonic()
            record = self.run(folder, *chosen, *case.words, environment=case.environment)
            for row in record["rows"]:
                words = self.words(row["reason"] if row["status"] != "checked" else "right").replace(s.module, "it")
                line = f"{row['workload']}: {words}"
                if line in lines:
                    continue
                lines.append(line)
                if row["status"] in ("invalid", "failed"):
                    wrong.append(line)
                elif row["status"] == "refused":
                    refused.append(line)
            for left in record["context"].get("left_out", []):
                refused.append(f"{left['workload']}: {plain(left['reason'])}")
            if wrong and time.monotonic() - begin > limit:
                lines.append(TOO_LONG)
                break
        return lines, wrong, refused

    def predicted(self, s: Submission) -> tuple[float, str]:
        good, words = 0, []
        for name, due in self.a.predict.items():
            said = re.search(rf"\bpredict\s+{re.escape(name)}\s*[=:]?\s*(-?[0-9][0-9.eE+-]*)", s.text)
            try:
                value = float(said.group(1)) if said else None
            except ValueError:
                value = None
            right = value is not None and abs(value - due.value) <= due.tolerance
            good += right
            if value is None:
                words.append(f"{name}: no line `// predict {name} NUMBER`")
            else:
                words.append(f"{name}: {value:g} is {'right' if right else 'not right'}")
        return self.a.points["predicted"] * good / max(1, len(self.a.predict)), "; ".join(words)

    def timed(self, s: Submission, folder: Path) -> tuple[float, str, list[str]]:
        """One at a time: the GPU is one."""
        a = self.a
        with self.gpu:
            others = dict.fromkeys([a.base, s.module, a.reference])
            words = ["--compare", ",".join(others), "--workloads", a.fast_workload, "--scopes", a.fast_scope]
            record = self.run(folder, *words, "--device", "cuda", "--sessions", str(a.sessions))
        found = {c["candidate"]: c for c in record["comparisons"]}
        lines = [
            f"{'this submission' if name == s.module else name}: {c['ratio']:.3f} of the time of {a.base} "
            f"[{c['low']:.3f}, {c['high']:.3f}]"
            for name, c in found.items()
        ]
        if s.module not in found:
            return (
                0.0,
                "no time: " + "; ".join(sorted({r["reason"] for r in record["rows"] if r.get("reason")}))[:500],
                lines,
            )
        ratio, reference = found[s.module]["ratio"], found.get(a.reference, {"ratio": 1.0})["ratio"]
        if reference / ratio < a.floor:
            return 0.0, f"{reference / ratio:.2f} of the reference's speed; at least {a.floor:g} is due", lines
        got = max((points for most, points in a.steps if ratio <= most), default=0.0)
        return min(got, a.points["fast"]), f"{ratio:.3f} of the base's time", lines

    def judge(self, s: Submission, itself: bool = False) -> dict[str, Any]:
        a = self.a
        result: dict[str, Any] = {
            "version": VERSION,
            "submission": plain(s.name),
            "page": f"pages/{s.slug}.html",
            "points": {part: 0.0 for part in PARTS if a.points[part]},
            "reasons": {},
            "changed": [],
            "rows": [],
            "sanitized": [],
            "times": [],
            "difference": difference(self.template, s.text),
        }
        begin = time.monotonic()
        folder = self.work / s.module
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        try:
            verdict, reason = self._judge(s, result, folder, itself)
        except ForeignError as error:
            verdict, reason = "altered", str(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        judged = {part: p for part, p in result["points"].items() if p is not None}
        total, of = sum(judged.values()), sum(a.points[part] for part in judged)
        result |= {"verdict": verdict, "reason": reason, "total": total, "of": of}
        return result | {"seconds": time.monotonic() - begin}

    def _judge(self, s: Submission, result: dict[str, Any], folder: Path, itself: bool) -> tuple[str, str]:
        a, points, reasons = self.a, result["points"], result["reasons"]
        if "fast" in points and not self.has_gpu:
            points["fast"], reasons["fast"] = None, NOT_HERE
        if s.fault:
            return "not readable", s.fault
        try:
            made: Assembled = assemble(self.template, s.text, a.functions, a.helpers)
        except (UnreadableError, IndexError) as error:
            return "not readable", str(error)
        result["changed"] = made.changed
        if "predicted" in points:
            points["predicted"], reasons["predicted"] = self.predicted(s)
        if made.changed and a.outside == "refuse":
            return "altered", "it changes what may not change: " + "; ".join(made.changed)
        text = self.absolute(made.text).replace(f'"{a.template}"', f'"{s.module}"', 1)
        modules = folder / "modules"

        def build(bench: Bench, place: Path) -> str:
            return self.words(
                compile_module(bench, self.sandbox, text, s.module, folder, place, max(a.seconds, COMPILE))
            )

        fault = build(self.benches["plain"], modules)
        if fault:
            first = next((line for line in fault.splitlines() if "error" in line), fault.splitlines()[0])
            result["rows"] = fault.splitlines()[:20]
            return "does not compile", first
        result["rows"], wrong, refused = self.check(s, folder, [case for case in self.cases if case.plain])
        if not wrong and not refused and "right" in points:
            points["right"] = a.points["right"]
        if TOO_LONG in result["rows"]:
            reasons["clean"] = "not tried"
        elif "clean" in self.benches:
            checked = folder / "checked"
            checked.mkdir()
            fault = build(self.benches["clean"], checked / "modules")
            if fault:
                reasons["clean"] = "does not compile with sanitizers"
            else:
                tried = [case for case in self.cases if case.clean]
                lines, dirty, kept = self.check(s, checked, tried, "--workers", str(self.benches["clean"].build))
                result["sanitized"] = [line for line in lines if line not in wrong]
                if not dirty and not kept and not wrong:
                    points["clean"] = a.points["clean"]
                found = [line for line in dirty if line not in wrong]
                reasons["clean"] = found[0] if found else "wrong results" if wrong or dirty else "; ".join(kept)
        if "fast" in points and not itself:
            if not self.has_gpu:
                pass
            elif wrong or refused:
                reasons["fast"] = "wrong results are not timed"
            else:
                fault = build(self.benches["gpu"], modules)
                if fault:
                    reasons["fast"] = "does not compile for the GPU: " + fault.splitlines()[0]
                else:
                    points["fast"], reasons["fast"], result["times"] = self.timed(s, folder)
        if wrong:
            return "wrong", wrong[0]
        if refused:
            return "not run", refused[0]
        unclean = "clean" in points and not points["clean"]
        return "right", ("not clean: " + reasons["clean"]) if unclean else "; ".join(made.changed)


def say(words: str) -> None:
    print(plain(words), file=sys.stderr, flush=True)


def kept_result(file: Path, key: str) -> dict[str, Any] | None:
    try:
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and kept.get("key") == key else None


def write_grades(out: Path, a: Assignment, results: list[dict[str, Any]], texts: dict[str, str], template: str) -> None:
    parts = [part for part in PARTS if a.points[part]]
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["submission", *parts, "total", "of", "verdict", "reason"])
    for r in results:
        got = ["not judged here" if r["points"][p] is None else f"{r['points'][p]:g}" for p in parts]
        writer.writerow(
            [cell(r["submission"]), *got, f"{r['total']:g}", f"{r['of']:g}", r["verdict"], cell(r["reason"])]
        )
    write_whole(out / "grades.csv", lines.getvalue())
    pairs = similar_pairs(texts, template, a.similar)
    write_whole(out / "index.html", overview(a.title or a.file.stem, results, pairs))


def grade(folder: Path, assignment: Path, out: Path, jobs: int, root: Path, program: Path) -> int:
    a = read_assignment(assignment, root)
    submissions = find_submissions(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("a+")
    except OSError as error:
        raise MistakeError(f"{out}: cannot be a folder for grades ({error.strerror}): name another --out") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MistakeError(f"{out}: another `ladder grade` writes there: wait for it, or name another --out") from None
    remove_left(lock)
    grader = Grader(a, program, root, out, [folder])
    lock.write(str(grader.work))
    lock.flush()
    try:
        results: dict[str, dict[str, Any]] = {}
        for s in submissions:
            kept = kept_result(out / "results" / f"{s.slug}.json", grader.key(s))
            if kept:
                results[s.name] = kept
        todo = [s for s in submissions if s.name not in results]
        if results:
            say(f"{len(results)} of {len(submissions)} submissions kept from before")
        if todo:
            grader.prepare()
        failed = []

        def one(s: Submission) -> None:
            try:
                result = grader.judge(s) | {"key": grader.key(s)}
            except (NotGradedError, OSError) as error:
                failed.append(f"{s.name}: {error}")
                return
            write_whole(out / result["page"], student_page(result, a.points))
            write_whole(out / "results" / f"{s.slug}.json", json.dumps(result))
            results[s.name] = result
            say(f"[{len(results)}/{len(submissions)}] {s.name}: {result['verdict']} ({result['seconds']:.0f} s)")

        pool = ThreadPoolExecutor(jobs)
        try:
            for done in [pool.submit(one, s) for s in todo]:
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
        ordered = [results[s.name] for s in submissions if s.name in results]
        texts = {plain(s.name): s.text for s in submissions}
        write_grades(out, a, ordered, texts, grader.template)
    finally:
        shutil.rmtree(grader.work, ignore_errors=True)
    for words in failed:
        say(f"ladder: not graded: {words}")
    print(f"{out / 'grades.csv'}: {len(ordered)} submissions")
    return 1 if failed else 0


def remove_left(lock: TextIO) -> None:
    """A grader that was killed left its folder, and the name of it in the lock."""
    lock.seek(0)
    left = Path(lock.read().strip() or "/nowhere")
    if left.parent == Path(tempfile.gettempdir()) and left.name.startswith("grade-"):
        shutil.rmtree(left, ignore_errors=True)
    lock.seek(0)
    lock.truncate()


def end(*_: object) -> None:
    raise KeyboardInterrupt


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="ladder grade", description=__doc__)
    parser.add_argument(
        "submissions", type=Path, help="a folder: each file (.cu, .cuh) or folder in it is a submission"
    )
    parser.add_argument("--assignment", type=Path, required=True, help="the teacher's .toml")
    parser.add_argument("--out", type=Path, required=True, help="folder of the grades; the same command goes on there")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="submissions at a time")
    options = parser.parse_args(words)
    signal.signal(signal.SIGTERM, end)
    root = Path(__file__).resolve().parents[1]
    program = Path(os.environ.get("LADDER_PROGRAM", root / "build" / "ladder"))
    try:
        if options.jobs < 1:
            raise MistakeError(f"--jobs {options.jobs}: at least 1 is needed")
        places = options.submissions, options.assignment, options.out
        return grade(*(p.absolute() for p in places), options.jobs, root, program)
    except (MistakeError, NotGradedError) as mistake:
        print(f"ladder: {plain(str(mistake))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: what is done is kept; the same command goes on", file=sys.stderr)
        return 130
