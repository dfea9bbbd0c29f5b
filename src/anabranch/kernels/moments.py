"""Sums of the first three powers of values, per slot, to twice the precision of a double.

Each power sum is a pair of doubles, high + low (T. J. Dekker, 1971; D. E. Knuth, TAOCP 2, 4.2.2). That has two uses:
spread and skewness can be read from plain power sums even where the values lie far from zero, and the sums can be
added in any order and come out the same, to the last bit of a double in all but contrived cases.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen

Slots = NDArray[np.int64]

_ROUNDING = 2.0**-98


class Powers(NamedTuple):
    """Per slot, how many values there were, and Σy, Σy², Σy³ as (high, low): one row of six doubles."""

    number: NDArray[np.int64]
    sums: NDArray[np.float64]


class Spread(NamedTuple):
    """Per slot, the mean, and Σ(y − mean)² and Σ(y − mean)³; zeros where there is no value."""

    mean: NDArray[np.float64]
    second: NDArray[np.float64]
    third: NDArray[np.float64]


def powers_of(
    slots: Slots,
    values: NDArray[np.float64],
    present: NDArray[np.bool_],
    size: int,
    *,
    first_only: bool = False,
    lows: NDArray[np.float64] | None = None,
) -> Powers:
    """Add up the values that are present, each in its slot; `first_only`: their squares and cubes are of no use.

    `lows`: what the values have beyond a double, see `as_doubles`.

    >>> powers_of(np.array([0, 0, 1]), np.array([1.0, 2.0, 5.0]), np.ones(3, bool), 2).sums[:, 0].tolist()
    [3.0, 5.0]
    """
    counts, sums = np.zeros(size, np.int64), np.zeros((size, 6))
    fold = _fold_first if first_only else _fold_values
    beyond = np.zeros(1) if lows is None else lows
    ready = frozen(np.ascontiguousarray(values, np.float64)), frozen(beyond), lows is not None
    fold(counts, sums, _ready(slots), *ready, frozen(present))
    return Powers(counts, sums)


def as_doubles(numbers: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Whole numbers as doubles, and what is lost by that.

    >>> [part.tolist() for part in as_doubles(np.array([5, 2**53 + 1]))]
    [[5.0, 9007199254740992.0], [0.0, 1.0]]
    """
    upper, lower = (numbers >> 32).astype(np.float64) * 2.0**32, (numbers & 0xFFFF_FFFF).astype(np.float64)
    values = upper + lower
    return values, lower - (values - upper)


def added(slots: Slots, parts: Powers, size: int) -> Powers:
    """Add up power sums, each in its slot."""
    counts, sums = np.zeros(size, np.int64), np.zeros((size, 6))
    _fold_sums(counts, sums, _ready(slots), _ready(parts.number), frozen(np.ascontiguousarray(parts.sums)))
    return Powers(counts, sums)


def spread(parts: Powers) -> Spread:
    """Mean and central sums.

    >>> [x.tolist() for x in spread(powers_of(np.zeros(3, int), np.array([1.0, 2.0, 6.0]), np.ones(3, bool), 1))]
    [[3.0], [14.0], [18.0]]
    """
    mean, second, third = (np.zeros(len(parts.number)) for _ in range(3))
    _central(mean, second, third, _ready(parts.number), frozen(np.ascontiguousarray(parts.sums)))
    return Spread(mean, second, third)


def whole_totals(parts: Powers, group: Slots, groups: int) -> list[int]:
    """Σy of whole numbers by group, exactly.

    >>> parts = powers_of(np.array([0, 1]), *[np.array([2.0**53, 3.0]), np.ones(2, bool)], 2, lows=np.array([1.0, 0.0]))
    >>> whole_totals(parts, np.array([0, 0]), 1)
    [9007199254740996]
    """
    if float(np.abs(parts.sums[:, 0]).sum()) < 2.0**62:
        small = np.zeros(groups, np.int64)
        np.add.at(small, group, parts.sums[:, 0].astype(np.int64) + parts.sums[:, 1].astype(np.int64))
        return [int(total) for total in small]
    exact = [0] * groups
    for at, (high, low) in zip(group.tolist(), parts.sums[:, :2].tolist(), strict=True):
        exact[at] += int(high) + int(low)
    return exact


def totals(parts: Powers) -> NDArray[np.float64]:
    """Σy as one double."""
    total: NDArray[np.float64] = parts.sums[:, 0] + parts.sums[:, 1]
    return total


def _ready(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    return frozen(np.ascontiguousarray(numbers, np.int64))


@compiled
def _sum_of(a_high, a_low, b_high, b_low):  # type: ignore[no-untyped-def]
    s = a_high + b_high
    if not np.isfinite(s):
        return s, 0.0
    back = s - a_high
    e = (a_high - (s - back)) + (b_high - back)
    t = a_low + b_low
    back = t - a_low
    f = (a_low - (t - back)) + (b_low - back)
    e += t
    high = s + e
    f += e - (high - s)
    s = high + f
    return s, f - (s - high)


@compiled
def _product_of(a_high, a_low, b_high, b_low):  # type: ignore[no-untyped-def]
    p = a_high * b_high
    if not abs(p) < 1e290 or not abs(a_high) < 1e290 or not abs(b_high) < 1e290:
        return p, 0.0
    t = 134217729.0 * a_high
    a1 = t - (t - a_high)
    a2 = a_high - a1
    t = 134217729.0 * b_high
    b1 = t - (t - b_high)
    b2 = b_high - b1
    e = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2
    e += a_high * b_low + a_low * b_high
    high = p + e
    return high, e - (high - p)


@compiled
def _fold_values(counts, sums, slots, values, lows, has_lows, present):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        if not present[i]:
            continue
        s, y = slots[i], values[i]
        z = lows[i] if has_lows else 0.0
        counts[s] += 1
        sums[s, 0], sums[s, 1] = _sum_of(sums[s, 0], sums[s, 1], y, z)
        high, low = _product_of(y, z, y, z)
        sums[s, 2], sums[s, 3] = _sum_of(sums[s, 2], sums[s, 3], high, low)
        high, low = _product_of(high, low, y, z)
        sums[s, 4], sums[s, 5] = _sum_of(sums[s, 4], sums[s, 5], high, low)


@compiled
def _fold_first(counts, sums, slots, values, lows, has_lows, present):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        if present[i]:
            s = slots[i]
            counts[s] += 1
            z = lows[i] if has_lows else 0.0
            sums[s, 0], sums[s, 1] = _sum_of(sums[s, 0], sums[s, 1], values[i], z)


@compiled
def _fold_sums(counts, sums, slots, more_counts, more):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        s = slots[i]
        counts[s] += more_counts[i]
        for p in range(0, 6, 2):
            sums[s, p], sums[s, p + 1] = _sum_of(sums[s, p], sums[s, p + 1], more[i, p], more[i, p + 1])


@compiled
def _central(mean, second, third, counts, sums):  # type: ignore[no-untyped-def]
    """Powers about the rounded mean first, where next to nothing cancels any more, then about the mean itself."""
    for i in range(len(counts)):
        if counts[i] == 0:
            continue
        n = float(counts[i])
        middle = sums[i, 0] / n
        one_high, one_low = sums[i, 0], sums[i, 1]
        two_high, two_low = sums[i, 2], sums[i, 3]
        high, low = _product_of(one_high, one_low, -middle, 0.0)
        square_high, square_low = _product_of(middle, 0.0, middle, 0.0)
        # Σ(y−c)³ = Σy³ − 3cΣy² + 3c²Σy − nc³
        a, b = _product_of(middle, 0.0, -3.0, 0.0)
        a, b = _product_of(two_high, two_low, a, b)
        three_high, three_low = _sum_of(sums[i, 4], sums[i, 5], a, b)
        a, b = _product_of(square_high, square_low, 3.0, 0.0)
        a, b = _product_of(a, b, one_high, one_low)
        three_high, three_low = _sum_of(three_high, three_low, a, b)
        a, b = _product_of(square_high, square_low, -middle, 0.0)
        a, b = _product_of(a, b, n, 0.0)
        three_high, three_low = _sum_of(three_high, three_low, a, b)
        # Σ(y−c)² = Σy² − 2cΣy + nc²
        two_high, two_low = _sum_of(two_high, two_low, 2.0 * high, 2.0 * low)
        a, b = _product_of(square_high, square_low, n, 0.0)
        two_high, two_low = _sum_of(two_high, two_low, a, b)
        a, b = _product_of(middle, 0.0, -n, 0.0)
        one_high, one_low = _sum_of(one_high, one_low, a, b)
        off = (one_high + one_low) / n
        about = two_high + two_low
        mean[i] = middle + off
        second[i] = max(about - n * off * off, 0.0)
        cubes = three_high + three_low - 3.0 * off * about + 2.0 * n * off**3
        # Of values very far from zero, what is left of the cubes is rounding.
        if abs(cubes) > _ROUNDING * n * abs(middle) ** 3:
            third[i] = cubes
