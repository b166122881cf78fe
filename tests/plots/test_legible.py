"""Every page is legible: no text is clipped, overlaps or is small."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_record
from figure_helpers import ITERATION, overlaps, record_of, roofed, texts, timed_iterations, with_gaps
from matplotlib.figure import Figure
from matplotlib.text import Text

from plots import draw
from plots.figures import choice_map, convergence, ladder, percent_of_peak, shape_map, tuning
from plots.lib import style
from plots.lib.options import Options

pytest_plugins = ("figure_fixtures",)


NARROW_SMALLEST = 9 * style.WIDTH / 12  # points that are nine on a page 12 inches wide


@pytest.mark.parametrize("which", ["mixed", "tall", "roofed", "timed", "swept", "mapped", "scattered"])
def test_pages_are_legible(
    which: str, request: pytest.FixtureRequest, figures: dict[str, Figure], tmp_path: Path
) -> None:
    """No text is clipped, overlaps or is small; every page names its record and the command that draws it."""
    if which in ("mixed", "tall"):
        record = request.getfixturevalue(which)
        if which == "mixed":
            record = record.only(["grapes_k100", "grapes_k1500", "embedding", "cloud"])
        for name in ("ladder", "tree", "scopes", "sweep", "files", "convergence"):
            draw.FIGURES[name](record, tmp_path, ITERATION)
        ladder.draw(record, tmp_path, Options(scopes=("iteration",), over="base"))
    elif which == "roofed":
        percent_of_peak.draw(roofed(), tmp_path, Options())
    elif which == "swept":
        tuning.draw(request.getfixturevalue(which), tmp_path, Options())
    elif which == "mapped":
        shape_map.draw(record_of(with_gaps(sample_record.grid())), tmp_path, Options())
    elif which == "scattered":
        choice_map.draw(record_of(sample_record.scattered()), tmp_path, Options())
    else:
        convergence.draw(timed_iterations(), tmp_path, Options())
    assert len(figures) > {"roofed": 0, "swept": 1, "mapped": 1, "scattered": 0}.get(which, 5)
    found = {stem: overlaps(figure)[:5] for stem, figure in figures.items()}
    assert {stem: overlapping for stem, overlapping in found.items() if overlapping} == {}
    for stem, figure in figures.items():
        assert figure.get_size_inches()[0] == style.WIDTH
        found_texts = figure.findobj(lambda artist: isinstance(artist, Text))
        assert min(text.get_fontsize() for text in found_texts if text.get_text()) >= NARROW_SMALLEST, stem
        page = texts(figure)
        assert any(text.startswith("drawn by python -m plots.draw record.json --only ") for text in page), stem
        assert any("git 0123456789" in text for text in page), stem
