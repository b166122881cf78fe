"""Malformed input of every Python reader: thousands of files that differ from a sound one in a field or in some bytes.

Each is read, or refused by an InputError of one sentence; nothing else is ever raised. The mutations are enumerated, or
drawn from a fixed seed: every run tries the same.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import struct
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import readers
import sample_record
from conftest import FIXTURES
from PIL import Image

from plots import table, timeline
from plots.figures.points import kept_plane
from plots.lib import inputs, plans, schema
from plots.lib.arrays import read_npy
from plots.lib.inputs import InputError
from plots.lib.record import from_document

SECONDS = 40  # of this process, for all of them: several times what they take
DEEP: list[Any] = []
for _ in range(40):
    DEEP = [DEEP]
ODD = (
    None,
    True,
    -1,
    0,
    1e300,
    10**40,
    "",
    "x" * 3000,
    "$\\frac",
    "\x1b[2J",
    "\ud800",
    [],
    [None],
    {},
    {"a": []},
    DEEP,
)
DROP = object()
counts: dict[str, int] = {}
spent: list[float] = []


def refused(read: Callable[[], object], what: str) -> bool:
    """Whether it is refused, in a sentence. Whatever else is raised fails the test, and `what` says where."""
    counts[what.split(":")[0]] = counts.get(what.split(":")[0], 0) + 1
    begin = time.process_time()
    try:
        read()
    except InputError as error:
        assert inputs.one_line(str(error)), what
        return True
    except Exception as error:
        raise AssertionError(f"{what}: raised {type(error).__name__}: {error}") from error
    finally:
        spent.append(time.process_time() - begin)
    return False


def places(
    value: object, path: tuple[Any, ...] = (), shape: tuple[Any, ...] = (), seen: set[Any] | None = None
) -> list:
    """The paths of all values within a document, of entries of a list with equal fields the first alone."""
    seen = set() if seen is None else seen
    found = []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        named = (*shape, key if isinstance(value, dict) else "*")
        if named not in seen:
            seen.add(named)
            found.append((*path, key))
        found += places(inner, (*path, key), named, seen)
    return found


def changed(document: Any, path: tuple[Any, ...], value: object) -> Any:  # noqa: ANN401, any JSON
    """A copy of the document with another value at a place; the rest is shared."""
    if not path:
        return value
    new = copy.copy(document)
    if len(path) == 1 and value is DROP:
        del new[path[0]]
    else:
        new[path[0]] = changed(document[path[0]], path[1:], value)
    return new


def variants_of(document: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401, any JSON
    for path in places(document):
        for value in (DROP, *ODD):
            yield f"{path}: {'left out' if value is DROP else repr(value)[:40]}", changed(document, path, value)


def broken_bytes(content: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Cut short, bytes changed, bytes put in."""
    draw = random.Random(seed)
    for number in range(count):
        at = draw.randrange(len(content))
        kind = number % 3
        if kind == 0:
            new = content[:at]
        elif kind == 1:
            new = content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
        else:
            new = (
                content[:at]
                + draw.choice([b"\0", b"\xff\xfe", b"[" * 3000, b"9" * 400, b"nan", b"\n", b'"', b","])
                + content[at:]
            )
        yield f"{number} of seed {seed}", new


def read_record(content: bytes) -> None:
    """As plots.check does, and of a sound one as the table does."""
    path = Path("record.json")
    document = inputs.json_object(path, content, "`ladder run`")
    found = schema.violations(document)
    if found:
        raise InputError(found[0])
    record = from_document(document, path)
    table.markdown(record, "iteration", "root")
    _ = record.footer()


def few(document: dict[str, Any]) -> dict[str, Any]:
    """With a row of each status alone."""
    rows = {row["status"]: row for row in reversed(document["rows"])}
    return document | {"rows": list(rows.values())}


RECORDS = {
    "today's record": lambda: few(sample_record.small()),
    "older record": lambda: json.loads((FIXTURES / "records" / "version1.json").read_text()),
    "sweep": lambda: few(sample_record.tuned()),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_field_of_a_record(name: str) -> None:
    document = RECORDS[name]()
    assert not refused(lambda: read_record(json.dumps(document).encode()), name)
    bad = [
        refused(lambda new=new: read_record(json.dumps(new).encode()), f"{name}: {what}")
        for what, new in variants_of(document)
    ]
    assert sum(bad) > len(bad) / 2


@pytest.mark.parametrize("name", RECORDS)
def test_bytes_of_a_record(name: str) -> None:
    content = json.dumps(RECORDS[name]()).encode()
    for what, new in broken_bytes(content, 200, 1):
        refused(lambda new=new: read_record(new), f"{name}: {what}")


PLAN = """run = "--min-time 0.1"
[[part]]
workloads = "a*,b"
variants = "*"
options = "--gpus 2 --time-limit 60"
least = {nd = 1e6}
most = {k = 64}
together = 6
batch = 10
seconds = 4
device = "cpu"
"""


def test_a_plan(tmp_path: Path) -> None:
    document = tomllib.loads(PLAN)
    path = tmp_path / "plan.toml"
    assert plans.checked(path, document) == document
    for what, new in variants_of(document):
        refused(lambda new=new: plans.checked(path, new), f"plan: {what}")
    for what, new in broken_bytes(PLAN.encode(), 300, 2):
        path.write_bytes(new)
        refused(lambda: plans.read(path), f"plan: {what}")


def test_a_timeline(tmp_path: Path) -> None:
    event = {"kind": "kernel", "name": "k", "stream": 7, "start_us": 0.5, "us": 2.0, "bytes": 0}
    entry = {
        "variant": "v",
        "workload": "w",
        "scope": "solve",
        "gpu": {"name": "G"},
        "git_sha": "0",
        "us": 9.0,
        "events": [event],
    }
    path = tmp_path / "timeline.json"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        timeline.table(timeline.timelines_of(path))

    document = {"schema_version": 1, "timelines": [entry]}
    assert not refused(lambda: read(json.dumps(document).encode()), "timeline")
    for what, new in variants_of(document):
        refused(lambda new=new: read(json.dumps(new).encode()), f"timeline: {what}")


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def png() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (5, 4)).save(stream, "PNG")
    return stream.getvalue()


POINTS = np.arange(12, dtype=np.float32).reshape(4, 3)
FILES = {
    "p.npy": npy(POINTS),
    "p.npz": npz(X=POINTS, other=np.zeros(3)),
    "p.csv": b"a,b,c\n1,2,3\n4,5,6\n\n7,8,9\n",
    "p.txt": b"1 2 3\n4 5 6\n",
    "p.csv.gz": gzip.compress(b"1,2\n3,4\n", mtime=0),
    "p.idx": b"\0\0\x08\x02" + struct.pack(">II", 2, 3) + bytes(6),
    "p.svm": b"1 1:0.5 3:2\n-1 2:1 # note\n",
    "p.png": png(),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore")
def test_points(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    options = readers.Options(header=name == "p.csv")

    def read(content: bytes) -> None:
        path.write_bytes(content)
        points = readers.read_points(path, options)
        assert 0 not in points.matrix.shape

    assert not refused(lambda: read(FILES[name]), name)
    for what, new in broken_bytes(FILES[name], 150, 3):
        refused(lambda new=new: read(new), f"{name}: {what}")
    if name == "p.npy":
        for what, new in broken_bytes(FILES[name][:100], 300, 4):
            path.write_bytes(new + FILES[name][100:])
            refused(lambda: read_npy(path), f"{name}: {what}")


def test_a_plane_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    path.write_bytes(npz(points=POINTS))
    record = from_document(sample_record.small(), Path("record.json"))
    workload = next(iter(record.workloads.values()))
    assert refused(lambda: kept_plane(path, workload), "plane")
    for what, new in broken_bytes(
        npz(points=POINTS, labels=np.zeros(4), centroids=POINTS, sizes=np.ones(3), by=np.array("v")), 60, 5
    ):
        path.write_bytes(new)
        refused(lambda: kept_plane(path, workload), f"plane: {what}")


def test_so_many_in_so_little_time() -> None:
    """Of what the tests before this one tried."""
    assert sum(counts.values()) >= 2000, counts
    assert sum(spent) < SECONDS, sum(spent)
