"""Records as the plots read them: trees, speedups, both schemas, and records merged."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_record
from conftest import ROOT
from figure_helpers import ALL_DEVICES, FEW, part_of, record_of, strip, without

from plots import table
from plots.lib import cards, schema
from plots.lib.record import (
    SCHEMA,
    SCOPE_TITLES,
    SCOPES,
    Gap,
    Record,
    RecordError,
    Rung,
    Speedup,
    from_document,
    merged,
    number,
    percent,
    renamed,
    tree_order,
)
from plots.lib.speedup import Gain, between

pytest_plugins = ("figure_fixtures",)


def test_the_tree_goes_down_a_chain_before_the_next_branch() -> None:
    bases = {"r": "", "a": "r", "b": "r", "a1": "a", "other": "", "b1": "b", "lost": "gone", "a2": "a1"}
    assert tree_order(bases) == ["r", "a", "a1", "a2", "b", "b1", "other", "lost"]


def test_roots_that_nothing_was_made_from_come_last() -> None:
    assert tree_order({"lib": "", "r": "", "a": "r", "other": ""}) == ["r", "a", "lib", "other"]


def test_the_root_is_at_the_end_of_the_chain_of_bases(mixed: Record) -> None:
    assert mixed.root("g5_fused") == "g1_plain"
    assert mixed.root("h3_crash") == "h1_matrix"
    assert mixed.root("s1_serial") == "s1_serial"


def test_a_record_without_its_root_falls_back_to_bases() -> None:
    found = without("g3_pinned")
    assert found.root("g5_fused") is None
    assert found.foot("g5_fused") == "g4_update"
    assert found.root("g2_constant") == "g1_plain"
    over = found.speedup(Rung("g5_fused", "cuda"), "grapes_k16", "iteration")
    assert isinstance(over, Speedup)
    assert over.reference == "g4_update"
    assert over.value == pytest.approx(31 / 4.2, rel=0.05)
    assert over.instead == "over g4_update: the root of g5_fused is not in this record."
    foot = found.speedup(Rung("g4_update", "cuda"), "grapes_k16", "iteration")
    assert isinstance(foot, Speedup)
    assert (foot.reference, foot.value, foot.instead) == ("g4_update", 1, "")


def test_speedup_over_the_base_is_not_that_over_the_root(mixed: Record) -> None:
    rung = Rung("g5_fused", "cuda")
    over_root = mixed.speedup(rung, "grapes_k300", "iteration")
    over_base = mixed.speedup(rung, "grapes_k300", "iteration", "base")
    assert isinstance(over_root, Speedup) and isinstance(over_base, Speedup)
    assert (over_root.reference, over_base.reference) == ("g1_plain", "g4_update")
    assert over_root.value == pytest.approx(31, rel=0.05)
    assert over_base.value == pytest.approx(31 / 4.2, rel=0.05)
    assert over_root.instead == over_base.instead == ""


def test_a_base_without_a_time_is_replaced_by_the_nearest_ancestor_and_named(mixed: Record) -> None:
    found = mixed.speedup(Rung("h3_crash", "cuda"), "embedding", "iteration", "base")
    assert isinstance(found, Speedup)
    assert found.reference == "h2_tiles"
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "h2_tiles":
            strip(row, "invalid", "17 labels are wrong.")
    found = record_of(document).speedup(Rung("h3_crash", "cuda"), "embedding", "iteration", "base")
    assert isinstance(found, Speedup)
    assert found.reference == "h1_matrix"
    assert found.instead == "over h1_matrix: h2_tiles has no valid iteration time here."


def test_a_root_without_a_time_is_replaced_by_the_ancestor_next_to_it(mixed: Record) -> None:
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "g1_plain":
            strip(row, "invalid", "17 labels are wrong.")
    record = record_of(document)
    *_, next_to_root, root = mixed.ancestors("g5_fused")
    assert root == "g1_plain" and next_to_root != mixed.bases["g5_fused"]
    found = record.speedup(Rung("g5_fused", "cuda"), "grapes_k300", "iteration")
    assert isinstance(found, Speedup) and found.reference == next_to_root
    assert found.instead == f"over {next_to_root}: g1_plain has no valid iteration time here."


def test_speedup_is_of_medians_on_the_same_device_with_the_variants_own_quartiles(mixed: Record) -> None:
    rung, root = Rung("g4_update", "simt"), Rung("g1_plain", "simt")
    mine, its = mixed.row(rung, "grapes_k300", "solve"), mixed.row(root, "grapes_k300", "solve")
    found = mixed.speedup(rung, "grapes_k300", "solve")
    assert isinstance(found, Speedup)
    assert mine and its
    assert found.value == pytest.approx(np.median(its.samples_ms) / np.median(mine.samples_ms))
    assert found.low == pytest.approx(np.median(its.samples_ms) / np.percentile(mine.samples_ms, 75))
    assert found.high == pytest.approx(np.median(its.samples_ms) / np.percentile(mine.samples_ms, 25))
    assert found.low < found.value < found.high


@pytest.mark.parametrize(
    ("variant", "workload", "status"),
    [
        ("g2_constant", "embedding", "refused"),
        ("h2_tiles", "grapes_k100", "invalid"),
        ("h3_crash", "grapes_k16", "failed"),
        ("s1_serial", "grapes_k16", "not run"),
    ],
)
def test_what_is_not_valid_has_no_speedup(mixed: Record, variant: str, workload: str, status: str) -> None:
    gap = mixed.speedup(Rung(variant, "cuda"), workload, "iteration")
    assert isinstance(gap, Gap)
    assert gap.status == status


def test_nothing_is_faster_than_a_root_that_is_wrong() -> None:
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "g1_plain":
            strip(row, "invalid", "1 label is wrong.")
    found = record_of(document)
    gap = found.speedup(Rung("g3_pinned", "cuda"), "grapes_k16", "iteration")
    assert gap == Gap("no base", "g1_plain has no valid iteration time here.")
    other = found.speedup(Rung("g4_update", "cuda"), "grapes_k16", "iteration")
    assert isinstance(other, Speedup)
    assert other.reference == "g3_pinned"
    assert other.instead.startswith("over g3_pinned: g1_plain has no valid")


def test_an_unstable_root_makes_its_tree_unstable() -> None:
    document = sample_record.make()
    for row in document["rows"]:
        if row["variant"] == "g1_plain":
            row.update(status="unstable", reason="the clock fell.")
    found = record_of(document).speedup(Rung("g5_fused", "cuda"), "grapes_k16", "iteration")
    assert isinstance(found, Speedup)
    assert found.unstable


def test_scopes_are_those_of_the_schema() -> None:
    stated = json.loads(SCHEMA.read_text())["$defs"]["scope"]["enum"]
    assert list(SCOPES) == stated
    assert set(SCOPE_TITLES) == set(stated)
    assert "SCOPES: tuple[str, ...] = tuple(json" in (ROOT / "plots" / "lib" / "record.py").read_text()


def test_rows_of_both_schemas_are_read_and_what_is_absent_is_none() -> None:
    row = {
        "variant": "a", "base": "", "idea": "", "shows": "assign", "workload": "w", "device": "cuda", "scope": "solve",
        "status": "ok", "reason": "", "axes": {}, "cache": "warm", "samples_ms": [2.0], "median_ms": 2.0,
        "sm_mhz": 1500.0,
    }  # fmt: skip
    workload = dict(sample_record.workload("w", "w", 100, 10, 3))
    for key in ("nonzeros", "metric", "kernel", "init_hash", "made_by"):
        workload.pop(key, None)
    old = {"schema_version": 1, "context": sample_record.context(), "workloads": [workload], "rows": [row]}
    (read,) = from_document(old, Path("old.json")).rows
    assert (read.q1_ms, read.roof_percent, read.launch_bound, read.key, read.prepare_ms) == (None,) * 5
    assert (read.sm_mhz, read.median_mhz, read.iteration_ms, read.counters) == ([], 1500.0, [], {})
    new = copy.deepcopy(old)
    new["schema_version"] = 2
    new["workloads"][0] |= {"nonzeros": 100, "made_by": "blobs"}
    fields = {"sm_mhz": [1500.0], "roof_percent": 12.5, "iteration_ms": [1, 1], "counters": {"distances": [9, 8]}}
    new["rows"][0] |= fields | {"key": "a w cuda", "module_hash": "x", "launch_bound": True, "from_the_future": 1}
    found = from_document(new, Path("new.json"))
    (read,) = found.rows
    assert (read.sm_mhz, read.roof_percent, read.counters) == ([1500.0], 12.5, {"distances": [9, 8]})
    assert read.launch_bound
    assert found.workloads["w"].kind == "sparse"
    assert from_document(old, Path("old.json")).workloads["w"].kind == ""
    del row["median_ms"]
    with pytest.raises(RecordError, match=r"a row of the record lacks median_ms"):
        from_document(old, Path("old.json"))


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 %"), (0.042, "0.04 %"), (0.31, "0.3 %"), (1.2, "1 %"), (8.4, "8 %"), (74.4, "74 %")]
)
def test_percent_is_short(value: float, text: str) -> None:
    assert percent(value).replace("\N{NO-BREAK SPACE}", " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1, "1.00"), (12.34, "12.3"), (99.99, "100.0"), (1234.5, "1,234")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_records_that_contradict_each_other_are_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def changed(change: Callable[[dict[str, Any]], object]) -> Record:
        document = part_of(sample_record.make(gpu=False), FEW, ALL_DEVICES)
        change(document)
        return from_document(document, tmp_path / "two.json")

    first = changed(lambda _: None)
    for change, words in [
        (lambda d: d.update(schema_version=99), r"is of schema \d, two.json of schema 99"),
        (lambda d: d["context"]["host"].update(cores=2), "their times do not belong together"),
        (lambda d: d["workloads"][0].update(k=17), "mean different problems by workload grapes_k16"),
        (lambda d: [r.update(base="x") for r in d["rows"] if r["variant"] == "g2_constant"], "says 'x'"),
    ]:
        with pytest.raises(RecordError, match=words):
            merged([first, changed(change)])
    one, other = (part_of(sample_record.make(gpu=False), FEW) for _ in range(2))
    other["context"]["host"]["cpu"] = "Another CPU"
    paths = [
        str(sample_record.write(document, tmp_path / name))
        for document, name in ((one, "one.json"), (other, "two.json"))
    ]
    assert table.main([*paths, "--markdown"]) == 2
    assert "their times do not belong together" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------- ids of the past


def older() -> dict[str, Any]:
    """A record that calls two variants of today by ids of the past, and holds rows of a retired one."""
    names = renamed()
    old = next(iter(names.ids))
    retired = next(iter(names.retired))
    w = sample_record.workload("grapes", "grapes", 1000, 4, 16)
    rows = [
        sample_record.row(old, "", w, "cuda", "assign", 4.0),
        sample_record.row(retired, old, w, "cuda", "assign", 2.0),
        sample_record.row("after", retired, w, "cuda", "assign", 1.0),
    ]
    return {"schema_version": 2, "context": sample_record.context(), "workloads": [w], "rows": rows}


def test_the_usual_record_has_what_sessions_in_turns_say_and_their_times_where_it_has_none_of_its_own() -> None:
    usual, turns = schema.of_one_machine([]), schema.load(ROOT / "results" / "nvidia-h200" / "comparisons.json")
    alone = {row.place for row in schema.load(ROOT / "results" / "nvidia-h200" / "record.json").rows}
    with_time = 0
    for c in turns.comparisons:
        gain = between(usual, Rung(c.candidate, c.device), Rung(c.base, c.device), c.workload, c.scope)
        assert isinstance(gain, Gain) and gain.interval and gain.interval.sessions == c.candidate_sessions
        row = usual.row(Rung(c.candidate, c.device), c.workload, c.scope)
        assert row and (row.turns is None) == (row.place in alone)
        with_time += row.turns is None
    assert with_time >= 60


def test_older_records_are_read_with_todays_ids() -> None:
    names = renamed()
    old, retired = next(iter(names.ids)), next(iter(names.retired))
    record = from_document(older(), Path("record.json"))
    assert set(record.bases) == {names.ids[old], "after"}
    assert record.bases["after"] == names.ids[old], "the base of a retired base"
    assert retired in record.retired_note and names.retired[retired] in record.retired_note
    kept = from_document(older(), Path("record.json"), retired=True)
    assert retired in kept.bases and kept.retired_note == ""


def test_a_retired_rung_whose_base_is_absent_is_no_root() -> None:
    """Else figures would take it for a library."""
    document = older()
    first, second, *_ = renamed().retired
    w = document["workloads"][0]
    document["rows"] = [sample_record.row(second, first, w, "cuda", "assign", 2.0)]
    record = from_document(document, Path("record.json"), retired=True)
    assert record.bases == {second: first} and not record.lone(second)


def test_the_base_that_an_older_record_says_gives_way() -> None:
    """It lacks the rung between, in whatever order the records are named; two records of today must not differ."""
    w = older()["workloads"][0]
    first, between, last = "v01_global", "v02_pinned", "v03_device_update"
    assert cards.load()[last].base == between and cards.load()[between].base == first

    def record(*rows: tuple[str, str]) -> Record:
        made = [sample_record.row(variant, base, w, "cuda", "assign", 1.0) for variant, base in rows]
        return from_document(older() | {"rows": made}, Path("record.json"))

    today = record((first, ""), (between, first), (last, between))
    past = record((first, ""), (last, between), (next(iter(renamed().retired)), ""))
    assert past.bases[last] == first
    for records in ([past, today], [today, past]):
        assert merged(records).bases[last] == between
    with pytest.raises(RecordError, match=f"is based on '{first}'"):
        merged([record((first, ""), (last, first)), today])


def test_no_id_is_both_of_today_and_of_the_past() -> None:
    names = renamed()
    assert not set(names.ids) & set(names.retired)
    assert not (set(names.ids) | set(names.retired)) & set(cards.load())
    assert set(names.ids.values()) <= set(cards.load())
