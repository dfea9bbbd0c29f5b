"""The statements about archives, token by token.

An archive is named with its stream, `daily ON cars`; the name can be left out, and so can ON then: `ON cars` and
`cars` both mean the archive of cars.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlglot.tokenizer_core import TokenType

from anabranch.log.stream import rejects_name
from anabranch.sql.reading.create_stream import take_options, take_type
from anabranch.sql.reading.cursor import Cursor
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.statements import (
    AddColumn,
    AlterArchive,
    CreateArchive,
    Statement,
    VacuumArchive,
)

_LAYOUT = "write for example USING randomize_then_sort"


def take_create_archive(cursor: Cursor) -> Statement:
    """What follows CREATE ARCHIVE."""
    if_not_exists = cursor.words("IF", "NOT", "EXISTS")
    name = None if cursor.next_is("ON") else cursor.name("the archive's name, or ON")
    cursor.expect("ON")
    stream = cursor.name("the stream's name")
    if cursor.next_is("."):
        hint = f"make them a stream: CREATE STREAM … AS SELECT * FROM {rejects_name(stream)}"
        raise cursor.error_here("NOT_IN_THE_LANGUAGE", "an archive is of a stream, not of its rejects", hint=hint)
    if not cursor.words("USING"):
        cursor.fail("expected USING", hint=_LAYOUT)
    archive = CreateArchive(stream, name, cursor.name("a layout").lower(), if_not_exists=if_not_exists)
    return _take_clauses(cursor, archive)


def _take_clauses(cursor: Cursor, archive: CreateArchive) -> CreateArchive:
    """The clauses behind the layout, in any order, each once."""
    seen: set[str] = set()
    while (token := cursor.peek()) is not None:
        clause = token.text.upper()
        if clause in seen:
            raise cursor.error_here("SYNTAX_ERROR", f"{clause} comes twice")
        seen.add(clause)
        if cursor.words("BY"):
            fields: dict[str, Any] = {"by": cursor.name("a column's name")}
        elif cursor.words("EVERY"):
            every = take_interval(cursor)
            fields = {"every_us": every, "group_by": _take_names(cursor) if cursor.words("GROUP BY") else ()}
        elif cursor.words("KEEP"):
            fields = {"keep_us": take_interval(cursor)}
        elif cursor.words("OPTIONS"):
            fields = {"options": take_options(cursor)}
        elif cursor.next_is("GROUP BY"):
            cursor.fail("expected EVERY INTERVAL … before GROUP BY")
        else:
            cursor.fail("expected BY, EVERY, KEEP or OPTIONS")
        archive = dataclasses.replace(archive, **fields)
    return archive


def _take_names(cursor: Cursor) -> tuple[str, ...]:
    names = [cursor.name("a column's name")]
    while cursor.words(","):
        begin = cursor.index
        names.append(cursor.name("a column's name"))
        if names[-1].lower() in (name.lower() for name in names[:-1]):
            cursor.index = begin
            raise cursor.error_here("COLUMN_EXISTS", f'column "{names[-1]}" comes twice')
    return tuple(names)


def take_alter_archive(cursor: Cursor) -> Statement:
    """What follows ALTER ARCHIVE."""
    name, stream = take_archive(cursor)
    if cursor.words("ADD", "LEVEL"):
        return AlterArchive(stream, name, add_level=_take_level(cursor))
    if cursor.words("DROP", "LEVEL"):
        return AlterArchive(stream, name, drop_level=_take_level(cursor))
    if cursor.words("KEEP"):
        return AlterArchive(stream, name, keep_us=take_interval(cursor))
    cursor.fail("expected ADD LEVEL, DROP LEVEL or KEEP")


def _take_level(cursor: Cursor) -> int:
    token = cursor.peek()
    digits = token.text if token is not None and token.token_type == TokenType.NUMBER else ""
    if token is None or not digits.isdecimal() or len(digits) > 2 or not int(digits):
        cursor.fail("expected a whole number from 1 to 99", hint="it is how much is left out: ADD LEVEL 80 PERCENT")
    cursor.advance()
    cursor.expect("PERCENT")
    return int(token.text)


def take_vacuum(cursor: Cursor) -> Statement:
    """What follows VACUUM."""
    cursor.expect("ARCHIVE")
    name, stream = take_archive(cursor)
    return VacuumArchive(stream, name, take_interval(cursor, least=0) if cursor.words("RETAIN") else None)


def take_alter_stream(cursor: Cursor) -> Statement:
    """What follows ALTER STREAM."""
    stream = cursor.name("the stream's name")
    cursor.expect("ADD", "COLUMN")
    return AddColumn(stream, cursor.name("the column's name"), take_type(cursor))


def take_archive(cursor: Cursor) -> tuple[str | None, str]:
    """`[name] ON stream`, or the stream alone: the archive's name if it is said, and the stream."""
    if cursor.words("ON"):
        return None, cursor.name("the stream's name")
    first = cursor.name("the name of an archive or stream")
    return (first, cursor.name("the stream's name")) if cursor.words("ON") else (None, first)
