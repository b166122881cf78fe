"""docs/ladder.md: rung by rung the idea, what its source claimed, what was measured, the counter that shows it, and
where it is slower; and the verdict on each claim.

`python -m plots.ladder_page [RECORD...] --update docs/ladder.md` writes it with its pictures; `--check docs/ladder.md`
exits 1 where the file says anything but what the records say. Without a record: the committed ones of a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from plots import rungs_page
from plots.figures import counters, overview, roofline, waterfall
from plots.figures.tree import usual_workload
from plots.lib import cards, outputs, schema, short, sources
from plots.lib.cards import Card
from plots.lib.claims import HEAD, MOST_NAMED, RULE, Verdict, at, cells, judged, named, swept
from plots.lib.inputs import in_sentences
from plots.lib.options import Options
from plots.lib.pages import cell_text, keep_page, page_arguments
from plots.lib.record import (
    ROOT,
    SCOPE_TITLES,
    TIMES,
    Gap,
    Record,
    RecordError,
    Rung,
    committed_for_sources,
    number,
    read_json,
)
from plots.lib.sources import ARROW
from plots.lib.speedup import Gain, between, device_of, measured_so, together

SAID = {"holds": "holds", "weaker": "is weaker here", "gone": "is gone", "not measured": "is not measured"}
WHYS = ROOT / "docs" / "ladder" / "why.json"  # a sentence or more for each rung whose forecast failed
PICTURES = "ladder"  # the folder of the page's pictures, beside it


# ------------------------------------------------------------------------------------------------------ rung by rung


def gains_of(record: Record, rung: Rung, scope: str) -> tuple[list[Gain], list[Gap]]:
    """Over the base, workload by workload."""
    base = record.bases.get(rung.variant, "")
    found = [
        between(record, rung, Rung(base, rung.device), name, scope)
        for name in record.workloads
        if record.row(rung, name, scope)
    ]
    return [g for g in found if isinstance(g, Gain)], [g for g in found if isinstance(g, Gap)]


def listed(gains: Sequence[Gain]) -> str:
    """Workloads and gains; of many the first."""
    text = "; ".join(f"`{g.workloads[0]}` {g.text}" for g in gains[:MOST_NAMED])
    return f"{text}; and on {len(gains) - MOST_NAMED} more" if len(gains) > MOST_NAMED else text


def measured_text(record: Record, rung: Rung, scope: str) -> tuple[str, str]:
    """What the rung gained over its base, and where it hurts."""
    rows = [row for row in record.rows if row.variant == rung.variant and row.device == rung.device]
    refusals = list(dict.fromkeys(row.reason for row in rows if row.status == "refused" and row.scope == scope))
    refused = sorted({row.workload for row in rows if row.status == "refused" and row.scope == scope})
    refusal = f"It refuses {named(refused)}: {refusals[0]}." if refused else ""
    if not record.bases[rung.variant]:
        return "A root: nothing to compare with.", refusal
    gains, gaps = gains_of(record, rung, scope)
    gaps = [gap for gap in gaps if gap.status != "refused"]
    if not gains:
        reason = f" ({gaps[0].reason})" if gaps else ""
        return f"No valid {scope} time to compare with its base{reason}.", refusal
    gains.sort(key=lambda g: -g.value)
    best, worst = gains[0], gains[-1]
    text = f"{SCOPE_TITLES[scope]}: {best.text} on `{best.workloads[0]}`"
    if len(gains) > 1:
        text = f"{SCOPE_TITLES[scope]}: {together(gains).text} over {len(gains)} workloads (geometric mean); most on "
        text += f"`{best.workloads[0]}`, {best.text}; least on `{worst.workloads[0]}`, {worst.text}"
    shown = listed([g for g in reversed(gains) if g.slower])
    below = listed([g for g in reversed(gains) if g.interval is None and g.value < 1])
    parts = [f"It is slower than its base on {shown}." if shown else ""]
    parts += [f"Its time in one session is above its base's on {below}." if below else "", refusal]
    return text + ".", " ".join(part for part in parts if part)


def every_gain(record: Record, known: dict[str, Card]) -> list[Gain]:
    """All that the page's rungs have over their bases."""
    found: list[Gain] = []
    for card in known.values():
        rung = device_of(record, card.id)
        if rung and record.bases.get(card.id):
            found += gains_of(record, rung, card.shows or "iteration")[0]
    return found


def counted(value: float, unit: str) -> str:
    """73.9 GB, 38.2 billion, 16.5, 12.4 %."""
    scales = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if unit == "byte" else ((1e9, "billion"), (1e6, "million"))
    for scale, name in scales:
        if value >= scale:
            return f"{number(value / scale)} {name}"
    return f"{number(value)} {unit}".rstrip()


def counter_text(profile: counters.Profile | None, card: Card) -> str:
    """The counter that its card names, from the base to the rung, in the scope in which the change should show."""
    if not profile or not card.counter:
        return ""
    if card.counter not in profile.meanings:
        raise RecordError(
            f"{cards.path_of(card.id)}: .counter is {card.counter}, which {profile.shown} has not: name one of "
            f"{', '.join(profile.meanings)}."
        )
    name, unit = card.counter, profile.units[card.counter]
    found: list[tuple[float, str, float, float]] = []  # factor between the two, workload, values
    for workload in profile.workloads(card.id, card.shows):
        kernels = [profile.kernel(variant, card.shows, (workload,)) for variant in (card.base, card.id)]
        values = [kernel[0]["metrics"].get(name) for kernel in kernels if kernel]
        if len(values) == 2 and None not in values:
            low, high = sorted(values)
            found.append((high / max(low, 1e-9) if high else 1, workload, *values))
    if not found:
        return ""
    _, workload, theirs, ours = max(found, key=lambda f: f[0])  # the lesson is where it changes most
    values = f" {ARROW} ".join(counted(value, unit) for value in (theirs, ours))
    return f"`{name}` on `{workload}`: {values} ({profile.meanings[name]})."


def tuned_texts(record: Record, rung: Rung, scope: str) -> list[str]:
    """Of each sweep of the rung's axes: the fastest point beside the standard values."""
    found = []
    for sweep in swept(record):
        for t in sweep.tuning:
            if (t.variant, t.device, t.scope) == (rung.variant, rung.device, scope) and t.best and t.best_ms:
                text = f"`{t.workload}`: {number(t.best_ms)} ms at {at(t.best)}"
                if t.standard_ms and t.standard != t.best:
                    text += f"; {number(t.standard_ms)} ms at {at(t.standard)}, standard when this was measured"
                found.append(f"{text}.")
    return found


def cold_texts(record: Record, rung: Rung) -> list[str]:
    """Of each workload with cold starts of the rung: their time, beside that of a whole run and its preparation."""
    found = []
    for name in record.workloads:
        whole = record.row(rung, name, short.SCOPE)
        start = short.cold_start(record, rung, whole) if whole and whole.median_ms else None
        if whole and start:
            text = f"`{name}`: {number(short.time_of(start))} ms; a whole run {number(short.time_of(whole))} ms"
            text += f", its preparation {number(whole.prepare_ms)} ms" if whole.prepare_ms else ""
            found.append(f"{text}.")
    return found


@cache
def whys() -> dict[str, str]:
    """Why a forecast failed, by rung. Throws RecordError where the file names what is no rung."""
    document: dict[str, str] = read_json(WHYS)
    for rung in document:
        if rung not in cards.load():
            raise RecordError(f"{WHYS.relative_to(ROOT)}: there is no rung {rung}: name one of variants/.")
    return document


def rung_lines(record: Record, card: Card, claims: Sequence[tuple[str, Verdict]], counter: str) -> list[str]:
    lines = [f"### `{card.id}`", ""]
    base = f" Its base is `{card.base}`." if card.base else " A root."
    shows = f" The change should show in {SCOPE_TITLES.get(card.shows, card.shows)}." if card.shows else ""
    origin = f" From {card.source}." if card.source else ""
    lines.append(f"- **Idea**: {card.idea}.{base}{shows}{origin}")
    if card.id in cards.load():
        shown = cards.path_of(card.id).relative_to(ROOT).as_posix()
        lines.append(f"- **File**: [`{shown}`](../{shown})")
        if explained := rungs_page.page_of(card.id):
            lines.append(f"- **Explained**: [diff, predicted beside counted, a question]({explained})")
    if card.expect:
        lines.append(f"- **Expected, before it was measured**: {card.expect}.")
    for seed, v in claims:
        ratio = f" ({number(v.claim.ratio)}{TIMES})" if v.claim.ratio and ARROW in v.claim.stated else ""
        held = f" at {at(v.claim.over_axes)}" if v.claim.over_axes else ""
        lines.append(f"- **Source {seed}**: {v.claim.text}, over `{v.claim.over}`{held}: {v.claim.stated}{ratio}.")
        if why := v.claim.why.get(v.verdict):
            lines.append(f"- **Why it {SAID[v.verdict]}**: {why}")
    rung = device_of(record, card.id)
    if rung is None:
        lines.append("- **Measured**: not in this record.")
    else:
        shown = card.shows or "iteration"
        measured, hurts = measured_text(record, rung, shown)
        lines.append(f"- **Measured** ({'GPU' if rung.device == 'cuda' else 'CPU'}): {measured}")
        if why := whys().get(card.id):
            lines.append(f"- **Why it is not as expected**: {why}")
        if counter:
            lines.append(f"- **The counter that shows it**: {counter}")
        lines += [f"- **Cold start**: {text}" for text in cold_texts(record, rung)]
        lines += [f"- **Tuned**: {text}" for text in tuned_texts(record, rung, shown)]
        if record.bases.get(card.id):
            lines.append(f"- **Where it is slower**: {hurts or 'nowhere in this record.'}")
        elif hurts:
            lines.append(f"- **Where it does not run**: {hurts}")
    return [*lines, ""]


def markdown(
    record: Record,
    found: Sequence[sources.Source],
    known: dict[str, Card],
    pictures: Sequence[tuple[str, str]],
    of_sources: Record,
) -> str:
    """`of_sources`: the record and those of the sources' own workloads, by which their claims are judged."""
    profile = counters.beside(record)
    files = " ".join(source.shown for source in record.sources)
    told = "[what each tells](profiling.md#what-each-metric-tells)"
    judgements = [(source.seed, judged(of_sources, claim)) for source in found for claim in source.claims]
    lines = [
        "# The ladder, rung by rung",
        "",
        f"<!-- Generated: python -m plots.ladder_page {files} --update docs/ladder.md. Do not edit by hand. -->",
        "",
        f"Measured on {record.footer()}; record: `{files}`"
        + (f", counters: `{profile.shown}` ({told})." if profile else "; it has no counters beside it yet."),
        "",
        "The gain of a rung is the median time of its base over its own; above 1 is faster"
        + (f"; {said}" if (said := measured_so(every_gain(record, known))) else "")
        + " ([comparing](comparing.md)). "
        "The figures of the sources, redrawn beside their own numbers: `python -m plots.seeds_page`.",
        "",
    ]
    for stem, title in pictures:
        lines += [f"![{title}]({PICTURES}/{stem}.png)", ""]
    lines += ["## The claims of the sources", "", RULE[0].upper() + RULE[1:], ""]
    if beside := [f"`{s.shown}`" for s in of_sources.sources if s.path not in {own.path for own in record.sources}]:
        lines += [f"The sources' own workloads are in {', '.join(beside)}.", ""]
    lines.append("| source | " + " | ".join(HEAD) + " |")
    lines.append("| --- |" + " --- |" * len(HEAD))
    lines += [f"| {seed} | " + " | ".join(cell_text(cell) for cell in cells(v)) + " |" for seed, v in judgements]
    lines.append("")
    for source in found:
        lines.append(f"- {source.seed}: {source.title}; {source.by}. {source.hardware}.")
    if record.retired_note:
        lines += ["", f"Rungs of older records that are no rungs of their own today: {record.retired_note}."]
    lines += ["", "## The rungs", ""]
    for card in known.values():
        own = [(seed, v) for seed, v in judgements if v.claim.rung == card.id]
        lines += rung_lines(record, card, own, counter_text(profile, card))
    return "\n".join(lines).rstrip("\n") + "\n"


def drawn(record: Record, folder: Path | None) -> list[tuple[str, str]]:
    """The page's pictures as (stem, title); drawn where a folder is given."""
    usual = usual_workload(record, "cuda", "iteration")
    if usual is None:
        return []
    wide = Options(devices=("cuda",))
    one = Options(devices=("cuda",), workloads=(usual.name,))
    makers: list[tuple[Any, Options]] = [(overview, wide), (waterfall, one), (roofline, one)]
    if folder is None:
        names = [("overview_gpu_iteration", "The ladder in one picture")]
        names.append((f"waterfall_gpu_iteration_{usual.name}", f"What each step added on {usual.name}"))
        names.append((f"roofline_gpu_{roofline.usual_scope(record, 'cuda')}_{usual.name}", f"Roofline of {usual.name}"))
        return names
    folder.mkdir(parents=True, exist_ok=True)
    for path in filter(outputs.PICTURE.own, sorted(folder.glob("*.png"))):  # of another workload, say
        path.unlink()
    for maker, options in makers:
        maker.draw(record.only([usual.name]) if options is one else record, folder, options)
    for path in filter(outputs.DRAWING.own, sorted(folder.glob("*.svg"))):
        path.unlink()
    return drawn(record, None)


def with_pictures(record: Record, folder: Path) -> list[tuple[str, str]]:
    return [(stem, title) for stem, title in drawn(record, None) if (folder / f"{stem}.png").is_file()]


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "docs/ladder.md", "all that are committed")
    path: Path = arguments.page
    record = schema.of_one_machine(arguments.records)
    if arguments.update:
        drawn(record, path.parent / PICTURES)
    of_sources = schema.of_one_machine(arguments.records, committed_for_sources)
    pictures = with_pictures(record, path.parent / PICTURES)
    text = markdown(record, sources.load_all(), cards.load(), pictures, of_sources)
    return keep_page(arguments, text, "python -m plots.ladder_page")


if __name__ == "__main__":
    sys.exit(main())
