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

from anabranch.kernels.exact import corners, is_below, is_near
from anabranch.kernels.matching import Window, distances, match_all, match_first, match_first_by_cursors, take_each_once
from anabranch.kernels.nearly_sorted import sort_fully
from anabranch.operators.merge.keys import Numbers

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cube:
    """All points from the lowest to the highest corner, each a matrix of one record."""

    low: Numbers
    high: Numbers

    @staticmethod
    def around(keys: Numbers) -> Cube:
        low, high = (keys[np.arange(len(keys)), places][:, None] for places in corners(keys))
        return Cube(low, high)

    def and_(self, other: Cube) -> Cube:
        """The smallest cube that holds both."""
        return Cube.around(np.concatenate([self.low, self.high, other.low, other.high], axis=1))


def wider(low: float, high: float, tolerance: float) -> tuple[float, float]:
    """From where to where doubles are within tolerance of a range, and a bit further: differences are rounded."""
    rounded = 2 * float(np.spacing(max(abs(low), abs(high), tolerance))) if tolerance > 0 else 0.0
    return low - tolerance - rounded, high + tolerance + rounded


@dataclass(frozen=True)
class Found:
    """What a range query found: keys (one row for each), and the numbers of the records.

    If there are more, `more` is the number behind which they come. `seen` is the cube around all that was
    found, also around what cannot merge.
    """

    keys: Numbers
    rows: Ints
    seen: Cube | None
    more: int | None = None


Ask = Callable[[Cube, "Cube | None", int], Found]
"""Asks for records within tolerance of a cube, without those of another, from behind a number on."""


@dataclass(frozen=True)
class Pairs:
    """Places in the block, and the numbers of their partners."""

    left: Ints
    right: Ints


def merge_block(
    keys: Numbers,
    ask: Ask,
    tolerance: Numbers,
    policy: Literal["first", "nearest", "all"],
    remainder: Literal["rest", "difference"],
    keep: Callable[[Ints], None] = lambda rows: None,
) -> Pairs:
    """The partners of the block's records, in the order of the block's keys (and of the windows asked for).

    Of each window only what `keep` is told of may be part of the answer.

    >>> def ask(cube, without, after, stream=np.array([2.0, 3, 4, 5, 6, 7, 8, 9, 10])):
    ...     inside = (stream >= cube.low[0]) & (stream <= cube.high[0])
    ...     if without is not None:
    ...         inside &= (stream < without.low[0]) | (stream > without.high[0])
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
    cube, without, after = Cube.around(keys), None, -1
    left, right, far = [], [], []
    while True:
        records = ask(cube, without, after)
        if len(records.rows):
            window = np.arange(len(records.rows))
            sort_fully(records.keys, window, len(window))
            at, partner, at_end = _matches(keys, block, records.keys, window, tolerance, policy)
            left.append(block[at])
            right.append(records.rows[window[partner]])
            keep(right[-1])
            if policy == "nearest":
                far.append(distances(keys, left[-1], records.keys, window[partner], tolerance))
            if policy == "first":
                block = np.delete(block, at)
                if len(block) == 0 or (remainder == "difference" and at_end):
                    break
        if remainder == "rest" or policy != "first":
            if records.more is None:
                break
            after = records.more
        else:
            if records.seen is None:
                break
            without = records.seen if without is None else records.seen.and_(without)
    pairs = Pairs(_one(left), _one(right))
    return _closest(pairs, np.concatenate(far)) if policy == "nearest" and len(pairs.left) else pairs


def _one(lists: list[Ints]) -> Ints:
    return np.concatenate(lists) if lists else np.empty(0, np.int64)


def _matches(
    keys_a: Numbers, window_a: Ints, keys_b: Numbers, window_b: Ints, tolerance: Numbers, policy: str
) -> tuple[Ints, Ints, bool]:
    """Positions of pairs, and whether a cursor would have come to the end of the block before that of the window."""
    a, b = Window(keys_a, window_a, len(window_a)), Window(keys_b, window_b, len(window_b))
    if policy != "first":
        return *match_all(a, 0, b, 0, tolerance), False
    out_a, out_b = np.empty(a.size, np.int64), np.empty(a.size, np.int64)
    if len(tolerance) == 1:
        count, at_end = match_first_by_cursors(a, b, tolerance, out_a, out_b)
    else:
        count = match_first(a, b, tolerance, out_a, out_b)
        last_a, last_b = window_a[-1], window_b[-1]
        at_end = is_below(keys_a, 0, last_a, keys_b, 0, last_b) or is_near(
            keys_a, 0, last_a, keys_b, 0, last_b, tolerance, 0
        )
    return out_a[:count], out_b[:count], bool(at_end)


def _closest(pairs: Pairs, far: Numbers) -> Pairs:
    """The closest pair first, then the closest of the rest; each record once."""
    order = np.lexsort((pairs.right, pairs.left, *np.atleast_2d(far.T)[::-1]))
    partners, named = np.unique(pairs.right, return_inverse=True)
    chosen = take_each_once(order, pairs.left, named, int(pairs.left.max()) + 1, len(partners))
    return Pairs(pairs.left[chosen], pairs.right[chosen])
