"""The explorer's page in a headless browser: every choice shows figures or says why not, at any width, and keys
reach all of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import FOUND, MISSING, Browser
from conftest import LADDER

pytest.importorskip("bokeh", reason="the charting library is not installed: ./run_all.sh setup installs it")
from plots.explorer import page
from plots.lib.record import ROOT

PUBLISHED = ROOT / "docs" / "explorer.html"
WIDTHS = (390, 768, 1280, 1920)
READY = "document.body && document.body.dataset.ready === 'yes'"
needs_browser = pytest.mark.skipif(not FOUND, reason=MISSING)


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return page.unpacked(PUBLISHED.read_text())


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def opened(browser: Browser) -> Browser:
    """The published page, anew. No test may leave an error in the console or a request for anything else."""
    browser.said.clear()
    browser.asked.clear()
    browser.wide(1280)
    browser.prefers(prefers_reduced_motion="reduce", prefers_color_scheme="light")
    open_at(browser, "")
    yield browser
    browser.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
    assert not browser.said
    assert {address.partition("#")[0] for address in browser.asked} <= {PUBLISHED.as_uri(), "about:blank", "data:,"}


def open_at(browser: Browser, choice: str) -> None:
    browser.open("about:blank", "true")
    browser.open(f"{PUBLISHED.as_uri()}{choice}", READY)


def test_it_is_one_file_that_loads_nothing() -> None:
    text = PUBLISHED.read_text()
    assert len(text.encode()) < 2 << 20, "as large as a file of this repository may be; 5 MB is the page's own limit"
    assert "default-src 'none'" in text
    for part in (' src="', '<link rel="stylesheet', "@import", "url("):
        assert part not in page.DATA.sub("", text).partition("<script>")[0], part
    assert "Redistribution and use in source and binary forms" in text


def test_the_published_page_names_no_path_of_a_machine(data: dict[str, Any]) -> None:
    assert data["made"].count("results/nvidia-") > 2
    assert not any(word in str(data["made"]) + str(data["origin"]) for word in ("/tmp", "/home", "/work"))


# What each chart holds now: rows that it shows, and whether anything is drawn on its canvas.
FIGURES = """(() => Object.entries(charts).map(([name, chart]) => ({
  name,
  rows: Object.values(chart.sources).reduce((sum, source) => sum + Object.values(source.data)[0].length, 0),
  empty: chart.element.classList.contains("empty"),
  told: chart.element.getAttribute("aria-label").length,
  note: (document.getElementById(`${name}-note`) ?? chart.element.parentElement).textContent.trim().length,
  finite: Object.values(chart.sources).every((source) => ["x", "y", "low", "high", "left", "right"].every((column) =>
    (source.data[column] ?? []).every((value) => typeof value !== "number" || Number.isFinite(value)))),
})))()"""

LOOK = f"""function look(rung, workload) {{
  state = {{ ...state, rung, workload, machine: 0 }};
  const standard = usual();
  state = {{ ...state, base: standard.base, scope: standard.scope, workload: workload || standard.workload }};
  show();
  const wrong = [];
  for (const found of {FIGURES}) {{
    const shown = found.empty ? found.note > 20 : found.rows > 0 && found.told > 20;
    if (!shown || !found.finite) wrong.push([rung, state.workload, found]);
  }}
  const strange = document.querySelector("main").textContent.match(/.{{0,20}}(undefined|NaN|\\[object|Infinity)/);
  if (strange) wrong.push([rung, state.workload, strange[0]]);
  return wrong;
}}"""
# Without Bokeh's own objects, whose layout of each figure is nine tenths of the time, and without what does not depend
# on the workload.
PLAIN = """showDiff = fillLists = () => {};
for (const chart of Object.values(charts)) {
  const range = () => ({ setv(values) { Object.assign(this, values); } });
  chart.plot = { x_range: range(), y_range: range() };
  for (const [name, source] of Object.entries(chart.sources)) chart.sources[name] = { data: source.data };
}"""


@needs_browser
def test_every_rung_has_its_figures_or_says_why_not(opened: Browser) -> None:
    opened.run(LOOK)
    assert opened.run("data.rungs.flatMap((rung) => look(rung.id, '')).slice(0, 3)") == []


@needs_browser
def test_every_rung_on_every_workload_has_its_figures_or_says_why_not(opened: Browser, data: dict[str, Any]) -> None:
    opened.run(LOOK)
    opened.run(PLAIN)
    for name in data["workloads"]:
        assert opened.run(f"data.rungs.flatMap((rung) => look(rung.id, {name!r})).slice(0, 3)") == []


PAINTED = """new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(Object.entries(charts).map(
  ([name, chart]) => {
    const all = [];
    const seek = (node) => {
      if (node.tagName === "CANVAS") all.push(node);
      for (const child of node.children ?? []) seek(child);
      if (node.shadowRoot) for (const child of node.shadowRoot.children) seek(child);
    };
    seek(chart.element);
    const shades = new Set();
    for (const canvas of all) {
      if (!canvas.width || !canvas.height) continue;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] === 255) shades.add((data[at] << 16) + (data[at + 1] << 8) + data[at + 2]);
      }
    }
    return [name, shades.size];
  })), 300)))"""


@needs_browser
def test_the_figures_are_drawn_in_both_themes(opened: Browser) -> None:
    seen = {}
    for theme in ("light", "dark"):
        opened.prefers(prefers_reduced_motion="reduce", prefers_color_scheme=theme)
        shades = dict(opened.run(PAINTED))
        assert set(shades) == {"times", "stalls", "roofline", "chain", "floors"}
        assert all(count >= 8 for count in shades.values()), (theme, shades)
        seen[theme] = opened.run("getComputedStyle(document.body).backgroundColor")
        assert opened.run("document.documentElement.dataset.theme") == theme
    assert seen["light"] != seen["dark"]
    opened.run("document.getElementById('theme').click()")
    assert opened.run("document.documentElement.dataset.theme") == "light"
    assert "theme=light" in opened.run("location.hash")


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_page(opened: Browser, width: int) -> None:
    opened.wide(width)
    long = opened.run("data.rungs.map((r) => r.id).sort((a, b) => b.length - a.length)[0]")
    last = opened.run("data.rungs.map((r) => [r.id, chainOf(r.id).length]).sort((a, b) => b[1] - a[1])[0][0]")
    for rung in (opened.run("state.rung"), long, last):
        opened.run(f"choose({{ rung: {rung!r} }})")
        opened.run("new Promise((done) => setTimeout(done, 150))")
        assert opened.run("document.documentElement.scrollWidth") <= width, rung
        beyond = f"""[...document.querySelectorAll("main > *, form > *, .chart, table, h2, dd, select")]
          .filter((one) => !one.closest(".scroll, .diff") && one.getBoundingClientRect().right > {width} + 0.5)
          .map((one) => one.outerHTML)"""
        assert opened.run(beyond) == [], rung
        narrow = """[...document.querySelectorAll("#counted td:first-child, #sized td:first-child")]
          .filter((one) => one.getBoundingClientRect().width < 60).map((one) => one.textContent)"""
        assert opened.run(narrow) == [], rung


# Tables may scroll, but none needs to: a column that is cut is one that a reader does not know of.
CUT = """data.rungs.flatMap((rung) => {
  state = { ...state, rung: rung.id };
  Object.assign(state, usual());
  const base = state.base ? rungOf(state.base) : null;
  showCounted(rung, base);
  showSized(rung, base);
  return ["counted", "sized"].filter((id) => at(id).scrollWidth > at(id).clientWidth)
    .map((id) => [rung.id, id, at(id).scrollWidth, at(id).clientWidth]);
}).slice(0, 5)"""
EDGES = (700, 999, 1000, 1199, 1200)  # where the layout changes


@needs_browser
@pytest.mark.parametrize("width", sorted({*WIDTHS, *EDGES}))
def test_no_table_is_cut(opened: Browser, width: int) -> None:
    opened.wide(width)
    opened.run("new Promise((done) => setTimeout(done, 100))")
    opened.run("for (const chart of Object.values(charts)) chart.update = chart.told = () => {}")
    assert opened.run(CUT) == []


@needs_browser
def test_limits_and_claims_are_those_of_explain(opened: Browser, data: dict[str, Any]) -> None:
    """Where the program is built: it applies the same rule to the same counters."""
    if not LADDER.is_file():
        pytest.skip("the program is not built")
    names = [rung["id"] for rung in data["rungs"] if rung.get("predicted") and rung["id"] in data["counts"]]
    answer = subprocess.run([LADDER, "explain", *names, "--json"], capture_output=True, text=True, check=True)
    units = {"multiprocessor": "arithmetic and the issue of instructions", "L1": "L1 and shared memory"}
    compared = 0
    for explained in json.loads(answer.stdout):
        sizes, limits, name = explained["sizes"], explained["limits"], explained["id"]
        told = [claim["verdict"] for claim in explained["claims"]]
        opened.run(f"showClaims(rungOf({name!r}))")
        shown = opened.run("[...document.querySelectorAll('#claims .verdict')].map((one) => one.textContent)")
        assert shown == told, name
        if data["counts"][name].get(sizes["workload"], {}).get(sizes["scope"]) and limits["after"]:
            count = f"data.counts[{name!r}][{sizes['workload']!r}][{sizes['scope']!r}]"
            by = limits["after_by"]
            assert opened.run(f"limitOf({count}).by") == units.get(by, by), name
            compared += 1
    assert compared >= 15


@needs_browser
def test_the_message_is_what_sessions_in_turns_show(opened: Browser, data: dict[str, Any]) -> None:
    steps = [gain for gain in data["gains"] if gain["workload"] in data["workloads"]]
    for gain in [next(g for g in steps if g["verdict"] == verdict) for verdict in ("FASTER", "SLOWER", "SAME")]:
        opened.run(f"choose({{ rung: {gain['rung']!r} }})")
        opened.run(f"choose({{ base: {gain['base']!r}, workload: {gain['workload']!r}, scope: {gain['scope']!r} }})")
        message = opened.run("document.getElementById('message').textContent")
        assert {"FASTER": "as fast as", "SLOWER": "the time of", "SAME": "leaves"}[gain["verdict"]] in message
        assert "interval" in opened.run("document.getElementById('facts').textContent")
        limits = opened.run("document.getElementById('limits').textContent")
        assert limits.startswith("Before, in ") and "After, in " in limits


CONTROLS = """[...document.querySelectorAll("select, button, input, summary, [tabindex='0'], a[href]")]
  .filter((one) => one.checkVisibility() && !one.disabled).map((one) => one.id || one.textContent)"""


@needs_browser
def test_every_control_is_reached_by_tab_in_its_order(opened: Browser) -> None:
    wanted = opened.run(CONTROLS)
    assert {"rung", "base", "workload", "scope", "machine", "n", "d", "k", "theme", "diff"} <= set(wanted)
    found = []
    opened.run("document.activeElement.blur()")
    for _ in range(len(wanted) + 5):  # the figures take the focus, too
        opened.press("Tab", 9)
        found.append(opened.run("document.activeElement.id || document.activeElement.textContent"))
    assert [name for name in found if name][: len(wanted)] == wanted


@needs_browser
def test_arrow_keys_move_the_list_and_the_sliders(opened: Browser) -> None:
    before = opened.run("state.rung")
    opened.run("document.getElementById('rung').focus()")
    opened.press("ArrowDown", 40)
    after = opened.run("state.rung")
    assert after != before and f"rung={after}" in opened.run("location.hash")
    assert opened.run("document.getElementById('message').textContent").startswith(after)
    clusters = opened.run("state.k")
    opened.run("document.getElementById('k').focus()")
    opened.press("ArrowRight", 39)
    assert opened.run("state.k") > clusters and "k=" in opened.run("location.hash")


@needs_browser
def test_the_address_holds_the_choice(opened: Browser, data: dict[str, Any]) -> None:
    step = next(gain for gain in data["gains"] if gain["workload"] in data["workloads"])
    change = {"rung": step["rung"]}
    opened.run(f"choose({change})")
    opened.run(f"choose({{ workload: {step['workload']!r}, scope: {step['scope']!r}, theme: 'dark', n: 4321 }})")
    kept = opened.run("[location.hash, JSON.stringify(state), document.querySelector('main').textContent]")
    open_at(opened, kept[0])
    assert opened.run("[location.hash, JSON.stringify(state), document.querySelector('main').textContent]") == kept
    assert "95 % interval" in kept[2]
    open_at(opened, "#rung=nothing&workload=none&n=-3&theme=pink")  # what is not there gives way to the usual
    assert opened.run("rungs.has(state.rung) && state.workload in data.workloads && state.n > 0 && state.theme === ''")


@needs_browser
def test_sliders_compute_what_the_formulas_say(opened: Browser) -> None:
    opened.run("choose({ n: 1000000, d: 100, k: 1000 })")
    said = opened.run("document.getElementById('sized').textContent")
    assert "200 billion" in said, "2 N K D operations"
    assert "404 MB" in said, "4 (N D + K D + N) bytes"
    count = {"block": 256, "metrics": {"registers": 187, "shared_bytes": 1024}}
    assert opened.run(f"occupancyOf({count})") == {"blocks": 1, "percent": 12.5}
    count["metrics"] = {"registers": 48, "shared_bytes": 30000}
    assert opened.run(f"occupancyOf({count})") == {"blocks": 5, "percent": 62.5}
    tree = ["/", ["*", ["*", "N", "K"], "D"], ["ceil", ["/", "tile", 3]]]
    assert opened.run(f"valueOf({tree!r}, {{N: 2, K: 3, D: 5, tile: 4}})") == 15
    assert opened.run("valueOf(['+', 'N', 'width'], {N: 2})") is None
    assert opened.run("[valueOf(['from_dram', 1e6, 7], {}), valueOf(['from_dram', 1e9, 7], {})]") == [1e6, 7e9]


@needs_browser
def test_predictions_are_those_of_explain(opened: Browser, data: dict[str, Any]) -> None:
    """Where the program is built: it evaluates the same formulas on the same counts."""
    names = [rung["id"] for rung in data["rungs"] if rung.get("predicted") and rung["id"] in data["counts"]]
    if not names or not LADDER.is_file():
        pytest.skip("no rung with a lesson was counted, or the program is not built")
    compared = 0
    for name in names[:: max(1, len(names) // 4)]:
        answer = subprocess.run([LADDER, "explain", name, "--json"], capture_output=True, text=True, check=True)
        explained = json.loads(answer.stdout)
        sizes, predicted = explained["sizes"], explained["predicted"]
        count = f"data.counts[{name!r}][{sizes['workload']!r}][{sizes['scope']!r}]"
        where = f"{{ ...{count}, workload: {sizes['workload']!r} }}"
        found = opened.run(f"predictedOf(rungOf({name!r}), {where}, {count}.size)")
        for counter, value in found.items():
            if (plan := predicted.get(counter)) and plan["value"] is not None and plan["scope"] == sizes["scope"]:
                assert value == pytest.approx(plan["value"], rel=1e-3), (name, counter)
                compared += 1
    assert compared >= 4


@needs_browser
def test_the_dots_move_and_reach_their_place(opened: Browser) -> None:
    opened.prefers(prefers_reduced_motion="no-preference", prefers_color_scheme="light")
    dots = "charts.roofline.sources.rung.data.x[0]"
    steps = "data.rungs.filter((r) => r.shows === 'assign' && dotOf(r.id, data.machines[0].workloads[0], 'assign'))"
    first, *_, last = opened.run(
        f"{steps}.sort((a, b) => chainOf(a.id).length - chainOf(b.id).length).map((r) => r.id)"
    )
    opened.run(f"choose({{ rung: {first!r} }})")
    opened.until(f"Math.abs({dots} / dotOf({first!r}, state.workload, 'assign').x - 1) < 1e-6")
    begin, moved = opened.run(f"(() => {{ const at = {dots}; choose({{ rung: {last!r} }}); return [at, {dots}]; }})()")
    end = opened.run(f"dotOf({last!r}, state.workload, 'assign').x")
    assert moved == pytest.approx(begin) and end > 3 * begin
    opened.until(f"Math.abs({dots} / {end} - 1) < 1e-6")


@needs_browser
def test_a_diff_keeps_both_texts(opened: Browser) -> None:
    texts = (["a", "b", "c", "d"], ["a", "x", "c", "y", "z", "d"])
    pairs = opened.run(f"lineUp({texts[0]!r}, {texts[1]!r})")
    assert [one for one, _ in pairs if one is not None] == texts[0]
    assert [other for _, other in pairs if other is not None] == texts[1]
    assert sum(one == other for one, other in pairs) == 3


@needs_browser
def test_the_answer_is_folded_until_it_is_asked_for(opened: Browser) -> None:
    assert opened.run("document.getElementById('answer').open") is False
    opened.run("document.querySelector('#answer summary').focus()")
    opened.press("Enter", 13, text="\r")
    assert opened.run("document.getElementById('answer').open") is True


def test_a_page_of_this_machine_shows_its_record_beside_the_committed_ones(tmp_path: Path) -> None:
    here = ROOT / "results" / "cpu" / "record.json"
    report = tmp_path / "report.html"
    report.write_text("something else")
    assert page.main([str(here), "--out", str(report)]) == 2, "a file that it did not make stays"
    report.unlink()
    assert page.main([str(here), "--out", str(report)]) == 0
    held = page.unpacked(report.read_text())
    committed, local = held["machines"]
    assert local["name"].startswith("this machine") and local["name"] != committed["name"]
    assert local["times"] and set(local["workloads"]) <= set(held["workloads"])
    assert held["checked"] and held["links"] == [["pictures", "index.html"]]
    assert report.stat().st_size < page.MOST_BYTES


def test_an_unpacked_page_compares_by_what_it_holds(tmp_path: Path) -> None:
    text = PUBLISHED.read_text()
    assert page.same(text, text)
    held = page.unpacked(text)
    held["rungs"][0]["idea"] = "another"
    other = page.DATA.sub(lambda found: found[1] + page.packed(held) + found[3], text)
    assert not page.same(text, other)
