"""Tuples as they are handed in: Arrow, NumPy or lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import Column, integers, valid
from anabranch.windows.basic.cutting import Cutter, Pieces
from anabranch.windows.basic.values import Codes, Domain, Rekey


def take_in(values: Any, times: Any, domain: Domain, cutter: Cutter) -> tuple[Pieces, Codes, Rekey | None]:
    """Cut a batch into basic windows: which rows go where, the codes of those rows, and which codes have changed."""
    codes = _plain_codes(values, domain.type)
    column = column_of(values, domain.type) if codes is None else None
    present = None if column is None or column.null_count == 0 else valid(column)
    when = None if times is None else times_of(times)
    if when is not None and len(when) != len(values):
        raise ValueError(f"{len(values)} tuples need as many times, not {len(when)}")
    pieces = cutter.cut(len(values), present, when)
    if codes is not None:
        return pieces, codes if pieces.rows is None else codes[pieces.rows], None
    assert column is not None
    return pieces, *domain.encode(column if pieces.rows is None else column.take(pa.array(pieces.rows)))


def _plain_codes(values: Any, type_: pa.DataType) -> Codes | None:
    """A copy of 64-bit integers, which are their own codes; None for all else. Small basic windows live on it."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and type_ == pa.int64():
        return values.copy()
    return None


def column_of(values: Any, type_: pa.DataType) -> Column:
    """Values as an Arrow column of a type."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values if values.type == type_ else values.cast(type_)
    if isinstance(values, np.ndarray):
        # A copy, as arrays may be written to again; NaN is a value here, not a NULL.
        array = pa.array(values.copy(), from_pandas=False)
        return array if array.type == type_ else array.cast(type_)
    return pa.array(values, type_)


def times_of(times: Any) -> NDArray[np.int64]:
    """Times as µs from 1970."""
    if isinstance(times, np.ndarray) and times.dtype == np.int64:
        return times
    if isinstance(times, np.ndarray) or not isinstance(times, pa.Array | pa.ChunkedArray):
        times = pa.array(times)
    if times.null_count:
        raise ValueError(f"{times.null_count} tuples have no time")
    if pa.types.is_timestamp(times.type) and times.type.unit != "us":
        times = times.cast(pa.timestamp("us", times.type.tz))
    return integers(times)


def groups_of(groups: Any) -> NDArray[np.int32]:
    """Numbers of groups."""
    return np.asarray(groups, np.int32)
