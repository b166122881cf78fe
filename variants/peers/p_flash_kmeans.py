"""flash-kmeans: Lloyd by Triton kernels, distances and their minimum in one, sums over labels that were sorted.

Its fp32 products are in TF32, Triton's standard for tl.dot: a coordinate keeps ten bits behind the leading one. The
card says so, so that a label within that rounding is no wrong one; how many are not the nearest centroid's is in each
row (validation.labels_differ). Half precision is left out: its norms of points are halves too, and overflow from
|x|^2 = 65,504 on.

The solve is batch_kmeans_Euclid() alone, with a tolerance that never ends it. Its labels belong to the centroids before
the last update; those of the final ones are computed in download by its own kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

CARD = {
    "id": "p_flash_kmeans",
    "idea": "flash-kmeans: Triton kernels, TF32 products, sums over sorted labels",
    "expect": "faster than fp32 products where K and D are large, by labels that are not all the nearest; sorts labels",
    "shows": "solve",
    "source": "flash-kmeans, kmeans_triton_impl.py",
    "devices": ["cuda"],
    "types": ["f32"],
    "arithmetic": {"form": "expanded", "input_roundoff": 2**-10, "sum_roundoff": 0},
    "labels_last": True,
    "library": {"module": "flash_kmeans", "package": "flash-kmeans"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    import torch
    from flash_kmeans import interface

    if shape.stop.rule != "fixed":
        return "flash-kmeans stops by how far centroids moved, or after a number of iterations: not by labels"
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no GPU"
    return "" if interface._HAS_TRITON_IMPL else "Triton does not load, without which flash-kmeans is plain PyTorch"


def prepare(s: State) -> None:
    import torch

    torch.cuda.set_device(s.gpu)
    s.torch = torch


def upload(s: State) -> None:
    s.x = s.torch.tensor(s.points, device="cuda")[None]  # of one problem in a batch
    s.torch.cuda.synchronize()


def restart(s: State) -> None:
    s.means = s.torch.tensor(s.centroids, device="cuda")[None]
    s.torch.cuda.synchronize()


def solve(s: State) -> None:
    from flash_kmeans import batch_kmeans_Euclid

    _, s.means, done = batch_kmeans_Euclid(s.x, s.k, max_iters=s.stop.most, tol=0.0, init_centroids=s.means)
    s.torch.cuda.synchronize()
    s.reassigned += [-1] * done  # it does not report how many labels changed


def download(s: State) -> None:
    from flash_kmeans.assign_euclid_triton import euclid_assign_triton

    s.label[:] = euclid_assign_triton(s.x, s.means, (s.x * s.x).sum(-1))[0].cpu().numpy()
    s.c[:] = s.means[0].cpu().numpy()
