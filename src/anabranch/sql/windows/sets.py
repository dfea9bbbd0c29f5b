"""INTERSECT, EXCEPT and UNION of two windowed queries, window by window.

Each side becomes a windowed aggregate, which gives the values of its windows and how often each is
there; that histogram is all a set operation needs (L. Golab, S. Garg and M. T. Özsu, "On Indexing
Sliding Windows over On-line Data Streams" (2003), § 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.expressions import NotEvaluable
from anabranch.expressions.types import widest
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.sets import WindowSetOperation
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema, sql_type
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.checking.join_clauses import refuse_join_clauses
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import WINDOW_COLUMNS, Scope, column, sql_of
from anabranch.sql.standing.rows import Output, check_names, type_name
from anabranch.sql.standing.sources import Lookup, plain_select, scope_of
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select, Window
from anabranch.sql.windows.aggregate_functions import is_aggregate
from anabranch.sql.windows.aggregates import aggregate_of, final_or_changes, refuse_distinct_groups
from anabranch.sql.windows.group_by import free_name
from anabranch.sql.windows.rows import filter_of, row_outputs, row_schema, without_stars
from anabranch.sql.windows.windowed import time_of, type_in_window

COUNT = "__n"
"""How often a row is there, in the answer of a side without aggregates."""

_OPERATIONS: dict[type[exp.SetOperation], Literal["intersect", "except", "union"]] = {
    exp.Intersect: "intersect",
    exp.Except: "except",
    exp.Union: "union",
}


@dataclass(frozen=True)
class _Side:
    """One side: its columns with their types, and the operator that `finish` makes for the types both sides share."""

    scope: Scope
    outputs: tuple[Output, ...]
    types: tuple[pa.DataType, ...]
    window: Window
    grouped: WindowAggregate | None
    filter: str | None

    def finish(self, names: Sequence[str], types: Sequence[pa.DataType]) -> WindowAggregate:
        if self.grouped is not None:
            compared = [sql_of(self._cast(i, types[i])) for i in range(len(names))]
            columns = (*zip(names, compared, strict=True), self._time())
            return replace(self.grouped, columns=columns, time=ARRIVAL_COLUMN)
        keys: dict[str, str] = {}
        columns = ()
        for i, name in enumerate(names):
            value = sql_of(self._cast(i, types[i]))
            if self.outputs[i].value.find(exp.Column) is None or _only_ends(self.outputs[i].value):
                columns = (*columns, (name, value))
            else:
                key = free_name(name, [*keys, COUNT])
                keys[key] = value
                columns = (*columns, (name, sql_of(column(key))))
        return WindowAggregate(
            stream=self.scope.stream,
            unit=self.window.unit,
            size=self.window.size,
            slide=self.window.slide,
            keys=tuple(keys.items()),
            aggregates=((COUNT, "count", None),),
            columns=(*columns, (COUNT, COUNT), self._time()),
            time=ARRIVAL_COLUMN,
            filter=self.filter,
        )

    def _time(self) -> tuple[str, str]:
        return ARRIVAL_COLUMN, sql_of(time_of(self.window))

    def _cast(self, number: int, to: pa.DataType) -> exp.Expr:
        value = self.outputs[number].value
        return value if self.types[number].equals(to) else exp.cast(value.copy(), sql_type(to), dialect="spark")


def is_of_sets(select: Select) -> bool:
    """True for a set operation with a window on one of its sides."""
    return isinstance(select.tree, exp.SetOperation) and select.window is not None


def plan_sets(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator of a set operation, or of its changes."""
    tree = select.tree
    assert isinstance(tree, exp.SetOperation)
    refuse_archives(select)
    refuse_join_clauses(select)
    _check_set_operation(select, tree)
    left, right = (_side_scope(select.side(number, side), lookup) for number, side in enumerate(_sides(tree)))
    operator, schema = _set_operation(select, tree, left, right)
    return final_or_changes(select, operator, schema)


def _sides(tree: exp.SetOperation) -> tuple[exp.Expr, exp.Expr]:
    return tree.this, tree.expression


def _side_scope(side: Select, lookup: Lookup) -> Scope:
    tree = plain_select(side)
    scope = scope_of(side, tree, lookup)
    if tree.args.get("distinct"):
        refuse_distinct_groups(side, tree)
    return scope


def _set_operation(
    select: Select, tree: exp.SetOperation, left: Scope, right: Scope
) -> tuple[WindowSetOperation, StreamSchema]:
    said = tree.key.upper()
    sides = (_plan_side(left, tree.this, said), _plan_side(right, tree.expression, said))
    _check_windows(select, said, *sides)
    names = [out.name for out in sides[0].outputs]
    for out in sides[0].outputs:
        if out.name.lower() == COUNT:
            raise left.select.error("COLUMN_RESERVED", f'column "{COUNT}" is kept for counts', out.written)
    types = _shared_types(select, said, *sides)
    operator = WindowSetOperation(
        operation=_OPERATIONS[type(tree)],
        all=not tree.args.get("distinct"),
        left=sides[0].finish(names, types),
        right=sides[1].finish(names, types),
        names=tuple(names),
        time=ARRIVAL_COLUMN,
    )
    fields = [pa.field(name, kind) for name, kind in zip(names, types, strict=True)]
    return operator, StreamSchema(pa.schema([*fields, pa.field(ARRIVAL_COLUMN, TIME_TYPE)]), ARRIVAL_COLUMN)


def _check_set_operation(select: Select, tree: exp.SetOperation) -> None:
    said = tree.key.upper()
    for name, value in tree.args.items():
        if value and name not in ("this", "expression", "distinct"):
            raise select.error("NOT_IN_THE_LANGUAGE", f"{said} cannot have {name.strip('_').upper()}", tree)


def _plan_side(scope: Scope, tree: exp.Select, said: str) -> _Side:
    if is_aggregate(tree) or tree.args.get("distinct"):
        aggregated = aggregate_of(scope, without_stars(scope, tree) if tree.args.get("distinct") else tree)
        operator = aggregated.operator
        types = tuple(aggregated.schema.arrow.field(out.name).type for out in aggregated.outputs)
        window = Window(operator.unit, operator.size, operator.slide)
        return _Side(scope, aggregated.outputs, types, window, operator, operator.filter)
    own_window = scope.select.window
    if own_window is None:
        raise scope.select.error(
            "WINDOWS_NOT_ALIGNED",
            f"this side of {said} has no WINDOW",
            tree,
            hint="give both sides the same WINDOW = …",
        )
    refuse_hints(scope.select, f"a side of {said} without aggregates counts its rows per pane")
    outputs = tuple(row_outputs(scope, tree))
    check_names(scope, outputs, None)
    schema = row_schema(scope, own_window)
    for out in outputs:
        _refuse_mixture(scope, out)
    types = tuple(type_in_window(scope, out.value, out.written, schema) for out in outputs)
    return _Side(scope, outputs, types, own_window, None, filter_of(scope, tree))


def _ends_and_others(value: exp.Expr) -> tuple[bool, bool]:
    ends = [node.name in WINDOW_COLUMNS for node in value.find_all(exp.Column)]
    return any(ends), not all(ends)


def _only_ends(value: exp.Expr) -> bool:
    return _ends_and_others(value) == (True, False)


def _refuse_mixture(scope: Scope, out: Output) -> None:
    """A row is grouped with its likes before windows are made, so a value cannot depend on both."""
    if _ends_and_others(out.value) == (True, True):
        raise scope.select.error(
            "NOT_IN_THE_LANGUAGE",
            "a column of a set operation cannot mix the window's ends with the stream's columns",
            out.written,
            hint="select them as two columns",
        )


def _check_windows(select: Select, said: str, left: _Side, right: _Side) -> None:
    start = right.scope.select.window.start if right.scope.select.window is not None else None
    if left.window != right.window:
        raise select.error(
            "WINDOWS_NOT_ALIGNED",
            f"{said} compares windows of {left.window.describe()} with windows of {right.window.describe()}",
            right.scope.select.tree,
            hint="give both sides the same size and slide",
            start=start,
        )
    if left.window.unit == "rows" and left.scope.stream.lower() != right.scope.stream.lower():
        raise select.error(
            "WINDOWS_NOT_ALIGNED",
            f'windows of ROWS over "{left.scope.stream}" and "{right.scope.stream}" do not end together',
            right.scope.select.tree,
            hint="use windows of time: WINDOW = INTERVAL …",
            start=start,
        )


def _shared_types(select: Select, said: str, left: _Side, right: _Side) -> list[pa.DataType]:
    if len(left.outputs) != len(right.outputs):
        raise _columns_error(
            select,
            f"{said} needs as many columns on both sides, got {len(left.outputs)} and {len(right.outputs)}",
            right.scope.select.tree,
            "select the columns that are to be compared",
        )
    shared: list[pa.DataType] = []
    for i, (left_type, right_type) in enumerate(zip(left.types, right.types, strict=True)):
        try:
            shared.append(widest(left_type, right_type))
            for side in (left, right):
                _check_cast(side, i, shared[-1])
        except NotEvaluable:
            raise _columns_error(
                select,
                f"column {i + 1} of {said} is {type_name(left_type)} on the left "
                f"and {type_name(right_type)} on the right",
                right.outputs[i].written,
                "CAST one of them to the type of the other",
            ) from None
    return shared


def _check_cast(side: _Side, number: int, to: pa.DataType) -> None:
    """Arrow must be able to do the conversion."""
    type_ = side.types[number]
    if not type_.equals(to) and not pa.types.is_null(type_):
        side.scope.compile(exp.cast(column("x"), sql_type(to), dialect="spark"), pa.schema([("x", type_)]))


def _columns_error(select: Select, message: str, node: exp.Expr, hint: str) -> SqlError:
    return select.error("SET_COLUMNS_DIFFER", message, node, hint=hint)
