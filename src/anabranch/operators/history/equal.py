"""Expressions of the live and the past stream that must be equal, brought to one type as Spark does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.values import Column, valid
from anabranch.operators.columns import Bound
from anabranch.schema import TIME_TYPE, sql_type


@dataclass(frozen=True)
class Equal:
    """Two expressions, and the type they are compared in."""

    live: Bound
    past: Bound
    type: pa.DataType

    @staticmethod
    def of(live: Bound, past: Bound) -> Equal:
        type_ = _common(live.type, past.type)
        if type_ is None:
            raise QueryError(
                "JOIN_KEYS_DIFFER",
                f"{live.sql} is {sql_type(live.type)} and {past.sql} is {sql_type(past.type)}: they are never equal",
                hint="CAST one of them",
            )
        return Equal(live, past, type_)


def keys_of(columns: list[Column], types: list[pa.DataType], length: int) -> tuple[list[Column], NDArray[np.bool_]]:
    """Columns as keys of the given types, of the rows that have no NULL; and which rows these are."""
    present = np.ones(length, np.bool_)
    for column in columns:
        if column.null_count:
            present &= valid(column)
    if not present.all():
        columns = [column.filter(pa.array(present)) for column in columns]
    return [_cast(column, type_) for column, type_ in zip(columns, types, strict=True)], present


def _cast(column: Column, type_: pa.DataType) -> Column:
    if column.type == type_:
        return column
    if pa.types.is_decimal(column.type) and pa.types.is_floating(type_):
        column = column.cast(pa.string())  # Arrow's own way from DECIMAL to DOUBLE is not exact
    return column.cast(type_, safe=False)


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that two types are compared in, None if they are not."""
    # Loads the SQL parser, which workers that only run what was planned do without.
    from anabranch.expressions import NotEvaluable
    from anabranch.expressions.types import DATE, DOUBLE, WIDENING, decimal_type, is_decimal, is_floating

    if pa.types.is_nested(one) or pa.types.is_null(one):
        return None
    if one == other:
        return one
    if one in WIDENING and other in WIDENING:
        return max(one, other, key=WIDENING.index)
    if {one, other} == {DATE, TIME_TYPE}:
        return TIME_TYPE
    kinds = [_digits(each) for each in (one, other)]
    if any(is_decimal(each) for each in (one, other)):
        if any(is_floating(each) for each in (one, other)):
            return DOUBLE
        if all(kind is not None for kind in kinds):
            (whole, scale), (more_whole, more_scale) = (kind for kind in kinds if kind is not None)
            try:
                return decimal_type(max(whole, more_whole) + max(scale, more_scale), max(scale, more_scale))
            except NotEvaluable:
                return None
    return None


def _digits(type_: pa.DataType) -> tuple[int, int] | None:
    """Digits before and after the point of a whole number or a DECIMAL."""
    from anabranch.expressions.types import DIGITS

    if pa.types.is_decimal(type_):
        return type_.precision - type_.scale, type_.scale
    return (DIGITS[type_], 0) if type_ in DIGITS else None
