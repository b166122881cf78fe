"""Slides for the course, one deck per week: 16:9, at most 14 rows, each page's message as its title.

`python -m plots.slides --out FOLDER` writes weekN.pdf and a PNG of each page; `--update docs/course/slides.md` writes
the decks beside that page, which lists what each slide says; `--check` exits 1 where it or a deck says anything else.
Weeks, rungs and questions are those of docs/course; times, intervals and counters those of the committed records.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from plots import course
from plots.course import Week
from plots.explorer.document import committed
from plots.explorer.teaching import predicted
from plots.lib import outputs
from plots.lib.inputs import in_sentences, read_bytes, read_text
from plots.lib.record import SPACE, TIMES, ms, number
from plots.lib.sources import ARROW
from plots.lib.speedup import ends
from plots.lib.style import COLOURS, DPI, GREY, HEIGHT, LINE, PALE, WIDTH, log_ticks, text_width, times, wrap

TO = f"{SPACE}{ARROW}{SPACE}"

SMALL, BODY, LARGE, TITLE = 18, 22, 26, 34  # points on a page of 19.2 inches: 18 are 16.7 pixels of 1280 x 720
TITLES = (TITLE, 31, 28)  # a title takes two lines
CODE = 17
LETTER = 0.602  # width over size, of the letters of code
ROW = 0.42  # inches from one line of code to the next
MOST_ROWS = 14
FEW = 2  # changed lines that tell nothing without the parts that they call
MOST_QUESTIONS = 4
MARGIN = 0.9  # inches
INNER = WIDTH - 2 * MARGIN
BASE, RUNG = COLOURS[1], COLOURS[0]
SAME = 1.02  # of one session each: a smaller factor is no difference that a lecture would show
DECK = outputs.Kind("deck of slides by this project", lambda path: b"Ladder slides" in read_bytes(path))

# How a title tells of a counter that moved, from {before} to {after}.
TOLD = {
    "sectors_per_load": "{before}{to}{after} sectors per load",
    "load_requests": "{before}{to}{after} loads per warp's multiply-add",
    "dram_bytes": "{before}{to}{after} of device memory",
    "fadd": "{before}{to}{after} additions per multiply-add",
    "occupancy_achieved_percent": "{before}{to}{after} % occupancy",
    "instructions_per_cycle": "{before}{to}{after} instructions per cycle",
    "tensor_percent": "tensor cores busy {before}{to}{after} % of the time",
    "registers": "{before}{to}{after} registers per thread",
    "shared_atomics": "{before}{to}{after} atomics in shared memory",
    "global_atomics": "{before}{to}{after} atomics in global memory",
    "bank_conflicts_load": "{before}{to}{after} bank conflicts",
}
PER_FMA = ("load_requests", "fadd")  # counts that grow with the problem: told per multiply-add
ROWS = (
    *("load_requests", "sectors_per_load", "dram_bytes", "fadd", "registers", "occupancy_achieved_percent"),
    *("instructions_per_cycle", "bank_conflicts_load", "tensor_percent", "global_atomics", "shared_atomics"),
)
MOST_COUNTERS = 5
NAMES = {  # of counters whose own names do not say it
    "load_requests": "loads per warp's multiply-add",
    "sectors_per_load": "sectors per load",
    "dram_bytes": "moved from and to device memory",
    "fadd": "additions per multiply-add",
    "occupancy_achieved_percent": "occupancy reached, %",
    "bank_conflicts_load": "bank conflicts of loads",
    "tensor_percent": "tensor cores busy, % of the time",
}
LEAST = {"tensor_percent": 1, "bank_conflicts_load": 1e6}  # fewer are no part of a story


@dataclass(frozen=True)
class Slide:
    message: str
    figure: Figure


class Page:
    """A figure of one slide: its message on top, its body below, in one line at the foot where the numbers are from."""

    def __init__(self, message: str, foot: str = "", plain: bool = False) -> None:
        self.message = message
        self.figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
        self.top = HEIGHT - 0.75
        if not plain:
            points = next((size for size in TITLES if len(wrap(message, INNER, size, bold=True)) <= 2), TITLES[-1])
            self.top = self.write(wrap(message, INNER, points, bold=True), points, bold=True) - 0.25
        if foot:
            self.figure.text(MARGIN / WIDTH, 0.45 / HEIGHT, foot, fontsize=SMALL, color=GREY, va="bottom")
        self.bottom = 1.1

    def write(
        self, lines: Sequence[str], points: float, colour: str = "black", bold: bool = False, left: float = MARGIN,
        top: float | None = None, family: str | None = None,
    ) -> float:  # fmt: skip
        """Lines from the top of the body or from `top`, in inches; returns where the next one would begin."""
        y = self.top if top is None else top
        for line in lines:
            self.figure.text(
                left / WIDTH, y / HEIGHT, line, fontsize=points, color=colour, va="top",
                weight="bold" if bold else "normal", family=family,
            )  # fmt: skip
            y -= points * LINE / 72
        return y

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        ax = self.figure.add_axes((left / WIDTH, bottom / HEIGHT, width / WIDTH, height / HEIGHT))
        ax.tick_params(labelsize=SMALL)
        return ax

    def slide(self) -> Slide:
        return Slide(self.message, self.figure)


class Told:
    """What the document of the explorer holds, as slides ask for it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.rungs = {rung["id"]: rung for rung in data["rungs"]}
        self.machine = data["machines"][0]
        self.workload = self.machine["workloads"][0]

    def time(self, rung: str, workload: str, scope: str) -> float | None:
        found = self.machine["times"].get(rung, {}).get(workload, {}).get(scope)
        return found[0] if found else None

    def chain(self, rung: str) -> list[str]:
        """The rung and all below it, the root first."""
        found: list[str] = []
        while rung in self.rungs and rung not in found:
            found.insert(0, rung)
            rung = self.rungs[rung]["base"]
        return found

    def place(self, rung: dict[str, Any]) -> tuple[str, str]:
        """The workload and the scope that show its step: where both were counted, else where both have times."""
        names = [self.workload, *self.machine["workloads"]]
        counts, base = self.data["counts"], rung["base"]
        scope = rung["shows"] or "iteration" if base else "assign"
        for name in names:
            both = [counts.get(one, {}).get(name, {}).get(scope) for one in (rung["id"], base)]
            if all(both) and self.time(rung["id"], name, scope) and self.time(base, name, scope):
                return name, scope
        timed = (n for n in names if self.time(rung["id"], n, scope) and (not base or self.time(base, n, scope)))
        return next(timed, self.workload), scope

    def counts(self, rung: str, workload: str, scope: str) -> dict[str, Any] | None:
        return self.data["counts"].get(rung, {}).get(workload, {}).get(scope)

    def gain(self, rung: dict[str, Any]) -> dict[str, Any] | None:
        """From sessions in turns, in its scope: on the main workload before others."""
        found = [
            gain
            for gain in self.data["gains"]
            if (gain["rung"], gain["base"], gain["scope"]) == (rung["id"], rung["base"], rung["shows"] or "iteration")
        ]
        return min(found, key=lambda gain: gain["workload"] != self.workload, default=None)

    def size(self, workload: str) -> str:
        w = self.data["workloads"][workload]
        return f"{workload}: {w['n']:,} {TIMES} {w['d']:,}, K = {w['k']:,}"

    def foot(self, workload: str, more: str = "") -> str:
        return f"{self.machine['name']} · {self.size(workload)}" + (f" · {more}" if more else "")


def shown(name: str, value: float) -> str:
    """16.5, 2.34 TB, 38.2 billion."""
    scales = (
        ((1e12, " TB"), (1e9, " GB"), (1e6, " MB"))
        if name.endswith("bytes")
        else ((1e9, " billion"), (1e6, " million"))
    )
    for scale, unit in scales:
        if value >= scale:
            return f"{number(value / scale)}{unit}"
    return "0" if name.endswith("percent") and value < 0.1 else number(value)


def value_of(count: dict[str, Any], name: str) -> float | None:
    """A counter; those that grow with the problem per multiply-add of the kernel, of loads a warp's."""
    value, fma = count["metrics"].get(name), count["metrics"].get("ffma")
    if value is None or name not in PER_FMA:
        return value
    return value / fma * (32 if name == "load_requests" else 1) if fma else None


def change_of(told: Told, rung: dict[str, Any]) -> str:
    """What its counter did; empty where it was not counted, or hardly moved."""
    workload, scope = told.place(rung)
    mine, other = told.counts(rung["id"], workload, scope), told.counts(rung["base"], workload, scope)
    name = rung["counter"]
    if not mine or not other or name not in TOLD:
        return ""
    before, after = value_of(other, name), value_of(mine, name)
    if before is None or after is None or max(before, after) < 1.05 * min(before, after):
        return ""
    return TOLD[name].format(before=shown(name, before), to=TO, after=shown(name, after))


def pace(ratio: float) -> str:
    """In words: 1.58 times as fast. Of one session each, which cannot show a small difference."""
    if ratio >= SAME:
        return f"{times(ratio)} as fast"
    return f"{times(1 / ratio)} the time" if ratio <= 1 / SAME else "no faster"


def shown_gain(gain: dict[str, Any]) -> str:
    """What sessions in turns show, with its interval: 1.13 times as fast (1.12 to 1.13)."""
    value, low, high = gain["value"], gain["low"], gain["high"]
    if gain["verdict"] == "SLOWER":
        return f"{times(1 / value)} the time ({ends(1 / high, 1 / low)})"
    told = {"FASTER": f"{times(value)} as fast", "SAME": "no faster", "UNSURE": "no difference is shown"}
    return f"{told[gain['verdict']]} ({ends(low, high)})"


def ratio_of(told: Told, rung: dict[str, Any]) -> float | None:
    workload, scope = told.place(rung)
    before, after = told.time(rung["base"], workload, scope), told.time(rung["id"], workload, scope)
    return before / after if before and after else None


def message_of(told: Told, rung: dict[str, Any]) -> str:
    """Points stored feature by feature: 16.5 -> 2.50 sectors per load, 1.58 times as fast (1.52 to 1.65)."""
    idea = rung["idea"][0].upper() + rung["idea"][1:]
    ratio, gain = ratio_of(told, rung), told.gain(rung)
    alone = f"{pace(ratio)} in one session each" if ratio else ""
    said = ", ".join(part for part in (change_of(told, rung), shown_gain(gain) if gain else alone) if part)
    return f"{idea}: {said}" if said else idea


# -------------------------------------------------------------------------------------------------------------- slides


def bullets(page: Page, entries: Sequence[str], points: float, top: float | None = None) -> float:
    y = page.top if top is None else top
    for entry in entries:
        page.write(["•"], points, GREY, top=y)
        y = page.write(wrap(entry, INNER - 0.5, points), points, left=MARGIN + 0.5, top=y) - 0.14
    return y


def title_slide(told: Told, week: Week) -> Slide:
    page = Page(week.title, "K-means Ladder", plain=True)
    y = page.write(wrap(week.title, INNER, 54, bold=True), 54, bold=True, top=HEIGHT - 1.6) - 0.4
    y = page.write(["After this week you can"], LARGE, GREY, top=y) - 0.15
    bullets(page, [goal.rstrip(";.") for goal in week.goals], LARGE, y)
    return page.slide()


def chain_slide(told: Told, week: Week) -> Slide | None:
    """Bars of one iteration, a row for each rung with a time."""
    scope = "iteration"
    rows = [(name, time) for name in week.rungs if (time := told.time(name, told.workload, scope))]
    root = told.data["rungs"][0]["id"]
    if (first := told.time(root, told.workload, scope)) and root not in week.rungs:
        rows.insert(0, (root, first))
    rows = rows[:MOST_ROWS]
    if len(rows) < 2:
        return None
    (slowest, most), (fastest, least) = rows[0], min(rows, key=lambda row: row[1])
    page = Page(f"{slowest}{TO}{fastest}: one iteration takes {ms(most)}{TO}{ms(least)}",
                told.foot(told.workload, "bars: median of one session; lower is better"))  # fmt: skip
    names = max(text_width(name, BODY) for name, _ in rows) + 0.3
    values = [f"{ms(time)}, {times(most / time)}" for _, time in rows]
    longest = max(time for _, time in rows)
    right = max(text_width(value, BODY) for value in values) + 0.3
    left = MARGIN + names
    height = min(page.top - page.bottom - 0.6, 0.75 * len(rows))
    ax = page.axes(left, page.top - height, WIDTH - MARGIN - right - left, height)
    colours = [RUNG if name in week.rungs else GREY for name, _ in rows]
    ax.barh(range(len(rows)), [time for _, time in rows], height=0.66, color=colours)
    for at, ((_, time), value) in enumerate(zip(rows, values, strict=True)):
        ax.text(time + 0.01 * longest, at, value, fontsize=BODY, va="center")
    ax.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=BODY)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0, longest)
    ax.set_xticks([])
    ax.grid(visible=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["bottom"].set_visible(False)
    return page.slide()


def hunk(told: Told, rung: dict[str, Any], most: int, letters: int = 120) -> list[tuple[str, str]]:
    """Changed lines as (mark, text), in rows of at most so many letters; with neighbours where there is room. Of a
    root the begin of its kernel."""
    base = told.rungs.get(rung["base"])
    code = rung["code"].splitlines()
    if not base:
        found = rows_of([(" ", line) for line in kernel_of(rung["code"])], letters)
        return found[:most]
    matcher = difflib.SequenceMatcher(None, base["code"].splitlines(), code, autojunk=False)
    parts = [told.data["parts"][name] for name in rung["parts"] if name not in base["parts"]]
    alone = [line for line in changed(matcher, 0, parts) if line[0] != " "]
    for lines in (changed(matcher, 1, parts), changed(matcher, 0, parts), alone):
        if len(found := rows_of(lines, letters)) <= most:
            return found
    gone = sum(mark == "-" for mark, _ in alone)
    added = [line for line in alone if line[0] == "+"]
    found = rows_of(added if len(added) > FEW else [*added, *new_kernels(parts)], letters)
    rest = len(found) - most + 1
    removed = f"{gone} line{'s' * (gone > 1)} removed"
    more = f"{rest} more line{'s' * (rest > 1)}, {removed}" if rest > 0 else removed
    return [*found[: most - 1], (" ", f"… and {more}")]


def changed(matcher: difflib.SequenceMatcher[str], around: int, parts: Sequence[str]) -> list[tuple[str, str]]:
    """Runs of changed lines, each with so many lines around it; where hardly any changed, also the new parts."""
    found: list[tuple[str, str]] = []
    for group in matcher.get_grouped_opcodes(around):
        lines = [
            (mark, line)
            for tag, a, b, c, d in group
            for mark, text in ((" ", matcher.b[c:d]),) * (tag == "equal")
            + (("-", matcher.a[a:b]), ("+", matcher.b[c:d])) * (tag != "equal")
            for line in text
        ]
        if any(mark != " " and not line.startswith("#include") for mark, line in lines):
            found += ([(" ", "…")] if found else []) + lines
    return found if sum(mark != " " for mark, _ in found) > FEW else [*found, *new_kernels(parts)]


def new_kernels(parts: Sequence[str]) -> list[tuple[str, str]]:
    return [("+", line) for code in parts for line in kernel_of(code)]


def rows_of(lines: Sequence[tuple[str, str]], letters: int) -> list[tuple[str, str]]:
    """Without the indentation that all share; a line that is too long goes on in the next row, further in."""
    shared = min((len(t) - len(t.lstrip()) for _, t in lines if t.strip("… ")), default=0)
    found = []
    for mark, line in lines:
        text = line if line.startswith("…") else line[shared:]
        indent = " " * (len(text) - len(text.lstrip()) + 4)
        while len(text) > letters:
            at = text.rfind(", ", letters // 2, letters) + 2
            at = at if at > 1 else text.rfind(" ", len(indent), letters) + 1 or letters
            found.append((mark, text[:at].rstrip()))
            text = indent + text[at:]
        found.append((mark, text))
    return found


def kernel_of(code: str) -> list[str]:
    """From its first kernel on, or all of it."""
    lines = code.splitlines()
    return lines[next((at for at, line in enumerate(lines) if "__global__" in line), 0) :]


def step_slide(told: Told, rung: dict[str, Any]) -> Slide:
    workload, scope = told.place(rung)
    gain = told.gain(rung)
    page = Page(message_of(told, rung), foot_of(told, rung, gain))
    wide = 11.2
    subtitle = f"{rung['id']} over {rung['base']}" if rung["base"] else rung["id"]
    page.write([subtitle], BODY, RUNG, bold=True)
    top = page.top - 0.65
    colours = {"+": ("#DCEFDC", "black"), "-": ("#FDE3DC", "black"), " ": ("none", "#444444")}
    for mark, line in hunk(told, rung, MOST_ROWS, int(wide / (CODE * LETTER / 72)) - 2):
        back, ink = colours[mark]
        page.figure.text(
            MARGIN / WIDTH, top / HEIGHT, f"{mark} {line}", fontsize=CODE, family="DejaVu Sans Mono",
            color=ink, va="top", bbox={"facecolor": back, "edgecolor": "none", "pad": 2.5}, gid="code",
        )  # fmt: skip
        top -= ROW
    left = MARGIN + wide + 0.4
    room = WIDTH - MARGIN - left
    y = counters_of(told, page, rung, left, room)
    before, after = told.time(rung["base"], workload, scope), told.time(rung["id"], workload, scope)
    if gain:
        before, after = gain["times"]
    if before and after:
        title = f"Time in turns, {short(gain['gpu'])}" if gain else f"Time, {short(told.machine['name'])}"
        y = page.write([title], BODY, bold=True, left=left, top=y)
        ax = page.axes(left, y - 1.25, room, 1.2)
        ax.barh([0, 1], [before, after], color=[BASE, RUNG], height=0.8)
        for at, value in enumerate((before, after)):
            inside = value > 0.5 * max(before, after)
            ax.text(value + (-0.02 if inside else 0.02) * max(before, after), at, ms(value), fontsize=BODY,
                    va="center", ha="right" if inside else "left", color="white" if inside else "black")  # fmt: skip
        ax.set_ylim(1.5, -0.5)
        ax.set_xlim(0, max(before, after))
        ax.axis("off")
        y -= 1.5
    elif after:
        y = page.write([f"Time, {short(told.machine['name'])}"], BODY, bold=True, left=left, top=y)
        y = page.write([ms(after)], BODY, left=left, top=y)
    note = "One session each: no interval." if before else "One session: no interval."
    if gain:
        sessions = " + ".join(map(str, gain["sessions"]))
        note = f"{sessions} sessions; 95{SPACE}% interval in the title"
    page.write(wrap(note, room, SMALL), SMALL, "#333333", left=left, top=y)
    return page.slide()


def short(device: str) -> str:
    """H100 of NVIDIA H100 80GB HBM3."""
    return device.split()[1] if " " in device else device


def foot_of(told: Told, rung: dict[str, Any], gain: dict[str, Any] | None) -> str:
    """What was counted and timed, and where."""
    workload, scope = told.place(rung)
    what = told.data["scopes"][scope]
    if gain and not told.counts(rung["id"], workload, scope):
        n, d, k = gain["size"]
        size = f"{gain['workload']}: {n:,} {TIMES} {d:,}, K = {k:,}"
        return f"{gain['gpu']} · {size} · {what}"
    if not gain or gain["workload"] == workload:
        return told.foot(workload, what)
    return told.foot(workload, f"{what}; timed on {gain['workload']}")


def counters_of(told: Told, page: Page, rung: dict[str, Any], left: float, room: float) -> float:
    """Counted before and after, from the top of the body; returns where the next line may begin."""
    workload, scope = told.place(rung)
    mine, other = told.counts(rung["id"], workload, scope), told.counts(rung["base"], workload, scope)
    if not mine:
        return page.write(wrap("No counters on this workload.", room, SMALL), SMALL, GREY, left=left) - 0.3
    y = page.write([f"Counted{f', before{TO}after' if other else ''}"], BODY, bold=True, left=left)
    names = sorted(ROWS, key=lambda name: name != rung["counter"])
    paper = paper_of(told, rung, mine, workload)
    rows = []
    for name in names:
        before, after = value_of(other, name) if other else None, value_of(mine, name)
        if after is None or max(before or 0, after) < LEAST.get(name, 0.01):
            continue
        if other and name != rung["counter"] and before and after and max(before, after) < 1.05 * min(before, after):
            continue
        label = NAMES.get(name, name.replace("_", " "))
        value = f"{shown(name, before)}{TO}{shown(name, after)}" if before is not None else shown(name, after)
        rows.append((f"{label}, on paper {shown(name, paper[name])}" if name in paper else label, value))
    for label, value in rows[:MOST_COUNTERS]:
        y = page.write(wrap(label, room, SMALL), SMALL, GREY, left=left, top=y)
        y = page.write([value], BODY, left=left, top=y + 0.04) - 0.04
    return y - 0.2


def paper_of(told: Told, rung: dict[str, Any], count: dict[str, Any], workload: str) -> dict[str, float]:
    """What the formulas of its lesson give, as value_of has what was counted."""
    names = dict(zip(("N", "D", "K"), count["size"], strict=True)) | rung["axes"] | count["axes"]
    names |= {"B": 8 if count["type"] == "f64" else 4, "reserved": told.data["limits"].get("reserved_bytes", 0)}
    names["registers"] = count["metrics"].get("registers", 0)
    found = predicted(rung, workload, names, told.machine["ceilings"].get("l2_bytes", 0))
    fma = found.get("multiply_adds") or count["metrics"].get("ffma")
    if "load_requests" in found and fma:
        found["load_requests"] *= 32 / fma
    return {name: value for name, value in found.items() if name in ROWS and (name not in PER_FMA or fma)}


def roofline_slide(told: Told, week: Week) -> Slide | None:
    """Dots at counted bytes, in the order of reading."""
    workload, scope = told.workload, "assign"
    w = told.data["workloads"][workload]
    flop = 2.0 * w["n"] * w["d"] * w["k"]
    dots = []
    for name in [*(one for one in told.chain(week.rungs[-1]) if one not in week.rungs), *week.rungs]:
        count, time = told.counts(name, workload, scope), told.time(name, workload, scope)
        if count and time and count["bytes"]:
            dots.append((name, flop / count["bytes"], flop / time / 1e9))
    ceilings = told.machine["ceilings"]
    if len(dots) < 2 or not ceilings.get("fp32_gflops") or not ceilings.get("read_gbs"):
        return None
    first, most = dots[0], max(dots, key=lambda dot: dot[1])
    page = Page(
        f"Operations per byte, counted: {number(first[1])} ({first[0]}){TO}{number(most[1])} ({most[0]})",
        told.foot(workload, "the assignment; operations: 2 N K D"),
    )
    left = MARGIN + 1.6
    ax = page.axes(left, page.bottom + 1.0, WIDTH - MARGIN - left, page.top - page.bottom - 1.1)
    fp32, reading = ceilings["fp32_gflops"] / 1e3, ceilings["read_gbs"] / 1e3
    roofs = [("fp32", fp32, "-")]
    tensor = ceilings.get("tensor_fp16_gflops") or told.data["other_ceilings"].get("tensor_fp16_gflops")
    if tensor and max(dot[2] for dot in dots) > 0.8 * fp32:
        of = "" if ceilings.get("tensor_fp16_gflops") else f" (an {short(told.data['other_gpu'])}'s)"
        roofs.append((f"fp16 tensor cores{of}", tensor / 1e3, "--"))
    xs, ys = [dot[1] for dot in dots], [dot[2] for dot in dots]
    low, high = min(*xs, 1) / 3, max(*xs, *(rate / reading for _, rate, _ in roofs)) * 6
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    bottom, top = min(*ys, low * reading) / 1.5, max(rate for _, rate, _ in roofs) * 2.5
    ax.set_ylim(bottom, top)
    for name, rate, dash in roofs:
        ax.plot([low, rate / reading, high], [low * reading, rate, rate], "k", linestyle=dash, linewidth=3, gid="roof")
        text = f"{name}: {number(rate)} TFLOP/s"
        lower = len(roofs) > 1 and rate == roofs[0][1]  # dots may lie at its right end
        place = 2.5 * rate / reading if lower else high / 1.1
        side = "left" if lower else "right"
        ax.text(place, rate * 1.15, text, ha=side, va="bottom", fontsize=SMALL, bbox=CLEAR)
    middle = (low * roofs[0][1] / reading) ** 0.5
    ax.text(
        middle / 1.2, middle * reading, f"memory: {number(1e3 * reading)} GB/s", fontsize=SMALL, ha="right", va="bottom"
    )
    own = [dot for dot in dots if dot[0] in week.rungs]
    ax.plot(xs, ys, color=PALE, linewidth=3, zorder=1)
    ax.plot(xs, ys, "o", color="#999999", markersize=12, zorder=2)
    ax.plot([dot[1] for dot in own], [dot[2] for dot in own], "o", color=RUNG, markersize=18, zorder=3)
    label_dots(ax, own, [(rate / reading, rate) for _, rate, _ in roofs])
    width, height = (value / DPI for value in ax.get_window_extent().size)
    log_ticks(ax, "x", width)
    log_ticks(ax, "y", height)
    ax.minorticks_off()
    ax.set_xlabel("operations per byte of device memory (log scale)", fontsize=BODY)
    ax.set_ylabel("TFLOP/s (log scale)", fontsize=BODY)
    return page.slide()


CLEAR = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.85}  # lines do not cross what stands on it
NEAR = 1.1  # a factor within which dots of neighbours lie on each other


def label_dots(ax: Axes, dots: Sequence[tuple[str, float, float]], roofs: Sequence[tuple[float, float]]) -> None:
    """Names right of and below their dots, each moved down as far as it would meet one before, a dot or a roof (level
    from this x on, at this y)."""
    box = ax.get_window_extent()

    def inches(x: float, y: float) -> tuple[float, float]:
        at_x, at_y = ax.transData.transform((x, y)) / DPI
        return float(at_x), float(at_y)

    placed: list[tuple[float, float, float, float]] = []  # left, right, y and the distance to keep from it, in inches
    placed += [(at_x - 0.12, at_x + 0.12, at_y, 0.38) for at_x, at_y in (inches(x, y) for _, x, y in dots)]
    placed += [(at_x, box.x1 / DPI, at_y, 0.2) for at_x, at_y in (inches(*roof) for roof in roofs)]
    groups: list[tuple[list[str], float, float]] = []
    for name, x, y in dots:
        near = next((g for g in groups if max(g[1] / x, x / g[1]) < NEAR and max(g[2] / y, y / g[2]) < NEAR), None)
        if near:
            near[0].append(name)
        else:
            groups.append(([name], x, y))
    for names, x, y in sorted(groups, key=lambda group: -group[2]):
        at_x, at_y = inches(x, y)
        text = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        wide = text_width(text, SMALL)
        left = min(at_x + 0.2, box.x1 / DPI - wide)
        height = at_y - 0.32
        while any(left < end and begin < left + wide and abs(height - y) < far for begin, end, y, far in placed):
            height -= 0.05
        placed.append((left, left + wide, height, 0.33))
        ax.figure.text(
            left / WIDTH, height / HEIGHT, text, fontsize=SMALL, color=RUNG, va="center", gid="name", bbox=CLEAR
        )


NO_WAITS = ("issuing", "ready, another warp issues")


def stalls_slide(told: Told, week: Week) -> Slide | None:
    workload, scope = told.workload, "assign"
    bars = [
        (name, dict(count["stalls"]))
        for name in week.rungs
        if (count := told.counts(name, workload, scope)) and count["stalls"]
    ][:MOST_ROWS]
    if len(bars) < 2:
        return None
    totals: dict[str, float] = {}
    for _, shares in bars:
        for reason, share in shares.items():
            totals[reason] = totals.get(reason, 0) + share
    named = sorted(totals, key=lambda reason: -totals[reason])[: len(COLOURS)]
    before, after = bars[0], bars[-1]
    waits = [reason for reason in named if reason not in NO_WAITS]
    top = max(waits or named, key=lambda reason: abs(after[1].get(reason, 0) - before[1].get(reason, 0)))
    message = f"{top[0].upper() + top[1:]}: why warps wait {100 * before[1].get(top, 0):.0f} % of their time in "
    page = Page(message + f"{before[0]}, {100 * after[1].get(top, 0):.0f} % in {after[0]}",
                told.foot(workload, "share of the warps' time, in the assignment"))  # fmt: skip
    legend(page, [*zip(named, COLOURS, strict=False), ("others", "#999999")])
    names = max(text_width(name, BODY) for name, _ in bars) + 0.3
    left = MARGIN + names
    height = min(page.top - page.bottom - 0.6, 0.8 * len(bars))
    ax = page.axes(left, page.top - height, WIDTH - MARGIN - left, height)
    for at, (_, shares) in enumerate(bars):
        begin = 0.0
        for reason, colour in zip(named, COLOURS, strict=False):
            share = 100 * shares.get(reason, 0)
            ax.barh(at, share, left=begin, height=0.7, color=colour, edgecolor="white")
            if share >= 8:
                ax.text(
                    begin + share / 2, at, f"{share:.0f} %", fontsize=SMALL, ha="center", va="center", color="white"
                )
            begin += share
        ax.barh(at, 100 - begin, left=begin, height=0.7, color=PALE, edgecolor="white")
    ax.set_xlim(0, 100)
    ax.set_ylim(len(bars) - 0.5, -0.5)
    ax.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=BODY)
    ax.set_xticks([])
    ax.grid(visible=False)
    ax.tick_params(axis="y", length=0)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return page.slide()


def legend(page: Page, entries: Sequence[tuple[str, str]]) -> None:
    """At the top of the body, in as many rows as it takes."""
    x = MARGIN
    for reason, colour in entries:
        text = f"■ {reason}"
        wide = text_width(text, SMALL, bold=True)
        if x + wide > WIDTH - MARGIN:
            x, page.top = MARGIN, page.top - SMALL * LINE / 72
        page.write([text], SMALL, colour, bold=True, left=x)
        x += wide + 0.35
    page.top -= SMALL * LINE / 72 + 0.25


def question_slides(week: Week) -> Iterator[Slide]:
    """A question, and after it the same with its answer."""
    for asked, answer in week.questions[:MOST_QUESTIONS]:
        for text in ("", answer) if answer else ("",):
            message = f"Answer: {asked}" if text else asked
            page = Page(message, "K-means Ladder", plain=True)
            head = "Question" if not text else "Answer"
            y = page.write([head], LARGE, BASE if not text else RUNG, bold=True, top=HEIGHT - 1.2) - 0.2
            points = TITLE if not text else LARGE
            y = page.write(wrap(asked, INNER, points, bold=not text), points, bold=not text, top=y) - 0.4
            if text:
                page.write(wrap(text, INNER, LARGE), LARGE, RUNG, top=y)
            yield page.slide()


def deck(told: Told, week: Week) -> list[Slide]:
    made: list[Slide | None] = [title_slide(told, week), chain_slide(told, week)]
    made += [step_slide(told, told.rungs[name]) for name in week.rungs if name in told.rungs]
    made += [roofline_slide(told, week), stalls_slide(told, week), *question_slides(week)]
    return [slide for slide in made if slide]


# --------------------------------------------------------------------------------------------------------------- files


def digest(slides: Sequence[Slide]) -> str:
    """Of all that stands on them: texts, and the numbers behind bars and dots."""
    said = []
    for slide in slides:
        said += [text.get_text() for text in slide.figure.texts]
        for ax in slide.figure.axes:
            said += [text.get_text() for text in ax.texts]
            said += [f"{patch.get_width():.4g}" for patch in ax.patches]
            said += [f"{value:.4g}" for line in ax.lines for value in [*line.get_xdata(), *line.get_ydata()]]
    return hashlib.sha256("\n".join(map(str, said)).encode()).hexdigest()[:16]


def pdf(slides: Sequence[Slide], title: str) -> bytes:
    content = io.BytesIO()
    keywords = f"Ladder slides {digest(slides)}"
    with PdfPages(content, metadata={"Title": title, "Keywords": keywords, "CreationDate": None}) as pages:
        for slide in slides:
            pages.savefig(slide.figure)
    return content.getvalue()


def contents(decks: dict[Week, list[Slide]], folder: str) -> str:
    lines = [
        "# Slides",
        "",
        "<!-- Generated: python -m plots.slides --update docs/course/slides.md. Do not edit by hand. -->",
        "",
        "One deck per week of the course, 16:9. Numbers are those of the committed records and their profiles. "
        "`.venv/bin/python -m plots.slides --out slides` makes the same decks and a PNG of each page; "
        "`./run_all.sh draw` puts them into `results/latest/slides/`. What each slide says:",
    ]
    for week, slides in decks.items():
        lines += ["", f"## [{week.title}]({folder}/week{week.number}.pdf)", ""]
        lines += [f"{at}. {slide.message}" for at, slide in enumerate(slides, 1)]
    return "\n".join([*lines, ""])


def write_decks(decks: dict[Week, list[Slide]], folder: Path, pictures: bool) -> None:
    for week, slides in decks.items():
        outputs.write(folder / f"week{week.number}.pdf", pdf(slides, week.title), DECK)
        for at, slide in enumerate(slides if pictures else (), 1):
            content = io.BytesIO()
            slide.figure.savefig(content, format="png", metadata={"Software": "K-means Ladder slides"})
            outputs.write(folder / f"week{week.number}_{at:02}.png", content.getvalue(), outputs.ANY_PICTURE)


def differences(decks: dict[Week, list[Slide]], path: Path, text: str) -> Iterator[str]:
    if not path.is_file() or read_text(path) != text:
        yield f"{path}: is not what the records say"
    for week, slides in decks.items():
        file = path.with_suffix("") / f"week{week.number}.pdf"
        if not file.is_file() or f"Ladder slides {digest(slides)}".encode() not in read_bytes(file):
            yield f"{file}: is not what the records say"


@in_sentences
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Makes the slides of the course, a deck per week.")
    parser.add_argument("--course", type=Path, default=course.FOLDER, metavar="FOLDER", help="of week*.md")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="FOLDER", help="write a PDF for each week and a PNG for each slide")
    what.add_argument("--update", type=Path, metavar="FILE", help="write the list of slides, and the PDFs beside it")
    what.add_argument("--check", type=Path, metavar="FILE", help="exit 1 where these say anything else")
    arguments = parser.parse_args(argv)
    told = Told(committed()[0])
    decks = {week: deck(told, week) for week in course.weeks(arguments.course)}
    if arguments.out:
        write_decks(decks, arguments.out, pictures=True)
        print(f"look at {arguments.out}: {', '.join(f'week{week.number}.pdf' for week in decks)}")
        return 0
    path: Path = arguments.update or arguments.check
    text = contents(decks, path.stem)
    if arguments.update:
        outputs.write(path, text, outputs.PAGE)
        write_decks(decks, path.with_suffix(""), pictures=False)
        return 0
    found = list(differences(decks, path, text))
    for line in found:
        print(f"{line}; run `python -m plots.slides --update {path}`.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
