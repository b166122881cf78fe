"""docs/seeds/first_centroids.md: the first source's example for k-means++, 99 points and one, drawn many times.

`python -m plots.first_centroids_page [RESULT] --update docs/seeds/first_centroids.md` writes it with its picture beside
it; `--check` exits 1 where the file says anything but what the result says. RESULT is what
tests/tools/first_centroids.py found.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy import stats

from plots.lib.inputs import InputError, in_sentences, read_json
from plots.lib.pages import keep_page, page_arguments
from plots.lib.record import ROOT, TIMES, number, percent
from plots.lib.style import COLOURS, SMALL, WIDTH, Page

USUAL = ROOT / "results" / "cpu" / "first_centroids.json"
TOOL = "tests/tools/first_centroids.py"
NEVER = 5  # percent: Lloyd "never" finds the far point from centroids without it where it does so no more often


@dataclass(frozen=True)
class Drawn:
    """What one variant drew from each seed, and where Lloyd ended from there."""

    variant: str
    has_far: np.ndarray  # the far point is among the rows drawn
    alone: np.ndarray  # at the end it is a cluster of its own
    iterations: np.ndarray

    def share(self, of: np.ndarray) -> float:
        return 100 * float(of.mean())

    @property
    def found_without(self) -> float | None:
        """Percent of the draws without the far point from which Lloyd ended with it alone."""
        return None if self.has_far.all() else 100 * float(self.alone[~self.has_far].mean())

    def steps(self, with_far: bool) -> float | None:
        """Iterations on average, from draws with the far point or without it."""
        chosen = self.iterations[self.has_far == with_far]
        return float(chosen.mean()) if len(chosen) else None


@dataclass(frozen=True)
class Example:
    """The points of a workload, and what was drawn of them."""

    name: str
    k: int
    points: np.ndarray
    drawn: list[Drawn]  # with equal chances, then by k-means++

    @property
    def far(self) -> int:
        return int(np.linalg.norm(self.points - self.points.mean(axis=0), axis=1).argmax())

    @property
    def lengths(self) -> tuple[float, float]:
        """How far the far point is from the mean of the others, and they on average."""
        others = np.delete(self.points, self.far, axis=0)
        centre = others.mean(axis=0)
        return float(np.linalg.norm(self.points[self.far] - centre)), float(
            np.linalg.norm(others - centre, axis=1).mean()
        )

    @property
    def times_as_far(self) -> float:
        distance, mean = self.lengths
        return distance / mean

    @property
    def uniform(self) -> float:
        """Percent of draws of K distinct points that have the far one."""
        return 100 * self.k / len(self.points)

    def weighted(self, squared: bool) -> float:
        """Percent, of K = 2: a first point, then one by its distance to that, or by the distance's square."""
        apart = np.linalg.norm(self.points[:, None] - self.points[None], axis=2) ** (2 if squared else 1)
        second = apart[:, self.far] / apart.sum(axis=1)
        second[self.far] = 1  # it was the first
        return 100 * float(second.mean())

    @property
    def formula(self) -> float:
        """Percent, as the source estimates it: 1/n + (n - 1)/n D / (D + n e)."""
        n, (distance, mean) = len(self.points), self.lengths
        return 100 * (1 / n + (n - 1) / n * distance / (distance + n * mean))


def examples_of(result: dict[str, Any], name: str) -> list[Example]:
    try:
        found = []
        for w in result["workloads"]:
            example = Example(w["name"], w["k"], np.array(w["points"], float), [])
            for one in w["drawn"]:
                rows, beside = np.array(one["rows"]), np.array(one["beside_far"])
                found_far = (rows == example.far).any(axis=1)
                example.drawn.append(Drawn(one["variant"], found_far, beside == 1, np.array(one["iterations"])))
                if not len(rows) == len(beside) == len(one["iterations"]) == result["seeds"]:
                    raise ValueError(f"{one['variant']} on {w['name']} has not as many draws as seeds")
            found.append(example)
        return sorted(found, key=lambda e: e.times_as_far)
    except (KeyError, TypeError, ValueError, IndexError, np.exceptions.AxisError) as error:
        raise InputError(f"{name}: is no result of {TOOL} ({error}); name one") from error


def interval(found: np.ndarray) -> tuple[float, float]:
    """95 %, by Clopper and Pearson."""
    low, high = stats.binomtest(int(found.sum()), len(found)).proportion_ci(0.95)
    return 100 * float(low), 100 * float(high)


def shown(value: float | None) -> str:
    return "" if value is None else percent(value) if value not in (0, 100) else f"{value:.0f} %"


def table(examples: Sequence[Example]) -> list[str]:
    lines = [
        "| workload | drawn by | draws with the far point | 95 % interval | exactly | Lloyd ends with it alone | from "
        "draws without it | iterations with it | without it |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for e in examples:
        for at, d in enumerate(e.drawn):
            low, high = interval(d.has_far)
            exact = e.weighted(True) if at else e.uniform
            steps = (d.steps(True), d.steps(False))
            cells = (
                shown(d.share(d.has_far)),
                f"{low:.3g} to {high:.3g} %",
                shown(exact),
                shown(d.share(d.alone)),
                shown(d.found_without),
                *("" if s is None else f"{s:.1f}" for s in steps),
            )
            lines.append(f"| `{e.name}` | `{d.variant}` | " + " | ".join(cells) + " |")
    return lines


def verdicts(examples: Sequence[Example]) -> list[str]:
    """Of each statement of the source, whether it holds on each workload."""
    lines = []
    for e in examples:
        uniform, weighted = e.drawn
        holds = interval(uniform.has_far)[0] <= e.uniform <= interval(uniform.has_far)[1]
        without = np.concatenate([d.alone[~d.has_far] for d in e.drawn])
        share = 100 * float(without.mean()) if len(without) else 0.0
        lines += [
            f"**`{e.name}`**, the far point {number(e.times_as_far)}{TIMES} as far out as the others are on average:",
            "",
            f"- *Drawn at random, the far point is a first centroid in 1 of {round(len(e.points) / e.k)} cases.* "
            f"{'Holds' if holds else 'Does not hold'}: {shown(uniform.share(uniform.has_far))}.",
            f"- *k-means++ draws it almost always, where it is far enough.* The source's formula gives "
            f"{shown(e.formula)}, with weights that are distances, for which {shown(e.weighted(False))} would be "
            f"exact. k-means++ weights by squared distances: exactly {shown(e.weighted(True))}, and here "
            f"{shown(weighted.share(weighted.has_far))}.",
            "- *From centroids among the other points Lloyd never ends with the far point alone.* "
            + (
                f"{'Holds' if share == 0 else 'Nearly holds' if share <= NEVER else 'Does not hold'}: it did so from "
                f"{shown(share)} of {len(without):,} such draws."
            ),
            "",
        ]
    return lines


EXPLANATION = (
    "Why Lloyd may find it: the far point belongs to one of the two centroids, and pulls the mean of that cluster's m "
    "other points towards itself by 1 / (m + 1) of its distance. Where that is further than the points are apart, they "
    "all go over to the other centroid in the next iteration, and the far point is alone. The source's own example, in "
    "which the other points are very close to (0, 0), is of this kind. k-means++ then saves iterations, and the result "
    "is the same. Where the far point is nearer, the result depends on the first centroids, and k-means++ draws the "
    "far point more often than chance, though by no means always."
)


def markdown(examples: Sequence[Example], result: dict[str, Any], command: str, picture: Path) -> str:
    host = result["context"]["host"]
    seeds = f"{result['seeds']:,}"
    return "\n".join(
        [
            "# The first centroids of 99 points and one",
            "",
            f"<!-- Generated: {command}. Do not edit by hand. -->",
            "",
            f"[Source 000](README.md) explains k-means++ by an example: 100 points are to be put into 2 groups; 99 are "
            "near (0, 0), and the last one is (1, 1). Here 99 points have two normal coordinates, and one is "
            f"{' or '.join(f'{number(e.times_as_far)}{TIMES}' for e in examples)} as far from their mean as they are "
            f"on average. From each of {seeds} seeds the variants of "
            "[initialisation](../../variants/initialisation/README.md) draw two of the points, and "
            f"`{result['solver']}` begins there and goes on until no label changes.",
            "",
            f"![Draws that have the far point, and runs that end with it alone]({picture.name})",
            "",
            *table(examples),
            "",
            '"Exactly": the probability of such a draw from these points, of distinct points with equal chances or of '
            "k-means++.",
            "",
            "## What the source says of it",
            "",
            *verdicts(examples),
            EXPLANATION,
            "",
            f"Found on the device `{result['device']}` ({host['cpu']}, {host['cores']} cores), commit "
            f"`{result['context']['git_sha'][:10]}`, by `{TOOL} --seeds {result['seeds']}`; every draw and every label "
            "was validated.",
            "",
        ]
    )


def draw_panel(ax: Axes, example: Example, colours: dict[str, str]) -> None:
    """Two groups of bars: draws with the far point, and runs that end with it alone."""
    width = 0.8 / len(example.drawn)
    for at, d in enumerate(example.drawn):
        for group, found in enumerate((d.has_far, d.alone)):
            x = group + (at - (len(example.drawn) - 1) / 2) * width
            share = d.share(found)
            low, high = interval(found)
            ax.bar(x, share, 0.92 * width, color=colours[d.variant], gid=f"bar {d.variant} {group}")
            ax.errorbar(x, share, [[share - low], [high - share]], color="black", capsize=6, linewidth=1.6)
            ax.text(x, high + 2, shown(share), ha="center", va="bottom", fontsize=SMALL + 2)
        stated = example.formula if at else example.uniform
        x = (at - (len(example.drawn) - 1) / 2) * width
        ax.plot([x - 0.46 * width, x + 0.46 * width], [stated] * 2, color="black", linewidth=3, linestyle=":")
    ax.set_xticks([0, 1], ["first centroids\nhave the far point", "Lloyd ends with\nthe far point alone"])
    ax.set_xlim(-0.6, 1.6)
    ax.set_ylim(0, 112)
    ax.set_yticks(range(0, 101, 20), [f"{p} %" for p in range(0, 101, 20)])
    ax.set_title(f"one point {number(example.times_as_far)}{TIMES} as far out as the others", loc="left", pad=12)


def draw(examples: Sequence[Example], result: dict[str, Any], given: Sequence[Path], path: Path) -> None:
    variants = list(dict.fromkeys(d.variant for e in examples for d in e.drawn))
    colours = {variant: COLOURS[at] for at, variant in enumerate(variants)}
    nearer, further = examples[0], examples[-1]
    found = [max(100 * float(np.mean(d.alone)) for d in e.drawn) for e in (nearer, further)]
    title = (
        "99 points and one: k-means++ draws the far point more often than chance; far enough out, Lloyd finds it alone"
    )
    if min(d.share(d.alone) for d in further.drawn) < 95 or found[0] > 95:
        title = "99 points and one: how often the far point is drawn, and how often Lloyd ends with it alone"
    subtitle = f"shares of {result['seeds']:,} seeds with 95 % intervals; dotted: what the source states of the draw"
    files = "".join(f" {file}" for file in given)
    foot = [
        f"source 000, section Theory · {USUAL.relative_to(ROOT) if not given else ', '.join(map(str, given))} · device "
        f"{result['device']}, commit {result['context']['git_sha'][:10]}",
        f"drawn by python -m plots.first_centroids_page{files} --update",
    ]
    page = Page(title, subtitle, [], foot)
    left, gutter, below, above = 1.2, 1.2, 1.1, 1.1
    inches = (WIDTH - 0.35 - left - gutter * (len(examples) - 1)) / len(examples)
    bottom = page.bottom + below
    for at, example in enumerate(examples):
        ax = page.axes(left + at * (inches + gutter), bottom, inches, page.top - above - bottom)
        draw_panel(ax, example, colours)
    handles = [Patch(color=colours[v], label=v) for v in variants]
    handles.append(Line2D([], [], color="black", linewidth=3, linestyle=":", label="the source's estimate"))
    page.legend(left, handles)
    page.save(path.parent, path.stem, svg=False)


@in_sentences
def main(argv: list[str] | None = None) -> int:
    usual = USUAL.relative_to(ROOT).as_posix()
    arguments = page_arguments(argv, "docs/seeds/first_centroids.md", usual)
    path: Path = (arguments.records or [USUAL])[0]
    result = read_json(path, TOOL)
    examples = examples_of(result, str(path))
    if not examples or not all(len(e.drawn) == e.k == 2 for e in examples):
        raise InputError(f"{path}: has not the draws of two centroids by two variants; {TOOL} makes them")
    program = "python -m plots.first_centroids_page"
    named = "".join(f" {file}" for file in arguments.records)
    picture = arguments.page.with_suffix(".png")
    if arguments.update:
        draw(examples, result, arguments.records, picture)
    text = markdown(examples, result, f"{program}{named} --update docs/seeds/first_centroids.md", picture)
    return keep_page(arguments, text, program)


if __name__ == "__main__":
    sys.exit(main())
