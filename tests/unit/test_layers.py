"""The rooms of harness/, and who may include whom: arrows go one way, and every header compiles alone."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT / "harness"
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh"}

# What each room may include beside itself. "contract/problem.hpp" alone: what a problem is, and nothing of a device.
PROBLEM = "contract/problem.hpp"
# The draw of initial centroids: validation compares a variant that draws uniformly with it.
GENERATE = "workloads/generate.hpp"
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "contract": {"base/error.hpp", "base/philox.hpp"},
    "workloads": {"base", PROBLEM},
    "validation": {"base", PROBLEM},
    "protocol": {"base", PROBLEM},
    "worker": {"base", "contract", "validation", "protocol", GENERATE},
    "records": {"base", "workloads", "protocol", PROBLEM},
    "runner": {"base", "workloads", "protocol", "records", PROBLEM},
    "commands": {"base", "workloads", "protocol", "records", "runner", PROBLEM},
    "simt": set(),
}


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)


def included(path: Path) -> list[str]:
    """What a file includes by "...", as paths below harness/ (or as written, where it is none)."""
    names = re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)
    found = []
    for name in names:
        for base in (path.parent, HARNESS):
            target = (base / name).resolve()
            if target.exists():
                found.append(str(target.relative_to(HARNESS)) if target.is_relative_to(HARNESS) else name)
                break
        else:
            found.append(name)
    return found


def trespasses(room: str, includes: list[str]) -> list[str]:
    allowed = MAY_INCLUDE[room] | {room}
    return [name for name in includes if name not in allowed and name.split("/")[0] not in allowed]


def test_every_folder_of_the_harness_is_a_room() -> None:
    folders = {path.name for path in HARNESS.iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(MAY_INCLUDE)
    assert not [path.name for path in HARNESS.iterdir() if path.suffix in SUFFIXES], "a source that is in no room"


@pytest.mark.parametrize("room", sorted(set(MAY_INCLUDE) - {"simt"}))
def test_a_room_includes_only_rooms_below_it(room: str) -> None:
    found = {str(path.relative_to(ROOT)): trespasses(room, included(path)) for path in sources(HARNESS / room)}
    assert found, f"harness/{room} is empty"
    assert not {path: names for path, names in found.items() if names}


def test_the_rule_sees_a_trespass() -> None:
    assert trespasses("validation", ["worker/session.hpp", "base/npy.hpp", PROBLEM]) == ["worker/session.hpp"]
    assert trespasses("workloads", ["contract/contract.hpp"]) == ["contract/contract.hpp"]


def test_a_variant_includes_the_contract_and_its_parts_alone() -> None:
    strays = {}
    for path in sources(ROOT / "variants"):
        names = [name for name in included(path) if not name.startswith("contract/")]
        bad = [name for name in names if not (path.parent / name).resolve().is_relative_to(ROOT / "variants" / "parts")]
        if bad:
            strays[path.name] = bad
    assert not strays


HEADERS = [path for path in sources(HARNESS) if path.suffix == ".hpp" and "simt" not in path.parts]
COMPILE = ["g++", "-std=c++20", "-Wall", f"-I{HARNESS}", f"-I{HARNESS}/simt/include"]
# Nearly all of the compiler's time goes into this one, which half of the headers include.
JSON = "nlohmann/json.hpp"


def brings(header: Path, name: str) -> bool:
    """Does it include <name>, itself or through others of the harness?"""
    if f"#include <{name}>" in header.read_text():
        return True
    others = [HARNESS / other for other in included(header)]
    return any(brings(other, name) for other in others if other.suffix == ".hpp" and other.exists())


@pytest.fixture(scope="module")
def json_compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A header that includes JSON, precompiled."""
    header = tmp_path_factory.mktemp("json") / "first.hpp"
    header.write_text(f"#include <{JSON}>\n")
    subprocess.run([*COMPILE, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return header


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: str(path.relative_to(HARNESS)))
def test_a_header_compiles_alone(header: Path, tmp_path: Path, json_compiled: Path) -> None:
    unit = tmp_path / "unit.cpp"
    unit.write_text(f'#include "{header.relative_to(HARNESS)}"\n')
    # To one that brings JSON along, to have it first gives nothing that it has not; the others have nothing first.
    first = ["-Winvalid-pch", "-include", json_compiled] if brings(header, JSON) else []
    result = subprocess.run([*COMPILE, "-fsyntax-only", *first, unit], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "not used" not in result.stderr, "the precompiled header serves this compiler: " + result.stderr
