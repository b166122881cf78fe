"""SciPy's kmeans2: Lloyd in one thread, distances to all centroids at once by BLAS (plainly below five features).

kmeans2(..., iter=1) is one iteration: it returns the labels for the given centroids, and the means of those labels.
That is `iterate` in the contract, so the harness applies any stop rule. A larger `iter` is the same loop inside, with
the same check of the points for infinities in each iteration.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

CARD = {
    "id": "p_scipy",
    "idea": "SciPy's kmeans2, one iteration a call",
    "expect": "slower than scikit-learn by more than the number of cores: it writes N x K distances to memory first",
    "shows": "iteration",
    "source": "SciPy, scipy/cluster/vq.py and _vq.pyx",
    "devices": ["cpu"],
    "arithmetic": {"form": "expanded", "sum_roundoff": 0},
    "library": {"module": "scipy.cluster.vq", "package": "scipy"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    needed = shape.n * shape.k * shape.element_bytes
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if shape.d >= 5 and needed > free:
        return f"N x K distances need {needed} bytes at once, {free} are free"
    return ""


def prepare(s: State) -> None:
    warnings.filterwarnings("ignore", "One of the clusters is empty")  # its centroid stays, as the contract asks


def iterate(s: State) -> None:
    from scipy.cluster.vq import kmeans2

    s.c[:], s.label[:] = kmeans2(s.points, s.c, iter=1, minit="matrix")
