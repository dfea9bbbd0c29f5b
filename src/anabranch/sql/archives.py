"""Questions to archives: what one table of a query reads of an archive, and aggregates answered with bounds.

A reduced read gives some of the rows. So an aggregate over it is an estimate, and it is planned here as a whole
(`ArchiveQuestion`), or refused: a count of the rows that happened to be read would be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from anabranch.archive.reducers import Spec
from anabranch.errors import SqlError
from anabranch.operators.archive_question import FRACTION
from anabranch.sql.aggregate_functions import aggregate_name, is_aggregate
from anabranch.sql.archive_tree import CONFIDENCE, ArchiveTable
from anabranch.sql.history_answers import (
    Aggregates,
    HistoryScope,
    check_answer_names,
    no_bounds,
    read_aggregates,
)
from anabranch.sql.intervals import format_us
from anabranch.sql.moments import shown
from anabranch.sql.reducing import Registered, reducer_in, reducer_text
from anabranch.sql.sources import KEYWORDS, Lookup, look_up, stream_name
from anabranch.sql.tree import Select
from anabranch.sql.windowed import limit_of, orderings


@dataclass(frozen=True)
class ArchiveUse:
    """What a table of a query reads of an archive; `until` is excluded, and both are microseconds."""

    name: str | None = None
    since: int | None = None
    until: int | None = None
    reducer: Spec | None = None

    def explain(self) -> dict[str, Any]:
        return {
            "archive": self.name or "any",
            "range": _range(self.since, self.until),
            "reducer": None if self.reducer is None else reducer_text(self.reducer),
        }


@dataclass(frozen=True)
class ArchiveQuestion:
    """Aggregates over an archive that are answered with bounds, from as few rows as it takes.

    `keys` are (name, SQL), `aggregates` (name, function, SQL or None), `columns` the answer's (name, that of a key or
    aggregate), `order` (column of the answer, descending, NULLs first). `error` is in percent, `within` in
    microseconds. `until` is excluded.
    """

    stream: str
    archive: str | None
    since: int | None
    until: int | None
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    filter: str | None = None
    order: tuple[tuple[str, bool, bool], ...] = ()
    limit: int | None = None
    reducer: Spec | None = None
    error: float | None = None
    within: int | None = None
    confidence: float = CONFIDENCE

    def explain(self) -> dict[str, Any]:
        """The question as plain data, without what it does not say."""
        calls = {name: f"{function}({argument or '*'})" for name, function, argument in self.aggregates}
        said = {
            "stream": self.stream,
            **ArchiveUse(self.archive, self.since, self.until, self.reducer).explain(),
            "filter": self.filter,
            "keys": dict(self.keys),
            "aggregates": calls,
            "order": [f"{name}{' DESC' if descending else ''}" for name, descending, _ in self.order],
            "limit": self.limit,
            "error": None if self.error is None else f"{self.error:g} percent",
            "within": None if self.within is None else format_us(self.within),
            "confidence": f"{self.confidence * 100:g} percent",
        }
        return {key: value for key, value in said.items() if value not in (None, {}, [])}


def _range(since: int | None, until: int | None) -> str:
    begins = "the beginning" if since is None else shown(since)
    return f"from {begins} to {'the end' if until is None else shown(until - 1)}"


# -- tables ----------------------------------------------------------------------------------------


def use_of(
    select: Select, table: exp.Table, archive: ArchiveTable, lookup: Lookup, registered: Registered
) -> ArchiveUse:
    """What a table reads of an archive, row by row."""
    if archive.portions is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "LAST … is for a join of live rows with their past, alone in its query",
            start=archive.portions.start,
            hint="write BETWEEN … AND …, or FROM live JOIN ARCHIVE past LAST … ON …",
        )
    if archive.reducing is None:
        return ArchiveUse(archive.name, archive.since, archive.until)
    _refuse_aggregates(select, table, archive)
    schema = look_up(select, table, lookup)
    if FRACTION in (name.lower() for name in schema.names):
        raise select.error(
            "COLUMN_RESERVED",
            f'column "{FRACTION}" of "{stream_name(table)}" is kept for the part of the rows that is read',
            start=archive.reducing.start,
            hint="leave REDUCE BY out",
        )
    reducer = reducer_in(select, archive.reducing, schema, registered)
    if reducer[0] in ("error", "every"):
        raise select.error(
            "NOT_ON_REDUCED_DATA",
            f"{reducer[0]}(…) is for aggregates, and these are rows",
            start=archive.reducing.start,
            hint="use uniform, age, load or by_key",
        )
    return ArchiveUse(archive.name, archive.since, archive.until, reducer)


def _refuse_aggregates(select: Select, table: exp.Table, archive: ArchiveTable) -> None:
    """Aggregates in the same SELECT as a reduced table would be those of the sample."""
    around = table.find_ancestor(exp.Select)
    if around is None or archive.reducing is None:
        return
    parts = [*around.expressions, *(around.args[name] for name in ("having", "order") if around.args.get(name))]
    nodes = (node for part in parts for node in part.walk() if aggregate_name(node))
    found = next((node for node in nodes if node.find_ancestor(exp.Select) is around), None)
    if found is not None or around.args.get("group"):
        raise select.error(
            "NOT_ON_REDUCED_DATA",
            "an aggregate over reduced rows would count what was read, not what is there",
            found if found is not None else around.args["group"],
            hint="make it one SELECT over ARCHIVE … REDUCE BY … alone, or leave REDUCE BY out",
        )


# -- questions -------------------------------------------------------------------------------------


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
    scope = HistoryScope(select, stream_name(table), table.alias or table.name, look_up(select, table, lookup))
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
    read = read_aggregates(scope, tree, instead, reduced=True, distinct=True)
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
    found: list[tuple[str, bool, bool]] = []
    for key in orderings(scope, tree, read.outputs, lambda each: read.reader.rewrite(each, {}, by_name)):
        value = key.value.unnest()
        name = read.shown.get(value.name) if isinstance(value, exp.Column) else None
        if name is None:
            raise scope.select.error(
                "NOT_ON_REDUCED_DATA",
                "a reduced answer is ordered by its columns",
                key.written,
                hint="select what it is ordered by, too",
            )
        found.append((name, key.descending, key.nulls_first))
    return tuple(found)


# -- what is refused -------------------------------------------------------------------------------

_PARTS = {"kind", "expressions", "from_", "where", "group", "order", "limit"}
_OTHER_PARTS = {"joins": "a join", "having": "HAVING", "distinct": "DISTINCT", "with_": "WITH", "offset": "OFFSET",
                "laterals": "LATERAL VIEW", "windows": "window functions", "pivots": "PIVOT"}  # fmt: skip


def _refuse_clauses(select: Select, tree: exp.Select, table: exp.Table) -> None:
    """One SELECT over one archive: of anything else the bounds are not known."""
    for args in (tree.args, {name: table.args.get(name) for name in ("joins", "laterals", "pivots")}):
        for name, found in args.items():
            if not found or (name in _PARTS and args is tree.args):
                continue
            node = found[0] if isinstance(found, list) else found
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


def refuse_windows(select: Select) -> None:
    """For windows and merges that are asked once: they are of streams."""
    for archive in select.archives:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "windows and merges are over streams, not over archives",
            start=archive.start,
            hint="leave ARCHIVE out: asked once, a stream's name stands for all its rows, archived ones too",
        )


def refuse_archives(select: Select) -> None:
    """For standing queries that are not about the past."""
    for archive in select.archives:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a standing query cannot read an archive like a stream",
            start=archive.start,
            hint="begin in the past with FROM … SINCE TIMESTAMP '…', join with it by "
            "JOIN ARCHIVE … LAST n INTERVAL … WITHIN INTERVAL …, or ask once with SELECT",
        )
    if select.accuracy is not None:
        raise select.error(
            "ARCHIVE_WANTED",
            f"{select.accuracy.said} is for questions to an archive",
            start=select.accuracy.start,
            hint="write FROM ARCHIVE …, or leave it out",
        )
