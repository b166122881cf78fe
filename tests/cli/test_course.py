"""docs/course: each command of the lab sheets does what the sheet says, and in seconds; each week's homework is a stub
that its assignment grades."""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, QUICK, ROOT, Ladder

from grade.assignment import read_assignment, source_of
from grade.parts import assemble, parts_of
from plots import course_page
from plots.lib.record import RecordError

COURSE = ROOT / "docs" / "course"
WEEKS = sorted(COURSE.glob("week?.md"))
# Commands that the sheets use and the program does not have yet: taken off this list as soon as it has them.
NOT_YET = ()
SECONDS = 10  # of the processor, for a command that builds nothing


def sections(page: Path) -> dict[str, str]:
    return dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL))


def commands(page: Path, fence: str) -> list[tuple[str, list[str]]]:
    """The commands of the lab sheet in blocks of this kind, each with the words that one should see."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(rf"^ *```{fence}\n(.*?)^ *```$", sections(page)["Lab"], re.MULTILINE | re.DOTALL):
        for line in (text.strip() for text in re.sub(r" \\\n +", " ", block).splitlines()):
            if line.startswith("# see: "):
                found[-1][1].extend(line.removeprefix("# see: ").split(" | "))
            elif line:
                found.append((line, []))
    return found


def every(fence: str) -> list[pytest.param]:
    return [
        pytest.param(command, words, id=f"{page.stem}-{number}-{command.split()[1]}")
        for page in WEEKS
        for number, (command, words) in enumerate(commands(page, fence), 1)
    ]


def run(command: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """What a command of a sheet says here, and the seconds of the processor that it took."""
    words = shlex.split(command)
    words[0] = sys.executable if words[0].startswith(".venv/") else str(BUILD / words[0].removeprefix("build/"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def is_not_yet(command: str) -> bool:
    name = command.split()[1]
    if not command.startswith("build/ladder ") or name not in NOT_YET:
        return False
    listed = subprocess.run([BUILD / "ladder", "--help"], capture_output=True, text=True, check=False).stdout
    assert not re.search(rf"^  {name} ", listed, re.MULTILINE), f"the program has `ladder {name}`: take it off NOT_YET"
    return True


@pytest.mark.parametrize(("command", "words"), every("sh"))
def test_a_command_of_a_lab_sheet(command: str, words: list[str]) -> None:
    if is_not_yet(command):
        pytest.skip("the program does not have this command yet")
    checks = command.startswith("build/ladder check ")
    if checks and not (ROOT / "build-asan" / "ladder_worker_simt").exists():
        pytest.skip("the asan preset is not built")
    done, seconds = run(command)
    said = done.stdout + done.stderr
    assert done.returncode == (1 if "WRONG" in words else 0), said
    for word in words:
        assert word in said, f"the sheet promises: {word}\n{said}"
    assert checks or seconds <= SECONDS, f"{seconds:.1f} s of the processor: a student waits"


@pytest.mark.parametrize(("command", "words"), every("sh gpu"))
def test_a_command_for_a_gpu_is_one(command: str, words: list[str]) -> None:
    """The same words, on the CPU device where that can do it."""
    assert not words, "what a GPU shows is no constant"
    if command.startswith(".venv/"):
        done, _ = run(" ".join([*command.split()[:3], "--help"]))
        assert done.returncode == 0
        return
    if " profile " in command:
        done, _ = run(command)
        assert done.returncode == 0 or "shown instead" in done.stderr, done.stderr
        return
    tiny = re.sub(r"(--workloads?) kmcuda\b", r"\1 kmcuda_tiny --device simt", command)
    assert tiny != command, "a command for a GPU names a workload of its size"
    done, _ = run(" ".join([tiny, *QUICK]))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readmes_commands_take_seconds(tmp_path: Path) -> None:
    """The run of two rungs that the README begins with, as it stands there."""
    (line,) = re.findall(r"^build/ladder run .*?--out (?=my\.json)", (ROOT / "README.md").read_text(), re.MULTILINE)
    done, seconds = run(f"{line}{tmp_path}/my.json")
    assert done.returncode == 0, done.stderr
    assert seconds <= SECONDS, f"{seconds:.1f} s of the processor"


@pytest.mark.parametrize("page", WEEKS, ids=lambda page: page.stem)
def test_a_week_has_all_its_parts(page: Path) -> None:
    found = sections(page)
    assert {"Goals", "Reading order", "Lab", "Homework", "Questions"} <= set(found)
    goals = re.findall(r"^\d\. ", found["Goals"], re.MULTILINE)
    assert 3 <= len(goals) <= 5
    assert "**Know before**" in found["Goals"] and "| homework |" in found["Goals"]
    asked = re.findall(r"^(\d+)\. ", found["Questions"], re.MULTILINE)
    answers = (COURSE / "teachers.md").read_text().split(f"## Week {page.stem[-1]}\n")[1].split("\n## ")[0]
    answered = re.findall(r"^(\d+)\. ", answers.split("### Questions")[1].split("\n### ")[0], re.MULTILINE)
    assert asked == answered, "each question has its answer, and each answer its question"
    for rung in re.findall(r"`([vc]\d\w*_\w+)`", page.read_text()):
        assert source_of(rung, ROOT), f"{page.name} names {rung}"


@pytest.mark.parametrize("page", WEEKS, ids=lambda page: page.stem)
def test_the_homework_is_a_stub_that_its_assignment_grades(page: Path, ladder: Ladder, tmp_path: Path) -> None:
    homework = sections(page)["Homework"]
    (words,) = re.findall(r"^build/ladder new (\w+ --base \w+ --stub)$", homework, re.MULTILINE)
    made, template = words.split()[0], words.split()[2]
    assignment = read_assignment(COURSE / f"{page.stem}.toml", ROOT)
    assert assignment.template == template
    for name in (ROOT / "variants").glob(f"*/{template}.cu"):
        (tmp_path / "variants" / name.parent.name).mkdir(parents=True)
        shutil.copy(name, tmp_path / "variants" / name.parent.name)
    (tmp_path / "tests" / "fixtures").mkdir(parents=True)
    done = ladder("new", *words.split(), env=os.environ | {"LADDER_SOURCE": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    (stub,) = (tmp_path / "variants").glob(f"*/{made}.cu")
    assert f"`{stub.relative_to(tmp_path)}`" in homework
    kernels = [part.name for part in parts_of(stub.read_text()) if part.function and "__global__" in part.words]
    assert kernels == assignment.functions, "what is left out is what a submission may change"
    assert stub.read_text().count("// Yours to write") == len(kernels)
    whole = source_of(template, ROOT).read_text()
    assert assemble(whole, whole, assignment.functions, assignment.helpers).changed == []
    assert assemble(whole, stub.read_text(), assignment.functions, assignment.helpers).changed == []
    predicted = re.findall(r"^// predict (\w+) NUMBER", homework, re.MULTILINE)
    assert predicted == list(assignment.predict), "the page asks for what the assignment wants"


def test_a_table_that_paper_and_count_disagree_on_is_refused(tmp_path: Path) -> None:
    table = "<!-- counted kmcuda assign sectors_per_load\nv05_soa: {}\n-->\n<!-- /counted -->\n"
    page = tmp_path / "week.md"
    for text, says in (
        ("(32 + 1) / 2", "is 16.5, but 2.50 was counted"),
        ("N ** 2", "is no arithmetic"),
        ("__import__('os')", "is no arithmetic"),
        ("1 / 0", "cannot be computed"),
    ):
        page.write_text(table.format(text))
        with pytest.raises(RecordError, match=re.escape(says)):
            course_page.page_of(course_page.counters.of_file(course_page.PROFILE), page.read_text(), page.name)
    page.write_text(table.format("(4 + 1) / 2"))
    assert course_page.main(["--check", str(page)]) == 1
    assert course_page.main(["--update", str(page)]) == 0
    assert "| `v05_soa` | (4 + 1) / 2 | 2.50 | 2.50 |" in page.read_text()
    assert course_page.main(["--check", str(page)]) == 0


QUOTES = re.findall(r"^> (.+)\n>\n> from `(.+?)`$", (COURSE / "fooled.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("quote", "source"), QUOTES, ids=[f"{n}-{s.split()[-1]}" for n, (_, s) in enumerate(QUOTES, 1)]
)
def test_what_fooled_us_is_quoted_word_for_word(quote: str, source: str) -> None:
    if not source.startswith("git show "):
        assert quote in " ".join((ROOT / source).read_text().split()), f"{source} no longer says so: quote what it says"
        return
    done = subprocess.run(source.split(), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this checkout has no history that goes back so far")
    assert quote in " ".join(done.stdout.split())


def test_what_fooled_us_can_be_measured_by_commands_that_exist() -> None:
    page = (COURSE / "fooled.md").read_text()
    assert len(QUOTES) >= 12
    for case in re.findall(r"^## (?!A list)(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL):
        assert "**Why it misled.**" in case and "**Now.**" in case and "**Question.**" in case, case[:60]
    for line in re.findall(r"^    build/ladder (.+)$", page, re.MULTILINE):
        name, *words = shlex.split(line)
        helped = subprocess.run([BUILD / "ladder", name, "--help"], capture_output=True, text=True, check=False).stdout
        for option in (word for word in words if word.startswith("--")):
            assert option in helped, f"`ladder {name}` has no {option}"
