"""Joins of two streams that answer for rows without a partner: LEFT, RIGHT, FULL and LEFT ANTI; and LEFT SEMI.

What ON says makes a partner and drops no row that is answered without one; WHERE is looked at after the join, as in all
SQL. So a condition on one stream alone is applied while that is read only where this comes to the same.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.operators.join.outer import Kind, OuterJoin
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.joins.answer import answer_of
from anabranch.sql.joins.join import AS_A_STREAM, OUTER, Join, check_emit, is_join, joined_streams, said_of
from anabranch.sql.joins.scope import JoinScope
from anabranch.sql.joins.windows import Constraint
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import conjuncts, joined, sql_of
from anabranch.sql.standing.rows import check_condition
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import is_aggregate

_READ_BY_ON: dict[Kind, tuple[int, ...]] = {"left": (1,), "right": (0,), "full": (), "semi": (0, 1), "anti": (1,)}
"""Of which sources rows that ON drops by themselves are nobody's partner, and not answered either."""
_READ_BY_WHERE: dict[Kind, tuple[int, ...]] = {"left": (0,), "right": (1,), "full": (), "semi": (0,), "anti": (0,)}
"""Of which sources rows that WHERE drops by themselves are in no answer."""


def is_outer_join(select: Select) -> bool:
    """True if the query answers rows of streams that meet nothing, or rows that meet anything."""
    return is_join(select) and any(said_of(join) in OUTER for join in select.tree.args["joins"])


def is_outer_rows(select: Select) -> bool:
    """The same of one without aggregates."""
    return is_outer_join(select) and isinstance(select.tree, exp.Select) and not is_aggregate(select.tree)


def plan_outer_join(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator, and the Spark SQL behind it where Arrow cannot do an expression."""
    refuse_archives(select)
    _refuse_several(select)
    scope, unit, windows, tree = joined_streams(select, lookup, OUTER)
    check_emit(select)
    _refuse_rows_and_memory(select, unit)
    side = OUTER[said_of(tree.args["joins"][0])]
    shown = scope.up_to(1) if side in ("semi", "anti") else scope
    join, where = _with_conditions(side, scope, shown, windows, tree)
    answer = answer_of(shown.with_results(), tree, join.rest)
    ordered = select.emit is not None and select.emit.kind == "IN ORDER"
    operator = OuterJoin(join.operator(answer.columns, answer.operator_time, ordered=ordered), side, where)
    return StandingPlan(operator, answer.residual_sql, answer.schema, answer.time)


def _refuse_several(select: Select) -> None:
    joins: list[exp.Join] = select.tree.args["joins"]
    if len(joins) > 1:
        outer = next(join for join in joins if said_of(join) in OUTER)
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a {said_of(outer)} JOIN in a window is one of two streams",
            joins[1],
            hint=f"{AS_A_STREAM} join that",
        )


def _refuse_rows_and_memory(select: Select, unit: str) -> None:
    said = said_of(select.tree.args["joins"][0])
    if unit == "rows":
        start = select.window.start if select.window is not None else select.pairs[0].start
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a {said} JOIN needs a window of time: one of ROWS passes only when other rows come",
            start=start,
            hint="write WINDOW = INTERVAL …",
        )
    if select.shedding is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a {said} JOIN lets no rows go: whoever had met them would be answered as if it had no partner",
            start=select.shedding.start,
            hint="leave WITH out; what is larger than memory is in files",
        )


def _with_conditions(
    side: Kind, scope: JoinScope, shown: JoinScope, windows: tuple[Constraint, ...], tree: exp.Select
) -> tuple[Join, tuple[str, ...]]:
    """The join with the conditions of ON, and what of WHERE is looked at after it."""
    filters: tuple[list[exp.Expr], ...] = ([], [])
    on: list[str] = []
    where: list[str] = []
    rest: list[exp.Expr] = []
    for part in _parts(scope, tree.args["joins"][0].args.get("on")):
        if part == exp.true():  # sqlglot's ON for a JOIN that has none
            continue
        if not scope.can_compile(part):
            raise scope.select.error(
                "EXPRESSION_NEEDS_SPARK",
                f"{sql_of(part)} needs Spark SQL, which cannot say who has a partner",
                part,
                hint="compute what it takes of each stream in a CREATE STREAM … AS SELECT … before",
            )
        _place(scope, part, _READ_BY_ON[side], filters, on)
    for part in _parts(shown, tree.args["where"].this if tree.args.get("where") is not None else None):
        if scope.can_compile(part):
            _place(scope, part, _READ_BY_WHERE[side], filters, where)
        else:
            rest.append(part)
    read = tuple(None if (condition := joined(parts)) is None else sql_of(condition) for parts in filters)
    return Join(scope, "time", windows, read, tuple(on), tuple(rest)), tuple(where)


def _parts(scope: JoinScope, condition: exp.Expr | None) -> list[exp.Expr]:
    parts = [] if condition is None else conjuncts(scope.resolve(condition))
    for part in parts:
        check_condition(scope, part)
    return parts


def _place(
    scope: JoinScope, part: exp.Expr, read: tuple[int, ...], filters: tuple[list[exp.Expr], ...], others: list[str]
) -> None:
    """Put a condition with those that are applied while a source is read, where it may be, or with the `others`."""
    owners = [scope.sources.index(owner) for owner in scope.owners_of(part)]
    if len(owners) == 1 and owners[0] in read:
        filters[owners[0]].append(scope.own(part))
    else:
        truth = joined([part])
        assert truth is not None
        others.append(sql_of(truth))
