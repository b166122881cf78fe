#!/usr/bin/env python3
"""Turns source files into what the C++ side maps: NAME.npy (N x D, C order, little-endian) and a NAME.json sidecar.

    prepare.py [WORKLOAD-GLOB ...] [--cache DIR]     the workloads that are files (all of them by default)
    prepare.py convert IN [IN ...] OUT.npy [...]     files of your own; several are joined row by row

A source file is looked for in the folders of LADDER_DATA (separated by ':'), in ../shared/datasets beside the checkout,
in an installed Python package where one bundles it, among earlier downloads, and then at its public origin. Its sha256
must match wherever it is from. What is missing leaves its workloads out, with the reason in the cache's missing.json.

Exit status: 0; 1 where a workload asked for by its full name is missing; 2 for bad usage, and for files of your own
that cannot be converted.
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import hashlib
import importlib.util
import io
import json
import os
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

try:
    import numpy as np
    from readers import DTYPES, FORMATS, ConvertError, Options, Points, is_count, need_room, read_points

    from plots.lib.inputs import InputError, in_sentences, read_bytes, read_json
    from plots.lib.outputs import Kind, Output, need_place
except ImportError as error:
    sys.exit(f"prepare.py: the Python package {error.name} is not installed; ./run_all.sh setup installs it into .venv")

HERE = Path(__file__).resolve().parent
WORKLOADS_FILE = HERE / "workloads.json"
MADE_BY = "datasets/prepare.py 1"  # raise the number when the same source would give other bytes
SPARSE = (".row_begin", ".column", ".value")  # between name and .npy
FETCH_SECONDS = 60  # for one file, altogether
FETCH_BYTES = 1 << 30


class MissingError(Exception):
    """A sentence: which data is missing, and where it was looked for."""


# ----------------------------------------------------------------------------------------------------- writing a cache


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_source(content: bytes, origin: dict[str, Any]) -> str:
    """Of the bytes as they are, or, where the origin says so, as gzip unpacks them: packers differ, the content not."""
    if origin.get("unpacked"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError):
            return "unknown: it is no gzip file"
    return hashlib.sha256(content).hexdigest()


def is_converted(path: Path) -> bool:
    """Whether the sidecar beside an array, or the file itself, says that this program made it."""
    whole = path.stem
    for suffix in SPARSE:
        whole = whole.removesuffix(suffix)
    names = {path.with_suffix(".json"), path.with_name(f"{whole}.json")}
    for sidecar in names:
        try:
            if str(read_json(sidecar, "datasets/prepare.py").get("made_by", "")).startswith("datasets/prepare.py"):
                return True
        except InputError:
            continue
    return False


CONVERTED = Kind("array by datasets/prepare.py", is_converted)


def places_of(path: Path) -> list[Path]:
    """All files that may be written for `path`: dense or sparse points, and what is said of them."""
    suffixes = ("", *SPARSE)
    return [*(path.with_name(f"{path.stem}{suffix}.npy") for suffix in suffixes), path.with_suffix(".json")]


def write_json(path: Path, document: dict[str, Any]) -> None:
    with Output() as output:
        output.write(path, lambda stream: stream.write((json.dumps(document, indent=1) + "\n").encode()))


def write_points(path: Path, points: Points, dtype: str, sources: list[dict[str, str]], made_by: str) -> dict[str, Any]:
    """Writes points to `path` (NAME.npy) and NAME.json, and returns what the sidecar says.

    Sparse points become three files, CSR: NAME.row_begin.npy (int64, N + 1), NAME.column.npy (int32), NAME.value.npy.
    """
    matrix = points.matrix
    if isinstance(matrix, np.ndarray):
        arrays = {"": np.ascontiguousarray(matrix)}
    else:
        parts = (matrix.indptr.astype("<i8"), matrix.indices.astype("<i4"), matrix.data.astype(DTYPES[dtype]))
        arrays = dict(zip(SPARSE, parts, strict=True))
    sidecar: dict[str, Any] = {"name": path.stem, "dtype": dtype, "shape": list(matrix.shape)}
    hashes = {}
    with Output() as output:
        for suffix, array in arrays.items():
            file = path.with_name(f"{path.stem}{suffix}.npy")
            hashes[file.name] = sha256_of(output.write(file, lambda stream, array=array: np.save(stream, array)))
        if "" in arrays:
            sidecar["sha256"] = hashes[path.name]
        else:
            sidecar["csr"] = hashes
        if points.image:
            sidecar["image"] = dict(zip(("height", "width"), points.image, strict=True))
        sidecar |= {"sources": sources, "made_by": made_by}
        text = json.dumps(sidecar, indent=1) + "\n"
        output.write(path.with_suffix(".json"), lambda stream: stream.write(text.encode()))
    return sidecar


# ----------------------------------------------------------------------------------------------------- finding sources


@dataclass
class Finder:
    """Finds source files by name and sha256; remembers what it could not find."""

    downloads: Path
    folders: list[Path] = field(default_factory=lambda: data_folders())
    failures: dict[str, str] = field(default_factory=dict)

    def find(self, origin: dict[str, Any]) -> tuple[Path, str]:
        """Returns the file and where it is from: a folder, a package or an address. Raises MissingError."""
        name = origin["file"]
        if name in self.failures:
            raise MissingError(self.failures[name])
        wrong = []
        for path, place in self._candidates(origin):
            found = sha256_of_source(read_bytes(path, FETCH_BYTES), origin)
            if found == origin["sha256"]:
                return path, place
            wrong.append(f"{path} has the wrong sha256 {found}")
        try:
            return self._fetch(origin)
        except MissingError as error:
            self.failures[name] = "; ".join([*wrong, str(error)])
            raise MissingError(self.failures[name]) from None

    def _candidates(self, origin: dict[str, Any]) -> Iterator[tuple[Path, str]]:
        name = Path(origin["file"])
        for folder in [*self.folders, self.downloads]:
            for path in dict.fromkeys((folder / name, folder / name.name)):
                if path.is_file():
                    yield path, str(folder)
        if "package" in origin:
            # Found without an import of the package itself, which can take seconds.
            root, *rest = origin["package"].split(".")
            package = importlib.util.find_spec(root)
            for folder in package.submodule_search_locations or () if package else ():
                path = Path(folder, *rest, name.name)
                if path.is_file():
                    yield path, origin["package"]

    def _fetch(self, origin: dict[str, Any]) -> tuple[Path, str]:
        name = Path(origin["file"]).name
        if "package" in origin:
            package = origin["package"].split(".")[0]
            raise MissingError(f"{name} comes with the Python package {package}, which is not installed")
        problems = []
        for url in origin["url"]:
            try:
                content = fetch(url, name)
            except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
                problems.append(f"{urlsplit(url).hostname}: {error}")
                continue
            found = sha256_of_source(content, origin)
            if found == origin["sha256"]:
                path = self.downloads / origin["file"]
                with Output() as output:
                    output.write(path, lambda stream, content=content: stream.write(content))
                return path, url
            problems.append(f"{url} sent another file: sha256 {found}")
        looked = ", ".join(str(folder) for folder in self.folders) or "no folder"
        why = f"could not be fetched ({'; '.join(dict.fromkeys(problems))})"
        if not origin["url"]:
            why = "has no public address in this form"
        raise MissingError(f"{name} is not in LADDER_DATA or beside the checkout (looked in {looked}) and {why}")


def data_folders() -> list[Path]:
    """The folders to look in: those of LADDER_DATA, then shared/datasets beside the checkout."""
    named = [Path(folder).expanduser() for folder in os.environ.get("LADDER_DATA", "").split(":") if folder]
    return [*named, HERE.parent.parent / "shared" / "datasets"]


def fetch(url: str, member: str) -> bytes:
    """Downloads a file; of a .zip, the member of that name. Raises OSError or ValueError within FETCH_SECONDS or so."""
    deadline = time.monotonic() + FETCH_SECONDS
    content = io.BytesIO()
    with urllib.request.urlopen(url, timeout=15) as answer:
        while block := answer.read1(1 << 16):
            content.write(block)
            if time.monotonic() > deadline or content.tell() > FETCH_BYTES:
                raise TimeoutError(f"gave up after {content.tell()} bytes")
    if not urlsplit(url).path.endswith(".zip"):
        return content.getvalue()
    with zipfile.ZipFile(content) as archive:
        return archive.read(member)


# ------------------------------------------------------------------------------------------------------- workloads.json


def load_workloads() -> dict[str, Any]:
    return read_json(WORKLOADS_FILE, "datasets/shapes.py")


def resolve(sources: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """A file source with what it takes over from the one it is a part of."""
    source = sources[name]
    if "part_of" not in source:
        return source
    whole = resolve(sources, source["part_of"])
    return whole | source | {"read": whole["read"] | source["read"]}


def is_current(path: Path, recipe: str) -> bool:
    try:
        sidecar = read_json(path.with_suffix(".json"), "datasets/prepare.py")
        hashes = sidecar["csr"] if "csr" in sidecar else {path.name: sidecar["sha256"]}
        return sidecar["made_by"] == recipe and all(
            sha256_of(path.with_name(name)) == known for name, known in hashes.items()
        )
    except (InputError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return False  # another program's, or half of one: it is made anew


def prepare(source: dict[str, Any], cache: Path, finder: Finder) -> str:
    """Makes one source's .npy and sidecar. Returns what was done, in words. Raises MissingError or ConvertError."""
    path = cache / source["data"]
    # The recipe is part of the sidecar: a changed entry of workloads.json makes its file anew.
    inputs = json.dumps([source["read"], source["origin"], source["n"], source["d"]], sort_keys=True)
    recipe = f"{MADE_BY}, recipe {hashlib.sha256(inputs.encode()).hexdigest()[:16]}"
    if is_current(path, recipe):
        return "up to date"
    options = dict(source["read"])
    every = options.pop("every", 1) if options["format"] != "image" else 1  # rows are counted after files are joined
    reader = Options(**options)
    parts, sources = [], []
    for origin in source["origin"]:
        file, place = finder.find(origin)
        parts.append(read_points(file, reader))
        sources.append({"file": origin["file"], "sha256": origin["sha256"], "from": place})
    points = join(parts, every)
    if points.matrix.shape != (source["n"], source["d"]):
        raise ConvertError(
            f"{path.name}: came out as {points.matrix.shape}, workloads.json says {source['n']} x {source['d']}"
        )
    write_points(path, points, reader.dtype, sources, recipe)
    return f"made from {', '.join(dict.fromkeys(entry['from'] for entry in sources))}"


def join(parts: list[Points], every: int = 1) -> Points:
    """Puts points below each other and keeps every so many-th row. One part stays what it is, sparse or a picture."""
    if len(parts) == 1:
        return Points(parts[0].matrix[::every], parts[0].image)
    widths = [part.matrix.shape[1] for part in parts]
    if len(set(widths)) > 1 or not all(isinstance(part.matrix, np.ndarray) for part in parts):
        raise ConvertError(f"files to be joined must be dense and of one width; these have {widths} columns")
    return Points(np.ascontiguousarray(np.concatenate([part.matrix for part in parts])[::every]))


def prepare_workloads(globs: Sequence[str], cache: Path) -> int:
    document = load_workloads()
    workloads = {workload["name"]: workload for workload in document["workloads"]}
    sources = {source["name"]: source for source in document["sources"]}
    chosen = {}
    for glob in globs:
        names = fnmatch.filter(workloads, glob)
        if not names:
            print(f"prepare.py: no workload matches '{glob}'; `ladder list` names them", file=sys.stderr)
            return 2
        chosen |= {workloads[name]["source"]: None for name in names}
    required = {workloads[glob]["source"] for glob in globs if glob in workloads}

    missing_file = cache / "missing.json"
    try:
        missing = read_json(missing_file, "datasets/prepare.py")
    except InputError:
        missing = {}
    before = dict(missing)
    finder = Finder(cache / "downloads")
    failed = False
    for name in chosen:
        if sources[name]["kind"] != "file":
            if name in required:
                print(f"{name}: nothing to prepare, ladder generates it")
            continue
        try:
            print(f"{name}: {prepare(resolve(sources, name), cache, finder)}")
            missing.pop(name, None)
        except (MissingError, InputError) as error:
            missing[name] = str(error)
            failed |= name in required
            print(f"{name}: left out: {error}", file=sys.stderr)
    if missing != before or not missing_file.exists():
        write_json(missing_file, missing)
    return 1 if failed else 0


# --------------------------------------------------------------------------------------------------------- the commands


def convert(arguments: argparse.Namespace) -> int:
    if arguments.output.suffix != ".npy":
        raise ConvertError(f"{arguments.output}: is the last name, which is the file to write and ends in .npy")
    options = Options(
        format=arguments.format,
        delimiter={"tab": "\t", "\\t": "\t", "space": None}.get(arguments.delimiter, arguments.delimiter),
        header=arguments.header,
        drop_columns=[column.strip() for column in arguments.drop_columns.split(",") if column.strip()],
        dtype=arguments.dtype,
        rows=arguments.rows,
        every=arguments.every,
        array=arguments.array,
    )
    for place in places_of(arguments.output):
        need_place(place, CONVERTED, arguments.input, arguments.force)
    parts = [read_points(path, options) for path in arguments.input]
    points = join(parts)
    if arguments.dense and not isinstance(points.matrix, np.ndarray):
        need_room(arguments.input[0], points.matrix.shape, DTYPES[options.dtype].itemsize)
        points = Points(points.matrix.toarray())
    sources = [{"file": path.name, "sha256": sha256_of(path), "from": str(path.parent)} for path in arguments.input]
    sidecar = write_points(arguments.output, points, options.dtype, sources, MADE_BY)
    for path, part in zip(arguments.input, parts, strict=True):
        if part.by_columns:
            print(f"{path} is in Fortran order (column by column): written row by row")
    rows, columns = sidecar["shape"]
    files = ", ".join(sidecar["csr"]) if "csr" in sidecar else arguments.output.name
    print(f"{files}: {rows} x {columns}, {options.dtype}")
    return 0


def positive(text: str) -> int:
    if not is_count(text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not '{text}'")
    return int(text)


def delimiter(text: str) -> str:
    if text not in ("tab", "\\t", "space") and (len(text) != 1 or text in '"\r\n' or not text.isprintable()):
        raise argparse.ArgumentTypeError(f"must be one character that stands between columns, or 'tab', not {text!r}")
    return text


def parse_convert(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="prepare.py convert",
        description="Turn files of your own into .npy and a JSON sidecar, for ladder run --data.",
    )
    parser.add_argument("input", nargs="+", type=Path, metavar="IN", help="several are joined row by row")
    parser.add_argument("output", type=Path, metavar="OUT.npy")
    parser.add_argument("--format", choices=FORMATS, help="otherwise told from the file's first bytes")
    parser.add_argument(
        "--delimiter", type=delimiter, help="csv: the character between columns, or 'tab'; otherwise told from line 1"
    )
    parser.add_argument("--header", action="store_true", help="csv, text: the first line names the columns")
    parser.add_argument("--drop-columns", default="", metavar="LIST", help="names or positions (from 1), with commas")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="f32")
    parser.add_argument("--rows", type=positive, metavar="N", help="only the first N rows of each file")
    parser.add_argument(
        "--every", type=positive, default=1, metavar="N", help="only every N-th row (or pixel, both ways)"
    )
    parser.add_argument("--array", metavar="NAME", help="npz: the array that holds the points")
    parser.add_argument("--dense", action="store_true", help="libsvm: one full matrix, not CSR")
    parser.add_argument("--force", action="store_true", help="OUT.npy may replace another program's file")
    return parser.parse_args(argv)


@in_sentences
def main(argv: Sequence[str]) -> int:
    if argv and argv[0] == "convert":
        return convert(parse_convert(argv[1:]))
    parser = argparse.ArgumentParser(
        prog="prepare.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", nargs="*", default=["*"], metavar="WORKLOAD-GLOB")
    parser.add_argument(
        "--cache", type=Path, default=Path(os.environ.get("LADDER_CACHE") or HERE / "cache"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    return prepare_workloads(arguments.workload, arguments.cache)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
