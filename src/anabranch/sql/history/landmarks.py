"""`FROM stream SINCE …`: aggregates that begin in the past and go on live, answered again every period.

The landmark window of S. Chandrasekaran and M. J. Franklin, "Remembrance of Streams Past: Overload-Sensitive
Management of Archived Streams" (2004), query 1; see `operators.history.landmark`.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.archive.reducers import Spec
from anabranch.operators.history.landmark import Landmark
from anabranch.schema import ARRIVAL_COLUMN
from anabranch.sql.archive_tree import Since
from anabranch.sql.history.answers import (
    HistoryScope,
    check_answer_names,
    confidence_of,
    read_aggregates,
    read_estimates,
    refuse_having,
    schema_of,
)
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import Registered, reducer_in
from anabranch.sql.standing.sources import Lookup, plain_select, refuse_clauses, scope_of
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import is_aggregate

_AS_A_STREAM = "make it a stream with CREATE STREAM … AS SELECT …, and"
_CLAUSES = {
    "joins": ("a query with SINCE reads one stream", "write FROM live JOIN ARCHIVE past LAST … to join with the past"),
    "order": ("a query with SINCE answers in the order of time", f"{_AS_A_STREAM} order the windows of that"),
    "limit": ("a query with SINCE answers every group", f"{_AS_A_STREAM} limit the windows of that"),
    "distinct": ("DISTINCT cannot stand beside aggregates or GROUP BY", "leave DISTINCT out"),
}  # fmt: skip
"""Clauses a landmark query cannot have: why, and what instead."""
_NOT_STANDING = {
    "every": "every(…) reads summaries, which only a question asked once can do",
    "error": "error(…) reads on until an answer is exact enough, which only a question asked once can do",
}


def is_landmark(select: Select) -> bool:
    """True for a query with SINCE."""
    return select.since is not None


def plan_landmark(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator of a query with SINCE."""
    since = select.since
    assert since is not None
    _refuse(select, since)
    tree = plain_select(select, joins=True)
    refuse_clauses(select, tree, _CLAUSES)
    every = _period(select, tree, since)
    plain_scope = scope_of(select, tree, lookup)
    scope = HistoryScope(select, plain_scope.stream, plain_scope.alias, plain_scope.schema)
    reducer = None
    if since.reducing is not None:
        reducer = standing_reducer(
            select, since.reducing.start, reducer_in(select, since.reducing, scope.schema, reducers)
        )
    confidence = confidence_of(select, reduced=reducer is not None)
    instead = "aggregate windows with WINDOW = INTERVAL …"
    if reducer is None:
        read = read_aggregates(scope, tree, instead)
    else:
        refuse_having(select, tree)
        read = read_estimates(scope, tree, instead, distinct=False)
    check_answer_names(scope, read.outputs, timed=True)
    operator = Landmark(
        stream=scope.stream,
        since=since.since,
        keys=read.keys,
        aggregates=read.aggregates,
        columns=read.columns,
        time=ARRIVAL_COLUMN,
        every=every,
        filter=read.filter,
        having=read.having,
        until=since.until,
        reducer=reducer,
        confidence=confidence,
    )
    start = since.start if since.reducing is None else since.reducing.start
    schema = schema_of(select, operator, {scope.stream: scope.schema}, start)
    return StandingPlan(operator, None, schema, ARRIVAL_COLUMN)


def standing_reducer(select: Select, start: int, reducer: Spec) -> Spec:
    """The reducer, if a standing query can have it."""
    if reducer[0] in _NOT_STANDING:
        raise select.error(
            "NOT_ON_REDUCED_DATA",
            _NOT_STANDING[reducer[0]],
            start=start,
            hint="use uniform, age, load or by_key",
        )
    return reducer


def _refuse(select: Select, since: Since) -> None:
    clauses = [
        (select.window, "WINDOW", "leave one of them out"),
        (next(iter(select.pairs), None), "WINDOW", "leave one of them out"),
        (select.shedding, "WITH (…)", "leave it out; REDUCE BY says how much is read of the past"),
    ]
    for clause, said, hint in clauses:
        if clause is not None:
            raise select.error(
                "NOT_IN_THE_LANGUAGE", f"a query with SINCE cannot have {said}", start=clause.start, hint=hint
            )
    for start in select.merge.starts if select.merge is not None else ():
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a query with SINCE cannot have MERGE JOIN",
            start=start,
            hint="make the merge a stream with CREATE STREAM … AS SELECT … MERGE JOIN …, and read that SINCE …",
        )
    for archive in select.archives:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a query with SINCE reads its archive by itself",
            start=archive.start,
            hint="leave ARCHIVE out",
        )
    if isinstance(select.tree, exp.SetOperation):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a side of {select.tree.key.upper()} cannot have SINCE",
            start=since.start,
            hint=f"{_AS_A_STREAM} name that",
        )
    refuse_hints(select, "the query has no window")


def _period(select: Select, tree: exp.Select, since: Since) -> int:
    """How often there is an answer."""
    if not is_aggregate(tree):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "SINCE is for aggregates, and the query has none",
            start=since.start,
            hint="filter by the stream's time, WHERE … >= TIMESTAMP '…', or ask once FROM ARCHIVE …",
        )
    if select.every is not None:
        return select.every
    if select.emit is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a query with SINCE cannot have EMIT {select.emit.kind}",
            start=select.emit.start,
            hint="write EMIT EVERY INTERVAL 15 MINUTES",
        )
    raise select.error(
        "AGGREGATE_UNBOUNDED",
        "nothing says how often aggregates SINCE a time are answered",
        start=since.start,
        hint="add EMIT EVERY INTERVAL 15 MINUTES at the end",
    )
