"""Four joins of many streams, a tuple at a time: those of STEAM and the two it compares them with.

M. A. Hammad, W. G. Aref, A. K. Elmagarmid et al., "STEAM" (2002), §6.2.2 to 6.2.4. All are left-deep: stage i joins
the results of the streams 0 … i with stream i + 1, and keeps both its sides. They differ in how a side is searched
(nested loop or hash) and in when old tuples leave: with each search (W-join), or every so many tuples (the ripple join
and XJoin, made to know windows). Everything else is the same code.

A tuple is (key, oldest time, newest time, mark); the mark is a product over the joined rows, for checking. Side 2i is
the left side of stage i, side 2i + 1 its right side. Results go to the left side of the next stage, and those of the
last stage to a side of their own, from where they are counted.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from benchmarks.window_join.data import PRIME, Ints

KEY, OLDEST, NEWEST, MARK, NEXT = range(5)
FIRST, LAST, USED, FREE, CLEANED = range(5)
"""Of a side: the first and last live tuple; with hashing: cells ever used, a list of free ones, the bucket cleaned."""
NONE = -1
CLEAN_EVERY = 4
"""Tuples for each bucket that the hash W-join cleans though nobody searches it."""


class Sides(NamedTuple):
    """What all stages keep."""

    tuples: NDArray[np.int64]
    """Per side and cell, the fields of a tuple."""
    edges: NDArray[np.int64]
    heads: NDArray[np.int64]
    tails: NDArray[np.int64]
    """Per side and bucket, the first and last cell of its chain; only with hashing."""


def make_sides(streams: int, capacity: int, buckets: int) -> Sides:
    """Empty sides; one that outgrows `capacity` ends the run with an error."""
    sides = 2 * (streams - 1) + 1
    edges = np.zeros((sides, 5), np.int64)
    edges[:, FREE] = NONE
    chains = [np.full((sides, buckets), NONE, np.int64) for _ in range(2)]
    return Sides(np.empty((sides, capacity, 5), np.int64), edges, *chains)


def run(block: Ints, sides: Sides, window: int, hashing: bool, purge_every: int, seen: int) -> tuple[int, int]:
    """Take in a block of tuples (stream, key, time, mark). Gives the number of results and the sum of their marks.

    `purge_every` = 0 is the W-join. `seen` counts the tuples before this block.
    """
    work: Any = _hashed if hashing else _nested
    count, total = work(block, *sides, window, purge_every, seen)
    return int(count), int(total)


@compiled
def _append(tuples, edges, side, key, oldest, newest, mark):
    """Put a tuple at the end of a side, moving the live ones to the front when there is no room."""
    if edges[side, LAST] == tuples.shape[1]:
        first, count = edges[side, FIRST], edges[side, LAST] - edges[side, FIRST]
        if count > tuples.shape[1] // 2:
            raise ValueError("a side holds more tuples than it has room for")
        for i in range(count):
            for field in range(4):
                tuples[side, i, field] = tuples[side, first + i, field]
        edges[side, FIRST], edges[side, LAST] = 0, count
    cell = edges[side, LAST]
    edges[side, LAST] += 1
    tuples[side, cell, KEY] = key
    tuples[side, cell, OLDEST] = oldest
    tuples[side, cell, NEWEST] = newest
    tuples[side, cell, MARK] = mark


@compiled
def _search_all(tuples, edges, side, to, key, oldest, newest, mark, window, windowed):
    """Join a tuple with those of a side by looking at each; results go to the side `to`."""
    if windowed:
        # Tuples come in order of time, so what is too old for this one is so for all that follow.
        while edges[side, FIRST] < edges[side, LAST] and tuples[side, edges[side, FIRST], OLDEST] < newest - window:
            edges[side, FIRST] += 1
    for cell in range(edges[side, FIRST], edges[side, LAST]):
        if tuples[side, cell, KEY] == key:
            low, high = min(tuples[side, cell, OLDEST], oldest), max(tuples[side, cell, NEWEST], newest)
            if high - low <= window:
                _append(tuples, edges, to, key, low, high, tuples[side, cell, MARK] * mark % PRIME)


@compiled
def _purge_all(tuples, edges, now, window):
    """Take the old tuples out of all sides."""
    for side in range(len(edges)):
        kept = edges[side, FIRST]
        for cell in range(edges[side, FIRST], edges[side, LAST]):
            if tuples[side, cell, OLDEST] >= now - window:
                for field in range(4):
                    tuples[side, kept, field] = tuples[side, cell, field]
                kept += 1
        edges[side, LAST] = kept


@compiled
def _nested(block, tuples, edges, heads, tails, window, purge_every, seen):
    """The nested loop W-join, or the ripple join."""
    results = len(edges) - 1
    count = total = 0
    for row in range(len(block)):
        stream, key, now, mark = block[row, 0], block[row, 1], block[row, 2], block[row, 3]
        own = 0 if stream == 0 else 2 * stream - 1
        to = min((own // 2 + 1) * 2, results)
        begin = edges[to, LAST] - edges[to, FIRST]
        _append(tuples, edges, own, key, now, now, mark)
        _search_all(tuples, edges, own ^ 1, to, key, now, now, mark, window, purge_every == 0)
        while to < results:
            after = to + 2
            began = edges[after, LAST] - edges[after, FIRST]
            for i in range(begin, edges[to, LAST] - edges[to, FIRST]):
                cell = edges[to, FIRST] + i
                oldest, newest = tuples[to, cell, OLDEST], tuples[to, cell, NEWEST]
                mark = tuples[to, cell, MARK]
                _search_all(tuples, edges, to + 1, after, key, oldest, newest, mark, window, purge_every == 0)
            to, begin = after, began
        for cell in range(edges[results, FIRST], edges[results, LAST]):
            count += 1
            total += tuples[results, cell, MARK]
        edges[results, FIRST] = edges[results, LAST] = 0
        if purge_every and (seen + row + 1) % purge_every == 0:
            _purge_all(tuples, edges, now, window)
    return count, total


@compiled
def _chain(tuples, edges, heads, tails, side, key, oldest, newest, mark):
    """Put a tuple at the end of its bucket's chain, and give its cell."""
    cell = edges[side, FREE]
    if cell == NONE:
        cell = edges[side, USED]
        if cell == tuples.shape[1]:
            raise ValueError("a side holds more tuples than it has room for")
        edges[side, USED] += 1
    else:
        edges[side, FREE] = tuples[side, cell, NEXT]
    tuples[side, cell, KEY] = key
    tuples[side, cell, OLDEST] = oldest
    tuples[side, cell, NEWEST] = newest
    tuples[side, cell, MARK] = mark
    tuples[side, cell, NEXT] = NONE
    bucket = key % heads.shape[1]
    if heads[side, bucket] == NONE:
        heads[side, bucket] = cell
    else:
        tuples[side, tails[side, bucket], NEXT] = cell
    tails[side, bucket] = cell
    return cell


@compiled
def _unlink(tuples, edges, heads, tails, side, bucket, before, cell):
    """Take a tuple out of its bucket; `before` is the one in front of it."""
    after = tuples[side, cell, NEXT]
    if before == NONE:
        heads[side, bucket] = after
    else:
        tuples[side, before, NEXT] = after
    if after == NONE:
        tails[side, bucket] = before
    tuples[side, cell, NEXT] = edges[side, FREE]
    edges[side, FREE] = cell


@compiled
def _clean(tuples, edges, heads, tails, side, bucket, now, window):
    """Take the old tuples out of a bucket."""
    before, cell = NONE, heads[side, bucket]
    while cell != NONE:
        after = tuples[side, cell, NEXT]
        if tuples[side, cell, OLDEST] < now - window:
            _unlink(tuples, edges, heads, tails, side, bucket, before, cell)
        else:
            before = cell
        cell = after


@compiled
def _search_bucket(tuples, edges, heads, tails, side, to, key, oldest, newest, mark, window, windowed, found, at):
    """Join a tuple with those of a bucket; `found` has their cells in the side `to` from `at` on. Gives the end."""
    bucket = key % heads.shape[1]
    before, cell = NONE, heads[side, bucket]
    while cell != NONE:
        after = tuples[side, cell, NEXT]
        if windowed and tuples[side, cell, OLDEST] < newest - window:
            _unlink(tuples, edges, heads, tails, side, bucket, before, cell)
        else:
            if tuples[side, cell, KEY] == key:
                low, high = min(tuples[side, cell, OLDEST], oldest), max(tuples[side, cell, NEWEST], newest)
                if high - low <= window:
                    product = tuples[side, cell, MARK] * mark % PRIME
                    found[at] = _chain(tuples, edges, heads, tails, to, key, low, high, product)
                    at += 1
            before = cell
        cell = after
    return at


@compiled
def _hashed(block, tuples, edges, heads, tails, window, purge_every, seen):
    """The hash W-join, or XJoin."""
    results, windowed = len(edges) - 1, purge_every == 0
    count = total = 0
    level, above = np.empty(tuples.shape[1], np.int64), np.empty(tuples.shape[1], np.int64)
    for row in range(len(block)):
        stream, key, now, mark = block[row, 0], block[row, 1], block[row, 2], block[row, 3]
        own = 0 if stream == 0 else 2 * stream - 1
        other, to = own ^ 1, min((own // 2 + 1) * 2, results)
        _chain(tuples, edges, heads, tails, own, key, now, now, mark)
        many = _search_bucket(tuples, edges, heads, tails, other, to, key, now, now, mark, window, windowed, level, 0)
        while to < results:
            more = 0
            for i in range(many):
                cell = level[i]
                oldest, newest, mark = tuples[to, cell, OLDEST], tuples[to, cell, NEWEST], tuples[to, cell, MARK]
                more = _search_bucket(
                    tuples,
                    edges,
                    heads,
                    tails,
                    to + 1,
                    to + 2,
                    key,
                    oldest,
                    newest,
                    mark,
                    window,
                    windowed,
                    above,
                    more,
                )
            to, many = to + 2, more
            level, above = above, level
        count += many
        for i in range(many):
            total += tuples[results, level[i], MARK]
        edges[results, USED] = 0
        edges[results, FREE] = heads[results, key % heads.shape[1]] = NONE
        if windowed:
            # Buckets that are rarely searched would keep their old tuples, so others are cleaned in turn.
            if row % CLEAN_EVERY == 0:
                for side in (own, other):
                    edges[side, CLEANED] = (edges[side, CLEANED] + 1) % heads.shape[1]
                    _clean(tuples, edges, heads, tails, side, edges[side, CLEANED], now, window)
        elif (seen + row + 1) % purge_every == 0:
            for side in range(results):
                for bucket in range(heads.shape[1]):
                    _clean(tuples, edges, heads, tails, side, bucket, now, window)
    return count, total
