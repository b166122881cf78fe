"""Checks records, profiles and tuned values: `python -m plots.check FILE...`.

Prints a sentence per violation and exits 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from plots.lib.record import RecordError, read_json
from plots.lib.schema import violations


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks records and profiles: their form, and what it cannot say.")
    parser.add_argument("records", nargs="+", type=Path, metavar="FILE")
    broken = False
    for path in parser.parse_args().records:
        try:
            found = violations(read_json(path))
        except RecordError as error:
            print(error, file=sys.stderr)
            broken = True
            continue
        for sentence in found:
            print(f"{path}: {sentence}", file=sys.stderr)
        print(f"{path}: " + (f"{len(found)} violations" if found else "sound"))
        broken = broken or bool(found)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
