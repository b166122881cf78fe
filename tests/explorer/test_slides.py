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
    gain = told.gain(rung)
    moved = f"{counts[0]:.1f} {ARROW} {counts[1]:.2f} sectors per load, {gain['value']:.2f}{TIMES} as fast"
    moved += f" ({gain['low']:.2f} to {gain['high']:.2f})"
    assert step == f"Points stored feature by feature: {moved}"
    assert messages[-4:] == ["Why one sector?", "Answer: Why one sector?", "And then?", "Answer: And then?"]
    assert any(message.startswith("Operations per byte") for message in messages)
    assert any("why warps wait" in message for message in messages)


@pytest.mark.parametrize(
    ("ratio", "said"), [(1.58, f"1.58{TIMES} as fast"), (1.01, "no faster"), (0.5, f"2.00{TIMES} the time")]
)
def test_a_pace_in_words(ratio: float, said: str) -> None:
    assert slides.pace(ratio) == said


@pytest.mark.parametrize(
    ("verdict", "values", "said"),
    [
        ("FASTER", (1.1254, 1.119, 1.1317), f"1.13{TIMES} as fast (1.12 to 1.13)"),
        ("FASTER", (1.3225, 1.3212, 1.3239), f"1.32{TIMES} as fast (1.321 to 1.324)"),
        ("SLOWER", (0.5, 0.4, 0.8), f"2.00{TIMES} the time (1.25 to 2.50)"),
        ("SAME", (1.0002, 0.99696, 1.0035), "no faster (0.997 to 1.00)"),
        ("UNSURE", (1.0619, 0.92824, 1.215), "no difference is shown (0.928 to 1.22)"),
    ],
)
def test_a_title_has_the_interval_of_sessions_in_turns(
    told: slides.Told, monkeypatch: pytest.MonkeyPatch, verdict: str, values: tuple[float, ...], said: str
) -> None:
    rung = told.rungs["v05_soa"]
    gain = {"rung": rung["id"], "base": rung["base"], "scope": "assign", "workload": "kmcuda", "verdict": verdict}
    monkeypatch.setitem(told.data, "gains", [gain | dict(zip(("value", "low", "high"), values, strict=True))])
    assert slides.message_of(told, rung).replace("\xa0", " ").endswith(f"sectors per load, {said}")
    monkeypatch.setitem(told.data, "gains", [])
    assert slides.message_of(told, rung).endswith("as fast in one session each")


def test_bars_are_the_times_that_the_title_speaks_of(told: slides.Told) -> None:
    for gain in told.data["gains"]:
        before, after = gain["times"]
        assert before / after == pytest.approx(gain["value"], rel=0.02), gain["rung"]
    (bars,) = slides.step_slide(told, told.rungs["v14_block_size"]).figure.axes
    gain = told.gain(told.rungs["v14_block_size"])
    assert [bar.get_width() for bar in bars.patches] == gain["times"]


@pytest.fixture(scope="module")
def published(told: slides.Told) -> list[slides.Slide]:
    return [slide for week in course.weeks(course.FOLDER) for slide in slides.deck(told, week)]


def test_names_of_dots_stand_on_no_roof_and_no_dot(published: list[slides.Slide]) -> None:
    seen = 0
    for slide in published:
        names = [text for text in slide.figure.texts if text.get_gid() == "name"]
        for name in names:
            box = name.get_window_extent()
            (ax,) = slide.figure.axes
            for line in ax.lines:
                points = ax.transData.transform(line.get_xydata())
                if line.get_gid() == "roof":
                    (left, level), (right, _) = points[-2:]
                    assert not (left < box.x1 and box.x0 < right and box.y0 < level < box.y1), (slide.message, name)
                elif line.get_color() == slides.RUNG:
                    near = box.expanded(1, 2.9)  # a dot is larger than its centre
                    inside = [p for p in points if near.x0 < p[0] < near.x1 and near.y0 < p[1] < near.y1]
                    assert not inside, (slide.message, name)
            assert any(line.get_gid() == "roof" for line in ax.lines)
            seen += 1
    assert seen >= 6


def test_a_lecture_hall_can_read_them(published: list[slides.Slide]) -> None:
    assert len(published) >= 60
    for slide in published:
        width, height = slide.figure.get_size_inches()
        assert width / height == pytest.approx(16 / 9), slide.message
        assert smallest_letters(slide.figure) >= 12, slide.message
        plain = [artist for artist in slide.figure.findobj(Text) if artist.get_gid() == "code"]
        assert len(plain) <= slides.MOST_ROWS, slide.message
        for artist in plain:  # lines of code touch each other
            artist.set_visible(False)
        assert overlaps(slide.figure) == [], slide.message
        for artist in plain:
            artist.set_visible(True)
        for ax in slide.figure.axes:
            assert len(ax.get_yticklabels()) <= slides.MOST_ROWS, slide.message


def test_no_text_leaves_its_page_or_lies_on_the_foot(published: list[slides.Slide]) -> None:
    for slide in published:
        slide.figure.draw_without_rendering()
        margin, foot = 0.5 * slides.DPI, 0.95 * slides.DPI
        for text in slide.figure.texts:
            box = text.get_window_extent()
            assert box.x0 >= margin and box.x1 <= slides.WIDTH * slides.DPI - margin, (slide.message, text.get_text())
            assert box.y0 >= foot or text.get_va() == "bottom", (slide.message, text.get_text())
        code = [text for text in slide.figure.texts if text.get_gid() == "code"]
        rest = [text.get_window_extent().x0 for text in slide.figure.texts if text not in code]
        beside = min((x for x in rest if x > 8 * slides.DPI), default=float("inf"))
        for text in code:
            assert text.get_window_extent().x1 < beside, (slide.message, text.get_text())


def test_they_name_no_hash_and_say_nothing_strange(deck: list[slides.Slide]) -> None:
    said = "\n".join(text for slide in deck for text in texts(slide))
    assert not re.search(r"\b[0-9a-f]{8,40}\b|\bgit\b|mathdefault|nan|None", said)


def test_code_of_a_step_is_what_changed(told: slides.Told) -> None:
    lines = slides.hunk(told, told.rungs["v05_soa"], 20)
    assert ("-", "      const T diff = x[size_t(i) * d + f] - c[size_t(j) * d + f];") in lines
    assert ("+", "      const T diff = x[size_t(f) * n + i] - c[size_t(j) * d + f];") in lines
    few = slides.hunk(told, told.rungs["v05_soa"], 4)  # what is added, where not all has room
    assert len(few) == 4 and {mark for mark, _ in few[:-1]} == {"+"}
    assert few[-1][1] == "… and 2 more lines, 4 lines removed"
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
