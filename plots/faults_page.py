"""docs/course/faults.md: faulty kernels to find the fault in, with the command that shows each and what it says.

`python -m plots.faults_page --update docs/course/faults.md` writes it from the opening comments of the files in
tests/fixtures; `--check` exits 1 where it says anything else. The comments' keys are those that the tests hold the
kernels to (tests/cli/test_mistakes.py, tests/runner/session/wrong.cpp), so the page promises what is tested.
"""

from __future__ import annotations

import html
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from plots.lib.inputs import in_sentences, read_text
from plots.lib.pages import keep_page, page_arguments
from plots.lib.record import ROOT, RecordError

FIXTURES = ROOT / "tests" / "fixtures"
KEY = re.compile(r"// (?P<key>[a-z]+)(?: \((?P<build>\w+)\))?: (?P<text>.*)")
KNOWN = {
    *(
        "ask",
        "compiles",
        "kernel",
        "metric",
        "needs",
        "on",
        "rejected",
        "sanitized",
        "says",
        "scopes",
        "status",
        "type",
    ),
    "with",
}
HERE = ("// here", "// the fault")


@dataclass(frozen=True)
class Fault:
    path: Path
    answer: str
    said: list[tuple[str, str, str]]  # key, build or "", text
    line: int  # that is marked in the file; 0: none

    @property
    def name(self) -> str:
        return self.path.stem

    def all(self, key: str, *builds: str) -> list[str]:
        return [text for k, build, text in self.said if k == key and (build in builds or not builds)]


def fault_of(path: Path) -> Fault:
    """Throws RecordError where the file says nothing of itself."""
    lines = read_text(path).splitlines()
    answer: list[str] = []
    said: list[tuple[str, str, str]] = []
    for line in lines:
        if not line.startswith("//"):
            break
        match = KEY.fullmatch(line)
        if match and match["key"] in KNOWN:
            said.append((match["key"], match["build"] or "", match["text"]))
        elif not said:
            answer.append(line.removeprefix("//").strip())
    text = " ".join(filter(None, answer))
    if not text:
        raise RecordError(f"{path.relative_to(ROOT)}: must begin with a comment that says what is wrong in it.")
    marked = [number for number, line in enumerate(lines, 1) if any(mark in line for mark in HERE)]
    code = [number for number in marked if not lines[number - 1].startswith("//")]
    text = re.sub(r"^(Wrong|Broken) on purpose: ", "", text)
    return Fault(path, text[0].upper() + text[1:], said, code[0] if code else 0)


def faults_in(folder: str, *patterns: str) -> list[Fault]:
    found = [fault_of(path) for pattern in patterns for path in (FIXTURES / folder).glob(pattern)]
    numbered = re.compile(r"[a-z](\d+)(\w?)_")
    return sorted(found, key=lambda f: [(int(m[1]), m[2]) for m in [numbered.match(f.name)] if m])


def in_words(words: str) -> str:
    text = words.replace("@here", "FILE:LINE").strip()
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def seen(fault: Fault, *keys: tuple[str, tuple[str, ...]]) -> str:
    """What is promised to be said, in code, without what the answer gives away."""
    words = [in_words(text) for key, builds in keys for text in fault.all(key, *builds)]
    return ", ".join(words) or "nothing: the result is right"


def block(fault: Fault, number: int, symptom: str) -> list[str]:
    """A fault: its file, question and symptom, and the answer folded away."""
    link = Path("../..") / fault.path.relative_to(ROOT)
    where = f" Line {fault.line}." if fault.line else ""
    answer = html.escape(fault.answer, quote=False) + where
    lines = [f"{number}. [{fault.name.partition('_')[0]}]({link.as_posix()}): {symptom}.", ""]
    for question in fault.all("ask"):
        lines += [f"   *{question}*", ""]
    return [*lines, f"   <details><summary>Answer</summary>{answer}</details>", ""]


PARTS: list[tuple[str, str, str, tuple[str, ...]]] = [
    (
        "What `ladder check` finds: the assignment",
        "A run may call these right. Try `build/ladder check NAME --folder tests/fixtures/faults`, and with "
        "`--workloads` the points that are named.",
        "faults",
        ("f*.cu",),
    ),
    (
        "What `ladder check` finds: updates and copies",
        "The same, with `--folder tests/fixtures/update_faults`.",
        "update_faults",
        ("f*.cu",),
    ),
    (
        "Mistakes of a first kernel",
        "The compiler, a run or the check says what is wrong: `build/ladder check NAME --folder "
        "tests/fixtures/mistakes`.",
        "mistakes",
        ("e*.cu",),
    ),
    (
        "What validation rejects",
        "Each of these computes something else than k-means, some of them fast. `ladder run --modules "
        "build/tests/fixtures/wrong --variants NAME` calls a row `invalid`.",
        "wrong",
        ("w*.cu", "w*.cpp"),
    ),
    (
        "What ends a session",
        "These crash or hang, and take no other row with them: `ladder run --modules build/tests/fixtures/broken`.",
        "broken",
        ("b*.cu",),
    ),
]


def symptom_of(folder: str, fault: Fault) -> str:
    on = next(iter(fault.all("on")), "")
    points = f" on `{on}`" if on and on != "kmcuda_tiny" else ""
    if folder == "wrong":
        return f"`invalid`: {seen(fault, ('rejected', ('',)))}"
    if folder == "broken":
        return "`failed`, or right beside the others"
    if fault.all("says", "compiler"):
        return f"the compiler says {seen(fault, ('says', ('compiler',)))}"
    run = fault.all("says", "default")
    check = [*fault.all("says", ""), *fault.all("says", "asan")]
    parts = [f"a run says {seen(fault, ('says', ('default',)))}"] if run else []
    if fault.all("status") and not run:
        parts.append("a run calls it right")
    parts += [f"the check{points} says " + ", ".join(map(in_words, check))] if check else []
    return "; ".join(parts)


def page() -> str:
    lines = [
        "# Find the fault",
        "",
        "<!-- Generated: python -m plots.faults_page --update docs/course/faults.md. Do not edit by hand. -->",
        "",
        "Kernels with one planted fault each. Read the symptom and then the file from its first include on: its "
        "opening comment is the answer. Say which line it is, what happens there and why the symptom follows, before "
        "you unfold the answer. The tests hold each kernel to the words that are quoted; FILE:LINE stands for the "
        "place that a message names. NAME is the file's name without its ending.",
        "",
    ]
    for title, how, folder, patterns in PARTS:
        found = faults_in(folder, *patterns)
        lines += [f"## {title}", "", how, ""]
        for number, fault in enumerate(found, 1):
            lines += block(fault, number, symptom_of(folder, fault))
    return "\n".join(lines).rstrip("\n") + "\n"


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "docs/course/faults.md", "tests/fixtures")
    return keep_page(arguments, page(), "python -m plots.faults_page")


if __name__ == "__main__":
    sys.exit(main())
