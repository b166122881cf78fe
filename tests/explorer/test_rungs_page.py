"""A page per rung: each says on its own what `ladder explain` says, and a page that says anything else is found."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from conftest import LADDER

from plots import rungs_page
from plots.lib import cards
from plots.lib.inputs import read_text
from plots.lib.record import ROOT
from plots.lib.speedup import ends

FOLDER = ROOT / "docs" / "rungs"
CHAPTERS = ("1_memory", "2_reuse", "3_matrix_products")
PARTS = ("The idea", "Predicted and counted", "What limits it", "Time", "The source's claim", "Question")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
needs_build = pytest.mark.skipif(not LADDER.is_file(), reason="the program is not built")


def published() -> list[Path]:
    return sorted(FOLDER.glob("*/*.md"))


def test_every_rung_of_the_first_chapters_has_a_page() -> None:
    names = {path.stem for path in published()}
    rungs = {name for name in cards.load() if cards.path_of(name).parent.name in CHAPTERS}
    assert len(rungs) >= 30 and rungs <= names
    fourth = [name for name in cards.load() if cards.path_of(name).parent.name == "4_tensor_cores"]
    assert set(fourth[:2]) <= names


def test_a_page_reads_on_its_own() -> None:
    for path in published():
        text = read_text(path)
        heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert [head for head in heads if head != "The step"] == list(PARTS), path
        card = cards.load()[path.stem]
        assert not card.base or ("The step" in heads and "```diff" in text and "What is wrong with the base" in text)
        assert text.count("<summary>Answer</summary>") == 1 and text.count("\n| ") > 3, path
        assert not re.search(r"\bNone\b(?! of the sources)|nan|\{|\}(?!.*;)", re.sub(r"(?s)```.*?```", "", text)), path
        assert re.search(r"95 % interval|no interval", text), path


def test_links_lead_to_files() -> None:
    for path in [*published(), *FOLDER.glob("*.md")]:
        found = LINK.findall(re.sub(r"(?s)```.*?```", "", read_text(path)))
        assert len(found) >= 3, path
        for target in found:
            assert (path.parent / target).is_file(), (path, target)


def test_an_index_names_each_of_its_pages() -> None:
    for index in FOLDER.glob("*.md"):
        named = re.findall(rf"^\| \[`(\w+)`\]\({index.stem}/\1\.md\)", read_text(index), re.MULTILINE)
        assert sorted(named) == sorted(path.stem for path in index.with_suffix("").glob("*.md"))


@needs_build
def test_a_page_that_is_changed_missing_or_left_over_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = tmp_path / "4_tensor_cores.md"
    assert rungs_page.main(["--update", str(index)]) == 0
    assert rungs_page.main(["--check", str(index)]) == 0
    first, second = sorted(index.with_suffix("").glob("*.md"))
    assert first.read_text() == read_text(FOLDER / "4_tensor_cores" / first.name)
    first.write_text(first.read_text().replace("Time", "Tide"))
    shutil.move(second, index.with_suffix("") / "v99_gone.md")
    assert rungs_page.main(["--check", str(index)]) == 1
    said = capsys.readouterr().err
    assert said.count("is not what the records say") == 3
    assert all(name in said for name in (first.name, second.name, "v99_gone.md"))
    assert rungs_page.main(["--update", str(index)]) == 0
    assert sorted(index.with_suffix("").glob("*.md")) == [first, second]
    assert rungs_page.main(["--update", str(tmp_path / "9_nothing.md")]) == 2
    assert "has no rung with a lesson" in capsys.readouterr().err


def test_words_and_numbers() -> None:
    assert rungs_page.amount(3.825e10, "") == "38.2 billion" and rungs_page.amount(2.448e12, "byte") == "2.45 TB"
    assert rungs_page.amount(None, "%") == "" and rungs_page.amount(12.5, "%") == "12.5 %"
    assert rungs_page.sentence("v04 keeps a*b_c") == "v04 keeps a\\*b\\_c."
    assert rungs_page.sentence("why?") == "Why?"
    assert rungs_page.named("update.global_atomics on kmcuda") == "atomics in global memory of the update on `kmcuda`"
    shown = [ends(*pair).replace("\xa0", " ") for pair in ((1.0433, 1.1131), (1.3212, 1.3239), (1234.4, 1234.6))]
    assert shown == ["1.04 to 1.11", "1.321 to 1.324", "1,234 to 1,235"]
