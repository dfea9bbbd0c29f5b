"""Runs of a list as few blocks of it: block i of level l is the places i·2^l ≤ n < (i + 1)·2^l.

What all blocks add up to is computed once, each from its two halves; then any run is put together from at most two
blocks of each level, by adding alone: for whatever can be merged, and cannot be taken out again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled

Places = NDArray[np.int64]


def level_sizes(count: int) -> list[int]:
    """How many blocks there are of each level over so many places, the last of each perhaps not full.

    >>> level_sizes(5)
    [5, 3, 2, 1]
    """
    sizes = [count]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    return sizes


def blocks_of_runs(low: Places, high: Places, count: int) -> tuple[Places, NDArray[np.int64]]:
    """The blocks that make the runs low ≤ n < high of `count` places, and where each run's begin and end.

    Blocks have numbers: first those of level 0, then those of level 1, and so on.

    >>> [part.tolist() for part in blocks_of_runs(np.array([1, 2]), np.array([5, 2]), 5)]
    [[1, 4, 6], [0, 3, 3]]
    """
    starts = np.cumsum([0, *level_sizes(count)])
    blocks, bounds = _blocks(np.ascontiguousarray(low, np.int64), np.ascontiguousarray(high, np.int64), starts)
    return blocks, bounds


@compiled
def _blocks(low, high, starts):  # type: ignore[no-untyped-def]
    bounds = np.zeros(len(low) + 1, np.int64)
    blocks = np.empty(0, np.int64)
    for write in range(2):
        if write:
            blocks = np.empty(bounds[len(low)], np.int64)
        total = 0
        for i in range(len(low)):
            a, b, level = low[i], high[i], 0
            while a < b:
                if a & 1:
                    if write:
                        blocks[total] = starts[level] + a
                    total += 1
                    a += 1
                if b & 1:
                    b -= 1
                    if write:
                        blocks[total] = starts[level] + b
                    total += 1
                a >>= 1
                b >>= 1
                level += 1
            bounds[i + 1] = total
    return blocks, bounds
