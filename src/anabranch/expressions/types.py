"""Which types there are, and how Spark brings different ones together.

The numeric types widen in the order TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE. DECIMAL meets
whole numbers exactly, by Spark's rules for precision and scale, as long as 38 digits suffice; a
DECIMAL literal meets FLOAT and DOUBLE as DOUBLE. Text is never turned into a number here.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.column_types import is_list_like, is_nested
from anabranch.expressions.expr import Datum, Expr, NotEvaluable, apply, constant, null
from anabranch.schema import TIME_TYPE, TYPES, sql_type

BOOLEAN, STRING, DATE = TYPES["BOOLEAN"], TYPES["STRING"], TYPES["DATE"]
INT, BIGINT, FLOAT, DOUBLE = TYPES["INT"], TYPES["BIGINT"], TYPES["FLOAT"], TYPES["DOUBLE"]
INTERVAL = pa.duration("us")
WIDENING = (pa.int8(), pa.int16(), INT, BIGINT, FLOAT, DOUBLE)
DIGITS = {pa.int8(): 3, pa.int16(): 5, INT: 10, BIGINT: 20}
"""The precision of the DECIMAL that Spark makes of each whole type."""
MAX_PRECISION = 38


def name(type: pa.DataType) -> str:
    """The type as SQL calls it."""
    if pa.types.is_null(type):
        return "NULL"
    return "INTERVAL" if type.equals(INTERVAL) else sql_type(type)


def column_type(type: pa.DataType) -> pa.DataType:
    """The type a column has in expressions."""
    if pa.types.is_dictionary(type):
        type = type.value_type
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return STRING
    if type in TYPES.values() or pa.types.is_decimal128(type):
        return type
    if is_list_like(type):
        return pa.list_(column_type(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, column_type(field.type)) for field in type])
    raise NotEvaluable(f"a column of Arrow type {type} is not read here")


def is_whole(type: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type))


def is_floating(type: pa.DataType) -> bool:
    return type in (FLOAT, DOUBLE)


def is_decimal(type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type))


def is_number(type: pa.DataType) -> bool:
    """Whole or floating; DECIMAL has rules of its own."""
    return type in WIDENING


def require(operand: Expr, wanted: pa.DataType, what: str) -> Expr:
    """`operand` if it has the type, where Spark would convert others in ways not done here."""
    if not operand.type.equals(wanted):
        raise NotEvaluable(f"{what} wants {name(wanted)}, got {name(operand.type)}")
    return operand


def require_number(operand: Expr, what: str) -> Expr:
    if not is_number(operand.type):
        raise NotEvaluable(f"{what} of {name(operand.type)} is not evaluated here")
    return operand


def condition(operand: Expr, what: str) -> Expr:
    """`operand` as BOOLEAN; an untyped NULL is an unknown truth."""
    return null(BOOLEAN) if operand.is_null else require(operand, BOOLEAN, what)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    if precision > MAX_PRECISION:
        raise NotEvaluable(f"DECIMAL({precision},{scale}) is beyond {MAX_PRECISION} digits, Spark rounds there")
    return pa.decimal128(precision, scale)


def bounded_decimal(whole: int, scale: int) -> pa.DataType:
    """A DECIMAL of so many digits before and behind the point; beyond 38, Spark rather rounds than overflows."""
    return pa.decimal128(min(whole + scale, MAX_PRECISION), min(scale, MAX_PRECISION - whole))


def widest(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The type in which Spark compares and unites values of two types, text aside; raises NotEvaluable for none.

    >>> widest(pa.int64(), pa.float32()), widest(pa.decimal128(12, 3), pa.decimal128(38, 2))
    (DataType(float), Decimal128Type(decimal128(38, 2)))
    """
    if first.equals(second) and not pa.types.is_null(first):
        return first
    for this, that in ((first, second), (second, first)):
        if pa.types.is_null(this) and not pa.types.is_null(that):
            return that
        if this.equals(DATE) and that.equals(TIME_TYPE):
            return that
        if is_decimal(this) and is_floating(that):
            return DOUBLE
    if first in WIDENING and second in WIDENING:
        return max(first, second, key=WIDENING.index)
    if all(is_decimal(type_) or type_ in DIGITS for type_ in (first, second)):
        (whole, scale), (more_whole, more_scale) = _digits(first), _digits(second)
        return bounded_decimal(max(whole, more_whole), max(scale, more_scale))
    raise NotEvaluable(f"{name(first)} and {name(second)} have no common type")


def _digits(type: pa.DataType) -> tuple[int, int]:
    """Digits before and behind the point of a whole number or a DECIMAL."""
    return (type.precision - type.scale, type.scale) if is_decimal(type) else (DIGITS[type], 0)


def as_decimal(operand: Expr) -> Expr:
    """A whole number as the DECIMAL Spark makes of it beside another DECIMAL."""
    if is_decimal(operand.type):
        return operand
    if not is_whole(operand.type):
        raise NotEvaluable(f"{name(operand.type)} beside DECIMAL is not evaluated here")
    if operand.constant is None or (operand.literal and operand.type.equals(pa.int8())):  # 5Y is no literal to Spark
        return cast(operand, pa.decimal128(DIGITS[operand.type], 0))
    if not operand.literal:
        raise NotEvaluable("the precision of a computed constant beside DECIMAL is Spark's to choose")
    value = Decimal(operand.constant.as_py())
    return constant(pa.scalar(value, pa.decimal128(len(value.as_tuple().digits), 0)))


def common_type(operands: Sequence[Expr], what: str, *, nested: bool = False) -> pa.DataType:
    """The type in which Spark brings the operands together, where no value can change its meaning.

    `nested`: arrays and structs are taken, too, where all have one type.
    """
    types = [operand.type for operand in operands if not operand.is_null]
    if not types:
        return pa.null()
    if all(type.equals(types[0]) for type in types) and not types[0].equals(INTERVAL):
        if is_nested(types[0]) and not nested:
            raise NotEvaluable(f"{what} of {name(types[0])} is not evaluated here")
        return types[0]
    if all(map(is_number, types)):
        return max(types, key=WIDENING.index)
    if all(type.equals(DATE) or type.equals(TIME_TYPE) for type in types):
        return TIME_TYPE
    if all(is_number(type) or is_decimal(type) for type in types):
        return functools.reduce(widest, types)
    raise NotEvaluable(f"{what} of " + " and ".join(dict.fromkeys(map(name, types))) + " is Spark's to convert")


def coerce(operand: Expr, to: pa.DataType) -> Expr:
    """`operand` in a type that `common_type` chose."""
    if operand.type.equals(to):
        return operand
    if operand.is_null:
        return null(to)
    return cast(operand, to)


def from_decimal_literal(operand: Expr, to: pa.DataType, *, literal: bool = False) -> Expr:
    """A DECIMAL literal as the nearest FLOAT or DOUBLE, rounded once."""
    if not (operand.literal and operand.constant is not None and is_floating(to)):
        raise NotEvaluable(f"DECIMAL to {name(to)} is not evaluated here")
    exact: Decimal = operand.constant.as_py()
    double = float(exact)
    if to.equals(FLOAT):
        (bits,) = struct.unpack("<Q", struct.pack("<d", double))
        halfway = bits & 0x1FFFFFFF == 0x10000000
        if (halfway and Decimal(double) != exact) or not math.isfinite(double) or abs(double) > 3.4e38:
            raise NotEvaluable(f"{exact} as FLOAT is Spark's to round")
    return constant(pa.scalar(double, to), literal=literal)


def cast(operand: Expr, to: pa.DataType) -> Expr:
    """A conversion that cannot overflow, or wraps whole numbers as Java does; rounds to nearest."""
    return operand if operand.type.equals(to) else apply(to, lambda values: cast_values(values, to), operand)


def cast_values(values: Datum, to: pa.DataType) -> Datum:
    """Values in another type, to the bit as Java has them."""
    source = values.type
    if is_decimal(source) and is_floating(to):
        # Arrow multiplies the digits by a power of ten that is not exact; read from text they are rounded once.
        return pc.cast(pc.cast(values, STRING), to)
    if is_decimal(source) and is_decimal(to) and to.scale < source.scale:
        wide = pc.cast(values, pa.decimal256(76, source.scale))
        return pc.cast(pc.round(wide, to.scale, "half_towards_infinity"), to)
    return pc.cast(values, to, safe=False)
