"""How much of one submission stands in another: fingerprints of runs of tokens (winnowing), whatever the names, the
spaces and the comments are, and without what the template has."""

from __future__ import annotations

import hashlib
from itertools import combinations

from grade.parts import UnreadableError, tokens

RUN, WINDOW, FEWEST = 8, 4, 8
CONTROL = {"for", "if", "else", "while", "do", "return", "template", "class", "struct"}
KEPT = CONTROL | {"const", "auto", "void", "int", "float", "double", "size_t", "min", "max"}


def fingerprints(text: str) -> set[int]:
    try:
        words = [
            "N" if t.kind == "number" else "V" if t.kind == "word" and t.text not in KEPT else t.text
            for t in tokens(text)
            if t.kind != "directive"
        ]
    except UnreadableError:
        return set()
    runs = [" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1)]
    hashes = [int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "big") for run in runs]
    return {min(hashes[i : i + WINDOW]) for i in range(max(0, len(hashes) - WINDOW + 1))}


def similar_pairs(texts: dict[str, str], template: str, threshold: float) -> list[tuple[float, int, str, str]]:
    """Pairs with at least this share of the shorter one in the other: share, fingerprints in common, names."""
    common = fingerprints(template)
    own = {name: fingerprints(text) - common for name, text in texts.items()}
    found = []
    for one, other in combinations(sorted(own), 2):
        fewest = min(len(own[one]), len(own[other]))
        if fewest < FEWEST:
            continue
        shared = len(own[one] & own[other])
        if shared / fewest >= threshold:
            found.append((shared / fewest, shared, one, other))
    return sorted(found, reverse=True)
