"""FAISS's Kmeans: the clustering that trains its indices, on a GPU or on the CPU.

fp32 only, a fixed number of iterations only. Training returns no labels: the index of the final centroids computes
them, so that they belong to those. A cluster without points splits a large one: it gets that one's centroid, shifted a
little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

CARD = {
    "id": "p_faiss",
    "idea": "FAISS's Kmeans, all points in use",
    "expect": "sends the points to the GPU anew in each iteration: bound by the link where K is small",
    "shows": "solve",
    "source": "FAISS, faiss/Clustering.cpp",
    "devices": ["cpu", "cuda"],
    "types": ["f32"],
    "arithmetic": {"form": "expanded", "sum_roundoff": 0},
    "labels_last": True,
    "moves_empty": True,
    "library": {"module": "faiss", "package": "faiss-cpu"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    import faiss

    if shape.stop.rule != "fixed":
        return "FAISS does a given number of iterations: it has no stop rule"
    if shape.n == shape.k:
        return "for as many clusters as points FAISS hands out the points, without an iteration"
    if device.kind == "cuda" and faiss.get_num_gpus() == 0:
        return f"FAISS {faiss.__version__} finds no GPU: the package faiss-cpu has no code for one, faiss-gpu has"
    if device.kind == "cuda" and device.ordinal != 0:
        return f"FAISS's Kmeans takes the first GPU, not GPU {device.ordinal}"
    return ""


def solve(s: State) -> None:
    import faiss

    model = faiss.Kmeans(
        s.d,
        s.k,
        niter=s.stop.most,
        gpu=0 if s.gpu is None else 1,
        min_points_per_centroid=1,  # no warning below, no sample of the points above
        max_points_per_centroid=s.n,
    )
    model.train(s.points, init_centroids=s.centroids)
    s.label[:] = model.assign(s.points)[1]
    s.c[:] = model.centroids
    s.reassigned += [-1] * len(model.obj)  # FAISS reports the inertia of each iteration, not how many labels changed
