"""Points that no student has seen: workloads like known ones with a secret seed, and two sets of special points."""

from __future__ import annotations

import array
import hashlib
import json
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

from grade.assignment import Assignment, MistakeError

TIES, MANY = "hidden_ties", "hidden_many"
ABOUT = {
    TIES: "points and initial centroids that are equal to others, and clusters without points",
    MANY: "more than 65,536 points",
}


@dataclass
class Case:
    """Options of `ladder run` for some workloads, and what they need of the environment."""

    words: list[str]
    plain: bool  # tried as it is built for all
    clean: bool  # tried with sanitizers
    environment: dict[str, str] = field(default_factory=dict)


def write_npy(file: Path, rows: list[list[float]]) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    values = array.array("f", [value for row in rows for value in row])
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values.tobytes())


def _ties(draw: random.Random) -> tuple[list[list[float]], list[list[float]]]:
    """Small whole numbers, so that distances are exact in every arithmetic. The later of equal centroids stay empty."""
    points = [[float(draw.randrange(4)) for _ in range(5)] for _ in range(701)]
    centroids = draw.sample(points, 21)
    for _ in range(14):
        centroids.insert(draw.randrange(len(centroids) + 1), list(draw.choice(centroids)))
    for _ in range(2):
        centroids.insert(draw.randrange(len(centroids) + 1), [1000.0 + draw.randrange(9)] * 5)
    return points, centroids


def _many(draw: random.Random) -> tuple[list[list[float]], list[list[float]]]:
    points = [[draw.gauss(3.0 * (i % 4), 1.0), draw.gauss(0.0, 1.0)] for i in range(70_001)]
    return points, draw.sample(points, 4)


def cases_of(a: Assignment, secret: str, root: Path, work: Path) -> list[Case]:
    """Writes what they need to `work`: what is secret, readable by this user alone."""
    found = [Case(["--workloads", ",".join(a.public)], True, not a.clean)]
    if a.clean:
        found.append(Case(["--workloads", ",".join(a.clean)], False, True))
    catalogue = json.loads((root / "datasets" / "workloads.json").read_text())
    sources = {s["name"]: s for s in catalogue["sources"]}
    hidden: dict[str, list] = {"lessons": [], "workloads": [], "sources": []}
    for i, like in enumerate(a.hidden):
        workload = next(w for w in catalogue["workloads"] if w["name"] == like)
        source = sources.get(workload.get("source"), {})
        if source.get("kind") != "generator":
            raise MistakeError(f"{a.file}: 'workloads.hidden' names {like!r}, whose points are not generated")
        name = f"hidden_{i + 1}"
        seed = int(hashlib.sha256(f"{secret}{name}".encode()).hexdigest()[:8], 16) >> 2
        hidden["sources"].append({**source, "name": name, "seed": seed})
        hidden["workloads"].append({**workload, "name": name, "family": name, "source": name, "seed": seed + 1})
    if a.hidden:
        file, cache = work / "workloads.json", work / "cache"
        cache.mkdir(mode=0o700)
        file.touch(mode=0o600)
        file.write_text(json.dumps(hidden))
        places = {"LADDER_WORKLOADS_FILE": str(file), "LADDER_CACHE": str(cache)}
        found.append(Case(["--workloads", ",".join(w["name"] for w in hidden["workloads"])], True, False, places))
    for name, make in ((TIES, _ties), (MANY, _many)):
        points, centroids = make(random.Random(f"{secret} {name}"))
        files = work / f"{name}.npy", work / f"{name}_initial.npy"
        for file, rows in zip(files, (points, centroids), strict=True):
            file.touch(mode=0o644)
            write_npy(file, rows)
        words = ["--data", str(files[0]), "--init", str(files[1]), "--k", str(len(centroids)), "--stop", "fixed:3"]
        found.append(Case(words, True, name == TIES))
    return found
