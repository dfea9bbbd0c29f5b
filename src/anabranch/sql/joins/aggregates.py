"""Aggregates over joins: the results whose newest row falls into a period, summed up when it has passed."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.functions.aggregates import row_of
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.schema import ARRIVAL_COLUMN
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.joins.join import Join, is_join, read_join, refuse_changes
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import sql_of
from anabranch.sql.standing.rows import Output, answer_schema, check_names
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select, Window
from anabranch.sql.windows.aggregate_functions import aggregate_name, is_aggregate
from anabranch.sql.windows.aggregate_reader import AggregateReader
from anabranch.sql.windows.aggregates import Aggregated
from anabranch.sql.windows.windowed import stamp_of, time_of, type_in_window


def is_join_aggregate(select: Select) -> bool:
    """True for aggregates over several streams."""
    return is_join(select) and isinstance(select.tree, exp.Select) and is_aggregate(select.tree)


def plan_join_aggregate(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator of an aggregate over a join, answered as often as EMIT EVERY says."""
    refuse_archives(select)
    join, tree = read_join(select, lookup)
    aggregated = join_aggregate_of(select, join, tree)
    return StandingPlan(aggregated.operator, None, aggregated.schema, aggregated.schema.time)


def join_aggregate_of(select: Select, join: Join, tree: exp.Select) -> Aggregated[WindowJoinAggregate]:
    """The groups of the results of each period."""
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
    return Aggregated(operator, schema, tuple(outputs), inner)


def _unbounded(select: Select, tree: exp.Select) -> SqlError:
    call = next((node for item in tree.expressions for node in item.walk() if aggregate_name(node)), None)
    what = f"{aggregate_name(call)}()" if call is not None else "GROUP BY"
    return select.error(
        "AGGREGATE_UNBOUNDED",
        f"{what} over a join would never be finished",
        call if call is not None else tree.args.get("group") or tree.args.get("having"),
        hint="add EMIT EVERY INTERVAL 1 MINUTE at the end",
    )


def _refuse_values(select: Select, reader: AggregateReader, tree: exp.Select) -> None:
    """Medians and their kin need every value of the period; the results of a join are not kept."""
    for shown, (function, argument) in reader.aggregates.items():
        if row_of(function).kind == "holistic":
            raise select.error(
                "AGGREGATE_NOT_AVAILABLE",
                f"{shown} cannot be computed over a join",
                argument if argument is not None else tree,
                hint="make the join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and aggregate that",
            )
