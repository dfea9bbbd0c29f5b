"""Which rows a reduced read keeps: a function of the row alone.

Each row's number draws a lot, uniformly. A read that keeps the fraction `keep` gives the rows with the lowest
lots, so the rows of a smaller fraction are always among those of a larger one, wherever they are read from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.hashing import hashes
from anabranch.kernels.values import Column, frozen

Lots = NDArray[np.uint64]


def lots(numbers: NDArray[np.int64], seed: int) -> Lots:
    """The lot of each row number.

    >>> lots(np.arange(3), 7).tolist() == lots(np.arange(3), 7).tolist()
    True
    """
    drawn: Lots = _drawn(frozen(np.ascontiguousarray(numbers, np.int64)), np.uint64(seed & (2**64 - 1)))
    return drawn


def lots_between(start: int, end: int, seed: int) -> Lots:
    """The lots of the rows numbered start ≤ n < end."""
    return lots(np.arange(start, max(end, start), dtype=np.int64), seed)


def key_lots(column: Column, seed: int) -> Lots:
    """The lot of each value: the same for equal values, so that a key is kept whole or not at all."""
    return lots(hashes(column).view(np.int64), seed)


def kept(drawn: Lots, keep: float, above: float = 0.0) -> NDArray[np.bool_]:
    """Which lots a reduced read keeps; with `above` those that one of that smaller fraction does not.

    >>> int(kept(lots(np.arange(1000), 0), 0.25).sum())
    259
    """
    chosen = np.ones(len(drawn), bool) if keep >= 1 else drawn < _limit(keep)
    return chosen if above <= 0 else chosen & (drawn >= _limit(above))


def blocks_of(drawn: Lots, blocks: int) -> NDArray[np.uint16]:
    """The block of each lot: block b of R holds the lots of the b-th R-th.

    >>> blocks_of(np.array([0, 2**63, 2**64 - 1], np.uint64), 4).tolist()
    [0, 2, 3]
    """
    numbers: NDArray[np.uint16] = _blocks(frozen(drawn), np.uint64(blocks))
    return numbers


def blocks_for(keep: float, blocks: int) -> int:
    """How many of the first blocks hold all rows that a reduced read keeps (the paper's ⌈R·f⌉).

    >>> [blocks_for(f, 100) for f in (0.0, 0.01, 0.015, 0.25, 1.0)]
    [0, 1, 2, 25, 100]
    """
    if keep >= 1:
        return blocks
    limit = int(_limit(keep))
    return 0 if limit == 0 else (((limit - 1) >> 32) * blocks >> 32) + 1


def _limit(keep: float) -> np.uint64:
    return np.uint64(min(int(keep * 2**64), 2**64 - 1)) if keep > 0 else np.uint64(0)


@compiled
def lot_of(number, seed):  # type: ignore[no-untyped-def]
    """Two rounds of the finisher of SplitMix64, with the seed between them."""
    x = number + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = (x ^ (x >> np.uint64(31))) + seed
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _drawn(numbers, seed):  # type: ignore[no-untyped-def]
    out = np.empty(len(numbers), np.uint64)
    for i in range(len(numbers)):
        out[i] = lot_of(np.uint64(numbers[i]), seed)
    return out


@compiled
def _blocks(drawn, blocks):  # type: ignore[no-untyped-def]
    out = np.empty(len(drawn), np.uint16)
    for i in range(len(drawn)):
        out[i] = np.uint16(((drawn[i] >> np.uint64(32)) * blocks) >> np.uint64(32))
    return out
