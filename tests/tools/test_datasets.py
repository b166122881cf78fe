"""workloads.json, and datasets/prepare.py: every format, every way a source can be missing or broken. No network."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import struct
from pathlib import Path

import numpy as np
import prepare
import pytest
import shapes

REAL = prepare.HERE.parent.parent / "shared" / "datasets"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, member: str) -> bytes:
        raise OSError("no network in tests")

    monkeypatch.setattr(prepare, "fetch", refuse)


def real(name: str) -> Path:
    for folder in prepare.data_folders():
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"{name} is in no folder of LADDER_DATA and not in {REAL}")


def convert(*arguments: object) -> int:
    return prepare.main(["convert", *map(str, arguments)])


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix in (".npy", ".json", ".tmp")]


# ------------------------------------------------------------------------------------------------------- workloads.json


def entries_of(kind: str) -> dict[str, dict]:
    return {entry["name"]: entry for entry in prepare.load_workloads()[kind]}


def test_workload_names_are_unique_and_every_source_is_used() -> None:
    document = prepare.load_workloads()
    for kind in ("workloads", "sources"):
        assert len(entries_of(kind)) == len(document[kind])
    assert {workload["source"] for workload in document["workloads"]} == set(entries_of("sources"))


@pytest.mark.parametrize("workload", prepare.load_workloads()["workloads"], ids=lambda workload: workload["name"])
def test_workload_is_a_whole_problem(workload: dict) -> None:
    source = entries_of("sources")[workload["source"]]
    needed = {"name", "family", "title", "type", "k", "stop", "seed", "source"}
    assert needed <= set(workload) <= needed | {"metric", "kernel"}
    assert workload["name"] == workload["family"] or workload["name"].startswith(workload["family"] + "_")
    assert workload["type"] in prepare.DTYPES
    assert 0 < workload["k"] < source["n"]
    rule, _, value = workload["stop"].partition(":")
    assert rule in ("exact", "reassigned", "fixed")
    if rule == "reassigned":
        assert 0 < float(value) < 1
    elif rule == "fixed":
        assert int(value) > 0
    else:
        assert not value
    if workload["name"].endswith("_tiny"):
        assert source["n"] * source["d"] * workload["k"] <= 20_000_000


def test_every_family_has_a_tiny_one() -> None:
    families = {workload["family"] for workload in prepare.load_workloads()["workloads"]}
    tiny = {family.removesuffix("_tiny") for family in families if family.endswith("_tiny")}
    # What differs from another family in its size or its parameters alone is tried by that one's.
    same = {"kmcuda_large": "kmcuda", "kmcuda_blobs": "kmcuda", "kmcuda_isotropic": "tiles", "huge": "blobs30"}
    same |= {"points2d_n": "points2d", "points2d_k": "points2d", "grid_flat": "tiles", "grid_decaying": "kmcuda"}
    same |= {"kmcuda_300": "kmcuda", "kmcuda_large_15": "kmcuda", "kmcuda_large_isotropic_15": "tiles"}
    for count in (5, 15):
        same |= {f"kmcuda_{count}": "kmcuda", f"kmcuda_isotropic_{count}": "tiles", f"mnist_k1000_{count}": "mnist"}
        same |= {f"blobs30_00_{count}": "blobs30", f"blobs30_01_{count}": "blobs30"}
    same |= {"mnist_k1000_10": "mnist", "powerlaw": "kmcuda", "zeros": "blobs30", "halves30": "halves"}
    same |= {"kmcuda_features": "kmcuda", "chunks": "kmcuda", "kmcuda_outlier": "outlier", "far_point": "outlier"}
    for beginning in ("map", "hold"):
        same |= {f"{beginning}_flat": "tiles", f"{beginning}_decaying": "kmcuda", f"{beginning}_double": "kmcuda"}
        same |= {f"{beginning}_sparse": "blobs30"}
    assert {same.get(family, family) for family in families if not family.endswith("_tiny")} == tiny


def test_indices_beyond_32_bits_are_few_workloads() -> None:
    sources = entries_of("sources").values()
    beyond = [entry["name"] for entry in sources if entry["n"] * entry["d"] > 2**31]
    assert beyond == ["huge", "chunks_24gb", "chunks_60gb"]


def test_the_smaller_points_of_a_plane_are_the_beginnings_of_the_larger() -> None:
    planes = [e for e in entries_of("sources").values() if e["name"].startswith("points2d")]
    assert len(planes) == 7 and len({(e["seed"], str(e["parameters"]), e["d"]) for e in planes}) == 1


def test_the_grid_has_the_same_shapes_for_both_spectra() -> None:
    sources = entries_of("sources")
    shapes: dict[str, set[tuple[int, int, int]]] = {"grid_flat": set(), "grid_decaying": set()}
    for workload in entries_of("workloads").values():
        if workload["family"] in shapes:
            source = sources[workload["source"]]
            n, d, k = source["n"], source["d"], workload["k"]
            shapes[workload["family"]].add((n, d, k))
            assert workload["name"] == f"{workload['family']}_n{n}_d{d}_k{k}"
            assert workload["stop"] == "fixed:10"  # all that some libraries can be asked for
    assert shapes["grid_flat"] == shapes["grid_decaying"] and len(shapes["grid_flat"]) >= 20
    ends = [(min(values), max(values)) for values in zip(*shapes["grid_flat"], strict=True)]
    assert ends == [(10_000, 1_000_000), (32, 2048), (100, 100_000)]
    grid = [source for name, source in sources.items() if name.startswith("grid_")]
    assert sum(4 * source["n"] * source["d"] for source in grid) < 10e9
    # The smaller are the beginnings of the larger.
    alike = {(s["name"].split("_n")[0], s["d"], s["seed"], str(s["parameters"])) for s in grid}
    assert len(alike) == 6


def test_the_shapes_of_the_map_are_what_their_script_writes() -> None:
    text = shapes.FILE.read_text(encoding="utf-8")
    assert shapes.rewritten(text) == text, "run datasets/shapes.py"
    assert shapes.rewritten(shapes.rewritten(text)) == text


def test_the_map_covers_what_it_should_and_holds_none_of_the_shapes_that_judge_it() -> None:
    sources, found = entries_of("sources"), {"map": [], "hold": []}
    for workload in entries_of("workloads").values():
        beginning = workload["family"].split("_")[0]
        if beginning in found:
            source = sources[workload["source"]]
            found[beginning].append((workload["type"], source["n"], source["d"], workload["k"]))
            assert workload["stop"] == "fixed:10"  # all that some libraries can be asked for
            assert source["n"] * source["d"] * (8 if workload["type"] == "f64" else 4) <= 4e9
            assert source["n"] >= 5 * workload["k"]
    assert len(found["map"]) >= 120 and len(found["hold"]) == 40 and not set(found["map"]) & set(found["hold"])
    ends = [(min(values), max(values)) for values in list(zip(*found["map"], strict=True))[1:]]
    assert ends == [(1000, 10_000_000), (2, 2048), (2, 40_000)]
    assert len({s["seed"] for name, s in sources.items() if name.startswith(("map_", "hold_"))}) == 164


def test_blobs30_are_dense_or_sparse_about_half_each() -> None:
    sources = [entry for name, entry in entries_of("sources").items() if name.startswith("blobs30_")]
    numbered = [entry for entry in sources if entry["name"] != "blobs30_tiny"]
    shares = [entry["parameters"]["zeros"] for entry in numbered]
    assert len(numbered) == len({entry["seed"] for entry in numbered}) == 30
    assert all(0 <= share <= 0.2 or 0.8 <= share <= 0.95 for share in shares)
    assert 12 <= sum(share > 0.5 for share in shares) <= 18


def test_image_sizes_belong_to_their_sources() -> None:
    images = [entry for entry in prepare.load_workloads()["sources"] if "image" in entry]
    assert images
    for entry in images:
        assert entry["image"]["height"] * entry["image"]["width"] == entry["n"]
        assert entry["d"] == 3


# -------------------------------------------------------------------------------------- files that workloads.json names


@pytest.fixture
def small_workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workloads.json of two joined files and a part of them, and the folder they belong in."""
    data = tmp_path / "data"
    data.mkdir()
    contents = {"one.csv": "a;b\n1;2\n3;4\n5;6\n", "two.csv": "a;b\n7;8\n"}
    origin = []
    for name, text in contents.items():
        (data / name).write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        origin.append({"file": f"sub/{name}", "url": [f"https://data.invalid/{name}"], "sha256": digest})
    whole = {"name": "small", "kind": "file", "data": "small.npy", "n": 4, "d": 1, "origin": origin}
    whole["read"] = {"format": "csv", "header": True, "drop_columns": ["b"]}
    part = {
        "name": "part",
        "kind": "file",
        "data": "part.npy",
        "n": 2,
        "d": 1,
        "part_of": "small",
        "read": {"every": 2},
    }
    made = {"name": "made", "kind": "generator"}
    workloads = [{"name": f"{source['name']}_k2", "source": source["name"]} for source in (whole, part, made)]
    file = tmp_path / "workloads.json"
    file.write_text(json.dumps({"workloads": workloads, "sources": [whole, part, made]}))
    monkeypatch.setattr(prepare, "WORKLOADS_FILE", file)
    monkeypatch.setattr(prepare, "HERE", tmp_path / "checkout" / "datasets")
    monkeypatch.setenv("LADDER_DATA", f"{tmp_path / 'nowhere'}:{data}")
    return data


def test_prepare_joins_files_and_takes_every_other_row(small_workloads: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert prepare.main(["--cache", str(cache)]) == 0
    small, part = np.load(cache / "small.npy"), np.load(cache / "part.npy")
    assert small.dtype == np.dtype("<f4") and small.tolist() == [[1], [3], [5], [7]]
    assert part.tolist() == [[1], [5]]
    sidecar = json.loads((cache / "small.json").read_text())
    assert sidecar["shape"] == [4, 1] and sidecar["dtype"] == "f32"
    assert sidecar["sha256"] == hashlib.sha256((cache / "small.npy").read_bytes()).hexdigest()
    assert [source["from"] for source in sidecar["sources"]] == [str(small_workloads)] * 2
    assert json.loads((cache / "missing.json").read_text()) == {}


def test_prepare_makes_again_only_what_changed(
    small_workloads: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    cache = tmp_path / "cache"
    prepare.main(["--cache", str(cache)])
    before = (cache / "part.npy").stat().st_mtime_ns
    (cache / "small.npy").write_bytes(b"damaged")
    capsys.readouterr()
    assert prepare.main(["--cache", str(cache)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"small: made from {small_workloads}", "part: up to date"]
    assert (cache / "part.npy").stat().st_mtime_ns == before
    assert np.load(cache / "small.npy").shape == (4, 1)


def test_prepare_makes_again_what_workloads_json_changed(small_workloads: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    prepare.main(["--cache", str(cache)])
    text = prepare.WORKLOADS_FILE.read_text()
    prepare.WORKLOADS_FILE.write_text(text.replace('"drop_columns": ["b"]', '"drop_columns": ["a"]'))
    prepare.main(["--cache", str(cache)])
    assert np.load(cache / "small.npy").tolist() == [[2], [4], [6], [8]]


def test_missing_data_is_left_out_with_its_reason(small_workloads: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (small_workloads / "two.csv").unlink()
    assert prepare.main(["--cache", str(cache)]) == 0
    reasons = json.loads((cache / "missing.json").read_text())
    assert set(reasons) == {"small", "part"}
    assert "two.csv" in reasons["small"] and "no network in tests" in reasons["small"] and "\n" not in reasons["small"]
    assert leftovers(cache) == ["missing.json"]
    assert prepare.main(["small_*", "--cache", str(cache)]) == 0
    assert prepare.main(["small_k2", "--cache", str(cache)]) == 1


def test_a_reason_goes_when_the_data_comes(small_workloads: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (small_workloads / "two.csv").rename(tmp_path / "two.csv")
    prepare.main(["--cache", str(cache)])
    (cache / "downloads" / "sub").mkdir(parents=True)
    (tmp_path / "two.csv").rename(cache / "downloads" / "sub" / "two.csv")
    assert prepare.main(["small_k2", "--cache", str(cache)]) == 0
    assert set(json.loads((cache / "missing.json").read_text())) == {"part"}


def test_a_file_with_the_wrong_content_is_not_used(small_workloads: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (small_workloads / "two.csv").write_text("a;b\n9;9\n")
    assert prepare.main(["small_k2", "--cache", str(cache)]) == 1
    reason = json.loads((cache / "missing.json").read_text())["small"]
    assert str(small_workloads / "two.csv") in reason and "wrong sha256" in reason


def test_a_download_is_checked_and_kept(small_workloads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, right = tmp_path / "cache", (small_workloads / "two.csv").read_bytes()
    (small_workloads / "two.csv").unlink()
    monkeypatch.setattr(prepare, "fetch", lambda url, member: b"<html>not the file</html>")
    assert prepare.main(["small_k2", "--cache", str(cache)]) == 1
    assert not (cache / "downloads").exists()
    monkeypatch.setattr(prepare, "fetch", lambda url, member: right if member == "two.csv" else b"")
    assert prepare.main(["small_k2", "--cache", str(cache)]) == 0
    assert (cache / "downloads" / "sub" / "two.csv").read_bytes() == right


def test_what_gzip_packs_is_known_by_its_content(
    small_workloads: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    right = (small_workloads / "two.csv").read_bytes()
    digest = hashlib.sha256(right).hexdigest()
    text = prepare.WORKLOADS_FILE.read_text()
    prepare.WORKLOADS_FILE.write_text(text.replace(f'"{digest}"', f'"{digest}", "unpacked": true'))
    for level in (1, 9):  # other bytes, the same content
        (small_workloads / "two.csv").write_bytes(gzip.compress(right, level))
        assert prepare.main(["small_k2", "--cache", str(tmp_path / str(level))]) == 0
        assert np.load(tmp_path / str(level) / "small.npy")[3] == 7
    for wrong in (gzip.compress(right + b"9;9\n"), right, gzip.compress(right)[:-3]):
        (small_workloads / "two.csv").write_bytes(wrong)
        assert prepare.main(["small_k2", "--cache", str(tmp_path / "wrong")]) == 1
        assert "wrong sha256" in capsys.readouterr().err


def test_sparse_rows_are_made_again_only_where_they_changed(
    small_workloads: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    pytest.importorskip("sklearn")
    text = "1 1:2 3:4\n1 2:1\n"
    (small_workloads / "rows").write_text(text)
    origin = {"file": "rows", "url": [], "sha256": hashlib.sha256(text.encode()).hexdigest()}
    source = {"name": "rows", "kind": "file", "data": "rows.npy", "n": 2, "d": 3, "csr": True, "origin": [origin]}
    source["read"] = {"format": "libsvm"}
    document = {"workloads": [{"name": "rows_k2", "source": "rows"}], "sources": [source]}
    prepare.WORKLOADS_FILE.write_text(json.dumps(document))
    cache = tmp_path / "cache"
    for spoil, says in ((None, "made from"), (None, "up to date"), ("rows.column.npy", "made from")):
        if spoil:
            (cache / spoil).write_bytes(b"damaged")
        assert prepare.main(["rows_k2", "--cache", str(cache)]) == 0
        assert says in capsys.readouterr().out
    assert np.load(cache / "rows.column.npy").tolist() == [0, 2, 1]
    (small_workloads / "rows").unlink()
    (cache / "rows.json").unlink()
    assert prepare.main(["rows_k2", "--cache", str(cache)]) == 1
    assert "has no public address in this form" in capsys.readouterr().err


def test_names_that_are_no_workloads(small_workloads: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert prepare.main(["smal", "--cache", str(tmp_path / "cache")]) == 2
    assert "no workload matches 'smal'" in capsys.readouterr().err
    assert prepare.main(["made_k2", "--cache", str(tmp_path / "cache")]) == 0


# All but a large one, of whose files mnist_tiny is made as well.
REAL_SOURCES = [name for name, e in entries_of("sources").items() if e["kind"] == "file" and name != "mnist"]


@pytest.mark.parametrize("name", REAL_SOURCES)
def test_real_sources_come_out_as_workloads_json_says(name: str, tmp_path: Path) -> None:
    sources = entries_of("sources")
    finder = prepare.Finder(tmp_path / "downloads")
    try:
        prepare.prepare(prepare.resolve(sources, name), tmp_path, finder)
    except prepare.MissingError as error:
        pytest.skip(str(error))
    sidecar = json.loads((tmp_path / f"{name}.json").read_text())
    if sources[name].get("csr"):
        assert sidecar["shape"] == [sources[name]["n"], sources[name]["d"]] and len(sidecar["csr"]) == 3
        assert len(np.load(tmp_path / f"{name}.row_begin.npy")) == sources[name]["n"] + 1
        return
    points = np.load(tmp_path / f"{name}.npy")
    assert points.shape == (sources[name]["n"], sources[name]["d"]) and points.flags.c_contiguous
    assert sidecar.get("image") == sources[name].get("image")
    if name == "wine":
        assert points[0].tolist() == np.float32([7.4, 0.7, 0, 1.9, 0.076, 11, 34, 0.9978, 3.51, 0.56, 9.4]).tolist()
        assert points[1599, 0] == 7 and points[1599, -1] == np.float32(8.8)  # the first white wine
    if name == "photo":
        picture = pytest.importorskip("sklearn.datasets").load_sample_image("china.jpg")
        assert (points.reshape(picture.shape) == picture).all()


# ------------------------------------------------------------------------------------------------- files of one's own


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize(
    ("content", "arguments", "expected"),
    [
        ("1,2\n3,4\n", [], [[1, 2], [3, 4]]),
        ("1;2.5\r\n3;-4e1\r\n", [], [[1, 2.5], [3, -40]]),
        ("\ufeffx,y\n1,2\n\n3,4\n", ["--header", "--drop-columns", "x"], [[2], [4]]),
        ("T|1|2\nI|3|4\n", ["--delimiter", "|", "--format", "csv", "--drop-columns", "1"], [[1, 2], [3, 4]]),
        ('"a, b",1,2\n"c",3,4\n', ["--drop-columns", "1,3"], [[1], [3]]),
        ("  1   2\n  3   4\n", ["--rows", "1"], [[1, 2]]),
        ("1\t2\t1\n3\t4\t2\n5\t6\t2\n", ["--drop-columns", "3", "--every", "2"], [[1, 2], [5, 6]]),
        ("7\n8\n", [], [[7], [8]]),
    ],
)
def test_convert_text(content: str, arguments: list[str], expected: list, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(content, newline="")
    for dtype in ("f32", "f64"):
        assert convert(tmp_path / "in", tmp_path / "out.npy", *arguments, "--dtype", dtype) == 0
        points = np.load(tmp_path / "out.npy")
        assert points.dtype == prepare.DTYPES[dtype] and points.tolist() == expected


def test_convert_idx_joins_packed_and_plain_files(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx_bytes(images)))
    (tmp_path / "b").write_bytes(idx_bytes(images[:1] + 200))
    assert convert(tmp_path / "a.gz", tmp_path / "b", tmp_path / "out.npy") == 0
    expected = np.concatenate([images, images[:1] + 200]).reshape(5, 6)
    assert (np.load(tmp_path / "out.npy") == expected).all()


WRITTEN = "out.npy: 3 x 2, f32"


def test_convert_npz_and_npy_to_row_major_floats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(3, 2))
    np.savez(tmp_path / "in.npz", X=columns, y=np.zeros(3))
    np.save(tmp_path / "in.npy", columns)
    for name in ("in.npz", "in.npy"):
        assert convert(tmp_path / name, tmp_path / "out.npy") == 0
        assert np.load(tmp_path / "out.npy").flags.c_contiguous
        assert np.load(tmp_path / "out.npy").tolist() == [[0, 1], [2, 3], [4, 5]]
        said = capsys.readouterr().out.splitlines()
        assert said == [f"{tmp_path / name} is in Fortran order (column by column): written row by row", WRITTEN]
    np.save(tmp_path / "in.npy", np.ascontiguousarray(columns))
    assert convert(tmp_path / "in.npy", tmp_path / "out.npy") == 0
    assert capsys.readouterr().out.splitlines() == [WRITTEN]


def test_convert_libsvm_to_csr_and_to_dense(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    (tmp_path / "in").write_text("+1 2:0.5 4:2 # a comment\n-1\n+1 1:1 3:0 4:-3\n")
    dense = [[0, 0.5, 0, 2], [0, 0, 0, 0], [1, 0, 0, -3]]
    assert convert(tmp_path / "in", tmp_path / "out.npy") == 0
    row_begin, column, value = (np.load(tmp_path / f"out.{part}.npy") for part in ("row_begin", "column", "value"))
    assert (row_begin.dtype, column.dtype, value.dtype) == (np.int64, np.int32, np.float32)
    assert row_begin.tolist() == [0, 2, 2, 4] and column.tolist() == [1, 3, 0, 3] and value.tolist() == [0.5, 2, 1, -3]
    sidecar = json.loads((tmp_path / "out.json").read_text())
    assert sidecar["shape"] == [3, 4] and set(sidecar["csr"]) == {
        f"out.{p}.npy" for p in ("row_begin", "column", "value")
    }
    assert convert(tmp_path / "in", tmp_path / "full.npy", "--dense") == 0
    assert np.load(tmp_path / "full.npy").tolist() == dense


def test_convert_a_picture(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    image.fromarray(pixels).save(tmp_path / "in.png")
    assert convert(tmp_path / "in.png", tmp_path / "out.npy", "--every", "2") == 0
    assert np.load(tmp_path / "out.npy").tolist() == pixels[::2, ::2].reshape(6, 3).tolist()
    assert json.loads((tmp_path / "out.json").read_text())["image"] == {"height": 2, "width": 3}


@pytest.mark.parametrize(
    ("content", "arguments", "complaint"),
    [
        (b"1,2\n3,x\n", [], "row 2, column 2 holds 'x', which is no number"),
        (b"a,b\n1,2\n", [], "row 1, column 1 holds 'a', which is no number; leave the column out"),
        (b"a,b\n1,2\n\n3,\n", ["--header"], "row 4, column 2 holds '', which is no number"),
        (b"1,2\n3\n", [], "row 2 has 1 columns where the first has 2"),
        (b"1,2\n3,4,5\n", ["--drop-columns", "1"], "row 2 has 3 columns where the first has 2"),
        (b"1,2\n3,nan\n", [], "row 2, column 2 holds nan, which is no finite f32"),
        (b"1,2\n3,1e39\n", [], "row 2, column 2 holds 1e39, which is no finite f32"),
        (b"1,2\n", ["--drop-columns", "3"], "no column '3' to leave out; it has positions 1 to 2"),
        (b"a,b\n1,2\n", ["--header", "--drop-columns", "c"], "no column 'c' to leave out; it has names a, b"),
        (b"a,b,c\n1,2\n", ["--header"], "the header names 3 columns, the first row has 2"),
        (b"1,2\n", ["--drop-columns", "1,2"], "holds no points (shape 1 x 0)"),
        (b"a,b\n", ["--header"], "holds no points"),
        (b"", [], "holds no points"),
        (b"1,2\n\xff,4\n", [], "is not text (byte 4 is no UTF-8)"),
        (b"\x01\x02\0\0", [], "neither text nor a known binary format"),
        (gzip.compress(b"1,2\n" * 1000, mtime=0)[:-20], [], "cannot be read"),
        (b"\0\0\x08\x03\0\0", [], "promises 3 sizes, the file ends after 6 bytes"),
        (idx_bytes(np.zeros((3, 4), np.uint8))[:-1], [], "promises 24 bytes, the file has 23"),
        (b"\x93NUMPY\x01\0", [], "is no .npy file of numbers"),
        (b"PK\x03\x04broken", [], "is no .npz file of plain arrays"),
        (b"\x89PNG\r\n\x1a\nbroken", [], "is no picture that Pillow can read"),
        (b"1 1:1 2:2\n1 2:1 x:2\n", [], "row 2 holds 'x:2' where column:value"),
        (b"1 1:1 2:2\n1 3:1 2:2\n", [], "row 2, column 2 comes after column 3: columns must ascend"),
        (b"1 1:1 2:inf\n", [], "row 1 holds '2:inf' where column:value"),
        (b"1 1:1 2:2\n1 2:1 2:2\n", [], "row 2, column 2 comes after column 2: columns must ascend"),
        (b"1 1:1\n1 -2:1\n", [], "row 2 holds '-2:1' where column:value"),
        (b"1 1:1\n1 4294967298:1\n", [], "row 2 has column 4294967298"),
    ],
)
def test_broken_input_is_one_sentence_and_leaves_nothing(
    content: bytes, arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "in").write_bytes(content)
    assert convert(tmp_path / "in", tmp_path / "out.npy", *arguments) == 2
    message = capsys.readouterr().err
    assert complaint in message and str(tmp_path / "in") in message and message.count("\n") == 1
    assert leftovers(tmp_path) == []


def test_a_missing_file_and_a_wrong_output_name(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert convert(tmp_path / "none.csv", tmp_path / "out.npy") == 2
    assert "none.csv" in capsys.readouterr().err
    assert convert(tmp_path / "none.csv", tmp_path / "out.csv") == 2
    assert "ends in .npy" in capsys.readouterr().err


def test_npz_without_an_obvious_array_and_files_of_two_widths(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    np.savez(tmp_path / "in.npz", a=np.ones((2, 3)), b=np.ones((2, 2)), c=np.array(["text"]))
    assert convert(tmp_path / "in.npz", tmp_path / "out.npy") == 2
    assert "name one with --array" in capsys.readouterr().err
    assert convert(tmp_path / "in.npz", tmp_path / "out.npy", "--array", "c") == 2
    assert "not rows of numbers" in capsys.readouterr().err
    assert convert(tmp_path / "in.npz", tmp_path / "three.npy", "--array", "a") == 0
    (tmp_path / "two.csv").write_text("1,2\n")
    assert convert(tmp_path / "three.npy", tmp_path / "two.csv", tmp_path / "out.npy") == 2
    assert not (tmp_path / "out.npy").exists()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    def half(stream: object) -> None:
        stream.write(b"half")
        raise OSError("disk full")

    (tmp_path / "out.npy").write_bytes(b"old")
    with pytest.raises(OSError, match="disk full"), prepare.Output() as output:
        output.write(tmp_path / "out.npy", half)
    assert (tmp_path / "out.npy").read_bytes() == b"old" and os.listdir(tmp_path) == ["out.npy"]


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("skin/Skin_NonSkin.txt", ["--drop-columns", "4"], (245057, 3)),
        ("letter/letter-recognition.data", ["--drop-columns", "1"], (20000, 16)),
        ("cover/10_cover.npz", [], (286048, 10)),
        ("cifar10/CIFAR10_0_resnet18.npz", [], (5263, 512)),
        ("mnist/t10k-images-idx3-ubyte.gz", [], (10000, 784)),
        ("sipu/birch1.txt", ["--dtype", "f64"], (100000, 2)),
        ("sipu/dim032.txt", [], (1024, 32)),
        ("sparse/a9a", ["--dense"], (32561, 123)),
    ],
)
def test_convert_real_files(name: str, arguments: list[str], shape: tuple[int, int], tmp_path: Path) -> None:
    assert convert(real(name), tmp_path / "out.npy", *arguments) == 0
    points = np.load(tmp_path / "out.npy")
    assert points.shape == shape and np.isfinite(points).all()
    if name.startswith("skin"):
        assert points[:2].tolist() == [[74, 85, 123], [73, 84, 122]]
    if name.startswith("letter"):
        assert points[0].tolist() == [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8]
    if name.startswith("sparse"):
        assert (np.flatnonzero(points[0]) + 1).tolist()[:4] == [3, 11, 14, 19] and set(np.unique(points)) == {0, 1}


def test_the_spectrum_of_kmcuda_features_is_that_of_real_features() -> None:
    features = np.load(real("cifar10/CIFAR10_0_resnet18.npz"))["X"].astype(np.float64)
    source = entries_of("sources")["kmcuda_features"]
    variances = np.linalg.eigvalsh(np.cov(features.T))[::-1][: source["d"]]
    ranks, shares = zip(*source["parameters"]["variances"], strict=True)
    told = np.exp(np.interp(np.log(np.arange(1, source["d"] + 1)), np.log(ranks), np.log(shares)))
    cumulated = np.cumsum(told / told.sum()), np.cumsum(variances / variances.sum())
    assert np.abs(cumulated[0] - cumulated[1]).max() < 0.01
    assert 0.80 < cumulated[1][29] < 0.82, "as datasets/README.md says of 30 directions"
