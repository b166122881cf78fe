"""Points in the plane, each in the colour of its cluster, with the centroids: from a run's dump.

Any workload of two features has this page. Clusters that touch have different colours: the neighbours of a centroid are
those that a Delaunay triangulation joins to it, that graph is planar, and six colours are enough to tell them apart.

`python -m plots.keep_points RECORD --keep WORKLOAD` writes what the page needs, a random sample of the points with
their labels, into plane/WORKLOAD.npz beside the record: small enough to be committed, where a dump and its points are
not.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.tri import Triangulation

from plots.lib import outputs
from plots.lib.arrays import read_npy
from plots.lib.dumps import beginning, cache_folder, dump_folder, solution
from plots.lib.inputs import InputError, one_line, opened
from plots.lib.options import Options
from plots.lib.record import Record, RecordError, Row, Workload
from plots.lib.style import COLOURS, MARGIN, PALE, WIDTH, Page

MOST_POINTS = 20_000  # drawn; of more a random sample
KEPT_POINTS = 5_000  # of them, where a sample is kept
SEED = 1  # of that sample
LEGEND = 0.45  # inches
LEFT = 1.3  # inches
BESIDE = 1.0  # inches between the points and the sizes of the clusters
LEAST_BESIDE = 3.5  # inches that those need
MOST_WAYS = 30  # clusters whose way from the initial centroids is drawn
MOST_STRETCH = 4  # of one axis over the other while both keep one scale


def points_file(record: Record, workload: Workload, chosen: Path | None) -> Path | None:
    """Named by hand, in the data cache, or the file of one's own that the run's command line names."""
    if chosen:
        return chosen
    for name in dict.fromkeys((workload.source, workload.family, workload.name)):
        path = cache_folder() / f"{name}.npy"
        if name and Path(name).name == name and path.is_file():
            return path
    for source in record.sources:
        words = [word for word in source.context["argv"] if word.endswith(".npy")]
        for path in (Path(word.removeprefix("--data=")) for word in words):
            if path.stem == workload.name:
                found = [p for p in (path, source.path.resolve().parent / path.name) if p.is_file()]
                if found:
                    return found[0]
    return None


def load(path: Path, workload: Workload) -> np.ndarray:
    """N x 2. Throws RecordError where the file holds something else."""
    points = read_npy(path)
    if points.shape != (workload.n, workload.d):
        raise RecordError(
            f"{path}: its shape {points.shape} is not that of {workload.name} ({workload.n}, {workload.d}); "
            "name the file that was clustered by --points."
        )
    return points


def neighbours(centroids: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of centroids that a Delaunay triangulation joins; along the line where all lie on one."""
    count = len(centroids)
    if count > 2:
        try:
            return [(int(a), int(b)) for a, b in Triangulation(centroids[:, 0], centroids[:, 1]).edges]
        except (RuntimeError, ValueError):
            pass  # on a line, or too many of them in one place
    order = np.lexsort(centroids.T)
    return [(int(a), int(b)) for a, b in pairwise(order)]


def colours(centroids: np.ndarray) -> np.ndarray:
    """An index into COLOURS per centroid; neighbours differ.

    Coloured in the order "smallest last": a planar graph always has a corner with fewer than six neighbours.
    """
    count = len(centroids)
    joined: list[set[int]] = [set() for _ in range(count)]
    for a, b in neighbours(centroids):
        joined[a].add(b)
        joined[b].add(a)
    left = [set(others) for others in joined]
    remaining = set(range(count))
    order: list[int] = []
    while remaining:
        least = min(remaining, key=lambda i: (len(left[i]), i))
        order.append(least)
        remaining.remove(least)
        for other in left[least]:
            left[other].discard(least)
    found = np.full(count, -1)
    used = np.zeros(len(COLOURS), dtype=int)
    for i in reversed(order):
        taken = {int(found[other]) for other in joined[i]}
        free = [c for c in range(len(COLOURS)) if c not in taken] or list(range(len(COLOURS)))
        found[i] = min(free, key=lambda c: (used[c], c))  # all colours about equally often
        used[found[i]] += 1
    return found


def draw_sizes(ax: Axes, sizes: np.ndarray, index: np.ndarray) -> None:
    """How many points each cluster has, the largest at the top, in the clusters' colours."""
    order = np.argsort(-sizes, kind="stable")
    ax.barh(np.arange(len(order)), sizes[order], height=0.8, color=[COLOURS[i] for i in index[order]])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_yticks([])
    ax.grid(axis="y", visible=False)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlabel("points in the cluster")
    ax.set_ylabel("clusters, largest first")


@dataclass
class Plane:
    """A solution in the plane: M of its N points, or all."""

    points: np.ndarray  # M x 2
    labels: np.ndarray  # M
    sizes: np.ndarray  # K: points of each cluster, of all N
    centroids: np.ndarray  # K x 2
    began: np.ndarray  # K x 2: the initial centroids; none: 0 x 2
    by: str  # who computed it, in words


def plane_of(workload: Workload, row: Row, dump: Path, path: Path, most: int = MOST_POINTS) -> Plane:
    """From a dump and the file of its points."""
    labels, centroids = solution(dump, workload)
    points = load(path, workload)
    shown = np.arange(workload.n)
    if workload.n > most:
        shown = np.sort(np.random.default_rng(SEED).choice(workload.n, most, replace=False))
    began = beginning(dump, workload)
    by = f"computed by {row.variant} on {row.device}"
    return Plane(
        np.asarray(points[shown], dtype=np.float64),
        labels[shown],
        np.bincount(labels, minlength=workload.k),
        centroids.astype(np.float64),
        np.empty((0, 2)) if began is None else began,
        by if row.iterations is None else f"{by}; {row.iterations} iterations",
    )


def kept_file(record: Record, workload: Workload) -> Path | None:
    """What --keep wrote beside one of the record's files."""
    paths = (source.path.parent / "plane" / f"{workload.name}.npz" for source in record.sources)
    return next((path for path in paths if path.is_file()), None)


def kept_plane(path: Path, workload: Workload) -> Plane:
    """Throws RecordError where the file is not of this workload."""
    try:
        with opened(path) as stream, np.load(stream) as file:
            plane = Plane(**{name: file[name] for name in file.files if name != "by"}, by=str(file["by"]))
    except InputError:
        raise
    except Exception as error:  # a broken archive raises zipfile, zlib, struct, OS and value errors
        why = one_line(str(error))
        raise RecordError(f"{path}: is no kept plane ({why}); keep it again by plots.keep_points.") from None
    if (
        plane.centroids.shape != (workload.k, 2)
        or plane.sizes.shape != (workload.k,)
        or plane.sizes.sum() != workload.n
    ):
        raise RecordError(f"{path}: is not of {workload.name} ({workload.size}); keep it again by plots.keep_points.")
    return plane


def dumps_of(record: Record, workload: Workload) -> list[tuple[Row, Path]]:
    """The rows of a workload that have a dump, with its folder."""
    rows = [row for row in record.rows if row.workload == workload.name and row.timed]
    return [(row, folder) for row in rows if (folder := dump_folder(row))]


def found_plane(record: Record, workload: Workload, chosen: Path | None) -> Plane | None:
    """From a dump whose points are at hand, else what was kept of one."""
    dumps = dumps_of(record, workload)
    path = points_file(record, workload, chosen)
    if dumps and path:
        return plane_of(workload, *dumps[0], path)
    kept = kept_file(record, workload)
    return kept_plane(kept, workload) if kept else None


def draw_page(
    record: Record, options: Options, workload: Workload, plane: Plane, folder: Path,
    stem: str = "", signature: Sequence[str] = (),
) -> tuple[str, str]:  # fmt: skip
    xy, label, centroids, sizes = plane.points, plane.labels, plane.centroids, plane.sizes
    index = colours(centroids)

    stem = stem or f"points_{workload.name}"
    title = f"{workload.name}: {workload.n:,} points in K = {workload.k:,} clusters"
    parts = [plane.by]
    if len(xy) < workload.n:
        parts.append(f"drawn: {len(xy):,} points, a random sample (seed {SEED})")
    if workload.k > len(COLOURS):
        parts.append("a colour serves several clusters, never two that touch")
    both = np.concatenate([xy, centroids])
    low, high = both.min(axis=0), both.max(axis=0)
    span = np.maximum(high - low, 1e-12 * np.maximum(1, np.abs(high)))
    alike = span.max() <= MOST_STRETCH * span.min()
    if not alike:
        parts.append("the axes have different scales: distances look longer along one of them")
    foot = signature or options.signature(record, "points", workload=workload.name)
    page = Page(title, "; ".join(parts), [], foot, body=6)
    below = 0.85
    bottom = page.bottom + below
    width, height = WIDTH - MARGIN - LEFT, page.top - LEGEND - bottom
    low, high = low - 0.03 * span, high + 0.03 * span
    if alike:  # one scale for both axes: as large as the page allows
        scale = min(width / (high - low)[0], height / (high - low)[1])
        width, height = (float(inches) for inches in scale * (high - low))
    ax = page.axes(LEFT, page.top - LEGEND - height, width, height)
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    area = float(np.clip(60_000 / max(1, len(xy)), 5, 60))
    ax.scatter(
        xy[:, 0],
        xy[:, 1],
        s=area,
        c=[COLOURS[i] for i in index[label]],
        alpha=0.75 if len(xy) > 2000 else 1.0,
        linewidths=0,
        rasterized=True,
        zorder=2,
        gid="points",
    )
    size = 14 if workload.k <= MOST_WAYS else 10
    marks = {"linestyle": "none", "marker": "X", "markersize": size, "mew": 1.5}
    full, empty = centroids[sizes > 0], centroids[sizes == 0]
    ax.plot(full[:, 0], full[:, 1], mfc="black", mec="white", zorder=4, gid="centroids", **marks)
    handles = [Line2D([], [], mfc="black", mec="white", label="centroid", **marks)]
    if len(empty):
        ax.plot(empty[:, 0], empty[:, 1], mfc="white", mec="black", zorder=4, gid="empty", **marks)
        handles.append(Line2D([], [], mfc="white", mec="black", label=f"centroid of no point ({len(empty)})", **marks))
    if len(plane.began) and workload.k <= MOST_WAYS:
        way = {"color": "black", "linewidth": 1.5, "marker": "o", "mfc": "white", "markersize": 8}
        for start, end in zip(plane.began, centroids, strict=True):
            ax.plot(*zip(start, end, strict=True), markevery=[0], zorder=3, gid="way", **way)
        handles.append(Line2D([], [], label="from where it began", **way))
    ax.set_xlabel("feature 0")
    ax.set_ylabel("feature 1")
    ax.grid(color=PALE)
    page.figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(LEFT / WIDTH, page.top / page.height),
        ncols=3,
        frameon=False,
        borderaxespad=0,
    )
    beside = LEFT + width + BESIDE
    if WIDTH - MARGIN - beside > LEAST_BESIDE:
        draw_sizes(page.axes(beside, bottom, WIDTH - MARGIN - beside, page.top - LEGEND - bottom), sizes, index)
    page.save(folder, stem)
    return stem, title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws a page per workload in the plane. Returns (stem, what it shows) of each, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    flat = [workload for workload in record.workloads.values() if workload.d == 2]
    for workload in flat:
        plane = found_plane(record, workload, options.points if len(flat) == 1 else None)
        if plane:
            drawn.append(draw_page(record, options, workload, plane, folder))
        elif dumps_of(record, workload):
            left_out.append(f"points ({workload.name}): its points were not found, name their file by --points")
        else:
            left_out.append(f"points ({workload.name}): no row has a dump beside the record, run with --dump")
    return drawn, left_out if flat else ["points: no workload has two features"]


def keep(record: Record, name: str) -> Path:
    """Throws RecordError where there is no dump of this workload, or its points are not at hand."""
    workload = record.workloads.get(name)
    if not workload or workload.d != 2:
        raise RecordError(f"{record.names}: has no workload '{name}' of two features.")
    dumps = dumps_of(record, workload)
    path = points_file(record, workload, None)
    if not dumps or not path:
        what = "no dump" if not dumps else "no points in datasets/cache"
        raise RecordError(f"{record.names}: {name} has {what}; run it with --dump.")
    out = record.sources[0].path.parent / "plane" / f"{name}.npz"
    outputs.need_place(out, outputs.ARCHIVE, [path])
    plane = plane_of(workload, *dumps[0], path, KEPT_POINTS)
    content = io.BytesIO()
    np.savez_compressed(content, **asdict(plane))
    outputs.write(out, content.getvalue(), outputs.ARCHIVE)
    return out
