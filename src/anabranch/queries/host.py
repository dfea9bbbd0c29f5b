"""What runs: takes in micro-batches for a member from an engine, and hands their answers to its sink.

Each micro-batch is committed once, answers before counts. Nothing here knows which engine it is, or what SQL was
asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from anabranch.clock import Clock
from anabranch.engine import cuts
from anabranch.engine.options import SourceOptions, options_for
from anabranch.engine.protocol import Batch, Engine, Job, Running
from anabranch.errors import AnabranchError, QueryError
from anabranch.operators.offset import Offset, offsets_to_json
from anabranch.queries.checkpoint import again_of
from anabranch.queries.differences import Differences, differences_of
from anabranch.queries.member import Member
from anabranch.queries.progress import Progress
from anabranch.queries.resuming import go_on
from anabranch.queries.sink import StreamSink

_FOR_OTHERS = ("STREAM_IS_BEING_WRITTEN", "DIRECTORY_IS_READ_ONLY")
"""Why this process cannot run a query that another may."""


class Host:
    """Runs one member while it is asked to; `moved` is called when its answer has gone on."""

    def __init__(
        self,
        member: Member,
        engine: Callable[[], Engine],
        clock: Clock,
        moved: Callable[[], None],
        sink: Callable[[Member, Clock], StreamSink] = StreamSink,
    ) -> None:
        self.member = member
        self._open_sink = sink
        self._engine = engine
        self._clock = clock
        self._moved = moved
        self._mutex = threading.RLock()
        self._sink: StreamSink | None = None
        self._running: Running | None = None
        self._failure: AnabranchError | None = None
        self._differences: Differences | None = None
        self._batch_began = time.monotonic()

    # -- what is known -----------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether it runs, or is about to."""
        return self._running is not None and self._running.alive

    @property
    def status(self) -> str | None:
        """`starting` or `running`; None if it does not run here."""
        running = self._running
        if running is not None and running.alive:
            return running.status
        return "starting" if self._claimed else None

    @property
    def failure(self) -> AnabranchError | None:
        """Why it stopped by itself, or None."""
        if self._running is not None and self._failure is None:
            self._failure = self._running.failure
        return self._failure

    @property
    def holds(self) -> bool:
        """Whether this process holds the member's Stream, so that no other can run it."""
        return self._sink is not None

    # -- life --------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Be the one who runs the member, before any other process can know of it."""
        self._sink = self._open_sink(self.member, self._clock)

    @property
    def _claimed(self) -> bool:
        return self._sink is not None and self._running is None

    def start(self, *, available_now: bool = False) -> None:
        """Begin to run, from where the member was; `starting` until the engine is up and has its turn for it."""
        with self._mutex:
            if self.alive:
                return
            if not self._claimed:
                self._close_sink()
            self._failure = None
            try:
                sink = self._sink = self._sink or self._open_sink(self.member, self._clock)
                self.member.progress = Progress(self.member.storage)  # another process may have run it meanwhile
                self._differences = differences_of(self.member, self._engine)
                self._batch_began = time.monotonic()
                job = Job(
                    lambda: self._options(sink),
                    self.member.plan.residual_sql,
                    sink.schema,
                    self.member.storage.child("checkpoint"),
                    available_now,
                    self.member.progress.note,
                )
                self._running = self._engine().run(job, self._take)
            except BaseException as problem:
                self._close_sink()
                if isinstance(problem, AnabranchError) and problem.name not in _FOR_OTHERS:
                    self._failure = problem
                raise

    def wait_until_started(self) -> None:
        """Raises why it could not be started."""
        running = self._running
        assert running is not None
        try:
            running.started()
        except AnabranchError:
            with self._mutex:
                if self._running is running:
                    self._close_sink()
            raise

    def halt(self) -> None:
        """End the running in this process."""
        with self._mutex:
            if self._running is not None:
                self._running.stop()
            self._close_sink()

    def look_after(self) -> None:
        """What is to be done now and then for the answers."""
        sink = self._sink
        if sink is not None and self.alive:
            sink.look_after()

    def _close_sink(self) -> None:
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    # -- micro-batches -----------------------------------------------------------------------------

    def options(self, begin: dict[str, Offset] | None = None) -> SourceOptions:
        """How an engine reads the member's streams; a checkpoint that is not its first begins at `begin`."""
        member, storage = self.member, self.member.storage
        return options_for(
            member.operator,
            member.catalog,
            member.settings,
            self._engine().parallelism,
            scratch=member.scratch,
            staging=storage.child("staging").address,
            holder=member.name,
            cuts=member.catalog.root.child(cuts.FOLDER).address,
            pace=storage.address,
            begin=offsets_to_json(begin) if begin else None,
            again=again_of(storage.child("checkpoint")),
        )

    def _options(self, sink: StreamSink) -> SourceOptions:
        """How to go on, now that what was written down has been looked at."""
        return self.options(go_on(self.member, sink))

    def _take(self, batch: Batch) -> None:
        """A micro-batch's answer goes to the sink, once; then it is counted."""
        sink, member = self._sink, self.member
        if sink is None:
            raise QueryError("QUERY_IS_STOPPED", f'query "{member.name}" was stopped')
        start, end = batch.start(), batch.end()
        rows = member.operator.gather(batch.rows, batch.work)
        if self._differences is not None and not sink.has(start, end):
            rows = self._differences.between(start, end, batch.work)
        sink.take(rows, batch.number, start, end, member.operator.reached(end), batch.work)
        begun, self._batch_began = self._batch_began, time.monotonic()
        rows_in = sum(offset.row - start.get(name, Offset()).row for name, offset in end.items())
        work = batch.work
        if member.operator.throws_what_it_leaves:
            work = replace(work, rows_thrown=rows_in - rows.num_rows)
        member.progress.batch(
            batch.number,
            end,
            milliseconds=(time.monotonic() - begun) * 1000,
            rows_in=rows_in,
            rows_out=rows.num_rows,
            work=work,
            answers=sink.rows,
        )
        self._moved()
