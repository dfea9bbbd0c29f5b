"""What the rows of a stream look like: named, typed columns, one of which is the time.

Types are Spark SQL's on the outside and Arrow's on the inside; `TYPES` is the whole
correspondence. Time is always a TIMESTAMP, kept as microseconds in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import DataError, did_you_mean

TIME_TYPE = pa.timestamp("us", tz="UTC")
ARRIVAL_COLUMN = "_time"
"""The time column of a stream declared without TIMESTAMP BY: when the row arrived."""

TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIME_TYPE,
}
_ALIASES = {
    "BOOL": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
}
_DECIMAL = re.compile(r"DECIMAL\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", re.IGNORECASE)


def arrow_type(sql: str) -> pa.DataType:
    """The Arrow type of a SQL type's name.

    >>> arrow_type("decimal(10, 2)")
    Decimal128Type(decimal128(10, 2))
    """
    name = sql.strip().upper()
    name = _ALIASES.get(name, name)
    if name in TYPES:
        return TYPES[name]
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1] or 10), int(match[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    raise DataError(
        "TYPE_NOT_SUPPORTED",
        f"type {sql} cannot be the type of a stream's column",
        hint="use one of " + ", ".join([*TYPES, "DECIMAL(p, s)"]),
    )


def sql_type(arrow: pa.DataType) -> str:
    """The SQL name of an Arrow type a stream can hold.

    >>> sql_type(pa.int32())
    'INT'
    """
    for name, known in TYPES.items():
        if known.equals(arrow):
            return name
    if pa.types.is_timestamp(arrow):
        return "TIMESTAMP"
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_large_string(arrow):
        return "STRING"
    raise DataError("TYPE_NOT_SUPPORTED", f"Arrow type {arrow} has no SQL name here")


@dataclass(frozen=True)
class StreamSchema:
    """The columns of a stream and which of them is its time.

    >>> s = StreamSchema.of({"saddr": "STRING", "ts": "TIMESTAMP"}, time="ts")
    >>> s.names
    ['saddr', 'ts']
    """

    arrow: pa.Schema
    time: str
    key: tuple[str, ...] = ()
    """Of the changes of a table, and of a change feed: the columns that say which row changes."""
    changes_by: str | None = None
    """Of a change feed: the column that says what became of a row."""

    @staticmethod
    def of(columns: Mapping[str, str] | Iterable[tuple[str, str]], time: str | None = None) -> StreamSchema:
        """A schema from SQL type names; without `time`, an arrival time column is added."""
        pairs = list(columns.items()) if isinstance(columns, Mapping) else list(columns)
        seen: set[str] = set()
        for name, _ in pairs:
            if name.lower() in seen:
                raise DataError("COLUMN_EXISTS", f'column "{name}" is declared twice')
            seen.add(name.lower())
        fields = [pa.field(name, arrow_type(sql)) for name, sql in pairs]
        if time is None:
            if ARRIVAL_COLUMN in seen:
                raise DataError(
                    "COLUMN_RESERVED",
                    f'column "{ARRIVAL_COLUMN}" is kept for the arrival time',
                    hint="rename the column, or declare TIMESTAMP BY",
                )
            fields.append(pa.field(ARRIVAL_COLUMN, TIME_TYPE))
            time = ARRIVAL_COLUMN
        names = [f.name for f in fields]
        if time not in names:
            raise DataError(
                "COLUMN_NOT_FOUND",
                f'time column "{time}" is not among the columns',
                hint=did_you_mean(time, names),
            )
        if not pa.types.is_timestamp(fields[names.index(time)].type):
            raise DataError(
                "TIME_TYPE_MISMATCH",
                f'time column "{time}" is {sql_type(fields[names.index(time)].type)}, it must be TIMESTAMP',
            )
        return StreamSchema(pa.schema(fields), time)

    @property
    def names(self) -> list[str]:
        return list(self.arrow.names)

    @property
    def stamped_on_arrival(self) -> bool:
        """True if the system, not the data, says when a row happened."""
        return self.time == ARRIVAL_COLUMN

    def to_json(self) -> dict[str, Any]:
        return {"columns": [[f.name, sql_type(f.type)] for f in self.arrow], "time": self.time}

    @staticmethod
    def from_json(data: dict[str, Any]) -> StreamSchema:
        fields = [pa.field(name, arrow_type(sql)) for name, sql in data["columns"]]
        return StreamSchema(pa.schema(fields), data["time"])

    def conform(self, data: Any, *, now_us: int | None = None, of: str = "the stream") -> pa.Table:
        """`data` (Arrow, pandas, polars, a list of dicts, a dict of columns) as rows of this stream.

        Columns are matched by name, missing ones are null, unknown ones are an error, and a type
        is changed only where no value is lost. `now_us` stamps the rows of a stream without a time
        of its own. `of`: whose rows they are, as errors say it.
        """
        table = as_table(data, self.arrow)
        unknown = [n for n in table.column_names if n not in self.names]
        if unknown:
            raise DataError(
                "COLUMN_NOT_FOUND",
                f'column "{unknown[0]}" is not in {of}',
                hint=did_you_mean(unknown[0], self.names),
            )
        if len(set(table.column_names)) != table.num_columns:
            raise DataError("COLUMN_EXISTS", "a column comes twice in the data")
        arrays: list[pa.ChunkedArray] = []
        for field in self.arrow:
            if field.name in table.column_names:
                arrays.append(_cast(table.column(field.name), field))
            elif field.name == self.time and self.stamped_on_arrival and now_us is not None:
                stamp = pa.scalar(now_us, pa.int64()).cast(TIME_TYPE)
                arrays.append(pa.chunked_array([pa.repeat(stamp, table.num_rows)]))
            else:
                arrays.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
        return pa.Table.from_arrays(arrays, schema=self.arrow)


def as_table(data: Any, schema: pa.Schema | None = None) -> pa.Table:
    """Anything people hold rows in, as an Arrow table with its own column names and types."""
    try:
        return _table(data, schema)
    except DataError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        raise DataError(
            "DATA_NOT_UNDERSTOOD",
            f"this {type(data).__name__} cannot be read as rows",
            detail=str(problem).splitlines()[0] if str(problem) else None,
            hint=_KINDS,
        ) from None


_KINDS = "pass a pyarrow Table, a pandas or polars DataFrame, a dict of columns or a list of dicts"


def _table(data: Any, schema: pa.Schema | None) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping):
        return pa.table({k: _array(v, k, schema) for k, v in data.items()})
    if isinstance(data, list | tuple):
        return _from_rows(list(data), schema)
    module = type(data).__module__.split(".")[0]
    if module == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if hasattr(data, "to_arrow"):
        return cast(pa.Table, data.to_arrow())
    raise DataError("DATA_NOT_UNDERSTOOD", f"got {type(data).__name__} where rows were wanted", hint=_KINDS)


def _from_rows(rows: list[Any], schema: pa.Schema | None) -> pa.Table:
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError("DATA_NOT_UNDERSTOOD", f"row {i} is {type(row).__name__}, not a dict")
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    if rows and not names and schema is not None:
        names = dict.fromkeys(schema.names[:1])  # rows of nothing but nulls are rows too
    return pa.table({n: _array([row.get(n) for row in rows], n, schema) for n in names})


def _array(values: Any, name: str, schema: pa.Schema | None) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    wanted = schema.field(name).type if schema is not None and name in schema.names else None
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as first:
        if wanted is not None:
            try:
                return pa.array(values, wanted)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError, TypeError, ValueError):
                pass
        wanted_text = f", {sql_type(wanted)} is wanted" if wanted is not None else ""
        raise DataError(
            "TYPE_MISMATCH", f'column "{name}" holds values that do not fit together{wanted_text}', detail=str(first)
        ) from None


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """The column in the field's type, or an error if that would change what a value says."""
    wanted = field.type
    try:
        if pa.types.is_dictionary(column.type):
            column = _decoded(column)
        given = column.type
        if given.equals(wanted) or pa.types.is_null(given):
            return _checked_text(column.cast(wanted), field)
        if _is_text(given):
            return _from_text(column, field)
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
            f'column "{field.name}" is {sql_type(wanted)}, got {column.type}',
            detail=str(problem).splitlines()[0],
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _from_text(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if pa.types.is_string(field.type):
        return _checked_text(column.cast(field.type), field)
    if pa.types.is_timestamp(field.type):
        return _parse_time(column.cast(pa.string()))
    if pa.types.is_binary(field.type):
        return column.cast(field.type)
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


def _checked_text(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Invalid UTF-8 must not enter a STRING column: readers and the JVM would choke on it later."""
    if pa.types.is_string(field.type):
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
