"""Text into statements.

The statements that are ours are read token by token here; a SELECT inside one goes to
`query_parser`. What the language will have but has not gets its own error in `LATER`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import AnabranchError, did_you_mean
from anabranch.sql.archive_statements import (
    take_alter_archive,
    take_alter_stream,
    take_create_archive,
    take_describe_archive,
    take_drop_archive,
    take_vacuum,
)
from anabranch.sql.create_stream import SOURCE_KINDS, take_clauses, take_columns
from anabranch.sql.cursor import Cursor, word
from anabranch.sql.query_parser import parse_select
from anabranch.sql.statements import (
    STATEMENTS,
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateStreamAs,
    Describe,
    Drop,
    Explain,
    ExplainQuery,
    InsertInto,
    SelectOnce,
    ShowArchives,
    ShowQueries,
    ShowStreams,
    StartQuery,
    Statement,
    StopQuery,
    Subscribe,
)
from anabranch.sql.tokens import is_complete, statements_of
from anabranch.sql.tree import Select
from anabranch.sql.values import counted, take_rows

__all__ = ["is_complete", "parse"]

LATER: dict[tuple[str, ...], str] = {
    ("CREATE", "SENSORS"): "declare a stream for each sensor with CREATE STREAM",
    ("CREATE", "MATERIALIZED", "VIEW"): "write CREATE CONTINUOUS QUERY … AS SELECT …",
    ("CREATE", "TRIGGER"): "write CREATE CONTINUOUS QUERY … AS SELECT … WHERE … and subscribe to it",
}
"""Statements that have their place but nothing behind them, and what to write instead."""


def parse(text: str, source_kinds: Collection[str] = SOURCE_KINDS) -> list[Statement]:
    """The statements of a text, separated by semicolons.

    `source_kinds` are the kinds of source a stream can be created FROM.
    """
    return [_parse_one(tokens, text, source_kinds) for tokens in statements_of(text)]


def _parse_one(tokens: list[Token], text: str, source_kinds: Collection[str]) -> Statement:
    cursor = Cursor(tokens, text)
    statement = _statement(cursor, source_kinds)
    cursor.end()
    return dataclasses.replace(statement, source=cursor.source(0, len(tokens)))


def _statement(cursor: Cursor, source_kinds: Collection[str]) -> Statement:
    first = word(cursor.peek())
    if first in ("SELECT", "WITH", "("):
        return SelectOnce(_take_select(cursor))
    if first == "CREATE":
        return _create(cursor, source_kinds)
    reader = _READERS.get(first)
    if reader is None:
        raise _unknown(cursor)
    cursor.advance()
    return reader(cursor)


def _unknown(cursor: Cursor, verb: str = "") -> AnabranchError:
    token = cursor.peek()
    if token is None:
        cursor.fail(f"expected more after {verb}")
    said = f"{verb} {token.text}".strip()
    known = [s.name.removeprefix(verb).strip().split(" ")[0] for s in STATEMENTS if s.name.startswith(verb)]
    names = ", ".join(s.name for s in STATEMENTS if s.name.startswith(verb))
    return cursor.error_here(
        "NOT_IN_THE_LANGUAGE",
        f'"{said}" does not begin a statement',
        hint=did_you_mean(token.text.upper(), known, f"there are: {names}"),
    )


def _take_select(cursor: Cursor) -> Select:
    if word(cursor.peek()) not in ("SELECT", "WITH", "("):
        cursor.fail("expected SELECT")
    return parse_select(cursor.rest(), cursor.text)


def _take_name(cursor: Cursor, what: str) -> str:
    """A name; `stream.rejects` names the rejects of a stream."""
    name = cursor.name(what)
    if cursor.words("."):
        if not cursor.words("REJECTS"):
            cursor.fail("expected rejects", hint="quote a name that holds a dot with backticks")
        return f"{name}.rejects"
    return name


def _take_new_name(cursor: Cursor, what: str) -> str:
    name = cursor.name(what)
    if cursor.next_is("."):
        raise cursor.error_here("SYNTAX_ERROR", "a name that holds a dot needs backticks", hint="write `a.b`")
    return name


def _create(cursor: Cursor, source_kinds: Collection[str]) -> Statement:
    for words, hint in LATER.items():
        if cursor.next_is(*words):
            raise cursor.error_here("NOT_IN_THE_LANGUAGE", f"{' '.join(words)} is not available", hint=hint)
    cursor.expect("CREATE")
    if cursor.words("CONTINUOUS", "QUERY"):
        if_not_exists = cursor.words("IF", "NOT", "EXISTS")
        name = _take_new_name(cursor, "the query's name")
        cursor.expect("AS")
        return CreateQuery(name, _take_select(cursor), if_not_exists)
    if cursor.words("ARCHIVE"):
        return take_create_archive(cursor)
    if not cursor.words("STREAM"):
        raise _unknown(cursor, "CREATE")
    if_not_exists = cursor.words("IF", "NOT", "EXISTS")
    name = _take_new_name(cursor, "the stream's name")
    if cursor.words("AS"):
        return CreateStreamAs(name, _take_select(cursor), if_not_exists)
    if not cursor.next_is("(") and not cursor.next_is("FROM"):
        cursor.fail("expected (column TYPE, …) or AS SELECT …")
    columns = take_columns(cursor) if cursor.next_is("(") else ()
    return take_clauses(cursor, CreateStream(name, columns, if_not_exists=if_not_exists), source_kinds)


def _insert(cursor: Cursor) -> Statement:
    cursor.expect("INTO")
    if cursor.next_is("STREAM") and not cursor.next_is("STREAM", "VALUES") and not cursor.next_is("STREAM", "("):
        cursor.advance()
    stream = _take_new_name(cursor, "the stream's name")
    columns: tuple[str, ...] | None = None
    if cursor.words("("):
        names = [cursor.name("a column's name")]
        while cursor.words(","):
            begin = cursor.index
            names.append(cursor.name("a column's name"))
            if names[-1].lower() in (n.lower() for n in names[:-1]):
                cursor.index = begin
                raise cursor.error_here("COLUMN_EXISTS", f'column "{names[-1]}" comes twice')
        cursor.expect(")")
        columns = tuple(names)
    if cursor.next_is("SELECT"):
        raise cursor.error_here(
            "NOT_IN_THE_LANGUAGE",
            "INSERT INTO … SELECT is not available",
            hint="write CREATE STREAM … AS SELECT …, which also keeps up",
        )
    cursor.expect("VALUES")
    begin = cursor.index
    rows = take_rows(cursor)
    if columns is not None and len(columns) != len(rows[0]):
        cursor.index = begin
        raise cursor.error_here(
            "VALUES_MISMATCH", f"{counted(len(columns), 'column')} for {counted(len(rows[0]), 'value')}"
        )
    return InsertInto(stream, columns, rows)


def _subscribe(cursor: Cursor) -> Statement:
    cursor.expect("TO")
    name = _take_name(cursor, "a query's name")
    if not cursor.words("FROM"):
        return Subscribe(name)
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit() or len(token.text) > 18:
        cursor.fail("expected the number of the first answer")
    return Subscribe(name, int(cursor.advance().text))


def _explain(cursor: Cursor) -> Statement:
    form: Literal["text", "json"] = "text"
    if cursor.words("FORMAT"):
        if cursor.words("JSON"):
            form = "json"
        elif not cursor.words("TEXT"):
            cursor.fail("expected JSON or TEXT")
    if cursor.words("QUERY"):
        return Explain(ExplainQuery(_take_name(cursor, "a query's name")), form)
    begin = cursor.index
    if word(cursor.peek()) in ("SELECT", "WITH", "(", "CREATE"):
        inner = _statement(cursor, ())
        if isinstance(inner, SelectOnce | CreateQuery | CreateStreamAs):
            return Explain(dataclasses.replace(inner, source=cursor.source(begin, cursor.index)), form)
        cursor.index = begin
    cursor.fail("expected SELECT …, CREATE CONTINUOUS QUERY … or QUERY name")


def _show(cursor: Cursor) -> Statement:
    if cursor.words("STREAMS"):
        return ShowStreams()
    if cursor.words("QUERIES"):
        return ShowQueries()
    if cursor.words("ARCHIVES"):
        return ShowArchives()
    raise _unknown(cursor, "SHOW")


def _describe(cursor: Cursor) -> Statement:
    kind: Literal["stream", "query"] | None = None
    if cursor.peek(1) is not None and not cursor.next_is(word(cursor.peek()), "."):
        if cursor.words("ARCHIVE"):
            return take_describe_archive(cursor)
        kind = "stream" if cursor.words("STREAM") else "query" if cursor.words("QUERY") else None
        if kind is None and cursor.next_is("CONTINUOUS", "QUERY"):
            cursor.words("CONTINUOUS", "QUERY")
            kind = "query"
    return Describe(kind, _take_name(cursor, "the name of a stream or query"))


def _stop(cursor: Cursor) -> Statement:
    cursor.expect("QUERY")
    return StopQuery(_take_new_name(cursor, "the query's name"))


def _start(cursor: Cursor) -> Statement:
    cursor.expect("QUERY")
    return StartQuery(_take_new_name(cursor, "the query's name"))


def _alter(cursor: Cursor) -> Statement:
    if cursor.words("ARCHIVE"):
        return take_alter_archive(cursor)
    if cursor.words("STREAM"):
        return take_alter_stream(cursor)
    if not cursor.words("QUERY"):
        raise _unknown(cursor, "ALTER")
    name = _take_new_name(cursor, "the query's name")
    cursor.expect("REEVALUATE")
    cursor.expect("EVERY")
    every = _take_windows(cursor)
    return AlterQuery(name, every, _take_windows(cursor) if cursor.words("AT", "MOST") else 0)


def _take_windows(cursor: Cursor) -> int:
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit() or len(token.text) > 9:
        cursor.fail("expected a number of windows")
    if int(token.text) == 0:
        raise cursor.error_here("REEVALUATION_INVALID", "every 0-th window cannot be answered", hint="write 1 or more")
    return int(cursor.advance().text)


def _drop(cursor: Cursor) -> Statement:
    kind: Literal["stream", "query"]
    if cursor.words("ARCHIVE"):
        return take_drop_archive(cursor)
    if cursor.words("STREAM"):
        kind = "stream"
    elif cursor.words("QUERY") or cursor.words("CONTINUOUS", "QUERY"):
        kind = "query"
    else:
        raise cursor.error_here(
            "NOT_IN_THE_LANGUAGE",
            f"DROP {word(cursor.peek())} is not available".replace("  ", " "),
            hint="write DROP STREAM, DROP QUERY or DROP ARCHIVE",
        )
    if_exists = cursor.words("IF", "EXISTS")
    return Drop(kind, _take_new_name(cursor, f"the {kind}'s name"), if_exists)


_READERS: dict[str, Callable[[Cursor], Statement]] = {
    "INSERT": _insert,
    "SUBSCRIBE": _subscribe,
    "EXPLAIN": _explain,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "ALTER": _alter,
    "STOP": _stop,
    "START": _start,
    "DROP": _drop,
    "VACUUM": take_vacuum,
}
