"""What a query reads of archives: rows for one of its tables, or as a whole a question that is answered with bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from anabranch.archive.reducers import Spec
from anabranch.operators.archive.question import FRACTION
from anabranch.sql.archive_tree import CONFIDENCE, ArchiveTable
from anabranch.sql.reading.intervals import format_us
from anabranch.sql.reading.points_in_time import shown
from anabranch.sql.reading.reduce_by import Registered, reducer_in, reducer_text
from anabranch.sql.standing.sources import Lookup, look_up, stream_name
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import aggregate_name


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
            "bounds": "NULL where none can be said; the answer's notices say why",
        }
        return {key: value for key, value in said.items() if value not in (None, {}, [])}


def _range(since: int | None, until: int | None) -> str:
    begins = "the beginning" if since is None else shown(since)
    return f"from {begins} to {'the end' if until is None else shown(until - 1)}"


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
    call = next((node for node in nodes if node.find_ancestor(exp.Select) is around), None)
    if around.args.get("distinct"):
        raise select.error(
            "NOT_ON_REDUCED_DATA",
            "DISTINCT over reduced rows would leave out values that no row read has",
            around,
            hint="leave DISTINCT out, or put it around a subquery if the values that were read are meant",
        )
    if call is not None or around.args.get("group"):
        raise select.error(
            "NOT_ON_REDUCED_DATA",
            "an aggregate over reduced rows would count what was read, not what is there",
            call if call is not None else around.args["group"],
            hint="make it one SELECT over ARCHIVE … REDUCE BY … alone, or leave REDUCE BY out",
        )
