"""Queries move: from one host to another, from a host to a place of their own, and back.

Each step can be taken by any process, and again after one that died in between:

1. It is said where the query goes: in the list of its host, or in its own declaration. It stays where it is by then.
2. What its host has answered for it is brought home, to its own log.
3. It is added where it goes, with how far it has come and how many answers it has; from then on it is found there.
4. When rows that it has yet to read are held for it there, nothing is left of it where it was.

So each row is answered once, by one or the other. What it keeps is computed again from its streams; if it is
state, which cannot always be, it is taken along before it is added where it goes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch.archive.declaration import archives_of
from anabranch.catalog import QUERY, QueryInfo
from anabranch.catalog.hosted import Hosted, list_name
from anabranch.clock import Clock
from anabranch.errors import AnabranchError, QueryError, StreamError
from anabranch.log import lost, retention
from anabranch.log.lock import BEING_WRITTEN
from anabranch.log.slices import SliceReader
from anabranch.log.storage import Storage
from anabranch.log.stream import make_room
from anabranch.operators.offset import Offset
from anabranch.operators.pace import Pace
from anabranch.operators.state import STATES, copy_states
from anabranch.operators.together.changes import FAILED
from anabranch.operators.together.families import state_of
from anabranch.queries import checkpoint
from anabranch.queries.hosted import HostedQuery
from anabranch.queries.hosts import Added
from anabranch.queries.member import Member
from anabranch.queries.membership import refuse_alone
from anabranch.queries.resuming import place_of
from anabranch.queries.sink import StreamSink
from anabranch.settings import Settings
from anabranch.sql.standing.standing_plan import StandingPlan

if TYPE_CHECKING:
    from anabranch.queries.query import Query
    from anabranch.queries.standing import StandingQueries

_PATIENCE_SECONDS = 60.0
_ROWS_AT_ONCE = 200_000


class Moves:
    """See the module."""

    def __init__(self, queries: StandingQueries, settings: Settings, clock: Clock) -> None:
        self._queries = queries
        self._catalog = queries.hosts.catalog
        self._settings = settings
        self._clock = clock
        self._mutex = threading.Lock()

    # -- what is asked -----------------------------------------------------------------------------

    def move(self, name: str, to: str | None) -> None:
        """Have a query run by a host, or by itself; returns when it is there."""
        self.begin(name, to)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.is_done(name, to):
            self._queries.wake()
            self.go_on()
            if time.monotonic() > deadline:
                raise QueryError(
                    "QUERY_IS_MOVING",
                    f'query "{name}" has not come to {f"host {to}" if to else "a place of its own"} yet',
                    detail="its host has not come to the row of its list that says so",
                    hint="see that its host runs: SHOW QUERIES; it goes on by itself",
                )
            time.sleep(0.01)

    def begin(self, name: str, to: str | None, *, by_itself: bool = False) -> None:
        """Say where a query goes; `by_itself`: nobody has asked for it."""
        query = self._queries.get(name)
        if _is_run_by(query, to):
            return
        self._refuse(query, to)
        if isinstance(query, HostedQuery):
            self._queries.hosts.leave(query._found.host, query._found.entry, to, by_itself=by_itself)
        else:
            query.halt()
            self._catalog.save_query(replace(query._member.info, bound_for=to, came_from=None))

    def is_done(self, name: str, to: str | None) -> bool:
        """Whether a query is where it was to go, and nothing of it where it was."""
        query = self._queries.get(name)
        return _is_run_by(query, to) and not self.is_moving(name)

    def is_moving(self, name: str) -> bool:
        """Whether there is anything of a query where it was."""
        alone = self._catalog.query_alone(name)
        return (alone is not None and alone.bound_for is not None) or bool(self._left(name))

    def _left(self, name: str) -> list[Hosted]:
        leaving = self._catalog.hosted.leaving()
        return [found for found in leaving if found.entry.name.lower() == name.lower()]

    def _refuse(self, query: Query, to: str | None) -> None:
        if self.is_moving(query.name):
            raise QueryError(
                "QUERY_IS_MOVING", f'query "{query.name}" has not come where it was to go yet', hint="try again later"
            )
        if query._member.info.kind != QUERY:
            raise QueryError(
                "QUERY_CANNOT_MOVE",
                f'query "{query.name}" is a {query._member.info.kind}',
                hint="move queries that CREATE CONTINUOUS QUERY has made",
            )
        if archives_of(self._catalog.stream_storage(query.name)):
            raise QueryError(
                "QUERY_CANNOT_MOVE",
                f'query "{query.name}" has an archive of its answers',
                hint="DROP ARCHIVE it first, or leave the query where it is",
            )
        if isinstance(query, HostedQuery):
            if query._found.entry.state == FAILED and query.failure is not None:
                raise query.failure
        else:
            query._refuse_if_elsewhere()
        if to is not None:
            refuse_alone(query._member.plan)
            self._queries.check_host(to, [Added(query._member.info, query._member.plan)])

    def forget(self, name: str) -> None:
        """A query is dropped: nothing is left of it where it was, either."""
        for found in self._left(name):
            self._forget_states(found.entry.bound_for["to"], found.entry.query["id"])
            self._queries.forget_left(found)
        alone = self._catalog.query_alone(name)
        if alone is not None and alone.bound_for is not None:
            self._forget_states(alone.bound_for, alone.id)
            self._catalog.leave_home(alone)

    def _forget_states(self, to: str | None, id: str) -> None:
        """What it has taken along to a host already, where nobody knows of it."""
        if to is not None and self._catalog.hosted.is_host(to):
            self._states_of(to, f"{STATES}/{id}").delete_all()

    # -- step by step ------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Take the next step of all that move; one that cannot go on keeps no other from it."""
        problems: list[Exception] = []
        with self._mutex:
            steps = [partial(self._leave_host, found) for found in list(self._catalog.hosted.leaving())]
            for step in [*steps, *(partial(self._leave_home, info) for info in self._catalog.leaving_home())]:
                try:
                    step()
                except (AnabranchError, OSError) as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]

    def _leave_host(self, found: Hosted) -> None:
        to, info = found.entry.bound_for["to"], self._info(found)
        if self._is_there(info, to):
            if to is None:
                self._catalog.answers_are_home(info)
            if self._is_held(info, to, found.host):
                self._queries.forget_left(found)
            return
        at = self._stays_at(found)
        if at is None:
            return
        member = self._member(info, found.entry.data["plan"])
        storage = self._catalog.stream_storage(info.name)
        self._catalog.hosted.declare(found, storage)
        make_room(storage)
        first = self._catalog.open_stream(info.name).first_row()
        if first > (lost.kept_from(storage) or 0):  # RETAIN has let go of those before
            lost.keep_from(storage, first)
        with self._writing(member) as home:
            if home is None:
                return
            self._bring_home(SliceReader(storage, self._catalog.hosted.answers(found)), home, member, at)
            kept = state_of(found.entry)
            states = None if kept is None else self._states_of(found.host, kept)
            if to is not None:
                self._arrive(to, member, at, home.rows, found.entry.pace_now, states)
                return
            if states is not None:
                copy_states(states, Storage(member.scratch))
            checkpoint.begin_afresh(member.storage, at)
            member.set_pace(found.entry.pace_now)
            member.prepare()
            self._catalog.take_home(info, member.plan.to_json())
            self._catalog.answers_are_home(info)
        if info.running:
            self._queries.get(info.name).start_soon()

    def _info(self, found: Hosted) -> QueryInfo:
        info, said = found.info, found.entry.bound_for
        came_from = said.get("came_from")
        left = info.times_left + (came_from is not None)
        return replace(info, host=None, running=said["running"], came_from=came_from, times_left=left)

    def _member(self, info: QueryInfo, plan: dict[str, Any]) -> Member:
        return Member(info, StandingPlan.from_json(plan), self._catalog, self._settings)

    def _stays_at(self, found: Hosted) -> dict[str, Offset] | None:
        """How far a member has come that leaves, once its host knows that it does."""
        row = found.entry.turns[-1].row
        host = self._queries.get(found.host)
        listed = host._done().get(list_name(found.host))
        if listed is None or listed.row <= row:
            if not host.runs_here and host.status in ("stopped", "failed", "lost"):
                host.start_soon()
            return None
        at = next((cohort.at for cohort in listed.catching if cohort.low <= row < cohort.high), None)
        if at is None:
            return None
        plan = StandingPlan.from_json(found.entry.data["plan"])
        return {name: Offset(*at[name]) for name in plan.operator.inputs}

    def _bring_home(self, away: SliceReader, home: StreamSink, member: Member, at: Mapping[str, Offset]) -> None:
        """Copy what a host has answered to the query's own log, which says with the last of it how far that is."""
        end = away.end().row
        while home.rows < end:
            part = min(home.rows + _ROWS_AT_ONCE, end)
            home.bring(away.read(home.rows, part), at if part == end else None)
        home.writer.advance(member.operator.reached(at))

    def _states_of(self, host: str, folder: str) -> Storage:
        """A folder of states in the scratch of a host."""
        return Storage(self._queries.get(host)._member.scratch).child(*folder.split("/"))

    def _arrive(
        self, to: str, member: Member, at: Mapping[str, Offset], first: int, pace: Pace, states: Storage | None
    ) -> None:
        """The query is where it goes, with its state if it has any, and found there."""
        info = replace(member.info, host=None, bound_for=None)
        # What Spark computes the rest of has the columns that it has answered with.
        plan = member.plan if member.plan.schema else replace(member.plan, schema=self._catalog.schema(info.name))
        added = Added(info, plan, self._catalog.stream(info.name).retain_us)
        self._queries.host_for(to, [added])
        if states is not None and member.operator.scratch_is_state:
            copy_states(states, self._states_of(to, f"{STATES}/{info.id}"))
        self._queries.hosts.add_moved(to, added, at, first, pace)
        found = self._catalog.hosted.find(info.name)
        if found is not None and found.host.lower() == to.lower():
            self._catalog.hosted.declare(found, self._catalog.stream_storage(info.name))

    def _leave_home(self, info: QueryInfo) -> None:
        to = info.bound_for
        if self._is_there(info, to):
            if self._is_held(info, to):
                self._member(info, self._catalog.plan_of(info) or {}).let_go()
                self._catalog.leave_home(info)
            return
        plan = self._catalog.plan_of(info)
        if plan is None or to is None:
            return
        member = self._member(info, plan)
        with self._writing(member) as home:
            if home is not None:
                self._arrive(to, member, place_of(member, home), home.rows, member.pace(), Storage(member.scratch))

    @contextlib.contextmanager
    def _writing(self, member: Member) -> Iterator[StreamSink | None]:
        """The query's own log, to be written by this process alone; None if another one does."""
        try:
            home = StreamSink(member, self._clock)
        except StreamError as problem:
            if problem.name != BEING_WRITTEN:
                raise
            yield None
            return
        try:
            yield home
        finally:
            home.close()

    # -- whether it has arrived --------------------------------------------------------------------

    def _is_there(self, info: QueryInfo, to: str | None) -> bool:
        if to is not None:
            return self._catalog.hosted.member_of(to, info.name, info.id) is not None
        alone = self._catalog.query_alone(info.name)
        return alone is not None and alone.id == info.id and alone.bound_for is None

    def _is_held(self, info: QueryInfo, to: str | None, found_in: str | None = None) -> bool:
        """Whether the rows that it has yet to read are held for it where it is now; `found_in`: the host it leaves."""
        if to is None:
            return True  # that was the first thing there
        entry = self._catalog.hosted.member_of(to, info.name, info.id)
        listed = self._queries.get(to)._done().get(list_name(to))
        if entry is None or listed is None or listed.row <= entry.number:
            return False
        # Its own micro-batches say what they need from now on: until the next one ends, as much as was held before.
        before = found_in or info.name
        plan = StandingPlan.from_json(entry.data["plan"])
        for name in plan.operator.inputs:
            retention.hold_for(self._catalog.stream_storage(name), to, before)
        return True


def _is_run_by(query: Query, host: str | None) -> bool:
    return (query.host or "").lower() == (host or "").lower()
