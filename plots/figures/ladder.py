"""The ladder: how much faster each rung is than the root of its tree, or than its base.

A page per device and scope with one panel per family, and a page per family of several workloads with one panel per
workload. Times of different devices have pages of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from plots.lib.options import LEAST_BARS, Options, bars, too_few
from plots.lib.record import (
    DAGGER,
    DEVICES,
    MANY_WORKLOADS,
    SCOPE_TITLES,
    SCOPES,
    TIMES,
    Gap,
    Over,
    Record,
    Rung,
    Speedup,
    Workload,
    geometric_mean,
)
from plots.lib.style import (
    BODY,
    GREY,
    LINE,
    SMALL,
    WIDTH,
    Lines,
    Notes,
    Page,
    gap_text,
    log_ticks,
    lone_remarks,
    number,
    text_width,
    times,
)

PANELS_A_PAGE = 6
GUTTER = 0.3  # inches between panels
OVER = {"root": "the root of the tree", "base": "the variant's own base"}


@dataclass(frozen=True)
class Panel:
    """One workload, or a family as the geometric mean over its workloads."""

    title: str
    workloads: tuple[Workload, ...]


@dataclass(frozen=True)
class Mark:
    """What a panel shows on the line of a rung."""

    dots: tuple[float, ...]  # speedup per workload
    value: float | None  # that of the workload, or the geometric mean over all of the panel's
    whisker: tuple[float, float] | None
    label: str
    hollow: bool  # unstable
    gap: Gap | None
    instead: str = ""  # not over what the axis says, and why
    launch_bound: bool = False  # on any workload


def scopes_of(record: Record, device: str) -> list[str]:
    """Iteration, and every scope in which a variant on this device says that its change shows."""
    shown = {record.shows[rung.variant] for rung in record.rungs(device)}
    return [scope for scope in SCOPES if scope in shown | {"iteration"}]


def mark(record: Record, rung: Rung, panel: Panel, scope: str, over: Over = "root") -> Mark:
    found = {w.name: record.speedup(rung, w.name, scope, over) for w in panel.workloads}
    good = {name: s for name, s in found.items() if isinstance(s, Speedup)}
    gaps = [s for s in found.values() if isinstance(s, Gap)]
    dots = tuple(s.value for s in good.values())
    launch_bound = any(s.launch_bound for s in good.values())
    dagger = DAGGER if launch_bound else ""
    instead = next((s.instead for s in good.values() if s.instead), "")
    if len(found) == 1 and good:
        (one,) = good.values()
        alone = one.reference == rung.variant
        label = (f"{number(one.ms)} ms = 1{TIMES}" if alone else times(one.value)) + dagger
        label += "  unstable" if one.unstable else ""
        whisker = (one.low, one.high) if one.low is not None and one.high is not None else None
        return Mark(dots, one.value, whisker, label, one.unstable, None, instead, launch_bound)
    if not good:
        reasons = {(gap.status, gap.reason) for gap in gaps}
        same = len({status for status, _ in reasons}) == 1
        more = f" ({len(found)} workloads; this is the first)" if len(reasons) > 1 else ""
        return Mark((), None, None, "", False, Gap(gaps[0].status if same else "no time", gaps[0].reason + more))
    unstable = sum(s.unstable for s in good.values())
    suffix = f"  {unstable} unstable" if unstable else ""
    if gaps:
        # A mean over fewer workloads than its neighbours' would not compare: the dots stand alone.
        kinds = sorted({gap.status for gap in gaps})
        label = f"{len(good)} of {len(found)}{dagger} ({', '.join(kinds)}){suffix}"
        return Mark(dots, None, None, label, bool(unstable), gaps[0], instead, launch_bound)
    mean = geometric_mean(dots)
    return Mark(dots, mean, None, times(mean) + dagger + suffix, bool(unstable), None, instead, launch_bound)


def full_label(m: Mark, notes: Notes) -> str:
    """The label with the numbers of its remarks."""
    remarks = (m.gap.reason if m.gap else "", m.instead)
    return m.label + "".join(f" [{notes.cite(remark)}]" for remark in remarks if remark)


def x_range(marks: Sequence[Mark], notes: Notes, inches: float) -> tuple[float, float]:
    """Limits of the log axis that leave room for every value's label."""
    ends = [(max((1.0, *m.dots, *(m.whisker or ()))), text_width(full_label(m, notes)) + 0.3) for m in marks if m.dots]
    low = min([1.0, *(min((*m.dots, *(m.whisker or ()))) for m in marks if m.dots)]) / 1.25
    high = 2.0  # noise around a lone root must not fill the page
    for value, label in ends:
        room = max(inches - label, 0.25 * inches)
        high = max(high, low * math.exp(math.log(max(value, 1.0) / low) * inches / room))
    return low, high * 1.02


def draw_panel(
    ax: Axes, marks: dict[Rung, Mark], lines: Lines, notes: Notes, limits: tuple[float, float], inches: float
) -> None:
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    log_ticks(ax, "x", inches, TIMES)
    ax.minorticks_off()
    ax.axvline(1, color=GREY, linewidth=1.5, zorder=1)
    for rung, m in marks.items():
        y, colour = lines.y[rung], lines.colour[rung]
        if not m.dots:
            assert m.gap
            ax.text(
                0.02,
                y,
                gap_text(m.gap, 0.96 * inches, notes),
                transform=ax.get_yaxis_transform(),
                va="center",
                color=GREY,
                style="italic",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
                gid="gap",
            )
            continue
        right = max((*m.dots, *(m.whisker or ()), 1.0))
        if m.value is not None:
            ax.hlines(y, 1, m.value, color=colour, linewidth=3, alpha=0.35, zorder=2)
            ax.plot(m.value, y, "o", markersize=10, color=colour, mfc="white" if m.hollow else colour, zorder=4)
        if m.whisker:
            ax.hlines(y, *m.whisker, color=colour, linewidth=2, zorder=3)
            ax.vlines(m.whisker, y - 0.22, y + 0.22, color=colour, linewidth=2, zorder=3)
        if len(m.dots) > 1 or m.value is None:
            ax.plot(m.dots, [y] * len(m.dots), "|", markersize=10, mew=2, color=colour, alpha=0.7, zorder=3)
        ax.annotate(
            full_label(m, notes),
            (right, y),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
            zorder=5,
            gid="value",
        )


def draw_page(
    record: Record,
    options: Options,
    device: str,
    scope: str,
    panels: Sequence[Panel],
    title: str,
    folder: Path,
    stem: str,
) -> list[Path]:
    names = {w.name for panel in panels for w in panel.workloads}
    rungs = [rung for rung in record.rungs(device) if any(record.row(rung, name, scope) is not None for name in names)]
    lines = Lines(record, rungs)
    notes = Notes()
    left = 0.35 + lines.label_width
    inches = (WIDTH - 0.35 - left - GUTTER * (len(panels) - 1)) / len(panels)
    marks = [{rung: mark(record, rung, panel, scope, options.over) for rung in lines.y} for panel in panels]
    for column in marks:  # the notes must be known before the page is laid out
        for m in column.values():
            if m.dots:
                full_label(m, notes)
            elif m.gap:
                gap_text(m.gap, 0.96 * inches, notes)

    single = any(len(panel.workloads) == 1 for panel in panels)
    several = any(len(panel.workloads) > 1 for panel in panels)
    legend = ["further right is better"]
    if single and several:
        legend.append("dot: median with quartiles, or geometric mean of a family (strokes: its workloads)")
    elif several:
        legend.append("dot: geometric mean of a family; strokes: its workloads")
    else:
        legend.append("dot: median; whisker: quartiles of its samples")
    if any(m.hollow for column in marks for m in column.values()):
        legend.append("hollow: unstable")
    bold = [rung for rung in rungs if record.shows[rung.variant] == scope]
    if bold and len(bold) < len(rungs):
        legend.append("bold: its idea shows here")
    above = 2 * BODY * LINE / 72 + 0.1
    below = 0.85
    foot = options.signature(record, "ladder", device, scope, over=True)
    remarks = lone_remarks(record, rungs, options.over) + notes.lines()
    if any(m.launch_bound for column in marks for m in column.values()):
        remarks.insert(0, record.launch_note(device, of_several=several))
    page = Page(title, "; ".join(legend), remarks, foot, body=lines.height() + above + below)
    limits = x_range([m for column in marks for m in column.values()], notes, inches)
    for index, panel in enumerate(panels):
        bottom = page.bottom + below
        ax = page.axes(left + index * (inches + GUTTER), bottom, inches, page.top - above - bottom)
        lines.label(ax, visible=index == 0, bold=bold)
        draw_panel(ax, marks[index], lines, notes, limits, inches)
        ax.set_title(panel.title, fontsize=SMALL if len(panels) > 3 else BODY, loc="left")
    page.figure.text(
        (left + (WIDTH - 0.35 - left) / 2) / WIDTH,
        (page.bottom + 0.12) / page.height,
        f"speedup over {OVER[options.over]}, {SCOPE_TITLES[scope]} (log scale)",
        ha="center",
        va="bottom",
        fontsize=BODY,
    )
    return page.save(folder, stem)


def family_title(members: Sequence[Workload]) -> str:
    first = members[0]
    ks = sorted({w.k for w in members})
    if len(members) == 1:
        return f"{first.name}\n{first.size}"
    k = f"K = {ks[0]}" if len(ks) == 1 else f"K = {ks[0]} … {ks[-1]}"
    return f"{first.family}: {len(members)} workloads\n{k}"


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        name = DEVICES[device].stem
        if not record.rungs(device):
            left_out.append(f"ladder ({name}): no row on {device}")
            continue
        for scope in options.scopes or scopes_of(record, device):
            families = record.families(record.workloads_on(device, [scope]))
            if not families:
                left_out.append(f"ladder ({name}, {scope}): no valid time")
                continue
            families = {
                family: members
                for family, members in families.items()
                if not too_few(record, device, bars(record, device, members, [scope]))
            }
            if not families:
                left_out.append(f"ladder ({name}, {scope}): fewer than {LEAST_BARS} bars on every family")
                continue
            what = f"Speedup over the {options.over}, {DEVICES[device].title}: {SCOPE_TITLES[scope]}"
            pages = [(what, "", [Panel(family_title(members), tuple(members)) for members in families.values()])]
            for family, members in families.items():
                if 1 < len(members) <= MANY_WORKLOADS:
                    panels = [Panel(f"{w.name}\n{w.size}", (w,)) for w in members]
                    pages.append((f"{what}, {family}", f"_{family}", panels))
            for title, suffix, panels in pages:
                for start in range(0, len(panels), PANELS_A_PAGE):
                    part = f"_{start // PANELS_A_PAGE + 1}" if start else ""
                    stem = f"ladder_{name}_{scope}{options.suffix}{suffix}{part}"
                    some = panels[start : start + PANELS_A_PAGE]
                    draw_page(record, options, device, scope, some, title, folder, stem)
                    drawn.append((stem, title))
    return drawn, left_out
