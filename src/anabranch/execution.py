"""What each statement does. Those about one kind of object are in `objects`; the others are one function each here."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.archive.reader import HistoryReader
from anabranch.catalog import STREAM, ObjectName
from anabranch.catalog.planning import plan_question
from anabranch.errors import AnabranchError, CatalogError, DataError
from anabranch.log.offset import End
from anabranch.log.stream import rejects_name
from anabranch.objects import OBJECTS
from anabranch.objects.base import Doing
from anabranch.objects.page import Page
from anabranch.objects.table import told
from anabranch.operators.base import Inputs
from anabranch.queries.archived_files import archived_files
from anabranch.queries.asking import ask, told_before
from anabranch.result import Result
from anabranch.schema import as_table
from anabranch.sql import statements as s
from anabranch.sql.as_of import AsOf, reads_as_it_was
from anabranch.sql.changing import rows_to_insert
from anabranch.sql.once import OncePlan
from anabranch.sql.reading.points_in_time import shown
from anabranch.sql.reading.values import columns_of, counted
from anabranch.sql.standing.rows import INPUT_VIEW
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.tables.changes import Changes, inserted, upserted
from anabranch.tables.declaration import TableInfo
from anabranch.tables.state import State
from anabranch.tables.versions import row_at_time, row_at_version

if TYPE_CHECKING:
    from anabranch.database import Database


def execute(db: Database, statement: s.Statement) -> Result:
    """Run one parsed statement."""
    kind = type(statement)
    doing = EXECUTES.get(kind) or next(
        object_kind.statements[kind] for object_kind in OBJECTS.values() if kind in object_kind.statements
    )
    return doing(db, statement)


def insert(db: Database, statement: s.InsertInto) -> Result:
    if db.catalog.has_rows_by_key(statement.stream):
        return _insert_into_table(db, statement)
    if statement.upsert:
        raise CatalogError(
            "STREAM_IS_NO_TABLE",
            f'"{db.catalog.stream(statement.stream).name}" is a stream: its rows have no key, and stay as they are',
            hint="write INSERT INTO",
        )
    if statement.select is not None:
        raise statement.select.error(
            "NOT_IN_THE_LANGUAGE",
            "INSERT INTO a stream takes VALUES",
            start=statement.select.start,
            hint="write CREATE STREAM … AS SELECT …, which also keeps up",
        )
    schema = db.catalog.schema(statement.stream)
    given = [n for n in schema.names if not (schema.stamped_on_arrival and n == schema.time)]
    names = list(statement.columns) if statement.columns is not None else given
    by_lower = {n.lower(): n for n in schema.names}
    names = [by_lower.get(n.lower(), n) for n in names]
    for row in statement.rows:
        if len(row) != len(names):
            raise DataError(
                "VALUES_MISMATCH",
                f"{counted(len(names), 'column')} for {counted(len(row), 'value')}",
                hint="the columns are: " + ", ".join(names),
            )
    columns = dict(zip(names, columns_of(statement.rows), strict=True))
    writer = db.writer(statement.stream)
    rejected = writer.rejected_rows
    writer.append(columns)
    count = len(statement.rows) - (writer.rejected_rows - rejected)
    message = f"{count} row{'s' if count != 1 else ''} inserted"
    if writer.rejected_rows > rejected:
        message += f", {writer.rejected_rows - rejected} rejected (see {rejects_name(statement.stream)})"
    return Result(message=message)


def _insert_into_table(db: Database, statement: s.InsertInto) -> Result:
    table = db.table_writer(statement.stream)
    how = upserted if statement.upsert else inserted

    def deciding(state: State) -> Changes:
        rows = _rows_of(statement, table.info) if statement.select is None else db.ask_once(statement.select)
        return how(table.info, state, rows_to_insert(table.info, statement.columns, rows))

    return told(table.change(deciding), "inserted")


def _rows_of(statement: s.InsertInto, info: TableInfo) -> pa.Table:
    """The values of a statement, each column in the type it has by itself or else that of the table."""
    names = info.schema.names if statement.columns is None else [info.find(name).name for name in statement.columns]
    columns = {str(i): values for i, values in enumerate(columns_of(statement.rows))}
    wanted = [pa.field(str(i), info.schema.field(name).type) for i, name in enumerate(names)]
    return as_table(columns, pa.schema(wanted))


def select_once(db: Database, statement: s.SelectOnce) -> Result:
    plan, seconds = _planned(db, statement.select), db.settings["statement_timeout_seconds"]
    if plan.question is not None:
        run = functools.partial(db.run_here_or_in_spark, seconds=seconds)
        answer = ask(plan.question, db.catalog, db.history, run)
        return Result(answer.table, notices=answer.notices)
    if plan.here is not None:
        here = plan.here
        return Result(db.run_here_or_in_spark(here.scan, ends=_ends_at(db, here.table, here.scan.changes, here.as_of)))
    return Result(db.engine().ask(lambda: _by_spark(db, plan), seconds))


def _by_spark(db: Database, plan: OncePlan) -> pa.Table:
    """The answer of an operator, or of Spark SQL, over what the streams hold."""
    engine = db.engine()
    if plan.standing is not None:
        operator = plan.standing.operator
        options = db.source_options(operator, ended=plan.ended, ends=db.at_one_version(operator.inputs))
        rest = plan.standing.residual_sql
        frame = engine.read_once(options) if rest is None else engine.sql_once(rest, {INPUT_VIEW: options})
        return engine.collect(frame, _size(db, operator.inputs))
    assert plan.guarded is not None
    files = archived_files(plan, db.history)
    ends = db.at_one_version(use.log for use in plan.streams if use.archive is None and use.as_of is None)
    files = {view: read for view, read in files.items() if not _is_past(read.end, ends.get(read.stream.lower()))}
    views = {
        use.view: db.source_options(
            use.read(), ends=ends if use.as_of is None else _ends_at(db, use.stream, use.log, use.as_of)
        )
        for use in plan.streams
    }
    reads = _size(db, [use.log for use in plan.streams])
    if files:
        try:
            return engine.collect(engine.sql_once(plan.guarded, views, files), reads)
        except AnabranchError:
            if all(os.path.exists(path) for archived in files.values() for path in archived.paths):
                raise
    return engine.collect(engine.sql_once(plan.guarded, views), reads)


def _ends_at(db: Database, table: str, log: str, as_of: AsOf | None) -> dict[str, End]:
    """Up to where the changes of a table are read that is read as it was."""
    if as_of is None:
        return {}
    changes = db.history(log)
    if as_of.time is None:
        assert as_of.version is not None
        row = row_at_version(changes, table, as_of.version)
    else:
        row = row_at_time(changes, table, as_of.time, shown(as_of.time), db.now_us())
    return {log.lower(): End(row, changes.end().time)}


def _is_past(row: int, end: End | None) -> bool:
    return end is not None and row > end.row


def _size(db: Database, streams: Iterable[str]) -> int:
    """Bytes that streams hold in the log; of one with archives or on a data server nobody knows so soon."""
    total = 0
    for name in streams:
        reader = db.history(name)
        known = isinstance(reader, HistoryReader) and not reader.has_archives
        total += reader.size() if known else sys.maxsize
    return total


def _planned(db: Database, select: Select) -> OncePlan:
    """The plan of a question, whose archives must be there."""
    plan = plan_question(select, db.catalog)
    for stream, archive in plan.archives():
        if archive is None:
            db.archives.wanted(stream)
        else:
            db.archives.find(stream, archive)
    return plan


def is_about_archives(select: Select) -> bool:
    """Whether a SELECT is about what archives hold, and not a standing query."""
    return bool(select.archives) and not any(use.portions is not None for use in select.archives)


def archive_frame(db: Database, select: Select) -> Any:
    """A SELECT about archives as a DataFrame."""
    plan, engine = _planned(db, select), db.engine()
    if plan.question is not None:
        return engine.frame_of(ask(plan.question, db.catalog, db.history, db.run_here_or_in_spark).table)
    assert plan.guarded is not None
    return engine.sql_once(plan.guarded, {use.view: db.source_options(use.read()) for use in plan.streams})


def subscribe(db: Database, statement: s.Subscribe) -> Result:
    db.catalog.stream(statement.name)
    live = db.follow(statement.name, statement.start)
    return Result(message=f'subscribed to "{statement.name}"', live=live)


def explain(db: Database, statement: s.Explain) -> Result:
    inner = statement.statement
    notices: list[str] = []
    if isinstance(inner, s.ExplainQuery):
        text = db.get_query(inner.name).explain(statement.format)
    elif isinstance(inner, s.SelectOnce) and (is_about_archives(inner.select) or reads_as_it_was(inner.select)):
        asked = _planned(db, inner.select)
        text = asked.explain_json() if statement.format == "json" else asked.explain_text()
        notices = [] if asked.question is None else told_before(asked.question, db.history)
    else:
        plan = _standing(db, inner)
        inputs = Inputs({name: db.reader(name) for name in plan.operator.inputs})
        text = plan.explain_json(inputs) if statement.format == "json" else plan.explain_text(inputs)
    return Result(pa.table({"plan": text.splitlines() if statement.format == "text" else [text]}), notices=notices)


def _standing(db: Database, statement: s.SelectOnce | s.CreateQuery | s.CreateStreamAs | s.CreateView) -> StandingPlan:
    """The plan of what a statement would make."""
    if isinstance(statement, s.CreateView):
        return db.planned_view(statement.select, None if statement.if_not_exists else statement.name)
    if isinstance(statement, s.SelectOnce):
        return db.planned(statement.select)
    name = None if statement.if_not_exists else statement.name
    return db.planned(statement.select, name, statement.host if isinstance(statement, s.CreateQuery) else None)


def show(db: Database, statement: s.Show) -> Result:
    return Result(OBJECTS[statement.kind].show(db, Page(statement.like, statement.limit, statement.offset)))


def show_create(db: Database, statement: s.ShowCreate) -> Result:
    return Result(pa.table({"statement": [OBJECTS[statement.kind].declared(db, statement.name or "")]}))


def describe(db: Database, statement: s.Describe) -> Result:
    which = _described(db, statement)
    return Result(OBJECTS[which.kind].describe(db, which))


def _described(db: Database, statement: s.Describe) -> ObjectName:
    """What is meant; by its name alone, a part of another of the same name stands for that."""
    if statement.kind is not None:
        return OBJECTS[statement.kind].find(db, statement.name, statement.on)
    kinds = [kind for kind in OBJECTS.values() if kind.saying.has_plain_names]
    named = [kind.find(db, statement.name) for kind in kinds if kind.exists(db, statement.name)]
    for which in named:
        if OBJECTS[which.kind].owner(db, which) not in named:
            return which
    return OBJECTS[STREAM].find(db, statement.name)


def drop(db: Database, statement: s.Drop) -> Result:
    kind = OBJECTS[statement.kind]
    try:
        which = kind.find(db, statement.name, statement.on)
    except AnabranchError as problem:
        if statement.if_exists and problem.name in kind.absent:
            return Result(message=problem.message)
        raise
    dropped = db.drop(which, cascade=statement.cascade)
    return Result(message=f"{', '.join(OBJECTS[gone.kind].told(gone) for gone in dropped)} dropped")


EXECUTES: dict[type[s.Statement], Doing] = {
    s.InsertInto: insert,
    s.SelectOnce: select_once,
    s.Subscribe: subscribe,
    s.Explain: explain,
    s.Show: show,
    s.ShowCreate: show_create,
    s.Describe: describe,
    s.Drop: drop,
}
"""What is done by every statement that is not of one kind of object; for those, `OBJECTS` says it."""
