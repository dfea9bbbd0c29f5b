"""The tolerance of `within(x, y, tolerance)`: a constant that fits the keys."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import Token

from anabranch import expressions
from anabranch.errors import AnabranchError, SqlError
from anabranch.expressions.reading import digits
from anabranch.expressions.types import is_decimal, is_number
from anabranch.operators.merge.keys import Tolerance
from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.intervals import LONGEST_US, UNITS, take_interval
from anabranch.sql.reading.tokens import tokenize
from anabranch.sql.standing.columns import sql_of, without_own_functions
from anabranch.sql.tree import Select

Kind = Literal["number", "TIMESTAMP", "DATE"]
"""What keys with a distance are."""

_DAY = UNITS["DAY"]
_HINTS: dict[Kind, str] = {
    "number": "write a number, zero or more",
    "TIMESTAMP": "write for example INTERVAL 1 SECOND",
    "DATE": "write a whole number of days, or for example INTERVAL 1 DAY",
}


def read_tolerance(select: Select, call: exp.Expr, kind: Kind) -> Tolerance:
    """The third argument: as it is for numbers, in microseconds for TIMESTAMP keys, in days for DATE keys.

    It is exactly what was written: a text where no double has the same shortest text.
    """
    tokens = _tokens_of(select, call)
    length = _interval(select, tokens)
    if length is not None:
        fits = kind == "TIMESTAMP" or (kind == "DATE" and length % _DAY == 0)
        if fits and length >= 0:
            return float(length if kind == "TIMESTAMP" else length // _DAY)
        raise _invalid(select, tokens, kind, "cannot be negative" if fits else None)
    number = _number(select, call.expressions[2], tokens, kind)
    if kind == "TIMESTAMP" or (kind == "DATE" and number != int(number)):
        whole = kind == "TIMESTAMP" and number > 0 and number == int(number)
        hint = f"write INTERVAL {int(number)} SECOND{'S' if number != 1 else ''}" if whole else None
        raise _invalid(select, tokens, kind, hint=hint)
    nearest = float(number)
    return nearest if Fraction(repr(nearest)) == Fraction(number) else str(number)


def _tokens_of(select: Select, call: exp.Expr) -> list[Token]:
    """The tokens of the third argument: those of an interval remember no place in the tree."""
    tokens = tokenize(select.text)
    at = next(index for index, token in enumerate(tokens) if token.start == call.meta["start"]) + 1
    depth, commas, argument = 0, 0, list[Token]()
    for token in tokens[at:]:
        depth += (word(token) in ("(", "[")) - (word(token) in (")", "]"))
        if depth == 0:
            break
        if depth == 1 and word(token) == ",":
            commas += 1
        elif commas == 2:
            argument.append(token)
    return argument


def _interval(select: Select, tokens: list[Token]) -> int | None:
    """The microseconds of an interval, which may be negative; None for anything else."""
    while len(tokens) > 2 and word(tokens[0]) == "(" and word(tokens[-1]) == ")":
        tokens = tokens[1:-1]
    cursor = Cursor(tokens, select.text)
    sign = -1 if cursor.next_is("-", "INTERVAL") and cursor.words("-") else 1
    if not cursor.next_is("INTERVAL"):
        return None
    length = take_interval(cursor, least=-LONGEST_US)
    if cursor.peek() is not None:
        raise cursor.error_here(
            "MERGE_TOLERANCE_INVALID", "a tolerance is one INTERVAL", hint="write for example INTERVAL 1 DAY 2 HOURS"
        )
    return sign * length


def _number(select: Select, node: exp.Expr, tokens: list[Token], kind: Kind) -> Decimal:
    if node.find(exp.Column) is not None:
        raise _invalid(select, tokens, kind, "is not a constant")
    value: object = None
    number = digits(node.name) if isinstance(node, exp.Literal) and not node.is_string else None
    if number is not None:  # too large for a DOUBLE is still a number
        return _checked(number, select, tokens, kind)
    try:
        constant = expressions.compile(sql_of(without_own_functions(node.copy())), pa.schema([("one", pa.int8())]))
        if is_number(constant.type) or is_decimal(constant.type):
            value = constant.evaluate(pa.table({"one": pa.array([1], pa.int8())}))[0].as_py()
    except (AnabranchError, expressions.NotEvaluable, pa.ArrowException):
        value = None
    if not isinstance(value, int | float | Decimal):
        raise _invalid(select, tokens, kind)
    return _checked(str(value), select, tokens, kind)


def _checked(number: str, select: Select, tokens: list[Token], kind: Kind) -> Decimal:
    nearest = float(number)
    if not 0 <= nearest < math.inf:
        raise _invalid(select, tokens, kind, "cannot be negative" if nearest < 0 else "is not finite")
    return (
        Decimal(number) if nearest else Decimal(0)
    )  # what is 0 as a DOUBLE is less than the last digit of any DECIMAL


def _invalid(
    select: Select, tokens: list[Token], kind: Kind, why: str | None = None, hint: str | None = None
) -> SqlError:
    said = select.text[tokens[0].start : tokens[-1].end + 1]
    why = why or f"does not fit keys that are {'numbers' if kind == 'number' else kind}"
    return select.error(
        "MERGE_TOLERANCE_INVALID", f"a tolerance of {said} {why}", start=tokens[0].start, hint=hint or _HINTS[kind]
    )
