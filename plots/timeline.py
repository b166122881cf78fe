"""Draws what `ladder timeline` recorded: `python -m plots.timeline FILE --out FOLDER`.

A page for each workload and scope: a panel per variant, a lane per stream, time from left to right on one scale. The
kernels that take longest have colours of their own, the same in every panel. `--table` prints instead, for each
variant, what each stretch of the run takes: while the host's points are copied, and behind the last copy.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from plots.lib.inputs import in_sentences, number
from plots.lib.record import RecordError, read_json
from plots.lib.style import BODY, COLOURS, GREY, MARGIN, PALE, SMALL, WIDTH, Page, shorten, text_width

LANE = 0.34  # inches
LARGE_COPY = 1 << 20  # bytes: smaller copies are counts and flags, not points
HANDLE = 1.3  # inches: the patch of a legend's entry, and its gaps
NAMED = len(COLOURS) - 1  # kernels with a colour of their own: the first is the copies'


@dataclass(frozen=True)
class Event:
    kind: str
    name: str
    stream: int  # -1: the host
    start_ms: float
    ms: float
    bytes: int

    @property
    def end_ms(self) -> float:
        return self.start_ms + self.ms


@dataclass(frozen=True)
class Timeline:
    variant: str
    workload: str
    scope: str
    gpu: str
    git_sha: str
    ms: float
    events: tuple[Event, ...]

    def streams(self) -> list[int]:
        """Those of the device with the most work first, then the host's."""
        busy: dict[int, float] = defaultdict(float)
        for event in self.events:
            busy[event.stream] += event.ms
        return sorted((s for s in busy if s >= 0), key=lambda s: -busy[s]) + [s for s in busy if s < 0]

    def copied_until_ms(self) -> float:
        """End of the last large copy from the host."""
        ends = [e.end_ms for e in self.events if e.name == "host to device" and e.bytes >= LARGE_COPY]
        return max(ends, default=0.0)

    def union_ms(self, begin: float, end: float, kinds: Sequence[str]) -> float:
        """How long between the two times at least one event of these kinds runs."""
        busy, until = 0.0, begin
        for event in sorted((e for e in self.events if e.kind in kinds), key=lambda e: e.start_ms):
            low, high = max(event.start_ms, until), min(event.end_ms, end)
            if high > low:
                busy += high - low
                until = high
        return busy


def timelines_of(path: Path) -> list[Timeline]:
    """Throws RecordError where the file holds no timelines."""
    whole = read_json(path)
    entries = whole.get("timelines")
    if not isinstance(entries, list) or not entries:
        raise RecordError(f"{path}: holds no timelines; `ladder timeline` writes such a file.")
    return [_timeline(path, entry) for entry in entries]


def _fields(path: Path, what: str, entry: object, texts: Sequence[str], numbers: Sequence[str]) -> dict[str, Any]:
    """An object of which these entries are texts and numbers."""
    if not isinstance(entry, dict):
        raise RecordError(f"{path}: {what} is {entry!r}, not an object; `ladder timeline` writes such a file.")
    for name in (*texts, *numbers):
        value = entry.get(name)
        if not (isinstance(value, str) if name in texts else number(value)):
            kind = "text" if name in texts else "number"
            said = repr(value) if name in entry else "missing"
            raise RecordError(f"{path}: {what}: {name} is {said}, not a {kind}; record it anew by `ladder timeline`.")
    return entry


def _timeline(path: Path, entry: object) -> Timeline:
    known = _fields(path, "a timeline", entry, ("variant", "workload", "scope", "git_sha"), ("us",))
    where = "a timeline of " + known["variant"]
    listed = known.get("events")
    if not isinstance(listed, list) or known["us"] <= 0:
        raise RecordError(f"{path}: {where} has no events, or takes no time; record it anew by `ladder timeline`.")
    numbers = ("stream", "start_us", "us", "bytes")
    found = [_fields(path, f"an event of {where}", e, ("kind", "name"), numbers) for e in listed]
    events = tuple(
        Event(e["kind"], e["name"], int(e["stream"]), e["start_us"] / 1e3, e["us"] / 1e3, e["bytes"]) for e in found
    )
    gpu = known.get("gpu")
    name = str(gpu.get("name", "")) if isinstance(gpu, dict) else ""
    place = (known["variant"], known["workload"], known["scope"])
    return Timeline(*place, name, known["git_sha"], known["us"] / 1e3, events)


def chosen(timelines: Sequence[Timeline], globs: Sequence[str]) -> list[Timeline]:
    """Throws RecordError where no variant matches."""
    found = [t for t in timelines if any(fnmatchcase(t.variant, glob) for glob in globs)]
    if not found:
        raise RecordError(f"no timeline is of {' or '.join(globs)}.")
    return found


def colours_of(timelines: Sequence[Timeline]) -> dict[str, str]:
    """Of the kernels that take longest over all timelines."""
    total: dict[str, float] = defaultdict(float)
    for timeline in timelines:
        for event in timeline.events:
            if event.kind == "kernel":
                total[event.name] += event.ms
    longest = sorted(total, key=lambda name: -total[name])[:NAMED]
    while sum(HANDLE + min(2.6, text_width(name, BODY)) for name in [*longest, "large copy", "the rest"]) > WIDTH - 1:
        longest.pop()
    return dict(zip(longest, COLOURS[1:], strict=False))


def _colour(event: Event, colours: dict[str, str]) -> str:
    if event.kind == "copy":
        return COLOURS[0] if event.bytes >= LARGE_COPY else GREY
    if event.kind == "wait":
        return PALE
    return colours.get(event.name, GREY)


def _panel(ax: Axes, timeline: Timeline, colours: dict[str, str], longest_ms: float) -> None:
    streams = timeline.streams()
    for lane, stream in enumerate(streams):
        mine = [e for e in timeline.events if e.stream == stream]
        ax.broken_barh(
            [(e.start_ms, e.ms) for e in mine],
            (lane - 0.4, 0.8),
            facecolors=[_colour(e, colours) for e in mine],
            linewidth=0,
        )
    ax.set_ylim(len(streams) - 0.5, -0.5)
    ax.set_yticks(range(len(streams)), ["host waits" if s < 0 else f"stream {s}" for s in streams])
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.set_xlim(0, longest_ms)
    until = timeline.copied_until_ms()
    if until:
        ax.axvline(until, color="black", linewidth=1.5, linestyle="--")
    ax.set_title(
        f"{timeline.variant}: {timeline.ms:.2f} ms, of which {timeline.ms - until:.2f} ms behind the last copy",
        loc="left",
        fontsize=BODY,
    )


def draw(timelines: Sequence[Timeline], folder: Path) -> list[Path]:
    """A page of timelines that have one workload and scope."""
    first = timelines[0]
    colours = colours_of(timelines)
    heights = [LANE * len(t.streams()) for t in timelines]
    room = 0.95  # of a panel, for its title and ticks
    ends = [t.copied_until_ms() for t in timelines]
    rests = sorted(t.ms - end for t, end in zip(timelines, ends, strict=True))
    behind = f"{rests[0]:.1f} ms" if len(rests) == 1 else f"{rests[0]:.1f} to {rests[-1]:.1f} ms"
    page = Page(
        f"{first.workload}, {first.scope}: copies take {max(ends):.1f} ms, {behind} follow",
        "Time from left to right in ms; dashed: the last copy of points from the host has ended",
        [],
        [f"{first.gpu} · git {first.git_sha[:10]} · recorded by CUPTI, which makes launches a little slower"],
        sum(heights) + room * len(heights) + 0.6,
    )
    labels = {"large copy": COLOURS[0]} | {shorten(name, 2.6): colour for name, colour in colours.items()}
    page.legend(MARGIN, [Patch(color=colour, label=label) for label, colour in (labels | {"the rest": GREY}).items()])
    left = MARGIN + text_width("stream 000", SMALL) + 0.15
    longest_ms = max(t.ms for t in timelines)
    top = page.top - 0.5
    for timeline, height in zip(timelines, heights, strict=True):
        top -= height + 0.45
        ax = page.axes(left, top, WIDTH - left - MARGIN, height)
        _panel(ax, timeline, colours, longest_ms)
        top -= room - 0.45
    folder.mkdir(parents=True, exist_ok=True)
    return page.save(folder, f"timeline_{first.workload}_{first.scope}")


def table(timelines: Sequence[Timeline]) -> str:
    """Markdown: a row per variant. `device busy`: at least one kernel runs."""
    lines = [
        "| variant | workload | in all | last copy ends | device busy till then | behind it | device busy there |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for t in timelines:
        until = t.copied_until_ms()
        before, behind = t.union_ms(0, until, ("kernel",)), t.union_ms(until, t.ms, ("kernel",))
        cells = (t.ms, until, before, t.ms - until, behind)
        lines.append(f"| `{t.variant}` | {t.workload} | " + " | ".join(f"{ms:.2f} ms" for ms in cells) + " |")
    return "\n".join(lines)


@in_sentences
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draws timelines of `ladder timeline`.")
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--variants", nargs="+", default=["*"], metavar="GLOB", help="these alone")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="FOLDER", help="where the pictures go")
    what.add_argument("--table", action="store_true", help="print a table instead")
    arguments = parser.parse_args(argv)
    timelines = chosen(timelines_of(arguments.file), arguments.variants)
    if arguments.table:
        print(table(timelines))
        return 0
    pages: dict[tuple[str, str], list[Timeline]] = defaultdict(list)
    for timeline in timelines:
        pages[timeline.workload, timeline.scope].append(timeline)
    for members in pages.values():
        for path in draw(members, arguments.out):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
