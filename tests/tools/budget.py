"""budget.py BUDGET TAKEN: the CPU seconds of each part of a test run beside its budget. Both files have lines `SECONDS
PART`; lines of TAKEN with one name are added up. A part above its budget is remarked on, and fails nothing: machines
differ. Tests of a file without a line share the line `pytest, other files`."""

from __future__ import annotations

import sys
from pathlib import Path

OTHERS = "pytest, other files"


def seconds_in(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            seconds, part = line.split(maxsplit=1)
            found[part] = found.get(part, 0) + float(seconds)
    return found


def compare(budget: dict[str, float], measured: dict[str, float]) -> list[str]:
    """A line for each part."""
    taken: dict[str, float] = {}
    for part, seconds in measured.items():
        name = part if part in budget else OTHERS
        taken[name] = taken.get(name, 0) + seconds
    lines = []
    for part, seconds in sorted(taken.items(), key=lambda item: -item[1]):
        remark = "" if seconds <= budget[part] else f"  ABOVE ITS BUDGET BY {100 * (seconds / budget[part] - 1):.0f} %"
        lines.append(f"{seconds:8.0f} of {budget[part]:5.0f}  {part}{remark}")
    lines.append(f"{sum(taken.values()):8.0f} of {sum(budget.values()):5.0f}  in all")
    return lines


def main(arguments: list[str]) -> int:
    try:
        budget, taken = (seconds_in(Path(name).read_text()) for name in arguments)
    except (OSError, ValueError) as error:
        print(f"error: {error}; two files with lines `SECONDS PART` are needed", file=sys.stderr)
        return 2
    if OTHERS not in budget:
        print(f"error: {arguments[0]} has no line for '{OTHERS}': add one", file=sys.stderr)
        return 2
    print("\n".join(compare(budget, taken)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
