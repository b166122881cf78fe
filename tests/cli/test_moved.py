"""A built checkout can be copied elsewhere: it finds its libraries, its sources and its data there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from conftest import BUILD, QUICK, ROOT, Ladder

PROGRAMS = ["ladder", "ladder_worker_simt", "harness/simt/libsimt.so"]
MODULES = ["cpu/c0_serial", "simt/v01_global"]


def copied(folder: Path) -> Path:
    """The sources that a run reads, and what was built of two variants."""
    build = folder / "build"
    names = [*PROGRAMS, *(f"variants/{module}{ending}" for module in MODULES for ending in (".so", ".json"))]
    for name in names:
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(BUILD / name, build / name)
    (build / "variants" / "expected.txt").write_text("\n".join(MODULES) + "\n")
    for name in ("harness/contract/contract.hpp", "datasets/workloads.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return build


def test_a_copy_runs_by_itself(ladder: Ladder, tmp_path: Path) -> None:
    build = copied(tmp_path / "elsewhere")
    out = tmp_path / "record.json"
    words = ["run", "--device", "all", "--workloads", "kmcuda_tiny", "--scopes", "assign", *QUICK, "--out", str(out)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LADDER_")}
    done = subprocess.run(
        [build / "ladder", *words], cwd="/", env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert {(row["variant"], row["status"]) for row in rows} == {("c0_serial", "ok"), ("v01_global", "ok")}
    kept = tmp_path / "elsewhere" / "results" / "local"
    assert list(kept.glob("ceilings-*.json")), "what it keeps lies in the copy"


def test_no_built_file_names_the_folder_that_it_was_built_in(ladder: Ladder) -> None:
    for name in [*PROGRAMS, *(f"variants/{module}.so" for module in MODULES)]:
        assert str(BUILD.resolve()).encode() not in (BUILD / name).read_bytes(), name
