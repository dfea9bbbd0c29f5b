"""Quantiles of the normal and of Student's distribution, for the width of bounds."""

from __future__ import annotations

import statistics

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def normal(confidence: float) -> float:
    """How many standard deviations either side hold this share.

    >>> round(normal(0.95), 6)
    1.959964
    """
    return statistics.NormalDist().inv_cdf((1 + confidence) / 2)


def student(confidence: float, freedom: Floats) -> Floats:
    """The same with the deviation itself estimated, with so many degrees of freedom (at least 1).

    G. W. Hill, "Algorithm 396: Student's t-quantiles", CACM 13 (1970).

    >>> student(0.95, np.array([1.0, 2.0, 5.0, 30.0])).round(3).tolist()
    [12.706, 4.303, 2.571, 2.042]
    """
    tail = 1 - confidence
    n = np.maximum(freedom, 1.0)
    a = 1 / (n - 0.5)
    b = 48 / (a * a)
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * np.sqrt(a * np.pi / 2) * n
    y: Floats = (d * tail) ** (2 / n)
    far = y > 0.05 + a

    x = -normal(confidence)
    z = x * x
    c = c + np.where(n < 5, 0.3 * (n - 4.5) * (x + 0.6), 0.0)
    c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
    near_normal = (((((0.4 * z + 6.3) * z + 36) * z + 94.5) / c - z - 3) / b + 1) * x
    near_normal = np.expm1(a * near_normal * near_normal)

    with np.errstate(divide="ignore", invalid="ignore"):
        tails = ((1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1) * (n + 1)
        tails = tails / (n + 2) + 1 / y
    t = np.sqrt(n * np.where(far, near_normal, tails))
    t = np.where(n == 1, 1 / np.tan(tail * np.pi / 2), t)
    quantiles: Floats = np.where(n == 2, np.sqrt(2 / (tail * (2 - tail)) - 2), t)
    return quantiles
