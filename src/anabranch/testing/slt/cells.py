"""Values as cells of text: one readable form for pushed rows and for expected ones.

Cells are separated by ` | `. NULL is null; text that would be misread (empty, with a bar, with
blanks at its ends, the word NULL, in quotes) is written as a JSON string; times are UTC, arrays and structs JSON.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from anabranch.schema import TIME_TYPE, is_nested

_CELL = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^|]*?)\s*(\||$)')


class Rows(NamedTuple):
    """A table as text: the names of its columns, the SQL-like kind of each, and the cells."""

    names: list[str]
    kinds: list[str]
    cells: list[list[str]]


def split(line: str) -> list[str]:
    """The cells of a line, quoted ones still in their quotes.

    >>> split('a | "b|c" | NULL')
    ['a', '"b|c"', 'NULL']
    """
    cells, at = [], 0
    while True:
        match = _CELL.match(line, at)
        if match is None or (match[1].startswith('"') and not match[1].endswith('"', 1)):
            raise ValueError(f"the quotes of {line!r} do not match")
        cells.append(match[1])
        at = match.end()
        if match[2] == "":
            return cells


def text_of(cell: str) -> str:
    """A cell's text without its quotes."""
    return str(json.loads(cell)) if cell.startswith('"') else cell


def value_of(cell: str, type_: pa.DataType) -> Any:
    """The value a cell means in a column of a type."""
    if cell == "NULL":
        return None
    text = text_of(cell)
    if pa.types.is_string(type_):
        return text
    if pa.types.is_boolean(type_):
        return {"true": True, "false": False}[text]
    if pa.types.is_integer(type_):
        return int(text)
    if pa.types.is_floating(type_):
        return float(text)
    if pa.types.is_decimal(type_):
        return Decimal(text)
    if pa.types.is_timestamp(type_):
        return time_of(text)
    if pa.types.is_date(type_):
        return dt.date.fromisoformat(text)
    if pa.types.is_binary(type_):
        return bytes.fromhex(text)
    if is_nested(type_):
        return json.loads(text)
    raise ValueError(f"no cell has the type {type_}")


def time_of(text: str) -> int:
    """A time's text as microseconds."""
    time = dt.datetime.fromisoformat(text)
    return int(pa.scalar(time.replace(tzinfo=time.tzinfo or dt.UTC), TIME_TYPE).value)


def table_of(lines: tuple[str, ...], schema: pa.Schema) -> pa.Table:
    """Pushed rows; a column the stream does not have is taken for text."""
    names = [text_of(cell) for cell in split(lines[0])]
    types = [schema.field(name).type if name in schema.names else pa.string() for name in names]
    rows = [split(line) for line in lines[1:]]
    for row in rows:
        if len(row) != len(names):
            raise ValueError(f"{len(row)} cells for {len(names)} columns: {' | '.join(row)}")
    arrays = [pa.array([value_of(row[i], t) for row in rows], t) for i, t in enumerate(types)]
    return pa.Table.from_arrays(arrays, names=names)


def shown(table: pa.Table) -> Rows:
    """A table as cells."""
    columns = [[cell_of(value) for value in _plain(column)] for column in table.columns]
    kinds = ["float" if pa.types.is_floating(field.type) else "other" for field in table.schema]
    return Rows([_name(name) for name in table.column_names], kinds, [list(row) for row in zip(*columns, strict=True)])


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if value is None else _Time(value) for value in micros]
    values: list[Any] = column.to_pylist()
    return values


class _Time(int):
    """Microseconds, to be shown as a time."""


def cell_of(value: Any) -> str:
    """A value as a cell.

    >>> [cell_of(v) for v in (None, True, 2.0, "", "a|b", "plain", Decimal("1.50"))]
    ['NULL', 'true', '2', '""', '"a|b"', 'plain', '1.50']
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, _Time):
        return _time_text(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, bytes):
        return _name(value.hex())
    if isinstance(value, list | dict):
        return _name(json.dumps(_parts(value), ensure_ascii=False))
    return _name(value) if isinstance(value, str) else str(value)


def _parts(value: Any) -> Any:
    """An array or struct as JSON has it; what that does not have is the text of its cell."""
    if isinstance(value, dict):
        return {name: _parts(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_parts(part) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return float(value) if isinstance(value, float) and math.isfinite(value) else cell_of(value)


def _name(text: str) -> str:
    plain = text and text.strip() == text and text != "NULL" and text[0] != '"' and "|" not in text
    return text if plain and text.isprintable() else json.dumps(text, ensure_ascii=False)


def _time_text(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    time = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    text = time.replace(tzinfo=None).isoformat(" ")
    return f"{text}.{rest:06d}".rstrip("0") if rest else text


def float_text(value: float) -> str:
    """Ten digits: what two right ways of computing a number agree on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return format(value, ".10g")


def same_cells(row: list[str], kinds: list[str]) -> list[str]:
    """An expected row in the form `shown` gives it: no needless quotes, floats with the same digits."""
    return [_float_cell(cell) if kind == "float" else _plain_cell(cell) for cell, kind in zip(row, kinds, strict=True)]


def _plain_cell(cell: str) -> str:
    return cell if cell == "NULL" else _name(text_of(cell))


def _float_cell(cell: str) -> str:
    try:
        return float_text(float(cell))
    except ValueError:
        return cell
