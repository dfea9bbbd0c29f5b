"""CREATE CONTINUOUS QUERY, and the SELECT inside statements."""

from __future__ import annotations

from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.names import take_new_name
from anabranch.sql.reading.query_parser import parse_select
from anabranch.sql.statements import CreateQuery, CreateView, Statement
from anabranch.sql.tree import Select

SELECTS = ("SELECT", "WITH", "(")
"""How a SELECT begins."""


def take_select(cursor: Cursor) -> Select:
    """A SELECT, to the end of the statement."""
    if word(cursor.peek()) not in SELECTS:
        cursor.fail("expected SELECT")
    return parse_select(cursor.rest(), cursor.text)


def take_create_query(cursor: Cursor) -> Statement:
    """What follows CREATE CONTINUOUS QUERY."""
    if_not_exists = cursor.words("IF", "NOT", "EXISTS")
    name = take_new_name(cursor, "the query's name")
    retain_us = take_retain(cursor)
    host = take_new_name(cursor, "the host's name") if cursor.words("ON", "HOST") else None
    alone = host is None and cursor.words("ALONE")
    retain_us = take_retain(cursor) if retain_us is None else retain_us
    cursor.expect("AS")
    return CreateQuery(name, take_select(cursor), if_not_exists, host, alone, retain_us)


def take_create_view(cursor: Cursor) -> Statement:
    """What follows CREATE MATERIALIZED VIEW."""
    if_not_exists = cursor.words("IF", "NOT", "EXISTS")
    name = take_new_name(cursor, "the view's name")
    retain_us = take_retain(cursor)
    cursor.expect("AS")
    return CreateView(name, take_select(cursor), if_not_exists, retain_us)


def take_retain(cursor: Cursor) -> int | None:
    """For how long answers are kept, if that is said."""
    return take_interval(cursor) if cursor.words("RETAIN") else None
