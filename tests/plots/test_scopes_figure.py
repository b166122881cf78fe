"""What an iteration and a whole run are made of."""

from __future__ import annotations

import pytest
import sample_record
from figure_helpers import FEW, part_of, record_of

from plots.figures import scopes
from plots.lib.record import Gap, Record, Rung

pytest_plugins = ("figure_fixtures",)


def test_scopes_stack_to_the_whole(mixed: Record) -> None:
    members = [mixed.workloads["grapes_k300"]]
    plain = scopes.iteration_stack(mixed, Rung("g1_plain", "cuda"), members)
    assert isinstance(plain, scopes.Stack)
    assert [name for name, _ in plain.parts] == ["assign", "update", "rest of the iteration"]
    whole = mixed.row(Rung("g1_plain", "cuda"), "grapes_k300", "iteration")
    assert whole
    assert sum(ms for _, ms in plain.parts) == pytest.approx(whole.median_ms)
    fused = scopes.iteration_stack(mixed, Rung("g5_fused", "cuda"), members)
    assert isinstance(fused, scopes.Stack)
    assert [name for name, _ in fused.parts] == ["fused iteration"]
    run = scopes.run_stack(mixed, Rung("g1_plain", "cuda"), members)
    assert isinstance(run, scopes.Stack)
    assert [name for name, _ in run.parts] == ["solve", "transfers and layout"]
    refused = scopes.iteration_stack(mixed, Rung("g2_constant", "cuda"), [mixed.workloads["embedding"]])
    assert isinstance(refused, Gap)
    assert refused.status == "refused"


def test_a_whole_shorter_than_its_parts_is_marked_too() -> None:
    assert scopes.Stack((("solve", 3.0),), 2.0, False, False).whole_apart
    assert scopes.Stack((("solve", 3.0), ("transfers and layout", 1.0)), 4.0, False, False).whole_apart
    assert not scopes.Stack((("fused iteration", 3.0),), 3.0, False, False).whole_apart
    assert not scopes.Stack((("solve", 3.0),), None, False, False).whole_apart


def test_the_way_to_the_device_and_back_has_its_own_parts_where_it_was_timed() -> None:
    document = part_of(sample_record.make(), FEW)
    w = next(w for w in document["workloads"] if w["name"] == "embedding")
    document["rows"] += [sample_record.row("g1_plain", "", w, "cuda", s, ms=2.0) for s in ("upload", "download")]
    run = scopes.run_stack(record_of(document), Rung("g1_plain", "cuda"), [record_of(document).workloads["embedding"]])
    assert isinstance(run, scopes.Stack)
    assert [name for name, _ in run.parts] == ["upload", "solve", "download", "rest of the run"]
    assert run.whole == pytest.approx(sum(ms for _, ms in run.parts))
