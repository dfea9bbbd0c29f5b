"""CSV with a header whose names are the stream's columns, in any order."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as arrow_csv

from anabranch.errors import DataError, did_you_mean
from anabranch.schema import StreamSchema, is_nested, sql_type
from anabranch.sources import text

BLOCK_BYTES = 2 << 20
"""How much is read at a time, and so the longest row; Arrow reads up to 32 blocks ahead."""
_PLACE = re.compile(r"(?:In CSV column #(?P<column>\d+): )?(?:CSV parse error: )?Row #(?P<row>\d+): (?P<what>.*)", re.S)
_VALUE = re.compile(r"invalid value '(.*)'", re.S)


def read_csv(name: str, reader: io.BufferedReader, schema: StreamSchema) -> Iterator[pa.Table]:
    """The rows of a CSV file, a block at a time; an unquoted empty field is null."""
    lines = _CountedLines(reader)
    header = _header(name, lines, schema)
    if header is None:
        return
    for column in header:
        if is_nested(kind := schema.arrow.field(column).type):
            raise DataError(
                "TYPE_NOT_SUPPORTED",
                f'{name}: column "{column}" is {sql_type(kind)}, which CSV cannot hold',
                hint="write the rows as JSON, Parquet or Arrow, or leave the column out of the file",
            )
    types = {column: text.read_as(schema.arrow.field(column).type, "csv") for column in header}
    rows_before = 0
    try:
        batches = arrow_csv.open_csv(
            reader,
            # One thread: only then does Arrow say in which row it failed.
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=header),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, null_values=["", "\\N"], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
        for batch in batches:
            yield _typed(name, batch, schema, lines.count + rows_before)
            rows_before += batch.num_rows
    except pa.ArrowInvalid as problem:
        if "Empty CSV" not in str(problem):
            raise _explained(name, str(problem), header, schema, lines.count) from None


class _CountedLines:
    """The lines of a reader as text, counted, for the header alone."""

    def __init__(self, reader: io.BufferedReader) -> None:
        self._reader = reader
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._reader.readline(BLOCK_BYTES):
            self.count += 1
            yield line.decode("utf-8-sig" if self.count == 1 else "utf-8", errors="replace")


def _header(name: str, lines: _CountedLines, schema: StreamSchema) -> list[str] | None:
    """The stream's name of each column of the file; None if the file is empty."""
    fields: list[str] = next((row for row in csv.reader(lines) if any(field.strip() for field in row)), [])
    if not fields:
        return None
    by_name = {column.lower(): column for column in schema.names}
    wanted = ",".join(schema.names)
    header = [by_name.get(field.strip().lower()) for field in fields]
    if not any(header):
        raise DataError(
            "HEADER_MISSING",
            f"{name}: the first line names none of the stream's columns",
            detail=f"got {','.join(fields)[:200]}",
            hint=f"start the file with a header line, for example {wanted}",
        )
    for field, column in zip(fields, header, strict=True):
        if column is None:
            raise DataError(
                "COLUMN_NOT_FOUND",
                f'{name}: column "{field.strip()}" is not in the stream',
                hint=did_you_mean(field.strip(), schema.names),
            )
    columns = [column for column in header if column is not None]
    if len(set(columns)) != len(columns):
        raise DataError("COLUMN_EXISTS", f"{name}: the header names a column twice")
    if schema.time not in columns and not schema.stamped_on_arrival:
        raise DataError("COLUMN_MISSING", f'{name} has no column "{schema.time}", the time of the stream')
    return columns


def _typed(name: str, batch: pa.RecordBatch, schema: StreamSchema, line_before: int) -> pa.Table:
    columns = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        wanted = schema.arrow.field(field.name).type
        try:
            columns[field.name] = text.convert(column, wanted)
        except pa.ArrowInvalid:
            bad = text.first_bad(column, wanted)
            raise _mismatch(f"{name}, line {line_before + bad + 1}", field.name, str(column[bad]), wanted) from None
    return pa.table(columns)


def _explained(name: str, problem: str, header: list[str], schema: StreamSchema, line_before: int) -> DataError:
    """Arrow's complaint in our words, with the line of the file (exact while no row spans several lines)."""
    if "straddl" in problem:
        return DataError(
            "ROW_TOO_LARGE",
            f"{name}: a row is longer than {BLOCK_BYTES >> 20} MiB",
            hint="write it as Parquet, or mend a quote that is not closed",
        )
    match = _PLACE.match(problem)
    if match is None:
        return DataError("FILE_NOT_READABLE", f"{name} cannot be read as CSV", detail=problem.splitlines()[0])
    place = f"{name}, line {line_before + int(match['row'])}"
    if match["column"] is None:
        what = match["what"].splitlines()[0]
        return DataError("ROW_NOT_READABLE", f"{place}: {what[:1].lower()}{what[1:200]}")
    column = header[int(match["column"])]
    if "UTF8" in match["what"]:
        return DataError("TEXT_NOT_UTF8", f'{place}: column "{column}" is not valid UTF-8')
    value = _VALUE.search(match["what"])
    return _mismatch(place, column, value[1] if value else "?", schema.arrow.field(column).type)


def _mismatch(place: str, column: str, value: str, wanted: pa.DataType) -> DataError:
    shown = value if len(value) <= 60 else value[:57] + "…"
    return DataError("TYPE_MISMATCH", f'{place}: column "{column}" is {sql_type(wanted)}, got "{shown}"')
