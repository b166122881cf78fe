"""Markdown pages that a command writes from records (--update) or compares with them (--check)."""

from __future__ import annotations

import argparse
import html
import sys
from collections.abc import Sequence
from pathlib import Path

from plots.lib import outputs
from plots.lib.inputs import read_text
from plots.lib.record import ROOT, RecordError


def cell_text(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "\\|")


def between_marks(text: str, begin: str, end: str, made: str, name: str) -> str:
    """The text with `made` in place of what stands between two marks. Throws RecordError where they are not there."""
    first, last = text.find(begin), text.find(end)
    if first < 0 or last < first or text.count(begin) != 1 or text.count(end) != 1:
        raise RecordError(f"{name}: must hold the lines {begin} and {end} once, in this order.")
    return f"{text[: first + len(begin)]}\n{made}{text[last:]}"


def page_arguments(argv: list[str] | None, page: str, default: str, generated: bool = True) -> argparse.Namespace:
    """Of a program that writes a page from records, or checks it: records, update, check; page is the one of both.
    `generated`: the whole page is; throws InputError where it would replace another file."""
    parser = argparse.ArgumentParser(description=f"Writes {page} from records.")
    parser.add_argument("records", nargs="*", type=Path, metavar="RECORD", help=f"default: {default}")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--update", type=Path, metavar="FILE", help="write the page, and what it shows beside it")
    what.add_argument("--check", type=Path, metavar="FILE", help="exit 1 where the file says anything else")
    arguments = parser.parse_args(argv)
    arguments.page = arguments.update or arguments.check
    if arguments.update and generated:
        outputs.need_place(arguments.page, outputs.PAGE, arguments.records)
    return arguments


def records_or(arguments: argparse.Namespace, usual: Sequence[Path], plan: Path) -> list[Path]:
    """The records that are named, or the usual ones; `plan`: what makes the first of those where it is not there."""
    if not arguments.records and not usual[0].is_file():
        shown = usual[0].relative_to(ROOT)
        made = f"python results/make_record.py {plan.relative_to(ROOT)} --out {shown}"
        raise RecordError(f"{shown} is not there yet: {made} makes it.")
    return arguments.records or list(usual)


def keep_page(arguments: argparse.Namespace, text: str, program: str) -> int:
    """Writes a page; or says, with exit status 1, that it is not what the records say."""
    path: Path = arguments.page
    if arguments.update:
        outputs.write(path, text)
    elif read_text(path) != text:
        command = " ".join([program, *map(str, arguments.records), "--update", str(path)])
        print(f"{path}: is not what the records say; run `{command}`.", file=sys.stderr)
        return 1
    return 0
