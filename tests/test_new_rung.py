"""A student's ten minutes: one new file makes a new rung, and nothing else has to be touched."""

from __future__ import annotations

import difflib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import QUICK, ROOT

BASE = "v06_soa"


def test_the_readme_shows_the_example_as_it_is() -> None:
    example = (ROOT / "tests" / "example" / "v06b_block.cu").read_text()
    base = (ROOT / "variants" / f"{BASE}.cu").read_text()
    shown = [
        line
        for block in (ROOT / "README.md").read_text().split("```diff\n")[1:]
        for line in block.split("```")[0].splitlines()
    ]
    assert shown
    for line in shown:
        where = base if line.startswith("-") else example
        assert line[1:] in where.splitlines(), f"the README shows '{line}', which is not there"
    changed = [
        line
        for line in difflib.unified_diff(base.splitlines(), example.splitlines(), lineterm="", n=0)
        if line[0] in "+-" and not line.startswith(("+++", "---", "+//", "-//", "+#include", "-#include"))
    ]
    assert len(changed) <= 25, "an example for ten minutes is a small one"


@pytest.fixture(scope="module")
def copy_of_the_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files, with two more variants in them: a copy under another name, and one with a planted fault."""
    tree = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not listed:
        pytest.skip("the sources are in no git repository, so there is no telling which files belong to them")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    text = (tree / "variants" / f"{BASE}.cu").read_text()
    (tree / "variants" / "v99_copy.cu").write_text(text.replace(f'.id = "{BASE}"', '.id = "v99_copy"'))
    guard = "  if (i >= n) return;"
    assert guard in text
    faulty = text.replace(f'.id = "{BASE}"', '.id = "v98_fault"').replace(guard, "  if (i >= n - 1) return;")
    (tree / "variants" / "v98_fault.cu").write_text(faulty)
    (tree / "variants" / "v97_no_code.cu").write_text("this is not C++\n")
    return tree


def test_a_new_file_is_a_new_rung(copy_of_the_tree: Path) -> None:
    tree = copy_of_the_tree
    configure = ["cmake", "--preset", "cpu", "-DLADDER_TESTS=OFF"]
    subprocess.run(configure, cwd=tree, check=True, capture_output=True)
    build = subprocess.run(
        ["cmake", "--build", "--preset", "cpu", "--", "-k", "0"], cwd=tree, capture_output=True, text=True, check=False
    )
    assert build.returncode != 0, "v97_no_code.cu cannot compile"
    ladder = tree / "build-cpu" / "ladder"

    listed = json.loads(subprocess.run([ladder, "list", "--json"], capture_output=True, text=True, check=True).stdout)
    variants = {v["id"]: v for v in listed["variants"]}
    assert variants["v99_copy"]["devices"] == ["simt"]
    assert "simt" in variants["v97_no_code"]["broken"]

    out = tree / "record.json"
    command = [ladder, "run", "--device", "simt", "--variants", f"v9*,{BASE}", "--workloads", "kmcuda_tiny", *QUICK]
    done = subprocess.run([*command, "--out", out], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    status = {(r["variant"], r["status"]) for r in json.loads(out.read_text())["rows"]}
    assert status == {(BASE, "ok"), ("v99_copy", "ok"), ("v98_fault", "invalid"), ("v97_no_code", "failed")}


def test_the_readme_table_is_made_from_the_record() -> None:
    record = ROOT / "results" / "nvidia-h200" / "record.json"
    command = [sys.executable, ROOT / "plots" / "table.py", record, "--check", ROOT / "README.md"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_committed_records_are_sound() -> None:
    records = sorted((ROOT / "results").glob("*/record.json"))
    command = [sys.executable, ROOT / "plots" / "check.py", *[r for r in records if r.parent.name != "latest"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
