"""docs/steps.md: what each step gains, from sessions of the base and of the rung in turns, with intervals.

`python -m plots.steps_page [RECORD...] --update docs/steps.md` writes it, with a picture for each workload in a folder
beside it that has the page's name; `--check` exits 1 where the file says anything but what the records say. A record
has such comparisons after `ladder run --compare base` (docs/comparing.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.lines import Line2D

from plots.lib import cards, schema
from plots.lib.inputs import in_sentences
from plots.lib.pages import cell_text, keep_page, page_arguments, records_or
from plots.lib.record import ROOT, SCOPE_TITLES, TIMES, Comparison, Record, RecordError, number, of_one_gpu
from plots.lib.speedup import IN_TURNS, Gain, gain_of
from plots.lib.style import COLOURS, GREY, MARGIN, ROW, SMALL, WIDTH, Page, log_ticks, text_width

DEVICE = "cuda"
USUAL = sorted((ROOT / "results" / "nvidia-h100").glob("comparisons*.json"))
PLAN = ROOT / "results" / "nvidia-h200" / "comparisons.toml"
HEAD = ("rung", "over", "time of", "gain", "95 % interval", "sessions", "verdict")
LOOKS = {  # by verdict: colour, marker, in words
    "FASTER": (COLOURS[0], "o", "faster"),
    "SLOWER": (COLOURS[1], "s", "slower"),
    "SAME": (GREY, "D", "no difference that matters (within 2 %)"),
    "UNSURE": (GREY, "x", "these sessions cannot tell"),
}
LEAST_SPAN = 1.25  # the axis reaches at least this far to both sides of 1


@dataclass(frozen=True)
class Step:
    comparison: Comparison
    gain: Gain

    @property
    def rung(self) -> str:
        return self.comparison.candidate

    @property
    def over(self) -> str:
        return self.comparison.base

    @property
    def interval(self) -> tuple[float, float]:
        assert self.gain.interval
        return self.gain.interval.low, self.gain.interval.high


def steps_of(record: Record) -> dict[str, list[Step]]:
    """By workload, in the order of the ladder; of a step that was measured twice, what the last record says. Throws
    RecordError where no sessions took turns on a GPU."""
    order = {name: at for at, name in enumerate(cards.load())}
    last = {(c.workload, c.candidate, c.base, c.scope): c for c in record.comparisons
            if c.method == IN_TURNS and c.device == DEVICE}  # fmt: skip
    found: dict[str, list[Step]] = {}
    for c in last.values():
        found.setdefault(c.workload, []).append(Step(c, gain_of(c)))
    if not found:
        raise RecordError(f"{record.names}: has no sessions in turns on a GPU: ladder run --compare base makes them.")
    for steps in found.values():
        steps.sort(key=lambda step: (order.get(step.rung, len(order)), step.rung, step.comparison.scope))
    return found


def counts(steps: Sequence[Step]) -> str:
    """How many of each verdict: 12 faster, 3 slower."""
    told = []
    for verdict, (_, _, words) in LOOKS.items():
        if many := sum(step.comparison.verdict == verdict for step in steps):
            told.append(f"{many} {words}")
    return "; ".join(told)


def message(steps: Sequence[Step]) -> str:
    most = max(steps, key=lambda step: step.interval[0])
    if len(steps) == 1:
        return f"{most.rung}: {LOOKS[most.comparison.verdict][2]}, {number(most.gain.value)}{TIMES}"
    many = sum(step.comparison.verdict == "FASTER" for step in steps)
    if not many:
        return f"None of {len(steps)} steps is shown to be faster"
    return f"{many} of {len(steps)} steps are faster, {most.rung} most: {number(most.gain.value)}{TIMES}"


def picture_of(page: Path, workload: str) -> Path:
    return page.with_suffix("") / f"{workload}.png"


# ----------------------------------------------------------------------------------------------------------- the page


def cells(step: Step) -> list[str]:
    c = step.comparison
    low, high = step.interval
    return [
        f"[`{step.rung}`](ladder.md#{step.rung})",
        f"`{step.over}`",
        SCOPE_TITLES[c.scope],
        f"{number(step.gain.value)}{TIMES}",
        f"{number(low)} to {number(high)}",
        f"{c.base_sessions} + {c.candidate_sessions}",
        LOOKS[c.verdict][2],
    ]


def table(steps: Sequence[Step]) -> list[str]:
    rows = ["| " + " | ".join(map(cell_text, cells(step))) + " |" for step in steps]
    align = ["---:" if name in ("gain", "95 % interval", "sessions") else "---" for name in HEAD]
    return ["| " + " | ".join(HEAD) + " |", "| " + " | ".join(align) + " |", *rows]


def markdown(record: Record, found: dict[str, list[Step]], given: Sequence[Path], page: Path) -> str:
    files = "".join(f" {path}" for path in given)
    missing = [name for name, card in cards.load().items() if card.base and not compared(found, name)]
    lines = [
        "# What each step gains",
        "",
        f"<!-- Generated: python -m plots.steps_page{files} --update docs/steps.md. Do not edit by hand. -->",
        "",
        "Each rung over the base that its card names, in the scope that its card names: the median time of the base "
        "over that of the rung, so that above 1 is faster. The sessions (processes) of the two took turns in an order "
        "drawn anew for each round; a session counts once, and the interval is Student's t of them "
        "([comparing](comparing.md)). What a card expects stands in [the ladder, rung by rung](ladder.md). "
        f"In all {sum(map(len, found.values()))} steps: {counts([s for steps in found.values() for s in steps])}.",
    ]
    for workload, steps in found.items():
        w = record.workloads[workload]
        lines += [
            "",
            f"## `{workload}`",
            "",
            f"{w.title[0].upper()}{w.title[1:]}, {w.size}. {counts(steps)}.".strip(),
            "",
        ]
        picture = picture_of(page, workload)
        lines += [f"![Gain of each rung on {workload}]({picture.parent.name}/{picture.name})", "", *table(steps)]
    if missing:
        plan = PLAN.relative_to(ROOT)
        lines += ["", "## Not measured in turns yet", ""]
        lines += [f"`{plan}` plans most of them: {', '.join(f'`{name}`' for name in missing)}."]
    return "\n".join([*lines, "", f"{record.footer(DEVICE)}.", ""])


def compared(found: dict[str, list[Step]], variant: str) -> bool:
    return any(step.rung == variant for steps in found.values() for step in steps)


# -------------------------------------------------------------------------------------------------------- the picture


def draw(records: Sequence[Record], workload: str, steps: Sequence[Step], given: Sequence[Path], path: Path) -> None:
    """The foot names those of the records that have sessions on this workload."""
    record = of_one_gpu([r for r in records if any(c.workload == workload for c in r.comparisons)])
    files = "".join(f" {record}" for record in given)
    foot = [record.footer(DEVICE), f"drawn by python -m plots.steps_page{files} --update"]
    scopes = dict.fromkeys(step.comparison.scope for step in steps)
    subtitle = (
        f"{workload}, {record.workloads[workload].size}; the base's time over the rung's, with its 95 % interval; "
    )
    subtitle += "right of the line: faster"
    page = Page(message(steps), subtitle, [], foot, body=len(steps) * ROW + 1.1)
    labels = [step.rung + (f", {step.comparison.scope}" if len(scopes) > 1 else "") for step in steps]
    left = MARGIN + max(text_width(label, SMALL) for label in labels) + 0.2
    values = [f"{number(s.gain.value)}{TIMES} ({number(s.interval[0])} to {number(s.interval[1])})" for s in steps]
    right = max(text_width(value, SMALL) for value in values) + 0.25
    inches, bottom = WIDTH - left - MARGIN - right, page.bottom + 0.6
    ax = page.axes(left, bottom, inches, page.top - 0.35 - bottom)
    low = min(1 / LEAST_SPAN, *(step.interval[0] for step in steps)) / 1.1
    high = max(LEAST_SPAN, *(step.interval[1] for step in steps)) * 1.1
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ax.set_ylim(len(steps) - 0.4, -0.6)
    ax.axvline(1, color="black", linewidth=1.5, zorder=1)
    for at, (step, value) in enumerate(zip(steps, values, strict=True)):
        colour, marker, _ = LOOKS[step.comparison.verdict]
        ax.plot(step.interval, [at, at], color=colour, linewidth=2.5, solid_capstyle="butt", zorder=2)
        ax.plot([step.gain.value], [at], color=colour, marker=marker, markersize=7, gid=f"gain {step.rung}", zorder=3)
        ax.text(1.01, at, value, fontsize=SMALL, va="center", transform=ax.get_yaxis_transform())
    ax.set_yticks(range(len(steps)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("gain over its base" + (f", {SCOPE_TITLES[next(iter(scopes))]}" if len(scopes) == 1 else ""))
    log_ticks(ax, "x", inches, TIMES)
    seen = {step.comparison.verdict for step in steps}
    looks = [(c, m, words) for verdict, (c, m, words) in LOOKS.items() if verdict in seen]
    page.legend(MARGIN, [Line2D([], [], color=c, marker=m, linewidth=2.5, label=words) for c, m, words in looks])
    page.save(path.parent, path.stem, svg=False)


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "docs/steps.md", " and ".join(str(path.relative_to(ROOT)) for path in USUAL))
    records = [schema.load(path) for path in records_or(arguments, USUAL, PLAN)]
    record = of_one_gpu(records)
    found = steps_of(record)
    if arguments.update:
        for workload, steps in found.items():
            draw(records, workload, steps, arguments.records, picture_of(arguments.page, workload))
    text = markdown(record, found, arguments.records, arguments.page)
    return keep_page(arguments, text, "python -m plots.steps_page")


if __name__ == "__main__":
    sys.exit(main())
