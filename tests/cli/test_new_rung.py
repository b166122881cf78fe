"""A student's first hour: the README's commands word for word in a clean clone, one new file as a new rung, and what
`ladder new`, `check`, `diff` and `list` say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import QUICK, ROOT, Ladder

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)  # language, text
COMMANDS = [line for language, text in BLOCKS if language == "" for line in text.splitlines() if line]
CHAPTER = "variants/2_reuse"  # of v08_shared_tiles, the base of the README's example
(EXAMPLE,) = (line.split()[2] for line in COMMANDS if line.startswith("build/ladder new "))


def test_the_example_has_a_name_of_its_own() -> None:
    """In a clone with tests on, a second target of one name stops CMake."""
    assert not [file for file in ROOT.glob("variants/**/*") if file.stem == EXAMPLE]
    assert not [file for file in ROOT.glob("tests/**/*") if file.stem == EXAMPLE]


# ------------------------------------------------------------------------------------------------------- a clean clone


class Clone:
    """What belongs to the sources, with uncommitted changes, and what of it has been built."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.environment = dict(os.environ)
        self.environment.pop("LADDER_BUILD", None)
        if shutil.which("ccache"):
            self.environment |= {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_BASEDIR": str(tree)}

    def __call__(self, command: str, status: int = 0, timeout: int = 1500) -> str:
        """What a command of the shell wrote."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.tree,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == status, f"{command}\n{done.stdout[-4000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    tree = tmp_path_factory.mktemp("clone")
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(list_files, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not listed:
        pytest.skip("the sources are in no git repository, so there is no telling which files belong to them")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return Clone(tree)


@pytest.fixture(scope="module")
def built(clone: Clone) -> Clone:
    """In the place of ./run_all.sh, which test_run_all.py tries with stand-ins: its build, with tests on, of no more
    than the README's commands need; and its Python, this one."""
    clone("cmake --preset default -DLADDER_CUDA=OFF")
    needed = "ladder ladder_worker_simt cpu_c0_serial simt_v01_global simt_v08_shared_tiles simt_v33a_split_rows"
    clone(f"cmake --build build --target {needed}")
    python = clone.tree / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    rows = (f"{i % 7}.5,{i % 5},{i % 3}" for i in range(500))
    (clone.tree / "my.csv").write_text("\n".join(rows) + "\n")
    return clone


def apply(diff: str, file: Path) -> None:
    """Each run of - lines becomes the + lines behind it."""
    text = file.read_text()
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)*)", diff, re.MULTILINE):
        was, becomes = (re.sub(r"^.", "", lines, flags=re.MULTILINE) for lines in (old, new))
        assert text.count(was) == 1, f"the README changes lines that {file.name} does not have:\n{was}"
        text = text.replace(was, becomes)
    file.write_text(text)


def test_the_readme_word_for_word(built: Clone) -> None:
    said: dict[str, str] = {}
    for language, text in BLOCKS:
        if language == "diff":
            apply(text, built.tree / CHAPTER / f"{EXAMPLE}.cu")
            continue
        for command in filter(None, text.splitlines()):
            several = re.search("--(gpus|ranks) ", command) and "--device simt" not in command
            if command.startswith("./run_all.sh") or several:  # several GPUs are not everywhere
                continue
            timed = command.startswith("build/ladder run") and "--compare" not in command
            # The same words; but what is timed here needs no long look, nor many steps of devices that stand for GPUs,
            # and test_mistakes.py tries what `ladder check` does without --workloads.
            words = command.split("  ")[0].rstrip()
            more = [*(QUICK if timed else []), *(["--scopes", "iteration"] if timed and "--gpus " in words else [])]
            more += ["--workloads", "kmcuda_tiny"] if words.startswith("build/ladder check") else []
            said[words] = built(" ".join([words, *more]))
    of = {words: text for command, text in said.items() for words in [" ".join(command.split()[:2])]}
    assert f"{CHAPTER}/{EXAMPLE}.cu:1: " in of["build/ladder new"]
    assert f"cmake --build build --target simt_{EXAMPLE}" in of["build/ladder new"]
    assert "right" in of["build/ladder check"] and "WRONG" not in of["build/ladder check"]
    (compare,) = (text for command, text in said.items() if "--compare" in command)
    assert re.search(rf"^{EXAMPLE} .*block=64.* (SAME|FASTER|SLOWER|UNSURE)$", compare, re.MULTILINE), compare
    lines = re.search(rf"^{EXAMPLE} over v08_shared_tiles: (\d+) lines changed", of["build/ladder diff"], re.MULTILINE)
    assert lines and 3 <= int(lines.group(1)) <= 25, "an example for ten minutes is a small one"
    assert (built.tree / "README.md").read_text() == README, "the table is made from the record"


def plant(clone: Clone, id: str, old: str, new: str) -> None:
    """A revision of v08 with a fault."""
    clone(f"build/ladder new {id} --base v08_shared_tiles")
    file = clone.tree / CHAPTER / f"{id}.cu"
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_check_names_the_line_of_a_read_past_the_end(built: Clone) -> None:
    plant(built, "mine_past", "= min(row, n - 1);", "= row;")
    (line,) = (
        number
        for number, text in enumerate((built.tree / CHAPTER / "mine_past.cu").read_text().splitlines(), 1)
        if "x[size_t" in text
    )
    said = built("build/ladder check mine_past --workloads kmcuda_tiny", status=1)
    assert "WRONG: " in said and f"mine_past.cu:{line}" in said, said
    assert re.search(r"building mine_past with sanitizers \(.*\) \.\.\. \d+ s", said)
    assert "0 right, 1 wrong" in said


def test_check_shows_what_the_compiler_says(built: Clone) -> None:
    (built.tree / CHAPTER / "mine_no_code.cu").write_text("this is not C++\n")
    said = built("build/ladder check mine_no_code", status=2)
    assert "error: " in said and "mine_no_code.cu:1" in said
    assert "there is no variant 'nobody'" in built("build/ladder check nobody", status=2)


def test_a_new_file_is_a_new_rung_and_a_wrong_one_harms_no_other(built: Clone) -> None:
    plant(built, "mine_fault", "if (row < n) label", "if (row < n - 1) label")
    (built.tree / CHAPTER / "mine_no_code.cu").write_text("this is not C++\n")
    built("cmake --build build --target simt_mine_fault")
    built("cmake --build build --target simt_mine_no_code", status=1)
    variants = {v["id"]: v for v in json.loads(built("build/ladder list --json"))["variants"]}
    assert variants["mine_fault"]["devices"] == ["simt"]
    assert "simt" in variants["mine_no_code"]["broken"]
    words = "--device simt --variants mine_fault,mine_no_code,v08_shared_tiles --workloads kmcuda_tiny --scopes assign"
    built(f"build/ladder run {words} {' '.join(QUICK)} --out fault.json", status=1)
    status = {(r["variant"], r["status"]) for r in json.loads((built.tree / "fault.json").read_text())["rows"]}
    assert status == {("v08_shared_tiles", "ok"), ("mine_fault", "invalid"), ("mine_no_code", "failed")}


# ---------------------------------------------------------------------------------------------------- ladder new, diff

ROOT_TEXT = """// r1: a root.
#include "../common/lloyd/kernel.cuh"

LADDER_VARIANT(.id = "r1_root", .base = "", .idea = "plain", .expect = "slow",
               .shows = "assign", .f32 = phases<float>)
"""
PART = """// A kernel.
#pragma once
namespace ladder {

__global__ void assign_kernel(const float* x) {
  work(x);
}

}  // namespace ladder
"""
# The kernel stands in the file, in another namespace, rewritten in one line and with one line more; nothing else that
# counts has changed.
STEP = """// r2: a step.
namespace {
using namespace ladder;
__global__ void assign_kernel(const float* x) {
  work(x, 2);  // the text "//" in here is none: "
  /* two
     lines */
    more("// not a comment", 10'000);
}
}  // namespace

LADDER_VARIANT(.id = "r2_step", .base = "r1_root", .idea = "more (of it)",
               .shows = "assign", .f32 = phases<float>)
"""
PEER = '''"""A peer."""

CARD = {
    "id": "p_peer",
    "idea": "a library",
}
'''


class Checkout:
    """A folder that stands for the checkout: variants and tests, nothing built."""

    def __init__(self, ladder: Ladder, folder: Path) -> None:
        self.ladder, self.variants, self.chapter = ladder, folder / "variants", folder / "variants" / "1_first"
        self.parts = self.variants / "common"
        self.chapter.mkdir(parents=True)
        (self.parts / "lloyd").mkdir(parents=True)
        (folder / "tests" / "fixtures" / "wrong").mkdir(parents=True)
        (folder / "tests" / "fixtures" / "wrong" / "w1.cu").touch()
        (self.parts / "lloyd" / "kernel.cuh").write_text(PART)
        (self.chapter / "r1_root.cu").write_text(ROOT_TEXT)
        (self.chapter / "r2_step.cu").write_text(STEP)
        (self.variants / "peers").mkdir()
        (self.variants / "peers" / "p_peer.py").write_text(PEER)

    def __call__(self, *words: str, status: int = 0) -> str:
        environment = os.environ | {"LADDER_SOURCE": str(self.variants.parent)}
        done = self.ladder(*words, env=environment)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def text(self, name: str) -> str:
        """Of a variant in the first chapter."""
        return (self.chapter / name).read_text()

    def put(self, id: str, base: str, *includes: str, lines: int = 1) -> None:
        """A variant in the first chapter with so many lines of its own."""
        text = "".join(f'#include "../common/{part}"\n' for part in includes)
        text += "".join(f"int {id}_{i};\n" for i in range(lines))
        (self.chapter / f"{id}.cu").write_text(text + f'\nLADDER_VARIANT(.id = "{id}", .base = "{base}")\n')


@pytest.fixture
def checkout(ladder: Ladder, tmp_path: Path) -> Checkout:
    return Checkout(ladder, tmp_path)


def test_new_copies_and_sets_heading_id_and_base(checkout: Checkout) -> None:
    checkout("new", "r3_mine", "--base", "r2_step")
    heading = "// r3_mine: what differs from r2_step, in one sentence.\n// In r2_step: what is slow or wrong there."
    expected = STEP.replace('"r2_step"', '"r3_mine"').replace('"r1_root"', '"r2_step"')
    assert checkout.text("r3_mine.cu") == expected.replace("// r2: a step.", heading)


def test_new_over_a_root(checkout: Checkout) -> None:
    checkout("new", "r4_mine", "--base", "r1_root")
    assert '.id = "r4_mine", .base = "r1_root"' in checkout.text("r4_mine.cu")
    checkout("new", "p_mine", "--base", "p_peer")
    assert '"id": "p_mine", "base": "p_peer",' in (checkout.variants / "peers" / "p_mine.py").read_text()


def test_new_says_which_lines_to_edit_and_what_to_run(checkout: Checkout) -> None:
    said = checkout("new", "r3_mine", "--base", "r2_step")
    lines = checkout.text("r3_mine.cu").splitlines()
    places = re.findall(r"r3_mine\.cu:(\d+): (.*)", said)
    shown = {what: lines[int(number) - 1] for number, what in places}
    assert "__global__" in shown["a kernel"] and ".idea" in shown["the idea, in a line"]
    assert ".shows" in shown["the scope in which it should show"]
    for command in ("--target simt_r3_mine", "ladder check r3_mine", "ladder run --compare r2_step,r3_mine"):
        assert command in said
    said = checkout("new", "r4_mine", "--base", "r1_root")
    assert re.search(r"r4_mine\.cu:3: shared with other variants: copy", said), "its kernel lies in a part"


def test_new_leaves_the_bodies_of_kernels_out(checkout: Checkout) -> None:
    second = "__global__ void sum_kernel(float* sum, int) {\n  *sum = 0;\n}\n"
    (checkout.chapter / "r2_step.cu").write_text(STEP.replace("}  // namespace\n", f"{second}}}  // namespace\n"))
    said = checkout("new", "r3_mine", "--base", "r2_step", "--stub")
    text = checkout.text("r3_mine.cu")
    assert text.startswith("// r3: a step.\n"), "what the kernel does is the exercise"
    assert "work(" not in text and "*sum" not in text and '.id = "r3_mine", .base = "r2_step"' in text
    stub = "// Yours to write: the body of this kernel. The comment at the top of the file says what it does.\n"
    given = "  // Given: its parameters, its launch and everything else in this file.\n"
    body = "__global__ void assign_kernel(const float* x) {\n  %s%s  (void)x;  // delete this line\n}\n"
    assert body % (stub, given) in text
    assert "ladder run --variants r3_mine" in said and "invalid, until the kernel is written" in said
    checkout("new", "r4_mine", "--base", "r2_step", "--stub", "--kernel", "sum_kernel")
    text = checkout.text("r4_mine.cu")
    assert "work(x, 2)" in text and "*sum = 0" not in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["r1_root", "--stub"], "the file of r1_root has no kernel of its own"),
        (["r2_step", "--stub", "--kernel", "nobody"], "the file of r2_step has no kernel 'nobody'"),
        (["r2_step", "--kernel", "assign_kernel"], "add --stub"),
    ],
)
def test_new_refuses_a_stub(checkout: Checkout, words: list[str], says: str) -> None:
    assert says in checkout("new", "r3_mine", "--base", *words, status=2)
    assert not (checkout.chapter / "r3_mine.cu").exists()


def test_a_stub_is_invalid_until_its_kernel_is_back(built: Clone) -> None:
    built("build/ladder new mine_stub --base v01_global --stub")
    stub = built.tree / "variants" / "1_memory" / "mine_stub.cu"
    given = stub.read_text()
    assert given.count("// Yours to write") == 1

    def statuses() -> set[str]:
        built("cmake --build build --target simt_mine_stub")
        words = "--device simt --variants mine_stub --workloads kmcuda_tiny --scopes iteration --out stub.json"
        built(f"build/ladder run {words} {' '.join(QUICK)} || true")
        return {row["status"] for row in json.loads((built.tree / "stub.json").read_text())["rows"]}

    assert statuses() == {"invalid"}, "neither a crash nor a row that counts"
    whole = (built.tree / "variants" / "1_memory" / "v01_global.cu").read_text()
    (body,) = re.findall(r"^__global__ .*?\{\n(.*?)^\}", whole, re.MULTILINE | re.DOTALL)
    stub.write_text(re.sub(r"(^__global__ .*?\{\n).*?^\}", lambda m: f"{m[1]}{body}}}", given, flags=re.M | re.S))
    assert statuses() == {"ok"}


@pytest.mark.parametrize(
    ("id", "base", "says"),
    [
        ("r1_root", "r2_step", "there is a variant 'r1_root' already"),
        ("w1", "r2_step", "the tests have a variant 'w1'"),
        ("r3_mine", "nobody", "there is no variant 'nobody'"),
        ("3_mine", "r2_step", "'3_mine' cannot be a variant's id"),
        ("../mine", "r2_step", "'../mine' cannot be a variant's id"),
        ("r3-mine", "r2_step", "'r3-mine' cannot be a variant's id"),
    ],
)
def test_new_refuses(checkout: Checkout, id: str, base: str, says: str) -> None:
    before = sorted(checkout.variants.rglob("*"))
    assert says in checkout("new", id, "--base", base, status=2)
    assert sorted(checkout.variants.rglob("*")) == before


def test_a_copy_has_no_lesson(checkout: Checkout) -> None:
    file = checkout.chapter / "r2_step.cu"
    plain = file.read_text()
    taught = plain.replace("// r2: a step.\n", '// r2: a step.\n#include "../../harness/contract/lesson.hpp"\n')
    file.write_text(taught + '\nLADDER_LESSON(.predict = {{"loads", "2 * (N + 1)"}},\n              .ask = "Why?")\n')
    checkout("new", "r3_copy", "--base", "r2_step")
    copy = (checkout.chapter / "r3_copy.cu").read_text()
    heading = "// r3_copy: what differs from r2_step, in one sentence.\n// In r2_step: what is slow or wrong there.\n"
    expected = (
        plain.replace("// r2: a step.\n", heading)
        .replace('"r1_root"', '"r2_step"')
        .replace('.id = "r2_step"', '.id = "r3_copy"')
    )
    assert copy == expected
    assert checkout("diff", "r2_step").splitlines()[-1].startswith("r2_step over r1_root: "), "it is no part of a step"
    assert "LADDER_LESSON" not in checkout("diff", "r2_step")


def test_diff_counts_what_a_reader_sees_changed(checkout: Checkout) -> None:
    said = checkout("diff", "r2_step")
    step = "2 lines changed (2 added, 1 removed), 0 lines of new parts: a step of 2 lines"
    assert said.splitlines()[-1] == f"r2_step over r1_root: {step}", "its kernel comes from the base's part"
    assert "-  work(x);" in said and "+  work(x, 2);" in said and '+    more("// not a comment", 10\'000);' in said
    for unchanged in ("a kernel", "two", "LADDER_VARIANT", "idea", "pragma"):
        assert unchanged not in said, said
    (checkout.chapter / "r3_same.cu").write_text(STEP.replace("r2_step", "r3_same").replace("    more", "  more"))
    assert "r3_same over r2_step: 0 lines changed" in checkout("diff", "r3_same", "--over", "r2_step")


def test_diff_counts_the_new_parts_of_a_step(checkout: Checkout) -> None:
    """New is what no base before uses: directly or through other parts, with the file that implements a header."""
    parts = {
        "gemm/tile.cuh": '#pragma once\n#include "../lloyd/kernel.cuh"\n// a comment\nint tile_1;\n\nint tile_2;\n',
        "gemm/tile.cu": '#include "tile.cuh"\nint implementation_1;\nint implementation_2;\nint implementation_3;\n',
        "gemm/outer.cuh": '#include "tile.cuh"\nint outer;\n',
    }
    for name, text in parts.items():
        (checkout.parts / name).parent.mkdir(exist_ok=True)
        (checkout.parts / name).write_text(text)
    checkout.put("r3_new", "r2_step", "gemm/outer.cuh")
    said = checkout("diff", "r3_new").splitlines()
    listed = "gemm/outer.cuh 1 lines, gemm/tile.cu 3 lines, gemm/tile.cuh 2 lines"
    assert said[-2] == f"new parts: {listed}", "r1_root, further down, uses the kernel already"
    assert said[-1].endswith(", 6 lines of new parts: a step of 10 lines")
    # The same parts in another order, one of them named now: nothing but the file's own lines counts.
    checkout.put("r4_moved", "r3_new", "lloyd/kernel.cuh", "gemm/tile.cuh", "gemm/outer.cuh")
    assert (
        checkout("diff", "r4_moved")
        .splitlines()[-1]
        .endswith("1 lines changed (1 added, 1 removed), 0 lines of new parts: a step of 1 lines")
    )


def test_diff_compares_what_moved_into_a_part_and_knows_what_a_step_joins(checkout: Checkout) -> None:
    kernel = "".join(f"int kernel_{i};\n" for i in range(40))
    (checkout.chapter / "r3_whole.cu").write_text(f'{kernel}LADDER_VARIANT(.id = "r3_whole", .base = "r2_step")\n')
    (checkout.parts / "lloyd" / "kernel_of_r4.cuh").write_text(f"#pragma once\n{kernel}int one_more;\n")
    shared = '#include "../common/lloyd/kernel_of_r4.cuh"\nLADDER_VARIANT(.id = "{}", .base = "{}"{})\n'
    (checkout.chapter / "r4_shared.cu").write_text(shared.format("r4_shared", "r3_whole", ""))
    assert checkout("diff", "r4_shared").splitlines()[-1].endswith("0 lines of new parts: a step of 1 lines")
    (checkout.chapter / "r5_alone.cu").write_text(shared.format("r5_alone", "r1_root", ""))
    assert "41 lines of new parts" in checkout("diff", "r5_alone").splitlines()[-1]
    (checkout.chapter / "r6_joins.cu").write_text(shared.format("r6_joins", "r1_root", ', .joins = "r4_shared"'))
    assert " 0 lines of new parts" in checkout("diff", "r6_joins").splitlines()[-1]


def test_diff_as_a_table(checkout: Checkout) -> None:
    checkout.put("r3_one", "r2_step", lines=20)
    checkout.put("r4_big", "r3_one", lines=450)
    (checkout.parts / "lloyd" / "part.cuh").write_text("int part;\n" * 30)
    checkout.put("r5_part", "r4_big", "lloyd/part.cuh", lines=450)
    cpu = '\nLADDER_VARIANT(.id = "c1_host", .base = "r2_step")\n'
    (checkout.chapter / "c1_host.cpp").write_text("int host;\n" * 900 + cpu)
    first, *table, median = checkout("diff", "--stat").splitlines()
    assert first.split() == ["variant", "base", "own", "new", "parts", "step"]
    assert [line.split() for line in table] == [
        ["c1_host", "r2_step", "900", "0", "900", "above", "400"],
        ["r2_step", "r1_root", "2", "0", "2"],
        ["r3_one", "r2_step", "20", "0", "20"],
        ["r4_big", "r3_one", "450", "0", "450", "above", "400"],
        ["r5_part", "r4_big", "450", "30", "480", "above", "400"],
    ]
    assert median == "median of 4 GPU steps: 235 lines, 235 of own changes; largest: r5_part, 480 lines"
    only = checkout("diff", "c1*", "--stat").splitlines()[-1]
    assert only == "median of 1 steps: 900 lines, 900 of own changes; largest: c1_host, 900 lines"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["r1_root"], "r1_root is a root"),
        (["nobody"], "there is no variant 'nobody'"),
        ([], "which variant?"),
        (["r1*", "--stat"], "none of 'r1*' has a base"),
        (["x*", "--stat"], "no variant matches 'x*'"),
    ],
)
def test_diff_refuses(checkout: Checkout, words: list[str], says: str) -> None:
    assert says in checkout("diff", *words, status=2)


# What docs/variants.md asks of a step.
LARGEST_STEP = 400
MEDIAN_STEP = 60


def test_the_steps_of_the_ladder_are_small(ladder: Ladder) -> None:
    done = ladder("diff", "--stat")
    assert done.returncode == 0, done.stderr
    *steps, last = done.stdout.splitlines()[1:]
    files = {file.stem for file in (ROOT / "variants").glob("*/*.cu")}
    gpu = {line.split()[0]: int(line.split()[4]) for line in steps if line.split()[0] in files}
    median = re.fullmatch(r"median of (\d+) GPU steps: ([\d.]+) lines, .* largest: (\w+), (\d+) lines", last)
    assert median and int(median[1]) == len(gpu) and int(median[4]) == max(gpu.values())
    assert float(median[2]) <= MEDIAN_STEP
    assert {id: lines for id, lines in gpu.items() if lines > LARGEST_STEP} == {}


# --------------------------------------------------------------------------------------------------------- ladder list


def test_list_shows_a_family_in_a_line(ladder: Ladder) -> None:
    short, every = (ladder("list", *words).stdout for words in ([], ["--all"]))
    assert [line.split()[:4] for line in short.splitlines() if "blobs30 " in line] == [["blobs30", "30", "of", "them"]]
    assert "blobs30_07" not in short
    assert sum(line.startswith("  blobs30_") for line in every.splitlines()) == 35
    names = {w["name"] for w in json.loads(ladder("list", "--json").stdout)["workloads"]}
    assert {"blobs30_00", "blobs30_29", "kmcuda_tiny"} <= names


def test_a_base_that_does_not_exist_is_an_error_of_the_card(ladder: Ladder, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "expected.txt").write_text("cpu/lost\n")
    (tmp_path / "cpu" / "lost.so").touch()
    (tmp_path / "cpu" / "lost.json").write_text(json.dumps({"id": "lost", "base": "nobody", "idea": "i", "axes": []}))
    says = "its card names the base 'nobody', and there is no such variant: correct .base"
    assert says in ladder("list", "--modules", tmp_path).stdout
    words = ["--modules", tmp_path, "--variants", "lost", "--workloads", "kmcuda_tiny", "--device", "cpu"]
    rows = ladder.run(*words, status=1)["rows"]
    assert {(row["status"], row["reason"]) for row in rows} == {("failed", says)}


# ------------------------------------------------------------------------------------------------ what is committed


def test_the_committed_records_are_sound() -> None:
    found = [file for name in ("record", "seeds*", "shapes") for file in (ROOT / "results").glob(f"*/{name}.json")]
    command = [sys.executable, "-m", "plots.check", *sorted(r for r in found if r.parent.name != "latest")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
