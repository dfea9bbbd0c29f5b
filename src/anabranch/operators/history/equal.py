"""Expressions of the live and the past stream that must be equal, brought to one type as Spark does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.values import Column, valid
from anabranch.operators.columns import Bound
from anabranch.schema import sql_type


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
    return [_converted(column, type_) for column, type_ in zip(columns, types, strict=True)], present


def _converted(column: Column, type_: pa.DataType) -> Column:
    if column.type == type_:
        return column
    from anabranch.expressions.types import cast_values  # loads the SQL parser, which workers mostly do without

    return cast_values(column, type_)


def _common(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """The type that two types are compared in, None if they are not."""
    from anabranch.expressions import NotEvaluable
    from anabranch.expressions.types import widest

    if pa.types.is_nested(first) or pa.types.is_null(first) or pa.types.is_null(second):
        return None
    try:
        return widest(first, second)
    except NotEvaluable:
        return None
