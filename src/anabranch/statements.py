"""What each statement does: one function each, and one table that says which."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from anabranch.catalog.planning import plan_query, plan_question
from anabranch.dataspace.opening import origin_of
from anabranch.errors import AnabranchError, CatalogError, DataError
from anabranch.log import lost
from anabranch.log.reader import StreamReader
from anabranch.log.stamps import length_of_time
from anabranch.log.stream import DATASPACE, StreamInfo
from anabranch.operators.archive_scan import ArchiveScan
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.select import Select as SelectOperator
from anabranch.queries.archived_files import archived_files
from anabranch.queries.asking import ask
from anabranch.result import Result
from anabranch.schema import TIME_TYPE, StreamSchema, sql_type
from anabranch.settings import Settings
from anabranch.sql import statements as s
from anabranch.sql.intervals import format_us
from anabranch.sql.once import OncePlan, StreamUse
from anabranch.sql.rows import INPUT_VIEW
from anabranch.sql.tree import Select
from anabranch.sql.values import counted

if TYPE_CHECKING:
    from anabranch.database import Database


def execute(db: Database, statement: s.Statement) -> Result:
    """Run one parsed statement."""
    return EXECUTES[type(statement)](db, statement)


def create_stream(db: Database, statement: s.CreateStream) -> Result:
    if statement.if_not_exists and _exists(db, statement.name):
        return Result(message=f'stream "{statement.name}" exists already')
    if statement.kind == DATASPACE:
        from anabranch.dataspace.declaring import declare

        info = declare(statement.name, statement.columns, statement.time, statement.options, db.catalog.access)
        db.catalog.create_stream(info)
        return Result(message=f'stream "{statement.name}" created: {origin_of(info)}')
    schema = StreamSchema.of(statement.columns, statement.time)
    options = Settings.for_stream(statement.options)
    info = StreamInfo(
        statement.name, schema, statement.skew_us, statement.retain_us, options=options, idle_us=statement.idle_us
    )
    db.catalog.create_stream(info)
    return Result(message=f'stream "{statement.name}" created')


def create_query(db: Database, statement: s.CreateQuery | s.CreateStreamAs) -> Result:
    kind = "query" if isinstance(statement, s.CreateQuery) else "stream"
    if statement.if_not_exists and _exists(db, statement.name):
        return Result(message=f'"{statement.name}" exists already')
    db.create_query(statement.name, statement.select, kind)
    return Result(message=f'{kind} "{statement.name}" created and running')


def insert(db: Database, statement: s.InsertInto) -> Result:
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
    columns = {name: [row[i] for row in statement.rows] for i, name in enumerate(names)}
    writer = db.writer(statement.stream)
    rejected = writer.rejected_rows
    writer.append(columns)
    count = len(statement.rows) - (writer.rejected_rows - rejected)
    message = f"{count} row{'s' if count != 1 else ''} inserted"
    if writer.rejected_rows > rejected:
        message += f", {writer.rejected_rows - rejected} rejected (see {statement.stream}.rejects)"
    return Result(message=message)


def select_once(db: Database, statement: s.SelectOnce) -> Result:
    plan, seconds = _planned(db, statement.select), db.settings["statement_timeout_seconds"]
    if plan.question is not None:
        run = functools.partial(db.run_here_or_in_spark, seconds=seconds)
        return Result(ask(plan.question, db.catalog, db.history, run))
    return Result(db.engine().ask(lambda: _by_spark(db, plan), seconds))


def _by_spark(db: Database, plan: OncePlan) -> pa.Table:
    """The answer of an operator, or of Spark SQL, over what the streams hold."""
    engine = db.engine()
    if plan.standing is not None:
        options = db.source_options(plan.standing.operator, ended=plan.ended)
        rest = plan.standing.residual_sql
        frame = engine.read_once(options) if rest is None else engine.sql_once(rest, {INPUT_VIEW: options})
        return engine.collect(frame, _size(db, plan.standing.operator.inputs))
    assert plan.guarded is not None
    files = archived_files(plan, db.history)
    views = {use.view: db.source_options(_read(use)) for use in plan.streams}
    reads = _size(db, [use.stream for use in plan.streams])
    if files:
        try:
            return engine.collect(engine.sql_once(plan.guarded, views, files), reads)
        except AnabranchError:
            if all(os.path.exists(path) for found in files.values() for path in found.paths):
                raise
    return engine.collect(engine.sql_once(plan.guarded, views), reads)


def _size(db: Database, streams: Iterable[str]) -> int:
    """Bytes that streams hold in the log; of one with archives or on a data server nobody knows so soon."""
    total = 0
    for name in streams:
        reader = db.history(name)
        known = isinstance(reader, StreamReader) and not getattr(reader, "archives", None)
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
    return bool(select.archives) and not any(each.portions is not None for each in select.archives)


def archive_frame(db: Database, select: Select) -> Any:
    """A SELECT about archives as a DataFrame."""
    plan, engine = _planned(db, select), db.engine()
    if plan.question is not None:
        return engine.session.spark.createDataFrame(ask(plan.question, db.catalog, db.history, db.run_here_or_in_spark))
    assert plan.guarded is not None
    return engine.sql_once(plan.guarded, {use.view: db.source_options(_read(use)) for use in plan.streams})


def _read(use: StreamUse) -> Operator:
    """The operator that reads what a one-time query needs of a stream."""
    names = use.schema.names if use.columns is None else list(use.columns) or [use.schema.time]
    columns = tuple((name, exp.column(name, quoted=True).sql("spark")) for name in names)
    if use.archive is not None:
        past = use.archive
        return ArchiveScan(
            use.stream, columns, use.schema.time, use.filter, past.since, past.until, past.reducer, past.name
        )
    return SelectOperator(use.stream, columns, use.schema.time, use.filter)


def subscribe(db: Database, statement: s.Subscribe) -> Result:
    db.catalog.stream(statement.name)
    live = db.follow(statement.name, statement.start)
    return Result(message=f'subscribed to "{statement.name}"', live=live)


def explain(db: Database, statement: s.Explain) -> Result:
    inner = statement.statement
    if isinstance(inner, s.ExplainQuery):
        text = db.get_query(inner.name).explain(statement.format)
    elif is_about_archives(inner.select):
        asked = _planned(db, inner.select)
        text = asked.explain_json() if statement.format == "json" else asked.explain_text()
    else:
        plan = plan_query(inner.select, db.catalog)
        inputs = Inputs({name: db.reader(name) for name in plan.operator.inputs})
        text = plan.explain_json(inputs) if statement.format == "json" else plan.explain_text(inputs)
    return Result(pa.table({"plan": text.splitlines() if statement.format == "text" else [text]}))


def show_streams(db: Database, statement: s.ShowStreams) -> Result:
    rows = [
        {
            "stream": e["name"],
            "filled_by": e["origin"],
            "rows": e["rows"],
            "bytes": e["bytes"],
            "newest": e["newest_us"],
            "rejects": e["rejects"],
            "note": f"{length_of_time(e['ahead_us'])} ahead of the clock" if e["ahead_us"] else "",
        }
        for e in db.overview_streams()
    ]
    schema = pa.schema(
        [
            ("stream", pa.string()),
            ("filled_by", pa.string()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("newest", pa.timestamp("us", tz="UTC")),
            ("rejects", pa.int64()),
            ("note", pa.string()),
        ]
    )
    return Result(pa.Table.from_pylist(rows, schema=schema))


def show_queries(db: Database, statement: s.ShowQueries) -> Result:
    rows = []
    for query in db.queries():
        stats = query.stats()
        parts = {part: stats[part]["rows"] for part in ("stream", "store", "scratch", "throw")}
        rows.append(
            {
                "query": query.name,
                "status": query.status,
                "rows_in": stats["rows_in"],
                **parts,
                "waits_for": stats["waits_for"] and stats["waits_for"]["stream"],
                "sql": query.sql,
            }
        )
    schema = pa.schema(
        [("query", pa.string()), ("status", pa.string())]
        + [(n, pa.int64()) for n in ("rows_in", "stream", "store", "scratch", "throw")]
        + [("waits_for", pa.string()), ("sql", pa.string())]
    )
    return Result(pa.Table.from_pylist(rows, schema=schema))


def describe(db: Database, statement: s.Describe) -> Result:
    if statement.kind == "query" or (statement.kind is None and _is_query(db, statement.name)):
        stats = db.get_query(statement.name).stats()
        rows = [("sql", db.get_query(statement.name).sql), *_flat(stats)]
        return Result(pa.table({"property": [k for k, _ in rows], "value": [str(v) for _, v in rows]}))
    info = db.catalog.stream(statement.name)
    notes = []
    for field in info.schema.arrow:
        note = ""
        if field.name == info.schema.time:
            note = "time"
            note += ", stamped on arrival" if info.schema.stamped_on_arrival and info.origin == "append" else ""
            note += _ahead(db, info)
            note += f", skew {info.skew_us / 1e6:g} s allowed" if info.skew_us else ""
            note += f", goes on after {info.idle_us / 1e6:g} s of silence" if info.idle_us is not None else ""
            note += f", kept {info.retain_us / 1e6:g} s" if info.retain_us else ""
            note += f", from {origin_of(info)}" if info.origin == DATASPACE else ""
            note += "".join(f", {each} were lost" for each in lost.losses(db.catalog.stream_storage(info.name)))
        notes.append(note)
    return Result(
        pa.table({"column": info.schema.names, "type": [sql_type(f.type) for f in info.schema.arrow], "note": notes})
    )


def _ahead(db: Database, info: StreamInfo) -> str:
    """That a stream's time is ahead of the clock, where it should be the clock's."""
    ahead = db.catalog.ahead_of_clock(info)
    return f", {length_of_time(ahead)} ahead of the clock" if ahead else ""


def create_archive(db: Database, statement: s.CreateArchive) -> Result:
    known = {info.name.lower() for info in db.archives.infos(statement.stream)}
    name = statement.name or statement.layout.lower()
    if statement.if_not_exists and name.lower() in known:
        return Result(message=f'archive "{name}" of "{statement.stream}" exists already')
    info = db.create_archive(
        statement.stream,
        statement.layout,
        statement.name,
        by=statement.by,
        keep_us=statement.keep_us,
        every=statement.every_us,
        group_by=statement.group_by,
        options=statement.options,
    )
    return Result(message=f'archive "{info.name}" of "{info.stream}" created')


def alter_archive(db: Database, statement: s.AlterArchive) -> Result:
    info = db.archives.alter(
        statement.stream,
        statement.name,
        add_level=statement.add_level,
        drop_level=statement.drop_level,
        keep_us=statement.keep_us,
    )
    return Result(message=f'archive "{info.name}" of "{info.stream}" changed')


def drop_archive(db: Database, statement: s.DropArchive) -> Result:
    try:
        info = db.drop_archive(statement.stream, statement.name)
    except CatalogError as problem:
        if statement.if_exists and problem.name in ("ARCHIVE_NOT_FOUND", "STREAM_NOT_FOUND"):
            return Result(message=problem.message)
        raise
    return Result(message=f'archive "{info.name}" of "{info.stream}" dropped')


def describe_archive(db: Database, statement: s.DescribeArchive) -> Result:
    rows = [_told(name, value) for name, value in _flat(db.describe_archive(statement.stream, statement.name))]
    return Result(pa.table({"property": [k for k, _ in rows], "value": [v for _, v in rows]}))


def _told(name: str, value: Any) -> tuple[str, str]:
    """A property for people: microseconds as what they are, a time or a length of time."""
    if not name.endswith("_us") or value is None:
        return name.removesuffix("_us"), "" if value is None else str(value)
    shown = str(pa.scalar(value, TIME_TYPE).as_py()) if name in ("oldest_us", "newest_us") else format_us(value)
    return name.removesuffix("_us"), str(timedelta(seconds=value // 1_000_000)) if name == "age_us" else shown


def vacuum_archive(db: Database, statement: s.VacuumArchive) -> Result:
    hours = 168.0 if statement.retain_us is None else statement.retain_us / 3.6e9
    done = db.archives.archiver(statement.stream, statement.name).vacuum(hours)
    return Result(message=", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in done.items()))


def show_archives(db: Database, statement: s.ShowArchives) -> Result:
    rows = []
    for info in db.archives.infos():
        about = db.describe_archive(info.stream, info.name)
        row = {name: about.get(name) for name in ("stream", "archive", "layout", "rows", "bytes")}
        rows.append({**row, "oldest": about.get("oldest_us"), "newest": about.get("newest_us")})
    schema = pa.schema(
        [(n, pa.string()) for n in ("stream", "archive", "layout")]
        + [(n, pa.int64()) for n in ("rows", "bytes")]
        + [(n, pa.timestamp("us", tz="UTC")) for n in ("oldest", "newest")]
    )
    return Result(pa.Table.from_pylist(rows, schema=schema))


def add_column(db: Database, statement: s.AddColumn) -> Result:
    db.add_column(statement.stream, statement.column, statement.type)
    return Result(message=f'column "{statement.column}" added to stream "{statement.stream}"')


def stop_query(db: Database, statement: s.StopQuery) -> Result:
    db.get_query(statement.name).stop()
    return Result(message=f'query "{statement.name}" stopped')


def start_query(db: Database, statement: s.StartQuery) -> Result:
    db.get_query(statement.name).start()
    return Result(message=f'query "{statement.name}" running')


def alter_query(db: Database, statement: s.AlterQuery) -> Result:
    db.get_query(statement.name).reevaluate(statement.every, statement.at_most)
    least = f", at most every {statement.at_most}-th" if statement.at_most > statement.every else ""
    return Result(message=f'query "{statement.name}" answers every {statement.every}-th window{least}')


def drop(db: Database, statement: s.Drop) -> Result:
    exists = _is_query(db, statement.name) if statement.kind == "query" else _exists(db, statement.name)
    if not exists and statement.if_exists:
        return Result(message=f'{statement.kind} "{statement.name}" does not exist')
    if statement.kind == "query":
        db.drop_query(statement.name)
    else:
        db.drop_stream(statement.name)
    return Result(message=f'{statement.kind} "{statement.name}" dropped')


def _exists(db: Database, name: str) -> bool:
    return any(i.name.lower() == name.lower() for i in db.streams())


def _is_query(db: Database, name: str) -> bool:
    try:
        db.catalog.query(name)
    except CatalogError:
        return False
    return True


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, inner in value.items():
        rows.extend(_flat(inner, f"{prefix}{key}.") if isinstance(inner, dict) else [(prefix + key, inner)])
    return rows


EXECUTES: dict[type[s.Statement], Callable[[Database, Any], Result]] = {
    s.CreateStream: create_stream,
    s.CreateStreamAs: create_query,
    s.CreateQuery: create_query,
    s.InsertInto: insert,
    s.SelectOnce: select_once,
    s.Subscribe: subscribe,
    s.Explain: explain,
    s.ShowStreams: show_streams,
    s.ShowQueries: show_queries,
    s.Describe: describe,
    s.StopQuery: stop_query,
    s.StartQuery: start_query,
    s.AlterQuery: alter_query,
    s.Drop: drop,
    s.AddColumn: add_column,
    s.CreateArchive: create_archive,
    s.AlterArchive: alter_archive,
    s.DropArchive: drop_archive,
    s.DescribeArchive: describe_archive,
    s.VacuumArchive: vacuum_archive,
    s.ShowArchives: show_archives,
}
