"""Convergence: how many labels still change, how the inertia falls, and what each iteration takes.

Exact variants walk the same way, so a workload is one line. Where variants differ, their range is a band and the page
says how many differ. A page per device and workload shows the time of every iteration of one solve, and what a variant
counted (distances computed, points skipped) as a share of all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plots.lib.options import Options
from plots.lib.record import DEVICES, MANY_WORKLOADS, Column, Record, Row, Rung, Workload
from plots.lib.style import (
    COLOURS,
    GREY,
    MARGIN,
    MARKERS,
    SMALL,
    TICK_ROOM,
    WIDTH,
    Page,
    coloured,
    line_style,
    log_ticks,
    shorten,
    text_width,
)

LEGEND_ROW = 0.36  # inches
LAUNCH = "below: mostly launch"
DASHES = ("-", "--", ":", "-.")  # one per counter


@dataclass(frozen=True)
class Walk:
    """What the variants recorded on one workload."""

    workload: Workload
    reassigned: dict[Rung, tuple[int, ...]]
    inertia: dict[Rung, tuple[float, ...]]

    @property
    def usual(self) -> tuple[int, ...]:
        """The way most variants went; the first of them where several are equally common."""
        return Counter(self.reassigned.values()).most_common(1)[0][0]

    @property
    def differing(self) -> list[Rung]:
        return [rung for rung, way in self.reassigned.items() if way != self.usual]

    @property
    def usual_inertia(self) -> tuple[float, ...]:
        """That of the first variant on the usual way that recorded it, else of the first that did."""
        usual = [self.inertia[r] for r, way in self.reassigned.items() if way == self.usual and r in self.inertia]
        return (usual or list(self.inertia.values()) or [()])[0]


def walks(record: Record) -> list[Walk]:
    """Of every workload with a valid row that recorded its reassignments: the longest record of each variant."""
    found = []
    for w in record.workloads.values():
        reassigned: dict[Rung, tuple[int, ...]] = {}
        inertia: dict[Rung, tuple[float, ...]] = {}
        for row in record.rows:
            if row.workload != w.name or not row.timed:
                continue
            rung = Rung(row.variant, row.device)
            if len(row.reassigned) > len(reassigned.get(rung, ())):
                reassigned[rung] = tuple(row.reassigned)
            if len(row.inertia) > len(inertia.get(rung, ())):
                inertia[rung] = tuple(row.inertia)
        if reassigned:
            found.append(Walk(w, reassigned, inertia))
    return found


def band(ways: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest value of each iteration over the variants that still ran."""
    length = max(len(way) for way in ways)
    table = np.full((len(ways), length), np.nan)
    for line, way in zip(table, ways, strict=True):
        line[: len(way)] = way
    return np.nanmin(table, axis=0), np.nanmax(table, axis=0)


def drawn_shares(reassigned: Sequence[int], n: int, floor: float) -> np.ndarray:
    """Shares of the points; none is drawn at `floor`."""
    return np.maximum(np.array(reassigned) / n, floor)


def percent_text(share: float) -> str:
    return f"{np.format_float_positional(100 * share, precision=9, trim='-')} %"


def share_scale(ax: Axes, floor: float, zero: bool, height: float) -> None:
    """A log axis of shares. It has no zero: where one is drawn, at `floor`, the tick there says 0."""
    ax.set_yscale("log")
    decades = math.log10(1 / floor)
    parts = (1, 2, 5) if decades < 2 else (1,)
    ticks = [m * 10.0**e for e in range(-math.ceil(decades), 1) for m in parts if floor <= m * 10.0**e <= 1]
    apart = decades * TICK_ROOM / height  # decades that two labels need
    shown = [tick for tick in ticks if not zero or math.log10(tick / floor) > apart]
    ax.set_yticks([floor] * zero + shown, ["0"] * zero + [percent_text(tick) for tick in shown])
    ax.minorticks_off()
    ax.set_ylabel("labels that changed (log scale)")


def scale_width(floor: float) -> float:
    """Inches that the labels of such an axis take."""
    return text_width(percent_text(10.0 ** math.ceil(math.log10(floor)))) + 0.65


def stop_rule(workload: Workload) -> tuple[str, float]:
    rule, _, value = workload.stop.partition(":")
    return rule, float(value) if value else 0.0


def agreement(members: Sequence[Walk]) -> str:
    differing = [walk for walk in members if walk.differing]
    total = len({rung.variant for walk in members for rung in walk.reassigned})
    if not differing:
        return f"All {total} variants reassign the same number of labels in every iteration." if total > 1 else ""
    parts = []
    for walk in differing[:4]:
        names = sorted({rung.variant for rung in walk.differing})
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        parts.append(f"{walk.workload.name}: {len(walk.differing)} of {len(walk.reassigned)} ({shown})")
    rest = f"; and on {len(differing) - 4} more workloads" if len(differing) > 4 else ""
    return "Variants that differ from the usual way (band: the range of all): " + "; ".join(parts) + rest + "."


def draw_family(
    record: Record, options: Options, family: str, members: Sequence[Walk], folder: Path
) -> tuple[str, str]:
    stem = f"convergence_{family}"
    name = members[0].workload.name if len(members) == 1 else f"{family}, {len(members)} workloads"
    title = f"Convergence: {name}"
    with_inertia = any(walk.inertia for walk in members)
    many = len(members) > MANY_WORKLOADS
    notes = [agreement(members)] if agreement(members) else []
    subtitle = "further down sooner is better; the run ends at the stop rule"
    columns = 2 if with_inertia else 1
    entries = 2 if many else len(members) + 2
    rows = -(-entries // 4)
    page = Page(title, subtitle, notes, options.signature(record, "convergence"), body=5)
    # A log axis has no zero: "no label changed" sits on a line of its own below one label.
    floor = 0.4 / max(walk.workload.n for walk in members)
    left, gutter, below = MARGIN + scale_width(floor), 1.5, 0.85
    above = rows * LEGEND_ROW + 0.2
    inches = (WIDTH - 0.35 - left - gutter * (columns - 1)) / columns
    bottom = page.bottom + below
    height = page.top - above - bottom
    axes = [page.axes(left + i * (inches + gutter), bottom, inches, height) for i in range(columns)]

    share_axes = axes[0]
    handles: list[Line2D] = []
    zero_shown = False
    for index, walk in enumerate(members):
        colour = COLOURS[0] if many else COLOURS[index % len(COLOURS)]
        marker = MARKERS[index % len(MARKERS)]
        style = {"color": colour, "linewidth": 1.2 if many else 2.5, "alpha": 0.5 if many else 1.0}
        if not many:
            handles.append(Line2D([], [], marker=marker, markersize=7, label=walk.workload.name, **style))
        n = walk.workload.n
        share = drawn_shares(walk.usual, n, floor)
        step = np.arange(1, len(share) + 1)
        every = max(1, len(share) // 15)
        share_axes.plot(step, share, marker="" if many else marker, markevery=every, markersize=7, **style)
        zeros = step[np.array(walk.usual) == 0]
        if zeros.size:
            zero_shown = True
            share_axes.plot(zeros, np.full(zeros.size, floor), "v", markersize=13, mfc="white", mec=colour, mew=2)
        if walk.differing:
            low, high = band([drawn_shares(way, n, floor) for way in walk.reassigned.values()])
            share_axes.fill_between(np.arange(1, len(low) + 1), low, high, color=colour, alpha=0.25, linewidth=0)
        if with_inertia and walk.usual_inertia:
            fall = np.array(walk.usual_inertia) / walk.usual_inertia[0]
            axes[1].plot(
                np.arange(1, len(fall) + 1), fall, marker="" if many else marker, markevery=every, markersize=7, **style
            )
    if many:
        handles.append(Line2D([], [], color=COLOURS[0], label=f"one line per workload ({len(members)})"))
    for rule, value in sorted({stop_rule(walk.workload) for walk in members}):
        if rule == "reassigned":
            share_axes.axhline(value, color="black", linestyle="--", linewidth=2)
            handles.append(Line2D([], [], color="black", ls="--", label=f"stop: at most {100 * value:g} % changed"))
        elif rule == "fixed":
            share_axes.axvline(value, color="black", linestyle=":", linewidth=2.5)
            handles.append(Line2D([], [], color="black", ls=":", lw=2.5, label=f"stop: after {value:.0f} iterations"))
        else:
            zero_shown = True
            handles.append(Line2D([], [], color="black", ls="-.", label="stop: no label changed (0)"))
            share_axes.axhline(floor, color="black", linestyle="-.", linewidth=2)
    least = min(float(drawn_shares(walk.usual, walk.workload.n, floor).min()) for walk in members)
    share_scale(share_axes, floor if zero_shown else least, zero_shown, height)
    for ax in axes:
        ax.set_xlabel("iteration")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        ax.set_xlim(left=0.5)
    if with_inertia:
        axes[1].set_ylabel("inertia over that of the first iteration")
    page.figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.35 / WIDTH, page.top / page.height),
        ncols=4,
        frameon=False,
        borderaxespad=0,
        labelcolor=GREY if many else "black",
    )
    page.save(folder, stem)
    return stem, title


# --------------------------------------------------------------------------------------- what each iteration takes


def solves(record: Record, device: str, workload: str) -> dict[Rung, Row]:
    """The row of each variant that recorded the time of every iteration."""
    found: dict[Rung, Row] = {}
    for row in record.rows:
        if row.device == device and row.workload == workload and row.timed and row.iteration_ms:
            found.setdefault(Rung(row.variant, device), row)
    return {rung: found[rung] for rung in record.rungs(device) if rung in found}


def share_of(name: str, counted: Sequence[int], workload: Workload) -> np.ndarray:
    """A counter over the most that there can be of it: pairs of point and centroid for distances, else points."""
    most = workload.n * workload.k if "distance" in name or max(counted) > workload.n else workload.n
    return np.asarray(counted, dtype=np.float64) / most


def draw_solves(
    record: Record, options: Options, device: str, column: Column, found: dict[Rung, Row], folder: Path,
    stem: str = "", signature: Sequence[str] = (),
) -> tuple[str, str]:  # fmt: skip
    workload = column.workloads[0]
    order = sorted(found, key=lambda rung: -sum(found[rung].iteration_ms))
    # Those that counted something have a line of their own colour before all others: their counts are drawn.
    counting = [rung for rung in order if any(found[rung].counters.values())]
    feet = [rung for rung in order if record.foot(rung.variant) == rung.variant and rung not in counting]
    shown = coloured(order, [*counting, *feet])
    counters = list(dict.fromkeys(name for row in found.values() for name, counted in row.counters.items() if counted))
    stem = stem or f"convergence_{DEVICES[device].stem}_{workload.name}"
    title = f"What each iteration takes, {DEVICES[device].title}: {workload.name}, {workload.size}"
    subtitle = "time: lower is better, each iteration of one solve timed by itself"
    if len(column.workloads) > 1:
        subtitle += f"; one of the {column.name}"
    if len(order) > len(shown):
        subtitle += "; coloured: those that count, the roots and the fastest"
    foot = signature or options.signature(record, "convergence", device, workload=workload.name)
    names = [name.replace("_", " ") for name in counters]
    entries = len(shown) + (len(counters) + 2 if counters else 0) + 2
    legend_width = min(4.5, max(text_width(text) for text in [*(rung.variant for rung in shown), *names, LAUNCH]) + 0.9)
    page = Page(title, subtitle, [], foot, body=entries * LEGEND_ROW + 1.2)
    columns = 3 if counters else 2
    floor = 0.4 / workload.n
    left, gutter, below = MARGIN + scale_width(floor), 1.25, 0.85
    inches = (WIDTH - 0.35 - left - gutter * (columns - 1) - legend_width - 0.3) / columns
    bottom = page.bottom + below
    height = page.top - 0.3 - bottom
    axes = [page.axes(left + i * (inches + gutter), bottom, inches, height) for i in range(columns)]
    handles: list[Line2D] = []
    shares: list[float] = []
    for rung in order:
        row = found[rung]
        style = line_style(shown.index(rung) if rung in shown else None)
        style |= {"markevery": max(1, len(row.iteration_ms) // 12)}
        if rung in shown:
            handles.append(Line2D([], [], label=shorten(rung.variant, legend_width - 0.7), **style))
        if row.reassigned:
            share = drawn_shares(row.reassigned, workload.n, floor)
            shares += share.tolist()
            axes[0].plot(np.arange(1, len(share) + 1), share, **style)
        axes[1].plot(np.arange(1, len(row.iteration_ms) + 1), row.iteration_ms, **style)
        for name, counted in row.counters.items():
            if counted:
                share = share_of(name, counted, workload)
                dash = {"linestyle": DASHES[counters.index(name) % len(DASHES)]}
                axes[2].plot(np.arange(1, len(share) + 1), 100 * share, **(style | dash))
    if len(order) > len(shown):
        handles.append(Line2D([], [], color="#BBBBBB", label=f"{len(order) - len(shown)} others"))
    if counters:
        handles.append(Line2D([], [], linestyle="none", label=" "))
        for index, name in enumerate(names):
            handles.append(Line2D([], [], color=GREY, lw=2.2, ls=DASHES[index % len(DASHES)], label=name))
        axes[2].set_ylabel("counted, percent of all pairs or points")
        axes[2].set_ylim(bottom=0)
    share_scale(axes[0], min(shares, default=1.0), floor in shares, height)
    axes[1].set_yscale("log")
    axes[1].set_ylabel("time of the iteration, ms (log scale)")
    limit = 10e-3 * (record.event_floor_us(device) or 0)  # ms
    if limit > axes[1].get_ylim()[0]:
        axes[1].axhline(limit, color="black", linestyle=":", linewidth=2)
        handles.append(Line2D([], [], color="black", linestyle=":", label=LAUNCH))
    low, high = axes[1].get_ylim()
    if high / low < 4:  # a decade at least: noise must not fill the page
        middle = (low * high) ** 0.5
        low, high = middle / 2, middle * 2
        axes[1].set_ylim(low, high)
    log_ticks(axes[1], "y", height)
    for ax in axes:
        ax.minorticks_off()
        ax.set_xlabel("iteration")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        ax.set_xlim(left=0.5)
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
    found = walks(record)
    if not found:
        return [], ["convergence: no valid row recorded its reassignments"]
    families: dict[str, list[Walk]] = {}
    for walk in found:
        families.setdefault(walk.workload.family, []).append(walk)
    drawn = [draw_family(record, options, family, members, folder) for family, members in families.items()]
    left_out: list[str] = []
    for device in options.devices:
        timed = 0
        for column in record.columns(record.workloads_on(device)):
            rows = solves(record, device, column.workloads[0].name)
            if rows:
                drawn.append(draw_solves(record, options, device, column, rows, folder))
                timed += 1
        if not timed and record.workloads_on(device):
            left_out.append(f"convergence ({DEVICES[device].stem}): no row has the times of single iterations")
    return drawn, left_out
