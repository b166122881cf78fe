"""Which rung is the fastest for which shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sample_record
from figure_helpers import record_of, strip, texts
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.figures import choice_map
from plots.lib import cards, schema
from plots.lib.options import Options
from plots.lib.record import Record
from plots.lib.style import COLOURS, HEIGHT, MARKERS

pytest_plugins = ("figure_fixtures",)
GPU = Options(devices=("cuda",))


@pytest.fixture(scope="module")
def record() -> Record:
    document = sample_record.scattered()
    assert schema.violations(document) == []
    return record_of(document)


def marks(figure: Figure, gid: str) -> list[Line2D]:
    """Of the panels; those of the legend are left out."""
    panels = [ax for ax in figure.axes if ax.get_xscale() == "log"]
    return [line for ax in panels for line in ax.lines if line.get_gid() == gid]


def test_each_shape_has_a_mark_of_its_fastest_rungs_look(
    record: Record, figures: dict[str, Figure], tmp_path: Path
) -> None:
    drawn, left_out = choice_map.draw(record, tmp_path, GPU)
    assert [stem for stem, _ in drawn] == ["choice_gpu"] and left_out == []
    page = figures["choice_gpu"]
    found = marks(page, "shape")
    assert len(found) == 40
    shapes = {(s.workload.n, s.workload.k): s for some in choice_map.scattered(record, "cuda").values() for s in some}
    look = choice_map.looks(list(shapes.values()))
    for line in found:
        shape = shapes[line.get_xdata()[0], line.get_ydata()[0]]
        few = shape.workload.d < 32
        best = "v3_few_features" if few else "v1_few_threads" if shape.workload.k < 64 else "v2_many_threads"
        assert shape.rung.variant == best and line.get_marker() == look[best].marker
        assert line.get_markerfacecolor() == look[best].colour
    assert texts(page, "family") == ["an even\nload", "doubles"]
    assert page.get_size_inches()[1] == HEIGHT, "it is a slide"


def test_where_a_library_is_faster_a_mark_is_hollow(record: Record, figures: dict[str, Figure], tmp_path: Path) -> None:
    choice_map.draw(record, tmp_path, GPU)
    page = figures["choice_gpu"]
    assert len(marks(page, "library")) == 1
    said = " ".join(texts(page))
    assert "ahead of the best library on 39 of 40 shapes" in said and "(p_one on far_even_3)" in said


def test_the_legend_counts_the_shapes_of_each_rung(record: Record, figures: dict[str, Figure], tmp_path: Path) -> None:
    choice_map.draw(record, tmp_path, GPU)
    entries = texts(figures["choice_gpu"], "legend")
    assert sum(int(entry.split()[-1]) for entry in entries) == 40 and len(entries) == 3


def test_no_two_chapters_look_alike_and_the_rarest_are_one() -> None:
    document = sample_record.scattered()
    some = choice_map.scattered(record_of(document), "cuda")["far_even"]
    assert len({*choice_map.looks(some).values()}) == len({shape.chapter for shape in some})
    ids = [card for card in cards.load() if card.startswith("v")]
    for count in (len(COLOURS) + 1, len(COLOURS) + 4):
        chosen = list({choice_map.chapter(variant): variant for variant in reversed(ids)}.values())[:count]
        shapes = [
            choice_map.Shape(shape.workload, replace(shape.rung, variant=variant), None, None)
            for variant, shape in zip(chosen, some, strict=False)
        ]
        look = choice_map.looks(shapes)
        assert len(look) == count and len({*look.values()}) == len(COLOURS) + 1 <= len(MARKERS)
        entries = [text for _, text in choice_map.legend_entries(shapes, look)]
        assert any(text.startswith("others: ") for text in entries) == (count > len(COLOURS) + 1)


def test_without_scattered_shapes_or_a_rungs_times_there_is_no_page(tmp_path: Path) -> None:
    document = sample_record.scattered()
    for row in document["rows"]:
        if row["base"]:
            strip(row, "refused", "too many features.")
    for one in (record_of(document), record_of(sample_record.grid())):
        drawn, left_out = choice_map.draw(one, tmp_path, GPU)
        assert drawn == [] and "no family of 16 shapes and more" in left_out[0]


def test_numbers_of_the_axes_are_short() -> None:
    assert [choice_map.short(10**power) for power in range(8)] == ["1", "10", "100", "1k", "10k", "100k", "1M", "10M"]
