"""Sessions that misbehave: each ends as a row of its own, and the sessions beside it are as if it had never run."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Ladder
from fake_build import END, SCOPES, Event, FakeBuild, doing, result, session, timed, wait_for

from plots.lib import schema


@pytest.fixture
def fake(ladder: Ladder, tmp_path: Path) -> FakeBuild:
    """x1 is an honest variant, x2 misbehaves, x3 is an honest one after it."""
    made = FakeBuild(tmp_path)
    made.add("x2")
    made.add("x3")
    return made


def python(code: str) -> Event:
    return {"python": code}


def raw(text: str) -> Event:
    """Bytes into the pipe of the reports."""
    return python(f"os.write(out, {text!r}.encode('utf-8', 'surrogateescape'))")


def rows_of(record: dict[str, Any], variant: str) -> list[dict[str, Any]]:
    return [row for row in record["rows"] if row["variant"] == variant]


def only_it_failed(fake: FakeBuild, *words: str, reason: str) -> dict[str, Any]:
    done = fake("run", "--device", "cuda", "--workloads", "grapes", "--scopes", "assign,solve", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    record: dict[str, Any] = json.loads(fake.out.read_text())
    assert schema.violations(record) == []
    assert record["context"]["complete"]
    for honest in ("x1", "x3"):
        assert [row["status"] for row in rows_of(record, honest)] == ["ok", "ok"], done.stderr
    found = rows_of(record, "x2")
    assert [row["status"] for row in found] == ["failed", "failed"], done.stderr
    assert reason in found[0]["reason"], found[0]["reason"]
    return record


@pytest.mark.parametrize(
    "report",
    [
        '{"event": 5}\n',
        '{"event": "timed", "scope": "assign", "samples_ms": "many"}\n',
        '{"event": "timed"}\n',
        '{"event": "result", "validation": []}\n',
        '{"event": "scope", "scope": {"a": 1}}\n',
        '{"event": "error", "reason": 7}\n',
    ],
)
def test_a_report_that_no_worker_sends(fake: FakeBuild, report: str) -> None:
    fake.plan["sessions"]["x2"] = [doing("assign"), raw(report), *session()]
    only_it_failed(fake, reason="it sent a report that no worker sends")


def test_what_is_no_report_is_passed_over(fake: FakeBuild) -> None:
    nested = '{"event": ' + "[" * 100_000 + "]" * 100_000 + "}\n"
    fake.plan["sessions"]["x2"] = [raw(nested + "\udcff\n[]\n7\n\n{\n"), *session()]
    record = fake.run("--device", "cuda", "--scopes", "solve")
    assert {row["status"] for row in record["rows"]} == {"ok"}


def test_a_report_without_an_end(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x2"] = [python("while True: os.write(out, b'7' * 65536)")]
    only_it_failed(fake, reason="it sent a report of more than 64 MiB")


def test_output_without_an_end(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x2"] = [python("while True: os.write(1, b'7' * 65536); time.sleep(0.0001)")]
    only_it_failed(fake, reason="it wrote more than 64 MiB of output")


def test_last_words_in_no_encoding(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x2"] = [doing("assign"), python("os.write(2, b'caf\\xe9 \\x00 end'); os._exit(3)")]
    record = only_it_failed(fake, reason="end; ended with status 3 in assign")
    assert rows_of(record, "x2")[0]["reason"].startswith("caf\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER} end")


def test_no_control_characters_reach_a_terminal_or_the_record(fake: FakeBuild) -> None:
    nasty = "\x1b[2J\x1b]0;title\x07 right\r\x9b31m"
    fake.add("x2", idea=nasty)
    fake.plan["sessions"]["x2"] = [
        {"print": nasty},
        {"event": "scope", "scope": nasty},
        {"event": "error", "reason": nasty},
    ]
    done = fake("run", "--device", "cuda", "--workloads", "grapes", "--scopes", "assign")
    shown = fake("show", fake.out)
    listed = fake("list")
    record = fake.out.read_text()
    for text in (done.stdout, done.stderr, shown.stdout, listed.stdout, record, *json_texts(json.loads(record))):
        assert not any(c in text for c in "\x1b\x07\x9b\r"), text
    assert "title\N{REPLACEMENT CHARACTER} right" in json.loads(record)["rows"][1]["reason"]


def json_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in inner for text in json_texts(item)]


def test_one_that_closes_its_reports_and_sleeps(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x2"] = [doing("assign"), python("os.close(out); time.sleep(600)")]
    begin = time.monotonic()
    only_it_failed(fake, "--time-limit", "3", reason="stopped in assign: it closed its reports and did not end")
    assert time.monotonic() - begin < 30


def test_a_child_that_keeps_the_pipe_open_delays_nothing(fake: FakeBuild, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = f"if os.fork() == 0:\n    open({str(note)!r}, 'w').write(str(os.getpid()))\n    time.sleep(600)"
    wait = f"while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read(): time.sleep(0.01)"
    fake.plan["sessions"]["x2"] = [python(child), python(wait), *session()]
    begin = time.monotonic()
    record = fake.run("--device", "cuda", "--scopes", "solve", "--time-limit", "100")
    assert {row["status"] for row in record["rows"]} == {"ok"}
    assert time.monotonic() - begin < 30
    assert is_gone(int(note.read_text()))


def is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_daemon_does_not_outlive_its_session(fake: FakeBuild, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    daemon = f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(out)
        open({str(note)!r}, "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read(): time.sleep(0.01)
"""
    look = f"""
try:
    os.kill(int(open({str(note)!r}).read()), 0)
    os._exit(9)
except ProcessLookupError:
    pass
"""
    fake.plan["sessions"]["x2"] = [python(daemon), *session()]
    fake.plan["sessions"]["x3"] = [python(look), *session()]
    record = fake.run("--device", "cuda", "--scopes", "solve")
    assert [row["status"] for row in record["rows"]] == ["ok", "ok", "ok"], record["rows"][2]["reason"]


def test_one_that_removes_the_scratch_folder(fake: FakeBuild) -> None:
    remove = "import shutil; shutil.rmtree(os.path.dirname(sys.argv[2]))"
    fake.plan["sessions"]["x2"] = [doing("assign"), python(remove), *session()]
    only_it_failed(fake, reason="the points or initial centroids of grapes")


def test_points_that_a_session_rewrites_are_made_anew(fake: FakeBuild) -> None:
    rewrite = """
path = request["points"]
before = os.stat(path)
with open(path, "r+b") as file:
    file.seek(200)
    file.write(bytes(100))
os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
"""
    fake.plan["sessions"]["x2"] = [python(rewrite), *session()]
    only_it_failed(fake, reason="were changed or removed while it ran")
    copies = [(Path(r["points"]).exists(), r["variant"]) for r in fake.asked()]
    assert copies == [(True, "x1"), (True, "x2"), (True, "x3")]


def test_points_of_a_users_own_that_a_session_rewrites_are_used_no_more(fake: FakeBuild, tmp_path: Path) -> None:
    import numpy as np

    points = tmp_path / "own.npy"
    np.save(points, np.random.default_rng(1).random((100, 3), dtype=np.float32))
    rewrite = "file = open(request['points'], 'r+b'); file.seek(200); file.write(bytes(100)); file.close()"
    fake.plan["sessions"]["x2"] = [python(rewrite), *session()]
    done = fake("run", "--device", "cuda", "--data", points, "--k", "4", "--scopes", "solve")
    assert "own" in done.stderr and done.returncode != 0
    record = json.loads(fake.out.read_text())
    assert {r["variant"]: r["status"] for r in record["rows"]} == {"x1": "ok", "x2": "failed"}


def reason_of_x3_after(fake: FakeBuild, statement: str) -> str:
    """Why x3 failed, and it alone, in a run in which the session of x2 does this before."""
    fake.plan["sessions"]["x2"] = [python(statement), *session()]
    done = fake("run", "--device", "cuda", "--workloads", "grapes", "--scopes", "solve")
    assert done.returncode == 1
    found = {row["variant"]: row for row in json.loads(fake.out.read_text())["rows"]}
    assert {name: row["status"] for name, row in found.items()} == {"x1": "ok", "x2": "ok", "x3": "failed"}
    return found["x3"]["reason"]


def test_a_module_that_changes_during_the_run_gives_no_rows(fake: FakeBuild) -> None:
    module = fake.build / "variants" / "cuda" / "x3.so"
    reason = reason_of_x3_after(fake, f"open({str(module)!r}, 'w').write('other code')")
    assert "x3.so has changed since the run began" in reason
    again = fake.run("--device", "cuda", "--scopes", "solve", "--resume")
    assert {row["status"] for row in again["rows"]} == {"ok"}


def test_a_module_that_is_removed_during_the_run_fails_with_a_sentence(fake: FakeBuild) -> None:
    module = fake.build / "variants" / "cuda" / "x3.so"
    reason = reason_of_x3_after(fake, f"import os; os.unlink({str(module)!r})")
    assert "cannot be copied" in reason and "run x3 again" in reason


def test_a_session_loads_a_copy_of_its_module(fake: FakeBuild) -> None:
    fake.run("--device", "cuda", "--scopes", "solve")
    for request in fake.asked():
        assert Path(request["module"]).name == f"{request['variant']}.so"
        assert fake.build not in Path(request["module"]).parents


def test_the_folder_of_a_killed_run_is_removed_by_the_next(fake: FakeBuild, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    fake.plan["sessions"]["x1"] = [doing("assign"), {"sleep": 600}]
    words = ["run", "--device", "cuda", "--workloads", "grapes", "--scopes", "solve", "--variants"]
    running = fake.start(*words, "x1", TMPDIR=str(temporary))
    wait_for(lambda: fake.asked())
    (folder,) = temporary.glob("ladder-*")
    fake(*words, "x3", "--out", tmp_path / "b.json", TMPDIR=str(temporary))
    assert list(temporary.glob("ladder-*")) == [folder], "of a run that lives it stays"
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert folder.exists()
    fake(*words, "x3", "--out", tmp_path / "c.json", TMPDIR=str(temporary))
    assert list(temporary.glob("ladder-*")) == []


def test_a_folder_that_no_run_made_stays_whatever_its_name(fake: FakeBuild, tmp_path: Path) -> None:
    backup = tmp_path / "ladder-backup"
    backup.mkdir()
    (backup / "letter.txt").write_text("mine")
    fake.run("--device", "cuda", "--scopes", "solve", TMPDIR=str(tmp_path))
    assert (backup / "letter.txt").read_text() == "mine"


# ------------------------------------------------------------------------------------------- times that cannot be true


def whole_session(**ms: float) -> list[Event]:
    return [*(timed(scope, ms.get(scope, 1.0)) for scope in SCOPES), result(), END]


def statuses(record: dict[str, Any]) -> dict[str, str]:
    return {row["scope"]: row["status"] for row in record["rows"]}


def test_an_iteration_without_its_work_is_unstable(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = whole_session(assign=3e-4, update=1e-4, iteration=4e-4, solve=5.2, end_to_end=7)
    record = fake.run("--device", "cuda", "--variants", "x1")
    found = statuses(record)
    assert {scope for scope, status in found.items() if status == "unstable"} == {"assign", "update", "iteration"}
    reason = record["rows"][SCOPES.index("assign")]["reason"]
    assert reason == "a solve of 4 iterations takes 5.2 ms, one iteration 0.0004: some of its work is not timed"
    assert schema.violations(record) == []
    for row in record["rows"]:
        if row["status"] == "unstable":
            row.update(status="ok", reason="")
    (said,) = schema.violations(record)
    assert "some of its work is not timed" in said


def test_a_solve_whose_work_is_left_to_the_download_is_unstable(fake: FakeBuild) -> None:
    fake.plan["sessions"]["x1"] = whole_session(solve=2e-4, download=1e-3, upload=0.2, end_to_end=6.4)
    record = fake.run("--device", "cuda", "--variants", "x1")
    found = statuses(record)
    assert {scope for scope, status in found.items() if status == "unstable"} == {"upload", "solve", "download"}
    assert schema.violations(record) == []
    for row in record["rows"]:
        row.update(status="ok", reason="")
    (said,) = schema.violations(record)
    assert "some of its work is in none of these" in said


@pytest.mark.parametrize(
    "ms",
    [
        {"iteration": 0.02, "solve": 0.2, "end_to_end": 2.2},  # a launch and a look at the stop rule between iterations
        {"iteration": 1.2, "solve": 0.6},  # later iterations skip most distances
        {"upload": 8.0, "solve": 9.0, "download": 0.1, "end_to_end": 16.9},  # the copy and the first labels overlap
        {"upload": 6.0, "solve": 7.0, "end_to_end": 23.0},
    ],
)
def test_times_of_honest_variants_contradict_nothing(fake: FakeBuild, ms: dict[str, float]) -> None:
    fake.plan["sessions"]["x1"] = whole_session(**ms)
    record = fake.run("--device", "cuda", "--variants", "x1")
    assert set(statuses(record).values()) == {"ok"} and schema.violations(record) == []


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_on_a_busy_cpu_nothing_follows_from_contradictions(fake: FakeBuild, device: str) -> None:
    fake.add("x9", device)
    fake.plan["sessions"]["x9"] = whole_session(iteration=0.2, solve=40.0, end_to_end=900.0)
    record = fake.run("--device", device, "--variants", "x9")
    assert set(statuses(record).values()) == {"ok"} and schema.violations(record) == []


def test_a_cpu_is_not_three_times_faster_than_it_can_be(fake: FakeBuild) -> None:
    fake.add("x9", "cpu")
    fake.plan["sessions"]["x9"] = [timed("assign", 1e-7), result(), END]
    row = fake.run("--device", "cpu", "--variants", "x9", "--scopes", "assign", status=1)["rows"][0]
    assert row["status"] == "invalid" and row["reason"].startswith("faster than this device can be")
