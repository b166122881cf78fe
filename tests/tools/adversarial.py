"""Data that is made to mislead rungs whose labels are those of the exact minimum: so many rows of it, by a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Data = tuple[np.ndarray, np.ndarray]  # points, centroids


def near_ties(rows: int = 600, seed: int = 1) -> Data:
    """Points between two centroids, off the middle by 2^-2 to 2^-24 of their distance, at scales 2^-30 to 2^30."""
    rng = np.random.default_rng(seed)
    middle, apart = rng.standard_normal((20, 24)), rng.standard_normal((20, 24))
    scale = 2.0 ** rng.integers(-30, 31, (20, 1))
    centroids = np.concatenate([middle + apart, middle - apart]) * np.concatenate([scale, scale])
    which, off = rng.integers(0, 20, rows), rng.choice([-1, 1], rows) * 2.0 ** -rng.integers(2, 25, rows)
    return (middle[which] + apart[which] * off[:, None]) * scale[which], centroids


def far_from_the_origin(rows: int = 500, seed: int = 2) -> Data:
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((30, 16))
    return places[rng.integers(0, 30, rows)] + rng.standard_normal((rows, 16)) + 1e6, places + 1e6


def one_far_centroid(rows: int = 400, seed: int = 3) -> Data:
    rng = np.random.default_rng(seed)
    centroids = rng.standard_normal((40, 20))
    centroids[7], centroids[30] = 1e30, -3e4
    return rng.standard_normal((rows, 20)), centroids


def one_far_point(rows: int = 400, seed: int = 4) -> Data:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rows, 3))
    points[100] = 1e30
    return points, points[:30]


def duplicates(rows: int = 500, seed: int = 5) -> Data:
    """Whole numbers: ties are exact. Each centroid is there three times."""
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, (rows, 6)), np.tile(rng.integers(-4, 5, (15, 6)), (3, 1))


def denormals(rows: int = 500, seed: int = 5) -> Data:
    points, centroids = duplicates(rows, seed)
    return points * 2.0**-146, centroids * 2.0**-146


def one_direction(rows: int = 400, seed: int = 6) -> Data:
    rng = np.random.default_rng(seed)
    line = rng.standard_normal(50)
    return np.outer(rng.standard_normal(rows), line), np.outer(rng.standard_normal(60), line)


def aligned(rows: int = 128, seed: int = 0) -> Data:
    """Every value is rounded by nearly half a unit, all in the same direction: the nearest centroid's product is too
    small by two thirds of its bound, and the next one, 0, is as near to 2^-17 or so. The seed scales it."""
    value = 1 + 2.0**-11 - 2.0**-20
    points = np.repeat([[value], [-value]], rows // 2, axis=0) * np.ones(64)
    centroids = np.outer([2 * value - 2.0**-16, 0, -2 * value + 2.0**-16], np.ones(64))
    return points * 2.0 ** (seed % 40), centroids * 2.0 ** (seed % 40)


def mostly_zeros(rows: int = 400, seed: int = 7) -> Data:
    """Zeros times large halves, which a tensor core lines up as if they were something; rows of nothing but zeros."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((rows, 40)) * (rng.random((rows, 40)) < 0.1)
    centroids = rng.standard_normal((50, 40)) * (rng.random((50, 40)) < 0.1) * 2.0 ** rng.integers(-30, 10, (50, 1))
    points[::40], centroids[20] = 0, 0
    return points, centroids


def spectrum(rng: np.random.Generator, rows: int, features: int, power: float) -> np.ndarray:
    """Rows in directions of which the i-th has a deviation of i^-power: all alike, or hardly more than one."""
    points = rng.standard_normal((rows, features)) * np.arange(1.0, features + 1) ** -power
    for _ in range(3):  # reflections: the directions are no longer the axes
        mirror = rng.standard_normal(features)
        points -= np.outer(points @ mirror, 2 / (mirror @ mirror) * mirror)
    return points


def flat_spectrum(rows: int = 400, seed: int = 8) -> Data:
    points = spectrum(np.random.default_rng(seed), rows, 48, 0)
    return points, points[:50]


def falling_spectrum(rows: int = 400, seed: int = 9) -> Data:
    points = spectrum(np.random.default_rng(seed), rows, 48, 1)
    return points, points[:50]


def steep_spectrum(rows: int = 400, seed: int = 10) -> Data:
    points = spectrum(np.random.default_rng(seed), rows, 48, 4)
    return points, points[:50]


ADVERSARIAL: list[Callable[..., Data]] = [
    near_ties,
    far_from_the_origin,
    one_far_centroid,
    one_far_point,
    duplicates,
    denormals,
    one_direction,
    aligned,
    mostly_zeros,
    flat_spectrum,
    falling_spectrum,
    steep_spectrum,
]
