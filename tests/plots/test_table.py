"""python -m plots.table: the table of the README."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_record
from figure_helpers import FEW, cells, newer, part_of, roofed, with_zeros, without

from plots import table
from plots.lib.record import DAGGER, ROOT, SPACE, TIMES, Cell, Column, Gap, Record, Rung, Speedup, from_document, number

pytest_plugins = ("figure_fixtures",)


def spaced(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_table_holds_times_speedups_roofs_and_footnotes() -> None:
    record = roofed()
    text = spaced(table.markdown(record))
    row = record.row(Rung("g4_update", "cuda"), "grapes_k100", "iteration")
    assert row and row.median_ms
    assert cells(text, "GPU times", "g4_update")[3] == f"{number(row.median_ms)} ms · 4.20{TIMES} · 0.3 %"
    assert f" ms{DAGGER} · 4.2" in cells(text, "GPU times", "g4_update")[2]
    assert TIMES not in cells(text, "GPU times", "g1_plain")[2]
    assert cells(text, "GPU times", "g4_update")[8].endswith("(unstable)")
    refused = cells(text, "GPU times", "g2_constant")[6]
    assert refused.startswith("refused<sup>")
    mark = refused.removeprefix("refused<sup>").removesuffix("</sup>")
    assert f"\n{mark}. the centroids take 66000 bytes" in text
    header = next(line for line in text.splitlines() if line.startswith("| variant"))
    assert "| gain over its base |" in header
    assert "| embedding | cloud dense (8 files)<sup>" in header or "| embedding | cloud (8 files)<sup>" in header
    gpu = text[text.index("**GPU times") : text.index("**CPU")]
    assert "simt" not in gpu
    assert "s1_serial" not in gpu
    assert cells(text, "CPU", "s2_threads")[0] == "`s2_threads`"
    first_line = text.splitlines()[0]
    assert all(word in first_line for word in ("Example GPU X1", "2026-11-20", "git 0123456789", "percent of the"))
    assert text.rstrip().endswith("(1.50 µs): mostly launch (of several workloads: one at least).")


def test_the_table_says_what_a_variant_gained_over_its_base(mixed: Record) -> None:
    text = spaced(table.markdown(mixed))
    assert cells(text, "GPU times", "g1_plain")[1] == "root"
    fused = cells(text, "GPU times", "g5_fused")[1]
    assert fused.endswith(") over `g4_update`")
    assert float(fused[: fused.index(TIMES)]) == pytest.approx(31 / 4.2, rel=0.05)
    assert cells(text, "GPU times", "h3_crash")[1].endswith(" on 2 of 8 over `h2_tiles`")
    over_base = spaced(table.markdown(mixed, over="base"))
    assert "gain over" not in over_base
    assert "speedup over the base" in over_base
    assert f" · {number(31 / 4.2)[:3]}" in cells(over_base, "GPU times", "g5_fused")[4]
    lost = without("g1_plain")
    assert cells(spaced(table.markdown(lost)), "GPU times", "g3_pinned")[1] == "`g1_plain` is not in this record"


def test_rows_on_simt_are_right_and_no_speedup(mixed: Record) -> None:
    text = spaced(table.markdown(mixed))
    row = mixed.row(Rung("g4_update", "simt"), "grapes_k100", "iteration")
    assert row and row.median_ms
    simt = text[text.index("**The GPU's source on the CPU device simt") :]
    assert cells(simt, "The GPU", "g4_update")[2] == f"(right, {number(row.median_ms)} ms)"
    lines = [line for line in simt.splitlines() if line.startswith("| `")]
    assert len(lines) == 8
    assert not any(TIMES in line for line in lines)


def test_a_family_of_many_has_a_column_per_kind_with_medians_and_the_spread() -> None:
    document = with_zeros(sample_record.make())
    for row in document["rows"]:
        if row["workload"] in ("cloud_01", "cloud_02", "cloud_04", "cloud_05") and row["median_ms"]:
            factor = 2.0 if row["variant"] == "g4_update" else 1.0
            factor *= 0.5 if row["workload"] == "cloud_01" else 0.25
            for key in ("median_ms", "q1_ms", "q3_ms"):
                row[key] *= factor
    record = newer(document)
    dense, sparse = (column for column in record.columns(record.workloads) if column.name.startswith("cloud"))
    assert (dense.name, sparse.name) == ("cloud dense (3 files)", "cloud sparse (5 files)")
    rung = Rung("g4_update", "cuda")
    cell = record.cell(rung, sparse, "iteration")
    assert isinstance(cell, Cell)
    rows = [record.row(rung, w.name, "iteration") for w in sparse.workloads]
    assert cell.ms == pytest.approx(np.median([row.median_ms for row in rows if row]))
    speedups = [record.speedup(rung, w.name, "iteration") for w in sparse.workloads]
    assert cell.speedup == pytest.approx(np.median([s.value for s in speedups if isinstance(s, Speedup)]))
    note = next(line for line in table.markdown(record).splitlines() if "cloud sparse (5 files): medians" in line)
    assert "A variant's slowest file takes" in note
    assert isinstance(record.cell(Rung("g2_constant", "cuda"), Column("x", sparse.workloads), "nothing"), Gap)


def test_update_writes_the_table_and_check_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = part_of(sample_record.make(), FEW)
    source = sample_record.write(document, tmp_path / "record.json")
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{table.BEGIN}\nyesterday\n{table.END}\nafter\n")
    assert table.main([str(source), "--check", str(readme)]) == 1
    assert table.main([str(source), "--update", str(readme)]) == 0
    text = readme.read_text()
    assert text.startswith(f"before\n{table.BEGIN}\nExample GPU X1")
    assert text.endswith(f"{table.END}\nafter\n")
    assert "yesterday" not in text
    assert table.main([str(source), "--check", str(readme)]) == 0
    changed = copy.deepcopy(document)
    for row in changed["rows"]:
        if row["variant"] == "g5_fused" and row["samples_ms"]:
            row["reason"], row["status"] = "the clock fell.", "unstable"
    sample_record.write(changed, source)
    capsys.readouterr()
    assert table.main([str(source), "--check", str(readme)]) == 1
    assert "--update" in capsys.readouterr().err


def test_the_whole_run_is_told_before_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = sample_record.make()
    source = sample_record.write(document, tmp_path / "record.json")
    rows = [r for r in document["rows"] if r["scope"] == "end_to_end" and r["device"] != "simt" and r["status"] == "ok"]
    workload = rows[0]["workload"]
    best = min((r for r in rows if r["workload"] == workload), key=lambda r: r["median_ms"])
    assert table.main([str(source), "--workload", workload, "--whole-run", workload, "--markdown"]) == 0
    sentence = capsys.readouterr().out.splitlines()[0]
    assert f"by `{best['variant']}`" in sentence and f"**{number(best['median_ms'])}{SPACE}ms**" in sentence
    assert f"{best['validation']['rows_checked']:,} labels compared with fp64, 0 are wrong" in sentence
    best |= {"q1_ms": None, "q3_ms": None, "samples_ms": best["samples_ms"][:1]}  # few samples have no quartiles
    assert "quartiles" in sentence and "quartiles" not in table.whole_run(from_document(document, source), workload)
    assert table.main([str(source), "--whole-run", "nothing", "--markdown"]) == 2
    assert "has no valid end_to_end time on 'nothing'" in capsys.readouterr().err


def test_update_refuses_a_file_without_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = sample_record.write(part_of(sample_record.make(gpu=False), FEW), tmp_path / "record.json")
    readme = tmp_path / "README.md"
    readme.write_text("nothing here\n")
    assert table.main([str(source), "--update", str(readme)]) == 2
    assert readme.read_text() == "nothing here\n"
    assert "must hold the lines" in capsys.readouterr().err


def test_what_a_sample_of_labels_leaves_open_is_said() -> None:
    row = from_document(sample_record.make(), ROOT / "record.json").rows[0]
    seen = {"rows_checked": 1500, "labels_wrong": 0, "last_rows_checked": 1000}
    # 0.997^1000 is 0.0496: were 0.3 % of many labels wrong, a thousand right ones would be seen once in twenty times.
    assert f"at most 0.3{SPACE}% of them are" in table.labels_checked(replace(row, validation=seen), 50000)
    all_of_them = table.labels_checked(replace(row, validation=seen), 1000)
    assert (
        all_of_them.startswith("All 1,000 labels that it hands out, and 500 of its earlier") and "0 are" in all_of_them
    )
    old = {"rows_checked": 1500, "labels_wrong": 0}
    assert table.labels_checked(replace(row, validation=old), 1000).endswith("0 are wrong.")
    wrong = table.labels_checked(replace(row, validation=seen | {"labels_wrong": 3}), 50000)
    assert wrong == "Of 1,500 labels compared with fp64, 3 are wrong."


def test_the_run_of_the_same_history_whose_labels_were_all_checked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = sample_record.make()
    row = next(r for r in document["rows"] if r["scope"] == "end_to_end" and r["status"] == "ok" and r["reassigned"])
    name, points = row["workload"], next(w["n"] for w in document["workloads"] if w["name"] == row["workload"])
    source = sample_record.write(document, tmp_path / "record.json")
    monkeypatch.setattr(table, "committed", lambda: [source])
    record = from_document(document, source)
    of_it = next(r for r in record.rows if r.place == from_document(document | {"rows": [row]}, source).rows[0].place)

    def told(change: dict[str, Any], beside: str = "all.json", gpu: str = "") -> str:
        other = copy.deepcopy(document)
        other["rows"] = [copy.deepcopy(row) | change]
        other["rows"][0]["validation"] |= {"rows_checked": points + 70, "last_rows_checked": points}
        if gpu:
            other["context"]["gpu"]["name"] = gpu
        sample_record.write(other, tmp_path / beside)
        return table.labels_sentence(record, of_it, record.workloads[name])

    alone = table.labels_sentence(record, of_it, record.workloads[name])
    assert "of the same history" not in alone
    assert told({"inertia": [value * 1.001 for value in row["inertia"]]}) == alone
    assert told({}, gpu="Another") == alone
    assert told({}).startswith(
        f"All {points:,} labels that it hands out, and 70 of its earlier iterations, are compared"
    )
    assert told({}).endswith("0 are wrong (a run of the same history, in `all.json`).")
    monkeypatch.setattr(table, "committed", list)  # a record of one's own has no others beside it
    assert told({}) == alone


def test_rungs_that_share_a_history_are_counted() -> None:
    record = from_document(sample_record.make(), ROOT / "record.json")
    rows = [replace(r, reassigned=[9, 4, 1], inertia=[3.0, 2.0]) for r in record.rows if r.status == "ok"]
    first = rows[0]
    alike = len({r.variant for r in rows if r.workload == first.workload})
    text = table.one_history(Record(record.sources, record.workloads, rows), first.workload, first)
    assert alike > 1 and text.startswith(f"{alike} rungs have one history") and "each of the 3 iterations" in text
    rows[0] = first = replace(first, inertia=[3.0, 2.5])
    alone = [r for r in rows if r is first or r.variant != first.variant]
    assert not table.one_history(Record(record.sources, record.workloads, alone), first.workload, first)
