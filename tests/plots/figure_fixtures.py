"""Fixtures of the tests that draw: a module asks for them by `pytest_plugins`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import sample_record
from figure_helpers import record_of
from matplotlib.figure import Figure

from plots.lib import schema, style
from plots.lib.record import Record


@pytest.fixture(scope="session")
def mixed() -> Record:
    return record_of(sample_record.make())


@pytest.fixture(scope="session")
def tall() -> Record:
    document = sample_record.tall()
    assert schema.violations(document) == []
    return record_of(document)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures, which are written all the same."""
    pages: list[Figure] = []
    save = style.Page.save

    def keep(page: style.Page, folder: Path, stem: str, svg: bool = True) -> list[Path]:
        pages.append(page.figure)
        return save(page, folder, stem, svg)

    monkeypatch.setattr(style.Page, "save", keep)
    return pages


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures by their stem, kept instead of written."""
    kept: dict[str, Figure] = {}

    def keep(page: style.Page, folder: Path, stem: str) -> list[Path]:
        kept[stem] = page.figure
        return []

    monkeypatch.setattr(style.Page, "save", keep)
    return kept


@pytest.fixture(scope="session")
def swept() -> Record:
    document = sample_record.tuned()
    assert schema.violations(document) == []
    return record_of(document)


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record with an image of 4 x 6 pixels and two dumps; returns its path."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("LADDER_CACHE", str(cache))
    points = np.repeat(np.arange(24, dtype=np.float32)[:, None] * 10, 3, axis=1)
    np.save(cache / "snapshot.npy", points)
    (cache / "snapshot.json").write_text(json.dumps({"image": {"height": 4, "width": 6}}))
    workloads = [sample_record.workload(f"snapshot_k{k}", "snapshot", 24, 3, k) for k in (2, 3)]
    rows = []
    for w in workloads:
        made = sample_record.session("g1_plain", "", w, "cpu", 1.0)
        for row in made:
            row["dump"] = f"dump/g1_plain/{w['name']}"
        folder = tmp_path / made[0]["dump"]
        folder.mkdir(parents=True)
        np.save(folder / "labels.npy", (np.arange(24) % w["k"]).astype(np.int32))
        np.save(folder / "centroids.npy", np.array([[0, 0, 0], [255, 0, 51], [0, 255, 0]], np.float32)[: w["k"]])
        rows += made
    document = sample_record.make(gpu=False) | {"workloads": workloads, "rows": rows}
    return sample_record.write(document, tmp_path / "record.json")
