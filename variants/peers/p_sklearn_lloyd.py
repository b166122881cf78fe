"""scikit-learn's KMeans, algorithm 'lloyd': what a user of Python calls first.

It computes |c|^2 - 2 x.c for 256 points at a time by BLAS, in the points' own type, on centred points (mean
subtracted). fit() ends with one more assignment, so that labels_ belong to cluster_centers_. A cluster without points
gets the point that lies farthest from its centroid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

CARD = {
    "id": "p_sklearn_lloyd",
    "idea": "scikit-learn's KMeans, Lloyd: BLAS on chunks that stay in cache, all cores",
    "expect": "near the best a CPU does for large D; one more assignment than a solve needs, and a copy of the points",
    "shows": "solve",
    "source": "scikit-learn, sklearn/cluster/_k_means_lloyd.pyx",
    "devices": ["cpu"],
    "arithmetic": {"form": "expanded", "sum_roundoff": 0, "centred": True},
    "labels_last": True,
    "moves_empty": True,
    "library": {"module": "sklearn.cluster", "package": "scikit-learn"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    if shape.stop.rule == "reassigned":
        return "scikit-learn stops when no label changes, or after a number of iterations: not at a share of the labels"
    return ""


def solve(s: State) -> None:
    from sklearn.cluster import KMeans

    # tol=0: it stops when no label has changed, as 'exact' does. With 'fixed' it stops there too, since nothing would
    # change any more.
    model = KMeans(s.k, init=s.centroids, n_init=1, max_iter=s.stop.most, tol=0, algorithm="lloyd").fit(s.points)
    s.label[:] = model.labels_
    s.c[:] = model.cluster_centers_
    s.reassigned += [-1] * model.n_iter_  # scikit-learn reports how many iterations, not how many labels changed
