"""docs/steps.md: what each step gains, from sessions of the base and of the rung in turns, with intervals.

`python -m plots.steps_page [RECORD...] --update docs/steps.md` writes it, with a picture for each workload in a folder
beside it that has the page's name; `--check` exits 1 where the file says anything but what the records say. A record
has such comparisons after `ladder run --compare base` (docs/comparing.md). Several kinds of machine, and the GPU and
the processor of one, have sections and pictures of their own. The first kind is the one whose records are renewed:
steps of another kind are left out, and named, where the first has measured another text of the rung or of its base.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from matplotlib.lines import Line2D

from plots.lib import cards, plans, schema
from plots.lib.inputs import in_sentences
from plots.lib.pages import cell_text, keep_page, page_arguments, records_or
from plots.lib.record import ROOT, SCOPE_TITLES, TIMES, Comparison, Record, RecordError, merged, number, together
from plots.lib.speedup import IN_TURNS, Gain, Texts, ends, gain_of, of_earlier_text, texts_of
from plots.lib.style import COLOURS, GREY, MARGIN, ROW, SMALL, WIDTH, Page, log_ticks, text_width

DEVICES = ("cuda", "cpu")
MACHINES = [ROOT / "results" / name for name in ("nvidia-h200", "nvidia-h100", "cpu")]  # in the order of the page
USUAL = [path for machine in MACHINES for path in sorted(machine.glob("comparisons*.json"))]
PLANS = [machine / "comparisons.toml" for machine in MACHINES if (machine / "comparisons.toml").is_file()]
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


def compared(record: Record, device: str) -> list[Comparison]:
    """Of a step that was measured twice, what the last record says."""
    last = {(c.workload, c.candidate, c.base, c.scope): c for c in record.comparisons
            if c.method == IN_TURNS and c.device == device}  # fmt: skip
    return list(last.values())


def steps_of(record: Record, device: str, newest: Texts) -> dict[str, list[Step]]:
    """By workload, in the order of the ladder."""
    order = {name: at for at, name in enumerate(cards.load())}
    left_out = of_earlier_text(record, newest)
    found: dict[str, list[Step]] = {}
    for c in compared(record, device):
        if c not in left_out:
            found.setdefault(c.workload, []).append(Step(c, gain_of(c)))
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


@dataclass(frozen=True)
class Section:
    """The steps on one workload, of one kind of GPU or processor."""

    record: Record
    device: str
    workload: str
    steps: list[Step]
    machine: str  # empty where all sections are of one

    @property
    def footer(self) -> str:
        return self.record.footer(self.device)

    def picture(self, page: Path) -> Path:
        folder = page.with_suffix("")
        if self.machine:
            folder /= self.record.sources[0].path.parent.name
            if self.device != "cuda" and self.record.workloads_on("cuda"):
                folder /= self.device
        return folder / f"{self.workload}.png"


@dataclass(frozen=True)
class Found:
    sections: list[Section]
    left_out: list[tuple[str, Comparison]]  # of an earlier text, each with its machine


def find(records: Sequence[Record]) -> Found:
    """Throws RecordError where a kind of machine has no sessions in turns."""
    every = together(records)
    kinds = [(record, device) for record in every for device in DEVICES if compared(record, device)]
    for record in every:
        if not any(record is other for other, _ in kinds):
            raise RecordError(
                f"{record.names}: has no sessions in turns on a GPU or a CPU: ladder run --compare base makes them."
            )
    newest = texts_of(every[0])
    found = Found([], [])
    for record, device in kinds:
        machine = record.machine(device).split(" (driver")[0] if len(kinds) > 1 else ""
        found.sections.extend(
            Section(record, device, workload, steps, machine)
            for workload, steps in steps_of(record, device, newest).items()
        )
        earlier = of_earlier_text(record, newest)
        found.left_out.extend((machine, comparison) for comparison in compared(record, device) if comparison in earlier)
    return found


# ----------------------------------------------------------------------------------------------------------- the page


def cells(step: Step) -> list[str]:
    c = step.comparison
    return [
        f"[`{step.rung}`](ladder.md#{step.rung})",
        f"`{step.over}`",
        SCOPE_TITLES[c.scope],
        f"{number(step.gain.value)}{TIMES}",
        ends(*step.interval),
        f"{c.base_sessions} + {c.candidate_sessions}",
        LOOKS[c.verdict][2],
    ]


def table(steps: Sequence[Step]) -> list[str]:
    rows = ["| " + " | ".join(map(cell_text, cells(step))) + " |" for step in steps]
    align = ["---:" if name in ("gain", "95 % interval", "sessions") else "---" for name in HEAD]
    return ["| " + " | ".join(HEAD) + " |", "| " + " | ".join(align) + " |", *rows]


def told_of(machine: str, comparison: Comparison) -> str:
    return f"`{comparison.candidate}` on `{comparison.workload}` ({machine})"


def planned_of(rungs: Sequence[str]) -> list[str]:
    globs = [glob for path in PLANS for part in plans.read(path)["part"] for glob in part["variants"].split(",")]
    return [rung for rung in rungs if any(fnmatchcase(rung, glob) for glob in globs)]


def in_all(sections: Sequence[Section]) -> str:
    steps = [step for section in sections for step in section.steps]
    machine = sections[0].machine
    return f"{len(steps)} steps{f' on an {machine}' if machine else ''}: {counts(steps)}"


def markdown(found: Found, given: Sequence[Path], page: Path) -> str:
    sections = found.sections
    files = "".join(f" {path}" for path in given)
    measured = {step.rung for section in sections for step in section.steps}
    missing = [name for name, card in cards.load().items() if card.base and name not in measured]
    machines = {one.machine: [other for other in sections if other.machine == one.machine] for one in sections}
    told = "; and in all ".join(in_all(of) for of in machines.values())
    lines = [
        "# What each step gains",
        "",
        f"<!-- Generated: python -m plots.steps_page{files} --update docs/steps.md. Do not edit by hand. -->",
        "",
        "Each rung over the base that its card names, in the scope that its card names: the median time of the base "
        "over that of the rung, so that above 1 is faster. The sessions (processes) of the two took turns in an order "
        "drawn anew for each round; a session counts once, and the interval is Student's t of them "
        "([comparing](comparing.md)). What a card expects stands in [the ladder, rung by rung](ladder.md). "
        f"In all {told}.",
    ]
    for section in sections:
        w = section.record.workloads[section.workload]
        picture = section.picture(page)
        on = f" on an {section.machine}" if section.machine else ""
        lines += [
            "",
            f"## `{section.workload}`{on}",
            "",
            f"{w.title[0].upper()}{w.title[1:]}, {w.size}. {counts(section.steps)}.".strip(),
            "",
            f"![Gain of each rung on {section.workload}{on}]({picture.relative_to(page.parent)})",
            "",
            *table(section.steps),
        ]
    planned = planned_of(missing)
    unplanned = [name for name in missing if name not in planned]
    if missing:
        lines += ["", "## Not measured in turns", ""]
    if planned:
        lines += [f"Planned: {', '.join(f'`{name}`' for name in planned)}."]
    if unplanned:
        lines += [f"In no plan, as the rung and its base have no workload in common, do not run on the same number of "
                  f"GPUs, or a library is missing where the plan runs: "
                  f"{', '.join(f'`{name}`' for name in unplanned)}."]  # fmt: skip
    if found.left_out:
        lines += ["", "## Of an earlier text", ""]
        lines += [f"Left out, as the rung or its base has another text today, which was measured on an "
                  f"{sections[0].machine}: {', '.join(told_of(*one) for one in found.left_out)}."]  # fmt: skip
    for footer in dict.fromkeys(section.footer for section in sections):
        lines += ["", f"{footer}."]
    return "\n".join([*lines, ""])


# -------------------------------------------------------------------------------------------------------- the picture


def draw(records: Sequence[Record], section: Section, given: Sequence[Path], path: Path) -> None:
    """The foot names those of the records that have sessions on this workload."""
    workload, steps = section.workload, section.steps
    own = {source.path for source in section.record.sources}
    record = merged(
        [r for r in records if r.sources[0].path in own and any(c.workload == workload for c in r.comparisons)]
    )
    files = "".join(f" {record}" for record in given)
    foot = [record.footer(section.device), f"drawn by python -m plots.steps_page{files} --update"]
    scopes = dict.fromkeys(step.comparison.scope for step in steps)
    subtitle = (
        f"{workload}, {record.workloads[workload].size}; the base's time over the rung's, with its 95 % interval; "
    )
    subtitle += "right of the line: faster"
    page = Page(message(steps), subtitle, [], foot, body=len(steps) * ROW + 1.1)
    labels = [step.rung + (f", {step.comparison.scope}" if len(scopes) > 1 else "") for step in steps]
    left = MARGIN + max(text_width(label, SMALL) for label in labels) + 0.2
    values = [f"{number(s.gain.value)}{TIMES} ({ends(*s.interval)})" for s in steps]
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
    records = [schema.load(path) for path in records_or(arguments, USUAL, PLANS[0])]
    found = find(records)
    if arguments.update:
        for section in found.sections:
            draw(records, section, arguments.records, section.picture(arguments.page))
    text = markdown(found, arguments.records, arguments.page)
    return keep_page(arguments, text, "python -m plots.steps_page")


if __name__ == "__main__":
    sys.exit(main())
