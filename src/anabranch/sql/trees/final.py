"""Trees whose answers are final: rows that stay, and the whole answer of each window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.select import SelectRows
from anabranch.operators.tree.final import AT, final_schema
from anabranch.operators.tree.nodes import Rows, Source, nodes_to_text
from anabranch.operators.tree.of_rows import TreeOfRows
from anabranch.operators.tree.of_windows import TreeOfWindows
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema
from anabranch.sql.standing.columns import column, sql_of
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.trees.by_window import by_window, ends_of
from anabranch.sql.trees.plan import TreePlan
from anabranch.sql.trees.stamped import stamped, times_of


def plan_of_windows(select: Select, plan: TreePlan) -> StandingPlan:
    """The whole answer of each window, when it is over."""
    ends = ends_of(plan.nodes, plan.schemas)
    time = _time(select, plan, ends)
    nodes = by_window(plan.nodes, plan.schemas)
    operator = TreeOfWindows(nodes_to_text(nodes), plan.columns, time, _order(select.tree, plan.columns))
    return StandingPlan(operator, None, _schema(plan, time), time)


def plan_of_rows(select: Select, plan: TreePlan, lookup: Lookup) -> StandingPlan:
    """Rows that stay, in order of time."""

    def time_of(stream: str) -> str:
        return lookup(stream).time

    time = _time(select, plan, times_of(plan.nodes, plan.schemas, time_of))
    schema = _schema(plan, time)
    alone = _selection(plan, time, time_of)
    if alone is not None:
        return StandingPlan(alone, None, schema, time)
    nodes, keeping = stamped(plan.nodes, plan.schemas, time_of)
    bounds = tuple((keeping[number], bound) for number, bound in plan.bounds)
    operator = TreeOfRows(nodes_to_text(nodes), plan.columns, (), time, bounds=bounds)
    return StandingPlan(operator, None, schema, time)


def _time(select: Select, plan: TreePlan, stamps: frozenset[str]) -> str:
    """The column that is the time of the answer: the first that says it, or one more."""
    shown = dict(zip(plan.types.names, plan.columns, strict=True))
    stamp = next((name for own, name in shown.items() if own in stamps), None)
    for name in plan.columns:
        if name.lower() == ARRIVAL_COLUMN and name != stamp:
            raise select.error(
                "COLUMN_RESERVED",
                f'column "{ARRIVAL_COLUMN}" is kept for the time',
                select.tree,
                hint="give it another name with AS",
            )
    return stamp or ARRIVAL_COLUMN


def _schema(plan: TreePlan, time: str) -> StreamSchema:
    marked = plan.types.append(pa.field(AT, TIME_TYPE))
    return StreamSchema(final_schema(marked, plan.columns, time), time)


def _selection(plan: TreePlan, time: str, time_of: Callable[[str], str]) -> SelectRows | None:
    """The rows of one stream, each by itself, if that is all."""
    source, *rest = plan.nodes
    rows = rest[0] if rest else None
    if len(plan.nodes) > 2 or not isinstance(source, Source) or not (rows is None or isinstance(rows, Rows)):
        return None
    if any(own != name for own, name in source.columns):
        return None
    values = [sql_of(column(name)) for name, _ in source.columns] if rows is None else [sql for _, sql in rows.columns]
    columns = list(zip(plan.columns, values, strict=True))
    if time not in plan.columns:
        columns.append((time, sql_of(column(time_of(source.stream)))))
    return SelectRows(source.stream, tuple(columns), time, rows.where if rows is not None else None)


def _order(tree: exp.Expr, columns: Sequence[str]) -> tuple[tuple[int, bool, bool], ...]:
    """The order in which the rows of a window stand, as far as it is that of columns of the answer."""
    order = tree.args.get("order")
    places = {name.lower(): place for place, name in reversed(list(enumerate(columns)))}
    items = [item.unalias() for item in tree.expressions] if isinstance(tree, exp.Select) else []
    keys: list[tuple[int, bool, bool]] = []
    for key in order.expressions if order is not None else ():
        value = key.this
        place = None
        if isinstance(value, exp.Literal) and not value.is_string:
            place = int(value.name) - 1
        elif value in items and len(items) == len(columns):
            place = items.index(value)
        elif isinstance(value, exp.Column):
            place = places.get(value.name.lower())
        if place is None:
            break
        keys.append((place, bool(key.args.get("desc")), bool(key.args.get("nulls_first"))))
    return tuple(keys)
