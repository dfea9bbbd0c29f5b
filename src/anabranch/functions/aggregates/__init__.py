"""The one table of aggregates, and what a function of it is for an argument of a type.

The kinds are those of L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams"
(2003), §4.2: what can be put together from partial values of panes, and what needs a histogram of the window. An
`Aggregate` is put together from partial answers, a `ValueAggregate` is read from an index of the values in the window
(`operators.windows.values`).
"""

from __future__ import annotations

import math
import re

import pyarrow as pa

from anabranch.errors import QueryError, did_you_mean
from anabranch.expressions.functions.declaring import by_name
from anabranch.functions.aggregates.counting import COUNTING
from anabranch.functions.aggregates.declaring import Aggregate, AggregateFunction, Applied, ValueAggregate
from anabranch.functions.aggregates.distinct import DISTINCT
from anabranch.functions.aggregates.extremes import EXTREMES
from anabranch.functions.aggregates.quantiles import QUANTILES
from anabranch.functions.aggregates.spark_only import SPARK_ONLY
from anabranch.functions.aggregates.spread import SPREAD
from anabranch.functions.aggregates.sums import SUMS

__all__ = [
    "AGGREGATES",
    "Aggregate",
    "AggregateFunction",
    "ValueAggregate",
    "aggregate",
    "estimator_of",
    "parts_of",
    "row_of",
    "rows",
]

AGGREGATES: dict[str, AggregateFunction] = by_name([COUNTING, SUMS, EXTREMES, SPREAD, QUANTILES, DISTINCT, SPARK_ONLY])
"""Every aggregate by each of its names."""

_CALL = re.compile(r"(\w+)(?:\(([^()]*)\))?")


def rows() -> list[AggregateFunction]:
    """The rows of the table, each once, in its order."""
    return list({row.name: row for row in AGGREGATES.values()}.values())


def parts_of(function: str) -> tuple[str, str | None]:
    """The name and the constant of a function as operators have it, such as `percentile(0.95)`."""
    match = _CALL.fullmatch(function.lower())
    return (match[1], match[2]) if match else (function.lower(), None)


def row_of(function: str) -> AggregateFunction:
    """The row of a function as operators have it."""
    name = parts_of(function)[0]
    row = AGGREGATES.get(name)
    if row is None or row.bind is None:
        known = [name for name, row in AGGREGATES.items() if row.bind is not None]
        raise QueryError(
            "AGGREGATE_NOT_FOUND", f'"{function}" is not an aggregate function', hint=did_you_mean(name, known)
        )
    return row


def estimator_of(function: str) -> str:
    """What tells a function from part of the rows: one of `archive.estimation.sums.ESTIMATORS`."""
    row = AGGREGATES.get(parts_of(function)[0])
    if row is None or row.estimator is None:
        known = ", ".join(row.name for row in rows() if row.estimator is not None and row.bind is not None)
        raise QueryError(
            "NOT_ON_REDUCED_DATA",
            f"nothing can be said about {function} from part of the rows",
            hint=f"use one of {known}, or leave REDUCE BY out",
        )
    return row.estimator


def aggregate(function: str, type_: pa.DataType | None) -> Aggregate | ValueAggregate:
    """The aggregate `function` over an argument of a type (None: count(*)).

    The constant parameter stands in parentheses: `percentile(0.95)`.
    """
    row, (name, written) = row_of(function), parts_of(function)
    assert row.bind is not None
    if type_ is None and not row.of_rows:
        more = ", …" if row.parameter is not None else ""
        raise QueryError("AGGREGATE_ARGUMENT_MISSING", f"{name} needs an argument", hint=f"write {name}(column{more})")
    return row.bind(Applied(name, type_, 0.0 if row.parameter is None else _parameter(row, name, written)))


def _parameter(row: AggregateFunction, name: str, text: str | None) -> float:
    assert row.parameter is not None
    low, high = row.parameter.low, row.parameter.high
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise QueryError(
            "AGGREGATE_PARAMETER", f"{name} takes a constant from {low:g} to {high:g}, got {text or 'nothing'}"
        )
    return value
