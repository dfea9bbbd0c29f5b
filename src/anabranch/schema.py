"""What the rows of a stream look like: named, typed columns, one of which is the time.

Time is always a TIMESTAMP, kept as microseconds in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from anabranch.column_types import TIME_TYPE, TYPES, arrow_type, is_nested, sql_type
from anabranch.errors import DataError, did_you_mean
from anabranch.fitting import as_type, typed_array

__all__ = [
    "ARRIVAL_COLUMN",
    "TIME_TYPE",
    "TYPES",
    "StreamSchema",
    "arrow_type",
    "as_table",
    "is_nested",
    "sql_type",
]

ARRIVAL_COLUMN = "_time"
"""The time column of a stream declared without TIMESTAMP BY: when the row arrived."""


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
                arrays.append(as_type(table.column(field.name), field.type, field.name))
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
    return typed_array(values, schema.field(name).type if schema is not None and name in schema.names else None, name)
