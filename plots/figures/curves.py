"""Curves of a source's methods over something of the workloads: clusters, points per cluster, zeros, bytes, files.

Each line carries its name at its end; bars are quartiles; a line breaks where there is no valid time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plots.figures.per_workload import common_beginning, zeros
from plots.lib.record import SCOPE_TITLES, TIMES, Record, Row, Rung, Workload
from plots.lib.sources import FigureSpec, missing_rows
from plots.lib.speedup import meant
from plots.lib.style import (
    COLOURS,
    GREY,
    MARKERS,
    ROW,
    SMALL,
    WIDTH,
    Notes,
    Page,
    log_ticks,
    shorten,
    spread,
    text_width,
)

LEFT, BELOW, LEAD = 1.35, 0.95, 0.45  # inches; the last: between the axes and the names
FASTEST = "fastest rung"
ITEM_BYTES = {"f32": 4, "f64": 8}


@dataclass
class Curve:
    name: str
    rows: list[Row | None]  # one per place on the x axis
    copied: list[float] = field(default_factory=list)  # bytes of the points at each place


@dataclass
class Line:
    """What a panel draws."""

    name: str
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Across:
    label: str
    value: Callable[[Workload, Sequence[Row | None]], float | None]
    log: bool = True
    scattered: bool = False


def copied_bytes(workload: Workload) -> float:
    """Of the points as a rung copies them that takes dense rows: N x D values, zeros included.

    A row's own `bytes` are the least that any method needs, of sparse points far fewer.
    """
    return float(workload.n) * workload.d * ITEM_BYTES.get(workload.type, 4)


ACROSS = {
    "k": Across("K, clusters (log scale)", lambda w, _: w.k),
    "points_per_cluster": Across("points per cluster (log scale)", lambda w, _: w.n / w.k),
    "zeros": Across(
        "zeros, percent of the coordinates", lambda w, _: None if w.nonzeros is None else zeros(w), False, True
    ),
    "bytes": Across("bytes copied (log scale)", lambda w, _: copied_bytes(w)),
    "file": Across("file", lambda w, _: 0.0, False),
}


def valid(record: Record, rung: Rung, workload: Workload, scope: str) -> Row | None:
    row = record.row(rung, workload.name, scope)
    return row if row and row.timed and row.median_ms else None


def fastest(record: Record, workloads: Sequence[Workload], scope: str) -> Curve | None:
    """Of every rung on a GPU, libraries left out, the fastest at each place."""
    found: list[Row | None] = []
    for w in workloads:
        rungs = [rung for rung in record.rungs("cuda") if not record.lone(rung.variant)]
        rows = [row for rung in rungs if (row := valid(record, rung, w, scope))]
        found.append(min(rows, key=lambda row: row.median_ms or math.inf, default=None))
    names = list(dict.fromkeys(row.variant for row in found if row))
    if not names:
        return None
    return Curve(f"{FASTEST}: {names[0]}" if len(names) == 1 else f"{FASTEST} at each point", found)


def line_of(panel: dict[str, Any], curve: Curve, curves: Sequence[Curve]) -> Line | None:
    """What the panel shows of a curve; None where it is not in it."""
    kind = panel["y"]
    nan = [math.nan] * len(curve.rows)
    line = Line(curve.name, list(nan), list(nan), list(nan))
    if kind == "speedup":
        under = next((c for c in curves if c.name == panel["over"]), None)
    elif kind == "gain":
        if curve.name == panel["of"]:
            return None
        under = next((c for c in curves if c.name == panel["of"]), None)
    else:
        under = curve
    if under is None:
        return None
    for i, (row, other) in enumerate(zip(curve.rows, under.rows, strict=True)):
        if not row or not other or not row.median_ms or not other.median_ms:
            continue
        if kind == "ms":
            line.y[i], line.low[i], line.high[i] = row.median_ms, row.q1_ms or math.nan, row.q3_ms or math.nan
        elif kind == "gbs":
            line.y[i] = curve.copied[i] / row.median_ms * 1e-6
            line.low[i] = curve.copied[i] / (row.q3_ms or math.nan) * 1e-6
            line.high[i] = curve.copied[i] / (row.q1_ms or math.nan) * 1e-6
        else:
            mine, base = (other, row) if kind == "gain" else (row, other)
            assert mine.median_ms and base.median_ms
            line.y[i] = base.median_ms / mine.median_ms
            line.low[i] = base.median_ms / (mine.q3_ms or math.nan)
            line.high[i] = base.median_ms / (mine.q1_ms or math.nan)
    return None if all(math.isnan(value) for value in line.y) else line


Y_LABELS = {"ms": "median time, ms (log scale)", "gbs": "throughput, GB/s (log scale)"}


def y_label(panel: dict[str, Any]) -> str:
    if panel["y"] == "speedup":
        return f"speedup over {panel['over']} (log scale)"
    return Y_LABELS.get(panel["y"], f"speedup of {panel.get('of', '')} (log scale)")


def levels_of(panel: dict[str, Any]) -> list[tuple[float, str]]:
    found = [(float(value), str(name)) for value, name in panel.get("levels", [])]
    if "level" in panel:
        found.append((float(panel["level"]), panel["level_name"]))
    return found


def style_of(index: int, name: str) -> dict[str, Any]:
    colour = "black" if name.startswith(FASTEST) else COLOURS[index % len(COLOURS)]
    marker = MARKERS[index % len(MARKERS)]
    dash = ":" if name.startswith(FASTEST) else "-" if index < len(COLOURS) else "--"
    return {"color": colour, "marker": marker, "linestyle": dash, "linewidth": 2.4, "markersize": 9, "zorder": 3}


def draw_panel(
    page: Page, ax: Axes, box: tuple[float, float, float, float], panel: dict[str, Any], lines: Sequence[Line],
    xs: Sequence[float], styles: dict[str, dict[str, Any]], across: Across, label_room: float,
) -> None:  # fmt: skip
    left, bottom, inches, height = box
    ax.set_yscale("log")
    if across.log:
        ax.set_xscale("log")
    levels = levels_of(panel)
    values = [v for line in lines for v in (*line.y, *line.low, *line.high) if not math.isnan(v)]
    values += [value for value, _ in levels]
    low, high = min(values) / 1.3, max(values) * 1.3
    if panel["y"] in ("speedup", "gain"):
        low, high = min(low, 0.8), max(high, 1.25)
        ax.axhline(1, color=GREY, linewidth=1.5, zorder=1)
    if high / low < 4:
        middle = (low * high) ** 0.5
        low, high = middle / 2, middle * 2
    ax.set_ylim(low, high)
    if across.log:
        ax.set_xlim(min(xs) / 1.12, max(xs) * 1.12)
    else:
        span = max(max(xs) - min(xs), 1.0)
        ax.set_xlim(min(xs) - 0.03 * span, max(xs) + 0.03 * span)
    for value, _ in levels:
        ax.axhline(value, color="black", linewidth=1.6, linestyle="--", zorder=2, gid="level")
    order = sorted(range(len(xs)), key=lambda i: xs[i])
    for line in lines:
        style = styles[line.name]
        if across.scattered:  # places that are no series
            style = style | {"linestyle": "none"}
        ax.plot([xs[i] for i in order], [line.y[i] for i in order], gid=f"line {line.name}", **style)
        for i in order:
            if not math.isnan(line.low[i]) and not math.isnan(line.high[i]):
                ax.vlines(xs[i], line.low[i], line.high[i], color=style["color"], linewidth=2, zorder=3)

    def inch(value: float) -> float:
        return height * math.log(value / low) / math.log(high / low)

    def along(x: float) -> float:
        start, end = ax.get_xlim()
        part = math.log(x / start) / math.log(end / start) if across.log else (x - start) / (end - start)
        return inches * part

    ends = []  # name, colour, inches of its end
    for line in lines:
        last = max((i for i in order if not math.isnan(line.y[i])), key=lambda i: order.index(i))
        ends.append((line.name, styles[line.name]["color"], along(xs[last]), inch(line.y[last])))
    ends += [(name, "black", inches, inch(value)) for value, name in levels]
    places = spread([end[3] for end in ends], ROW, 0.1, height - 0.1)
    for (name, colour, x, y), place in zip(ends, places, strict=True):
        name_at = left + inches + LEAD
        line_x = [(left + x + 0.08) / WIDTH, (left + inches) / WIDTH, (name_at - 0.06) / WIDTH]
        line_y = [(bottom + v) / page.height for v in (y, y, place)]
        page.figure.add_artist(Line2D(line_x, line_y, color=colour, linewidth=1, linestyle=":"))
        words = shorten(name, label_room - LEAD)
        style = {"color": colour, "va": "center", "fontsize": SMALL, "gid": "name"}
        page.figure.text(name_at / WIDTH, (bottom + place) / page.height, words, **style)
    log_ticks(ax, "y", height, TIMES if panel["y"] in ("speedup", "gain") else "")
    ax.set_ylabel(y_label(panel))
    ax.set_xlabel(across.label)


def x_ticks(ax: Axes, spec: FigureSpec, xs: Sequence[float], workloads: Sequence[Workload], inches: float) -> None:
    across = ACROSS[spec.x]
    if spec.x == "file":
        prefix = common_beginning([w.name for w in workloads])
        with_zeros = all(w.nonzeros is not None for w in workloads)
        every = max(1, math.ceil(0.5 * len(workloads) / inches))
        names = [w.name.removeprefix(prefix) + (f"\n{zeros(w):.0f}" if with_zeros else "") for w in workloads]
        ax.set_xticks(range(0, len(workloads), every), names[::every])
        ax.set_xlabel(f"file {prefix}…" + (", and its percent of zeros" if with_zeros else ""))
    elif across.log and spec.x in ("k", "points_per_cluster"):
        wanted = sorted(set(xs))
        kept: list[float] = []
        for x in reversed(wanted):  # those that have room, the largest first
            room = 0.12 + text_width(f"{x:,.12g}")
            per = inches / math.log(max(wanted) / min(wanted)) if max(wanted) > min(wanted) else inches
            if not kept or math.log(kept[-1] / x) * per > room:
                kept.append(x)
        ax.set_xticks(kept, [f"{x:,.12g}" for x in kept])
        ax.minorticks_off()
    elif across.log:
        log_ticks(ax, "x", inches)
        ax.minorticks_off()
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8))


def draw(
    record: Record, spec: FigureSpec, title: str, signature: Sequence[str], folder: Path, stem: str
) -> tuple[bool, list[str]]:
    """Draws the figure. Returns whether there was enough to draw, and what the record lacks."""
    across = ACROSS[spec.x]
    workloads = sorted(meant(record, spec.workloads), key=lambda w: (zeros(w) if w.nonzeros is not None else 0, w.name))
    curves: list[Curve] = []
    lacking: list[str] = []
    missing: list[str] = []
    notes = Notes()
    for method in spec.methods:
        rung = method.here(record)
        rows = [valid(record, rung, w, spec.scope) if rung else None for w in workloads]
        if any(rows):
            curves.append(Curve(method.name, rows))
            refused = [
                found.reason
                for w in workloads
                if rung and (found := record.row(rung, w.name, spec.scope)) and found.status == "refused"
            ]
            if refused and not all(rows):
                notes.cite(f"{method.name} is missing where it refused: {refused[0]}")
        else:
            lacking.append(method.rung)
    if lacking:
        missing.append(missing_rows(record, lacking, spec.workloads, spec.scope))
    if spec.fastest and (best := fastest(record, workloads, spec.scope)):
        curves.append(best)
    places = [across.value(w, [c.rows[i] for c in curves]) for i, w in enumerate(workloads)]
    kept = [i for i, x in enumerate(places) if x is not None and any(c.rows[i] for c in curves)]
    if spec.x == "bytes":  # workloads of one size say the same
        kept = [i for n, i in enumerate(kept) if places[i] not in [places[j] for j in kept[:n]]]
    if workloads and not any(x is not None for x in places) and curves:
        missing.append(f"{record.names} does not state {across.label.split(' (')[0]} for {', '.join(spec.workloads)}")
    xs = [x for i in kept if (x := places[i]) is not None]
    if spec.x == "file":  # those that have times, side by side
        xs = [float(place) for place in range(len(kept))]
    copied = [copied_bytes(workloads[i]) for i in kept]
    curves = [Curve(c.name, [c.rows[i] for i in kept], copied) for c in curves]
    shown = [(panel, [line for c in curves if (line := line_of(panel, c, curves))]) for panel in spec.panels]
    least = 1 if spec.panels and spec.panels[0]["y"] in ("gain", "speedup") else 2
    shown = [(panel, lines) for panel, lines in shown if lines]
    if not shown or max(len(lines) for _, lines in shown) < least:
        return False, missing
    styles = {c.name: style_of(i, c.name) for i, c in enumerate(curves)}
    subtitle = f"{SCOPE_TITLES[spec.scope]}; medians, bars: quartiles; dashed: the source's own number"
    if not any(levels_of(panel) for panel in spec.panels):
        subtitle = f"{SCOPE_TITLES[spec.scope]}; medians, bars: quartiles; a line ends where there is no valid time"
    words = [line.name for _, lines in shown for line in lines]
    words += [name for panel, _ in shown for _, name in levels_of(panel)]
    label_room = min(4.6 if len(shown) == 1 else 3.4, max(text_width(word) for word in words) + LEAD + 0.1)
    entries = max(len(lines) + len(levels_of(panel)) for panel, lines in shown)
    page = Page(title, subtitle, [*notes.lines(4), *([spec.note] if spec.note else [])], signature,
                body=(entries + 1) * ROW + 1.6)  # fmt: skip
    bottom = page.bottom + BELOW + (0.25 if spec.x == "file" else 0)
    height = page.top - 0.3 - bottom
    each = (WIDTH - 0.35) / len(shown)
    inches = each - LEFT - label_room
    for index, (panel, lines) in enumerate(shown):
        left = index * each + LEFT
        ax = page.axes(left, bottom, inches, height)
        draw_panel(page, ax, (left, bottom, inches, height), panel, lines, xs, styles, across, label_room)
        x_ticks(ax, spec, xs, [workloads[i] for i in kept], inches)
        ax.minorticks_off()
    page.save(folder, stem)
    return True, missing
