"""Arrow columns as plain NumPy arrays, and ordered types as integers of the same order."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Column: TypeAlias = pa.Array | pa.ChunkedArray

_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)


def one_array(column: Column) -> pa.Array:
    """The column as one array; copies only if it was in several pieces."""
    if isinstance(column, pa.ChunkedArray):
        return (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
        )
    return column


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: what comes from Arrow is read-only, and kernels are compiled for one kind only."""
    view = array.view()
    view.flags.writeable = False
    return view


def floats(column: Column, null: float = 0.0) -> NDArray[np.float64]:
    """A numeric column as doubles, NULL replaced."""
    array = one_array(column)
    if not pa.types.is_float64(array.type):
        array = array.cast(pa.float64(), safe=False)
    return _filled(array, null)


def integers(column: Column, null: int = 0) -> NDArray[np.int64]:
    """A column of integers, booleans, dates or times as int64, NULL replaced."""
    array = one_array(column)
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int64())
    if not pa.types.is_int64(array.type):
        array = array.cast(pa.int64())
    return _filled(array, null)


def valid(column: Column) -> NDArray[np.bool_]:
    """Where the column is not NULL."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    mask: NDArray[np.bool_] = pc.is_valid(one_array(column)).to_numpy(zero_copy_only=False)
    return mask


def has_order_number(type_: pa.DataType) -> bool:
    """True if the type's values map to int64 in order (see `order_numbers`)."""
    return bool(
        pa.types.is_signed_integer(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_timestamp(type_)
        or type_ in (pa.float32(), pa.float64())
    )


def order_numbers(column: Column, null: int) -> NDArray[np.int64]:
    """The values as int64 of the same order; NaN is the largest double, as in Spark."""
    if not pa.types.is_floating(column.type):
        return integers(column, null)
    numbers = float_order(column)
    if column.null_count:
        numbers = np.where(valid(column), numbers, null)
    return frozen(numbers)


def compared_numbers(column: Column, null: int) -> NDArray[np.int64]:
    """The same where values are compared: -0.0 is 0.0.

    >>> compared_numbers(pa.array([-0.0, 0.0]), 0).tolist()
    [0, 0]
    """
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    return order_numbers(column, null)


def from_order_numbers(numbers: NDArray[np.int64], present: NDArray[np.bool_], type_: pa.DataType) -> pa.Array:
    """The values behind order numbers; NULL where not present."""
    missing = None if present.all() else ~present
    if pa.types.is_floating(type_):
        return pa.array(from_float_order(numbers), mask=missing).cast(type_, safe=False)
    if missing is not None:
        numbers = np.where(present, numbers, 0)
    array = pa.array(numbers, mask=missing)
    if pa.types.is_boolean(type_) or pa.types.is_signed_integer(type_):
        return array.cast(type_)
    if pa.types.is_date32(type_):
        return array.cast(pa.int32()).view(type_)
    return array.view(type_)


def float_order(column: Column) -> NDArray[np.int64]:
    """Doubles as int64 of the same order: the bits, with those of negative numbers turned round."""
    numbers = floats(column)
    nan = np.isnan(numbers)
    if nan.any():
        numbers = np.where(nan, np.nan, numbers)
    bits: NDArray[np.int64] = numbers.view(np.int64)
    return bits ^ ((bits >> 63) & _SIGN)


def from_float_order(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """The doubles behind order numbers."""
    doubles: NDArray[np.float64] = (numbers ^ ((numbers >> 63) & _SIGN)).view(np.float64)
    return doubles


def _filled(array: pa.Array, null: float) -> NDArray[Any]:
    if array.null_count:
        array = array.fill_null(pa.scalar(null, array.type))
    return frozen(array.to_numpy(zero_copy_only=True))
