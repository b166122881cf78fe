"""The family tree of the revisions: which differs from which by what idea, and what that idea gained.

A line leads from each base to the variants made from it, and ends in the speedup over that base: in colour where its
interval was measured, else in a white box. The longest line of descent stays in its lane; the others leave it to the
right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.patches import FancyBboxPatch

from plots.lib.options import LEAST_BARS, Options, bars, too_few
from plots.lib.record import DAGGER, DEVICES, SCOPE_TITLES, Gap, Record, Rung, Speedup, Workload, number, tree_order
from plots.lib.speedup import ONE_SESSION, Gain, between
from plots.lib.style import COLOURS, GREY, LINE, MARGIN, PALE, SMALL, WIDTH, Notes, Page, shorten, text_width, times

LANE = 0.07  # inches between lanes, per point of the font
LEAST_PITCH, MOST_PITCH = 0.42, 0.95  # inches between rows
FASTER, SLOWER, SAME = COLOURS[0], COLOURS[1], GREY


@dataclass(frozen=True)
class Node:
    variant: str
    parent: str | None
    lane: int


@dataclass(frozen=True)
class Label:
    """What stands where a line ends."""

    text: str
    colour: str
    solid: bool


def forest(bases: dict[str, str]) -> list[Node]:
    """Each variant below its base. A base's largest branch comes last and keeps its lane; the others leave it."""
    children: dict[str | None, list[str]] = {}
    for variant, base in bases.items():
        children.setdefault(base if base in bases else None, []).append(variant)
    size: dict[str, int] = {}
    for variant in reversed(tree_order(bases)):
        size[variant] = 1 + sum(size[child] for child in children.get(variant, []))
    found: list[Node] = []

    def grow(variant: str, parent: str | None, lane: int) -> None:
        pending = [(variant, parent, lane)]
        while pending:
            node = Node(*pending.pop())
            found.append(node)
            branches = sorted(children.get(node.variant, []), key=lambda child: size[child])  # stable
            lanes = [node.lane + 1] * (len(branches) - 1) + [node.lane]
            pending += reversed([(b, node.variant, n) for b, n in zip(branches, lanes, strict=False)])

    for root in children.get(None, []):
        grow(root, None, 0)
    return found


def measured_gain(record: Record, rung: Rung, workload: str, scope: str, result: Speedup | Gap) -> Gain | None:
    """Over its base, where sessions of the two took turns."""
    base = record.bases[rung.variant]
    if isinstance(result, Gap) or result.reference != base:
        return None
    gain = between(record, rung, Rung(base, rung.device), workload, scope)
    return gain if isinstance(gain, Gain) and gain.interval else None


def label_of(result: Speedup | Gap, gain: Gain | None, time: float | None, rooted: bool, notes: Notes) -> Label:
    """`gain`: one whose interval was measured; `rooted`: no line leads here."""
    if isinstance(result, Gap):
        if time is not None:
            return Label(f"{number(time)} ms [{notes.cite(result.reason)}]", SAME, False)
        return Label(f"{result.status} [{notes.cite(result.reason)}]", SAME, False)
    if rooted:
        return Label("root", "black", False)
    if gain:
        return Label(gain.text, FASTER if gain.faster else SLOWER if gain.slower else SAME, True)
    remark = f" [{notes.cite(result.instead)}]" if result.instead else ""
    remark += f" [{notes.cite('unstable: the samples are not to be trusted')}]" if result.unstable else ""
    return Label(times(result.value) + remark, SAME, False)


def usual_workload(record: Record, device: str, scope: str) -> Workload | None:
    """Of those that nearly all variants have a time on (three quarters of the most), the one with most work."""
    timed = record.timed_variants(device, scope)
    enough = 0.75 * max(map(len, timed.values()), default=0)
    found = (record.workloads[name] for name, variants in timed.items() if len(variants) >= enough)
    return max(found, key=lambda w: w.n * w.d * w.k, default=None)


def draw_page(
    record: Record, options: Options, device: str, scope: str, workload: Workload, folder: Path
) -> tuple[str, str]:
    rungs = record.rungs(device)
    nodes = forest({rung.variant: record.bases[rung.variant] for rung in rungs})
    notes = Notes()
    labels: dict[str, Label] = {}
    ms: dict[str, float] = {}
    clocks: dict[str, str] = {}
    launch_bound = False
    for node in nodes:
        rung = Rung(node.variant, device)
        row = record.row(rung, workload.name, scope)
        if row and row.timed and row.median_ms:
            ms[node.variant] = row.median_ms
            clocks[node.variant] = f"{number(row.median_ms)} ms" + (DAGGER if row.launch_bound else "")
            launch_bound = launch_bound or bool(row.launch_bound)
        result = record.speedup(rung, workload.name, scope, "base")
        gain = measured_gain(record, rung, workload.name, scope, result)
        labels[node.variant] = label_of(result, gain, ms.get(node.variant), node.parent is None, notes)
    title = f"The family tree, {DEVICES[device].title}: {SCOPE_TITLES[scope]} on {workload.name}"
    subtitle = f"{workload.size}; where a line ends: speedup over the variant that it comes from ("
    if any(label.solid for label in labels.values()):
        subtitle += "blue: faster, orange: slower, grey: not told apart, by its 95 % interval from n sessions, base + "
        subtitle += "rung, in turns; white box: "
    subtitle += f"{ONE_SESSION}); then the median time and the idea"
    stem = f"tree_{DEVICES[device].stem}_{scope}_{workload.name}"
    foot = options.signature(record, "tree", device, scope, workload.name)
    remarks = ([record.launch_note(device)] if launch_bound else []) + notes.lines()
    page = Page(title, subtitle, remarks, foot, body=len(nodes) * LEAST_PITCH + 0.35)
    pitch = min(MOST_PITCH, (page.top - page.bottom - 0.35) / len(nodes))
    points = max(SMALL, min(22, 26 * pitch))

    ax = page.axes(0, 0, WIDTH, page.height)  # in inches of the page
    ax.set_xlim(0, WIDTH)
    ax.set_ylim(0, page.height)
    ax.set_axis_off()
    row_of = {node.variant: page.top - 0.3 - index * pitch for index, node in enumerate(nodes)}
    half = {variant: text_width(label.text, points, bold=True) / 2 + 0.1 for variant, label in labels.items()}
    first = max(half.values())
    place = {node.variant: MARGIN + first + node.lane * LANE * points for node in nodes}
    ids = max(place[variant] + half[variant] for variant in place) + 0.25
    clock = ids + max(text_width(v, points, bold=True) for v in place) + 0.35
    clock += max((text_width(text, points) for text in clocks.values()), default=0)
    ideas = clock + 0.35
    for node in nodes:
        x, y, label = place[node.variant], row_of[node.variant], labels[node.variant]
        if node.parent is not None:
            above_x, above_y = place[node.parent], row_of[node.parent]
            line = {"color": label.colour, "linewidth": 2.5, "solid_joinstyle": "round", "zorder": 1}
            ax.plot([above_x, above_x, x], [above_y, y, y], gid=f"edge {node.parent} {node.variant}", **line)
        ax.plot([x, ids - 0.08], [y, y], color=PALE, linewidth=1, linestyle=":", zorder=0)
        tall = min(points * LINE, 66 * pitch) / 72 / 2
        ax.add_patch(
            FancyBboxPatch(
                (x - half[node.variant], y - tall),
                2 * half[node.variant],
                2 * tall,
                boxstyle="round,pad=0,rounding_size=0.1",
                facecolor=label.colour if label.solid else "white",
                edgecolor=label.colour,
                linewidth=1.5,
                zorder=2,
            )
        )
        ax.text(
            x,
            y,
            label.text,
            ha="center",
            va="center_baseline",
            fontsize=points,
            weight="bold",
            color="white" if label.solid else label.colour,
            zorder=3,
            gid="gain",
        )
        ax.text(ids, y, node.variant, va="center_baseline", fontsize=points, weight="bold", gid="name")
        if node.variant in clocks:
            ax.text(clock, y, clocks[node.variant], ha="right", va="center_baseline", fontsize=points, gid="time")
        idea = shorten(record.ideas[node.variant], WIDTH - MARGIN - ideas, points)
        ax.text(ideas, y, idea, va="center_baseline", fontsize=points, color="#333333", gid="idea")
    page.save(folder, stem)
    return stem, title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        for scope in options.scopes or ("iteration",):
            timed = record.workloads_on(device, [scope])
            usual = usual_workload(record, device, scope)
            wanted: Sequence[str] = timed if options.workloads else [usual.name] if usual else []
            if not wanted:
                left_out.append(f"tree ({DEVICES[device].stem}, {scope}): no valid time")
            for name in wanted:
                workload = record.workloads[name]
                if too_few(record, device, bars(record, device, [workload], [scope])):
                    left_out.append(f"tree ({DEVICES[device].stem}, {scope}, {name}): fewer than {LEAST_BARS} times")
                else:
                    drawn.append(draw_page(record, options, device, scope, workload, folder))
    return drawn, left_out
