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
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grade.assignment import PARTS, Assignment, MistakeError, read_assignment, source_of
from grade.build import Bench, bench_of, compile_module
from grade.page import difference, overview, student_page
from grade.parts import Assembled, UnreadableError, assemble
from grade.similarity import similar_pairs

VERSION = 1
LARGEST = 1 << 20
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


def plain(text: str) -> str:
    """Without control characters, and what is no UTF-8."""
    text = text.encode("utf-8", "replace").decode("utf-8", "replace")
    return "".join(c if c == "\n" or c.isprintable() else "\ufffd" for c in text)


def cell(text: str) -> str:
    """No spreadsheet takes it for a formula."""
    text = plain(text).replace("\n", " ")
    return "'" + text if text[:1] in ("=", "+", "-", "@") else text


@dataclass
class Submission:
    name: str
    text: str
    fault: str = ""

    @property
    def slug(self) -> str:
        mark = hashlib.sha256(self.name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        return f"{re.sub(r'[^A-Za-z0-9]+', '_', self.name).strip('_')[:40] or 'submission'}_{mark}"

    @property
    def module(self) -> str:
        return "s_" + hashlib.sha256((self.name + "\0" + self.text).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _is_source(path: Path) -> bool:
    return path.suffix in (".cu", ".cuh") and not path.is_symlink() and path.is_file()


def find_submissions(folder: Path) -> list[Submission]:
    if not folder.is_dir():
        raise MistakeError(f"{folder}: is no folder: give one with a submission in each file or folder")
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        fault, file = "", entry
        if entry.is_dir() and not entry.is_symlink():
            inside = sorted(f for f in entry.iterdir() if _is_source(f))
            file = inside[0] if inside else entry
            fault = "" if len(inside) == 1 else f"its folder holds {len(inside)} files of CUDA: hand in one .cu or .cuh"
        elif entry.suffix not in (".cu", ".cuh"):
            continue
        elif not _is_source(entry):
            fault = "it is no file of its own: hand in one .cu or .cuh"
        if not fault and file.stat().st_size > LARGEST:
            fault = "it is larger than 1 MiB"
        text = "" if fault else plain(file.read_text(encoding="utf-8", errors="replace").replace("\t", "    "))
        found.append(Submission(entry.name, text, fault))
    if not found:
        raise MistakeError(f"{folder}: holds no submission: each is a .cu or .cuh file, or a folder with one")
    return found


class Grader:
    def __init__(self, a: Assignment, program: Path, root: Path, out: Path) -> None:
        self.a, self.program, self.root, self.out = a, program, root, out
        self.template = source_of(a.template, root).read_text(encoding="utf-8")
        self.secret = self._secret()
        self.sandbox = [str(program), "sandbox"]
        self.gpu = threading.Lock()
        self.has_gpu = False
        self.work = Path(tempfile.mkdtemp(prefix="grade-"))
        self.work.chmod(0o711)
        self.environment = {**os.environ, "LADDER_WORKLOADS_FILE": str(self.work / "workloads.json")}

    def _secret(self) -> str:
        file = self.out / "secret.json"
        if not file.exists():
            write_whole(file, json.dumps({"seed": secrets.token_hex(16)}))
        return json.loads(file.read_text())["seed"]

    def absolute(self, text: str) -> str:
        """Parts are found from wherever the text lies."""
        return text.replace('#include "../common/', f'#include "{self.root / "variants" / "common"}/')

    def key(self, s: Submission) -> str:
        parts = [str(VERSION), self.secret, self.a.file.read_text(), self.template, s.name, s.text, s.fault]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

    # ------------------------------------------------------------------------------------------------ what all share

    def hidden(self) -> list[str]:
        """Workloads like known ones, with points and initial centroids that nobody has seen."""
        catalogue = json.loads((self.root / "datasets" / "workloads.json").read_text())
        sources = {s["name"]: s for s in catalogue["sources"]}
        names = []
        for i, like in enumerate(self.a.hidden):
            workload = next(w for w in catalogue["workloads"] if w["name"] == like)
            source = sources.get(workload.get("source"), {})
            if source.get("kind") != "generator":
                raise MistakeError(f"{self.a.file}: 'workloads.hidden' names {like!r}, whose points are not generated")
            name = f"hidden_{i + 1}"
            seed = int(hashlib.sha256(f"{self.secret}{name}".encode()).hexdigest()[:8], 16) >> 2
            catalogue["sources"].append({**source, "name": name, "seed": seed})
            catalogue["workloads"].append({**workload, "name": name, "family": name, "source": name, "seed": seed + 1})
            names.append(name)
        write_whole(self.work / "workloads.json", json.dumps(catalogue))
        return names

    def prepare(self) -> None:
        which = subprocess.run([self.program, "sandbox", "--which"], capture_output=True, text=True)
        if which.returncode:
            raise MistakeError(which.stderr.strip().removeprefix("ladder: "))
        self.names = [*self.a.public, *self.hidden()]
        build = self.program.parent
        worker = build / "ladder_worker_cuda"
        self.has_gpu = (
            worker.exists() and '"cuda"' in subprocess.run([worker, "devices"], capture_output=True, text=True).stdout
        )
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
        if itself["verdict"] != "right":
            raise MistakeError(
                f"{self.a.file}: the template {self.a.template} is itself not right here: {itself['reason']}"
            )

    # -------------------------------------------------------------------------------------------- one submission

    def run(self, s: Submission, folder: Path, *words: str) -> dict[str, Any]:
        record = folder / f"record-{len(list(folder.glob('record-*')))}.json"
        command = [self.program, "run", "--sandbox", "--modules", str(folder / "modules"), "--out", str(record)]
        limit = str(int(self.a.seconds))
        done = subprocess.run(
            [*command, *words, "--time-limit", limit],
            env=self.environment,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if not record.exists():
            raise RuntimeError(f"{s.name}: {done.stderr.strip()[-500:]}")
        return json.loads(record.read_text())

    def check(self, s: Submission, folder: Path, *words: str) -> tuple[list[str], list[str], list[str]]:
        """Of each workload what came of it: all lines, those that are wrong, those that are refused."""
        scopes = ",".join(self.a.scopes)
        chosen = ["--variants", s.module, "--workloads", ",".join(self.names), "--device", "simt", "--scopes", scopes]
        record = self.run(s, folder, "--check", *chosen, *words)
        lines, wrong, refused, seen = [], [], [], set()
        for row in record["rows"]:
            words_of = plain(row["reason"] if row["status"] != "checked" else "right")
            line = f"{row['workload']}: {words_of}"
            if line in seen:
                continue
            seen.add(line)
            lines.append(line)
            if row["status"] in ("invalid", "failed"):
                wrong.append(line)
            elif row["status"] == "refused":
                refused.append(line)
        for left in record["context"].get("left_out", []):
            refused.append(f"{left['workload']}: {plain(left['reason'])}")
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
            words.append(
                f"{name}: {'nothing said' if value is None else f'{value:g}'}, {'right' if right else 'not so'}"
            )
        return self.a.points["predicted"] * good / max(1, len(self.a.predict)), "; ".join(words)

    def timed(self, s: Submission, folder: Path) -> tuple[float, str, list[str]]:
        """One at a time: the GPU is one."""
        a = self.a
        with self.gpu:
            others = dict.fromkeys([a.base, s.module, a.reference])
            words = ["--compare", ",".join(others), "--workloads", a.fast_workload, "--scopes", a.fast_scope]
            record = self.run(s, folder, *words, "--device", "cuda", "--sessions", str(a.sessions))
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
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        total = sum(p for p in result["points"].values() if p is not None)
        return result | {"verdict": verdict, "reason": reason, "total": total, "seconds": time.monotonic() - begin}

    def _judge(self, s: Submission, result: dict[str, Any], folder: Path, itself: bool) -> tuple[str, str]:
        a, points, reasons = self.a, result["points"], result["reasons"]
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
            if "fast" in points:
                reasons["fast"] = "not run"
            return "altered", "it changes what may not change: " + "; ".join(made.changed)
        text = self.absolute(made.text).replace(f'"{a.template}"', f'"{s.module}"', 1)
        modules = folder / "modules"

        def build(bench: Bench, place: Path) -> str:
            return plain(compile_module(bench, self.sandbox, text, s.module, folder, place, a.seconds))

        fault = build(self.benches["plain"], modules)
        if fault:
            first = next((line for line in fault.splitlines() if "error" in line), fault.splitlines()[0])
            result["rows"] = fault.splitlines()[:20]
            return "does not compile", first
        result["rows"], wrong, refused = self.check(s, folder)
        if not wrong and not refused and "right" in points:
            points["right"] = a.points["right"]
        if "clean" in self.benches:
            checked = folder / "checked"
            checked.mkdir()
            fault = build(self.benches["clean"], checked / "modules")
            if fault:
                reasons["clean"] = "does not compile with sanitizers"
            else:
                lines, dirty, kept = self.check(s, checked, "--workers", str(self.benches["clean"].build))
                result["sanitized"] = dirty or lines
                if not dirty and not kept:
                    points["clean"] = a.points["clean"] if not wrong else 0.0
                reasons["clean"] = dirty[0] if dirty else "wrong results" if wrong else ""
        if "fast" in points and not itself:
            if wrong or refused:
                reasons["fast"] = "wrong results are not timed"
            elif not self.has_gpu:
                points["fast"], reasons["fast"] = None, NOT_HERE
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
            [cell(r["submission"]), *got, f"{r['total']:g}", f"{a.total:g}", r["verdict"], cell(r["reason"])]
        )
    write_whole(out / "grades.csv", lines.getvalue())
    pairs = similar_pairs(texts, template, a.similar)
    write_whole(out / "index.html", overview(a.title or a.file.stem, results, pairs, a.total))


def grade(folder: Path, assignment: Path, out: Path, jobs: int, root: Path, program: Path) -> int:
    a = read_assignment(assignment, root)
    submissions = find_submissions(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise MistakeError(f"{out}: cannot be a folder for grades ({error.strerror}): name another --out") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MistakeError(f"{out}: another `ladder grade` writes there: wait for it, or name another --out") from None
    grader = Grader(a, program, root, out)
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

        def one(s: Submission) -> None:
            result = grader.judge(s) | {"key": grader.key(s)}
            write_whole(out / result["page"], student_page(result, a.points))
            write_whole(out / "results" / f"{s.slug}.json", json.dumps(result))
            results[s.name] = result
            say(f"[{len(results)}/{len(submissions)}] {s.name}: {result['verdict']} ({result['seconds']:.0f} s)")

        with ThreadPoolExecutor(jobs) as pool:
            for done in [pool.submit(one, s) for s in todo]:
                done.result()
        ordered = [results[s.name] for s in submissions]
        texts = {plain(s.name): s.text for s in submissions}
        write_grades(out, a, ordered, texts, grader.template)
    finally:
        shutil.rmtree(grader.work, ignore_errors=True)
    print(f"{out / 'grades.csv'}: {len(submissions)} submissions")
    return 0


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="ladder grade", description=__doc__)
    parser.add_argument(
        "submissions", type=Path, help="a folder: each file (.cu, .cuh) or folder in it is a submission"
    )
    parser.add_argument("--assignment", type=Path, required=True, help="the teacher's .toml")
    parser.add_argument("--out", type=Path, required=True, help="folder of the grades; the same command goes on there")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="submissions at a time")
    options = parser.parse_args(words)
    root = Path(__file__).resolve().parents[1]
    program = Path(os.environ.get("LADDER_PROGRAM", root / "build" / "ladder"))
    try:
        if options.jobs < 1:
            raise MistakeError(f"--jobs {options.jobs}: at least 1 is needed")
        places = options.submissions, options.assignment, options.out
        return grade(*(p.absolute() for p in places), options.jobs, root, program)
    except MistakeError as mistake:
        print(f"ladder: {plain(str(mistake))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: what is done is kept; the same command goes on", file=sys.stderr)
        return 130
