"""+ - * / % DIV, signs and bits.

Whole numbers wrap around as Java's do, dividing by zero gives NULL, whole / whole is DOUBLE.
DECIMAL is exact for + - *. Its division rounds half up, where that is all that shows of Spark's, which rounds twice.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions.expr import Build, Datum, Expr, Handler, NotEvaluable, apply, constant
from anabranch.expressions.literals import number
from anabranch.expressions.types import (
    BIGINT,
    DOUBLE,
    INTERVAL,
    as_decimal,
    cast,
    coerce,
    common_type,
    decimal_type,
    is_decimal,
    is_floating,
    is_number,
    is_whole,
    name,
    require_number,
)
from anabranch.schema import TIME_TYPE


def add(node: exp.Add, build: Build) -> Expr:
    left, right = build(node.this), build(node.expression)
    if left.type.equals(INTERVAL) and right.type.equals(TIME_TYPE):
        left, right = right, left
    return _shift(left, right, pc.add_checked) or _numeric(left, right, pc.add, "+")


def subtract(node: exp.Sub, build: Build) -> Expr:
    left, right = build(node.this), build(node.expression)
    return _shift(left, right, pc.subtract_checked) or _numeric(left, right, pc.subtract, "-")


def multiply(node: exp.Mul, build: Build) -> Expr:
    return _numeric(build(node.this), build(node.expression), pc.multiply, "*")


def _shift(left: Expr, right: Expr, kernel: Callable[..., Datum]) -> Expr | None:
    """A time, or an interval, moved by an interval; past the end of time it is an error, in Spark too."""
    if not right.type.equals(INTERVAL):
        return None
    if left.type.equals(TIME_TYPE) or left.type.equals(INTERVAL):
        return apply(left.type, kernel, left, right)
    raise NotEvaluable(f"{name(left.type)} moved by an interval is not evaluated here")


def _numeric(left: Expr, right: Expr, kernel: Callable[..., Datum], sign: str) -> Expr:
    if _exact(left, right):
        left, right = as_decimal(left), as_decimal(right)
        return apply(_decimal_result(left.type, right.type, sign), kernel, left, right)
    type = _operand_type(left, right, sign)
    return apply(type, kernel, coerce(left, type), coerce(right, type))


def _exact(left: Expr, right: Expr) -> bool:
    types = (left.type, right.type)
    return any(map(is_decimal, types)) and not any(map(is_floating, types))


def _decimal_result(left: pa.DataType, right: pa.DataType, sign: str) -> pa.DataType:
    """The standard's precision and scale, which Spark keeps while they fit."""
    if sign == "*":
        return decimal_type(left.precision + right.precision + 1, left.scale + right.scale)
    scale = max(left.scale, right.scale)
    return decimal_type(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def _operand_type(left: Expr, right: Expr, sign: str) -> pa.DataType:
    type = common_type((left, right), sign)
    if not is_number(type):
        raise NotEvaluable(f"{name(left.type)} {sign} {name(right.type)} is not evaluated here")
    return type


def _nonzero(values: Datum) -> Datum:
    """`values` with NULL for zero."""
    return pc.if_else(pc.equal(values, pa.scalar(0, values.type)), pa.scalar(None, values.type), values)


def divide(node: exp.Div, build: Build) -> Expr:
    left, right = build(node.this), build(node.expression)
    if _exact(left, right):
        return _decimal_quotient(as_decimal(left), as_decimal(right))
    _operand_type(left, right, "/")
    return apply(DOUBLE, lambda a, b: pc.divide(a, _nonzero(b)), coerce(left, DOUBLE), coerce(right, DOUBLE))


_MOST_DIGITS, _LEAST_DECIMALS, _LONG_DIGITS = 38, 6, 76


def _decimal_quotient(left: Expr, right: Expr) -> Expr:
    """The quotient with the digits that Spark gives it, rounded half up.

    Spark rounds to 39 decimal places first. That shows only in a quotient that lies just below a half, nearer than one
    of a divisor with so few digits can lie. Arrow cuts quotients off: with one place more than wanted that is enough to
    round by.
    """
    whole = left.type.precision - left.type.scale + right.type.scale
    wanted = max(_LEAST_DECIMALS, left.type.scale + right.type.precision + 1)
    scale = min(wanted, max(_MOST_DIGITS - whole, min(wanted, _LEAST_DECIMALS)))
    more = max(0, scale + right.type.scale - left.type.scale - right.type.precision)
    places = max(4, left.type.scale + more + right.type.precision - right.type.scale + 1)
    if whole + scale > _MOST_DIGITS or right.type.precision > _MOST_DIGITS + 1 - scale:
        raise NotEvaluable("this division of DECIMAL is rounded twice by Spark, or may be too long")
    if left.type.precision + more > _LONG_DIGITS or whole + places > _LONG_DIGITS:
        raise NotEvaluable("this division of DECIMAL has too many digits")
    result = pa.decimal128(whole + scale, scale)
    long = pa.decimal256(left.type.precision + more, left.type.scale + more)
    divisor = pa.decimal256(right.type.precision, right.type.scale)

    def quotient(a: Datum, b: Datum) -> Datum:
        cut_off = pc.divide(a.cast(long), _nonzero(b.cast(divisor)))
        return pc.round(cut_off, ndigits=scale, round_mode="half_towards_infinity").cast(result)

    return apply(result, quotient, left, right)


def remainder(node: exp.Mod, build: Build) -> Expr:
    left, right = build(node.this), build(node.expression)
    if _exact(left, right):
        raise NotEvaluable("the remainder of DECIMAL is not evaluated here")
    type = _operand_type(left, right, "%")
    return apply(type, lambda a, b: pc.remainder(a, _nonzero(b)), coerce(left, type), coerce(right, type))


def whole_division(node: exp.IntDiv, build: Build) -> Expr:
    left, right = build(node.this), build(node.expression)
    if not (is_whole(left.type) and is_whole(right.type)):
        raise NotEvaluable(f"{name(left.type)} DIV {name(right.type)} is not evaluated here")

    def kernel(a: Datum, b: Datum) -> Datum:
        minus_one = pc.equal(b, pa.scalar(-1, BIGINT))
        return pc.if_else(minus_one, pc.negate(a), pc.divide(a, _nonzero(b)))

    return apply(BIGINT, kernel, cast(left, BIGINT), cast(right, BIGINT))


def negate(node: exp.Neg, build: Build) -> Expr:
    """A sign before a number belongs to it, so that -2147483648 is an INT."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return number("-" + node.this.name)
    operand = build(node.this)
    if operand.type.equals(INTERVAL):
        assert operand.constant is not None
        return constant(pa.scalar(-operand.constant.value, INTERVAL))
    return _signed(operand, pc.negate, "-")


def positive(operand: Expr) -> Expr:
    """+x is x, but no literal any more: Spark types `+1` beside a DECIMAL as any INT."""
    return _signed(operand, lambda values: values, "+")


def absolute(node: exp.Abs, build: Build) -> Expr:
    return _signed(build(node.this), pc.abs, "ABS")


def _signed(operand: Expr, kernel: Callable[..., Datum], what: str) -> Expr:
    if not is_decimal(operand.type):
        require_number(operand, what)
    return apply(operand.type, kernel, operand)


def bitwise(kernel: Callable[..., Datum], sign: str) -> Handler:
    """& | ^ on whole numbers."""

    def handler(node: exp.Binary, build: Build) -> Expr:
        left, right = build(node.this), build(node.expression)
        type = common_type((left, right), sign)
        if not is_whole(type):
            raise NotEvaluable(f"{name(left.type)} {sign} {name(right.type)} is not evaluated here")
        return apply(type, kernel, coerce(left, type), coerce(right, type))

    return handler


def bitwise_not(node: exp.BitwiseNot, build: Build) -> Expr:
    operand = build(node.this)
    if not is_whole(operand.type):
        raise NotEvaluable(f"~ of {name(operand.type)} is not evaluated here")
    return apply(operand.type, pc.bit_wise_not, operand)
