"""Percent of the device's peak, a cell per rung and workload; and the roofline."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import sample_record
from figure_helpers import FEW, part_of, roofed, texts
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.figures import overview, percent_of_peak, roofline
from plots.lib.options import Options
from plots.lib.record import DAGGER, Record, from_document

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


@pytest.mark.parametrize("figure", [overview, percent_of_peak])
def test_sessions_in_turns_make_no_column_beside_runs_of_their_own(
    figure: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def columns(in_turns: set[str], options: Options) -> set[str]:
        rows = [replace(row, turns={"seed": 0} if row.workload in in_turns else None) for row in record.rows]
        shown: list[str] = []
        monkeypatch.setattr(figure, "draw_page", lambda *given: shown.extend(column.name for column in given[4]))
        figure.draw(Record(record.sources, record.workloads, rows), tmp_path, options)
        return set(shown)

    record = from_document(part_of(sample_record.make(), FEW), Path("record.json"))
    plain, asked = Options(devices=("cuda",)), Options(devices=("cuda",), workloads=tuple(FEW))
    assert columns(set(), plain) == FEW and columns({"embedding"}, plain) == FEW - {"embedding"}
    assert columns({"embedding"}, asked) == FEW and columns(FEW, plain) == FEW


def test_the_roofline_sets_a_dot_at_the_bytes_that_were_counted(figures: dict[str, Figure], tmp_path: Path) -> None:
    document = part_of(sample_record.make(), {"embedding"})
    document["context"]["ceilings"] = {"cuda": {"fp32_gflops": 6e4, "fp64_gflops": 3e4, "read_gbs": 4e3}}
    for row in document["rows"]:
        row.update(flop=1e12, bytes=1e9)
    record = from_document(document | {"schema_version": 2}, tmp_path / "record.json")
    timed = [row for row in record.rows if (row.device, row.scope) == ("cuda", "assign") and row.timed]
    assert len(timed) >= 4
    options = Options(devices=("cuda",))

    def drawn(scope: str) -> Figure:
        assert [stem for stem, _ in roofline.draw(record, tmp_path, options)[0]] == [f"roofline_gpu_{scope}_embedding"]
        return figures[f"roofline_gpu_{scope}_embedding"]

    assert set(dots_of(drawn("iteration")).values()) == {1e3}
    kernels = [{"launches": 2, "metrics": {"dram_bytes": 1e6}}, {"launches": 1, "metrics": {"dram_bytes": 3e6}}]
    size = {name: getattr(record.workloads["embedding"], name) for name in ("n", "d", "k")}
    counted = [
        {"variant": row.variant, "workload": "embedding", "scope": "assign", "kernels": kernels} | size
        for row in timed[:-1]
    ]
    (tmp_path / "profile.json").write_text(json.dumps({"profiles": counted}))
    page = drawn("assign")
    assert dots_of(page) == {f"dot {row.variant}": 1e12 / 5e6 for row in timed[:-1]}
    assert "Not shown: 1 rungs whose bytes were not counted here." in texts(page)
    (tmp_path / "profile.json").write_text(json.dumps({"profiles": counted[:2]}))
    assert set(dots_of(drawn("iteration")).values()) == {1e3}


def test_the_roofline_says_why_a_dot_lies_above_the_roofs(figures: dict[str, Figure], tmp_path: Path) -> None:
    document = part_of(sample_record.make(), {"embedding"})
    rows = [row for row in document["rows"] if (row["device"], row["scope"]) == ("cuda", "iteration")]
    for row in rows:
        row.update(flop=1e12, bytes=1e9, roof_percent=None)
    fastest = max(1e6 / row["median_ms"] for row in rows if row["median_ms"])

    def remarks(peak: float) -> list[str]:
        document["context"]["ceilings"] = {"cuda": {"fp32_gflops": peak, "fp64_gflops": peak, "read_gbs": 10 * peak}}
        record = from_document(document | {"schema_version": 2}, tmp_path / "record.json")
        roofline.draw(record, tmp_path, Options(devices=("cuda",), scopes=("iteration",)))
        page = texts(figures["roofline_gpu_iteration_embedding"])
        return [text for text in page if text.startswith("Above the roofs")]

    assert remarks(1.01 * fastest) == []
    assert len(remarks(0.99 * fastest)) == 1
    for row in rows:
        row["roof_percent"] = 50.0  # of the roof of another type: nothing was left out
    assert remarks(0.99 * fastest) == []


def dots_of(page: Figure) -> dict[str, float]:
    found = page.findobj(lambda artist: isinstance(artist, Line2D) and (artist.get_gid() or "").startswith("dot "))
    return {dot.get_gid(): float(dot.get_xdata()[0]) for dot in found}
