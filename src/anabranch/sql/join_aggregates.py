"""Aggregates over joins: the results whose newest row falls into a period, summed up when it has passed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.operators.window_join_aggregate import WindowJoinAggregate
from anabranch.schema import ARRIVAL_COLUMN, StreamSchema
from anabranch.sql.aggregate_functions import APPROXIMATE_WITH_HISTOGRAM, EXACT_WITH_HISTOGRAM, aggregate_name
from anabranch.sql.aggregate_reader import AggregateReader
from anabranch.sql.columns import sql_of
from anabranch.sql.joins import Join, refuse_changes
from anabranch.sql.rows import Output, answer_schema, check_names
from anabranch.sql.tree import Select, Window
from anabranch.sql.windowed import stamp_of, time_of, type_in_window


@dataclass(frozen=True)
class JoinAggregatePlan:
    """What planning an aggregate over a join gives; `outputs` are its columns over the types of `inner`."""

    operator: WindowJoinAggregate
    schema: StreamSchema
    time: str
    outputs: tuple[Output, ...]
    inner: pa.Schema


def plan_join_aggregate(select: Select, join: Join, tree: exp.Select) -> JoinAggregatePlan:
    """The operator of an aggregate over a join, answered as often as EMIT EVERY says."""
    refuse_changes(select)
    if select.every is None:
        raise _unbounded(select, tree)
    window = Window("time", select.every, select.every)
    for condition in join.rest:
        type_in_window(join.scope, condition, condition)
    scope = replace(join.scope, select=replace(select, window=window))
    reader = AggregateReader(scope, tree)
    reader.read()
    outputs = reader.outputs()
    having = reader.having()
    _refuse_values(select, reader, tree)
    inner = reader.check(outputs, having)
    stamp = stamp_of(outputs, window)
    if stamp is None:
        stamp = Output(ARRIVAL_COLUMN, time_of(window), tree)
        outputs = [*outputs, stamp]
    check_names(scope, outputs, stamp)
    operator = WindowJoinAggregate(
        join=join.operator((), ARRIVAL_COLUMN, ordered=True),
        period=select.every,
        keys=reader.named_keys(),
        aggregates=reader.named_aggregates(),
        columns=tuple((out.name, sql_of(out.value)) for out in outputs),
        time=stamp.name,
        having=sql_of(having) if having is not None else None,
    )
    schema = answer_schema(scope, outputs, stamp.name, inner)
    return JoinAggregatePlan(operator, schema, stamp.name, tuple(outputs), inner)


def _unbounded(select: Select, tree: exp.Select) -> SqlError:
    found = next((node for item in tree.expressions for node in item.walk() if aggregate_name(node)), None)
    what = f"{aggregate_name(found)}()" if found is not None else "GROUP BY"
    return select.error(
        "AGGREGATE_UNBOUNDED",
        f"{what} over a join would never be finished",
        found if found is not None else tree.args.get("group") or tree.args.get("having"),
        hint="add EMIT EVERY INTERVAL 1 MINUTE at the end",
    )


def _refuse_values(select: Select, reader: AggregateReader, tree: exp.Select) -> None:
    """Medians and their kin need every value of the period; the results of a join are not kept."""
    kept = (*EXACT_WITH_HISTOGRAM, *APPROXIMATE_WITH_HISTOGRAM)
    for shown, (function, argument) in reader.aggregates.items():
        if function.partition("(")[0] in kept:
            raise select.error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{shown} cannot be computed over a join",
                argument if argument is not None else tree,
                hint="make the join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and aggregate that",
            )
