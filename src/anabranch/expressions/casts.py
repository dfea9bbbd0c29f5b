"""CAST as Spark does it without ANSI mode: nothing fails, what does not fit wraps or is cut.

Text is not parsed into numbers, nor numbers with a fraction or times written as text: their forms
differ between Arrow and Java.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.errors import DataError
from anabranch.expressions.expr import Build, Datum, Expr, NotEvaluable, apply, null
from anabranch.expressions.literals import parse_date, parse_time, text_of
from anabranch.expressions.times import floor_divide, to_micros
from anabranch.expressions.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DIGITS,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    cast,
    from_decimal_literal,
    is_decimal,
    is_floating,
    is_number,
    is_whole,
    name,
)
from anabranch.schema import TIME_TYPE, arrow_type


def cast_node(node: exp.Cast, build: Build) -> Expr:
    to = _target(node.to)
    operand = build(node.this)
    if operand.type.equals(to):
        return apply(to, lambda a: a, operand)
    if operand.is_null:
        return null(to)
    converted = _convert(operand, to)
    if converted is None:
        raise NotEvaluable(f"CAST from {name(operand.type)} to {name(to)} is not evaluated here")
    return converted


def _target(to: exp.DataType) -> pa.DataType:
    if to.this in (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMP):
        return TIME_TYPE
    try:
        return arrow_type(to.sql(dialect="spark"))
    except DataError:
        raise NotEvaluable(f"CAST to {to.sql(dialect='spark')} is not evaluated here") from None


def _convert(operand: Expr, to: pa.DataType) -> Expr | None:
    source = operand.type
    if source.equals(STRING) and to.equals(TIME_TYPE):
        return parse_time(text_of(operand, "CAST of text to TIMESTAMP"))
    if source.equals(STRING) and to.equals(DATE):
        return parse_date(text_of(operand, "CAST of text to DATE"))
    if source.equals(TIME_TYPE):
        return _from_time(operand, to)
    if source.equals(DATE) and to.equals(TIME_TYPE):
        return cast(operand, to)
    if is_decimal(source) and to.equals(DOUBLE):
        return cast(operand, to)
    if is_decimal(source) and to.equals(FLOAT):
        return from_decimal_literal(operand, to)
    if is_decimal(source) and is_decimal(to):
        rounds = to.scale < source.scale  # and may so need a digit more
        fits = to.precision - to.scale >= source.precision - source.scale + rounds
        return cast(operand, to) if fits else None
    if source.equals(BOOLEAN) and (is_number(to) or to.equals(STRING)):
        return cast(cast(operand, pa.int8()), to) if is_number(to) else cast(operand, to)
    if is_whole(source) and is_decimal(to) and to.precision - to.scale >= DIGITS[source]:
        return cast(operand, to)
    if is_whole(source) and to.equals(STRING):
        return cast(operand, to)
    if is_number(source) and to.equals(BOOLEAN):
        return apply(BOOLEAN, lambda a: pc.not_equal(a, pa.scalar(0, source)), operand)
    if is_floating(source) and is_whole(to):
        return floating_to_whole(cast(operand, DOUBLE), to)
    return cast(operand, to) if is_number(source) and is_number(to) else None


def _from_time(operand: Expr, to: pa.DataType) -> Expr | None:
    if to.equals(DATE):
        days = apply(BIGINT, lambda a: floor_divide(a, 86_400_000_000), to_micros(operand))
        return cast(cast(days, INT), DATE)
    if to.equals(BIGINT):
        return apply(BIGINT, lambda a: floor_divide(a, 1_000_000), to_micros(operand))
    if to.equals(DOUBLE):
        return apply(DOUBLE, lambda a: pc.divide(a, 1e6), cast(to_micros(operand), DOUBLE))
    return None


def floating_to_whole(operand: Expr, to: pa.DataType) -> Expr:
    """DOUBLE to a whole type as Java does: cut towards zero, then to the ends of INT or BIGINT; NaN is 0.

    TINYINT and SMALLINT are the low bits of that INT.
    """
    wide = BIGINT if to.equals(BIGINT) else INT
    bits = wide.bit_width - 1
    low, high = pa.scalar(-(2**bits), wide), pa.scalar(2**bits - 1, wide)
    low_edge, high_edge = -float(2**bits), float(2**bits)

    def kernel(values: Datum) -> Datum:
        below, above = pc.less(values, low_edge), pc.greater_equal(values, high_edge)
        outside = pc.or_(pc.or_(below, above), pc.is_nan(values))
        cut = pc.cast(pc.trunc(pc.if_else(outside, 0.0, values)), wide, safe=False)
        return pc.cast(pc.if_else(below, low, pc.if_else(above, high, cut)), to, safe=False)

    return apply(to, kernel, operand)
