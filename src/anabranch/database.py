"""The database: streams and standing queries in one directory, with Spark underneath.

Spark is started when something first needs it. Appending and reading streams do not.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import tempfile
import threading
import time as _time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch import statements as _run
from anabranch.archive.declaration import WINDOWED, ArchiveInfo
from anabranch.archive.summaries.eager import eager_select
from anabranch.catalog import Catalog, QueryInfo
from anabranch.catalog.planning import plan_query
from anabranch.clock import Clock, SystemClock
from anabranch.dataspace.access import Access
from anabranch.dataspace.opening import origin_of
from anabranch.errors import AnabranchError, CatalogError, DataError, QueryError, StreamError
from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.offset import MAX_TIME, Offset
from anabranch.log.stream import DATASPACE, INFO, StreamInfo
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.history_join import HistoryJoin
from anabranch.operators.history_join_aggregate import HistoryJoinAggregate
from anabranch.operators.landmark import Landmark
from anabranch.queries import Query
from anabranch.queries.archiver import Archiver
from anabranch.queries.archives import Archives
from anabranch.queries.asking import summaries_name
from anabranch.queries.check import Report, check_database
from anabranch.queries.damaged import DamagedQuery
from anabranch.queries.idle import IdleWatch
from anabranch.queries.ingest import Ingest
from anabranch.queries.timekeeper import Timekeeper
from anabranch.result import Result
from anabranch.schema import TIME_TYPE
from anabranch.settings import Settings
from anabranch.spark.options import SourceOptions, ddl, frame_scratch
from anabranch.spark.reducing import Reducing
from anabranch.sql.columns import selects_all
from anabranch.sql.parser import parse
from anabranch.sql.plan import StandingPlan
from anabranch.sql.statements import SelectOnce
from anabranch.sql.tree import Select

if TYPE_CHECKING:
    from anabranch.dataspace.opening import Reader
    from anabranch.spark.engine import Engine

_LOOK_SECONDS = 2.0
"""How often a process looks for queries that nobody runs any more."""
_HERE = max(os.cpu_count() or 1, 1)
"""Threads that read archives in this process."""
_EVERY = 1.0
"""Seconds after which what goes on by itself is looked at again, if nothing asks for it."""
_TOGETHER = 0.02


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
        self.settings = Settings(settings)
        self._clock = clock or SystemClock()
        self._storage = Storage(os.fspath(path))
        self.path = self._storage.address
        self.catalog = Catalog(
            self._storage, self._clock, create=create, access=Access.of(self.settings, self._storage)
        )
        self._given_spark = spark
        self._engine: Engine | None = None
        self._engine_mutex = threading.Lock()
        self._mutex = threading.RLock()
        self._writers: dict[str, StreamWriter] = {}
        self._queries: dict[str, Query] = {}
        self._ingests: list[Ingest] = []
        self._histories: dict[str, tuple[int | None, Reader | None]] = {}
        self.archives = Archives(self.catalog, self.settings, self._clock, self.run_here_or_in_spark, active=queries)
        self._idle = IdleWatch(self.settings["idle_timeout_seconds"])
        self._time = Timekeeper(self.catalog, self.settings, self._clock, self._known_query, self._open_writer)
        self._closed = threading.Event()
        self._wake = threading.Event()
        threading.Thread(
            target=_go_on, args=(weakref.ref(self), self._closed, self._wake), name="anabranch-time", daemon=True
        ).start()
        self._lost: set[str] = set()
        self._look_again = _time.monotonic() + _LOOK_SECONDS
        self._runs_queries = queries
        if queries:
            self._resume()

    def __enter__(self) -> Database:
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
                # Importing pyspark takes a second; commands that only touch the log do without.
                from anabranch.spark.answers import Answers
                from anabranch.spark.engine import Engine
                from anabranch.spark.session import Session

                warm_up = bool(self.settings["warm_up"])
                session = Session(self.settings, self._spark_log(), self._given_spark, warm_up=warm_up)
                limits = (self.settings["answer_bytes"], self.settings["inline_bytes"])
                self._engine = Engine(session, Answers(self._storage.child("answers"), *limits))
            return self._engine

    def _spark_log(self) -> str | None:
        """Where Spark says what it has to say: beside the data, or where nothing can be written there, elsewhere."""
        if not self._storage.is_local:
            return None
        if os.access(self._storage.path, os.W_OK):
            return os.path.join(self._storage.path, "spark.log")
        return os.path.join(tempfile.gettempdir(), f"anabranch-{os.getuid()}-spark.log")

    # -- streams -------------------------------------------------------------------------------

    def append(self, stream: str, data: Any, *, producer: str | None = None, batch: int | None = None) -> int:
        """Append rows; when it returns they are on disk. Gives the number of the stream's next row.

        `data`: a pyarrow Table, a pandas or polars DataFrame, a dict of columns, a list of dicts.
        With `producer` and a growing `batch` number, a batch appended before is passed over.
        """
        return self.writer(stream).append(data, producer=producer, batch=batch)

    def writer(self, stream: str) -> StreamWriter:
        """The one writer of a stream in this process, taken on first use and kept until `close`."""
        with self._mutex:
            self._check()
            key = stream.lower()
            if key not in self._writers:
                info = self.catalog.stream(stream)
                if info.origin != "append":
                    filler = "a data server" if info.origin == DATASPACE else info.origin
                    raise CatalogError(
                        "STREAM_IS_AN_ANSWER",
                        f'stream "{info.name}" is filled by {filler}, rows cannot be appended to it',
                    )
                self._writers[key] = StreamWriter(self.catalog.stream_storage(stream), self.settings, self._clock)
            return self._writers[key]

    def _open_writer(self, stream: str) -> StreamWriter | None:
        return self._writers.get(stream.lower())

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

    def _keep_time(self, at_most: float = 0.0) -> float:
        """Let time go on where this process's queries wait for it; gives the seconds until it may again, if fewer."""
        running = [query for query in list(self._queries.values()) if query.runs_here]
        again = self._time.keep(running)
        if again is None:
            return at_most
        return min(max((again - self._clock.now_us()) / 1e6, 0.0), at_most)

    def _move_silent_streams(self) -> None:
        """Heartbeats for streams that are silent while those they are joined with go on (idle_timeout_seconds)."""
        if not self.settings["idle_timeout_seconds"]:
            return
        groups = [query.inputs for query in list(self._queries.values()) if len(query.inputs) > 1]
        names = {name for group in groups for name in group}
        ends = {name: self.reader(name).end() for name in names}
        for name, reached in self._idle.silent(ends, groups, _time.monotonic()).items():
            if self.catalog.stream(name).origin == "append":  # answers are moved on by their query
                _quietly(functools.partial(self.writer(name).advance, reached))

    def reader(self, stream: str) -> Reader:
        """A reader of a stream with its archives, of a query's answers, or of `<stream>.rejects`."""
        info = self.catalog.stream(stream)
        reader = self.catalog.open_stream(stream, history=True)
        if info.origin != DATASPACE:  # a server may be away
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
            if self._closed.is_set():
                return
            yield from (b for b in table.to_batches() if b.num_rows)

    def streams(self) -> list[StreamInfo]:
        """The streams of the database, those that queries fill among them."""
        return self.catalog.streams()

    def add_column(self, stream: str, column: str, type: str) -> None:
        """Give a stream one more column of a SQL type; rows that are there have NULL in it, archived ones too."""
        with self._mutex:
            info = self.catalog.stream(stream)
            for query in self.queries():
                reads = info.name.lower() in {name.lower() for name in query.inputs}
                if reads and selects_all(_single_select(query.sql)):
                    raise CatalogError(
                        "STREAM_IS_USED",
                        f'query "{query.name}" answers with all columns of "{info.name}", which would change it',
                        hint=f"DROP QUERY {query.name} first, and name the columns it wants",
                    )
            self.writer(stream).close(release=False)
            self._writers.pop(info.name.lower(), None)
            self.catalog.add_column(info.name, column, type)

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
                self.create_query(summaries_name(info), _single_select(select), "archive")
            except BaseException:
                self.archives.drop(info.stream, info.name)
                raise
        return info

    def drop_archive(self, stream: str, name: str | None = None) -> ArchiveInfo:
        """End an archive and delete all its rows; those that are still in the log stay."""
        info = self.archives.find(stream, name)
        others = [each for each in self.archives.infos(stream) if each.layout != WINDOWED and each.name != info.name]
        if info.layout != WINDOWED and not others:
            for query in self.queries():
                if query.reads_history and info.stream.lower() in {each.lower() for each in query.inputs}:
                    raise CatalogError(
                        "STREAM_IS_USED",
                        f'the archive "{info.name}" of "{info.stream}" is read by query "{query.name}"',
                        hint=f"DROP QUERY {query.name} first",
                    )
        return self._drop_archive(info)

    def _drop_archive(self, info: ArchiveInfo) -> ArchiveInfo:
        if info.layout == WINDOWED:
            with contextlib.suppress(CatalogError):
                self._drop_query(summaries_name(info))
        return self.archives.drop(info.stream, info.name)

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
        for statement in parse(text):
            result = _run.execute(self, statement)
        return result

    def query(self, select: str, name: str | None = None) -> Query:
        """A standing query for a SELECT: starts with what the streams hold, and goes on live.

        Under the name of a query that exists, the same SELECT gives that query back.
        """
        tree = _single_select(select)
        if name is None:
            taken = {q.name.lower() for q in self.catalog.queries()} | {s.name.lower() for s in self.streams()}
            name = next(n for i in range(1, 1_000_000) if (n := f"q{i}") not in taken)
        else:
            known = next((q for q in self.catalog.queries() if q.name.lower() == name.lower()), None)
            if known is not None:
                if " ".join(known.sql.split()) != " ".join(tree.source.split()):
                    raise CatalogError(
                        "NAME_EXISTS",
                        f'query "{known.name}" exists with another SELECT',
                        hint="choose another name, or DROP QUERY it first",
                    )
                query = self.get_query(known.name)
                if query.status in ("stopped", "failed", "lost"):
                    query.start()
                return query
        return self.create_query(name, tree)

    def create_query(self, name: str, select: Select, kind: str = "query") -> Query:
        """Make and start a standing query from a parsed SELECT."""
        plan = plan_query(select, self.catalog)
        joined = plan.operator.join if isinstance(plan.operator, HistoryJoinAggregate) else plan.operator
        if isinstance(joined, HistoryJoin):
            self.archives.wanted(joined.history)
        live_from = plan.operator.live_from if isinstance(plan.operator, Landmark) else None
        info = QueryInfo(name, select.source, running=True, kind=kind, live_from=live_from)
        query = self._make(info, plan)
        answers = query.answers()
        with self._mutex:
            self.catalog.create_query(info, answers)
            self._queries[name.lower()] = query
        try:
            query.prepare()
            query.start()
        except BaseException:
            self._drop_query(name)
            raise
        return query

    def get_query(self, name: str) -> Query:
        """The handle of a query that exists."""
        with self._mutex:
            key = name.lower()
            info = self.catalog.query(name)
            known = self._queries.get(key)
            if known is None or known.id != info.id:  # another process may have dropped it and made one anew
                try:
                    if info.is_damaged:
                        raise info.damage()
                    plan = plan_query(_single_select(info.sql), self.catalog, info.live_from)
                except AnabranchError as problem:  # the others go on, and it says why it does not
                    return DamagedQuery(info, self.catalog, problem)
                self._queries[key] = self._make(info, plan)
            return self._queries[key]

    def queries(self) -> list[Query]:
        """All standing queries, whoever runs them."""
        return [self.get_query(info.name) for info in self.catalog.queries()]

    def _make(self, info: QueryInfo, plan: StandingPlan) -> Query:
        return Query(
            info,
            plan,
            self.catalog,
            self.engine,
            self.settings,
            self._clock,
            self._upstream,
            self._time,
            self._wake.set,
        )

    def _upstream(self, stream: str) -> Query | None:
        with contextlib.suppress(CatalogError):
            return self.get_query(stream)
        return None

    def _known_query(self, name: str) -> Query | None:
        return self._queries.get(name.lower()) or self._upstream(name)

    def drop_query(self, name: str) -> None:
        """End a query and remove all it has."""
        info = self.catalog.query(name)
        if info.kind == "archive":
            stream, _, archive = info.name.partition(".")
            raise CatalogError(
                "STREAM_IS_USED",
                f'query "{info.name}" fills an archive',
                hint=f"DROP ARCHIVE {archive} ON {stream}",
            )
        self._drop_query(name)

    def _drop_query(self, name: str) -> None:
        with self._mutex:
            info = self.catalog.query(name)
            self._refuse_if_read(info.name)
            self.get_query(name).drop()
            self._queries.pop(name.lower(), None)

    def drop_stream(self, name: str) -> None:
        with self._mutex:
            info = self.catalog.stream(name)
            if any(q.name.lower() == name.lower() for q in self.catalog.queries()):
                return self.drop_query(name)
            if info.origin == "rejects":
                raise CatalogError("STREAM_IS_AN_ANSWER", f'"{name}" belongs to its stream, drop that')
            summaries = {summaries_name(each).lower() for each in self.archives.infos(info.name)}
            self._refuse_if_read(info.name, but=summaries)
            if info.origin == "append":
                self.writer(name).close(release=False)
                self._writers.pop(name.lower(), None)
            for archive in self.archives.infos(info.name):
                self._drop_archive(archive)
            self.catalog.drop_stream(name)
        return None

    def _refuse_if_read(self, stream: str, but: Collection[str] = ()) -> None:
        readers = [
            q.name
            for q in self.queries()
            if stream.lower() in {i.lower() for i in q.inputs} and q.name != stream and q.name.lower() not in but
        ]
        if readers:
            raise CatalogError(
                "STREAM_IS_USED",
                f'"{stream}" is read by query "{readers[0]}"',
                hint=f"DROP QUERY {readers[0]} first",
            )

    def _resume(self) -> None:
        """Go on with the queries that were running when the database was last closed or killed."""
        for info in self.catalog.queries():
            if info.running:
                with contextlib.suppress(
                    AnabranchError
                ):  # another runs it, or it has failed and says why: the rest opens
                    self.get_query(info.name).start_soon()

    def _take_over(self) -> None:
        """Run queries whose process has ended. Whoever takes the lock first has them.

        Only those that were lost at the last look, too: others are being stopped, made or started at this moment.
        """
        began = _time.monotonic()
        if not self._runs_queries or began < self._look_again:
            return
        lost = {info.name for info in self.catalog.queries() if info.running and self._is_lost(info.name)}
        for name in lost & self._lost:
            _quietly(self.get_query(name).start_soon)
        self._lost = lost
        now = _time.monotonic()
        self._look_again = now + max(_LOOK_SECONDS, 20 * (now - began))

    def _is_lost(self, name: str) -> bool:
        with contextlib.suppress(CatalogError):  # it may have been dropped
            return self.get_query(name).status == "lost"
        return False

    # -- Spark programs --------------------------------------------------------------------------

    def dataframe(self, select: str) -> Any:
        """A SELECT as a Spark DataFrame, for PySpark programs: streaming; about an ARCHIVE, of what there is."""
        tree = _single_select(select)
        if _run.is_about_archives(tree):
            return _run.archive_frame(self, tree)
        plan = plan_query(tree, self.catalog)
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

    def source_options(self, operator: Operator, *, ended: bool = False) -> SourceOptions:
        """How Spark reads an operator over the streams of this database, as they are now.

        `ended`: read once, they count as ended, so that nothing waits for rows to come.
        """
        storages = {n: self.catalog.stream_storage(n) for n in operator.inputs}
        readers = {n: self.catalog.open_stream(n, history=True) for n in storages}
        return SourceOptions(
            operator=operator.to_json(),
            streams={n: s.address for n, s in storages.items()},
            spark_schema=ddl(operator.schema(Inputs(readers))),
            parallelism=self.settings["parallelism"] or self.engine().parallelism,
            batch_rows=self.settings["batch_rows"],
            poll_ms=self.settings["poll_ms"],
            window_memory_bytes=self.settings["window_memory_bytes"],
            scratch=None if ended else frame_scratch(self.catalog, operator),
            claims_time=isinstance(self._clock, SystemClock),
            ends={n: list(self._end_of(operator, r, ended)) for n, r in readers.items()},
            access=self.catalog.access,
        )

    def history(self, stream: str) -> Reader:
        """A reader of a stream's whole life, kept from question to question: opening Delta tables takes time."""
        storage = self.catalog.stream_storage(stream)
        with self._mutex:
            made, reader = self._histories.get(stream.lower(), (None, None))
            if reader is None or made != storage.made(INFO):
                made, reader = storage.made(INFO), self.catalog.open_stream(stream, history=True)
                self._histories[stream.lower()] = (made, reader)
            reader.refresh()
            return reader

    @staticmethod
    def _end_of(operator: Operator, reader: Reader, ended: bool) -> Offset:
        """Up to where a stream is read once, and how much of its history."""
        end = reader.end()._replace(time=MAX_TIME) if ended else reader.end()
        return end._replace(keep=Reducing(operator).keep(Offset(), end)) if operator.reads_in_part else end

    def run_here_or_in_spark(self, operator: Operator, seconds: float = 0.0) -> pa.Table:
        """All rows of an operator that is asked once: by Spark's tasks if there is much to read, else here.

        Spark may take so many seconds; 0 is for ever.
        """
        readers = {name: self.history(name) for name in operator.inputs}
        inputs = Inputs(readers, window_memory=self.settings["window_memory_bytes"])
        end = {name: reader.end() for name, reader in readers.items()}
        size = operator.bytes_to_read(end, inputs)
        if size > self.settings["archive_local_bytes"]:
            engine = self.engine()
            return engine.ask(lambda: engine.collect(engine.read_once(self.source_options(operator)), size), seconds)
        start = {name: Offset(reader.first_row()) for name, reader in readers.items()}
        tasks = operator.plan(start, end, inputs, _HERE)
        with ThreadPoolExecutor(_HERE) as pool:  # Arrow and the kernels leave the interpreter's lock alone
            batches = [b for part in pool.map(lambda task: list(operator.run(task, inputs)), tasks) for b in part]
        return pa.Table.from_batches(batches, operator.schema(inputs))

    # -- looking at it ---------------------------------------------------------------------------

    def check(self) -> Report:
        """Look through everything that is on disk, while others may write: what is missing or damaged."""
        return check_database(self._storage, clock=self._clock)

    def overview(self) -> dict[str, Any]:
        """Streams and queries with their sizes, from files alone: works beside a running process."""
        return {"streams": self.overview_streams(), "queries": [q.stats() for q in self.queries()]}

    def overview_streams(self) -> list[dict[str, Any]]:
        streams = []
        for info in self.streams():
            reader = self.reader(info.name)
            storage = self.catalog.stream_storage(info.name)
            found = self.catalog.end_of(info.name) if info.origin == DATASPACE else reader.end()
            end = found or Offset()
            rejects = storage.child("rejects")
            streams.append(
                {
                    "name": info.name,
                    "origin": origin_of(info) + (" (away)" if found is None else ""),
                    "rows": end.row,
                    "bytes": reader.size(),
                    "newest_us": end.time if end.row else None,
                    "ahead_us": self.catalog.ahead_of_clock(info),
                    "rejects": StreamReader(rejects).end().row if rejects.exists("stream.json") else 0,
                }
            )
        for name in self.catalog.damaged_streams():
            nothing = {"rows": 0, "bytes": 0, "newest_us": None, "rejects": 0}
            streams.append({"name": name, "origin": "damaged: its declaration cannot be read", **nothing})
        return streams

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop everything this process started; what should run goes on at the next `open`.

        Takes bounded time, whatever has become of Spark.
        """
        if self._engine is not None:
            self._engine.interrupt()
        # Its thread may be reading history, for which it needs the mutex.
        self.archives.close()
        with self._mutex:
            if self._closed.is_set():
                return
            for ingest in self._ingests:
                ingest.stop()
            self._histories.clear()
            _all_at_once([query.halt for query in self._queries.values()])
            for writer in self._writers.values():
                writer.close()
            self._closed.set()
            self._wake.set()
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def _check(self) -> None:
        if self._closed.is_set():
            raise QueryError("DATABASE_IS_CLOSED", f"the database {self.path} is closed")


def _single_select(text: str) -> Select:
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], SelectOnce):
        raise QueryError("SELECT_WANTED", "a standing query is one SELECT", hint="run other statements with db.sql()")
    return statements[0].select


def _go_on(reference: weakref.ref[Database], closed: threading.Event, wake: threading.Event) -> None:
    """What happens by itself as time goes on, until the database is closed."""
    looked = _time.monotonic()
    while not closed.wait(_TOGETHER):  # micro-batches that end together are looked at together
        database = reference()
        if database is None:
            return
        wake.clear()
        pause = _EVERY
        with contextlib.suppress(Exception):  # it may be tried again, and must not end the thread
            pause = database._keep_time(_EVERY)
        if _time.monotonic() - looked >= _EVERY:
            looked = _time.monotonic()
            for writer in list(database._writers.values()):
                _quietly(writer.release_if_idle)
            _quietly(functools.partial(database._time.serve, list(database._writers.values())))
            _quietly(database._move_silent_streams)
            _quietly(database._take_over)
        del database
        wake.wait(pause)


def _all_at_once(actions: Sequence[Callable[[], Any]]) -> None:
    """Each in a thread of its own: many queries stop as fast as the slowest of them."""
    threads = [threading.Thread(target=_quietly, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _quietly(action: Callable[[], Any]) -> None:
    """Background work that may be tried again later and must not end a thread loudly."""
    with contextlib.suppress(Exception):
        action()
