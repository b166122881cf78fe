"""The ladder in a dozen bars: whole runs on one workload, the largest steps of the chain, libraries among them."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

from plots.figures.tree import usual_workload
from plots.lib import short
from plots.lib.options import Options
from plots.lib.record import SCOPE_TITLES, TIMES, Record, RecordError, Row, Rung, Workload, number
from plots.lib.style import COLOURS, GREY, WIDTH, Page, log_ticks, shorten, text_width

LEAST_BARS = 3
MOST_LIBRARIES = 10
MOST_ROWS = 20  # of the picture
STEM = "ladder_short"
LABELS = 7.4  # inches for names and ideas
ROW = 0.5  # inches for a step: a name and its idea below it
LIBRARY_ROW = 0.33  # inches for a library: its name
GAP = 0.16  # inches between two bars
BAR, LIBRARY = COLOURS[0], COLOURS[1]


def value_text(entry: short.Step | Row) -> str:
    if not isinstance(entry, short.Step):
        return f"{number(short.time_of(entry))} ms"
    text = f"{number(entry.ms)} ms"
    if entry.gain is None:
        return text
    return f"{text}   {number(entry.gain)}{TIMES}" + (f" in {entry.rungs} rungs" if entry.rungs > 1 else "")


def draw_page(record: Record, options: Options, workload: Workload, folder: Path) -> tuple[str, str] | None:
    """None where there are too few steps for a picture."""
    beside = short.libraries(record, workload.name, MOST_LIBRARIES)
    found = short.steps(record, workload.name, min(short.MOST_BARS, MOST_ROWS - len(beside)))
    if len(found) < LEAST_BARS:
        return None
    first, last = found[0], found[-1]
    machine = record.machine(first.rung.device).split(" (")[0]
    title = (
        f"{workload.name}: from {number(first.ms)} ms to {number(last.ms)} ms on one {machine}, "
        f"{number(first.ms / last.ms)}{TIMES}"
    )
    subtitle = f"{SCOPE_TITLES[short.SCOPE]}; {workload.size}; {workload.title}; shorter is better; {TIMES}: gain over "
    subtitle += "the step above"
    if beside:
        subtitle += "; orange: libraries, for as many iterations"
    shown = record.behind([*(step.row for step in found), *(row for _, row in beside)])
    foot = options.signature(shown, "short", None, None, workload.name)

    # Slowest first: a step, or the row of a library.
    bars: list[tuple[float, Rung, short.Step | Row]] = [(step.ms, step.rung, step) for step in found]
    bars += [(short.time_of(row), rung, row) for rung, row in beside]
    bars.sort(key=lambda bar: -bar[0])
    heights = [ROW if isinstance(entry, short.Step) else LIBRARY_ROW for _, _, entry in bars]
    middles = [end - height / 2 for end, height in zip(accumulate(heights), heights, strict=True)]
    above, below = 0.15, 0.85
    page = Page(title, subtitle, [], foot, body=sum(heights) + above + below)
    left = 0.35 + LABELS
    inches = WIDTH - left - 0.35
    bottom = page.bottom + below
    ax = page.axes(left, bottom, inches, page.top - above - bottom)
    ax.set_xscale("log")
    low = 0.6 * min(ms for ms, _, _ in bars)
    high = 1.05 * max(ms for ms, _, _ in bars)
    for ms, _, entry in bars:
        part = max(inches - text_width(value_text(entry)) - 0.3, 0.25 * inches) / inches
        high = max(high, low * (ms / low) ** (1 / part))
    ax.set_xlim(low, high)
    log_ticks(ax, "x", inches)
    ax.minorticks_off()
    ax.set_ylim(sum(heights), 0)
    ax.set_xlabel("median time, ms (log scale)")
    ax.grid(axis="y", visible=False)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    place = {"xycoords": ax.get_yaxis_transform(), "ha": "right", "textcoords": "offset points"}
    for (ms, rung, entry), y, height in zip(bars, middles, heights, strict=True):
        step = isinstance(entry, short.Step)
        ax.barh(
            y,
            ms - low,
            left=low,
            height=height - GAP,
            color=BAR if step else LIBRARY,
            zorder=2,
            gid=f"{'bar' if step else 'library'} {rung.variant}",
        )
        ax.annotate(
            value_text(entry),
            (ms, y),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 1},
            gid="value",
        )
        if step:
            ax.annotate(rung.variant, (0, y), xytext=(-8, 1), va="bottom", weight="bold", **place)
            idea = shorten(short.idea_of(record, rung.variant), LABELS - 0.2)
            ax.annotate(idea, (0, y), xytext=(-8, -1), va="top", color=GREY, **place)
        else:
            name = short.library_name(record, rung)
            if rung.device != first.rung.device:
                name += f" on the CPU ({record.cores_of([entry])} cores)"
            name = shorten(name, LABELS - 0.2)
            ax.annotate(name, (0, y), xytext=(-8, 0), va="center", color=LIBRARY, **place)
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
