"""FAISS's k-means: the clustering that trains its indices, on a GPU or on the CPU.

On a GPU: the k-means of faiss.contrib on PyTorch's tensors in the GPU's memory, as FAISS's wiki has it. faiss.Kmeans
with gpu=True copies all points to the GPU anew in each iteration, which is slower. On the CPU: faiss.Kmeans.

fp32 only, a fixed number of iterations only. Training returns no labels: a search for the nearest of the final
centroids computes them, in download, so that they belong to those and the solve is the training alone. A cluster
without points splits a large one: it gets that one's centroid, shifted a little.

On a GPU, training begins with a permutation of all points' numbers on the host, for initial centroids that it then does
not use, as it is given others. An iteration's time without it is the slope between workloads of two numbers of
iterations (plots/lib/slope.py).

The OpenBLAS in FAISS's packages (0.3.15, of 2021) takes Intel's processors since then for ones without AVX. It is told
otherwise here, unless OPENBLAS_CORETYPE already says what they are.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

CARD = {
    "id": "p_faiss",
    "idea": "FAISS: all points in use; on a GPU on tensors in its memory, on the CPU by BLAS",
    "expect": "labels come to the host in each iteration to be counted there: slow where N is large and K is small",
    "shows": "solve",
    "source": "FAISS, faiss/Clustering.cpp, faiss/contrib/torch/clustering.py",
    "devices": ["cpu", "cuda"],
    "types": ["f32"],
    "arithmetic": {"form": "expanded", "sum_roundoff": 0},
    "labels_last": True,
    "moves_empty": True,
    "library": {"module": "faiss", "package": "faiss-cpu"},
}


def core_type(cpuinfo: str) -> str:
    """What OpenBLAS is to take a processor of Intel for; empty for others, of which it knows what it needs."""
    words = cpuinfo.partition("\n\n")[0].split()
    if "GenuineIntel" not in words:
        return ""
    return "SKYLAKEX" if "avx512f" in words else "HASWELL" if "avx2" in words else ""


with contextlib.suppress(OSError):
    if name := core_type(Path("/proc/cpuinfo").read_text()):
        os.environ.setdefault("OPENBLAS_CORETYPE", name)


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    import faiss

    if shape.stop.rule != "fixed":
        return "FAISS does a given number of iterations: it has no stop rule"
    if shape.n == shape.k:
        return "for as many clusters as points FAISS hands out the points, without an iteration"
    if device.kind == "cuda" and faiss.get_num_gpus() == 0:
        return f"FAISS {faiss.__version__} finds no GPU: the package faiss-cpu has no code for one, faiss-gpu has"
    if device.kind == "cuda":
        try:
            import faiss.contrib.torch.clustering
        except ImportError as error:
            return f"FAISS's k-means on a GPU's tensors does not load: {error}"
    return ""


def prepare(s: State) -> None:
    if s.gpu is None:
        return
    import faiss
    import torch
    from faiss.contrib.torch.clustering import DatasetAssignGPU

    class Dataset(DatasetAssignGPU):
        def get_subset(self, indices: object) -> torch.Tensor:
            return s.means  # where its k-means begins, in the place of the points that it drew

    torch.cuda.set_device(s.gpu)
    s.torch, s.Dataset, s.gpu_resources = torch, Dataset, faiss.StandardGpuResources()


def upload(s: State) -> None:
    if s.gpu is not None:
        s.x = s.torch.tensor(s.points, device="cuda")
        s.torch.cuda.synchronize()


def restart(s: State) -> None:
    if s.gpu is not None:
        s.means = s.torch.tensor(s.centroids, device="cuda")
        s.torch.cuda.synchronize()


def solve(s: State) -> None:
    if s.gpu is not None:
        from faiss.contrib.torch.clustering import kmeans

        with contextlib.redirect_stdout(io.StringIO()):  # it prints, verbose or not
            s.means = kmeans(s.k, s.Dataset(s.gpu_resources, s.x), niter=s.stop.most, verbose=False)
        s.torch.cuda.synchronize()
        s.reassigned += [-1] * s.stop.most
        return
    import faiss

    s.model = faiss.Kmeans(
        s.d,
        s.k,
        niter=s.stop.most,
        min_points_per_centroid=1,  # no warning below, no sample of the points above
        max_points_per_centroid=s.n,
    )
    s.model.train(s.points, init_centroids=s.centroids)
    s.reassigned += [-1] * len(s.model.obj)  # FAISS reports the inertia of each iteration, not how many labels changed


def download(s: State) -> None:
    if s.gpu is None:
        s.label[:] = s.model.assign(s.points)[1]
        s.c[:] = s.model.centroids
        return
    import faiss

    s.label[:] = faiss.knn_gpu(s.gpu_resources, s.x, s.means, 1)[1].ravel().cpu().numpy()
    s.c[:] = s.means.cpu().numpy()
