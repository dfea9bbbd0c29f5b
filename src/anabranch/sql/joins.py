"""Joins of streams in a standing query: a result is a row of each, close enough in time.

The windows are those of M. A. Hammad, W. G. Aref, A. K. Elmagarmid et al., "STEAM" (2002), section
6.2: one for all pairs of streams, or one for each of as many pairs as bind all streams together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.operators.window_join import WindowJoin, program_of
from anabranch.schema import StreamSchema
from anabranch.sql.columns import conjuncts, joined, sql_of
from anabranch.sql.join_answer import answer_of
from anabranch.sql.join_scope import JoinScope, Source, listed, sources_of
from anabranch.sql.join_windows import Constraint, windows_of
from anabranch.sql.rows import check_condition
from anabranch.sql.sources import Lookup, plain_select, refuse_clauses
from anabranch.sql.tree import Select
from anabranch.sql.window_clause import Unit

_AS_A_STREAM = "make the join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and"
_CLAUSES = {
    "order": ("a join answers its results as they are found", f"{_AS_A_STREAM} order the windows of that"),
    "limit": ("a join has no last row to stop at", f"{_AS_A_STREAM} limit the windows of that"),
    "distinct": ("DISTINCT would keep every result ever found", f"{_AS_A_STREAM} use DISTINCT in windows of that"),
}  # fmt: skip
"""Clauses a join cannot have: why, and what instead."""


@dataclass(frozen=True)
class JoinPlan:
    """What planning a join gives; `residual_sql` is what Spark SQL does with its results."""

    operator: WindowJoin
    residual_sql: str | None
    schema: StreamSchema | None
    time: str


@dataclass(frozen=True)
class Join:
    """What a join reads: its sources with their conditions, and those of several sources."""

    scope: JoinScope
    unit: Unit
    windows: tuple[Constraint, ...]
    filters: tuple[str | None, ...]
    conditions: tuple[str, ...]
    rest: tuple[exp.Expr, ...]
    """Conditions that Arrow cannot evaluate."""

    def operator(self, columns: tuple[tuple[str, str], ...], time: str, *, ordered: bool) -> WindowJoin:
        select, sources = self.scope.select, self.scope.sources
        shedding = select.shedding
        if shedding is not None and self.unit == "rows":
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "windows of rows have a bound already",
                start=shedding.start,
                hint="leave WITH out, or say fewer ROWS",
            )
        found = WindowJoin(
            sources=tuple((each.alias, each.stream, kept) for each, kept in zip(sources, self.filters, strict=True)),
            unit=self.unit,
            windows=self.windows,
            conditions=self.conditions,
            columns=columns,
            time=time,
            order="time" if ordered or self.unit == "rows" else "arrival",
            memory=shedding.memory if shedding is not None else None,
            shed=shedding.shed if shedding is not None else None,
        )
        schemas = tuple(each.schema.arrow for each in sources)
        if shedding is not None and shedding.shed == "matches" and program_of(found, schemas).shared_key() is None:
            raise select.error(
                "SHED_NEEDS_A_KEY",
                "rows can be kept by the matches of their key only if one key is equal in all streams",
                start=shedding.start,
                hint="use shed = 'random' or 'oldest'",
            )
        return found


def plan_join(select: Select, join: Join, tree: exp.Select) -> JoinPlan:
    """The operator of a join without aggregates, and the Spark SQL behind it where Arrow cannot do an expression."""
    _check_emit(select)
    found = answer_of(join.scope.with_results(), tree, join.rest)
    ordered = select.emit is not None and select.emit.kind == "IN ORDER"
    operator = join.operator(found.columns, found.operator_time, ordered=ordered)
    return JoinPlan(operator, found.residual_sql, found.schema, found.time)


# -- what is joined ------------------------------------------------------------------------------


def read_join(select: Select, lookup: Lookup) -> tuple[Join, exp.Select]:
    """What a query over several streams joins."""
    tree = plain_select(select, joins=True)
    joins: list[exp.Join] = tree.args["joins"]
    for each in joins:
        _check_kind(select, each)
    tables = [tree.args["from_"].this, *(each.this for each in joins)]
    sources = sources_of(select, tables, lookup)
    if select.window is None and not select.pairs:
        raise _unbounded(select, sources, tables[1])
    refuse_clauses(select, tree, _CLAUSES)
    for hint in select.hints:
        raise select.error(
            "HINT_NOT_POSSIBLE",
            "a join chooses itself how its rows are kept",
            hint="leave the hint out",
            start=hint.start,
        )
    scope = JoinScope.of(select, sources)
    unit, windows = windows_of(select, sources)
    return _with_conditions(scope, unit, windows, tree), tree


def _check_kind(select: Select, join: exp.Join) -> None:
    """Only inner joins: all others would have to wait for what may not come."""
    words = [join.args.get(part) for part in ("method", "side", "kind")]
    said = " ".join(str(each).upper() for each in words if each)
    if said not in ("", "INNER", "CROSS"):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a standing query cannot have a {said} JOIN",
            join,
            hint="write JOIN … ON …" if said == "NATURAL" else "use JOIN … ON …, or ask once with SELECT",
            keyword=said.split()[0],
        )
    using = join.args.get("using")
    if using:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a standing query cannot have JOIN … USING",
            using[0],
            hint=f"write ON a.{using[0].name} = b.{using[0].name}",
            keyword="USING",
        )


def _unbounded(select: Select, sources: Sequence[Source], place: exp.Expr) -> SqlError:
    return select.error(
        "JOIN_STATE_UNBOUNDED",
        f"joining {listed([each.alias for each in sources])} would keep every row forever",
        place,
        hint="add WINDOW = INTERVAL … after FROM",
    )


def _with_conditions(scope: JoinScope, unit: Unit, windows: tuple[Constraint, ...], tree: exp.Select) -> Join:
    """Conditions of ON and WHERE; what one source alone decides is applied while it is read."""
    parts: list[exp.Expr] = []
    for place, each in enumerate(tree.args["joins"], 2):
        if each.args.get("on") is not None:
            parts += conjuncts(scope.up_to(place).resolve(each.args["on"]))
    where = tree.args.get("where")
    if where is not None:
        parts += conjuncts(scope.resolve(where.this))
    filters: list[list[exp.Expr]] = [[] for _ in scope.sources]
    conditions: list[str] = []
    rest: list[exp.Expr] = []
    for part in parts:
        if part == exp.true():  # sqlglot's ON for a JOIN that has none
            continue
        check_condition(scope, part)
        owners = scope.owners_of(part)
        if not scope.can_compile(part):
            rest.append(part)
        elif len(owners) <= 1:
            # A condition without columns holds for all rows of any source, or for none.
            place = scope.sources.index(next(iter(owners), scope.sources[0]))
            filters[place].append(scope.own(part))
        else:
            conditions.append(sql_of(part))
    kept = [joined(each) for each in filters]
    by_source = tuple(None if each is None else sql_of(each) for each in kept)
    return Join(scope, unit, windows, by_source, tuple(conditions), tuple(rest))


def _check_emit(select: Select) -> None:
    emit = select.emit
    if emit is not None and emit.kind == "EVERY":
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "EMIT EVERY says how often aggregates are answered, and the query has none",
            start=emit.start,
            hint="leave it out, or write EMIT IN ORDER",
        )
    refuse_changes(select)


def refuse_changes(select: Select) -> None:
    if select.emit is not None and select.emit.changes:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a join answers each result once, so there are no changes",
            start=select.emit.start,
            hint="leave EMIT CHANGES out",
        )
