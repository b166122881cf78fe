"""The worked example of docs/certificate.md: its table and its figure.

python -m plots.certificate_figure           # prints the table
python -m plots.certificate_figure FILE.png  # draws the figure too

Two points and three centroids of two features, taken through variants/common/certified: fp16 rows, weight and slack,
upper and lower bounds, the decision of each row. The names are those of error_bound.cuh and fp16_rows.cuh.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from fractions import Fraction
from math import frexp, ldexp, sqrt
from pathlib import Path

import numpy as np

from plots.lib import outputs
from plots.lib.inputs import in_sentences

# In a frame already: every coordinate is below 1.
POINTS = {"A": (0.60, 0.30), "B": (0.593, 0.317)}
CENTROIDS = ((0.61, 0.31), (0.57, 0.33), (0.64, 0.27))

MMA_DEPTH, CUT_UNITS, LEAST_NOMINAL = 16, 20, 2.0**-14
HALF_TOP, MOST_EXPONENT = 13, 70
USUAL_LOSS, LEAST_WEIGHT, OF_DOUBLES = 2.0**-12, 2.0**-50, 2.0**-40


def fp32(value: float) -> float:
    return float(np.float32(value))


def steps(d: int) -> int:
    return (d + MMA_DEPTH - 1) // MMA_DEPTH


def accumulation(d: int) -> float:
    """kappa: the relative error of a chain of tensor-core products over d features."""
    q = CUT_UNITS * 2.0**-23 * steps(d)
    return q / (1 - q)


@dataclass(frozen=True)
class Fp16Row:
    """A row as halves times 2^-exponent, with lengths in the frame: of the row, of the halves, of what they lose."""

    halves: tuple[float, ...]
    exponent: int
    whole: float
    kept: float
    lost: float


def quantize_row(row: tuple[float, ...]) -> Fp16Row:
    exponent = min(HALF_TOP - (frexp(max(map(abs, row)))[1] - 1), MOST_EXPONENT)
    scaled = [ldexp(value, exponent) for value in row]
    halves = [float(np.float16(value)) for value in scaled]
    unit = 2.0**-exponent
    nominal_excess = LEAST_NOMINAL * sqrt(MMA_DEPTH * steps(len(row)))
    whole = sqrt(sum(value * value for value in scaled)) * unit
    kept = (sqrt(sum(value * value for value in halves)) + nominal_excess) * unit
    lost = sqrt(sum((a - b) ** 2 for a, b in zip(scaled, halves, strict=True))) * unit + OF_DOUBLES * whole
    return Fp16Row(tuple(halves), exponent, whole, kept, lost)


def weight(point: Fp16Row) -> float:
    return fp32(max(point.kept, point.lost / USUAL_LOSS, LEAST_WEIGHT) * (1 + 2.0**-20))


def slack(centroid: Fp16Row) -> float:
    kappa = accumulation(len(centroid.halves))
    needed = USUAL_LOSS * centroid.whole + centroid.lost + (kappa + 2.0**-21) * centroid.kept
    return fp32(max(needed, LEAST_WEIGHT) * (1 + 2.0**-20))


def square(centroid: Fp16Row) -> float:
    return fp32(centroid.whole**2 / 2 * (1 - 1.5 * 2.0**-21))


def upper_bound(point: Fp16Row, centroid: Fp16Row) -> float:
    product = fp32(sum(a * b for a, b in zip(point.halves, centroid.halves, strict=True)))
    factor = 2.0 ** -(point.exponent + centroid.exponent)
    return fp32(product * factor + fp32(weight(point) * slack(centroid) - square(centroid)))


def lower_bound(upper: float, point: Fp16Row, centroid: Fp16Row) -> float:
    width = fp32(fp32(2.001) * fp32(weight(point) * slack(centroid)))
    return fp32(upper - fp32(2.0**-23 * abs(upper) + fp32(2.0**-19 * square(centroid) + width)))


def score(point: tuple[float, ...], centroid: tuple[float, ...]) -> Fraction:
    """The exact score y.z - |z|^2 / 2."""
    pairs = [(Fraction(y), Fraction(z)) for y, z in zip(point, centroid, strict=True)]
    return sum((y * z - z * z / 2 for y, z in pairs), Fraction(0))


@dataclass(frozen=True)
class Bounds:
    lower: float
    upper: float
    score: Fraction


def bounds(point: tuple[float, ...]) -> list[Bounds]:
    y = quantize_row(point)
    found = []
    for centroid in CENTROIDS:
        z = quantize_row(centroid)
        upper = upper_bound(y, z)
        found.append(Bounds(lower_bound(upper, y, z), upper, score(point, centroid)))
    return found


def candidates(of: list[Bounds]) -> list[int]:
    """The centroids whose upper bound reaches the largest lower bound."""
    largest = max(bound.lower for bound in of)
    return [j for j, bound in enumerate(of) if bound.upper >= largest]


def table() -> str:
    """The example's numbers as a Markdown table."""
    lines = [
        "| point | centroid | lower bound | exact score | upper bound | reaches |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for name, point in POINTS.items():
        of = bounds(point)
        reaching = candidates(of)
        for j, bound in enumerate(of):
            numbers = " | ".join(f"{float(value):.6f}" for value in (bound.lower, bound.score, bound.upper))
            lines.append(f"| {name} | {j} | {numbers} | {'yes' if j in reaching else 'no'} |")
    return "\n".join(lines)


def draw(file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = pyplot.subplots(1, 2, figsize=(9.6, 3.0), dpi=120, sharey=True, layout="constrained")
    for axis, (name, point) in zip(axes, POINTS.items(), strict=True):
        of = bounds(point)
        reaching = candidates(of)
        largest = max(bound.lower for bound in of)
        for j, bound in enumerate(of):
            colour = "#0072B2" if j in reaching else "#6E6E6E"
            axis.plot([bound.lower, bound.upper], [j, j], color=colour, linewidth=7, solid_capstyle="butt")
            axis.plot(float(bound.score), j, "o", color="white", markeredgecolor="black", markersize=6)
        axis.axvline(largest, color="#D55E00", linestyle="--", linewidth=1.4)
        verdict = "proven: label 0" if len(reaching) == 1 else "undecided: 0 or 1, refine"
        axis.set_title(f"point {name}: {verdict}", fontsize=11)
        axis.set_xlabel("score")
        axis.set_yticks(range(len(of)), [f"centroid {j}" for j in range(len(of))])
        axis.set_ylim(len(of) - 0.5, -0.6)
        axis.locator_params(axis="x", nbins=5)
        axis.ticklabel_format(axis="x", useOffset=False)
    axes[0].annotate(
        "largest lower bound", (max(b.lower for b in bounds(POINTS["A"])), 1.5), xytext=(-6, 0),
        textcoords="offset points", ha="right", va="center", color="#D55E00",
    )  # fmt: skip
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})
    outputs.write(file, content.getvalue(), outputs.ANY_PICTURE)


@in_sentences
def main(words: list[str]) -> int:
    print(table())
    if words:
        draw(Path(words[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
