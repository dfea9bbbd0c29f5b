"""Keys coded by how many of some ordered ends are at or before them.

A key is found by the bucket that its leading bits name, in which there is one end or so: one look into a table instead
of a search through all of them. Where the ends are whole numbers beside each other a bucket is one number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen

Codes = NDArray[np.int64]
NULL = -1
"""The code of NULL, which is in no range."""
_PER_END, _LEAST = 8, 4096
"""Buckets: with half as many a key takes 13 ns instead of 11, with twice as many 8, and 32 bytes more for each end."""


def code_keys(keys: NDArray[np.int64], ends: NDArray[np.int64], null: NDArray[np.bool_] | None = None) -> Codes:
    """How many of some ordered ends are at or before each key; `span` says which codes low ≤ key < high have.

    >>> ends = np.array([10, 11, 20])
    >>> code_keys(np.array([5, 10, 11, 30]), ends).tolist(), span(ends, 10, 11), span(ends, 11, None)
    ([0, 1, 2, 3], (1, 1), (2, 3))
    """
    codes = np.searchsorted(ends, keys, "right").astype(np.int64, copy=False)
    return codes if null is None else np.where(null, NULL, codes)


def span(ends: NDArray[np.int64], low: int | None, high: int | None) -> tuple[int, int]:
    """The codes of low ≤ key < high, both among the ends; None: no end. What is empty ends before it begins."""
    first = 0 if low is None else int(np.searchsorted(ends, low, "right"))
    last = len(ends) if high is None else int(np.searchsorted(ends, high))
    return first, last


class Ends:
    """Ends that many keys are coded among: `codes` gives what `code_keys` gives, once buckets are made.

    >>> Ends(np.array([10, 11, 20])).codes(np.array([5, 10, 11, 30])).tolist()
    [0, 1, 2, 3]
    """

    def __init__(self, ends: NDArray[np.int64]) -> None:
        self._ends = frozen(ends)
        self._shift, self._begins = buckets(ends, _PER_END, _LEAST)

    def codes(self, keys: NDArray[np.int64], null: NDArray[np.bool_] | None = None) -> Codes:
        codes: Codes = _codes(frozen(np.ascontiguousarray(keys)), self._ends, self._begins, self._shift)
        if null is not None:
            codes[null] = NULL
        return codes


def buckets(ends: NDArray[np.int64], per_end: int, least: int) -> tuple[int, NDArray[np.int32]]:
    """How far keys are shifted to name a bucket, and how many ends lie in those before each, and before the end."""
    if not len(ends):
        return 0, np.zeros(1, np.int32)
    width = int(ends[-1]) - int(ends[0])
    shift = max(0, width.bit_length() - max(per_end * len(ends), least).bit_length() + 1)
    named = (ends.astype(np.uint64) - ends.astype(np.uint64)[0]) >> np.uint64(shift)
    return shift, np.searchsorted(named, np.arange((width >> shift) + 2, dtype=np.uint64)).astype(np.int32)


@compiled
def _codes(keys, ends, begins, shift):  # type: ignore[no-untyped-def]
    codes = np.zeros(len(keys), np.int64)
    if len(ends) == 0:
        return codes
    first, buckets = ends[0], np.uint64(len(begins) - 1)
    for i in range(len(keys)):
        key = keys[i]
        if key < first:
            continue
        bucket = (np.uint64(key) - np.uint64(first)) >> np.uint64(shift)
        if bucket >= buckets:
            codes[i] = len(ends)
            continue
        low, high = begins[bucket], begins[bucket + np.uint64(1)]
        while low < high:
            middle = (low + high) >> 1
            if ends[middle] <= key:
                low = middle + 1
            else:
                high = middle
        codes[i] = low
    return codes
