"""What pages say in `code`: which of it names a file or an identifier of the tree, and whether that exists."""

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (".cu", ".cuh", ".hpp", ".h", ".cpp", ".py", ".json", ".toml", ".cmake", ".txt", ".sh")
# Pages and records, and the tests of pages, which have names that do not exist.
NOT_SOURCES = ("results/", "docs/", "tests/unit/test_glossary.py", "tests/unit/test_certificate.py")
FILE = re.compile(r"[\w.+-]+(?:/[\w.+-]+)*\.(?:cuh?|hpp|h|cpp|py|md|json|toml|png|cmake)")


@cache
def files() -> tuple[str, ...]:
    """Paths of the tree, from its root: what is committed or may be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode == 0:
        return tuple(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())
    return tuple(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file())


@cache
def words() -> frozenset[str]:
    """Every identifier of the sources, and the stem of every file."""
    found = {Path(name).stem for name in files()}
    for name in files():
        if name.endswith(SOURCES) and not name.startswith(NOT_SOURCES):
            found.update(re.findall(r"[A-Za-z_]\w+", (ROOT / name).read_text(errors="ignore")))
    return frozenset(found)


def exists(word: str) -> bool:
    """Is it an identifier of the sources; if it looks like a variant's id, is there such a variant?"""
    if re.fullmatch(r"[a-z]\d+[a-z]?_\w+", word):
        return any(name.startswith("variants/") and Path(name).stem == word for name in files())
    return word in words()


def in_code(text: str) -> list[str]:
    """What stands between backticks outside of blocks."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ {4}.*$", "", text, flags=re.M))


def is_file(name: str) -> bool:
    return any(path == name or path.endswith(f"/{name}") for path in files())


def missing(text: str) -> list[str]:
    """Files and identifiers in `code` that the tree does not have. A path may leave out its first folders.

    Words before a * and files named X or NAME are placeholders, two letters or fewer are symbols.
    """
    lost = []
    for code in in_code(text):
        code = code.removeprefix("../")
        if Path(code).stem in ("X", "NAME"):
            continue
        if FILE.fullmatch(code):
            lost += [] if is_file(code) else [code]
        elif re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+/?", code):
            folder = code.strip("/") + "/"
            lost += [] if any(f"/{path}".find(f"/{folder}") >= 0 for path in files()) else [code]
        else:
            lost += [word for word in re.findall(r"\b[A-Za-z_]\w{2,}\b(?![*])", code) if not exists(word)]
    return lost
