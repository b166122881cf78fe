"""How every program here writes: a file replaces one of its own kind and nothing else, whole and at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from plots.lib.inputs import InputError, opened, read_json

HEAD = 1 << 14  # bytes, in which a file says what it is


@dataclass(frozen=True)
class Kind:
    """Files of one kind, and how one is told from others."""

    name: str
    own: Callable[[Path], bool]


def head_of(path: Path) -> bytes:
    with opened(path) as stream:
        return stream.read(HEAD)


def json_with(*keys: str) -> Callable[[Path], bool]:
    def own(path: Path) -> bool:
        try:
            return set(keys) <= set(read_json(path))
        except InputError:
            return False

    return own


def is_picture(path: Path) -> bool:
    return re.match(rb"(?s)\x89PNG.*(tEXt|iTXt|zTXt)Origin\0", head_of(path)) is not None  # plots.lib.origin


def is_drawing(path: Path) -> bool:
    head = head_of(path)
    return b"<svg" in head and b"Matplotlib" in head


RECORD = Kind("record", json_with("schema_version", "rows"))
PICTURE = Kind("picture by this project", is_picture)
ANY_PICTURE = Kind("PNG", lambda path: head_of(path).startswith(b"\x89PNG"))
DRAWING = Kind("SVG by Matplotlib", is_drawing)
HTML = Kind("page by this project", lambda path: b"K-means Ladder" in head_of(path))
PAGE = Kind("page that was generated", lambda path: b"<!-- Generated: " in head_of(path))
ARCHIVE = Kind("archive of arrays", lambda path: head_of(path).startswith(b"PK\x03\x04"))


def target_of(path: Path) -> Path:
    """What is written where `path` is named: itself, or what a link leads to, so that a link stays one."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise InputError(f"{path}: is a link that leads back to itself: name a file.")
    if target.is_dir():
        raise InputError(f"{path}: is a folder: name a file in it.")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is a device or a pipe, which no file may replace: name a file.")
    return target


def need_folder(folder: Path) -> None:
    """Refuses a folder in which no file can be made. One that is not there yet is made later."""
    there = folder.absolute()
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise InputError(f"{folder}: {there} is no folder: name another one.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: nothing can be written in {there}: name another folder, or get the right to.")


def need_place(path: Path, kind: Kind, inputs: Iterable[Path] = (), force: bool | None = None) -> Path:
    """The file to write for `path`. Refuses it where something else than a file of this kind would be lost, or one of
    `inputs`, which the same command reads. `force`: another file may go; None: there is no such option."""
    target = target_of(path)
    need_folder(target.parent)
    if not target.exists():
        return target
    for name in inputs:
        if name.exists() and name.samefile(target):
            raise InputError(f"{path}: is {name}, which this command reads: name another file.")
    if not force and target.stat().st_size > 0 and not kind.own(target):
        other = "name another file, or add --force" if force is not None else "name another file, or move it away"
        raise InputError(f"{path}: is a file, and no {kind.name}, which would be lost: {other}.")
    return target


class Output:
    """Files that appear under their names together, and only when every one of them is complete."""

    def __init__(self) -> None:
        self._renames: list[tuple[Path, Path]] = []

    def write(self, path: Path, fill: Callable[[IO[bytes]], object]) -> Path:
        """Lets `fill` write what will be `path`; returns the temporary file that holds it until then."""
        target = target_of(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        with temporary.open("wb") as stream:
            self._renames.append((temporary, target))
            fill(stream)
        return temporary

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for temporary, path in self._renames:
            if kind is None:
                temporary.replace(path)
            else:
                temporary.unlink(missing_ok=True)


def write(path: Path, content: bytes | str, kind: Kind | None = None) -> None:
    """Replaces a file at once; with a kind only where nothing else would be lost."""
    if kind:
        need_place(path, kind)
    with Output() as output:
        output.write(path, lambda stream: stream.write(content.encode() if isinstance(content, str) else content))
