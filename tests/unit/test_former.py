"""results/former.py: rungs of today held against the same rungs under their former ids."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("former", ROOT / "results" / "former.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(variant: str, ms: float, reassigned: list[int], scope: str = "solve", status: str = "ok") -> dict[str, Any]:
    return {"variant": variant, "workload": "w", "scope": scope, "device": "cuda", "status": status,
            "median_ms": ms, "reassigned": reassigned}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    module = script()
    for name in (*module.TODAY, *module.FORMER):
        (tmp_path / name).write_text(json.dumps({"rows": []}))
    return tmp_path


def put(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps({"rows": rows}))


def test_the_fastest_of_today_is_held_against_the_slowest_of_before(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(folder, "record_16_cores.json", row("v05_soa", 11.0, [3, 1]))
    put(folder, "record_all.json", row("v05_soa", 10.2, [3, 1]), row("v99_new", 1.0, [3]))
    put(folder, "record_seeds.json", row("v06_soa", 9.0, [3, 1]))  # its former id
    put(folder, "record_summit.json", row("v06_soa", 10.0, [3, 1]))
    assert script().main(["--folder", str(folder)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "1 rows compared, 1 take at most 3 % longer than before",
        "4 pairs of rows have equal histories; with others: none",
    ]


def test_what_is_slower_or_moves_other_points_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder, "record_16_cores.json", row("v05_soa", 10.4, [3, 2]), row("v05_soa", 1.0, [3], status="invalid"))
    put(folder, "record_seeds.json", row("v06_soa", 10.0, [3, 1]))
    script().main(["--folder", str(folder)])
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "v05_soa on w, solve: 10.4 ms, before 10 ms: 1.040x",
        "1 rows compared, 0 take at most 3 % longer than before",
        "0 pairs of rows have equal histories; with others: 1 of v05_soa",
    ]


def test_host_scopes_are_not_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder, "record_16_cores.json", row("v05_soa", 20.0, [], scope="upload"))
    put(folder, "record_seeds.json", row("v06_soa", 10.0, [], scope="upload"))
    script().main(["--folder", str(folder)])
    assert capsys.readouterr().out.startswith("0 rows compared")


def test_the_page_states_what_the_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    script().main([])
    said = capsys.readouterr().out
    page = " ".join((ROOT / "docs" / "results.md").read_text().split())
    compared, kept = said.splitlines()[-2].split(" rows compared, ")
    assert f"Of {compared} such rows, {kept.split()[0]} take at most 3 % longer" in page
    equal = said.splitlines()[-1].split()[0]
    assert f"In all {equal} pairs of rows of our own rungs" in page
    assert (
        said.splitlines()[-1].endswith("with others: 40 of p_torch")
        and "The 40 pairs that differ are the plain PyTorch script's" in page
    )
