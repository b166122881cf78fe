"""Which committed pages and pictures there are, by which commands they are made, and which are out of date.

The one list of them is the block of commands under "How these pages are made" in docs/results.md: a command with
`--update PAGE` makes a page and the pictures that it shows; one with `--out FOLDER` makes a picture, which the lines
`cp FOLDER/NAME.png PICTURE` after it put in its place.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from plots.lib import origin
from plots.lib.inputs import read_text
from plots.lib.record import ROOT, RecordError

LIST = ROOT / "docs" / "results.md"
HEADING = "## How these pages are made"
PYTHON = ".venv/bin/python"


@dataclass(frozen=True)
class Made:
    path: str  # of the page (or file of claims) or picture, from the root of the project
    command: str  # as a reader runs it there
    words: tuple[str, ...]  # of the command: the module, its records by name, its options
    copied: str = ""  # of a picture: the command that puts it in its place

    @property
    def is_page(self) -> bool:
        return self.path.endswith((".md", ".json", ".html"))

    @property
    def remedy(self) -> str:
        return f"run `{self.command}`" + (f", then `{self.copied}`" if self.copied else "")


def with_files(words: list[str], root: Path) -> list[str]:
    """As a shell has it: a glob of files is the files that there are."""
    found: list[str] = []
    for word in words:
        files = sorted(path.relative_to(root).as_posix() for path in root.glob(word)) if "*" in word else []
        found += files or [word]
    return found


def shown_by(page: str, root: Path) -> list[str]:
    """The pictures that a page shows, and further pages of one, NAME_2.png beside NAME.png."""
    names = re.findall(r"!\[[^]]*\]\(([^)]+\.png)\)", read_text(root / page))
    found: list[Path] = []
    for picture in ((root / page).parent.joinpath(name).resolve() for name in names):
        found += [picture, *sorted(picture.parent.glob(f"{picture.stem}_[0-9].png"))]
    return [picture.relative_to(root.resolve()).as_posix() for picture in found]


def all_made(listed: Path = LIST, root: Path = ROOT) -> list[Made]:
    """Pages in the order of the list, each before its pictures. Throws RecordError where there is no list."""
    lines = read_text(listed).partition(f"{HEADING}\n")[2].partition("\n## ")[0].splitlines()
    commands = [line.strip() for line in lines if line.startswith("    ")]
    pages: list[Made] = []
    pictures: dict[str, Made] = {}
    last, words = "", [""]
    for line in commands:
        if line.startswith("$P -m "):
            words = shlex.split(line.removeprefix("$P -m "), comments=True)
            last = line.partition("    #")[0].replace("$P", PYTHON, 1)
            if "--update" in words:
                pages.append(Made(words[words.index("--update") + 1], last, tuple(with_files(words, root))))
        elif line.startswith("cp "):
            _, made, path = shlex.split(line)
            if "--out" not in words or Path(made).parent != Path(words[words.index("--out") + 1]):
                raise RecordError(f"{listed}: `{line}` copies what the command above it does not make.")
            pictures[path] = Made(path, last, tuple(with_files(words, root)), line)
    if not pages:
        raise RecordError(f"{listed}: has no commands under '{HEADING}', which are the list of the pages.")
    found: list[Made] = []
    for page in pages:
        own = [name for name in shown_by(page.path, root) if name not in pictures]
        found += [page, *(Made(name, page.command, page.words) for name in own)]
    return [*found, *pictures.values()]


def older(made: Made, root: Path = ROOT) -> str:
    """Why it is not what its command makes of the records; empty where it is."""
    if not (root / made.path).is_file():
        return "is not there"
    if not made.is_page:
        return origin.older(root / made.path, list(made.words), root)
    words = ["--check" if word == "--update" else word for word in made.words[1:]]
    said = io.StringIO()
    # A page quotes its records as the command has them: from the root.
    with contextlib.redirect_stderr(said), contextlib.chdir(root):
        status = importlib.import_module(made.words[0]).main(words)
    if status == 0:
        return ""
    sentence = said.getvalue().strip()
    return "is older than its record" if "; run `" in sentence else sentence
