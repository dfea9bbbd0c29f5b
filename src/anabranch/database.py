"""The database: streams and standing queries in one directory, with Spark underneath.

Spark is started when something first needs it. Appending and reading streams do not.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from anabranch import execution as _run
from anabranch.archive.declaration import WINDOWED, ArchiveInfo
from anabranch.archive.summaries.eager import eager_select
from anabranch.catalog import ARCHIVE, QUERY, STREAM, Catalog, ObjectName
from anabranch.catalog.hosted import MEMBERS
from anabranch.catalog.planning import plan_query
from anabranch.catalog.tables import Tables
from anabranch.catalog.writers import Writers
from anabranch.clock import Clock, SystemClock
from anabranch.connectors import connector_of
from anabranch.dataspace.access import Access
from anabranch.engine import cuts
from anabranch.engine.options import SourceOptions
from anabranch.engine.protocol import Engine
from anabranch.errors import CatalogError, DataError, QueryError, StreamError
from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.appended import Appended
from anabranch.log.offset import End
from anabranch.log.slices import slices_of
from anabranch.log.stream import ANSWERS, HOST, INFO, VIEW, StreamInfo, changes_name, rejects_storage
from anabranch.objects import OBJECTS, dependences, sayings
from anabranch.operators.base import Operator
from anabranch.queries import Query
from anabranch.queries.archiver import Archiver
from anabranch.queries.archives import Archives
from anabranch.queries.asking import summaries_name
from anabranch.queries.check import Report, check_database
from anabranch.queries.going_on import GoingOn
from anabranch.queries.hosts import Problem
from anabranch.queries.ingest import Ingest
from anabranch.queries.one_version import OneVersion
from anabranch.queries.questions import NOW, Ends, Questions
from anabranch.queries.refreshing import Refreshing
from anabranch.queries.standing import StandingQueries, Surroundings
from anabranch.queries.timekeeper import Timekeeper
from anabranch.queries.view import View
from anabranch.queries.waiting import wait_for
from anabranch.result import Result
from anabranch.schema import TIME_TYPE
from anabranch.settings import Settings
from anabranch.sql.changing import conformed, keys_of
from anabranch.sql.reading.parser import parse
from anabranch.sql.single import single_select
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.statements import SelectOnce
from anabranch.sql.tree import Select
from anabranch.tables.changes import Changes, found_and_deleted, inserted, upserted
from anabranch.tables.declaration import CHANGES_US, TableInfo
from anabranch.tables.origin import Origin
from anabranch.tables.state import State
from anabranch.tables.writing import TableWriter

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


_NOT_LOOKED_AT = {"newest_us": None, "ahead_us": 0, "rejects": 0, "retain_us": None, "of_host": False}
"""Of a stream whose rows nobody looks at to show it."""


class Database:
    """An embedded database; open one with `anabranch.open`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        spark: Any = None,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        queries: bool = True,
        create: bool = True,
    ) -> None:
        self._settings = Settings(settings)
        self._clock = clock or SystemClock()
        self._storage = Storage(os.fspath(path))
        self.path = self._storage.address
        self.catalog = Catalog(
            self._storage, self._clock, create=create, access=Access.of(self.settings, self._storage)
        )
        self._given_spark = spark
        self._engine: Engine | None = None
        self._engine_mutex = threading.Lock()
        self._dropping = threading.RLock()
        self._closing = threading.Lock()
        self._closed = False
        self._ingests: list[Ingest] = []
        self._writers = Writers(self.catalog, self.settings, self._clock)
        self._tables = Tables(self.catalog, self.settings, self._clock)
        self._questions = Questions(
            self.catalog, self.settings, self.engine, claims_time=isinstance(self._clock, SystemClock)
        )
        self.archives = Archives(self.catalog, self.settings, self._clock, self._questions.ask, active=queries)
        self._time = Timekeeper(self.catalog, self.settings, self._clock, self._query_of, self._writers.known)
        self._refreshing = Refreshing(self.catalog, self._tables, self._clock)
        self._going_on = GoingOn(self.catalog, self.settings, self._clock, self._writers, self._time, self._refreshing)
        self._queries = StandingQueries(
            Surroundings(
                self.catalog,
                self.settings,
                self._clock,
                self.engine,
                self._time,
                self._going_on.wake,
                self.archives.wanted,
            )
        )
        self._one_version = OneVersion(
            self._storage.child(cuts.FOLDER),
            self._filled_by,
            self.catalog.open_stream,
            lambda: self.settings["batch_rows"],
        )
        self._going_on.start(self._queries, take_over=queries)
        if queries:
            self._queries.resume()

    @property
    def settings(self) -> Settings:
        """The settings in force; `settings.change(name=value)` gives others to what begins from then on."""
        return self._settings

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Database {self.path}>"

    # -- Spark ---------------------------------------------------------------------------------

    def engine(self) -> Engine:
        """What asks Spark, which is started when first asked."""
        with self._engine_mutex:  # one of its own: nobody who appends waits for pyspark to be imported
            self._check()
            if self._engine is None:
                self._engine = self._open_engine()
            return self._engine

    def _open_engine(self) -> Engine:
        # Importing pyspark takes a second; commands that only touch the log do without.
        from anabranch.spark.opening import open_engine

        return open_engine(self._storage, self.settings, self._given_spark)

    @property
    def spark(self) -> Any:
        """The Spark session under this database, started when first asked for: for PySpark programs."""
        return self.engine().spark

    # -- streams -------------------------------------------------------------------------------

    def append(self, stream: str, data: Any, *, producer: str | None = None, batch: int | None = None) -> Appended:
        """Append rows; when it returns they are on disk. Gives the number of the stream's next row, for `wait`.

        `data`: a pyarrow Table, a pandas or polars DataFrame, a dict of columns, a list of dicts.
        With `producer` and a growing `batch` number, a batch appended before is passed over.
        To a table rows are added; a key that is there already is an error (see `upsert`).
        """
        if self.catalog.has_view(stream) or (producer is None and self.catalog.has_table(stream)):
            self._change(stream, inserted, data)
            return Appended(self.reader(changes_name(stream)).end().row, changes_name(stream))
        return Appended(self.writer(stream).append(data, producer=producer, batch=batch), stream)

    def wait(self, appended: Appended, *readers: str, timeout: float | None = None) -> None:
        """Until rows that were appended are in some views, or taken in by some queries, also through others.

        `readers`: names of views and queries; without any, all that there are.
        """
        names = [changes_name(name) if self.catalog.has_view(name) else name for name in readers]
        for query in [self.get_query(name) for name in names] or self.queries():
            wait_for(appended, query, self._query_of, timeout)

    # -- tables --------------------------------------------------------------------------------

    def table(self, name: str, version: int | None = None) -> pa.Table:
        """The rows of a table or view as they are now, or were at a version, in the order of their keys."""
        self._check()
        if self.catalog.has_view(name):
            return self.view(name).table(version)
        writer = self.table_writer(name)
        return (writer.state() if version is None else writer.state_at_version(version)).table

    def view(self, name: str) -> View:
        """A handle on a view."""
        info = self.catalog.view(name)
        return View(info, self.get_query(info.changes), partial(self.view_state, info.name))

    def view_state(self, view: str, version: int | None = None) -> State:
        """The rows of a view as they are now, or were at a version, by key."""
        self._check()
        return self._tables.state_of_view(view, version)

    def upsert(self, table: str, data: Any) -> int:
        """Add rows to a table, in the place of those that have their keys; on disk when it returns.

        Gives how many there were. `data`: as for `append`; columns that it does not have are NULL.
        """
        return sum(self._change(table, upserted, data).counts)

    def delete(self, table: str, keys: Any) -> int:
        """Remove the rows of a table that have these keys; gives how many there were.

        `keys`: rows with the columns of the key, as for `append`.
        """
        writer = self.table_writer(table)
        rows = keys_of(writer.info, keys)
        return writer.change(lambda state: found_and_deleted(writer.info, state, rows)).counts[2]

    def create_copy(
        self,
        name: str,
        origin: Origin,
        key: Sequence[str],
        *,
        columns: Sequence[tuple[str, str]] = (),
        required: Sequence[str] = (),
        retain_us: int | None = None,
    ) -> int:
        """CREATE TABLE … FROM as a call: a table with the rows of a file; gives how many there are.

        Without `columns` (names and SQL types) they are those of the file.
        """
        self._check()
        info = self._tables.create_copy(name, origin, columns, key, required, retain_us)
        return len(self.table_writer(info.name).state())

    def refresh_table(self, table: str) -> int:
        """Compare a table that is a copy of a file with that now; gives how many rows came, went or changed."""
        self._check()
        return self._tables.refresh(table).touched

    def table_writer(self, table: str) -> TableWriter:
        """What changes a table in this process."""
        self._check()
        return self._tables.of(table)

    def forget_table(self, table: str) -> None:
        """Of a table that is gone nothing is remembered."""
        self._tables.let_go(table)

    def _change(self, table: str, how: Callable[[TableInfo, State, pa.Table], Changes], data: Any) -> Changes:
        writer = self.table_writer(table)
        rows = conformed(writer.info, data)
        return writer.change(lambda state: how(writer.info, state, rows))

    # -- more of streams -------------------------------------------------------------------------

    def writer(self, stream: str) -> StreamWriter:
        """The one writer of a stream in this process, taken on first use and kept until `close`."""
        self._check()
        return self._writers.of(stream)

    def flush(self, stream: str) -> int:
        """Release the rows a stream holds back for its skew; later older ones are rejected."""
        return self.writer(stream).flush()

    def advance(self, stream: str, time: Any) -> None:
        """A heartbeat: the stream's time has reached `time` (a datetime or µs), though no row came."""
        if isinstance(time, dt.datetime):
            time = pa.scalar(time if time.tzinfo else time.replace(tzinfo=dt.UTC), TIME_TYPE).value
        if not isinstance(time, int) or isinstance(time, bool):
            raise DataError("TYPE_MISMATCH", f"a heartbeat is a datetime or whole microseconds, got {time!r}")
        limit = self.settings["future_limit_seconds"]
        if abs(time) >= 2**62 or (limit and time > self._clock.now_us() + limit * 1e6):
            raise StreamError(
                "TIME_IN_FUTURE",
                f"a heartbeat at {time} µs is too far ahead of the clock",
                hint="the time is in microseconds since 1970; future_limit_seconds says how far ahead is allowed",
            )
        self.writer(stream).advance(time)

    def reader(self, stream: str) -> Reader:
        """A reader of a stream with its archives, of a query's answers, or of `<stream>.rejects`."""
        info = self.catalog.stream(stream)
        reader = self.catalog.open_stream(stream, history=True)
        if connector_of(info).logged:  # a server may be away
            reader.refresh()
        return reader

    def tail(self, stream: str, rows: int = 10) -> pa.Table:
        """The newest rows of a stream."""
        reader = self.reader(stream)
        end = reader.end().row
        return reader.read(max(end - rows, reader.first_row()), end)

    def follow(self, stream: str, start: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a stream from number `start` on (None: from now on), as they come."""
        reader = self.reader(stream)
        at = reader.end().row if start is None else start
        for table in reader.tail(at, follow=True):
            if self._going_on.is_closed:
                return
            yield from (b for b in table.to_batches() if b.num_rows)

    def follow_host(self, host: str = "host", start: int | None = None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The answers of all members of a host as they come, each with the name of its query; one look serves all.

        `start`: a row of the host's own log to begin with (0: the first that is kept); None: from now on.
        """
        reader = self.reader(host)
        at = reader.end().row if start is None else start or reader.first_row()
        for table in reader.tail(at, follow=True):
            if self._going_on.is_closed:
                return
            for number, rows in slices_of(table):
                entry = self.catalog.hosted.roster(host).entries.get(number)
                if entry is not None:
                    yield from ((entry.name, batch) for batch in rows.to_batches() if batch.num_rows)

    def streams(self) -> list[StreamInfo]:
        """The streams of the database, those that queries fill among them."""
        return self.catalog.streams()

    def add_column(self, stream: str, column: str, type: str) -> None:
        """Give a stream one more column of a SQL type; rows that are there have NULL in it, archived ones too."""
        info = self.catalog.stream(stream)
        for reader in dependences.readers_of(self, ObjectName(STREAM, info.name)):
            if reader.kind == QUERY and self.get_query(reader.name).answers_all_columns:
                raise CatalogError(
                    "STREAM_IS_USED",
                    f'query "{reader.name}" answers with all columns of "{info.name}", which would change it',
                    hint=f"DROP QUERY {reader.name} first, and name the columns it wants",
                )
        self.writer(stream)
        self.let_go(info.name)
        self.catalog.add_column(info.name, column, type)

    def let_go(self, stream: str) -> None:
        """Close the writer of a stream, if this process has it: another process may write it then."""
        self._writers.let_go(stream)

    # -- archives --------------------------------------------------------------------------------

    def create_archive(
        self,
        stream: str,
        layout: str,
        name: str | None = None,
        *,
        by: str | None = None,
        keep_us: int | None = None,
        every: int | None = None,
        group_by: tuple[str, ...] = (),
        options: Mapping[str, str] | None = None,
    ) -> ArchiveInfo:
        """CREATE ARCHIVE as a call: rows of the stream go to it from now on, those of its log first."""
        info = self.archives.create(
            stream, layout, name, by=by, keep_us=keep_us, every=every, group_by=group_by, options=options
        )
        if info.layout == WINDOWED:
            assert info.every is not None
            select = eager_select(info.stream, self.catalog.schema(info.stream), info.every, info.group_by, info.values)
            try:
                owner = ObjectName(ARCHIVE, info.name, info.stream)
                self.create_query(summaries_name(info), single_select(select), ARCHIVE, owner)
            except BaseException:
                self.archives.drop(info.stream, info.name)
                raise
        return info

    def drop_archive(self, stream: str, name: str | None = None) -> ArchiveInfo:
        """End an archive and delete all its rows; those that are still in the log stay."""
        info = self.archives.find(stream, name)
        self.drop(ObjectName(ARCHIVE, info.name, info.stream))
        return info

    def archive(self, stream: str, name: str | None = None) -> Archiver:
        """An archive, to have waiting rows moved now (`append`), to have it vacuumed, or to look at it."""
        return self.archives.archiver(stream, name)

    def describe_archive(self, stream: str, name: str | None = None) -> dict[str, Any]:
        """What an archive holds: rows, bytes, layout, fractions, age."""
        info = self.archives.find(stream, name)
        if info.layout != WINDOWED:
            return self.archive(stream, info.name).describe()
        answers = self.reader(summaries_name(info))
        return {
            "archive": info.name,
            "stream": info.stream,
            "layout": info.layout,
            "every_us": info.every,
            "group_by": ", ".join(info.group_by),
            "rows": answers.end().row,
            "bytes": answers.size(),
            "query": summaries_name(info),
        }

    def register_reducer(self, name: str, path: str) -> None:
        """Give the class at `package.module:Class`, a `Reducer`, a name for REDUCE BY in this database."""
        self.catalog.register_reducer(name, path)

    # -- statements ----------------------------------------------------------------------------

    def sql(self, text: str) -> Result:
        """Run one or several statements; gives the result of the last one."""
        self._check()
        result = Result(message="nothing to do")
        for statement in parse(text, sayings()):
            result = _run.execute(self, statement)
        return result

    def ask_once(self, select: Select) -> pa.Table:
        """The answer of a parsed SELECT that is asked once."""
        return _run.select_once(self, SelectOnce(select)).table()

    def query(self, select: str, name: str | None = None) -> Query:
        """A standing query for a SELECT: starts with what the streams hold, and goes on live.

        Under the name of a query that exists, the same SELECT gives that query back.
        """
        return self._queries.ask(single_select(select), name)

    def create_query(
        self,
        name: str,
        select: Select,
        kind: str = QUERY,
        owner: ObjectName | None = None,
        *,
        alone: bool = False,
        retain_us: int | None = None,
    ) -> Query:
        """Make and start a standing query from a parsed SELECT; `owner` is what it is a part of.

        `retain_us`: how long its answers are kept (None: for good).
        """
        return self._queries.create(name, select, kind, owner, alone=alone, retain_us=retain_us)

    def create_view(self, name: str, select: Select, retain_us: int | None = None) -> Query:
        """Make a view from a parsed SELECT, and start what keeps it; `retain_us`: how long its changes are kept."""
        return self._queries.create_view(name, select, CHANGES_US if retain_us is None else retain_us)

    def planned(self, select: Select, name: str | None = None, host: str | None = None) -> StandingPlan:
        """What `create_query` would make of a parsed SELECT, or `create_member`; refused where they would."""
        return self._queries.planned(select, name, host)

    def planned_view(self, select: Select, name: str | None = None) -> StandingPlan:
        """What `create_view` would make of a parsed SELECT; refused where it would."""
        return self._queries.planned_view(select, name)

    def create_queries(
        self,
        selects: Mapping[str, str] | Iterable[tuple[str, str]],
        *,
        host: str = "host",
        problems: list[Problem] | None = None,
        retain_us: int | None = None,
    ) -> list[Query]:
        """Make many standing queries at once, members of one host, which runs them all as one.

        `selects`: a SELECT for each name. All are made or none: an error tells of each that is wrong. Who gives a
        list for `problems` gets the others made, and finds there what is wrong with those that were not.
        `retain_us`: how long their answers are kept (None: for good).
        """
        self._check()
        pairs = list(selects.items() if isinstance(selects, Mapping) else selects)
        return self._queries.create_texts(pairs, host, problems, retain_us)

    def create_member(self, name: str, select: Select, host: str, *, retain_us: int | None = None) -> Query:
        """Make a standing query from a parsed SELECT, a member of a host."""
        return self._queries.create_member(name, select, host, retain_us)

    def move_query(self, name: str, host: str | None) -> Query:
        """Have a standing query be run by a host together with others, or alone (None), from where it is."""
        self._queries.moves.move(name, host)
        return self.get_query(name)

    def get_query(self, name: str) -> Query:
        """The handle of a query that exists."""
        return self._queries.get(name)

    def queries(self) -> list[Query]:
        """All standing queries, whoever runs them."""
        return self._queries.all()

    def _query_of(self, stream: str) -> Query | None:
        return self._queries.known_or_find(stream)

    def drop_query(self, name: str) -> None:
        """End a query and remove all it has."""
        self.drop(OBJECTS[QUERY].find(self, name))

    def drop_stream(self, name: str) -> None:
        """Remove a stream and all it holds; if it is the answer of a query, that."""
        self.drop(OBJECTS[STREAM].find(self, name))

    def drop(self, which: ObjectName, *, cascade: bool = False) -> list[ObjectName]:
        """Remove an object of the catalog and all that goes with it, unless others read it; with `cascade` also those.

        Gives what was dropped, readers before what they read.
        """
        with self._dropping:  # one at a time: whether one may go depends on what else is there
            return dependences.drop(self, which, cascade=cascade)

    def remove_query(self, name: str) -> None:
        """End a query and remove all it has, whoever reads it."""
        self._queries.remove(name)

    # -- Spark programs --------------------------------------------------------------------------

    def dataframe(self, select: str) -> Any:
        """A SELECT as a Spark DataFrame, for PySpark programs: streaming; about an ARCHIVE, of what there is."""
        tree = single_select(select)
        if _run.is_about_archives(tree):
            return _run.archive_frame(self, tree)
        plan = plan_query(tree, self.catalog)
        if plan.operator.asked_by_its_host:
            raise QueryError(
                "NOT_IN_THE_LANGUAGE",
                "a question that is asked anew as a whole is no DataFrame",
                hint="keep it as a view, and read its changes: SELECT * FROM <view>.changes",
            )
        options = self.source_options(plan.operator)
        return self.engine().stream(options, plan.residual_sql)

    def ingest(self, frame: Any, stream: str, *, name: str | None = None, available_now: bool = False) -> Ingest:
        """Append the rows of any streaming DataFrame to a stream, each exactly once.

        Its progress is kept in the database under `name` (by default the stream's), so that the
        same call after a restart goes on where it was.
        """
        storage = self.catalog.ingest_storage(name or stream)
        writer = self.writer(stream)
        ingest = Ingest(self.engine(), frame, writer, name or stream, storage, available_now=available_now)
        self._ingests.append(ingest)
        return ingest

    def source_options(self, operator: Operator, *, ended: bool = False, ends: Ends = NOW) -> SourceOptions:
        """How Spark reads an operator over the streams of this database, as they are now, or up to some `ends`.

        `ended`: read once, they count as ended, so that nothing waits for rows to come.
        """
        return self._questions.options(operator, ended=ended, ends=ends)

    def at_one_version(self, streams: Iterable[str]) -> Ends:
        """How far to read streams, those of changes for their tables and views, so that all are of one moment.

        Only where a view is among them, and for those that share what they are made from.
        """
        names = list(dict.fromkeys(name.lower() for name in streams))
        if len(names) < 2 or not any(self.catalog.stream(name).changes_an_answer for name in names):
            return NOW
        return self._one_version.ends(names, self._wait_a_moment, self.settings["statement_timeout_seconds"])

    def now_us(self) -> int:
        """What the clock says, in microseconds since 1970."""
        return self._clock.now_us()

    def _wait_a_moment(self) -> None:
        """While queries go on."""
        self._check()
        time.sleep(0.004)

    def _filled_by(self, stream: str) -> Query | None:
        """The query that fills a stream, as the catalog says now: another process may have made it anew."""
        return self._queries.find(stream) if self.catalog.stream(stream).origin in (VIEW, ANSWERS) else None

    def history(self, stream: str) -> Reader:
        """A reader of a stream's whole life, kept from question to question: opening Delta tables takes time."""
        return self._questions.history(stream)

    def run_here_or_in_spark(self, operator: Operator, seconds: float = 0.0, ends: Ends = NOW) -> pa.Table:
        """All rows of an operator that is asked once: by Spark's tasks if there is much to read, else here.

        Spark may take so many seconds; 0 is for ever.
        """
        return self._questions.ask(operator, seconds, ends)

    # -- looking at it ---------------------------------------------------------------------------

    def check(self) -> Report:
        """Look through everything that is on disk, while others may write: what is missing or damaged."""
        return check_database(self._storage, clock=self._clock)

    def overview(self) -> dict[str, Any]:
        """Streams and queries with their sizes, from files alone: works beside a running process."""
        return {"streams": self.overview_streams(), "queries": [q.stats() for q in self.queries()]}

    def overview_streams(self) -> list[dict[str, Any]]:
        streams = []
        hosts = {name.lower() for name in self.catalog.hosted.hosts()}
        for info in self.streams():
            if HOST in info.options:
                streams.append(self._overview_of_member(info))
                continue
            reader = self.reader(info.name)
            storage = self.catalog.stream_storage(info.name)
            connector = connector_of(info)
            known_end = reader.end() if connector.logged else self.catalog.end_of(info.name)
            end = known_end or End()
            rejects = rejects_storage(storage)
            streams.append(
                {
                    "name": info.name,
                    "kind": info.origin,
                    "origin": connector.filled_by(info) + (" (away)" if known_end is None else ""),
                    "rows": end.row,
                    "bytes": reader.size(),
                    "newest_us": end.time if end.row else None,
                    "ahead_us": self.catalog.ahead_of_clock(info),
                    "rejects": StreamReader(rejects).end().row if rejects.exists(INFO) else 0,
                    "retain_us": info.retain_us,
                    "of_host": info.origin == MEMBERS or info.name.lower() in hosts,
                }
            )
        for name in self.catalog.damaged_streams():
            nothing = {"rows": 0, "bytes": 0, **_NOT_LOOKED_AT}
            streams.append({"name": name, "origin": "damaged: its declaration cannot be read", **nothing})
        return streams

    def _overview_of_member(self, info: StreamInfo) -> dict[str, Any]:
        """The same of a stream that is part of a host's log: nobody opens ten thousand of them to look at them."""
        rows = self.get_query(info.name).stats()["stream"]["rows"]
        known = {"name": info.name, "kind": info.origin, "origin": f"query {info.owner}", "rows": rows, "bytes": 0}
        return {**known, **_NOT_LOOKED_AT, "retain_us": info.retain_us}

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop everything this process started; what should run goes on at the next `open`.

        Takes bounded time, whatever has become of Spark.
        """
        if self._engine is not None:
            self._engine.interrupt()
        self.archives.close()
        with self._closing:
            if self._closed:
                return
            self._going_on.close()
            for ingest in self._ingests:
                ingest.stop()
            self._questions.forget()
            self._queries.close()
            self._writers.close()
            self._tables.close()
            with self._engine_mutex:
                self._closed = True
                if self._engine is not None:
                    self._engine.close()
                    self._engine = None

    def _check(self) -> None:
        if self._closed:
            raise QueryError("DATABASE_IS_CLOSED", f"the database {self.path} is closed")
