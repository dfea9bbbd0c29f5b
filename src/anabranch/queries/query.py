"""A standing query, as people hold it in their hands.

What it has answered for good goes to its *Stream*, itself a stream of the database. Its *Store* is
the current answer: for a windowed query the rows of the newest window, for a selection nothing,
since every row it answers stays true. *Scratch* is what its operator keeps to go on, *Throw* what
it dropped. All four are measured.

What stands is a `Member`, what runs it a `Host`, where its answers go a sink; here they are one.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar, cast

import pyarrow as pa

from anabranch.clock import Clock
from anabranch.engine.protocol import Engine
from anabranch.errors import AnabranchError, CatalogError, QueryError, StreamError
from anabranch.log.lock import owner_of
from anabranch.log.stream import StreamInfo
from anabranch.operators.offset import Offset
from anabranch.operators.pace import Pace
from anabranch.queries.host import Host
from anabranch.queries.member import Ends, Member
from anabranch.queries.progress import Progress
from anabranch.queries.sink import StreamSink
from anabranch.queries.statistics import stats_of
from anabranch.queries.timekeeper import Timekeeper
from anabranch.schema import TIME_TYPE

_END_OF_TIME = 253_402_300_800_000_000
"""The first time (µs) that has more than four digits in its year."""
_TAKEN_OVER_SECONDS = 15.0
"""A process that has the database open with queries takes over those of a dead one long before."""


_Asked = TypeVar("_Asked", bound=Callable[..., Any])


def goes_along(method: _Asked) -> _Asked:
    """A method or property of a handle that is asked of where the query is now: it may have moved since."""

    @functools.wraps(method)
    def asked(self: Query, *arguments: Any, **named: Any) -> Any:
        now = self._now()
        if now is self:
            return method(self, *arguments, **named)
        there = getattr(now, method.__name__)
        return there(*arguments, **named) if callable(there) else there

    return cast(_Asked, asked)


class Query:
    """A handle on a standing query; get one from `Database.query` or `Database.sql`."""

    def __init__(
        self,
        member: Member,
        engine: Callable[[], Engine],
        clock: Clock,
        upstream: Callable[[str], Query | None],
        timekeeper: Timekeeper,
        moved: Callable[[], None],
        sink: Callable[[Member, Clock], StreamSink] = StreamSink,
    ) -> None:
        self.name = member.name
        self.id = member.info.id
        """Differs from that of a dropped query of the same name."""
        self.sql = member.info.sql
        self._member = member
        self._host = Host(member, engine, clock, moved, sink)
        self._engine = engine
        self._clock = clock
        self._upstream = upstream
        self._time = timekeeper
        self._dropped = False
        self._halted = False
        self._moved: Query | None = None

    # -- where it is -------------------------------------------------------------------------------

    @property
    def host(self) -> str | None:
        """The host that it is a member of; None: it stands alone."""
        now = self._now()
        return None if now is self else now.host

    def _moved_to(self, query: Query) -> None:
        """It goes on as another handle says, which is asked in its place from now on."""
        self._moved = query

    def _now(self) -> Query:
        """The handle of where it is now."""
        if self._moved is None and not self._dropped and self._has_left():
            known = self._upstream(self.name)
            if known is not None and known is not self and known.id == self.id:
                self._moved_to(known)
        return self if self._moved is None else self._moved._now()

    def _has_left(self) -> bool:
        if self._host.alive:
            return False
        info = self._member.catalog.query_alone(self.name)
        return info is None or info.bound_for is not None

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.status}>"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The streams it reads."""
        return self._member.inputs

    @property
    def reads_history(self) -> bool:
        """Whether it reads archives, too."""
        return self._member.operator.reads_history

    @property
    def answers_over_nothing(self) -> bool:
        """Whether it may have an answer before anything has come."""
        return self._member.operator.answers_over_nothing

    @property
    def answers_all_columns(self) -> bool:
        """Whether its columns are all those of its streams, whichever they are."""
        return self._member.plan.selects_all

    # -- life ----------------------------------------------------------------------------------

    @property
    @goes_along
    def status(self) -> str:
        """`running`, `starting`, `stopped`, `failed`; `elsewhere` while another process runs it.

        `lost`: it should run, and no process runs it; the one that did has ended.
        """
        here = self._host.status
        if here is not None:
            return here
        if self.failure is not None:
            return "failed"
        if self._runs_elsewhere():
            return "elsewhere"
        return "lost" if self._should_run() and not self._halted else "stopped"

    def _should_run(self) -> bool:
        """What the catalog says; another process may have stopped it."""
        try:
            return self._member.catalog.query(self.name).running
        except CatalogError:
            return False

    @property
    def runs_here(self) -> bool:
        """Whether this process runs it."""
        return self._host.alive

    def _runs_elsewhere(self) -> dict[str, Any] | None:
        """The process that runs it, if that is another one."""
        if self._host.holds:
            return None
        return owner_of(self._member.catalog.stream_storage(self.name), self._clock)

    def _refuse_if_elsewhere(self) -> None:
        owner = self._runs_elsewhere()
        if owner is not None:
            raise QueryError(
                "QUERY_RUNS_ELSEWHERE",
                f'query "{self.name}" is run by process {owner.get("pid", "?")} on {owner.get("host", "?")}',
                hint="do it there, or stop that process first",
            )

    @property
    @goes_along
    def failure(self) -> AnabranchError | None:
        """Why the query stopped by itself, or None."""
        return self._host.failure

    def answers(self) -> StreamInfo:
        """The stream its answers are to go to; Spark says its columns where it computes them."""
        plan = self._member.plan
        if plan.schema is not None:
            return self._member.answers(None)
        assert plan.residual_sql is not None
        return self._member.answers(self._engine().answer_schema(self._host.options(), plan.residual_sql))

    def claim(self) -> None:
        """Be the process that runs it, before any other can know of it."""
        self._host.claim()

    def prepare(self) -> None:
        """Keep what it has yet to read."""
        self._member.prepare()

    @goes_along
    def start(self, *, available_now: bool = False) -> None:
        """Run, from where it was; refused while another process runs it."""
        self.start_soon(available_now=available_now)
        self._host.wait_until_started()

    @goes_along
    def start_soon(self, *, available_now: bool = False) -> None:
        """Begin to start; it is `starting` until Spark is up and has its turn for it."""
        if not self._host.alive:
            self._refuse_if_elsewhere()
            self._halted = False
            self._host.start(available_now=available_now)
            self._remember(running=True)

    @goes_along
    def stop(self) -> None:
        """End the running; its answers stay, and `start` goes on from there."""
        self._refuse_if_elsewhere()
        self.halt()
        self._remember(running=False)

    def halt(self) -> None:
        """End the running in this process, without changing what the catalog says should run."""
        self._halted = True
        self._host.halt()

    def _look_after(self) -> None:
        """What is to be done now and then for its answers, by the process that runs it."""
        self._host.look_after()

    def drop(self) -> None:
        """End it and remove all it has: answers, scratch, checkpoint."""
        self._refuse_if_elsewhere()
        self.halt()
        self._dropped = True
        self._member.let_go()
        self._member.catalog.drop_query(self.name)

    def _remember(self, *, running: bool) -> None:
        member = self._member
        if member.info.running != running:
            member.info = replace(member.info, running=running)
            member.catalog.save_query(member.info)

    @goes_along
    def reevaluate(self, every: int = 1, at_most: int = 0) -> None:
        """From the next micro-batch on answer every k-th window only.

        With `at_most` above `every`, the query answers fewer windows by itself when it falls behind,
        down to every `at_most`-th, and more again once it has caught up. A query that answers with
        changes (EMIT CHANGES) answers every window all the same.
        """
        _refuse_pace(every, at_most)
        self._set_pace(Pace(every, at_most))

    def _set_pace(self, pace: Pace) -> None:
        self._member.set_pace(pace)

    # -- time ------------------------------------------------------------------------------------

    def due(self) -> dict[str, int]:
        """Per stream, the time (µs) it must reach for more to be answered though no row comes."""
        return {} if self._dropped else self._member.due(self._done())

    def wanted_of_inputs(self, time: int) -> int | None:
        """The time its streams must reach for its answer to reach `time`; None if it has."""
        return self._member.wanted_of_inputs(time, self._done())

    @goes_along
    def waits_for(self) -> dict[str, Any] | None:
        """The stream whose time must go on before the rows that were taken in are all answered; None if there is none.

        Says until which time, what time the stream has come to, and since when (by the clock) no row came.
        """
        with contextlib.suppress(AnabranchError, OSError):
            wanted = self._time.blocked(self)
            if wanted is not None:
                return {
                    "stream": wanted.stream,
                    "until": moment(wanted.time),
                    "reached": moment(wanted.reached),
                    "since": moment(self._time.arrived(wanted.stream)),
                }
        return None

    # -- answers go out ----------------------------------------------------------------------------

    def _counted(self) -> Progress:
        """What this process counts if it runs the query, else what the one that does has written down."""
        return self._member.progress if self._host.holds else Progress(self._member.storage)

    @goes_along
    def _done(self) -> dict[str, Offset]:
        """How far it has taken in each stream."""
        return self._counted().done()

    @goes_along
    def place(self) -> tuple[dict[str, Offset], int | None]:
        """How far it has taken in each stream, and how many rows its Stream had then (None: nobody knows)."""
        return self._counted().place()

    @goes_along
    def wait(self, timeout: float | None = None, until: Ends | None = None) -> Query:
        """Until everything appended before this call is taken in, and answered as far as time has come.

        Time is the clock where rows are stamped on arrival; where they bring their own, it is that of
        the rows. What is not answered yet then waits for time to go on: `waits_for` says of which stream.
        Rows that a stream still holds back because older ones may come (ALLOW SKEW) are not yet
        part of it; `Database.flush` releases them. `until`: only what is before these ends.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        now = self._clock.now_us()
        for name in self.inputs if until is None else ():
            source = self._upstream(name)
            if source is not None:
                source.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
        target = self._member.ends() if until is None else until
        lost = _Lost(self.name)
        while not self._member.has_reached(target, self._done()) or (until is None and self._has_more_by(now)):
            if self.failure is not None:
                raise self.failure
            if self._now() is not self:
                return self._now().wait(None if deadline is None else max(deadline - time.monotonic(), 0.001), until)
            if self.status == "stopped":
                raise QueryError("QUERY_IS_STOPPED", f'query "{self.name}" is not running', hint="start it first")
            lost.check(self.status)
            if deadline is not None and time.monotonic() > deadline:
                raise self._is_behind(target, timeout or 0)
            self._member.progress.wait_for(0.1)
        return self

    def ends(self) -> Ends:
        """How far its streams have come."""
        return self._member.ends()

    def _is_behind(self, target: Ends, timeout: float) -> QueryError:
        return QueryError(
            "QUERY_IS_BEHIND",
            f'query "{self.name}" did not catch up in {timeout:g} s',
            detail=f"{self._member.behind(target, self._done())} rows are still to come{self._waiting()}",
        )

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

    @goes_along
    def stream(self, start: int = 0, *, follow: bool = False) -> Iterator[pa.RecordBatch]:
        """The answers from number `start` on; with `follow` it goes on as they come, until it is stopped.

        When the process that runs it ends, it goes on with the one that takes the query over, if there is any.
        """
        lost = _Lost(self.name)
        try:
            for table in self._member.reader().tail(start, follow=follow):
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
        reader = self._member.reader()
        end = reader.end().row
        return reader.read(reader.first_row(), end)

    @goes_along
    def store(self, version: int | None = None) -> pa.Table:
        """The current answer: the rows of the newest window, what changes come to; empty for rows that stay.

        `version`: of an answer that changes, as it was then.
        """
        return self._member.store(self._done(), version)

    @goes_along
    def stats(self) -> dict[str, Any]:
        """What it has taken in, and its Stream, Store, Scratch and Throw."""
        return stats_of(self._member, self._counted(), self.status, self.waits_for())

    @goes_along
    def events(self) -> list[dict[str, Any]]:
        """What happened that people should know, the newest last: when, its name, and what it means."""
        return list(self._counted().counts.events)

    @goes_along
    def explain(self, format: str = "text") -> str:
        """The plan: operators, streams, what is kept and why it is bounded; `text` or `json`."""
        return self._member.explain(format)


def _refuse_pace(every: int, at_most: int) -> None:
    if every < 1 or at_most < 0:
        raise QueryError(
            "REEVALUATION_INVALID", f"every {every}-th window, at most every {at_most}-th, cannot be answered"
        )


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


def moment(time: int | None) -> str | None:
    """A time as text, UTC; None where there is none."""
    return None if time is None or abs(time) >= _END_OF_TIME else str(pa.scalar(time, TIME_TYPE).as_py())
