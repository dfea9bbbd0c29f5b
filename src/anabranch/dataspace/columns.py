"""Which columns of foreign data can be served, as what type, and as what numbers they are keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.column_types import is_list_like
from anabranch.errors import DataError, did_you_mean
from anabranch.kernels.values import floats, integers, valid
from anabranch.schema import TIME_TYPE, StreamSchema

ROW, QUERY, POSITION = "_row", "_query", "_position"
"""Columns an answer has beside those of its data set: a row's number, the cube it is in, its number as a time."""
_RESERVED = {ROW, QUERY, POSITION}
_UNSIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
_PLAIN = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_date32,
)
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)


def served_type(given: pa.DataType) -> pa.DataType | None:
    """The type of a stream's column that holds every value of this one; None if there is none.

    >>> served_type(pa.uint16()), served_type(pa.dictionary(pa.int8(), pa.large_string())), served_type(pa.time32("s"))
    (DataType(int32), DataType(string), None)
    """
    if pa.types.is_dictionary(given):
        return served_type(given.value_type)
    if given in _UNSIGNED:
        return _UNSIGNED[given]
    if any(test(given) for test in _PLAIN):
        return given
    if pa.types.is_float16(given):
        return pa.float32()
    if pa.types.is_timestamp(given):
        return TIME_TYPE
    if pa.types.is_date(given):
        return pa.date32()
    if any(test(given) for test in _TEXT):
        return pa.string()
    if any(test(given) for test in _BYTES):
        return pa.binary()
    if pa.types.is_decimal(given) and given.precision <= 38 and 0 <= given.scale <= given.precision:
        return pa.decimal128(given.precision, given.scale)
    if is_list_like(given):
        item = served_type(given.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_struct(given) and given.num_fields:
        kinds = [(field.name, served_type(field.type)) for field in given]
        different = len({name.lower() for name, _ in kinds}) == len(kinds)
        return pa.struct(kinds) if different and all(kind is not None and name for name, kind in kinds) else None
    return None


def served_schema(given: pa.Schema) -> tuple[pa.Schema, tuple[str, ...]]:
    """The columns that are served, and the names of those that are not."""
    fields, left_out, seen = [], [], set(_RESERVED)
    for field in given:
        kind = served_type(field.type)
        if kind is None or field.name.lower() in seen or not field.name:
            left_out.append(field.name)
        else:
            fields.append(pa.field(field.name, kind))
            seen.add(field.name.lower())
    return pa.schema(fields), tuple(left_out)


def conformed(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """The rows in the served types; a column that is missing or does not fit is an error that names the file."""
    missing = [name for name in schema.names if name not in rows.column_names]
    if missing:
        raise DataError("COLUMN_MISSING", f'{where} has no column "{missing[0]}", as other files of its data set have')
    try:
        return StreamSchema(schema, "").conform(_with_zones(rows.select(schema.names)))
    except DataError as problem:
        raise DataError(problem.name, f"{where}: {problem.message}", detail=problem.detail) from None


def _with_zones(rows: pa.Table) -> pa.Table:
    """Times without a zone are taken to be UTC: the same numbers, so nothing has to be computed."""
    for i, field in enumerate(rows.schema):
        if field.type == pa.timestamp("us"):
            rows = rows.set_column(i, field.name, rows.column(i).cast(TIME_TYPE))
    return rows


def is_key_type(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a key of range queries: numbers, times and dates."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_date32(kind)
    )


def key_numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """A key column as doubles: times in µs, dates in days since 1970, NaN for NULL."""
    if pa.types.is_temporal(column.type):
        numbers = integers(column).astype(np.float64)
    else:
        numbers = floats(column).astype(np.float64)
    if column.null_count:
        numbers[~valid(column)] = np.nan
    return numbers


def key_matrix(rows: pa.Table, keys: tuple[str, ...]) -> NDArray[np.float64]:
    """The keys of rows as doubles, a row each."""
    matrix = np.empty((rows.num_rows, len(keys)))
    for i, key in enumerate(keys):
        matrix[:, i] = key_numbers(rows.column(key))
    return matrix


def chosen_keys(schema: pa.Schema, wanted: tuple[str, ...] | None, data_set: str) -> tuple[str, ...]:
    """The key columns: those wanted, if they can be keys, else all that can."""
    possible = [field.name for field in schema if is_key_type(field.type)]
    if wanted is None:
        return tuple(possible)
    for name in wanted:
        if name not in schema.names:
            raise DataError(
                "COLUMN_NOT_FOUND",
                f'data set "{data_set}" has no column "{name}"',
                hint=did_you_mean(name, schema.names),
            )
        if name not in possible:
            raise DataError(
                "KEY_TYPE_NOT_SUPPORTED",
                f'column "{name}" of data set "{data_set}" is {schema.field(name).type}, keys are numbers or times',
                hint=("these can be keys: " + ", ".join(possible)) if possible else None,
            )
    return tuple(dict.fromkeys(wanted))
