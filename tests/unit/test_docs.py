"""The pages: links lead to files and headings, and names in `code` exist."""

import re
from pathlib import Path

import pytest
from names_in_pages import missing

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "datasets/*.md", "harness/**/*.md", "variants/**/*.md", "results/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]
# A folder that a page may name for what a run leaves there.
MADE_BY_RUNS = ("results/latest/", "results/local/")


def without_code(text: str) -> str:
    """Fenced and indented blocks and `code` are no links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"^(?: {4}|\t)(?! *[-*]).*$", "", text, flags=re.M)
    return re.sub(r"`[^`\n]*`", "code", text)


def links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^()\s]+(?:\([^()\s]*\))?)\)", without_code(page.read_text()))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown viewer makes of headings, and those that the page states itself."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    made = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    seen: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        made.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return made


def broken(page: Path, targets: list[str]) -> list[str]:
    found = []
    for target in targets:
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        inside = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else ""
        if not file.exists() and not f"{inside}/".startswith(MADE_BY_RUNS):
            found.append(f"{target}: no such file")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            found.append(f"{target}: no such heading")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_of_a_page_resolve(page: Path) -> None:
    assert not broken(page, links(page))


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One word: two\n\n[a](#one-word-two) [b](#none) [c](none.md) [d](https://none.example) `[e](f)`")
    assert links(page) == ["#one-word-two", "#none", "none.md"]
    assert broken(page, links(page)) == ["#none: no such heading", "none.md: no such file"]


@pytest.mark.parametrize("page", ["docs/variants.md", "harness/simt/README.md"])
def test_a_page_names_what_exists(page: str) -> None:
    assert not missing((ROOT / page).read_text())
