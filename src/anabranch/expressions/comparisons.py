"""= <> < <= > >= <=>, IN, BETWEEN, IS.

Unlike IEEE numbers, Spark's are totally ordered: NaN equals NaN and is greater than anything
else, while -0.0 equals 0.0. `ordered` holds the kernels with that meaning.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions.expr import Build, Datum, Expr, Handler, NotEvaluable, apply, constant, null
from anabranch.expressions.literals import parse_date, parse_time, text_of
from anabranch.expressions.nested import comparable
from anabranch.expressions.reading import many_values, texts_of, whole_numbers_of
from anabranch.expressions.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    STRING,
    as_decimal,
    cast,
    cast_values,
    coerce,
    common_type,
    is_decimal,
    is_floating,
    is_whole,
    name,
    widest,
)
from anabranch.schema import TIME_TYPE, is_nested

_DIGITS = 19
"""As many as a BIGINT can have."""

Kernel = Callable[[Datum, Datum], Datum]

PLAIN: dict[str, Kernel] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _floating_equal(a: Datum, b: Datum) -> Datum:
    return pc.or_(pc.equal(a, b), pc.and_(pc.is_nan(a), pc.is_nan(b)))


def _floating_less(a: Datum, b: Datum) -> Datum:
    return pc.or_(pc.less(a, b), pc.and_(pc.is_nan(b), pc.invert(pc.is_nan(a))))


def _floating_less_equal(a: Datum, b: Datum) -> Datum:
    return pc.or_(pc.less_equal(a, b), pc.is_nan(b))


FLOATING: dict[str, Kernel] = {
    "=": _floating_equal,
    "<>": lambda a, b: pc.invert(_floating_equal(a, b)),
    "<": _floating_less,
    "<=": _floating_less_equal,
    ">": lambda a, b: _floating_less(b, a),
    ">=": lambda a, b: _floating_less_equal(b, a),
}


def ordered(sign: str, type: pa.DataType) -> Kernel:
    """The kernel of a comparison between values of one type."""
    if is_nested(type):
        return lambda a, b: PLAIN[sign](comparable(a), comparable(b))
    return FLOATING[sign] if is_floating(type) else PLAIN[sign]


def compare(left: Expr, right: Expr, sign: str) -> Expr:
    """A comparison, after both sides have been brought together as Spark does."""
    if is_whole(left.type) and _is_decimal_literal(right):
        return _whole_against_decimal(left, right, sign)
    if is_whole(right.type) and _is_decimal_literal(left):
        return _whole_against_decimal(right, left, _MIRRORED[sign])
    left, right = _together(left, right, sign)
    if left.is_null:
        return null(BOOLEAN)
    if is_floating(left.type) and _is_number(right):
        # The kernels for NaN cost three passes more; against a plain number one or none is enough.
        plain = PLAIN[sign]
        if sign in (">", ">="):
            return apply(BOOLEAN, lambda a, b: pc.or_(plain(a, b), pc.is_nan(a)), left, right)
        return apply(BOOLEAN, plain, left, right)
    return apply(BOOLEAN, ordered(sign, left.type), left, right)


def _is_number(operand: Expr) -> bool:
    """True for a constant that is neither NaN nor NULL."""
    value = operand.constant
    return value is not None and bool(value.is_valid) and value.as_py() == value.as_py()


def _is_decimal_literal(operand: Expr) -> bool:
    return operand.literal and is_decimal(operand.type)


def _together(left: Expr, right: Expr, sign: str) -> tuple[Expr, Expr]:
    if left.type.equals(STRING) and right.type in (TIME_TYPE, DATE):
        left = _read_as(left, right.type)
    elif right.type.equals(STRING) and left.type in (TIME_TYPE, DATE):
        right = _read_as(right, left.type)
    if any(is_decimal(o.type) for o in (left, right)) and not any(
        is_floating(o.type) or o.is_null for o in (left, right)
    ):
        left, right = as_decimal(left), as_decimal(right)
        type = widest(left.type, right.type)
        return cast(left, type), cast(right, type)
    type = common_type((left, right), sign, nested=True)
    return coerce(left, type), coerce(right, type)


def _read_as(operand: Expr, type: pa.DataType) -> Expr:
    text = text_of(operand, "text beside a time")
    return parse_time(text) if type.equals(TIME_TYPE) else parse_date(text)


def _whole_against_decimal(whole: Expr, exact: Expr, sign: str) -> Expr:
    """`length > 1.5` without making decimals of all lengths: the bound is moved to a whole number."""
    assert exact.constant is not None
    bound: Decimal = exact.constant.as_py()
    floor = int(bound.to_integral_value(rounding="ROUND_FLOOR"))
    if floor != bound:
        if sign in ("=", "<>"):
            return _known(whole, sign == "<>")
        sign = {"<": "<=", ">=": ">"}.get(sign, sign)
    if not -(2**63) < floor < 2**63 - 1:
        raise NotEvaluable(f"{bound} is beyond BIGINT, where Spark answers for NULL too")
    return compare(cast(whole, BIGINT), constant(pa.scalar(floor, BIGINT)), sign)


def _known(operand: Expr, truth: bool) -> Expr:
    """`truth` wherever the operand is not NULL."""
    answer, unknown = pa.scalar(truth), pa.scalar(None, BOOLEAN)
    return apply(BOOLEAN, lambda a: pc.if_else(pc.is_null(a), unknown, answer), operand)


def comparison(sign: str) -> Handler:
    def handler(node: exp.Binary, build: Build) -> Expr:
        return compare(build(node.this), build(node.expression), sign)

    return handler


def same(left: Expr, right: Expr) -> Expr:
    """<=>: equal, or both NULL; never NULL itself."""

    def kernel(equal: Datum, a: Datum, b: Datum) -> Datum:
        return pc.coalesce(equal, pc.and_(pc.is_null(a), pc.is_null(b)))

    return apply(BOOLEAN, kernel, compare(left, right, "="), left, right)


def null_safe(negated: bool) -> Handler:
    def handler(node: exp.Binary, build: Build) -> Expr:
        equal = same(build(node.this), build(node.expression))
        return apply(BOOLEAN, pc.invert, equal) if negated else equal

    return handler


def is_(node: exp.Is, build: Build) -> Expr:
    """IS NULL, IS TRUE, IS FALSE."""
    operand = build(node.this)
    if isinstance(node.expression, exp.Null):
        return is_null(operand)
    if isinstance(node.expression, exp.Boolean) and (operand.type.equals(BOOLEAN) or operand.is_null):
        return same(operand, build(node.expression))
    raise NotEvaluable("IS is only evaluated with NULL, TRUE and FALSE")


def is_null(operand: Expr) -> Expr:
    return apply(BOOLEAN, pc.is_null, operand)


def is_not_null(operand: Expr) -> Expr:
    return apply(BOOLEAN, pc.is_valid, operand)


def between(node: exp.Between, build: Build) -> Expr:
    operand, low, high = build(node.this), build(node.args["low"]), build(node.args["high"])
    return apply(BOOLEAN, pc.and_kleene, compare(operand, low, ">="), compare(operand, high, "<="))


def in_list(node: exp.In, build: Build) -> Expr:
    """True if equal to one of the list, NULL if not but something is NULL, else false."""
    if not node.expressions:
        raise NotEvaluable("IN is only evaluated with a list of values")
    many = many_values(node)
    if many is not None:
        return _in_many(build(node.this), many, build)
    operand, values = build(node.this), [build(value) for value in node.expressions]
    type = common_type([operand, *values], "IN")
    if pa.types.is_null(type):
        return null(BOOLEAN)
    operand, values = coerce(operand, type), [coerce(value, type) for value in values]
    constants = [value.constant for value in values if value.constant is not None]
    if is_floating(type) or len(constants) < len(values):
        equals = [apply(BOOLEAN, ordered("=", type), operand, value) for value in values]
        return functools.reduce(lambda a, b: apply(BOOLEAN, pc.or_kleene, a, b), equals)
    wanted = pa.array([value.as_py() for value in constants if value.is_valid], type)
    return _one_of(operand, wanted, or_null=len(wanted) < len(values))


def _in_many(operand: Expr, many: exp.Var, build: Build) -> Expr:
    """The same for a long list of plain literals, of which none is NULL."""
    numbers = whole_numbers_of(many)
    if numbers is None:
        if not operand.type.equals(STRING):
            raise NotEvaluable("IN of a long list of texts is only evaluated for text")
        return _one_of(operand, pa.array(texts_of(many), STRING), or_null=False)
    widest_value = exp.Literal.number(str(max(abs(number) for number in numbers)))
    type = common_type([operand, build(widest_value)], "IN")
    try:
        wanted = pa.array(numbers, BIGINT)
        if is_decimal(type):
            wanted = pc.cast(wanted, pa.decimal256(_DIGITS + type.scale, type.scale))
        wanted = cast_values(wanted, type)
    except pa.ArrowInvalid:
        raise NotEvaluable(f"not all values of a long list are of type {name(type)}") from None
    operand = coerce(operand, type)
    if is_floating(type):
        operand = apply(type, lambda a: pc.add(a, pa.scalar(0.0, type)), operand)  # -0.0 is 0.0
    return _one_of(operand, wanted, or_null=False)


def _one_of(operand: Expr, wanted: pa.Array, *, or_null: bool) -> Expr:
    otherwise = pa.scalar(None if or_null else False, BOOLEAN)
    unknown = pa.scalar(None, BOOLEAN)

    def kernel(a: Datum) -> Datum:
        is_in = pc.is_in(a, value_set=wanted)
        return pc.if_else(pc.is_null(a), unknown, pc.if_else(is_in, is_in, otherwise))

    return apply(BOOLEAN, kernel, operand)
