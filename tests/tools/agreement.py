"""What `--dump` hands out, held against scikit-learn's Lloyd: labels up to exact ties and the rounding that a card
declares, centroids and inertia."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

Card = dict[str, object]  # of `ladder list --json`


def squares(x: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Squared distances, row by row, in double."""
    return ((x.astype(np.float64) - centroids.astype(np.float64)) ** 2).sum(axis=-1)


def roundings(card: Card, dtype: np.dtype, d: int) -> float:
    """What d + 4 roundings of the card's arithmetic can add up to, relative."""
    return (d + 4) * (card["distance_roundoff"] or float(np.finfo(dtype).eps) / 2)


def slack(card: Card, points: np.ndarray, rows: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By how much the squared distances of these rows' points to the centroids a may exceed those to b, where both are
    computed with the card's arithmetic. The derived bound in harness/validation/bounds.hpp is tighter."""
    x, unit = points[rows], float(np.finfo(points.dtype).eps) / 2
    centre = 2 * np.linalg.norm(np.abs(points).mean(axis=0, dtype=np.float64)) if card["centred"] else 0.0
    norm = {
        name: np.linalg.norm(of.astype(np.float64), axis=-1) + centre for name, of in (("x", x), ("a", a), ("b", b))
    }
    scale = (norm["x"] + norm["a"]) ** 2 + (norm["x"] + norm["b"]) ** 2
    terms = {"difference": squares(x, a) + squares(x, b), "expanded": scale, "exact": 0 * scale}
    arithmetic = 2 * roundings(card, points.dtype, x.shape[-1]) * terms[card["arithmetic"]]
    inputs = 4 * max(card["input_roundoff"], unit if card["centred"] else 0) * norm["x"] * (norm["a"] + norm["b"])
    return arithmetic + inputs + 1e-12 * scale  # the last: what scikit-learn's and our double can be off by


def nearest(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """The labels that scikit-learn gives for these centroids, in double."""
    model = KMeans(n_clusters=len(centroids), init=centroids.astype(np.float64), n_init=1, max_iter=1)
    if len(centroids) == 1:
        return np.zeros(len(points), np.int32)  # fit() would warn of K = 1 where all points are the same
    model.fit(points.astype(np.float64))
    model.cluster_centers_ = centroids.astype(np.float64)  # fit() moved them
    return model.predict(points.astype(np.float64))


def disagreement(points: np.ndarray, folder: Path, card: Card) -> str:
    """What scikit-learn says against the labels and the inertia in the folder, for the centroids there; empty where
    nothing."""
    labels, centroids = np.load(folder / "labels.npy"), np.load(folder / "centroids.npy")
    if labels.shape != (len(points),) or labels.dtype != np.int32:
        return f"labels are {labels.dtype} {labels.shape}, there are {len(points)} points"
    if labels.min() < 0 or labels.max() >= len(centroids) or not np.isfinite(centroids).all():
        return f"labels are {labels.min()} to {labels.max()} of {len(centroids)}, or a centroid is no number"
    theirs = nearest(points, centroids)
    other = np.flatnonzero(theirs != labels)
    x, a, b = points[other], centroids[labels[other]], centroids[theirs[other]]
    beyond = squares(x, a) - squares(x, b) - slack(card, points, other, a, b)
    if len(other) and beyond.max() > 0:
        i = other[beyond.argmax()]
        return (
            f"{(beyond > 0).sum()} of {len(labels)} labels are wrong: row {i} has label {labels[i]}, scikit-learn "
            f"says {theirs[i]}"
        )
    inertia, expected = float((folder / "inertia.txt").read_text()), squares(points, centroids[theirs]).sum()
    allowed = slack(card, points, np.arange(len(points)), centroids[labels], centroids[theirs]).sum() + 1e-6 * expected
    if abs(inertia - expected) > allowed:
        return f"the inertia is {inertia}, by scikit-learn's labels {expected}"
    return ""
