"""Values that lie so far from the others that a sample without them says little about their sum.

S. Chaudhuri, G. Das, M. Datar, R. Motwani and V. Narasayya, "Overcoming Limitations of Sampling for Aggregation
Queries" (ICDE 2001): kept apart from the sample, such rows cost little and take most of the variance with them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_DECIDES = 4096.0
"""A value is far if its square is more than this part of the squares of all that are not farther. What is left has
none, so that the skewness of an estimate from the part f of it is at most 1/√(4096·f): 0.16 of a hundredth."""
_DEVIATIONS = 25.0
"""And it is five deviations out at least: of few values, each decides."""

_SOME = 1 << 15
"""So many values say about where the middle is, and from where on values are large."""


class Extent(NamedTuple):
    """How far the values of a column reach: how many are numbers, between which ends, and how many are not."""

    number: int
    low: float
    high: float
    squares: float
    """Sum of squares about the mean."""
    odd: int
    """NaN and infinities."""

    @property
    def decides(self) -> float:
        """The part of the squares of all that is too much for one value."""
        return min(_DECIDES, self.number / _DEVIATIONS)

    @property
    def has_far(self) -> bool:
        """Whether some value may be far: the farthest one is, or is no number."""
        reach = self.high - self.low
        return self.odd > 0 or (self.number > 0 and reach * reach * self.decides > self.squares)


def extent(values: Floats, present: NDArray[np.bool_] | None) -> Extent:
    """The extent of the values that are present.

    >>> extent(np.array([1.0, 3.0, np.nan]), None)
    Extent(number=2, low=1.0, high=3.0, squares=2.0, odd=1)
    """
    there = np.ones(1, np.bool_) if present is None else present
    count, low, high, squares, odd = _extent(frozen(values), frozen(there), present is None)
    return Extent(int(count), float(low), float(high), float(squares), int(odd))


def far_places(values: Floats, present: NDArray[np.bool_] | None, reach: Extent, most: int) -> Places:
    """The places of the values that are far, at most so many of them: all that are no numbers, then the farthest.

    >>> values = np.append(np.arange(100.0), [1e6, np.inf])
    >>> far_places(values, None, extent(values, None), 16).tolist()
    [100, 101]
    """
    usable = np.isfinite(values) if present is None else np.isfinite(values) & present
    odd = np.flatnonzero(~usable if present is None else ~usable & present)
    if len(odd) > most:
        return np.zeros(0, np.int64)
    at = np.arange(len(values)) if len(odd) == 0 and present is None else np.flatnonzero(usable)
    numbers = values if len(at) == len(values) else values[at]
    room = min(most - len(odd), len(at) - 1)
    if room < 1:
        return odd
    with np.errstate(over="ignore"):
        squares = (numbers - np.median(numbers[:: len(numbers) // _SOME + 1])) ** 2
    top = _largest(squares, room)
    farther = np.cumsum(squares[top]) - squares[top]
    all_squares = float(squares.sum())
    if not math.isfinite(all_squares):  # of squares that no double holds, the largest are all that counts
        return np.sort(np.append(odd, at[top]))
    far = np.flatnonzero(squares[top] * reach.decides > np.maximum(all_squares - farther, 0.0))
    chosen = top[: far[-1] + 1] if len(far) else top[:0]
    places: Places = np.sort(np.append(odd, at[chosen]))
    return places


def _largest(squares: Floats, count: int) -> Places:
    """The places of the largest, in order. Only those are sorted out that are large for some of them."""
    some = squares[:: len(squares) // _SOME + 1]
    rank = len(some) - 1 - min(int(2 * count / len(squares) * len(some)) + 1, len(some) - 1)
    at = np.flatnonzero(squares >= np.partition(some, rank)[rank])
    if len(at) < count:
        at = np.arange(len(squares))
    at = at[np.argpartition(squares[at], len(at) - count)[-count:]]
    largest: Places = at[np.argsort(-squares[at], kind="stable")]
    return largest


@compiled
def _extent(values: Any, present: Any, all_present: Any) -> Any:
    count, odd = 0, 0
    low, high, about = np.inf, -np.inf, 0.0
    first, second = 0.0, 0.0
    for i in range(len(values)):
        if not all_present and not present[i]:
            continue
        y = values[i]
        if not np.isfinite(y):
            odd += 1
            continue
        if count == 0:
            about = y
        count += 1
        low = min(low, y)
        high = max(high, y)
        off = y - about
        first += off
        second += off * off
    squares = max(second - first * first / count, 0.0) if count else 0.0
    return count, low, high, squares, odd
