"""Keeps what a picture of the plane needs of a dump: `python -m plots.keep_points RECORD --keep WORKLOAD`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from plots.figures import points
from plots.lib import schema
from plots.lib.inputs import in_sentences


@in_sentences
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Keeps what a picture of the plane needs of a dump.")
    parser.add_argument("record", type=Path)
    parser.add_argument("--keep", required=True, metavar="WORKLOAD")
    arguments = parser.parse_args(argv)
    print(points.keep(schema.load(arguments.record), arguments.keep))
    return 0


if __name__ == "__main__":
    sys.exit(main())
