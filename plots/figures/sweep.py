"""Sweeps over K: time and speedup against the number of clusters, for families of the same points with several K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.lines import Line2D

from plots.lib.options import Options
from plots.lib.record import DEVICES, SCOPE_TITLES, TIMES, Record, Rung, Speedup, Workload
from plots.lib.style import (
    GREY,
    RING,
    SMALL,
    WIDTH,
    Notes,
    Page,
    coloured,
    line_style,
    log_ticks,
    lone_remarks,
    shorten,
    text_width,
)

LEGEND_ROW = 0.35  # inches


def sweeps(record: Record, device: str, scope: str) -> dict[str, list[Workload]]:
    """Families whose timed workloads have the same N and D and at least two K, in the order of K."""
    found = {}
    for family, members in record.families(record.workloads_on(device, [scope])).items():
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
    record: Record, options: Options, device: str, scope: str, family: str, members: Sequence[Workload], folder: Path
) -> tuple[str, str]:
    curves: dict[Rung, list[tuple[int, Speedup]]] = {}
    for rung in record.rungs(device):
        points = [(w.k, record.speedup(rung, w.name, scope, options.over)) for w in members]
        good = [(k, s) for k, s in points if isinstance(s, Speedup)]
        if good:
            curves[rung] = good
    # Slowest first, by the time at the largest K, as the lines end there; before them those that do not reach it.
    order = sorted(curves, key=lambda rung: (curves[rung][-1][0], -curves[rung][-1][1].ms))
    shown = coloured(order, [rung for rung in order if record.foot(rung.variant) == rung.variant])

    stem = f"sweep_{DEVICES[device].stem}_{scope}{options.suffix}_{family}"
    title = f"Time and speedup over K, {DEVICES[device].title}: {family}, {SCOPE_TITLES[scope]}"
    first = members[0]
    subtitle = f"N = {first.n:,}, D = {first.d}; left: lower is better; right: higher is better; a line ends where its "
    subtitle += "variant has no valid time; bars: quartiles"
    if len(order) > len(shown):
        subtitle += "; coloured: the roots and the fastest"
    notes = Notes()
    for points in curves.values():
        for _, s in points:
            if s.instead:
                notes.cite(s.instead)
    legend_width = min(4.5, max(text_width(rung.variant) for rung in order) + 0.9)
    foot = options.signature(record, "sweep", device, scope, over=True)
    remarks = lone_remarks(record, order, options.over) + notes.lines(3)
    if any(s.launch_bound for rung in shown for _, s in curves[rung]):
        remarks.insert(0, record.launch_note(device, "hollow:"))
    page = Page(title, subtitle, remarks, foot, body=(len(shown) + 1) * LEGEND_ROW + 1.2)
    left, gutter, below = 1.35, 1.35, 0.85
    inches = (WIDTH - 0.35 - left - gutter - legend_width - 0.3) / 2
    bottom = page.bottom + below
    height = page.top - 0.3 - bottom
    axes = [page.axes(left + i * (inches + gutter), bottom, inches, height) for i in range(2)]
    ks = [w.k for w in members]
    handles: list[Line2D] = []
    for rung in order:
        style = line_style(shown.index(rung) if rung in shown else None)
        if rung in shown:
            handles.append(Line2D([], [], label=shorten(rung.variant, legend_width - 0.7), **style))
        # A K without a valid time breaks the line: nothing is drawn through a refusal.
        at = dict(curves[rung])
        found = [at.get(w.k) for w in members]
        ms = [s.ms if s else math.nan for s in found]
        value = [s.value if s else math.nan for s in found]
        for ax, line in zip(axes, (ms, value), strict=True):
            ax.plot(ks, line, **style)
            if rung in shown:
                hollow = [v if k in at and at[k].launch_bound else math.nan for k, v in zip(ks, line, strict=True)]
                ax.plot(ks, hollow, **style | RING)
        for k, s in at.items() if rung in shown else ():
            if s.low is not None and s.high is not None:
                axes[0].vlines(k, s.reference_ms / s.high, s.reference_ms / s.low, color=style["color"], linewidth=2)
                axes[1].vlines(k, s.low, s.high, color=style["color"], linewidth=2)
    if len(order) > len(shown):
        handles.append(Line2D([], [], color="#BBBBBB", label=f"{len(order) - len(shown)} others"))
    axes[1].axhline(1, color=GREY, linewidth=1.5)
    labels = tick_labels(ks)
    for ax in axes:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.minorticks_off()
        ax.set_xticks(ks, labels)
        ax.set_xlabel("K, clusters (log scale)")
        log_ticks(ax, "y", height, TIMES if ax is axes[1] else "")
        ax.minorticks_off()
    axes[0].set_ylabel("median time, ms (log scale)")
    axes[1].set_ylabel(f"speedup over the {options.over} (log scale)")
    page.figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=((WIDTH - 0.35 - legend_width) / WIDTH, (page.top - 0.3) / page.height),
        frameon=False,
        borderaxespad=0,
        fontsize=SMALL,
    )
    page.save(folder, stem)
    return stem, title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        for scope in options.scopes or ["iteration"]:
            found = sweeps(record, device, scope)
            if not found:
                left_out.append(f"sweep ({DEVICES[device].stem}, {scope}): no family with valid times for several K")
            for family, members in found.items():
                drawn.append(draw_page(record, options, device, scope, family, members, folder))
    return drawn, left_out
