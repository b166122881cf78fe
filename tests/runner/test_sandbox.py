"""`ladder sandbox`: what a command in it cannot do. As the user who runs the tests, and for root also without the right
to make namespaces."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import LADDER, ROOT

ROOT_USER = os.geteuid() == 0
WAYS = {"": []}
if ROOT_USER and shutil.which("setpriv"):
    WAYS["without namespaces"] = ["setpriv", "--bounding-set", "-sys_admin"]
    WAYS["as a user"] = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"]
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable


def works(way: str) -> bool:
    return subprocess.run([*WAYS[way], LADDER, "sandbox", "--which"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not works(""), reason="no sandbox works here")


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest) -> str:
    if not works(request.param):
        pytest.skip("no sandbox works so")
    return request.param


@pytest.fixture
def own(way: str) -> Iterator[Path]:
    """A folder of the user's that all users can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        own = Path(folder) / "own"
        own.mkdir()
        if way == "as a user":
            os.chown(own, 1000, 1000)
        yield own


def sandboxed(way: str, code: str, *options: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    command = [*WAYS[way], LADDER, "sandbox", *options, "--", PYTHON, "-c", code]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=60, check=False, cwd="/", **more
    )


def test_a_command_s_status_and_output_come_through(way: str) -> None:
    done = sandboxed(way, "import sys; print(2 + 3); sys.exit(7)")
    assert (done.returncode, done.stdout) == (7, "5\n"), done.stderr


def test_no_network(way: str) -> None:
    code = "import socket; s = socket.socket(); s.settimeout(3); s.connect(('127.0.0.1', PORT))"
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        done = sandboxed(way, code.replace("PORT", str(server.getsockname()[1])))
    assert done.returncode == 1
    assert "Error" in done.stderr.splitlines()[-1]


def test_homes_temporary_files_and_hidden_folders_are_not_seen(way: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("seed")
    tmp_path.chmod(0o755)
    for place in (Path.home(), tmp_path, ROOT / "docs"):
        code = f"import os; print(len(os.listdir({str(place)!r})))"
        done = sandboxed(way, code, "--hide", ROOT / "docs")
        assert done.returncode == 1 or done.stdout == "0\n", (place, done.stdout, done.stderr)
    done = sandboxed(way, f"print(open({str(ROOT / 'docs' / 'trust.md')!r}).read())", "--hide", ROOT / "docs")
    assert done.returncode == 1
    assert sandboxed(way, f"open({str(ROOT / 'README.md')!r})", "--hide", ROOT / "docs").returncode == 0


def test_nothing_is_written_but_where_it_may(way: str, own: Path) -> None:
    folder = own
    for place in (ROOT / "docs", ROOT, "/usr", "/etc", "/var"):
        assert sandboxed(way, f"open('{place}/new_file', 'w')").returncode == 1, place
        assert not (Path(place) / "new_file").exists()
    code = f"open({str(folder / 'new')!r}, 'w').write('x')"
    assert sandboxed(way, code, "--write", folder).returncode == 0
    assert (folder / "new").read_text() == "x"
    sandboxed(way, code.replace(f"{own}/", f"{own.parent}/"), "--write", folder)  # in namespaces, a /tmp of its own
    assert not (own.parent / "new").exists()


def test_no_keys_of_the_environment(way: str) -> None:
    done = sandboxed(way, "import os; print(dict(os.environ))", env={**os.environ, "API_TOKEN": "s3cret"})
    assert done.returncode == 0
    assert "s3cret" not in done.stdout


def test_limits_of_processes_memory_time_and_files(way: str, own: Path) -> None:
    fork = """
import os
n = 0
try:
  while n < 2000:
    n += 1
    if os.fork() == 0: os._exit(0)
except OSError:
  print(n)
"""
    if way != "as a user":  # whose other processes count as well
        done = sandboxed(way, fork, "--processes", "50")
        assert 1 <= int(done.stdout or 0) <= 51, done.stderr
    done = sandboxed(way, "x = bytearray(400 << 20)\nimport time; time.sleep(20)", "--memory", "200")
    assert "more than 200 MiB of memory" in done.stderr
    assert done.returncode == 137
    begin = time.monotonic()
    assert sandboxed(way, "while True: pass", "--cpu", "1").returncode != 0
    assert time.monotonic() - begin < 20
    code = f"open({str(own / 'big')!r}, 'w').write('x' * (3 << 20))"
    assert sandboxed(way, code, "--write", own, "--file", "1").returncode != 0


def test_what_it_started_ends_with_it(way: str) -> None:
    code = "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(4321)"
    assert sandboxed(way, code).returncode == 0
    running = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(b"time.sleep(4321)" in words for words in running)
