"""Numbers, text, times and intervals that stand in the SQL itself."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions.expr import Build, Expr, NotEvaluable, constant
from anabranch.expressions.reading import NUMBER
from anabranch.expressions.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    STRING,
    decimal_type,
    from_decimal_literal,
    name,
)
from anabranch.schema import TIME_TYPE

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_WHOLE = {"L": BIGINT, "S": pa.int16(), "Y": pa.int8()}
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_TIME = re.compile(_DATE.pattern + r"(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(?:Z|\+00:00)?)?", re.ASCII)
_AMOUNT = re.compile(r"\s*([+-]?)(\d{1,9})(?:\.(\d{1,6}))?\s*", re.ASCII)
_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


def literal(node: exp.Literal, _: Build) -> Expr:
    """Text, or a number typed as Spark types it: INT, BIGINT, DECIMAL by its digits, DOUBLE with an exponent."""
    return constant(pa.scalar(node.name, STRING), literal=True) if node.is_string else number(node.name)


def number(text: str) -> Expr:
    """A number as written, with its sign and suffix."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    match = NUMBER.fullmatch(digits)
    if not match:
        raise NotEvaluable(f"{text} is not a number of Spark's")
    if match["width"]:
        return _whole(sign + match["whole"], (_WHOLE[match["width"]],))
    plain, kind = sign + match["number"], match["kind"]
    if kind == "F":
        return from_decimal_literal(_decimal(plain), FLOAT, literal=True)
    if kind == "D" or (kind is None and "e" in plain.lower()):
        return _double(plain)
    return _decimal(plain) if kind or "." in plain else _whole(plain, (INT, BIGINT))


def _whole(text: str, types: tuple[pa.DataType, ...]) -> Expr:
    """A whole number in the first of the types that can hold it; without suffix it may be a DECIMAL."""
    value = int(text)
    for type in types:
        bits = type.bit_width - 1
        if -(2**bits) <= value < 2**bits:
            return constant(pa.scalar(value, type), literal=True)
    if len(types) == 1:
        raise NotEvaluable(f"{text} is out of {name(types[0])}'s range")
    return _decimal(text)


def _double(text: str) -> Expr:
    double = float(text)
    if not math.isfinite(double):
        raise NotEvaluable(f"{text} is out of DOUBLE's range")
    return constant(pa.scalar(double, DOUBLE), literal=True)


def _decimal(text: str) -> Expr:
    exact = Decimal(text)
    if int(exact.as_tuple().exponent) > 0:
        exact = exact.quantize(Decimal(1))
    _, digits, exponent = exact.as_tuple()
    scale = -int(exponent)
    return constant(pa.scalar(exact, decimal_type(max(len(digits), scale), scale)), literal=True)


def boolean(node: exp.Boolean, _: Build) -> Expr:
    return constant(pa.scalar(bool(node.this), BOOLEAN), literal=True)


def nothing(node: exp.Null, _: Build) -> Expr:
    return constant(pa.scalar(None, pa.null()), literal=True)


def raw_string(node: exp.RawString, _: Build) -> Expr:
    return constant(pa.scalar(node.name, STRING), literal=True)


def text_of(operand: Expr, what: str) -> str:
    """The text of a literal, for what is only evaluated with one."""
    if operand.constant is None or not operand.type.equals(STRING) or not operand.constant.is_valid:
        raise NotEvaluable(f"{what} is only evaluated as a literal text")
    return str(operand.constant.as_py())


def whole_of(operand: Expr, what: str) -> int:
    """The number of an INT literal, for what is only evaluated with one."""
    if operand.constant is None or not operand.type.equals(INT) or not operand.constant.is_valid:
        raise NotEvaluable(f"{what} is only evaluated as an INT literal")
    return int(operand.constant.as_py())


def parse_time(text: str) -> Expr:
    """Text as TIMESTAMP; of the forms Spark reads, those that leave no doubt."""
    match = _TIME.fullmatch(text)
    if not match:
        raise NotEvaluable(f"'{text}' is not a time of the form YYYY-MM-DD HH:MM:SS")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match[7] or "").ljust(6, "0"))
    try:
        moment = dt.datetime(year, month, day, hour, minute, second, micros, tzinfo=dt.UTC)
    except ValueError:
        raise NotEvaluable(f"'{text}' is not a time that exists") from None
    return constant(pa.scalar((moment - _EPOCH) // dt.timedelta(microseconds=1), pa.int64()).cast(TIME_TYPE))


def parse_date(text: str) -> Expr:
    """Text as DATE, in the form YYYY-MM-DD."""
    match = _DATE.fullmatch(text)
    try:
        day = dt.date(*map(int, match.groups())) if match else None
    except ValueError:
        day = None
    if day is None:
        raise NotEvaluable(f"'{text}' is not a date of the form YYYY-MM-DD")
    return constant(pa.scalar(day, DATE))


def interval(node: exp.Interval, build: Build) -> Expr:
    """A span of fixed length; months and years have none."""
    unit: Any = node.args.get("unit")
    micros = _UNITS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    if micros is None or node.this is None:
        raise NotEvaluable("only intervals in weeks, days, hours, minutes, seconds and parts of them are evaluated")
    amount = _AMOUNT.fullmatch(node.this.name) if isinstance(node.this, exp.Literal) else None
    if amount is None or (amount[3] and micros != _UNITS["SECOND"]):
        raise NotEvaluable("an interval is only evaluated with a plain number")
    span = int(amount[2]) * micros + int((amount[3] or "").ljust(6, "0"))
    return constant(pa.scalar(-span if amount[1] == "-" else span, INTERVAL))
