"""The aggregate functions: what each keeps, and how its answer is read from that.

`FUNCTIONS` is the whole list. Types follow Spark SQL, except that avg is always DOUBLE.

Two classes, after L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data
Streams" (2003), §4.2. An `Aggregate` is incremental: it is combined from partial answers of panes.
The paper counts variance among those that need every tuple; combining counts, means and squared
differences pairwise makes it incremental. A `ValueAggregate` becomes incremental with a histogram
of the window: it is read from an index of the values in it (`operators.window_values`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError, did_you_mean
from anabranch.kernels.fold import Count, Exact, Extreme, FloatSum, IntegerSum, Moments, State
from anabranch.kernels.registers import Registers
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


@dataclass(frozen=True)
class ValueAggregate:
    """An aggregate function that is read from the values in a window and how often each is there."""

    type: pa.DataType
    question: Literal["rank", "mode", "distinct"]
    """What the index is asked for."""
    fraction: float = 0.0
    """Where among the values in order; for ranks."""
    interpolated: bool = False
    """Between the two values beside the place, as a DOUBLE; else the first value that reaches it."""
    approximate: bool = False
    """From counts of ranges of values instead of values."""


_CALL = re.compile(r"(\w+)(?:\(([^()]*)\))?")


def aggregate(function: str, type_: pa.DataType | None) -> Aggregate | ValueAggregate:
    """The aggregate `function` over an argument of a type (None: count(*)).

    Constant parameters stand in parentheses: `percentile(0.95)`.
    """
    match = _CALL.fullmatch(function.lower())
    name = match[1] if match else function.lower()
    if match is not None and name in WITH_PARAMETER:
        if type_ is None:
            raise QueryError("AGGREGATE_ARGUMENT_MISSING", f"{name} needs an argument", hint=f"write {name}(column, …)")
        return WITH_PARAMETER[name](name, type_, _parameter(name, match[2]))
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


def _median(name: str, type_: pa.DataType) -> ValueAggregate:
    return _percentile(name, type_, 0.5)


def _mode(name: str, type_: pa.DataType) -> ValueAggregate:
    _need_order(name, type_)
    return ValueAggregate(type_, "mode")


def _count_distinct(name: str, type_: pa.DataType) -> ValueAggregate:
    _need_order(name, type_)
    return ValueAggregate(pa.int64(), "distinct")


def _percentile(name: str, type_: pa.DataType, fraction: float) -> ValueAggregate:
    _need_number(name, type_)
    return ValueAggregate(pa.float64(), "rank", fraction, interpolated=True)


def _percentile_disc(name: str, type_: pa.DataType, fraction: float) -> ValueAggregate:
    _need_order(name, type_)
    return ValueAggregate(type_, "rank", fraction)


def _approx_percentile(name: str, type_: pa.DataType, fraction: float) -> ValueAggregate:
    _need_number(name, type_)
    if pa.types.is_decimal(type_):
        raise _wrong_type(name, type_, "an integer or a DOUBLE")
    return ValueAggregate(type_, "rank", fraction, approximate=True)


def _approx_count_distinct(name: str, type_: pa.DataType, deviation: float) -> Aggregate:
    _need_order(name, type_)
    sketch = Registers(deviation)
    return Aggregate(pa.int64(), {f"registers {sketch.bits}": sketch}, lambda columns: sketch.estimate(columns[0][0]))


WITH_PARAMETER: dict[str, Callable[[str, pa.DataType, float], Aggregate | ValueAggregate]] = {
    "percentile": _percentile,
    "percentile_disc": _percentile_disc,
    "approx_percentile": _approx_percentile,
    "approx_count_distinct": _approx_count_distinct,
}
"""Functions with one constant parameter."""


def _parameter(name: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    low, high = (0.01, 0.4) if name == "approx_count_distinct" else (0.0, 1.0)
    if not low <= value <= high:
        raise QueryError(
            "AGGREGATE_PARAMETER", f"{name} takes a constant from {low:g} to {high:g}, got {text or 'nothing'}"
        )
    return value


FUNCTIONS: dict[str, Callable[[str, pa.DataType], Aggregate | ValueAggregate]] = {
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
    "median": _median,
    "mode": _mode,
    "count_distinct": _count_distinct,
}


def _sum_or_null(columns: Columns) -> pa.Array:
    n, total = (c[0].to_numpy() for c in columns)
    return pa.array(total, mask=n == 0)


def _need_order(name: str, type_: pa.DataType) -> None:
    if not (has_order_number(type_) or pa.types.is_string(type_) or pa.types.is_binary(type_)) and not (
        pa.types.is_decimal(type_)
    ):
        raise _wrong_type(name, type_, "a value with an order")


def _need_number(name: str, type_: pa.DataType) -> None:
    if not (pa.types.is_signed_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)):
        raise _wrong_type(name, type_, "a number")


def _wrong_type(name: str, type_: pa.DataType, wanted: str) -> QueryError:
    shown = "NULL" if pa.types.is_null(type_) else sql_type(type_)
    return QueryError("AGGREGATE_TYPE_MISMATCH", f"{name} of {shown} was asked for, it needs {wanted}")
