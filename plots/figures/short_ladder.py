"""The ladder in a dozen bars: whole runs on one workload, the largest steps of the chain, libraries as lines."""

from __future__ import annotations

from pathlib import Path

from plots.figures.tree import usual_workload
from plots.lib import short
from plots.lib.options import Options
from plots.lib.record import SCOPE_TITLES, TIMES, Record, RecordError, Workload, number
from plots.lib.style import COLOURS, GREY, SMALL, WIDTH, Page, log_ticks, shorten, text_width

LEAST_BARS = 3
STEM = "ladder_short"
LABELS = 7.4  # inches for names and ideas
ROW = 0.5  # inches for a bar: a name and its idea below it
LINE_ROW = 0.3  # inches between the names of two libraries
BAR, LIBRARY = COLOURS[0], COLOURS[1]


def value_text(step: short.Step) -> str:
    text = f"{number(step.ms)} ms"
    if step.gain is None:
        return text
    return f"{text}   {number(step.gain)}{TIMES}" + (f" in {step.rungs} rungs" if step.rungs > 1 else "")


def draw_page(record: Record, options: Options, workload: Workload, folder: Path) -> tuple[str, str] | None:
    """None where there are too few steps for a picture."""
    found = short.steps(record, workload.name)
    if len(found) < LEAST_BARS:
        return None
    lines = short.libraries(record, workload.name)
    first, last = found[0], found[-1]
    machine = record.machine(first.rung.device).split(" (")[0]
    title = (
        f"{workload.name}: from {number(first.ms)} ms to {number(last.ms)} ms on one {machine}, "
        f"{number(first.ms / last.ms)}{TIMES}"
    )
    subtitle = f"{SCOPE_TITLES[short.SCOPE]}; {workload.size}; {workload.title}; shorter is better; {TIMES}: gain over "
    subtitle += "the bar above; dashed: libraries, for as many iterations"
    shown = record.behind([*(step.row for step in found), *(row for _, row in lines)])
    foot = options.signature(shown, "short", None, None, workload.name)
    above, below = 0.15 + LINE_ROW * len(lines), 0.85
    page = Page(title, subtitle, [], foot, body=len(found) * ROW + above + below)
    left = 0.35 + LABELS
    inches = WIDTH - left - 0.35
    bottom = page.bottom + below
    height = page.top - above - bottom
    ax = page.axes(left, bottom, inches, height)
    ax.set_xscale("log")
    low = 0.6 * min(step.ms for step in found)
    high = 1.05 * max([*(step.ms for step in found), *(short.time_of(row) for _, row in lines)])
    for step in found:
        part = max(inches - text_width(value_text(step)) - 0.3, 0.25 * inches) / inches
        high = max(high, low * (step.ms / low) ** (1 / part))
    ax.set_xlim(low, high)
    log_ticks(ax, "x", inches)
    ax.minorticks_off()
    ax.set_ylim(len(found) - 0.45, -0.55)
    ax.set_xlabel("median time, ms (log scale)")
    ax.grid(axis="y", visible=False)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    for place, (rung, row) in enumerate(lines):
        ms = short.time_of(row)
        ax.axvline(ms, color=LIBRARY, linestyle="--", linewidth=2, zorder=1)
        y = 1 + (0.12 + LINE_ROW * (len(lines) - 1 - place)) / height
        ax.annotate(
            f"{short.library_name(record, rung)}: {number(ms)} ms",
            (ms, y),
            xycoords=ax.get_xaxis_transform(),
            ha="right",
            va="center",
            color=LIBRARY,
            fontsize=SMALL,
            annotation_clip=False,
            gid="library",
        )
    for y, step in enumerate(found):
        ax.barh(y, step.ms - low, left=low, height=0.66, color=BAR, zorder=2, gid=f"bar {step.rung.variant}")
        ax.annotate(
            value_text(step),
            (step.ms, y),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 1},
            gid="value",
        )
        place = {"xycoords": ax.get_yaxis_transform(), "ha": "right", "textcoords": "offset points"}
        ax.annotate(step.rung.variant, (0, y), xytext=(-8, 1), va="bottom", weight="bold", **place)
        idea = shorten(short.idea_of(record, step.rung.variant), LABELS - 0.2)
        ax.annotate(idea, (0, y), xytext=(-8, -1), va="top", color=GREY, **place)
    page.save(folder, STEM)
    return STEM, title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws the page of the workload asked for, else of the one that most variants have a whole run on."""
    asked = record.only(options.workloads) if options.workloads else record
    for device in options.devices:
        workload = usual_workload(asked, device, short.SCOPE)
        if workload is None:
            continue
        try:
            drawn = draw_page(record, options, workload, folder)
        except RecordError as error:
            return [], [f"short: {error}"]
        return ([drawn], []) if drawn else ([], [f"short: fewer than {LEAST_BARS} steps on {workload.name}"])
    return [], [f"short: no valid {short.SCOPE} time"]
