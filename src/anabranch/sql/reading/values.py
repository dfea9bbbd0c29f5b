"""Plain values in `INSERT INTO … VALUES`: literals, casts of literals and the current time; nothing is computed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from anabranch.errors import AnabranchError, DataError
from anabranch.expressions.reading import NUMBER
from anabranch.fitting import as_type, typed_array
from anabranch.schema import TIME_TYPE, arrow_type, is_nested
from anabranch.sql.reading.cursor import Cursor

_TEXT = (TokenType.STRING, TokenType.RAW_STRING)
_PLAIN = (
    "VALUES takes literals, CAST of a literal, array(…), named_struct(…), NULL and current_timestamp(); "
    "nothing is computed"
)
_CLOCKS = ("CURRENT_TIMESTAMP", "NOW")


def take_rows(cursor: Cursor) -> list[list[Any]]:
    """The rows `(value, …), (value, …)`, all of the same length."""
    rows: list[list[Any]] = []
    while True:
        begin = cursor.index
        row = _take_row(cursor)
        if rows and len(row) != len(rows[0]):
            cursor.index = begin
            raise cursor.error_here(
                "VALUES_MISMATCH", f"this row has {counted(len(row), 'value')}, the first has {len(rows[0])}"
            )
        rows.append(row)
        if not cursor.words(","):
            return rows


def columns_of(rows: list[list[Any]]) -> list[list[Any]]:
    """The columns of rows; whole numbers that stand among decimals are decimals, too.

    >>> columns_of([[Decimal("1.5"), 1], [2, 2]])
    [[Decimal('1.5'), Decimal('2')], [1, 2]]
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    return [_alike(column) for column in columns]


def _alike(values: list[Any]) -> list[Any]:
    if any(isinstance(value, Decimal) for value in values):
        return [Decimal(value) if type(value) is int else value for value in values]
    return values


def counted(count: int, what: str) -> str:
    """A number of things: `1 value`, `2 values`."""
    return f"{count} {what}{'s' if count != 1 else ''}"


def _take_row(cursor: Cursor) -> list[Any]:
    cursor.expect("(")
    row = [take_value(cursor)]
    while cursor.words(","):
        row.append(take_value(cursor))
    token = cursor.peek()
    if token is not None and not cursor.next_is(")"):
        raise cursor.error_here("VALUE_NOT_PLAIN", f'a value ends before "{token.text}"', hint=_PLAIN)
    cursor.expect(")")
    return row


def take_value(cursor: Cursor) -> Any:
    """One value, as Python holds it; a time is in UTC."""
    begin = cursor.index
    value = _take_plain(cursor)
    while cursor.words("::"):
        value = _cast(value, _take_type(cursor), cursor, begin)
    return value


def _take_plain(cursor: Cursor) -> Any:
    begin = cursor.index
    token = cursor.peek()
    if token is None:
        cursor.fail("expected a value")
    if token.token_type in _TEXT:
        return _take_text(cursor)
    if token.token_type == TokenType.HEX_STRING:
        cursor.advance()
        try:
            return bytes.fromhex(token.text)
        except ValueError:
            cursor.index = begin
            raise cursor.error_here(
                "SYNTAX_ERROR", f"X'{token.text}' does not hold pairs of hexadecimal digits"
            ) from None
    if token.token_type == TokenType.NUMBER:
        return _take_number(cursor)
    if cursor.words("-"):
        following = cursor.peek()
        if following is not None and following.token_type == TokenType.NUMBER:
            return _take_number(cursor, "-")  # together: -128Y has no positive
        value = _take_plain(cursor)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            cursor.index = begin
            raise cursor.error_here("SYNTAX_ERROR", "only a number can be negative")
        return -value
    if cursor.words("+"):
        return _take_number(cursor)
    if cursor.words("("):
        value = take_value(cursor)
        cursor.expect(")")
        return value
    return _take_word(cursor)


def _take_word(cursor: Cursor) -> Any:
    begin = cursor.index
    following = cursor.peek(1)
    if following is not None and following.token_type in _TEXT:
        for name, type_ in (("TIMESTAMP", "TIMESTAMP"), ("DATE", "DATE")):
            if cursor.words(name):
                return _cast(_take_text(cursor), type_, cursor, begin)
    for name, value in (("NULL", None), ("TRUE", True), ("FALSE", False)):
        if cursor.words(name):
            return value
    for name in _CLOCKS:
        if cursor.next_is(name, "(", ")") or (cursor.next_is(name) and name != "NOW"):
            cursor.advance()
            if cursor.words("("):
                cursor.expect(")")
            return dt.datetime.now(dt.UTC)
    for name in ("CAST", "TRY_CAST"):
        if cursor.words(name, "("):
            value = take_value(cursor)
            cursor.expect("AS")
            type_ = _take_type(cursor)
            cursor.expect(")")
            return _cast(value, type_, cursor, begin)
    for name, take in (("ARRAY", _take_array), ("NAMED_STRUCT", _take_named_struct), ("STRUCT", _take_struct)):
        if cursor.words(name, "("):
            return take(cursor)
    token = cursor.tokens[begin]
    raise cursor.error_here(
        "VALUE_NOT_PLAIN",
        f'expected a value, got "{token.text}"',
        hint=_PLAIN,
    )


def _take_array(cursor: Cursor) -> list[Any]:
    """What follows `array(`."""
    items: list[Any] = []
    while not cursor.words(")"):
        if items:
            cursor.expect(",")
        items.append(take_value(cursor))
    return _alike(items)


def _take_named_struct(cursor: Cursor) -> dict[str, Any]:
    """What follows `named_struct(`: names and values in turn."""
    fields: dict[str, Any] = {}
    while not fields or cursor.words(","):
        begin, token = cursor.index, cursor.peek()
        if token is None or token.token_type not in _TEXT:
            cursor.fail("expected a field's name in quotes")
        name = _take_text(cursor)
        cursor.expect(",")
        _set_field(fields, name, take_value(cursor), cursor, begin)
    cursor.expect(")")
    return fields


def _take_struct(cursor: Cursor) -> dict[str, Any]:
    """What follows `struct(`: values with their names."""
    fields: dict[str, Any] = {}
    while not fields or cursor.words(","):
        begin = cursor.index
        value = take_value(cursor)
        if not cursor.words("AS"):
            cursor.fail("expected AS and the field's name")
        _set_field(fields, cursor.name("a field's name"), value, cursor, begin)
    cursor.expect(")")
    return fields


def _set_field(fields: dict[str, Any], name: str, value: Any, cursor: Cursor, begin: int) -> None:
    if name in fields:
        cursor.index = begin
        raise cursor.error_here("COLUMN_EXISTS", f'field "{name}" comes twice')
    fields[name] = value


def _take_text(cursor: Cursor) -> str:
    """A string, or several side by side, which are one."""
    text = cursor.advance().text
    token = cursor.peek()
    while token is not None and token.token_type in _TEXT:
        text += cursor.advance().text
        token = cursor.peek()
    return text


_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT"}


def _take_number(cursor: Cursor, sign: str = "") -> Any:
    begin = cursor.index
    text = cursor.advance().text
    match = NUMBER.fullmatch(text)
    if match is None:
        cursor.index = begin
        raise cursor.error_here("SYNTAX_ERROR", f'"{text}" is not a number')
    suffix, digits = match["width"] or match["kind"], sign + (match["whole"] or match["number"])
    value = int(digits) if digits.lstrip("-").isdigit() else Decimal(digits)
    if suffix in _SUFFIXES:
        return _cast(float(digits) if suffix in "DF" else value, _SUFFIXES[suffix], cursor, begin)
    return float(digits) if suffix is None and "e" in digits.lower() else value


def _take_type(cursor: Cursor) -> str:
    begin = cursor.index
    name = cursor.name("a type")
    if cursor.words("<"):
        depth = 1
        while depth:
            token = cursor.advance()
            depth += (token.token_type == TokenType.LT) - (token.token_type == TokenType.GT)
        return cursor.source(begin, cursor.index)
    if cursor.words("("):
        while not cursor.words(")"):
            cursor.advance()
        return cursor.source(begin, cursor.index)
    return name


def _cast(value: Any, type_name: str, cursor: Cursor, begin: int) -> Any:
    def wrong(message: str, **more: str | None) -> AnabranchError:
        cursor.index = begin
        return cursor.error_here("VALUE_NOT_CAST", message, **more)

    try:
        target = arrow_type(type_name)
    except AnabranchError as problem:
        raise wrong(problem.message, hint=problem.hint) from None
    if value is None:
        return None
    if is_nested(target):
        return _cast_parts(value, target, wrong)
    try:
        if pa.types.is_timestamp(target) and isinstance(value, str):
            return parse_time(value)
        if pa.types.is_string(target):
            return _as_text(value)
        if isinstance(value, dt.datetime):
            return pa.scalar(value, TIME_TYPE).cast(target).as_py()
        if isinstance(value, str):
            value = value.strip()
        return pa.scalar(value).cast(target).as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        raise wrong(f"{value!r} is not a {type_name.upper()}") from None


def _cast_parts(value: Any, target: pa.DataType, wrong: Callable[..., AnabranchError]) -> Any:
    """Arrays and structs take a type where that changes no value in them."""
    try:
        return as_type(typed_array([value], target, "value"), target, "value")[0].as_py()
    except DataError as problem:
        raise wrong(problem.message.replace("column ", "", 1), detail=problem.detail, hint=problem.hint) from None


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ")
    return value.decode() if isinstance(value, bytes) else str(value)


def parse_time(text: str) -> dt.datetime:
    """ISO 8601 text as a time in UTC; without an offset it is UTC already.

    >>> parse_time("2026-11-16 16:00:00").isoformat()
    '2026-11-16T16:00:00+00:00'
    """
    time = dt.datetime.fromisoformat(text.strip())
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
