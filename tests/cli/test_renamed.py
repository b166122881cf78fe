"""Older records are read with today's ids: results/renamed.json."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_record
from conftest import ROOT, Ladder

TABLE = json.loads((ROOT / "results" / "renamed.json").read_text())
VARIANTS = {path.stem for ending in ("cu", "cpp", "py") for path in (ROOT / "variants").glob(f"*/*.{ending}")}
RENAMED = {"g1_plain": "g7_today"}


@pytest.fixture
def read(ladder: Ladder, tmp_path: Path) -> Callable[..., str]:
    """Runs a command where one variant of the sample has another id today and one is retired."""
    (tmp_path / "results").mkdir()
    retired = {"g3_pinned": "merged into g7_today"}
    (tmp_path / "results" / "renamed.json").write_text(json.dumps({"renamed": RENAMED, "retired": retired}))

    def run(*words: str | Path) -> str:
        done = ladder(*words, env=os.environ | {"LADDER_SOURCE": str(tmp_path)})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_the_table_names_old_ids_only() -> None:
    assert set(TABLE) == {"renamed", "retired"}
    old = set(TABLE["renamed"]) | set(TABLE["retired"])
    assert not old & VARIANTS, "an id of today would be read as another variant"
    assert not set(TABLE["renamed"]) & set(TABLE["retired"])
    assert not old & set(TABLE["renamed"].values()), "ids are looked up once"


def test_every_variant_of_a_committed_record_is_one_of_today_or_retired() -> None:
    today = VARIANTS | set(TABLE["renamed"].values())
    for path in (ROOT / "results").glob("*/*.json"):
        document = json.loads(path.read_text())
        if path.parent.name in ("local", "latest") or not isinstance(document, dict):
            continue
        rows = document.get("rows", [])
        for row in rows:
            for id in filter(None, (row["variant"], row["base"])):
                assert TABLE["renamed"].get(id, id) in today or id in TABLE["retired"], f"{path}: {id}"
        # A variant may have been renamed twice, and then has two old ids; but not within one record.
        ids = {row["variant"] for row in rows}
        assert len({TABLE["renamed"].get(id, id) for id in ids}) == len(ids), (
            f"{path}: two variants would be read as one"
        )


def test_show_and_compare_use_todays_ids(read: Callable[..., str], tmp_path: Path) -> None:
    document = sample_record.make()
    assert {"g1_plain", "g3_pinned"} <= {row["variant"] for row in document["rows"]}
    path = sample_record.write(document, tmp_path / "old.json")
    shown = read("show", path)
    assert "g7_today" in shown and "g1_plain" not in shown
    assert "g3_pinned is no variant today: merged into g7_today" in shown
    compared = json.loads(read("compare", path, "--over", "base", "--json"))["comparisons"]
    assert "g7_today" in {row["base"] for row in compared}
    assert "g1_plain" not in {row[side] for row in compared for side in ("base", "candidate")}


def test_join_meets_rows_of_both_ids(read: Callable[..., str], tmp_path: Path) -> None:
    """A variant measured under its old id and again under today's is one row of the joined record."""
    old = sample_record.write(sample_record.make(), tmp_path / "old.json")
    document = sample_record.make()
    for row in document["rows"]:
        row["key"] = row["key"].replace("g1_plain", "g7_today")
        row["variant"] = RENAMED.get(row["variant"], row["variant"])
        row["base"] = RENAMED.get(row["base"], row["base"])
    new = sample_record.write(document, tmp_path / "new.json")
    read("join", tmp_path / "all.json", old, new)
    rows = json.loads((tmp_path / "all.json").read_text())["rows"]
    assert len(rows) == len(document["rows"])
    assert {row["variant"] for row in rows} == {row["variant"] for row in document["rows"]}
    assert not [row["key"] for row in rows if "g1_plain" in row["key"].split(":")[0]]
