"""Rungs whose labels are those of the exact minimum, on data that is made to mislead them; and that the data would find
a bound that is too narrow, or a row that is not rechecked."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import exact_labels
import numpy as np
import pytest
from adversarial import ADVERSARIAL, Data, aligned, beyond_95_bits, near_ties, one_far_point
from conftest import BUILD, GPU_ONLY, ROOT, Ladder

PLANTED = "v25_refine"  # the rung whose copies get a fault


def of_few_points(make: Callable[[], Data]) -> Callable[[], Data]:
    """More than a block's 128: the CPU device takes long over some kernels, and more points take the same ways."""
    return functools.wraps(make)(lambda: make(rows=FEW_POINTS))


FEW_POINTS = 144
WHOLE = ADVERSARIAL if "LADDER_TEST_ALL" in os.environ else [near_ties]  # of which few points hold too few ties
SETS = [make if make in WHOLE else of_few_points(make) for make in ADVERSARIAL]


def run(ladder: Ladder, make: Callable[[], Data], variants: str, *words: str | Path, status: int = 0) -> list[dict]:
    for name, rows in zip(("points", "centroids"), make(), strict=True):
        np.save(ladder.folder / f"{name}.npy", rows.astype(np.float32))
    points, centroids = ladder.folder / "points.npy", ladder.folder / "centroids.npy"
    k = str(len(np.load(centroids)))
    chosen = ["--variants", variants, "--device", "simt", "--check", *words]
    return ladder.run(*chosen, "--data", points, "--init", centroids, "--k", k, "--stop", "fixed:1", status=status)[
        "rows"
    ]


@pytest.mark.parametrize("make", SETS, ids=lambda make: make.__name__)
def test_every_label_is_that_of_the_exact_minimum(ladder: Ladder, make: Callable[[], Data]) -> None:
    listed = json.loads(ladder("list", "--json").stdout)["variants"]
    exact = [card["id"] for card in listed if card.get("arithmetic") == "exact" and "simt" in card["devices"]]
    upon = (BUILD / "rungs_built_upon.txt").read_text().split()  # what these keep is tried through others
    exact = [variant for variant in exact if variant not in GPU_ONLY and variant not in upon]
    assert PLANTED in exact and len(exact) > 3
    refused = expect_checked(run(ladder, make, ",".join(exact)), exact)
    for variant, reason in refused.items():
        (source,) = ROOT.glob(f"variants/*/{variant}.cu")
        assert reason and ".refuse = " in source.read_text(), f"{variant} refuses without a limit in its card: {reason}"
    # Those that take few features or a small K x D: the same on the first features of the data. What takes no values
    # but those of fp16 refuses most of this data.
    narrow = [variant for variant, reason in refused.items() if "fp16" not in reason]
    if narrow:
        rows = run(ladder, lambda: tuple(part[:, :3] for part in make()), ",".join(narrow))
        assert not expect_checked(rows, narrow), "a rung was tried on nothing"


# One rung or more for each piece of code that compares exactly.
EXACT = (
    "v25_refine,v25a_*,v25e_*,v32_*,v32a_*,v38a_*,v42_*,v44a_*,v46_*,v03g_*,v03j_*,v04g_*,v04r_*,v05b_*,v05m_*,v05o_*"
)
DECISIVE = (
    "beyond_95_bits,intransitive_ties,lattice_2d,border_33_x_31,doubles_one_ulp,doubles_beyond_95_bits,"
    "doubles_too_low,beyond_165_digits"
)


def test_labels_are_those_of_whole_numbers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LADDER_BUILD", str(BUILD))
    words = ["--device", "simt", "--trials", "0", "--points", "45", "--no-axes"]
    assert exact_labels.main([*words, "--variants", EXACT, "--sets", DECISIVE]) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    for rung in ("v25_refine", "v03g_exact_labels", "v04g_exact", "v05b_box_pruning"):
        labels = re.search(rf"^{rung}: ([\d,]+) labels, ([\d,]+) of them in whole numbers too, 0 wrong", said, re.M)
        assert labels and all(int(count.replace(",", "")) > 0 for count in labels.groups()), said


def expect_checked(rows: list[dict], variants: list[str]) -> dict[str, str]:
    """That each of them is right, or refuses the points; who does so, and why."""
    # Who assigns and updates in one kernel refuses each of these scopes, and is validated all the same.
    rows = [row for row in rows if row["status"] != "refused" or row["validation"] is None]
    assert {row["variant"] for row in rows} == set(variants)
    refused = {row["variant"]: row["reason"] for row in rows if row["status"] == "refused"}
    rows = [row for row in rows if row["variant"] not in refused]
    assert {row["status"] for row in rows} == {"checked"}, [row["reason"] for row in rows]
    return refused


def test_doubles_are_refused_by_who_has_too_few_bits_and_taken_by_who_rechecks(ladder: Ladder) -> None:
    chosen = [
        "--workloads",
        "points2d_tiny",
        "--variants",
        f"v22_tensor_split,{PLANTED}",
        "--device",
        "simt",
        "--check",
    ]
    rows = {row["variant"]: row for row in ladder.run(*chosen)["rows"]}
    assert rows["v22_tensor_split"]["status"] == "refused"
    reason = rows["v22_tensor_split"]["reason"]
    assert reason == "has no f64 form: two halves hold 22 bits of a value, a double has 53"
    assert rows[PLANTED]["status"] == "checked"


def test_more_features_than_the_bounds_are_proven_for_are_refused(ladder: Ladder) -> None:
    (row, *_) = run(ladder, lambda: (np.eye(4, 65537), np.eye(2, 65537)), PLANTED, status=2)
    assert row["status"] == "refused"
    assert row["reason"] == "its bounds are proven for up to 65536 features, these points have 65537"


def one_place(rows: int = 160, seed: int = 11) -> Data:
    """Centroids that begin at the same place, and part."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 12)), np.repeat(rng.standard_normal((1, 12)), 100, axis=0)


@pytest.mark.parametrize("width", [32, 48, 64, 96, 128])
def test_distances_from_short_rows_are_right_as_the_rungs_are_compiled(ladder: Ladder, width: int) -> None:
    for name, rows in zip(("points", "centroids"), one_place(), strict=True):
        np.save(ladder.folder / f"{name}.npy", rows.astype(np.float32))
    # None but row 0 of the centroids has points at first; no row's distance is exact, as the bounds are not narrow.
    chosen = ["--variants", "v42_distance_bounds", "--device", "simt", "--check", "--stop", "fixed:4"]
    chosen += ["--data", ladder.folder / "points.npy", "--init", ladder.folder / "centroids.npy", "--k", "100"]
    rows = ladder.run(*chosen, "--axis", f"short_row_width={width}", "--axis", "slack_permille=60")["rows"]
    assert {row["status"] for row in rows} == {"checked"}, [row["reason"] for row in rows]


FLOATS = "v18_register_tile,v20_async_copy,v22_tensor_split"  # who add squared distances up in floats


def test_values_whose_squares_overflow_are_refused_by_row_and_column(ladder: Ladder) -> None:
    rows = run(ladder, one_far_point, FLOATS, status=2)
    assert {row["variant"] for row in rows} == set(FLOATS.split(","))
    for row in rows:
        assert row["status"] == "refused" and "row 100, column 0 holds 1.00000002e+30: " in row["reason"], row["reason"]
        assert "over 3 features" in row["reason"] and "overflow beyond 5.32511623e+18; " in row["reason"]
        tally = exact_labels.tally_of([row], "here")
        assert tally.refused == {row["variant"]: 1} and not tally.faults


def test_as_large_values_as_are_taken_have_the_labels_that_rounding_allows(ladder: Ladder) -> None:
    def corners() -> Data:
        signs = np.random.default_rng(1).choice([-1, 1], (300, 3))
        return signs * np.linspace(2.5e18, 5.325e18, 300)[:, None], np.eye(3) * 5.325e18

    rows = run(ladder, corners, FLOATS)
    assert {row["status"] for row in rows} == {"checked"}, [row["reason"] for row in rows]


def headers_of(source: Path, with_parts: bool = False) -> set[Path]:
    """The headers in variants/common that a file includes, directly or through others; also the .cu files beside them,
    and what these include, where asked."""
    seen: set[Path] = set()
    waiting = [source]
    while waiting:
        file = waiting.pop()
        for name in re.findall(r'^#include "(.+)"$', file.read_text(), re.MULTILINE):
            included = (file.parent / name).resolve()
            part = included.with_suffix(".cu")
            found = {included, part} if with_parts and part.exists() else {included}
            if "common" in included.parts:
                waiting += found - seen
                seen |= found
    return seen


def parts_of(source: Path) -> list[Path]:
    """The .cu files beside the headers that a file includes, directly or through others."""
    return sorted(file for file in headers_of(source, with_parts=True) if file.suffix == ".cu")


Fault = tuple[str, str, str]
MARK = "planted fault "  # and a digit, in a module: that of the fault in turn that is there


def in_turn(digit: int, fault: Fault) -> Fault:
    """One expression in the place of another, but only in what with_fault() makes of the module: compiled once, it has
    several faults."""
    file, right, wrong = fault
    return file, right, rf"(planted_fault[{len(MARK)}] == '{digit}' ? ({wrong}) : (\g<0>))"


def with_fault(digit: int, modules: Path, folder: Path) -> Path:
    """The module of faulty_copy() with the fault of that digit."""
    shutil.copytree(modules, folder)
    module = folder / "simt" / "faulty.so"
    code = module.read_bytes()
    none = f"{MARK}0".encode()
    assert code.count(none) == 1
    module.write_bytes(code.replace(none, f"{MARK}{digit}".encode()))
    return folder


def faulty_copy(folder: Path, faults: list[Fault], planted: str = PLANTED) -> Path:
    """Builds a copy of the planted rung, called `faulty`, and returns the folder of its module. A fault is a file below
    variants/common (or faulty.cu), a regular expression that matches once in it, and its replacement."""
    common = folder / "variants" / "common"
    shutil.copytree(ROOT / "variants" / "common", common)
    (folder / "harness").symlink_to(ROOT / "harness")
    (original,) = ROOT.glob(f"variants/*/{planted}.cu")
    copy = folder / "variants" / original.parent.name / "faulty.cu"
    copy.parent.mkdir()
    copy.write_text(original.read_text().replace(planted, "faulty"))
    for name, right, wrong in faults:
        file = copy if name == copy.name else common / name
        text = file.read_text()
        faulty, count = re.subn(right, wrong, text)
        assert count == 1, f"{name} matches `{right}` {count} times"
        file.write_text(faulty)
    sources = []
    changed = {copy, *(common / name for name, *_ in faults)}
    for number, file in enumerate([copy, *parts_of(copy)]):
        built = BUILD / "CMakeFiles" / f"simt_part_{file.stem}.dir" / "wrappers" / "parts" / f"{file.stem}.cpp.o"
        if built.exists() and not changed & {file, *headers_of(file)}:
            sources.append(built)
            continue
        sources.append(folder / f"source{number}.cpp")
        sources[-1].write_text(f'inline const volatile char planted_fault[] = "{MARK}0";\n#include "{file}"\n')
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if Path(entry["file"]).name == f"{planted}.cpp" and "/simt/" in entry["file"]:
            break
    else:
        pytest.fail(f"{planted} is not in {BUILD / 'compile_commands.json'}")
    (folder / "built" / "simt").mkdir(parents=True)
    module = folder / "built" / "simt" / "faulty.so"
    command = [word for word in shlex.split(entry["command"]) if word != "ccache"]
    command = [*command[: command.index("-o")], "-Og", "-shared", "-o", module, *sources]
    subprocess.run(command, cwd=entry["directory"], check=True)
    subprocess.run([BUILD / "ladder_worker_simt", "card", module, "simt", module.with_suffix(".json")], check=True)
    (folder / "built" / "expected.txt").write_text("simt/faulty\n")
    return folder / "built"


FAULTS = {
    "a_bound_half_as_wide": (
        of_few_points(aligned),
        ("certified/error_bound.cuh", r"\(slack > (\w+) \? slack : \1\)(?= \*)", r"\g<0> / 2"),
    ),
    "a_list_without_its_last_row": (
        near_ties,
        ("certified/refine.cu", r"(?<=< )\w+->pairs(?=;)", r"\g<0> - 1"),
    ),
    "pairs_that_double_double_leaves_open_count_as_ties": (
        of_few_points(beyond_95_bits),
        ("device/exact_order.cuh", r"(?<=int sign = )order\(.*?\)(?=;)", r"0 * \g<0>"),
    ),
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faults = [in_turn(digit, fault) for digit, (_, fault) in enumerate(FAULTS.values(), 1)]
    return faulty_copy(tmp_path_factory.mktemp("faults") / "copy", faults)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(
    ladder: Ladder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: Path, name: str
) -> None:
    make, _ = FAULTS[name]
    (row, *_) = run(ladder, make, "faulty", "--modules", modules)
    assert row["status"] == "checked", row["reason"]
    modules = with_fault(1 + list(FAULTS).index(name), modules, tmp_path / "modules")
    (row, *_) = run(ladder, make, "faulty", "--modules", modules, status=1)
    assert row["status"] == "invalid", row["reason"]
    # And by the command that counts labels.
    monkeypatch.setenv("LADDER_BUILD", str(BUILD))
    words = ["--device", "simt", "--variants", "faulty", "--sets", make.__name__, "--trials", "0", "--modules"]
    assert exact_labels.main([*words, str(modules)]) == 1
