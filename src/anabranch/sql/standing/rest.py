"""The rest of a query in Spark SQL, taken apart, so that the rests of many are one SELECT.

Planning writes a rest as `SELECT … AS `name`, … FROM `__input` WHERE …`: each row by itself gives a row or none. So
the rests of many queries stand beside each other in one: a column `REST` says whose a row is, and CASE has each row's
own conditions and expressions evaluated and no others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.expressions.functions import SCALARS
from anabranch.expressions.functions.several_rows import GROUP as SEVERAL_ROWS
from anabranch.sql.reading.tokens import tokenize
from anabranch.sql.standing.rows import INPUT_VIEW

REST = "__rest"
"""The column that says which rest a row is for."""
_MAKES_SEVERAL = frozenset({"json_tuple"})
"""Beside those that the table of functions has under what makes several rows of one."""
_OPENS = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSES = (TokenType.R_PAREN, TokenType.R_BRACKET)


class Rest(NamedTuple):
    """What becomes of each row: its columns, (name, SQL), where the condition holds."""

    columns: tuple[tuple[str, str], ...]
    condition: str | None

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]


def rest_of(sql: str) -> Rest:
    """A rest as planning wrote it, taken apart where it is written so.

    >>> rest_of("SELECT UPPER(`t`) AS `u`, `at` AS `_time` FROM `__input` WHERE f(`t`, 2) <> ''")
    Rest(columns=(('u', 'UPPER(`t`)'), ('_time', '`at`')), condition="f(`t`, 2) <> ''")
    """
    depth, cuts, tokens = 0, [6], tokenize(sql)
    until, condition = len(sql), None
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        depth += (token.token_type in _OPENS) - (token.token_type in _CLOSES)
        if depth == 0 and token.token_type == TokenType.COMMA:
            cuts.append(token.start + 1)
        elif depth == 0 and token.token_type == TokenType.FROM and _is_view(following):
            assert following is not None
            until, after = token.start, sql[following.end + 1 :]
            condition = after.strip().removeprefix("WHERE ") or None
            break
    parts = [sql[start:end].rstrip(", ") for start, end in zip(cuts, [*cuts[1:], until], strict=True)]
    return Rest(tuple(_column(part) for part in parts), condition)


def makes_several_rows(sql: str) -> str | None:
    """The function of a rest that may make several rows of one, or several columns; None if there is none.

    >>> makes_several_rows("SELECT EXPLODE(SPLIT(`t`, ',')) AS `w` FROM `__input`")
    'explode'
    """
    tokens = tokenize(sql)
    for token, following in itertools.pairwise(tokens):
        name = token.text.lower()
        called = following.token_type == TokenType.L_PAREN and token.token_type != TokenType.IDENTIFIER
        if called and (name in _MAKES_SEVERAL or (name in SCALARS and SCALARS[name].group == SEVERAL_ROWS)):
            return name
    return None


def _is_view(token: Token | None) -> bool:
    return token is not None and token.token_type == TokenType.IDENTIFIER and token.text == INPUT_VIEW


def _column(text: str) -> tuple[str, str]:
    name = tokenize(text)[-1]
    return name.text, text[: name.start].rstrip().removesuffix("AS").strip()


def joint_sql(rests: Sequence[tuple[int, Rest]], slots: Sequence[Sequence[int]], carried: Sequence[str]) -> str:
    """One SELECT for rests with their numbers.

    It answers with the columns `carried`, and those of each of `slots`: rests, by number, whose columns have the same
    types.
    """
    by_number = dict(rests)
    columns = [f"`{name}`" for name in carried]
    for place, numbers in enumerate(slots):
        for column in range(len(by_number[numbers[0]].columns)):
            cases = " ".join(f"WHEN {number} THEN {by_number[number].columns[column][1]}" for number in numbers)
            columns.append(f"CASE `{REST}` {cases} END AS `{slot(place, column)}`")
    conditions = " ".join(_conditions(rests))
    where = f" WHERE CASE `{REST}` {conditions} ELSE TRUE END" if conditions else ""
    return f"SELECT {', '.join(columns)} FROM `{INPUT_VIEW}`{where}"


def slot(place: int, column: int) -> str:
    """The column that has one column of some rests."""
    return f"__{place}_{column}"


def _conditions(rests: Sequence[tuple[int, Rest]]) -> Iterator[str]:
    for number, rest in rests:
        if rest.condition is not None:
            yield f"WHEN {number} THEN {rest.condition}"
