"""A SELECT as a standing query: which operator runs it, and what is left to Spark SQL.

A standing query reads one stream (a set operation reads two) and must be able to say, row by row or
window by window, that an answer is final. What cannot say so is refused here, with what to write
instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from anabranch.errors import CatalogError, SqlError
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.window_changes import WindowChanges
from anabranch.schema import StreamSchema
from anabranch.sql.aggregate_functions import aggregate_name, is_aggregate
from anabranch.sql.aggregates import plan_aggregate
from anabranch.sql.columns import Scope
from anabranch.sql.explain import as_json, as_text, plan_as_dict
from anabranch.sql.hints import refuse_hints
from anabranch.sql.rows import plan_rows
from anabranch.sql.safety import check_tree
from anabranch.sql.tree import Select
from anabranch.sql.window_rows import plan_window_rows, without_stars
from anabranch.sql.window_sets import plan_sets
from anabranch.sql.windowed import with_change

Lookup = Callable[[str], StreamSchema]
"""The schema of a stream by its name; raises CatalogError STREAM_NOT_FOUND."""


@dataclass(frozen=True)
class StandingPlan:
    """How a standing query runs.

    `residual_sql` is Spark SQL over a view named `__input` that holds the operator's rows; None if
    the operator does everything. `schema` is None where only Spark can tell the types. `time` is the
    answer's time column, `pushed` the condition applied while the stream is read.
    """

    select: Select
    stream: str
    operator: Operator
    residual_sql: str | None
    schema: StreamSchema | None
    time: str
    pushed: str | None

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        """The plan as plain data; `explain_text` and `explain_json` show the same.

        With `inputs` operators also say what they choose for the rows there are.
        """
        return plan_as_dict(self.operator, self.residual_sql, self.schema, self.time, self.pushed, inputs)

    def explain_text(self, inputs: Inputs | None = None) -> str:
        return as_text(self.explain(inputs))

    def explain_json(self, inputs: Inputs | None = None) -> str:
        return as_json(self.explain(inputs))


_CLAUSES: dict[str, tuple[str, str]] = {
    "with_": ("WITH cannot be used in a standing query", "make each step a stream with CREATE STREAM … AS SELECT …"),
    "joins": ("a standing query reads one stream", "ask once with SELECT, or join what the streams' queries answer"),
    "laterals": ("LATERAL VIEW cannot be used in a standing query", "ask once with SELECT"),
    "sort": ("a standing query answers in the order of time", "leave SORT BY out"),
    "cluster": ("a standing query answers in the order of time", "leave CLUSTER BY out"),
    "distribute": ("a standing query decides itself where rows go", "leave DISTRIBUTE BY out"),
    "offset": ("a standing query answers from the first row", "leave OFFSET out, or SUBSCRIBE TO … FROM a number"),
    "windows": ("window functions cannot be used in a standing query", "aggregate with WINDOW = INTERVAL … after FROM"),
    "qualify": ("QUALIFY cannot be used in a standing query", "use HAVING"),
}  # fmt: skip
"""Clauses a standing query cannot have: why, and what instead."""

_IN_WINDOWS: dict[str, tuple[str, str]] = {
    "order": ("a standing query answers in the order of time",
              "add WINDOW = INTERVAL … after FROM to order each window, or order when you ask once"),
    "limit": ("a standing query has no last row to stop at",
              "add WINDOW = INTERVAL … after FROM to limit each window, or ask once with SELECT"),
    "distinct": ("DISTINCT would keep every row ever seen", "add WINDOW = INTERVAL … after FROM"),
}  # fmt: skip
"""Clauses that only a window can have."""

_KEYWORDS = {"order": "ORDER", "sort": "SORT", "cluster": "CLUSTER", "distribute": "DISTRIBUTE", "limit": "LIMIT",
             "offset": "OFFSET", "distinct": "DISTINCT", "with_": "WITH"}  # fmt: skip
_HANDLED = {"kind", "expressions", "from_", "where", "group", "having", *_IN_WINDOWS}


def plan_standing(select: Select, lookup: Lookup) -> StandingPlan:
    """The plan of a standing query, or a refusal that says what to add."""
    try:
        return _plan(select, lookup)
    except RecursionError:
        raise too_large(select) from None


def too_large(select: Select) -> SqlError:
    return select.error(
        "QUERY_TOO_LARGE", "the query is nested or chained too deeply", hint="cut it into several queries"
    )


def _plan(select: Select, lookup: Lookup) -> StandingPlan:
    check_tree(select, standing=True)
    if isinstance(select.tree, exp.SetOperation) and select.window is not None:
        return _plan_sets(select, lookup)
    tree = _plain_select(select)
    scope = _scope(select, tree, lookup)
    if is_aggregate(tree) or (tree.args.get("distinct") and select.window is not None):
        return _plan_aggregate(scope, tree)
    if select.window is not None:
        windowed = plan_window_rows(scope, tree, select.window)
        return StandingPlan(
            select, scope.stream, windowed.operator, None, windowed.schema, windowed.time, windowed.pushed
        )
    _refuse_clauses(select, tree, _IN_WINDOWS)
    refuse_emit(select)
    refuse_hints(select, "the query has no window")
    rows = plan_rows(scope, tree)
    return StandingPlan(select, scope.stream, rows.operator, rows.residual_sql, rows.schema, rows.time, rows.pushed)


def _plan_aggregate(scope: Scope, tree: exp.Select) -> StandingPlan:
    select = scope.select
    if tree.args.get("distinct"):
        _refuse_distinct_groups(select, tree)
        tree = without_stars(scope, tree)
    plan = plan_aggregate(scope, tree)
    if select.emit is not None and select.emit.changes:
        changes, schema = WindowChanges(plan.operator), with_change(select, plan.schema)
        return StandingPlan(select, scope.stream, changes, None, schema, plan.time, plan.pushed)
    return StandingPlan(select, scope.stream, plan.operator, None, plan.schema, plan.time, plan.pushed)


def _plan_sets(select: Select, lookup: Lookup) -> StandingPlan:
    tree = select.tree
    assert isinstance(tree, exp.SetOperation)
    _check_set_operation(select, tree)
    scopes: list[Scope] = []
    for number, side in enumerate((tree.this, tree.expression)):
        one = select.side(number, side)
        scopes.append(_scope(one, _plain_select(one), lookup))
        if side.args.get("distinct"):
            _refuse_distinct_groups(one, side)
    plan = plan_sets(scopes[0], scopes[1], select)
    operator, schema = plan.operator, plan.schema
    if select.emit is not None and select.emit.changes:
        return StandingPlan(
            select, scopes[0].stream, WindowChanges(operator), None, with_change(select, schema), schema.time, None
        )
    return StandingPlan(select, scopes[0].stream, operator, None, schema, schema.time, None)


def _check_set_operation(select: Select, tree: exp.SetOperation) -> None:
    """Two plain SELECTs, and nothing behind them."""
    said = tree.key.upper()
    for side in (tree.this, tree.expression):
        if isinstance(side, exp.SetOperation):
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "a set operation of windows has two sides",
                tree.expression,
                hint="make a stream of the first two with CREATE STREAM … AS SELECT …",
                keyword=said,
            )
    for clause in ("order", "limit", "offset"):
        if tree.args.get(clause):
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                f"{_KEYWORDS[clause]}{' BY' if clause == 'order' else ''} cannot follow {said}",
                tree.args[clause],
                hint="make a stream of the set operation, and order the windows of that",
                keyword=_KEYWORDS[clause],
            )
    for name, found in tree.args.items():
        if found and name not in ("this", "expression", "distinct"):
            raise select.error("NOT_IN_THE_LANGUAGE", f"{said} cannot have {name.strip('_').upper()}", tree)


def _refuse_distinct_groups(select: Select, tree: exp.Select) -> None:
    if is_aggregate(tree):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "DISTINCT cannot stand beside aggregates or GROUP BY",
            tree,
            hint="leave DISTINCT out; GROUP BY gives each group once",
            keyword="DISTINCT",
        )


def refuse_emit(select: Select) -> None:
    """Without windows there is nothing that could change: each row is answered once."""
    if select.emit is not None:
        raise select.error(
            "EMIT_WITHOUT_WINDOW",
            f"EMIT {'CHANGES' if select.emit.changes else 'FINAL'} is about windows, and the query has none",
            hint="leave it out, or add WINDOW = INTERVAL … after FROM",
            start=select.emit.start,
        )


def _scope(select: Select, tree: exp.Select, lookup: Lookup) -> Scope:
    table = tree.args["from_"].this
    schema = look_up(select, table, lookup)
    _refuse_aggregates_in_where(select, tree)
    return Scope(select, stream_name(table), table.alias or table.name, schema)


def _refuse_aggregates_in_where(select: Select, tree: exp.Select) -> None:
    where = tree.args.get("where")
    found = next((node for node in where.walk() if aggregate_name(node)), None) if where is not None else None
    if found is not None:
        raise select.error("AGGREGATE_MISPLACED", "WHERE cannot hold an aggregate", found, hint="use HAVING")


def stream_name(table: exp.Table) -> str:
    """The stream a table names; `packets.rejects` are the rejects of packets."""
    return f"{table.db}.rejects" if table.db else table.name


def look_up(select: Select, table: exp.Table, lookup: Lookup) -> StreamSchema:
    """The stream's schema; one that does not exist is an error in its place."""
    try:
        return lookup(stream_name(table))
    except CatalogError as problem:
        place = select.error("", "", table)
        raise CatalogError(
            problem.name,
            problem.message,
            detail=problem.detail,
            hint=problem.hint,
            line=place.line,
            column=place.column,
        ) from None


def _plain_select(select: Select) -> exp.Select:
    """The tree, if it is one SELECT over one stream."""
    tree = select.tree
    if not isinstance(tree, exp.Select):
        what = "parentheses around the query" if isinstance(tree, exp.Subquery) else tree.key.upper()
        place, keyword = (tree.expression, tree.key.upper()) if isinstance(tree, exp.SetOperation) else (tree, None)
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a standing query cannot have {what}",
            place,
            hint="make each part a standing query of its own, or give each side a WINDOW = …"
            if keyword
            else "leave them out",
            keyword=keyword,
        )
    _refuse_clauses(select, tree, _CLAUSES)
    for name, found in tree.args.items():
        if found and name not in _HANDLED:
            raise select.error("NOT_IN_THE_LANGUAGE", f"a standing query cannot have {name.strip('_').upper()}", tree)
    source = tree.args.get("from_")
    if source is None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE", "a standing query reads a stream", tree, hint="add FROM with a stream's name"
        )
    if not isinstance(source.this, exp.Table):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a standing query cannot read a subquery",
            source,
            hint="make the inner query a stream with CREATE STREAM … AS SELECT …",
        )
    for part in ("joins", "laterals", "pivots"):
        if source.this.args.get(part):
            raise select.error(
                "NOT_IN_THE_LANGUAGE", "a standing query reads one stream", source, hint="ask once with SELECT"
            )
    for node in tree.walk():
        if isinstance(node, exp.Window):
            why, instead = _CLAUSES["windows"]
            raise select.error("NOT_IN_THE_LANGUAGE", why, node, hint=instead)
        if isinstance(node, exp.Query) and node is not tree:
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "a standing query cannot hold a subquery",
                node,
                hint="make the inner query a stream with CREATE STREAM … AS SELECT …",
            )
    return tree


def _refuse_clauses(select: Select, tree: exp.Select, clauses: dict[str, tuple[str, str]]) -> None:
    for clause, (why, instead) in clauses.items():
        found = tree.args.get(clause)
        if found:
            node = found[0] if isinstance(found, list) else found
            place = node if isinstance(node, exp.Expr) else None
            raise select.error("NOT_IN_THE_LANGUAGE", why, place, hint=instead, keyword=_KEYWORDS.get(clause))
