"""The best rung over the best peer, on a map of shapes."""

from __future__ import annotations

from pathlib import Path

import sample_record
from figure_helpers import ITERATION, record_of, texts, with_gaps
from matplotlib.figure import Figure

from plots.figures import shape_map
from plots.figures.shape_map import Place, place_of
from plots.lib import schema
from plots.lib.options import Options
from plots.lib.record import DAGGER, TIMES, Record, renamed
from plots.lib.slope import slope_ms

pytest_plugins = ("figure_fixtures",)

ONCE, EACH = 7.0, 2.0  # ms: of a peer's solve, and of each of its iterations


def test_the_map_has_the_best_rung_over_the_best_peer_of_each_shape(figures: dict[str, Figure], tmp_path: Path) -> None:
    document = sample_record.grid()
    assert schema.violations(document) == []
    drawn, left_out = shape_map.draw(record_of(document), tmp_path, Options(devices=("cuda",)))
    assert [stem for stem, _ in drawn] == ["map_gpu_iteration", "map_gpu_solve"] and left_out == []
    page = figures["map_gpu_iteration"]
    # D = 32: four times faster than p_one; D = 2048: slower than it. p_two has no iteration.
    ratios = [round(float(text.strip(f"{TIMES}{DAGGER}")), 1) for text in texts(page, "value")]
    assert sorted(ratios) == [0.8] * 4 + [4.0] * 4
    assert sorted(texts(page, "name")) == ["v1_few_threads"] * 4 + ["v2_many_threads"] * 4
    assert "The ladder is ahead on 4 of 8 shapes: " in " ".join(texts(page))
    assert "The best rung: v1_few_threads on 4, v2_many_threads on 4." in texts(page)
    titles = [ax.get_title(loc="left") for ax in page.axes]
    assert titles == ["an even load, N = 10,000", "an even load, N = 1,000,000"]
    # Of a solve, per iteration; the best of two peers, and which.
    page = figures["map_gpu_solve"]
    ratios = [round(float(text.strip(f"{TIMES}{DAGGER}")), 1) for text in texts(page, "value")]
    assert sorted(ratios) == [0.8] * 4 + [2.0] * 4
    assert texts(page, "name").count("over p_two") == texts(page, "name").count("over p_one") == 4
    assert "than the best of p_one, p_two: blue is faster" in " ".join(texts(page))


def test_ahead_is_blue_and_behind_is_orange(figures: dict[str, Figure], tmp_path: Path) -> None:
    shape_map.draw(record_of(sample_record.grid()), tmp_path, ITERATION)
    seen = set()
    for ax in figures["map_gpu_iteration"].axes:
        for square, text in zip(ax.patches, [t for t in ax.texts if t.get_gid() == "value"], strict=True):
            red, _, blue, _ = square.get_facecolor()
            seen.add((text.get_text()[:3], "blue" if blue > red else "orange"))
    assert {colour for ratio, colour in seen if float(ratio) > 1} == {"blue"}
    assert {colour for ratio, colour in seen if float(ratio) < 1} == {"orange"}


def test_the_map_says_where_there_is_no_peer_or_no_rung(figures: dict[str, Figure], tmp_path: Path) -> None:
    shape_map.draw(record_of(with_gaps(sample_record.grid())), tmp_path, ITERATION)
    page = figures["map_gpu_iteration"]
    assert sorted(texts(page, "gap")) == ["no peer [2]", "no rung [1]"]
    assert "[1] v1_few_threads is failed: ended by signal 9." in texts(page)
    assert any(text.startswith("[2] p_one is refused: 400,000,000,000 bytes") for text in texts(page))
    assert [text for text in texts(page, "value") if text.endswith("*")]
    assert "* unstable: the samples are not to be trusted." in texts(page)
    assert "The ladder is ahead on 4 of 6 shapes: " in " ".join(texts(page))


def test_without_peers_or_without_shapes_there_is_no_map(mixed: Record, tmp_path: Path) -> None:
    document = sample_record.grid()
    document["rows"] = [row for row in document["rows"] if row["base"]]
    why = "no family with several D and K at the same N, and times of a rung and of a peer"
    for record in (record_of(document), mixed):
        drawn, left_out = shape_map.draw(record, tmp_path, Options(devices=("cuda",), scopes=("iteration",)))
        assert drawn == [] and left_out == [f"map (gpu, iteration): {why}"]


def test_names_are_short_only_where_that_tells_them_apart() -> None:
    assert shape_map.short_names(["v1_one", "v2_two"], 9) == {"v1_one": "v1_one", "v2_two": "v2_two"}
    assert shape_map.short_names(["v1_one", "v2_two"], 0.5) == {"v1_one": "v1", "v2_two": "v2"}
    past = next(iter(renamed().retired))
    number = past.split("_")[0]
    assert shape_map.short_names([past, f"{number}_two"], 0.5) == {past: f"former {number}", f"{number}_two": number}
    assert shape_map.short_names(["p_one", "p_two"], 0.1) == {"p_one": "p_one", "p_two": "p_two"}


def twins(second: str = "fixed:15", **other: object) -> dict:
    """A peer and a rung with `ONCE` of the peer's in every solve, on a problem with 5 iterations and on another."""
    document = sample_record.grid()
    peer = next(row for row in document["rows"] if row["scope"] == "solve" and row["variant"] == "p_one")
    rung = next(row for row in document["rows"] if row["scope"] == "solve" and row["base"])
    problem = next(w for w in document["workloads"] if w["name"] == peer["workload"])
    document["workloads"] = [problem | {"name": "five", "stop": "fixed:5"}]
    document["workloads"].append(problem | {"name": "more", "family": "more", "stop": second} | other)
    document["rows"] = [
        like | {"key": name + like["variant"], "workload": name, "median_ms": ms, "per_iteration_ms": ms / count}
        for name, count in (("five", 5), ("more", 15))
        for like, ms in ((peer, ONCE + EACH * count), (rung, 1.0 * count))
    ]
    return document


def test_what_a_solve_does_once_is_not_in_the_slope() -> None:
    record = record_of(twins())
    for row in record.rows:
        assert slope_ms(record, row) == (EACH if row.variant == "p_one" else 1.0)
    place = place_of(record, "cuda", record.workloads["five"], "solve")
    assert isinstance(place, Place)
    assert place.ratio == EACH  # and not (7 + 2 * 5) / 5


def test_later_iterations_in_which_little_changes_are_not_in_the_slope() -> None:
    document = twins()
    long = next(w for w in document["workloads"] if w["name"] == "more")
    document["workloads"].append(long | {"name": "long", "family": "long", "stop": "fixed:300"})
    document["rows"] += [
        row | {"key": f"long{row['variant']}", "workload": "long", "median_ms": row["median_ms"] + 1}
        for row in document["rows"]
        if row["workload"] == "more"
    ]
    record = record_of(document)
    slopes = {(row.variant, row.workload): slope_ms(record, row) for row in record.rows}
    assert {slopes["p_one", name] for name in ("five", "more")} == {EACH}
    assert slopes["p_one", "long"] == (EACH * 10 + 1) / 295


def test_only_a_problem_that_differs_in_its_number_of_iterations_tells_it() -> None:
    for document in (twins("exact"), twins(k=3), twins(data_hash="sha256:01"), twins(seed=2), twins("fixed:5")):
        record = record_of(document)
        assert [slope_ms(record, row) for row in record.rows if row.workload == "five"] == [None, None]


def test_a_longer_solve_that_takes_no_longer_tells_nothing() -> None:
    document = twins()
    for row in document["rows"]:
        row["median_ms"] = 10.0
    record = record_of(document)
    assert {slope_ms(record, row) for row in record.rows} == {None}
    document["rows"][2]["status"] = "invalid"
    record = record_of(document)
    assert {slope_ms(record, row) for row in record.rows} == {None}
