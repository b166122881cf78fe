"""plots/lib/made.py: no committed page or picture is older than the records that it is made from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from plots import check
from plots.lib import made, origin
from plots.lib.record import ROOT, RecordError

ALL = made.all_made()


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.path)
def test_it_is_what_its_command_makes_of_the_records(page: made.Made) -> None:
    assert not (why := made.older(page)), f"{page.path}: {why}: {page.remedy}"


def test_every_page_and_picture_of_a_record_is_in_the_list() -> None:
    listed = {page.path for page in ALL}
    folders = [ROOT / "docs", ROOT / "docs/ladder", ROOT / "results/nvidia-h200", ROOT / "results/nvidia-h100"]
    pictures = {path.relative_to(ROOT).as_posix() for folder in folders for path in folder.glob("*.png")}
    assert pictures - listed == {"docs/certificate.png"}, "that one is of no record"
    generated = re.compile(r"<!-- (Generated: |ladder:table|ladder:map)")
    pages = [path for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if generated.search(path.read_text())]
    assert len(pages) >= 6 and {path.relative_to(ROOT).as_posix() for path in pages} <= listed


def test_the_readme_quotes_the_command_of_its_table() -> None:
    (command,) = [page.command for page in ALL if page.path == "README.md" and "plots.table" in page.command]
    assert f"\n{command}\n" in (ROOT / "README.md").read_text()


# ------------------------------------------------------------------------------------------------- what is out of date


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a record and a picture of it."""
    (tmp_path / "results/gpu").mkdir(parents=True)
    (tmp_path / "results/gpu/record.json").write_text("{}")
    (tmp_path / "list.md").write_text(
        f"{made.HEADING}\n\n    P=python\n    $P -m plots.draw results/gpu/record*.json --only x --out made\n"
        "    cp made/x.png x.png\n    $P -m plots.table --update page.md    # why\n\n## Else\n\n    $P -m plots.none\n"
    )
    (tmp_path / "page.md").write_text("![one](own.png) and ![another](x.png)\n")
    picture(tmp_path / "x.png", ["plots.draw", "results/gpu/record.json", "--only", "x"])
    return tmp_path


def picture(path: Path, command: list[str], **records: str) -> None:
    text = PngImagePlugin.PngInfo()
    known = {"results/gpu/record.json": origin.hash_of(b"{}")} | records
    text.add_text(origin.KEY, json.dumps({"command": command, "records": known}))
    Image.new("RGB", (2, 2)).save(path, pnginfo=text)


def listed(project: Path) -> dict[str, made.Made]:
    return {page.path: page for page in made.all_made(project / "list.md", project)}


def test_the_list_is_that_of_the_commands(project: Path) -> None:
    found = listed(project)
    assert list(found) == ["page.md", "own.png", "x.png"]
    assert found["page.md"].remedy == "run `.venv/bin/python -m plots.table --update page.md`"
    assert found["own.png"].words == found["page.md"].words
    assert found["x.png"].remedy.endswith("--out made`, then `cp made/x.png x.png`")
    (project / "list.md").write_text("nothing")
    with pytest.raises(RecordError, match="has no commands under"):
        listed(project)


def test_a_picture_older_than_its_record_is_found(project: Path) -> None:
    assert made.older(listed(project)["x.png"], project) == ""
    (project / "results/gpu/record_more.json").write_text("{}")
    assert made.older(listed(project)["x.png"], project).startswith("was drawn by `plots.draw")
    (project / "results/gpu/record_more.json").unlink()
    (project / "results/gpu/record.json").write_text('{"rows": []}')
    assert made.older(listed(project)["x.png"], project) == "is older than results/gpu/record.json"
    Image.new("RGB", (2, 2)).save(project / "x.png")
    assert made.older(listed(project)["x.png"], project) == "does not say what it was drawn from"
    assert made.older(listed(project)["own.png"], project) == "is not there"


def test_the_program_names_what_is_out_of_date_and_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, drawn = (page for page in ALL if page.path in ("docs/outliers.md", "docs/outliers.png"))
    (tmp_path / "docs").mkdir()
    (tmp_path / drawn.path).write_bytes((ROOT / drawn.path).read_bytes())
    (tmp_path / page.path).write_text((ROOT / page.path).read_text().replace("ms", "s"))
    assert made.older(page, tmp_path) == "is older than its record"
    monkeypatch.setattr(made, "all_made", lambda: [page, drawn])
    assert check.main(["--pages"]) == 0
    assert capsys.readouterr().out == f"{page.path}: up to date\n{drawn.path}: up to date\n"
    monkeypatch.setattr(origin, "older", lambda *_: "is older than its record")
    assert check.main(["--pages"]) == 1
    out = capsys.readouterr().out
    assert out == f"{page.path}: up to date\n{drawn.path}: is older than its record: {page.remedy}\n"


def test_a_picture_says_what_it_was_drawn_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(origin, "read", {})
    monkeypatch.setattr("sys.argv", ["/x/plots/draw.py", "results/gpu/a.json", "--out", "there", "--only", "y"])
    origin.note(tmp_path / "results/gpu/a.json", b"{}")
    origin.note(tmp_path / "results/renamed.json", b"{}")
    said = json.loads(origin.metadata()[origin.KEY])
    assert said == {
        "command": ["plots.draw", "results/gpu/a.json", "--only", "y"],
        "records": {"results/gpu/a.json": origin.hash_of(b"{}")},
    }


def test_a_record_that_is_too_large_is_a_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = ROOT / "results/nvidia-h100/halves.json"
    assert check.main([str(record)]) == 0
    monkeypatch.setattr(check, "MOST_BYTES", 10_000)
    capsys.readouterr()
    assert check.main([str(record)]) == 1
    assert "halves.json: the file has 0.0 MB, more than 0: keep fewer samples (`ladder join" in capsys.readouterr().err
    copy = tmp_path / "halves.json"
    copy.write_bytes(record.read_bytes())
    assert check.main([str(copy)]) == 0, "one that is not committed may have any size"
    with pytest.raises(SystemExit):
        check.main([])
    assert "nothing to check" in capsys.readouterr().err
