"""How many different values there are: exactly, from those of the window, or about, from a sketch of each pane."""

from __future__ import annotations

import pyarrow as pa

from anabranch.expressions.functions.declaring import Example
from anabranch.functions.aggregates.declaring import Aggregate, AggregateFunction, Applied, Parameter, ValueAggregate
from anabranch.kernels.registers import Registers


def _count_distinct(applied: Applied) -> ValueAggregate:
    applied.ordered()
    return ValueAggregate(pa.int64(), "distinct")


def _approx_count_distinct(applied: Applied) -> Aggregate:
    applied.ordered()
    sketch = Registers(applied.parameter)
    return Aggregate(pa.int64(), {f"registers {sketch.bits}": sketch}, lambda columns: sketch.estimate(columns[0][0]))


DISTINCT = (
    AggregateFunction(
        "count_distinct",
        "How many different values there are.",
        kind="holistic",
        takes="one column with an order",
        gives="`BIGINT`",
        bind=_count_distinct,
        form="distinct",
        empty=0,
        estimator="count_distinct",
        example=Example("count(DISTINCT x)", 3),
    ),
    AggregateFunction(
        "approx_count_distinct",
        "About how many different values there are, from a sketch of each pane (HyperLogLog).",
        kind="algebraic",
        takes="anything with an order",
        gives="`BIGINT`",
        bind=_approx_count_distinct,
        form="value, perhaps error",
        # As in Spark; a finer sketch would take too much for each pane and group.
        parameter=Parameter("the standard error", 0.01, 0.4, default=0.05),
        error=lambda deviation: f"standard error {deviation * 100:g} %",
        empty=0,
        merges=True,
        example=Example("approx_count_distinct(x)", 3),
    ),
)
