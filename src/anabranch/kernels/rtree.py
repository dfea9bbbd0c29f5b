"""An R-tree over points, packed into flat arrays when it is made: what lies in an n-cube, minus another.

Points stand in blocks of 16, and 16 blocks, with the box around each, make a node; 16 nodes make one of
the level above. Space is cut in half again and again where it reaches furthest, so no two nodes
overlap more than their borders do. Sorted tiles (STR) and the Hilbert curve, the usual orders of a
packed tree, were slower to make and gave boxes that fewer queries could pass over. Inside a block
or node all values of a dimension stand side by side, and 16 comparisons become one number of 16
bits. Empty places hold NaN, which lies in no cube.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled

WIDTH = 16
"""Points of a block, and blocks or nodes of a node."""
_ALL = (1 << WIDTH) - 1
_DIGITS = 256
_FEW = 32


class Tree(NamedTuple):
    """The arrays of a tree; `first` says where among the nodes each level begins, the root is the last."""

    points: NDArray[np.float64]
    """By block, dimension and place."""
    rows: NDArray[np.int32]
    """The number of each point, in the order of the blocks."""
    places: NDArray[np.int32]
    """Where each row is among the points; -1 for those left out."""
    lows: NDArray[np.float64]
    """Of the boxes, by node, dimension and place."""
    highs: NDArray[np.float64]
    first: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


def build(keys: NDArray[np.float64]) -> Tree:
    """A tree of the points `keys[row]`; those with a NaN among their keys are left out."""
    usable = np.flatnonzero(~np.isnan(keys).any(axis=1))
    points = keys[usable]
    rows = usable[_tiles(points)].astype(np.int32)
    blocks, lows, highs, first = _pack(points)
    places = np.full(len(keys), -1, np.int32)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    return Tree(blocks.ravel(), rows, places, lows.ravel(), highs.ravel(), first)


def _tiles(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """The order in which consecutive points lie near each other; also puts the points into it."""
    order = np.arange(len(points))
    finite = np.isfinite(points)
    with np.errstate(over="ignore"):
        spread = points.max(axis=0, where=finite, initial=-np.inf) - points.min(axis=0, where=finite, initial=np.inf)
    _halve(points, order, np.where(spread > 0, spread, 1.0))
    return order


@compiled
def _halve(points, order, spread):  # type: ignore[no-untyped-def]
    """Cut the points into blocks: always the dimension that reaches furthest, in half by whole powers of two."""
    lows = np.empty(64, np.int64)
    highs = np.empty(64, np.int64)
    lows[0], highs[0] = 0, len(points)
    height = 1
    while height:
        height -= 1
        low, high = lows[height], highs[height]
        if high - low <= WIDTH:
            continue
        dimension, widest = 0, -1.0
        for d in range(points.shape[1]):
            least, most = np.inf, -np.inf
            for i in range(low, high):
                least, most = min(least, points[i, d]), max(most, points[i, d])
            reach = (most - least) / spread[d]
            if reach > widest:
                dimension, widest = d, reach
        half = WIDTH
        while 2 * half < high - low:
            half *= 2
        _select(points, order, low, high, low + half, dimension)
        lows[height], highs[height] = low, low + half
        lows[height + 1], highs[height + 1] = low + half, high
        height += 2


@compiled
def _select(points, order, low, high, wanted, dimension):  # type: ignore[no-untyped-def]
    """Put the smallest points before place `wanted` and the largest behind it (Hoare's FIND)."""
    high -= 1
    draw = np.uint64(wanted)
    while low < high:
        # At places that no order of the rows foresees: series that rise and fall would make it quadratic.
        draw = draw * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        size = np.uint64(high - low + 1)
        first = points[low + np.int64((draw >> np.uint64(48)) % size), dimension]
        second = points[low + np.int64((draw >> np.uint64(32)) % size), dimension]
        middle = points[(low + high) // 2, dimension]
        pivot = max(min(first, second), min(max(first, second), middle))
        left, right = low, high
        while left <= right:
            while points[left, dimension] < pivot:
                left += 1
            while points[right, dimension] > pivot:
                right -= 1
            if left <= right:
                for d in range(points.shape[1]):
                    points[left, d], points[right, d] = points[right, d], points[left, d]
                order[left], order[right] = order[right], order[left]
                left += 1
                right -= 1
        if wanted <= right:
            high = right
        elif wanted >= left:
            low = left
        else:
            return


@compiled
def _pack(ordered):  # type: ignore[no-untyped-def]
    """Blocks of points, and the boxes around them, level by level."""
    dimensions = ordered.shape[1]
    blocks = (len(ordered) + WIDTH - 1) // WIDTH
    points = np.full((blocks, dimensions, WIDTH), np.nan)
    for i in range(len(ordered)):
        for d in range(dimensions):
            points[i // WIDTH, d, i % WIDTH] = ordered[i, d]
    levels = 1
    total = width = max((blocks + WIDTH - 1) // WIDTH, 1)
    while width > 1:
        width = (width + WIDTH - 1) // WIDTH
        total += width
        levels += 1
    lows = np.full((total, dimensions, WIDTH), np.nan)
    highs = np.full((total, dimensions, WIDTH), np.nan)
    first = np.zeros(levels + 1, np.int64)
    below = blocks
    for level in range(levels):
        for child in range(below):
            node, place = first[level] + child // WIDTH, child % WIDTH
            for d in range(dimensions):
                low, high = np.inf, -np.inf
                for k in range(WIDTH):
                    least = points[child, d, k] if level == 0 else lows[first[level - 1] + child, d, k]
                    most = points[child, d, k] if level == 0 else highs[first[level - 1] + child, d, k]
                    low = least if least < low else low
                    high = most if most > high else high
                lows[node, d, place], highs[node, d, place] = low, high
        below = max((below + WIDTH - 1) // WIDTH, 1)
        first[level + 1] = first[level] + below
    return points, lows, highs, first


@compiled
def _inside(lows, highs, base, low, high):  # type: ignore[no-untyped-def]
    """Which of 16 boxes lie inside the cube, as bits; points are boxes whose lows are their highs."""
    mask = np.uint32(_ALL)
    for d in range(len(low)):
        least, most = low[d], high[d]
        bits = np.uint32(0)
        at = np.uint64(base + d * WIDTH)
        for k in range(WIDTH):
            inside = (lows[at + np.uint64(k)] >= least) & (highs[at + np.uint64(k)] <= most)
            bits |= np.uint32(inside) << np.uint32(k)
        mask &= bits
        if mask == 0:
            break
    return mask


@compiled
def _touching(lows, highs, base, low, high):  # type: ignore[no-untyped-def]
    """Which of 16 boxes touch the cube, as bits."""
    mask = np.uint32(_ALL)
    for d in range(len(low)):
        least, most = low[d], high[d]
        bits = np.uint32(0)
        at = np.uint64(base + d * WIDTH)
        for k in range(WIDTH):
            touches = (lows[at + np.uint64(k)] <= most) & (highs[at + np.uint64(k)] >= least)
            bits |= np.uint32(touches) << np.uint32(k)
        mask &= bits
        if mask == 0:
            break
    return mask


@compiled
def _with_room(rows, needed):  # type: ignore[no-untyped-def]
    if needed <= len(rows):
        return rows
    larger = np.empty(max(needed, len(rows) * 2), rows.dtype)
    larger[: len(rows)] = rows
    return larger


@compiled
def search(tree, low_corners, high_corners, cut_lows, cut_highs, most):  # type: ignore[no-untyped-def]
    """For each cube the rows inside it and not inside the one cut out of it: (rows, bounds, overfull).

    The rows of a cube are ascending. A cut whose low is above its high in some dimension cuts out
    nothing. A cube that holds more than `most` rows is overfull and gets none: `scan` finds them.
    """
    points, rows, lows, highs, first = tree.points, tree.rows, tree.lows, tree.highs, tree.first
    levels = len(first) - 1
    dimensions = low_corners.shape[1]
    stack_level = np.empty(levels * WIDTH + 1, np.int64)
    stack_at = np.empty(levels * WIDTH + 1, np.int64)
    hits = np.empty(4096, np.int32)
    spare = np.empty(0, np.int32)
    bounds = np.zeros(len(low_corners) + 1, np.int64)
    overfull = np.zeros(len(low_corners), np.bool_)
    count = 0
    for q in range(len(low_corners)):
        low, high, cut_low, cut_high = low_corners[q], high_corners[q], cut_lows[q], cut_highs[q]
        cuts = True
        for d in range(dimensions):
            cuts &= cut_low[d] <= cut_high[d]
        stack_level[0], stack_at[0] = levels - 1, 0
        height = 1
        while height and count - bounds[q] <= most:
            height -= 1
            level, at = stack_level[height], stack_at[height]
            if level < 0:
                base = at * dimensions * WIDTH
                mask = _inside(points, points, base, low, high)
                if cuts and mask:
                    mask &= ~_inside(points, points, base, cut_low, cut_high)
                if mask:
                    if count + WIDTH > len(hits):
                        hits = _with_room(hits, count + WIDTH)
                    for k in range(min(WIDTH, len(rows) - at * WIDTH)):
                        hits[count] = rows[at * WIDTH + k]
                        count += (mask >> np.uint32(k)) & np.uint32(1)
                continue
            base = (first[level] + at) * dimensions * WIDTH
            mask = _touching(lows, highs, base, low, high)
            whole = _inside(lows, highs, base, low, high) if mask else mask
            if cuts and mask:
                mask &= ~_inside(lows, highs, base, cut_low, cut_high)
                whole &= ~_touching(lows, highs, base, cut_low, cut_high)
            for k in range(WIDTH):
                if not (mask >> np.uint32(k)) & np.uint32(1):
                    continue
                if (whole >> np.uint32(k)) & np.uint32(1):
                    size = WIDTH << 4 * level
                    begin = (at * WIDTH + k) * size
                    end = min(begin + size, len(rows), begin + most + 1)
                    if count + end - begin > len(hits):
                        hits = _with_room(hits, count + end - begin)
                    for i in range(begin, end):
                        hits[count] = rows[i]
                        count += 1
                else:
                    stack_level[height], stack_at[height] = level - 1, at * WIDTH + k
                    height += 1
        if count - bounds[q] > most:
            overfull[q] = True
            count = bounds[q]
        bounds[q + 1] = count
        if len(spare) < count - bounds[q]:
            spare = np.empty(2 * (count - bounds[q]), np.int32)
        _ascending(hits[bounds[q] : count], spare)
    return hits[:count].copy(), bounds, overfull


@compiled
def scan(tree, low, high, cut_low, cut_high, begin, end, limit):  # type: ignore[no-untyped-def]
    """The first `limit` rows from `begin` to `end` inside the cube and not inside the cut, one after the other."""
    points, places = tree.points, tree.places
    dimensions = len(low)
    hits = np.empty(limit, np.int32)
    count = 0
    for row in range(begin, end):
        if count == limit:
            break
        if places[row] < 0:
            continue
        base = np.int64(places[row] // WIDTH) * dimensions * WIDTH + places[row] % WIDTH
        inside, cut = True, True
        for d in range(dimensions):
            key = points[base + d * WIDTH]
            inside &= (key >= low[d]) & (key <= high[d])
            cut &= (key >= cut_low[d]) & (key <= cut_high[d])
        hits[count] = row
        count += inside & (not cut)
    return hits[:count].copy()


@compiled
def keys_of(tree, dimensions):  # type: ignore[no-untyped-def]
    """The keys by row that a tree was made of; NaN for rows that were left out."""
    points, rows, places = tree.points, tree.rows, tree.places
    keys = np.full((len(places), dimensions), np.nan)
    for i in range(len(rows)):
        for d in range(dimensions):
            keys[rows[i], d] = points[(i // WIDTH * dimensions + d) * WIDTH + i % WIDTH]
    return keys


@compiled
def _ascending(numbers, spare):  # type: ignore[no-untyped-def]
    """Sort small natural numbers: by insertion if they are few, else digit by digit."""
    count = len(numbers)
    if count <= _FEW:
        for i in range(1, count):
            number = numbers[i]
            at = i
            while at > 0 and numbers[at - 1] > number:
                numbers[at] = numbers[at - 1]
                at -= 1
            numbers[at] = number
        return
    most = numbers.max()
    ends = np.empty(_DIGITS, np.int64)
    shift = 0
    while (most >> shift) > 0:
        ends[:] = 0
        for i in range(count):
            ends[(numbers[i] >> shift) & (_DIGITS - 1)] += 1
        total = 0
        for digit in range(_DIGITS):
            total, ends[digit] = total + ends[digit], total
        for i in range(count):
            digit = (numbers[i] >> shift) & (_DIGITS - 1)
            spare[ends[digit]] = numbers[i]
            ends[digit] += 1
        numbers[:] = spare[:count]
        shift += 8
