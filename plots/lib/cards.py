"""The cards of the variants, read from their files: so that a page can say what a rung is for without a build.

`ladder list --json` says the same of what was built; a test holds the two against each other.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from plots.lib.inputs import read_text
from plots.lib.record import ROOT, RecordError, made, tree_order

FOLDER = ROOT / "variants"
LINK = re.compile(r"^// link: *(.+)$", re.MULTILINE)
NO_LIBRARY = ("openmp",)  # linked, and the variant's own code all the same
CARD = re.compile(r"^LADDER_VARIANT\(", re.MULTILINE)
FIELD = re.compile(r'\.(\w+)\s*=\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Card:
    id: str
    base: str = ""
    idea: str = ""
    expect: str = ""
    shows: str = ""
    counter: str = ""
    source: str = ""
    links: tuple[str, ...] = ()  # libraries that its file links


def of_text(text: str, path: Path) -> Card:
    begin = CARD.search(text)
    if not begin:
        raise RecordError(f"{path}: has no card: LADDER_VARIANT(.id = ..., ...) must begin a line.")
    # Neighbouring literals are one, as the compiler has it.
    found = {
        name: "".join(ast.literal_eval(f'"{piece}"') for piece in PIECE.findall(literals))
        for name, literals in FIELD.findall(text, begin.start())
    }
    links = tuple(name for line in LINK.findall(text) for name in line.split() if name not in NO_LIBRARY)
    return made(Card, found | {"links": links})


def of_python(text: str, path: Path) -> Card:
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            entries = {
                key.value: value.value
                for key, value in zip(node.value.keys, node.value.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
            }
            if "id" in entries:
                return made(Card, entries)
    raise RecordError(f"{path}: has no card: a dict with an id must be assigned at its top.")


def files(folder: Path = FOLDER) -> list[Path]:
    """The variants' files, chapter by chapter; shared parts (folder common) have no card."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".cu", ".cpp", ".py") and "common" not in path.relative_to(folder).parts
    ]


@lru_cache
def chapters(folder: Path = FOLDER) -> dict[str, str]:
    """The chapter of each variant in words: "tiny problems" of 7a_tiny_problems."""
    return {path.stem: re.sub(r"^\d+[a-z]?_", "", path.parent.name).replace("_", " ") for path in files(folder)}


@lru_cache
def load(folder: Path = FOLDER) -> dict[str, Card]:
    """All cards, each after its base."""
    found: dict[str, Card] = {}
    for path in files(folder):
        text = read_text(path)
        card = of_python(text, path) if path.suffix == ".py" else of_text(text, path)
        found[card.id] = card
    return {name: found[name] for name in tree_order({card.id: card.base for card in found.values()})}


@lru_cache
def paths(folder: Path = FOLDER) -> dict[str, Path]:
    """The file of each variant: listed once, as pages ask for it once per row of a record."""
    return {path.stem: path for path in files(folder)}


def path_of(variant: str, folder: Path = FOLDER) -> Path:
    """The file of a variant."""
    return paths(folder)[variant]
