"""The figures of the ladder's sources, redrawn from records.

Run as `python -m plots.seeds_page [RECORD...] [--out DIR]`. Without a record: all that are committed
(results/DEVICE/record.json, seeds*.json and shapes.json). DIR/index.html leads to a page per source, with its own
numbers beside ours and a sentence wherever the record lacks what a figure needs, and to a page of the ladder itself.
Every page holds its pictures; they lie beside it too, as SVG and PNG.
"""

from __future__ import annotations

import argparse
import base64
import html
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plots import draw
from plots.figures import bars, convergence, counters, curves, init_comparison, points
from plots.lib import claims, outputs, schema, sources
from plots.lib.inputs import in_sentences
from plots.lib.options import Options
from plots.lib.record import ROOT, Column, Record, RecordError, committed_for_sources, together
from plots.lib.sources import FigureSpec, Source
from plots.lib.speedup import meant

DEFAULT_OUT = ROOT / "results" / "latest" / "seeds"
STYLE = """
body { font: 19px/1.45 sans-serif; margin: 2em auto; max-width: 1500px; padding: 0 1em; color: #111; }
h1 { margin-bottom: 0.1em; } h2 { margin-top: 2.2em; border-top: 2px solid #ddd; padding-top: 0.8em; }
img { width: 100%; border: 1px solid #ddd; }
table { border-collapse: collapse; margin: 0.4em 0 1.2em; }
td, th { border: 1px solid #bbb; padding: 0.25em 0.7em; text-align: left; vertical-align: top; }
th { background: #f2f2f2; } caption { text-align: left; font-weight: bold; padding: 0.4em 0; }
.from { color: #555; font-size: 0.85em; }
.lacks { border-left: 5px solid #E69F00; padding: 0.2em 0.8em; margin: 0.6em 0; }
.beside { display: flex; flex-wrap: wrap; gap: 0 2.5em; } code { background: #f4f4f4; }
"""


MOST_NAMED = 3  # records in the foot of a picture


@dataclass
class Figure:
    title: str
    stem: str
    caption: str
    drawn: bool
    lacks: list[str] = field(default_factory=list)


def signature(record: Record, source: Source, spec: FigureSpec, of: str = "") -> list[str]:
    """The foot of a picture: the source, and the record. Of many records how many: the page names them, and the PNG."""
    heading = f"source {source.seed}, {source.title}, {spec.place}; its hardware: {source.hardware}"
    also = f" + {of}" if of else ""
    shown = [s.shown for s in record.sources]
    if len(shown) > MOST_NAMED:
        folders = " and ".join(dict.fromkeys(str(Path(name).parent) for name in shown))
        days = sorted(str(s.context["time"])[:10] for s in record.sources)
        commits = len(record.commits)
        made = f"{record.machine()} · {days[0]} to {days[-1]} · {commits} commits"
        return [heading, f"{len(shown)} records of {folders}{also} · {made}; drawn by python -m plots.seeds_page"]
    return [
        heading,
        f"record: {' + '.join(shown)}{also} · {record.footer()}",
        f"drawn by python -m plots.seeds_page {' '.join(shown)}",
    ]


Done = tuple[bool, list[str]]  # whether the figure was drawn, and what the record lacks


def draw_solves(record: Record, spec: FigureSpec, foot: Sequence[str], folder: Path, stem: str) -> Done:
    rungs = [rung for method in spec.methods if (rung := method.here(record))]
    lacking = [m.rung for m in spec.methods if not m.here(record)]
    part = record.restricted(rungs)
    for w in meant(record, spec.workloads):
        found = {
            rung: row for device in ("cuda", "cpu") for rung, row in convergence.solves(part, device, w.name).items()
        }
        without = [rung.variant for rung in rungs if rung not in found]
        if len(found) >= 2 and len({rung.device for rung in found}) == 1:
            device = next(iter(found)).device
            options = Options(devices=(device,))
            convergence.draw_solves(part, options, device, Column(w.name, (w,)), found, folder, stem, foot)
            lacks = lacking + without
            return True, [sources.missing_rows(record, lacks, spec.workloads, "solve")] if lacks else []
    every = [m.rung for m in spec.methods]
    return False, [sources.missing_rows(record, lacking or every, spec.workloads, "solve")]


def draw_plane(record: Record, spec: FigureSpec, foot: Sequence[str], folder: Path, stem: str) -> Done:
    """The points of the first workload that has a dump and its points at hand; few clusters first, as in the source."""
    flat = [w for w in meant(record, spec.workloads) if w.d == 2]
    for w in sorted(flat, key=lambda w: w.k):
        plane = points.found_plane(record, w, None)
        if plane:
            points.draw_page(record, Options(), w, plane, folder, stem, foot)
            return True, []
    what = "no dump beside the record and no points in datasets/cache" if flat else "no workload of two features"
    return False, [
        f"{record.names} has {what}: build/ladder run --workloads '{','.join(spec.workloads)}' --dump FOLDER"
    ]


def draw_figure(record: Record, source: Source, spec: FigureSpec, folder: Path) -> Figure:
    profile = counters.beside(record)
    stem = f"{source.seed}_{spec.id}"
    title = f"{spec.title} ({source.seed}, {spec.place})"
    counters_of = {"profile": counters.draw_panels, "stalls": counters.draw_stalls, "kernels": counters.draw_kernels}
    make = counters_of.get(spec.kind)
    foot = signature(record, source, spec, profile.shown if make and profile else "")
    if make:
        done = make(record, profile, spec, title, foot, folder, stem)
    elif spec.kind in ("solves", "plane"):
        done = (draw_solves if spec.kind == "solves" else draw_plane)(record, spec, foot, folder, stem)
    else:
        kinds: dict[str, Callable[..., Done]] = {
            "curves": curves.draw, "bars": bars.draw, "starts": init_comparison.draw
        }  # fmt: skip
        if spec.kind not in kinds:
            raise RecordError(f"docs/seeds/{source.seed}.json: figure {spec.id} is of no known kind: {spec.kind}.")
        done = kinds[spec.kind](record, spec, title, foot, folder, stem)
    drawn, lacks = done
    return Figure(spec.title, stem, f"{source.title}, {spec.place}", drawn, lacks)


# ------------------------------------------------------------------------------------------------------------- pages


def escaped(text: str) -> str:
    return html.escape(text, quote=True)


def embedded(folder: Path, stem: str, title: str) -> str:
    data = base64.b64encode((folder / f"{stem}.svg").read_bytes()).decode()
    return f'<img alt="{escaped(title)}" src="data:image/svg+xml;base64,{data}">'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", below: str = "") -> str:
    lines = ["<div><table>"]
    if caption:
        lines.append(f"<caption>{escaped(caption)}</caption>")
    lines.append("<tr>" + "".join(f"<th>{escaped(cell)}</th>" for cell in head) + "</tr>")
    lines += ["<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    lines.append(f'</table><p class="from">{escaped(below)}</p></div>' if below else "</table></div>")
    return "\n".join(lines)


def page(title: str, body: Sequence[str]) -> str:
    by = '<meta name="generator" content="K-means Ladder">'
    head = f'<html lang="en"><meta charset="utf-8">{by}<title>{escaped(title)}</title><style>{STYLE}</style>'
    return "\n".join(["<!doctype html>", head, *body, "</html>", ""])


def record_line(record: Record) -> str:
    files = " + ".join(source.shown for source in record.sources)
    return f'<p class="from">Ours: {escaped(files)} · {escaped(record.footer())}</p>'


def lacks_text(sentences: Sequence[str]) -> str:
    """What the record lacks, the command in it as code."""
    lines = []
    for sentence in sentences:
        said, colon, command = sentence.partition(": build/")
        code = f"; measured by <code>build/{escaped(command)}</code>" if colon else ""
        lines.append(f'<p class="lacks">Missing: {escaped(said)}{code}.</p>')
    return "\n".join(lines)


def figure_html(figure: Figure, folder: Path) -> list[str]:
    lines = [f'<h2 id="{figure.stem}">{escaped(figure.title)}</h2>']
    if figure.drawn:
        lines.append(embedded(folder, figure.stem, figure.title))
        links = " ".join(f'<a href="{figure.stem}.{kind}">{kind.upper()}</a>' for kind in ("svg", "png"))
        lines.append(f'<p class="from">{escaped(figure.caption)} · {links}</p>')
    elif not figure.lacks:
        lines.append('<p class="lacks">Missing: the record holds too little to draw this.</p>')
    else:
        lines.append(f'<p class="from">{escaped(figure.caption)}: not drawn yet.</p>')
    lines.append(lacks_text(figure.lacks))
    return lines


def source_page(record: Record, source: Source, figures: Sequence[Figure], folder: Path) -> str:
    lines = [
        '<p><a href="index.html">all sources</a></p>',
        f"<h1>{escaped(source.title)}</h1>",
        f"<p>{escaped(source.by)}.<br>Its problem: {escaped(source.problem)}.<br>"
        f"Its hardware: {escaped(source.hardware)}.</p>",
        record_line(record),
        "<h2>The source's own numbers</h2>",
        '<div class="beside">',
    ]
    for own in source.tables:
        below = f"{own['place']}; {own['hardware']}"
        lines.append(table(own["columns"], own["rows"], own["title"], below))
    lines += ["</div>", "<h2>What it claimed, and what is left of it</h2>"]
    verdicts = [claims.judged(record, claim) for claim in source.claims]
    lines.append(table(claims.HEAD, [claims.cells(v) for v in verdicts], below=claims.RULE))
    for figure in figures:
        lines += figure_html(figure, folder)
    return page(f"{source.seed}: {source.title}", lines)


def own_page(record: Record, section: draw.Section, folder: Path) -> str:
    lines = ['<p><a href="index.html">all sources</a></p>', "<h1>The ladder</h1>", record_line(record)]
    for stem, title in section.pages:
        lines.append(f'<h2 id="{stem}">{escaped(title)}</h2>')
        lines.append(embedded(folder, stem, title))
        lines.append(f'<p class="from"><a href="{stem}.svg">SVG</a> <a href="{stem}.png">PNG</a></p>')
    lines += [f'<p class="lacks">Missing: {escaped(reason)}.</p>' for reason in section.left_out]
    return page("The ladder", lines)


def index_page(record: Record, found: Sequence[tuple[Source, list[Figure]]]) -> str:
    rows = []
    for source, figures in found:
        done = sum(figure.drawn for figure in figures)
        link = f'<a href="{source.seed}.html">{escaped(source.title)}</a>'
        rows.append(
            f"<tr><td>{source.seed}</td><td>{link}</td><td>{escaped(source.hardware)}</td>"
            f"<td>{done} of {len(figures)}</td></tr>"
        )
    lines = ["<h1>The sources' figures, and ours</h1>", record_line(record)]
    lines.append('<p><a href="ladder.html">The ladder itself: speedups, waterfalls, rooflines</a></p>')
    lines.append("<table><tr><th>source</th><th>title</th><th>hardware</th><th>figures drawn</th></tr>")
    return page("K-means Ladder: the sources' figures", [*lines, *rows, "</table>"])


def draw_all(
    record: Record, out: Path, found: Sequence[Source], own: Sequence[str] = draw.MAIN_FIGURES
) -> list[Figure]:
    """All pages of one record into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    section = draw.draw_record(record, out, ".", list(own), Options())
    done: list[tuple[Source, list[Figure]]] = []
    for source in found:
        figures = [draw_figure(record, source, spec, out) for spec in source.figures]
        outputs.write(out / f"{source.seed}.html", source_page(record, source, figures, out), outputs.HTML)
        done.append((source, figures))
    outputs.write(out / "ladder.html", own_page(record, section, out), outputs.HTML)
    outputs.write(out / "index.html", index_page(record, done), outputs.HTML)
    return [figure for _, figures in done for figure in figures]


@in_sentences
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Redraws the figures of the ladder's sources from records.")
    parser.add_argument("records", nargs="*", type=Path, metavar="RECORD", help="default: all that are committed")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR", help="default: results/latest/seeds")
    arguments = parser.parse_args(argv)
    records = together([schema.load(path) for path in arguments.records or committed_for_sources()])
    folders = draw.folder_names([record.sources[0].path for record in records])
    for folder in dict.fromkeys([*folders, "."]):
        outputs.need_place(arguments.out / folder / "index.html", outputs.HTML, arguments.records)
    found = sources.load_all()
    lacking: dict[str, str] = {}
    drawn: set[str] = set()
    for record, folder in zip(records, folders, strict=True):
        for figure in draw_all(record, arguments.out / folder, found):
            if figure.drawn:
                drawn.add(figure.stem)
                print(f"drew {figure.stem}: {figure.title}")
            else:
                lacking[figure.stem] = figure.title
        print(f"look at {arguments.out / folder / 'index.html'}: {record.machine()}")
    for stem in [stem for stem in lacking if stem not in drawn]:
        print(f"no record here has what {stem} needs ({lacking[stem]}): its page says how to measure it")
    if len(records) > 1:
        links = [
            f'<p><a href="{folder}/index.html">{escaped(record.machine())}</a></p>'
            for record, folder in zip(records, folders, strict=True)
        ]
        outputs.write(arguments.out / "index.html", page("K-means Ladder", links), outputs.HTML)
    return 0


if __name__ == "__main__":
    sys.exit(main())
