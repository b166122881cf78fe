"""Reads points from csv, text, idx, npy, npz, libsvm and picture files into one float matrix.

Every reader gives an N x D array (libsvm: a SciPy CSR matrix), all values finite. Anything else is a `ConvertError`:
one sentence that names the file, and the row and column where there is one. Rows and columns are counted from 1, in the
file's own lines, as an editor shows them.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the checkout
from plots.lib.arrays import read_npy
from plots.lib.inputs import InputError, one_line, opened

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FORMATS = ("csv", "text", "idx", "npy", "npz", "libsvm", "image")
DTYPES = {"f32": np.dtype("<f4"), "f64": np.dtype("<f8")}

LARGEST_COLUMN = 2**31 - 1  # of a sparse row: columns are kept as int32

# The third byte of an idx file is its element type; elements are big-endian. Source: the MNIST page's "IDX format".
IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


class ConvertError(InputError):
    """A sentence: what was wrong, where, and what to do."""


@dataclass(frozen=True)
class Options:
    """How to read a file. The "read" objects of workloads.json and the options of `convert` are these fields."""

    format: str | None = None  # None: told from the file's first bytes
    delimiter: str | None = None  # csv: None is told from the first line
    header: bool = False  # csv, text: the first line names the columns
    drop_columns: Sequence[str | int] = ()  # names (with a header) or positions from 1
    dtype: str = "f32"
    rows: int | None = None  # only the first so many
    every: int = 1  # only every so many-th row; of a picture, every so many-th pixel in both directions
    array: str | None = None  # npz: which array


@dataclass(frozen=True)
class Points:
    """Points (N x D; dense, or CSR), and height and width where they are the pixels of a picture."""

    matrix: np.ndarray | csr_matrix
    image: tuple[int, int] | None = None
    by_columns: bool = False  # the file holds them in Fortran order; the matrix is in C order all the same


def read_points(path: Path, options: Options) -> Points:
    """Reads one file. Raises ConvertError where it cannot be read whole."""
    kind, by_columns = options.format or detect_format(path), False
    if kind == "image":
        return _read_image(path, options)
    if kind == "libsvm":
        matrix = _read_libsvm(path, options)
    elif kind in ("csv", "text"):
        matrix = _read_text(path, replace(options, format=kind))
    else:
        read_binary = {"idx": _read_idx, "npy": _read_npy, "npz": _read_npz}[kind]
        whole = read_binary(path, options)
        by_columns = whole.flags.f_contiguous and not whole.flags.c_contiguous
        matrix = _to_float(path, _drop_columns(path, whole[: options.rows], options), options)
    if 0 in matrix.shape:
        raise ConvertError(f"{path}: holds no points (shape {matrix.shape[0]} x {matrix.shape[1]})")
    return Points(matrix[:: options.every], by_columns=by_columns)


def detect_format(path: Path) -> str:
    """Tells the format from a file's first bytes. Raises ConvertError where they match none."""
    try:
        with _open_binary(path) as stream:
            head = stream.read(1 << 16)
    except (OSError, EOFError, zlib.error) as error:
        raise ConvertError(f"{path}: cannot be read ({error}): is it whole?") from None
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PK\x03\x04"):
        return "npz"
    if head.startswith((b"\xff\xd8\xff", b"\x89PNG")):
        return "image"
    if len(head) > 4 and head[:2] == b"\0\0" and head[2] in IDX_TYPES:
        return "idx"
    if b"\0" in head:
        raise ConvertError(f"{path}: is neither text nor a known binary format; name it with --format")
    first = head.lstrip().split(b"\n", 1)[0].split()
    if len(first) > 1 and re.fullmatch(rb"\d+:\S+", first[1]):
        return "libsvm"
    return "csv" if re.search(rb"[,;\t]", head.split(b"\n", 1)[0]) else "text"


@contextmanager
def _open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file, through gzip where its first bytes say so."""
    with opened(path) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if packed:
            with gzip.open(raw) as stream:
                yield stream
        else:
            yield raw


def most_bytes() -> int:
    """Of points in memory: half of what this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def need_room(path: Path, shape: Sequence[int], size: int) -> None:
    """Refuses a matrix of elements of `size` bytes that would not fit, before any memory is asked for."""
    if (total := math.prod(shape) * size) > most_bytes():
        raise ConvertError(
            f"{path}: {' x '.join(map(str, shape))} values take {total / 1e9:.1f} GB, and at most "
            f"{most_bytes() / 1e9:.1f} GB, half of the memory here, are used: take fewer rows or columns"
        )


def _read_bytes(path: Path) -> bytes:
    try:
        with _open_binary(path) as stream:
            content = stream.read(most_bytes() + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConvertError(f"{path}: cannot be read ({error}): is it whole?") from None
    need_room(path, [len(content)], 1)
    return content


# ------------------------------------------------------------------------------------------------------ csv and text


def _read_text(path: Path, options: Options) -> np.ndarray:
    try:
        text = _read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConvertError(f"{path}: is not text (byte {error.start} is no UTF-8); name its format") from None
    lines = text.splitlines()
    delimiter = options.delimiter or (_guess_delimiter(lines) if options.format == "csv" else None)
    try:
        names = _split(lines[0], delimiter) if options.header and lines else []
    except csv.Error as error:
        raise ConvertError(f"{path}: its first line names no columns ({error})") from None
    first_row = next((line for line in lines[1 if options.header else 0 :] if line.strip()), None)
    if first_row is None:
        raise ConvertError(f"{path}: holds no points")
    try:
        width = len(_split(first_row, delimiter))
    except csv.Error as error:
        raise ConvertError(f"{path}: its first row has no columns ({error})") from None
    if names and len(names) != width:
        raise ConvertError(f"{path}: the header names {len(names)} columns, the first row has {width}")
    dropped = _dropped_positions(path, options, width, names)
    try:
        matrix = np.loadtxt(
            lines[1 if options.header else 0 :],
            dtype=DTYPES[options.dtype],
            comments=None,
            delimiter=delimiter,
            quotechar='"',
            # A column left out may hold anything, but it must be there: a row too short or too long is an error.
            converters={position: lambda _: 0.0 for position in dropped} or None,
            ndmin=2,
            max_rows=min(options.rows, len(lines)) if options.rows else None,
        )
    except (ValueError, TypeError) as error:
        why = _find_bad_field(lines, delimiter, options, width, dropped) or one_line(str(error))
        raise ConvertError(f"{path}: {why}") from None
    if not np.isfinite(matrix).all():
        raise ConvertError(f"{path}: {_find_bad_field(lines, delimiter, options, width, dropped)}")
    return np.ascontiguousarray(np.delete(matrix, dropped, axis=1))


def _guess_delimiter(lines: list[str]) -> str:
    return max(";\t,", key=lambda candidate: lines[0].count(candidate)) if lines else ","


def _split(line: str, delimiter: str | None) -> list[str]:
    return line.split() if delimiter is None else next(csv.reader([line], delimiter=delimiter), [])


def _find_bad_field(
    lines: list[str], delimiter: str | None, options: Options, width: int, dropped: list[int]
) -> str | None:
    """Says which row and column numpy could not take: numpy itself counts without header and blank lines."""
    largest = float(np.finfo(DTYPES[options.dtype]).max)
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (options.header and number == 1):
            continue
        try:
            fields = _split(line, delimiter)
        except csv.Error as error:
            return f"row {number} cannot be taken apart ({error})"
        if len(fields) != width:
            return f"row {number} has {len(fields)} columns where the first has {width}"
        for column, field in enumerate(fields):
            if column in dropped:
                continue
            try:
                value = float(field)
            except ValueError:
                advice = f"leave the column out with --drop-columns {column + 1}"
                if number == 1:
                    advice += ", or say --header if the line names the columns"
                return f"row {number}, column {column + 1} holds '{field}', which is no number; {advice}"
            if not abs(value) <= largest:
                return f"row {number}, column {column + 1} holds {field}, which is no finite {options.dtype}"
    return None


def is_count(text: str) -> bool:
    """Whether it is a whole number from 1, in plain digits."""
    return re.fullmatch(r"0*[1-9][0-9]{0,17}", text) is not None


def _dropped_positions(path: Path, options: Options, width: int, names: list[str]) -> list[int]:
    """Columns to leave out, counted from 0, from their names or their positions from 1."""
    positions = set()
    for wanted in options.drop_columns:
        if wanted in names:
            positions.add(names.index(str(wanted)))
        elif is_count(str(wanted)) and int(wanted) <= width:
            positions.add(int(wanted) - 1)
        else:
            known = f"names {', '.join(names)}, or " if names else ""
            raise ConvertError(f"{path}: has no column '{wanted}' to leave out; it has {known}positions 1 to {width}")
    return sorted(positions)


# ------------------------------------------------------------------------------------------------------------- binary


def _read_idx(path: Path, options: Options) -> np.ndarray:
    data = _read_bytes(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES or data[3] == 0:
        raise ConvertError(f"{path}: is no idx file: its first four bytes are {data[:4].hex(' ') or 'missing'}")
    kind, rank = np.dtype(IDX_TYPES[data[2]]), data[3]
    begin = 4 + 4 * rank
    if len(data) < begin:
        raise ConvertError(f"{path}: its header promises {rank} sizes, the file ends after {len(data)} bytes")
    shape = [int(size) for size in np.frombuffer(data[4:begin], dtype=">u4")]
    expected = begin + math.prod(shape) * kind.itemsize
    if len(data) != expected:
        raise ConvertError(f"{path}: its header promises {expected} bytes, the file has {len(data)}")
    return np.frombuffer(data, dtype=kind, offset=begin).reshape(shape[0], math.prod(shape[1:]))


def _read_npy(path: Path, options: Options) -> np.ndarray:
    return _as_rows(path, "the array", read_npy(path))


def _read_npz(path: Path, options: Options) -> np.ndarray:
    try:
        with opened(path) as stream, zipfile.ZipFile(stream) as archive:
            shapes = {
                entry.removesuffix(".npy"): _header_of(archive, entry)
                for entry in archive.namelist()
                if entry.endswith(".npy")
            }
            inventory = ", ".join(f"{name} {shape}" for name, (shape, _) in shapes.items()) or "nothing"
            matrices = [name for name, (shape, _) in shapes.items() if len(shape) >= 2]
            name = options.array or ("X" if "X" in matrices else matrices[0] if len(matrices) == 1 else None)
            if name not in shapes:
                raise ConvertError(f"{path}: which array holds the points? It has {inventory}; name one with --array")
            shape, kind = shapes[name]
            need_room(path, shape, max(kind.itemsize, DTYPES[options.dtype].itemsize))
            with archive.open(f"{name}.npy") as member:
                array = np.lib.format.read_array(member, allow_pickle=False)
    except InputError:
        raise
    except Exception as error:  # a broken archive raises zipfile, zlib, struct, OS and value errors
        raise ConvertError(f"{path}: is no .npz file of plain arrays ({one_line(str(error))})") from None
    return _as_rows(path, f"array {name}", array)


def _header_of(archive: zipfile.ZipFile, entry: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and element type of an array, without its elements."""
    with archive.open(entry) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read(member)
    return shape, kind


def _as_rows(path: Path, what: str, array: np.ndarray) -> np.ndarray:
    if array.ndim < 2 or array.dtype.kind not in "fiub":
        raise ConvertError(f"{path}: {what} has shape {array.shape} and type {array.dtype}: not rows of numbers")
    if array.size == 0:
        raise ConvertError(f"{path}: {what} holds no points (shape {array.shape})")
    return array.reshape(array.shape[0], -1)


def _drop_columns(path: Path, matrix: np.ndarray, options: Options) -> np.ndarray:
    return np.delete(matrix, _dropped_positions(path, options, matrix.shape[1], []), axis=1)


def _to_float(path: Path, matrix: np.ndarray, options: Options) -> np.ndarray:
    need_room(path, matrix.shape, DTYPES[options.dtype].itemsize)
    with np.errstate(over="ignore"):  # an overflow becomes an infinity, reported below with its place
        result = np.ascontiguousarray(matrix, dtype=DTYPES[options.dtype])
    finite = np.isfinite(result)
    if not finite.all():
        row, column = np.unravel_index(np.argmin(finite), finite.shape)
        found = matrix[row, column]
        raise ConvertError(
            f"{path}: row {row + 1}, column {column + 1} holds {found}, which is no finite {options.dtype}"
        )
    return result


# ------------------------------------------------------------------------------------------------- libsvm and pictures


def _read_libsvm(path: Path, options: Options) -> csr_matrix:
    """Reads libsvm text, its labels left out, to a CSR matrix with ascending columns and no stored zeros."""
    if options.drop_columns:
        raise ConvertError(f"{path}: columns of a libsvm file cannot be left out; its labels always are")
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError:
        raise ConvertError(f"{path}: scikit-learn reads libsvm files and is not installed") from None
    data = _read_bytes(path)
    try:
        with _open_binary(path) as stream:
            matrix, _ = load_svmlight_file(stream, dtype=DTYPES[options.dtype], zero_based="auto")
    except (ValueError, OverflowError, TypeError, IndexError) as error:
        raise ConvertError(f"{path}: {_find_bad_entry(data) or one_line(str(error))}") from None
    if not np.isfinite(matrix.data).all():
        raise ConvertError(f"{path}: {_find_bad_entry(data) or 'holds a value that is no finite number'}")
    matrix = matrix[: options.rows]
    matrix.eliminate_zeros()
    return matrix


def _find_bad_entry(data: bytes) -> str | None:
    """Says which row and entry of libsvm text is no ascending `column:value` in range."""
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        previous = -1
        for entry in line.split("#", 1)[0].split()[1:]:
            match = re.fullmatch(r"(\d+):([^:]+)", entry)
            try:
                finite = bool(match) and math.isfinite(float(match[2]))
            except ValueError:
                finite = False
            if not match or not finite:
                return f"row {number} holds '{entry}' where column:value with a finite value belongs"
            if int(match[1]) <= previous:
                return f"row {number}, column {match[1]} comes after column {previous}: columns must ascend"
            if int(match[1]) > LARGEST_COLUMN:
                return f"row {number} has column {match[1]}: columns are at most {LARGEST_COLUMN}"
            previous = int(match[1])
    return None


def _read_image(path: Path, options: Options) -> Points:
    """Reads a picture: one row of red, green and blue (0 .. 255) per pixel, from the top left, line by line."""
    try:
        from PIL import Image
    except ImportError:
        raise ConvertError(f"{path}: Pillow reads pictures and is not installed") from None
    try:
        with opened(path) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(stream) as picture:
                pixels: np.ndarray = np.asarray(picture.convert("RGB"))
    except InputError:
        raise
    except Exception as error:  # its decoders raise OS, value, struct and zlib errors, and its own of sizes
        raise ConvertError(f"{path}: is no picture that Pillow can read ({one_line(str(error))})") from None
    if options.rows is not None or options.drop_columns:
        raise ConvertError(f"{path}: rows and columns of a picture cannot be left out; use --every to make it smaller")
    pixels = pixels[:: options.every, :: options.every]
    height, width, channels = pixels.shape
    return Points(pixels.reshape(height * width, channels).astype(DTYPES[options.dtype]), (height, width))
