"""Rows dealt to blocks: which rows go to each, in their order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.values import frozen


def dealt(block: NDArray[np.int64], blocks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the rows, block by block and in order inside each, and where each block begins among them.

    >>> order, starts = dealt(np.array([1, 0, 1, 2]), 3)
    >>> order.tolist(), starts.tolist()
    ([1, 0, 2, 3], [0, 1, 3, 4])
    """
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    order, starts = _dealt(frozen(block), blocks)
    return order, starts


@compiled
def _dealt(block, blocks):  # type: ignore[no-untyped-def]
    starts = np.zeros(blocks + 1, np.int64)
    for i in range(len(block)):
        starts[block[i] + 1] += 1
    for b in range(blocks):
        starts[b + 1] += starts[b]
    at = starts.copy()
    order = np.empty(len(block), np.int64)
    for i in range(len(block)):
        b = block[i]
        order[at[b]] = i
        at[b] += 1
    return order, starts
