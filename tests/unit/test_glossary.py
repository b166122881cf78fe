"""docs/glossary.md: each term once, in two or three sentences, with names that exist; and the pages link to it."""

import re
from pathlib import Path

import pytest
from names_in_pages import missing

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
LINKING = ("README.md", "docs/certificate.md", "docs/variants.md", "harness/simt/README.md")


def entries(text: str) -> dict[str, str]:
    """What stands behind each term, on one line."""
    found = {}
    for block in re.findall(r"^- (.*?)(?=^- |^#|\n\n|\Z)", text, re.M | re.S):
        term, says = re.fullmatch(r"\*\*(.+?)\*\*: (.*)", " ".join(block.split())).groups()
        assert term not in found, f"{term} stands twice"
        found[term] = says
    return found


def sentences(says: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9`\[*])", says) if part]


ENTRIES = entries(GLOSSARY.read_text())


def test_the_terms_of_the_field_and_ours_are_there() -> None:
    terms = " ".join(ENTRIES).lower()
    needed = """coalesced, sector, occupancy, bank conflict, arithmetic intensity, mainloop, epilogue, pipeline stage,
        producer, mbarrier, bulk copy, wgmma, warpgroup, cluster, multicast, persistent kernel, ping-pong,
        fragment, accumulator, swizzle, register spilling, argmin, prefix sum, compaction, counting sort,
        segmented sum, fixed point, double-double, upper bound, threshold, candidate, undecided, refine, brute
        force, frame, projection, rank, pca, dirty cluster, active set, chunk, eager assignment, graph loop,
        inertia, label, centroid, drift, triangle inequality, yinyang, work tile, k-block, previous label,
        variant, base, card, workload, scope, device, session, poisoned, record, peer, part, roofline"""
    assert not [word for word in " ".join(needed.split()).split(", ") if word not in terms]


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_has_two_or_three_sentences(term: str) -> None:
    said = sentences(ENTRIES[term])
    assert 2 <= len(said) <= 3, said
    assert ENTRIES[term].endswith(".")


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_names_what_exists(term: str) -> None:
    assert not missing(ENTRIES[term])


def test_a_name_that_does_not_exist_is_found() -> None:
    assert missing("`no_such_function_anywhere` in `no/such_file.cuh`, `cudaMalloc`") == [
        "no_such_function_anywhere",
        "no/such_file.cuh",
    ]


@pytest.mark.parametrize("page", LINKING)
def test_a_page_links_to_it(page: str) -> None:
    assert re.search(r"\]\([^)]*glossary\.md[^)]*\)", (ROOT / page).read_text())
