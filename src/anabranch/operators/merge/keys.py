"""Keys of a merge as doubles: what nearly agrees is a matter of differences.

Numbers are themselves, times are microseconds and dates days. Decimals are counted in units of their
last digit, so that 1.10 and 1.00 are exactly 0.10 apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.values import Column, floats, integers, one_array, valid
from anabranch.operators.columns import Bound

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

_EXACT = 1 << 53
"""Whole numbers beyond this have no double of their own; such a key is near nothing, like an infinite one."""


@dataclass(frozen=True)
class Key:
    """A key of both streams, what they may differ by, and how many digits behind the point are counted."""

    left: Bound
    right: Bound
    tolerance: float
    scale: int = 0
    inexact: bool = False
    """Whether one of the sides is a double, so that both are compared as such."""

    @staticmethod
    def of(left: Bound, right: Bound, tolerance: float) -> Key:
        for one in (left, right):
            if not _has_differences(one.type):
                raise QueryError(
                    "MERGE_KEYS_DIFFER",
                    f"{one.sql} is {one.type}: only numbers, timestamps and dates can be within a tolerance",
                    hint="write = for what must be equal",
                )
        if _kind(left.type) != _kind(right.type):
            raise QueryError(
                "MERGE_KEYS_DIFFER", f"{left.sql} is {left.type} and {right.sql} is {right.type}: they cannot be near"
            )
        if not (np.isfinite(tolerance) and tolerance >= 0):
            raise QueryError("MERGE_TOLERANCE_INVALID", f"a tolerance is a number from 0 on, got {tolerance}")
        types = (left.type, right.type)
        if any(pa.types.is_floating(each) for each in types):
            return Key(left, right, float(tolerance), inexact=True)
        scale = max((each.scale for each in types if pa.types.is_decimal(each)), default=0)
        return Key(left, right, float(Decimal(repr(float(tolerance))).scaleb(scale)), scale)

    def values(self, side: int, table: pa.Table) -> tuple[Doubles, Flags]:
        """The keys of records of one side, and which of them can be compared at all."""
        bound = (self.left, self.right)[side]
        column = bound.evaluate(table)
        usable = valid(column)
        if pa.types.is_floating(column.type) or (self.inexact and pa.types.is_decimal(column.type)):
            return floats(column), usable & np.isfinite(floats(column))
        more = self.scale
        if pa.types.is_decimal(column.type):
            whole, fits = unscaled(column)
            usable, more = usable & fits, self.scale - column.type.scale
        else:
            whole = integers(column)
        most = _EXACT // 10**more
        usable &= (whole <= most) & (whole >= -most)
        return np.where(usable, whole, 0).astype(np.float64) * 10.0**more, usable


def unscaled(column: Column) -> tuple[NDArray[np.int64], Flags]:
    """The units of the last digit of decimals, and which of them have no more than 64 bits."""
    array = one_array(column)
    if not pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal128(38, array.type.scale))
    halves = np.frombuffer(array.buffers()[1] or b"", np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = halves[0::2], halves[1::2]
    return low, high == low >> 63


def key_matrix(keys: Sequence[Key], side: int, table: pa.Table) -> tuple[Doubles, Flags]:
    """One row for each key, and which records have all of them."""
    matrix = np.empty((len(keys), table.num_rows), np.float64)
    usable = np.ones(table.num_rows, np.bool_)
    for i, key in enumerate(keys):
        matrix[i], one = key.values(side, table)
        usable &= one
    return matrix, usable


@dataclass(frozen=True)
class Equal:
    """Columns of both streams that must be equal, as one type."""

    left: Bound
    right: Bound
    type: pa.DataType

    @staticmethod
    def of(left: Bound, right: Bound) -> Equal:
        if left.type == right.type:
            return Equal(left, right, left.type)
        types = (left.type, right.type)
        if all(pa.types.is_integer(each) for each in types):
            return Equal(left, right, pa.int64())
        if all(_kind(each) == "number" for each in types):
            return Equal(left, right, pa.float64())
        raise QueryError(
            "MERGE_KEYS_DIFFER", f"{left.sql} is {left.type} and {right.sql} is {right.type}: they are never equal"
        )

    def values(self, side: int, table: pa.Table) -> Column:
        column = (self.left, self.right)[side].evaluate(table)
        return column if column.type == self.type else column.cast(self.type)


def _has_differences(type_: pa.DataType) -> bool:
    return _kind(type_) in ("number", "timestamp", "date")


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_timestamp(type_):
        return "timestamp"
    return "date" if pa.types.is_date32(type_) else str(type_)
