"""The parts of CREATE STREAM: columns with their types, and the clauses behind them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from anabranch.connectors import CONNECTORS, sources
from anabranch.errors import AnabranchError, did_you_mean
from anabranch.log.feed import change_column, key_columns
from anabranch.log.stream import APPENDED
from anabranch.schema import arrow_type
from anabranch.sql.reading.create_query import take_retain, take_select
from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.names import take_new_name
from anabranch.sql.statements import CreateStream, CreateStreamAs, Statement

T = TypeVar("T")
_OPENS, _CLOSES = (TokenType.L_PAREN, TokenType.LT), (TokenType.R_PAREN, TokenType.GT)


def take_create_stream(cursor: Cursor) -> Statement:
    """What follows CREATE STREAM."""
    if_not_exists = cursor.words("IF", "NOT", "EXISTS")
    name = take_new_name(cursor, "the stream's name")
    retain_us = take_retain(cursor)
    if retain_us is not None:
        cursor.expect("AS")
        return CreateStreamAs(name, take_select(cursor), if_not_exists, retain_us)
    if cursor.words("AS"):
        return CreateStreamAs(name, take_select(cursor), if_not_exists)
    if not cursor.next_is("(") and not cursor.next_is("FROM"):
        cursor.fail("expected (column TYPE, …) or AS SELECT …")
    columns = take_columns(cursor) if cursor.next_is("(") else ()
    return take_clauses(cursor, CreateStream(name, columns, if_not_exists=if_not_exists))


def take_columns(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """`(name TYPE, …)`: each name with its type's own text."""
    cursor.expect("(")
    columns: list[tuple[str, str]] = []
    while True:
        begin = cursor.index
        name = cursor.name("a column's name")
        if name.lower() in (known.lower() for known, _ in columns):
            cursor.index = begin
            raise cursor.error_here("COLUMN_EXISTS", f'column "{name}" is declared twice')
        columns.append((name, take_type(cursor)))
        if not cursor.words(","):
            break
    cursor.expect(")")
    return tuple(columns)


def take_type(cursor: Cursor, behind: tuple[str, ...] = ()) -> str:
    """A type's own text: everything up to the end, or the comma or parenthesis that ends the column.

    `behind`: words that may stand behind a type.
    """
    begin, depth = cursor.index, 0
    while (token := cursor.peek()) is not None:
        if depth == 0 and word(token) in (",", ")", *behind):
            break
        depth += (token.token_type in _OPENS) - (token.token_type in _CLOSES and depth > 0)
        cursor.advance()
    sql = cursor.source(begin, cursor.index)
    end, cursor.index = cursor.index, begin
    if not sql:
        cursor.fail("expected the column's type")
    try:
        arrow_type(sql)
    except AnabranchError as problem:
        raise cursor.error_here(problem.name, problem.message, hint=problem.hint) from None
    cursor.index = end
    return sql


def take_clauses(cursor: Cursor, stream: CreateStream) -> CreateStream:
    """The clauses behind the columns, in any order, each once."""
    seen: dict[str, int] = {}

    def once(clause: str, *words: str) -> bool:
        begin = cursor.index
        if not cursor.words(*words):
            return False
        if clause in seen:
            cursor.index = begin
            raise cursor.error_here("SYNTAX_ERROR", f"{' '.join(words)} comes twice")
        seen[clause] = begin
        return True

    while cursor.peek() is not None:
        if once("time", "TIMESTAMP", "BY"):
            stream = dataclasses.replace(stream, time=_take_time_column(cursor, stream))
        elif once("skew", "ALLOW", "SKEW"):
            stream = dataclasses.replace(stream, skew_us=take_interval(cursor))
        elif once("retain", "RETAIN"):
            stream = dataclasses.replace(stream, retain_us=take_interval(cursor))
        elif once("idle", "IDLE", "AFTER"):
            stream = dataclasses.replace(stream, idle_us=take_interval(cursor))
        elif once("options", "OPTIONS"):
            stream = dataclasses.replace(stream, options=take_options(cursor))
        elif once("changes", "CHANGES", "BY"):
            stream = _take_feed(cursor, stream)
        elif once("from", "FROM"):
            stream = dataclasses.replace(stream, kind=_take_kind(cursor))
        else:
            cursor.fail("expected TIMESTAMP BY, CHANGES BY, ALLOW SKEW, RETAIN, IDLE AFTER or OPTIONS")
    connector = CONNECTORS[stream.kind or APPENDED]
    if not stream.columns and not connector.asks_for_columns:
        cursor.fail("expected (column TYPE, …) or AS SELECT …")
    if "idle" in seen and stream.time is None and connector.logged:
        cursor.index = seen["idle"]
        raise cursor.error_here(
            "NOT_IN_THE_LANGUAGE",
            "a stream without TIMESTAMP BY does not take IDLE AFTER",
            hint="its time is the clock, which goes on by itself; leave it out",
        )
    if "changes" in seen and not connector.logged:
        cursor.index = seen["changes"]
        raise cursor.error_here(
            "NOT_IN_THE_LANGUAGE",
            f"a stream from a {connector.name} is no feed of changes",
            hint=f"its rows are on {connector.place}; append them to a stream with CHANGES BY",
        )
    for clause in ("skew", "retain", "idle"):
        if not connector.logged and clause in seen:
            cursor.index = seen[clause]
            raise cursor.error_here(
                "NOT_IN_THE_LANGUAGE",
                f"a stream from a {connector.name} takes neither ALLOW SKEW nor RETAIN nor IDLE AFTER",
                hint=f"its rows are on {connector.place}; leave it out",
            )
    return stream


def _take_time_column(cursor: Cursor, stream: CreateStream) -> str:
    begin = cursor.index
    wanted = cursor.name("the time column's name")
    if not stream.columns:  # those of the data set, which are not known yet
        return wanted
    types = {name.lower(): (name, sql) for name, sql in stream.columns}
    end, cursor.index = cursor.index, begin
    if wanted.lower() not in types:
        raise cursor.error_here(
            "COLUMN_NOT_FOUND",
            f'time column "{wanted}" is not among the columns',
            hint=did_you_mean(wanted, [name for name, _ in stream.columns]),
        )
    name, sql = types[wanted.lower()]
    if sql.upper() != "TIMESTAMP":
        raise cursor.error_here("TIME_TYPE_MISMATCH", f'time column "{name}" is {sql}, it must be TIMESTAMP')
    cursor.index = end
    return name


def _take_feed(cursor: Cursor, stream: CreateStream) -> CreateStream:
    """What follows CHANGES BY: the column that says what became of a row, and the key of what it is a row of."""
    columns = pa.schema([(name, arrow_type(sql)) for name, sql in stream.columns])
    begin = cursor.index
    change, key = cursor.name("the name of the column that says what became of a row"), list[str]()
    if stream.columns:  # else they are those of a data set, of which none is a feed
        change = _placed(cursor, begin, lambda: change_column(columns, change))
    if not cursor.words("KEY"):
        raise cursor.error_here("KEY_WANTED", "a feed of changes has a key", hint="add KEY (column, …)")
    cursor.expect("(")
    while not key or cursor.words(","):
        begin = cursor.index
        key.append(cursor.name("a column's name"))
        if stream.columns:
            key = list(_placed(cursor, begin, lambda: key_columns(columns, change, key)))  # noqa: B023 - called at once
    cursor.expect(")")
    return dataclasses.replace(stream, changes_by=change, key=tuple(key))


def _placed(cursor: Cursor, place: int, check: Callable[[], T]) -> T:
    """What a check gives; what it finds wrong is wrong at a place."""
    try:
        return check()
    except AnabranchError as problem:
        cursor.index = place
        raise cursor.error_here(problem.name, problem.message, hint=problem.hint) from None


def _take_kind(cursor: Cursor) -> str:
    begin = cursor.index
    kind = cursor.name("a kind of source")
    known = {kind.lower(): kind for kind in sources()}
    if kind.lower() in known:
        return known[kind.lower()]
    cursor.index = begin
    raise cursor.error_here(
        "SOURCE_NOT_AVAILABLE",
        f'there is no source of kind "{kind}"',
        hint=did_you_mean(kind, sources(), "create the stream without FROM and append to it"),
    )


def take_options(cursor: Cursor) -> dict[str, str]:
    """`(key value, …)`, with or without `=` between them."""
    cursor.expect("(")
    options: dict[str, str] = {}
    while True:
        begin = cursor.index
        key = _take_option_key(cursor)
        if key in options:
            cursor.index = begin
            raise cursor.error_here("SYNTAX_ERROR", f'option "{key}" comes twice')
        cursor.words("=")
        options[key] = _take_option_value(cursor, key)
        if not cursor.words(","):
            break
    cursor.expect(")")
    return options


def _take_option_key(cursor: Cursor) -> str:
    token = cursor.peek()
    if token is not None and token.token_type == TokenType.STRING:
        return cursor.advance().text
    key = cursor.name("an option's name")
    while cursor.words("."):
        key += "." + cursor.name("the rest of the option's name")
    return key


def _take_option_value(cursor: Cursor, key: str) -> str:
    sign = "-" if cursor.words("-") else ""
    token = cursor.peek()
    if token is not None and token.token_type == TokenType.NUMBER:
        return sign + cursor.advance().text
    if token is not None and not sign and token.token_type in (TokenType.STRING, TokenType.RAW_STRING):
        return cursor.advance().text
    for truth in ("TRUE", "FALSE"):
        if not sign and cursor.words(truth):
            return truth.lower()
    cursor.fail(f'expected the value of option "{key}"', hint="write it in quotes")
