"""How many labels still change, iteration by iteration, from several first centroids of the same points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plots.figures.convergence import Walk, drawn_shares, scale_width, share_scale, walks
from plots.lib.record import Record
from plots.lib.sources import FigureSpec
from plots.lib.speedup import meant
from plots.lib.style import COLOURS, MARGIN, MARKERS, ROW, SMALL, WIDTH, Page, spread, text_width


def draw(
    record: Record, spec: FigureSpec, title: str, signature: Sequence[str], folder: Path, stem: str
) -> tuple[bool, list[str]]:
    """Draws the figure. Returns whether there was enough to draw, and what the record lacks."""
    known = {walk.workload.name: walk for walk in walks(record)}
    found: dict[str, Walk] = {}
    missing: list[str] = []
    for method in spec.methods:
        walk = next((known[w.name] for w in meant(record, method.workloads) if w.name in known), None)
        if walk:
            found[method.name] = walk
        else:
            missing.append(
                f"{record.names} has no solve from {method.name} centroids ({', '.join(method.workloads)}): "
                "build/ladder run --data POINTS.npy --init CENTROIDS.npy, the points under that name"
            )
    if len(found) < 2:
        return False, missing
    n = max(walk.workload.n for walk in found.values())
    floor = 0.4 / n
    left = MARGIN + scale_width(floor)
    labels = {name: f"{name}: {len(walk.usual)} iterations" for name, walk in found.items()}
    room = max(text_width(text) for text in labels.values()) + 0.7
    page = Page(title, "share of the points whose label changed; further down sooner is better", [], signature, body=5)
    bottom = page.bottom + 0.85
    height, inches = page.top - 0.3 - bottom, WIDTH - left - room - 0.3
    ax = page.axes(left, bottom, inches, height)
    zero = any(0 in walk.usual for walk in found.values())
    shares = {name: drawn_shares(walk.usual, walk.workload.n, floor) for name, walk in found.items()}
    longest = max(len(share) for share in shares.values())
    for index, (name, share) in enumerate(shares.items()):
        style = {"color": COLOURS[index], "marker": MARKERS[index], "markevery": max(1, len(share) // 15)}
        ax.plot(np.arange(1, len(share) + 1), share, linewidth=2.5, markersize=8, gid=f"line {name}", **style)
    least = floor if zero else min(float(share.min()) for share in shares.values())
    share_scale(ax, least, zero, height)
    ax.set_xlim(0.5, longest + 0.5)
    low, high = ax.get_ylim()

    def inch(value: float) -> float:
        return height * math.log(value / low) / math.log(high / low)

    places = spread([inch(float(share[-1])) for share in shares.values()], ROW, 0.1, height - 0.1)
    for index, ((name, share), place) in enumerate(zip(shares.items(), places, strict=True)):
        end = left + inches * (len(share) - 0.5) / longest
        name_at = left + inches + 0.45
        xs = [(end + 0.08) / WIDTH, (left + inches) / WIDTH, (name_at - 0.06) / WIDTH]
        ys = [(bottom + v) / page.height for v in (inch(float(share[-1])), inch(float(share[-1])), place)]
        page.figure.add_artist(Line2D(xs, ys, color=COLOURS[index], linewidth=1, linestyle=":"))
        page.figure.text(name_at / WIDTH, (bottom + place) / page.height, labels[name], color=COLOURS[index],
                         va="center", fontsize=SMALL, gid="name")  # fmt: skip
    ax.set_xlabel("iteration")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    page.save(folder, stem)
    return True, missing
