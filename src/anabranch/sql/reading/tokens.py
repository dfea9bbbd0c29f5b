"""Text into tokens, with places the user can find again.

sqlglot's Spark tokenizer does the cutting. What is added: every token keeps its place in the whole
text the user gave, adjoining quotes mean a quote (`'it''s'`) as in Spark, and whatever cannot be cut
becomes a `SqlError` instead of a dump.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import SqlError
from anabranch.expressions.reading import join_suffixes

MAX_NESTING = 100
"""Parentheses deeper than this are refused: no reader and no parser below us is built for them."""

_MARK = re.compile(r"['\"`]|--|/\*")
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Tokenizer(Spark.Tokenizer):
    """Spark's tokenizer without the habit of swallowing what follows SHOW or EXPLAIN as one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


def place(text: str, start: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character of the text."""
    before = text[: max(start, 0)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def error_at(
    name: str, message: str, text: str, start: int, *, detail: str | None = None, hint: str | None = None
) -> SqlError:
    """An error that points at a character of the text."""
    line, column = place(text, start)
    return SqlError(name, message, detail=detail, hint=hint, line=line, column=column)


def tokenize(text: str) -> list[Token]:
    """The tokens of a text; comments are gone."""
    alone = _SURROGATE.search(text)
    if alone is not None:
        message = f"U+{ord(alone[0]):X} is half a character"
        raise error_at("SYNTAX_ERROR", message, text, alone.start(), hint="the text was not decoded as it was encoded")
    unclosed = find_unclosed(text)
    if unclosed is not None:
        start, what = unclosed
        raise error_at("SYNTAX_ERROR", f"{what} is not closed", text, start)
    try:
        tokens = _Tokenizer(dialect="spark").tokenize(_without_block_comments(text))
    except SqlglotError:
        raise error_at("SYNTAX_ERROR", "the text cannot be read", text, len(text) - len(text.lstrip())) from None
    return _check_nesting(_join_doubled_quotes(join_suffixes(tokens), text), text)


def statements_of(text: str) -> list[list[Token]]:
    """The tokens of each statement of a text, without the semicolons; empty statements are left out."""
    parts: list[list[Token]] = [[]]
    for token in tokenize(text):
        if token.token_type == TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def is_complete(text: str) -> bool:
    """True if the text ends in a semicolon that is not inside a string or a comment.

    >>> is_complete("SELECT ';'"), is_complete("SELECT 1; -- done")
    (False, True)
    """
    if find_unclosed(text) is not None:
        return False
    try:
        tokens = _Tokenizer(dialect="spark").tokenize(_without_block_comments(text))
    except SqlglotError:
        return text.rstrip().endswith(";")
    return bool(tokens) and tokens[-1].token_type == TokenType.SEMICOLON


def find_unclosed(text: str) -> tuple[int, str] | None:
    """The start of a string, quoted name or comment that never ends, and what it is."""
    for start, end in _marked(text):
        if end < 0:
            what = {"/": "this comment", "`": "this quoted name"}.get(text[start], "this string")
            return start, what
    return None


def _marked(text: str) -> Iterator[tuple[int, int]]:
    """Where strings, quoted names and comments begin and end; -1 where one never ends."""
    position = 0
    while match := _MARK.search(text, position):
        start = match.start()
        if match[0] == "--":
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
        elif match[0] == "/*":
            end = _end_of_comment(text, start)
        else:
            raw = match[0] != "`" and text[max(start - 1, 0)] in "rR" and not _is_name_char(text, start - 2)
            end = _end_of_quote(text, start, escapes=match[0] != "`" and not raw)
        yield start, end
        if end < 0:
            return
        position = end


def _without_block_comments(text: str) -> str:
    """The text with blanks for comments; hints stay. Spark's comments lie in each other, sqlglot's not all."""
    for start, end in _marked(text):
        if text.startswith("/*", start) and not text.startswith("/*+", start):
            text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def _is_name_char(text: str, position: int) -> bool:
    return position >= 0 and (text[position].isalnum() or text[position] == "_")


def _end_of_comment(text: str, start: int) -> int:
    """Just behind a block comment, which may hold others; -1 if it never ends."""
    depth, position = 0, start
    while position < len(text):
        if text.startswith("/*", position):
            depth, position = depth + 1, position + 2
        elif text.startswith("*/", position):
            depth, position = depth - 1, position + 2
            if depth == 0:
                return position
        else:
            position += 1
    return -1


def _end_of_quote(text: str, start: int, *, escapes: bool) -> int:
    quote, position = text[start], start + 1
    while position < len(text):
        if escapes and text[position] == "\\":
            position += 2
        elif text[position] == quote:
            return position + 1
        else:
            position += 1
    return -1


def _join_doubled_quotes(tokens: list[Token], text: str) -> list[Token]:
    """`'it''s'` is one string holding a quote, not two strings side by side."""
    joined: list[Token] = []
    for token in tokens:
        before = joined[-1] if joined else None
        if (
            before is not None
            and token.token_type == before.token_type == TokenType.STRING
            and token.start == before.end + 1
            and text[token.start] == text[before.end]
        ):
            both = before.text + text[token.start] + token.text
            joined[-1] = Token(TokenType.STRING, both, token.line, token.col, before.start, token.end)
        else:
            joined.append(token)
    return joined


def _check_nesting(tokens: list[Token], text: str) -> list[Token]:
    depth = 0
    for token in tokens:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
            if depth > MAX_NESTING:
                raise error_at(
                    "SYNTAX_ERROR", f"more than {MAX_NESTING} parentheses inside each other", text, token.start
                )
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
    return tokens
