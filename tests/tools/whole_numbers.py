"""Judges labels in whole numbers: the lowest index of the least sum of (x - c)^2, with Python's integers, which no
rounding touches. Shares no code with the rungs, nor with the harness's validation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Verdict:
    judged: int = 0
    settled: int = 0  # of these, rows that double could not decide
    wrong: int = 0
    first: str = ""  # the first wrong label in a sentence


def whole(values: np.ndarray, lowest: int) -> list[int]:
    """Finite values in units of 2^lowest, of which all are multiples."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    return [int(d) << int(e) if d else 0 for d, e in zip(digits, exponent - 53 - lowest, strict=True)]


def lowest_exponent(*arrays: np.ndarray) -> int:
    exponents = [np.frexp(a[a != 0].astype(np.float64))[1] for a in arrays]
    return min((int(e.min()) for e in exponents if e.size), default=0) - 53


def nearest(point: list[int], centroids: dict[int, list[int]]) -> int:
    """The lowest index of those at the least distance."""
    distances = {j: sum((x - z) ** 2 for x, z in zip(point, c, strict=True)) for j, c in centroids.items()}
    return min(distances, key=lambda j: (distances[j], j))


def judge(points: np.ndarray, centroids: np.ndarray, labels: np.ndarray) -> Verdict:
    """Every label, against the exact minimum. points: N x D, centroids: K x D, float32 or float64."""
    verdict = Verdict(judged=len(points))
    if labels.shape != (len(points),):
        return Verdict(len(points), 0, len(points), f"{labels.shape} labels for {len(points)} points")
    d = points.shape[1]
    lowest = lowest_exponent(points, centroids)
    different = np.sort(np.unique(centroids + 0.0, axis=0, return_index=True)[1])  # of equal ones the lowest index
    c = centroids[different].astype(np.float64)
    # A sum of d squares in double is off by less than (d + 2) 2^-53 of itself; squares that underflow by less than
    # 2^-1070 each. Sums that overflow decide nothing.
    share, least_known = (d + 8) * 2.0**-51, (d + 1) * 2.0**-1060
    known: dict[int, list[int]] = {}
    rows_at_once = max(1, int(2e6 / (len(c) * d)))
    for begin in range(0, len(points), rows_at_once):
        x = points[begin : begin + rows_at_once].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            distance = np.square(x[:, None, :] - c[None, :, :]).sum(axis=2)
            distance = np.where(np.isfinite(distance), distance, np.inf)
            open_ = ~(distance * (1 - share) > distance.min(axis=1, keepdims=True) + least_known)
        open_ |= np.isinf(distance)
        for at in range(len(x)):
            candidates = np.flatnonzero(open_[at])
            right = int(different[candidates[0]])
            if len(candidates) > 1:
                verdict.settled += 1
                for j in candidates:
                    if int(j) not in known:
                        known[int(j)] = whole(centroids[different[j]], lowest)
                row = whole(points[begin + at], lowest)
                right = int(different[nearest(row, {int(j): known[int(j)] for j in candidates})])
            if (got := int(labels[begin + at])) != right:
                verdict.wrong += 1
                verdict.first = verdict.first or f"row {begin + at} has label {got}, in whole numbers it is {right}"
    return verdict
