"""Where the time goes: the parts of one iteration and of one run, stacked, in plain milliseconds.

A page per device and workload; a family of many workloads gets one page with the mean over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from plots.lib.options import LEAST_BARS, Options, bars, too_few
from plots.lib.record import DAGGER, DEVICES, MANY_WORKLOADS, SCOPES, Gap, Record, Rung, Workload
from plots.lib.style import (
    BODY,
    COLOURS,
    GREY,
    LINE,
    MARGIN,
    SMALL,
    WIDTH,
    Lines,
    Notes,
    Page,
    gap_text,
    linear_ticks,
    number,
    text_width,
)

GUTTER = 0.5  # inches between the two panels
PARTS = {
    "assign": COLOURS[0],
    "update": COLOURS[5],
    "rest of the iteration": "#B8B8B8",
    "fused iteration": COLOURS[2],
    "upload": COLOURS[1],
    "solve": COLOURS[4],
    "download": COLOURS[3],
    "transfers and layout": COLOURS[1],
    "rest of the run": "#B8B8B8",
    "whole run, not split": "#B8B8B8",
}
LEFT_SCOPES, RIGHT_SCOPES = ("assign", "update", "iteration"), ("upload", "solve", "download", "end_to_end")
LEGEND_ROW = BODY * LINE / 72  # inches


@dataclass(frozen=True)
class Stack:
    parts: tuple[tuple[str, float], ...]  # name in PARTS, ms
    whole: float | None  # the same, timed as a whole, ms
    unstable: bool
    launch_bound: bool  # the whole, on any workload

    @property
    def whole_apart(self) -> bool:
        """The whole is a measurement of its own, beside those of its parts."""
        return self.whole is not None and (len(self.parts) > 1 or self.parts[0][1] != self.whole)


def times_of(record: Record, rung: Rung, workloads: Sequence[Workload], scope: str) -> float | Gap:
    """Mean over the workloads of the scope's median, ms."""
    found = []
    for w in workloads:
        row = record.row(rung, w.name, scope)
        if row is None:
            return Gap("not run", f"no {scope} row on {w.name}.")
        if not row.timed:
            return Gap(row.status, row.reason)
        assert row.median_ms
        found.append(row.median_ms)
    return fmean(found)


def is_unstable(record: Record, rung: Rung, workloads: Sequence[Workload], scopes: Sequence[str]) -> bool:
    rows = [record.row(rung, w.name, scope) for w in workloads for scope in scopes]
    return any(row is not None and row.status == "unstable" for row in rows)


def is_launch_bound(record: Record, rung: Rung, workloads: Sequence[Workload], scope: str) -> bool:
    rows = [record.row(rung, w.name, scope) for w in workloads]
    return any(row is not None and row.timed and bool(row.launch_bound) for row in rows)


def iteration_stack(record: Record, rung: Rung, workloads: Sequence[Workload]) -> Stack | Gap:
    assign, update, whole = (times_of(record, rung, workloads, scope) for scope in LEFT_SCOPES)
    unstable = is_unstable(record, rung, workloads, LEFT_SCOPES)
    launch = is_launch_bound(record, rung, workloads, "iteration")
    if isinstance(assign, float) and isinstance(update, float):
        parts = [("assign", assign), ("update", update)]
        if isinstance(whole, Gap):
            return Stack(tuple(parts), None, unstable, False)
        if whole > assign + update:
            parts.append(("rest of the iteration", whole - assign - update))
        return Stack(tuple(parts), whole, unstable, launch)
    if isinstance(whole, float):
        return Stack((("fused iteration", whole),), whole, unstable, launch)
    # An iteration that was never asked for says less than the reason why its parts have no time.
    return whole if whole.status != "not run" or not isinstance(assign, Gap) else assign


def run_stack(record: Record, rung: Rung, workloads: Sequence[Workload]) -> Stack | Gap:
    upload, solve, download, whole = (times_of(record, rung, workloads, scope) for scope in RIGHT_SCOPES)
    unstable = is_unstable(record, rung, workloads, RIGHT_SCOPES)
    launch = is_launch_bound(record, rung, workloads, "end_to_end")
    if isinstance(whole, float) and isinstance(solve, float):
        if isinstance(upload, float) and isinstance(download, float):
            parts, rest = [("upload", upload), ("solve", solve), ("download", download)], "rest of the run"
        else:
            parts, rest = [("solve", solve)], "transfers and layout"
        left = whole - sum(ms for _, ms in parts)
        if left > 0:
            parts.append((rest, left))
        return Stack(tuple(parts), whole, unstable, launch)
    if isinstance(whole, float):
        return Stack((("whole run, not split", whole),), whole, unstable, launch)
    if isinstance(solve, float):
        return Stack((("solve", solve),), None, unstable, False)
    return whole


def length(stack: Stack) -> float:
    return max(sum(ms for _, ms in stack.parts), stack.whole or 0)


def value_text(stack: Stack) -> str:
    total = stack.whole if stack.whole is not None else sum(ms for _, ms in stack.parts)
    return f"{number(total)} ms" + (DAGGER if stack.launch_bound else "") + ("  unstable" if stack.unstable else "")


def draw_panel(ax: Axes, stacks: dict[Rung, Stack | Gap], lines: Lines, notes: Notes, inches: float) -> None:
    drawn = [s for s in stacks.values() if isinstance(s, Stack)]
    longest = max((length(s) for s in drawn), default=1.0)
    label = max((text_width(value_text(s)) for s in drawn), default=0.0) + 0.35
    ax.set_xlim(0, longest * inches / max(inches - label, 0.3 * inches))
    linear_ticks(ax, inches)
    for rung, stack in stacks.items():
        y = lines.y[rung]
        if isinstance(stack, Gap):
            ax.text(
                0.01,
                y,
                gap_text(stack, 0.97 * inches, notes),
                transform=ax.get_yaxis_transform(),
                va="center",
                color=GREY,
                style="italic",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
                gid="gap",
            )
            continue
        start = 0.0
        for name, ms in stack.parts:
            hatch = "///" if stack.unstable else None
            ax.barh(y, ms, left=start, height=0.7, color=PARTS[name], hatch=hatch, edgecolor="white", linewidth=0.5)
            start += ms
        if stack.whole_apart:
            ax.vlines(stack.whole, y - 0.42, y + 0.42, color="black", linewidth=2.5)
        ax.annotate(
            value_text(stack), (length(stack), y), xytext=(8, 0), textcoords="offset points", va="center", gid="value"
        )


def draw_page(
    record: Record, options: Options, device: str, workloads: Sequence[Workload], folder: Path, stem: str
) -> tuple[str, list[Path]] | None:
    """Title and files; None where neither an iteration nor a run has a time."""
    names = {w.name for w in workloads}
    used = {(row.variant, row.device) for row in record.rows if row.workload in names}
    rungs = [r for r in record.rungs(device) if (r.variant, r.device) in used]
    lines = Lines(record, rungs)
    left_stacks = {rung: iteration_stack(record, rung, workloads) for rung in lines.y}
    right_stacks = {rung: run_stack(record, rung, workloads) for rung in lines.y}
    panels = [
        (title, stacks)
        for title, stacks in (("one iteration", left_stacks), ("one run, host memory to host memory", right_stacks))
        if any(isinstance(s, Stack) for s in stacks.values())
    ]
    if not panels:
        return None
    left = 0.35 + lines.label_width
    inches = (WIDTH - 0.35 - left - GUTTER * (len(panels) - 1)) / len(panels)
    notes = Notes()
    for _, stacks in panels:  # the notes must be known before the page is laid out
        for stack in stacks.values():
            if isinstance(stack, Gap):
                gap_text(stack, 0.97 * inches, notes)
    first = workloads[0]
    many = len(workloads) > 1
    what = f"{first.family}, mean of {len(workloads)} workloads" if many else f"{first.name}, {first.size}"
    title = f"Where the time goes, {DEVICES[device].title}: {what}"
    subtitle = "shorter is better; the number is the time of the whole"
    drawn = [s for _, stacks in panels for s in stacks.values() if isinstance(s, Stack)]
    if any(s.whole_apart for s in drawn):
        subtitle += "; black mark: the whole, timed in one piece"
    if any(s.unstable for s in drawn):
        subtitle += "; hatched: unstable"
    seen = [part for part in PARTS if any(p == part for s in drawn for p, _ in s.parts)]
    in_one_row = sum(text_width(part) + 0.75 for part in seen) < WIDTH - 0.7
    legend_rows = 1 if in_one_row else 2
    above, below = legend_rows * LEGEND_ROW + 0.15, 0.85
    remarks = notes.lines()
    if any(s.launch_bound for s in drawn):
        remarks.insert(0, record.launch_note(device, of_several=many))
    foot = options.signature(record, "scopes", device, workload=None if many else first.name)
    page = Page(title, subtitle, remarks, foot, body=lines.height() + above + below)
    for index, (name, stacks) in enumerate(panels):
        bottom = page.bottom + below
        ax = page.axes(left + index * (inches + GUTTER), bottom, inches, page.top - above - bottom)
        lines.label(ax, visible=index == 0)
        draw_panel(ax, stacks, lines, notes, inches)
        ax.set_xlabel(f"median time, ms ({name})")
    page.figure.legend(
        handles=[Patch(color=PARTS[part], label=part) for part in seen],
        loc="upper left",
        bbox_to_anchor=(MARGIN / WIDTH, page.top / page.height),
        ncols=-(-len(seen) // legend_rows),
        frameon=False,
        fontsize=SMALL,
        columnspacing=1.2,
        handlelength=1.2,
        borderpad=0,
        borderaxespad=0,
    )
    return title, page.save(folder, stem)


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        name = DEVICES[device].stem
        families = record.families(record.workloads_on(device))
        if not families:
            left_out.append(f"scopes ({name}): no valid time on {device}")
        for family, members in families.items():
            groups = [(family, members)] if len(members) > MANY_WORKLOADS else [(w.name, [w]) for w in members]
            for group, workloads in groups:
                stem = f"scopes_{name}_{group}"
                if too_few(record, device, bars(record, device, workloads, SCOPES)):
                    left_out.append(f"scopes ({name}, {group}): fewer than {LEAST_BARS} bars")
                    continue
                page = draw_page(record, options, device, workloads, folder, stem)
                if page is None:
                    left_out.append(f"scopes ({name}, {group}): neither a whole iteration nor a whole run has a time")
                else:
                    drawn.append((stem, page[0]))
    return drawn, left_out
