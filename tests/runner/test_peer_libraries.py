"""Peers of libraries that need a GPU, on stand-ins for these: what the peers make of them, judged by a worker.

A stand-in is a module of the library's name that does on the CPU, in NumPy, what the library promises. The peer's file
is as it is, but for its device.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from test_peers import Told, ask

PEERS = ROOT / "variants" / "peers"

CUPY = """
import types
import numpy as np

float32, uint32 = np.float32, np.uint32

class Array(np.ndarray):
    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def get(self):
        return np.array(self)

def empty(shape, dtype):
    return np.empty(shape, dtype).view(Array)

def asarray(values):
    return np.array(values).view(Array)

class cuda:
    class Device:
        def __init__(self, number=0):
            assert number == 0

        def use(self):
            pass

        def synchronize(self):
            pass

    class runtime:
        CUDARuntimeError = OSError

        @staticmethod
        def getDeviceCount():
            return 1
"""
# It ends with the first assignment that changes no more labels than the tolerance's part of the points. `more` is code
# before the end is looked at.
KMCUDA = """
import ctypes
import numpy as np

def kmeans_cuda(memory, clusters, tolerance, init, yinyang_t, device):
    assert device == 1 and 0 <= yinyang_t <= 0.5 and 0 <= tolerance <= 1 and init.dtype == np.float32
    samples, number, (n, d), means, labels = memory
    at = lambda place, kind, *shape: np.ctypeslib.as_array(ctypes.cast(place, ctypes.POINTER(kind)), shape)
    x, c = at(samples, ctypes.c_float, n, d), at(means, ctypes.c_float, clusters, d)
    label = at(labels, ctypes.c_uint32, n)
    c[:] = init
    label[:] = clusters
    iteration = 0
    while True:
        before = label.copy()
        label[:] = ((x[:, None, :] - c[None, :, :]) ** 2).sum(2).argmin(1)
        changed = int((before != label).sum())
        {more}
        if changed <= np.float32(tolerance) * np.float32(n):
            return means, labels
        for j in range(clusters):
            if (label == j).any():
                c[j] = x[label == j].mean(0, dtype=np.float64)
        iteration += 1
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    def run(name: str, modules: dict[str, str], **more: object) -> Told:
        for module, text in modules.items():
            file = tmp_path / "modules" / f"{module}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=os.pathsep)
        text = (PEERS / f"{name}.py").read_text().replace('"devices": ["cuda"]', '"devices": ["cpu"]')
        peer = tmp_path / f"{name}.py"
        peer.write_text(text.replace("s.gpu", "0"))
        return ask(peer, **more)

    return run


def kmcuda(more: str = "pass") -> dict[str, str]:
    return {"cupy": CUPY, "libKMCUDA": KMCUDA.replace("{more}", more)}


@pytest.fixture
def slow(tmp_path: Path) -> dict[str, str]:
    """Points without clusters: each iteration changes labels, and fewer than the one before."""
    x = np.random.default_rng(5).normal(size=(6000, 16)).astype(np.float32)
    np.save(tmp_path / "many.npy", x)
    np.save(tmp_path / "begin.npy", x[:20])
    return {"points": str(tmp_path / "many.npy"), "centroids": str(tmp_path / "begin.npy")}


@pytest.mark.parametrize(("name", "iterations"), [("p_kmcuda", 1), ("p_kmcuda", 5), ("p_kmcuda_lloyd", 2)])
def test_a_tolerance_stands_for_a_number_of_iterations(
    told: Any,  # noqa: ANN401
    slow: dict[str, str],
    name: str,
    iterations: int,
) -> None:
    seen = told(name, kmcuda(), stop=f"fixed:{iterations}", **slow)
    assert (seen.refused, seen.error, seen.fault) == ("", "", "")
    assert seen.result["iterations"] == iterations
    assert seen.result["validation"]["labels_wrong"] == 0
    assert seen.timed["solve"]["status"] == "ok"
    assert seen.timed["end_to_end"]["status"] == "ok"


def test_an_end_at_another_iteration_is_found(told: Any, slow: dict[str, str]) -> None:  # noqa: ANN401
    # A solve of four iterations ends one later.
    late = "changed += len(label) * (iteration == 4 and tolerance < 0.5)"
    seen = told("p_kmcuda", kmcuda(late), stop="fixed:4", **slow)
    assert "is wrong at the end of a solve" in seen.fault


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_file_location(name, PEERS / f"{name}.py")
    peer = importlib.util.module_from_spec(spec)
    sys.modules[name] = peer  # a dataclass looks there
    spec.loader.exec_module(peer)
    return peer


INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu sse2 {}\n\nprocessor\t: 1\n"


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (INTEL.format("avx avx2 avx512f amx_tile"), "SKYLAKEX"),
        (INTEL.format("avx avx2"), "HASWELL"),
        (INTEL.format("ssse3"), ""),
        (INTEL.format("avx avx2 avx512f").replace("GenuineIntel", "AuthenticAMD"), ""),
        ("", ""),
    ],
)
def test_openblas_is_told_of_later_processors(cpuinfo: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_: cpuinfo)
    for before in ("", "ZEN"):  # what the user has set stays
        monkeypatch.setattr(os, "environ", {"OPENBLAS_CORETYPE": before} if before else {})
        load("p_faiss", monkeypatch)
        assert os.environ.get("OPENBLAS_CORETYPE", "") == (before or name)


def test_counts_that_rise_have_no_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = load("p_kmcuda", monkeypatch)
    centroids = np.eye(3, dtype=np.float32)
    start = hash(frozenset(row.tobytes() for row in centroids))
    state = SimpleNamespace(n=400, centroids=centroids[::-1], ways={start: peer.Way([400, 90, 30, 40, 20], centroids)})
    assert [round(400 * peer.tolerance_for(state, m)) for m in (1, 2, 4)] == [400, 60, 25]
    assert 400 * peer.tolerance_for(state, 1) < 400
    with pytest.raises(RuntimeError, match=r"after 3 .* the next assignment changes 40 labels, an earlier one 30"):
        peer.tolerance_for(state, 3)


@pytest.mark.parametrize("name", ["p_kmcuda", "p_kmcuda_lloyd"])
def test_kmcuda_refuses_what_it_cannot_do(told: Any, name: str) -> None:  # noqa: ANN401
    assert told(name, kmcuda(), stop="exact").refused.startswith("kmcuda ends with the assignment")


def test_kmcuda_without_cupy_is_a_refusal(told: Any) -> None:  # noqa: ANN401
    modules = kmcuda() | {"cupy": "raise ImportError('no cupy here')"}
    reason = "the points are handed to kmcuda in CuPy's memory, and CuPy does not load: no cupy here"
    assert told("p_kmcuda", modules, stop="fixed:2").refused == reason


# --------------------------------------------------------------------------------------------------------- flash-kmeans

# As much of PyTorch as the peer uses, and flash-kmeans as its sources have it: |x|^2 in the points' type, distances in
# fp32 that are not negative, sums in fp32, means in the points' type.
TORCH = """
import types
import numpy as np

__version__ = "of NumPy"
cuda = types.SimpleNamespace(is_available=lambda: True, set_device=lambda number: None, synchronize=lambda: None)

class Tensor(np.ndarray):
    def split(self, size, axis=0):
        return np.split(self, range(size, self.shape[axis], size), axis)
    def mul_(self, factor):
        self *= np.float32(factor)
        return self
    def half(self):
        return self.astype(np.float16)
    def float(self):
        return self.astype(np.float32)
    def square(self):
        return self * self
    def cpu(self):
        return self
    def numpy(self):
        return np.asarray(self)

def tensor(values, device):
    return np.array(values).view(Tensor)

def cat(parts, axis):
    return np.concatenate(parts, axis)

linalg = types.SimpleNamespace(vecdot=lambda a, b: (a * b).sum(-1))
"""
FLASH = {
    "__init__": """
import numpy as np
from flash_kmeans.assign_euclid_triton import euclid_assign_triton

def batch_kmeans_Euclid(x, n_clusters, max_iters, tol, init_centroids, use_heuristic):
    assert x.dtype == init_centroids.dtype == np.float16 and tol == 0
    c = init_centroids
    squares = (x**2).sum(-1, dtype=np.float32).astype(x.dtype)
    assert np.isfinite(squares).all()
    for _ in range(max_iters):
        label = euclid_assign_triton(x, c, squares, use_heuristic)
        c = c.copy()
        for j in range(n_clusters):
            if (label[0] == j).any():
                c[0, j] = x[0, label[0] == j].mean(0, dtype=np.float32)
    return label, c, max_iters
""",
    "interface": "_HAS_TRITON_IMPL = True\n",
    "assign_euclid_triton": """
import numpy as np

def euclid_assign_triton(x, c, x_sq, use_heuristic):
    x32, c32 = x[0].astype(np.float32), c[0].astype(np.float32)
    distance = x_sq[0].astype(np.float32)[:, None] + (c32 * c32).sum(1) - 2 * (x32 @ c32.T)
    return np.maximum(distance, 0).argmin(1).astype(np.int32)[None]
""",
}


TRITON = "class OutOfResources(Exception):\n    pass\n"


def flash(before: str = "", after: str = "") -> dict[str, str]:
    text = FLASH["__init__"]
    assert before in text
    modules = FLASH | {"__init__": text.replace(before, after) if before else text}
    modules = {f"flash_kmeans/{name}": text for name, text in modules.items()}
    return {
        "torch": TORCH,
        "triton/__init__": "",
        "triton/runtime/__init__": "",
        "triton/runtime/errors": TRITON,
    } | modules


# Points as far out as images, whose |x|^2 no half holds, and as small as probabilities.
@pytest.mark.parametrize("factor", [1, 500, 0.001])
def test_halves_are_right_within_their_rounding(told: Any, tmp_path: Path, factor: float) -> None:  # noqa: ANN401
    x = (np.random.default_rng(5).normal(size=(20_000, 32)) * factor).astype(np.float32)
    np.save(tmp_path / "many.npy", x)
    np.save(tmp_path / "begin.npy", x[:50])
    files = {"points": str(tmp_path / "many.npy"), "centroids": str(tmp_path / "begin.npy")}
    seen = told("p_flash_kmeans_half", flash(), stop="fixed:4", **files)
    assert (seen.refused, seen.error, seen.fault) == ("", "", "")
    assert seen.result["validation"]["labels_wrong"] == 0
    assert seen.result["validation"]["labels_differ"] > 0  # not the nearest, and within the rounding
    assert seen.timed["solve"]["status"] == "ok"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("mean(0, dtype=np.float32)", "mean(0, dtype=np.float32) * np.float16(1.003)", "centroid"),
        ("range(max_iters)", "range(max(1, max_iters - 1))", "wrong at the end of a solve"),
    ],
)
def test_more_than_a_half_rounds_is_wrong(told: Any, before: str, after: str, words: str) -> None:  # noqa: ANN401
    assert words in told("p_flash_kmeans_half", flash(before, after), stop="fixed:4").fault


TOO_LARGE = """
    from triton.runtime.errors import OutOfResources
    if use_heuristic:
        raise OutOfResources
"""


def test_tiles_that_do_not_fit_the_gpu_are_searched_for(told: Any) -> None:  # noqa: ANN401
    modules = flash()
    name = "flash_kmeans/assign_euclid_triton"
    head = "def euclid_assign_triton(x, c, x_sq, use_heuristic):\n"
    modules[name] = modules[name].replace(head, head + TOO_LARGE)
    seen = told("p_flash_kmeans_half", modules, stop="fixed:4")
    assert (seen.refused, seen.error, seen.fault) == ("", "", "")


def test_wrong_labels_of_halves_are_found(told: Any) -> None:  # noqa: ANN401
    modules = flash()
    name = "flash_kmeans/assign_euclid_triton"
    modules[name] = modules[name].replace(" - 2 * ", " - 1.9 * ")
    assert "labels are wrong" in told("p_flash_kmeans_half", modules, stop="fixed:4").fault
