"""Standing queries with aggregates: groups inside windows.

A group is complete, and its answer row final, when its window has passed; that is what bounds
what the query keeps. So every aggregate has a window, from the WINDOW clause or from GROUP BY.
SELECT DISTINCT is a GROUP BY of what it selects.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.window_aggregate import WindowAggregate
from anabranch.schema import ARRIVAL_COLUMN, StreamSchema
from anabranch.sql.aggregate_functions import APPROXIMATE_WITH_HISTOGRAM, EXACT_WITH_HISTOGRAM
from anabranch.sql.aggregate_reader import AggregateReader
from anabranch.sql.columns import Scope, sql_of
from anabranch.sql.group_by import checked
from anabranch.sql.hints import Structures, structures_of_aggregates
from anabranch.sql.rows import Output, answer_schema, check_names
from anabranch.sql.windowed import limit_of, order_of, orderings, stamp_of, time_of


@dataclass(frozen=True)
class AggregatePlan:
    """What planning a windowed aggregate gives; `outputs` are the columns of the select list, over those of `inner`."""

    operator: WindowAggregate
    schema: StreamSchema
    time: str
    pushed: str | None
    outputs: tuple[Output, ...]
    inner: pa.Schema


def plan_aggregate(scope: Scope, tree: exp.Select) -> AggregatePlan:
    """The operator of a windowed aggregate."""
    reader = AggregateReader(scope, tree)
    reader.read()
    where = tree.args.get("where")
    filter_tree = checked(scope, where.this, boolean=True) if where is not None else None
    outputs = reader.outputs()
    having = reader.having()
    window = reader.groups.window
    by_name = {out.name.lower(): out.value for out in outputs}
    ordering = orderings(scope, tree, outputs, lambda key: reader.rewrite(key, {}, by_name))
    inner = reader.check(outputs, having)
    selected = tuple(outputs)
    stamp = stamp_of(outputs, window)
    if stamp is None:
        stamp = Output(ARRIVAL_COLUMN, time_of(window), tree)
        outputs = [*outputs, stamp]
    check_names(scope, outputs, stamp)
    filter_sql = sql_of(filter_tree) if filter_tree is not None else None
    structures = _structures(reader)
    operator = WindowAggregate(
        stream=scope.stream,
        unit=window.unit,
        size=window.size,
        slide=window.slide,
        keys=reader.named_keys(),
        aggregates=reader.named_aggregates(),
        columns=tuple((out.name, sql_of(out.value)) for out in outputs),
        time=stamp.name,
        filter=filter_sql,
        having=sql_of(having) if having is not None else None,
        order=order_of(scope, ordering, inner),
        limit=limit_of(scope, tree),
        index=structures.index,
        storage=structures.storage,
    )
    schema = answer_schema(scope, outputs, stamp.name, inner)
    return AggregatePlan(operator, schema, stamp.name, filter_sql, selected, inner)


def _structures(reader: AggregateReader) -> Structures:
    functions = [(function.partition("(")[0], name) for name, (function, _) in reader.aggregates.items()]
    return structures_of_aggregates(
        reader.scope.select,
        [name for function, name in functions if function in EXACT_WITH_HISTOGRAM],
        [name for function, name in functions if function in APPROXIMATE_WITH_HISTOGRAM],
    )
