"""Time over the number of clusters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from plots.figures import sweep
from plots.lib.options import Options
from plots.lib.record import Record

pytest_plugins = ("figure_fixtures",)


def test_a_sweep_needs_several_k_of_the_same_points(mixed: Record) -> None:
    found = sweep.sweeps(mixed, "cuda", "iteration")
    assert list(found) == ["grapes"]
    assert [w.k for w in found["grapes"]] == [16, 100, 300, 900, 1500, 2100]


def test_a_sweep_draws_no_line_through_a_refusal(mixed: Record, figures: dict[str, Figure], tmp_path: Path) -> None:
    sweep.draw(mixed, tmp_path, Options())
    lines = figures["sweep_gpu_iteration_grapes"].axes[0].get_lines()
    times = [line.get_ydata() for line in lines if line.get_gid() != "hollow"]
    missing = sorted(tuple(np.flatnonzero(np.isnan(line))) for line in times if np.isnan(line).any())
    assert missing == [(1,), (4, 5)]  # invalid at the second K, refused at the last two
