"""The structure of the sources: which folder may include which other, how many files a folder holds, that every header
of the harness compiles alone, and that identifiers are the field's words."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT / "harness"
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh"}

# What each folder may include beside itself. "contract/problem.hpp" describes a problem without any device.
PROBLEM = "contract/problem.hpp"
# The draw of initial centroids: validation compares a variant that draws uniformly with it.
GENERATE = "workloads/generate.hpp"
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "contract": {"base/error.hpp", "base/philox.hpp"},
    "formats": {"base"},
    "workloads": {"base", "formats", PROBLEM},
    "validation": {"base", PROBLEM},
    "protocol": {"base", PROBLEM},
    "worker": {"base", "contract", "validation", "protocol", GENERATE},
    "records": {"base", "formats", "workloads", "protocol", PROBLEM},
    "sandbox": {"base"},
    "runner": {"base", "formats", "workloads", "protocol", "records", "sandbox", PROBLEM},
    "lessons": {"base", "formats", "workloads", "protocol", "records", "runner", PROBLEM},
    "commands": {"base", "formats", "workloads", "protocol", "records", "runner", "sandbox", "lessons", PROBLEM},
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


def violations(folder: str, includes: list[str]) -> list[str]:
    allowed = MAY_INCLUDE[folder] | {folder}
    return [name for name in includes if name not in allowed and name.split("/")[0] not in allowed]


def test_every_folder_of_the_harness_has_a_rule() -> None:
    folders = {path.name for path in HARNESS.iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(MAY_INCLUDE)
    assert not [path.name for path in HARNESS.iterdir() if path.suffix in SUFFIXES], "a source outside the folders"


@pytest.mark.parametrize("folder", sorted(set(MAY_INCLUDE) - {"simt"}))
def test_a_folder_includes_only_folders_below_it(folder: str) -> None:
    found = {str(path.relative_to(ROOT)): violations(folder, included(path)) for path in sources(HARNESS / folder)}
    assert found, f"harness/{folder} is empty"
    assert not {path: names for path, names in found.items() if names}


def test_the_rule_sees_a_violation() -> None:
    assert violations("validation", ["worker/session.hpp", "base/npy.hpp", PROBLEM]) == ["worker/session.hpp"]
    assert violations("workloads", ["contract/contract.hpp"]) == ["contract/contract.hpp"]


# ---------------------------------------------------------------------------------------------------------- variants/

VARIANTS = ROOT / "variants"
COMMON = VARIANTS / "common"


def test_a_variant_includes_only_the_contract_and_common_parts() -> None:
    strays = {}
    for path in sources(VARIANTS):
        names = [name for name in included(path) if not name.startswith("contract/")]
        bad = [
            name for name in names if not (path.parent / name).exists() or
            not (path.parent / name).resolve().is_relative_to(COMMON)
        ]  # fmt: skip
        if bad:
            strays[str(path.relative_to(VARIANTS))] = bad
    assert not strays


def test_every_variant_lies_in_a_chapter_and_every_part_in_a_folder_of_its_concept() -> None:
    depths = {str(path.relative_to(VARIANTS)): len(path.relative_to(VARIANTS).parts) for path in sources(VARIANTS)}
    assert depths, "variants/ is empty"
    assert not [name for name, depth in depths.items() if depth != (3 if name.startswith("common/") else 2)]


def direct_files(folder: Path) -> dict[str, int]:
    """How many files each folder below this one holds itself."""
    counts: dict[str, int] = {}
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            name = str(path.parent.relative_to(ROOT))
            counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.parametrize(
    ("folder", "most"), [("variants/common", 12), ("variants", 25), ("harness", 25), ("plots", 25), ("tests", 25)]
)
def test_no_folder_holds_more_files_than_a_reader_can_survey(folder: str, most: int) -> None:
    counts = direct_files(ROOT / folder)
    assert counts, f"{folder} is empty"
    assert not {name: count for name, count in counts.items() if count > most}


# ---------------------------------------------------------------------------------------------------------------- words

# Private words that once stood where the field has a term; docs/glossary.md has the terms.
PRIVATE_WORDS = """
    few contest contests contested spare doubts doubtful look own left
    Few Contest Contested Contestants ChangedContest ChangedContestants Doubts Doubtful Recheck Leaders TwoGreatest View
    Rounded CertainPoint CertainCentroid Touched Standing RingPlace BulkRing Turns Piece Pieces Parted Chosen
    guess_kernel guess_in_groups_kernel start_kernel contest_kernel contest_in_groups_kernel spare_kernel
    not_below not_above number_of take_registers leave_registers fence_products close_products finish_products
    held_row held_column point_place centroid_place sum_of_warp take_places
"""
# As common as these are elsewhere, in variants/ they named a pipeline's stages, an exponent, a k-block, a work tile.
PRIVATE_IN_VARIANTS = " fill wait_for release holds numbered top window bundle bundles"
# Of the standard library: a member that it declares, or a name behind std::.
OF_STD = r"std::\w+|\.(?:release|wait_for)\(\)"
IDENTIFIER = re.compile(rf"{OF_STD}|\b[A-Za-z_]\w*")
NOT_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|^[ \t]*#[ \t]*include[^\n]*|R\"\((?:.|\n)*?\)\"|\"(?:\\.|[^\"\\\n])*\"|\'(?:\\.|[^\'\\\n])+\'",
    re.MULTILINE | re.DOTALL,
)


def private_words(text: str, words: list[str]) -> dict[str, int]:
    """The words that are identifiers of this source, alone or as a member (`own_`), and how often."""
    text = re.sub(r"(?<=[0-9a-fA-F])\'(?=[0-9a-fA-F])", "", text)  # 10'000 opens no character
    found: dict[str, int] = {}
    for name in IDENTIFIER.findall(NOT_CODE.sub(" ", text)):
        if (word := name.rstrip("_")) in words:
            found[word] = found.get(word, 0) + 1
    return found


def test_the_rule_of_words_sees_identifiers_alone() -> None:
    text = """#include "few.hpp"
    // own /* left
    int spare = 10'000; char c = '"'; const char* s = "look // own";  /* few
    contest */ out << std::left << s.own_ << lock.release();
    """
    assert private_words(text, [*PRIVATE_WORDS.split(), "release"]) == {"spare": 1, "own": 1}


@pytest.mark.parametrize("folder", ["variants", "harness"])
def test_no_private_word_is_an_identifier(folder: str) -> None:
    words = (PRIVATE_WORDS + (PRIVATE_IN_VARIANTS if folder == "variants" else "")).split()
    files = [*sources(ROOT / folder), *(ROOT / folder).rglob("*.h")]
    found = {str(path.relative_to(ROOT)): private_words(path.read_text(), words) for path in files}
    lines = [f"{name}: {words}" for name, words in sorted(found.items()) if words]
    assert not lines, "\n".join(lines)


# --------------------------------------------------------------------------------------------- headers of the harness


HEADERS = [path for path in sources(HARNESS) if path.suffix == ".hpp" and "simt" not in path.parts]
COMPILE = ["g++", "-std=c++20", "-Wall", f"-I{HARNESS}", f"-I{HARNESS}/simt/include"]
# Nearly all of the compiler's time goes into these, which most of the headers include: each is precompiled.
JSON = "nlohmann/json.hpp"
SLOW = (JSON, "filesystem")


def brought(header: Path) -> set[Path]:
    """The headers of the harness that it includes, itself or through others."""
    found: set[Path] = set()
    waiting = [header]
    while waiting:
        others = {HARNESS / name for name in included(waiting.pop()) if (HARNESS / name).exists()}
        waiting += others - found
        found |= others
    return found


def brings(header: Path, name: str) -> bool:
    """Does it include <name>, itself or through others of the harness?"""
    return any(f"#include <{name}>" in one.read_text() for one in {header, *brought(header)})


def in_chains(headers: list[Path]) -> list[list[Path]]:
    """Each includes the one before it, which so gives it nothing that it has not: one compiler tries them all."""
    closures = {header: brought(header) for header in headers}
    chains: list[list[Path]] = []
    for header in sorted(headers, key=lambda header: (len(closures[header]), header)):
        fit = [c for c in chains if c[-1] in closures[header] and brings(c[0], JSON) == brings(header, JSON)]
        if fit:
            max(fit, key=lambda chain: len(closures[chain[-1]])).append(header)
        else:
            chains.append([header])
    return chains


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each of SLOW a header that includes it, precompiled."""
    folder, found = tmp_path_factory.mktemp("compiled"), {}
    for number, name in enumerate(SLOW):
        found[name] = header = folder / f"first{number}.hpp"
        header.write_text(f"#include <{name}>\n")
        subprocess.run([*COMPILE, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return found


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
@pytest.mark.parametrize(
    "headers", in_chains(HEADERS), ids=lambda chain: "-".join(str(path.relative_to(HARNESS)) for path in chain)
)
def test_a_header_compiles_alone(headers: list[Path], tmp_path: Path, compiled: dict[str, Path]) -> None:
    unit = tmp_path / "unit.cpp"
    unit.write_text("".join(f'#include "{header.relative_to(HARNESS)}"\n' for header in headers))
    # To one that brings JSON along, to have it first gives nothing that it has not; the same holds for the next one,
    # and the others have nothing first.
    slow = next((name for name in SLOW if brings(headers[0], name)), None)
    first = ["-Winvalid-pch", "-include", compiled[slow]] if slow else []
    result = subprocess.run([*COMPILE, "-fsyntax-only", *first, unit], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "not used" not in result.stderr, "the precompiled header serves this compiler: " + result.stderr


SOURCES = sorted(p for p in (ROOT / "variants").rglob("*.c*") if p.suffix in {".cu", ".cuh", ".cpp"})


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_what_cmake_reads_in_a_comment_stands_on_a_line_of_its_own(path: Path) -> None:
    """clang-format joins it to the comment above, where CMake does not see it, unless an empty `//` is between."""
    asked = re.compile(r"(?<!`)(for cuda: \d+a?|link( on [a-z]+)?: [a-z]+)(?!`)")
    wanted = re.compile(r"// (for cuda: \d+a?|link( on [a-z]+)?: [a-z]+)")
    lines = path.read_text().splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("//") and asked.search(line):
            assert wanted.fullmatch(line), line
            assert not re.match(r"// [A-Za-z]", before) or wanted.fullmatch(before), f"an empty // before: {line}"
