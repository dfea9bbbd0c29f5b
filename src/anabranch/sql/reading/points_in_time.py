"""Points in time: `TIMESTAMP '…'`, `DATE '…'`, and the current time with intervals added or taken away."""

from __future__ import annotations

import datetime as dt

from sqlglot.tokenizer_core import TokenType

from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.values import take_value

CLOCKS = ("CURRENT_TIMESTAMP", "NOW")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EXAMPLE = "write for example TIMESTAMP '2026-11-16 16:00:00'"


def is_literal(cursor: Cursor, ahead: int = 0) -> bool:
    """True if a TIMESTAMP or DATE with its text comes next."""
    text = cursor.peek(ahead + 1)
    return (
        word(cursor.peek(ahead)) in ("TIMESTAMP", "DATE")
        and text is not None
        and text.token_type in (TokenType.STRING, TokenType.RAW_STRING)
    )


def is_clock(cursor: Cursor, ahead: int = 0) -> bool:
    """True if a call of the current time comes next."""
    return word(cursor.peek(ahead)) in CLOCKS and word(cursor.peek(ahead + 1)) in ("(", "-", "+")


def take_literal(cursor: Cursor) -> int:
    """A TIMESTAMP or DATE, in microseconds since 1970."""
    if not is_literal(cursor):
        cursor.fail("expected TIMESTAMP '…'", hint=_EXAMPLE)
    return _microseconds(take_value(cursor))


def take_moment(cursor: Cursor) -> int:
    """A point in time, in microseconds since 1970; the current time is that of reading."""
    if not is_literal(cursor) and word(cursor.peek()) not in CLOCKS:
        cursor.fail("expected a point in time", hint=f"{_EXAMPLE}, or current_timestamp() - INTERVAL 1 DAY")
    time = _microseconds(take_value(cursor))
    while word(cursor.peek()) in ("+", "-") and word(cursor.peek(1)) == "INTERVAL":
        sign = -1 if cursor.words("-") else 1
        cursor.index += sign > 0
        time += sign * take_interval(cursor)
    return time


def _microseconds(value: dt.datetime | dt.date) -> int:
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    return (value - _EPOCH) // dt.timedelta(microseconds=1)


def shown(time: int) -> str:
    """A point in time as people write it.

    >>> shown(1_794_844_800_000_000)
    "TIMESTAMP '2026-11-16 16:00:00'"
    """
    try:
        at = (_EPOCH + dt.timedelta(microseconds=time)).replace(tzinfo=None)
    except OverflowError:
        return "before all times" if time < 0 else "after all times"
    return f"TIMESTAMP '{at.isoformat(' ')}'"
