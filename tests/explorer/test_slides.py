"""The slides of the course: what they say follows from records and pages, and a lecture hall can read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from figure_helpers import overlaps, smallest_letters
from matplotlib.text import Text

from plots import course, slides
from plots.explorer.document import committed
from plots.lib.inputs import InputError
from plots.lib.record import TIMES
from plots.lib.sources import ARROW

WEEK = """# Week 1: memory

## Goals

After this week you can

1. say how many *sectors* a load takes
   before running it;
2. count [atomics](x.md).

## Reading order

1. [`v01_global`](../../variants/1_memory/v01_global.cu): the first.
2. [`v04_shared_update`](../../variants/1_memory/v04_shared_update.cu), then
   [`v05_soa`](../../variants/1_memory/v05_soa.cu) and [a part](../../variants/common/x.cuh).

## Questions

1. Why `one` sector?
2. And then?

Answers: elsewhere.
"""
ANSWERS = "# For teachers\n\n## Week 1\n\n### Questions\n\n1. Because.\n2. Nothing\n   more.\n\n## Week 2\n"


@pytest.fixture(scope="module")
def told() -> slides.Told:
    return slides.Told(committed()[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "week1.md").write_text(WEEK)
    (tmp_path / "teachers.md").write_text(ANSWERS)
    return tmp_path


@pytest.fixture
def deck(told: slides.Told, folder: Path) -> list[slides.Slide]:
    (week,) = course.weeks(folder)
    return slides.deck(told, week)


def texts(slide: slides.Slide) -> list[str]:
    return [text.get_text() for text in slide.figure.findobj(Text) if text.get_text().strip()]


def test_a_week_is_what_its_page_says(folder: Path) -> None:
    (week,) = course.weeks(folder)
    assert (week.number, week.title) == (1, "Week 1: memory")
    assert week.goals == ("say how many sectors a load takes before running it;", "count atomics.")
    assert week.rungs == ("v01_global", "v04_shared_update", "v05_soa")
    assert week.questions == (("Why one sector?", "Because."), ("And then?", "Nothing more."))
    (folder / "teachers.md").unlink()
    assert course.weeks(folder)[0].questions[0] == ("Why one sector?", "")
    (folder / "week1.md").write_text("# Week 1\n")
    with pytest.raises(InputError, match="Reading order"):
        course.weeks(folder)
    (folder / "week1.md").unlink()
    with pytest.raises(InputError, match="no week"):
        course.weeks(folder)


def test_a_title_is_the_message_of_its_slide(told: slides.Told, deck: list[slides.Slide]) -> None:
    messages = [slide.message.replace("\xa0", " ") for slide in deck]
    assert messages[0] == "Week 1: memory"
    (step,) = (message for message in messages if message.startswith("Points stored feature by feature"))
    # As the committed profile and record have it.
    rung = told.rungs["v05_soa"]
    counts = [
        told.counts(name, "kmcuda", "assign")["metrics"]["sectors_per_load"] for name in (rung["base"], rung["id"])
    ]
    ratio = told.time(rung["base"], "kmcuda", "assign") / told.time(rung["id"], "kmcuda", "assign")
    moved = f"{counts[0]:.1f} {ARROW} {counts[1]:.2f} sectors per load, {ratio:.2f}{TIMES} as fast"
    assert step == f"Points stored feature by feature: {moved}"
    assert messages[-4:] == ["Why one sector?", "Answer: Why one sector?", "And then?", "Answer: And then?"]
    assert any(message.startswith("Operations per byte") for message in messages)
    assert any(message.startswith("Warps wait for") for message in messages)


@pytest.mark.parametrize(
    ("ratio", "said"), [(1.58, f"1.58{TIMES} as fast"), (1.01, "no faster"), (0.5, f"2.00{TIMES} the time")]
)
def test_a_pace_in_words(ratio: float, said: str) -> None:
    assert slides.pace(ratio) == said


def test_sessions_in_turns_may_say_that_nothing_is_shown(told: slides.Told, monkeypatch: pytest.MonkeyPatch) -> None:
    rung = told.rungs["v05_soa"]
    gain = {"rung": rung["id"], "base": rung["base"], "scope": "assign", "workload": "kmcuda", "verdict": "UNSURE"}
    monkeypatch.setitem(told.data, "gains", [gain])
    assert slides.message_of(told, rung).endswith("sectors per load, no difference is shown")


def test_a_lecture_hall_can_read_them(deck: list[slides.Slide]) -> None:
    assert len(deck) >= 10
    for slide in deck:
        width, height = slide.figure.get_size_inches()
        assert width / height == pytest.approx(16 / 9), slide.message
        assert smallest_letters(slide.figure) >= 12, slide.message
        plain = [artist for artist in slide.figure.findobj(Text) if artist.get_gid() == "code"]
        for artist in plain:  # lines of code touch each other
            artist.set_visible(False)
        assert overlaps(slide.figure) == [], slide.message
        for ax in slide.figure.axes:
            assert len(ax.get_yticklabels()) <= slides.MOST_ROWS + 1, slide.message


def test_they_name_no_hash_and_say_nothing_strange(deck: list[slides.Slide]) -> None:
    said = "\n".join(text for slide in deck for text in texts(slide))
    assert not re.search(r"\b[0-9a-f]{8,40}\b|\bgit\b|mathdefault|nan|None", said)


def test_code_of_a_step_is_what_changed(told: slides.Told) -> None:
    lines = slides.hunk(told, told.rungs["v05_soa"], 20)
    assert ("-", "      const T diff = x[size_t(i) * d + f] - c[size_t(j) * d + f];") in lines
    assert ("+", "      const T diff = x[size_t(f) * n + i] - c[size_t(j) * d + f];") in lines
    assert len(slides.hunk(told, told.rungs["v05_soa"], 8)) == 8
    assert "more lines" in slides.hunk(told, told.rungs["v05_soa"], 8)[-1][1]
    first = slides.hunk(told, told.rungs["v01_global"], 5)
    assert "__global__" in first[0][1] and {mark for mark, _ in first} == {" "}


def test_a_deck_that_says_something_else_is_found(
    told: slides.Told, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held: tuple[Any, None, None] = (told.data, None, None)
    monkeypatch.setattr(slides, "committed", lambda: held)
    page = folder / "out" / "slides.md"
    assert slides.main(["--course", str(folder), "--update", str(page)]) == 0
    assert slides.main(["--course", str(folder), "--check", str(page)]) == 0
    made = folder / "out" / "slides" / "week1.pdf"
    assert made.read_bytes().startswith(b"%PDF") and made.stat().st_size < 500_000
    assert made.read_bytes().count(b"/Type /Page\n") or made.read_bytes().count(b"/Page ") >= 10
    (folder / "week1.md").write_text(WEEK.replace("And then?", "And now?"))
    assert slides.main(["--course", str(folder), "--check", str(page)]) == 1
    said = capsys.readouterr().err
    assert "slides.md: is not what the records say" in said and "week1.pdf: is not" in said
