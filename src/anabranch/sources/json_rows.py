"""JSON: one object per line, or one array of objects."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.json as arrow_json

from anabranch.errors import DataError, did_you_mean
from anabranch.schema import StreamSchema, is_nested, sql_type
from anabranch.sources import text

BLOCK_BYTES = 4 << 20
_ROWS_PER_TABLE = 10_000
_NOT_SPACE = re.compile(r"\S")
_BOM = b"\xef\xbb\xbf"


class _Row(NamedTuple):
    line: int
    value: Any


def read_json(name: str, reader: io.BufferedReader, schema: StreamSchema) -> Iterator[pa.Table]:
    """The objects of a file as rows; a key an object lacks is null."""
    if reader.peek(3)[:3] == _BOM:
        reader.read(3)
    head = reader.peek(64)[:64].lstrip()[:1]
    if head == b"[":
        rows: list[_Row] = []
        for row in _array_items(name, reader):
            rows.append(row)
            if len(rows) == _ROWS_PER_TABLE:
                yield _from_rows(name, rows, schema)
                rows = []
        if rows:
            yield _from_rows(name, rows, schema)
        return
    line = 1
    while block := reader.read(BLOCK_BYTES):
        block += reader.readline()
        if table := _from_block(name, block, line, schema):
            yield table
        line += block.count(b"\n")


def _from_block(name: str, block: bytes, line: int, schema: StreamSchema) -> pa.Table | None:
    if not block.strip():
        return None
    _decoded(name, block, line)
    fields = [pa.field(f.name, text.read_as(f.type, "json")) for f in schema.arrow]
    try:
        read = arrow_json.read_json(
            io.BytesIO(block),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="error"),
        )
        columns = {f.name: text.convert(read.column(f.name), f.type) for f in schema.arrow}
    except pa.ArrowInvalid:
        # Object by object it is slower, and says which line it is.
        return _from_rows(name, list(_line_items(name, block, line)), schema)
    return _without_arrival(pa.table(columns), schema)


def _line_items(name: str, block: bytes, first: int) -> Iterator[_Row]:
    for number, line in enumerate(block.split(b"\n"), start=first):
        if line.strip():
            try:
                yield _Row(number, json.loads(line))
            except json.JSONDecodeError as problem:
                raise _not_json(name, number, problem.msg) from None


def _array_items(name: str, reader: io.BufferedReader) -> Iterator[_Row]:
    """The items of a top-level array, decoded as the text comes in."""
    window = _Window(name, reader)
    window.take("[")
    if window.next_char() == "]":
        return
    while True:
        window.next_char()
        yield window.value()
        if window.next_char() == "]":
            return
        window.take(",")


class _Window:
    """The part of a text around the place where it is being decoded."""

    def __init__(self, name: str, reader: io.BufferedReader) -> None:
        self._name, self._reader = name, reader
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._line = "", 0, 1
        self._cut_off, self._at_end = b"", False

    def next_char(self) -> str:
        """The next character that is no space, not taken yet; nothing at the end."""
        while True:
            end = _NOT_SPACE.search(self._text, self._at)
            self._move(end.start() if end else len(self._text))
            if end or self._at_end:
                return end[0] if end else ""
            self._read_on()

    def take(self, wanted: str) -> None:
        if self.next_char() != wanted:
            raise _not_json(self._name, self._line, f'"{wanted}" is missing')
        self._move(self._at + 1)

    def value(self) -> _Row:
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as problem:
                cut = problem.pos >= len(self._text) - 16 or problem.msg.startswith("Unterminated string")
                if self._at_end or not cut:
                    line = self._line + self._text.count("\n", self._at, problem.pos)
                    raise _not_json(self._name, line, problem.msg) from None
            else:
                if end < len(self._text) or self._at_end:  # else a number may go on in the next block
                    row = _Row(self._line, value)
                    self._move(end)
                    return row
            self._read_on()

    def _move(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to

    def _read_on(self) -> None:
        chunk = self._reader.read(BLOCK_BYTES)
        self._at_end = not chunk
        data = self._cut_off + chunk
        whole = len(data) - (_incomplete_tail(data) if chunk else 0)
        self._cut_off = data[whole:]
        line = self._line + self._text.count("\n", self._at)
        self._text = self._text[self._at :] + _decoded(self._name, data[:whole], line)
        self._at = 0


def _incomplete_tail(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character that is cut off there."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < length else 0
        if byte < 0x80:
            return 0
    return 0


def _from_rows(name: str, rows: list[_Row], schema: StreamSchema) -> pa.Table:
    for line, value in rows:
        if not isinstance(value, dict):
            raise DataError("ROW_NOT_READABLE", f"{name}, line {line}: got {_kind(value)} where an object is wanted")
        for key in value:
            if key not in schema.names:
                raise DataError(
                    "COLUMN_NOT_FOUND",
                    f'{name}, line {line}: column "{key}" is not in the stream',
                    hint=did_you_mean(key, schema.names),
                )
    columns = {f.name: _column(name, f, rows) for f in schema.arrow}
    return _without_arrival(pa.table(columns), schema)


def _column(name: str, field: pa.Field, rows: list[_Row]) -> pa.Array:
    as_read = text.read_as(field.type, "json")
    values = [row.value.get(field.name) for row in rows]
    for (line, _), value in zip(rows, values, strict=True):
        if value is not None and not _fits(value, as_read, field.type):
            got = json.dumps(value, ensure_ascii=False)
            shown = got if len(got) <= 60 else got[:57] + "…"
            raise DataError(
                "TYPE_MISMATCH", f'{name}, line {line}: column "{field.name}" is {sql_type(field.type)}, got {shown}'
            )
    return text.convert(_array(values, as_read), field.type)


def _fits(value: Any, as_read: pa.DataType, wanted: pa.DataType) -> bool:
    if is_nested(as_read):
        return _parts_fit(value, as_read, wanted)
    if isinstance(value, bool) != pa.types.is_boolean(as_read):
        return False
    if pa.types.is_integer(as_read) and not isinstance(value, int):
        return False  # Arrow would cut a fraction off in silence
    try:
        text.convert(_array([value], as_read), wanted)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return False
    return True


def _parts_fit(value: Any, as_read: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether what an array or object of JSON holds fits; names that a struct does not have do not."""
    if pa.types.is_list(as_read):
        inner = [(item, as_read.value_type, wanted.value_type) for item in value] if isinstance(value, list) else None
    elif isinstance(value, dict) and all(as_read.get_field_index(name) >= 0 for name in value):
        inner = [(item, as_read.field(name).type, wanted.field(name).type) for name, item in value.items()]
    else:
        inner = None
    return inner is not None and all(item is None or _fits(item, read, kind) for item, read, kind in inner)


def _array(values: list[Any], as_read: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(as_read):
        return pa.array([v if v is None else str(v) for v in values], pa.string()).cast(as_read)
    return pa.array([_with_decimals(value, as_read) for value in values] if is_nested(as_read) else values, as_read)


def _with_decimals(value: Any, as_read: pa.DataType) -> Any:
    """A value of JSON with the numbers in it that are to be decimals as such."""
    if value is None:
        return None
    if pa.types.is_list(as_read):
        return [_with_decimals(item, as_read.value_type) for item in value]
    if pa.types.is_struct(as_read):
        return {name: _with_decimals(item, as_read.field(name).type) for name, item in value.items()}
    return Decimal(str(value)) if pa.types.is_decimal(as_read) else value


def _without_arrival(table: pa.Table, schema: StreamSchema) -> pa.Table:
    """A stream stamped on arrival must not be handed an empty time instead of none."""
    if schema.stamped_on_arrival and table.column(schema.time).null_count == table.num_rows:
        return table.drop_columns([schema.time])
    return table


def _decoded(name: str, data: bytes, line: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        at = line + data.count(b"\n", 0, problem.start)
        raise DataError("TEXT_NOT_UTF8", f"{name}, line {at}: the text is not valid UTF-8") from None


def _not_json(name: str, line: int, what: str) -> DataError:
    return DataError("ROW_NOT_READABLE", f"{name}, line {line}: not JSON", detail=what)


def _kind(value: Any) -> str:
    kinds = {"list": "an array", "str": "a string", "bool": "a boolean", "NoneType": "null"}
    return kinds.get(type(value).__name__, "a number")
