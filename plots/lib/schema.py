"""Checks documents against their JSON schemas: records, profiles and tuned values, one sentence per violation.

The schemas lie in harness/records/: record.schema.json, profile.schema.json (of `ladder profile`) and
tuned.schema.json. Of records it then checks what a schema cannot say: medians and quartiles agree with their samples,
every row's workload exists, the chains of bases end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from plots.lib import origin
from plots.lib.inputs import json_object, read_bytes
from plots.lib.record import (
    SCHEMA,
    Record,
    RecordError,
    committed_with_turns,
    from_document,
    merged,
    read_json,
    together,
)

PROFILE_SCHEMA = SCHEMA.with_name("profile.schema.json")
TUNED_SCHEMA = SCHEMA.with_name("tuned.schema.json")
# Samples and quartiles may be written with fewer digits than they were computed with.
RELATIVE_TOLERANCE = 1e-6
# With fewer samples a quartile is one of them, or nearly.
QUARTILES_FROM = 5
# So many standard errors may quartiles of all samples lie off those of the kept ones, which depend on their neighbours.
CHANCE = 5
# Records of the schema's first version, which had fewer fields: they are read as they are.
OLDER_VERSIONS = (1,)


@cache
def validator(file: Path = SCHEMA) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(read_json(file))


def form_errors(document: dict[str, Any], file: Path = SCHEMA) -> list[jsonschema_rs.ValidationError]:
    """In the order of their places."""
    return in_order(validator(file), document)


def in_order(
    against: jsonschema_rs.Draft202012Validator, document: dict[str, Any]
) -> list[jsonschema_rs.ValidationError]:
    return sorted(against.iter_errors(document), key=lambda error: [str(part) for part in error.instance_path])


def row_name(index: int, row: dict[str, Any]) -> str:
    parts = [str(row.get(key, "?")) for key in ("variant", "workload", "device", "scope", "status")]
    return f"rows[{index}] ({', '.join(parts)})"


def schema_violations(document: dict[str, Any], against: jsonschema_rs.Draft202012Validator | None = None) -> list[str]:
    found = []
    for error in in_order(against or validator(), document):
        path = error.instance_path
        where = "the record"
        if path[:1] == ["rows"] and len(path) > 1:
            row = document["rows"][path[1]]
            where = row_name(path[1], row if isinstance(row, dict) else {})
            path = path[2:]
        if path:
            where += ": " + ".".join(str(part) for part in path)
        message = error.message if len(error.message) < 300 else error.message[:140] + " ... " + error.message[-140:]
        found.append(f"{where}: {message}.")
    return found


def quantile(ordered: list[float], share: float) -> float:
    """Between the two samples around it; of a few, numpy's takes a hundred times as long."""
    below, rest = divmod(share * (len(ordered) - 1), 1)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + rest * (high - low)


def quartiles_far_from_kept(name: str, row: dict[str, Any], stated: dict[str, float]) -> list[str]:
    """Where only some samples are kept: quartiles of all lie where chance lets them, among the kept ones in order."""
    found = []
    kept = sorted(row["samples_ms"])
    for (key, value), share in zip(stated.items(), (0.25, 0.5, 0.75), strict=True):
        reach = CHANCE * math.sqrt(share * (1 - share) / len(kept))
        low, high = quantile(kept, max(0, share - reach)), quantile(kept, min(1, share + reach))
        if not low * (1 - RELATIVE_TOLERANCE) <= value <= high * (1 + RELATIVE_TOLERANCE):
            found.append(
                f"{name}: {key} is {value:.9g} of {row['samples_taken']} samples, but the {len(kept)} that are kept "
                f"have it between {low:.9g} and {high:.9g}."
            )
    return found


def quartile_violations(name: str, row: dict[str, Any]) -> list[str]:
    stated = {key: row[key] for key in ("q1_ms", "median_ms", "q3_ms")}
    count = len(row["samples_ms"])
    if count == 0:
        wrong = [key for key, value in stated.items() if value is not None]
        return [f"{name}: {', '.join(wrong)} stated without a sample."] if wrong else []
    found = []
    for key in ("q1_ms", "q3_ms"):
        if (stated[key] is None) != (count < QUARTILES_FROM):
            found.append(f"{name}: {key} is {stated[key]} with {count} samples; quartiles begin at {QUARTILES_FROM}.")
    if row.get("samples_taken", count) < count:
        return [*found, f"{name}: samples_taken is {row['samples_taken']}, but {count} are kept."]
    if "samples_taken" in row:
        return found + quartiles_far_from_kept(name, row, stated)
    ordered = sorted(row["samples_ms"])
    computed = [quantile(ordered, share) for share in (0.25, 0.5, 0.75)]
    return found + [
        f"{name}: {key} is {value:.9g}, but its {count} samples give {right:.9g}."
        for (key, value), right in zip(stated.items(), computed, strict=True)
        if value is not None and abs(value - right) > RELATIVE_TOLERANCE * right
    ]


def sample_violations(name: str, row: dict[str, Any]) -> list[str]:
    """What stands beside each sample, and what follows from the median."""
    found = []
    for key in ("sm_mhz", "solve_iterations"):
        if row[key] and len(row[key]) != len(row["samples_ms"]):
            found.append(f"{name}: {len(row['samples_ms'])} samples, but {len(row[key])} entries in {key}.")
    if row["median_ms"] is None:
        wrong = [key for key in ("gflops", "gbs", "roof_percent", "per_iteration_ms") if row[key] is not None]
        return [*found, f"{name}: {', '.join(wrong)} stated without a time."] if wrong else found
    expected = {"gflops": row["flop"] / row["median_ms"] * 1e-6, "gbs": row["bytes"] / row["median_ms"] * 1e-6}
    if row["floor_ms"] is not None:
        expected["roof_percent"] = 100 * row["floor_ms"] / row["median_ms"]
    return found + [
        f"{name}: {key} is {row[key]:.9g}, but its median gives {right:.9g}."
        for key, right in expected.items()
        if row[key] is not None and abs(row[key] - right) > RELATIVE_TOLERANCE * right
    ]


def base_violations(rows: list[dict[str, Any]]) -> list[str]:
    found = []
    cards: dict[str, tuple[str, str, str]] = {}
    for index, row in enumerate(rows):
        card = (row["base"], row["idea"], row["shows"])
        if cards.setdefault(row["variant"], card) != card:
            found.append(f"{row_name(index, row)}: base, idea or shows differ from an earlier row of this variant.")
    for variant in cards:
        seen = [variant]
        while (base := cards[seen[-1]][0]) in cards:
            if base in seen:
                found.append(f"variant {variant}: its chain of bases does not end ({' -> '.join([*seen, base])}).")
                break
            seen.append(base)
    return found


# Why a variant has no such part, which then takes no time.
NO_PART = {
    "upload": "the points are read where they lie: there is no upload",
    "download": "the whole solve is one piece here: see solve",
}


def took(row: dict[str, Any]) -> float | None:
    """What a row took of its device, ms: time of a GPU, on a CPU what its threads used."""
    if row["device"] != "cuda" and NO_PART.get(row["scope"]) == row["reason"]:
        return 0.0
    if row["status"] != "ok" or not row["median_ms"]:
        return None
    return row["median_ms"] if row["device"] == "cuda" else row.get("cpu_ms")


def contradictions(rows: list[dict[str, Any]]) -> list[str]:
    """Times of one session that cannot all be true, by the rules of harness/protocol/parts.hpp."""
    sessions: dict[tuple[str, ...], dict[str, tuple[str, dict[str, Any]]]] = {}
    how = (
        "variant",
        "module_hash",
        "workload",
        "device",
        "axes",
        "cache",
        "gpus",
        "ranks",
        "sustained_seconds",
        "session",
    )
    for index, row in enumerate(rows):
        if took(row) is not None:
            session = sessions.setdefault(tuple(str(row.get(name)) for name in how), {})
            session[row["scope"]] = (row_name(index, row), row)
    found = []
    for session in sessions.values():
        ms = {scope: took(row) for scope, (_, row) in session.items()}
        on_host = any(row["device"] != "cuda" for _, row in session.values())
        times_iterations, times_parts, more_ms = (1.5, 1.5, 0.5) if on_host else (3, 2, 1)
        if {"upload", "solve", "download", "end_to_end"} <= ms.keys():
            parts = ms["upload"] + ms["solve"] + ms["download"]
            if ms["end_to_end"] > times_parts * parts + more_ms:
                found.append(
                    f"{session['solve'][0]}: a whole run takes {ms['end_to_end']:.4g} ms, its parts {parts:.4g}: "
                    "some of its work is in none of these."
                )
        if {"solve", "end_to_end"} <= ms.keys() and ms["solve"] > times_parts * ms["end_to_end"] + more_ms:
            found.append(
                f"{session['end_to_end'][0]}: a whole run takes {ms['end_to_end']:.4g} ms, the solve in it "
                f"{ms['solve']:.4g}: what is timed is not the work."
            )
        counts = session["solve"][1]["solve_iterations"] if "solve" in session else []
        limit = min(counts, default=0) * (times_iterations * ms.get("iteration", 0) + 0.1)
        if counts and "iteration" in ms and ms["solve"] > limit:
            found.append(
                f"{session['iteration'][0]}: {ms['iteration']:.4g} ms, and a solve of {min(counts)} takes "
                f"{ms['solve']:.4g} ms: some of its work is not timed."
            )
    return found


OF_HOST = ("upload", "download", "end_to_end", "cold_start")  # scopes in which the host works, too


def host_violations(document: dict[str, Any]) -> list[str]:
    """Rows that are held against each other and depend on the host, and were measured on hosts of different cores."""
    cores: dict[tuple[str, str, str], set[int]] = {}
    for row in document["rows"]:
        if row["median_ms"] is not None and (row["scope"] in OF_HOST or row["device"] != "cuda"):
            place = (row["workload"], row["device"], row["scope"])
            cores.setdefault(place, set()).add(row.get("host_cores", document["context"]["host"]["cores"]))
    return [
        f"{workload} {device} {scope}: measured on hosts of {' and of '.join(map(str, sorted(hosts)))} cores, on which "
        "it depends: measure the older rows anew, or keep them in a record of their own."
        for (workload, device, scope), hosts in cores.items()
        if len(hosts) > 1
    ]


def semantic_violations(document: dict[str, Any]) -> list[str]:
    """What is wrong with a document that fits the schema."""
    found = []
    sizes = {entry["name"]: entry["n"] for entry in document["workloads"]}
    names = [entry["name"] for entry in document["workloads"]]
    found += [f"workload {name}: listed {names.count(name)} times." for name in sizes if names.count(name) > 1]
    keys: set[str] = set()
    for index, row in enumerate(document["rows"]):
        name = row_name(index, row)
        if row["workload"] not in sizes:
            found.append(f"{name}: workload {row['workload']} is not in workloads.")
        if row["device"] == "cuda" and row["status"] != "refused" and document["context"]["gpu"] is None:
            found.append(f"{name}: ran on cuda, but context.gpu is null.")
        if row["key"] in keys:
            found.append(f"{name}: repeats an earlier row, {row['key']}.")
        keys.add(row["key"])
        found += quartile_violations(name, row) + sample_violations(name, row)
        if row["status"] in ("ok", "unstable") and row["reassigned"]:
            if row["reassigned"][0] != sizes.get(row["workload"], row["reassigned"][0]):
                found.append(f"{name}: reassigned starts with {row['reassigned'][0]}, not with all points.")
            if row["iterations"] is not None and row["iterations"] != len(row["reassigned"]):
                found.append(
                    f"{name}: {row['iterations']} iterations, but {len(row['reassigned'])} entries in reassigned."
                )
    rows = document["rows"]
    found += contradictions(rows) + base_violations(rows) + host_violations(document)
    return found + tuning_violations(document)


# What an older record must have to be read; today's fields that it has are of today's types.
OLDER_NEEDS = {
    "context": ["argv", "time", "git_sha", "git_dirty", "complete", "host", "gpu"],
    "host": ["cpu", "cores"],
    "gpu": ["name", "driver", "cuda"],
    "workload": ["name", "family", "title", "n", "d", "k", "type", "stop", "data_hash", "source"],
    "row": ["variant", "base", "workload", "device", "scope", "status", "reason", "samples_ms", "median_ms"],
}


def older_form(schema: Any, name: str = "") -> Any:  # noqa: ANN401, a schema is any JSON
    """Today's schema without what it demands beside the types of fields."""
    if isinstance(schema, list):
        return [older_form(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    strict = ("additionalProperties", "required", "allOf", "if", "then", "else", "propertyNames", "minProperties")
    form = {key: older_form(value, key) for key, value in schema.items() if key not in strict}
    if isinstance(schema.get("additionalProperties"), dict):  # the types of values by names of any kind
        form["additionalProperties"] = older_form(schema["additionalProperties"])
    if name in OLDER_NEEDS and "properties" in schema:
        form["required"] = OLDER_NEEDS[name]
    return form


@cache
def older_validator() -> jsonschema_rs.Draft202012Validator:
    form = older_form(read_json(SCHEMA))
    form["required"] = ["context", "workloads", "rows"]
    form["properties"]["schema_version"] = {"enum": list(OLDER_VERSIONS)}
    form["$defs"]["row"]["properties"]["sm_mhz"] = {"type": ["number", "null"]}  # one clock for all samples
    return jsonschema_rs.Draft202012Validator(form)


def older_violations(document: dict[str, Any]) -> list[str]:
    """An older record cannot be held against today's schema: whether it can be read at all."""
    if not isinstance(document.get("context"), dict) or not isinstance(document.get("workloads"), list):
        return ["the record has no context or no workloads."]
    rows = document.get("rows")
    if not isinstance(rows, list):
        return ["the record has no rows."]
    needed = set(OLDER_NEEDS["row"])
    lacking = [
        f"{row_name(index, row)}: lacks {', '.join(sorted(needed - set(row)))}."
        for index, row in enumerate(rows)
        if isinstance(row, dict) and not needed <= set(row)
    ]
    return lacking or schema_violations(document, older_validator()) or older_meaning(document)


def older_meaning(document: dict[str, Any]) -> list[str]:
    names = {entry["name"] for entry in document["workloads"]}
    return [
        f"{row_name(index, row)}: workload {row['workload']} is not in workloads."
        for index, row in enumerate(document["rows"])
        if row["workload"] not in names
    ] + tuning_violations(document)


def profile_violations(document: dict[str, Any]) -> list[str]:
    """Of a file of `ladder profile`: its form, then what a schema cannot say."""
    errors = form_errors(document, PROFILE_SCHEMA)
    if errors:
        paths = [".".join(str(part) for part in error.instance_path) or "the profile" for error in errors]
        return [f"{path}: {error.message[:300]}." for path, error in zip(paths, errors, strict=True)]
    units = {metric["name"]: metric["unit"] for metric in document["metrics"]}
    found = []
    seen = set()
    for profile in document["profiles"]:
        key = tuple(profile[part] for part in ("variant", "workload", "type", "scope"))
        name = ", ".join(key)
        if key in seen:
            found.append(f"{name}: it is there twice.")
        seen.add(key)
        lacking = set(profile["lacking"])
        if strange := lacking - set(units) - {"stalls", "limited_by"}:
            found.append(f"{name}: lacking {', '.join(sorted(strange))}, of which `metrics` knows nothing.")
        for kernel in profile["kernels"]:
            where = f"{name}, kernel {kernel['name']}"
            silent = set(units) - set(kernel["metrics"]) - lacking
            if silent:
                found.append(f"{where}: {', '.join(sorted(silent))} neither given nor named in `lacking`.")
            if strange := set(kernel["metrics"]) - set(units):
                found.append(f"{where}: {', '.join(sorted(strange))}, of which `metrics` knows nothing.")
            brief = (kernel["metrics"].get("time_ms") or 0) < 0.005
            found += [
                f"{where}: {metric} is {value:.6g}."
                for metric, value in kernel["metrics"].items()
                # Counters of several passes do not agree to the last digit; of a few microseconds, not to the first.
                if value is not None and (value < 0 or (units.get(metric) == "%" and value > 105 and not brief))
            ]
            shares = [stall["share"] for stall in kernel["stalls"]]
            if shares != sorted(shares, reverse=True) or sum(shares) > 1.001:
                found.append(f"{where}: the shares of its stalls are not in order, or more than the whole.")
    return found


def tuned_violations(document: dict[str, Any]) -> list[str]:
    """Of a file of tuned values."""
    found = [
        f"the tuned values: {'.'.join(str(part) for part in error.instance_path)}: {error.message[:300]}."
        for error in form_errors(document, TUNED_SCHEMA)
    ]
    if found:
        return found
    keys = ("device", "machine", "gpus", "variant", "n", "d", "k", "type", "metric", "kernel", "filled")
    places = [tuple(entry[key] for key in keys) for entry in document["entries"]]
    return [f"the tuned values: {place} is there twice." for place in sorted(set(places)) if places.count(place) > 1]


def tuning_violations(document: dict[str, Any]) -> list[str]:
    """What `ladder tune` says of a sweep must be of points that there are."""
    found = []
    known = {w["name"] for w in document["workloads"]}
    for entry in document.get("tuning", []):
        name = f"tuning of {entry['variant']} on {entry['workload']}"
        if entry["workload"] not in known:
            found.append(f"{name}: workload {entry['workload']} is not in workloads.")
        values = {axis["name"]: axis["values"] for axis in entry["axes"]}
        for which in ("standard", "best"):
            point = entry[which]
            if point is not None and (set(point) != set(values) or any(v not in values[a] for a, v in point.items())):
                found.append(f"{name}: {which} {point} is no point of its axes.")
    return found


def violations(document: dict[str, Any]) -> list[str]:
    """One sentence per violation; the meaning is only looked at once the form is right."""
    if "profile_version" in document:
        return profile_violations(document)
    if "entries" in document and "rows" not in document:
        return tuned_violations(document)
    if document.get("schema_version") in OLDER_VERSIONS:
        return older_violations(document)
    return schema_violations(document) or semantic_violations(document)


def load(path: Path, retired: bool = False) -> Record:
    """A sound record, or a RecordError that names its first violations. `retired`: as from_document has it.

    Pages share their records: one with the same content is neither parsed nor checked again by this process.
    """
    content = read_bytes(path)
    record = sound(path, path.resolve(), content, retired)
    origin.note(path, content)
    return record


@lru_cache(maxsize=128)  # more than there are committed; all of them are some 200 MB
def sound(path: Path, place: Path, content: bytes, retired: bool) -> Record:
    """`place`: where the path leads to, which depends on the folder that the process is in."""
    document = json_object(path, content, "`ladder run`")
    found = violations(document)
    if found:
        more = f" (and {len(found) - 3} more: run python -m plots.check)" if len(found) > 3 else ""
        raise RecordError(f"{path}: is not a sound record{more}: " + " ".join(found[:3]))
    return from_document(document, path, retired)


def of_one_machine(paths: Sequence[Path], usual: Callable[[], list[Path]] = committed_with_turns) -> Record:
    """The records together; without any the `usual` ones, of a GPU where there are such.

    Throws RecordError where they are of several machines.
    """
    groups = together([load(path) for path in paths or usual()])
    if not paths:
        groups = [group for group in groups if group.workloads_on("cuda")] or groups
    return merged(groups)
