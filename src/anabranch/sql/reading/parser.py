"""Text into statements.

The statements that are ours are read token by token here; a SELECT inside one goes to
`query_parser`. What other systems have is told apart in `elsewhere`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import AnabranchError, SqlError, did_you_mean
from anabranch.sql.reading.archive_statements import take_alter_archive, take_alter_stream, take_vacuum
from anabranch.sql.reading.create_query import SELECTS, take_select
from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.elsewhere import refuse_statement, refused_clause
from anabranch.sql.reading.names import take_name, take_new_name
from anabranch.sql.reading.objects import SAYINGS, Sayings
from anabranch.sql.reading.table_statements import take_delete, take_merge, take_names, take_update
from anabranch.sql.reading.tokens import is_complete, statements_of
from anabranch.sql.reading.values import counted, take_rows
from anabranch.sql.statements import (
    STATEMENTS,
    AlterQuery,
    CreateQuery,
    CreateStreamAs,
    CreateView,
    Describe,
    Drop,
    Explain,
    ExplainQuery,
    InsertInto,
    MoveQuery,
    SelectOnce,
    Show,
    ShowCreate,
    StartQuery,
    Statement,
    StopQuery,
    Subscribe,
)

__all__ = ["is_complete", "parse"]

_UNREADABLE = ("SYNTAX_ERROR", "TYPE_NOT_SUPPORTED")


def parse(text: str, sayings: Sayings = SAYINGS) -> list[Statement]:
    """The statements of a text, separated by semicolons.

    `sayings` say which objects can be created, shown, described and dropped.
    """
    return [_parse_one(tokens, text, sayings) for tokens in statements_of(text)]


def _parse_one(tokens: list[Token], text: str, sayings: Sayings) -> Statement:
    cursor = Cursor(tokens, text)
    refuse_statement(cursor)
    try:
        statement = _statement(cursor, sayings)
    except SqlError as problem:
        raise (refused_clause(tokens, text) if problem.name in _UNREADABLE else None) or problem from None
    cursor.end()
    return dataclasses.replace(statement, source=cursor.source(0, len(tokens)))


def _statement(cursor: Cursor, sayings: Sayings) -> Statement:
    first = word(cursor.peek())
    if first in SELECTS:
        return SelectOnce(take_select(cursor))
    if first == "CREATE":
        return _create(cursor, sayings)
    if first in _OF_OBJECTS:
        cursor.advance()
        return _OF_OBJECTS[first](cursor, sayings)
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


def _create(cursor: Cursor, sayings: Sayings) -> Statement:
    cursor.expect("CREATE")
    for saying in sayings:
        if cursor.words(*saying.creating):
            return saying.take_create(cursor)
    raise _unknown(cursor, "CREATE")


def _insert(cursor: Cursor) -> Statement:
    upsert = cursor.words("OR", "REPLACE")
    return _insert_into(cursor, upsert=upsert)


def _upsert(cursor: Cursor) -> Statement:
    return _insert_into(cursor, upsert=True)


def _insert_into(cursor: Cursor, *, upsert: bool) -> Statement:
    cursor.expect("INTO")
    for kind in ("STREAM", "TABLE"):
        if cursor.next_is(kind) and not cursor.next_is(kind, "VALUES") and not cursor.next_is(kind, "("):
            cursor.advance()
            break
    stream = take_new_name(cursor, "the name of a stream or table")
    is_select = cursor.next_is("(", "SELECT") or cursor.next_is("(", "WITH")
    columns = take_names(cursor) if cursor.next_is("(") and not is_select else None
    if word(cursor.peek()) in SELECTS:
        return InsertInto(stream, columns, [], take_select(cursor), upsert)
    cursor.expect("VALUES")
    begin = cursor.index
    rows = take_rows(cursor)
    if columns is not None and len(columns) != len(rows[0]):
        cursor.index = begin
        raise cursor.error_here(
            "VALUES_MISMATCH", f"{counted(len(columns), 'column')} for {counted(len(rows[0]), 'value')}"
        )
    return InsertInto(stream, columns, rows, upsert=upsert)


def _subscribe(cursor: Cursor) -> Statement:
    cursor.expect("TO")
    name = take_name(cursor, "a query's name")
    if not cursor.words("FROM"):
        return Subscribe(name)
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit() or len(token.text) > 18:
        cursor.fail("expected the number of the first answer")
    return Subscribe(name, int(cursor.advance().text))


def _explain(cursor: Cursor, sayings: Sayings) -> Statement:
    form: Literal["text", "json"] = "text"
    if cursor.words("FORMAT"):
        if cursor.words("JSON"):
            form = "json"
        elif not cursor.words("TEXT"):
            cursor.fail("expected JSON or TEXT")
    if cursor.words("QUERY"):
        return Explain(ExplainQuery(take_name(cursor, "a query's name")), form)
    begin = cursor.index
    if word(cursor.peek()) in (*SELECTS, "CREATE"):
        inner = _statement(cursor, sayings)
        if isinstance(inner, SelectOnce | CreateQuery | CreateStreamAs | CreateView):
            return Explain(dataclasses.replace(inner, source=cursor.source(begin, cursor.index)), form)
        cursor.index = begin
    cursor.fail("expected SELECT …, CREATE CONTINUOUS QUERY … or QUERY name")


def _pattern(cursor: Cursor) -> str:
    token = cursor.peek()
    if token is None or token.token_type != TokenType.STRING:
        cursor.fail("expected a pattern in quotes, such as 'a%'")
    return cursor.advance().text


def _number(cursor: Cursor) -> int:
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit():
        cursor.fail("expected a whole number")
    return int(cursor.advance().text)


def _show(cursor: Cursor, sayings: Sayings) -> Statement:
    if cursor.words("CREATE"):
        saying = next((saying for saying in sayings if saying.shows_create and saying.take_word(cursor)), None)
        if saying is None:
            cursor.fail("expected TABLE or VIEW")
        return ShowCreate(saying.kind, saying.named(cursor)[0])
    for saying in sayings:
        if cursor.words(saying.plural):
            like = _pattern(cursor) if cursor.words("LIKE") else None
            limit = _number(cursor) if cursor.words("LIMIT") else None
            offset = _number(cursor) if limit is not None and cursor.words("OFFSET") else 0
            return Show(saying.kind, like, limit, offset)
    raise _unknown(cursor, "SHOW")


def _describe(cursor: Cursor, sayings: Sayings) -> Statement:
    if cursor.peek(1) is not None and not cursor.next_is(word(cursor.peek()), "."):
        for saying in sayings:
            if saying.take_word(cursor):
                return Describe(saying.kind, *saying.named(cursor))
    return Describe(None, take_name(cursor, "the name of a stream or query"))


def _stop(cursor: Cursor) -> Statement:
    cursor.expect("QUERY")
    return StopQuery(take_name(cursor, "the query's name"))


def _start(cursor: Cursor) -> Statement:
    cursor.expect("QUERY")
    return StartQuery(take_name(cursor, "the query's name"))


def _alter(cursor: Cursor) -> Statement:
    if cursor.words("ARCHIVE"):
        return take_alter_archive(cursor)
    if cursor.words("STREAM"):
        return take_alter_stream(cursor)
    if not cursor.words("QUERY"):
        raise _unknown(cursor, "ALTER")
    name = take_new_name(cursor, "the query's name")
    if cursor.words("ALONE"):
        return MoveQuery(name, None)
    if cursor.words("ON", "HOST"):
        return MoveQuery(name, take_new_name(cursor, "the host's name"))
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


def _drop(cursor: Cursor, sayings: Sayings) -> Statement:
    for saying in sayings:
        if saying.take_word(cursor):
            if_exists = cursor.words("IF", "EXISTS")
            name, on = saying.named(cursor)
            cascade = cursor.words("CASCADE")
            if not cascade:
                cursor.words("RESTRICT")
            return Drop(saying.kind, name, if_exists, on, cascade)
    *most, last = [f"DROP {' '.join(saying.words[0])}" for saying in sayings]
    raise cursor.error_here(
        "NOT_IN_THE_LANGUAGE",
        f"DROP {word(cursor.peek())} is not available".replace("  ", " "),
        hint=f"write {', '.join(most)} or {last}",
    )


_OF_OBJECTS: dict[str, Callable[[Cursor, Sayings], Statement]] = {
    "EXPLAIN": _explain,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "DROP": _drop,
}
_READERS: dict[str, Callable[[Cursor], Statement]] = {
    "INSERT": _insert,
    "UPSERT": _upsert,
    "UPDATE": take_update,
    "DELETE": take_delete,
    "MERGE": take_merge,
    "SUBSCRIBE": _subscribe,
    "ALTER": _alter,
    "STOP": _stop,
    "START": _start,
    "VACUUM": take_vacuum,
}
