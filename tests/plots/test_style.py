"""Ticks, broken lines and labels: no text touches another."""

from __future__ import annotations

from itertools import pairwise

import pytest
from figure_helpers import overlaps
from matplotlib.figure import Figure

from plots.lib import style
from plots.lib.record import TIMES

pytest_plugins = ("figure_fixtures",)


@pytest.mark.parametrize(("low", "high"), [(0.9, 2.1), (0.03, 90), (2e-4, 3e4), (1e-9, 1e9)])
def test_ticks_of_a_log_axis_do_not_touch(low: float, high: float, figures: dict[str, Figure]) -> None:
    for which, inches in (("x", 2.5), ("x", 12.0), ("y", 5.0)):
        page = style.Page("title", "", [], [])
        ax = page.axes(3, 3, inches if which == "x" else 5, inches if which == "y" else 5)
        ax.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
        style.log_ticks(ax, which, inches, TIMES)
        assert overlaps(page.figure) == []
        axis = ax.xaxis if which == "x" else ax.yaxis
        assert 1.0 in axis.get_ticklocs()
        assert 1 + (inches > 4) <= len(axis.get_ticklocs()) <= 20


def test_text_is_broken_where_it_ends() -> None:
    for bold in (False, True):
        lines = style.wrap("a title of some length " * 9 + "/" + "x" * 300, 15, style.TITLE, bold)
        assert " ".join(lines).replace(" ", "").count("x") == 300
        assert all(style.text_width(line, style.TITLE, bold) <= 15 for line in lines)
        following = [f"{line} {after.split(' ')[0]}" for line, after in pairwise(lines)]
        assert all(style.text_width(line, style.TITLE, bold) > 15 for line in following)
    assert style.wrap("", 15) == []


def test_a_number_and_its_percent_sign_stay_on_one_line() -> None:
    text = "an occupancy of 25 %"
    inches = style.text_width("an occupancy of 25", style.TITLE) + 0.01
    assert style.wrap(text, inches, style.TITLE) == ["an occupancy of", "25 %"]


@pytest.mark.parametrize("pitch", [0.2, 0.9])
def test_labels_are_spread_in_order(pitch: float) -> None:
    wanted = [0.5, 0.52, 0.51, 3.9, 0.1, 4.0, 4.0]
    places = style.spread(wanted, pitch, 0, 4)
    ordered = [places[i] for i in sorted(range(7), key=lambda i: wanted[i])]
    assert all(0 <= place <= 4 + 1e-9 for place in places)
    assert all(b - a >= min(pitch, 4 / 6) - 1e-9 for a, b in pairwise(ordered))
