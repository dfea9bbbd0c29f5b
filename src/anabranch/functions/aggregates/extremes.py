"""The smallest and the largest value."""

from __future__ import annotations

import pyarrow as pa

from anabranch.expressions.functions.declaring import Example
from anabranch.functions.aggregates.declaring import Aggregate, AggregateFunction, Applied, Columns, first_column
from anabranch.kernels.fold import Count, Exact, Extreme
from anabranch.kernels.values import from_order_numbers, has_order_number


def _extreme(applied: Applied) -> Aggregate:
    name, type_ = applied.name, applied.ordered()
    if not has_order_number(type_):
        return Aggregate(type_, {name: Exact(name, type_)}, first_column)

    def finish(columns: Columns) -> pa.Array:
        (count,), (number,) = columns
        return from_order_numbers(number.to_numpy(), count.to_numpy() > 0, type_)

    return Aggregate(type_, {"count": Count(), name: Extreme(largest=name == "max")}, finish)


EXTREMES = (
    AggregateFunction(
        "min",
        "The smallest value.",
        kind="distributive",
        takes="anything with an order",
        gives="its type",
        bind=_extreme,
        distinct="min",
        estimator="min",
        merges=True,
        example=Example("min(x)", 1),
    ),
    AggregateFunction(
        "max",
        "The largest value.",
        kind="distributive",
        takes="anything with an order",
        gives="its type",
        bind=_extreme,
        distinct="max",
        estimator="max",
        merges=True,
        example=Example("max(x)", 7),
    ),
)
