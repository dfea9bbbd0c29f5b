"""What ends a query whose answer is kept: `ACCEPT UNBOUNDED`, `EXPIRE AFTER INTERVAL …`, or `KEEP GROUPS n`.

The words are names, too; they are the clause where nothing follows it but EMIT.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.tokens import error_at
from anabranch.sql.tree import Bounding

_CLAUSES = {("ACCEPT", "UNBOUNDED"), ("EXPIRE", "AFTER"), ("KEEP", "GROUPS")}
_BEFORE_A_NAME = ("SELECT", "DISTINCT", "AS", ".", "FROM", "JOIN", ",", "ORDER BY")
_VALUES = (TokenType.NUMBER, TokenType.STRING, TokenType.COMMA)


def take_bounding(tokens: list[Token], text: str) -> tuple[list[Token], Bounding | None]:
    """The tokens without the clause that says what bounds a query, and that clause."""
    found: Bounding | None = None
    depth = index = 0
    kept = list(tokens)
    while index < len(kept):
        token = kept[index]
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth or not _begins(kept, index):
            index += 1
            continue
        if found is not None:
            raise error_at(
                "SYNTAX_ERROR",
                "two clauses say what bounds the query",
                text,
                token.start,
                hint="leave one of them out",
            )
        found, end = _take(kept, index, text)
        if end < len(kept) and word(kept[end]) != "EMIT" and not _begins(kept, end):
            raise error_at(
                "SYNTAX_ERROR", f"{found.said} ends a query, and more follows", text, token.start,
                hint="put it at the end",
            )  # fmt: skip
        kept = kept[:index] + kept[end:]
    return kept, found


def _begins(tokens: list[Token], index: int) -> bool:
    """Whether the clause begins here: its words stand where no name is wanted."""
    if tokens[index].token_type in _VALUES or index == 0 or index + 1 >= len(tokens):
        return False
    here = (word(tokens[index]), word(tokens[index + 1]))
    if here not in _CLAUSES or word(tokens[index - 1]) in _BEFORE_A_NAME:
        return False
    return here[0] == "ACCEPT" or index + 2 < len(tokens)


def _take(tokens: list[Token], index: int, text: str) -> tuple[Bounding, int]:
    token = tokens[index]
    kind = word(token)
    if kind == "KEEP":
        return Bounding(None, token.start, _groups(tokens[index + 2], text)), index + 3
    if kind == "ACCEPT":
        return Bounding(None, token.start), index + 2
    cursor = Cursor(tokens, text)
    cursor.index = index + 2
    after = take_interval(cursor)
    return Bounding(after, token.start), cursor.index


def _groups(token: Token, text: str) -> int:
    if token.token_type != TokenType.NUMBER or not token.text.isdigit() or not 0 < int(token.text) < 1 << 62:
        raise error_at(
            "SYNTAX_ERROR",
            f'KEEP GROUPS takes a whole number above 0, got "{token.text}"',
            text,
            token.start,
            hint="write KEEP GROUPS 10000",
        )
    return int(token.text)
