"""Points that are worked on while they arrive, in whole runs: v26_projected with the upload of v28_overlapped_upload,
which itself is for a GPU alone. Samples are so small that most points are in none, and far ones leave their unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ladder
from test_certified import ADVERSARIAL, Data, faulty_copy, run
from test_projected import LESS, PROJECTED, counted, many_near_few_directions, near_few_directions

VIEW = "s.template own<certified::Certified<T>>().view"
UPLOAD = """void upload(State<T>& s) {
  upload_rows(s);
  halve_points(s);
"""
IN_PIECES = [
    *LESS,
    ("parts/principal.cuh", "constexpr int sampled = 4096;", "constexpr int sampled = 48;"),
    ("parts/centre.cuh", "constexpr int looked_at = 1024;", "constexpr int looked_at = 32;"),
    (
        "faulty.cu",
        '#include "parts/contest.cuh"',
        '#include "parts/contest.cuh"\n#include "parts/upload_in_pieces.cuh"',
    ),
    ("faulty.cu", "  prepare_moved(s);\n", "  prepare_moved(s);\n  prepare_pieces(s, wants_few(s));\n"),
    ("faulty.cu", UPLOAD, "void work_on_all(State<T>& s) {\n  halve_points(s);\n"),
    (
        "faulty.cu",
        """  choose_format(s, s.x);
}
""",
        f"""}}

template <class T>
void upload_ahead(State<T>& s) {{
  const auto& view = {VIEW};
  upload_in_pieces(
      s, view, 3,
      [&](const T* sample, int count) {{
        if (s.template own<Few>().directions.at) find_few(s, sample, count, view, s.axis("width"));
      }},
      [&](const RowRange& range) {{
        halve_rows(s, range);
        project_rows(s, view, range);
      }});
}}

template <class T>
void restart(State<T>& s) {{
  restart_ahead(s);
  finish_upload(s, [&] {{ work_on_all(s); }});
  forget_contested(s);
}}

template <class T>
void download(State<T>& s) {{
  download_contested(s);
  tell_upload(s);
}}
""",
    ),
    ("faulty.cu", ".upload = upload<T>", ".upload = upload_ahead<T>"),
    ("faulty.cu", ".restart = restart_contested<T>", ".restart = restart<T>"),
    ("faulty.cu", ".download = download_contested<T>", ".download = download<T>"),
]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faulty_copy(tmp_path_factory.mktemp("in_pieces") / "copy", IN_PIECES, PROJECTED)


def one_far_point() -> Data:
    points, centroids = near_few_directions()
    points[301] *= 1000
    return points, centroids


@pytest.mark.parametrize("make", [*ADVERSARIAL, one_far_point], ids=lambda make: make.__name__)
@pytest.mark.parametrize("width", [0, 32])
def test_labels_are_exact(ladder: Ladder, modules: Path, make: Callable[[], Data], width: int) -> None:
    how = ["--modules", modules, "--axis", f"width={width}", "--scopes", "upload,iteration,end_to_end"]
    rows = run(ladder, make, "faulty", *how)
    assert {row["status"] for row in rows} == {"checked"}, [row["reason"] for row in rows]


def test_the_record_says_whose_points_were_prepared_twice(ladder: Ladder, modules: Path) -> None:
    def of(make: Callable[[], Data], width: int) -> dict:
        how = ["--modules", modules, "--axis", f"width={width}", "--scopes", "solve"]
        (row,) = run(ladder, make, "faulty", *how)
        return row

    assert counted(of(near_few_directions, 32), "points prepared twice") == 0
    assert counted(of(one_far_point, 32), "points prepared twice") == 500
    piloted = of(many_near_few_directions, -1)
    assert counted(piloted, "points prepared twice") == 0
    assert counted(piloted, "halves of a short row") == 32


def test_points_without_exact_sums_are_refused_by_row_and_column(ladder: Ladder, modules: Path) -> None:
    def far_apart() -> Data:
        points, centroids = near_few_directions()
        points[20, 3], points[433, 7] = 1e-38, 1e38
        return points, centroids

    how = ["--modules", modules, "--axis", "width=32", "--scopes", "iteration"]
    (row,) = run(ladder, far_apart, "faulty", *how, status=1)
    assert row["status"] == "failed"
    assert "row 20, column 3" in row["reason"] and "row 433, column 7" in row["reason"], row["reason"]


def test_a_fault_is_found(ladder: Ladder, tmp_path: Path) -> None:
    """Labels mostly outlive a unit that does not hold: tests/simt_upload.cu has that fault, and those of streams."""
    same_rows = ("parts/upload_in_pieces.cuh", "s.x + first, s.points + first", "s.x + first, s.points")
    planted = faulty_copy(tmp_path / "copy", [*IN_PIECES, same_rows], PROJECTED)
    how = ["--modules", planted, "--axis", "width=32", "--scopes", "iteration"]
    (row,) = run(ladder, near_few_directions, "faulty", *how, status=1)
    assert row["status"] == "invalid", row["reason"]
