"""plots/libraries_page.py: libraries beside the fastest rung, from two records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plots import libraries_page
from plots.lib import schema, short
from plots.lib.record import ROOT, from_document


def test_times_are_slopes_and_failures_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(libraries_page.USUAL[1][0].read_text())
    for row in document["rows"]:
        if (row["variant"], row["scope"]) == ("p_cuvs", "solve") and row["workload"] in ("kmcuda_5", "kmcuda_15"):
            ms = 100.0 if row["workload"] == "kmcuda_5" else 350.0
            factor = row["median_ms"] / ms
            row |= {key: factor * row[key] for key in ("gflops", "gbs", "roof_percent")}
            row |= {"median_ms": ms, "samples_ms": [ms] * len(row["samples_ms"]), "q1_ms": None, "q3_ms": None}
        if (row["variant"], row["workload"], row["scope"]) == ("p_torch", "kmcuda_15", "solve"):
            row["validation"]["note"] = "its path is not reproducible"
    path = tmp_path / "libraries.json"
    path.write_text(json.dumps(document))
    page = tmp_path / "libraries.md"
    assert libraries_page.main([str(path), "--update", str(page)]) == 0
    lines = page.read_text().replace("\N{NO-BREAK SPACE}", " ").splitlines()
    problem = lines[next(i for i, line in enumerate(lines) if line.startswith("**`kmcuda_15`")) :]
    cuvs = next(line for line in problem if "p_cuvs" in line)
    assert "| 25.0 ms |" in cuvs, "250 ms more for ten iterations more"
    assert "its path is not reproducible" in next(line for line in problem if "p_torch" in line)
    assert any("failed: solve raised" in line and "blobs" not in line for line in lines)
    assert not any("cold start" in line for line in lines), "the record has none"
    assert not any(line.startswith("**`map_") for line in lines), "this record has no rung on the map"
    # A row that a second record has, too, is there once, as the first has it.
    other = tmp_path / "more.json"
    other.write_text(json.dumps(document | {"rows": [r for r in document["rows"] if r["variant"] == "p_cuvs"]}))
    assert libraries_page.main([str(path), str(other), "--update", str(tmp_path / "both.md")]) == 0
    both = (tmp_path / "both.md").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert [line for line in both.splitlines() if line.startswith("|")] == [x for x in lines if x.startswith("|")]
    page.write_text("else")
    assert libraries_page.main([str(path), "--check", str(page)]) == 1
    document["rows"] = [row for row in document["rows"] if not row["workload"].endswith("_5")]
    path.write_text(json.dumps(document))
    capsys.readouterr()
    assert libraries_page.main([str(path), "--check", str(page)]) == 2
    assert "two numbers of iterations" in capsys.readouterr().err


def test_libraries_on_the_host_have_lines_of_their_own(tmp_path: Path) -> None:
    document = json.loads(libraries_page.USUAL[1][0].read_text())
    more = []
    for row in document["rows"]:
        if (row["variant"], row["scope"]) == ("p_faiss", "solve") and row["workload"] in ("kmcuda_5", "kmcuda_15"):
            ms = 9000.0 if row["workload"] == "kmcuda_5" else 29000.0
            more.append(row | {"device": "cpu", "median_ms": ms, "key": row["key"] + " cpu"})
        if (row["variant"], row["scope"], row["workload"]) == ("v46_graph_loop", "solve", "kmcuda_15"):
            more.append(row | {"device": "cpu", "median_ms": 1.0, "key": row["key"] + " cpu"})  # no library
    document["rows"] += more
    record = from_document(document, tmp_path / "libraries.json")
    lines = [line.replace("\N{NO-BREAK SPACE}", " ") for line in libraries_page.problem_table(record, "kmcuda_15")]
    cores = document["context"]["host"]["cores"]
    assert f"On the CPU: {cores} cores of " in lines[0]
    on_the_cpu = [line for line in lines if "` on the CPU |" in line]
    assert len(on_the_cpu) == 1 and "| `p_faiss` on the CPU |" in on_the_cpu[0] and "| 2,000 ms |" in on_the_cpu[0]
    assert sum("| `p_faiss` |" in line for line in lines) == 1
    assert "On the CPU" not in libraries_page.problem_table(record, "mnist_k1000_15")[0]


def test_a_longer_solve_without_libraries_is_no_problem_of_the_page() -> None:
    record = schema.load(ROOT / "results" / "nvidia-h200" / "record.json")
    assert record.workloads["kmcuda_300"].stop == "fixed:300"
    assert set(libraries_page.problems(record)) == {"kmcuda_15", "kmcuda_isotropic_15", "mnist_k1000_15"}


def test_of_a_record_of_all_rungs_the_main_steps_have_cold_starts_on_the_page() -> None:
    record = schema.load(ROOT / "results" / "nvidia-h200" / "record.json")
    wanted = libraries_page.main_steps(record)
    workloads = {name for _, name in wanted}
    lines = [line for line in libraries_page.cold_rows(record, wanted) if line.startswith("| `")]
    every = [line for line in libraries_page.cold_rows(record) if line.startswith("| `")]
    assert len(workloads) < len(lines) <= 20 < len(every) and set(lines) < set(every)
    for name in workloads:
        best, _ = short.fastest(record, name)
        assert any(f"`{best.variant}` | `{name}`" in line for line in lines)
