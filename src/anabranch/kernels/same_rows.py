"""Whether rows are the same, with the idea of `kernels.groups`: NULL is NULL, NaN is NaN, and -0.0 is 0.0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.nested import comparable
from anabranch.kernels.values import Column, compared_numbers, has_order_number, one_array, valid

Places = NDArray[np.int64]


def same_rows(ours: Sequence[Column], places: Places, theirs: Sequence[Column], others: Places) -> NDArray[np.bool_]:
    """For each pair of places whether the rows there are the same; columns have the same types.

    >>> column = pa.array([0.0, None, -0.0])
    >>> same_rows([column], np.array([0, 0, 1]), [column], np.array([2, 1, 1])).tolist()
    [True, False, True]
    """
    same = np.ones(len(places), np.bool_)
    for one, other in zip(ours, theirs, strict=True):
        same &= _same(_taken(one, places), _taken(other, others))
    return same


def _taken(column: Column, places: Places) -> pa.Array:
    return one_array(column).take(pa.array(places))


def _same(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_null(one.type):
        return np.ones(len(one), np.bool_)
    if has_order_number(one.type):
        same: NDArray[np.bool_] = compared_numbers(one, 0) == compared_numbers(other, 0)
    else:
        same = pc.equal(comparable(one), comparable(other)).fill_null(True).to_numpy(zero_copy_only=False)
    if one.null_count or other.null_count:
        ours, theirs = valid(one), valid(other)
        return (same & ours & theirs) | ~(ours | theirs)
    return same
