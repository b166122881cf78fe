"""Malformed files, through the program: one sentence that names the file, status 2, and nothing written.

tests/unit/readers_test.cpp tries thousands of them in the readers themselves.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import sample_record
from conftest import ROOT, Ladder
from fake_build import FakeBuild, one_sentence

CORPUS = ROOT / "tests" / "fuzz" / "corpus"
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def fake(ladder: Ladder, tmp_path: Path) -> FakeBuild:
    return FakeBuild(tmp_path)


def sentence(done: subprocess.CompletedProcess[str], file: Path, *words: str) -> None:
    one_sentence(done, f"ladder: {file}", *words)
    assert "exception" not in done.stderr


def without(*path: str | int) -> Callable[[dict[str, Any]], str]:
    def change(record: dict[str, Any]) -> str:
        where: Any = record
        for step in path[:-1]:
            where = where[step]
        del where[path[-1]]
        return json.dumps(record)

    return change


def holding(value: str, *path: str | int) -> Callable[[dict[str, Any]], str]:
    def change(record: dict[str, Any]) -> str:
        where: Any = record
        for step in path[:-1]:
            where = where[step]
        where[path[-1]] = "the odd value"
        return json.dumps(record).replace('"the odd value"', value)

    return change


# What is done to a sound record, and what the sentence must say.
BROKEN: dict[str, tuple[Callable[[dict[str, Any]], str], str]] = {
    "a row without status": (without("rows", 0, "status"), "field rows[0].status: it is missing"),
    "a row without key": (without("rows", 0, "key"), "field rows[0].key: it is missing"),
    "a workload without name": (without("workloads", 0, "name"), "field workloads[0].name: it is missing"),
    "no host": (without("context", "host"), "field context.host: it is missing"),
    "a row that is a list": (holding("[]", "rows", 0), "field rows[0]: a list, where an object is needed"),
    "a row that is deep": (holding(DEEP, "rows", 0), "more than 16 deep"),
    "a base that is a list": (holding("[1]", "rows", 0, "base"), "field rows[0].base"),
    "gpus beyond an int": (holding("4294967297", "rows", 0, "gpus"), "field rows[0].gpus"),
    "a median beyond doubles": (holding("1e999", "rows", 0, "median_ms"), "beyond the range of doubles"),
    "a workload that is not listed": (holding('"x"', "rows", 0, "workload"), "field rows[0].workload"),
    "text that is no UTF-8": (lambda record: json.dumps(record).replace("cpu", "cp\udcff", 1), "not JSON"),
    "half of it": (lambda record: json.dumps(record)[:5000], "not JSON, or was cut off"),
    "nothing": (lambda record: "", "is empty"),
    "another version": (holding("3", "schema_version"), "is not a record of schema version 1 or 2"),
}


def broken_record(folder: Path, name: str) -> Path:
    file = folder / "broken.json"
    file.write_text(BROKEN[name][0](sample_record.small()), errors="surrogateescape")
    return file


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_named_with_its_field(ladder: Ladder, tmp_path: Path, name: str) -> None:
    file, words = broken_record(tmp_path, name), BROKEN[name][1]
    sound = sample_record.write(sample_record.small(), tmp_path / "sound.json")
    out = tmp_path / "out.json"
    for command in (
        ["show", file],
        ["compare", sound, file],
        ["join", out, sound, file],
        ["choose", "--make", file, "--table", out],
    ):
        sentence(ladder(*command), file, words)
    assert not out.exists()


@pytest.mark.parametrize(
    "name", ["a row without status", "a workload without name", "a row that is deep", "half of it"]
)
def test_a_broken_record_is_not_resumed(fake: FakeBuild, tmp_path: Path, name: str) -> None:
    file = broken_record(tmp_path, name)
    before = file.read_bytes()
    force = ["--force"] if name in ("a row that is deep", "half of it") else []
    words = ["run", "--workloads", "grapes", "--out", file, "--resume", *force]
    sentence(fake(*words), file, BROKEN[name][1])
    assert file.read_bytes() == before and not fake.asked("run")


@pytest.mark.parametrize("kind", ["tuned", "choice", "profile", "workloads"])
def test_other_files_are_named_as_well(fake: FakeBuild, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"{kind}_broken.json"
    commands = {
        "tuned": ["run", "--workloads", "grapes", "--tuned", file, "--out", tmp_path / "out.json"],
        "choice": ["choose", "1000,3,5", "--table", file],
        "profile": ["profile", "--show", file],
        "workloads": ["list"],
    }
    sound = json.loads((CORPUS / kind / "small.json").read_text())
    version = {"profile": "profile_version", "workloads": ""}.get(kind, "schema_version")
    items = {"profile": "profiles", "workloads": "workloads"}.get(kind, "entries")
    first = next(iter(sound[items][0]))
    changes = [
        (lambda d: d.pop(items), f"field {items}: it is missing"),
        (lambda d: d[items][0].pop(first), f"field {items}[0]."),
        (lambda d: d[items].append(7), f"field {items}[{len(sound[items])}]: 7, where an object is needed"),
        *([(lambda d: d.update({version: "x"}), "version 1")] if version else []),
    ]
    texts = [(DEEP, "more than 16 deep"), ("{", "not JSON, or was cut off"), ("", "is empty")]
    for change, words in changes:
        document = copy.deepcopy(sound)
        change(document)
        texts.append((json.dumps(document), words))
    for text, words in texts:
        file.write_text(text)
        sentence(fake(*commands[kind], LADDER_WORKLOADS_FILE=str(file)) if kind == "workloads"
                 else fake(*commands[kind]), file, words)  # fmt: skip


@pytest.mark.parametrize("what", ["pipe", "folder", "device"])
def test_what_is_no_file_is_refused_at_once(ladder: Ladder, tmp_path: Path, what: str) -> None:
    file = Path("/dev/zero") if what == "device" else tmp_path / what
    if what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    for command in (
        ["show", file],
        ["compare", file],
        ["profile", "--show", file],
        ["choose", "9,9,9", "--table", file],
    ):
        sentence(ladder(*command), file, "is a folder, a device or a pipe")


def test_a_card_that_is_malformed_breaks_its_variant_alone(fake: FakeBuild) -> None:
    fake.add("x2", idea=["a", "list"])
    done = fake("list")
    assert done.returncode == 0, done.stderr
    assert "field idea: a list, where text is needed: build it again" in done.stdout


def test_the_reader_refuses_what_the_schema_refuses(ladder: Ladder, tmp_path: Path) -> None:
    """One of each kind of field is replaced: the program and Python's validator agree, but for unknown fields."""
    schema = json.loads((ROOT / "harness" / "records" / "record.schema.json").read_text())
    validator = jsonschema_rs.Draft202012Validator(schema)
    sound = json.loads((CORPUS / "record" / "version2.json").read_text())
    row, file = sound["rows"][0], tmp_path / "record.json"
    for number, field in enumerate(sorted(row)):
        value = [None, [], {}, "x", -1, 0.5, True][number % 7]
        document = copy.deepcopy(sound)
        document["rows"][0][field] = value
        if field == "workload" and isinstance(value, str):
            continue  # a name, but none of the workloads: no schema says so
        file.write_text(json.dumps(document))
        accepted = ladder("show", file).returncode == 0
        assert accepted == validator.is_valid(document), (field, value)
