"""The record's schema and plots/check.py: a sound record passes, and each way to break one is told apart."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "plots"))

import check
import sample_record
from record import RecordError

HERE = Path(__file__).resolve().parent
SMALL = HERE / "records" / "small.json"


@pytest.fixture
def small() -> dict[str, Any]:
    return json.loads(SMALL.read_text())


def first(document: dict[str, Any], status: str) -> dict[str, Any]:
    return next(row for row in document["rows"] if row["status"] == status)


def test_the_committed_sample_holds_every_status_and_device_and_is_sound(small: dict[str, Any]) -> None:
    assert {row["status"] for row in small["rows"]} == {"ok", "refused", "invalid", "failed", "unstable"}
    assert {row["device"] for row in small["rows"]} == {"cuda", "simt", "cpu"}
    assert check.violations(small) == []


@pytest.mark.parametrize("document", [sample_record.make(), sample_record.make(gpu=False), sample_record.tall()])
def test_generated_records_are_sound(document: dict[str, Any]) -> None:
    assert check.violations(document) == []


def test_an_interrupted_run_without_rows_is_sound(small: dict[str, Any]) -> None:
    small["rows"] = []
    small["context"]["complete"] = False
    assert check.violations(small) == []


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
    "another version": (lambda d: d.update(schema_version=2), "schema_version"),
    "an unknown top-level field": (lambda d: d.update(extra=1), "extra"),
    "no context": (drop("context"), "context"),
    "no git_sha": (drop("context", "git_sha"), "git_sha"),
    "a local time": (set_context(time="2026-11-20 23:00"), "time"),
    "a gpu that is a name": (set_context(gpu="Example GPU X1"), "gpu"),
    "a misspelt stop rule": (lambda d: d["workloads"][0].update(stop="reassigned"), "stop"),
    "a workload without points": (lambda d: d["workloads"][0].update(n=0), "n: 0"),
    "a row without reason": (drop("rows", "reason"), "reason"),
    "an unknown field in a row": (ok(speed=3), "speed"),
    "an unknown device": (ok(device="tpu"), "tpu"),
    "an unknown scope": (ok(scope="loop"), "loop"),
    "an unknown status": (ok(status="slow"), "slow"),
    "ok without samples": (ok(samples_ms=[]), "samples_ms"),
    "ok without median": (ok(median_ms=None), "median_ms"),
    "ok without quartile": (ok(q3_ms=None), "q3_ms"),
    "ok with a reason": (ok(reason="just so"), "reason"),
    "ok with a wrong label": (wrong_label, "labels_wrong"),
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
    found = check.schema_violations(small)
    assert found
    assert any(words in sentence for sentence in found), found
    assert check.violations(small) == found


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


# Each fits the schema and is wrong all the same.
MEANINGLESS = {
    "a median that is not its samples'": (scale_median, "median_ms is"),
    "a quartile that is not its samples'": (scale_quartile, "q1_ms is"),
    "an invalid row with a median and no samples": (of("invalid", samples_ms=[], median_ms=1.0), "without a sample"),
    "an unknown workload": (ok(workload="nowhere"), "workload nowhere is not in workloads"),
    "a workload listed twice": (lambda d: d["workloads"].append(copy.copy(d["workloads"][0])), "listed 2 times"),
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
    assert check.schema_violations(small) == []
    found = check.violations(small)
    assert any(words in sentence for sentence in found), found


def test_quartiles_are_linear_interpolations(small: dict[str, Any]) -> None:
    row = first(small, "ok")
    row.update(samples_ms=[4.0, 1.0, 2.0, 3.0], q1_ms=1.75, median_ms=2.5, q3_ms=3.25)
    assert check.violations(small) == []
    row["q1_ms"] = 1.5  # the median of the lower half, another convention
    assert "q1_ms is 1.5" in check.violations(small)[0]


def test_a_base_outside_the_record_is_allowed(small: dict[str, Any]) -> None:
    small["rows"] = [row for row in small["rows"] if row["variant"] != "g1_plain"]
    assert check.violations(small) == []


def test_nan_is_not_json(tmp_path: Path) -> None:
    path = tmp_path / "nan.json"
    path.write_text('{"schema_version": NaN}')
    with pytest.raises(RecordError, match="NaN is not JSON"):
        check.load(path)


def run_check(*paths: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE.parent / "plots" / "check.py"), *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_program_says_which_record_is_broken(small: dict[str, Any], tmp_path: Path) -> None:
    assert run_check(SMALL).returncode == 0
    scale_median(small)
    broken = sample_record.write(small, tmp_path / "broken.json")
    result = run_check(SMALL, broken)
    assert result.returncode == 1
    assert f"{broken}: rows[0] (g1_plain" in result.stderr
    assert "Traceback" not in result.stderr
    missing = run_check(tmp_path / "none.json")
    assert missing.returncode == 1
    assert missing.stderr.strip() == f"{tmp_path / 'none.json'}: cannot be read (No such file or directory)."
