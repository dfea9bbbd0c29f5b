"""Merging a block of records with what range queries find of another stream (M. Mazzucco et al., 2002, §4.2).

The block's n-cube, wider by the tolerance on all sides, is asked for, a window of records at a time. The
paper asks next for the difference of the cubes of block and windows so far, and so never sees records that
lie in a window's cube and did not fit into it; `rest` asks for the next records of the same cube instead, as
do the policies that must see every record that agrees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.matching import match_all, match_first, match_first_by_cursors, take_each_once
from anabranch.kernels.nearly_sorted import sort_fully

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cube:
    """All points from the lowest to the highest corner."""

    low: Doubles
    high: Doubles

    @staticmethod
    def around(keys: Doubles) -> Cube:
        return Cube(keys.min(axis=1), keys.max(axis=1))

    def wider(self, tolerance: Doubles) -> Cube:
        """The cube of all that is within tolerance; differences are rounded, so it goes a little further."""
        low, high = self.low - tolerance, self.high + tolerance
        rounded = 2 * np.spacing(np.maximum(np.maximum(np.abs(self.low), np.abs(self.high)), tolerance))
        return Cube(low - np.where(tolerance > 0, rounded, 0), high + np.where(tolerance > 0, rounded, 0))

    def and_(self, other: Cube) -> Cube:
        """The smallest cube that holds both."""
        return Cube(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True)
class Found:
    """What a range query found: keys (one row for each), and the numbers of the records.

    If there are more, `more` is the number behind which they come. `seen` is the cube around all that was
    found, also around what cannot merge.
    """

    keys: Doubles
    rows: Ints
    seen: Cube | None
    more: int | None = None


Ask = Callable[[Cube, "Cube | None", int], Found]
"""Asks for records of a cube, without those of another, from behind a number on."""


@dataclass(frozen=True)
class Pairs:
    """Places in the block, and the numbers of their partners."""

    left: Ints
    right: Ints


def merge_block(
    keys: Doubles,
    ask: Ask,
    tolerance: Doubles,
    policy: Literal["first", "nearest", "all"],
    remainder: Literal["rest", "difference"],
    keep: Callable[[Ints], None] = lambda rows: None,
) -> Pairs:
    """The partners of the block's records, in the order of the block's keys (and of the windows asked for).

    Of each window only what `keep` is told of may be part of the answer.

    >>> def ask(cube, without, after, stream=np.array([2.0, 3, 4, 5, 6, 7, 8, 9, 10])):
    ...     inside = (stream >= cube.low) & (stream <= cube.high)
    ...     if without is not None:
    ...         inside &= (stream < without.low) | (stream > without.high)
    ...     rows = np.flatnonzero(inside & (np.arange(len(stream)) > after))
    ...     keys = stream[rows[:5]][None, :]
    ...     return Found(keys, rows[:5], Cube.around(keys) if len(rows) else None)
    >>> pairs = merge_block(np.array([[2.0, 4, 6, 8, 10]]), ask, np.array([0.0]), "first", "difference")
    >>> pairs.left.tolist(), pairs.right.tolist()
    ([0, 1, 2, 3, 4], [0, 2, 4, 6, 8])
    """
    block = np.arange(keys.shape[1])
    if len(block) == 0:
        return Pairs(block, block)
    sort_fully(keys, block, len(block))
    cube, without, after = Cube.around(keys).wider(tolerance), None, -1
    left, right, far = [], [], []
    while True:
        found = ask(cube, without, after)
        if len(found.rows):
            window = np.arange(len(found.rows))
            sort_fully(found.keys, window, len(window))
            at, partner, at_end = _matches(keys, block, found.keys, window, tolerance, policy)
            left.append(block[at])
            right.append(found.rows[window[partner]])
            keep(right[-1])
            if policy == "nearest":
                far.append(_distances(keys, left[-1], found.keys, window[partner], tolerance))
            if policy == "first":
                block = np.delete(block, at)
                if len(block) == 0 or (remainder == "difference" and at_end):
                    break
        if remainder == "rest" or policy != "first":
            if found.more is None:
                break
            after = found.more
        else:
            if found.seen is None:
                break
            without = found.seen if without is None else found.seen.and_(without)
    pairs = Pairs(_one(left), _one(right))
    return _closest(pairs, np.concatenate(far)) if policy == "nearest" and len(pairs.left) else pairs


def _one(lists: list[Ints]) -> Ints:
    return np.concatenate(lists) if lists else np.empty(0, np.int64)


def _matches(
    keys_a: Doubles, window_a: Ints, keys_b: Doubles, window_b: Ints, tolerance: Doubles, policy: str
) -> tuple[Ints, Ints, bool]:
    """Positions of pairs, and whether a cursor would have come to the end of the block before that of the window."""
    sizes = len(window_a), len(window_b)
    if policy != "first":
        return *match_all(keys_a, window_a, sizes[0], 0, keys_b, window_b, sizes[1], 0, tolerance), False
    out_a, out_b = np.empty(sizes[0], np.int64), np.empty(sizes[0], np.int64)
    if len(tolerance) == 1:
        count, at_end = match_first_by_cursors(
            keys_a, window_a, sizes[0], keys_b, window_b, sizes[1], tolerance[0], out_a, out_b
        )
    else:
        count = match_first(keys_a, window_a, sizes[0], keys_b, window_b, sizes[1], tolerance, out_a, out_b)
        at_end = keys_a[0, window_a[-1]] - keys_b[0, window_b[-1]] <= tolerance[0]
    return out_a[:count], out_b[:count], bool(at_end)


def _distances(keys_a: Doubles, a: Ints, keys_b: Doubles, b: Ints, tolerance: Doubles) -> Doubles:
    """How far apart pairs are, see `kernels.matching.distance`."""
    wide = tolerance > 0
    apart = np.abs(keys_a[wide][:, a] - keys_b[wide][:, b]) / tolerance[wide][:, None]
    most: Doubles = apart.max(axis=0, initial=0.0)
    return most


def _closest(pairs: Pairs, far: Doubles) -> Pairs:
    """The closest pair first, then the closest of the rest; each record once."""
    order = np.lexsort((pairs.right, pairs.left, far))
    partners, named = np.unique(pairs.right, return_inverse=True)
    chosen = take_each_once(order, pairs.left, named, int(pairs.left.max()) + 1, len(partners))
    return Pairs(pairs.left[chosen], pairs.right[chosen])
