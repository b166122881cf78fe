"""The short ladder: which rungs it shows, its picture, and the table of the README."""

from __future__ import annotations

from pathlib import Path

import sample_record
from matplotlib.figure import Figure

from plots import ladder_page, table
from plots.figures import short_ladder
from plots.lib import short
from plots.lib.options import Options
from plots.lib.record import TIMES, Record, Rung, from_document

pytest_plugins = ("figure_fixtures",)

TIMES_MS = {"a": 1000.0, "b": 1010.0, "c": 500.0, "d": 480.0, "e": 100.0, "f": 99.0, "g": 10.0}


def chain(cold: dict[str, float] | None = None) -> Record:
    """Seven rungs, each the base of the next; a library that is a root of its own. `cold`: cold starts of some, ms."""
    w = sample_record.workload("grapes", "grapes", 1000, 4, 16)
    other = sample_record.workload("plums", "plums", 1000, 4, 16) | {"data_hash": "sha256:11"}
    rows = []
    base = ""
    for variant, ms in TIMES_MS.items():
        rows.append(sample_record.row(variant, base, w, "cuda", short.SCOPE, ms))
        base = variant
    rows.append(sample_record.row("lib", "", w, "cuda", short.SCOPE, 250.0))
    rows.append(sample_record.row("g", "f", other, "cuda", short.SCOPE, 20.0))
    for row in rows:
        exact = TIMES_MS.get(row["variant"], 250.0) if row["workload"] == "grapes" else 20.0
        row["iterations"], row["prepare_ms"], row["median_ms"] = 7, 33.0, exact
    for variant, ms in (cold or {}).items():
        row = sample_record.row(variant, "", w, "cuda", short.COLD, ms)
        rows.append(row | {"median_ms": ms, "parts_ms": {"run": ms - 300, "context": 300.0}})
        if ms < 300:
            rows[-1] |= {"status": "invalid", "reason": "a part takes less than no time"}
    document = {"schema_version": 2, "context": sample_record.context(), "workloads": [w, other], "rows": rows}
    return from_document(document, Path("record.json"))


def test_the_largest_steps_stay_and_both_ends() -> None:
    found = short.steps(chain(), "grapes", 4)
    assert [step.rung.variant for step in found] == ["a", "c", "e", "g"]
    assert [step.rungs for step in found] == [0, 2, 2, 2]
    assert found[1].gain == 2.0
    assert [step.rung.variant for step in short.steps(chain(), "grapes")] == ["a", "c", "d", "e", "f", "g"]
    assert [rung.variant for rung, _ in short.libraries(chain(), "grapes")] == ["lib"]


def test_a_library_without_the_stop_rule_stands_there_with_as_many_iterations() -> None:
    def with_twin(iterations: int, **other: object) -> Record:
        document = {"schema_version": 2, "context": sample_record.context()}
        w = sample_record.workload("grapes", "grapes", 1000, 4, 16)
        twin = w | {"name": "grapes_7", "family": "grapes_7", "stop": f"fixed:{iterations}"} | other
        rows = [sample_record.row(v, "", w, "cuda", short.SCOPE, ms) for v, ms in (("a", 1000.0), ("both", 300.0))]
        rows.append(sample_record.row("b", "a", w, "cuda", short.SCOPE, 10.0))
        rows += [sample_record.row(v, "", twin, "cuda", short.SCOPE, ms) for v, ms in (("lib", 250.0), ("both", 299.0))]
        rows.append(sample_record.row("b", "a", twin, "cuda", short.SCOPE, 9.0))
        for row in rows:
            row["iterations"] = 7
        return from_document(document | {"workloads": [w, twin], "rows": rows}, Path("record.json"))

    found = short.libraries(with_twin(7), "grapes")
    assert [(rung.variant, row.workload) for rung, row in found] == [("both", "grapes"), ("lib", "grapes_7")]
    assert "run as many iterations from the same start (`grapes_7`)" in table.short_table(with_twin(7), "grapes")
    for elsewhere in (with_twin(8), with_twin(7, seed=3), with_twin(7, data_hash="sha256:12")):
        assert [rung.variant for rung, _ in short.libraries(elsewhere, "grapes")] == ["both"]
        assert "as many iterations" not in table.short_table(elsewhere, "grapes")


def test_the_table_has_few_rows_libraries_among_them() -> None:
    text = table.short_table(chain(), "grapes").replace("\N{NO-BREAK SPACE}", " ")
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(lines) == len(short.steps(chain(), "grapes")) + 1 <= table.SHORT_ROWS
    assert lines[0].endswith(f"| 1,000 ms | 33.0 ms | 1{TIMES} |")
    assert lines[-1].endswith(f"| 10.0 ms | 33.0 ms | 100{TIMES} |")
    names = [line.split("`")[1] for line in lines]
    assert names.index("d") < names.index("lib") < names.index("e")
    assert "33.0 ms" in text and "20.0 ms in 7 iterations on `plums`" in text


def test_cold_starts_stand_beside_whole_runs_where_there_are_any() -> None:
    assert "cold start" not in table.short_table(chain(), "grapes").lower()
    record = chain({"a": 1500.0, "g": 400.0, "f": 90.0})
    text = table.short_table(record, "grapes").replace("\N{NO-BREAK SPACE}", " ")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0] == "| step | idea | whole run | prepare | cold start | speedup |"
    cells = {line.split("`")[1]: [cell.strip() for cell in line.split("|")[3:-1]] for line in lines[2:]}
    assert cells["a"] == ["1,000 ms", "33.0 ms", "1,500 ms", f"1{TIMES}"]
    assert cells["g"][:3] == ["10.0 ms", "33.0 ms", "400 ms"]
    assert cells["f"][2] == "", "a time that is not valid is not shown"
    assert (
        "A cold start of `g`, from a fresh process to labels and centroids: 400 ms (context 300 ms, run 100 ms)."
        in text
    )
    without = table.short_table(chain({"a": 1500.0, "e": 450.0}), "grapes").replace("\N{NO-BREAK SPACE}", " ")
    assert "A cold start of the fastest rung that has one, `e` (100 ms), from" in without
    assert "from a fresh process to labels and centroids: 450 ms (context 300 ms, run 150 ms)." in without
    assert "a cold start takes 400 ms" in table.whole_run(record, "grapes").replace("\N{NO-BREAK SPACE}", " ")
    (line,) = ladder_page.cold_texts(record, Rung("g", "cuda"))
    assert line == "`grapes`: 400 ms; a whole run 10.0 ms, its preparation 33.0 ms."
    assert ladder_page.cold_texts(record, Rung("f", "cuda")) == ladder_page.cold_texts(record, Rung("e", "cuda")) == []


def test_the_picture_has_a_bar_per_step_and_per_library_in_order_of_time(
    figures: dict[str, Figure], tmp_path: Path
) -> None:
    drawn, left_out = short_ladder.draw(chain(), tmp_path, Options(workloads=("grapes",)))
    assert [stem for stem, _ in drawn] == [short_ladder.STEM] and not left_out
    (ax,) = figures[short_ladder.STEM].axes
    bars = sorted(ax.patches, key=lambda bar: bar.get_y())
    names = [bar.get_gid() for bar in bars]
    assert names == ["bar a", "bar c", "bar d", "library lib", "bar e", "bar f", "bar g"]
    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert ends == sorted(ends, reverse=True) and abs(ends[3] - 250) < 1e-6


def test_libraries_on_the_host_stand_beside_a_gpus(figures: dict[str, Figure], tmp_path: Path) -> None:
    """Those alone that are known as such by their cards, each with the cores that it had."""
    w = sample_record.workload("grapes", "grapes", 1000, 4, 16)
    steps = (("a", "", 1000.0), ("c", "a", 500.0), ("e", "c", 100.0))
    rows = [sample_record.row(variant, base, w, "cuda", short.SCOPE, ms) for variant, base, ms in steps]
    rows += [sample_record.row("p_faiss", "", w, "cuda", short.SCOPE, 700.0)]
    for variant, ms in (("p_faiss", 5000.0), ("p_sklearn_lloyd", 6000.0), ("c0_serial", 9000.0)):
        rows.append(sample_record.row(variant, "", w, "cpu", short.SCOPE, ms))
    rows[-2]["host_cores"] = 48
    # From it another was made: a root no longer, and a library still.
    rows.append(sample_record.row("p_sklearnex", "p_sklearn_lloyd", w, "cpu", short.SCOPE, 5500.0))
    for row in rows:
        row["median_ms"] = round(row["median_ms"], -2)
    document = {"schema_version": 2, "context": sample_record.context(), "workloads": [w], "rows": rows}
    record = from_document(document, Path("record.json"))
    found = [(rung.variant, rung.device) for rung, _ in short.libraries(record, "grapes")]
    assert found == [("p_sklearn_lloyd", "cpu"), ("p_sklearnex", "cpu"), ("p_faiss", "cpu"), ("p_faiss", "cuda")]
    assert short.libraries(record, "grapes", 1)[0][0] == Rung("p_faiss", "cuda"), "the fastest stay"
    short_ladder.draw(record, tmp_path, Options(workloads=("grapes",)))
    (ax,) = figures[short_ladder.STEM].axes
    texts = [text.get_text() for text in ax.texts]
    cores = sample_record.context()["host"]["cores"]
    assert f"FAISS (p_faiss) on the CPU ({cores} cores)" in texts and "FAISS (p_faiss)" in texts
    assert any(text.endswith("on the CPU (48 cores)") for text in texts)


def test_many_libraries_leave_fewer_steps(figures: dict[str, Figure], tmp_path: Path) -> None:
    w = sample_record.workload("grapes", "grapes", 1000, 4, 16)
    rows = [
        sample_record.row(f"s{i}", f"s{i - 1}" if i else "", w, "cuda", short.SCOPE, 1000 / 2**i) for i in range(16)
    ]
    rows += [sample_record.row(f"lib{i}", "", w, "cuda", short.SCOPE, 5.0 + 10 * i) for i in range(14)]
    document = {"schema_version": 2, "context": sample_record.context(), "workloads": [w], "rows": rows}
    short_ladder.draw(from_document(document, Path("record.json")), tmp_path, Options(workloads=("grapes",)))
    (ax,) = figures[short_ladder.STEM].axes
    bars = [bar.get_gid() for bar in ax.patches]
    assert sum(bar.startswith("library") for bar in bars) == short_ladder.MOST_LIBRARIES
    assert len(bars) == short_ladder.MOST_ROWS and "bar s0" in bars and "bar s15" in bars
