"""The record's schema and plots.check: a sound record passes, and each way to break one is told apart."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sample_record
from conftest import FIXTURES, ROOT

from plots.lib import schema
from plots.lib.record import RecordError

VERSION_1 = FIXTURES / "records" / "version1.json"


@pytest.fixture
def small() -> dict[str, Any]:
    return sample_record.small()


def first(document: dict[str, Any], status: str) -> dict[str, Any]:
    return next(row for row in document["rows"] if row["status"] == status)


def test_the_small_sample_holds_every_status_and_device_and_is_sound(small: dict[str, Any]) -> None:
    assert {row["status"] for row in small["rows"]} == {"ok", "refused", "invalid", "failed", "unstable"}
    assert {row["device"] for row in small["rows"]} == {"cuda", "simt", "cpu"}
    assert schema.violations(small) == []


@pytest.mark.parametrize("document", [sample_record.make(), sample_record.make(gpu=False), sample_record.tall()])
def test_generated_records_are_sound(document: dict[str, Any]) -> None:
    assert schema.violations(document) == []


def test_an_interrupted_run_without_rows_is_sound(small: dict[str, Any]) -> None:
    small["rows"] = []
    small["context"]["complete"] = False
    assert schema.violations(small) == []


def ok(**fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: first(document, "ok").update(fields)


def of(status: str, **fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: first(document, status).update(fields)


def drop(*path: str) -> Callable[[dict[str, Any]], None]:
    def breaking(document: dict[str, Any]) -> None:
        where = document
        for part in path[:-1]:
            where = where[part] if part != "rows" else document["rows"][0]
        del where[path[-1]]

    return breaking


def wrong_label(document: dict[str, Any]) -> None:
    first(document, "ok")["validation"]["labels_wrong"] = 1


def set_context(**fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["context"].update(fields)


# Each breaks one rule of the schema; the words must be in the sentence that says so.
BROKEN = {
    "another version": (lambda d: d.update(schema_version=3), "schema_version"),
    "an unknown top-level field": (lambda d: d.update(extra=1), "extra"),
    "no context": (drop("context"), "context"),
    "no git_sha": (drop("context", "git_sha"), "git_sha"),
    "a local time": (set_context(time="2026-11-20 23:00"), "time"),
    "a gpu that is a name": (set_context(gpu="Example GPU X1"), "gpu"),
    "a misspelt stop rule": (lambda d: d["workloads"][0].update(stop="reassigned"), "stop"),
    "a workload without points": (lambda d: d["workloads"][0].update(n=0), "n: 0"),
    "a row without reason": (drop("rows", "reason"), "reason"),
    "a row without a key": (drop("rows", "key"), "key"),
    "an empty key": (ok(key=""), "key"),
    "a verdict that there is not": (ok(verdict="tired"), "verdict"),
    "a bound that there is not": (ok(bound_by="luck"), "bound_by"),
    "a counter that is a number": (ok(counters={"distances": 5}), "counters.distances"),
    "checked with a median": (lambda d: first(d, "ok").update(status="checked", reason="so"), "median_ms"),
    "a ceiling too few": (lambda d: d["context"]["ceilings"]["cuda"].pop("read_gbs"), "read_gbs"),
    "a floor that is a number": (set_context(floor_us=1.0), "floor_us"),
    "one piece": (set_context(pieces=[{"argv": ["ladder"], "time": "2026-11-20T23:00:00Z"}]), "pieces"),
    "an unknown field in a row": (ok(speed=3), "speed"),
    "an unknown device": (ok(device="tpu"), "tpu"),
    "an unknown scope": (ok(scope="loop"), "loop"),
    "an unknown status": (ok(status="slow"), "slow"),
    "ok without samples": (ok(samples_ms=[]), "samples_ms"),
    "ok without median": (ok(median_ms=None), "median_ms"),
    "ok with a reason": (ok(reason="just so"), "reason"),
    "ok with a wrong label": (wrong_label, "labels_wrong"),
    "ok without validation": (ok(validation=None), "validation"),
    "ok with no step checked": (lambda d: first(d, "ok")["validation"].update(steps_checked=0), "steps_checked"),
    "unstable without validation": (of("unstable", validation=None), "validation"),
    "a sample of no time": (ok(samples_ms=[0.0, 1.0]), "samples_ms.0"),
    "refused without reason": (of("refused", reason=""), "reason"),
    "refused with a median": (of("refused", median_ms=1.0), "median_ms"),
    "refused with samples": (of("refused", samples_ms=[1.0]), "samples_ms"),
    "failed without reason": (of("failed", reason=""), "reason"),
    "failed with a median": (of("failed", median_ms=1.0), "median_ms"),
    "invalid without reason": (of("invalid", reason=""), "reason"),
    "unstable without reason": (of("unstable", reason=""), "reason"),
    "unstable without samples": (of("unstable", samples_ms=[]), "samples_ms"),
    "an axis that is text": (ok(axes={"block": "256"}), "axes.block"),
    "an absolute dump": (ok(dump="/tmp/dump"), "dump"),
    "a name that is a path": (ok(variant="../v"), "variant"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_schema_rejects(name: str, small: dict[str, Any]) -> None:
    breaking, words = BROKEN[name]
    breaking(small)
    found = schema.schema_violations(small)
    assert found
    assert any(words in sentence for sentence in found), found
    assert schema.violations(small) == found


def rename_base(document: dict[str, Any], variant: str, base: str) -> None:
    for row in document["rows"]:
        if row["variant"] == variant:
            row["base"] = base


def scale_median(document: dict[str, Any]) -> None:
    first(document, "ok")["median_ms"] *= 1.001


def scale_quartile(document: dict[str, Any]) -> None:
    first(document, "ok")["q1_ms"] *= 0.999


def shorten_reassigned(document: dict[str, Any]) -> None:
    first(document, "ok")["reassigned"].pop()


def few_samples(document: dict[str, Any]) -> None:
    row = first(document, "ok")
    row.update(samples_ms=[row["median_ms"]] * 4, sm_mhz=[], q1_ms=row["median_ms"], q3_ms=row["median_ms"])


# Each fits the schema and is wrong all the same.
MEANINGLESS = {
    "a median that is not its samples'": (scale_median, "median_ms is"),
    "a quartile that is not its samples'": (scale_quartile, "q1_ms is"),
    "an invalid row with a median and no samples": (of("invalid", samples_ms=[], median_ms=1.0), "without a sample"),
    "an unknown workload": (ok(workload="nowhere"), "workload nowhere is not in workloads"),
    "a workload listed twice": (lambda d: d["workloads"].append(copy.copy(d["workloads"][0])), "listed 2 times"),
    "a median without a quartile": (ok(q3_ms=None), "q3_ms is None with 10 samples"),
    "quartiles of few samples": (few_samples, "quartiles begin at 5"),
    "clocks of other samples": (ok(sm_mhz=[1980.0]), "1 entries in sm_mhz"),
    "iterations of other samples": (ok(solve_iterations=[3, 3]), "2 entries in solve_iterations"),
    "a rate that is not the median's": (ok(gflops=1.0), "gflops is 1,"),
    "a share of the roof that is not the median's": (ok(roof_percent=99.0), "roof_percent is 99,"),
    "a rate without a time": (of("refused", gbs=1.0), "gbs stated without a time"),
    "a row twice": (lambda d: d["rows"].append(copy.deepcopy(d["rows"][0])), "repeats an earlier row"),
    "a base that differs between rows": (ok(base="elsewhere"), "differ from an earlier row"),
    "a base that is the variant": (lambda d: rename_base(d, "g1_plain", "g1_plain"), "does not end"),
    "a ring of bases": (lambda d: rename_base(d, "g1_plain", "g4_update"), "does not end"),
    "cuda rows without a GPU": (set_context(gpu=None), "context.gpu is null"),
    "reassignments that do not start with N": (ok(reassigned=[5] * sample_record.ITERATIONS), "not with all points"),
    "reassignments that miss an iteration": (shorten_reassigned, "entries in reassigned"),
}


@pytest.mark.parametrize("name", MEANINGLESS)
def test_check_finds(name: str, small: dict[str, Any]) -> None:
    breaking, words = MEANINGLESS[name]
    breaking(small)
    assert schema.schema_violations(small) == []
    found = schema.violations(small)
    assert any(words in sentence for sentence in found), found


def test_quartiles_are_linear_interpolations(small: dict[str, Any]) -> None:
    row = first(small, "ok")
    row.update(samples_ms=[5.0, 4.0, 1.0, 2.0, 3.0, 6.0], q1_ms=2.25, median_ms=3.5, q3_ms=4.75, sm_mhz=[])
    row.update(gflops=row["flop"] / 3.5e6, gbs=row["bytes"] / 3.5e6, roof_percent=100 * row["floor_ms"] / 3.5)
    assert schema.violations(small) == []
    row["q1_ms"] = 2.0  # the median of the lower half, another convention
    assert "q1_ms is 2" in schema.violations(small)[0]


def test_a_base_outside_the_record_is_allowed(small: dict[str, Any]) -> None:
    small["rows"] = [row for row in small["rows"] if row["variant"] != "g1_plain"]
    assert schema.violations(small) == []


def test_nan_is_not_json(tmp_path: Path) -> None:
    path = tmp_path / "nan.json"
    path.write_text('{"schema_version": NaN}')
    with pytest.raises(RecordError, match="NaN is not JSON"):
        schema.load(path)


def run_check(*paths: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "plots.check", *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_program_says_which_record_is_broken(small: dict[str, Any], tmp_path: Path) -> None:
    sound = sample_record.write(small, tmp_path / "sound.json")
    assert run_check(sound).returncode == 0
    scale_median(small)
    broken = sample_record.write(small, tmp_path / "broken.json")
    result = run_check(sound, broken)
    assert result.returncode == 1
    assert f"{broken}: rows[0] (g1_plain" in result.stderr
    assert "Traceback" not in result.stderr
    missing = run_check(tmp_path / "none.json")
    assert missing.returncode == 2
    assert missing.stderr.strip() == (
        f"error: {tmp_path / 'none.json'}: cannot be read (No such file or directory): name a file that is there."
    )


# ------------------------------------------------------------------------------------------------------- older records


def test_a_record_of_the_first_version_is_read_as_it_is() -> None:
    assert run_check(VERSION_1).returncode == 0
    record = schema.load(VERSION_1)
    assert {row.status for row in record.rows} == {"ok", "refused", "invalid", "failed"}
    assert all(row.key is None and row.roof_percent is None and row.sm_mhz == [] for row in record.rows)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda d: d["rows"][1].pop("samples_ms"), "rows[1] (g1_plain, grapes_k100, cuda, iteration, ok): lacks sam"),
        (lambda d: d.pop("context"), "no context"),
        (lambda d: d.pop("rows"), "no rows"),
    ],
)
def test_a_broken_record_of_the_first_version_is_told(
    spoil: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    document = json.loads(VERSION_1.read_text())
    spoil(document)
    result = run_check(sample_record.write(document, tmp_path / "old.json"))
    assert result.returncode == 1 and words in result.stderr, result.stderr


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"best": {"points": 3, "block": 128}}, "is no point of its axes"),
        ({"standard": {"block": 128}}, "is no point of its axes"),
        ({"workload": "nobody"}, "workload nobody is not in workloads"),
        ({"decided_by": "luck"}, '"luck" is not one of'),
        ({"reason": ""}, "reason"),
        ({"axes": []}, "axes"),
    ],
)
def test_check_finds_what_is_wrong_with_a_sweep(fields: dict[str, Any], says: str) -> None:
    document = sample_record.tuned()
    assert schema.violations(document) == []
    document["tuning"][0] |= fields
    (found,) = schema.violations(document)
    assert says in found


def committed_records() -> list[Path]:
    found = (
        path for kind in ("record", "seeds", "shapes", "tune") for path in (ROOT / "results").glob(f"*/{kind}*.json")
    )
    return sorted(path for path in found if path.parent.name not in ("local", "latest"))


@pytest.mark.parametrize("path", committed_records(), ids=lambda path: str(path.relative_to(ROOT)))
def test_committed_records_are_sound(path: Path) -> None:
    assert schema.violations(json.loads(path.read_text())) == []
