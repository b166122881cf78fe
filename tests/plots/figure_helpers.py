"""Made-up records, and what a drawn page holds: shared by the tests of the plots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sample_record
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from plots.lib.options import Options
from plots.lib.record import Record, from_document

ITERATION = Options(scopes=("iteration",))


ALL_DEVICES = ("cuda", "cpu", "simt")


def record_of(document: dict[str, Any], path: Path = Path("record.json")) -> Record:
    return from_document(document, path)


def part_of(document: dict[str, Any], names: set[str], devices: tuple[str, ...] = ("cuda", "cpu")) -> dict[str, Any]:
    """The document without other workloads and devices: few rows are checked and drawn in little time."""
    rows = [row for row in document["rows"] if row["workload"] in names and row["device"] in devices]
    return document | {"workloads": [w for w in document["workloads"] if w["name"] in names], "rows": rows}


FEW = {"grapes_k16", "grapes_k1500", "embedding"}


def texts(figure: Figure, gid: str | None = None) -> list[str]:
    found = figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_text() != "" and artist.get_visible())
    return [text.get_text() for text in found if gid is None or text.get_gid() == gid]


def without(variant: str, document: dict[str, Any] | None = None) -> Record:
    document = document or sample_record.make()
    document["rows"] = [row for row in document["rows"] if row["variant"] != variant]
    return record_of(document)


def strip(row: dict[str, Any], status: str, reason: str) -> None:
    """Takes a row's times away."""
    gone = ("median_ms", "q1_ms", "q3_ms", "per_iteration_ms", "gflops", "gbs", "roof_percent")
    row.update(status=status, reason=reason, samples_ms=[], **{key: None for key in gone if key in row})
    for per_sample in ("sm_mhz", "solve_iterations"):
        if isinstance(row.get(per_sample), list):
            row[per_sample] = []


def newer(document: dict[str, Any]) -> Record:
    """A document whose rows have fields of schema 2, as the plots read it; whether it is sound is not asked."""
    return from_document(document | {"schema_version": 2}, Path("record.json"))


def roofed() -> Record:
    """Every timed row on cuda states a percent of roof; those of one workload are bound by launches."""
    document = sample_record.make()
    for row in document["rows"]:
        timed = row["device"] == "cuda" and row["median_ms"] is not None
        row["roof_percent"] = (40.0 if row["variant"] == "g5_fused" else 0.31) if timed else None
        row["bound_by"] = "bytes" if row["workload"] == "embedding" else "flop"
        row["launch_bound"] = timed and row["workload"] == "grapes_k16"
    document["context"]["ceilings"] = {"cuda": {"empty_event_us": 1.5}}
    return newer(document)


def with_zeros(document: dict[str, Any]) -> dict[str, Any]:
    """Every third file of the family is dense, the others have 10 % down to 4 % that is not zero."""
    for index, w in enumerate(w for w in document["workloads"] if w["family"] == "cloud"):
        w["nonzeros"] = int(w["n"] * w["d"] * (0.95 if index % 3 == 0 else 0.1 - index / 120))
    return document


def timed_iterations() -> Record:
    document = sample_record.make()
    for row in document["rows"]:
        if row["scope"] == "solve" and row["median_ms"] and row["device"] == "cuda":
            row["iteration_ms"] = [row["median_ms"] / (i + 2) for i in range(sample_record.ITERATIONS)]
            if row["variant"] == "g5_fused":
                pairs = next(w["n"] * w["k"] for w in document["workloads"] if w["name"] == row["workload"])
                row["counters"] = {"distances": [pairs // (i + 1) for i in range(sample_record.ITERATIONS)]}
        else:
            row["iteration_ms"] = []
    return newer(document)


def outside(axis: Axis) -> list[Text]:
    """Labels of ticks beyond the limits: matplotlib keeps them and does not draw them."""
    low, high = sorted(axis.get_view_interval())
    ticks = axis.get_major_ticks() + axis.get_minor_ticks()
    return [label for t in ticks if not low <= t.get_loc() <= high for label in (t.label1, t.label2)]


def overlaps(figure: Figure) -> list[str]:
    """Pairs of texts that touch, and texts that leave the page."""
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    page = figure.bbox
    found = []
    unseen = {label for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) for label in outside(axis)}
    placed: list[tuple[str, Any]] = []
    for text in figure.findobj(lambda artist: isinstance(artist, Text)):
        if text in unseen or not text.get_visible() or not text.get_text().strip():
            continue
        box = text.get_window_extent(renderer)
        if text.get_gid() == "gap" and box.x1 > text.axes.bbox.x1 + 1:
            found.append(f"{text.get_text()} leaves its panel")
        if box.x0 < -1 or box.y0 < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1:
            found.append(f"{text.get_text()} leaves the page")
        # Boxes of text hold its line spacing too: half a point of it may be shared by neighbours.
        placed.append((text.get_text(), box.padded(-1.5)))
    for index, (one, box) in enumerate(placed):
        found += [f"{one} / {other}" for other, its in placed[index + 1 :] if box.overlaps(its)]
    return found


def with_gaps(document: dict[str, Any]) -> dict[str, Any]:
    """The largest shape refused by the peers, and another by the rungs; one time that is not to be trusted."""
    for row in document["rows"]:
        if row["workload"] == "map_flat_n1000000_d2048_k100000" and row["base"] == "":
            strip(row, "refused", "400,000,000,000 bytes are needed, 150,000,000,000 are there.")
        if row["workload"] == "map_flat_n1000000_d2048_k10000" and row["base"] != "":
            strip(row, "failed", "ended by signal 9.")
        if row["workload"] == "map_flat_n10000_d32_k100" and row["variant"] == "v1_few_threads":
            row.update(status="unstable", reason="the clock fell.")
    return document


def cells(markdown: str, section: str, variant: str) -> list[str]:
    part = markdown[markdown.index(f"**{section}") :]
    line = next(line for line in part.splitlines() if line.startswith(f"| `{variant}`"))
    return [cell.strip() for cell in line.strip("|").split("|")]
