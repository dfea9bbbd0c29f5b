"""MERGE JOIN in a standing query: rows of streams whose keys agree within a tolerance.

What is merged, and how, is that of M. Mazzucco et al., "Merging Multiple Data Streams on Common Keys
over High Performance Networks" (2002); see `operators.merge`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from sqlglot import exp

from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.joins.answer import JoinAnswer, answer_of
from anabranch.sql.joins.scope import JoinScope, sources_of
from anabranch.sql.merges.keys import MergeOn, read_on
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import column, conjuncts, sql_of
from anabranch.sql.standing.rows import check_condition
from anabranch.sql.standing.sources import Lookup, plain_select, refuse_clauses
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import MergeOptions, Merging, Select, start_of
from anabranch.sql.windows.aggregate_functions import aggregate_name

Kind: TypeAlias = Literal["inner", "left", "full", "anti"]

ARRIVAL_WAIT = 60_000_000
"""How long (µs) records of streams that stamp on arrival wait, unless the merge says otherwise."""

_KINDS: dict[str, Kind] = {
    "": "inner",
    "INNER": "inner",
    "LEFT": "left",
    "LEFT OUTER": "left",
    "FULL": "full",
    "FULL OUTER": "full",
    "LEFT ANTI": "anti",
}
_INSTEAD = {
    "RIGHT": "change the places of the streams, and write LEFT MERGE JOIN",
    "RIGHT OUTER": "change the places of the streams, and write LEFT MERGE JOIN",
    "LEFT SEMI": "write MERGE JOIN, and select columns of the streams before it only",
    "SEMI": "write MERGE JOIN, and select columns of the streams before it only",
    "ANTI": "write LEFT ANTI MERGE JOIN",
}
_AS_A_STREAM = "make the merge a stream with CREATE STREAM … AS SELECT … MERGE JOIN …, and"
_CLAUSES = {
    "group": ("a merge cannot have GROUP BY", f"{_AS_A_STREAM} group the windows of that"),
    "having": ("a merge cannot have HAVING", f"use WHERE; or {_AS_A_STREAM} aggregate the windows of that"),
    "order": ("a merge answers in the order of its rounds", f"{_AS_A_STREAM} order the windows of that"),
    "limit": ("a merge has no last row to stop at", f"{_AS_A_STREAM} limit the windows of that"),
    "distinct": ("DISTINCT would keep every row ever merged", f"{_AS_A_STREAM} use DISTINCT in windows of that"),
}  # fmt: skip
"""Clauses a merge cannot have: why, and what instead."""


def is_merge(select: Select) -> bool:
    """True for a query with MERGE JOIN."""
    return select.merge is not None


def plan_merge(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator of a query with MERGE JOIN, and the Spark SQL behind it where Arrow cannot do an expression."""
    refuse_archives(select)
    merging = select.merge
    assert merging is not None
    if isinstance(select.tree, exp.SetOperation):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a side of {select.tree.key.upper()} cannot have MERGE JOIN",
            start=merging.starts[0],
            hint=f"{_AS_A_STREAM} name that",
        )
    tree = plain_select(select, joins=True)
    _refuse(select, tree)
    joins = _merges(select, tree, merging)
    kinds = _kinds(select, joins)
    sources = sources_of(select, [tree.args["from_"].this, *(join.this for join in joins)], lookup)
    whole = JoinScope.of(select, sources)
    conditions_of_joins = [read_on(whole.up_to(count), join) for count, join in enumerate(joins, 2)]
    _check_ranges(whole, merging, kinds, conditions_of_joins)
    if kinds[-1] == "anti":
        _refuse_partner(select, tree, sources[-1].alias)
        whole = whole.up_to(len(sources) - 1)
    scope = whole.with_results()
    conditions, rest = _where(scope, tree)
    answer = answer_of(scope, tree, rest)
    operator = _operator(scope, merging, conditions_of_joins, kinds, conditions, answer)
    return StandingPlan(operator, answer.residual_sql, answer.schema, answer.time)


def _operator(
    scope: JoinScope,
    merging: Merging,
    on: list[MergeOn],
    kinds: tuple[Kind, ...],
    conditions: tuple[str, ...],
    answer: JoinAnswer,
) -> Merge | RangeMerge:
    options = merging.options
    sources = tuple((source.alias, source.stream) for source in scope.sources)
    keys, by = tuple(on_one.keys for on_one in on), tuple(on_one.by for on_one in on)
    if options.algorithm == "rtm":
        return RangeMerge(
            sources, keys, by, kinds, conditions, answer.columns, answer.operator_time,
            policy=options.policy, window=options.window, every=options.every, remainder=options.remainder,
        )  # fmt: skip
    in_time = [_time_tolerance(scope, place, on_one) for place, on_one in enumerate(on, 1)]
    return Merge(
        sources, keys, by, kinds, conditions, answer.columns, answer.operator_time,
        policy=options.policy, window=options.window, step=options.step, every=options.every,
        delta=options.delta, over=options.over, memory=options.memory,
        pace=options.pace or _pace(scope, in_time), wait=_wait(scope, options, kinds, in_time),
    )  # fmt: skip


def _time_tolerance(scope: JoinScope, place: int, on: MergeOn) -> int | None:
    """How far apart the times of a stream and of one before it may be; None if they are no key."""
    times = [sql_of(column(source.full(source.schema.time))) for source in scope.sources[: place + 1]]
    own = [int(tolerance) for left, right, tolerance in on.keys if left in times[:-1] and right == times[-1]]
    return min(own, default=None)


def _pace(scope: JoinScope, in_time: list[int | None]) -> Literal["time", "rows"]:
    """By time only where times are those of the rows themselves, and rows are merged by them."""
    arrive = all(source.schema.stamped_on_arrival for source in scope.sources)
    return "rows" if arrive or all(tolerance is None for tolerance in in_time) else "time"


def _wait(scope: JoinScope, options: MergeOptions, kinds: tuple[Kind, ...], in_time: list[int | None]) -> int | None:
    """How long records wait for a partner, where somebody waits for them.

    That is until no partner can come, if times are a key; and by the clock, no longer than people like to wait.
    """
    if options.wait is not None:
        return options.wait or None
    if options.policy != "nearest" and set(kinds) == {"inner"}:
        return None
    tolerances = [tolerance for tolerance in in_time if tolerance is not None]
    if len(tolerances) == len(in_time):
        return max(1, *tolerances)
    return ARRIVAL_WAIT if all(source.schema.stamped_on_arrival for source in scope.sources) else None


def _where(scope: JoinScope, tree: exp.Select) -> tuple[tuple[str, ...], list[exp.Expr]]:
    """Conditions on merged rows, and those of them that Arrow cannot evaluate."""
    where = tree.args.get("where")
    conditions: list[str] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(scope.resolve(where.this)) if where is not None else ():
        check_condition(scope, part)
        if scope.can_compile(part):
            conditions.append(sql_of(part))
        else:
            rest.append(part)
    return tuple(conditions), rest


# -- what is refused -------------------------------------------------------------------------------


def _refuse(select: Select, tree: exp.Select) -> None:
    windows = [window.start for window in (select.window, *select.pairs) if window is not None]
    if windows:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a merge has no WINDOW clause: its windows are counted in rows",
            start=windows[0],
            hint="write WITH (window = 5000) after ON",
        )
    refuse_clauses(select, tree, _CLAUSES)
    for node in (inner for item in tree.expressions for inner in item.walk()):
        if aggregate_name(node):
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "a merge cannot have aggregates",
                node,
                hint=f"{_AS_A_STREAM} aggregate the windows of that",
            )
    if select.emit is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a merge answers each row once, in order, without EMIT {select.emit.kind}",
            start=select.emit.start,
            hint="leave it out; WITH (every = INTERVAL …) says how often there is a round",
        )
    for hint in select.hints:
        raise select.error(
            "HINT_NOT_POSSIBLE",
            "a merge chooses itself how its rows are kept",
            start=hint.start,
            hint="leave the hint out",
        )


def _merges(select: Select, tree: exp.Select, merging: Merging) -> list[exp.Join]:
    """The joins of FROM, each of which must be a MERGE JOIN: one MERGE stands before each of their streams."""
    joins: list[exp.Join] = tree.args.get("joins") or []
    places = [start_of(table) or 0 for table in (tree.args["from_"].this, *(join.this for join in joins))]
    for before, after, join in zip(places, places[1:], joins, strict=False):
        if not any(before < start < after for start in merging.starts):
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "MERGE JOIN cannot stand beside other joins",
                join.this,
                hint=f"{_AS_A_STREAM} join that",
            )
    return joins


def _kinds(select: Select, joins: list[exp.Join]) -> tuple[Kind, ...]:
    kinds: list[Kind] = []
    for number, join in enumerate(joins, 1):
        words = [join.args.get(part) for part in ("method", "side", "kind")]
        said = " ".join(str(word).upper() for word in words if word)
        if said not in _KINDS or join.args.get("using"):
            wrong = f"{said} MERGE JOIN" if said not in _KINDS else "MERGE JOIN … USING"
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                f"there is no {wrong}",
                join.this,
                hint=_INSTEAD.get(said, "write MERGE JOIN … ON within(…)"),
                keyword=said.split()[0] if said not in _KINDS else None,
            )
        if _KINDS[said] in ("full", "anti") and number < len(joins):
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                f"{said} MERGE JOIN can only be the last",
                join.this,
                hint=f"put it last, or {_AS_A_STREAM} merge that",
                keyword=said.split()[0],
            )
        kinds.append(_KINDS[said])
    return tuple(kinds)


def _check_ranges(scope: JoinScope, merging: Merging, kinds: tuple[Kind, ...], on: list[MergeOn]) -> None:
    """What a stream that is asked for ranges of its columns cannot answer."""
    if merging.options.algorithm != "rtm":
        return
    columns = {sql_of(column(name)) for name in scope.schema.names}
    computed = [right for on_one in on for _, right, _ in on_one.keys if right not in columns]
    last = scope.sources[-1].alias
    why, instead = "", ""
    if len(scope.sources) > 2:
        why = f"merges two streams, and there are {len(scope.sources)}"
        instead = "merge two of them in a CREATE STREAM … AS SELECT … first"
    elif kinds[0] == "full":
        why, instead = f"cannot tell which rows of {last} have no partner", "write LEFT MERGE JOIN"
    elif computed:
        why, instead = f"asks for ranges of columns, and {computed[0]} is computed", f"put the column of {last} alone"
    if why:
        raise scope.select.error(
            "MERGE_OPTION_INVALID",
            f"algorithm = 'rtm' {why}",
            start=merging.options.start,
            hint=f"{instead}, or use algorithm = 'cgm'",
        )


def _refuse_partner(select: Select, tree: exp.Select, alias: str) -> None:
    """What has no partner has nothing of the stream it would be merged with."""
    where = tree.args.get("where")
    for part in (*tree.expressions, *([where] if where is not None else ())):
        for node in part.find_all(exp.Column):
            if node.table.lower() == alias.lower():
                raise select.error(
                    "COLUMN_NOT_FOUND",
                    f'LEFT ANTI MERGE JOIN answers rows without a partner, so there is nothing of "{alias}"',
                    node,
                    hint="select columns of the streams before it",
                )
