"""Values written as text, as the types of a stream's columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.schema import TIME_TYPE

_ZONED = r"\d{2}:\d{2}.*(Z|z|[+-]\d{2}(:?\d{2})?)$"
_DATE_ONLY = r"^\d{4}-\d{2}-\d{2}$"

Column: TypeAlias = Any
"""A pyarrow Array or ChunkedArray: both have the same methods, but no common type that says so."""


def read_as(wanted: pa.DataType, format: str) -> pa.DataType:
    """The type to read a column of a text format as; `convert` makes the wanted one of it."""
    if pa.types.is_timestamp(wanted):
        return pa.string()
    if format == "json" and (pa.types.is_date(wanted) or pa.types.is_binary(wanted)):
        return pa.string()
    return wanted


def convert(column: Column, wanted: pa.DataType) -> Column:
    """Text as `wanted`; raises ArrowInvalid if any value is not one."""
    if column.type.equals(wanted):
        return column
    return parse_times(column) if pa.types.is_timestamp(wanted) else column.cast(wanted)


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
