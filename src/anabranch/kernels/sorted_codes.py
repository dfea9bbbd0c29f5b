"""Lists of codes of 64 bits in order: where codes stand in them, and two of them as one.

Codes that are hashes are spread evenly, so the place of one is nearly known before anything is read; from there it
is searched in steps that double (J. L. Bentley and A. C.-C. Yao, "An almost optimal algorithm for unbounded
searching", 1976), so that other codes cost what a binary search costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen

Codes = NDArray[np.uint64]
Places = NDArray[np.int64]


class Pairs(NamedTuple):
    """Places in a list of codes that were looked for, each with a place in the list where it was found."""

    asked: Places
    found: Places


def pairs(codes: Codes, wanted: Codes) -> Pairs:
    """All places in sorted `codes` of each of the codes `wanted`, in the order of these.

    >>> found = pairs(np.array([1, 4, 4, 9], np.uint64), np.array([4, 5, 1], np.uint64))
    >>> found.asked.tolist(), found.found.tolist()
    ([0, 0, 2], [1, 2, 0])
    """
    low, high = _ranges(frozen(codes), frozen(wanted))
    return Pairs(*_spread(low, high))


def ranges(codes: Codes, wanted: Codes) -> tuple[Places, Places]:
    """For each of the codes `wanted` where it begins in sorted `codes`, and where it ends."""
    low, high = _ranges(frozen(codes), frozen(wanted))
    return low, high


def spread(low: Places, high: Places) -> Pairs:
    """All places from `low` on and before `high`, each with the number of its range."""
    return Pairs(*_spread(low, high))


def merged(codes: Codes, ranks: Codes, more_codes: Codes, more_ranks: Codes) -> Places:
    """The order of two lists, one behind the other, that are each sorted by code and then rank; ties as they stand.

    >>> one, other = np.array([1, 5], np.uint64), np.array([0, 5, 7], np.uint64)
    >>> merged(one, one, other, other).tolist()
    [2, 0, 1, 3, 4]
    """
    order: Places = _merged(frozen(codes), frozen(ranks), frozen(more_codes), frozen(more_ranks))
    return order


def in_order(codes: Codes, ranks: Codes) -> Places:
    """The order of entries by code and then rank."""
    order = np.argsort(codes)
    if ranks is codes:
        return order
    known = codes[order]
    tied = known[1:] == known[:-1]
    if tied.any():  # codes are hashes: mostly all differ, and the second key need not be looked at
        among = np.flatnonzero(np.concatenate([tied, [False]]) | np.concatenate([[False], tied]))
        some = order[among]
        order[among] = some[np.lexsort((ranks[some], codes[some]))]
    return order


@compiled
def _ranges(codes, wanted):  # type: ignore[no-untyped-def]
    n = len(codes)
    low, high = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
    if n == 0:
        return low, high
    scale = n / 18446744073709551616.0
    for i in range(len(wanted)):
        code = wanted[i]
        at = min(int(np.float64(code) * scale), n - 1)
        step = 1
        if codes[at] < code:
            a = at
            while a + step < n and codes[a + step] < code:
                a += step
                step *= 2
            b = min(a + step, n)
        else:
            b = at
            while b - step >= 0 and codes[b - step] >= code:
                b -= step
                step *= 2
            a = max(b - step, -1)
        while b - a > 1:
            middle = (a + b) >> 1
            if codes[middle] < code:
                a = middle
            else:
                b = middle
        low[i] = b
        step, a = 1, b - 1
        while a + step < n and codes[a + step] <= code:
            a += step
            step *= 2
        b = min(a + step, n)
        while b - a > 1:
            middle = (a + b) >> 1
            if codes[middle] <= code:
                a = middle
            else:
                b = middle
        high[i] = b
    return low, high


@compiled
def _spread(low, high):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(len(low)):
        count += high[i] - low[i]
    asked, found = np.empty(count, np.int64), np.empty(count, np.int64)
    at = 0
    for i in range(len(low)):
        for place in range(low[i], high[i]):
            asked[at], found[at] = i, place
            at += 1
    return asked, found


@compiled
def _merged(codes, ranks, more_codes, more_ranks):  # type: ignore[no-untyped-def]
    n, m = len(codes), len(more_codes)
    order = np.empty(n + m, np.int64)
    i = j = 0
    while i < n and j < m:
        if codes[i] < more_codes[j] or (codes[i] == more_codes[j] and ranks[i] <= more_ranks[j]):
            order[i + j] = i
            i += 1
        else:
            order[i + j] = n + j
            j += 1
    while i < n:
        order[i + j] = i
        i += 1
    while j < m:
        order[i + j] = n + j
        j += 1
    return order
