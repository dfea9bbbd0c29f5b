"""Rows found by their keys, exactly: a hash says where to look, the values themselves decide.

NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.column_types import is_nested
from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.nested import as_bytes, comparable
from anabranch.kernels.values import Column, compared_numbers, has_order_number, one_array, valid

Places = NDArray[np.int64]


class KeyIndex:
    """Where each of some keys stands among them; those that are given are all different.

    >>> index = KeyIndex([pa.array(["b", "a"])])
    >>> index.find([pa.array(["a", "c", "b"])]).tolist()
    [1, -1, 0]
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = [_plain(column) for column in columns]
        hashed = hashes_of_rows(self._columns, len(self._columns[0]))
        self._order = np.argsort(hashed, kind="stable")
        self._hashed = hashed[self._order]

    @property
    def nbytes(self) -> int:
        return int(self._order.nbytes + self._hashed.nbytes)

    def find(self, columns: Sequence[Column]) -> Places:
        """The place of each key, -1 for one that is not among them."""
        wanted = [_plain(column) for column in columns]
        hashed = hashes_of_rows(wanted, len(wanted[0]))
        found = np.full(len(hashed), -1, np.int64)
        at = np.searchsorted(self._hashed, hashed, side="left")
        rows = np.arange(len(hashed))
        while len(rows):  # once, and again for keys whose hash is that of another
            inside = at < len(self._hashed)
            rows, at = rows[inside], at[inside]
            same_hash = self._hashed[at] == hashed[rows]
            rows, at = rows[same_hash], at[same_hash]
            places = self._order[at]
            equal = _equal(self._columns, places, wanted, rows)
            found[rows[equal]] = places[equal]
            rows, at = rows[~equal], at[~equal] + 1
        return found


def _equal(known: Sequence[pa.Array], places: Places, wanted: Sequence[pa.Array], rows: Places) -> NDArray[np.bool_]:
    equal = np.ones(len(rows), np.bool_)
    for ours, theirs in zip(known, wanted, strict=True):
        one, other = ours.take(pa.array(places)), theirs.take(pa.array(rows))
        same = pc.equal(one, other)
        if same.null_count:
            same = pc.if_else(pc.is_null(same), pc.and_(pc.is_null(one), pc.is_null(other)), same)
        equal &= same.to_numpy(zero_copy_only=False)
    return equal


def _plain(column: Column) -> pa.Array:
    """Values that are equal wherever SQL says so: numbers and times as integers, text as it is."""
    if not has_order_number(column.type):
        return one_array(comparable(column))
    return pa.array(compared_numbers(column, 0), mask=~valid(column) if column.null_count else None)


def last_of_each(codes: NDArray[np.int32], size: int) -> Places:
    """For each code the place where it stands last, in the order of these places; every code below `size` occurs.

    >>> last_of_each(np.array([0, 1, 0, 2], np.int32), 3).tolist()
    [1, 2, 3]
    """
    last = np.zeros(size, np.int64)
    np.maximum.at(last, codes, np.arange(len(codes)))
    return np.sort(last)


def first_repeated(codes: NDArray[np.int32], size: int) -> int | None:
    """The first place whose code stood before; None if all are different.

    >>> first_repeated(np.array([0, 1, 0, 1], np.int32), 2)
    2
    """
    if size == len(codes):
        return None
    first = np.full(size, len(codes), np.int64)
    np.minimum.at(first, codes, np.arange(len(codes)))
    return int(np.flatnonzero(first[codes] != np.arange(len(codes)))[0])


def differs(before: Column, after: Column) -> NDArray[np.bool_]:
    """Where two columns of one type differ; NULL is the same as NULL, and NaN as NaN.

    >>> differs(pa.array([1, None, 3]), pa.array([1, None, None])).tolist()
    [False, False, True]
    """
    ours, theirs = one_array(before), one_array(after)
    if pa.types.is_floating(ours.type):  # to the bit: -0.0 is another value than 0.0
        width = pa.int64() if pa.types.is_float64(ours.type) else pa.int32()
        nan = pc.and_(pc.is_nan(ours), pc.is_nan(theirs)).fill_null(False).to_numpy(zero_copy_only=False)
        unlike: NDArray[np.bool_] = differs(ours.view(width), theirs.view(width)) & ~nan
        return unlike
    if is_nested(ours.type):
        ours, theirs = as_bytes(ours, exactly=True), as_bytes(theirs, exactly=True)
    unequal = pc.not_equal(ours, theirs).fill_null(True).to_numpy(zero_copy_only=False)
    if ours.null_count and theirs.null_count:
        both = pc.and_(pc.is_null(ours), pc.is_null(theirs)).to_numpy(zero_copy_only=False)
        return np.asarray(unequal & ~both)
    return np.asarray(unequal)
