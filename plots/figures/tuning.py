"""Tuning: time over the values of an axis, a line for each variant and workload, with quartiles.

What was refused there is a cross at the foot of the panel. The standard value, the best point and what the card's
source reported are marked; all of them come from the record.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from plots.lib.options import Options
from plots.lib.record import DEVICES, SCOPE_TITLES, TIMES, Axis, Record, Row, Tuning, number
from plots.lib.style import (
    GREY,
    MOST_COLOURED,
    ROW,
    SMALL,
    WIDTH,
    Page,
    line_style,
    log_ticks,
    shorten,
    spread,
    text_width,
    tick,
)

Style = dict[str, Any]  # as line_style has it
CROSSES = 0.16  # inches between two rows of crosses
LOG_FROM = 8  # ratio of the largest to the smallest value from which a scale is logarithmic


@dataclass(frozen=True)
class Line:
    """One variant on one workload, along one axis."""

    tuning: Tuning
    axis: Axis
    others: dict[str, int]  # the values of the other axes
    rows: dict[int, Row]  # by the value of the axis

    @property
    def reference_ms(self) -> float:
        """Of the standard point; of the best where that has no time."""
        return self.tuning.standard_ms or self.tuning.best_ms or math.nan

    @property
    def best(self) -> int | None:
        """Where the best point stands on this line; None where the line does not lead through it."""
        point = self.tuning.best
        if not point or any(point.get(name) != value for name, value in self.others.items()):
            return None
        return point[self.axis.name]

    def ms(self, value: int) -> float:
        row = self.rows.get(value)
        return row.median_ms if row and row.timed and row.median_ms else math.nan

    @property
    def gaps(self) -> dict[int, Row]:
        return {value: row for value, row in self.rows.items() if math.isnan(self.ms(value))}


def line_of(record: Record, tuning: Tuning, axis: Axis) -> Line | None:
    """The curve through the best point; where another has more than twice its points, that one. (One axis after the
    other leaves the curve of the first axis beside the best point, where a later axis moved on.)"""
    by_others: dict[tuple[tuple[str, int], ...], dict[int, Row]] = {}
    for row in record.rows:
        where = (row.variant, row.workload, row.device, row.scope)
        if where != (tuning.variant, tuning.workload, tuning.device, tuning.scope) or row.session is not None:
            continue
        if axis.name not in row.axes:
            continue
        others = tuple(sorted((name, value) for name, value in row.axes.items() if name != axis.name))
        by_others.setdefault(others, {}).setdefault(row.axes[axis.name], row)
    if not by_others:
        return None
    through = tuning.best or tuning.standard
    wanted = tuple(sorted((name, value) for name, value in through.items() if name != axis.name))
    longest = max(by_others, key=lambda others: len(by_others[others]))
    if len(by_others[longest]) > 2 * len(by_others.get(wanted, {})):
        wanted = longest
    rows = by_others[wanted]
    return Line(tuning, axis, dict(wanted), rows) if len(rows) > 1 else None


def places(values: Sequence[int]) -> tuple[dict[int, float], bool]:
    """Where a value stands, and whether that is on a log scale: even steps where values are not all above zero."""
    if values[0] <= 0:
        return {value: float(i) for i, value in enumerate(values)}, False
    return {value: float(value) for value in values}, values[-1] / values[0] >= LOG_FROM


def value_ticks(ax: Axes, at: dict[int, float], logarithmic: bool, inches: float) -> None:
    """A label for every value that has room, powers of two first."""
    low, high = ax.get_xlim()

    def inch(value: int) -> float:
        x = at[value]
        share = math.log(x / low) / math.log(high / low) if logarithmic else (x - low) / (high - low)
        return inches * share

    taken: list[tuple[float, float]] = []
    shown = []
    for value in sorted(at, key=lambda v: (v & (v - 1) != 0 if v > 0 else False, v)):
        half = text_width(tick(value)) / 2 + 0.06
        place = (inch(value) - half, inch(value) + half)
        if all(place[1] < begin or place[0] > end for begin, end in taken):
            taken.append(place)
            shown.append(value)
    ax.set_xticks([at[v] for v in sorted(shown)], [tick(v) for v in sorted(shown)])
    ax.set_xticks([at[v] for v in at if v not in shown], minor=True)
    ax.tick_params(axis="x", which="minor", labelbottom=False)


def gap_notes(lines: Sequence[Line], labels: Sequence[str], most: int = 5) -> list[str]:
    """A sentence for each line and kind of gap, with its first reason."""
    notes = []
    for line, label in zip(lines, labels, strict=True):
        by_status: dict[str, list[int]] = {}
        for value in sorted(line.gaps):
            by_status.setdefault(line.gaps[value].status, []).append(value)
        for status, values in by_status.items():
            listed = ", ".join(str(v) for v in values) if len(values) < 4 else f"{values[0]} to {values[-1]}"
            notes.append(f"{TIMES} {label} at {listed}: {status}: {line.gaps[values[0]].reason}")
    return notes if len(notes) <= most else [*notes[: most - 1], f"{TIMES} the others: see the reasons in the record."]


def marks(ax: Axes, lines: Sequence[Line], at: dict[int, float]) -> None:
    """Vertical lines at what is standard, and at what sources reported."""
    for value in sorted({line.axis.standard for line in lines}):
        ax.axvline(at[value], color=GREY, linewidth=1.5, linestyle=":", zorder=1, gid="standard")
    for value in sorted({v for line in lines for v in line.axis.reported if v in at}):
        ax.axvline(at[value], color="black", linewidth=1.8, linestyle="--", zorder=1, gid="reported")


def draw_line(ax: Axes, line: Line, values: Sequence[int], at: dict[int, float], scale: float, style: Style) -> None:
    ys = [line.ms(value) * scale for value in values]
    xs = [at[value] for value in values]
    ax.plot(xs, ys, **style | {"marker": "", "gid": "line"})
    # Values that were measured: between two of them the line may pass over some that were not.
    ax.plot(xs, ys, **style | {"linestyle": "none", "markersize": 5})
    for value, row in line.rows.items():
        if not math.isnan(line.ms(value)) and row.q1_ms and row.q3_ms:
            ax.vlines(at[value], row.q1_ms * scale, row.q3_ms * scale, color=style["color"], linewidth=2)
    standard = line.ms(line.axis.standard) * scale
    ring = {"mfc": "none", "mec": style["color"], "mew": 2, "markersize": 18, "zorder": 4, "gid": "ring"}
    ax.plot(at[line.axis.standard], standard, "o", **ring)
    if line.best in line.rows:
        star = {"mfc": style["color"], "mec": "black", "markersize": 15, "zorder": 5, "gid": "best"}
        ax.plot(at[line.best], line.ms(line.best) * scale, "*", **star)


def finish_scale(ax: Axes, height: float, crosses: int, suffix: str = "") -> None:
    """Limits with room for the crosses at the foot, and ticks."""
    spans = [y for line in ax.lines if line.get_gid() == "line" for y in line.get_ydata() if not math.isnan(y)]
    low, high = (min(spans), max(spans)) if spans else (0.5, 2.0)
    foot = (crosses + 1) * CROSSES if crosses else 0.0
    share = max(0.0, min(0.5, foot / height))
    if high / low >= LOG_FROM:
        ax.set_yscale("log")
        margin = (high / low) ** 0.06
        low, high = low / margin, high * margin
        ax.set_ylim(low / (high / low) ** (share / (1 - share)), high)
        log_ticks(ax, "y", height, suffix)
        ax.minorticks_off()
    else:
        margin = max(0.06 * (high - low), 0.01 * high)
        low, high = low - margin, high + margin
        ax.set_ylim(low - (high - low) * share / (1 - share), high)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}{suffix}" if value >= low else "")


def verdict(line: Line) -> str:
    """The best value, or the best point where this line does not lead through it, and what it gains."""
    best, tuning = line.tuning.best, line.tuning
    if not best:
        return "no time"
    text = f"{line.axis.name} {line.best}" if line.best is not None else "best at "
    if line.best is None:
        text += ", ".join(f"{name} {value}" for name, value in best.items())
    if best == tuning.standard:
        return text + " (standard)"
    if tuning.standard_ms and tuning.best_ms:
        text += f", {number(tuning.best_ms / tuning.standard_ms)}{TIMES}"
    return text


def draw_page(
    record: Record, options: Options, device: str, scope: str, name: str, lines: Sequence[Line], stem: str, folder: Path
) -> tuple[str, str]:
    variants = list(dict.fromkeys(line.tuning.variant for line in lines))
    of_what = variants[0] if len(variants) == 1 else f"{len(variants)} variants"
    title = f"Time over {name}, {DEVICES[device].title}: {of_what}, {SCOPE_TITLES[scope]}"
    reported = sorted({v for line in lines for v in line.axis.reported})
    subtitle = "lower is better; bars: quartiles; ring: the standard value (dotted); star: the best point"
    if reported:
        subtitle += f"; dashed: best by the source, on its device ({', '.join(str(v) for v in reported)})"
    if any(line.gaps for line in lines):
        subtitle += "; crosses: no time there"
    values = sorted({v for line in lines for v in (*line.axis.values, *line.rows)})
    at, logarithmic = places(values)
    labels = []
    for line in lines:
        label = line.tuning.workload if len(variants) == 1 else f"{line.tuning.variant}, {line.tuning.workload}"
        if line.others:
            label += " (" + ", ".join(f"{n} {v}" for n, v in line.others.items()) + ")"
        labels.append(label)
    names = [f"{label}: {verdict(line)}" for line, label in zip(lines, labels, strict=True)]
    remarks = gap_notes(lines, labels)
    if any(line.tuning.best == line.tuning.standard for line in lines):
        remarks.append("(standard): no value was faster beyond what chance explains; the record has the reason.")
    foot = options.signature(record, "tuning", device, scope)
    page = Page(title, subtitle, remarks, foot, body=(len(lines) + 1) * ROW + 2.5)
    label_width = min(8.0, max(text_width(text) for text in names) + 0.5)
    names = [shorten(text, label_width - 0.45) for text in names]
    left, gutter, below = 1.35, 1.5, 0.85
    inches = (WIDTH - 0.35 - left - gutter - label_width) / 2
    bottom = page.bottom + below
    height = page.top - 0.3 - bottom
    panels = [page.axes(left + i * (inches + gutter), bottom, inches, height) for i in range(2)]
    with_gaps = [line for line in lines if line.gaps]
    styles = [line_style(i if i < MOST_COLOURED else None) for i in range(len(lines))]
    for panel, ax in enumerate(panels):
        marks(ax, lines, at)
        for line, style in zip(lines, styles, strict=True):
            measured = [value for value in values if value in line.rows]
            draw_line(ax, line, measured, at, 1 / line.reference_ms if panel else 1, style)
        if logarithmic:
            ax.set_xscale("log")
            ax.set_xlim(at[values[0]] / 1.15, at[values[-1]] * 1.15)
        else:
            reach = 0.05 * (at[values[-1]] - at[values[0]] or 1)
            ax.set_xlim(at[values[0]] - reach, at[values[-1]] + reach)
        finish_scale(ax, height, len(with_gaps), TIMES if panel else "")
        ax.minorticks_off()
        value_ticks(ax, at, logarithmic, inches)
        ax.set_xlabel(name + (" (log scale)" if logarithmic else ""))
        for row, line in enumerate(with_gaps):
            ax.plot(
                [at[value] for value in line.gaps],
                [(row + 0.7) * CROSSES / height] * len(line.gaps),
                "x",
                color=styles[lines.index(line)]["color"],
                mew=2,
                markersize=7,
                transform=ax.get_xaxis_transform(),
                gid="gap",
            )
    panels[0].set_ylabel("median time, ms" + (" (log scale)" if panels[0].get_yscale() == "log" else ""))
    panels[1].set_ylabel("time over that of the standard values")
    panels[1].axhline(1, color=GREY, linewidth=1.5, zorder=1)
    name_lines(page, panels[1], lines, names, styles, at, (left + inches + gutter, bottom, inches, height))
    page.save(folder, stem)
    return stem, title


def name_lines(
    page: Page,
    ax: Axes,
    lines: Sequence[Line],
    names: Sequence[str],
    styles: Sequence[Style],
    at: dict[int, float],
    box: tuple[float, float, float, float],
) -> None:
    """Each line's name at its right end, moved apart from the others' where they are near."""
    left, bottom, inches, height = box
    ends = []
    for line in lines:
        last = max((v for v in line.rows if not math.isnan(line.ms(v))), key=lambda v: at[v], default=None)
        end = (at[last], line.ms(last) / line.reference_ms) if last is not None else (ax.get_xlim()[1], 1.0)
        x, y = ax.transData.transform(end) / page.figure.dpi
        ends.append((float(x), float(y)))
    wanted = spread([y for _, y in ends], ROW, bottom + 0.1, bottom + height - 0.1)
    for (x, y), place, text, style in zip(ends, wanted, names, styles, strict=True):
        name_at = left + inches + 0.35
        colour = style["color"]
        page.figure.text(
            name_at / WIDTH, place / page.height, text, color=colour, va="center", fontsize=SMALL, gid="name"
        )
        xs = [(x + 0.08) / WIDTH, max(x + 0.08, left + inches) / WIDTH, (name_at - 0.06) / WIDTH]
        ys = [y / page.height, y / page.height, place / page.height]
        page.figure.add_artist(Line2D(xs, ys, color=colour, linewidth=1, linestyle=":"))


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    if not record.tuning:
        return drawn, ["tuning: no axis was swept in this record (`ladder tune` does)"]
    found: dict[tuple[str, str, str], list[Line]] = {}  # device, scope, name of the axis
    for tuning in record.tuning:
        if tuning.device not in options.devices or (options.scopes and tuning.scope not in options.scopes):
            continue
        for axis in tuning.axes:
            swept = tuning.axis(axis.name)
            line = line_of(record, tuning, axis) if swept and len(axis.values) > 1 else None
            if line and any(not math.isnan(line.ms(value)) for value in line.rows):
                found.setdefault((tuning.device, tuning.scope, axis.name), []).append(line)
            elif swept and len(axis.values) > 1:
                left_out.append(f"tuning: {tuning.variant} on {tuning.workload} has no time along {axis.name}")
    for (device, scope, name), lines in found.items():
        base = f"tuning_{DEVICES[device].stem}_{scope}_{name}"
        if len(lines) <= MOST_COLOURED:
            drawn.append(draw_page(record, options, device, scope, name, lines, base, folder))
            continue
        for variant in Counter(line.tuning.variant for line in lines):
            own = [line for line in lines if line.tuning.variant == variant]
            drawn.append(draw_page(record, options, device, scope, name, own, f"{base}_{variant}", folder))
    return drawn, left_out
