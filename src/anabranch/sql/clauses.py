"""The clauses of a SELECT that are ours, taken out of its tokens: WINDOW, EMIT and hints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.sql.cursor import Cursor, is_name, word
from anabranch.sql.hints import read_hints
from anabranch.sql.intervals import take_interval
from anabranch.sql.safety import check_tokens
from anabranch.sql.tokens import error_at
from anabranch.sql.tree import Emit, Hint, Side, Window


@dataclass(frozen=True)
class Clauses:
    """What was taken out: the window and hints of each side of a set operation (of one, if there is none), and EMIT."""

    sides: tuple[Side, ...]
    emit: Emit | None


class _Later(NamedTuple):
    """A clause of the language that has its place here but no operator behind it."""

    words: tuple[str, ...]
    hint: str


_NAME = "<name>"
LATER_CLAUSES: tuple[_Later, ...] = (
    _Later(("MERGE", "JOIN"), "merge the streams outside, or ask once with JOIN … ON"),
    _Later(("ARCHIVE", _NAME, "BETWEEN"), "ask the stream itself and filter by its time"),
    _Later(("SINCE", "TIMESTAMP"), "filter by the stream's time: WHERE ts >= TIMESTAMP '…'"),
    _Later(("REDUCE", "BY"), "leave REDUCE BY out"),
    _Later(("EMIT", "EVERY"), "say how often with WINDOW = … SLIDE …"),
)

_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_BEFORE_AN_EXPRESSION = {
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
_BEFORE_A_NAME = _BEFORE_AN_EXPRESSION | {"FROM", "JOIN", "AS", "ORDER BY", "DISTINCT"}


def take_clauses(tokens: list[Token], text: str) -> tuple[list[Token], Clauses]:
    """The tokens that are left for Spark's parser, and our clauses."""
    check_tokens([token for token in tokens if token.token_type != TokenType.HINT], text)
    _refuse_later_clauses(tokens, text)
    tokens, emit = _take_emit(tokens, text)
    tokens = [_as_function_name(tokens, i) for i in range(len(tokens))]
    kept = list[Token]()
    windows: list[Window | None] = [None]
    hints: list[tuple[Hint, ...]] = [()]
    depth = index = 0
    while index < len(tokens):
        token = tokens[index]
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and _is_set_operation(tokens, index):
            windows.append(None)
            hints.append(())
        if token.token_type == TokenType.HINT:
            if depth > 0:
                raise error_at("HINT_NOT_POSSIBLE", "a subquery cannot have a hint", text, token.start)
            hints[-1] = read_hints(token, text)
            index += 1
        elif _is_window(tokens, index):
            _refuse_misplaced_window(token, text, depth, windows[-1])
            cursor = Cursor(tokens, text)
            cursor.index = index + 2
            windows[-1] = _take_sizes(cursor, token.start)
            index = cursor.index
        else:
            _refuse_pairwise_window(tokens, index, text)
            kept.append(token)
            index += 1
    return kept, Clauses(tuple(Side(w, h) for w, h in zip(windows, hints, strict=True)), emit)


def _refuse_later_clauses(tokens: list[Token], text: str) -> None:
    for index, token in enumerate(tokens):
        for later in LATER_CLAUSES:
            following = tokens[index : index + len(later.words)]
            if len(following) == len(later.words) and all(
                is_name(t) if wanted == _NAME else word(t) == wanted
                for t, wanted in zip(following, later.words, strict=True)
            ):
                clause = " ".join(w for w in later.words if w not in (_NAME, "TIMESTAMP", "BETWEEN"))
                raise error_at("NOT_IN_THE_LANGUAGE", f"{clause} is not available", text, token.start, hint=later.hint)


def _as_function_name(tokens: list[Token], index: int) -> Token:
    """`window(…)` and `window.start` are names, though WINDOW also begins a clause."""
    token, following = tokens[index], word(tokens[index + 1]) if index + 1 < len(tokens) else ""
    if word(token) == "WINDOW" and following in ("(", ".") and not _is_pairwise_window(tokens, index):
        return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
    return token


def _is_set_operation(tokens: list[Token], index: int) -> bool:
    """True for UNION and its kin; the EXCEPT of `* EXCEPT (a, b)` is none."""
    if word(tokens[index]) not in _SET_OPERATIONS:
        return False
    after_star = index > 0 and tokens[index - 1].token_type == TokenType.STAR
    return not (after_star and index + 1 < len(tokens) and tokens[index + 1].token_type == TokenType.L_PAREN)


# -- EMIT ------------------------------------------------------------------------------------------


def _take_emit(tokens: list[Token], text: str) -> tuple[list[Token], Emit | None]:
    """The tokens without `EMIT CHANGES` or `EMIT FINAL`, which end a query."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if not _is_emit(tokens, index):
            continue
        emit = Emit(word(tokens[index + 1]) == "CHANGES", token.start)
        if index + 2 == len(tokens):
            return tokens[:index], emit
        if depth > 0 or not is_name(tokens[index + 2]):
            continue
        raise error_at(
            "SYNTAX_ERROR",
            f"EMIT {word(tokens[index + 1])} ends a query, and more follows",
            text,
            token.start,
            hint="put it at the end",
        )
    return tokens, None


def _is_emit(tokens: list[Token], index: int) -> bool:
    """`EMIT CHANGES` is the clause unless a name of something is wanted there."""
    return (
        index > 0
        and index + 1 < len(tokens)
        and word(tokens[index]) == "EMIT"
        and word(tokens[index + 1]) in ("CHANGES", "FINAL")
        and word(tokens[index - 1]) not in _BEFORE_A_NAME
    )


# -- WINDOW ----------------------------------------------------------------------------------------


def _is_window(tokens: list[Token], index: int) -> bool:
    """`WINDOW =` is the clause; a column of that name can only be compared where an expression stands."""
    if index == 0 or index + 2 >= len(tokens) or word(tokens[index]) != "WINDOW" or word(tokens[index + 1]) != "=":
        return False
    before, after = tokens[index - 1], tokens[index + 2]
    return word(before) not in _BEFORE_AN_EXPRESSION and (
        word(after) == "INTERVAL" or after.token_type == TokenType.NUMBER or before.token_type != TokenType.DOT
    )


def _refuse_misplaced_window(token: Token, text: str, depth: int, before: Window | None) -> None:
    if depth > 0:
        raise error_at(
            "NOT_IN_THE_LANGUAGE",
            "a subquery cannot have a WINDOW",
            text,
            token.start,
            hint="make the inner query a stream with CREATE STREAM … AS SELECT …",
        )
    if before is not None:
        raise error_at("SYNTAX_ERROR", "there are two WINDOW clauses", text, token.start)


def _is_pairwise_window(tokens: list[Token], index: int) -> bool:
    here = tokens[index : index + 7]
    return (
        len(here) == 7
        and [word(here[i]) for i in (0, 1, 3, 5, 6)] == ["WINDOW", "(", ",", ")", "="]
        and is_name(here[2])
        and is_name(here[4])
        and (index == 0 or word(tokens[index - 1]) not in _BEFORE_AN_EXPRESSION - {"AND"})
    )


def _refuse_pairwise_window(tokens: list[Token], index: int, text: str) -> None:
    if _is_pairwise_window(tokens, index):
        raise error_at(
            "NOT_IN_THE_LANGUAGE",
            "a window between two streams is not available",
            text,
            tokens[index].start,
            hint="a standing query reads one stream; write WINDOW = …",
        )


def _take_sizes(cursor: Cursor, start: int) -> Window:
    unit, size = _take_size(cursor, "window")
    slide = size
    if cursor.words("SLIDE"):
        begin = cursor.index
        slide_unit, slide = _take_size(cursor, "slide")
        cursor_end = cursor.index
        cursor.index = begin
        if slide_unit != unit:
            raise cursor.error_here("WINDOW_UNITS_DIFFER", "the window and its slide must both be time or both ROWS")
        cursor.index = cursor_end
    return Window("time" if unit == "time" else "rows", size, slide, start)


def _take_size(cursor: Cursor, what: str) -> tuple[str, int]:
    if word(cursor.peek()) == "INTERVAL":
        return "time", take_interval(cursor)
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
