"""flash-kmeans in half precision: points and centroids are halves, products of them on the tensor cores.

That is the type that flash-kmeans is measured in by its authors. A half keeps ten bits behind the leading one; points
are rounded when they are uploaded, and each mean when it is computed. The card says so, so that a label within that
rounding is no wrong one; how many are not the nearest centroid's is in each row (validation.labels_differ).

batch_kmeans_Euclid() also keeps |x|^2 as a half, which overflows from 65,504 on: points are multiplied by a power of
two first, so that no |x|^2 exceeds half of that, and centroids are divided by it at the end.

The solve is batch_kmeans_Euclid() alone, with a tolerance that never ends it. Its labels belong to the centroids before
the last update; those of the final ones are computed in download by its own kernel, with |x|^2 in fp32.

flash-kmeans takes its tiles from a table for each GPU, and those of an H200 do not fit its shared memory where rows are
long (D = 408). There the first solve, which is not timed, lets it try all its tiles and keep the fastest that fit
(use_heuristic=False): some minutes, mostly of compiling.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

LARGEST_SQUARE = 2**15  # of a point's length, as it is uploaded
CHUNK = 1 << 20  # points whose squares are in memory at a time

CARD = {
    "id": "p_flash_kmeans_half",
    "idea": "flash-kmeans on halves: half the bytes and twice the products a second of TF32",
    "expect": "up to twice as fast as the same in TF32 where K and D are large; sorting the labels takes as long",
    "shows": "solve",
    "source": "flash-kmeans, kmeans_triton_impl.py",
    "devices": ["cuda"],
    "types": ["f32"],
    "arithmetic": {
        "form": "expanded",
        "distance_roundoff": 2**-21,
        "input_roundoff": 2**-11,
        "sum_roundoff": 2**-11,  # no smaller than that of inputs: sums in fp32 of rounded points, means rounded again
    },
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
    s.tiles_of_table = True


def upload(s: State) -> None:
    x = s.torch.tensor(s.points, device="cuda")
    largest = max(float(s.torch.linalg.vecdot(part, part).max()) for part in x.split(CHUNK))
    s.scale = 2.0 ** ((LARGEST_SQUARE.bit_length() - 1 - math.frexp(largest)[1]) // 2)
    s.x = x.mul_(s.scale).half()[None]  # of one problem in a batch
    s.torch.cuda.synchronize()


def restart(s: State) -> None:
    s.means = s.torch.tensor(s.centroids, device="cuda").mul_(s.scale).half()[None]
    s.torch.cuda.synchronize()


def solve(s: State) -> None:
    from triton.runtime.errors import OutOfResources

    try:
        done = train(s)
    except OutOfResources:
        s.tiles_of_table = False
        done = train(s)
    s.torch.cuda.synchronize()
    s.reassigned += [-1] * done  # it does not report how many labels changed


def train(s: State) -> int:
    """The number of iterations."""
    from flash_kmeans import batch_kmeans_Euclid

    _, s.means, done = batch_kmeans_Euclid(
        s.x, s.k, max_iters=s.stop.most, tol=0.0, init_centroids=s.means, use_heuristic=s.tiles_of_table
    )
    return done


def download(s: State) -> None:
    from flash_kmeans.assign_euclid_triton import euclid_assign_triton

    squares = s.torch.cat([part.float().square().sum(-1) for part in s.x.split(CHUNK, 1)], 1)
    label = euclid_assign_triton(s.x, s.means, squares, use_heuristic=s.tiles_of_table)
    s.label[:] = label[0].cpu().numpy()
    s.c[:] = (s.means[0].float() / s.scale).cpu().numpy()
