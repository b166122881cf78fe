"""What a picture was drawn from, kept in the PNG itself: the records that were read, with a hash of each, and the
command. Later it tells whether the picture is older than its records."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from plots.lib.inputs import InputError, opened

RESULTS = Path(__file__).resolve().parents[2] / "results"
KEY = "Origin"  # of the text in the PNG
read: dict[str, str] = {}  # of this process: the records of the repository, by their path, with their hashes


def hash_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def note(path: Path, text: bytes) -> None:
    """A file was read. Only records and profiles of a device, results/DEVICE/*.json, are what a picture shows."""
    path = path.resolve()
    if path.is_relative_to(RESULTS) and path.parent != RESULTS:
        read[path.relative_to(RESULTS.parent).as_posix()] = hash_of(text)


def plain(words: list[str]) -> list[str]:
    """A command without where it writes to."""
    kept, skip = [], False
    for word in words:
        if not skip and word not in ("--out", "--update"):
            kept.append(word)
        skip = word in ("--out", "--update")
    return kept


def metadata() -> dict[str, Any]:
    """For a PNG that is drawn now."""
    command = plain([f"plots.{Path(sys.argv[0]).stem}", *sys.argv[1:]])
    return {"Software": None, KEY: json.dumps({"command": command, "records": dict(sorted(read.items()))})}


def behind(picture: Path) -> dict[str, Any]:
    """What a PNG says of its origin; empty where it says nothing."""
    try:
        with opened(picture) as file, Image.open(file) as image:
            found = json.loads(getattr(image, "text", {}).get(KEY, "{}"))
            known = isinstance(found["command"], list) and isinstance(found["records"], dict) if found else True
    except Exception:  # what its decoders raise of a broken file is of many types
        known = False
    if not known:
        raise InputError(f"{picture}: is no picture that says what it was drawn from: draw it anew.")
    return found


def older(picture: Path, command: list[str], root: Path = RESULTS.parent) -> str:
    """Why a picture is not what its command would draw now; empty where it is, as far as it can be told."""
    origin = behind(picture)
    if not origin:
        return "does not say what it was drawn from"
    if sorted(origin["command"]) != sorted(plain(command)):  # shells put files in an order of their own
        return f"was drawn by `{' '.join(origin['command'])}`"
    for name, known in origin["records"].items():
        path = root / name
        if not path.is_file() or hash_of(path.read_bytes()) != known:
            return f"is older than {name}"
    return ""
