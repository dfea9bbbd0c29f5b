"""Windowed queries without aggregates: the rows of each window themselves, in the order asked for."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.windows.rows import WindowRows
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE
from anabranch.sql.reading.hints import structures_of_rows
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import WINDOW_COLUMNS, Scope, column, in_parentheses, sql_of
from anabranch.sql.standing.rows import (
    Output,
    answer_schema,
    check_condition,
    check_names,
    output_name,
    star_names,
    star_of,
)
from anabranch.sql.standing.sources import Lookup, one_stream
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select, Window
from anabranch.sql.windows.windowed import (
    Ordering,
    limit_of,
    order_of,
    orderings,
    stamp_of,
    time_of,
    type_in_window,
    window_fields,
    with_change,
)


def is_of_window_rows(select: Select) -> bool:
    """True for any query with a window; those with aggregates have been claimed before."""
    return select.window is not None


def plan_window_rows(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator that answers the rows of each window."""
    scope, tree = one_stream(select, lookup)
    window = select.window
    assert window is not None
    schema = row_schema(scope, window)
    outputs = row_outputs(scope, tree)
    for out in outputs:
        type_in_window(scope, out.value, out.written, schema)
    filter_sql = filter_of(scope, tree)
    by_name = {out.name.lower(): out.value for out in outputs}
    keys = orderings(scope, tree, outputs, lambda key: _resolve_key(scope, key, by_name))
    for key in keys:
        _refuse_moving_order(scope, key)
    order = order_of(scope, keys, schema)
    structures = structures_of_rows(select, ordered=bool(order))
    stamp = stamp_of(outputs, window)
    check_names(scope, outputs, stamp)
    time = ARRIVAL_COLUMN if stamp is None else stamp.name
    changes = select.emit is not None and select.emit.changes
    operator = WindowRows(
        stream=scope.stream,
        unit=window.unit,
        size=window.size,
        slide=window.slide,
        columns=tuple((out.name, sql_of(out.value)) for out in outputs),
        time=time,
        filter=filter_sql,
        order=order,
        limit=limit_of(scope, tree),
        changes=changes,
        index=structures.index,
        storage=structures.storage,
        ring=structures.ring,
    )
    stamped = [*outputs, Output(ARRIVAL_COLUMN, time_of(window), tree)] if stamp is None else outputs
    answer = answer_schema(scope, stamped, time, schema)
    if changes:
        answer = with_change(select, answer)
    return StandingPlan(operator, None, answer, time)


def row_schema(scope: Scope, window: Window) -> pa.Schema:
    """What expressions over the rows of a window may use: the stream's columns and the window's ends."""
    hidden = {*WINDOW_COLUMNS, ARRIVAL_COLUMN}
    own = [field for field in scope.schema.arrow if field.name.lower() not in hidden]
    return pa.schema([*own, *window_fields(window), pa.field(ARRIVAL_COLUMN, TIME_TYPE)])


def row_outputs(scope: Scope, tree: exp.Select) -> list[Output]:
    """The select list over the stream's columns and the window's ends."""
    outputs: list[Output] = []
    aliases: dict[str, exp.Expr] = {}
    for item in tree.expressions:
        star = star_of(item)
        if star is not None:
            outputs.extend(Output(name, column(name), item) for name in _star_columns(scope, item, star))
            continue
        value = scope.resolve(item.this if isinstance(item, exp.Alias) else item, aliases, in_window=True)
        outputs.append(Output(output_name(item, value), value, item))
        if isinstance(item, exp.Alias):
            aliases.setdefault(item.alias.lower(), value)
    return outputs


def without_stars(scope: Scope, tree: exp.Select) -> exp.Select:
    """The query with its stars written out, for DISTINCT, which groups by what is selected."""
    copy = tree.copy()
    items: list[exp.Expr] = []
    for item in copy.expressions:
        star = star_of(item)
        items += [item] if star is None else [column(name) for name in _star_columns(scope, item, star)]
    copy.set("expressions", items)
    return copy


def _star_columns(scope: Scope, item: exp.Expr, star: exp.Star) -> list[str]:
    """A stream's stamps of arrival are left out: `_time` is the answer's own time."""
    names = [name for name in star_names(scope, item, star) if name != ARRIVAL_COLUMN]
    for name in names:
        if name.lower() in WINDOW_COLUMNS:
            raise scope.hidden_by_window(name, item)
    return names


def filter_of(scope: Scope, tree: exp.Select) -> str | None:
    """WHERE as the operator takes it."""
    where = tree.args.get("where")
    if where is None:
        return None
    value = scope.resolve(where.this)
    type_in_window(scope, value, where.this)
    check_condition(scope, value)
    return sql_of(value)


def _refuse_moving_order(scope: Scope, key: Ordering) -> None:
    """Rows stay in their order from window to window, so it cannot depend on the window."""
    ends = {node.name in WINDOW_COLUMNS for node in key.value.find_all(exp.Column)}
    if ends == {True, False}:
        raise scope.select.error(
            "NOT_IN_THE_LANGUAGE",
            "rows cannot be ordered by the window's ends and the stream's columns together",
            key.written,
            hint="order by the stream's columns alone",
        )


def _resolve_key(scope: Scope, key: exp.Expr, by_name: Mapping[str, exp.Expr]) -> exp.Expr:
    """A key of ORDER BY; names of the answer go before those of the stream, as in Spark."""

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in by_name:
            return in_parentheses(by_name[node.name.lower()])
        return node

    return scope.resolve(key.copy().transform(replace), in_window=True)
