"""A growing index over numbered rows: which of them lie in an n-cube, in order, a part at a time.

Rows are cut into runs, each a packed R-tree (`kernels.rtree`). New rows make a small tree, which is
merged with the one before it once that is not twice as large, up to a largest size: so a row is
packed a few times in its life, and a query looks into few trees (the log-structured merge tree of
P. O'Neil et al., 1996). Rows never change or leave.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.rtree import Tree, build, keys_of, scan, search

Corners: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Cube: TypeAlias = tuple[Corners, Corners]
"""The lowest and the highest corner, both inside."""

LARGEST_RUN = 1 << 20
_BATCH_FINDS = 1 << 22
"""How many rows the cubes of one batch may find together before the next batch is begun."""


class _Run(NamedTuple):
    """Consecutive rows and their tree."""

    first: int
    rows: int
    tree: Tree


class _Runs(NamedTuple):
    """All runs in order, and the box around each."""

    in_order: tuple[_Run, ...]
    lows: Corners
    highs: Corners


class RangeIndex:
    """Rows by their keys, in any number of dimensions; a row with a null (NaN) among its keys is never found.

    One thread extends it while any number of others query.

    >>> index = RangeIndex(1)
    >>> index.extend(np.array([[2.0], [4.0], [6.0], [3.0]]))
    >>> index.query([2.5], [6.0], limit=2)
    (array([1, 2]), True)
    >>> index.query([2.5], [6.0], limit=2, after=2)
    (array([3]), False)
    """

    def __init__(self, dimensions: int, largest_run: int = LARGEST_RUN, begin: int = 0) -> None:
        """`begin` is the number of the first row that it will be given."""
        self.dimensions = dimensions
        self._begin = begin
        self._largest_run = largest_run
        self._runs = _Runs((), np.empty((0, dimensions)), np.empty((0, dimensions)))
        self._mutex = threading.Lock()

    @property
    def rows(self) -> int:
        """The number of the next row."""
        runs = self._runs.in_order
        return runs[-1].first + runs[-1].rows if runs else self._begin

    @property
    def nbytes(self) -> int:
        return sum(run.tree.nbytes for run in self._runs.in_order)

    def extend(self, keys: NDArray[np.float64]) -> None:
        """Take in the next rows, each with its keys."""
        with self._mutex:
            for begin in range(0, len(keys), self._largest_run):
                self._add(np.ascontiguousarray(keys[begin : begin + self._largest_run], np.float64))

    def _add(self, keys: NDArray[np.float64]) -> None:
        runs = list(self._runs.in_order)
        first = self.rows
        while runs and runs[-1].rows < 2 * len(keys) and runs[-1].rows + len(keys) <= self._largest_run:
            before = runs.pop()
            keys = np.concatenate([keys_of(before.tree, self.dimensions), keys])
            first = before.first
        usable = keys[~np.isnan(keys).any(axis=1)]
        low, high = usable.min(axis=0, initial=np.inf), usable.max(axis=0, initial=-np.inf)
        lows, highs = self._runs.lows[: len(runs)], self._runs.highs[: len(runs)]
        # One assignment: whoever queries meanwhile has the runs of before.
        self._runs = _Runs(
            (*runs, _Run(first, len(keys), build(keys))), np.vstack([lows, low]), np.vstack([highs, high])
        )

    def query(
        self,
        low: NDArray[np.float64] | list[float],
        high: NDArray[np.float64] | list[float],
        limit: int,
        below: int | None = None,
        without: Cube | None = None,
        after: int = -1,
    ) -> tuple[Rows, bool]:
        """The first rows after number `after` and below `below` inside the cube, and whether there are more.

        At most `limit`, ascending, so that the last number, as `after`, goes on. Rows inside the cube
        `without` are left out.
        """
        cuts = None if without is None else (_corners(without[0]), _corners(without[1]))
        return self.query_many(_corners(low), _corners(high), limit, below, cuts, np.array([after]))[0]

    def query_many(
        self,
        lows: Corners,
        highs: Corners,
        limit: int,
        below: int | None = None,
        without: Cube | None = None,
        after: Rows | None = None,
    ) -> list[tuple[Rows, bool]]:
        """The same for many cubes at once, each a row of `lows` and `highs` (and of `without` and `after`)."""
        runs = self._runs
        below = self.rows if below is None else min(below, self.rows)
        after = np.full(len(lows), -1) if after is None else after
        none = np.full_like(lows, np.inf)
        cut_lows, cut_highs = (none, -none) if without is None else without
        parts: list[list[Rows]] = [[] for _ in lows]
        wanted = np.full(len(lows), limit + 1)
        touching = np.asarray(((runs.lows[:, None] <= highs) & (runs.highs[:, None] >= lows)).all(axis=2))
        for at in np.flatnonzero(touching.any(axis=1)):
            run = runs.in_order[at]
            if run.first >= below:
                break
            may = touching[at] & (wanted > 0) & (after < run.first + run.rows - 1)
            # Few matches are found by the tree and sorted; among many, the next ones are close by in the order of
            # rows. The first costs matches, the second rows * limit / matches: they are equal at the root.
            most = max(int((2 * limit * run.rows) ** 0.5), 4096)
            for chosen in _batches(np.flatnonzero(may), min(most, run.rows)):
                cubes = tuple(np.ascontiguousarray(a[chosen]) for a in (lows, highs, cut_lows, cut_highs))
                for cube, rows in zip(chosen, _rows_in(run, cubes, after[chosen], below, limit, most), strict=True):
                    rows = rows[: wanted[cube]]
                    wanted[cube] -= len(rows)
                    parts[cube].append(rows)
        answers = [np.concatenate(part) if part else np.empty(0, np.int64) for part in parts]
        return [(rows[:limit], len(rows) > limit) for rows in answers]


def _rows_in(run: _Run, cubes: tuple[Corners, ...], after: Rows, below: int, limit: int, most: int) -> list[Rows]:
    """The rows of one run for each cube."""
    numbers, bounds, overfull = search(run.tree, *cubes, most)
    answers = []
    for i in range(len(after)):
        begin, end = max(int(after[i]) + 1 - run.first, 0), min(below - run.first, run.rows)
        if overfull[i]:
            corners = (corner[i] for corner in cubes)
            rows = scan(run.tree, *corners, begin, end, min(limit + 1, max(end - begin, 0)))
        else:
            rows = numbers[bounds[i] : bounds[i + 1]]
            if begin > 0 or end < run.rows:
                rows = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, end)]
        answers.append(rows.astype(np.int64) + run.first)
    return answers


def _corners(corner: NDArray[np.float64] | list[float]) -> Corners:
    return np.asarray(corner, np.float64).reshape(1, -1)


def _batches(chosen: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """Cubes in parts, so that memory stays bounded even if each finds as many rows as it may."""
    size = max(_BATCH_FINDS // most, 1)
    return [chosen[at : at + size] for at in range(0, len(chosen), size)]
