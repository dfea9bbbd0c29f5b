"""Text into trees, read as Spark reads it where sqlglot would write something else in its place.

sqlglot turns `5L` into a cast and drops the plus of `+x`. Spark types `5L` by its digits beside a DECIMAL, as no
cast is, and `+1` as no literal is; so a number keeps its suffix here, and `+x` becomes `positive(x)`.

A long list behind IN is one leaf, not a hundred thousand: trees are walked, copied and written many times on their way
(100,000 values took 40 s).
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


_MANY = 100
"""A list of so many values becomes one leaf."""
_PLAIN_TEXT = re.compile(r"[^'\\\x00-\x1f]*")
_VALUE = re.compile(r"'((?:[^'\\]|\\.)*)'|(-?\d+)", re.DOTALL)
_MOST_DIGITS = 18
_LONG_CHAIN = 32


def many_values(node: exp.Expr | None) -> exp.Var | None:
    """The values of a long list as they are written in SQL, all text or all whole numbers; None if it is not long."""
    leaf = node.expressions[0] if isinstance(node, exp.In) and node.expressions else None
    return leaf if isinstance(leaf, exp.Var) else None


def whole_numbers_of(values: exp.Var) -> list[int] | None:
    """The whole numbers of a long list; None if it is one of texts."""
    return None if values.name.startswith("'") else [int(number) for number in values.name.split(",")]


def texts_of(values: exp.Var) -> list[str] | None:
    """The texts of a long list; None if it is one of numbers."""
    if not values.name.startswith("'"):
        return None
    if "\\" not in values.name:
        return [match[1] for match in _VALUE.finditer(values.name)]
    tokens = Spark.Tokenizer(dialect="spark").tokenize(values.name)
    return [token.text for token in tokens if token.token_type == TokenType.STRING]


class Parser(SparkParser):
    """Spark's parser, which keeps a plus, formats of times, and long lists in one piece, and long conditions low."""

    def _parse_disjunction(self) -> exp.Expr | None:
        return _balanced(super()._parse_disjunction())

    def _parse_conjunction(self) -> exp.Expr | None:
        return _balanced(super()._parse_conjunction())

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        values = self._many_values() if self._curr and self._curr.token_type == TokenType.L_PAREN else None
        return exp.In(this=this, expressions=[values]) if values is not None else super()._parse_in(this, alias)

    def _many_values(self) -> exp.Var | None:
        """The values in the parentheses ahead, if they are many and plain; what is read is then behind these."""
        tokens, index, written = self._tokens, self._index + 1, list[str]()
        kind = None
        while index + 1 < len(tokens):
            sign = ""
            if tokens[index].token_type == TokenType.DASH:
                sign, index = "-", index + 1
            token = tokens[index]
            kind = kind or token.token_type
            value = _plain(token) if token.token_type == kind else None
            if value is None or (sign and kind == TokenType.STRING):
                return None
            written.append(sign + value)
            following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
            if following == TokenType.R_PAREN:
                if len(written) < _MANY:
                    return None
                self._advance(index + 2 - self._index)
                return exp.Var(this=", ".join(written))
            if following != TokenType.COMMA:
                return None
            index += 2
        return None

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **SparkParser.FUNCTIONS,
        # sqlglot would write other letters into the format.
        "ARRAY_SIZE": lambda args: exp.Anonymous(this="array_size", expressions=args),  # NULL has none
        "DATE_FORMAT": lambda args: exp.Anonymous(this="date_format", expressions=args),
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
    }


def _balanced(tree: exp.Expr | None) -> exp.Expr | None:
    """A long chain of ANDs or of ORs as a low tree: who walks it goes as deep as it is high."""
    if not isinstance(tree, exp.And | exp.Or):
        return tree
    kind, terms = type(tree), list[exp.Expr]()
    rest: exp.Expr = tree
    while type(rest) is kind:
        terms.append(rest.expression)
        rest = rest.this
    if len(terms) < _LONG_CHAIN:
        return tree
    terms = [rest, *reversed(terms)]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [*(kind(this=left, expression=right) for left, right in pairs), *terms[len(terms) & ~1 :]]
    return terms[0]


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


def _plain(token: Token) -> str | None:
    """A token as a value of a long list; None if it cannot be one."""
    if token.token_type == TokenType.STRING:
        plain = _PLAIN_TEXT.fullmatch(token.text)
        return f"'{token.text}'" if plain else exp.Literal.string(token.text).sql("spark")
    if token.token_type == TokenType.NUMBER and token.text.isdecimal() and len(token.text) <= _MOST_DIGITS:
        return token.text
    return None


def read(sql: str) -> exp.Expr:
    """The tree of an expression; raises what sqlglot raises."""
    tokens = join_suffixes(Spark.Tokenizer(dialect="spark").tokenize(sql))
    tree = Parser(dialect="spark").parse(tokens, sql)[0]
    if tree is None:
        raise ParseError(f"there is no expression in {sql!r}")
    return tree


def digits(text: str) -> str | None:
    """A number without its suffix; None if it is none."""
    match = NUMBER.fullmatch(text)
    return match["whole"] or match["number"] if match else None


def amount(text: str) -> float | None:
    """A number with or without suffix as a DOUBLE; None if it is none."""
    number = digits(text)
    return None if number is None else float(number)
