"""The photograph itself: beside the original, the same picture in K colours, rebuilt from a run's dump.

A photograph is a workload whose data's sidecar in the data cache has an "image" entry with height and width. The
pixels of the original are the points; those of the others are the centroids of the dumped labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from plots.lib.arrays import read_npy
from plots.lib.dumps import cache_folder, dump_folder, solution
from plots.lib.options import Options
from plots.lib.record import Record, RecordError, Row, Workload, read_json
from plots.lib.style import BODY, LINE, WIDTH, Page

GUTTER = 0.3  # inches between pictures


def sidecar(workload: Workload, cache: Path) -> tuple[Path, int, int] | None:
    """The points' file with height and width of the image, or None where the workload's data is no image."""
    for name in dict.fromkeys((workload.source, workload.family, workload.name)):
        path = cache / f"{name}.json"
        if not name or Path(name).name != name or not path.is_file():
            continue
        image = read_json(path).get("image")
        if image:
            height, width = int(image["height"]), int(image["width"])
            if height * width != workload.n or workload.d != 3:
                raise RecordError(
                    f"{path}: an image of {height} x {width} pixels does not fit the {workload.n} x {workload.d} "
                    f"points of {workload.name}; convert the data again."
                )
            return path.with_suffix(".npy"), height, width
    return None


def pixels(points: np.ndarray, height: int, width: int, white: float) -> np.ndarray:
    """Height x width x 3, 0 to 1, of points whose white is `white`."""
    return np.clip(np.asarray(points, dtype=np.float64) / white, 0, 1).reshape(height, width, 3)


def draw_page(
    record: Record,
    options: Options,
    members: Sequence[tuple[Workload, Row, Path]],
    image: tuple[Path, int, int],
    folder: Path,
    stem: str,
) -> str:
    points_file, height, width = image
    points = read_npy(points_file)
    white = 255.0 if points.max() > 1 else 1.0
    pictures = [(f"original: {len(np.unique(points, axis=0)):,} colours", pixels(points, height, width, white))]
    for workload, row, dump in members:
        used = f"K = {workload.k:,} colours"
        if row.iterations is not None:
            used += f", {row.iterations} iterations"
        labels, centroids = solution(dump, workload)
        pictures.append((used, pixels(centroids[labels], height, width, white)))
    makers = sorted({f"{row.variant} on {row.device}" for _, row, _ in members})
    title = f"{members[0][0].family}: the picture in K colours"
    subtitle = f"every pixel takes the colour of its centroid; computed by {', '.join(makers)}"
    columns = 1 if len(pictures) == 1 else 2 if len(pictures) <= 4 else 3
    rows = -(-len(pictures) // columns)
    caption = BODY * LINE / 72 + 0.1
    page = Page(title, subtitle, [], options.signature(record, "photo"), body=0)
    room = page.top - page.bottom - 0.1
    w = (WIDTH - 0.7 - GUTTER * (columns - 1)) / columns
    h = room / rows - caption
    w = min(w, h * width / height)
    h = w * height / width
    start = (WIDTH - columns * w - (columns - 1) * GUTTER) / 2
    top = page.top - (room - rows * (h + caption)) / 2
    for index, (name, picture) in enumerate(pictures):
        column, line = index % columns, index // columns
        ax = page.axes(start + column * (w + GUTTER), top - (line + 1) * (h + caption), w, h)
        ax.imshow(picture, interpolation="nearest", aspect="auto")
        ax.set_axis_off()
        ax.set_title(name, fontsize=BODY, loc="left", pad=5)
    page.save(folder, stem)
    return title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws a page per photograph. Returns (stem, what it shows) for each page, and why others were left out."""
    cache = cache_folder()
    families: dict[str, list[tuple[Workload, tuple[Path, int, int]]]] = {}
    for workload in record.workloads.values():
        image = sidecar(workload, cache)
        if image:
            families.setdefault(workload.family, []).append((workload, image))
    if not families:
        return [], [f"photo: no workload of this record has an image in the data cache {cache}"]
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for family, members in families.items():
        points_file = members[0][1][0]
        if not points_file.is_file():
            left_out.append(f"photo ({family}): {points_file} is missing, convert the data again")
            continue
        dumps: dict[str, list[tuple[Row, Path]]] = {}
        for workload, _ in members:
            for row in record.rows:
                found = dump_folder(row) if row.workload == workload.name and row.timed else None
                if found:
                    dumps.setdefault(workload.name, []).append((row, found))
        if not dumps:
            left_out.append(f"photo ({family}): no row has a dump beside the record, run with --dump")
            continue
        # One variant for all pictures where one has them all.
        pictures_by = Counter(maker for found in dumps.values() for maker in {(r.variant, r.device) for r, _ in found})
        chosen = []
        for workload, _ in sorted(members, key=lambda member: member[0].k):
            if workload.name in dumps:
                row, path = max(dumps[workload.name], key=lambda found: pictures_by[found[0].variant, found[0].device])
                chosen.append((workload, row, path))
            else:
                left_out.append(f"photo ({workload.name}): no row has a dump beside the record, run with --dump")
        stem = f"photo_{family}"
        drawn.append((stem, draw_page(record, options, chosen, members[0][1], folder, stem)))
    return drawn, left_out
