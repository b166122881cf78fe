"""Checks records, profiles and tuned values: `python -m plots.check FILE...`; and, with --pages, that no committed page
or picture is older than the records that it is made from.

Prints a sentence per violation and exits 1 if there is any, 2 where a file cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from plots.lib import made
from plots.lib.inputs import BAD_USAGE, InputError, in_sentences, one_line, say
from plots.lib.record import LOCAL, ROOT, read_json
from plots.lib.schema import violations

MOST_BYTES = 6_000_000  # of a record that is committed


def size_violations(path: Path) -> list[str]:
    """Of a record in results/DEVICE/; one of a run here may have any size."""
    folder, size = path.resolve().parent, path.stat().st_size
    if size <= MOST_BYTES or folder.parent != ROOT / "results" or folder.name in LOCAL:
        return []
    return [
        f"the file has {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}: keep fewer samples (`ladder join "
        "--samples 100`), or make two records of it."
    ]


def check_records(paths: Sequence[Path]) -> int:
    """The exit status: 0 where all are sound, 1 where one is not, 2 where one cannot be read."""
    status = 0
    for path in paths:
        try:
            found = violations(read_json(path)) + size_violations(path)
        except InputError as error:
            say(error)
            status = BAD_USAGE
            continue
        for sentence in found:
            print(one_line(f"{path}: {sentence}"), file=sys.stderr)
        print(f"{path}: " + (f"{len(found)} violations" if found else "sound"))
        status = status or int(bool(found))
    return status


def check_pages() -> bool:
    """Whether all are up to date."""
    current = True
    for page in made.all_made():
        why = made.older(page)
        print(f"{page.path}: {why}: {page.remedy}" if why else f"{page.path}: up to date", flush=True)
        current = current and not why
    return current


@in_sentences
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checks records and profiles: their form, and what it cannot say.")
    parser.add_argument("records", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--pages", action="store_true", help="check the committed pages and pictures, too")
    arguments = parser.parse_args(argv)
    if not arguments.records and not arguments.pages:
        parser.error("nothing to check: name a FILE, or ask for --pages")
    status = check_records(arguments.records)
    current = check_pages() if arguments.pages else True
    return status or int(not current)


if __name__ == "__main__":
    sys.exit(main())
