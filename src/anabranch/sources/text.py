"""Values written as text, as the types of a stream's columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.schema import TIME_TYPE, is_nested

_ZONED = r"\d{2}:\d{2}.*(Z|z|[+-]\d{2}(:?\d{2})?)$"
_DATE_ONLY = r"^\d{4}-\d{2}-\d{2}$"

Column: TypeAlias = Any
"""A pyarrow Array or ChunkedArray: both have the same methods, but no common type that says so."""


def read_as(wanted: pa.DataType, format: str) -> pa.DataType:
    """The type to read a column of a text format as; `convert` makes the wanted one of it."""
    if pa.types.is_timestamp(wanted):
        return pa.string()
    if pa.types.is_list(wanted):
        return pa.list_(read_as(wanted.value_type, format))
    if pa.types.is_struct(wanted):
        return pa.struct([pa.field(field.name, read_as(field.type, format)) for field in wanted])
    if format == "json" and (pa.types.is_date(wanted) or pa.types.is_binary(wanted)):
        return pa.string()
    return wanted


def convert(column: Column, wanted: pa.DataType) -> Column:
    """Text as `wanted`; raises ArrowInvalid if any value is not one."""
    if column.type.equals(wanted):
        return column
    if is_nested(wanted):
        pieces = [_convert_parts(piece, wanted) for piece in getattr(column, "chunks", [column])]
        return pa.chunked_array(pieces, wanted) if isinstance(column, pa.ChunkedArray) else pieces[0]
    return parse_times(column) if pa.types.is_timestamp(wanted) else column.cast(wanted)


def _convert_parts(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    missing = pc.is_null(array) if array.null_count else None
    if pa.types.is_struct(wanted):
        parts = [convert(pc.struct_field(array, field.name), field.type) for field in wanted]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=missing)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, convert(array.flatten(), wanted.value_type), wanted, mask=missing)


def first_bad(column: Column, wanted: pa.DataType) -> int:
    """The position of the first value `convert` cannot take."""
    return next(i for i in range(len(column)) if not _converts(column.slice(i, 1), wanted))


def _converts(column: Column, wanted: pa.DataType) -> bool:
    try:
        convert(column, wanted)
    except pa.ArrowInvalid:
        return False
    return True


def parse_times(column: Column) -> Column:
    """ISO 8601 text as UTC time: without an offset it is UTC already; finer than a µs is cut off."""
    attempts: tuple[Callable[[Column], Column], ...] = (
        lambda text: text.cast(TIME_TYPE),
        lambda text: pc.assume_timezone(text.cast(pa.timestamp("us")), "UTC"),
        lambda text: _with_zone(text).cast(TIME_TYPE),
    )
    for attempt in attempts:
        try:
            return attempt(column)
        except pa.ArrowInvalid:
            continue
    return _with_zone(column).cast(pa.timestamp("ns", "UTC")).cast(TIME_TYPE, safe=False)


def _with_zone(column: Column) -> Column:
    midnight = pc.binary_join_element_wise(column, "T00:00:00Z", "")
    utc = pc.binary_join_element_wise(column, "Z", "")
    without = pc.if_else(pc.match_substring_regex(column, _DATE_ONLY), midnight, utc)
    return pc.if_else(pc.match_substring_regex(column, _ZONED), column, without)
