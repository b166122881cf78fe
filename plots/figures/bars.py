"""Panels side by side, a line per method: the source's number, ours, memory, counters. Log scale, or percent from 0."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from plots.lib.record import DEVICES, TIMES, Record, Speedup, geometric_mean, number
from plots.lib.sources import FigureSpec, Method, duration, missing_rows
from plots.lib.speedup import meant
from plots.lib.style import BODY, COLOURS, GREY, LINE, SMALL, WIDTH, Page, log_ticks, text_width, wrap

GUTTER = 0.35  # inches between panels
Values = dict[Method, float]


def text_of(value: float, unit: str, stated: bool = False) -> str:
    """`stated`: by the source, so that no digit of it is lost."""
    if unit == "s":
        return duration(value)
    return f"{f'{value:,.9g}' if stated else number(value)} {unit}".strip()


def measured(record: Record, panel: dict[str, Any], methods: Sequence[Method]) -> tuple[Values, int]:
    """The mean over the workloads that every method with a time has a time on, and how many these are."""
    workloads = meant(record, panel["workloads"])
    found: dict[Method, dict[str, float]] = {}
    for method in methods:
        rung = method.here(record)
        for w in workloads if rung else ():
            row = record.row(rung, w.name, panel["scope"])  # type: ignore[arg-type]
            value = getattr(row, panel["value"], None) if row and row.timed else None
            if value:
                found.setdefault(method, {})[w.name] = value * panel.get("scale", 1)
    common = [w.name for w in workloads if found and all(w.name in values for values in found.values())]
    if not common:
        return {}, 0
    return {method: fmean(values[name] for name in common) for method, values in found.items()}, len(common)


def gains(record: Record, panel: dict[str, Any], methods: Sequence[Method]) -> Values:
    """Of each method's rung over its own base: geometric mean over the workloads where both have a time."""
    found: Values = {}
    for method in methods:
        rung = method.here(record)
        if not rung or rung.variant not in record.bases:
            continue
        base = record.bases[rung.variant]
        values = [
            s.value
            for w in meant(record, panel["workloads"])
            if isinstance(s := record.speedup(rung, w.name, panel["scope"], "base"), Speedup) and s.reference == base
        ]
        if base and values:
            found[method] = geometric_mean(values)
    return found


def draw_panel(
    ax: Axes, values: Values, methods: Sequence[Method], unit: str, colour: str, steps: bool, inches: float,
    other: Values, stated: bool, over_base: Values | None = None,
) -> None:  # fmt: skip
    """`other`: what the source states of the same quantity; `over_base`: the gain of each over its own base, in place
    of that over the line above."""
    labels: dict[Method, str] = {}
    before = None
    for method in methods:
        if method in values:
            labels[method] = text_of(values[method], unit, stated)
            gain = before / values[method] if before else None
            if over_base is not None:
                gain = over_base.get(method)
            if steps and gain:
                labels[method] += f"   {number(gain)}{TIMES}"
            before = values[method]
        if method in other:
            labels[method] = labels.get(method, "") + f"   source {text_of(other[method], unit, stated=True)}"
    every = [*values.values(), *other.values()]
    room = max(text_width(text) for text in labels.values()) + 0.3
    part = max(inches - room, 0.25 * inches) / inches
    linear = unit == "%"
    if linear:
        low, high = 0.0, 100 / part  # of the whole: what is little looks little
        ax.set_xlim(low, high)
        ax.set_xticks([0, 25, 50, 75, 100])
    else:
        ax.set_xscale("log")
        low = min(every) / 1.6
        high = max(low * (max(every) / low) ** (1 / part), low * 4)
        ax.set_xlim(low, high)
        log_ticks(ax, "x", inches)
        ax.minorticks_off()
    for y, method in enumerate(methods):
        if method not in labels:
            absent = "not stated" if stated else "not in this record"
            ax.text(0.02, y, absent, transform=ax.get_yaxis_transform(), va="center", color=GREY,
                    style="italic", gid="gap")  # fmt: skip
            continue
        end = max(v for v in (values.get(method), other.get(method)) if v is not None)
        if method in values:
            ax.hlines(y, low, values[method], color=colour, linewidth=3, alpha=0.4, zorder=2)
            ax.plot(values[method], y, "o", markersize=12, color=colour, zorder=3)
        if method in other:
            ax.plot(other[method], y, "D", markersize=11, mfc=COLOURS[5], mec="black", mew=1.5, zorder=4)
        away = 16 if method in other else 10  # points: right of the larger mark
        ax.annotate(labels[method], (end, y), xytext=(away, 0), textcoords="offset points", va="center", gid="value")


def draw(
    record: Record,
    spec: FigureSpec,
    title: str,
    signature: Sequence[str],
    folder: Path,
    stem: str,
    counted: Sequence[tuple[dict[str, Any], Values]] | None = None,
) -> tuple[bool, list[str]]:
    """Draws the figure; `counted`: panels whose values come from elsewhere. Returns whether there was enough to draw
    (a number of ours, not the source's alone), and what the record lacks."""
    missing: list[str] = []
    panels: list[tuple[dict[str, Any], Values, str]] = []
    over_base: dict[int, Values] = {}  # by the place of the panel
    ours = 0
    if counted is not None:
        panels = [(panel, values, COLOURS[0]) for panel, values in counted if values]
        ours = len(panels)
    for panel in spec.panels if counted is None else ():
        if "value" not in panel:
            values = {m: m.stated[panel["source"]] for m in spec.methods if panel["source"] in m.stated}
            panels.append((panel, values, COLOURS[5]))
            continue
        values, count = measured(record, panel, spec.methods)
        lacking = [m.rung for m in spec.methods if m not in values]
        devices = {rung.device for m in spec.methods if m in values and (rung := m.here(record))}
        if lacking and panel["value"] == "median_ms":
            missing.append(missing_rows(record, lacking, tuple(panel["workloads"]), panel["scope"]))
        if values:
            ours += 1
            many = f" ({count} of them)" if len(meant(record, panel["workloads"])) > 1 else ""
            where = " and ".join(DEVICES[device].heading.split(" ")[0] for device in sorted(devices))
            if spec.steps and panel["value"] == "median_ms":
                over_base[len(panels)] = gains(record, panel, spec.methods)
            panels.append((panel | {"title": f"{panel['title']}{many}, {where}"}, values, COLOURS[0]))
    missing = list(dict.fromkeys(missing))
    if not ours:
        return False, missing
    names = max(text_width(method.name) for method in spec.methods) + 0.3
    left = 0.35 + names
    inches = (WIDTH - 0.35 - left - GUTTER * (len(panels) - 1)) / len(panels)
    heads = [wrap(panel["title"], inches - 0.1, BODY) for panel, _, _ in panels]
    above = max(len(head) for head in heads) * BODY * LINE / 72 + 0.1
    percents = panels[0][0].get("unit") == "%"
    subtitle = "percent of what the device can do" if percents else "further left is better"
    if spec.steps:
        subtitle += f"; {TIMES}: gain over the line above"
        subtitle += ", of ours over each rung's own base" if over_base else ""
    if any("metric" in panel and "source" in panel for panel, _, _ in panels):
        subtitle += "; yellow diamond: the source's number on its own hardware; blue: ours"
    elif any("source" in panel and "value" not in panel for panel, _, _ in panels):
        subtitle += "; yellow: the source's numbers on its own hardware; blue: ours"
    remarks = [spec.note] if spec.note else []
    page = Page(title, subtitle, remarks, signature, body=len(spec.methods) * 0.5 + above + 1.05)
    bottom = page.bottom + 0.85
    height = min(page.top - above - bottom, 1.7 * len(spec.methods))
    for index, (panel, values, colour) in enumerate(panels):
        ax = page.axes(left + index * (inches + GUTTER), page.top - above - height, inches, height)
        other: Values = {}
        unit = panel.get("unit", "")
        if "metric" in panel and "source" in panel:
            other = {m: m.stated[panel["source"]] for m in spec.methods if panel["source"] in m.stated}
        stated = "value" not in panel and counted is None
        draw_panel(ax, values, spec.methods, unit, colour, spec.steps, inches, other, stated, over_base.get(index))
        axis = "percent" if unit == "%" else f"{unit} (log scale)".strip()
        ax.set_xlabel("seconds (log scale)" if unit == "s" else axis)
        ax.set_ylim(len(spec.methods) - 0.4, -0.6)
        ax.set_yticks(range(len(spec.methods)), [m.name if index == 0 else "" for m in spec.methods])
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        for above_it, line in enumerate(reversed(heads[index])):
            ax.figure.text(
                (left + index * (inches + GUTTER)) / WIDTH,
                (page.top - above + 0.08 + above_it * BODY * LINE / 72) / page.height,
                line,
                fontsize=BODY,
                va="bottom",
            )
        for label in ax.get_yticklabels():
            label.set_fontsize(SMALL)
    page.save(folder, stem)
    return True, missing


def patch(colour: str, text: str) -> Patch:
    return Patch(color=colour, label=text)
