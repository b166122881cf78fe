"""docs/certificate.md: its names exist, its symbols mean one thing each, its example is what the formulas give."""

import random
import re
from pathlib import Path

import pytest
from names_in_pages import missing

from plots import certificate_figure as example

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "certificate.md").read_text()
PROSE = " ".join(PAGE.split())


def test_every_function_and_file_on_the_page_exists() -> None:
    assert not missing(PAGE)
    assert len(re.findall(r"`[^`]+`", PAGE)) > 150


def test_a_symbol_has_one_meaning() -> None:
    notation = PAGE.split("## Notation")[1].split("\n## ")[0]
    cells = re.findall(r"^\| ((?:\\\||[^|])+?) \|", notation, re.M)[2:]
    symbols = [symbol for cell in cells for symbol in cell.split(", ")]
    assert len(symbols) > 50
    assert len(symbols) == len(set(symbols))


def test_the_theorem_stands_before_the_lemmas() -> None:
    places = [
        PAGE.index(text) for text in ("## Notation", "**Theorem 1", "**Corollary 2", "## Lemma 1:", "## Lemma 11:")
    ]
    assert places == sorted(places)


def test_the_figure_and_the_table_are_those_of_the_example() -> None:
    assert "](certificate.png)" in PAGE and (ROOT / "docs" / "certificate.png").exists()
    assert example.table() in PAGE


@pytest.mark.parametrize("name", example.POINTS)
def test_a_point_of_the_example_is_as_the_page_says(name: str) -> None:
    row = example.quantize_row(example.POINTS[name])
    assert row.exponent == 14
    said = [f"{row.lost:.6f}", f"{row.kept:.6f}", f"{row.lost / example.USUAL_LOSS:.6f}", f"{example.weight(row):.6f}"]
    assert not [number for number in said if number not in PROSE]
    assert f"{row.halves[0]:.0f}" in PROSE and f"{row.halves[1]:.0f}" in PROSE


def test_the_steps_of_the_example_are_as_the_page_says() -> None:
    y, z = example.quantize_row(example.POINTS["A"]), example.quantize_row(example.CENTROIDS[0])
    product = sum(a * b for a, b in zip(y.halves, z.halves, strict=True)) / 2**28
    for number in (product, example.square(z), example.slack(z), z.whole, z.lost):
        assert f"{number:.6f}" in PROSE
    factors = [f"{half:.0f}" for pair in zip(y.halves, z.halves, strict=True) for half in pair]
    assert re.search(r"\({} . {} \+ {} . {}\) / 2\^28".format(*factors), PROSE)
    point = example.POINTS["B"]
    for j in (0, 1):
        squared = sum((a - b) ** 2 for a, b in zip(point, example.CENTROIDS[j], strict=True))
        assert f"{squared:.6f}" in PROSE


def test_the_example_proves_one_label_and_leaves_one_pair() -> None:
    assert [example.candidates(example.bounds(point)) for point in example.POINTS.values()] == [[0], [0, 1]]


def test_bounds_hold_for_any_rows() -> None:
    draw = random.Random(1)
    for _ in range(500):
        point, centroid = ([draw.uniform(-1, 1) * 2 ** draw.randint(-12, 0) for _ in range(5)] for _ in range(2))
        y, z = example.quantize_row(tuple(point)), example.quantize_row(tuple(centroid))
        upper = example.upper_bound(y, z)
        assert example.lower_bound(upper, y, z) <= example.score(tuple(point), tuple(centroid)) <= upper
