"""The roofline: what a device can do at most over the operations per byte, with a dot per rung.

Operations are those of all distances (the record's flop). Bytes are those of device memory that Nsight Compute
counted (profile.json beside the record), so that a dot moves to the right where a rung reads less and up where it is
faster. Without counters they are the least that any method needs, and the rungs of one workload stand in one column.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from plots.figures import counters
from plots.figures.tree import usual_workload
from plots.lib.options import LEAST_BARS, Options
from plots.lib.record import DAGGER, DEVICES, SCOPE_TITLES, Record, Row, Rung, Workload, number, percent
from plots.lib.style import COLOURS, GREY, ROW, SMALL, WIDTH, Page, log_ticks, spread, text_width

LEFT, BELOW = 1.5, 0.85  # inches


def ceilings_of(record: Record, device: str) -> dict[str, Any]:
    """The first of the records' that states them for this device."""
    return next((found for s in record.sources if (found := (s.context.get("ceilings") or {}).get(device))), {})


def counted_bytes(record: Record, device: str, scope: str, workload: str) -> dict[str, float]:
    """Bytes from and to device memory of the rungs that were profiled there; empty where it is too few to compare."""
    profile = counters.beside(record) if device == "cuda" else None
    if profile is None:
        return {}
    found = {}
    for name in {row.variant for row in record.rows if row.device == device}:
        entry = profile.entry(name, scope, (workload,))
        if entry is None or entry.get("cut_short"):
            continue
        counts = [(kernel["metrics"].get("dram_bytes"), kernel["launches"]) for kernel in entry["kernels"]]
        if all(count for count, _ in counts):
            found[name] = float(sum(count * launches for count, launches in counts))
    return found if len(found) >= LEAST_BARS else {}


def usual_scope(record: Record, device: str) -> str:
    """The assignment, where its bytes were counted; else the iteration."""
    usual = usual_workload(record, device, "assign")
    return "assign" if usual and counted_bytes(record, device, "assign", usual.name) else "iteration"


def draw_page(
    record: Record, options: Options, device: str, scope: str, workload: Workload, folder: Path
) -> tuple[str, str] | str:
    """(stem, title), or why there is no page."""
    found = ceilings_of(record, device)
    single = workload.type == "f32"
    peak, reading = found.get("fp32_gflops" if single else "fp64_gflops"), found.get("read_gbs")
    rows: dict[Rung, Row] = {}
    counted = counted_bytes(record, device, scope, workload.name)
    uncounted = 0
    for rung in record.rungs(device):
        row = record.row(rung, workload.name, scope)
        if row and row.timed and row.median_ms and row.flop and row.bytes:
            if counted and rung.variant not in counted:
                uncounted += 1
            else:
                rows[rung] = row
    if not peak or not reading or not rows:
        return "the record does not state what the device can do at most" if rows else "no row states its operations"
    stem = f"roofline_{DEVICES[device].stem}_{scope}_{workload.name}"
    title = f"Roofline, {DEVICES[device].title}: {workload.name}, {SCOPE_TITLES[scope]}"
    subtitle = f"{workload.size}; a dot per rung, higher is better; "
    if counted:
        subtitle += "operations: those of all distances, bytes: counted by Nsight Compute"
    else:
        subtitle += "operations: those of all distances, bytes: the least that any method needs"
    subtitle += "; behind the name: percent of roof"
    launch = any(row.launch_bound for row in rows.values())
    xs = {rung: row.flop / counted.get(rung.variant, row.bytes) for rung, row in rows.items()}  # type: ignore[operator,arg-type]
    ys = {rung: row.flop / row.median_ms * 1e-6 for rung, row in rows.items()}  # type: ignore[operator]
    tensor = found.get("tensor_gflops")
    remarks = [record.launch_note(device)] if launch else []
    beyond = [rung for rung, y in ys.items() if y > min(tensor or peak, xs[rung] * reading)]
    if any(rows[rung].roof_percent is None for rung in beyond):  # the record states none of rungs that prune
        remarks.append("Above the roofs: rungs that leave out distances, all of whose operations are counted here.")
    if uncounted:
        remarks.append(f"Not shown: {uncounted} rungs whose bytes were not counted here.")
    foot = options.signature(record, "roofline", device, scope, workload.name)
    page = Page(title, subtitle, remarks, foot, body=(len(rows) + 1) * ROW + 1.6)
    order = sorted(rows, key=lambda rung: -rows[rung].median_ms)  # type: ignore[operator]
    labels = {
        rung: f"{rung.variant}  {number(row.flop / row.median_ms * 1e-6)} GFLOP/s"  # type: ignore[operator]
        + (f", {percent(row.roof_percent)}" if row.roof_percent is not None else "")
        + (DAGGER if row.launch_bound else "")
        for rung, row in rows.items()
    }
    label_width = max(text_width(text) for text in labels.values()) + 0.6
    inches = WIDTH - LEFT - label_width - 0.35
    bottom = page.bottom + BELOW
    height = page.top - 0.3 - bottom
    ax = page.axes(LEFT, bottom, inches, height)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ridge = peak / reading
    low, high = min(*xs.values(), ridge) / 8, max(*xs.values(), ridge) * 8
    bottom_y = min(ys.values()) / 2
    top_y = max(tensor or peak, *ys.values()) * 2.2
    ax.set_xlim(low, high)
    ax.set_ylim(bottom_y, top_y)
    for name, most, dash in (("fp32" if single else "fp64", peak, "-"), ("tensor cores, any type", tensor, "--")):
        if not most:
            continue
        bend = most / reading
        ax.plot([low, bend, high], [low * reading, most, most], color="black", linewidth=2.5, linestyle=dash, zorder=2)
        text = f"{name}: {number(most / 1e3)} TFLOP/s"
        first = min(xs.values())
        edge = first / 1.25 if first > 4 * bend else high / 1.05  # left of the dots, where there is room
        on_it = any(1 < y / most < 1.5 and xs[rung] > bend for rung, y in ys.items())  # a dot where its name would be
        ax.text(edge, most / 1.1 if on_it else most * 1.06, text, ha="right", va="top" if on_it else "bottom",
                fontsize=SMALL, gid="roof")  # fmt: skip
    slope = math.degrees(math.atan(
        (height / math.log10(top_y / bottom_y)) / (inches / math.log10(high / low))
    ))  # fmt: skip
    start = max(low, bottom_y / reading) * 1.3
    ax.text(
        start, start * reading * 1.25, f"memory: {number(reading)} GB/s", rotation=slope, rotation_mode="anchor",
        fontsize=SMALL, gid="roof",
    )  # fmt: skip

    def inch(value: float) -> float:
        return height * math.log(value / bottom_y) / math.log(top_y / bottom_y)

    feet = {record.foot(rung.variant) for rung in rows}
    colours = {foot: COLOURS[i % len(COLOURS)] for i, foot in enumerate(sorted(feet))}
    places = spread([inch(ys[rung]) for rung in order], ROW, 0.1, height - 0.1)
    for rung, place in zip(order, places, strict=True):
        colour = colours[record.foot(rung.variant)]
        hollow = rows[rung].status == "unstable" or bool(rows[rung].launch_bound)
        style = {"markersize": 10, "color": colour, "mfc": "white" if hollow else colour, "mew": 2, "zorder": 4}
        ax.plot(xs[rung], ys[rung], "o", gid=f"dot {rung.variant}", **style)
        x = LEFT + inches * math.log(xs[rung] / low) / math.log(high / low)
        name_at = LEFT + inches + 0.45
        line_x = [(x + 0.09) / WIDTH, (LEFT + inches) / WIDTH, (name_at - 0.06) / WIDTH]
        line_y = [(bottom + y) / page.height for y in (inch(ys[rung]), inch(ys[rung]), place)]
        page.figure.add_artist(Line2D(line_x, line_y, color=colour, linewidth=0.9, alpha=0.6))
        page.figure.text(name_at / WIDTH, (bottom + place) / page.height, labels[rung], va="center", fontsize=SMALL,
                         color=colour, gid="name")  # fmt: skip
    log_ticks(ax, "x", inches)
    log_ticks(ax, "y", height)
    ax.minorticks_off()
    ax.grid(color="#EEEEEE")
    ax.set_xlabel("operations per byte of device memory (log scale)", color="black")
    ax.set_ylabel("operations, GFLOP/s (log scale)", color=GREY if not rows else "black")
    page.save(folder, stem)
    return stem, title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        for scope in options.scopes or (usual_scope(record, device),):
            usual = usual_workload(record, device, scope)
            wanted = record.workloads_on(device, [scope]) if options.workloads else [usual.name] if usual else []
            if not wanted:
                left_out.append(f"roofline ({DEVICES[device].stem}, {scope}): no valid time")
            for name in wanted:
                page = draw_page(record, options, device, scope, record.workloads[name], folder)
                if isinstance(page, str):
                    left_out.append(f"roofline ({DEVICES[device].stem}, {scope}, {name}): {page}")
                else:
                    drawn.append(page)
    return drawn, left_out
