"""A plain PyTorch script, no library's k-means: Lloyd as an experienced user writes it, on a GPU or on the CPU.

Assign: |c|^2 - 2 x.c by one matrix product for each chunk of points, argmin by row. fp32 means fp32: TF32 is off.

Update: sums in the points' own type, as PyTorch users write it.
- K <= 64: the product of the one-hot label matrix and the points, which reads each point once. With so few clusters,
  the atomics of index_add_ would collide on few addresses.
- Larger K: index_add_, N x D atomics on K x D addresses and no temporary. The one-hot product would cost as many
  multiply-adds as the assignment.
Counts take the same way, for bincount waits for the device.

Within an iteration the host waits for nothing but the count of changed labels that the stop rule needs. Labels become
int32 on the device: PyTorch converts in a blocking copy on the host, through pageable memory.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State
    from torch import Tensor

CHUNK_BYTES = 1 << 30  # of distances at a time: large enough to fill a GPU, small beside its memory
ONE_HOT_CLUSTERS = 64  # the largest K for which the update is a product with the one-hot label matrix

CARD = {
    "id": "p_torch",
    "idea": "a plain PyTorch script: addmm and argmin in chunks; one-hot product or index_add_",
    "expect": "on a GPU near the matrix product where K and D are large; argmin reads the distances once more",
    "shows": "iteration",
    "source": "PyTorch, torch.addmm, torch.argmin, Tensor.index_add_",
    "devices": ["cpu", "cuda"],
    "arithmetic": {"form": "expanded", "sum_roundoff": 0},
    "library": {"module": "torch", "package": "torch"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    import torch

    if device.kind == "cuda" and not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no GPU: it is built for CUDA {torch.version.cuda or 'of no version'}"
    return ""


def prepare(s: State) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # the points are only read
    s.torch = torch
    s.device = torch.device("cpu") if s.gpu is None else torch.device("cuda", s.gpu)
    s.host_label = torch.from_numpy(s.label)
    if s.gpu is not None:
        # The host's labels are page-locked, as in the rungs from v02 on.
        torch.cuda.set_device(s.device)
        torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(s.label.ctypes.data, s.label.nbytes, 0))
    s.chunk = max(1, min(s.n, CHUNK_BYTES // (s.k * s.label.itemsize)))


def release(s: State) -> None:
    if s.gpu is not None:
        s.torch.cuda.cudart().cudaHostUnregister(s.label.ctypes.data)


def wait(s: State) -> None:
    if s.gpu is not None:
        s.torch.cuda.synchronize()


def upload(s: State) -> None:
    s.x = s.torch.from_numpy(s.points).to(s.device)
    if s.k <= ONE_HOT_CLUSTERS:
        s.clusters = s.torch.arange(s.k, device=s.device)
    else:
        s.ones = s.torch.ones(s.n, dtype=s.torch.int64, device=s.device)
    wait(s)


def restart(s: State) -> None:
    s.means = s.torch.tensor(s.centroids, device=s.device)
    wait(s)


def nearest(s: State) -> Tensor:
    norms = (s.means * s.means).sum(1)
    label = s.torch.empty(s.n, dtype=s.torch.int64, device=s.device)
    for begin in range(0, s.n, s.chunk):
        part = slice(begin, begin + s.chunk)
        s.torch.argmin(s.torch.addmm(norms, s.x[part], s.means.T, alpha=-2), dim=1, out=label[part])
    return label


def sums_of(s: State, label: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of the clusters' points (K x D) and their counts (K)."""
    sums = s.torch.zeros(s.k, s.d, dtype=s.x.dtype, device=s.device)
    if s.k > ONE_HOT_CLUSTERS:
        counts = s.torch.zeros(s.k, dtype=s.torch.int64, device=s.device)
        return sums.index_add_(0, label, s.x), counts.index_add_(0, label, s.ones)
    counts = s.torch.zeros(s.k, dtype=s.torch.float64, device=s.device)
    for begin in range(0, s.n, s.chunk):
        part = slice(begin, begin + s.chunk)
        one_hot = (label[part].unsqueeze(1) == s.clusters).to(s.x.dtype)
        sums.addmm_(one_hot.T, s.x[part])
        counts += one_hot.sum(0, dtype=s.torch.float64)
    return sums, counts


def means_of(s: State, label: Tensor) -> Tensor:
    """The new centroids. A cluster without points keeps its centroid."""
    sums, counts = sums_of(s, label)
    counts = counts.unsqueeze(1)
    return s.torch.where(counts > 0, (sums.double() / counts).to(s.means.dtype), s.means)


def download_labels(s: State) -> None:
    s.host_label.copy_(s.now.to(s.torch.int32), non_blocking=True)
    wait(s)


def assign(s: State) -> None:
    s.now = nearest(s)
    download_labels(s)


def update(s: State) -> None:
    s.means = means_of(s, s.now)
    wait(s)


def solve(s: State) -> None:
    before = s.torch.full((s.n,), -1, dtype=s.torch.int64, device=s.device)
    done = 0
    while True:
        s.now = nearest(s)
        s.means = means_of(s, s.now)
        done += 1
        # A fixed number of iterations needs no count, and pays for none.
        changed = -1 if s.stop.rule == "fixed" else int((s.now != before).sum())
        s.reassigned.append(changed)
        if s.stop.reached(done, changed, s.n):
            break
        before = s.now
    download_labels(s)


def download(s: State) -> None:
    s.c[:] = s.means.cpu().numpy()
