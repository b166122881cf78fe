"""docs/goals.md: what the committed records say, and verdicts from made-up ones."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import sample_record
from matplotlib.figure import Figure
from matplotlib.text import Text

from plots import goals_page
from plots.goals_page import Goal, Result
from plots.lib import style
from plots.lib.record import Record, from_document

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "goals.md"
GPU = "cuda"
W, OTHER = (sample_record.workload(name, "grapes", 1000, 4, 16, "fixed:12") for name in ("grapes_a", "grapes_b"))


def made(name: str, rows: list[dict[str, Any]], gpu: str = "Example GPU X1") -> Record:
    context = sample_record.context() | {"git_sha": f"{name:0<40}"}
    context["gpu"] = context["gpu"] | {"name": gpu}
    document = {"schema_version": 2, "context": context, "workloads": [W, OTHER], "rows": rows}
    return from_document(document, Path(f"{name}.json"))


def solve(variant: str, base: str, ms: float, workload: dict[str, Any] = W, **fields: object) -> dict[str, Any]:
    """A row of 12 iterations, each of which takes `ms`."""
    return sample_record.row(variant, base, workload, GPU, "solve", ms * sample_record.ITERATIONS, **fields)


def goal(**fields: object) -> Goal:
    known: dict[str, Any] = {
        "goal": "quick",
        "scope": "solve",
        "limiter": "its arithmetic.",
        "tried": ["haste: in vain."],
    }
    return Goal(**known | {"workload": W["name"]} | fields)


def result(wanted: Goal, *found: Record) -> Result:
    return goals_page.result_of(found, wanted, Path("nowhere"))


@pytest.fixture
def workloads_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workloads.json of the made-up workloads."""
    path = tmp_path / "workloads.json"
    path.write_text(json.dumps({"workloads": [{"name": w["name"]} for w in (W, OTHER)]}))
    monkeypatch.setattr(goals_page, "WORKLOADS_FILE", path)
    return path


# -------------------------------------------------------------------------------------------------- the committed page


def test_the_page_has_its_picture_and_every_goal() -> None:
    text = PAGE.read_text()
    (picture,) = re.findall(r"\]\(([^)]+\.png)\)", text)
    assert (PAGE.parent / picture).stat().st_size > 10_000
    kept = goals_page.load_goals(goals_page.GOALS)
    assert len(kept) == 26 and all(f"\n| {entry.goal} | {entry.asked}" in text for entry in kept)


def test_a_number_changed_by_hand_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "goals.md"
    (tmp_path / "goals.png").write_bytes(PAGE.with_suffix(".png").read_bytes())
    (ms,) = re.findall(r"\| at most 14.5 ms \| ([0-9.]+) ms \|", PAGE.read_text())
    path.write_text(PAGE.read_text().replace(f"| {ms} ms |", "| 14.4 ms |"))
    assert goals_page.main(["--check", str(path)]) == 1
    command = f"python -m plots.goals_page --update {path}"
    assert capsys.readouterr().err == f"{path}: is not what the records say; run `{command}`.\n"


def test_the_first_page_says_in_short_what_limits_each_missed_goal(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"Above.\n{goals_page.BEGIN}\n{goals_page.END}\nBelow.\n")
    assert goals_page.main(["--check", str(path)]) == 1
    assert goals_page.main(["--update", str(path)]) == 0 == goals_page.main(["--check", str(path)])
    text = path.read_text()
    assert text.startswith("Above.\n") and text.endswith("\nBelow.\n") and not path.with_suffix(".png").exists()
    (missed,) = re.findall(r"(\d+) missed", PAGE.read_text())
    assert len(re.findall(r"^\| .* \| (?:at most|at least) .* \| .+ \|$", text, re.MULTILINE)) == int(missed)
    short = goals_page.in_short("Not [profiled](x.md). The [copies](y.md) take 3.5 ms; then all waits. More.")
    assert short == "Not profiled. The copies take 3.5 ms; then all waits."
    assert goals_page.in_short("Its first product takes half. More.") == "Its first product takes half."


def test_what_no_record_has_is_in_a_plan() -> None:
    plans = [tomllib.loads((ROOT / "results" / "nvidia-h200" / name).read_text())["part"] for name in goals_page.PLANS]
    planned, others = ({name for part in parts for name in part["workloads"].split(",")} for parts in plans)
    asked = {entry.workload for entry in goals_page.load_goals(goals_page.GOALS)}
    known = {
        workload["name"]
        for path in goals_page.usual_records()
        if path.name != "goals.json"
        for workload in json.loads(path.read_text())["workloads"]
    }
    assert planned <= asked and asked - {""} - known <= planned | others


# ---------------------------------------------------------------------------------------------------- made-up records


@pytest.mark.parametrize(("most", "verdict"), [(2.2, "reached"), (1.5, "missed"), (1.0, "missed")])
def test_a_time_is_reached_or_missed_by_the_best_rung_of_all_records(most: float, verdict: str) -> None:
    first = made("aaa", [solve("v1", "v0", 3.0), solve("p_lib", "", 0.5), solve("v2", "v1", 2.5, OTHER)])
    second = made("bbb", [solve("v2", "v1", 2.0), solve("p_lib", "", 0.1)])
    found = result(goal(most=most), first, second)
    assert found.verdict == verdict and found.row and found.row.variant == "v2"
    row = dict(zip(goals_page.HEAD, goals_page.cells(found), strict=True))
    assert row["commit"] == "`bbb0000000`" and row["by"] == "`v2`" and row["verdict"] == verdict
    assert row["labels checked, wrong"] == "1,000, 0" and row["clock, MHz"] == "1,980"
    assert row["drawn, W"] == "412 of 700" and row["measured"].startswith("2.0") and row["GPU"] == "Example GPU X1"
    assert found.share == pytest.approx(found.row.per_iteration_ms / most)


def test_of_a_run_its_median_counts_and_what_an_older_record_lacks_is_said() -> None:
    older: dict[str, Any] = dict.fromkeys(("watts", "watt_limit", "settled_mhz", "median_mhz"))
    older["validation"] = {"rows_checked": 800, "labels_wrong": 3}
    found = result(goal(most=20, value="median_ms"), made("aaa", [solve("v1", "v0", 2.0, **older)]))
    row = dict(zip(goals_page.HEAD, goals_page.cells(found), strict=True))
    assert found.verdict == "missed" and row["measured"].startswith("24")
    assert row["drawn, W"] == row["clock, MHz"] == "not recorded" and row["labels checked, wrong"] == "800, 3"


def test_sustained_goals_count_sustained_rows_alone() -> None:
    brief = made("aaa", [solve("v1", "v0", 1.0)])
    long = made("bbb", [solve("v1", "v0", 2.0, sustained_seconds=1.0)])
    assert result(goal(most=1.5), brief, long).verdict == "reached"
    assert result(goal(most=1.5, sustained=True), brief, long).verdict == "missed"
    found = result(goal(most=1.5, sustained=True), brief)
    assert found.verdict == "not measured" and "sustained" in found.lacks[0]
    assert found.lacks[0].endswith(
        "`build/ladder run --workloads 'grapes_a' --scopes solve --sustained 1` measures it."
    )


@pytest.mark.parametrize("lack", [{"sustained_seconds": 0.5}, {"watts": None}, {"settled_mhz": None}])
def test_a_sustained_row_has_its_second_its_clock_and_its_power(lack: dict[str, Any]) -> None:
    row: dict[str, Any] = {"sustained_seconds": goals_page.LEAST_SUSTAINED} | lack
    found = result(goal(most=1.5, sustained=True), made("aaa", [solve("v1", "v0", 1.0, **row)]))
    assert found.verdict == "not measured" and "sustained" in found.lacks[0]


def test_each_row_names_the_gpu_of_its_record(workloads_file: Path) -> None:
    first = made("aaa", [solve("v1", "v0", 3.0), solve("p_lib", "", 9.0)], "NVIDIA X100")
    second = made("bbb", [solve("v1", "v0", 2.0), solve("v1", "v0", 1.0, OTHER)], "NVIDIA X200 80GB")
    fast, beside = goal(most=1), goal(most=9, beside=OTHER["name"])
    found = [result(asked, first, second) for asked in (fast, goal(least=2), beside)]
    gpus = [dict(zip(goals_page.HEAD, goals_page.cells(each), strict=True))["GPU"] for each in found]
    assert gpus == ["X100", "X100", "X200 80GB"], "the first that has a time; a ratio is of one GPU"
    assert "(X200)" in goals_page.label(found[2])
    page = goals_page.markdown([first, second], found, [], None)
    assert "- `aaa.json`: X100, `aaa0000000`" in page and "- `bbb.json`: X200 80GB, `bbb0000000`" in page
    gap = result(goal(most=1, workload=OTHER["name"]), first)
    assert dict(zip(goals_page.HEAD, goals_page.cells(gap), strict=True))["GPU"] == goals_page.NONE


def test_the_usual_records_are_those_of_every_gpu() -> None:
    folders = {path.parent for path in goals_page.usual_records()}
    assert folders >= {path.parent for path in (ROOT / "results").glob("nvidia-*/sustained.json")}


def test_beside_another_workload_the_ratio_of_one_record_counts() -> None:
    both = made("aaa", [solve("v1", "v0", 2.1), solve("v1", "v0", 2.0, OTHER), solve("p_lib", "", 0.1, OTHER)])
    wanted = goal(most=1.1, beside=OTHER["name"])
    found = result(wanted, made("bbb", [solve("v1", "v0", 1.0)]), both)
    assert found.verdict == "reached" and found.share == pytest.approx(2.1 / 2.0 / 1.1, rel=0.01)
    assert found.measured.startswith("1.05") and found.commits == ("`aaa0000000`",)
    assert result(goal(most=1.01, beside=OTHER["name"]), both).verdict == "missed"
    alone = result(wanted, made("bbb", [solve("v1", "v0", 1.0)]))
    assert alone.verdict == "not measured" and "On `grapes_a` and `grapes_b`: no rung has run there." in alone.lacks[0]


def test_over_an_earlier_build_the_row_that_got_slower_by_most_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = goal(workload="", most=1.05, before="was*.json", after="is*.json")

    def session(name: str, sha: str, *rows: dict[str, Any]) -> None:
        context = sample_record.context() | {"git_sha": f"{sha:0<40}"}
        document = {"schema_version": 2, "context": context, "workloads": [W, OTHER], "rows": list(rows)}
        sample_record.write(document, tmp_path / "results" / "nvidia-x1" / name)

    monkeypatch.setattr(goals_page, "ROOT", tmp_path)
    monkeypatch.setattr(goals_page, "committed", list)
    (tmp_path / "results" / "nvidia-x1").mkdir(parents=True)
    assert result(wanted).verdict == "not measured"
    assert result(wanted).lacks == ("no record fits `was*.json` and `is*.json` with rows of solve in common.",)
    session("was.json", "aaa", solve("v1", "v0", 2.0), solve("v2", "v1", 1.0), solve("v2", "v1", 1.0, OTHER))
    session("was_again.json", "aaa", solve("v1", "v0", 2.2))
    assert result(wanted).verdict == "not measured"
    slower = solve("v2", "v1", 9.0, OTHER, status="unstable", reason="its samples vary.")
    session("is.json", "bbb", solve("v1", "v0", 2.31), solve("v2", "v1", 1.04), slower, solve("v3", "v1", 7.0))
    found = result(wanted)
    assert found.verdict == "missed" and found.share == pytest.approx(1.1 / 1.05, rel=0.01)
    assert found.row and found.row.variant == "v1" and found.commits == ("`aaa0000000`", "`bbb0000000`")
    assert found.measured.startswith("1.10") and found.measured.endswith("on `grapes_a`, most of 2; 1 are within it")
    assert result(goal(workload="", most=1.1, before="was*.json", after="is*.json")).verdict == "reached"


def iteration(variant: str, base: str, ms: float, streamed: int = 0, **fields: object) -> dict[str, Any]:
    counters = {"counters": {"bytes streamed": [streamed] * 3}} if streamed else {}
    return sample_record.row(variant, base, W, GPU, "iteration", ms, **counters, **fields)


def test_of_a_streaming_rung_the_slower_of_link_and_kernels_counts() -> None:
    wanted = goal(scope="iteration", value="median_ms", least=90, in_memory="v1")
    assert wanted.asked.startswith("at least 90") and wanted.asked.endswith("of the slower of link and kernels")
    rate = int(1e6 * sample_record.context()["ceilings"][GPU]["pinned_h2d_gbs"])  # bytes in a ms

    def of(kernels: float, *rows: dict[str, Any]) -> Result:
        return result(wanted, made("aaa", [iteration("v1", "v0", kernels), *rows]))

    link = of(2.0, iteration("v2", "v1", 20.0, 15 * rate), iteration("v3", "v2", 16.0, 15 * rate))
    assert link.verdict == "reached" and link.share == pytest.approx(90 / (100 * 15 / 16), rel=0.01)
    assert link.row and link.row.variant == "v3" and "of the link, 15.0 ms" in link.measured
    kernels = of(17.0, iteration("v2", "v1", 20.0, 15 * rate))
    assert (
        kernels.verdict == "missed" and kernels.measured.startswith("85") and "of the kernels, 17" in kernels.measured
    )
    few = of(0.5, iteration("v2", "v1", 15.0, 9 * rate))  # the bytes that it copied, not those of all points
    assert few.share == pytest.approx(90 / 60, rel=0.01)
    several = of(2.0, iteration("v2", "v1", 8.0, 15 * rate, gpus=2))
    assert several.verdict == "not measured"
    alone = result(wanted, made("aaa", [iteration("v2", "v1", 16.0, 15 * rate)]))
    assert alone.verdict == "not measured" and "the record lacks `v1`." in alone.lacks[0]
    ill = of(2.0, iteration("v2", "v1", 16.0, 15 * rate, status="unstable", reason="of the moon."))
    assert ill.verdict == "not measured" and "v2 is unstable: of the moon." in ill.lacks[0]


@pytest.mark.parametrize("status", ["refused", "failed", "unstable"])
def test_what_has_no_time_says_why(status: str) -> None:
    record = made("aaa", [solve("v1", "v0", 1.0, status=status, reason="of the moon."), solve("p_lib", "", 0.5)])
    found = result(goal(most=9), record)
    assert found.verdict == "not measured" and goals_page.cells(found)[-3:] == (
        "not measured",
        goals_page.NONE,
        goals_page.NONE,
    )
    assert f"v1 is {status}: of the moon. `build/ladder run --workloads 'grapes_a'" in found.lacks[0]
    page = goals_page.markdown([record], [found], [], None)
    assert "Of 1 goals 0 reached, 0 missed, 1 not measured." in page and f"v1 is {status}: of the moon." in page
    assert "its arithmetic." in page and "haste: in vain." in page


def test_a_plan_that_has_the_workload_is_what_measures_it(tmp_path: Path) -> None:
    (tmp_path / goals_page.PLANS[0]).write_text('[[part]]\nworkloads = "other,grapes_*"\nvariants = "v*"\n')
    found = goals_page.result_of([made("aaa", [])], goal(most=9), tmp_path)
    plan = tmp_path / goals_page.PLANS[0]
    assert f"make_record.py {plan} --out {tmp_path / 'goals.json'}` measures it." in found.lacks[0]


def test_a_ratio_is_over_the_library_that_is_asked_for(workloads_file: Path) -> None:
    rungs = made("aaa", [solve("v1", "v0", 1.0)])
    peers = made("bbb", [solve("p_slow", "", 30.0), solve("p_fast", "", 5.0)])
    over = {name: result(goal(least=20, over=name), rungs, peers) for name in ("p_slow", "p_fast", "p_none")}
    assert [found.verdict for found in over.values()] == ["reached", "missed", "not measured"]
    assert over["p_slow"].commits == ("`aaa0000000`", "`bbb0000000`")
    assert over["p_fast"].share == pytest.approx(4, rel=0.05) and "over `p_fast`" in over["p_fast"].measured


def test_a_map_is_as_good_as_its_worst_shape(workloads_file: Path) -> None:
    wanted = goal(workload="", map="grapes_*", least=1)
    rows = [solve("v1", "v0", 1.0), solve("p_lib", "", 3.0), solve("v1", "v0", 1.0, OTHER)]
    part = result(wanted, made("aaa", rows))
    assert part.verdict == "reached on 1 of 2" and part.lacks[0].startswith("On `grapes_b`: no peer has run there.")
    assert "--variants 'p_lib' --workloads 'grapes_b' --scopes solve" in part.lacks[0]
    whole = result(wanted, made("aaa", [*rows, solve("p_lib", "", 2.0, OTHER)]))
    assert whole.verdict == "reached" and "least on `grapes_b`" in whole.measured and not whole.lacks
    behind = result(wanted, made("aaa", [*rows, solve("p_lib", "", 0.9, OTHER)]))
    assert behind.verdict == "missed" and behind.share == pytest.approx(1 / 0.9, rel=0.05)


def test_kernels_that_take_most_of_the_time_stand_below_a_missed_goal(tmp_path: Path) -> None:
    def kernel(name: str, ms: float, launches: int) -> dict[str, Any]:
        metrics = {"time_ms": ms, "tensor_percent": 50.0, "instructions_per_cycle": 1.5}
        stalls = [{"reason": "long_scoreboard", "share": 0.4}]
        return {"name": name, "launches": launches, "metrics": metrics, "stalls": stalls}

    place = {"workload": W["name"], "scope": "solve"}
    entry = place | {"git_sha": "f" * 40, "kernels": [kernel(f"k{i}", 1.0, 1 + i) for i in range(7)]}
    entries = [entry | {"variant": name} for name in ("v0", "v1", "v9")]
    metrics = [{"name": "tensor_percent", "unit": "%", "meaning": ""}]
    (tmp_path / "profile.json").write_text(json.dumps({"profiles": entries, "metrics": metrics}))
    record = made("aaa", [solve("v0", "v", 3.0), solve("v1", "v0", 2.0)])
    record.sources[0] = type(record.sources[0])(tmp_path / "record.json", record.sources[0].context, 2)
    missed = result(goal(most=1, kernels_of=place), record)
    page = goals_page.markdown([record], [missed, missed], [], None)
    assert "those of `v1`, the solve (all iterations) on `grapes_a`, commit `ffffffffff`. The 5 that take" in page
    share = round(100 * 7 / 28)
    assert f"| `k6` | {share}\N{NO-BREAK SPACE}% | 7 | 50\N{NO-BREAK SPACE}% | \N{EN DASH} |" in page
    assert page.count("| `k2` |") == 1 and "| `k1` |" not in page and "long scoreboard, 40" in page
    assert "**Its kernels** are those of the table under “quick”." in page
    gone = result(goal(most=1, kernels_of={"workload": "grapes_b", "scope": "solve"}), record)
    assert "`build/ladder profile VARIANT --workload grapes_b" in goals_page.markdown([record], [gone], [], None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"workload": "pears"}, "asks for workload pears, which datasets/workloads.json has not."),
        ({"kernels_of": {"workload": "pears", "scope": "solve"}}, "asks for workload pears, which"),
        ({"workload": "", "map": "pears_*"}, "asks for workload pears_*, which"),
        ({"mots": 3}, "has mots, which means nothing."),
        ({"least": 3}, "must have one of most and least, and one of workload, map and before."),
        ({"beside": "pears"}, "asks for workload pears, which datasets/workloads.json has not."),
        ({"workload": "", "map": "grapes_*", "beside": "grapes_b"}, "has beside, which is of goals with most."),
        ({"before": "was*"}, "must have one of most and least, and one of workload, map and before."),
        ({"workload": "", "before": "was*"}, "has one of before and after: they come together, with most."),
        ({"after": "is*"}, "has one of before and after: they come together, with most."),
        ({"over": "p_lib"}, "is a time: over and map are of ratios."),
        ({"in_memory": "v1"}, "has in_memory, which is of an iteration on one workload, with least, without over."),
        ({"scope": "solved"}, "asks for per_iteration_ms of solved: there is no such time."),
        ({"kernels_of": {"workload": "grapes_a"}}, "which must be a workload, a scope, maybe a note."),
    ],
)
def test_a_goal_that_is_none_is_one_sentence(
    workloads_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    change: dict[str, Any], says: str,
) -> None:  # fmt: skip
    entry = {"goal": "quick", "workload": W["name"], "scope": "solve", "most": 3, "limiter": "l", "tried": []} | change
    if not entry["workload"]:
        entry["least"] = entry.pop("most")
    path = tmp_path / "goals.json"
    path.write_text(json.dumps({"goals": [entry]}))
    monkeypatch.setattr(goals_page, "GOALS", path)
    assert goals_page.main(["--check", str(PAGE)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: the goal 'quick' ") and says in said and said.count("\n") == 1


def test_the_page_and_its_picture_are_written(
    workloads_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"scope": "solve", "limiter": "its arithmetic.", "tried": []}
    asked = [
        {"goal": "quick", "workload": W["name"], "most": 3},
        {"goal": "quicker", "workload": W["name"], "most": 1},
        {"goal": "elsewhere", "workload": OTHER["name"], "most": 1},
    ]
    path = tmp_path / "goals.json"
    path.write_text(json.dumps({"goals": [entry | about for entry in asked]}))
    monkeypatch.setattr(goals_page, "GOALS", path)
    pages: list[Figure] = []
    save = style.Page.save
    monkeypatch.setattr(
        style.Page, "save", lambda page, *to, **how: pages.append(page.figure) or save(page, *to, **how)
    )
    document = {
        "schema_version": 2,
        "context": sample_record.context(),
        "workloads": [W],
        "rows": [solve("v1", "v0", 2)],
    }
    record = sample_record.write(document, tmp_path / "record.json")
    page = tmp_path / "page.md"
    assert goals_page.main([str(record), "--update", str(page)]) == 0, capsys.readouterr().err
    assert "](page.png)" in page.read_text() and (tmp_path / "page.png").stat().st_size > 10_000
    assert sorted(p.name for p in tmp_path.glob("page.*")) == ["page.md", "page.png"]
    (ax,) = pages[0].axes
    bars = [patch for patch in ax.patches if str(patch.get_gid()).startswith("bar")]
    assert [bar.get_width() for bar in bars] == pytest.approx([2 / 3, 2], rel=0.05)
    assert bars[0].get_facecolor() != bars[1].get_facecolor()
    words = [text.get_text() for text in ax.findobj(Text)]
    assert any(t.endswith("at most 3 ms: reached") for t in words) and any(t.endswith("1 ms: missed") for t in words)
    assert "not measured, at most 1 ms" in words
    assert goals_page.main([str(record), "--check", str(page)]) == 0
    (tmp_path / "page.png").unlink()
    assert goals_page.main([str(record), "--check", str(page)]) == 1
