"""run_all.sh with stand-ins for the tools it calls: what it says and how it ends when something is missing or fails."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD

# The stand-in record is checked and drawn only where run_all.sh finds what that takes.
for module in ("numpy", "jsonschema_rs", "matplotlib"):
    pytest.importorskip(module)

ROOT = Path(__file__).resolve().parents[2]
PLAIN_TOOLS = (
    *("bash", "basename", "cat", "dirname", "env", "find", "grep", "head", "mkdir", "nproc", "printf", "rm", "sed"),
    *("sha256sum", "sort", "tail", "touch", "tr", "xargs"),
)

CMAKE = """#!/bin/bash
echo "$@" >>"$PWD/cmake-calls"
if [[ $1 == --build ]]; then echo build >>"$PWD/calls"; fi
case $1 in
  --version) echo "cmake version 3.28.3" ;;
  --preset) echo "-- Build files have been written to: $PWD/build" ;;
  --build) cat "$PWD/build-output" 2>/dev/null && exit 1; exit 0 ;;
esac
"""
LADDER = """#!/bin/bash
echo "$@" >>"$PWD/calls"
case $1 in
  list) echo '{"variants": [{"devices": ["cuda"]}], "workloads": [], "devices": [DEVICES]}' ;;
  run) echo '{}' >results/latest/record.json; exit STATUS ;;
  show) echo "the short table" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with run_all.sh, a built ladder that only writes down its calls, and plots that only leave a mark."""
    for name in ("run_all.sh", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in PLAIN_TOOLS:
        (tools / name).symlink_to(shutil.which(name))
    (tmp_path / "build").mkdir()
    (tmp_path / "plots").mkdir()
    for name in ("check", "draw", "seeds_page", "slides"):
        script = f"import sys\nopen('{name}.done', 'w').write(' '.join(sys.argv[1:]))\n"
        (tmp_path / "plots" / f"{name}.py").write_text(script)
    put(tools / "cmake", CMAKE)
    (tmp_path / "plots" / "explorer").mkdir()
    (tmp_path / "plots" / "explorer" / "page.py").write_text("import sys\nopen(sys.argv[3], 'w').close()\n")
    put_ladder(tmp_path)
    return tmp_path


def put(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)


def put_ladder(checkout: Path, devices: str = '{"kind": "simt"}', status: int = 0) -> None:
    put(checkout / "build" / "ladder", LADDER.replace("DEVICES", devices).replace("STATUS", str(status)))


def run_all(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LADDER_")}
    kept |= {"PATH": str(checkout / "tools"), "PYTHON": sys.executable}
    return subprocess.run(
        [str(checkout / "run_all.sh"), *arguments], env=kept | environment, capture_output=True, text=True, timeout=120
    )


def drawn(checkout: Path) -> bool:
    return (checkout / "draw.done").exists()


def ladder_calls(checkout: Path) -> list[list[str]]:
    return [line.split() for line in (checkout / "calls").read_text().splitlines()]


def cmake_calls(checkout: Path, kind: str) -> list[list[str]]:
    """The calls of cmake that begin with `kind`, without it."""
    calls = [line.split() for line in (checkout / "cmake-calls").read_text().splitlines()]
    return [words[1:] for words in calls if words[0] == kind]


def run_call(checkout: Path) -> dict[str, str]:
    words = next(words for words in ladder_calls(checkout) if words[0] == "run")
    return dict(zip(words[1::2], words[2::2], strict=False))


def test_help_names_every_step(checkout: Path) -> None:
    answer = run_all(checkout, "--help")
    assert answer.returncode == 0
    for step in ("setup", "build", "data", "run", "draw", "test"):
        assert f"\n  {step} " in answer.stdout


@pytest.mark.parametrize(
    "arguments", [["launch"], ["--jobs", "0"], ["--workloads"], ["run", "--colour"], ["test", "--all", "--ci"]]
)
def test_bad_usage_is_2_and_does_nothing(checkout: Path, arguments: list[str]) -> None:
    answer = run_all(checkout, *arguments)
    assert answer.returncode == 2 and arguments[-1] in answer.stderr
    assert not (checkout / "calls").exists()


def test_without_packages_and_network_it_names_what_is_missing(checkout: Path) -> None:
    (checkout / "tools" / "cmake").unlink()
    put(checkout / "tools" / "dpkg-query", "#!/bin/bash\n[[ $4 == libfmt-dev ]] && echo installed\nexit 0\n")
    put(checkout / "tools" / "apt-get", "#!/bin/bash\necho Could not resolve host\nexit 100\n")
    put(checkout / "tools" / "sudo", '#!/bin/bash\n"$@"\n')
    answer = run_all(checkout)
    assert answer.returncode == 1
    line = next(line for line in answer.stderr.splitlines() if "still missing" in line)
    for package in ("build-essential", "cmake", "ninja-build", "nlohmann-json3-dev", "libboost-context-dev"):
        assert package in line
    assert "libfmt-dev" not in line
    assert "Could not resolve host" in answer.stdout and "apt-install.log" in answer.stdout


def test_an_old_cmake_is_refused_with_its_version(checkout: Path) -> None:
    put(checkout / "tools" / "cmake", "#!/bin/bash\necho cmake version 3.22.1\n")
    put(checkout / "tools" / "apt-get", "#!/bin/bash\nexit 100\n")
    answer = run_all(checkout, "setup", "--no-install")
    assert answer.returncode == 1 and "cmake is 3.22.1; the build needs 3.25" in answer.stderr


def test_all_well_draws_and_shows_the_table(checkout: Path) -> None:
    answer = run_all(checkout, "build", "run", "draw", "--variants", "v0*", "--", "--scopes", "solve")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert drawn(checkout) and (checkout / "check.done").exists() and "the short table" in answer.stdout
    call = run_call(checkout)
    assert call["--variants"] == "v0*" and call["--scopes"] == "solve" and "_tiny" in call["--workloads"]


def test_without_a_gpu_rungs_are_tried_step_by_step_and_only_the_cpus_own_timed(checkout: Path) -> None:
    assert run_all(checkout, "run").returncode == 0
    right, fast = (words for words in ladder_calls(checkout) if words[0] == "run")
    assert (
        "[abkw]*_tiny,[p]oints2d_tiny,[s]parse_tiny" in right
        and "iteration" in right[right.index("--scopes") + 1]
        and "--resume" not in right
    )
    assert fast[fast.index("--device") + 1] == "cpu" and "--scopes" not in fast and "--resume" in fast
    (checkout / "calls").unlink()
    assert run_all(checkout, "run", "--device", "simt").returncode == 0
    (only,) = (words for words in ladder_calls(checkout) if words[0] == "run")
    assert only[only.index("--device") + 1] == "simt"


def test_without_a_gpu_the_committed_record_comes_first(checkout: Path) -> None:
    assert run_all(checkout, "run", "draw").returncode == 0
    assert "--committed" in (checkout / "draw.done").read_text()
    assert (checkout / "seeds_page.done").read_text() == "--out results/latest/seeds"
    put_ladder(checkout, '{"kind": "cuda", "name": "a GPU"}')
    assert run_all(checkout, "run", "draw").returncode == 0
    assert (checkout / "seeds_page.done").read_text() == "results/latest/record.json --out results/latest/seeds"


def test_a_gpu_gets_the_large_workloads_unless_told_otherwise(checkout: Path) -> None:
    put_ladder(checkout, '{"kind": "cuda", "name": "a GPU"}')
    assert run_all(checkout, "run").returncode == 0
    assert "kmcuda" in run_call(checkout)["--workloads"]
    (checkout / "calls").unlink()
    assert run_all(checkout, "run", LADDER_WORKLOADS="wine_k16").returncode == 0
    assert run_call(checkout)["--workloads"] == "wine_k16"


def test_a_failed_row_is_still_drawn_and_the_status_says_so(checkout: Path) -> None:
    put_ladder(checkout, status=1)
    answer = run_all(checkout, "run", "draw")
    assert answer.returncode == 1
    assert drawn(checkout) and "some rows are invalid or failed" in answer.stderr


def test_a_record_against_its_schema_is_a_problem(checkout: Path) -> None:
    (checkout / "plots" / "check.py").write_text("raise SystemExit('rows[3] has no status')\n")
    answer = run_all(checkout, "run", "draw")
    assert answer.returncode == 1 and drawn(checkout)
    assert "rows[3] has no status" in answer.stdout and "schema" in answer.stderr


def test_bad_usage_of_ladder_stops_before_drawing(checkout: Path) -> None:
    put_ladder(checkout, status=2)
    answer = run_all(checkout, "run", "draw")
    assert answer.returncode == 1 and not drawn(checkout) and "status 2" in answer.stderr


def test_a_variant_that_does_not_compile_is_named_and_its_old_module_not_run(checkout: Path) -> None:
    unit = "CMakeFiles/simt_v7_bad.dir/wrappers/variants/simt/v7_bad.cpp.o"
    (checkout / "build-output").write_text(
        f"[1/9] Building CXX object {unit}\nFAILED: {unit} \ng++ -c wrappers/variants/simt/v7_bad.cpp -o {unit}\n"
        "[2/9] Linking CXX shared module variants/simt/v8_bad.so\n"
        "FAILED: variants/simt/v8_bad.so variants/simt/v8_bad.json /x/build/variants/simt/v8_bad.json \n"
        ": && g++ -shared -o variants/simt/v8_bad.so\n"
    )
    put_variants(checkout, "v6_good", "v7_bad", "v8_bad")
    answer = run_all(checkout, "build", "run", "draw")
    assert answer.returncode == 1
    for id in ("v7_bad", "v8_bad"):
        assert answer.stderr.count(f"variants/1_memory/{id}.cu does not compile") == 1, answer.stderr
    assert [path.name for path in (checkout / "build" / "variants" / "simt").iterdir()] == ["v6_good.so"]
    assert drawn(checkout)


def test_all_gpu_code_is_compiled_for_all_architectures_and_nothing_else_is_done(checkout: Path) -> None:
    put(checkout / "tools" / "nvcc", "#!/bin/bash\n")
    put_variants(checkout, "v6_good", "v7_bad")
    answer = run_all(checkout, "test", "--architectures")
    assert answer.returncode == 0, answer.stderr
    (configured,) = cmake_calls(checkout, "--preset")
    (listed,) = (word for word in configured if word.startswith("CMAKE_CUDA_ARCHITECTURES="))
    assert listed == "CMAKE_CUDA_ARCHITECTURES=" + ";".join(f"{a}-real" for a in (75, 80, 86, 89, 90, 100, 120))
    (built,) = cmake_calls(checkout, "--build")
    assert built[:3] == ["build/architectures", "--target", "gpu_code"]
    unit = "CMakeFiles/cuda_v7_bad.dir/wrappers/gpu_code/v7_bad.cu.o"
    (checkout / "build-output").write_text(f"FAILED: {unit} \nptxas: wgmma is not supported on .target sm_75\n")
    answer = run_all(checkout, "test", "--architectures")
    assert answer.returncode == 1
    assert "variants/1_memory/v7_bad.cu does not compile for all of them" in answer.stderr, answer.stderr


def put_variants(checkout: Path, *ids: str, chapter: str = "1_memory") -> None:
    """Their files in the chapter, and their built modules."""
    sources, modules = checkout / "variants" / chapter, checkout / "build" / "variants" / "simt"
    for folder in (sources, modules):
        folder.mkdir(parents=True, exist_ok=True)
    for id in ids:
        (sources / f"{id}.cu").touch()
        (modules / f"{id}.so").touch()


def put_venv(checkout: Path, python: str) -> None:
    """A virtual environment that is up to date, with `python` as its interpreter."""
    program = checkout / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    put(program, python)
    stamp = hashlib.sha256((checkout / "requirements.txt").read_bytes()).hexdigest()
    (checkout / ".venv" / "ready").write_text(f"{checkout} {stamp}  -\n")


def first_command(checkout: Path) -> subprocess.CompletedProcess[str]:
    """./run_all.sh, with all that setup would install."""
    put_variants(checkout, "v01_first")
    put_variants(checkout, "v20_later", chapter="4_tensor_cores")
    put_venv(checkout, f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    (checkout / "datasets").mkdir()
    (checkout / "datasets" / "prepare.py").touch()
    return run_all(checkout, "--no-install")


def test_without_a_gpu_the_first_chapters_are_built_run_and_drawn_before_the_rest(checkout: Path) -> None:
    answer = first_command(checkout)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert cmake_calls(checkout, "--build")[0][:4] == ["--preset", "default", "--target", "first_rungs"]
    assert cmake_calls(checkout, "--build")[1][:4] == ["--preset", "default", "--target", "rungs"]
    order = [words[0] for words in ladder_calls(checkout) if words[0] in ("build", "run")]
    assert order == ["build", "run", "build", "run", "run"]
    first, second, _ = (words for words in ladder_calls(checkout) if words[0] == "run")
    assert first[first.index("--variants") + 1] == "v01_first" and "--resume" not in first
    assert second[second.index("--variants") + 1] == "*" and "--resume" in second
    assert drawn(checkout) and "Look at results/latest/index.html: the first chapters" in answer.stdout
    assert "more minutes" in answer.stdout


def test_without_a_gpu_no_gpu_code_is_compiled_unless_asked_for(checkout: Path) -> None:
    off = ["-D", "LADDER_CUDA=OFF"]
    assert run_all(checkout, "build").returncode == 0
    assert run_all(checkout, "build", "--device", "cuda").returncode == 0
    put(checkout / "tools" / "nvidia-smi", "#!/bin/bash\necho GPU 0: one\n")
    assert run_all(checkout, "build").returncode == 0
    assert [words[1:] for words in cmake_calls(checkout, "--preset")] == [off, [], []]


def test_without_a_gpu_the_first_chapters_are_ready_to_be_counted(checkout: Path) -> None:
    answer = first_command(checkout)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    asked = [words for words in ladder_calls(checkout) if words[0] == "count"]
    assert asked == [["count", "--build-only", "v01_first"]]


def test_with_a_gpu_everything_is_built_at_once(checkout: Path) -> None:
    put(checkout / "tools" / "nvidia-smi", "#!/bin/bash\necho GPU 0: one\n")
    put_ladder(checkout, '{"kind": "cuda", "name": "a GPU"}')
    answer = first_command(checkout)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert [words[3] for words in cmake_calls(checkout, "--build")] == ["rungs"]
    assert len([words for words in ladder_calls(checkout) if words[0] == "run"]) == 1


@pytest.mark.parametrize(
    ("option", "presets"),
    [([], ["default", "asan"]), (["--ci"], ["ci", "asan-ci"]), (["--all"], ["default", "asan-all"])],
)
def test_the_tests_are_built_by_presets(checkout: Path, option: list[str], presets: list[str]) -> None:
    put_venv(checkout, "#!/bin/bash\n")
    put(checkout / "tools" / "ctest", "#!/bin/bash\n")
    answer = run_all(checkout, "test", "--no-install", *option)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert cmake_calls(checkout, "--preset") == [[preset] for preset in presets], "GPU code as the presets have it"
    assert [words[1:4] for words in cmake_calls(checkout, "--build")] == [[p, "--target", "all"] for p in presets]
    known = {preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    assert set(presets) <= known


def test_every_test_that_only_all_runs_with_sanitizers_exists() -> None:
    """A renamed test would run in CI again, unnoticed but for the time that it takes."""
    script = (ROOT / "run_all.sh").read_text()
    (listed,) = re.findall(r"only_all=\(\n(.*?)\n  \)", script, re.DOTALL)
    patterns = re.findall(r"'([^']+)'", listed)
    assert len(patterns) > 10
    if not shutil.which("ctest") or not (BUILD / "tests" / "session_simt_test").exists():
        pytest.skip("the tests of the CPU device are not built")
    answer = subprocess.run(["ctest", "--test-dir", BUILD, "-N"], capture_output=True, text=True, check=True)
    names = re.findall(r"Test +#\d+: (.*)", answer.stdout)
    if any(name.endswith("_NOT_BUILT") for name in names):
        pytest.skip("some tests are not built")
    assert [pattern for pattern in patterns if not any(re.search(pattern, name) for name in names)] == []
    slow = "".join(re.findall(r"slow_points\+?='([^']+)'", script))
    answer = subprocess.run(
        ["ctest", "--test-dir", BUILD, "-N", "-E", "|".join([*patterns, slow])],
        capture_output=True,
        text=True,
        check=True,
    )
    left = re.findall(r"Test +#\d+: (.*)", answer.stdout)
    assert answer.stderr == "" and 0 < len(left) < len(names) - 100
    (unbuilt,) = re.findall(
        r"run_all.sh leaves them out.*?foreach\(id (.*?)\)", (ROOT / "CMakeLists.txt").read_text(), re.DOTALL
    )
    floats = [name for name in left if "_f64_" not in name]
    assert [name for name in floats if any(rung in name for rung in unbuilt.split())] == [], "asan-ci has no such rung"


def test_the_shell_scripts_are_clean() -> None:
    shellcheck = shutil.which("shellcheck")
    if not shellcheck:
        pytest.skip("shellcheck is not installed")
    answer = subprocess.run([shellcheck, "run_all.sh", ".ci/run"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout
