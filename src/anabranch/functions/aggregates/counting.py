"""Counts of rows: `count`, and `count_if` with a condition."""

from __future__ import annotations

import pyarrow as pa

from anabranch.expressions.functions.declaring import Example
from anabranch.functions.aggregates.declaring import Aggregate, AggregateFunction, Applied, first_column
from anabranch.kernels.fold import Count


def _count(applied: Applied) -> Aggregate:
    return Aggregate(pa.int64(), {"count": Count()}, first_column)


COUNTING = (
    AggregateFunction(
        "count",
        "How many rows there are, or with an argument how many in which it is not NULL.",
        kind="distributive",
        takes="anything",
        gives="`BIGINT`",
        bind=_count,
        of_rows=True,
        distinct="count_distinct",
        empty=0,
        estimator="count",
        merges=True,
        example=Example("count(x)", 4),
    ),
    AggregateFunction(
        "count_if",
        "How many rows a condition holds for.",
        kind="distributive",
        takes="a condition",
        gives="`BIGINT`",
        stands_for="count",
        form="condition",
        empty=0,
        estimator="count",
        merges=True,
        example=Example("count_if(x > 1)", 3),
    ),
)
