"""`FROM live JOIN ARCHIVE past LAST n INTERVAL … WITHIN INTERVAL … ON …`: live rows that were also seen in the past.

Query 2 of S. Chandrasekaran and M. J. Franklin, "Remembrance of Streams Past: Overload-Sensitive Management of
Archived Streams" (2004): cars that pass this exit now and did so at this hour on each of the last days. A live row
is answered once, however many partners it has; see `operators.history.join`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from anabranch.archive.reducers import Spec
from anabranch.errors import SqlError
from anabranch.operators.history.join import FRACTION, MATCHES, PORTIONS, HistoryJoin, live_with_found
from anabranch.operators.history.join_aggregate import HistoryJoinAggregate
from anabranch.schema import ARRIVAL_COLUMN, StreamSchema
from anabranch.sql.archive_tree import ArchiveTable, Portions
from anabranch.sql.history.answers import (
    HistoryScope,
    confidence_of,
    read_aggregates,
    read_estimates,
    refuse_having,
    schema_of,
)
from anabranch.sql.history.keys import read_on
from anabranch.sql.history.landmarks import standing_reducer
from anabranch.sql.joins.scope import JoinScope, JoinSource, sources_of
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import Registered, reducer_in
from anabranch.sql.standing.rows import answer_of_rows, check_names, conditions_of
from anabranch.sql.standing.sources import Lookup, plain_select, refuse_clauses
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select, Window
from anabranch.sql.windows.aggregate_functions import is_aggregate
from anabranch.sql.windows.rows import without_stars
from anabranch.sql.windows.windowed import stamp_of, type_in_window

_FOUND = (PORTIONS, MATCHES, FRACTION)
_KINDS = ("", "INNER", "SEMI", "LEFT SEMI")
_AS_A_STREAM = "make it a stream with CREATE STREAM … AS SELECT …, and"
_CLAUSES = {
    "order": ("a join with the past answers in the order of time", f"{_AS_A_STREAM} order the windows of that"),
    "limit": ("a join with the past has no last row to stop at", f"{_AS_A_STREAM} limit the windows of that"),
    "distinct": ("DISTINCT would keep every row ever found", f"{_AS_A_STREAM} use DISTINCT in windows of that"),
}  # fmt: skip
"""Clauses a join with the past cannot have: why, and what instead."""


@dataclass(frozen=True)
class _LiveScope(HistoryScope):
    """The live stream, and beside its columns what a row of the answer has of itself; `past` cannot be named.

    Aggregates lie in the periods of EMIT EVERY: those are windows.
    """

    past: str = ""

    @property
    def has_windows(self) -> bool:
        return self.select.window is not None

    def name_of(self, node: exp.Column) -> str | None:
        if node.table and node.table.lower() == self.past.lower() and node.args.get("db") is None:
            raise self.select.error(
                "COLUMN_NOT_FOUND",
                f'a live row is answered once, so there is nothing of "{self.past}"',
                node,
                hint=f"select columns of {self.alias}, _portions or _matches; conditions on {self.past} stand in ON",
            )
        return super().name_of(node)

    def not_found(self, node: exp.Column, others: list[str]) -> SqlError:
        if node.name.lower() not in _FOUND:
            return super().not_found(node, others)
        return self.select.error(
            "COLUMN_NOT_FOUND",
            f'"{node.name}" is known once the past has been looked at',
            node,
            hint=f"{_AS_A_STREAM} filter the rows of that",
        )


def is_history_join(select: Select) -> bool:
    """True if the query joins with portions of the past."""
    return any(archive.portions is not None for archive in select.archives)


def plan_history_join(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator of a join with the past, and the Spark SQL behind it where Arrow cannot do an expression."""
    tree, archive, portions = _read(select)
    refuse_clauses(select, tree, _CLAUSES)
    join: exp.Join = tree.args["joins"][0]
    live, past = sources_of(select, [tree.args["from_"].this, join.this], lookup)
    scope = JoinScope.of(select, (live, past))
    on = read_on(scope, join)
    where, rest = conditions_of(_LiveScope(select, live.stream, live.alias, live.schema, past.alias), tree)
    answer = _LiveScope(select, live.stream, live.alias, _with_results(select, live), past.alias)
    itself = past.stream.lower() == live.stream.lower()
    history_join = HistoryJoin(
        stream=live.stream,
        alias=live.alias,
        history=live.stream if itself else past.stream,
        on=on.keys,
        period=portions.period,
        portions=portions.count,
        within=portions.within,
        match=portions.match,
        columns=(),
        time=live.schema.time,
        filter=_all_of([condition for condition in (on.live_filter, where) if condition is not None]),
        history_filter=on.past_filter,
        reducer=_reducer(select, archive, past, reducers),
    )
    schemas = {past.stream: past.schema, live.stream: live.schema}
    start = portions.start if archive.reducing is None else archive.reducing.start
    schema_of(select, history_join, schemas, start)  # refuses reducers that do not keep keys whole
    if is_aggregate(tree):
        for condition in rest:
            type_in_window(answer, condition, condition)
        return _aggregated(answer, tree, history_join, schemas, start)
    confidence_of(select, reduced=False)
    _refuse_emit(select)
    columns = without_stars(_LiveScope(select, live.stream, live.alias, live.schema, past.alias), tree)
    names = [item.alias_or_name.lower() for item in columns.expressions]
    if history_join.reducer is not None and FRACTION not in names:
        # An answer from part of history says so.
        columns = columns.copy()
        columns.append("expressions", exp.column(FRACTION, quoted=True))
    rows = answer_of_rows(answer, columns, rest)
    operator = replace(history_join, columns=rows.columns, time=rows.operator_time)
    return StandingPlan(operator, rows.residual_sql, rows.schema, rows.time)


def _all_of(conditions: list[str]) -> str | None:
    if len(conditions) > 1:
        return " AND ".join(f"({condition})" for condition in conditions)
    return conditions[0] if conditions else None


def _aggregated(
    scope: _LiveScope, tree: exp.Select, join: HistoryJoin, schemas: dict[str, StreamSchema], start: int
) -> StandingPlan:
    """Aggregates of what is found, answered as often as EMIT EVERY says."""
    select, reduced = scope.select, join.reducer is not None
    if select.every is None:
        _refuse_emit(select)
        raise select.error(
            "AGGREGATE_UNBOUNDED",
            "aggregates over a join with the past would never be finished",
            tree,
            hint="add EMIT EVERY INTERVAL 15 MINUTES at the end",
        )
    window = Window("time", select.every, select.every)
    scope = replace(scope, select=replace(select, window=window))
    instead = f"{_AS_A_STREAM} aggregate the windows of that"
    if reduced:
        refuse_having(select, tree)
        read = read_estimates(scope, tree, instead, distinct=False)
    else:
        read = read_aggregates(scope, tree, instead)
    stamp = stamp_of(read.outputs, window)
    check_names(scope, read.outputs, stamp)
    operator = HistoryJoinAggregate(
        join=join,
        every=select.every,
        keys=read.keys,
        aggregates=read.aggregates,
        columns=read.columns,
        time=ARRIVAL_COLUMN if stamp is None else stamp.name,
        having=read.having,
        confidence=confidence_of(select, reduced=reduced),
    )
    schema = schema_of(select, operator, schemas, start)
    return StandingPlan(operator, None, schema, operator.time)


def _with_results(select: Select, live: JoinSource) -> StreamSchema:
    taken = next((name for name in live.schema.names if name.lower() in _FOUND), None)
    if taken is not None:
        raise select.error(
            "COLUMN_RESERVED",
            f'column "{taken}" of "{live.stream}" is kept for what is found in the past',
            hint=f"give it another name in a CREATE STREAM … AS SELECT {taken} AS …",
        )
    return StreamSchema(live_with_found(live.schema.arrow), live.schema.time)


# -- what is joined --------------------------------------------------------------------------------


def _read(select: Select) -> tuple[exp.Select, ArchiveTable, Portions]:
    """The one join, of a live stream with an archive."""
    last = next(archive.portions for archive in select.archives if archive.portions is not None)
    for clause, said in (
        (select.window, "WINDOW"),
        (next(iter(select.pairs), None), "WINDOW"),
        (select.shedding, "WITH (…)"),
        (select.since, "SINCE"),
    ):
        if clause is not None:
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                f"a join with the past cannot have {said}",
                start=clause.start,
                hint="leave it out: LAST … WITHIN … says what is kept",
            )
    refuse_hints(select, "the query has no window")
    if not isinstance(select.tree, exp.Select):
        raise _alone(select, last)
    tree = plain_select(select, joins=True)
    joins: list[exp.Join] = tree.args.get("joins") or []
    archive = select.archive(joins[0].this) if len(joins) == 1 else None
    portions = archive.portions if archive is not None else None
    if archive is None or portions is None or len(select.archives) > 1 or select.merge is not None:
        raise _alone(select, last)
    if archive.name is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a join with the past chooses the archive itself",
            start=archive.start,
            hint=f'leave "{archive.name} ON" out',
        )
    words = [joins[0].args.get(part) for part in ("method", "side", "kind")]
    said = " ".join(str(word).upper() for word in words if word)
    if said not in _KINDS or joins[0].args.get("using"):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"there is no {said} JOIN with the past" if said not in _KINDS else "a join with the past takes ON",
            joins[0].this,
            hint="write JOIN ARCHIVE … LAST … ON …",
        )
    return tree, archive, portions


def _alone(select: Select, portions: Portions) -> SqlError:
    return select.error(
        "NOT_IN_THE_LANGUAGE",
        "LAST … is for a join of live rows with their past, alone in its query",
        start=portions.start,
        hint="write FROM live JOIN ARCHIVE past LAST … ON …",
    )


def _reducer(select: Select, archive: ArchiveTable, past: JoinSource, registered: Registered) -> Spec | None:
    if archive.reducing is None:
        return None
    reducer = reducer_in(select, archive.reducing, past.schema, registered)
    return standing_reducer(select, archive.reducing.start, reducer)


def _refuse_emit(select: Select) -> None:
    if select.emit is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a join with the past cannot have EMIT {select.emit.kind}"
            + (" without aggregates" if select.emit.kind == "EVERY" else ""),
            start=select.emit.start,
            hint="leave it out: rows are answered in the order of time",
        )
