"""What the explorer's page holds, as one JSON document: rungs with their code, times, gains, counters and ceilings.

From the committed records of one GPU, the counters beside them and the cards; a record of this machine may be added.
Only what its script shows is in it: medians and quartiles in place of samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from plots.explorer.teaching import lesson_of
from plots.figures import counters
from plots.lib import cards, schema
from plots.lib.inputs import read_json, read_text
from plots.lib.record import DEVICES, ROOT, SCOPE_TITLES, Record, Rung, Workload, of_one_gpu
from plots.lib.speedup import IN_TURNS, device_of, gain_of, of_earlier_text, texts_of

TURNS = "nvidia-h100/comparisons*.json"  # below results/: sessions in turns of another GPU than the record's
# What a reason of Nsight Compute's for which warps wait means, in words.
REASONS = {
    "long_scoreboard": "global memory",
    "short_scoreboard": "shared memory",
    "lg_throttle": "queue of global loads full",
    "mio_throttle": "queue of shared memory full",
    "math_pipe_throttle": "arithmetic unit busy",
    "wait": "fixed latency",
    "selected": "issuing",
    "not_selected": "ready, another warp issues",
    "dispatch_stall": "dispatch",
    "barrier": "barrier",
    "no_instruction": "instruction cache",
    "imc_miss": "constant cache",
    "gmma": "tensor cores",
}
CONTRACT = '#include "../../harness/contract/'
COMMON = cards.FOLDER / "common"
LEAST_STEPS = 24  # a workload is offered where so many times of a rung stand beside its base's, in any scope
CLAIMS = ROOT / "results" / "claims.json"
GPUS = ROOT / "harness" / "lessons" / "gpus.json"
CLAIM = ("over", "source", "place", "claim", "stated", "ours", "verdict", "why")
INCLUDE = re.compile(r'^#include "\.\./common/([^"]+)"', re.MULTILINE)
SUMS = {"multiply_adds": ("ffma", "dfma"), "additions": ("fadd", "dadd")}  # as lessons call them
AXIS = re.compile(r'\{\s*"(\w+)",\s*(?:\{[^}]*\}|range\([^)]*\)),\s*(-?\d+)')
STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*')
FOR_CMAKE = re.compile(r"link( on \w+)?:|for cuda:")
ABOVE = re.compile(r"\A(?:// *(?:link|for cuda)\b[^\n]*\n|//\n)*((?://[^\n]*\n)+)")


def code_of(text: str) -> str:
    """Without comments, blank lines and the card: what `ladder diff` compares, line by line."""
    text = text[: found.start()] if (found := cards.CARD.search(text)) else text
    kept = STRING_OR_COMMENT.sub(lambda match: match[0] if match[0].startswith('"') else "", text)
    return "\n".join(line.rstrip() for line in kept.splitlines() if line.strip() and CONTRACT not in line)


def remark_of(text: str) -> str:
    """The first comment of a file: what differs from the base, and what was slow or wrong there."""
    found = ABOVE.match(text)
    lines = [line.removeprefix("//").strip() for line in found[1].splitlines()] if found else []
    return " ".join(line for line in lines if line and not FOR_CMAKE.match(line))


def parts_of(text: str) -> dict[str, str]:
    """The shared parts that a file includes itself, by their path below common/, each with the code of its .cu."""
    found: dict[str, str] = {}
    for name in INCLUDE.findall(text):
        path = COMMON / name
        files = [path, path.with_suffix(".cu")] if path.suffix == ".cuh" else [path]
        found[name] = "\n".join(code_of(read_text(file)) for file in files if file.is_file())
    return found


def axes_of(text: str) -> dict[str, int]:
    """The standard value of each tuning axis of a card."""
    begin = text.find(".axes")
    return {name: int(standard) for name, standard in AXIS.findall(text, begin)} if begin >= 0 else {}


def rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


# --------------------------------------------------------------------------------------------------- what was measured


def offered(record: Record) -> list[Workload]:
    """Workloads on which many rungs stand beside their base, those with the most steps first."""
    steps: dict[str, int] = {}
    for row in record.rows:
        base = record.bases.get(row.variant, "")
        if row.timed and base and row.device != "simt":
            other = record.row(Rung(base, row.device), row.workload, row.scope)
            steps[row.workload] = steps.get(row.workload, 0) + bool(other and other.timed)
    least = min(LEAST_STEPS, max(steps.values(), default=0))
    names = sorted((name for name, count in steps.items() if count >= least and count), key=lambda name: -steps[name])
    return [record.workloads[name] for name in names]


def times_of(record: Record, workloads: Iterable[Workload]) -> dict[str, dict[str, dict[str, list[Any]]]]:
    """By rung, workload and scope: median, quartiles (null below five samples), and the least time of the problem."""
    names = {w.name for w in workloads}
    found: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for variant in record.bases:
        rung = device_of(record, variant)
        for name in names if rung else ():
            for scope in SCOPE_TITLES:
                row = record.row(rung, name, scope) if rung else None
                if row and row.timed and row.median_ms:
                    values = [rounded(v) for v in (row.median_ms, row.q1_ms, row.q3_ms, row.floor_ms)]
                    found.setdefault(variant, {}).setdefault(name, {})[scope] = values
    return found


def device_name(record: Record) -> str:
    context = record.sources[0].context
    return context["gpu"]["name"] if context.get("gpu") else context["host"]["cpu"]


def machine_of(record: Record, name: str) -> dict[str, Any]:
    """A machine with times, by the name that the page gives it."""
    workloads = offered(record)
    context = record.sources[0].context
    ceilings = (context.get("ceilings") or {}).get("cuda") or {}
    return {
        "name": name,
        "processors": (context.get("gpu") or {}).get("multiprocessors"),
        "ceilings": {key: rounded(value) for key, value in ceilings.items() if value},
        "workloads": [w.name for w in workloads],
        "times": times_of(record, workloads),
    }


def gains_from(record: Record, newest: Record | None = None) -> list[dict[str, Any]]:
    """Of steps whose sessions took turns: the gain and its 95 % interval. Without those of a text of a rung that is an
    earlier one than that of `newest`."""
    found = []
    gpu = device_name(record)
    earlier = of_earlier_text(record, texts_of(newest)) if newest else []
    for c in record.comparisons:
        if c.method == IN_TURNS and c.device == "cuda" and c not in earlier:
            gain = gain_of(c)
            assert gain.interval
            w = record.workloads[c.workload]
            found.append(
                {
                    "rung": c.candidate,
                    "base": c.base,
                    "workload": c.workload,
                    "scope": c.scope,
                    "gpu": gpu,
                    "size": [w.n, w.d, w.k],
                    "value": rounded(gain.value),
                    "low": rounded(gain.interval.low),
                    "high": rounded(gain.interval.high),
                    "times": [rounded(c.base_ms), rounded(c.candidate_ms)],
                    "sessions": [c.base_sessions, c.candidate_sessions],
                    "verdict": c.verdict,
                }
            )
    return found


def reason_of(name: str) -> str:
    return REASONS.get(name, name.replace("_", " "))


def counted_in(entry: dict[str, Any]) -> dict[str, Any]:
    """Of one profile: the kernel that takes most of the time, and the bytes of all kernels."""
    main = max(entry["kernels"], key=counters.time_of)
    metrics = main["metrics"]
    return {
        "kernel": main["name"],
        "kernels": sum(kernel["launches"] for kernel in entry["kernels"]),
        "block": main["block"][0] * main["block"][1] * main["block"][2],
        "grid": main["grid"][0] * main["grid"][1] * main["grid"][2],
        "limited": main["limited_by"],
        "bytes": rounded(sum((k["metrics"].get("dram_bytes") or 0) * k["launches"] for k in entry["kernels"])),
        "stalls": [[reason_of(stall["reason"]), rounded(stall["share"])] for stall in main["stalls"]],
        "metrics": {name: rounded(value) for name, value in metrics.items() if value is not None}
        | {name: rounded(metrics[one] + metrics[two]) for name, (one, two) in SUMS.items() if one in metrics},
        "axes": entry["axes"],
        "type": entry["type"],
        "size": [entry["n"], entry["d"], entry["k"]],
    }


def counts_of(profile: counters.Profile | None) -> dict[str, dict[str, dict[str, Any]]]:
    """By rung, workload and scope."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in profile.entries if profile else ():
        if entry["kernels"]:
            of = found.setdefault(entry["variant"], {}).setdefault(entry["workload"], {})
            of[entry["scope"]] = counted_in(entry)
    return found


def checked_in(record: Record) -> dict[str, dict[str, list[str]]]:
    """What a record of this machine says of each rung: workloads by status. Valid on simt is `ok` or `checked`."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in record.rows:
        of = found.setdefault(row.variant, {}).setdefault(row.status, [])
        if row.workload not in of:
            of.append(row.workload)
    return found


# ------------------------------------------------------------------------------------------------------- the document


@lru_cache
def claims() -> dict[str, Any]:
    """What sources claimed, and what became of it: results/claims.json, as its command keeps it."""
    return read_json(CLAIMS) if CLAIMS.is_file() else {"rule": "", "claims": []}


def rung_of(card: cards.Card, chapter: str, known: Sequence[str], path: Path) -> dict[str, Any]:
    text = read_text(path)
    python = path.suffix == ".py"
    return {
        "id": card.id,
        "chapter": chapter,
        "base": card.base if card.base in known else "",
        "idea": card.idea,
        "expect": card.expect,
        "shows": card.shows,
        "counter": card.counter,
        "source": card.source,
        "file": path.relative_to(ROOT).as_posix(),
        "remark": "" if python else remark_of(text),
        "code": "" if python else code_of(text),
        "parts": [] if python else list(parts_of(text)),
        "axes": axes_of(text),
        "claims": [{key: c[key] for key in CLAIM} for c in claims()["claims"] if c["rung"] == card.id],
        **lesson_of(text),
    }


def document(record: Record, turns: Record | None, here: Record | None, folder: Path = cards.FOLDER) -> dict[str, Any]:
    """`turns`: a record of another GPU, whose sessions took turns, too; `here`: one of this machine."""
    known = cards.load(folder)
    chapters = cards.chapters(folder)
    paths = {path.stem: path for path in cards.files(folder)}
    machines = [machine_of(record, device_name(record))]
    if here and any(row.timed and row.device != "simt" for row in here.rows):
        machines.append(machine_of(here, f"this machine, {device_name(here)}"))
    names = list(dict.fromkeys(name for machine in machines for name in machine["workloads"]))
    every = {**(here.workloads if here else {}), **record.workloads}
    profile = counters.beside(record)
    parts: dict[str, str] = {}
    for name in known:
        if paths[name].suffix != ".py":
            parts |= parts_of(read_text(paths[name]))
    timed = {name for machine in machines for name in machine["times"]}
    counts = counts_of(profile)
    shown = [name for name in known if name in timed or name in counts or paths[name].suffix == ".cu"]
    return {
        "rungs": [rung_of(known[name], chapters[name], list(known), paths[name]) for name in shown],
        "parts": parts,
        "scopes": SCOPE_TITLES,
        "workloads": {
            name: {key: getattr(every[name], key) for key in ("title", "n", "d", "k", "type", "nonzeros")}
            for name in names
        },
        "machines": machines,
        "gains": gains_from(record) + (gains_from(turns, record) if turns else []),  # the first that fits is shown
        "other_gpu": device_name(turns) if turns else "",
        "other_ceilings": ceilings_of(turns),
        "counts": counts,
        "counted_on": profile_device(profile),
        "limits": limits_of(profile),
        "metrics": {name: [text, profile.units[name]] for name, text in profile.meanings.items()} if profile else {},
        "claim_rule": claims()["rule"],
        "checked": checked_in(here) if here else {},
        "checked_on": f"{here.machine()}, {devices_of(here)}" if here else "",
    }


def devices_of(record: Record) -> str:
    return " and ".join(device for device in DEVICES if record.rungs(device))


@lru_cache
def committed(here: Path | None = None) -> tuple[dict[str, Any], Record, Record | None]:
    """The document of the committed records, beside a record of this machine where one is named; and those records."""
    record = schema.of_one_machine([])
    paths = sorted((ROOT / "results").glob(TURNS))
    turns = of_one_gpu([schema.load(path) for path in paths], "the explorer") if paths else None
    return document(record, turns, schema.load(here) if here else None), record, turns


def ceilings_of(record: Record | None) -> dict[str, Any]:
    """What that other machine reaches, for rates that the record's own machine has no measurement of."""
    if record is None:
        return {}
    found = (record.sources[0].context.get("ceilings") or {}).get("cuda") or {}
    return {key: rounded(value) for key, value in found.items() if value and key.startswith("tensor")}


def limits_of(profile: counters.Profile | None) -> dict[str, Any]:
    """What a multiprocessor of the GPU that counted can hold."""
    capability = next((entry["gpu"]["compute_capability"] for entry in profile.entries), "") if profile else ""
    return read_json(GPUS)["capabilities"].get(capability, {})


def profile_device(profile: counters.Profile | None) -> str:
    return next((entry["gpu"]["name"] for entry in profile.entries), "") if profile else ""
