#!/usr/bin/env python3
"""Draws what records hold: `draw.py RECORD [RECORD...] --out DIR [--only FIGURE]`.

Every page is a PNG and an SVG; DIR/index.html lists them. Several records are drawn each into a folder of its own: they
may be of different machines, and times of different machines do not belong in one figure.
"""

from __future__ import annotations

import argparse
import html
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import check
import convergence
import ladder
import photo
import scopes
import sweep
from record import SCOPES, Record, RecordError

Drawer = Callable[[Record, Path], tuple[list[tuple[str, str]], list[str]]]


@dataclass
class Section:
    """The pages of one record in the index."""

    title: str
    folder: str  # relative to the index
    pages: list[tuple[str, str]]
    left_out: list[str]


def figures(chosen_scopes: list[str] | None) -> dict[str, Drawer]:
    return {
        "ladder": lambda record, folder: ladder.draw(record, folder, chosen_scopes),
        "scopes": scopes.draw,
        "convergence": convergence.draw,
        "sweep": lambda record, folder: sweep.draw(record, folder, chosen_scopes),
        "photo": photo.draw,
    }


def folder_names(paths: list[Path]) -> list[str]:
    """A folder per record; none is needed for a single one."""
    if len(paths) == 1:
        return ["."]
    names: list[str] = []
    for path in paths:
        parts = path.resolve().with_suffix("").parts
        name = next(
            (c for n in range(1, len(parts)) if (c := "_".join(parts[-n:])) not in names), f"record_{len(names)}"
        )
        names.append(name)
    return names


def draw_record(record: Record, out: Path, folder: str, only: list[str], drawers: dict[str, Drawer]) -> Section:
    target = out / folder
    target.mkdir(parents=True, exist_ok=True)
    section = Section(f"{record.path.name}: {record.footer()}", folder, [], [])
    if record.skipped:
        section.left_out.append(
            f"{record.skipped} rows that repeat a variant, workload, device and scope with other axes or another cache "
            "state: the first of each is drawn"
        )
    for name in only or list(drawers):
        pages, left_out = drawers[name](record, target)
        section.pages += pages
        section.left_out += left_out
    return section


def write_index(sections: list[Section], path: Path) -> None:
    lines = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8"><title>K-means Ladder</title>',
        "<style>body{font:18px sans-serif;margin:2em auto;max-width:1200px}img{width:100%}</style>",
        "<h1>K-means Ladder</h1>",
    ]
    for section in sections:
        lines.append(f"<h2>{html.escape(section.title)}</h2>")
        for stem, title in section.pages:
            link = html.escape(stem if section.folder == "." else f"{section.folder}/{stem}", quote=True)
            lines.append(f'<h3 id="{link}">{html.escape(title)} (<a href="{link}.svg">SVG</a>)</h3>')
            lines.append(f'<a href="{link}.png"><img src="{link}.png" alt="{html.escape(title, quote=True)}"></a>')
        if section.left_out:
            lines.append("<h3>Left out</h3><ul>")
            lines += [f"<li>{html.escape(reason)}</li>" for reason in section.left_out]
            lines.append("</ul>")
    lines.append("</html>")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    names = list(figures(None))
    parser = argparse.ArgumentParser(description="Draws what records hold, as PNG and SVG.")
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the pictures go")
    parser.add_argument("--only", action="append", choices=names, help="this figure (may be repeated); default: all")
    parser.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        help="scopes of ladder and sweep (may be repeated); default: iteration, and for the ladder each scope in which "
        "a variant says that its change shows",
    )
    arguments = parser.parse_args(argv)
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        records = [check.load(path) for path in arguments.records]
        sections = [
            draw_record(record, arguments.out, folder, arguments.only or [], figures(arguments.scope))
            for record, folder in zip(records, folder_names(arguments.records), strict=True)
        ]
        write_index(sections, arguments.out / "index.html")
    except RecordError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or arguments.out}: {error.strerror}.", file=sys.stderr)
        return 1
    for section in sections:
        for stem, title in section.pages:
            print(f"drew {arguments.out / section.folder / stem}.png and .svg: {title}")
        for reason in section.left_out:
            print(f"left out {reason}")
    print(f"look at {arguments.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
