"""Extension for scikit-learn (oneDAL): the same KMeans, by Intel's library.

It stops by how far centroids moved, so only a fixed number of iterations is comparable; where nothing moves any more,
it ends before. Labels belong to the centroids that fit() ends with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

CARD = {
    "id": "p_sklearnex",
    "base": "p_sklearn_lloyd",
    "idea": "Extension for scikit-learn: oneDAL in the place of scikit-learn's own loops",
    "expect": "faster than scikit-learn where its own code between the matrix products counts: small D or K",
    "shows": "solve",
    "source": "Extension for scikit-learn, sklearnex.cluster.KMeans",
    "devices": ["cpu"],
    "arithmetic": {"form": "expanded", "sum_roundoff": 0},
    "labels_last": True,
    "moves_empty": True,
    "library": {"module": "sklearnex.cluster", "package": "scikit-learn-intelex"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    return "" if shape.stop.rule == "fixed" else "oneDAL stops by how far centroids moved, not by labels"


def solve(s: State) -> None:
    from sklearnex.cluster import KMeans

    model = KMeans(s.k, init=s.centroids, n_init=1, max_iter=s.stop.most, tol=0, algorithm="lloyd").fit(s.points)
    s.label[:] = model.labels_
    s.c[:] = model.cluster_centers_
    s.reassigned += [-1] * model.n_iter_
