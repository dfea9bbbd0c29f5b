"""The WINDOW clause, token by token.

`WINDOW = INTERVAL 1 HOUR SLIDE INTERVAL 1 MINUTE` is the window of one stream, and without SLIDE of
every pair of streams in a join. `WINDOW(a, b) = INTERVAL 1 HOUR` is that of one pair, and
`WINDOW(a, b) = BETWEEN - INTERVAL 5 SECONDS AND INTERVAL 1 MINUTE` says it with both ends.

`WINDOW = SESSION INTERVAL 10 MINUTES` ends with a pause, `WINDOW = 10 ROWS PER k` are the last rows of each key.
"""

from __future__ import annotations

from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.sql.reading.cursor import Cursor, is_name, word
from anabranch.sql.reading.intervals import LONGEST_US, take_interval
from anabranch.sql.reading.tokens import error_at
from anabranch.sql.tree import Pair, Window

Unit = Literal["time", "rows"]

BEFORE_AN_EXPRESSION = {
    "AND",
    "OR",
    "NOT",
    "WHERE",
    "HAVING",
    "ON",
    "SELECT",
    ",",
    "(",
    ".",
    "WHEN",
    "THEN",
    "ELSE",
    "GROUP BY",
}
"""After these words `WINDOW` is a name."""


def is_window(tokens: list[Token], index: int) -> bool:
    """`WINDOW =` is the clause; a column of that name can only be compared where an expression stands."""
    if index == 0 or index + 2 >= len(tokens) or word(tokens[index]) != "WINDOW" or word(tokens[index + 1]) != "=":
        return False
    before, after = tokens[index - 1], tokens[index + 2]
    return word(before) not in BEFORE_AN_EXPRESSION and (
        word(after) == "INTERVAL" or after.token_type == TokenType.NUMBER or before.token_type != TokenType.DOT
    )


def is_pairwise(tokens: list[Token], index: int) -> bool:
    """`WINDOW(a, b) =` is the clause where no expression stands, and after AND."""
    here = tokens[index : index + 7]
    return (
        len(here) == 7
        and [word(here[i]) for i in (0, 1, 3, 5, 6)] == ["WINDOW", "(", ",", ")", "="]
        and is_name(here[2])
        and is_name(here[4])
        and (index == 0 or word(tokens[index - 1]) not in BEFORE_AN_EXPRESSION - {"AND"})
    )


def take_window(cursor: Cursor) -> Window:
    """`WINDOW = size SLIDE slide` and its like, where the cursor stands on WINDOW."""
    start = cursor.advance().start
    cursor.expect("=")
    if cursor.words("SESSION"):
        return _take_session(cursor, start)
    unit, size = _take_size(cursor, "window", least=0)
    if cursor.next_is("PER"):
        return _take_per(cursor, unit, size, start)
    slide, slide_start = size, None
    if cursor.next_is("SLIDE"):
        slide_start = cursor.advance().start
        begin = cursor.index
        slide_unit, slide = _take_size(cursor, "slide", least=1)
        if slide_unit != unit:
            cursor.index = begin
            raise cursor.error_here("WINDOW_UNITS_DIFFER", "the window and its slide must both be time or both ROWS")
    if cursor.next_is("AND") and is_pairwise(cursor.tokens, cursor.index + 1):
        cursor.advance()
        raise cursor.error_here(
            "SYNTAX_ERROR", "WINDOW = … is for every pair already", hint="give each pair its own WINDOW(a, b) = …"
        )
    return Window(unit, size, slide, start, slide_start)


def _take_session(cursor: Cursor, start: int) -> Window:
    """`SESSION INTERVAL 10 MINUTES`, where the cursor stands on INTERVAL."""
    if not cursor.next_is("INTERVAL"):
        cursor.fail("expected the pause that ends a session", hint="write WINDOW = SESSION INTERVAL 10 MINUTES")
    gap = take_interval(cursor)
    if cursor.next_is("SLIDE"):
        raise cursor.error_here("NOT_IN_THE_LANGUAGE", "a session has no SLIDE", hint="leave it out: a pause ends it")
    return Window("time", gap, gap, start, kind="session")


def _take_per(cursor: Cursor, unit: Unit, size: int, start: int) -> Window:
    """`10 ROWS PER k`, where the cursor stands on PER."""
    if unit == "time":
        raise cursor.error_here(
            "NOT_IN_THE_LANGUAGE",
            "PER is for windows of ROWS",
            hint="leave it out, and write GROUP BY: time is the same for all groups",
        )
    cursor.advance()
    keys = [cursor.name("a column")]
    while cursor.words(","):
        keys.append(cursor.name("a column"))
    if cursor.next_is("SLIDE"):
        raise cursor.error_here(
            "NOT_IN_THE_LANGUAGE", "a window PER key goes on with every row of the key", hint="leave SLIDE out"
        )
    return Window("rows", size, 1, start, kind="last rows", per=tuple(keys))


def take_pairs(cursor: Cursor) -> tuple[Pair, ...]:
    """`WINDOW(a, b) = … AND WINDOW(b, c) = …`, where the cursor stands on the first WINDOW."""
    if word(cursor.peek(-1) if cursor.index else None) == "AND":
        raise cursor.error_here(
            "SYNTAX_ERROR", "WINDOW(…) is no condition", hint="write it after FROM, and WHERE behind it"
        )
    pairs = [_take_pair(cursor)]
    while cursor.words("AND"):
        if not is_pairwise(cursor.tokens, cursor.index):
            cursor.fail("expected WINDOW(a, b) = …", hint="conditions stand in WHERE, behind the windows")
        pairs.append(_take_pair(cursor))
    return tuple(pairs)


def _take_pair(cursor: Cursor) -> Pair:
    start = cursor.advance().start
    cursor.expect("(")
    first = cursor.name("a stream's name")
    cursor.expect(",")
    second = cursor.name("a stream's name")
    cursor.expect(")", "=")
    begin = cursor.index
    if not cursor.words("BETWEEN"):
        unit, size = _take_size(cursor, "window", least=0)
        if cursor.next_is("SLIDE"):
            raise refuse_slide(cursor.text, cursor.advance().start)
        return Pair(first, second, unit, -size if unit == "time" else size, size, start)
    low = _take_end(cursor)
    cursor.expect("AND")
    high = _take_end(cursor)
    if low > high:
        cursor.index = begin
        raise cursor.error_here(
            "WINDOW_PAIR_INVALID",
            "the window ends before it begins",
            hint=f"write the earlier end first; both are the time of {second} minus that of {first}",
        )
    return Pair(first, second, "time", low, high, start)


def refuse_slide(text: str, start: int) -> Exception:
    return error_at(
        "NOT_IN_THE_LANGUAGE",
        "a join has no SLIDE",
        text,
        start,
        hint="leave it out: each result comes once; aggregates say how often with EMIT EVERY INTERVAL …",
    )


def _take_end(cursor: Cursor) -> int:
    """One end of BETWEEN: `INTERVAL 1 MINUTE`, `- INTERVAL 1 MINUTE`, `INTERVAL -1 MINUTE` or `0`."""
    sign = -1 if cursor.words("-") else 1
    if cursor.next_is("INTERVAL"):
        return sign * take_interval(cursor, least=-LONGEST_US)
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER or token.text.strip("0"):
        cursor.fail("expected INTERVAL or 0", hint="write BETWEEN - INTERVAL 5 SECONDS AND INTERVAL 1 MINUTE")
    cursor.advance()
    return 0


def _take_size(cursor: Cursor, what: str, *, least: int) -> tuple[Unit, int]:
    """A length of time of at least `least`, or a number of rows."""
    if word(cursor.peek()) == "INTERVAL":
        return "time", take_interval(cursor, least=least)
    begin = cursor.index
    sign = "-" if cursor.words("-") else ""
    token = cursor.peek()
    if token is not None and token.token_type == TokenType.NUMBER:
        count = sign + cursor.advance().text
        if not (cursor.words("ROWS") or cursor.words("ROW")):
            cursor.fail("expected ROWS", hint="write WINDOW = 1000 ROWS, or WINDOW = INTERVAL 10 SECONDS")
        if not count.isdigit() or not 0 < int(count) < 2**53:
            cursor.index = begin
            raise cursor.error_here(
                "SYNTAX_ERROR", f"a {what} of {count} rows cannot be", hint="use a whole number from 1"
            )
        return "rows", int(count)
    cursor.index = begin
    cursor.fail(f"expected the {what}'s size", hint="write WINDOW = INTERVAL 1 MINUTE or WINDOW = 1000 ROWS")
