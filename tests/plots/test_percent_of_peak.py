"""Percent of the device's peak, a cell per rung and workload."""

from __future__ import annotations

from pathlib import Path

from figure_helpers import roofed, texts
from matplotlib.figure import Figure

from plots.figures import percent_of_peak
from plots.lib.options import Options
from plots.lib.record import DAGGER

pytest_plugins = ("figure_fixtures",)


def test_the_roof_has_a_cell_per_rung_and_workload(figures: dict[str, Figure], tmp_path: Path) -> None:
    record = roofed()
    drawn, left_out = percent_of_peak.draw(record, tmp_path, Options())
    assert [stem for stem, _ in drawn] == ["roof_gpu_iteration"]
    assert left_out == ["roof (cpu, iteration): no row states its percent of roof"]
    figure = figures["roof_gpu_iteration"]
    values = [text.replace("\N{NO-BREAK SPACE}", " ") for text in texts(figure, "value")]
    assert len(values) + len(texts(figure, "gap")) == 8 * 8
    assert values.count("40 %") == 7 and values.count(f"40 %{DAGGER}") == 1
    assert f"0.3 %{DAGGER}" in values and "0.3 %*" in values
    page = texts(figure)
    assert any(
        text.startswith(f"{DAGGER} under ten times what two events measure") and "1.50 µs" in text for text in page
    )
    assert "embedding\n(bytes)" in page
    assert any(text.startswith("refused [") for text in texts(figure, "gap"))
    colours = {percent_of_peak.shade(value)[0] for value in (0.05, 0.3, 8, 100)}
    assert len(colours) == 4
    assert percent_of_peak.shade(0)[0] == percent_of_peak.shade(0.1)[0]
