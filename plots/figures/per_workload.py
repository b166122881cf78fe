"""Time per file: a family of many workloads, file by file, a line per variant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from matplotlib.lines import Line2D

from plots.lib.options import Options
from plots.lib.record import DEVICES, MANY_WORKLOADS, SCOPE_TITLES, Record, Rung, Workload
from plots.lib.style import GREY, RING, ROW, SMALL, WIDTH, Page, coloured, line_style, log_ticks, spread, text_width

TICK_ROOM = 0.42  # inches that the name of a file needs


def zeros(workload: Workload) -> float:
    """Percent of the coordinates that are zero."""
    assert workload.nonzeros is not None
    return 100 * (1 - workload.nonzeros / (workload.n * workload.d))


def ordered(members: Sequence[Workload]) -> tuple[list[Workload], bool]:
    """By their share of zeros where the record counts it, else as they come."""
    if all(w.nonzeros is not None for w in members):
        return sorted(members, key=zeros), True
    return list(members), False


def common_beginning(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def draw_page(
    record: Record, options: Options, device: str, scope: str, family: str, members: Sequence[Workload], folder: Path
) -> tuple[str, str]:
    files, by_zeros = ordered(members)
    times: dict[Rung, list[float]] = {}
    hollow: dict[Rung, list[float]] = {}  # those of them that are launch-bound
    for rung in record.rungs(device):
        rows = [record.row(rung, w.name, scope) for w in files]
        ms = [row.median_ms if row and row.timed and row.median_ms else math.nan for row in rows]
        if not all(math.isnan(value) for value in ms):
            times[rung] = ms
            hollow[rung] = [m if row and row.launch_bound else math.nan for m, row in zip(ms, rows, strict=True)]
    stem = f"files_{DEVICES[device].stem}_{scope}_{family}"
    title = f"Time per file, {DEVICES[device].title}: {len(files)} files of {family}, {SCOPE_TITLES[scope]}"
    subtitle = "median time, lower is better; a line ends where its variant has no valid time"
    order = sorted(times, key=lambda rung: -median(value for value in times[rung] if not math.isnan(value)))
    shown = coloured(order, [rung for rung in order if record.foot(rung.variant) == rung.variant])
    if len(order) > len(shown):
        subtitle += "; coloured: the roots and the fastest"
    remarks = []
    if any(not math.isnan(value) for rung in shown for value in hollow[rung]):
        remarks.append(record.launch_note(device, "hollow:"))
    foot = options.signature(record, "files", device, scope)
    page = Page(title, subtitle, remarks, foot, body=(len(times) + 1) * ROW + 1.4)
    label_width = max(text_width(rung.variant) for rung in times) + 0.75
    left, below = 1.35, 1.2 if by_zeros else 0.95
    inches = WIDTH - 0.35 - left - label_width
    bottom = page.bottom + below
    height = page.top - 0.25 - bottom
    ax = page.axes(left, bottom, inches, height)
    ax.set_yscale("log")
    ax.set_xlim(-0.5, len(files) - 0.5)
    styles = {rung: line_style(shown.index(rung) if rung in shown else None) for rung in times}
    for rung, ms in times.items():
        ax.plot(range(len(files)), ms, gid=f"line {rung.variant}", **styles[rung])
        if rung in shown:
            ax.plot(range(len(files)), hollow[rung], **styles[rung] | RING)
    low, high = ax.get_ylim()
    log_ticks(ax, "y", height)
    ax.minorticks_off()
    ax.set_ylim(low, high)

    # Each line's name stands at its right end, moved apart from the others' where they are near.
    def inch(value: float) -> float:
        return height * math.log(value / low) / math.log(high / low)

    lasts = {rung: max(i for i, value in enumerate(ms) if not math.isnan(value)) for rung, ms in times.items()}
    places = spread([inch(times[rung][last]) for rung, last in lasts.items()], ROW, 0.1, height - 0.1)
    for (rung, last), place in zip(lasts.items(), places, strict=True):
        colour = styles[rung]["color"] if rung in shown else GREY
        start = left + inches * (last + 0.5) / len(files)
        name_at = left + inches + 0.5
        page.figure.text(
            name_at / WIDTH,
            (bottom + place) / page.height,
            rung.variant,
            color=colour,
            va="center",
            fontsize=SMALL,
            gid="name",
        )
        xs = [(start + 0.06) / WIDTH, max(start + 0.06, left + inches) / WIDTH, (name_at - 0.06) / WIDTH]
        ys = [(bottom + y) / page.height for y in (inch(times[rung][last]), inch(times[rung][last]), place)]
        page.figure.add_artist(
            Line2D(xs, ys, color=colour, linewidth=1, linestyle=":" if last < len(files) - 1 else "-")
        )

    prefix = common_beginning([w.name for w in files])
    every = max(1, math.ceil(TICK_ROOM * len(files) / inches))
    ticks = range(0, len(files), every)
    names = [files[i].name.removeprefix(prefix) or files[i].name for i in ticks]
    if by_zeros:
        names = [f"{name}\n{zeros(files[i]):.0f}" for i, name in zip(ticks, names, strict=True)]
    ax.set_xticks(list(ticks), names)
    ax.set_xlabel(f"file {prefix}…" + (", and its percent of zeros" if by_zeros else ""))
    ax.set_ylabel("median time, ms (log scale)")
    kinds = [w.kind for w in files]
    for i in range(1, len(files)):
        if by_zeros and kinds[i] != kinds[i - 1]:
            ax.axvline(i - 0.5, color=GREY, linewidth=1.5, linestyle="--", zorder=1)
    page.save(folder, stem)
    return stem, title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    for device in options.devices:
        for scope in options.scopes or ("iteration",):
            for family, members in record.families(record.workloads_on(device, [scope])).items():
                if len(members) > MANY_WORKLOADS:
                    drawn.append(draw_page(record, options, device, scope, family, members, folder))
    left_out = [] if drawn else [f"files: no family with times on more than {MANY_WORKLOADS} workloads"]
    return drawn, left_out
