"""What is handed in: one file of CUDA a submission, alone or in a folder."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from grade.assignment import MistakeError

LARGEST = 1 << 16


def plain(text: str) -> str:
    """Without control characters, and valid UTF-8."""
    text = text.encode("utf-8", "replace").decode("utf-8", "replace")
    return "".join(c if c == "\n" or c.isprintable() else "\ufffd" for c in text)


@dataclass
class Submission:
    name: str
    text: str
    fault: str = ""

    @property
    def slug(self) -> str:
        mark = hashlib.sha256(self.name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        return f"{re.sub(r'[^A-Za-z0-9]+', '_', self.name).strip('_')[:40] or 'submission'}_{mark}"

    @property
    def module(self) -> str:
        return "s_" + hashlib.sha256((self.name + "\0" + self.text).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _is_source(path: Path) -> bool:
    return path.suffix in (".cu", ".cuh") and not path.is_symlink() and path.is_file()


def find_submissions(folder: Path) -> list[Submission]:
    if not folder.is_dir():
        raise MistakeError(f"{folder}: is no folder: give one with a submission in each file or folder")
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        fault, file = "", entry
        if entry.is_dir() and not entry.is_symlink():
            inside = sorted(f for f in entry.iterdir() if _is_source(f))
            file = inside[0] if inside else entry
            fault = "" if len(inside) == 1 else f"its folder holds {len(inside)} files of CUDA: hand in one .cu or .cuh"
        elif entry.suffix not in (".cu", ".cuh"):
            continue
        elif not _is_source(entry):
            fault = "it is no file of its own: hand in one .cu or .cuh"
        if not fault and file.stat().st_size > LARGEST:
            fault = f"it is larger than {LARGEST >> 10} KiB"
        text = "" if fault else plain(file.read_text(encoding="utf-8", errors="replace").replace("\t", "    "))
        found.append(Submission(entry.name, text, fault))
    if not found:
        raise MistakeError(f"{folder}: holds no submission: each is a .cu or .cuh file, or a folder with one")
    return found
