"""Values that are looked for among keys of another type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.values import Column, one_array, valid
from anabranch.schema import sql_type


def check_comparable(given: pa.DataType, key: pa.DataType, said: str, name: str) -> None:
    """An error if values of one type are not simply found among keys of another."""
    alike = given.equals(key) or any(
        kind(given) and kind(key) for kind in (pa.types.is_signed_integer, pa.types.is_floating)
    )
    if not alike and not _widens(given, key):
        raise QueryError(
            "JOIN_KEYS_DIFFER",
            f"{said} is {sql_type(given)} and {name} is {sql_type(key)}: they are not compared here",
            hint=f"write CAST({said} AS {sql_type(key)})",
        )


def _widens(given: pa.DataType, key: pa.DataType) -> bool:
    if not pa.types.is_decimal(key):
        return False
    if pa.types.is_decimal(given):
        return bool(given.scale <= key.scale and given.precision - given.scale <= key.precision - key.scale)
    return bool(pa.types.is_signed_integer(given) and _DIGITS[given.bit_width] <= key.precision - key.scale)


_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def as_keys(column: Column, key: pa.DataType) -> Column:
    """The values in the type of a key; NULL for those that no key of that type equals.

    >>> as_keys(pa.array([1, 300, None]), pa.int8()).to_pylist()
    [1, None, None]
    """
    if column.type.equals(key):
        return column
    if pa.types.is_decimal(key):
        whole = column.cast(pa.decimal128(38, 0)) if pa.types.is_integer(column.type) else column
        return whole.cast(key)
    cast = pc.cast(column, key, safe=False)
    back = pc.cast(cast, column.type, safe=False)
    same = pc.equal(back, column)
    if pa.types.is_floating(key):
        same = pc.or_kleene(same, pc.is_nan(column))
    return pc.if_else(same, cast, pa.scalar(None, key))


def present(columns: list[Column], length: int) -> NDArray[np.bool_]:
    """The rows in which no key is NULL."""
    whole = np.ones(length, np.bool_)
    for column in columns:
        if column.null_count:
            whole &= valid(column)
    return whole


def true(column: Column) -> NDArray[np.bool_]:
    """Where a condition is true: neither false nor NULL."""
    array = one_array(column)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    whole = array.fill_null(False) if array.null_count else array
    mask: NDArray[np.bool_] = whole.to_numpy(zero_copy_only=False)
    return mask
