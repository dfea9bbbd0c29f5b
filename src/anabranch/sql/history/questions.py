"""Aggregates over an archive that is not read in full: one question, answered with bounds.

A reduced read gives some of the rows. So an aggregate over it is an estimate, and it is planned as a whole here or
refused: a count of the rows that happened to be read would be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from anabranch.archive.reducers import Spec
from anabranch.errors import SqlError
from anabranch.sql.archive_tree import CONFIDENCE, ArchiveTable
from anabranch.sql.history.answers import (
    Aggregates,
    HistoryScope,
    check_answer_names,
    no_bounds,
    read_estimates,
)
from anabranch.sql.history.archives import ArchiveQuestion
from anabranch.sql.reading.reduce_by import Registered, reducer_in
from anabranch.sql.standing.sources import KEYWORDS, Lookup, look_up, stream_name
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import is_aggregate
from anabranch.sql.windows.windowed import limit_of, orderings


@dataclass(frozen=True)
class _ArchiveScope(HistoryScope):
    """An archive that is read in part."""

    @property
    def instead(self) -> str:
        times = "; times relative to now can stand in BETWEEN … AND …" if self.select.tree.find(exp.Where) else ""
        return f"read in full: leave {_said(self.select)} out{times}"


def question_of(select: Select, lookup: Lookup, registered: Registered) -> ArchiveQuestion | None:
    """The question, if the query is one: aggregates over an archive that is not read in full."""
    tree = select.tree
    table = _only_table(tree)
    archive = select.archive(table) if table is not None else None
    accuracy = select.accuracy
    if accuracy is None and (archive is None or archive.reducing is None):
        return None
    if archive is None or not isinstance(tree, exp.Select) or table is None:
        if accuracy is None:
            return None
        if select.archives:
            raise _not_plain(select)
        raise select.error(
            "ARCHIVE_WANTED",
            f"{accuracy.said} is for questions to an archive",
            start=accuracy.start,
            hint="write FROM ARCHIVE …, or leave it out",
        )
    if not is_aggregate(tree):
        if accuracy is None:
            return None
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"{accuracy.said} is for aggregates, and the query has none",
            start=accuracy.start,
            hint="leave it out; REDUCE BY … reads part of the rows",
        )
    if accuracy is not None and accuracy.said == "WITH CONFIDENCE" and archive.reducing is None:
        raise no_bounds(select)
    return _plan(select, tree, table, archive, lookup, registered)


def _only_table(tree: exp.Expr) -> exp.Table | None:
    """The table of a query that reads one, and nothing else in FROM."""
    source = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    table = source.this if source is not None else None
    return table if isinstance(table, exp.Table) else None


def _plan(
    select: Select, tree: exp.Select, table: exp.Table, archive: ArchiveTable, lookup: Lookup, registered: Registered
) -> ArchiveQuestion:
    _refuse_clauses(select, tree, table)
    scope = _ArchiveScope(select, stream_name(table), table.alias or table.name, look_up(select, table, lookup))
    accuracy = select.accuracy
    error, within = (None, None) if accuracy is None else (accuracy.error, accuracy.within)
    confidence = CONFIDENCE if accuracy is None else accuracy.confidence
    reducer = None if archive.reducing is None else reducer_in(select, archive.reducing, scope.schema, registered)
    if reducer is not None and reducer[0] == "error" and within is None:
        # The same as WITH ERROR, which says it nearer to the answer and so wins.
        percent, sure = (*reducer[1], CONFIDENCE * 100)[:2]
        error = percent if error is None else error
        confidence = sure / 100 if accuracy is None else confidence
        reducer = None
    _refuse_both(select, archive, reducer)
    instead = f"read in full: leave {_said(select)} out"
    read = read_estimates(scope, tree, instead, distinct=True)
    check_answer_names(scope, read.outputs, timed=False)
    return ArchiveQuestion(
        stream=scope.stream,
        archive=archive.name,
        since=archive.since,
        until=archive.until,
        keys=read.keys,
        aggregates=read.aggregates,
        columns=read.columns,
        filter=read.filter,
        order=_order(scope, tree, read),
        limit=limit_of(scope, tree),
        reducer=reducer,
        error=error,
        within=within,
        confidence=confidence,
    )


def _said(select: Select) -> str:
    return "REDUCE BY" if select.accuracy is None or select.accuracy.said == "WITH CONFIDENCE" else select.accuracy.said


def _order(scope: HistoryScope, tree: exp.Select, read: Aggregates) -> tuple[tuple[str, bool, bool], ...]:
    """ORDER BY over the columns of the answer."""
    by_name = {out.name.lower(): out.value for out in read.outputs}
    shown = {out.value.unnest().name: out.name for out in reversed(read.outputs)}
    order: list[tuple[str, bool, bool]] = []
    for key in orderings(scope, tree, read.outputs, lambda written: read.reader.rewrite(written, {}, by_name)):
        value = key.value.unnest()
        name = shown.get(value.name) if isinstance(value, exp.Column) else None
        if name is None:
            raise scope.select.error(
                "NOT_ON_REDUCED_DATA",
                "a reduced answer is ordered by its columns",
                key.written,
                hint="select what it is ordered by, too",
            )
        order.append((name, key.descending, key.nulls_first))
    return tuple(order)


# -- what is refused -------------------------------------------------------------------------------

_PARTS = {"kind", "expressions", "from_", "where", "group", "order", "limit"}
_OTHER_PARTS = {"joins": "a join", "having": "HAVING", "distinct": "DISTINCT", "with_": "WITH", "offset": "OFFSET",
                "laterals": "LATERAL VIEW", "windows": "window functions", "pivots": "PIVOT"}  # fmt: skip


def _refuse_clauses(select: Select, tree: exp.Select, table: exp.Table) -> None:
    """One SELECT over one archive: of anything else the bounds are not known."""
    for args in (tree.args, {name: table.args.get(name) for name in ("joins", "laterals", "pivots")}):
        for name, value in args.items():
            if not value or (name in _PARTS and args is tree.args):
                continue
            node = value[0] if isinstance(value, list) else value
            place = node if isinstance(node, exp.Expr) else tree
            keyword = KEYWORDS.get(name)
            raise _not_plain(select, _OTHER_PARTS.get(name, keyword or name.strip("_").upper()), place, keyword)
    for node in tree.walk():
        if isinstance(node, exp.Window):
            raise _not_plain(select, "window functions", node)
        if isinstance(node, exp.Query) and node is not tree:
            raise _not_plain(select, "a subquery", node)


def _not_plain(
    select: Select, what: str | None = None, node: exp.Expr | None = None, keyword: str | None = None
) -> SqlError:
    start = None if node is not None else select.accuracy.start if select.accuracy is not None else select.start
    return select.error(
        "NOT_ON_REDUCED_DATA",
        f"bounds are given for one SELECT over one archive{'' if what is None else f', without {what}'}",
        node,
        start=start,
        hint=f"{'ask for that alone' if what is None else 'leave it out'}, or read in full: leave {_said(select)} out",
        keyword=keyword,
    )


def _refuse_both(select: Select, archive: ArchiveTable, reducer: Spec | None) -> None:
    """WITH ERROR and WITHIN say themselves how much is read; keys may still be kept whole."""
    accuracy = select.accuracy
    if reducer is None or archive.reducing is None or accuracy is None or accuracy.said == "WITH CONFIDENCE":
        return
    if reducer[0] != "by_key":
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"{accuracy.said} and {reducer[0]}(…) both say how much is read",
            start=archive.reducing.start,
            hint="leave REDUCE BY out, or reduce by_key(column, …) to keep keys whole",
        )
