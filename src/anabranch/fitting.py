"""Values in the types they are wanted in, where no value changes what it says; an error says where one would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.column_types import TIME_TYPE, is_list_like, is_nested, sql_type
from anabranch.errors import DataError, did_you_mean

_NOT_FITTING = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError)


def typed_array(values: Any, wanted: pa.DataType | None, path: str) -> pa.Array | pa.ChunkedArray:
    """Values that Python holds as an array, of a type that `as_type` can make the wanted one of.

    `path` is what errors call them: a column, `column.field`, or `column[]` for elements.
    """
    if wanted is not None and is_nested(wanted) and isinstance(values, Sequence):
        return _of_parts(values, wanted, path)
    try:
        return pa.array(values)
    except _NOT_FITTING as first:
        if wanted is not None:
            try:
                return pa.array(values, wanted)
            except (*_NOT_FITTING, TypeError, ValueError):
                pass
        wanted_text = f", {sql_type(wanted)} is wanted" if wanted is not None else ""
        raise DataError(
            "TYPE_MISMATCH", f'column "{path}" holds values that do not fit together{wanted_text}', detail=str(first)
        ) from None


def _of_parts(values: Sequence[Any], wanted: pa.DataType, path: str) -> pa.Array:
    """Arrays and structs, part by part, so that whatever is wrong is found where it is."""
    missing = [value is None for value in values]
    if pa.types.is_struct(wanted):
        for value in values:
            if value is not None and not isinstance(value, Mapping):
                raise _mismatch(path, wanted, type(value).__name__, "a struct is written as a dict")
        known = {field.name for field in wanted}
        unknown = next((name for value in values for name in value or () if name not in known), None)
        if unknown is not None:
            raise _unknown_field(str(unknown), path, wanted)
        parts = []
        for field in wanted:
            inner = [None if value is None else value.get(field.name) for value in values]
            within = f"{path}.{field.name}"
            parts.append(_one(as_type(typed_array(inner, field.type, within), field.type, within)))
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=pa.array(missing, pa.bool_()))
    for value in values:
        if value is not None and not isinstance(value, list | tuple | np.ndarray):
            raise _mismatch(path, wanted, type(value).__name__, "an array is written as a list")
    within = f"{path}[]"
    flat = [item for value in values if value is not None for item in value]
    elements = _one(as_type(typed_array(flat, wanted.value_type, within), wanted.value_type, within))
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), elements, wanted, mask=pa.array(missing, pa.bool_()))


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _mismatch(path: str, wanted: pa.DataType, got: object, detail: str) -> DataError:
    return DataError("TYPE_MISMATCH", f'column "{path}" is {sql_type(wanted)}, got {got}', detail=detail)


def _unknown_field(name: str, path: str, wanted: pa.DataType) -> DataError:
    return DataError(
        "COLUMN_NOT_FOUND",
        f'field "{name}" is not in column "{path}"',
        hint=did_you_mean(name, [field.name for field in wanted]),
    )


def as_type(column: pa.Array | pa.ChunkedArray, wanted: pa.DataType, path: str) -> pa.ChunkedArray:
    """The column in a type, or an error if that would change what a value says; `path` as for `typed_array`."""
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if is_nested(wanted) and not pa.types.is_null(column.type):
        return pa.chunked_array([_nested(_one(column), wanted, path)], wanted)
    return _cast(column, wanted, path)


def _nested(array: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
    given = array.type
    missing = pc.is_null(array) if array.null_count else None
    if pa.types.is_struct(wanted):
        if not pa.types.is_struct(given):
            raise _mismatch(path, wanted, given, "only structs become structs")
        names = [field.name for field in given]
        for name in names:
            if wanted.get_field_index(name) < 0:
                raise _unknown_field(name, path, wanted)
        parts = [
            _one(as_type(pc.struct_field(array, [names.index(field.name)]), field.type, f"{path}.{field.name}"))
            if field.name in names
            else pa.nulls(len(array), field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=missing)
    if not is_list_like(given):
        raise _mismatch(path, wanted, given, "only arrays become arrays")
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    elements = _one(as_type(pc.list_flatten(array), wanted.value_type, f"{path}[]"))
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if ends[-1] >= 2**31:
        raise _mismatch(path, wanted, given, "there are more than 2,147,483,647 elements at once")
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), elements, wanted, mask=missing)


def _cast(column: pa.ChunkedArray, wanted: pa.DataType, path: str) -> pa.ChunkedArray:
    try:
        if pa.types.is_dictionary(column.type):
            column = _decoded(column)
        given = column.type
        if given.equals(wanted) or pa.types.is_null(given):
            return _checked_text(column.cast(wanted))
        if _is_text(given):
            return _from_text(column, wanted)
        if pa.types.is_timestamp(wanted):
            return _to_time(column)
        if pa.types.is_date(wanted) and pa.types.is_timestamp(given):
            return _exactly(column, column.cast(wanted, safe=False), "a time of day would be lost")
        if pa.types.is_decimal(wanted) and pa.types.is_integer(given):
            return column.cast(pa.decimal128(38, wanted.scale)).cast(wanted)
        if pa.types.is_decimal(wanted) and pa.types.is_floating(given):
            return _exactly(column, column.cast(wanted), "digits would be lost")
        if pa.types.is_float32(wanted) and pa.types.is_floating(given):
            narrow = column.cast(wanted)
            if pc.any(pc.and_(pc.is_finite(column), pc.invert(pc.is_finite(narrow)))).as_py():
                raise pa.ArrowInvalid("a number is too large for FLOAT")
            return narrow
        if (
            pa.types.is_boolean(wanted) != pa.types.is_boolean(given)
            or pa.types.is_string(wanted)
            or pa.types.is_temporal(wanted) != pa.types.is_temporal(given)
        ):
            raise pa.ArrowInvalid("values of this kind are not converted")
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as problem:
        raise DataError(
            "TYPE_MISMATCH",
            f'column "{path}" is {sql_type(wanted)}, got {column.type}',
            detail=str(problem).splitlines()[0],
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _from_text(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_string(wanted):
        return _checked_text(column.cast(wanted))
    if pa.types.is_timestamp(wanted):
        return _parse_time(column.cast(pa.string()))
    if pa.types.is_binary(wanted):
        return column.cast(wanted)
    raise pa.ArrowInvalid("text is not converted")


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary-encoded column (a categorical) as its plain values."""
    kind = column.type.value_type
    kind = pa.string() if _is_text(kind) else kind
    return pa.chunked_array([c.dictionary.cast(kind).take(c.indices) for c in column.chunks], kind)


def _exactly(before: pa.ChunkedArray, after: pa.ChunkedArray, loss: str) -> pa.ChunkedArray:
    if not pc.all(pc.equal(after.cast(before.type), before)).as_py():
        raise pa.ArrowInvalid(loss)
    return after


def _to_time(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times and dates as microseconds in UTC; nanoseconds are cut to the microsecond before."""
    if pa.types.is_date(column.type):
        return column.cast(pa.timestamp("us")).cast(TIME_TYPE)
    if not pa.types.is_timestamp(column.type):
        raise pa.ArrowInvalid("a number is not a time")
    if column.type.tz is None:
        column = pc.assume_timezone(column, "UTC")
    if column.type.unit == "ns":
        column = pc.floor_temporal(column, 1, "microsecond")
    return column.cast(TIME_TYPE)


def _checked_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Invalid UTF-8 must not enter a STRING column: readers and the JVM would choke on it later."""
    if pa.types.is_string(column.type):
        for chunk in column.chunks:
            if not _is_ascii(chunk):
                chunk.validate(full=True)
    return column


def _is_ascii(text: pa.StringArray) -> bool:
    """Whether the text is surely valid because it is plain ASCII: ten times faster to see than UTF-8."""
    _, offsets, data = text.buffers()
    if offsets is None or data is None or len(text) == 0:
        return False
    bounds = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    if bounds[0] < 0 or bounds[-1] > data.size or (bounds[1:] < bounds[:-1]).any():
        return False
    return int(np.frombuffer(data, np.int8)[bounds[0] : bounds[-1]].min(initial=0)) >= 0


def _parse_time(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ISO 8601 text as UTC time; text with an offset keeps its instant, digits after the sixth are cut."""
    column = pc.replace_substring_regex(column, r"(\.\d{6})\d+", r"\1")
    zoned = pc.match_substring_regex(column, r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
    with_offset = pc.if_else(zoned, column, None).cast(TIME_TYPE)
    without = pc.if_else(zoned, None, column).cast(pa.timestamp("us"))
    return pc.coalesce(with_offset, pc.assume_timezone(without, "UTC"))
