"""Standing queries with aggregates: groups inside windows.

A group is complete, and its answer row final, when its window has passed; that is what bounds
what the query keeps. So every aggregate has a window, from the WINDOW clause or from GROUP BY.
SELECT DISTINCT is a GROUP BY of what it selects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa
from sqlglot import exp

from anabranch.functions.aggregates import row_of
from anabranch.operators.base import Operator
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.changes import WindowChanges
from anabranch.operators.windows.sets import WindowSetOperation
from anabranch.schema import StreamSchema
from anabranch.sql.reading.hints import Structures, structures_of_aggregates
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import Scope
from anabranch.sql.standing.rows import Output
from anabranch.sql.standing.sources import Lookup, one_stream
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import is_aggregate
from anabranch.sql.windows.aggregate_reader import AggregateReader
from anabranch.sql.windows.grouped import Grouped, read_grouped, wrong_windows
from anabranch.sql.windows.last_rows import plan_last_rows
from anabranch.sql.windows.rows import without_stars
from anabranch.sql.windows.sessions import plan_sessions
from anabranch.sql.windows.windowed import limit_of, order_of, with_change

AnyAggregate = TypeVar("AnyAggregate", bound=Operator)


@dataclass(frozen=True)
class Aggregated(Generic[AnyAggregate]):
    """An aggregate that stands alone or is part of another; `outputs` is its select list, over columns of `inner`."""

    operator: AnyAggregate
    schema: StreamSchema
    outputs: tuple[Output, ...]
    inner: pa.Schema


def is_window_aggregate(select: Select) -> bool:
    """True for aggregates, and for DISTINCT in windows, which is one."""
    tree = select.tree
    if not isinstance(tree, exp.Select):
        return False
    return is_aggregate(tree) or (bool(tree.args.get("distinct")) and select.window is not None)


def plan_window_aggregate(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator of a windowed aggregate, or of its changes."""
    scope, tree = one_stream(select, lookup)
    if tree.args.get("distinct"):
        refuse_distinct_groups(select, tree)
        tree = without_stars(scope, tree)
    grouped = read_grouped(scope, tree)
    if grouped.window.kind == "session":
        return plan_sessions(grouped)
    if grouped.window.kind == "last rows":
        return plan_last_rows(grouped)
    aggregated = _aggregated(grouped)
    return final_or_changes(select, aggregated.operator, aggregated.schema)


def final_or_changes(
    select: Select, operator: WindowAggregate | WindowSetOperation, schema: StreamSchema
) -> StandingPlan:
    """The answers of windows, or with EMIT CHANGES how each differs from the one before."""
    if select.emit is not None and select.emit.changes:
        return StandingPlan(WindowChanges(operator), None, with_change(select, schema), schema.time)
    return StandingPlan(operator, None, schema, schema.time)


def refuse_distinct_groups(select: Select, tree: exp.Select) -> None:
    if is_aggregate(tree):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "DISTINCT cannot stand beside aggregates or GROUP BY",
            tree,
            hint="leave DISTINCT out; GROUP BY gives each group once",
            keyword="DISTINCT",
        )


def aggregate_of(scope: Scope, tree: exp.Select) -> Aggregated[WindowAggregate]:
    """The groups inside windows of one stream, which are all of one length."""
    grouped = read_grouped(scope, tree)
    if grouped.window.kind != "sliding":
        raise wrong_windows(grouped)
    return _aggregated(grouped)


def _aggregated(grouped: Grouped) -> Aggregated[WindowAggregate]:
    scope, reader, window = grouped.scope, grouped.reader, grouped.window
    structures = _structures(reader)
    operator = WindowAggregate(
        stream=scope.stream,
        unit=window.unit,
        size=window.size,
        slide=window.slide,
        keys=reader.named_keys(),
        aggregates=reader.named_aggregates(),
        columns=grouped.columns,
        time=grouped.stamp.name,
        filter=grouped.filter,
        having=grouped.having,
        order=order_of(scope, grouped.ordering, grouped.inner),
        limit=limit_of(scope, grouped.tree),
        index=structures.index,
        storage=structures.storage,
    )
    return Aggregated(operator, grouped.schema, grouped.selected, grouped.inner)


def _structures(reader: AggregateReader) -> Structures:
    rows = [(row_of(function), name) for name, (function, _) in reader.aggregates.items()]
    values = [(row.approximate, name) for row, name in rows if row.kind == "holistic"]
    return structures_of_aggregates(
        reader.scope.select,
        [name for approximate, name in values if not approximate],
        [name for approximate, name in values if approximate],
    )
