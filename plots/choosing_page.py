"""The section "The map" of docs/choosing.md: which rung is the fastest for which shapes, as a picture and a table.

`python -m plots.choosing_page RECORD... --update docs/choosing.md` writes what is between its two marks, and the
picture beside it; `--check` exits 1 where the file says anything but what the records say.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from plots.figures import choice_map
from plots.figures.choice_map import Shape, chapter
from plots.figures.shape_map import SIZES, heading, milliseconds
from plots.lib import cards, schema
from plots.lib.heatmap import NONE
from plots.lib.inputs import in_sentences, read_text
from plots.lib.options import Options
from plots.lib.pages import between_marks, keep_page, page_arguments
from plots.lib.record import ROOT, Record, RecordError, geometric_mean, of_one_gpu
from plots.lib.style import times

DEVICE = "cuda"
BEGIN, END = "<!-- ladder:map -->", "<!-- /ladder:map -->"
HEAD = ("rung", "chapter", "fastest on", "N", "D", "K", "ahead of other chapters", "over the best library")


def ends(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def link(text: str, path: Path | None) -> str:
    """From a page in docs/."""
    return f"[{text}](../{path.as_posix()})" if path else text


def mean(ratios: Sequence[float]) -> str:
    return times(geometric_mean(ratios)) if ratios else NONE


def cells(variant: str, won: Sequence[Shape], files: dict[str, Path]) -> tuple[str, ...]:
    """A row of the table; `files`: of the variants, below the checkout."""
    over_next = [milliseconds(shape.next_best) / milliseconds(shape.rung) for shape in won if shape.next_best]
    over_peer = [ratio for shape in won if (ratio := shape.over_peer)]
    return (
        link(f"`{variant}`", files.get(variant)),
        link(chapter(variant), files[variant].parent / "README.md") if variant in files else NONE,
        str(len(won)),
        *(ends([size(shape.workload) for shape in won]) for size in SIZES),
        mean(over_next),
        mean(over_peer),
    )


def section(record: Record, found: dict[str, list[Shape]], picture: str, command: str) -> str:
    shapes = [shape for some in found.values() for shape in some]
    won: dict[str, list[Shape]] = {}
    for shape in shapes:
        won.setdefault(shape.rung.variant, []).append(shape)
    order = sorted(won, key=lambda variant: -len(won[variant]))
    files = {path.stem: path.relative_to(ROOT) for path in cards.files()}
    kinds = [f"{heading(family, [s.workload for s in some])} ({len(some)})" for family, some in found.items()]
    rows = [HEAD, ("---", "---", *["---:"] * 6), *(cells(variant, won[variant], files) for variant in order)]
    return "\n".join(
        [
            f"![The fastest rung for N, D and K: a mark for each of {len(shapes)} shapes]({picture})",
            "",
            f"{len(shapes)} shapes: {', '.join(kinds)}. {choice_map.verdict(shapes)}",
            "",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
            "Ranges are those of the shapes on which the rung is the fastest. The last two columns are geometric means "
            "over them: the",
            "time of the fastest rung of another chapter, and of the fastest library, over that of the rung.",
            "",
            f"{record.footer()}. Made by `{command}`.",
            "",
        ]
    )


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "a section of docs/choosing.md", "none", generated=False)
    path: Path = arguments.page
    if not arguments.records:
        raise RecordError("no record is named: results/nvidia-h200/map.json, say.")
    record = of_one_gpu([schema.load(path) for path in arguments.records], "a map")
    found = choice_map.scattered(record, DEVICE)
    if not found:
        raise RecordError(f"{record.names}: has no family of scattered shapes, as the families map_* are.")
    picture = path.with_name("choice_gpu.png")
    if arguments.update:
        page, _ = choice_map.draw_page(record, Options(devices=(DEVICE,)), DEVICE, found)
        page.save(path.parent, picture.stem, svg=False)
    command = shlex.join(["python", "-m", "plots.choosing_page", *map(str, arguments.records), "--update", str(path)])
    made = section(record, found, picture.name, command)
    text = between_marks(read_text(path), BEGIN, END, made, str(path))
    return keep_page(arguments, text, "python -m plots.choosing_page")


if __name__ == "__main__":
    sys.exit(main())
