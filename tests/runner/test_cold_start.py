"""The scope cold_start: a whole run in fresh processes, with what the harness otherwise does before it times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BUILT_FIXTURES, Ladder
from fake_build import END, FakeBuild, doing, result, timed
from test_peers import LLOYD, STEPS, Asked, Told, write

__all__ = ["write"]  # a fixture
PARTS = {"process", "context", "module", "prepare", "run"}


@pytest.fixture
def own(ladder: Ladder, tmp_path: Path) -> Any:  # noqa: ANN401
    """Rows by scope, of a variant of the tests on a few points."""
    np.save(tmp_path / "points.npy", np.random.default_rng(3).normal(size=(400, 5)).astype(np.float32))

    def rows(variant: str, *words: str, status: int = 0) -> dict[str, dict[str, Any]]:
        modules = ["--modules", BUILT_FIXTURES / "contract", "--variants", variant]
        record = ladder.run(*modules, "--data", tmp_path / "points.npy", "--k", "4", *words, status=status)
        return {row["scope"]: row for row in record["rows"]}

    return rows


def test_a_preparation_shows_in_a_cold_start_and_in_no_other_scope(own: Any) -> None:  # noqa: ANN401
    rows = own("t14_slow_prepare", "--scopes", "end_to_end,cold_start")
    assert set(rows) == {"end_to_end", "cold_start"}
    whole, cold = rows["end_to_end"], rows["cold_start"]
    assert (whole["status"], cold["status"]) == ("ok", "ok"), (whole["reason"], cold["reason"])
    assert cold["prepare_ms"] >= 200
    assert min(whole["samples_ms"]) < 100 < 200 <= min(cold["samples_ms"])
    assert 1 <= len(cold["samples_ms"]) <= 5
    assert set(cold["parts_ms"]) == PARTS
    assert cold["parts_ms"]["prepare"] >= 200 > 100 > cold["parts_ms"]["run"]
    assert "parts_ms" not in whole
    assert cold["solve_iterations"] == [whole["iterations"]] * len(cold["samples_ms"])
    assert (cold["labels_differ"], cold["roof_percent"], cold["floor_ms"]) == (0, None, None)


def test_a_sample_is_the_sum_of_its_parts(own: Any) -> None:  # noqa: ANN401
    cold = own("t1_whole_solve", "--scopes", "cold_start", "--device", "simt")["cold_start"]
    assert cold["status"] == "ok", cold["reason"]
    (sample,) = cold["samples_ms"]  # one is enough: the times of simt say nothing of a GPU
    assert sample == pytest.approx(sum(cold["parts_ms"].values()), rel=1e-5)
    assert cold["parts_ms"]["process"] > 0.1, "a process does not start in no time"


def test_a_wrong_result_of_a_cold_start_alone_is_found(own: Any) -> None:  # noqa: ANN401
    rows = own("t14_slow_prepare", "--scopes", "end_to_end,cold_start", "--axis", "cheats=1", status=1)
    assert rows["end_to_end"]["status"] == "ok"
    assert rows["cold_start"]["status"] == "invalid"
    assert "in a timed cold_start: row" in rows["cold_start"]["reason"]


def test_what_no_single_process_can_do_is_refused_in_a_sentence(own: Any) -> None:  # noqa: ANN401
    row = own("t5_gpus", "--scopes", "cold_start", "--device", "simt", "--gpus", "2")["cold_start"]
    assert (row["status"], row["median_ms"]) == ("refused", None)
    assert row["reason"] == "a cold start is one process with one GPU: leave --gpus and --ranks out"


def test_a_crash_in_a_cold_start_costs_its_own_row_alone(tmp_path: Path) -> None:
    fake = FakeBuild(tmp_path)
    session = [doing("end_to_end"), timed("end_to_end"), result(), END]
    fake.plan["sessions"]["x1"] = [session, [doing("cold_start"), {"signal": 11}]]
    rows = fake.run("--scopes", "end_to_end,cold_start", "--device", "cuda", status=1)["rows"]
    found = {row["scope"]: (row["status"], row["reason"]) for row in rows}
    assert found["end_to_end"] == ("ok", "")
    assert found["cold_start"][0] == "failed"
    assert "in cold_start" in found["cold_start"][1]
    first, second = fake.asked()
    assert (first["begun"], first["scopes"]) == (0, ["end_to_end", "cold_start"])
    assert second["begun"] > 0
    assert (second["scopes"], second["validated"]) == (["cold_start"], first["validated"])


def test_the_import_of_a_library_is_a_part_of_its_own(
    write: Any,  # noqa: ANN401
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "slow_library.py").write_text("import time\ntime.sleep(0.3)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    library = '"library": {{"module": "slow_library", "package": "slow"}}'.replace("{{", "{").replace("}}", "}")
    module = write("imports", LLOYD, STEPS, more=library)
    kept = {"validated": str(tmp_path / "validated"), "scopes": ["end_to_end", "cold_start"]}
    session = Told(Asked(tmp_path, module, **kept).all())
    assert (session.refused, session.error, session.fault) == ("", "", "")
    assert set(session.timed) == {"end_to_end"}, "a session leaves its cold starts to the run"
    cold = Told(Asked(tmp_path, module, **kept, begun=1.0).all())
    assert (cold.refused, cold.error) == ("", "")
    row = cold.timed["cold_start"]
    assert row["status"] == "ok", json.dumps(row)
    assert set(row["parts_ms"]) == {"process", "import", "prepare", "run"}
    assert row["parts_ms"]["import"] >= 300
    assert row["parts_ms"]["prepare"] + row["parts_ms"]["run"] < 300
