"""`ladder grade`: a class of good, wrong and hostile submissions, on the CPU device."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import LADDER, ROOT

TEMPLATE = next((ROOT / "variants").glob("*/v08_shared_tiles.cu")).read_text()
STORE = "  if (row < n) label[row] = best;\n"
CHOOSE = "distance[t] < nearest"
WEEK = """
template = "v08_shared_tiles"
base = "v07_choose_update"
reference = "v09_register_reuse"
functions = ["assign_kernel"]
scopes = ["solve"]
seconds = 5
[points]
right = 4
predicted = 2
[workloads]
public = ["tiles_tiny"]
hidden = ["tiles_tiny"]
[predict]
loads = {value = 1.0, tolerance = 0.1}
"""
HELPER = """
template <class T>
__device__ T squared_distance(const T* x, const T* shared, int features, int pitch, size_t n) {
  T first = 0, second = 0;
  int at = 0;
  for (; at + 1 < features; at += 2) {
    const T one = x[at * n] - shared[at * pitch], other = x[(at + 1) * n] - shared[(at + 1) * pitch];
    first += one * one, second += other * other;
  }
  if (at < features) {
    const T odd = x[at * n] - shared[at * pitch];
    first += odd * odd;
  }
  return first + second;
}
"""


def changed(old: str, new: str, text: str = TEMPLATE) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def with_helper(text: str) -> str:
    begin, end = text.index("        for (int f = 0; f < features"), text.index("      }\n    }\n    for (int t")
    call = "distance[t] += squared_distance(x + size_t(from) * n + i, centroids + t, features, tile_pitch<tile>, n);\n"
    return changed("template <class T, int tile>\n", HELPER + "template <class T, int tile>\n", text).replace(
        text[begin:end], "        " + call
    )


COPIED = with_helper(TEMPLATE).replace("first", "sum").replace("squared_distance", "far").replace("other", "next")
SUBMISSIONS = {
    "right.cu": "// predict loads 1.05\n" + with_helper(TEMPLATE),
    "label.cu": changed(STORE, STORE.replace("best;", "best + (row == 5);")),
    "tie.cu": changed(CHOOSE, CHOOSE.replace("<", "<=")),
    "many.cu": changed(STORE, STORE.replace("row < n", "row < n && row < 65536")),
    "compile.cu": changed(STORE, STORE.replace(";", "")),
    "hang.cu": changed(STORE, STORE + "  for (volatile int more = 1; more;) {}\n"),
    "crash.cu": changed(STORE, STORE + "  *reinterpret_cast<volatile int*>(size_t(row) + 8) = 1;\n"),
    "fork.cu": changed(STORE, STORE + "  while (::fork() >= 0) {}\n"),
    "seed.cu": changed(STORE, STORE + '  if (std::getenv("LADDER_WORKLOADS_FILE")) label[row] = 0;\n'),
    "copied.cu": changed("blocks(s.n, 256), 256", "blocks(s.n, 128), 128", COPIED),
    "empty.cu": "",
    "host.cu": changed("template <class T, int tile>\n", "void f() {}\ntemplate <class T, int tile>\n"),
    "=1+1.cu": "#include </etc/passwd>\n" + TEMPLATE,
}


def grade(*words: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    command = [LADDER, "grade", *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False, **more)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    (folder / "week.toml").write_text(WEEK)
    (folder / "in").mkdir()
    for name, text in SUBMISSIONS.items():
        (folder / "in" / name).write_text(text)
    (folder / "in" / "link.cu").symlink_to("/etc/passwd")
    (folder / "in" / "two").mkdir()
    for name in ("a.cu", "b.cu"):
        (folder / "in" / "two" / name).write_text(TEMPLATE)
    done = grade(folder / "in", "--assignment", folder / "week.toml", "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def grades(room: Path) -> dict[str, dict[str, str]]:
    with (room / "out" / "grades.csv").open() as file:
        return {row["submission"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("right.cu", "right", ""),
        ("empty.cu", "altered", "removed assign_kernel"),
        ("label.cu", "wrong", "row 5 has label"),
        ("tie.cu", "wrong", "has the same coordinates and a lower index"),
        ("many.cu", "wrong", "hidden_many: "),
        ("compile.cu", "does not compile", "submission.cu:35:"),
        ("hang.cu", "wrong", "5 s"),
        ("crash.cu", "wrong", ""),
        ("fork.cu", "altered", "it calls fork"),
        ("seed.cu", "altered", "it calls getenv"),
        ("copied.cu", "altered", "changed assign"),
        ("host.cu", "altered", "added f"),
        ("'=1+1.cu", "altered", "#include </etc/passwd>"),
        ("link.cu", "not readable", "no file of its own"),
        ("two", "not readable", "2 files of CUDA"),
    ],
)
def test_verdicts(grades: dict[str, dict[str, str]], name: str, verdict: str, reason: str) -> None:
    assert grades[name]["verdict"] == verdict, grades[name]
    assert reason in grades[name]["reason"]
    assert grades[name]["right"] == ("4" if verdict == "right" else "0")


def test_a_prediction_earns_its_points(grades: dict[str, dict[str, str]]) -> None:
    assert (grades["right.cu"]["predicted"], grades["label.cu"]["predicted"]) == ("2", "0")
    assert (grades["right.cu"]["total"], grades["right.cu"]["of"]) == ("6", "6")


def test_a_copy_is_named_whatever_its_names_are(room: Path) -> None:
    alike = (room / "out" / "index.html").read_text().split("Alike")[1]
    assert "copied.cu and right.cu" in alike
    assert "tie.cu" not in alike


def test_a_page_shows_the_difference_and_the_first_wrong_row(room: Path) -> None:
    page = next((room / "out" / "pages").glob("label_cu_*.html")).read_text()
    assert "row 5 has label" in page
    assert '<span class="a">+  if (row &lt; n) label[row] = best + (row == 5);</span>' in page
    assert "passwd&gt;" in next((room / "out" / "pages").glob("1_1_cu_*.html")).read_text()


def test_one_that_takes_too_long_is_tried_no_further(room: Path) -> None:
    page = next((room / "out" / "pages").glob("hang_cu_*.html")).read_text()
    assert "what follows was not tried" in page
    assert "hidden_many: " not in page


def test_the_seed_is_for_the_teacher_alone(room: Path) -> None:
    assert (room / "out" / "secret.json").stat().st_mode & 0o077 == 0
    seed = json.loads((room / "out" / "secret.json").read_text())["seed"]
    written = [f for f in (room / "out").rglob("*") if f.is_file() and f.name != "secret.json"]
    assert written
    assert not [f for f in written if seed in f.read_text()]
    assert not list((ROOT / "datasets" / "cache").glob("hidden_*"))


def test_the_same_command_again_keeps_all(room: Path) -> None:
    before = (room / "out" / "grades.csv").read_text()
    done = grade(room / "in", "--assignment", room / "week.toml", "--out", room / "out")
    assert done.returncode == 0
    assert "15 of 15 submissions kept" in done.stderr
    assert (room / "out" / "grades.csv").read_text() == before


def test_one_that_was_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "week.toml").write_text(WEEK)
    (tmp_path / "in").mkdir()
    (tmp_path / "tmp").mkdir(mode=0o755)
    for name in ("compile.cu", "label.cu", "tie.cu"):  # each is judged soon
        (tmp_path / "in" / name).write_text(SUBMISSIONS[name])
    words = [tmp_path / "in", "--assignment", tmp_path / "week.toml", "--out", tmp_path / "out", "--jobs", "1"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    grader = subprocess.Popen(list(map(str, [LADDER, "grade", *words])), env=environment, stderr=subprocess.DEVNULL)
    results = tmp_path / "out" / "results"
    until = time.monotonic() + 100
    while not list(results.glob("label*.json")) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    grader.send_signal(signal.SIGKILL)
    grader.wait()
    kept = len(list(results.glob("*.json")))
    assert 1 <= kept < 3
    assert not (tmp_path / "out" / "grades.csv").exists()
    done = grade(*words, env=environment)
    assert done.returncode == 0, done.stderr
    assert f"{kept} of 3 submissions kept" in done.stderr
    with (tmp_path / "out" / "grades.csv").open() as file:
        assert {r["submission"]: r["verdict"] for r in csv.DictReader(file)} == {
            "compile.cu": "does not compile",
            "label.cu": "wrong",
            "tie.cu": "wrong",
        }
    assert not list((tmp_path / "tmp").glob("grade-*"))


def asan_built() -> bool:
    return (ROOT / "build-asan" / "ladder_worker_simt").exists()


@pytest.mark.skipif(not asan_built(), reason="the build with sanitizers is not there")
def test_a_sanitizer_s_line_is_told(tmp_path: Path) -> None:
    (tmp_path / "week.toml").write_text(
        WEEK.replace("predicted = 2", "clean = 2").replace("seconds = 5", "seconds = 20")
    )
    (tmp_path / "in").mkdir()
    past = changed(STORE, STORE.replace("row < n", "row <= n"))
    for name, text in (("empty.cu", ""), ("past.cu", past)):
        (tmp_path / "in" / name).write_text(text)
    done = grade(tmp_path / "in", "--assignment", tmp_path / "week.toml", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "grades.csv").open() as file:
        found = {row["submission"]: row for row in csv.DictReader(file)}
    assert found["past.cu"]["clean"] == "0"
    page = next((tmp_path / "out" / "pages").glob("past_cu_*.html")).read_text()
    assert "submission.cu:35" in page


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('template = "v08_shared_tiles"', "", "'template' is missing: give a text in quotes"),
        ("v08_shared_tiles", "v08_none", "there is no such rung"),
        ("v08_shared_tiles", "../v08", "there is no such rung"),
        ("assign_kernel", "assign_kernels", "which v08_shared_tiles has not"),
        ('["assign_kernel"]', "[]", "'functions' is empty"),
        ("right = 4", "right = -4", "'points.right' is -4: give a number of at least 0"),
        ("right = 4", "rigth = 4", "'points.rigth' is not a key here"),
        ("right = 4", "right = nan", "give a number of at least 0"),
        ("right = 4", "fast = 4", "'fast' is missing"),
        ('public = ["tiles_tiny"]', 'public = ["tiles"]', "`ladder list` shows the workloads"),
        ('public = ["tiles_tiny"]', "public = []", "'workloads.public' is empty"),
        ('hidden = ["tiles_tiny"]', 'hidden = ["wine_tiny"]', "whose points are not generated"),
        ("tolerance = 0.1", "tolerance = 'x'", "give {value = NUMBER, tolerance = NUMBER}"),
        ("[points]", "[points", "is not TOML"),
        ('scopes = ["solve"]', 'scopes = ["all"]', "take one of assign, update, iteration, solve"),
    ],
)
def test_a_mistake_in_the_assignment_is_one_sentence(tmp_path: Path, old: str, new: str, words: str) -> None:
    (tmp_path / "week.toml").write_text(WEEK.replace(old, new, 1))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.cu").write_text(TEMPLATE)
    done = grade(tmp_path / "in", "--assignment", tmp_path / "week.toml", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out" / "grades.csv").exists()


def test_places_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "week.toml").write_text(WEEK)
    (tmp_path / "empty").mkdir()
    for place, words in (("empty", "holds no submission"), ("none", "is no folder")):
        done = grade(tmp_path / place, "--assignment", tmp_path / "week.toml", "--out", tmp_path / "out")
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    (tmp_path / "empty" / "a.cu").write_text(TEMPLATE)
    done = grade(tmp_path / "empty", "--assignment", tmp_path / "week.toml", "--out", tmp_path / "week.toml")
    assert (done.returncode, "cannot be a folder for grades" in done.stderr) == (2, True), done.stderr
