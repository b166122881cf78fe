"""Time per data set of a family."""

from __future__ import annotations

from pathlib import Path

import sample_record
from figure_helpers import newer, texts, with_zeros
from matplotlib.figure import Figure

from plots.figures import per_workload
from plots.lib.options import Options
from plots.lib.record import Rung

pytest_plugins = ("figure_fixtures",)


def test_time_per_file_has_a_line_per_variant_in_the_order_of_zeros(figures: dict[str, Figure], tmp_path: Path) -> None:
    record = newer(with_zeros(sample_record.make()))
    drawn, _ = per_workload.draw(record, tmp_path, Options())
    assert [stem for stem, _ in drawn] == ["files_gpu_iteration_cloud", "files_cpu_iteration_cloud"]
    ax = figures["files_gpu_iteration_cloud"].axes[0]
    lines = {line.get_gid(): line.get_ydata() for line in ax.get_lines() if (line.get_gid() or "").startswith("line")}
    assert len(lines) == 8 and set(texts(figures["files_gpu_iteration_cloud"], "name")) == {k[5:] for k in lines}
    order = [label.get_text().split("\n") for label in ax.get_xticklabels()]
    assert [name for name, _ in order] == ["0", "3", "6", "1", "2", "4", "5", "7"]
    assert [int(share) for _, share in order] == sorted(int(share) for _, share in order)
    fifth = record.row(Rung("g4_update", "cuda"), "cloud_05", "iteration")
    assert fifth and lines["line g4_update"][6] == fifth.median_ms
