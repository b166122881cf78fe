"""Draws what records hold: `python -m plots.draw RECORD [RECORD...] --out DIR`.

Every page is a PNG and an SVG; DIR/index.html lists them. Records made on one kind of machine are drawn together;
those of others go into folders of their own: times of different machines do not belong in one figure. With --committed
a record without GPU times is preceded by the main figures of the repository's GPU records.
"""

from __future__ import annotations

import argparse
import html
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from plots.figures import (
    choice_map,
    convergence,
    image,
    ladder,
    overview,
    per_workload,
    percent_of_peak,
    points,
    roofline,
    scopes,
    shape_map,
    short_ladder,
    simt_check,
    sweep,
    tree,
    tuning,
    waterfall,
)
from plots.lib import outputs, schema
from plots.lib.inputs import in_sentences
from plots.lib.options import DEFAULT_DEVICES, Options
from plots.lib.record import DEVICES, SCOPES, Record, committed, together

Drawer = Callable[[Record, Path, Options], tuple[list[tuple[str, str]], list[str]]]
FIGURES: dict[str, Drawer] = {
    "short": short_ladder.draw,
    "overview": overview.draw,
    "ladder": ladder.draw,
    "waterfall": waterfall.draw,
    "tree": tree.draw,
    "roofline": roofline.draw,
    "roof": percent_of_peak.draw,
    "scopes": scopes.draw,
    "sweep": sweep.draw,
    "map": shape_map.draw,
    "choice": choice_map.draw,
    "tuning": tuning.draw,
    "files": per_workload.draw,
    "convergence": convergence.draw,
    "points": points.draw,
    "photo": image.draw,
}
MAIN_FIGURES = (
    "short",
    "overview",
    "waterfall",
    "roofline",
    "roof",
)  # what a rung gained, and how far it is from the best
# A library may have no time on a workload, but on the same problem with a fixed number of iterations.
WITH_OTHER_WORKLOADS = ("short",)
REPORT = "report.html"  # of python -m plots.explorer.page, beside the index
SOURCES = "seeds"  # the folder of python -m plots.seeds_page's pages beside the index


@dataclass
class Section:
    """The pages of one record in the index."""

    title: str
    folder: str  # relative to the index
    pages: list[tuple[str, str]]
    left_out: list[str]
    head: str = ""  # above the title
    table: list[str] = field(default_factory=list)  # lines of HTML before the pictures


def folder_names(paths: list[Path]) -> list[str]:
    """A folder per kind of machine, called by its first record; none is needed for a single one."""
    if len(paths) == 1:
        return ["."]
    names: list[str] = []
    for path in paths:
        parts = path.resolve().with_suffix("").parts
        name = next(
            (c for n in range(1, len(parts)) if (c := "_".join(parts[-n:])) not in names), f"record_{len(names)}"
        )
        names.append(name)
    return names


def draw_record(record: Record, out: Path, folder: str, only: list[str], options: Options) -> Section:
    target = out / folder
    target.mkdir(parents=True, exist_ok=True)
    whole = record
    if options.workloads:
        record = record.only(options.workloads)
    section = Section(f"{record.names}: {record.footer()}", folder, [], [], table=simt_check.table(record))
    if record.retired_note:
        section.left_out.append(f"variants of older records: {record.retired_note}")
    if record.skipped:
        section.left_out.append(
            f"{record.skipped} rows that repeat a variant, workload, device and scope with other axes, another cache "
            "state or in another record: the first of each is drawn"
        )
    left = [device for device in DEVICES if device not in options.devices and record.rungs(device)]
    if left:
        section.left_out.append(f"times on {', '.join(left)}: `--device {left[0]}` draws them")
    for name in only:
        pages, left_out = FIGURES[name](whole if name in WITH_OTHER_WORKLOADS else record, target, options)
        section.pages += pages
        section.left_out += left_out
    return section


def committed_sections(out: Path) -> list[Section]:
    """The main figures of the repository's records of GPUs, a folder for each kind of machine."""
    found: list[Section] = []
    for record in together([schema.load(path) for path in committed()]):
        if not record.workloads_on("cuda"):
            continue
        folder = f"committed/{record.sources[0].path.parent.name}"
        section = draw_record(record, out, folder, list(MAIN_FIGURES), Options(devices=("cuda",)))
        section.head = "" if found else "The ladder on a GPU: the records of this repository"
        found.append(section)
    return found


STYLE = """
body { font: 18px/1.4 sans-serif; margin: 1em auto; max-width: 1200px; padding: 0 1em; }
img { width: 100%; } .from { color: #555; font-size: 0.85em; overflow-wrap: anywhere; }
table { display: block; overflow-x: auto; }
"""


def link_of(section: Section, stem: str) -> str:
    return html.escape(stem if section.folder == "." else f"{section.folder}/{stem}", quote=True)


def contents(sections: list[Section]) -> list[str]:
    """A list of all pictures, closed at first, so that the page begins with a picture."""
    lines = ["<details><summary>Contents</summary>"]
    for section in sections:
        lines.append(f"<p>{html.escape(section.head or section.title)}</p><ul>")
        lines += [
            f'<li><a href="#{link_of(section, stem)}">{html.escape(title)}</a></li>' for stem, title in section.pages
        ]
        lines.append("</ul>")
    return [*lines, "</details>"]


def write_index(sections: list[Section], path: Path) -> None:
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>K-means Ladder</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        "<h1>K-means Ladder</h1>",
        *contents(sections),
    ]
    if (path.parent / REPORT).is_file():
        lines.append(f'<p><a href="{REPORT}">The explorer: two rungs side by side</a></p>')
    if (path.parent / SOURCES / "index.html").is_file():
        lines.append(f'<p><a href="{SOURCES}/index.html">The figures of the sources, redrawn beside their own</a></p>')
    for section in sections:
        if section.head:
            lines.append(f"<h2>{html.escape(section.head)}</h2>")
        lines += section.table
        for stem, title in section.pages:
            link = link_of(section, stem)
            lines.append(f'<h3 id="{link}">{html.escape(title)} (<a href="{link}.svg">SVG</a>)</h3>')
            lines.append(f'<a href="{link}.png"><img src="{link}.png" alt="{html.escape(title, quote=True)}"></a>')
        lines.append(f'<p class="from">{html.escape(section.title)}</p>')
        if section.left_out:
            lines.append("<details><summary>Left out</summary><ul>")
            lines += [f"<li>{html.escape(reason)}</li>" for reason in section.left_out]
            lines.append("</ul></details>")
    lines.append("</body></html>")
    outputs.write(path, "\n".join(lines) + "\n", outputs.HTML)


@in_sentences
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draws what records hold, as PNG and SVG.")
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the pictures go")
    add = partial(parser.add_argument, action="append", default=[])
    add("--only", choices=list(FIGURES), help="this figure (may be repeated); default: all")
    add(
        "--scope",
        choices=SCOPES,
        help="scopes of ladder, tree, roof, sweep, map and files (may be repeated); default: iteration, for the map "
        "also solve, and for the ladder each scope in which a variant says that its change shows",
    )
    add("--workload", metavar="GLOB", help="these workloads or families alone (may be repeated); default: all")
    add(
        "--device",
        choices=list(DEVICES),
        help=f"times on this device (may be repeated); default: {' and '.join(DEFAULT_DEVICES)}",
    )
    parser.add_argument(
        "--over",
        choices=("root", "base"),
        default="root",
        help="what the speedups of ladder and sweep are over; default: the root of the tree",
    )
    parser.add_argument(
        "--points", type=Path, metavar="FILE", help="the .npy behind a workload of one's own, for points"
    )
    parser.add_argument(
        "--committed",
        action="store_true",
        help="where the records have no GPU times, the main figures of the repository's own come first",
    )
    parser.add_argument(
        "--retired",
        action="store_true",
        help="of older records, keep rungs that have been merged into others since, by their earlier ids",
    )
    arguments = parser.parse_args(argv)
    options = Options(
        tuple(device for device in DEVICES if device in (arguments.device or DEFAULT_DEVICES)),
        tuple(arguments.scope),
        arguments.over,
        tuple(arguments.workload),
        arguments.points,
    )
    index = arguments.out / "index.html"
    outputs.need_place(index, outputs.HTML, arguments.records)
    arguments.out.mkdir(parents=True, exist_ok=True)
    records = together([schema.load(path, arguments.retired) for path in arguments.records])
    for record in records:
        if len(record.sources) > 1:
            print(f"together, being of one kind of machine: {record.names}")
    folders = folder_names([record.sources[0].path for record in records])
    sections = [
        draw_record(record, arguments.out, folder, arguments.only or list(FIGURES), options)
        for record, folder in zip(records, folders, strict=True)
    ]
    if arguments.committed and not any(record.workloads_on("cuda") for record in records):
        if sections:
            sections[0].head = "This machine, without a GPU: is each rung right, and CPU times"
        sections = [*committed_sections(arguments.out), *sections]
    write_index(sections, index)
    for section in sections:
        for stem, title in section.pages:
            print(f"drew {arguments.out / section.folder / stem}.png and .svg: {title}")
        for reason in section.left_out:
            print(f"left out {reason}")
    print(f"look at {index}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
