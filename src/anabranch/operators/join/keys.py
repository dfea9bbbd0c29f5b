"""Values of a join condition as integers: equal values get equal integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.hashing import hashes, hashes_of_rows
from anabranch.kernels.values import Column, floats, frozen, integers, valid
from anabranch.operators.join.conditions import KeyKind
from anabranch.schema import TIME_TYPE

Ints = NDArray[np.int64]
NAN_CELL = np.int64(-(1 << 62) - 1)
_FAR = float(1 << 62)


def equality_keys(values: Sequence[tuple[Column, KeyKind]], length: int) -> tuple[Ints, NDArray[np.bool_]]:
    """One key for each row of the values, and where none of them is NULL.

    The key of a single column of integers is the integer itself; others may be equal by chance.
    """
    present = np.ones(length, np.bool_)
    for column, _ in values:
        if column.null_count:
            present &= valid(column)
    if len(values) == 1 and values[0][1] == "integers":
        return integers(values[0][0]), present
    prepared = [_comparable(column, kind) for column, kind in values]
    keys = hashes(prepared[0]) if len(prepared) == 1 else hashes_of_rows(prepared, length)
    return frozen(keys.view(np.int64)), present


def _comparable(column: Column, kind: KeyKind) -> Column:
    if kind == "floats":
        return _single(column)
    if kind == "numbers":
        return _double(column)
    if kind == "times":
        return column.cast(TIME_TYPE)
    return column


def doubles(column: Column, *, single: bool = False) -> NDArray[np.float64]:
    """Values in their order as doubles: times as microseconds, dates as days; `single` are compared as FLOAT."""
    if pa.types.is_temporal(column.type):
        return frozen(integers(column).astype(np.float64))
    return floats(_single(column) if single else _double(column))


def is_single(types: Sequence[pa.DataType]) -> bool:
    """Whether Spark computes with such numbers in FLOAT."""
    wide = (pa.types.is_float64(type_) or pa.types.is_decimal(type_) for type_ in types)
    return any(pa.types.is_float32(type_) for type_ in types) and not any(wide)


def _single(column: Column) -> Column:
    """Numbers as the nearest of FLOAT."""
    return column.cast(pa.float32(), safe=False).cast(pa.float64())


def _double(column: Column) -> Column:
    """Numbers as the nearest doubles.

    Arrow multiplies the digits of a DECIMAL by a power of ten that is not exact, so that 0.03 and 0.0300 differ.
    """
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.float64(), safe=False)


def cells_of(values: NDArray[np.float64], width: float) -> Ints:
    """The numbers of the cells of a given width that values lie in; NaN has a cell of its own."""
    with np.errstate(invalid="ignore", over="ignore"):
        cells = np.floor(values / width)
        numbers = np.clip(cells, -_FAR, _FAR - 1024).astype(np.int64)
    return np.where(np.isnan(values), NAN_CELL, numbers)
