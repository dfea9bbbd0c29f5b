"""How exact an answer has to be, or how soon it is wanted: the last clause of a query.

`WITH ERROR 2 PERCENT CONFIDENCE 95 PERCENT`, `WITHIN 500 MILLISECONDS`, `WITH CONFIDENCE 99 PERCENT`.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import SqlError
from anabranch.sql.archive_tree import CONFIDENCE, Accuracy
from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.intervals import LONGEST_US, unit_us
from anabranch.sql.reading.tokens import error_at


def take_accuracy(tokens: list[Token], text: str) -> tuple[list[Token], Accuracy | None]:
    """The tokens without the clause, which ends a query; only EMIT may follow it."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if not _is_accuracy(tokens, index):
            continue
        cursor = Cursor(tokens, text)
        cursor.index = index
        accuracy = _take(cursor)
        if depth > 0:
            raise error_at(
                "NOT_IN_THE_LANGUAGE",
                f"a subquery cannot have {accuracy.said}",
                text,
                token.start,
                hint="put it at the end of the whole query",
            )
        if cursor.peek() is not None and not cursor.next_is("EMIT"):
            raise error_at(
                "SYNTAX_ERROR",
                f"{accuracy.said} ends a query, and more follows",
                text,
                token.start,
                hint="put it at the end, once",
            )
        return [*tokens[:index], *tokens[cursor.index :]], accuracy
    return tokens, None


def _is_accuracy(tokens: list[Token], index: int) -> bool:
    """A name cannot have a number behind it, nor can a WITH of Spark."""
    if index == 0 or word(tokens[index]) not in ("WITH", "WITHIN"):
        return False
    words = [word(token) for token in tokens[index : index + 3]]
    count = next((at for at, token in enumerate(tokens[index : index + 3]) if _is_number(token)), None)
    if words[0] == "WITH":
        return words[1:2] in (["ERROR"], ["CONFIDENCE"]) and count == 2
    return words[0] == "WITHIN" and count == 1


def _is_number(token: Token) -> bool:
    return token.token_type == TokenType.NUMBER


def _take(cursor: Cursor) -> Accuracy:
    start = cursor.tokens[cursor.index].start
    if cursor.words("WITHIN"):
        within = _take_length(cursor)
        return Accuracy(None, within, _take_confidence(cursor), start)
    cursor.expect("WITH")
    if cursor.words("ERROR"):
        error = _take_percent(cursor, "an error", "WITH ERROR 2 PERCENT")
        return Accuracy(error, None, _take_confidence(cursor), start)
    return Accuracy(None, None, _take_confidence(cursor), start)


def _take_confidence(cursor: Cursor) -> float:
    if not cursor.words("CONFIDENCE"):
        return CONFIDENCE
    return _take_percent(cursor, "a confidence", "CONFIDENCE 95 PERCENT") / 100


def _take_percent(cursor: Cursor, what: str, example: str) -> float:
    token = cursor.peek()
    number = _number(token)
    if token is None or number is None:
        cursor.fail("expected a number", hint=f"write {example}")
    if not 0 < number < 100:
        raise cursor.error_here(
            "SYNTAX_ERROR",
            f"{what} is above 0 and below 100 PERCENT, got {token.text}",
            hint=f"write for example {example}",
        )
    cursor.advance()
    if not cursor.words("PERCENT"):
        cursor.fail("expected PERCENT", hint=f"write for example {example}")
    return number


def _take_length(cursor: Cursor) -> int:
    """`500 MILLISECONDS`, in microseconds."""
    begin, token, unit = cursor.index, cursor.peek(), cursor.peek(1)
    number = _number(token)
    if token is None or number is None or unit is None or not word(unit):
        cursor.index += 1
        cursor.fail("expected a unit of time", hint="write for example WITHIN 500 MILLISECONDS")
    cursor.advance()
    try:
        length = number * unit_us(unit.text)
    except SqlError as problem:
        raise cursor.error_here(problem.name, problem.message, hint=problem.hint) from None
    if not 1 <= length <= LONGEST_US:
        cursor.index = begin
        raise cursor.error_here(
            "INTERVAL_OUT_OF_RANGE",
            f"nothing can be read within {token.text} {unit.text}",
            hint="use a microsecond or more",
        )
    cursor.advance()
    return int(length)


def _number(token: Token | None) -> float | None:
    try:
        return float(token.text) if token is not None and _is_number(token) else None
    except ValueError:
        return None
