"""`REDUCE BY reducer(…)`: read token by token, and checked against the reducers there are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.archive.reducers import SIGNATURES, Spec, check, reducer_of
from anabranch.errors import AnabranchError, CatalogError, did_you_mean
from anabranch.schema import StreamSchema
from anabranch.sql.archive_tree import ReduceBy
from anabranch.sql.reading.cursor import Cursor, is_name, word
from anabranch.sql.reading.intervals import format_us, take_interval
from anabranch.sql.tree import Select

Registered = Mapping[str, str]
"""The user's reducers: where the class of each is, by name."""
NONE_REGISTERED: Registered = MappingProxyType({})


def is_reducing(tokens: list[Token], index: int) -> bool:
    """`REDUCE BY` is the clause; nothing else has BY behind a name."""
    return [word(token) for token in tokens[index : index + 2]] == ["REDUCE", "BY"]


def take_reducing(cursor: Cursor) -> ReduceBy:
    """The reducer, where the cursor stands on REDUCE."""
    cursor.expect("REDUCE", "BY")
    token = cursor.peek()
    name = cursor.name("a reducer")
    if token is None or not cursor.words("("):
        cursor.fail(f"expected ( behind {name}", hint="write for example REDUCE BY uniform(0.4)")
    arguments: list[Any] = []
    if not cursor.words(")"):
        arguments.append(_take_argument(cursor))
        while cursor.words(","):
            arguments.append(_take_argument(cursor))
        cursor.expect(")")
    return ReduceBy(name, tuple(arguments), token.start)


def _take_argument(cursor: Cursor) -> Any:
    """A number, a length of time, or the name of a column."""
    token = cursor.peek()
    following = cursor.peek(1)
    if word(token) == "INTERVAL" and following is not None and word(following) not in (",", ")"):
        return dt.timedelta(microseconds=take_interval(cursor))
    if token is not None and is_name(token):
        return cursor.name("a column's name")
    sign = "-" if cursor.words("-") else ""
    point = "." if cursor.words(".") else ""
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER:
        cursor.fail("expected a number, an INTERVAL or a column's name")
    text = sign + point + token.text
    try:
        number = int(text) if token.text.isdecimal() and not point else float(text)
    except ValueError:
        cursor.fail("expected a number")
    cursor.advance()
    return number


def reducer_in(select: Select, reducing: ReduceBy, schema: StreamSchema, registered: Registered) -> Spec:
    """The reducer as plain data, with columns as the stream spells them; errors point at where it stands."""
    if ":" in reducing.name:  # a class by its path is named where it is registered, not in a query
        known = did_you_mean(reducing.name, [*SIGNATURES, *registered])
        problem = CatalogError("REDUCER_NOT_FOUND", f'there is no reducer "{reducing.name}"', hint=known)
        raise placed(select, reducing.start, problem)
    try:
        spec = check(reducing.name, reducing.arguments, registered)
        by = reducer_of(spec).by
    except AnabranchError as problem:
        raise placed(select, reducing.start, problem) from None
    if by is None:
        return spec
    own = next((name for name in schema.names if name.lower() == by.lower()), None)
    if own is None:
        raise select.error(
            "COLUMN_NOT_FOUND",
            f'{reducing.name} keeps whole keys of "{by}", which is not a column',
            start=reducing.start,
            hint=did_you_mean(by, schema.names),
        )
    if spec[0] not in SIGNATURES:
        if own != by:
            raise select.error(
                "COLUMN_NOT_FOUND",
                f'{reducing.name} keeps whole keys of "{by}", and the column is "{own}"',
                start=reducing.start,
                hint="spell it so in the reducer",
            )
        return spec
    return spec[0], tuple(own if value == by else value for value in spec[1])


def reducer_text(spec: Spec) -> str:
    """A reducer as people read it.

    >>> reducer_text(("every", (3_600_000_000,)))
    'every(INTERVAL 1 HOUR)'
    """
    name, values = spec
    kinds = [argument.kind for argument in SIGNATURES[name].arguments] if name in SIGNATURES else []
    lengths = [index for index, kind in enumerate(kinds) if kind == "interval"]
    shown = (f"INTERVAL {format_us(value)}" if index in lengths else str(value) for index, value in enumerate(values))
    return f"{name}({', '.join(shown)})"


def placed(select: Select, start: int, problem: AnabranchError) -> AnabranchError:
    """The error, pointing at a character of the text."""
    place = select.error("", "", start=start)
    fields = {**problem.as_dict(), "line": place.line, "column": place.column}
    return type(problem)(fields.pop("name"), fields.pop("message"), **fields)
