"""A SELECT as a standing query: which operator runs it, and what is left to Spark SQL.

A standing query reads one stream (a set operation two, a join or merge several) and must be able to say, row
by row or window by window, that an answer is final. What cannot say so is refused here, with what to write
instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.window_changes import WindowChanges
from anabranch.schema import StreamSchema
from anabranch.sql.aggregate_functions import is_aggregate
from anabranch.sql.aggregates import plan_aggregate
from anabranch.sql.archives import refuse_archives
from anabranch.sql.columns import Scope
from anabranch.sql.combinations import is_combination, plan_combination
from anabranch.sql.explain import as_json, as_text, plan_as_dict
from anabranch.sql.hints import refuse_hints
from anabranch.sql.history_joins import is_history_join, plan_history_join
from anabranch.sql.join_aggregates import plan_join_aggregate
from anabranch.sql.join_clauses import refuse_join_clauses
from anabranch.sql.joins import plan_join, read_join
from anabranch.sql.landmarks import plan_landmark
from anabranch.sql.merges import plan_merge
from anabranch.sql.reducing import NONE_REGISTERED, Registered
from anabranch.sql.rows import plan_rows
from anabranch.sql.safety import check_tree
from anabranch.sql.sources import IN_WINDOWS, KEYWORDS, Lookup, plain_select, refuse_clauses, scope_of
from anabranch.sql.tree import Select
from anabranch.sql.window_rows import plan_window_rows, without_stars
from anabranch.sql.window_sets import plan_sets
from anabranch.sql.windowed import with_change


@dataclass(frozen=True)
class StandingPlan:
    """How a standing query runs.

    `residual_sql` is Spark SQL over a view named `__input` that holds the operator's rows; None if
    the operator does everything. `schema` is None where only Spark can tell the types. `time` is the
    answer's time column, `stream` the first of those it reads, `pushed` the condition applied while a
    single stream is read.
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


def plan_standing(select: Select, lookup: Lookup, reducers: Registered = NONE_REGISTERED) -> StandingPlan:
    """The plan of a standing query, or a refusal that says what to add; `reducers` are the user's own."""
    try:
        return _plan(select, lookup, reducers)
    except RecursionError:
        raise too_large(select) from None


def too_large(select: Select) -> SqlError:
    return select.error(
        "QUERY_TOO_LARGE", "the query is nested or chained too deeply", hint="cut it into several queries"
    )


def _plan(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    check_tree(select, standing=True)
    if is_history_join(select):
        return _plan_history_join(select, lookup, reducers)
    if select.since is not None:
        return _plan_landmark(select, lookup, reducers)
    refuse_archives(select)
    if select.merge is not None:
        return _plan_merge(select, lookup)
    if is_combination(select):
        return _plan_combination(select, lookup)
    if is_join(select):
        return _plan_join(select, lookup)
    refuse_join_clauses(select)
    if isinstance(select.tree, exp.SetOperation) and select.window is not None:
        return _plan_sets(select, lookup)
    tree = plain_select(select)
    scope = scope_of(select, tree, lookup)
    if is_aggregate(tree) or (tree.args.get("distinct") and select.window is not None):
        return _plan_aggregate(scope, tree)
    if select.window is not None:
        windowed = plan_window_rows(scope, tree, select.window)
        return StandingPlan(
            select, scope.stream, windowed.operator, None, windowed.schema, windowed.time, windowed.pushed
        )
    refuse_clauses(select, tree, IN_WINDOWS)
    refuse_emit(select)
    refuse_hints(select, "the query has no window")
    rows = plan_rows(scope, tree)
    return StandingPlan(select, scope.stream, rows.operator, rows.residual_sql, rows.schema, rows.time, rows.pushed)


def is_join(select: Select) -> bool:
    """True if the query reads several streams."""
    return isinstance(select.tree, exp.Select) and bool(select.tree.args.get("joins"))


def _plan_join(select: Select, lookup: Lookup) -> StandingPlan:
    join, tree = read_join(select, lookup)
    stream = join.scope.stream
    if is_aggregate(tree):
        plan = plan_join_aggregate(select, join, tree)
        return StandingPlan(select, stream, plan.operator, None, plan.schema, plan.time, None)
    found = plan_join(select, join, tree)
    return StandingPlan(select, stream, found.operator, found.residual_sql, found.schema, found.time, None)


def _plan_merge(select: Select, lookup: Lookup) -> StandingPlan:
    plan = plan_merge(select, lookup)
    stream = plan.operator.sources[0][1]
    return StandingPlan(select, stream, plan.operator, plan.residual_sql, plan.schema, plan.time, None)


def _plan_landmark(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    plan = plan_landmark(select, lookup, reducers)
    operator = plan.operator
    return StandingPlan(select, operator.stream, operator, None, plan.schema, plan.time, operator.filter)


def _plan_history_join(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    plan = plan_history_join(select, lookup, reducers)
    stream = plan.operator.inputs[0]
    return StandingPlan(select, stream, plan.operator, plan.residual_sql, plan.schema, plan.time, plan.pushed)


def _plan_combination(select: Select, lookup: Lookup) -> StandingPlan:
    refuse_join_clauses(replace(select, emit=None))
    refuse_hints(select, "the query has no window")
    plan = plan_combination(select, lookup)
    return StandingPlan(select, plan.stream, plan.operator, plan.residual_sql, plan.schema, plan.time, None)


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
        scopes.append(scope_of(one, plain_select(one), lookup))
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
                f"{KEYWORDS[clause]}{' BY' if clause == 'order' else ''} cannot follow {said}",
                tree.args[clause],
                hint="make a stream of the set operation, and order the windows of that",
                keyword=KEYWORDS[clause],
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
    refuse_join_clauses(select)
    if select.emit is not None:
        raise select.error(
            "EMIT_WITHOUT_WINDOW",
            f"EMIT {select.emit.kind} is about windows, and the query has none",
            hint="leave it out, or add WINDOW = INTERVAL … after FROM",
            start=select.emit.start,
        )
