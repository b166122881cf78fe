"""Sweeps over K: time and speedup against the number of clusters, for families of the same points with several K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D
from record import DEVICE_CLASSES, SCOPE_TITLES, TIMES, Record, Rung, Speedup, Workload
from style import COLOURS, GREY, MARKERS, SMALL, WIDTH, Page, log_ticks, shorten, text_width

MOST_COLOURED = 12  # lines that an eye can tell apart; the others are grey
LEGEND_ROW = 0.33  # inches


def sweeps(record: Record, devices: Sequence[str], scope: str) -> dict[str, list[Workload]]:
    """Families whose timed workloads have the same N and D and at least two K, in the order of K."""
    found = {}
    for family, members in record.families(record.workloads_on(devices, [scope])).items():
        if len({w.k for w in members}) == len(members) > 1 and len({(w.n, w.d) for w in members}) == 1:
            found[family] = sorted(members, key=lambda w: w.k)
    return found


def tick_labels(ks: Sequence[int]) -> list[str]:
    """A label for every K that has room for it on a log axis, the largest first."""
    labels, last = [], math.inf
    for k in reversed(ks):
        place = math.log(k / ks[0]) / math.log(ks[-1] / ks[0])
        labels.append(str(k) if last - place >= 0.1 else "")
        last = place if labels[-1] else last
    return labels[::-1]


def draw_page(
    record: Record, device_class: str, scope: str, family: str, members: Sequence[Workload], folder: Path, stem: str
) -> str:
    curves: dict[Rung, list[tuple[int, Speedup]]] = {}
    for rung in record.rungs(DEVICE_CLASSES[device_class]):
        points = [(w.k, record.speedup(rung, w.name, scope)) for w in members]
        good = [(k, s) for k, s in points if isinstance(s, Speedup)]
        if good:
            curves[rung] = good
    # Slowest first, by the time at the largest K that a variant reached: the legend's order is that of the lines.
    order = sorted(curves, key=lambda rung: (-curves[rung][-1][0], -curves[rung][-1][1].ms))
    roots = [rung for rung in order if record.root(rung.variant) == rung.variant]
    fastest = [rung for rung in reversed(order) if rung not in roots]
    coloured = order if len(order) <= MOST_COLOURED else [*roots, *fastest][:MOST_COLOURED]
    coloured = [rung for rung in order if rung in coloured]

    where = "on the GPU" if device_class == "gpu" else "CPU times (no GPU)"
    title = f"Time and speedup over K, {where}: {family}, {SCOPE_TITLES[scope]}"
    first = members[0]
    subtitle = f"N = {first.n:,}, D = {first.d}; left: lower is better; right: higher is better; a line ends where its "
    subtitle += "variant has no valid time; bars: quartiles"
    devices = {rung.device for rung in order}
    names = {rung: rung.variant + (f" ({rung.device})" if len(devices) > 1 else "") for rung in order}
    if len(order) > len(coloured):
        subtitle += "; coloured: the roots and the fastest"
    legend_width = min(4.5, max(text_width(name) for name in names.values()) + 0.9)
    page = Page(title, subtitle, [], record.footer(device_class), body=(len(coloured) + 1) * LEGEND_ROW + 1.2)
    left, gutter, below = 1.35, 1.35, 0.85
    inches = (WIDTH - 0.35 - left - gutter - legend_width - 0.3) / 2
    bottom = page.bottom + below
    height = page.top - 0.3 - bottom
    axes = [page.axes(left + i * (inches + gutter), bottom, inches, height) for i in range(2)]
    ks = [w.k for w in members]
    handles: list[Line2D] = []
    for rung in order:
        if rung in coloured:
            index = coloured.index(rung)
            style: dict[str, Any] = {
                "color": COLOURS[index % len(COLOURS)],
                "marker": MARKERS[index % len(MARKERS)],
                "linestyle": "-" if index < len(COLOURS) else "--",
                "linewidth": 2.2,
                "markersize": 8,
                "zorder": 3,
            }
            handles.append(Line2D([], [], label=shorten(names[rung], legend_width - 0.7), **style))
        else:
            style = {"color": "#BBBBBB", "linewidth": 1.2, "zorder": 2}
        # A K without a valid time breaks the line: nothing is drawn through a refusal.
        at = dict(curves[rung])
        found = [at.get(w.k) for w in members]
        ms = [s.ms if s else math.nan for s in found]
        value = [s.value if s else math.nan for s in found]
        axes[0].plot(ks, ms, **style)
        axes[1].plot(ks, value, **style)
        if rung in coloured:
            for k, s in at.items():  # s.value is the root's time over ms, and the quartiles follow suit
                root_ms = s.ms * s.value
                axes[0].vlines(k, root_ms / s.high, root_ms / s.low, color=style["color"], linewidth=2)
                axes[1].vlines(k, s.low, s.high, color=style["color"], linewidth=2)
    if len(order) > len(coloured):
        handles.append(Line2D([], [], color="#BBBBBB", label=f"{len(order) - len(coloured)} others"))
    labels = tick_labels(ks)
    for ax in axes:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.minorticks_off()
        ax.set_xticks(ks, labels)
        ax.set_xlabel("K, clusters (log scale)")
        low, high = ax.get_ylim()
        log_ticks(ax, "y", math.log10(high / low), height, TIMES if ax is axes[1] else "")
        ax.minorticks_off()
    axes[0].set_ylabel("median time, ms (log scale)")
    axes[1].set_ylabel("speedup over the root (log scale)")
    axes[1].axhline(1, color=GREY, linewidth=1.5)
    page.figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=((WIDTH - 0.35 - legend_width) / WIDTH, (page.top - 0.3) / page.height),
        frameon=False,
        borderaxespad=0,
        fontsize=SMALL,
    )
    page.save(folder, stem)
    return title


def draw(record: Record, folder: Path, scopes: Sequence[str] | None = None) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device_class, devices in DEVICE_CLASSES.items():
        for scope in scopes or ["iteration"]:
            found = sweeps(record, devices, scope)
            if not found:
                left_out.append(f"sweep ({device_class}, {scope}): no family with valid times for several K")
            for family, members in found.items():
                stem = f"sweep_{device_class}_{scope}_{family}"
                drawn.append((stem, draw_page(record, device_class, scope, family, members, folder, stem)))
    return drawn, left_out
