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
    points[min(100, rows - 1)] = 1e30
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


def beyond_95_bits(rows: int = 300, seed: int = 12) -> Data:
    """Squared distances that are equal to 95 bits and more."""
    rng = np.random.default_rng(seed)
    points, centroids = np.zeros((rows, 4)), np.zeros((6, 4))
    points[:, 0], centroids[:, 1] = rng.choice([-1e15, 1e15], rows), 5e-15 * np.arange(5, -1, -1)
    return points, centroids


def intransitive_ties(rows: int = 300, seed: int = 13) -> Data:
    """Three distances of which neighbours, but not the outer ones, are equal to 95 bits."""
    rng = np.random.default_rng(seed)
    points, centroids = np.zeros((rows, 4)), np.zeros((3, 4))
    points[:, 0], points[:, 2] = 2.0**40 * rng.choice([-1, 1], rows), rng.choice([0, 0.005], rows)
    centroids[:, 1] = 0.0065, 0.0046, 0
    return points, centroids


def one_ulp(rows: int = 400, seed: int = 14) -> Data:
    """Points in the middle of two centroids, or one unit in the last place of one coordinate beside it."""
    rng = np.random.default_rng(seed)
    centroids = rng.integers(-1000, 1000, (24, 10)).astype(np.float32)
    pair = np.array([rng.choice(24, 2, replace=False) for _ in range(rows)])
    points = (centroids[pair[:, 0]] + centroids[pair[:, 1]]) / np.float32(2)
    where, way = rng.integers(0, 10, rows), rng.choice([-np.inf, np.inf], rows).astype(np.float32)
    nudged = np.nextafter(points[np.arange(rows), where], way)
    points[np.arange(rows), where] = np.where(rng.random(rows) < 0.8, nudged, points[np.arange(rows), where])
    return points, centroids


def middles(rows: int = 400, seed: int = 15) -> Data:
    points, centroids = one_ulp(rows, seed)
    return np.round(points), centroids * 2


def any_scale(rows: int = 300, seed: int = 16) -> Data:
    """Values from 1e-30 to 1e30 side by side."""
    rng = np.random.default_rng(seed)
    values = rng.choice([-1, 1], (rows + 30, 8)) * 10.0 ** rng.uniform(-30, 30, (rows + 30, 8))
    return values[:rows], values[rows:]


def columns_of_any_scale(rows: int = 300, seed: int = 17) -> Data:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows + 30, 12)) * 10.0 ** np.linspace(-30, 30, 12)
    return values[:rows], values[rows:]


def rows_of_any_scale(rows: int = 300, seed: int = 18) -> Data:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows + 30, 12)) * 10.0 ** rng.uniform(-20, 20, (rows + 30, 1))
    return values[:rows], values[rows:]


def beyond_165_digits(rows: int = 200, seed: int = 19) -> Data:
    """More binary digits than exact sums hold."""
    rng = np.random.default_rng(seed)
    points = rng.choice([1e-32, -1e-32, 8e17, -8e17, 1.0], (rows, 5))
    return points, points[:20] * 1.5


def smallest(rows: int = 300, seed: int = 20) -> Data:
    """A few units of 2^-149."""
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, (rows, 5)) * 2.0**-149, rng.integers(-3, 4, (25, 5)) * 2.0**-149


def denormals_beside_ones(rows: int = 300, seed: int = 21) -> Data:
    """What decides is far below what the values are."""
    rng = np.random.default_rng(seed)
    points, centroids = np.zeros((rows, 6)), np.zeros((20, 6))
    points[:, 3:], centroids[:, :3] = (
        rng.integers(-1, 2, (rows, 3)) * 2.0**-60,
        rng.integers(-9, 10, (20, 3)) * 2.0**-70,
    )
    points[:, 0] = 1
    return points, centroids


def largest(rows: int = 300, seed: int = 22) -> Data:
    """Squares overflow a float."""
    rng = np.random.default_rng(seed)
    return rng.integers(-6, 7, (rows, 5)) * 2.0**124, rng.integers(-6, 7, (25, 5)) * 2.0**124


def at_the_largest_square(rows: int = 300, seed: int = 23) -> Data:
    """Squared distances just below and above the largest float."""
    rng = np.random.default_rng(seed)
    edge = np.sqrt(float(np.finfo(np.float32).max))
    points = np.zeros((rows, 3))
    points[:, 2] = rng.integers(-1, 2, rows) * edge * 2.0**-20
    return points, np.array([[edge * (1 + e * 2.0**-24), 0, 0] for e in rng.integers(-8, 9, 12)] + [[0, edge, 0]])


def whole_line(rows: int = 400, seed: int = 24) -> Data:
    """Whole numbers on a line: most points are as near to two centroids."""
    rng = np.random.default_rng(seed)
    line = np.array([3, -1, 4, 1, -5, 9])
    return np.outer(rng.integers(-40, 41, rows), line), np.outer(rng.permutation(np.arange(-40, 41, 4)), line)


def rank_two(rows: int = 400, seed: int = 25) -> Data:
    rng = np.random.default_rng(seed)
    plane = rng.standard_normal((2, 40))
    return rng.standard_normal((rows, 2)) @ plane, rng.standard_normal((50, 2)) @ plane


def rank_three_whole(rows: int = 400, seed: int = 26) -> Data:
    rng = np.random.default_rng(seed)
    space = rng.integers(-2, 3, (3, 20))
    return rng.integers(-4, 5, (rows, 3)) @ space, rng.integers(-4, 5, (40, 3)) @ space


def constant_columns(rows: int = 300, seed: int = 27) -> Data:
    points, centroids = near_ties(rows, seed)
    points[:, ::2], centroids[:, ::2] = 0.1, 0.1
    return points, centroids


def hub(rows: int = 300, seed: int = 28) -> Data:
    """One centroid amid all points, the others around it."""
    rng = np.random.default_rng(seed)
    points, around = rng.standard_normal((rows, 20)), rng.standard_normal((60, 20))
    centroids = around / np.linalg.norm(around, axis=1)[:, None] * 3
    centroids[41] = 0
    return points, centroids


def shell(rows: int = 300, seed: int = 29) -> Data:
    """All centroids as far from the points' middle, up to rounding."""
    rng = np.random.default_rng(seed)
    around = rng.standard_normal((40, 16))
    return rng.standard_normal((rows, 16)) * 1e-6, around / np.linalg.norm(around, axis=1)[:, None]


def axes(rows: int = 300, seed: int = 30) -> Data:
    """The unit vectors and their opposites, and points with several equal coordinates."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, (rows, 16)), rng.permutation(np.concatenate([np.eye(16), -np.eye(16)]))


def permutations(rows: int = 300, seed: int = 31) -> Data:
    """Centroids are one row in other orders: the same squares, added up in another order."""
    rng = np.random.default_rng(seed)
    row = rng.standard_normal(24).astype(np.float32)
    points = np.repeat(rng.standard_normal((rows, 1)), 24, axis=1)
    return points, np.array([rng.permutation(row) for _ in range(30)])


def equal_norms(rows: int = 300, seed: int = 32) -> Data:
    """Different rows of the same length."""
    rng = np.random.default_rng(seed)
    centroids = np.array([[25, 0, 0], [0, 25, 0], [15, 20, 0], [7, 24, 0], [0, 7, 24], [24, 0, 7], [-25, 0, 0]])
    points = rng.integers(-1, 2, (rows, 3)) * rng.integers(0, 2, (rows, 1))
    return points, rng.permutation(centroids)


def creeping(rows: int = 300, seed: int = 33) -> Data:
    """Centroids a few units in the last place apart."""
    rng = np.random.default_rng(seed)
    place = 1 + rng.random(12)
    return place + rng.standard_normal((rows, 12)), place + rng.integers(-2, 3, (40, 12)) * 2.0**-23


def creeping_in_the_last(rows: int = 300, seed: int = 34) -> Data:
    """Centroids that differ in their last feature only."""
    rng = np.random.default_rng(seed)
    centroids = np.repeat(rng.standard_normal((1, 33)), 30, axis=0)
    centroids[:, -1] = 1 + rng.permutation(30) * 2.0**-23
    points = rng.standard_normal((rows, 33))
    points[::2, -1] = 1 + rng.integers(0, 60, len(points[::2])) * 2.0**-24
    return points, centroids


def outlier(exponent: int) -> Callable[..., Data]:
    def one_outlier(rows: int = 300, seed: int = 35) -> Data:
        rng = np.random.default_rng(seed)
        points = spectrum(rng, rows, 24, 1)
        points[7] *= 2.0**exponent
        return points, np.concatenate([points[20:60], points[7:8]])

    one_outlier.__name__ = f"outlier_of_2_to_the_{exponent}"
    return one_outlier


def many_outliers(rows: int = 300, seed: int = 37) -> Data:
    """One row in a hundred is 2^12 times as long as the others, the last one, too."""
    points = spectrum(np.random.default_rng(seed), rows, 24, 1)
    points[rows - 1 :: -100] *= 2.0**12
    return points, np.concatenate([points[20:60], points[rows - 1 :]])


def all_but_one_equal(rows: int = 300, seed: int = 38) -> Data:
    """All rows but the last one are the same, to the last bit."""
    rng = np.random.default_rng(seed)
    points = np.repeat(rng.standard_normal((1, 24)), rows, axis=0)
    points[-1] *= 2.0**60
    return points, np.concatenate([points[-2:], points[:1] + rng.standard_normal((30, 24)) * 2.0**-20])


def border(count: int, features: int) -> Callable[..., Data]:
    """So many centroids and features: at, below and above what a tile, a warp or a step holds. The last centroids and
    the last feature decide, and every fourth centroid is there twice."""

    def at_border(rows: int = 200, seed: int = 36) -> Data:
        rng, rows = np.random.default_rng(seed), max(rows, count)
        centroids = rng.integers(-3, 4, (count, features)).astype(np.float64)
        centroids[3::4] = centroids[2 : 2 + 4 * len(centroids[3::4]) : 4]
        centroids[-1, -1] += 0.25
        points = centroids[-1 - rng.integers(0, min(count, 9), rows)] + rng.integers(-1, 2, (rows, features)) / 2
        return points, centroids

    at_border.__name__ = f"border_{count}_x_{features}"
    return at_border


def signed_zeros(rows: int = 300, seed: int = 37) -> Data:
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, -0.0, 1.0], (rows + 20, 6))
    return values[:rows], values[rows:]


def bytes_of_pixels(rows: int = 400, seed: int = 38) -> Data:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, 3)), rng.integers(0, 64, (40, 3)) * 4


def bits(rows: int = 400, seed: int = 39) -> Data:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, (rows, 30)), rng.integers(0, 2, (40, 30))


def on_centroids(rows: int = 300, seed: int = 40) -> Data:
    """Every point is a centroid, or two."""
    rng = np.random.default_rng(seed)
    centroids = rng.standard_normal((30, 9))
    centroids[20:] = centroids[:10]
    return centroids[rng.integers(0, 30, rows)], centroids


def line_of_halves(rows: int = 300, seed: int = 41) -> Data:
    rng = np.random.default_rng(seed)
    return rng.integers(-20, 21, (rows, 1)) / 2, rng.permutation(np.arange(-10.0, 11))[:, None]


def lattice_2d(rows: int = 300, seed: int = 42) -> Data:
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 2), -1).reshape(-1, 2)
    return rng.integers(0, 11, (rows, 2)) / 2, rng.permutation(grid)


def lattice_3d(rows: int = 300, seed: int = 43) -> Data:
    """Up to eight centroids at the same distance, at an offset that leaves few bits."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), -1).reshape(-1, 3)
    return 2.0**20 + rng.integers(0, 7, (rows, 3)) / 2, 2.0**20 + rng.permutation(grid)


def powers(rows: int = 300, seed: int = 44) -> Data:
    rng = np.random.default_rng(seed)
    values = rng.choice([-1, 1], (rows + 30, 7)) * 2.0 ** rng.integers(-20, 21, (rows + 30, 7))
    return values[:rows], values[rows:]


def halving_columns(rows: int = 300, seed: int = 45) -> Data:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, (rows + 40, 40)) * 2.0 ** -np.arange(40)
    return values[:rows], values[rows:]


def large_common_part(rows: int = 300, seed: int = 46) -> Data:
    rng = np.random.default_rng(seed)
    values = 1e7 * rng.standard_normal(18) + rng.integers(-2, 3, (rows + 30, 18))
    return values[:rows], values[rows:]


def empty_clusters(rows: int = 300, seed: int = 47) -> Data:
    rng = np.random.default_rng(seed)
    centroids = rng.standard_normal((64, 8)) + 1000
    centroids[[5, 40]] = rng.standard_normal((2, 8))
    return rng.standard_normal((rows, 8)), centroids


def one_point_many_times(rows: int = 300, seed: int = 48) -> Data:
    rng = np.random.default_rng(seed)
    return np.repeat(rng.standard_normal((1, 5)), rows, axis=0), rng.standard_normal((9, 5))


def sparse_whole(rows: int = 300, seed: int = 49) -> Data:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 4, (rows + 30, 60)) * (rng.random((rows + 30, 60)) < 0.05)
    return values[:rows], values[rows:]


def doubles_near_ties(rows: int = 300, seed: int = 50) -> Data:
    """Off the middle by 2^-20 to 2^-53 of the distance."""
    rng = np.random.default_rng(seed)
    middle, apart = rng.standard_normal((20, 12)), rng.standard_normal((20, 12))
    which, off = rng.integers(0, 20, rows), rng.choice([-1, 0, 1], rows) * 2.0 ** -rng.integers(20, 54, rows)
    return middle[which] + apart[which] * off[:, None], np.concatenate([middle + apart, middle - apart])


def doubles_one_ulp(rows: int = 300, seed: int = 51) -> Data:
    rng = np.random.default_rng(seed)
    centroids = rng.standard_normal((1, 9)) * (1 + rng.integers(-2, 3, (30, 9)) * 2.0**-52)
    return rng.standard_normal((rows, 9)), centroids


def doubles_beyond_95_bits(rows: int = 300, seed: int = 52) -> Data:
    points, centroids = beyond_95_bits(rows, seed)
    return points * (1 + 2.0**-50), centroids * (1 + 2.0**-51)


def doubles_of_any_scale(rows: int = 300, seed: int = 53) -> Data:
    rng = np.random.default_rng(seed)
    values = rng.choice([-1, 1], (rows + 30, 6)) * 10.0 ** rng.uniform(-20, 20, (rows + 30, 6))
    return values[:rows], values[rows:]


def doubles_low(rows: int = 300, seed: int = 54) -> Data:
    """At the lower end of what is taken: whole numbers x 2^-400."""
    points, centroids = duplicates(rows, seed)
    return points * 2.0**-400, centroids * 2.0**-400


def doubles_high(rows: int = 300, seed: int = 55) -> Data:
    points, centroids = duplicates(rows, seed)
    return points * 2.0**497, centroids * 2.0**497


def doubles_too_low(rows: int = 300, seed: int = 56) -> Data:
    """Squares underflow: to be refused."""
    points, centroids = duplicates(rows, seed)
    return points * 1e-170, centroids * 1e-170


def doubles_too_high(rows: int = 300, seed: int = 57) -> Data:
    points, centroids = duplicates(rows, seed)
    return points * 1e160, centroids * 1e160


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

MORE: list[Callable[..., Data]] = [
    beyond_95_bits,
    intransitive_ties,
    one_ulp,
    middles,
    any_scale,
    columns_of_any_scale,
    rows_of_any_scale,
    beyond_165_digits,
    smallest,
    denormals_beside_ones,
    largest,
    at_the_largest_square,
    whole_line,
    rank_two,
    rank_three_whole,
    constant_columns,
    hub,
    shell,
    axes,
    permutations,
    equal_norms,
    creeping,
    creeping_in_the_last,
    *(outlier(exponent) for exponent in (4, 8, 12, 20, 60)),
    many_outliers,
    all_but_one_equal,
    *(border(*shape) for shape in ((1, 1), (2, 3), (8, 15), (9, 16), (31, 17), (33, 31), (64, 33), (65, 63))),
    *(border(*shape) for shape in ((127, 64), (129, 65), (167, 41), (169, 42), (257, 128), (300, 129))),
    signed_zeros,
    bytes_of_pixels,
    bits,
    on_centroids,
    line_of_halves,
    lattice_2d,
    lattice_3d,
    powers,
    halving_columns,
    large_common_part,
    empty_clusters,
    one_point_many_times,
    sparse_whole,
    doubles_near_ties,
    doubles_one_ulp,
    doubles_beyond_95_bits,
    doubles_of_any_scale,
    doubles_low,
    doubles_high,
    doubles_too_low,
    doubles_too_high,
]
EVERY = ADVERSARIAL + MORE


def typed(make: Callable[..., Data], rows: int, seed: int) -> Data:
    """The set as it is given to rungs: in doubles where its name says so, else in floats."""
    made = make(rows, seed)
    kind = np.float64 if make.__name__.startswith("doubles") else np.float32
    return tuple(np.ascontiguousarray(part, dtype=kind) for part in made)
