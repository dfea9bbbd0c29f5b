"""The aggregate functions: what each keeps, and how its answer is read from that.

`FUNCTIONS` is the whole list. Types follow Spark SQL, except that avg is always DOUBLE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError, did_you_mean
from anabranch.kernels.fold import Count, Exact, Extreme, FloatSum, IntegerSum, Moments, State
from anabranch.kernels.values import from_order_numbers, has_order_number
from anabranch.schema import sql_type

Columns = Sequence[Sequence[pa.Array]]
"""The columns of each state an aggregate asked for."""


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function applied to an argument of one type."""

    type: pa.DataType
    states: dict[str, State]
    """What it keeps, by a name that is the same for aggregates that can share it."""
    finish: Callable[[Columns], pa.Array]


def aggregate(function: str, type_: pa.DataType | None) -> Aggregate:
    """The aggregate `function` over an argument of a type (None: count(*))."""
    name = function.lower()
    if name not in FUNCTIONS:
        raise QueryError(
            "AGGREGATE_NOT_FOUND", f'"{function}" is not an aggregate function', hint=did_you_mean(name, FUNCTIONS)
        )
    if type_ is None:
        if name != "count":
            raise QueryError("AGGREGATE_ARGUMENT_MISSING", f"{name} needs an argument", hint=f"write {name}(column)")
        return Aggregate(pa.int64(), {"count": Count()}, lambda columns: columns[0][0])
    return FUNCTIONS[name](name, type_)


def _count(name: str, type_: pa.DataType) -> Aggregate:
    return Aggregate(pa.int64(), {"count": Count()}, lambda columns: columns[0][0])


def _sum(name: str, type_: pa.DataType) -> Aggregate:
    counted: dict[str, State] = {"count": Count()}
    if pa.types.is_signed_integer(type_):
        return Aggregate(pa.int64(), {**counted, "integer_sum": IntegerSum()}, _sum_or_null)
    if pa.types.is_decimal(type_):
        wide = pa.decimal128(38, type_.scale)
        return Aggregate(wide, {"decimal_sum": Exact("sum", wide)}, lambda columns: columns[0][0])
    if pa.types.is_floating(type_):
        return Aggregate(pa.float64(), {**counted, "float_sum": FloatSum()}, _sum_or_null)
    raise _wrong_type(name, type_, "a number")


def _avg(name: str, type_: pa.DataType) -> Aggregate:
    _need_number(name, type_)

    def finish(columns: Columns) -> pa.Array:
        n, total = (c[0].to_numpy() for c in columns)
        return pa.array(total / np.maximum(n, 1), mask=n == 0)

    return Aggregate(pa.float64(), {"count": Count(), "float_sum": FloatSum()}, finish)


def _extreme(name: str, type_: pa.DataType) -> Aggregate:
    if has_order_number(type_):
        return Aggregate(
            type_,
            {"count": Count(), name: Extreme(largest=name == "max")},
            lambda columns: from_order_numbers(columns[1][0].to_numpy(), columns[0][0].to_numpy() > 0, type_),
        )
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_decimal(type_):
        return Aggregate(type_, {name: Exact(name, type_)}, lambda columns: columns[0][0])
    raise _wrong_type(name, type_, "a value with an order")


def _spread(less: int, root: bool) -> Callable[[str, pa.DataType], Aggregate]:
    """Variance with divisor n - less, or its root."""

    def build(name: str, type_: pa.DataType) -> Aggregate:
        _need_number(name, type_)

        def finish(columns: Columns) -> pa.Array:
            n, _, m2 = (c.to_numpy() for c in columns[0])
            variance: NDArray[np.float64] = m2 / np.maximum(n - less, 1)
            return pa.array(np.sqrt(variance) if root else variance, mask=n <= less)

        return Aggregate(pa.float64(), {"moments": Moments()}, finish)

    return build


FUNCTIONS: dict[str, Callable[[str, pa.DataType], Aggregate]] = {
    "count": _count,
    "sum": _sum,
    "min": _extreme,
    "max": _extreme,
    "avg": _avg,
    "stddev": _spread(1, root=True),
    "stddev_samp": _spread(1, root=True),
    "stddev_pop": _spread(0, root=True),
    "variance": _spread(1, root=False),
    "var_samp": _spread(1, root=False),
    "var_pop": _spread(0, root=False),
}


def _sum_or_null(columns: Columns) -> pa.Array:
    n, total = (c[0].to_numpy() for c in columns)
    return pa.array(total, mask=n == 0)


def _need_number(name: str, type_: pa.DataType) -> None:
    if not (pa.types.is_signed_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)):
        raise _wrong_type(name, type_, "a number")


def _wrong_type(name: str, type_: pa.DataType, wanted: str) -> QueryError:
    shown = "NULL" if pa.types.is_null(type_) else sql_type(type_)
    return QueryError("AGGREGATE_TYPE_MISMATCH", f"{name} of {shown} was asked for, it needs {wanted}")
