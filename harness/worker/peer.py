"""Runs a peer: the k-means of a library, called from one Python file (variants/peers/p_NAME.py).

    python peer.py FILE SOCKET

The C++ worker (peer.cpp) starts this program, with its end of a socket pair as file descriptor SOCKET, and asks for one
phase at a time: a JSON object a line each way. Points, labels and centroids lie in memory that both sides map, so that
a request carries none of them. What a peer's file holds is told at State and in `served` below; what its phases mean is
told in harness/contract/contract.hpp, and they mean the same here.

Nothing but the standard library is imported until a peer has agreed to run: where NumPy, the library or a GPU is
missing, the card can be read all the same, and the peer refuses with that reason.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import linecache
import mmap
import os
import platform
import shutil
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

PHASES = ("prepare", "upload", "restart", "initialise", "assign", "update", "iterate", "solve", "download")


@dataclass(frozen=True)
class Stop:
    """When a solve ends. rule: 'exact' (no label changed), 'reassigned' (at most fraction * n did), 'fixed'."""

    rule: str
    fraction: float
    iterations: int
    max_iterations: int

    @property
    def most(self) -> int:
        """The most iterations that this rule allows; with 'fixed', the number of them."""
        return min(self.iterations, self.max_iterations) if self.rule == "fixed" else self.max_iterations

    def reached(self, done: int, reassigned: int, n: int) -> bool:
        """Does a solve end after `done` iterations, the last of which changed `reassigned` of n labels?"""
        if done >= self.max_iterations:
            return True
        if self.rule == "fixed":
            return done >= self.iterations
        return reassigned <= (0 if self.rule == "exact" else self.fraction * n)


@dataclass(frozen=True)
class Shape:
    """What a peer may look at before it agrees to run: sizes, not data."""

    n: int
    k: int
    d: int
    element_bytes: int
    nnz: int  # stored entries where the points are sparse, else -1
    metric: str
    stop: Stop


@dataclass(frozen=True)
class Device:
    """Where it would run. kind: 'cpu' or 'cuda'; ordinal: the GPU's number, None on a CPU."""

    kind: str
    name: str
    ordinal: int | None
    memory_bytes: int


class State:
    """What one run of a peer holds. A peer adds attributes of its own as it likes; these are given:

    n, k, d      points, clusters, features
    dtype        numpy.float32 or numpy.float64
    points       n x d, read-only
    centroids    k x d, the initial ones: others in each timed sample, so `restart` or `solve` reads them anew
    label        n, int32: where `assign`, `iterate` and `solve` leave the labels before they return
    c            k x d: where `download` (or an earlier phase) leaves the centroids; `restart` fills it with the initial
                 ones, where a peer has no restart of its own
    chosen       k, int32: where `initialise` leaves the rows that it drew
    stop         the Stop in force; seed: of what `initialise` draws
    gpu          the GPU's number, None on a CPU
    reassigned   a peer with `solve` appends to it how many labels each iteration changed, -1 where its library does
                 not tell: one entry per iteration all the same
    counters     name -> one value per iteration

    label, c and chosen are shared memory: fill them (`s.label[:] = ...`). Work is done when its phase returns.
    """

    SHARED = ("points", "centroids", "label", "c", "chosen")

    def __init__(self, request: dict[str, Any]) -> None:
        import numpy as np

        self.n, self.k, self.d = n, k, d = request["n"], request["k"], request["d"]
        self.dtype = np.dtype(request["type"]).type
        points = request["points"]
        shape: dict[str, tuple[tuple[int, ...], Any]] = {
            "label": ((n,), np.int32),
            "chosen": ((k,), np.int32),
            "c": ((k, d), self.dtype),
            "centroids": ((k, d), self.dtype),
        }
        with Path(request["shared"]).open("r+b") as file:
            block = mmap.mmap(file.fileno(), 0)
        arrays = {
            name: np.frombuffer(block, dtype, int(np.prod(size)), request["at"][name]).reshape(size)
            for name, (size, dtype) in shape.items()
        }
        arrays["centroids"].flags.writeable = False
        arrays["points"] = np.memmap(points["file"], self.dtype, "r", points["offset"], (n, d)).view(np.ndarray)
        self.__dict__.update(arrays)
        self.seed: int = request["seed"]
        self.gpu: int | None = request["gpu"]
        self.axes: dict[str, int] = request["axes"]
        self.stop: Stop
        self.reassigned: list[int] = []
        self.counters: dict[str, list[int]] = {}

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.SHARED:
            raise AttributeError(f"s.{name} is shared memory and stays where it is: fill it, s.{name}[:] = ...")
        super().__setattr__(name, value)

    def axis(self, name: str) -> int:
        """The value of a tuning axis that the card declares."""
        if name not in self.axes:
            raise KeyError(f"axis '{name}' is not in the peer's card: declare it in 'axes'")
        return self.axes[name]


def load(path: Path) -> ModuleType:
    """The peer's file as a module. Compiled from its text each time: nothing is written beside it."""
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


def version(card: dict[str, Any]) -> str:
    """'scikit-learn 1.9.1, Python 3.11.7', without an import of the library."""
    python = f"Python {platform.python_version()}"
    library = card.get("library")
    if not library:
        return python
    # One library may come in packages of several names: faiss-cpu, faiss-gpu.
    top = library["module"].partition(".")[0]
    for package in (library["package"], *importlib.metadata.packages_distributions().get(top, ())):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{package} {importlib.metadata.version(package)}, {python}"
    return f"{library['package']} (not installed), {python}"


def python_here() -> str:
    """The interpreter as one would call it from here: reasons enter records, which outlive the paths of a machine."""
    path = Path(sys.executable)
    if shutil.which(path.name) == sys.executable:
        return path.name
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def why_not_installed(name: str, package: str) -> str:
    """Why the module `name` cannot be used; empty where it can."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name or name.startswith(f"{error.name}."):
            return f"{package} is not installed: {python_here()} -m pip install {package}"
        return f"{package} does not load in {python_here()}: {error}"
    except Exception as error:
        return f"{package} does not load in {python_here()}: {type(error).__name__}: {error}"
    return ""


class Served:
    """A peer's file: `CARD`, a dict; phases, functions of a State by their names; and, where it does not take every
    problem, `refuse(shape, device, axes)`: why, in a sentence, or ''. `release(s)` gives back what would outlive the
    State, where sessions share this process."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.module: ModuleType | None = None
        self.runs: dict[int, State] = {}

    def card(self) -> dict[str, Any]:
        self.module = load(self.file)
        card = getattr(self.module, "CARD", None)
        if not isinstance(card, dict):
            raise TypeError(f"{self.file.name} has no card: give it a dict CARD = {{'id': '{self.file.stem}', ...}}")
        phases = [name for name in PHASES if callable(getattr(self.module, name, None))]
        return {"card": card, "phases": phases, "version": version(card)}

    def refuse(self, request: dict[str, Any]) -> dict[str, Any]:
        wanted = [("numpy", "numpy")]
        if library := self.module.CARD.get("library"):
            wanted.append((library["module"], library["package"]))
        for name, package in wanted:
            if why := why_not_installed(name, package):
                return {"refused": why}
        own: Callable[..., str] | None = getattr(self.module, "refuse", None)
        if own is None:
            return {"refused": ""}
        shape = Shape(**request["shape"] | {"stop": Stop(**request["shape"]["stop"])})
        return {"refused": own(shape, Device(**request["device"]), request["axes"])}

    def phase(self, call: str, request: dict[str, Any]) -> dict[str, Any]:
        if call == "prepare":
            self.runs[request["run"]] = State(request)
        s = self.runs[request["run"]]
        s.stop = Stop(**request["stop"])
        s.seed = request["seed"]
        s.reassigned = []
        s.counters = {}
        own = getattr(self.module, call, None)
        if own:
            own(s)
        elif call == "restart":
            s.c[:] = s.centroids
        # int(): what a library counts in is often a NumPy integer.
        return {
            "reassigned": [int(count) for count in s.reassigned],
            "counters": {name: [int(count) for count in counts] for name, counts in s.counters.items()},
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        call = request["call"]
        if call == "card":
            return self.card()
        if call == "refuse":
            return self.refuse(request)
        if call == "release":
            released = self.runs.pop(request["run"], None)
            own: Callable[[State], None] | None = getattr(self.module, "release", None)
            if released and own:
                own(released)
            return {}
        return self.phase(call, request)

    def where(self, error: BaseException) -> str:
        """FILE:LINE of the peer's own line that led to the error; of the last line, where none of its lines did."""
        if isinstance(error, SyntaxError):
            return f"{self.file.name}:{error.lineno}"
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename == str(self.file)]
        frame = (own or frames)[-1]
        return f"{Path(frame.filename).name}:{frame.lineno}"


def main() -> None:
    served = Served(Path(sys.argv[1]))
    with socket.socket(fileno=int(sys.argv[2])) as link:
        pending = b""
        while True:
            while b"\n" not in pending:
                part = link.recv(1 << 16)
                if not part:
                    return  # the worker has ended
                pending += part
            line, _, pending = pending.partition(b"\n")
            try:
                reply = served.answer(json.loads(line))
            except Exception as error:
                traceback.print_exc()
                linecache.clearcache()
                last = traceback.format_exception_only(error)[-1].strip()
                reply = {"error": f"{last} ({served.where(error)})"}
            link.sendall(json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main()
    # Ends at once: threads or GPU clean-up of a library must not delay the session.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
