"""Keys of a merge: what nearly agrees is a matter of differences.

Numbers are themselves, times are microseconds and dates days. Decimals are counted in units of their last digit, so
that 1.10 and 1.00 are exactly 0.10 apart. As long as these are whole numbers that doubles hold with room to spare,
they are compared as doubles, else with all of their digits, see `kernels.exact`; the answer is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.exact import IS_DOUBLE, LIMBS, double_of
from anabranch.kernels.values import Column, float_order, floats, integers, one_array, valid
from anabranch.operators.columns import Bound

Doubles = NDArray[np.float64]
Limbs = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[Any]
"""Keys or tolerances as kernels take them: doubles, or limbs."""
Tolerance: TypeAlias = float | str
"""What SQL says keys may differ by: a text where no double has the same shortest text."""

_EXACT = 1 << 52
"""Sums and differences of two whole numbers below this are exact as doubles."""
_DIGITS = 76
"""The digits of units: 38 before the point and 38 behind it."""
_SIGN = np.uint64(1 << 63)
_LARGEST = Fraction(10) ** 300


@dataclass(frozen=True)
class Key:
    """A key of both streams, what they may differ by, and how many digits behind the point are counted."""

    left: Bound
    right: Bound
    tolerance: Fraction
    """In units of the last digit."""
    scale: int = 0
    inexact: bool = False
    """Whether one of the sides is a double, so that both are compared as such."""

    @staticmethod
    def of(left: Bound, right: Bound, tolerance: Tolerance) -> Key:
        for side in (left, right):
            if not _has_differences(side.type):
                raise QueryError(
                    "MERGE_KEYS_DIFFER",
                    f"{side.sql} is {side.type}: only numbers, timestamps and dates can be within a tolerance",
                    hint="write = for what must be equal",
                )
        if _kind(left.type) != _kind(right.type):
            raise QueryError(
                "MERGE_KEYS_DIFFER", f"{left.sql} is {left.type} and {right.sql} is {right.type}: they cannot be near"
            )
        if not (math.isfinite(float(tolerance)) and float(tolerance) >= 0):
            raise QueryError("MERGE_TOLERANCE_INVALID", f"a tolerance is a number from 0 on, got {tolerance}")
        types, exactly = (left.type, right.type), Fraction(str(tolerance))
        if any(pa.types.is_floating(type_) for type_ in types):
            return Key(left, right, exactly, inexact=True)
        scale = max((type_.scale for type_ in types if pa.types.is_decimal(type_)), default=0)
        return Key(left, right, min(exactly * 10**scale, _LARGEST), scale)

    @property
    def width(self) -> float:
        """The tolerance as a double."""
        return float(self.tolerance)

    @property
    def suits_doubles(self) -> bool:
        """Whether differences as doubles can be compared with the tolerance as a double."""
        return self.inexact or (self.tolerance < _EXACT and math.floor(self.width) == math.floor(self.tolerance))

    def column(self, side: int, table: pa.Table) -> Column:
        return (self.left, self.right)[side].evaluate(table)

    def doubles(self, column: Column) -> tuple[Doubles, Flags, bool]:
        """The keys of records, which of them can be compared at all, and whether doubles are enough for them."""
        usable = valid(column)
        if self.inexact:
            values = floats(column)
            return values, usable & np.isfinite(values), True
        if pa.types.is_decimal(column.type):
            whole, fits = unscaled(column)
            more = self.scale - column.type.scale
        else:
            whole, fits, more = integers(column), usable, self.scale
        most = _EXACT // 10**more
        small = (whole < most) & (whole > -most) & fits
        values = np.where(usable, whole, 0) * 10.0**more
        if (small | ~usable).all():
            return values, usable, True
        if pa.types.is_decimal(column.type):
            values = np.where(small, values, floats(column) * 10.0**self.scale)
        return values, usable, False

    def limbs(self, column: Column) -> Limbs:
        """The keys of records with all of their digits."""
        if self.inexact:
            return limbs_of_doubles(column)
        array = one_array(column)
        if not pa.types.is_decimal(array.type):
            array = pa.array(integers(column))
        array = array.cast(pa.decimal256(_DIGITS, self.scale))
        numbers = np.frombuffer(array.buffers()[1] or b"", np.uint64).reshape(-1, LIMBS)
        limbs = numbers[array.offset : array.offset + len(array), ::-1].copy()
        limbs[:, 0] ^= _SIGN
        return limbs

    @staticmethod
    def number(value: np.float64 | Limbs) -> Fraction:
        """The whole number that a key is."""
        if isinstance(value, np.ndarray):
            return Fraction(int.from_bytes(value.astype(">u8").tobytes()) - (1 << 255))
        return Fraction(float(value))

    @staticmethod
    def double(value: np.float64 | Limbs) -> float:
        """The double that a key is."""
        return float(double_of(value[0]) if isinstance(value, np.ndarray) else value)


def limbs_of_doubles(values: Column | Doubles) -> Limbs:
    """Doubles as one limb each, see `kernels.exact`."""
    column = pa.array(values) if isinstance(values, np.ndarray) else values
    limbs = np.zeros((len(column), LIMBS), np.uint64)
    limbs[:, 0] = float_order(pa.array(floats(column) + 0.0)).view(np.uint64) ^ _SIGN  # 0 and -0 are the same
    return limbs


def unscaled(column: Column) -> tuple[NDArray[np.int64], Flags]:
    """The units of the last digit of decimals, and which of them have no more than 64 bits."""
    array = one_array(column)
    if not pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal128(38, array.type.scale))
    halves = np.frombuffer(array.buffers()[1] or b"", np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = halves[0::2], halves[1::2]
    return low, high == low >> 63


@dataclass(frozen=True)
class Keyed:
    """The keys of records: as the nearest doubles, one row for each key, and which records have all of them."""

    keys: tuple[Key, ...]
    columns: tuple[Column, ...]
    doubles: Doubles
    usable: Flags
    suits_doubles: bool
    """Whether the doubles are the keys themselves."""

    @staticmethod
    def of(keys: Sequence[Key], side: int, table: pa.Table) -> Keyed:
        columns = tuple(key.column(side, table) for key in keys)
        matrix = np.empty((len(keys), table.num_rows), np.float64)
        usable, suits = np.ones(table.num_rows, np.bool_), all(key.suits_doubles for key in keys)
        for i, (key, column) in enumerate(zip(keys, columns, strict=True)):
            matrix[i], fits, enough = key.doubles(column)
            usable &= fits
            suits &= enough
        return Keyed(tuple(keys), columns, matrix, usable, suits)

    def numbers(self, *, as_doubles: bool) -> Numbers:
        """The keys as they are compared."""
        if as_doubles:
            return self.doubles
        return np.stack([key.limbs(column) for key, column in zip(self.keys, self.columns, strict=True)])


def tolerances(keys: Sequence[Key], *, as_doubles: bool) -> Numbers:
    """What keys may differ by, as they are compared."""
    widths = np.array([key.width for key in keys])
    if as_doubles:
        return widths
    limbs = np.zeros((len(keys), LIMBS + 1), np.uint64)
    for i, key in enumerate(keys):
        units = min(math.floor(key.tolerance), (1 << 255) - 1)
        limbs[i, :LIMBS] = np.frombuffer(units.to_bytes(8 * LIMBS), ">u8")
        if key.inexact:
            limbs[i, :LIMBS] = IS_DOUBLE, 0, 0, 0
    limbs[:, LIMBS] = widths.view(np.uint64)
    return limbs


@dataclass(frozen=True)
class EqualColumns:
    """Columns of both streams that must be equal, as one type."""

    left: Bound
    right: Bound
    type: pa.DataType

    @staticmethod
    def of(left: Bound, right: Bound) -> EqualColumns:
        if left.type == right.type:
            return EqualColumns(left, right, left.type)
        types = (left.type, right.type)
        if all(pa.types.is_integer(type_) for type_ in types):
            return EqualColumns(left, right, pa.int64())
        if all(pa.types.is_integer(type_) or pa.types.is_decimal(type_) for type_ in types):
            scale = max(type_.scale for type_ in types if pa.types.is_decimal(type_))
            return EqualColumns(left, right, pa.decimal256(_DIGITS, scale))
        if all(_kind(type_) == "number" for type_ in types):
            return EqualColumns(left, right, pa.float64())
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
