"""scikit-learn's KMeans, algorithm 'elkan': one lower bound per point and centroid, by the triangle inequality, skips
most distances once the centroids move little.

Bounds are kept in the points' own type, without a margin for rounding, on centred points (mean subtracted): the error
is relative to |x| and |c|, not to the distance. For the rest see p_sklearn_lloyd.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

CARD = {
    "id": "p_sklearn_elkan",
    "base": "p_sklearn_lloyd",
    "idea": "Elkan: N x K lower bounds by the triangle inequality skip distances",
    "expect": "faster where clusters lie well apart and D is large; slower where little is pruned: it has no BLAS",
    "shows": "solve",
    "source": "scikit-learn, sklearn/cluster/_k_means_elkan.pyx; Elkan, 2003",
    "devices": ["cpu"],
    "arithmetic": {"form": "expanded", "sum_roundoff": 0, "centred": True},
    "labels_last": True,
    "moves_empty": True,
    "prunes": True,
    "library": {"module": "sklearn.cluster", "package": "scikit-learn"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    if shape.stop.rule == "reassigned":
        return "scikit-learn stops when no label changes, or after a number of iterations: not at a share of the labels"
    if shape.k < 2:
        return "for one cluster scikit-learn uses algorithm 'lloyd' instead of 'elkan'"
    needed = shape.n * shape.k * shape.element_bytes
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"N x K lower bounds need {needed} bytes, {free} are free" if needed > free else ""


def solve(s: State) -> None:
    from sklearn.cluster import KMeans

    # tol=0: it stops when no label has changed, as 'exact' does. With 'fixed' it stops there too, since nothing would
    # change any more.
    model = KMeans(s.k, init=s.centroids, n_init=1, max_iter=s.stop.most, tol=0, algorithm="elkan").fit(s.points)
    s.label[:] = model.labels_
    s.c[:] = model.cluster_centers_
    s.reassigned += [-1] * model.n_iter_  # scikit-learn reports how many iterations, not how many labels changed
