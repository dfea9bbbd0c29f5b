"""Text into trees, read as Spark reads it where sqlglot would write something else in its place.

sqlglot turns `5L` into a cast and drops the plus of `+x`. Spark types `5L` by its digits beside a DECIMAL, as no
cast is, and `+1` as no literal is; so a number keeps its suffix here, and `+x` becomes `positive(x)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

_PLAIN = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
NUMBER = re.compile(rf"(?P<whole>\d+)(?P<width>[LSY])|(?P<number>{_PLAIN})(?P<kind>D|F|BD)?", re.ASCII)
"""A number as it stands in a tree, with Spark's suffix: L, S, Y for whole numbers, D, F, BD for all."""


class Parser(SparkParser):
    """Spark's parser, which keeps a plus."""

    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
    }


def join_suffixes(tokens: list[Token]) -> list[Token]:
    """A number and its suffix in one token; the tokenizer cuts `5L` as if it were `5::BIGINT`."""
    joined: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.token_type == TokenType.NUMBER and index + 2 < len(tokens) and tokens[index + 1].start == token.start:
            text = token.text + tokens[index + 2].text.upper()
            token = Token(TokenType.NUMBER, text, token.line, token.col, token.start, token.end)
            index += 2
        joined.append(token)
        index += 1
    return joined


def read(sql: str) -> exp.Expr:
    """The tree of an expression; raises what sqlglot raises."""
    tokens = join_suffixes(Spark.Tokenizer(dialect="spark").tokenize(sql))
    tree = Parser(dialect="spark").parse(tokens, sql)[0]
    if tree is None:
        raise ParseError(f"there is no expression in {sql!r}")
    return tree


def amount(text: str) -> float | None:
    """A number with or without suffix as a DOUBLE; None if it is none."""
    match = NUMBER.fullmatch(text)
    return float(match["whole"] or match["number"]) if match else None
