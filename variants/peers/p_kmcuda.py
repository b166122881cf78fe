"""kmcuda (libKMCUDA) with its standard setting, Yinyang k-means: bounds by groups of centroids skip distances.

As its users run it: kmeans_cuda() on points in the GPU's memory, yinyang_t = 0.1. Each call takes and frees its own
memory on the GPU, and turns the points into columns and back; an iteration's time without that is the slope between
workloads of two numbers of iterations (plots/lib/slope.py).

It has no number of iterations, only a tolerance: it ends after the first assignment that changes no more labels than
that part of the points, without another update. So its labels belong to its final centroids, and an end after m
updates needs a tolerance between what the assignment m + 1 changes and the least that an earlier one does. How many
labels each assignment changes is found by calls of one iteration each; `restart` has them made for centroids that it
has not met, so that no timed solve does. From 0.11 on a tolerance makes Yinyang Lloyd, and down to 0.11 its first
iterations are Lloyd's in any case.

Its multiply-adds round down (__fmaf_rd), so a rounding is up to 2^-23 of a value. Half precision is left out: with
float16 points kmeans_cuda() takes no initial centroids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray
    from peer import Device, Shape, State

YINYANG = 0.1  # groups of centroids, of K; 0 is Lloyd
ONE_ITERATION = 1 - 2**-24  # the first assignment changes all labels, which is more than this part of them

CARD = {
    "id": "p_kmcuda",
    "idea": "kmcuda's Yinyang k-means: bounds of 0.1 K groups of centroids skip distances",
    "expect": "a thread per point reads its row once per centroid, through the caches; later iterations skip most",
    "shows": "solve",
    "source": "kmcuda 6.2.3, src/kmeans.cu",
    "devices": ["cuda"],
    "types": ["f32"],
    "arithmetic": {"form": "expanded", "distance_roundoff": 2**-23, "sum_roundoff": 2**-23},
    "prunes": True,
    "moves_empty": True,
    "labels_last": True,
    "library": {"module": "libKMCUDA", "package": "libKMCUDA"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    if shape.stop.rule != "fixed":
        return "kmcuda ends with the assignment that its tolerance is met by: the stop rule here ends with an update"
    if shape.k < 2 or shape.d > 65535:
        return "kmcuda takes 2 clusters or more, and 65535 features or less"
    bytes_needed = 4 * shape.n * (int(YINYANG * shape.k) + 2 * shape.d)
    if 0 < device.memory_bytes < bytes_needed:
        return f"bounds of its groups and two copies of the points are {bytes_needed} bytes, more than the GPU has"
    try:
        import cupy

        return "" if cupy.cuda.runtime.getDeviceCount() > 0 else "CuPy finds no GPU"
    except ImportError as error:
        return f"the points are handed to kmcuda in CuPy's memory, and CuPy does not load: {error}"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no GPU: {error}"


@dataclass
class Way:
    """What is known of the iterations from some centroids: labels that the assignments 1, 2, ... change, and where the
    last of them was made."""

    changed: list[int]
    centroids: ndarray
    label: ndarray | None = None


def prepare(s: State) -> None:
    import cupy

    cupy.cuda.Device(s.gpu).use()
    s.cupy = cupy
    s.means, s.now = cupy.empty((s.k, s.d), cupy.float32), cupy.empty(s.n, cupy.uint32)
    s.ways = {}


def upload(s: State) -> None:
    s.x = s.cupy.asarray(s.points)
    s.cupy.cuda.Device().synchronize()


def call(s: State, centroids: ndarray, tolerance: float) -> None:
    """From these centroids to s.means and s.now."""
    from libKMCUDA import kmeans_cuda

    memory = (s.x.data.ptr, s.gpu, s.x.shape, s.means.data.ptr, s.now.data.ptr)
    kmeans_cuda(memory, s.k, tolerance=tolerance, init=centroids, yinyang_t=YINYANG, device=1 << s.gpu)
    s.cupy.cuda.Device().synchronize()


def tolerance_for(s: State, iterations: int) -> float:
    if iterations == 1:
        return ONE_ITERATION
    start = hash(frozenset(row.tobytes() for row in s.centroids))  # in whatever order
    way = s.ways.setdefault(start, Way([s.n], s.centroids.copy()))
    while len(way.changed) <= iterations:
        if way.label is None:
            call(s, way.centroids, 1)  # no iteration: one assignment
            way.label = s.now.get()
        call(s, way.centroids, ONE_ITERATION)
        before, way.label, way.centroids = way.label, s.now.get(), s.means.get()
        way.changed.append(int((way.label != before).sum()))
    least, last = min(way.changed[:iterations]), way.changed[iterations]
    if last >= least:
        raise RuntimeError(
            f"no tolerance ends kmcuda after {iterations} iterations: the next assignment changes {last} labels, an "
            f"earlier one {least}"
        )
    return (least + last) / 2 / s.n


def restart(s: State) -> None:
    s.tolerance = tolerance_for(s, s.stop.most)


def solve(s: State) -> None:
    call(s, s.centroids, s.tolerance)
    s.reassigned += [-1] * s.stop.most  # it prints how many labels changed, and returns nothing of it


def download(s: State) -> None:
    s.label[:] = s.now.get()
    s.c[:] = s.means.get()
