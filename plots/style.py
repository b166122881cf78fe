"""What all figures share: colours, fonts, and a page laid out in inches so that nothing is clipped or overlaps.

Fonts are in points on a page of 19.2 x 10.8 inches (1920 x 1080 pixels): legible from the last row of a lecture hall.
A page with many rungs grows taller; its fonts stay.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from record import Gap, Record, Rung

# Okabe and Ito, "Color Universal Design" (2008): told apart with any colour vision. Black and yellow are kept out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
GREY = "#6E6E6E"
PALE = "#D9D9D9"
MARKERS = "osD^vPX"

WIDTH, HEIGHT, DPI = 19.2, 10.8, 100  # inches, inches, pixels per inch
SMALL, BODY, TITLE = 14, 16, 24  # points
LINE = 1.45  # line pitch over font size
MARGIN = 0.35  # inches
ROW = 0.24  # inches: the least pitch at which lines of SMALL text do not touch

plt.rcParams.update(
    {
        "font.size": SMALL,
        "axes.titlesize": BODY,
        "axes.labelsize": BODY,
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
        "legend.fontsize": SMALL,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": PALE,
        "svg.hashsalt": "ladder",  # the same record gives the same bytes
        "figure.max_open_warning": 0,
    }
)


@lru_cache(maxsize=8192)
def text_width(text: str, points: float = SMALL, bold: bool = False) -> float:
    """Inches that the text takes."""
    if not text.strip():
        return 0.0
    properties = FontProperties(weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text.replace("$", "S"), size=points, prop=properties).get_extents().x1) / 72


def shorten(text: str, inches: float, points: float = SMALL) -> str:
    """The text, cut at a word where it does not fit."""
    if text_width(text, points) <= inches:
        return text
    words = text.split()
    while words and text_width(" ".join(words) + " …", points) > inches:
        words.pop()
    return " ".join(words) + " …"


def wrap(text: str, inches: float, points: float = SMALL) -> list[str]:
    average = text_width(text, points) / max(1, len(text))
    return textwrap.wrap(text, max(10, int(0.94 * inches / average))) if average else []


class Notes:
    """Numbered remarks at the foot of a page; the same remark has one number."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(value: float) -> str:
    """Three digits, without an exponent: 0.0123, 1.20, 12.3, 123, 12300."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    digits = 2 - math.floor(math.log10(abs(value)) + 1e-9)
    return f"{value:.{digits}f}"


def tick(value: float) -> str:
    return f"{value:.12g}" if abs(value) < 1e6 else f"{value:.0e}".replace("e+0", "e")


def times(value: float) -> str:
    return f"{number(value)}×"


def log_ticks(ax: Axes, which: str, decades: float, inches: float, suffix: str = "") -> None:
    """Ticks 1, 2, 5 where they fit, else powers of ten."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    roomy = inches / max(decades, 0.1) > 2.1
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if roomy else (1,), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{tick(value)}{suffix}"))
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def linear_ticks(ax: Axes, inches: float) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(nbins=max(2, min(8, int(inches / 0.9))), steps=[1, 2, 5, 10]))
