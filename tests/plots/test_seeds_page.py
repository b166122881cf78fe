"""The figures of the sources and the page of the ladder: drawn once from a made-up record, and what they say."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_record
from conftest import Ladder
from matplotlib.figure import Figure
from matplotlib.text import Text

from plots import draw, ladder_page, seeds_page
from plots.figures import counters, curves, overview, per_workload, short_ladder
from plots.lib import cards, claims, schema, sources, speedup, style
from plots.lib import record as records
from plots.lib.options import Options
from plots.lib.record import TIMES, Gap, Record, RecordError, Rung, from_document
from plots.lib.speedup import Gain, Interval

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = json.loads((ROOT / "datasets" / "workloads.json").read_text())
FOUND = sources.load_all()
GPU, CPU = "cuda", "cpu"


def rungs_named() -> dict[str, str]:
    """Variants of the sources' files with the device that they are drawn for."""
    named = [m.rung for s in FOUND for f in s.figures for m in f.methods] + [
        name for s in FOUND for c in s.claims for name in (c.rung, c.over)
    ]
    known = cards.load()
    return {n: GPU if cards.path_of(n).suffix == ".cu" else CPU
            for n in known if n in named}  # fmt: skip


def nearest_base(variant: str, known: dict[str, cards.Card], named: dict[str, str]) -> str:
    """The first of its ancestors that is named itself: so the rungs between two named ones need no rows."""
    base = known[variant].base
    while base and base not in named:
        base = known[base].base
    return base


def kept_workloads() -> list[dict[str, Any]]:
    """Of each family that a figure asks for a few."""
    specs = [f for s in FOUND for f in s.figures]
    globs = {g for f in specs for g in (*f.workloads, *(g for p in f.panels for g in p.get("workloads", ())))} - {"*"}
    from_sources = {s["name"]: s for s in WORKLOADS["sources"]}
    made = []
    per_family: dict[str, int] = {}
    for entry in WORKLOADS["workloads"]:
        name, family = entry["name"], entry["family"]
        if name.endswith("_tiny") or not any(fnmatchcase(name, g) for g in globs) or per_family.get(family, 0) == 3:
            continue
        per_family[family] = per_family.get(family, 0) + 1
        about = from_sources[entry["source"]]
        w = sample_record.workload(name, family, about["n"], about["d"], entry["k"], entry["stop"])
        w["nonzeros"] = int(w["n"] * w["d"] * (1 - about.get("parameters", {}).get("zeros", 0)))
        made.append(w)
    starts = [m.workloads[0] for s in FOUND for f in s.figures if f.kind == "starts" for m in f.methods]
    like = next(w for w in made if w["name"] == starts[0])
    return made + [dict(like, name=name) for name in starts[1:]]


def full() -> dict[str, Any]:
    """Every row that the figures need, of times that nobody measured."""
    rows: list[dict[str, Any]] = []
    named = rungs_named()
    known = cards.load()
    workloads = kept_workloads()
    depth = {"": -1}  # steps from the root: the longest line ends in the fastest rung
    for variant, device in named.items():
        base = nearest_base(variant, known, named)
        depth[variant] = depth[base] + 1
        for w in workloads:
            ms = w["n"] * w["k"] * w["d"] / (1e9 if device == GPU else 1e7) / 1.3 ** depth[variant] + 0.01
            if known[variant].shows == "initialise":
                rows.append(sample_record.row(variant, base, w, device, "initialise", ms))
                continue
            rows += sample_record.session(variant, base, w, device, ms)
            if device == GPU:
                rows.append(sample_record.row(variant, base, w, device, "upload", ms / 9, bytes=4.0 * w["n"] * w["d"]))
    counting = {m.rung for s in FOUND for f in s.figures if f.kind == "solves" for m in f.methods}
    for row in rows:
        if row["scope"] == "solve" and row["variant"] in counting:
            row["counters"] = {"distances": [1000] * sample_record.ITERATIONS}
    return {"schema_version": 2, "context": sample_record.context(), "workloads": workloads, "rows": rows}


def profile_of(variants: list[str]) -> dict[str, Any]:
    wanted = [p["metric"] for s in FOUND for f in s.figures if f.kind == "profile" for p in f.panels]
    metrics = dict.fromkeys(wanted, 40.0) | {"time_ms": 1.0}
    stalls = [{"reason": "long_scoreboard", "share": 0.7}, {"reason": "wait", "share": 0.3}]
    kernel = {"name": "k", "launches": 1, "limited_by": ["registers"], "stalls": stalls, "metrics": metrics}
    entry = {"workload": "points2d_k_100", "n": 10, "d": 2, "k": 3, "scope": "assign"}
    profiles = [
        entry | {"variant": v, "kernels": [kernel | {"metrics": metrics | {"registers": 20.0 + 9 * i}}]}
        for i, v in enumerate(variants)
    ]
    distances = kernel | {"name": "distances<float>", "metrics": metrics | {"time_ms": 3.0}}
    profiles += [entry | {"variant": v, "scope": "iteration", "kernels": [distances, kernel]} for v in variants]
    for like in [e for s in FOUND for f in s.figures if f.kind == "kernels" for e in f.workloads]:
        profiles += [e | {"workload": like} for e in profiles if e["scope"] == "iteration"]
    meanings = [{"name": name, "unit": "%", "meaning": f"what {name} teaches"} for name in metrics]
    return {"profile_version": 1, "profiles": profiles, "metrics": meanings}


class Drawn:
    """All pages of a full record, drawn once; the figures are kept instead of rendered."""

    def __init__(self, folder: Path) -> None:
        document = full()
        home = folder / "results"
        home.mkdir()
        path = sample_record.write(document, home / "record.json")
        self.variants = sorted({row["variant"] for row in document["rows"] if row["device"] == GPU})
        (home / "profile.json").write_text(json.dumps(profile_of(self.variants)))
        self.record = from_document(document, path)
        self.pages: dict[str, Figure] = {}
        self.out = folder / "out"

        def keep(page: style.Page, target: Path, stem: str) -> list[Path]:
            self.pages[stem] = page.figure
            (target / f"{stem}.svg").write_text("<svg/>")
            return []

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(style.Page, "save", keep)
            self.figures = seeds_page.draw_all(self.record, self.out, FOUND, own=())
            one = self.record.only([next(iter(self.record.workloads))])
            section = draw.draw_record(one, self.out, ".", list(draw.MAIN_FIGURES), Options(devices=(GPU,)))
            self.ladder = seeds_page.own_page(one, section, self.out)

    def words(self, stem: str) -> str:
        return " ".join(text.get_text() for text in self.pages[stem].findobj(Text))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return Drawn(tmp_path_factory.mktemp("seeds"))


ALL = [(source, spec) for source in FOUND for spec in source.figures]
WITH_POINTS = ("plane",)  # needs a dump


@pytest.mark.parametrize(("source", "spec"), ALL, ids=[f"{s.seed}_{f.id}" for s, f in ALL])
def test_every_figure_of_the_sources_is_drawn_and_names_source_and_record(
    drawn: Drawn, source: sources.Source, spec: sources.FigureSpec
) -> None:
    figure = next(f for f in drawn.figures if f.stem == f"{source.seed}_{spec.id}")
    page = (drawn.out / f"{source.seed}.html").read_text()
    assert f'id="{figure.stem}"' in page
    if spec.kind in WITH_POINTS:
        assert not figure.drawn and "no dump" in figure.lacks[0] and "ladder run" in page
        return
    assert figure.drawn and figure.lacks == []
    words = drawn.words(figure.stem)
    assert spec.place in words and source.title in words and source.hardware.split(";")[0] in words
    assert "record.json" in words and "git 0123456789" in words and "Example GPU X1" in words
    axes = drawn.pages[figure.stem].axes
    assert axes and all(ax.lines or ax.patches or ax.collections for ax in axes)
    assert all(ax.get_xlabel() for ax in axes)


def test_a_source_stands_beside_ours_with_its_own_numbers(drawn: Drawn) -> None:
    for source in FOUND:
        page = (drawn.out / f"{source.seed}.html").read_text()
        for own in source.tables:
            assert own["hardware"] in page and own["place"] in page
        assert all(seeds_page.escaped(c.stated) in page for c in source.claims)
        own_figures = [f for f in drawn.figures if f.stem.startswith(source.seed)]
        assert page.count("data:image/svg+xml;base64,") == sum(f.drawn for f in own_figures)
        assert ' src="http' not in page
    assert "48 min" in (drawn.out / "000.html").read_text() and "24,556.43" in drawn.words("001_averages")


def test_the_ladder_has_its_own_pictures(drawn: Drawn) -> None:
    page = drawn.ladder
    for kind in draw.MAIN_FIGURES:
        stem = short_ladder.STEM if kind == "short" else f"{kind}_gpu_"
        assert f'id="{stem}' in page, kind
    assert not any("simt" in stem for stem in drawn.pages)


def test_what_a_partial_record_lacks_is_said_with_the_command_that_measures_it(tmp_path: Path) -> None:
    document = full()
    solo = FOUND[-1].figures[0].methods[-1].rung
    document["rows"] = [row for row in document["rows"] if row["variant"] == solo]
    record = from_document(document, tmp_path / "record.json")
    spec = FOUND[-1].figures[1]
    figure = seeds_page.draw_figure(record, FOUND[-1], spec, tmp_path)
    assert not figure.drawn and not list(tmp_path.iterdir())
    text = seeds_page.lacks_text(figure.lacks)
    assert spec.methods[1].rung in text and f"--scopes {spec.scope}" in text and solo not in text


def test_shares_of_kernels_are_of_the_time_of_all_launches(drawn: Drawn) -> None:
    source, spec = next((s, f) for s, f in ALL if f.kind == "kernels")
    stem = f"{source.seed}_{spec.id}"
    (panel,) = drawn.pages[stem].axes
    assert [bar.get_width() for bar in panel.patches] == [75, 25] * len(spec.methods)
    words = drawn.words(stem)
    assert "distances 75.0 %" in words and f"{spec.workloads[0]} (N = 10, D = 2, K = 3)" in words


def test_pictures_are_written_and_not_empty(drawn: Drawn, tmp_path: Path) -> None:
    source, spec = next((s, f) for s, f in ALL if f.kind == "curves")
    figure = seeds_page.draw_figure(drawn.record, source, spec, tmp_path)
    for kind in ("png", "svg"):
        assert (tmp_path / f"{figure.stem}.{kind}").stat().st_size > 10_000


def test_the_sources_name_only_rungs_and_workloads_that_exist() -> None:
    known = cards.load()
    assert {m.rung for _, f in ALL for m in f.methods if m.rung} <= set(known)
    assert {name for s in FOUND for c in s.claims for name in (c.rung, c.over)} <= set(known)
    names = [w["name"] for w in WORKLOADS["workloads"]]
    for source in FOUND:
        for claim in source.claims:
            for pattern in (*claim.workloads, *claim.elsewhere):
                assert any(fnmatchcase(name, pattern) for name in names), pattern


def test_cards_are_read_as_the_compiler_reads_them(ladder: Ladder) -> None:
    listed = {v["id"]: v for v in json.loads(ladder("list", "--json").stdout)["variants"]}
    mine = cards.load()
    assert listed
    for name, said in listed.items():
        if name in mine:
            card = mine[name]
            for key in ("base", "idea", "expect", "shows", "counter", "source"):
                assert getattr(card, key) == said[key], (name, key)


def test_cards_name_counters_that_are_kept() -> None:
    kept = {
        metric["name"]
        for metric in json.loads((ROOT / "results" / "nvidia-h200" / "profile.json").read_text())["metrics"]
    }
    named = {card.id: card.counter for card in cards.load().values() if card.counter}
    assert len(named) > 20
    assert {rung: counter for rung, counter in named.items() if counter not in kept} == {}


# ------------------------------------------------------------------------------------------------------------ verdicts


def claim(ratio: float | None, faster: bool = True) -> sources.Claim:
    return sources.Claim("a text", "r", "b", "assign", ("*",), "page 1", "so much", ratio, faster)


def test_why_a_forecast_failed_is_said_of_rungs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "ladder.md").read_text()
    assert ladder_page.whys()
    for rung, why in ladder_page.whys().items():
        (said,) = re.findall(rf"^### `{rung}`\n(.*?)(?=^###|\Z)", page, re.MULTILINE | re.DOTALL)
        assert f"**Why it is not as expected**: {why}" in said
    wrong = ROOT / "docs" / "ladder" / "none.json"
    monkeypatch.setattr(ladder_page, "WHYS", wrong)
    monkeypatch.setattr(ladder_page, "read_json", lambda _: {"v99_nobody": "because"})
    ladder_page.whys.cache_clear()
    with pytest.raises(RecordError, match="there is no rung v99_nobody"):
        ladder_page.whys()
    ladder_page.whys.cache_clear()


@pytest.mark.parametrize(
    ("ratio", "faster", "ours", "expected"),
    [
        (2.0, True, (2.1, 1.9, 2.3), "holds"),
        (2.0, True, (9.0, 8.0, 9.9), "holds"),
        (2.0, True, (1.5, 1.4, 1.6), "weaker"),
        (2.0, True, (1.01, 0.97, 1.05), "gone"),
        (2.0, True, (0.5, 0.4, 0.6), "gone"),
        (None, True, (1.2, 1.1, 1.3), "holds"),
        (0.5, False, (0.5, 0.45, 0.55), "holds"),
        (0.5, False, (0.8, 0.75, 0.85), "weaker"),
        (0.5, False, (1.3, 1.2, 1.4), "gone"),
        (None, False, (0.9, 0.8, 0.95), "holds"),
    ],
)
def test_a_verdict_follows_from_the_claim_and_the_interval(
    ratio: float | None, faster: bool, ours: tuple[float, float, float], expected: str
) -> None:
    value, low, high = ours
    assert claims.verdict_of(claim(ratio, faster), Gain(value, Interval(low, high, 5, 5), False, ("w",))) == expected


@pytest.mark.parametrize(
    ("ratio", "faster", "ours", "expected"),
    [
        (2.0, True, 2.1, "holds"),
        (2.0, True, 1.9, "weaker"),
        (2.0, True, 1.004, "gone"),
        (0.5, False, 0.5, "holds"),
        (12 * 60 / (7 * 60 + 16), True, 1.648, "holds"),  # 1.65 and 1.65
        (12 * 60 / (7 * 60 + 16), True, 1.644, "weaker"),
    ],
)
def test_without_an_interval_the_ratio_stands_for_it(
    ratio: float | None, faster: bool, ours: float, expected: str
) -> None:
    assert claims.verdict_of(claim(ratio, faster), Gain(ours, None, False, ("w",))) == expected


def pair(comparisons: list[dict[str, Any]]) -> Record:
    w = sample_record.workload("grapes", "grapes", 1000, 4, 16)
    rows = [sample_record.row("b", "", w, GPU, "assign", 4.0), sample_record.row("r", "b", w, GPU, "assign", 2.0)]
    document = {"schema_version": 2, "context": sample_record.context(), "workloads": [w], "rows": rows}
    return from_document(document | {"comparisons": comparisons}, Path("record.json"))


def test_sessions_in_turns_are_believed_before_single_ones() -> None:
    apart = speedup.between(pair([]), Rung("r", GPU), Rung("b", GPU), "grapes", "assign")
    assert isinstance(apart, Gain) and apart.value == pytest.approx(2, rel=0.02)
    assert apart.interval is None and apart.text == f"1.99{TIMES}" and not apart.faster and not apart.slower
    compared = sample_record.comparison("r", "b", "grapes", 0.8, low=0.75, high=0.9, scope="assign")
    turns = speedup.between(pair([compared]), Rung("r", GPU), Rung("b", GPU), "grapes", "assign")
    assert isinstance(turns, Gain) and turns.interval and turns.faster
    assert (turns.value, turns.interval.low, turns.interval.high) == pytest.approx((1.25, 1 / 0.9, 1 / 0.75))
    assert turns.text == f"1.25{TIMES} (1.11 to 1.33, n = 5 + 6)"
    assert turns.inverse.slower and turns.inverse.text.endswith("n = 6 + 5)")
    assert speedup.together([turns, turns]).faster and speedup.together([turns, apart]).interval is None
    few = speedup.between(pair([compared | {"method": "apart"}]), Rung("r", GPU), Rung("b", GPU), "grapes", "assign")
    assert few == apart, "an interval that rests on a scatter from elsewhere is not measured"
    assert isinstance(speedup.between(pair([]), Rung("b", GPU), Rung("x", GPU), "grapes", "assign"), Gap)


def files(times: dict[str, tuple[float | None, float | None]], scope: str = "solve", **fields: object) -> Record:
    """Files, and the times there of the rung and of the other; None: not measured."""
    made = [sample_record.workload(name, "files", 1000, 4, 16) for name in times]
    rows = [
        sample_record.row(variant, "", w, GPU, scope, ms, **fields)
        for w, both in zip(made, times.values(), strict=True)
        for variant, ms in zip("rb", both, strict=True)
        if ms
    ]
    document = {"schema_version": 2, "context": sample_record.context(), "workloads": made, "rows": rows}
    return from_document(document, Path("record.json"))


def test_a_table_of_averages_is_judged_by_mean_times_over_the_files_that_both_have() -> None:
    record = files({"a": (1.0, 2.0), "b": (10.0, 10.0), "c": (1000.0, None)})
    table = replace(claim(1.2), scope="solve", of_means=True, plan="plans/rest.toml")
    means = claims.judged(record, table)
    assert means.gain and means.gain.value == pytest.approx(12 / 11, rel=0.02)  # of ratios: 1.41
    assert " on a, b (mean times " in means.where and means.where.endswith("), 2 of 3; plans/rest.toml plans the rest")
    ratios = claims.judged(record, replace(table, of_means=False, plan=""))
    assert ratios.gain and ratios.gain.value == pytest.approx(2**0.5, rel=0.02) and "of 3" not in ratios.where
    assert (claims.verdict_of(table, means.gain), means.verdict) == ("weaker", "weaker") and ratios.verdict == "holds"


@pytest.mark.parametrize(("stated", "expected"), [(2.0, "holds"), (346.0, "weaker")])
def test_a_cost_is_what_the_rung_takes_longer(stated: float, expected: str) -> None:
    told = replace(claim(None), scope="upload", costs=stated)
    verdict = claims.judged(files({"a": (5.0, 2.0), "b": (6.0, 1.0)}, "upload"), told)
    assert verdict.verdict == expected and 3.5 < float(verdict.found.removesuffix(" ms")) < 4.5
    assert claims.cells(verdict)[2].startswith(verdict.found)
    assert claims.judged(files({"a": (2.0, 5.0)}, "upload"), told).verdict == "gone"


def test_a_cost_of_nothing_is_still_a_cost() -> None:
    assert claims.judged(files({"a": (5.0, 2.0)}, "upload"), replace(claim(None), scope="upload", costs=0.0)).found


@pytest.mark.parametrize(
    ("moves", "wrong", "expected"),
    [(([9, 3], [9, 3]), 0, "holds"), (([9, 3], [9, 2]), 0, "weaker"), (([8, 3], [9, 2]), 0, "gone"),
     (([9, 3], [9, 3]), 1, "gone")],
)  # fmt: skip
def test_two_solves_are_the_same_if_they_move_as_many_points(
    moves: tuple[list[int], list[int]], wrong: int, expected: str
) -> None:
    """On the first workload the rung moves moves[0], on the second moves[1]; the other moves 9 and 3 on both."""
    record = files({"a": (1.0, 1.0), "b": (1.0, 1.0)})
    for row in record.rows:
        row.reassigned[:] = moves["ab".index(row.workload)] if row.variant == "r" else [9, 3]
        assert row.validation
        row.validation.update(rows_checked=10, labels_wrong=wrong if row.variant == "r" else 0)
    verdict = claims.judged(record, replace(claim(None), scope="solve", same=True))
    assert verdict.verdict == expected and verdict.found.startswith("as many points change")
    assert claims.judged(files({"a": (1.0, None)}), replace(claim(None), same=True)).verdict == "not measured"


def test_a_claim_that_is_not_measured_names_the_plan() -> None:
    told = replace(claim(2.0), plan="plans/rest.toml")
    ours = claims.cells(claims.judged(files({"a": (1.0, None)}, "assign"), told))[2]
    assert ours.startswith("no valid row") and ours.endswith("plans/rest.toml plans it")


def test_plans_that_claims_name_measure_what_they_lack() -> None:
    planned = [(c, tomllib.loads((ROOT / c.plan).read_text())["part"]) for s in FOUND for c in s.claims if c.plan]
    assert planned
    for told, parts in planned:
        for name in (told.rung, told.over):
            assert any(
                fnmatchcase(name, glob) and told.scope in part.get("options", "--scopes " + told.scope)
                for part in parts
                for glob in part["variants"].split(",")
            ), (told.text, name)


def test_why_is_said_of_measured_claims_alone() -> None:
    for source in FOUND:
        for told in source.claims:
            assert set(told.why) <= {"holds", "weaker", "gone"}
            empty = Record(pair([]).sources, {}, [])
            assert claims.cells(claims.judged(empty, told))[-2:] == ("not measured", "")


# ---------------------------------------------------------------------------------------------------- docs/ladder.md


def test_the_page_of_the_ladder_has_every_rung_and_its_pictures() -> None:
    path = ROOT / "docs" / "ladder.md"
    text = path.read_text()
    assert all(f"### `{name}`" in text for name in cards.load())
    pictures = re.findall(r"\]\((ladder/[^)]+)\)", text)
    assert pictures and all((path.parent / name).stat().st_size > 10_000 for name in pictures)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_pictures_that_a_page_shows_are_there(page: Path) -> None:
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())
    assert [name for name in shown if not (page.parent / name).is_file()] == []


def test_a_number_typed_by_hand_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ladder.md"
    path.write_text((ROOT / "docs" / "ladder.md").read_text().replace("1", "2", 1))
    assert ladder_page.main(["--check", str(path)]) == 1
    assert "python -m plots.ladder_page" in capsys.readouterr().err


def test_the_counter_that_a_card_names_is_stated(drawn: Drawn) -> None:
    profile = counters.beside(drawn.record)
    known = cards.load()
    shown = [replace(known[name], counter="registers") for name in drawn.variants if known[name].shows == "assign"]
    said = [text for card in shown if (text := ladder_page.counter_text(profile, card))]
    assert said and all(
        text.startswith("`registers` on `points2d_k_100`: ") and "what registers teaches" in text for text in said
    )
    assert {ladder_page.counter_text(profile, replace(card, counter="")) for card in shown} == {""}
    assert ladder_page.counter_text(None, shown[0]) == ""
    # Of several workloads the one on which it changes most, not the largest.
    entries = [
        {"variant": v, "scope": "assign", "workload": w, "n": n, "d": 1, "k": 1,
         "kernels": [{"launches": 1, "metrics": {"registers": value}}]}
        for w, n, values in (("large", 9, (50, 50)), ("small", 1, (80, 20)))
        for v, value in zip((shown[0].base, shown[0].id), values, strict=True)
    ]  # fmt: skip
    text = ladder_page.counter_text(replace(profile, entries=entries), shown[0])
    assert text.startswith("`registers` on `small`: 80.0"), text
    with pytest.raises(RecordError, match=r"\.counter is warmth, which .* has not: name one of "):
        ladder_page.counter_text(profile, replace(shown[0], counter="warmth"))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(16.5, "", "16.5"), (12.43, "%", "12.4 %"), (73_862_600_000, "byte", "73.9 GB"), (31_250, "", "31,250"),
     (6_250_000, "", "6.25 million"), (0, "byte", "0 byte")],
)  # fmt: skip
def test_large_counts_are_said_short(value: float, unit: str, text: str) -> None:
    assert ladder_page.counted(value, unit) == text


def test_libraries_from_a_record_of_their_own_join_the_figures_of_001(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As results/nvidia-h200/peers.toml makes it: two of the files, and only there. The other record has a refusal."""
    source = next(s for s in FOUND if s.seed == "001")
    every = full()
    rows = [
        row for row in every["rows"] if fnmatchcase(row["workload"], "blobs30_[0-9][0-9]") and row["scope"] == "solve"
    ]
    files = sorted({row["workload"] for row in rows})
    kept = [w for w in every["workloads"] if w["name"] in files]
    devices = {"p_cuvs": GPU, "p_sklearn_lloyd": CPU}
    peers = [
        row | {"device": devices[row["variant"]]}
        for row in rows
        if row["variant"] in devices and row["workload"] in files[:2]
    ]
    ours = [row for row in rows if row["variant"] not in devices]
    ours.append(sample_record.row("p_cuvs", "", kept[0], GPU, "solve", status="refused", reason="not installed"))
    assert len(files) == 3 and len(peers) == 4 and peers[0]["workload"] == kept[0]["name"]
    paths = [
        sample_record.write(every | {"workloads": kept, "rows": of}, tmp_path / name)
        for name, of in (("record.json", ours), ("seeds_peers.json", peers))
    ]
    (record,) = records.together([schema.load(path) for path in paths])
    pages: dict[str, Figure] = {}
    monkeypatch.setattr(style.Page, "save", lambda page, _, stem: pages.update({stem: page.figure}))
    done = {
        s.id: seeds_page.draw_figure(record, source, s, tmp_path)
        for s in source.figures
        if s.id in ("files", "averages")
    }
    assert all(figure.drawn and figure.lacks == [] for figure in done.values())
    assert all(record.row(Rung(row["variant"], row["device"]), row["workload"], "solve").timed for row in peers)
    (panel,) = pages["001_files"].axes
    lines = [line for line in panel.get_lines() if str(line.get_gid()).startswith("line")]
    points = sorted(int(np.isfinite(np.asarray(line.get_ydata(), float)).sum()) for line in lines)
    assert points == [2, 2, 3, 3, 3, 3]  # the fastest of all the ladder's has a line, too
    words = " ".join(text.get_text() for text in pages["001_averages"].findobj(Text))
    assert "(2 of them)" in words and "cuML" in words and "scikit-learn" in words


# -------------------------------------------------------------------------------------------- machines without a GPU


def test_without_a_gpu_the_committed_ladder_comes_first_and_simt_is_right_in_grey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sample_record.make()
    names = ("grapes_k100", "grapes_k1500", "embedding")
    rows = [row for row in whole["rows"] if row["workload"] in names and row["scope"] == "iteration"]
    small = whole | {"workloads": [w for w in whole["workloads"] if w["name"] in names], "rows": rows}
    committed = tmp_path / "results" / "a-gpu"
    committed.mkdir(parents=True)
    gpu = small | {"rows": [row for row in small["rows"] if row["device"] == GPU]}
    monkeypatch.setattr(draw, "committed", lambda: [sample_record.write(gpu, committed / "record.json")])
    monkeypatch.setattr(style.Page, "save", lambda *_: [])
    here = small | {"rows": [row for row in small["rows"] if row["device"] == "simt"]}
    here["context"] = sample_record.context(gpu=False)
    path = sample_record.write(here, tmp_path / "record.json")
    assert draw.main([str(path), "--committed", "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    first, last = page.split("<h2>This machine, without a GPU")
    assert "The ladder on a GPU" in first and "committed/a-gpu/overview_gpu" in first
    assert first.index("<h2>The ladder on a GPU") < first.index("<img") and "_cpu_" not in first
    assert '<meta name="viewport"' in first and '<a href="#committed/a-gpu/overview_gpu' in first
    assert 'class="right"' in last and 'right <span class="grey">' in last and names[0] in last
    assert "refused" in last and "invalid" in last and "\N{MULTIPLICATION SIGN}</td>" not in last
    assert "_simt_" not in page
    with_gpu = sample_record.write(small, tmp_path / "gpu.json")
    assert draw.main([str(with_gpu), "--committed", "--only", "overview", "--out", str(tmp_path / "with")]) == 0
    assert "The ladder on a GPU" not in (tmp_path / "with" / "index.html").read_text()


def test_committed_records_are_sound_and_found() -> None:
    found = records.committed()
    assert found and all(schema.load(path).rows for path in found)
    assert not {"latest", "local"} & {path.parent.name for path in found}


def test_the_overview_shades_faster_and_slower_apart() -> None:
    blue, orange, white = (overview.shade(v, 100.0)[0] for v in (50.0, 0.3, 1.0))
    assert white == "#ffffff" and int(blue[5:], 16) > int(blue[1:3], 16) and int(orange[1:3], 16) > int(orange[5:], 16)
    assert np.all([overview.shade(v, 100.0)[1] in ("black", "white") for v in (0.01, 1, 99)])


def test_a_page_of_the_overview_has_the_rungs_of_its_workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[tuple[set[str], set[str]]] = []
    monkeypatch.setattr(overview, "MOST_COLUMNS", 2)
    monkeypatch.setattr(
        overview,
        "draw_page",
        lambda _, __, ___, ____, table, rungs, *_____: pages.append(
            ({w.name for column in table for w in column.workloads}, {rung.variant for rung in rungs})
        ),
    )
    record = from_document(sample_record.make(), Path("record.json"))
    first = record.rungs("cuda")[0].variant
    rows = [r for r in record.rows if r.variant != first or r.workload == record.rows[0].workload]
    overview.draw(Record(record.sources, record.workloads, rows), tmp_path, Options(devices=("cuda",)))
    assert len(pages) > 1 and {first in rungs for _, rungs in pages} == {True, False}
    for names, rungs in pages:
        of_page = [r for r in rows if (r.device, r.scope) == ("cuda", "iteration") and r.workload in names]
        assert rungs == {r.variant for r in of_page}


def test_files_without_a_time_leave_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: dict[str, Figure] = {}
    monkeypatch.setattr(style.Page, "save", lambda page, _, stem: pages.update({stem: page.figure}))
    spec = next(f for s in FOUND for f in s.figures if f.x == "file")
    document = full()
    times = [r for r in document["rows"] if r["scope"] == spec.scope and fnmatchcase(r["workload"], spec.workloads[0])]
    timed = sorted({row["workload"] for row in times})[1:]  # the first has none
    document["rows"] = [row for row in times if row["workload"] in timed]
    curves.draw(from_document(document, Path("record.json")), spec, "files", [], tmp_path, "files")
    (panel,) = pages["files"].axes
    names = [text.get_text().split("\n")[0] for text in panel.get_xticklabels()]
    assert sorted(names) == [name.removeprefix(per_workload.common_beginning(timed)) for name in timed]
    for line in (line for line in panel.get_lines() if str(line.get_gid()).startswith("line")):
        assert list(line.get_xdata()) == list(panel.get_xticks())
