"""tests/tools/first_centroids.py and the page that plots/first_centroids_page.py makes of its result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BUILD, LADDER, ROOT

from plots import first_centroids_page as page
from plots.lib.inputs import InputError


def result(points: list[list[float]], **drawn: list[list[int]]) -> dict[str, Any]:
    """`drawn`: of each variant the pairs of rows that its seeds drew; Lloyd ends with the last point alone if drawn."""
    last = len(points) - 1
    return {
        "first_centroids": "",
        "context": {"git_sha": "a" * 40, "host": {"cpu": "X", "cores": 2}},
        "device": "simt",
        "solver": "s",
        "seeds": len(next(iter(drawn.values()))),
        "workloads": [
            {
                "name": "grapes_far",
                "k": 2,
                "points": points,
                "drawn": [
                    {
                        "variant": variant,
                        "rows": rows,
                        "iterations": [2 if last in pair else 9 for pair in rows],
                        "beside_far": [1 if last in pair else 3 for pair in rows],
                    }
                    for variant, rows in drawn.items()
                ],
            }
        ],
    }


SQUARE = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [30.0, 0.5]]


def test_chances_are_those_of_the_points() -> None:
    (example,) = page.examples_of(result(SQUARE, a=[[0, 1]], b=[[0, 4]]), "r.json")
    assert example.far == 4
    assert example.uniform == 40
    distance, mean = example.lengths
    assert (distance, mean) == (29.5, pytest.approx(0.5**0.5))
    # Drawn a hundred thousand times: the first with equal chances, the second by squared distances.
    draw = np.random.default_rng(1)
    first = draw.integers(5, size=100_000)
    x = np.array(SQUARE)
    weight = ((x[:, None] - x[None]) ** 2).sum(2)
    chance = np.where(first == 4, 1, weight[first, 4] / weight.sum(axis=1)[first])
    assert example.weighted(True) == pytest.approx(100 * chance.mean(), abs=0.05)
    assert example.weighted(False) < example.weighted(True)
    assert example.formula == pytest.approx(100 * (1 / 5 + 4 / 5 * distance / (distance + 5 * mean)))


def made(found: dict[str, Any]) -> str:
    text = page.markdown(page.examples_of(found, "r.json"), found, "x", Path("p.png"))
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_each_statement_of_the_source_has_a_verdict() -> None:
    rows = [[0, 1]] * 60 + [[0, 4]] * 40
    found = result(SQUARE, a=rows, b=[[0, 4]] * 100)
    text = made(found)
    assert "| `grapes_far` | `a` | 40 % | 30.3 to 50.3 % | 40 % | 40 % | 0 % | 2.0 | 9.0 |" in text
    assert "1 of 2 cases.* Holds: 40 %." in text
    assert "never ends with the far point alone.* Holds: it did so from 0 % of 60 such draws." in text
    found["workloads"][0]["drawn"][0]["beside_far"] = [1] * 100  # Lloyd finds it all the same
    other = made(found)
    assert "Does not hold: it did so from 100 % of 60 such draws." in other
    rare = result(SQUARE, a=[[0, 1]] * 99 + [[0, 4]], b=[[0, 4]] * 100)
    assert "Does not hold: 1 %." in made(rare)


def test_a_page_is_checked_against_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "r.json", tmp_path / "page.md"
    source.write_text(json.dumps(result(SQUARE, a=[[0, 1], [4, 2]], b=[[0, 4], [4, 1]])))
    assert page.main([str(source), "--update", str(out)]) == 0
    assert out.with_suffix(".png").is_file()
    assert page.main([str(source), "--check", str(out)]) == 0
    source.write_text(json.dumps(result(SQUARE, a=[[0, 1], [3, 2]], b=[[0, 4], [4, 1]])))
    assert page.main([str(source), "--check", str(out)]) == 1
    assert "is not what the records say" in capsys.readouterr().err


@pytest.mark.parametrize("lacking", ["workloads", "seeds", "points", "rows"])
def test_what_is_no_result_is_refused_in_a_sentence(tmp_path: Path, lacking: str) -> None:
    broken = result(SQUARE, a=[[0, 1]], b=[[0, 4]])
    for part in (broken, broken["workloads"][0], broken["workloads"][0]["drawn"][1]):
        part.pop(lacking, None)
    with pytest.raises(InputError, match=r"r\.json: is no result of tests/tools/first_centroids\.py"):
        page.examples_of(broken, "r.json")
    source = tmp_path / "r.json"
    source.write_text(json.dumps(result(SQUARE, a=[[0, 1]])))
    assert page.main([str(source), "--update", str(tmp_path / "page.md")]) == 2


def test_seeds_are_drawn_and_solved(tmp_path: Path) -> None:
    short = ["--device", "simt", "--scopes", "solve", "--min-time", "0", "--max-time", "0.01"]
    made = [LADDER, "run", "--workloads", "far_point_10", "--variants", "v01_global", *short]
    subprocess.run([*made, "--out", tmp_path / "record.json"], check=True, cwd=ROOT, capture_output=True)
    tool = [sys.executable, ROOT / "tests" / "tools" / "first_centroids.py", "--build", BUILD]
    out = tmp_path / "found.json"
    words = ["--workloads", "far_point_10", "--seeds", "3", "--out", out]
    done = subprocess.run([*tool, *words], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    (example,) = page.examples_of(json.loads(out.read_text()), "found.json")
    assert len(example.points) == 100 and example.far == 50 and example.times_as_far > 1000
    assert [d.variant for d in example.drawn] == ["i1_random", "i2_kmeanspp"]
    assert example.drawn[1].has_far.all() and all(d.alone.all() for d in example.drawn)
    again = subprocess.run(
        [*tool, "--seeds", "3", "--out", ROOT / "README.md"], capture_output=True, text=True, check=False
    )
    assert again.returncode == 2 and "is no result of this program" in again.stderr
