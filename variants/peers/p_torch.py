"""PyTorch: Lloyd as one writes it there, on a GPU or on the CPU.

Distances |c|^2 - 2 x.c by one matrix product for as many points as fit a chunk, argmin by row; sums by index_add_ in
double; the stop rule looks at one number per iteration. fp32 means fp32: TF32 is off.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State
    from torch import Tensor

CHUNK_BYTES = 1 << 30  # of distances at a time: large enough to fill a GPU, small beside its memory

CARD = {
    "id": "p_torch",
    "idea": "PyTorch: addmm and argmin in chunks, index_add_ in double",
    "expect": "on a GPU near the matrix product where K and D are large; argmin reads the distances once more",
    "shows": "iteration",
    "source": "PyTorch, torch.addmm, torch.argmin, Tensor.index_add_",
    "devices": ["cpu", "cuda"],
    "arithmetic": {"form": "expanded"},
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
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to the points
    s.torch = torch
    s.device = torch.device("cpu") if s.gpu is None else torch.device("cuda", s.gpu)
    s.host_label = torch.from_numpy(s.label)
    if s.gpu is not None:
        # The labels' way to the host: page-locked, as a GPU's own variants have it.
        torch.cuda.set_device(s.device)
        torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(s.label.ctypes.data, s.label.nbytes, 0))
    s.chunk = max(1, min(s.n, CHUNK_BYTES // (s.k * s.label.itemsize)))


def wait(s: State) -> None:
    if s.gpu is not None:
        s.torch.cuda.synchronize()


def upload(s: State) -> None:
    s.x = s.torch.from_numpy(s.points).to(s.device)
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


def means_of(s: State, label: Tensor) -> Tensor:
    """A cluster without points keeps its centroid."""
    sums = s.torch.zeros(s.k, s.d, dtype=s.torch.float64, device=s.device)
    for begin in range(0, s.n, s.chunk):
        part = slice(begin, begin + s.chunk)
        sums.index_add_(0, label[part], s.x[part].double())
    counts = s.torch.bincount(label, minlength=s.k).unsqueeze(1)
    return s.torch.where(counts > 0, (sums / counts).to(s.means.dtype), s.means)


def assign(s: State) -> None:
    s.now = nearest(s)
    s.host_label.copy_(s.now)
    wait(s)


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
    s.host_label.copy_(s.now)
    wait(s)


def download(s: State) -> None:
    s.c[:] = s.means.cpu().numpy()
