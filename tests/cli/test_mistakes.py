"""Mistakes of a first kernel, one a file in tests/fixtures/mistakes, and the words that whoever makes them must see.
tests/fixtures/faults (of the assignment) and update_faults have those that `ladder check` alone must see.

A note of `ladder check` is no fault that a run can show: the rows are right. A file says it in its opening comment:
    // says: WORDS             in every build; `says (default)`: by `ladder run` of the default build; `says (asan)`: by
                               `ladder check`, of the sanitized one; `says (compiler)`: by the compiler. `@here` stands
                               for the file and the line that ends with `// here`.
    // ask: WORDS              a question to whoever looks for the fault (docs/course/faults.md)
    // on: WORKLOAD            kmcuda_tiny, where it is not said
    // with: OPTIONS           of `ladder run`
    // status: ok              of the rows in the default build, where it is not a failure
    // compiles: yes, or no    for the compiler alone
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, BUILT_FIXTURES, FIXTURES, QUICK, ROOT

FOLDER = FIXTURES / "mistakes"
FAULTS = sorted(FIXTURES.glob("*faults/*.cu"))
IDS = sorted((path.stem for path in FOLDER.glob("*.cu")), key=lambda name: int(re.sub(r"\D.*", "", name[1:])))


def file_of(mistake: str) -> Path:
    return next(path for path in (FOLDER / f"{mistake}.cu", *FAULTS) if path.stem == mistake and path.exists())


def keys_of(mistake: str) -> list[tuple[str, str]]:
    """(key, text) of the opening comment, in order."""
    lines = file_of(mistake).read_text().splitlines()
    here = [number for number, line in enumerate(lines, 1) if line.endswith("// here")]
    found: list[tuple[str, str]] = []
    for line in lines:
        if not line.startswith("//"):
            break
        match = re.match(r"// (says(?: \(\w+\))?|on|with|status|compiles): (.*)", line)
        if match:
            found.append((match[1], match[2]))
    place = f"{file_of(mistake)}:{here[0]}" if here else "@here"
    return [(key, text.replace("@here", place)) for key, text in found]


def words_of(mistake: str, build: str) -> list[str]:
    wanted = {f"says ({build})"} if build == "compiler" else {"says", f"says ({build})"}
    return [text for key, text in keys_of(mistake) if key in wanted]


def told(mistake: str, build: str) -> list[pytest.param]:
    return [pytest.param(mistake, id=mistake)] if words_of(mistake, build) else []


def ladder(mistake: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    said = dict(keys_of(mistake))
    command = [BUILD / "ladder", *words, "--workloads", said.get("on", "kmcuda_tiny")]
    command += shlex.split(said.get("with", ""))
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def run(mistake: str, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = ["run", "--modules", BUILT_FIXTURES / "mistakes", "--device", "simt", "--variants", mistake]
    return ladder(mistake, *words, "--scopes", "iteration", *QUICK, "--out", out, *more)


def expect(mistake: str, build: str, seen: str) -> None:
    for words in words_of(mistake, build):
        assert words in seen, f"{mistake} must be told: {words}\nbut is told: {seen}"


@pytest.mark.parametrize("mistake", [p for m in IDS for p in told(m, "default")])
def test_the_default_build_says_what_is_wrong(mistake: str, tmp_path: Path) -> None:
    done = run(mistake, tmp_path / "record.json")
    rows = json.loads((tmp_path / "record.json").read_text())["rows"]
    right = dict(keys_of(mistake)).get("status") == "ok"
    assert {row["status"] == "ok" for row in rows} == {right}, done.stdout + done.stderr
    assert done.returncode == (0 if right else 1)
    expect(mistake, "default", done.stdout + done.stderr)
    assert "harness/" not in done.stdout, "no message may need the source of the harness"


@pytest.mark.parametrize("mistake", [p for m in [*IDS, *(f.stem for f in FAULTS)] for p in told(m, "asan")])
def test_ladder_check_says_what_is_wrong(mistake: str) -> None:
    if not (ROOT / "build-asan" / "ladder_worker_simt").exists():
        pytest.skip("the asan preset is not built")
    done = ladder(mistake, "check", mistake, "--folder", file_of(mistake).parent.relative_to(ROOT))
    noted = any(words.startswith("note: ") for words in words_of(mistake, "asan"))
    assert done.returncode == (0 if noted else 1), done.stdout + done.stderr
    expect(mistake, "asan", done.stdout)
    assert "harness/" not in done.stdout, "no message may need the source of the harness"


def check(variant: str, *words: str) -> subprocess.CompletedProcess[str]:
    if not (ROOT / "build-asan" / "ladder_worker_simt").exists():
        pytest.skip("the asan preset is not built")
    command = list(map(str, [BUILD / "ladder", "check", variant, *words]))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


# The tests of sessions try special points on each rung with sanitizers, too.
HONEST = ["v01_global", "v04_shared_update"]
HONEST += ["v08_shared_tiles", "v14_block_size"] if "LADDER_TEST_ALL" in os.environ else []


@pytest.mark.parametrize("variant", HONEST)
def test_ladder_check_calls_honest_variants_right_on_special_points(variant: str) -> None:
    done = check(variant, "--workloads", "special_*")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note: " not in done.stdout
    verdicts = dict(line.split(None, 1) for line in done.stdout.splitlines())
    doubles = verdicts.pop("special_equal_centroids_f64")
    assert doubles in ("right", "refused: has no f64 form"), "CI's sanitized build has floats alone"
    assert len(verdicts) == 13 and set(verdicts.values()) == {"right"}, done.stdout


def test_ladder_check_tries_special_points_without_being_asked() -> None:
    done = check("f14b_empty_cluster_is_zero", "--folder", "tests/fixtures/update_faults")
    assert done.returncode == 1, done.stdout + done.stderr
    wrong = [line.split()[0] for line in done.stdout.splitlines() if "WRONG" in line]
    assert "special_empty_clusters" in wrong
    assert all(name.startswith("special_") for name in wrong), "no data set has such a cluster"
    assert re.search(r"^kmcuda_tiny +right$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("mistake", [p for m in IDS for p in told(m, "compiler")])
def test_the_compiler_says_what_is_wrong(mistake: str) -> None:
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if Path(entry["file"]).name == f"{mistake}.cpp" and "tests/fixtures/mistakes" in entry["file"]:
            break
    else:
        pytest.fail(f"{mistake} is not in {BUILD / 'compile_commands.json'}")
    wrap = ["cmake", "-D", f"FILE={FOLDER / mistake}.cu", "-D", f"WRAPPER={entry['file']}"]
    Path(entry["file"]).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*wrap, "-P", ROOT / "cmake" / "wrap.cmake"], check=True)
    command = [word for word in shlex.split(entry["command"]) if word != "ccache"]
    command = [*command[: command.index("-o")], "-fsyntax-only", entry["file"]]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (dict(keys_of(mistake))["compiles"] == "yes"), done.stderr
    expect(mistake, "compiler", done.stderr)
    errors = set(re.findall(r"^.*error: .*$", done.stderr, re.MULTILINE))  # of float and of double
    assert len(errors) == (1 if done.returncode else 0), "one error, in words:\n" + "\n".join(errors)


def test_what_a_kernel_prints_is_shown_and_kept_out_of_records(tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    done = run("e1_printf", out)
    line = "    | 2000 points, 40 clusters"
    assert 1 <= done.stderr.count(line) <= 5, "its tail under the row"
    assert "points, 40 clusters" not in done.stdout + out.read_text()
    out.unlink()
    everything = run("e1_printf", out, "--show-output")
    assert everything.stderr.count(line) > 5
    assert "| 32 points, 40 clusters" in everything.stderr, "from its beginning on"
