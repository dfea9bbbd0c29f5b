"""Functions of numbers whose last bit is the same in Arrow and in Java.

EXP, LN, LOG10, LOG2, POWER (but for squares) and the trigonometric functions come from different
libraries there, which disagree in the last bit now and then, so they are left to Spark. So is
ROUND to decimal places, which Spark does on the decimal digits of a DOUBLE.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions.casts import floating_to_whole
from anabranch.expressions.expr import Build, Datum, Expr, Handler, NotEvaluable, apply
from anabranch.expressions.literals import whole_of
from anabranch.expressions.types import BIGINT, DOUBLE, cast, is_whole, name, require_number


def sqrt(node: exp.Sqrt, build: Build) -> Expr:
    return apply(DOUBLE, pc.sqrt, cast(require_number(build(node.this), "SQRT"), DOUBLE))


def power(node: exp.Pow, build: Build) -> Expr:
    base, exponent = require_number(build(node.this), "POWER"), build(node.expression)
    if exponent.constant is None or not is_whole(exponent.type) or exponent.constant.as_py() != 2:
        raise NotEvaluable("POWER is only evaluated with exponent 2, others differ in the last bit")
    return apply(DOUBLE, lambda a: pc.multiply(a, a), cast(base, DOUBLE))


def sign(node: exp.Sign, build: Build) -> Expr:
    """-1.0, 1.0, or the zero or NaN it was given."""

    def kernel(values: Datum) -> Datum:
        return pc.if_else(pc.equal(values, 0.0), values, pc.sign(values))

    return apply(DOUBLE, kernel, cast(require_number(build(node.this), "SIGN"), DOUBLE))


def towards(kernel: Callable[[Datum], Datum], word: str) -> Handler:
    """FLOOR and CEIL, to BIGINT; what does not fit there is cut to its ends."""

    def handler(node: exp.Func, build: Build) -> Expr:
        operand = require_number(build(node.this), word)
        if is_whole(operand.type):
            return cast(operand, BIGINT)
        return floating_to_whole(apply(DOUBLE, kernel, cast(operand, DOUBLE)), BIGINT)

    return handler


def round_(node: exp.Round, build: Build) -> Expr:
    """Half away from zero; -0.0 becomes 0.0, as it has no decimal digits of its own."""
    operand = require_number(build(node.this), "ROUND")
    places = node.args.get("decimals")
    digits = whole_of(build(places), "the places of ROUND") if places is not None else 0
    if is_whole(operand.type) and digits >= 0:
        return apply(operand.type, lambda a: a, operand)
    if digits != 0:
        raise NotEvaluable(f"ROUND of {name(operand.type)} to {digits} places is done on decimal digits")

    def kernel(values: Datum) -> Datum:
        rounded = pc.round(values, ndigits=0, round_mode="half_towards_infinity")
        return pc.add(rounded, pa.scalar(0.0, values.type))

    return apply(operand.type, kernel, operand)
