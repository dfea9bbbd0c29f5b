"""The ON of a join with the past: which values must be equal, and conditions on either stream alone."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.operators.columns import bind
from anabranch.operators.history.equal import Equal
from anabranch.sql.history.answers import HistoryScope
from anabranch.sql.joins.scope import JoinScope, JoinSource
from anabranch.sql.standing.columns import conjuncts, joined, sql_of
from anabranch.sql.standing.rows import check_condition
from anabranch.sql.windows.windowed import type_in_window


@dataclass(frozen=True)
class HistoryOn:
    """Pairs of values that must be equal, (live SQL, past SQL), and conditions on either side alone."""

    keys: tuple[tuple[str, str], ...]
    live_filter: str | None
    past_filter: str | None


def read_on(scope: JoinScope, join: exp.Join) -> HistoryOn:
    """What makes rows of the past partners of a live row."""
    live, past = scope.sources
    keys: list[tuple[str, str]] = []
    filters: dict[JoinSource, list[exp.Expr]] = {live: [], past: []}
    condition = join.args.get("on")
    for written in conjuncts(condition) if condition is not None and condition != exp.true() else ():
        part = scope.resolve(written)
        owners = scope.owners_of(part)
        if len(owners) == 1:
            owner = owners.pop()
            own = scope.own(part)
            type_in_window(_alone_in(scope, owner), own, written)
            check_condition(_alone_in(scope, owner), own)
            filters[owner].append(own)
        elif isinstance(part, exp.EQ) and (pair := _pair(scope, part)) is not None:
            keys.append(pair)
        else:
            raise scope.select.error(
                "HISTORY_CONDITION_INVALID",
                f"ON of a join with the past holds {live.alias}.… = {past.alias}.… and conditions on one of them, "
                "joined by AND",
                written,
                hint=f"put conditions on {live.alias} in WHERE",
            )
    if not keys:
        raise scope.select.error(
            "HISTORY_CONDITION_INVALID",
            f"nothing says which rows of {past.alias} are partners of a row of {live.alias}",
            join.this if condition is None or condition == exp.true() else condition,
            hint=f"add {live.alias}.… = {past.alias}.… to ON",
        )
    ours, theirs = joined(filters[live]), joined(filters[past])
    return HistoryOn(tuple(keys), None if ours is None else sql_of(ours), None if theirs is None else sql_of(theirs))


def _alone_in(scope: JoinScope, source: JoinSource) -> HistoryScope:
    return HistoryScope(scope.select, source.stream, source.alias, source.schema)


def _pair(scope: JoinScope, part: exp.EQ) -> tuple[str, str] | None:
    """Both sides of an equality, the live one first; None if it is not of both streams."""
    live, past = scope.sources
    first, second = part.this.unnest(), part.expression.unnest()
    owners = (scope.owners_of(first), scope.owners_of(second))
    if owners == ({past}, {live}):
        first, second = second, first
    elif owners != ({live}, {past}):
        return None
    for source, side in ((live, first), (past, second)):
        type_in_window(_alone_in(scope, source), scope.own(side), part)
    ours, theirs = sql_of(scope.own(first)), sql_of(scope.own(second))
    try:
        Equal.of(bind(ours, live.schema.arrow), bind(theirs, past.schema.arrow))
    except QueryError as problem:
        raise scope.select.error(problem.name, problem.message, part, hint=problem.hint) from None
    return ours, theirs
