"""Lengths of time: `INTERVAL 1 MINUTE`, `INTERVAL '1' MINUTE`, `INTERVAL 1 MINUTE 30 SECONDS`, `'10 seconds'`.

Inside, a length is a whole number of microseconds. Months and years have no fixed length, so a
window cannot have their size.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import AnabranchError, SqlError, did_you_mean
from anabranch.sql.reading.cursor import Cursor, word

UNITS: dict[str, int] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_UNEVEN = {"MONTH", "QUARTER", "YEAR"}
LONGEST_US = 100 * 365 * UNITS["DAY"]


def unit_us(unit: str) -> int:
    """The microseconds of a unit, singular or plural."""
    name = unit.upper()
    name = name[:-1] if name.endswith("S") else name
    if name in UNITS:
        return UNITS[name]
    if name in _UNEVEN:
        raise SqlError(
            "INTERVAL_NOT_FIXED",
            f"a {name.lower()} has no fixed length",
            hint="use WEEKS, DAYS, HOURS, MINUTES or SECONDS",
        )
    raise SqlError("SYNTAX_ERROR", f'"{unit}" is not a unit of time', hint=did_you_mean(name, UNITS))


def interval_us(text: str) -> int:
    """The microseconds of a text such as `1 minute 30 seconds`.

    >>> interval_us("1 minute 30 seconds")
    90000000
    """
    parts = text.split()
    if parts and parts[0].upper() == "INTERVAL":
        parts = parts[1:]
    if not parts or len(parts) % 2:
        raise SqlError("SYNTAX_ERROR", f"'{text}' is not a length of time", hint="write for example '1 minute'")
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return _checked(sum((_amount(number) * unit_us(unit) for number, unit in pairs), Decimal(0)), text)


def take_interval(cursor: Cursor, *, least: int = 1) -> int:
    """The microseconds of the interval the cursor stands on, which is taken; `least` are the fewest it may have.

    Where they may be negative, each part may have a minus before it, as in Spark.
    """
    cursor.expect("INTERVAL")
    first = cursor.index
    total, parts = Decimal(0), 0
    while True:
        sign = -1 if least < 0 and word(cursor.peek()) == "-" and _is_amount(cursor.peek(1)) else 1
        cursor.index += sign < 0
        token = cursor.peek()
        if token is None or not _is_amount(token):
            if parts:
                break
            if word(token) in ("-", "DASH"):
                cursor.fail("expected a positive length of time")
            cursor.fail("expected a number", hint="write for example INTERVAL 10 SECONDS")
        try:
            if token.token_type == TokenType.STRING and len(token.text.split()) > 1:
                total, parts = total + sign * interval_us(token.text), parts + 1
                cursor.advance()
                continue
            amount = sign * _amount(token.text)
            cursor.advance()
            unit = cursor.peek()
            if unit is None or not word(unit):
                cursor.fail("expected a unit of time", hint="write for example INTERVAL 10 SECONDS")
            total, parts = total + amount * unit_us(unit.text), parts + 1
            cursor.advance()
        except SqlError as problem:
            raise _placed(problem, cursor) from None
        if cursor.next_is("TO"):
            cursor.fail("expected the end of the interval", hint="write for example INTERVAL 1 DAY 2 HOURS")
    try:
        return _checked(total, cursor.source(first, cursor.index), least)
    except SqlError as problem:
        cursor.index = first
        raise _placed(problem, cursor) from None


def _is_amount(token: Token | None) -> bool:
    return token is not None and token.token_type in (TokenType.NUMBER, TokenType.STRING)


def _placed(problem: AnabranchError, cursor: Cursor) -> SqlError:
    if problem.line is not None and isinstance(problem, SqlError):
        return problem
    return cursor.error_here(problem.name, problem.message, detail=problem.detail, hint=problem.hint)


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text.strip())
        if not amount.is_finite() or abs(amount) > LONGEST_US:
            raise InvalidOperation
    except InvalidOperation:
        raise SqlError("SYNTAX_ERROR", f'"{text}" is not a number') from None
    return amount


def _checked(total: Decimal, text: str, least: int = 1) -> int:
    if total < least or abs(total) > LONGEST_US or total != int(total):
        from_zero = "zero or more" if least == 0 else "more than zero"
        raise SqlError(
            "INTERVAL_OUT_OF_RANGE",
            f"an interval of {text} cannot be used",
            hint="use a whole number of microseconds, "
            + (f"{from_zero} and at most 100 years" if least >= 0 else "at most 100 years back or forth"),
        )
    return int(total)


def format_us(length: int) -> str:
    """A length of time as people write it.

    >>> format_us(90_000_000), format_us(60_000_000)
    ('90 SECONDS', '1 MINUTE')
    """
    for unit, size in reversed(UNITS.items()):
        if unit != "WEEK" and length % size == 0 and length >= size:
            count = length // size
            return f"{count} {unit}{'S' if count != 1 else ''}"
    return f"{length} MICROSECONDS"
