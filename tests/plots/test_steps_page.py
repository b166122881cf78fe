"""docs/steps.md: what made-up sessions in turns say, and that the pictures are legible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sample_record
from figure_helpers import overlaps, record_of, smallest_letters, texts
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from plots import steps_page
from plots.lib.record import SPACE, TIMES

pytest_plugins = ("figure_fixtures",)

WORKLOAD = "grapes_k300"
STEPS = {  # a candidate, its time over the base's with both ends, and what the record says of it
    "g2_shared": (0.5, 0.48, 0.52, "FASTER"),
    "g3_slow": (1.25, 1.2, 1.3, "SLOWER"),
    "g4_update": (1.001, 0.995, 1.005, "SAME"),
    "g5_late": (0.9, 0.7, 1.2, "UNSURE"),
}


def document(method: str = "interleaved", device: str = "cuda", gpu: bool = True) -> dict[str, Any]:
    """The sample record with a comparison of each of STEPS over one base."""
    made = sample_record.make(gpu=gpu)
    made["comparisons"] = [
        sample_record.comparison(
            name, "g1_plain", WORKLOAD, ratio, low=low, high=high, verdict=verdict, device=device, method=method
        )
        for name, (ratio, low, high, verdict) in STEPS.items()
    ]
    return made


def records_in(folder: Path, made: dict[str, dict[str, Any]]) -> list[str]:
    """Each in a folder of its machine."""
    for machine, document in made.items():
        (folder / machine).mkdir()
        sample_record.write(document, folder / machine / "comparisons.json")
    return [str(folder / machine / "comparisons.json") for machine in made]


def test_page_and_picture_have_each_step_with_its_interval(
    tmp_path: Path, drawn: list[Figure], capsys: pytest.CaptureFixture[str]
) -> None:
    record, page = sample_record.write(document(), tmp_path / "record.json"), tmp_path / "steps.md"
    assert steps_page.main([str(record), "--update", str(page)]) == 0, capsys.readouterr().err
    text = page.read_text()
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| [`g")}
    assert list(rows) == sorted(STEPS)
    # A comparison has the candidate's time over the base's; a gain is the inverse, and so are the ends.
    assert f"| 2.00{TIMES} | 1.92{SPACE}to{SPACE}2.08 | 5 + 6 | faster |" in rows["g2_shared"]
    assert f"| 0.800{TIMES} | 0.769{SPACE}to{SPACE}0.833 | 5 + 6 | slower |" in rows["g3_slow"]
    assert "no difference that matters" in rows["g4_update"] and "cannot tell" in rows["g5_late"]
    assert "In all 4 steps: 1 faster; 1 slower; 1 no difference" in text and f"](steps/{WORKLOAD}.png)" in text
    assert [p.name for p in (tmp_path / "steps").iterdir()] == [f"{WORKLOAD}.png"]
    assert steps_page.main([str(record), "--check", str(page)]) == 0
    page.write_text(text.replace(f"1.92{SPACE}to", f"1.93{SPACE}to", 1))
    assert steps_page.main([str(record), "--check", str(page)]) == 1
    (figure,) = drawn
    assert overlaps(figure) == []
    assert smallest_letters(figure) >= 12
    assert f"1 of 4 steps are faster, g2_shared most: 2.00{TIMES}" in texts(figure)
    gains = {line.get_gid(): line for line in figure.axes[0].lines if str(line.get_gid()).startswith("gain")}
    assert {name.split()[1] for name in gains} == set(STEPS)
    assert list(gains["gain g2_shared"].get_xdata()) == pytest.approx([2.0])
    looks = {(to_hex(line.get_color()), line.get_marker()) for line in gains.values()}
    assert len(looks) == len(STEPS) == len({marker for _, marker in looks}), "told apart without colour, too"


def test_each_kind_of_gpu_has_sections_of_its_own(tmp_path: Path, drawn: list[Figure]) -> None:
    older = document()
    older["context"]["gpu"]["name"] = "NVIDIA H100"
    older["comparisons"] = older["comparisons"][:2]
    records = records_in(tmp_path, {"nvidia-h200": document(), "nvidia-h100": older})
    page = tmp_path / "steps.md"
    assert steps_page.main([*records, "--update", str(page)]) == 0
    text = page.read_text()
    name = document()["context"]["gpu"]["name"]
    for gpu, steps, folder in ((name, 4, "nvidia-h200"), ("NVIDIA H100", 2, "nvidia-h100")):
        section = text.split(f"## `{WORKLOAD}` on an {gpu}\n")[1].split("\n## ")[0]
        assert section.count("| [`g") == steps and f"](steps/{folder}/{WORKLOAD}.png)" in section
        assert (tmp_path / "steps" / folder / f"{WORKLOAD}.png").is_file()
        assert f"{steps} steps on an {gpu}: 1 faster; 1 slower" in text
    assert len(drawn) == 2


def test_a_machine_without_a_gpu_has_sections_too(tmp_path: Path, drawn: list[Figure]) -> None:
    of_gpu, of_cpu = document(), document(device="cpu", gpu=False)
    records = records_in(tmp_path, {"nvidia-h200": of_gpu, "cpu": of_cpu})
    page = tmp_path / "steps.md"
    assert steps_page.main([*records, "--update", str(page)]) == 0
    text = page.read_text()
    host = of_cpu["context"]["host"]
    assert (
        f"## `{WORKLOAD}` on an {host['cpu']} ({host['cores']} cores)\n" in text
        and f"](steps/cpu/{WORKLOAD}.png)" in text
    )
    assert len(drawn) == 2 and any(host["cpu"] in words for words in texts(drawn[1]))


def test_steps_of_an_earlier_text_are_left_out_and_named(tmp_path: Path, drawn: list[Figure]) -> None:
    newer, older = document(), document()
    older["context"]["gpu"]["name"] = "NVIDIA H100"
    for made, text in ((newer, "b"), (older, "a")):
        for row in made["rows"]:
            row["source_hash"] = (text if row["variant"] == "g4_update" else "a") * 16
    records = records_in(tmp_path, {"nvidia-h200": newer, "nvidia-h100": older})
    page = tmp_path / "steps.md"
    assert steps_page.main([*records, "--update", str(page)]) == 0
    text = page.read_text()
    assert text.split("on an NVIDIA H100\n")[1].split("\n## ")[0].count("| [`g") == len(STEPS) - 1
    assert text.count("| [`g4_update`]") == 1, "the newer record's alone"
    assert f"`g4_update` on `{WORKLOAD}` (NVIDIA H100)" in text.split("## Of an earlier text")[1]


def test_what_no_sessions_in_turns_say_is_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "steps.md"
    for made in (sample_record.make(), document(method="apart"), document(device="simt")):
        record = sample_record.write(made, tmp_path / "record.json")
        assert steps_page.main([str(record), "--update", str(page)]) == 2 and not page.exists()
        assert (
            "has no sessions in turns on a GPU or a CPU: ladder run --compare base makes them."
            in capsys.readouterr().err
        )


def test_without_a_record_the_page_says_what_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps_page, "USUAL", [steps_page.ROOT / "results" / "none.json"])
    assert steps_page.main(["--update", str(tmp_path / "steps.md")]) == 2
    said = "error: results/none.json is not there yet: python results/make_record.py "
    assert capsys.readouterr().err.startswith(said)


def test_steps_without_one_that_is_faster_say_so() -> None:
    made = document()
    made["comparisons"] = made["comparisons"][1:]
    (steps,) = steps_page.steps_of(record_of(made), "cuda", {}).values()
    assert steps_page.message(steps) == "None of 3 steps is shown to be faster"
