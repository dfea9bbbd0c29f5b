"""Questions to archives, answered: from summaries if windows are asked for, else from as few rows as it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.archive.declaration import WINDOWED, ArchiveInfo, archives_of
from anabranch.archive.estimation.sums import Sums
from anabranch.archive.reader import HistoryReader
from anabranch.archive.summaries.eager import EagerSummaries
from anabranch.archive.summaries.lazy import LazySummaries
from anabranch.archive.summaries.questions import SummaryQuestion, question_by_summaries, why_not
from anabranch.archive.summaries.reads import summaries_for
from anabranch.archive.summaries.rollups import Shape
from anabranch.catalog import Catalog
from anabranch.errors import CatalogError, QueryError, StreamError
from anabranch.log.reader import StreamReader
from anabranch.operators.archive.question import Answer, answer
from anabranch.operators.base import Operator
from anabranch.operators.columns import Bound, bind
from anabranch.operators.windows.ordering import ranks
from anabranch.sql.history.archives import ArchiveQuestion


def ask(
    question: ArchiveQuestion,
    catalog: Catalog,
    history: Callable[[str], Any],
    run: Callable[[Operator], pa.Table],
) -> Answer:
    """The answer of a question; `history` gives the reader of a stream, `run` reads what an operator says."""
    reader: HistoryReader = history(question.stream)
    if question.reducer is not None and question.reducer[0] == "every":
        return Answer(_by_summaries(question, catalog, reader), [])
    if question.archive is not None:
        reader = reader.only(question.archive)
    rows = _rows_between(reader, question.since, question.until)
    return answer(question, lambda operator: Sums.from_table(run(operator)), rows, block=reader.block)


def told_before(question: ArchiveQuestion, history: Callable[[str], Any]) -> list[str]:
    """What there is to say about the answer of a question without asking it."""
    if not any(function.lower() in ("sum", "avg") for _, function, _ in question.aggregates):
        return []
    archives = history(question.stream).archives
    asked = [
        archive
        for archive in archives
        if question.archive is None or archive.info.name.lower() == question.archive.lower()
    ]
    return [
        f'{old} of {len(archive.runs)} runs of archive "{archive.info.name}" do not say which of their rows '
        "lie far out, and sums over them have no bounds: "
        f"VACUUM ARCHIVE {archive.info.name} ON {question.stream} writes them again"
        for archive in asked
        if (old := archive.without_facts())
    ]


def _rows_between(reader: HistoryReader, since: int | None, until: int | None) -> int:
    """About how many rows a question is about."""
    pieces = reader.pieces(reader.first_row(), reader.end().row)
    inside = (p for p in pieces if (since is None or p.time_last >= since) and (until is None or p.time_first < until))
    return sum(piece.end - piece.first for piece in inside)


# -- from summaries of windows ---------------------------------------------------------------------


def summaries_name(info: ArchiveInfo) -> str:
    """The standing query that fills an archive of summaries."""
    return f"{info.stream}.{info.name}"


def _by_summaries(question: ArchiveQuestion, catalog: Catalog, reader: HistoryReader) -> pa.Table:
    assert question.reducer is not None
    every: int = question.reducer[1][0]
    declared = archives_of(catalog.stream_storage(question.stream))
    eager = [info for _, info in declared if info.layout == WINDOWED]
    if question.archive is not None:
        named = [info for info in eager if info.name.lower() == question.archive.lower()]
        if named:
            eager = named  # and for what it does not hold, whichever archive has the rows
        else:
            reader = reader.only(question.archive)
    where = None if question.filter is None else bind(question.filter, reader.schema)
    asked = SummaryQuestion(
        keys=tuple((name, _column(sql, reader.schema, "group by")) for name, sql in question.keys),
        aggregates=tuple(
            (name, function.lower(), None if sql is None else _column(sql, reader.schema, function))
            for name, function, sql in question.aggregates
        ),
        filter_columns=() if where is None else where.columns,
    )
    shape = asked.shape(every)
    problem = why_not(asked, shape, reader.schema)
    if problem is not None:
        raise QueryError(
            "NOT_ON_REDUCED_DATA", problem, hint="leave REDUCE BY every(…) out, or use another reducer such as uniform"
        )
    stored = [place for place, info in declared if info.layout != WINDOWED]
    lazy = LazySummaries(stored[0], reader.schema) if stored else None
    copies = _eager(catalog, reader, eager)
    summarised = summaries_for(reader, question.since, question.until, shape, reader.end(), lazy, copies)
    table = question_by_summaries(asked, summarised, None if where is None else _filter(where, shape))
    return _arranged(question, table)


def _column(sql: str, schema: pa.Schema, what: str) -> str:
    bound = bind(sql, schema)
    if not bound.is_column:
        raise QueryError(
            "NOT_ON_REDUCED_DATA",
            f"{what} {sql} cannot be told from summaries of windows, which are of columns",
            hint="name a column, or use another reducer such as uniform",
        )
    return bound.columns[0]


def _filter(where: Bound, shape: Shape) -> Callable[[pa.Table], pa.ChunkedArray | pa.Array]:
    """The filter on summaries, whose keys are columns of the stream under names of their own."""
    places = {column: 2 + shape.keys.index(column) for column in where.columns}
    return lambda table: where.evaluate(pa.table({column: table.column(at) for column, at in places.items()}))


def _eager(catalog: Catalog, reader: HistoryReader, infos: Sequence[ArchiveInfo]) -> list[EagerSummaries]:
    """The copies that standing queries fill, as far as they know all rows of their windows."""
    copies = []
    for info in infos:
        assert info.every is not None
        shape = Shape(info.every, info.group_by, info.values)
        try:
            answers = StreamReader(catalog.stream_storage(summaries_name(info)))
            catalog.query(summaries_name(info))
        except (CatalogError, StreamError):
            continue
        answers.refresh()
        copies.append(EagerSummaries(answers, shape, _complete_from(reader, info)))
    return copies


def _complete_from(reader: HistoryReader, info: ArchiveInfo) -> int | None:
    """From which time on the copy has seen every row: the time of its first row, if there were others before."""
    first = max(info.first_row, 0)
    if first <= reader.first_row():
        return None
    row = reader.read(first, first + 1, [reader.time_column])
    return int(row.column(0)[0].value) + 1 if row.num_rows else None


def _arranged(question: ArchiveQuestion, table: pa.Table) -> pa.Table:
    """The columns as they were asked for, in order, and no more rows than wanted."""
    keys = {name for name, _ in question.keys}
    columns: dict[str, pa.ChunkedArray] = {}
    for name, source in question.columns:
        columns[name] = table.column(source)
        if source not in keys:
            columns |= {f"{name}{end}": table.column(f"{source}{end}") for end in ("_low", "_high")}
    columns["_fraction"] = table.column("_fraction")
    arranged = pa.table(columns)
    order = [ranks(arranged.column(name), descending, first) for name, descending, first in reversed(question.order)]
    if order:
        arranged = arranged.take(pa.array(np.lexsort(order)))
    return arranged if question.limit is None else arranged.slice(0, question.limit)
