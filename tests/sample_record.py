"""Plausible records for the tests of schema and plots: nothing here was measured.

`make()` builds a record with rows on cuda, simt and cpu, refusals, an invalid, a failed and an unstable row. Names are
made up on purpose: neither schema nor plots may know real ones.
"""

from __future__ import annotations

import json
import math
import pickle
import random
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = json.loads((Path(__file__).resolve().parent.parent / "harness" / "records" / "record.schema.json").read_text())
SCOPES = ("assign", "update", "iteration", "solve", "end_to_end")
ITERATIONS = 12


def made_once(maker: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """What `maker` makes, made once and copied for each who asks: they change it."""

    @cache
    def made(**arguments: object) -> bytes:
        return pickle.dumps(maker(**arguments))

    @wraps(maker)
    def copied(**arguments: object) -> dict[str, Any]:
        return pickle.loads(made(**arguments))

    return copied


def ceilings(gpu: bool) -> dict[str, Any]:
    """Round numbers of a device that is nobody's."""
    names = SCHEMA["$defs"]["ceilings"]["required"]
    if not gpu:
        return dict.fromkeys(names) | {"copy_gbs": 20.0, "read_gbs": 18.0, "fp32_gflops": 900.0, "fp64_gflops": 450.0}
    rates = {"copy_gbs": 4200.0, "read_gbs": 4300.0, "fp32_gflops": 60e3, "fp64_gflops": 30e3, "tensor_gflops": None}
    link = {"pinned_h2d_gbs": 55.0, "pinned_d2h_gbs": 55.0, "pageable_h2d_gbs": 6.5, "pageable_d2h_gbs": 6.5}
    return rates | link | {"empty_event_us": 1.0, "empty_launch_us": 2.0, "l2_bytes": 50_000_000}


def context(gpu: bool = True) -> dict[str, Any]:
    return {
        "argv": ["ladder", "run", "--device", "all"],
        "time": "2026-11-20T23:00:00Z",
        "git_sha": "0123456789abcdef0123456789abcdef01234567",
        "git_dirty": False,
        "complete": True,
        "host": {"cpu": "Example CPU 9000", "cores": 16, "os": "Debian GNU/Linux 12"},
        "compiler": {"host": "g++ 12.2", "cuda": "12.8" if gpu else None, "flags": "-O3"},
        "gpu": {
            "name": "Example GPU X1",
            "compute_capability": "9.0",
            "multiprocessors": 132,
            "memory_bytes": 150_000_000_000,
            "driver": "570.10",
            "cuda": "12.8",
            "sm_clock_mhz": 1980,
            "memory_clock_mhz": 3201.0,
            "ecc": True,
        }
        if gpu
        else None,
        "ceilings": ({"cuda": ceilings(True)} if gpu else {}) | {"simt": ceilings(False), "cpu": ceilings(False)},
        "floor_us": {"empty_event_us": 1.0, "empty_launch_us": 2.0} if gpu else None,
        "left_out": [],
    }


def workload(name: str, family: str, n: int, d: int, k: int, stop: str = "exact") -> dict[str, Any]:
    return {
        "name": name,
        "family": family,
        "title": f"made-up {name}",
        "n": n,
        "d": d,
        "k": k,
        "type": "f32",
        "metric": "euclidean",
        "kernel": "none",
        "stop": stop,
        "seed": 1,
        "data_hash": "sha256:00",
        "init_hash": None,
        "nonzeros": n * d,
        "made_by": None,
        "source": family,
    }


def row(
    variant: str,
    base: str,
    workload: dict[str, Any],
    device: str,
    scope: str,
    ms: float = 1.0,
    status: str = "ok",
    **fields: object,
) -> dict[str, Any]:
    """An ok row of ten samples around `ms`, or one without a time where a status is given."""
    timed = status in ("ok", "unstable")
    noise = random.Random(f"{variant} {workload['name']} {device} {scope}")
    spread = 0.3 if status == "unstable" else 0.02
    samples = [ms * (1 + spread * noise.random()) for _ in range(10)] if timed else []
    q1, median, q3 = (float(q) for q in np.percentile(samples, [25, 50, 75])) if timed else (None, None, None)
    n = workload["n"]
    whole = scope in ("solve", "end_to_end")
    flop = 2.0 * n * workload["k"] * workload["d"] * (ITERATIONS if whole else 1)
    moved = 4.0 * n * workload["d"] * (ITERATIONS if whole else 1)
    gpu = device == "cuda"
    floor = max(flop / 60e9, max(0.0, moved - 50e6) / 4300e6) if gpu else None
    made = {
        "key": "",
        "variant": variant,
        "module_hash": f"{variant}-{device}",
        "base": base,
        "idea": f"the idea of {variant}",
        "shows": "assign",
        "workload": workload["name"],
        "metric": "euclidean",
        "device": device,
        "gpus": 1,
        "scope": scope,
        "status": status,
        "reason": "",
        "axes": {},
        "cache": "warm",
        "sustained_seconds": 0.0,
        "samples_ms": samples,
        "median_ms": median,
        "q1_ms": q1,
        "q3_ms": q3,
        "per_iteration_ms": median / ITERATIONS if median and whole else None,
        "verdict": "settled" if timed else "",
        "warm_up_seconds": 1.0 if gpu and timed else 0.0,
        "sm_mhz": [1980.0] * len(samples) if gpu else [],
        "median_mhz": 1980.0 if gpu and timed else None,
        "settled_mhz": 1980.0 if gpu and timed else None,
        "watts": 412.5 if gpu and timed else None,
        "watt_limit": 700.0 if gpu and timed else None,
        "retries": 0,
        "solve_iterations": [ITERATIONS] * len(samples) if whole else [],
        "labels_differ": 0,
        "validation": {
            "rows_checked": n,
            "labels_wrong": 0,
            "ties": 0,
            "labels_differ": 0,
            "worst_regret": 0.0,
            "centroid_error": 1e-7,
            "inertia": 10.0,
            "steps_checked": ITERATIONS,
        }
        if timed
        else None,
        "iterations": ITERATIONS if timed else None,
        "reassigned": [n] + [int(n * 0.5**i) for i in range(1, ITERATIONS - 1)] + [0] if timed else [],
        "inertia": [10.0 + 90.0 * 0.6**i for i in range(ITERATIONS)] if timed else [],
        "peak_device_bytes": 1 << 20 if device == "cuda" and timed else None,
        "iteration_ms": [ms / ITERATIONS] * ITERATIONS if timed and scope == "solve" else [],
        "counters": {},
        "prepare_ms": 1.0 if timed else 0.0,
        "flop": flop,
        "bytes": moved,
        "gflops": flop / median * 1e-6 if median else None,
        "gbs": moved / median * 1e-6 if median else None,
        "floor_ms": floor,
        "bound_by": "flop" if gpu else None,
        "roof_percent": 100 * floor / median if floor and median else None,
        "launch_bound": bool(gpu and median and median < 0.01),
        "dump": None,
    }
    made |= fields
    settings = [f"{name}={value}" for name, value in made["axes"].items()]
    made["key"] = " ".join([variant, workload["name"], device, scope, made["cache"], *settings])
    return made


def session(
    variant: str, base: str, workload: dict[str, Any], device: str, ms: float, fused: bool = False, **fields: object
) -> list[dict[str, Any]]:
    """A row per scope of a variant whose iteration takes `ms`."""
    share = {"assign": 0.7, "update": 0.2, "iteration": 1.0, "solve": ITERATIONS, "end_to_end": ITERATIONS + 3.0}
    rows = []
    for scope in SCOPES:
        extra: dict[str, Any] = dict(fields)
        if fused and scope in ("assign", "update"):
            extra |= {"status": "refused", "reason": "assign and update are one pass here: see iteration."}
        rows.append(row(variant, base, workload, device, scope, ms=ms * share[scope], **extra))
    return rows


@made_once
def make(gpu: bool = True) -> dict[str, Any]:
    """Two trees on cuda and simt, one on cpu; a sweep over K, a family of one, a family of eight files."""
    sweep = [workload(f"grapes_k{k}", "grapes", 6497, 11, k) for k in (16, 100, 300, 900, 1500, 2100)]
    files = [workload(f"cloud_{i:02}", "cloud", 1_000_000, 100, 10, "fixed:10") for i in range(8)]
    big = workload("embedding", "embedding", 300_000, 408, 5000, "reassigned:0.01")
    workloads = [*sweep, big, *files]
    constant = "the centroids take {} bytes, constant memory holds 65536: use a variant that keeps them elsewhere."
    rows: list[dict[str, Any]] = []
    for w in workloads:
        work = w["n"] * w["k"] * w["d"]
        for device, rate in (("cuda", 2e9), ("simt", 2e7)) if gpu else (("simt", 2e7),):
            ms = work / rate + 0.01
            rows += session("g1_plain", "", w, device, ms)
            size = 4 * w["k"] * w["d"]
            if size > 65536:
                refusal = {"status": "refused", "reason": constant.format(size)}
                rows += session("g2_constant", "g1_plain", w, device, 0, **refusal)
            else:
                rows += session("g2_constant", "g1_plain", w, device, ms / 1.7)
            rows += session("g3_pinned", "g1_plain", w, device, ms / 1.05, shows="end_to_end")
            unstable = {"status": "unstable", "reason": "4 of 10 samples were taken below 75 % of the default clock."}
            rows += session(
                "g4_update", "g3_pinned", w, device, ms / 4.2, shows="update", **(unstable if w is big else {})
            )
            rows += session("g5_fused", "g4_update", w, device, ms / 31, fused=True, shows="iteration")
            wrong = {"status": "invalid", "reason": "17 labels of 6497 are wrong, the first in row 6480."}
            crash = {"status": "failed", "reason": "ended by signal 11 (segmentation fault) while assigning labels."}
            rows += session("h1_matrix", "", w, device, ms * 1.6)
            rows += session("h2_tiles", "h1_matrix", w, device, ms * 1.9, **(wrong if w is sweep[1] else {}))
            rows += session("h3_crash", "h2_tiles", w, device, ms, **(crash if w in sweep else {}))
        rows += session("s1_serial", "", w, "cpu", work / 1e6)
        rows += session("s2_threads", "s1_serial", w, "cpu", work / 13e6, fused=True, shows="iteration")
    return {"schema_version": 2, "context": context(gpu), "workloads": workloads, "rows": rows}


@made_once
def small() -> dict[str, Any]:
    """Every status and device in fewer rows."""
    names = ("grapes_k100", "grapes_k1500", "embedding")
    whole = make()
    rows = [row for row in whole["rows"] if row["workload"] in names and row["scope"] in ("assign", "solve")]
    return whole | {"workloads": [w for w in whole["workloads"] if w["name"] in names], "rows": rows}


@made_once
def tall(variants: int = 40) -> dict[str, Any]:
    """A ladder of many rungs with long names, each a bit faster than its base, on a sweep of three K."""
    sweep = [workload(f"grapes_k{k}", "grapes", 6497, 11, k) for k in (16, 300, 2100)]
    names = [f"v{i:02}_{'an_idea_with_a_long_name' if i % 3 else 'short'}" for i in range(variants)]
    rows: list[dict[str, Any]] = []
    for w in sweep:
        for i, name in enumerate(names):
            fields: dict[str, Any] = {}
            if i % 9 == 5:
                fields = {"status": "refused", "reason": f"needs {i} KB of shared memory per block, 48 KB are there."}
            ms = w["k"] / 100 * math.exp(-i / 8)
            rows += session(name, names[i - 1] if i else "", w, "cuda", ms, fused=i % 4 == 3, **fields)
    return {"schema_version": 2, "context": context(), "workloads": sweep, "rows": rows}


@made_once
def grid() -> dict[str, Any]:
    """A family of shapes: two N, two D, three K, of which the smaller N has one; two rungs, two peers."""
    shapes = [(n, d, k) for n in (10_000, 1_000_000) for d in (32, 2048) for k in (100, 10_000, 100_000)]
    made = [workload(f"map_flat_n{n}_d{d}_k{k}", "map_flat", n, d, k, "fixed:10") for n, d, k in shapes if 2 * k <= n]
    for w in made:
        w["title"] = f"an even load, {w['n']} points, {w['d']} features"
    rows: list[dict[str, Any]] = []
    for w in made:
        ms = w["n"] * w["d"] * w["k"] / 1e10 + 0.02
        small = w["n"] * w["k"] <= 100_000_000
        rows += session("v1_few_threads", "v0_that_is_not_here", w, "cuda", ms if small else 3 * ms)
        rows += session("v2_many_threads", "v1_few_threads", w, "cuda", 3 * ms if small else ms)
        rows += session("p_one", "", w, "cuda", 4 * ms if w["d"] == 32 else 0.8 * ms)
        rows += [row for row in session("p_two", "", w, "cuda", 2 * ms) if row["scope"] == "solve"]
    return {"schema_version": 2, "context": context(), "workloads": made, "rows": rows}


@made_once
def tuned() -> dict[str, Any]:
    """What a sweep leaves behind: two axes one after the other, a point that is refused, a standard one that stays."""
    sweep = [workload(f"grapes_k{k}", "grapes", 6497, 11, k) for k in (16, 300, 2100)]
    big = workload("embedding", "embedding", 300_000, 408, 5000, "reassigned:0.01")
    axes = [
        {"name": "points", "values": [1, 2, 4], "standard": 4, "reported": []},
        {"name": "block", "values": list(range(32, 1025, 32)), "standard": 128, "reported": [256, 512]},
    ]
    standard = {"points": 4, "block": 128}
    rows: list[dict[str, Any]] = []
    tuning: list[dict[str, Any]] = []
    for w in (*sweep, big):
        points = 2 if w is big else 4
        best = {"points": points, "block": 192} if w in (big, sweep[2]) else standard
        found = {}
        swept = [(points, block) for block in (128, *(v for v in axes[1]["values"] if v != 128))]
        for p, block in [(4, 128), (1, 128), (2, 128), *(at for at in swept if at != (points, 128))]:
            cost = 1 + 0.1 * abs(math.log2(block / (192 if w in (big, sweep[2]) else 128))) ** 1.7
            ms = w["n"] * w["k"] * w["d"] / 2e9 * cost * (1 + 0.2 * abs(math.log2(p / points))) + 0.01
            extra: dict[str, Any] = {"axes": {"points": p, "block": block}}
            if w is sweep[2] and block > 768:
                extra |= {"status": "refused", "reason": f"needs {block} threads, its registers allow 768 in a block"}
            made = row("g6_block", "", w, "cuda", "assign", ms=ms, **extra)
            rows.append(made)
            found[(p, block)] = made["median_ms"]
        stays = best == standard
        times = (found[(4, 128)], found[(best["points"], best["block"])])
        tuning.append(
            {
                "variant": "g6_block",
                "workload": w["name"],
                "device": "cuda",
                "gpus": 1,
                "scope": "assign",
                "axes": axes,
                "held": {},
                "method": "descent",
                "points": len(found),
                "gaps": sum(value is None for value in found.values()),
                "standard": standard,
                "standard_ms": times[0],
                "best": best,
                "best_ms": times[1],
                "decided_by": "median" if stays else "apart",
                "reason": "no point is faster than the standard one" if stays else "beyond chance",
                "ratio": None if stays else times[1] / times[0],
                "low": None if stays else 0.7,
                "high": None if stays else 0.99,
            }
        )
    return {
        "schema_version": 2,
        "context": context(),
        "workloads": [*sweep, big],
        "rows": rows,
        "tuning": tuning,
    }


def write(document: dict[str, Any], path: Path) -> Path:
    path.write_text(json.dumps(document))
    return path
