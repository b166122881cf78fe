"""`ladder count`: counts that paper and pencil give, the committed counts anew, and refusals in a sentence."""

from __future__ import annotations

import json
import re
from math import ceil

import pytest
from conftest import BUILD, ROOT, Ladder

from plots import counting_page

N, D, K = 2000, 48, 40  # kmcuda_tiny
WARPS = ceil(N / 32)
MULTIPROCESSORS = 132  # of the GPU of the later profiles


def assign(ladder: Ladder, rung: str, *words: str) -> dict:
    done = ladder("count", rung, "--scopes", "assign", "--json", *words)
    assert done.returncode == 0, done.stderr
    (count,) = json.loads(done.stdout)["counts"]
    (scope,) = count["scopes"]
    (kernel,) = (kernel for kernel in scope["kernels"] if kernel["name"].startswith("assign"))
    return kernel


@pytest.mark.parametrize(
    ("rung", "sectors"),
    [
        ("v01_global", (N / WARPS + 1) / 2),  # of a point's coordinate one for each thread, of a centroid's one for all
        ("v05_soa", (N / 8 / WARPS + 1) / 2),  # of coordinates side by side one for eight threads
    ],
)
def test_one_thread_per_point_loads_two_words_for_each_multiply_add(ladder: Ladder, rung: str, sectors: float) -> None:
    kernel = assign(ladder, rung, "--lines")
    counted = kernel["metrics"]
    assert counted["load_requests"] == 2 * WARPS * K * D
    assert counted["sectors_per_load"] == pytest.approx(sectors)
    assert (counted["store_requests"], counted["sectors_per_store"]) == (WARPS, pytest.approx(N / 8 / WARPS))
    assert (counted["fadd"], counted["ffma"], counted["fmul"]) == (N * K * D, N * K * D, 0)
    loads = [line for line in kernel["lines"] if line["what"] == "global_load_4"]
    text = (ROOT / loads[0]["file"]).read_text().splitlines()[loads[0]["line"] - 1]
    assert len(loads) == 1 and "const T diff" in text, "both loads are in one line of the source"
    committed = counting_page.counted_kernels(json.loads(counting_page.COUNTS.read_text()))
    (before,) = (value for key, value in committed.items() if key[0] == rung and key[2] == "assign")
    assert counted == before, "the committed counts say something else: python -m plots.counting_page --count"


def test_neighbouring_loads_are_counted_as_nvcc_joins_them(ladder: Ladder) -> None:
    kernel = assign(ladder, "v09_register_reuse", "--lines")
    multiply_adds = ceil(N / 256) * 256 * ceil(K / 16) * 16 * D
    counted = kernel["metrics"]
    assert counted["ffma"] == multiply_adds
    assert counted["shared_load_requests"] == multiply_adds / 32 / 4, "four floats each"
    assert counted["wavefronts_load"] == 2 * counted["shared_load_requests"], "16 bytes take two passes"
    assert [line["requests"] for line in kernel["lines"] if line["what"].startswith("shared_load")] == [
        counted["shared_load_requests"]
    ]
    profiled = next(
        k["metrics"]
        for p in counting_page.profiles()
        for k in p["kernels"]
        if (p["variant"], p["scope"], k["name"]) == ("v09_register_reuse", "assign", kernel["name"])
    )
    for name in ("shared_load_requests", "wavefronts_load", "load_requests"):
        assert counted[name] == profiled[name]


def test_what_depends_on_the_data_is_counted_the_same_each_time(ladder: Ladder) -> None:
    def conflicts() -> list[float]:  # of an update: they depend on the labels, and those on where the sample starts
        done = ladder("count", "v03_device_update", "--scopes", "update", "--json")
        (count,) = json.loads(done.stdout)["counts"]
        return [kernel["metrics"].get("steps_per_global_atomic") for kernel in count["scopes"][0]["kernels"]]

    first = conflicts()
    assert max(filter(None, first)) > 1
    assert first == conflicts()


def test_the_page_says_what_the_records_say() -> None:
    assert counting_page.main(["--check", str(ROOT / "docs" / "counting.md")]) == 0


def held(which: counting_page.Held) -> list[counting_page.Value]:
    """The values of a set; the page has a reason for each that differs (test_the_page_says_what_the_records_say)."""
    found = counting_page.values(json.loads(which.counts.read_text()), which)
    assert {v.rung for v in found} == {p["variant"] for p in counting_page.profiles(which)}
    return found


def determined(found: list[counting_page.Value]) -> list[counting_page.Value]:
    return [v for v in found if not v.is_estimate]


def test_committed_counts_and_profiles_are_of_todays_text(ladder: Ladder) -> None:
    """A profile whose rung has another text today says nothing of it: its rows are taken out, or made anew."""
    listed = json.loads(ladder("list", "--json", "--texts").stdout)["variants"]
    today = {variant["id"]: variant["text_hash"] for variant in listed}
    for part, files in (("counts", "cpu/counts*.json"), ("profiles", "*/*profile*.json")):
        for path in sorted((ROOT / "results").glob(files)):
            found = json.loads(path.read_text())[part]
            dated = {entry["variant"]: entry["source_hash"] for entry in found if entry.get("source_hash")}
            stale = [name for name, text in dated.items() if name in today and today[name] != text]
            assert not stale, f"{path}: of an earlier text: {', '.join(stale)}"


def test_nearly_all_values_are_those_of_nsight_compute() -> None:
    found = held(counting_page.FIRST)
    assert counting_page.share(found) >= 0.99
    assert sum(not v.equal for v in determined(found)) <= 3


def test_values_of_later_rungs_are_those_of_nsight_compute() -> None:
    found = held(counting_page.LATER)
    quantized = [v for v in found if v.kernel.startswith("quantize_kernel")]
    others = [v for v in found if v not in quantized]
    assert counting_page.share(others) >= 0.99
    assert sum(not v.equal for v in determined(others)) <= 2
    # A single addition for each row of the centroids lies elsewhere in ptxas' schedule.
    assert {v.counter for v in quantized if not v.equal} == {"dadd"} < {v.counter for v in quantized}


def test_rungs_that_reuse_an_iteration_are_held() -> None:
    which = counting_page.PRUNING
    found = held(which)
    assert counting_page.share(found) >= 0.98
    kernels = {name.split("<")[0] for _, _, _, name, _, _ in counting_page.kernels_of(counting_page.profiles(which))}
    left_out = {pattern.rstrip("*") for pattern in which.other_work}
    # Each stands for a kernel that was profiled, and comes behind one that the CPU device does not have.
    assert left_out < kernels and "argmax_kernel" in kernels
    assert not left_out & {v.kernel.split("<")[0] for v in found}


def test_initialisations_are_held() -> None:
    which = counting_page.INITIALISING
    found = held(which)
    assert {v.rung for v in found} == {"i2_kmeanspp", "i3_afkmc2"}
    assert counting_page.share(found) >= 0.98 and not any(v.is_estimate for v in found)
    # All launches: each draws a centroid, and the first is drawn before.
    document = json.loads(which.counts.read_text())
    counted = {
        (c["variant"], k["name"]): k["launches"] for c in document["counts"] for s in c["scopes"] for k in s["kernels"]
    }
    profiled = {(p["variant"], k["name"]): k["launches"] for p in counting_page.profiles(which) for k in p["kernels"]}
    assert counted == profiled and counted["i2_kmeanspp", "pick_kernel<float>"] == 39


def test_a_kernel_is_the_same_with_and_without_the_namespace_that_all_share() -> None:
    assert counting_page.plain("add<float, ladder::certified::Rows>") == "add<float, certified::Rows>"
    profiled = {k[3] for k in counting_page.kernels_of(counting_page.profiles(counting_page.LATER))}
    assert "quantize_kernel<float, certified::CentroidRows>" in profiled & {v.kernel for v in held(counting_page.LATER)}


def test_grids_as_large_as_the_gpu_are_held() -> None:
    found = held(counting_page.FILLING)
    document = json.loads(counting_page.FILLING.counts.read_text())
    assert {c["multiprocessors"] for c in document["counts"]} == {MULTIPROCESSORS}
    assert counting_page.share(determined(found)) >= 0.97
    # Arithmetic, and atomics, those of barriers of the grid among them, are the GPU's.
    exact = [v for v in found if v.counter in ("fadd", "ffma", "dadd", "dmul", "dfma", "global_atomics")]
    assert len(exact) > 100 and all(v.equal for v in exact)


def test_of_all_sets_98_of_100_values_are_equal() -> None:
    found = [v for which in counting_page.ALL for v in held(which)]
    assert counting_page.share(found) >= 0.98
    assert counting_page.share(determined(found)) >= 0.99


def test_an_estimate_is_equal_within_what_several_profiles_have_and_nothing_else_is() -> None:
    for again, is_estimate, equal in (((110.0,), True, True), ((), True, False), ((104.0,), True, False)):
        value = counting_page.Value("any", "any", "dadd", 100.0, 108.0, 100.0, again, is_estimate)
        assert value.equal == equal
    found = [v for which in counting_page.ALL for v in held(which)]
    assert all(bool(v.again) == v.is_estimate for v in found if v.is_estimate or v.again)


def solve_kernel(ladder: Ladder, rung: str, multiprocessors: int) -> dict:
    words = ("--workload", "wine_tiny", "--scopes", "iteration", "--multiprocessors", str(multiprocessors), "--json")
    done = ladder("count", rung, *words)
    assert done.returncode == 0, done.stderr
    (count,) = json.loads(done.stdout)["counts"]
    assert count["multiprocessors"] == multiprocessors
    return count["scopes"][0]["kernels"][0]


def test_a_barrier_of_the_grid_is_an_atomic_of_each_block_and_loads_that_are_an_estimate(ladder: Ladder) -> None:
    """On more multiprocessors the grid is larger. Each warp that has points adds their features and counts."""
    few, many = (solve_kernel(ladder, "v03a_one_launch", multiprocessors) for multiprocessors in (7, 13))
    assert (few["grid"][0], many["grid"][0]) == (7, 13)
    barriers = 2
    for kernel in (few, many):
        assert set(kernel["estimates"]) == {"load_requests", "sectors_per_load"}
        assert kernel["metrics"]["barriers"] == barriers * 2 * kernel["grid"][0] * kernel["block"][0] / 32
    atomics = few["metrics"]["global_atomics"], many["metrics"]["global_atomics"]
    warps = [sum(ceil(share / 32) for share in shares(kernel["grid"][0])) for kernel in (few, many)]
    features, counts = 11 + 1, 1
    for counted, kernel, of_points in zip(atomics, (few, many), warps, strict=True):
        assert counted == barriers * kernel["grid"][0] + (features + counts) * of_points


def shares(blocks: int) -> list[int]:
    """Points of each block."""
    points = 1625
    return [points * (b + 1) // blocks - points * b // blocks for b in range(blocks)]


def test_a_barrier_of_a_cluster_is_neither_atomic_nor_load(ladder: Ladder) -> None:
    """A barrier of a cluster is an instruction, whose waits are no loads."""
    assert "estimates" not in solve_kernel(ladder, "v03j_short_division", 132)
    kernel = solve_kernel(ladder, "v03k_cluster_messages", 132)
    assert kernel["metrics"]["global_atomics"] == 0 and "estimates" not in kernel


def test_messages_between_blocks_are_no_stores(ladder: Ladder) -> None:
    counted, blocks = solve_kernel(ladder, "v03k_cluster_messages", 132)["metrics"], 16
    labels = sum(ceil(share / 32) for share in shares(blocks))
    sums, centroids, changed = blocks, ceil(16 * 11 / 32), 1
    assert counted["store_requests"] == labels + sums + centroids + changed


def test_what_depends_on_timing_is_an_estimate_and_says_so(ladder: Ladder) -> None:
    """Additions of doubles to shared memory: warps of a block repeat them until none came between."""
    done = ladder("count", "v04_shared_update", "--scopes", "update")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert re.search(r"shared ~[\d,]+ .* turns for an addition ~[\d.]+\n", text) and re.search(r"DADD ~[\d,]+\n", text)
    assert text.count("~ an estimate: ") == 1, "of one kernel; that which divides has none"
    for which in (counting_page.FIRST, counting_page.LATER):
        estimates = [v for v in held(which) if v.is_estimate]
        assert {v.counter for v in estimates} == {"shared_atomics", "dadd", "wavefronts_load", "bank_conflicts_load"}
        assert all(v.least - 0.15 * v.scale <= v.cpu <= v.most + 0.15 * v.scale for v in estimates)


def test_an_addition_to_shared_memory_takes_a_turn_for_each_lane_in_the_same_bank(ladder: Ladder) -> None:
    """Rows of 48 doubles begin in the same bank: in each half of a warp 16 lanes wait for each other."""
    done = ladder("count", "v04_shared_update", "--scopes", "update", "--json")
    kernels = json.loads(done.stdout)["counts"][0]["scopes"][0]["kernels"]
    (metrics,) = (k["metrics"] for k in kernels if k["name"].startswith("sum_shared"))
    assert 16 < metrics["turns_per_shared_update"] < 18
    assert (1 + 16) / 2 < metrics["dadd"] / (N * D) < 9.5


def test_what_a_loop_repeats_with_the_same_operands_is_counted_before_it(ladder: Ladder) -> None:
    """A box's 128 points of two coordinates are scaled once, and not for each label."""
    done = ladder("count", "v05d_warp_sums", "--workload", "points2d_tiny", "--scopes", "update", "--json")
    kernels = json.loads(done.stdout)["counts"][0]["scopes"][0]["kernels"]
    (metrics,) = (k["metrics"] for k in kernels if k["name"].startswith("sum_boxes"))
    assert metrics["dmul"] == ceil(1500 / 128) * 128 * 2


def test_rounds_of_an_unrolled_loop_that_are_over_run_by_themselves(ladder: Ladder) -> None:
    """100 features: 28 lanes take 3 rounds, then 4 lanes take 4 at once, in each of two loops over features."""
    done = ladder("count", "v25g_one_finish", "--workload", "halves_tiny", "--scopes", "iteration", "--json")
    assert done.returncode == 0, done.stderr
    kernels = json.loads(done.stdout)["counts"][0]["scopes"][0]["kernels"]
    (metrics,) = (k["metrics"] for k in kernels if k["name"].startswith("finish"))
    centroids, rounds, pairs = 10, 3 + 4, 2 * 2
    loads = 1 + rounds + 5 + 2 * rounds + 2 * pairs  # count, sums, exponents, and twice a mean and its centre
    assert metrics["load_requests"] == centroids * loads


def test_an_estimate_is_no_reason_for_a_large_difference() -> None:
    for gpu, reason in ((90.0, True), (70.0, False)):
        value = counting_page.Value("any", "sum_shared_kernel<float>", "shared_atomics", gpu, 100.0, gpu)
        assert not value.equal and bool(value.reason()) == reason


def test_a_difference_without_a_reason_ends_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(counting_page.COUNTS.read_text())
    for kernel in (k for c in document["counts"] for s in c["scopes"] for k in s["kernels"]):
        kernel["metrics"]["load_requests"] *= 1.5
    with pytest.raises(counting_page.InputError, match=r"REASONS .* has no reason for it"):
        counting_page.table(document)


def test_a_module_is_compiled_before_it_is_asked_for(ladder: Ladder) -> None:
    module = BUILD / "counted" / "f32" / "m1_distance_matrix.so"
    module.unlink(missing_ok=True)
    done = ladder("count", "m1_distance_matrix", "--build-only")
    assert (done.returncode, done.stdout) == (0, "") and module.exists()
    made = module.stat().st_mtime_ns
    done = ladder("count", "m1_distance_matrix")
    assert done.returncode == 0 and module.stat().st_mtime_ns == made, "it is not compiled twice"


def test_products_on_tensor_cores_are_not_counted(ladder: Ladder) -> None:
    """What the CPU device does in their place is ordinary arithmetic, with words that lanes exchange."""
    metrics = assign(ladder, "v22_tensor_split")["metrics"]
    rows = 32 * WARPS  # of whole warps: a distance scales each product once
    assert metrics["fmul"] == rows * K and metrics["bank_conflicts_load"] == 0
    assert metrics["fadd"] + metrics["ffma"] < 4 * rows * K


def test_neighbours_in_a_static_array_are_loaded_at_once(ladder: Ladder) -> None:
    """Eight values for a thread, in two loads of 16 bytes; those of centroids begin 32 bytes apart, two to a bank."""
    metrics = assign(ladder, "v15_block_tile")["metrics"]
    warps_and_features = ceil(N / 128) * 8 * D
    assert metrics["bank_conflicts_load"] == 8 * warps_and_features
    assert metrics["shared_load_requests"] == 4 * warps_and_features


def test_a_structure_is_loaded_once(ladder: Ladder) -> None:
    """16 points and 8 centroids of a feature in pieces of 16 bytes, which g++ copies and reads once more."""
    metrics = assign(ladder, "v18_register_tile")["metrics"]
    per_feature = (metrics["ffma"] / 32) / (16 * 8)  # times that a warp multiplies all of them
    neighbours = 2 * 16 * ceil(N / 128) * 4 / 2  # of half the warps: distance and centroid that another warp found
    assert metrics["shared_load_requests"] == (16 + 8) / 4 * per_feature + neighbours


def test_steps_of_library_functions_are_those_of_nvcc(ladder: Ladder) -> None:
    """A row's scale, a power of two, takes four products in each lane, and its inverse four in the first. Sums that
    nothing reads are left out with their shuffles."""
    done = ladder("count", "v22_tensor_split", "--scopes", "assign", "--json")
    assert done.returncode == 0, done.stderr
    kernels = json.loads(done.stdout)["counts"][0]["scopes"][0]["kernels"]
    (metrics,) = (k["metrics"] for k in kernels if k["name"] == "split_kernel")
    rows, words = 128, 32  # 40 centroids padded to a tile; a lane has one word of two halves
    assert (metrics["fmul"], metrics["dfma"]) == (4 * rows, 0)
    halves = 2 * words * rows
    assert metrics["dmul"] == 4 * 32 * rows + rows * D + halves
    assert metrics["dadd"] == halves + 32 * K, "what the high halves leave, and an absolute value for the exponent"
    assert metrics["warp_operations"] == 5 * rows, "one maximum over the warp"


def test_functions_are_a_part_of_the_kernel(ladder: Ladder) -> None:
    """A large function with another as its argument: a centroid is loaded once for the four points of a lane."""
    kernel = assign(ladder, "v05d_warp_sums", "--workload", "points2d_tiny", "--lines")
    distance = "const double difference = double(x[f]) - double(c[f]);"
    (loads,) = (
        line["requests"]
        for line in kernel["lines"]
        if line["what"] == "global_load_8"
        and (ROOT / line["file"]).read_text().splitlines()[line["line"] - 1].strip() == distance
    )
    boxes, centroids, tests = ceil(1500 / 128), 20, 12  # additions of a box's tests of a centroid
    assert kernel["metrics"]["dadd"] == 4 * 32 * loads + boxes * centroids * tests


def test_arithmetic_stays_behind_the_branch_whose_sides_lead_to_it(ladder: Ladder) -> None:
    """A square of a coordinate, or of a 0 that stands in its place: a multiply-add in either case."""
    done = ladder("count", "v04a_csr", "--workload", "sparse_tiny", "--scopes", "assign", "--json")
    assert done.returncode == 0, done.stderr
    kernels = json.loads(done.stdout)["counts"][0]["scopes"][0]["kernels"]
    (metrics,) = (k["metrics"] for k in kernels if k["name"].startswith("centroids_kernel"))
    centroids, features = 8, 123
    assert metrics["ffma"] == centroids * features
    assert (metrics["fadd"], metrics["fmul"]) == (0, 0)


def test_both_sides_of_a_branch_load_what_both_need(ladder: Ladder) -> None:
    """A warp whose lanes part loads the number of rows twice: as often as the GPU's."""
    words = ("--workload", "kmcuda_tiny", "--scopes", "iteration", "--multiprocessors", str(MULTIPROCESSORS))
    done = ladder("count", "v07b_register_block", *words, "--json")
    assert done.returncode == 0, done.stderr
    counted = counting_page.counted_kernels(json.loads(done.stdout))
    profiled = counting_page.kernels_of(counting_page.profiles(counting_page.LATER))
    (place,) = (place for place in counted if place[3].startswith("fused_kernel"))
    assert counted[place]["wavefronts_load"] == profiled[place]["wavefronts_load"] == 95_578


def test_sums_and_quotients_of_doubles_have_the_steps_of_nvcc(ladder: Ladder) -> None:
    """A mean is a sum of two products that is rounded by itself, a multiply-add, two sums and a quotient, which takes
    longer where it is 0 / b: as columns are in which no row of a cluster has a value."""
    done = ladder("count", "v04e_fused_sums", "--workload", "sparse_tiny", "--scopes", "iteration", "--json")
    assert done.returncode == 0, done.stderr
    kernels = json.loads(done.stdout)["counts"][0]["scopes"][0]["kernels"]
    (metrics,) = (k["metrics"] for k in kernels if k["name"].startswith("means_kernel"))
    means = metrics["dadd"] / (6 + 2)
    zeros = metrics["dmul"] - (2 + 1) * means
    assert 0 < zeros < means
    assert metrics["dfma"] == (1 + 7) * means + 8 * zeros


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("no_such_rung",), "no variant matches 'no_such_rung'"),
        (("v05_soa", "--workload", "none"), "no workload matches 'none'"),
        (("v05_soa", "--multiprocessors", "0"), "--multiprocessors: Value 0 not in range"),
        (("v01a_constant", "--workload", "kmcuda_tiny", "--scopes", "nothing"), "scope 'nothing' is unknown"),
        (("v13b_cublas",), "v13b_cublas has no form for the CPU device"),
        (("c0_serial",), "c0_serial has no CUDA text to count"),
        (("v14a_angular", "--workload", "kmcuda_tiny"), "v14a_angular refuses kmcuda_tiny"),
        (("v26_wgmma",), "v26_wgmma refuses kmcuda_tiny: its products are those of warpgroups"),
    ],
)
def test_what_cannot_be_counted_is_said_in_a_sentence(ladder: Ladder, words: tuple[str, ...], says: str) -> None:
    done = ladder("count", *words)
    assert done.returncode == 2
    assert says in done.stderr and len(done.stderr.strip().splitlines()[-1]) < 300
