"""Joins of streams in a standing query: a result is a row of each, close enough in time.

The windows are those of M. A. Hammad, W. G. Aref, A. K. Elmagarmid et al., "STEAM" (2002), section
6.2: one for all pairs of streams, or one for each of as many pairs as bind all streams together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.operators.join.operator import WindowJoin, program_of
from anabranch.operators.join.outer import Kind
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.joins.answer import answer_of
from anabranch.sql.joins.scope import JoinScope, JoinSource, listed, sources_of
from anabranch.sql.joins.windows import Constraint, windows_of
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.reading.window_clause import Unit
from anabranch.sql.standing.columns import conjuncts, joined, sql_of
from anabranch.sql.standing.rows import check_condition
from anabranch.sql.standing.sources import Lookup, plain_select, refuse_clauses
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select

AS_A_STREAM = "make the join a stream with CREATE STREAM … AS SELECT … EMIT IN ORDER, and"
_CLAUSES = {
    "order": ("a join answers its results as they are found", f"{AS_A_STREAM} order the windows of that"),
    "limit": ("a join has no last row to stop at", f"{AS_A_STREAM} limit the windows of that"),
    "distinct": ("DISTINCT would keep every result ever found", f"{AS_A_STREAM} use DISTINCT in windows of that"),
}  # fmt: skip
"""Clauses a join cannot have: why, and what instead."""
_ENDINGS = ", or end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or ACCEPT UNBOUNDED"


OUTER: dict[str, Kind] = {
    "LEFT": "left",
    "LEFT OUTER": "left",
    "RIGHT": "right",
    "RIGHT OUTER": "right",
    "FULL": "full",
    "FULL OUTER": "full",
    "SEMI": "semi",
    "LEFT SEMI": "semi",
    "ANTI": "anti",
    "LEFT ANTI": "anti",
}
"""What stands before a JOIN that is no inner one."""


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
        window_join = WindowJoin(
            sources=tuple(
                (source.alias, source.stream, condition)
                for source, condition in zip(sources, self.filters, strict=True)
            ),
            unit=self.unit,
            windows=self.windows,
            conditions=self.conditions,
            columns=columns,
            time=time,
            order="time" if ordered or self.unit == "rows" else "arrival",
            memory=shedding.memory if shedding is not None else None,
            shed=shedding.shed if shedding is not None else None,
        )
        schemas = tuple(source.schema.arrow for source in sources)
        if shedding is None or shedding.shed != "matches":
            return window_join
        if program_of(window_join, schemas).shared_key() is None:
            raise select.error(
                "SHED_NEEDS_A_KEY",
                "rows can be kept by the matches of their key only if one key is equal in all streams",
                start=shedding.start,
                hint="use shed = 'random' or 'oldest'",
            )
        return window_join


def is_join(select: Select) -> bool:
    """True if the query reads several streams."""
    return isinstance(select.tree, exp.Select) and bool(select.tree.args.get("joins"))


def plan_join(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator of a join without aggregates, and the Spark SQL behind it where Arrow cannot do an expression."""
    refuse_archives(select)
    join, tree = read_join(select, lookup)
    check_emit(select)
    answer = answer_of(join.scope.with_results(), tree, join.rest)
    ordered = select.emit is not None and select.emit.kind == "IN ORDER"
    operator = join.operator(answer.columns, answer.operator_time, ordered=ordered)
    return StandingPlan(operator, answer.residual_sql, answer.schema, answer.time)


# -- what is joined ------------------------------------------------------------------------------


def read_join(select: Select, lookup: Lookup) -> tuple[Join, exp.Select]:
    """What a query over several streams joins."""
    scope, unit, windows, tree = joined_streams(select, lookup)
    return _with_conditions(scope, unit, windows, tree), tree


def joined_streams(
    select: Select, lookup: Lookup, kinds: Collection[str] = ()
) -> tuple[JoinScope, Unit, tuple[Constraint, ...], exp.Select]:
    """The streams of a join and the windows between them; of other `kinds` than an inner one, too."""
    tree = plain_select(select, joins=True)
    joins: list[exp.Join] = tree.args["joins"]
    for join in joins:
        _check_kind(select, join, kinds)
    tables = [tree.args["from_"].this, *(join.this for join in joins)]
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
    return scope, unit, windows, tree


def said_of(join: exp.Join) -> str:
    """What stands before JOIN."""
    words = [join.args.get(part) for part in ("method", "side", "kind")]
    return " ".join(str(word).upper() for word in words if word)


def _check_kind(select: Select, join: exp.Join, kinds: Collection[str]) -> None:
    said = said_of(join)
    if said not in ("", "INNER", "CROSS", *kinds):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a standing query cannot have a {said} JOIN" + (" with aggregates" if said in OUTER else ""),
            join,
            hint=f"{AS_A_STREAM} aggregate the windows of that"
            if said in OUTER
            else f"write {said.replace('RIGHT', 'LEFT')} JOIN, with the streams the other way around"
            if said in ("RIGHT SEMI", "RIGHT ANTI")
            else "write JOIN … ON …",
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


def _unbounded(select: Select, sources: Sequence[JoinSource], place: exp.Expr) -> SqlError:
    return select.error(
        "JOIN_STATE_UNBOUNDED",
        f"joining {listed([source.alias for source in sources])} would keep every row forever",
        place,
        hint="add WINDOW = INTERVAL … after FROM" + (_ENDINGS if select.every is None else ""),
    )


def _with_conditions(scope: JoinScope, unit: Unit, windows: tuple[Constraint, ...], tree: exp.Select) -> Join:
    """Conditions of ON and WHERE; what one source alone decides is applied while it is read."""
    parts: list[exp.Expr] = []
    for place, join in enumerate(tree.args["joins"], 2):
        if join.args.get("on") is not None:
            parts += conjuncts(scope.up_to(place).resolve(join.args["on"]))
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
    kept = [joined(parts_of_source) for parts_of_source in filters]
    by_source = tuple(None if condition is None else sql_of(condition) for condition in kept)
    return Join(scope, unit, windows, by_source, tuple(conditions), tuple(rest))


def check_emit(select: Select) -> None:
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
