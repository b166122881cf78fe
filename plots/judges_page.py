"""The table in docs/trust.md: session medians judged inside the variant's process, and apart from it.

`python -m plots.judges_page [RESULT] --update docs/trust.md` writes it between its marks, `--check` exits 1 where the
page says anything else. RESULT is what tests/tools/judge_experiment.py measured.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from scipy import stats

from plots.lib.inputs import InputError, in_sentences, read_json, read_text
from plots.lib.pages import between_marks, keep_page, page_arguments
from plots.lib.record import ROOT

USUAL = ROOT / "results" / "nvidia-h200" / "tools" / "judges.json"
BEGIN, END = "<!-- judges: begin -->", "<!-- judges: end -->"
WITHIN = 1.01  # the ratio that is asked for


@dataclass(frozen=True)
class Pair:
    """One scope of a variant on a workload: session medians in ms, round by round."""

    workload: str
    variant: str
    scope: str
    inside: list[float]
    apart: list[float]

    @property
    def logs(self) -> np.ndarray:
        return np.log(np.array(self.apart) / np.array(self.inside))

    @property
    def ratio(self) -> float:
        return math.exp(float(self.logs.mean()))

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, by Student's t of the rounds' ratios."""
        half = stats.t.ppf(0.975, len(self.logs) - 1) * float(self.logs.std(ddof=1)) / math.sqrt(len(self.logs))
        return self.ratio * math.exp(-half), self.ratio * math.exp(half)

    @property
    def differs(self) -> bool:
        """By more than is asked for, and its 95 % interval says so."""
        low, high = self.interval
        return not 1 / WITHIN <= self.ratio <= WITHIN and not low <= 1 <= high

    @property
    def more_us(self) -> float:
        return 1e3 * (median(self.apart) - median(self.inside))


def pairs_of(run: dict[str, Any], name: str) -> list[Pair]:
    try:
        pairs = [Pair(**one) for one in run["medians"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"{name}: is no result of tests/tools/judge_experiment.py ({error}); name one") from error
    for pair in pairs:
        if len(pair.inside) != len(pair.apart) or len(pair.inside) < 2:
            counts = f"{len(pair.inside)} and {len(pair.apart)}"
            raise InputError(
                f"{name}: {pair.variant}, {pair.scope} has {counts} sessions; both must have as many, from 2"
            )
    return pairs


def signed(us: float) -> str:
    return f"{us:+.0f}" if abs(us) >= 10 else f"{us:+.1f}"


def table(result: dict[str, Any], name: str) -> str:
    """A line for each scope of a workload."""
    runs = result.get("runs", [])
    if not isinstance(runs, list) or not runs:
        raise InputError(f"{name}: is no result of tests/tools/judge_experiment.py (it has no runs); name one")
    pairs = [pair for run in runs for pair in pairs_of(run, name)]
    gpus = " and ".join(dict.fromkeys(run["context"]["gpu"]["name"].removeprefix("NVIDIA ") for run in runs))
    rounds = ", ".join(
        f"{run['rounds']} on {' and '.join(dict.fromkeys(part[0] for part in run['parts']))} "
        f"(`{run['context']['git_sha'][:10]}`)"
        for run in runs
    )
    lines = [
        f"Rounds with a session of each judge, in a drawn order, on one {gpus}:",
        f"{rounds}.",
        "A ratio is the geometric mean of the rounds' medians, apart over inside; of several variants the lowest and",
        "the highest.",
        "",
        "| workload | scope | variants | shortest median, ms | ratio | difference, µs | differs by more than 1 % |",
        "| --- | --- | ---: | ---: | --- | --- | --- |",
    ]
    for workload, scope in dict.fromkeys((pair.workload, pair.scope) for pair in pairs):
        group = [pair for pair in pairs if (pair.workload, pair.scope) == (workload, scope)]
        ratios, more = [pair.ratio for pair in group], [pair.more_us for pair in group]
        beyond = [f"`{pair.variant}`" for pair in group if pair.differs]
        lines.append(
            f"| {workload} | {scope} | {len(group)} | {min(median(pair.inside) for pair in group):.4g} "
            f"| {min(ratios):.3f} to {max(ratios):.3f} | {signed(min(more))} to {signed(max(more))} "
            f"| {', '.join(beyond) or 'none'} |"
        )
    return "\n".join(lines) + "\n"


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(
        argv, "the table of docs/trust.md", "results/nvidia-h200/tools/judges.json", generated=False
    )
    path = (arguments.records or [USUAL])[0]
    made = table(read_json(path, "tests/tools/judge_experiment.py"), str(path))
    text = between_marks(read_text(arguments.page), BEGIN, END, made, str(arguments.page))
    return keep_page(arguments, text, "python -m plots.judges_page")


if __name__ == "__main__":
    sys.exit(main())
