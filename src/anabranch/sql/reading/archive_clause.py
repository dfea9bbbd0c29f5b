"""`ARCHIVE [name ON] stream [BETWEEN … | LAST …] [REDUCE BY …]` where a table stands, and SINCE behind a stream.

All these words may also be names: they are the clause only where nothing else could be meant.
"""

from __future__ import annotations

from typing import Literal

from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.sql.archive_tree import ArchiveTable, Portions, Since
from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.merge_clause import is_merge
from anabranch.sql.reading.points_in_time import is_clock, is_literal, take_literal, take_moment
from anabranch.sql.reading.reduce_by import is_reducing, take_reducing
from anabranch.sql.reading.tokens import error_at

MOST_PORTIONS = 10_000
"""The most portions of history one row is looked for in."""

_CLAUSE_WORDS = {"SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY",
                 "LIMIT", "OFFSET", "QUALIFY", "LATERAL", "VALUES"}  # fmt: skip
_ENDS_A_JOIN = _CLAUSE_WORDS | {"JOIN", "UNION", "INTERSECT", "EXCEPT", "MINUS", "WINDOW", "WITH"}
_PORTIONS = "write LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 30 MINUTES"


def table_places(tokens: list[Token]) -> frozenset[int]:
    """Where a table's name stands: behind FROM, JOIN, the commas of FROM, and parentheses that open there."""
    places: set[int] = set()
    clauses = [""]
    for index, token in enumerate(tokens):
        here = word(token)
        if token.token_type == TokenType.L_PAREN:
            clauses.append("FROM" if index in places else "")
            if index in places:
                places.add(index + 1)
        elif token.token_type == TokenType.R_PAREN and len(clauses) > 1:
            clauses.pop()
        elif here == "FROM" and index > 0 and word(tokens[index - 1]) == "DISTINCT":
            continue  # IS DISTINCT FROM
        elif here in _CLAUSE_WORDS:
            clauses[-1] = here
        if here in ("FROM", "JOIN") or (here == "," and clauses[-1] == "FROM"):
            places.add(index + 1)
    return frozenset(places)


# -- ARCHIVE ---------------------------------------------------------------------------------------


def is_archive(tokens: list[Token], index: int, places: frozenset[int]) -> bool:
    """`ARCHIVE` is the clause where a table stands and a name follows; else it is a stream of that name."""
    return index in places and word(tokens[index]) == "ARCHIVE" and _is_plain_name(tokens, index + 1)


def _is_plain_name(tokens: list[Token], index: int) -> bool:
    """True for a name that does not begin a clause."""
    if index >= len(tokens) or (
        tokens[index].token_type != TokenType.IDENTIFIER
        and tokens[index].token_type not in SparkParser.TABLE_ALIAS_TOKENS
    ):
        return False
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    counted = following is not None and following.token_type == TokenType.NUMBER
    return not (
        is_since(tokens, index)
        or is_reducing(tokens, index)
        or is_merge(tokens, index)
        or (word(tokens[index]) == "LAST" and (counted or word(following) == "INTERVAL"))
        or (word(tokens[index]) == "WITHIN" and word(following) == "INTERVAL")
    )


def take_archive(cursor: Cursor) -> tuple[list[Token], ArchiveTable]:
    """The tokens that name the stream and its alias, and the clause, where the cursor stands on ARCHIVE."""
    start = cursor.advance().start
    name = None
    if _has_name(cursor):
        name = cursor.name("the archive's name")
        cursor.expect("ON")
    kept = [cursor.advance()]
    if cursor.next_is("AS"):
        kept += [cursor.advance(), cursor.advance()]
    elif _is_plain_name(cursor.tokens, cursor.index):
        kept.append(cursor.advance())
    archive = ArchiveTable(name=name, start=start, table=kept[0].start)
    return kept, _take_parts(cursor, archive)


def _has_name(cursor: Cursor) -> bool:
    """`daily ON cars`; behind JOIN an ON may also be that of the join, and then there is no second one."""
    if not (word(cursor.peek(1)) == "ON" and _is_plain_name(cursor.tokens, cursor.index + 2)):
        return False
    if cursor.index < 2 or word(cursor.tokens[cursor.index - 2]) != "JOIN":
        return True
    depth = 0
    for token in cursor.tokens[cursor.index + 2 :]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth < 0 or (depth == 0 and (word(token) in _ENDS_A_JOIN or word(token) == ",")):
            return False
        if depth == 0 and word(token) in ("ON", "USING"):
            return True
    return False


def _take_parts(cursor: Cursor, archive: ArchiveTable) -> ArchiveTable:
    """BETWEEN, LAST and REDUCE BY, in any order, each once."""
    since, until, portions, reducing = archive.since, archive.until, archive.portions, archive.reducing
    seen: set[str] = set()
    while (token := cursor.peek()) is not None:
        begins = word(token)
        if begins in ("BETWEEN", "LAST") or is_reducing(cursor.tokens, cursor.index):
            if begins in seen:
                said = "REDUCE BY" if begins == "REDUCE" else begins
                raise cursor.error_here("SYNTAX_ERROR", f"{said} comes twice")
            if seen & {"BETWEEN", "LAST"} and begins != "REDUCE":
                raise cursor.error_here("SYNTAX_ERROR", "BETWEEN and LAST both say what is read of the archive")
            seen.add(begins)
        if begins == "BETWEEN":
            since, until = _take_between(cursor)
        elif begins == "LAST":
            portions = _take_portions(cursor)
        elif begins == "REDUCE" and begins in seen:
            reducing = take_reducing(cursor)
        elif is_since(cursor.tokens, cursor.index):
            raise cursor.error_here(
                "SYNTAX_ERROR",
                "an archive is read BETWEEN two points in time",
                hint="write BETWEEN … AND …, or leave ARCHIVE out to go on live",
            )
        else:
            break
    return ArchiveTable(archive.name, since, until, portions, reducing, archive.start, archive.table)


def _take_between(cursor: Cursor) -> tuple[int, int]:
    """Both ends are included, so the second one is a microsecond further."""
    cursor.expect("BETWEEN")
    begin = cursor.index
    since = take_moment(cursor)
    cursor.expect("AND")
    until = take_moment(cursor)
    if until < since:
        cursor.index = begin
        raise cursor.error_here(
            "ARCHIVE_RANGE_INVALID", "the range ends before it begins", hint="write the earlier time first"
        )
    return since, until + 1


def _take_portions(cursor: Cursor) -> Portions:
    start = cursor.advance().start
    token = cursor.peek()
    digits = token.text if token is not None and token.token_type == TokenType.NUMBER else ""
    if not digits.isdecimal() or len(digits) > 5 or not 1 <= int(digits) <= MOST_PORTIONS:
        cursor.fail(f"expected a whole number from 1 to {MOST_PORTIONS}", hint=_PORTIONS)
    cursor.advance()
    period = take_interval(cursor)
    if not cursor.words("WITHIN"):
        cursor.fail("expected WITHIN", hint=_PORTIONS)
    begin = cursor.index
    within = take_interval(cursor, least=0)
    if within >= period:
        cursor.index = begin
        raise cursor.error_here(
            "ARCHIVE_RANGE_INVALID",
            "the portions of history would reach to the live row itself",
            hint="use less than the interval between them",
        )
    match: Literal["each", "any"] = "each"
    if cursor.words("IN", "ANY"):
        match = "any"
    elif cursor.next_is("IN"):
        cursor.advance()
        if not cursor.words("EACH"):
            cursor.fail("expected EACH or ANY")
    return Portions(int(digits), period, within, match, start)


# -- SINCE -----------------------------------------------------------------------------------------


def is_since(tokens: list[Token], index: int) -> bool:
    """`SINCE TIMESTAMP '…'`: a column or stream of that name has no point in time behind it."""
    if index == 0 or word(tokens[index]) != "SINCE":
        return False
    cursor = Cursor(tokens, "")
    cursor.index = index + 1
    return is_literal(cursor) or is_clock(cursor)


def take_since(cursor: Cursor) -> Since:
    """`SINCE … [UNTIL …] [REDUCE BY …]`, where the cursor stands on SINCE."""
    _check_place(cursor)
    start = cursor.advance().start
    since = _take_fixed(cursor)
    until = None
    if cursor.words("UNTIL"):
        begin = cursor.index
        until = _take_fixed(cursor)
        if until <= since:
            raise error_at(
                "ARCHIVE_RANGE_INVALID",
                "UNTIL must be later than SINCE",
                cursor.text,
                cursor.tokens[begin].start,
                hint="write the earlier time behind SINCE",
            )
    reducing = take_reducing(cursor) if is_reducing(cursor.tokens, cursor.index) else None
    return Since(since, until, reducing, start)


def _check_place(cursor: Cursor) -> None:
    """It belongs to a stream, so it stands in FROM."""
    before = [word(token) for token in cursor.tokens[: cursor.index]]
    if next((written for written in reversed(before) if written in _CLAUSE_WORDS), "") != "FROM":
        raise cursor.error_here(
            "SYNTAX_ERROR", "SINCE stands behind a stream", hint="write FROM … SINCE TIMESTAMP '…', before WHERE"
        )


def _take_fixed(cursor: Cursor) -> int:
    if is_clock(cursor):
        raise cursor.error_here(
            "FUNCTION_NOT_REPEATABLE",
            "SINCE and UNTIL take fixed points in time: a query that is started again must mean the same",
            hint="write TIMESTAMP '…'",
        )
    return take_literal(cursor)


def refuse_reducing(cursor: Cursor) -> Exception:
    """For a REDUCE BY behind a stream that nobody asks for its history."""
    return cursor.error_here(
        "ARCHIVE_WANTED",
        "REDUCE BY says how much of the past is read, and live rows are never left out",
        hint="write FROM ARCHIVE … REDUCE BY …, or FROM … SINCE TIMESTAMP '…' REDUCE BY …",
    )
