"""Which version of a thing was in force at a time, for many things and times at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def versions_at(codes: Ints, times: Ints, wanted: Ints, at: Ints) -> Ints:
    """For each wanted code the last of its versions whose time is not after `at`; -1 if there is none.

    The versions, of `codes` and `times`, are in the order in which they came, and times never go back.

    >>> versions_at(np.array([7, 8, 7]), np.array([10, 20, 30]), np.array([7, 7, 8, 7]), np.array([9, 29, 20, 30]))
    array([-1,  0,  1,  2])
    """
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.searchsorted(ordered, wanted, side="left")
    past = np.searchsorted(ordered, wanted, side="right")
    until = np.searchsorted(times, at, side="right")  # versions before this one are not too late
    low, high = first.copy(), past.copy()
    while True:  # all searches at once: the first of a code's versions that is too late
        open_ = low < high
        if not open_.any():
            break
        middle = (low + high) >> 1
        is_before = np.zeros(len(wanted), np.bool_)
        is_before[open_] = order[middle[open_]] < until[open_]
        low = np.where(open_ & is_before, middle + 1, low)
        high = np.where(open_ & ~is_before, middle, high)
    found = np.full(len(wanted), -1, np.int64)
    some = low > first
    found[some] = order[low[some] - 1]
    return found
