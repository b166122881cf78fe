"""The waterfall: from the root down, what each step added or took away on one workload.

A bar leads from the time of the base to that of the rung. Where the record compared the two in sessions that took turns
it has that comparison's interval and a colour that says what follows from it; else neither (lib/speedup.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.patches import Patch

from plots.lib.options import LEAST_BARS, Options, too_few
from plots.lib.record import DAGGER, DEVICES, SCOPE_TITLES, Gap, Record, Rung, Workload, number
from plots.lib.speedup import BRACKETS, ONE_SESSION, Gain, between
from plots.lib.style import COLOURS, GREY, PALE, WIDTH, Lines, Notes, Page, gap_text, log_ticks, text_width

FASTER, SLOWER, SAME, UNPROVEN = COLOURS[0], COLOURS[1], "#9A9A9A", "#D4D4D4"


def colour_of(gain: Gain) -> str:
    if gain.interval is None:
        return UNPROVEN
    return FASTER if gain.faster else SLOWER if gain.slower else SAME


def interval_ms(step: Gain, base_ms: float) -> tuple[float, float, float]:
    """The time that a gain over such a base stands for, between the ends of its interval."""
    ends = (step.interval.high, step.interval.low) if step.interval else (step.value, step.value)
    return base_ms / ends[0], base_ms / step.value, base_ms / ends[1]


def draw_page(
    record: Record, options: Options, device: str, scope: str, workload: Workload, folder: Path
) -> tuple[str, str]:
    rungs = [rung for rung in record.rungs(device) if record.row(rung, workload.name, scope)]
    lines = Lines(record, rungs)
    notes = Notes()
    left, right = 0.35 + lines.label_width, 0.35
    inches = WIDTH - left - right
    ms: dict[Rung, float] = {}
    steps: dict[Rung, Gain] = {}
    labels: dict[Rung, str] = {}
    gaps: dict[Rung, Gap] = {}
    launch_bound = False
    for rung in rungs:
        row = record.row(rung, workload.name, scope)
        assert row
        if not row.timed or not row.median_ms:
            gaps[rung] = Gap(row.status, row.reason)
            gap_text(gaps[rung], 0.9 * inches, notes)
            continue
        ms[rung] = row.median_ms
        launch_bound = launch_bound or bool(row.launch_bound)
        text = f"{number(row.median_ms)} ms" + (DAGGER if row.launch_bound else "")
        base = record.bases[rung.variant]
        step = between(record, rung, Rung(base, device), workload.name, scope) if base in record.bases else None
        if isinstance(step, Gain):
            steps[rung] = step
            text = f"{step.text}   {text}"
        elif isinstance(step, Gap):
            text += f"   over {base}: {step.status} [{notes.cite(step.reason)}]"
        labels[rung] = text + ("   unstable" if row.status == "unstable" else "")
    title = f"What each step added, {DEVICES[device].title}: {workload.name}, {SCOPE_TITLES[scope]}"
    said = BRACKETS if any(step.interval for step in steps.values()) else ""
    subtitle = f"{workload.size}; a bar leads from the base's time to the rung's own; further left is better; beside "
    subtitle += f"it the gain over the base{f', {said}' if said else ''}" if steps else "it the time"
    foot = options.signature(record, "waterfall", device, scope, workload.name)
    remarks = ([record.launch_note(device)] if launch_bound else []) + notes.lines(12)
    above, below = 0.5, 0.85
    page = Page(title, subtitle, remarks, foot, body=lines.height() * 1.1 + above + below)
    bottom = page.bottom + below
    ax = page.axes(left, bottom, inches, page.top - above - bottom)
    lines.label(ax, visible=True, bold=[rung for rung in rungs if record.shows[rung.variant] == scope])
    ax.set_xscale("log")
    low, high = 0.8 * min(ms.values()), 1.1 * max(ms.values())
    # Room for the longest label right of its bar, and of its interval.
    before = {rung: ms[Rung(record.bases[rung.variant], device)] for rung in steps}
    ends: dict[Rung, float] = {}
    for rung, text in labels.items():
        ends[rung] = max(ms[rung], *interval_ms(steps[rung], before[rung]), before[rung]) if rung in steps else ms[rung]
        room = max(inches - text_width(text) - 0.4, 0.3 * inches)
        high = max(high, low * (ends[rung] / low) ** (inches / room))
    ax.set_xlim(low, high)
    log_ticks(ax, "x", inches)
    ax.minorticks_off()
    ax.set_xlabel(f"median time of {SCOPE_TITLES[scope]}, ms (log scale)")
    for rung in rungs:
        y = lines.y[rung]
        if rung in gaps:
            words = gap_text(gaps[rung], 0.9 * inches, notes)
            style = {"transform": ax.get_yaxis_transform(), "va": "center", "color": GREY, "style": "italic"}
            ax.text(0.01, y, words, gid="gap", **style)
            continue
        own = ms[rung]
        if rung in steps:
            base = Rung(record.bases[rung.variant], device)
            start, colour = before[rung], colour_of(steps[rung])
            ax.plot([start, start], [lines.y[base], y], color=PALE, linewidth=1, zorder=1)
            ax.barh(y, own - start, left=start, height=0.62, color=colour, zorder=2, gid=f"step {rung.variant}")
            if steps[rung].interval:
                low_ms, _, high_ms = interval_ms(steps[rung], start)
                ax.hlines(y, low_ms, high_ms, color="black", linewidth=2, zorder=3, gid=f"interval {rung.variant}")
        ax.plot(own, y, "|", color="black", markersize=13, mew=2.5, zorder=4)
        place = {"xytext": (9, 0), "textcoords": "offset points", "va": "center", "zorder": 5, "gid": "value"}
        ax.annotate(
            labels[rung],
            (ends[rung], y),
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
            **place,
        )
    kinds = ((FASTER, "faster"), (SLOWER, "slower"), (SAME, "not told apart: the interval contains 1"))
    kinds += ((UNPROVEN, ONE_SESSION),)
    seen = {colour_of(step) for step in steps.values()}
    page.legend(left, [Patch(color=colour, label=text) for colour, text in kinds if colour in seen])
    stem = f"waterfall_{DEVICES[device].stem}_{scope}_{workload.name}"
    page.save(folder, stem)
    return stem, title


def step_count(record: Record, device: str, scope: str, workload: Workload) -> int:
    """Rungs with a time whose base has one, too."""
    timed = {
        rung.variant
        for rung in record.rungs(device)
        if (row := record.row(rung, workload.name, scope)) and row.timed and row.median_ms
    }
    return sum(record.bases[variant] in timed for variant in timed)


def chosen(record: Record, options: Options, device: str, scope: str) -> Sequence[Workload]:
    """Those asked for; else of each family the one with least and the one with most work."""
    names = record.workloads_on(device, [scope])
    if options.workloads:
        return [record.workloads[name] for name in names]
    found: dict[str, Workload] = {}
    for members in record.families(names).values():
        ordered = sorted(members, key=lambda w: w.n * w.d * w.k)
        found |= {w.name: w for w in (ordered[0], ordered[-1])}
    return list(found.values())


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        for scope in options.scopes or ("iteration",):
            found = chosen(record, options, device, scope)
            if not found:
                left_out.append(f"waterfall ({DEVICES[device].stem}, {scope}): no valid time")
            for workload in found:
                if too_few(record, device, step_count(record, device, scope, workload) + 1):
                    left_out.append(
                        f"waterfall ({DEVICES[device].stem}, {scope}, {workload.name}): fewer than {LEAST_BARS} bars"
                    )
                else:
                    drawn.append(draw_page(record, options, device, scope, workload, folder))
    return drawn, left_out
