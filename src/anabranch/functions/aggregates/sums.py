"""Sums and averages; types follow Spark SQL, except that avg is always DOUBLE."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.expressions.functions.declaring import Example
from anabranch.functions.aggregates.declaring import (
    Aggregate,
    AggregateFunction,
    Applied,
    Columns,
    first_column,
    null_without_rows,
)
from anabranch.kernels.fold import Count, Exact, IntegerSum
from anabranch.kernels.sums import DoubleSum, totals


def _sum(applied: Applied) -> Aggregate:
    type_ = applied.number()
    if pa.types.is_signed_integer(type_):
        return Aggregate(pa.int64(), {"count": Count(), "integer_sum": IntegerSum()}, null_without_rows)
    if pa.types.is_decimal(type_):
        wide = pa.decimal128(38, type_.scale)
        return Aggregate(wide, {"decimal_sum": Exact("sum", wide)}, first_column)
    return Aggregate(pa.float64(), {"count": Count(), "double_sum": DoubleSum()}, _double_sum)


def _avg(applied: Applied) -> Aggregate:
    applied.number()

    def finish(columns: Columns) -> pa.Array:
        (n,), (total,) = columns
        counts = n.to_numpy()
        return pa.array(totals(total) / np.maximum(counts, 1), mask=counts == 0)

    return Aggregate(pa.float64(), {"count": Count(), "double_sum": DoubleSum()}, finish)


def _double_sum(columns: Columns) -> pa.Array:
    (n,), (total,) = columns
    return pa.array(totals(total), mask=n.to_numpy() == 0)


SUMS = (
    AggregateFunction(
        "sum",
        "The sum; one that does not fit stops the query (`SUM_OVERFLOW`).",
        kind="distributive",
        takes="numbers",
        gives="`BIGINT` of whole numbers, `DOUBLE` of `FLOAT` and `DOUBLE`, `DECIMAL(38, s)` of `DECIMAL(p, s)`",
        bind=_sum,
        estimator="sum",
        merges=True,
        example=Example("sum(x)", 12),
    ),
    AggregateFunction(
        "avg",
        "The average.",
        ("mean",),
        kind="algebraic",
        takes="numbers",
        gives="`DOUBLE`",
        bind=_avg,
        estimator="avg",
        merges=True,
        example=Example("avg(x)", 3.0),
    ),
)
