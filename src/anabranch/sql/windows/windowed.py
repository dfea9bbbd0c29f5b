"""What all windowed queries have in common: the window's columns, the time of the answer, ORDER BY and LIMIT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions import NotEvaluable
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema
from anabranch.sql.standing.columns import WINDOW_COLUMNS, Scope, column, sql_of, window_column
from anabranch.sql.standing.rows import Output
from anabranch.sql.tree import Select, Window

CHANGE_COLUMN = "_change"
"""The column that EMIT CHANGES adds."""

SortKeys = tuple[tuple[str, bool, bool], ...]
"""What to sort by: SQL, descending, NULLs first."""


def window_fields(window: Window) -> list[pa.Field]:
    """The types of `window_start` and `window_end`."""
    ends = TIME_TYPE if window.unit == "time" else pa.int64()
    return [pa.field(name, ends) for name in WINDOW_COLUMNS]


def type_in_window(scope: Scope, value: exp.Expr, written: exp.Expr, schema: pa.Schema | None = None) -> pa.DataType:
    """The type of an expression, which must be one that Arrow can do: Spark SQL cannot run inside a window."""
    try:
        return scope.compile(value, schema).type
    except NotEvaluable as problem:
        raise scope.select.error(
            "EXPRESSION_NOT_EVALUABLE_IN_WINDOW",
            f"{sql_of(value)} cannot be computed {scope.inside}",
            written,
            detail=str(problem) or None,
            hint=scope.instead,
        ) from None


def stamp_of(outputs: Sequence[Output], window: Window) -> Output | None:
    """The column that is the answer's time: the end of a window of time, where it is selected."""
    if window.unit != "time":
        return None
    return next((out for out in outputs if window_column(out.value) == "window_end"), None)


def time_of(window: Window) -> exp.Column:
    """What the answer's time is where no column of it is: the window's end, or the time of its last row."""
    return column("window_end" if window.unit == "time" else ARRIVAL_COLUMN)


def with_change(select: Select, schema: StreamSchema) -> StreamSchema:
    """The answer of EMIT CHANGES: one column more, whose name must be free."""
    if CHANGE_COLUMN in (name.lower() for name in schema.names):
        raise select.error(
            "COLUMN_RESERVED",
            f'column "{CHANGE_COLUMN}" is kept for what EMIT CHANGES says',
            select.tree,
            hint="give it another name with AS",
        )
    return StreamSchema(schema.arrow.append(pa.field(CHANGE_COLUMN, pa.string())), schema.time)


@dataclass(frozen=True)
class Ordering:
    """One key of ORDER BY: what it is, where it was written, and which way it goes."""

    value: exp.Expr
    written: exp.Expr
    descending: bool
    nulls_first: bool


def orderings(
    scope: Scope, tree: exp.Select, outputs: Sequence[Output], resolve: Callable[[exp.Expr], exp.Expr]
) -> list[Ordering]:
    """The keys of ORDER BY: columns of the answer by number, or what `resolve` makes of them.

    NULLs come first when ascending and last when descending, unless said otherwise, as in Spark.
    """
    order = tree.args.get("order")
    keys: list[Ordering] = []
    for key in order.expressions if order is not None else ():
        numbered = _by_number(scope, key.this, outputs)
        value = resolve(key.this) if numbered is None else numbered
        keys.append(Ordering(value, key.this, bool(key.args.get("desc")), bool(key.args.get("nulls_first"))))
    return keys


def order_of(scope: Scope, keys: Sequence[Ordering], schema: pa.Schema) -> SortKeys:
    """The keys as the operator takes them, over the columns of `schema`.

    What is the same in all rows of a window, its ends and constants, orders nothing and is left out.
    """
    sort_keys: list[tuple[str, bool, bool]] = []
    for key in keys:
        type_in_window(scope, key.value, key.written, schema)
        if set(scope.compile(key.value, schema).columns) - {*WINDOW_COLUMNS}:
            sort_keys.append((sql_of(key.value.unnest()), key.descending, key.nulls_first))
    return tuple(sort_keys)


def _by_number(scope: Scope, written: exp.Expr, outputs: Sequence[Output]) -> exp.Expr | None:
    if not isinstance(written, exp.Literal) or written.is_string:
        return None
    if not written.name.isdigit() or not 1 <= int(written.name) <= len(outputs):
        raise scope.select.error(
            "SYNTAX_ERROR", f"there is no column {written.name} in the select list", written, keyword="ORDER"
        )
    return outputs[int(written.name) - 1].value


def limit_of(scope: Scope, tree: exp.Select) -> int | None:
    """The LIMIT of each window's answer."""
    limit = tree.args.get("limit")
    if limit is None or limit.expression.name.upper() == "ALL":
        return None
    count = limit.expression
    if isinstance(count, exp.Literal) and not count.is_string and count.name.isdigit() and 0 < int(count.name) < 2**31:
        return int(count.name)
    raise scope.select.error(
        "SYNTAX_ERROR",
        f"LIMIT takes a whole number from 1, got {sql_of(count)}",
        limit,
        hint="it is how many rows each window answers" if scope.has_windows else None,
        keyword="LIMIT",
    )
