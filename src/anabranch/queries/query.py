"""A standing query.

What it has answered for good goes to its *Stream*, itself a stream of the database. Its *Store* is
the current answer: for a windowed query the rows of the newest window, for a selection nothing,
since every row it answers stays true. *Scratch* is what its operator keeps to go on, *Throw* what
it dropped. All four are measured.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.catalog import QUERY_ORIGIN, Catalog, QueryInfo
from anabranch.clock import Clock
from anabranch.errors import AnabranchError, CatalogError, QueryError, StreamError
from anabranch.log import Offset, StreamReader, StreamWriter, lost, retention
from anabranch.log.lock import owner_of
from anabranch.log.lost import Loss
from anabranch.log.stream import StreamInfo
from anabranch.operators.base import Inputs, Work
from anabranch.operators.landmark import Landmark
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.operators.pace import PACE
from anabranch.operators.select import Select
from anabranch.operators.window_changes import answering, newest_window
from anabranch.operators.window_join import WindowJoin
from anabranch.queries import checkpoint
from anabranch.queries.progress import Progress
from anabranch.queries.timekeeper import Timekeeper
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.settings import Settings
from anabranch.spark.options import SourceOptions, ddl
from anabranch.sql.plan import StandingPlan

if TYPE_CHECKING:  # importing pyspark takes a second; it is loaded with the engine
    from anabranch.dataspace.opening import Reader
    from anabranch.spark.engine import Batch, Engine
    from anabranch.spark.running import Running

_PRODUCER = "query"
_FOR_OTHERS = ("STREAM_IS_BEING_WRITTEN", "DIRECTORY_IS_READ_ONLY")
"""Why this process cannot run a query that another may."""
_END_OF_TIME = 253_402_300_800_000_000
"""The first time (µs) that has more than four digits in its year."""
_LONGEST_AHEAD = 1 << 50
"""An answer is at most this much (µs) further in time than the streams it is made from."""
_TAKEN_OVER_SECONDS = 15.0
"""A process that has the database open with queries takes over those of a dead one long before."""


class Query:
    """A handle on a standing query; get one from `Database.query` or `Database.sql`."""

    def __init__(
        self,
        info: QueryInfo,
        plan: StandingPlan,
        catalog: Catalog,
        engine: Callable[[], Engine],
        settings: Settings,
        clock: Clock,
        upstream: Callable[[str], Query | None],
        timekeeper: Timekeeper,
        moved: Callable[[], None],
    ) -> None:
        self.name = info.name
        self.id = info.id
        """Differs from that of a dropped query of the same name."""
        self.sql = info.sql
        self._info = info
        self._plan = plan
        self._catalog = catalog
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._upstream = upstream
        self._time = timekeeper
        self._moved = moved
        self._due: tuple[dict[str, Offset], dict[str, int]] = ({}, {})
        self._due_readers: dict[str, Reader] = {}
        self._mutex = threading.RLock()
        self._writer: StreamWriter | None = None
        self._running: Running | None = None
        self._failure: AnabranchError | None = None
        self._dropped = False
        self._halted = False
        self._batch_began = time.monotonic()
        self._storage = catalog.query_storage(info.name)
        self._progress = Progress(self._storage)

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.status}>"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The streams it reads."""
        return self._plan.operator.inputs

    @property
    def reads_history(self) -> bool:
        """Whether it reads archives, too."""
        return self._plan.operator.reads_history

    # -- life ----------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """`running`, `starting`, `stopped`, `failed`; `elsewhere` while another process runs it.

        `lost`: it should run, and no process runs it; the one that did has ended.
        """
        running = self._running
        if running is not None and running.alive:
            return running.status
        if self.failure is not None:
            return "failed"
        if self._runs_elsewhere():
            return "elsewhere"
        return "lost" if self._should_run() and not self._halted else "stopped"

    def _should_run(self) -> bool:
        """What the catalog says; another process may have stopped it."""
        try:
            return self._catalog.query(self.name).running
        except CatalogError:
            return False

    @property
    def runs_here(self) -> bool:
        """Whether this process runs it."""
        return self._running is not None and self._running.alive

    def _runs_elsewhere(self) -> dict[str, Any] | None:
        """The process that runs it, if that is another one."""
        if self._writer is not None:
            return None
        return owner_of(self._catalog.stream_storage(self.name), self._clock)

    def _refuse_if_elsewhere(self) -> None:
        owner = self._runs_elsewhere()
        if owner is not None:
            raise QueryError(
                "QUERY_RUNS_ELSEWHERE",
                f'query "{self.name}" is run by process {owner.get("pid", "?")} on {owner.get("host", "?")}',
                hint="do it there, or stop that process first",
            )

    @property
    def failure(self) -> AnabranchError | None:
        """Why the query stopped by itself, or None."""
        if self._running is not None and self._failure is None:
            self._failure = self._running.failure
        return self._failure

    def answers(self) -> StreamInfo:
        """The stream its answers are to go to; Spark says its columns where it computes them."""
        schema = self._plan.schema
        if schema is None:
            residual = self._plan.residual_sql
            assert residual is not None
            arrow = self._engine().answer_schema(self._options(), residual)
            schema = StreamSchema(_plain(arrow), self._plan.time)
        return StreamInfo(self.name, schema, origin=QUERY_ORIGIN + self.name)

    def prepare(self) -> None:
        """Keep what it has yet to read."""
        for name in self.inputs:
            storage = self._catalog.stream_storage(name)
            reader = self._catalog.open_stream(name)
            reader.refresh()
            retention.hold(storage, self.name, reader.first_row(), None)
        self._tell_missing_history()

    def _tell_missing_history(self) -> None:
        """An event if the query begins at a time of which the first rows are gone."""
        operator = self._plan.operator
        if not isinstance(operator, Landmark):
            return
        reader = self._readers()[operator.stream]
        first = reader.first_row()
        if 0 < first < reader.end().row:
            oldest = reader.read(first, first + 1, [reader.time_column]).column(0)[0]
            if oldest.value > operator.since:
                self._storage.make()
                text = f'of "{operator.stream}" the rows before {oldest.as_py()} are gone, it begins there'
                self._progress.tell("history_begins_late", text)

    def start(self, *, available_now: bool = False) -> None:
        """Run, from where it was; refused while another process runs it."""
        self.start_soon(available_now=available_now)
        running = self._running
        assert running is not None
        try:
            running.started()
        except AnabranchError:
            with self._mutex:
                if self._running is running:
                    self._close_writer()
            raise

    def start_soon(self, *, available_now: bool = False) -> None:
        """Begin to start; it is `starting` until Spark is up and has its turn for it."""
        with self._mutex:
            if self._running is not None and self._running.alive:
                return
            self._close_writer()
            self._refuse_if_elsewhere()
            self._failure, self._halted = None, False
            storage = self._catalog.stream_storage(self.name)
            try:
                self._writer = StreamWriter(storage, self._settings, self._clock, computed=True)
                self._progress = Progress(self._storage)  # another process may have run it meanwhile
                self._batch_began = time.monotonic()
                self._running = self._engine().run(
                    self._starting_options,
                    self._plan.residual_sql,
                    self._writer.info.schema.arrow,
                    self._storage.child("checkpoint"),
                    self._take,
                    available_now=available_now,
                    tell=self._progress.note,
                )
            except BaseException as problem:
                self._close_writer()
                if isinstance(problem, AnabranchError) and problem.name not in _FOR_OTHERS:
                    self._failure = problem
                raise
            self._remember(running=True)

    def stop(self) -> None:
        """End the running; its answers stay, and `start` goes on from there."""
        self._refuse_if_elsewhere()
        self.halt()
        self._remember(running=False)

    def halt(self) -> None:
        """End the running in this process, without changing what the catalog says should run."""
        with self._mutex:
            self._halted = True
            if self._running is not None:
                self._running.stop()
            self._close_writer()

    def drop(self) -> None:
        """End it and remove all it has: answers, scratch, checkpoint."""
        self._refuse_if_elsewhere()
        self.halt()
        self._dropped = True
        for name in self.inputs:
            retention.let_go(self._catalog.stream_storage(name), self.name)
        self._catalog.drop_query(self.name)

    def _remember(self, *, running: bool) -> None:
        if self._info.running != running:
            self._info = replace(self._info, running=running)
            self._catalog.save_query(self._info)

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def reevaluate(self, every: int = 1, at_most: int = 0) -> None:
        """From the next micro-batch on answer every k-th window only.

        With `at_most` above `every`, the query answers fewer windows by itself when it falls behind,
        down to every `at_most`-th, and more again once it has caught up. A query that answers with
        changes (EMIT CHANGES) answers every window all the same.
        """
        if every < 1 or at_most < 0:
            raise QueryError(
                "REEVALUATION_INVALID", f"every {every}-th window, at most every {at_most}-th, cannot be answered"
            )
        self._storage.write_json(PACE, {"every": every, "at_most": at_most})

    def _readers(self) -> dict[str, Reader]:
        history = self._plan.operator.reads_history
        readers = {name: self._catalog.open_stream(name, history=history) for name in self.inputs}
        for reader in readers.values():
            reader.refresh()
        return readers

    def _options(self) -> SourceOptions:
        inputs = {name: self._catalog.stream_storage(name) for name in self.inputs}
        readers = self._readers()
        return SourceOptions(
            operator=self._plan.operator.to_json(),
            streams={name: storage.address for name, storage in inputs.items()},
            spark_schema=ddl(self._plan.operator.schema(Inputs(readers))),
            scratch=self._storage.child("scratch", self._info.id).address,
            staging=self._storage.child("staging").address,
            holder=self.name,
            parallelism=self._settings["parallelism"] or self._engine().parallelism,
            batch_rows=self._settings["batch_rows"],
            poll_ms=self._settings["poll_ms"],
            inline_bytes=self._settings["inline_bytes"],
            every=self._settings["reevaluate_every"],
            every_at_most=self._settings["reevaluate_at_most"],
            pace=self._storage.address,
            window_memory_bytes=self._settings["window_memory_bytes"],
            access=self._catalog.access,
        )

    def _starting_options(self) -> SourceOptions:
        """How Spark is to go on with it, now that what is in its checkpoint has been looked at."""
        assert self._writer is not None
        self._go_on(self._writer)
        begin = checkpoint.beginning_of(self._storage.child("checkpoint"))
        return replace(self._options(), begin={name: list(offset) for name, offset in begin.items()} if begin else None)

    def _go_on(self, writer: StreamWriter) -> None:
        """See to it that Spark's checkpoint agrees with the answers; see `queries.checkpoint`."""
        position, missing = writer.position(_PRODUCER), self._missing_answers(writer)
        answered = checkpoint.Answered(position, writer.batch(_PRODUCER), missing is not None)
        found = checkpoint.look_at(self._storage.child("checkpoint"))
        speaks = missing is None and self._progress.speaks_of(writer)
        counted = checkpoint.Counted(self._progress.counts.last_batch, self._progress.done()) if speaks else None
        if found.end is not None and set(found.end) != set(self.inputs):
            found = found._replace(problem="it speaks of other streams")
        why = checkpoint.contradiction(found, answered, counted) or self._given_up(found.end or {})
        if why is None:
            return
        checkpoint.refuse(self.name, why, answered)
        if missing is not None:
            self._refuse_if_others_would_come(missing, position)
        at = self._progress.done() if speaks else position
        if at is not None:
            at = {name: offset._replace(row=max(offset.row, self._first_left(name))) for name, offset in at.items()}
            self._refuse_if_gone(at)
        checkpoint.begin_afresh(self._storage, at)
        if not self._plan.operator.scratch_is_state:  # it may be of micro-batches that now are cut in another way
            self._storage.child("scratch").delete_all()
        if missing is not None:
            self._progress.tell("answers_were_lost", f"{missing} of the answers were lost and are computed again")
            writer.begin_again()
        text = f"Spark's checkpoint was put aside: {why}; the query goes on from its answers"
        self._progress.tell("checkpoint_was_renewed", text)

    def _first_left(self, stream: str) -> int:
        """The first row of a stream of which rows were lost and given up, else 0."""
        storage = self._catalog.stream_storage(stream)
        return lost.kept_from(storage) or 0 if lost.losses(storage) else 0

    def _given_up(self, at: Mapping[str, Offset]) -> str | None:
        """Which rows that are still to be taken in were given up with what was lost, if any."""
        for name, offset in at.items():
            if offset.row < (first := self._first_left(name)):
                return f'{Loss(offset.row, first)} of stream "{name}" were lost and given up'
        return None

    def _missing_answers(self, writer: StreamWriter) -> Loss | None:
        """Answers at the end that were there: the log says so, or what the query has counted."""
        counted = self._progress.counts.answers or 0
        return writer.lost_end or (Loss(writer.next_row, counted) if counted > writer.next_row else None)

    def _refuse_if_others_would_come(self, missing: Loss, position: Mapping[str, Offset] | None) -> None:
        """Lost answers have their numbers again only if they are sure to be the same."""
        known = [*(position or {}).values(), *self._progress.done().values()]
        if any(offset.every != 1 or offset.keep != 1 for offset in known):
            raise StreamError(
                "ROWS_ARE_MISSING",
                f'{missing} of the answers of query "{self.name}" are missing',
                detail="it answers some of its windows, or from part of history: others might come in their place",
                hint="DROP QUERY it and create it again",
            )

    def _refuse_if_gone(self, at: Mapping[str, Offset]) -> None:
        """An error if rows that are needed to go on from a position were removed by retention since."""
        for name, floor in self._plan.operator.needs(at).items():
            reader = self._catalog.open_stream(name, history=self._plan.operator.reads_history)
            reader.refresh()
            first = reader.first_row()
            if self._first_left(name) == first:
                continue  # someone has agreed to go on without
            if floor.row is not None and first > max(floor.row - floor.before, 0) and first > 0:
                raise self._cannot_go_on(name, at[name])
            held = retention.held(self._catalog.stream_storage(name), self.name)
            if (
                floor.time is not None
                and first > 0
                and (held is None or held.get("time") is None or held["time"] > floor.time)
            ):
                oldest = (
                    reader.read(first, first + 1, [reader.time_column]).column(0) if first < reader.end().row else []
                )
                if not len(oldest) or oldest[0].value > floor.time:
                    raise self._cannot_go_on(name, at[name])

    def _cannot_go_on(self, stream: str, at: Offset) -> QueryError:
        return QueryError(
            "CHECKPOINT_IS_LOST",
            f'query "{self.name}" cannot go on from row {at.row} of stream "{stream}", where its answers end',
            detail="Spark's checkpoint is lost, and rows that it needs from there on were removed by RETAIN",
            hint="DROP QUERY it and create it again: it begins with the rows there are",
        )

    # -- answers come in -------------------------------------------------------------------------

    def _take(self, batch: Batch) -> None:
        """A micro-batch's answer goes to the Stream, once."""
        writer = self._writer
        if writer is None:
            raise QueryError("QUERY_IS_STOPPED", f'query "{self.name}" was stopped')
        start, end = batch.start(), batch.end()
        rows = self._plan.operator.gather(batch.rows)
        if rows.num_rows:
            writer.append(rows, producer=_PRODUCER, batch=batch.number, span=(start, end))
        writer.advance(self._plan.operator.reached(end), durable=False)
        begun, self._batch_began = self._batch_began, time.monotonic()
        rows_in = sum(offset.row - start.get(name, Offset()).row for name, offset in end.items())
        thrown = batch.work.rows_thrown
        if isinstance(self._plan.operator, Select):  # also what Spark SQL drops behind it
            thrown = rows_in - rows.num_rows
        self._progress.batch(
            batch.number,
            end,
            milliseconds=(time.monotonic() - begun) * 1000,
            rows_in=rows_in,
            rows_out=rows.num_rows,
            rows_thrown=thrown,
            work=batch.work,
            answers=writer.next_row,
        )
        self._moved()

    # -- time ------------------------------------------------------------------------------------

    def due(self) -> dict[str, int]:
        """Per stream, the time (µs) it must reach for more to be answered though no row comes."""
        done = self._counted().done()
        if not done or self._dropped:
            return {}
        if self._due[0] != done:
            if not self._due_readers:
                self._due_readers = self._readers()
            scratch = self._storage.child("scratch", self._info.id).address
            self._due = (done, self._plan.operator.due(done, Inputs(self._due_readers, scratch)))
        return self._due[1]

    def waits_for(self) -> dict[str, Any] | None:
        """The stream whose time must go on before the rows that were taken in are all answered; None if there is none.

        Says until which time, what time the stream has come to, and since when (by the clock) no row came.
        """
        with contextlib.suppress(AnabranchError, OSError):
            wanted = self._time.blocked(self)
            if wanted is not None:
                return {
                    "stream": wanted.stream,
                    "until": _moment(wanted.time),
                    "reached": _moment(wanted.reached),
                    "since": _moment(self._time.arrived(wanted.stream)),
                }
        return None

    def wanted_of_inputs(self, time: int) -> int | None:
        """The time its streams must reach for its answer to reach `time`; None if it has."""
        done, reached = self._counted().done(), self._plan.operator.reached
        if not done or reached(done) >= time:
            return None if done else time
        low, high = time - _LONGEST_AHEAD, time
        while low < high:
            middle = (low + high) // 2
            at = {name: offset._replace(time=max(offset.time, middle)) for name, offset in done.items()}
            low, high = (low, middle) if reached(at) >= time else (middle + 1, high)
        return high

    # -- answers go out ----------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> Query:
        """Until everything appended before this call is taken in, and answered as far as time has come.

        Time is the clock where rows are stamped on arrival; where they bring their own, it is that of
        the rows. What is not answered yet then waits for time to go on: `waits_for` says of which stream.
        Rows that a stream still holds back because older ones may come (ALLOW SKEW) are not yet
        part of it; `Database.flush` releases them.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        now = self._clock.now_us()
        for name in self.inputs:
            source = self._upstream(name)
            if source is not None:
                source.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
        target = self._ends()
        lost = _Lost(self.name)
        while not self._reached(target) or self._has_more_by(now):
            if self.failure is not None:
                raise self.failure
            if self.status == "stopped":
                raise QueryError("QUERY_IS_STOPPED", f'query "{self.name}" is not running', hint="start it first")
            lost.check(self.status)
            if deadline is not None and time.monotonic() > deadline:
                raise QueryError(
                    "QUERY_IS_BEHIND",
                    f'query "{self.name}" did not catch up in {timeout:g} s',
                    detail=f"{self._behind(target)} rows are still to come{self._waiting()}",
                )
            self._progress.wait_for(0.1)
        return self

    def _ends(self) -> dict[str, Offset]:
        return {name: self._catalog.open_stream(name).end() for name in self.inputs}

    def _waiting(self) -> str:
        waits = self.waits_for()
        if waits is None:
            return ""
        silent = f", and has had no row since {waits['since']}" if waits["since"] else ""
        stream, until, reached = waits["stream"], waits["until"], waits["reached"]
        return f'; it waits for stream "{stream}" to reach {until}, which is at {reached}{silent}'

    def _has_more_by(self, now: int) -> bool:
        """Whether more is to be answered as of a time of the clock, though no row comes."""
        return self.status in ("running", "starting", "elsewhere") and self._time.pending(self, now)

    def _counted(self) -> Progress:
        """What this process counts if it runs the query, else what the one that does has written down."""
        return self._progress if self._writer is not None else Progress(self._storage)

    def _reached(self, target: dict[str, Offset]) -> bool:
        done = self._counted().done()
        return all(
            offset == Offset() or (name in done and done[name].row >= offset.row and done[name].time >= offset.time)
            for name, offset in target.items()
        )

    def _behind(self, target: dict[str, Offset]) -> int:
        done = self._counted().done()
        return sum(max(offset.row - done.get(name, Offset()).row, 0) for name, offset in target.items())

    def stream(self, start: int = 0, *, follow: bool = False) -> Iterator[pa.RecordBatch]:
        """The answers from number `start` on; with `follow` it goes on as they come, until it is stopped.

        When the process that runs it ends, it goes on with the one that takes the query over, if there is any.
        """
        lost = _Lost(self.name)
        try:
            for table in self._reader().tail(start, follow=follow):
                if follow and table.num_rows == 0:
                    if self.failure is not None:
                        raise self.failure
                    if self.status == "stopped":
                        return
                    lost.check(self.status)
                yield from (b for b in table.to_batches() if b.num_rows)
        except StreamError:
            if not self._dropped:
                raise

    def table(self) -> pa.Table:
        """All answers so far."""
        reader = self._reader()
        end = reader.end().row
        return reader.read(reader.first_row(), end)

    def store(self) -> pa.Table:
        """The current answer: the rows of the newest window; empty for a selection."""
        windowed = answering(self._plan.operator)
        if windowed is not None:  # the Stream has changes: what they have led to
            done = self._counted().done()
            inputs = Inputs(self._readers(), window_memory=self._settings["window_memory_bytes"])
            return newest_window(windowed, done, inputs) if done else windowed.schema(inputs).empty_table()
        reader = self._reader()
        end = reader.end()
        if end.row == 0:
            return reader.schema.empty_table()
        newest = reader.read(end.row - 1, end.row, [reader.time_column]).column(0)[0].value
        every = max((offset.every for offset in self._counted().done().values()), default=1)
        since = self._plan.operator.current(end.time, newest, every)
        return reader.read(end.row if since is None else reader.row_at_time(since, end.row), end.row)

    def _reader(self) -> StreamReader:
        reader = StreamReader(self._catalog.stream_storage(self.name))
        reader.refresh()
        return reader

    def stats(self) -> dict[str, Any]:
        """What it has taken in, and its Stream, Store, Scratch and Throw."""
        counts = self._counted().counts
        reader = self._reader()
        try:
            store = self.store()
        except StreamError:  # who asks for its rows is told which are missing
            store = reader.schema.empty_table()
        target = {n: self._catalog.end_of(n) or Offset() for n in self.inputs}
        keeps = self._plan.operator.keeps()
        windowed = not isinstance(self._plan.operator, Select | WindowJoin | Merge | RangeMerge)
        thrown = "rows that WHERE dropped or no window holds"
        if isinstance(self._plan.operator, Merge):
            thrown = "records that left their window without a partner"
        return {
            "name": self.name,
            "status": self.status,
            "rows_in": counts.rows_in,
            "bytes_in": counts.bytes_in,
            "batches": counts.batches,
            "rows_per_second": counts.rows_per_second,
            "last_batch_ms": counts.last_batch_ms,
            "behind_rows": self._behind(target),
            "waits_for": self.waits_for(),
            "completeness": {"last_batch": counts.completeness, "all": _ratio(counts.found, counts.expected)},
            **({"merge": Work(merges=counts.merges).report} if counts.merges else {}),
            "stream": {"rows": reader.end().row, "bytes": reader.size(), "why": "answers that stay true"},
            "store": {
                "rows": store.num_rows,
                "bytes": store.nbytes if store.num_rows else 0,
                "why": "the newest window" if windowed else "nothing: every answer stays true",
            },
            "scratch": {
                "rows": counts.scratch_rows,
                "bytes": counts.scratch_bytes,
                "why": keeps.what if keeps else "nothing is kept",
            },
            "throw": {"rows": counts.rows_thrown, "bytes": None, "why": thrown},
        }

    def events(self) -> list[dict[str, Any]]:
        """What happened that people should know, the newest last: when, its name, and what it means."""
        return list(self._counted().counts.events)

    def explain(self, format: str = "text") -> str:
        """The plan: operators, streams, what is kept and why it is bounded; `text` or `json`."""
        inputs = Inputs(self._readers())
        return self._plan.explain_json(inputs) if format == "json" else self._plan.explain_text(inputs)


class _Lost:
    """How long a query has been lost: another process takes it over soon, or nobody does."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._since: float | None = None

    def check(self, status: str) -> None:
        """An error once nobody can be expected to take it over any more."""
        now = time.monotonic()
        self._since = None if status != "lost" else now if self._since is None else self._since
        if self._since is not None and now - self._since > _TAKEN_OVER_SECONDS:
            raise QueryError(
                "QUERY_IS_LOST",
                f'query "{self._query}" should run, but no process runs it',
                hint="open the database with queries, or STOP QUERY it",
            )


def _moment(time: int | None) -> str | None:
    """A time as text, UTC; None where there is none."""
    return None if time is None or abs(time) >= _END_OF_TIME else str(pa.scalar(time, TIME_TYPE).as_py())


def _ratio(found: float, expected: float) -> float:
    return found / expected if expected else 1.0


def _plain(schema: pa.Schema) -> pa.Schema:
    """A schema with Arrow's types as streams hold them."""
    return StreamSchema.from_json(StreamSchema(schema, "").to_json()).arrow
