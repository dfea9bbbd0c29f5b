"""The rows of a file, as those of a table: all of them or none, as they were at one moment.

What is read must be what was looked at: a file that was changed meanwhile is read again. Columns are picked by their
names, and a type is changed only where no value is lost.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from anabranch.dataspace.access import Access, opened
from anabranch.dataspace.columns import served_type
from anabranch.errors import AnabranchError, DataError, StreamError, did_you_mean
from anabranch.schema import StreamSchema, is_nested, sql_type
from anabranch.sources import text
from anabranch.tables.origin import CSV, DELTA, JSON, PARQUET, Origin
from anabranch.tables.seen import Seen, look, of_delta, of_file, open_delta

_ATTEMPTS, _PAUSE_SECONDS = 4, 0.1
_BLOCK_BYTES = 8 << 20
"""How much of a text is read at a time, and so the longest row."""
_NOT_READ = {"deletionVectors", "columnMapping"}
"""Features of a Delta table whose files do not hold the rows as they are."""
_FINE = r"\.\d{6}\d*[1-9]"


class Read(NamedTuple):
    """The rows of a file, and what it was like."""

    rows: pa.Table
    seen: Seen


class _Changed(Exception):
    """The file is another than it was when it was looked at."""


def read_file(origin: Origin, access: Access, wanted: pa.Schema | None) -> Read:
    """The rows of a file: the columns that are wanted, in these types, or all it has in those of the language."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        place, seen = look(origin, access)
        try:
            rows = _rows_at(place, seen, origin, wanted)
        except _Changed:
            continue
        except (AnabranchError, pa.ArrowException, csv.Error, OSError, EOFError, ValueError) as problem:
            if look(origin, access)[1].mark != seen.mark:
                continue  # it was written while it was read: no wonder
            raise _explained(origin, problem) from None
        return Read(_fitting(rows, origin, wanted), seen)
    raise StreamError(
        "FILE_IS_CHANGING",
        f'"{origin.path}" was changed each time it was read',
        hint="write it beside and rename it, so that it is there as a whole or not at all",
    )


def _rows_at(place: str, seen: Seen, origin: Origin, wanted: pa.Schema | None) -> pa.Table:
    names = None if wanted is None else list(wanted.names)
    if origin.format == DELTA:
        table = open_delta(place)
        if of_delta(table).mark != seen.mark:
            raise _Changed
        try:
            return _delta(table, place, _picker(origin, names))
        except (AnabranchError, pa.ArrowException, OSError, ValueError):
            raise
        except Exception as problem:  # the package has errors of its own that share no base
            raise OSError(0, str(problem) or type(problem).__name__) from None
    with opened(place) as file:
        if of_file(os.fstat(file.fileno())).mark != seen.mark:
            raise _Changed
        rows = _READERS[origin.format](file, wanted, _picker(origin, names))
        if of_file(os.fstat(file.fileno())).mark != seen.mark:
            raise _Changed
    return rows


def _explained(origin: Origin, problem: Exception) -> AnabranchError:
    if isinstance(problem, AnabranchError):
        return problem
    said = str(getattr(problem, "strerror", None) or problem).splitlines()
    hint = {
        CSV: "give the columns with their types, if it is not as its first rows are",
        JSON: "write one object per line",
    }
    return DataError(
        "FILE_NOT_READABLE",
        f'"{origin.path}" cannot be read as {origin.format}',
        detail=said[0] if said else None,
        hint=hint.get(origin.format),
    )


# -- columns -----------------------------------------------------------------------------------------

Picker = Callable[[Sequence[str]], dict[str, str]]
"""Of the columns that a file has those that are wanted, each with the name it is to have."""


def _picker(origin: Origin, names: Sequence[str] | None) -> Picker:
    def pick(found: Sequence[str]) -> dict[str, str]:
        if twice := [name for at, name in enumerate(found) if name in found[:at]]:
            raise DataError("COLUMN_EXISTS", f'"{origin.path}" has the column "{twice[0]}" twice')
        if names is None:
            return {name: name for name in found}
        return {_found(origin, found, name): name for name in names}

    return pick


def _found(origin: Origin, found: Sequence[str], name: str) -> str:
    """The column of a file that has a name: just so, or in other letters."""
    alike = [known for known in found if known.lower() == name.lower()]
    if name in alike:
        return name
    if len(alike) == 1:
        return alike[0]
    raise DataError(
        "COLUMN_MISSING",
        f'"{origin.path}" has no column "{name}"' + (", and more than one of that name in other letters" * bool(alike)),
        hint=did_you_mean(name, found),
    )


def _fitting(rows: pa.Table, origin: Origin, wanted: pa.Schema | None) -> pa.Table:
    """The rows in types of the language, or in those that are wanted."""
    schema = pa.schema([_own(origin, field) for field in rows.schema]) if wanted is None else wanted
    try:
        for field in schema:
            if pa.types.is_timestamp(field.type):
                _check_fine(rows.column(field.name), field.name)
        return StreamSchema(schema, "").conform(rows, of=f'"{origin.path}"').combine_chunks()
    except DataError as problem:
        raise DataError(
            problem.name, f'"{origin.path}": {problem.message}', detail=problem.detail, hint=problem.hint
        ) from None


def _own(origin: Origin, field: pa.Field) -> pa.Field:
    kind = served_type(field.type)
    if kind is None:
        raise DataError(
            "TYPE_NOT_SUPPORTED",
            f'column "{field.name}" of "{origin.path}" is {field.type}, which a table cannot hold',
            hint="name the columns that are wanted, with their types: CREATE TABLE … (column TYPE, …) PRIMARY KEY …",
        )
    return pa.field(field.name, kind)


def _check_fine(column: pa.ChunkedArray, name: str) -> None:
    """An error if a time is finer than a microsecond."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        fine = pc.not_equal(pc.floor_temporal(column, 1, "microsecond"), column)
    elif pa.types.is_string(column.type):
        fine = pc.match_substring_regex(column, _FINE)
    else:
        return
    if pc.any(fine).as_py():
        raise DataError("TYPE_MISMATCH", f'column "{name}" has times that are finer than a microsecond')


# -- formats -----------------------------------------------------------------------------------------


def _parquet(file: BinaryIO, wanted: pa.Schema | None, pick: Picker) -> pa.Table:
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    return _renamed(parquet.read, pick(parquet.schema_arrow.names))


def _delta(table: Any, place: str, pick: Picker) -> pa.Table:
    features = _NOT_READ.intersection(table.protocol().reader_features or ())
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features:
        raise ValueError(f"it uses {', '.join(sorted(features))}, which is not read here")
    inside = os.path.join(place, "")
    for uri in table.file_uris():
        if not os.path.realpath(uri.removeprefix("file://")).startswith(inside):
            raise ValueError("it has a file that is not in its folder")
    data = table.to_pyarrow_dataset()
    return _renamed(data.to_table, pick(data.schema.names))


def _renamed(read: Callable[..., pa.Table], columns: dict[str, str]) -> pa.Table:
    rows = read(columns=list(columns))
    return pa.Table.from_arrays([rows.column(name) for name in columns], names=list(columns.values()))


def _csv(file: BinaryIO, wanted: pa.Schema | None, pick: Picker) -> pa.Table:
    """A header and rows; an unquoted empty field is NULL, and \\N."""
    source = _unpacked(file)
    read = arrow_csv.ReadOptions(block_size=_BLOCK_BYTES)
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    columns = pick(_header(source))
    for own, name in columns.items():
        if wanted is not None and is_nested(kind := wanted.field(name).type):
            raise DataError(
                "TYPE_NOT_SUPPORTED",
                f'column "{own}" is {sql_type(kind)}, which CSV cannot hold',
                hint="make the file Parquet or JSON, or leave the column out",
            )
    source = _unpacked(file)
    types = {} if wanted is None else {own: text.read_as(wanted.field(name).type, CSV) for own, name in columns.items()}
    convert = arrow_csv.ConvertOptions(
        column_types=types,
        include_columns=list(columns),
        null_values=["", "\\N"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return _as_wanted(arrow_csv.read_csv(source, read, parse, convert), columns, wanted)


def _header(source: IO[bytes]) -> list[str]:
    lines = io.TextIOWrapper(source, "utf-8-sig", newline="")
    header = next((row for row in csv.reader(lines) if row), [])
    lines.detach()
    return header


def _json(file: BinaryIO, wanted: pa.Schema | None, pick: Picker) -> pa.Table:
    """An object per line; a name that an object lacks is NULL."""
    read = arrow_json.ReadOptions(block_size=_BLOCK_BYTES)
    if wanted is None:
        rows = arrow_json.read_json(_unpacked(file), read)
        return _as_wanted(rows, pick(rows.column_names), None)
    fields = [pa.field(field.name, text.read_as(field.type, JSON)) for field in wanted]
    parse = arrow_json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
    return _as_wanted(arrow_json.read_json(_unpacked(file), read, parse), {n: n for n in wanted.names}, wanted)


def _as_wanted(rows: pa.Table, columns: dict[str, str], wanted: pa.Schema | None) -> pa.Table:
    """Columns with the names they are to have; of texts that are something else, that."""
    arrays = []
    for own, name in columns.items():
        column = rows.column(own)
        if wanted is not None and pa.types.is_string(column.type):
            kind = wanted.field(name).type
            if pa.types.is_timestamp(kind):
                _check_fine(column, name)
            column = _converted(column, name, kind)
        arrays.append(column)
    return pa.Table.from_arrays(arrays, names=list(columns.values()))


def _converted(column: pa.ChunkedArray, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return text.convert(column, kind)
    except pa.ArrowInvalid:
        bad = str(column[text.first_bad(column, kind)])
        raise DataError("TYPE_MISMATCH", f'column "{name}" is {sql_type(kind)}, got "{bad[:60]}"') from None


def _unpacked(file: BinaryIO) -> IO[bytes]:
    file.seek(0)
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file


_READERS: dict[str, Callable[[BinaryIO, pa.Schema | None, Picker], pa.Table]] = {
    PARQUET: _parquet,
    CSV: _csv,
    JSON: _json,
}
