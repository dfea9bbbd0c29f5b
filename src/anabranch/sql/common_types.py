"""The type in which Spark brings two columns together, where a set operation compares them."""

from __future__ import annotations

import pyarrow as pa

from anabranch.expressions import NotEvaluable
from anabranch.expressions.types import DATE, DIGITS, WIDENING, decimal_type, is_decimal, name
from anabranch.schema import TIME_TYPE


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The narrower type that holds both; raises NotEvaluable where there is none.

    >>> common_type(pa.int32(), pa.int64())
    DataType(int64)
    """
    if one.equals(other) and not pa.types.is_null(one):
        return one
    for this, that in ((one, other), (other, one)):
        if pa.types.is_null(this) and not pa.types.is_null(that):
            return that
        if this.equals(DATE) and that.equals(TIME_TYPE):
            return that
        if is_decimal(this) and that in DIGITS:
            whole = max(this.precision - this.scale, DIGITS[that])
            return decimal_type(whole + this.scale, this.scale)
    if one in WIDENING and other in WIDENING:
        return max(one, other, key=WIDENING.index)
    raise NotEvaluable(f"{name(one)} and {name(other)} have no common type")
