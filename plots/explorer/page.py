"""docs/explorer.html and results/latest/report.html: the ladder to explore, one file that needs no network.

`python -m plots.explorer.page --update docs/explorer.html` writes it from the committed records, `--check` exits 1
where the file holds anything else; `--out FILE` with a record of this machine adds what that says. The charts
are drawn by Bokeh, whose script and licence are in the page.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import importlib.resources
import json
import re
import sys
from pathlib import Path
from typing import Any

from plots.explorer.document import committed as of_committed
from plots.lib import outputs
from plots.lib.inputs import InputError, in_sentences, read_bytes, read_text

FOLDER = Path(__file__).parent
LIBRARY = ("bokeh.min.js", "bokeh-api.min.js")
SCRIPTS = ("model.js", "charts.js", "page.js")
MOST_BYTES = 5_000_000
DATA = re.compile(r'(?s)(<script type="application/octet-stream" id="data">)(.*?)(</script>)')
COMMAND = "python -m plots.explorer.page"


def library() -> tuple[str, str]:
    """Bokeh's script and its licence. Throws InputError where the package is not installed."""
    try:
        package = importlib.resources.files("bokeh")
    except ModuleNotFoundError:
        raise InputError(
            "the Python package bokeh, whose charts the page has, is not installed: ./run_all.sh setup installs it."
        ) from None
    scripts = [(package / "server" / "static" / "js" / name).read_text(encoding="utf-8") for name in LIBRARY]
    return "\n".join(f"<script>{text}</script>" for text in scripts), (package / "LICENSE.txt").read_text("utf-8")


def packed(data: dict[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def unpacked(page: str) -> Any:  # noqa: ANN401, any JSON
    """What a page holds; None where it holds nothing."""
    found = DATA.search(page)
    return json.loads(gzip.decompress(base64.b64decode(found[2]))) if found else None


def page_of(data: dict[str, Any], generated: str) -> str:
    scripts, licence = library()
    own = "\n".join(read_text(FOLDER / name) for name in SCRIPTS)
    parts = {
        "<!--GENERATED-->": f"<!-- Generated: {generated}. Do not edit by hand. -->",
        "/*STYLE*/": read_text(FOLDER / "style.css"),
        "<!--LICENCE-->": licence.replace("&", "&amp;").replace("<", "&lt;"),
        "<!--SCRIPT-->": own,
        "<!--DATA-->": packed(data),
        "<!--LIBRARY-->": scripts,
    }
    text = read_text(FOLDER / "page.html")
    for mark, part in parts.items():
        before, found, after = text.partition(mark)
        if not found:
            raise InputError(f"{FOLDER / 'page.html'}: lacks {mark}, where a part of the page belongs.")
        text = before + part + after
    return text


def same(page: str, other: str) -> bool:
    """Compression may differ by its version: the data are compared by what they hold."""
    return DATA.sub(r"\1\3", page) == DATA.sub(r"\1\3", other) and unpacked(page) == unpacked(other)


def made(here: Path | None, generated: str, links: list[tuple[str, str]]) -> str:
    held, record, turns = of_committed(here)
    data = dict(held)
    files = ", ".join(source.shown for source in [*record.sources, *(turns.sources if turns else [])])
    data["links"] = links
    data["origin"] = f"Times and counters: {record.machine('cuda')}" + (
        f"; sessions in turns of steps that it has none of: {turns.machine('cuda')}." if turns else "."
    )
    data["made"] = f"{generated}, from {files}" + (f" and {here}" if here else "") + "."
    text = page_of(data, generated)
    if len(text.encode()) > MOST_BYTES:
        raise InputError(f"the page has {len(text.encode()):,} bytes, more than {MOST_BYTES:,}: name fewer records.")
    return text


@in_sentences
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Writes the explorer, one HTML file.")
    parser.add_argument(
        "here", nargs="?", type=Path, metavar="RECORD", help="of this machine, beside the committed ones"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--update", type=Path, metavar="FILE", help="write the published page")
    what.add_argument("--check", type=Path, metavar="FILE", help="exit 1 where the file says anything else")
    what.add_argument("--out", type=Path, metavar="FILE", help="write a page of this machine, which links its pictures")
    arguments = parser.parse_args(argv)
    path: Path = arguments.update or arguments.check or arguments.out
    if arguments.out:
        outputs.need_place(path, outputs.HTML, [arguments.here] if arguments.here else [])
        text = made(arguments.here, COMMAND, [("pictures", "index.html")])
        outputs.write(path, text)
        print(f"look at {path}")
        return 0
    text = made(arguments.here, f"{COMMAND} --update docs/explorer.html", [])
    if arguments.update:
        outputs.write(path, text, outputs.PAGE)
    elif not same(read_bytes(path).decode(), text):
        print(f"{path}: is not what the records say; run `{COMMAND} --update {path}`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
