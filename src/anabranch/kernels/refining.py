"""Sorting by one column after the other: each column only puts in order what those before it left tied.

So a column that decides nothing costs nothing, and text is only compared where it matters. What is sorted are places of
rows, in runs of ties: first the parts, then the peers of an order, at last rows that are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.compiled import compiled
from anabranch.kernels.groups import encode
from anabranch.kernels.values import Column, compared_numbers, has_order_number, one_array, valid

Places = NDArray[np.int64]
Bounds = NDArray[np.int64]
"""Run i are the places bounds[i]..bounds[i + 1]."""

_SHORT = 24
"""Up to this length a run is sorted by insertion."""
_LONG = 4096
"""From this length on a run is worth a call of NumPy's sort, which is the fastest."""


def grouped(codes: NDArray[np.int64], size: int) -> tuple[Places, Bounds]:
    """The places of each code below `size`, and the runs of the codes, of which some may be empty.

    >>> places, bounds = grouped(np.array([2, 0, 2]), 3)
    >>> places.tolist(), bounds.tolist()
    ([1, 0, 2], [0, 1, 1, 3])
    """
    places, bounds = _grouped(np.ascontiguousarray(codes, np.int64), size)
    return places, bounds


def refined(
    places: Places,
    bounds: Bounds,
    taken: Callable[[Places], Column],
    descending: bool = False,
    nulls_first: bool = True,
) -> tuple[Places, Bounds]:
    """The places with each run sorted by a column, and the runs in which it is the same; none of these is empty.

    `taken` gives the values at some places: only those are looked at that are tied. NULL is the same as NULL, NaN is
    the largest number, and -0.0 is 0.0.

    >>> places, bounds = refined(np.arange(4), np.array([0, 3, 4]), pa.array([5, None, 5, 1]).take)
    >>> places.tolist(), bounds.tolist()
    ([1, 0, 2, 3], [0, 1, 3, 4])
    """
    return _refined(places, bounds, lambda rows: _numbers(one_array(taken(rows)), descending, nulls_first))


def order_codes(column: Column) -> NDArray[np.int64]:
    """Numbers in the order of the values, equal for equal ones; of NULL any."""
    if has_order_number(column.type):
        return compared_numbers(column, 0)
    groups = encode([column], len(column))
    codes: NDArray[np.int64] = groups.ranks()[groups.codes]
    return codes


def _numbers(values: pa.Array, descending: bool, nulls_first: bool) -> NDArray[np.int64]:
    numbers = ~order_codes(values) if descending else order_codes(values)
    if not values.null_count:
        return numbers
    ranks = np.unique(numbers, return_inverse=True)[1]
    return np.where(valid(values), ranks, -1 if nulls_first else len(ranks))


def _refined(
    places: Places, bounds: Bounds, numbers_of: Callable[[Places], NDArray[np.int64]]
) -> tuple[Places, Bounds]:
    lengths = np.diff(bounds)
    if not lengths.all():
        bounds = np.concatenate([bounds[:1], bounds[1:][lengths > 0]])
        lengths = np.diff(bounds)
    tied = np.flatnonzero(lengths > 1)
    if not len(tied):
        return places, bounds
    starts, lengths = bounds[tied], lengths[tied]
    where = positions(starts, lengths)
    rows = places[where]
    numbers = np.array(numbers_of(rows))
    ends = np.cumsum(lengths)
    for run in np.flatnonzero(lengths > _LONG):
        part = slice(ends[run] - lengths[run], ends[run])
        order = np.argsort(numbers[part])
        rows[part], numbers[part] = rows[part][order], numbers[part][order]
    _sort_runs(rows, numbers, ends, lengths)
    begins = np.zeros(bounds[-1] + 1, np.bool_)
    begins[bounds] = True
    begins[where[1:][numbers[1:] != numbers[:-1]]] = True
    places = places.copy()
    places[where] = rows
    return places, np.flatnonzero(begins)


def bounds_of(lengths: NDArray[Any]) -> Bounds:
    """Where each of some stretches begins, one behind the other, and where the last one ends.

    >>> bounds_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def positions(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """All numbers of some stretches, one stretch after the other.

    >>> positions(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    behind = np.cumsum(lengths)
    return np.arange(behind[-1] if len(behind) else 0) + np.repeat(starts - behind + lengths, lengths)


@compiled
def _grouped(codes, size):  # type: ignore[no-untyped-def]
    bounds = np.zeros(size + 1, np.int64)
    for code in codes:
        bounds[code + 1] += 1
    for code in range(size):
        bounds[code + 1] += bounds[code]
    following = bounds[:-1].copy()
    places = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        places[following[codes[i]]] = i
        following[codes[i]] += 1
    return places, bounds


@compiled
def _sort_runs(rows, numbers, ends, lengths):  # type: ignore[no-untyped-def]
    """Sort each run that is not long by its numbers, and the rows with them."""
    for run in range(len(ends)):
        begin, end = ends[run] - lengths[run], ends[run]
        if lengths[run] <= _SHORT:
            for i in range(begin + 1, end):
                number, row, at = numbers[i], rows[i], i
                while at > begin and numbers[at - 1] > number:
                    numbers[at], rows[at] = numbers[at - 1], rows[at - 1]
                    at -= 1
                numbers[at], rows[at] = number, row
        elif lengths[run] <= _LONG:
            order = np.argsort(numbers[begin:end])
            numbers[begin:end] = numbers[begin:end][order]
            rows[begin:end] = rows[begin:end][order]
