"""The standing queries of a database, as this process knows them: made, found, gone on with, taken over."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from anabranch.catalog import QUERY, VIEW, Catalog, ObjectName, QueryInfo
from anabranch.catalog.catalog import check_stream
from anabranch.catalog.hosted import Hosted, list_name
from anabranch.catalog.planning import plan_query, plan_view
from anabranch.catalog.readers import reads
from anabranch.clock import Clock
from anabranch.engine.protocol import Engine
from anabranch.errors import AnabranchError, CatalogError, StreamError
from anabranch.log.stream import ANSWERS, StreamInfo, changes_name
from anabranch.queries.balance import Balance
from anabranch.queries.damaged import DamagedQuery
from anabranch.queries.differences import completed
from anabranch.queries.host_sink import HostSink
from anabranch.queries.hosted import HostCounts, HostedQuery
from anabranch.queries.hosts import HOST, Added, Hosts, Problem, plan_of_host, refused
from anabranch.queries.member import Member
from anabranch.queries.membership import refuse_alone
from anabranch.queries.moving import Moves
from anabranch.queries.query import Query
from anabranch.queries.quietly import all_at_once, quietly
from anabranch.queries.sink import StreamSink
from anabranch.queries.timekeeper import Timekeeper
from anabranch.queries.view_sink import ViewSink
from anabranch.settings import Settings
from anabranch.sql.checking.itself import refuse_itself
from anabranch.sql.single import single_select
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select

_LOOK_SECONDS = 2.0
"""How often a process looks for queries that nobody runs any more."""
_SINKS = {VIEW: ViewSink}
"""Where answers go, by the kind of query; else to a stream."""


class Surroundings(NamedTuple):
    """What queries need of their database."""

    catalog: Catalog
    settings: Settings
    clock: Clock
    engine: Callable[[], Engine]
    timekeeper: Timekeeper
    moved: Callable[[], None]
    """Called when an answer has gone on."""
    wants_archive: Callable[[str], None]
    """An error if a stream has no archive."""


class StandingQueries:
    """See the module."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._catalog = surroundings.catalog
        self.hosts = Hosts(
            surroundings.catalog,
            surroundings.settings,
            surroundings.clock,
            surroundings.engine,
            surroundings.wants_archive,
        )
        self._mutex = threading.RLock()
        self._queries: dict[str, Query] = {}
        self._counts: dict[str, tuple[str, HostCounts]] = {}
        self._closed = False
        self._lost: set[str] = set()
        self.moves = Moves(self, surroundings.settings, surroundings.clock)
        self._balance = Balance(surroundings.catalog, surroundings.settings, self.moves, self.find)
        self._keeps_places = threading.Lock()
        self._look_again = time.monotonic() + _LOOK_SECONDS

    # -- which there are ---------------------------------------------------------------------------

    def known(self) -> list[Query]:
        """Those that this process has met."""
        return list(self._queries.values())

    def all(self) -> list[Query]:
        """All of them, whoever runs them; hosts are only how some of them are run."""
        alone = [self._get(info) for info in self._catalog.queries_alone() if info.kind != HOST]
        members = [self._member(found) for found in self._catalog.hosted.all()]
        return sorted([*alone, *members], key=lambda query: query.name.lower())

    def get(self, name: str) -> Query:
        """The handle of one that exists."""
        info = self._catalog.query(name)
        found = self._catalog.hosted.find(name) if info.host is not None else None
        return self._get(info) if found is None else self._member(found)

    def _get(self, info: QueryInfo) -> Query:
        name = info.name
        with self._mutex:
            known = self._queries.get(name.lower())
            if known is not None and known.id == info.id and not isinstance(known, HostedQuery):
                return known  # else another process has dropped it and made one anew, or it has moved
            try:
                if info.is_damaged:
                    raise info.damage()
                plan = self._plan_of(info)
            except AnabranchError as problem:  # the others go on, and it says why it does not
                return DamagedQuery(info, self._catalog, problem)
            return self._known_as(self._make(info, plan))

    def _member(self, found: Hosted) -> Query:
        """The handle of a member of a host."""
        with self._mutex:
            name = found.entry.name.lower()
            known = self._queries.get(name)
            if isinstance(known, HostedQuery) and known._is_handle_of(found):
                return known
            host = self._queries.get(found.host.lower()) or self.get(found.host)
            counts = self._counts.get(found.host.lower())
            if counts is None or counts[0] != host.id:
                counts = self._counts[found.host.lower()] = (host.id, HostCounts(host))
            return self._known_as(HostedQuery(found, host, counts[1], self.hosts, self._around.settings, self.find))

    def _known_as(self, query: Query) -> Query:
        """A new handle; whoever holds one of before goes on with this one."""
        known = self._queries.get(query.name.lower())
        if known is not None and known.id == query.id:
            known._moved_to(query)
        self._queries[query.name.lower()] = query
        return query

    def find(self, name: str) -> Query | None:
        """The query that fills a stream, if one does."""
        with contextlib.suppress(CatalogError):
            return self.get(name)
        return None

    def known_or_find(self, name: str) -> Query | None:
        """The same, without a look at the catalog for those that this process has met."""
        return self._queries.get(name.lower()) or self.find(name)

    def _plan_of(self, info: QueryInfo) -> StandingPlan:
        """As it was planned when it was made; planned again only where that was lost, or another version wrote it."""
        with contextlib.suppress(CatalogError):
            self._catalog.stream(info.name)  # its own answers, too: one that is damaged is said to be
        saved = self._catalog.plan_of(info)
        if saved is not None:
            plan = StandingPlan.from_json(saved)
            for stream in plan.operator.inputs:
                self._catalog.stream(stream)  # one that is damaged is said to be
            return plan
        plan = plan_of_host(info) if info.kind == HOST else self._planned_again(info)
        quietly(lambda: self._catalog.save_plan(info, plan.to_json()))
        return plan

    def _make(self, info: QueryInfo, plan: StandingPlan) -> Query:
        around = self._around
        member = Member(info, plan, self._catalog, around.settings)
        of_host = partial(HostSink, say=partial(self.hosts.say, info.name), engine=around.engine)
        sink = of_host if info.kind == HOST else _SINKS.get(info.kind, StreamSink)
        return Query(member, around.engine, around.clock, self.find, around.timekeeper, around.moved, sink)

    # -- made and dropped --------------------------------------------------------------------------

    def ask(self, select: Select, name: str | None) -> Query:
        """A query for a SELECT; under the name of one that exists, the same SELECT gives that one back."""
        if name is None:
            taken = {*self._catalog.query_names(), *self._catalog.stream_names()}
            name = next(n for i in range(1, 1_000_000) if (n := f"q{i}") not in taken)
        elif self._catalog.has_query(name):
            query = self.get(name)
            if " ".join(query.sql.split()) != " ".join(select.source.split()):
                raise CatalogError(
                    "NAME_EXISTS",
                    f'query "{query.name}" exists with another SELECT',
                    hint="choose another name, or DROP QUERY it first",
                )
            if query.status in ("stopped", "failed", "lost"):
                query.start()
            return query
        return self.create(name, select)

    def create(
        self,
        name: str,
        select: Select,
        kind: str = QUERY,
        owner: ObjectName | None = None,
        *,
        alone: bool = False,
        retain_us: int | None = None,
    ) -> Query:
        """Make and start one from a parsed SELECT; `owner` is what it is a part of."""
        plan = self._planned_for(name, select, plan_query)
        self._look_for_archives(plan)
        host = None if alone or kind != QUERY or owner is not None else self.hosts.chosen(plan)
        if host is not None:
            self._add(host, [self.hosts.member(name, select, plan, set(), retain_us)])
            return self.get(name)
        read = reads(plan.operator.inputs, history=plan.operator.reads_history)
        info = QueryInfo(name, select.source, kind=kind, reads=read, owner=owner)
        query = self._make(info, plan)
        self._start_new(query, info, plan, retain_us)
        return query

    def create_view(self, name: str, select: Select, retain_us: int) -> Query:
        """Make and start what keeps a view."""
        plan = self._planned_for(name, select, plan_view)
        read = reads(plan.operator.inputs, history=plan.operator.reads_history)
        info = QueryInfo(changes_name(name), select.source, kind=VIEW, reads=read, owner=ObjectName(VIEW, name))
        query = self._make(info, plan)
        self._start_new(query, info, plan, retain_us)
        return query

    def planned_view(self, select: Select, name: str | None = None) -> StandingPlan:
        """What would be made of the SELECT of a view."""
        plan = self._planned_for(name, select, plan_view)
        if name is not None:
            self._catalog.refuse_if_taken(name)
            self._catalog.refuse_if_taken(changes_name(name))
        return plan

    def _planned_again(self, info: QueryInfo) -> StandingPlan:
        plan = plan_view if info.kind == VIEW else plan_query
        return self._planned_for(None, single_select(info.sql), plan)

    def _planned_for(
        self, name: str | None, select: Select, plan_of: Callable[[Select, Catalog], StandingPlan]
    ) -> StandingPlan:
        """The plan of a SELECT, of which what has that name is to be made."""
        try:
            plan = plan_of(select, self._catalog)
        except CatalogError:
            if name is not None:
                refuse_itself(select, name)
            raise
        return completed(plan, select, self._catalog, self._around.settings, self._around.engine)

    def planned(self, select: Select, name: str | None = None, host: str | None = None) -> StandingPlan:
        """What would be made of a SELECT; refused where making it would be, but for what Spark alone can tell."""
        plan = self._planned_for(name, select, plan_query)
        if name is not None:
            self._catalog.refuse_if_taken(name)
        if host is not None:
            refuse_alone(plan)
        self._look_for_archives(plan)
        if plan.schema is not None:
            check_stream(StreamInfo(name or "explained", plan.schema, origin=ANSWERS))
        return plan

    def _look_for_archives(self, plan: StandingPlan) -> None:
        for stream in plan.operator.archives_wanted():
            self._around.wants_archive(stream)

    def _start_new(self, query: Query, info: QueryInfo, plan: StandingPlan, retain_us: int | None = None) -> None:
        answers = replace(query.answers(), retain_us=retain_us)
        with self._mutex:
            try:
                self._catalog.create_query(info, answers, plan.to_json(), query.claim)
            except BaseException:
                query.halt()
                raise
            self._queries[info.name.lower()] = query
        try:
            query.prepare()
            query.start()
        except BaseException:
            self.remove(info.name)
            raise

    def create_texts(
        self,
        selects: Sequence[tuple[str, str]],
        host: str,
        problems: list[Problem] | None = None,
        retain_us: int | None = None,
    ) -> list[Query]:
        """Make members of a host, all or none; given a place for `problems`, those that can be made."""
        wrong: list[Problem] = []
        added: list[Added] = []
        names: set[str] = set()
        for place, (name, select) in enumerate(selects):
            try:
                added.append(self.hosts.planned(name, single_select(select), names, retain_us))
            except AnabranchError as problem:
                wrong.append(Problem(place, name, problem))
        if wrong and problems is None:
            raise refused(wrong, len(selects))
        if problems is not None:
            problems += wrong
        self._add(host, added)
        return [self.get(member.info.name) for member in added]

    def create_member(self, name: str, select: Select, host: str, retain_us: int | None = None) -> Query:
        """Make one member of a host."""
        self._add(host, [self.hosts.planned(name, select, set(), retain_us)])
        return self.get(name)

    def _add(self, host: str, added: Sequence[Added]) -> None:
        if added:
            with self._mutex:
                self._host(host, added)
            self.hosts.add(host, added)
            self._around.moved()

    def _host(self, name: str, added: Sequence[Added]) -> Query:
        """The host of a name, running; made if there is none."""
        if not self.hosts.is_there(name):
            streams = sorted({stream for member in added for stream in member.plan.operator.inputs})
            try:
                info = self.hosts.make_list(name, streams)
            except CatalogError:
                if self._catalog.has_stream(list_name(name)):  # another process was faster
                    return self._host(name, added)
                raise
            query = self._make(info, plan_of_host(info))
            try:
                self._start_new(query, info, plan_of_host(info))
            except BaseException:
                self._catalog.drop_stream(list_name(name))
                raise
            self._catalog.hosted.note_host(name)
            return query
        query = self.get(name)
        self.hosts.check(name, query.inputs, added)
        if not query.runs_here and query.status in ("stopped", "failed", "lost"):
            query.start()
        return query

    def host_for(self, name: str, added: Sequence[Added]) -> None:
        """See to it that there is a host of a name for some queries, and that it runs."""
        with self._mutex:
            self._host(name, added)

    def check_host(self, name: str, added: Sequence[Added]) -> None:
        """An error if a host of a name, where there is one, cannot run some queries."""
        if self.hosts.is_there(name):
            self.hosts.check(name, self.get(name).inputs, added)

    def wake(self) -> None:
        """Have what goes on by itself be looked at."""
        self._around.moved()

    def forget_left(self, found: Hosted) -> None:
        """A member has arrived elsewhere: its host knows it no longer, and goes with the last one."""
        try:
            left = self.hosts.drop(found.host, found.entry.number)
        except StreamError:
            if self._catalog.hosted.is_host(found.host):
                raise
            return  # another process was faster
        if not left:
            with self._mutex, contextlib.suppress(CatalogError):
                self._remove_host(found.host)

    def remove(self, name: str) -> None:
        """End one and remove all it has."""
        query = self.get(name)
        if isinstance(query, HostedQuery):
            query.drop()
            self.forget_left(query._found)
            self.moves.forget(name)
            self._catalog.forget_member(name)
            with self._mutex:
                self._queries.pop(name.lower(), None)
            return
        self.moves.forget(name)
        if self._catalog.hosted.is_host(name):
            self.hosts.refuse_if_used(name)
            self._remove_host(name)
            return
        query.drop()
        with self._mutex:
            if self._queries.get(name.lower()) is query:
                del self._queries[name.lower()]

    def _remove_host(self, name: str) -> None:
        query = self.get(name)
        self._catalog.hosted.forget_host(name)
        query.drop()
        self._queries.pop(name.lower(), None)
        self._catalog.drop_stream(list_name(name))

    # -- life --------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Go on with those that were running when the database was last closed or killed."""
        quietly(self.moves.go_on)
        for info in self._catalog.queries_alone():
            if info.running:
                # Another process runs it, or it has failed and says why: the rest opens.
                with contextlib.suppress(AnabranchError):
                    self.get(info.name).start_soon()

    def look_after(self) -> None:
        """What is to be done now and then for those that run here."""
        for query in self.known():
            quietly(query._look_after)

    def take_over(self) -> None:
        """Run those whose process has ended. Whoever takes the lock first has them.

        Only those that were lost at the last look, too: others are being stopped, made or started at this moment.
        """
        began = time.monotonic()
        if began < self._look_again:
            return
        # Whoever looks must not wait until a query has ended that moves: time goes on for others.
        threading.Thread(target=self.keep_places, name="anabranch-places", daemon=True).start()
        lost = {info.name for info in self._catalog.queries_alone() if info.running and self._is_lost(info.name)}
        for name in lost & self._lost:
            with self._mutex:
                if self._closed:
                    return
                quietly(self.get(name).start_soon)
        self._lost = lost
        now = time.monotonic()
        self._look_again = now + max(_LOOK_SECONDS, 20 * (now - began))

    def keep_places(self) -> None:
        """Have queries go on with their moves, and those that are too heavy for their host leave it."""
        if self._keeps_places.acquire(blocking=False):
            try:
                here = [query for query in self.known() if query.runs_here]
                quietly(lambda: self._balance.look(here))
                if not self._closed:
                    quietly(self.moves.go_on)
            finally:
                self._keeps_places.release()

    def _is_lost(self, name: str) -> bool:
        with contextlib.suppress(CatalogError):  # it may have been dropped
            return self.get(name).status == "lost"
        return False

    def close(self) -> None:
        """End all that run here; what should run goes on elsewhere, or at the next start."""
        with self._mutex:
            self._closed = True
        all_at_once([query.halt for query in self.known() if not isinstance(query, HostedQuery)])
