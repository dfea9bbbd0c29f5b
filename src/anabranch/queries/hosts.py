"""Hosts: which standing queries are run together, and how members come and go.

Members may be any queries whose streams the host reads, also with a rest in Spark SQL. What must stand alone,
`membership` says.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from anabranch.catalog import Catalog, QueryInfo
from anabranch.catalog.hosted import MEMBERS, list_name
from anabranch.catalog.planning import plan_query
from anabranch.catalog.readers import reads
from anabranch.clock import Clock
from anabranch.engine.protocol import Engine
from anabranch.errors import AnabranchError, CatalogError, QueryError, StreamError
from anabranch.log import retention
from anabranch.log.lock import BEING_WRITTEN
from anabranch.log.slices import SCHEMA as ANSWERS
from anabranch.log.stream import StreamInfo
from anabranch.log.writer import StreamWriter
from anabranch.operators.base import Inputs
from anabranch.operators.offset import Offset
from anabranch.operators.pace import ALL, Pace
from anabranch.operators.together.body import said_of
from anabranch.operators.together.changes import ADDED, DROPPED, LEAVING, PACED, RUNNING, STARTED, STOPPED
from anabranch.operators.together.roster import SCHEMA, Entry, Roster
from anabranch.operators.together.together import Together
from anabranch.queries.membership import MOST_RESTS, completed, refuse_alone, rests_of, why_alone
from anabranch.settings import Settings
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select

HOST = "host"
"""The kind of a standing query that runs members."""
_TEXT = "HOST OF "
_PATIENCE_SECONDS = 30.0
_MAKING_SECONDS = 20.0
"""A host is there by then, if it is made by anyone: Spark may have to be started for it."""


class Added(NamedTuple):
    """A query that is to be a member."""

    info: QueryInfo
    plan: StandingPlan
    retain_us: int | None = None
    """How long its answers are kept; None: for good."""


class Said(NamedTuple):
    """A row of a list of members."""

    change: str
    member: int | None
    name: str
    body: str = ""


class Problem(NamedTuple):
    """Why a query cannot be made: its place among those that were given, its name, and the error."""

    place: int
    name: str
    error: AnabranchError


def refused(problems: Sequence[Problem], asked: int) -> CatalogError:
    """The error where some of many queries are wrong, with all of them."""
    lines = [f"{each.place + 1}. {each.name}: {each.error}" for each in problems]
    return CatalogError(
        "QUERIES_REFUSED",
        f"{len(problems)} of {asked} queries are wrong, none was made",
        detail="\n".join(lines),
        hint="mend them, or give problems=[] to have the others made",
    )


def plan_of_host(info: QueryInfo) -> StandingPlan:
    """How a host runs: its text says which streams it reads."""
    return StandingPlan(Together(list_name(info.name), _streams(info)), None, ANSWERS, ANSWERS.time)


def _streams(info: QueryInfo) -> tuple[str, ...]:
    """The streams that a host reads."""
    return tuple(json.loads(info.sql.removeprefix(_TEXT)))


class Hosts:
    """Makes lists of members, and writes them."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        clock: Clock,
        engine: Callable[[], Engine],
        wants_archive: Callable[[str], None],
    ) -> None:
        self.catalog = catalog
        self._wants_archive = wants_archive
        self._engine = engine
        self._settings = settings
        self._clock = clock

    def is_there(self, name: str) -> bool:
        """Whether there is a host of a name; one that another process makes at this moment is waited for."""
        hosted = self.catalog.hosted
        deadline = time.monotonic() + _MAKING_SECONDS
        while not hosted.is_host(name):
            if not self.catalog.has_stream(list_name(name)):
                return False
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return True
        # A process died while it made it: before there was a query, or before that was known as a host.
        if self.catalog.has_query(name) and self.catalog.query(name).kind == HOST:
            hosted.note_host(name)
            return True
        self.catalog.drop_stream(list_name(name))
        return False

    def make_list(self, name: str, streams: Sequence[str]) -> QueryInfo:
        """A host's list of members, and what is to be known of the host."""
        self.catalog.create_stream(StreamInfo(list_name(name), SCHEMA, origin=MEMBERS, owner=name))
        return QueryInfo(name, _TEXT + json.dumps(list(streams)), kind=HOST, reads=reads(streams, history=False))

    def chosen(self, plan: StandingPlan) -> str | None:
        """The host of a query for which nobody has named one; None: it stands alone.

        The rule: as many as the setting says stand alone, each with a process of its own. Those made after them are
        members, if they can be, of the first host that reads their streams, or of a new one.
        """
        settings, hosted = self._settings, self.catalog.hosted
        most = settings["alone_queries"]
        if not most or why_alone(plan) is not None or self.catalog.count_alone() < most:
            return None
        hosts = hosted.hosts()
        for host in hosts:
            reads = self.catalog.has_query(host) and _streams(self.catalog.query(host))
            if reads and set(plan.operator.inputs) <= set(reads) and self._has_room(host, [plan]):
                return host
        numbered = ("host", *(f"host_{number}" for number in range(2, len(hosts) + 10_000)))
        return next(name for name in numbered if not self.catalog.has_stream(name))

    def planned(self, name: str, select: Select, names: set[str], retain_us: int | None = None) -> Added:
        """A member to be, or an error if it cannot be one."""
        return self.member(name, select, plan_query(select, self.catalog), names, retain_us)

    def member(
        self, name: str, select: Select, plan: StandingPlan, names: set[str], retain_us: int | None = None
    ) -> Added:
        """The same for one that was planned; `names` are those of others that are to be."""
        if name.lower() in names or self.catalog.has_stream(name):
            raise CatalogError("NAME_EXISTS", f'"{name}" exists already', hint="choose another name, or DROP it first")
        refuse_alone(plan)
        for stream in plan.operator.archives_wanted():
            self._wants_archive(stream)
        plan = completed(plan, self.catalog, self._settings, self._engine)
        names.add(name.lower())
        read = reads(plan.operator.inputs, history=plan.operator.reads_history)
        return Added(QueryInfo(name, select.source, reads=read), plan, retain_us)

    def _has_room(self, host: str, plans: Sequence[StandingPlan]) -> bool:
        """Whether a host can take queries with their rests in Spark SQL."""
        new = rests_of(plan.residual_sql for plan in plans)
        if not new:
            return True
        entries = self.catalog.hosted.roster(host).by_name.values()
        return len(new | rests_of(entry.residual_sql for entry in entries)) <= MOST_RESTS

    def check(self, host: str, streams: Sequence[str], added: Sequence[Added]) -> None:
        """An error if a query reads what its host does not."""
        for member in added:
            other = [stream for stream in member.plan.operator.inputs if stream not in streams]
            if other:
                raise QueryError(
                    "HOST_READS_OTHERS",
                    f'query "{member.info.name}" reads "{other[0]}", host "{host}" does not',
                    hint="name another host: one is made for the streams of its first queries",
                )
        if not self._has_room(host, [member.plan for member in added]):
            raise QueryError(
                "HOST_IS_FULL",
                f'host "{host}" would have more than {MOST_RESTS} different rests in Spark SQL',
                hint="name another host",
            )

    def add(self, host: str, added: Sequence[Added]) -> None:
        """Have queries be members, from the next micro-batch on."""
        since = self.catalog.open_stream(host).end().row
        pace = Pace(self._settings["reevaluate_every"], self._settings["reevaluate_at_most"])
        rows = [Said(ADDED, None, each.info.name, self._new_body(host, each, since, pace)) for each in added]

        def add() -> None:
            self.say(host, lambda roster: rows)

        self.catalog.add_members([member.info for member in added], add)

    def add_moved(self, host: str, moved: Added, at: Mapping[str, Offset], first: int, pace: Pace) -> None:
        """Have a query be a member that has come to `at` elsewhere, with so many answers."""
        since = self.catalog.open_stream(host).end().row
        place = {name: list(offset.place) for name, offset in at.items()}
        answers = self.catalog.stream(moved.info.name).id
        body = self._body(moved, since, pace, at=place, first=first, answers=answers)

        def rows(roster: Roster) -> list[Said]:
            added = Said(ADDED, None, moved.info.name, body)
            return [added] if moved.info.running else [added, Said(STOPPED, roster.version, moved.info.name)]

        def append() -> None:
            self.say(host, rows)

        self.catalog.add_moved(host, moved.info, append)

    def leave(self, host: str, entry: Entry, to: str | None, *, by_itself: bool = False) -> None:
        """Have a member stay where it is, to go on in another host or alone; `by_itself`: it will come back."""
        where = json.dumps({"to": to, "running": entry.state in RUNNING, "came_from": host if by_itself else None})
        self.say(host, lambda roster: [_said(entry, LEAVING, where)])

    def _new_body(self, host: str, member: Added, since: int, pace: Pace) -> str:
        """The body of one that is made: where it begins is written down, if it must not be elsewhere."""
        operator = member.plan.operator
        if not (operator.scratch_is_state or operator.reads_history):
            return self._body(member, since, pace)
        readers = {name: self.catalog.open_stream(name, history=operator.reads_history) for name in operator.inputs}
        for reader in readers.values():
            reader.refresh()
        begins = operator.beginning(Inputs(readers))
        for name, offset in begins.items():
            retention.hold_from(self.catalog.stream_storage(name), host, offset.row)
        if operator.reads_history:
            return self._body(member, since, pace, at={name: list(offset.place) for name, offset in begins.items()})
        return self._body(member, since, pace, {name: offset.row for name, offset in begins.items()})

    def _body(self, member: Added, since: int, pace: Pace, begins: Mapping[str, int] | None = None, **more: Any) -> str:
        body: dict[str, Any] = {"query": member.info.to_json(), "plan": member.plan.to_json(), "since": since, **more}
        if pace != ALL:
            body["pace"] = [pace.every, pace.at_most]
        if member.retain_us is not None:
            body["retain_us"] = member.retain_us
        said = said_of(member.plan.operator, lambda stream: self.catalog.schema(stream).arrow, begins)
        return json.dumps({**body, **said})

    def drop(self, host: str, number: int) -> int:
        """End a member; gives how many are left."""
        self.say(host, lambda roster: [_said(roster.entries[number], DROPPED)])
        return len(self.catalog.hosted.roster(host).by_name)

    def stop(self, host: str, entry: Entry) -> None:
        """Have a member stay where it is."""
        self.say(host, lambda roster: [_said(entry, STOPPED)])

    def start(self, host: str, entry: Entry) -> None:
        """Have a member that was stopped, or has failed, go on from there."""
        self.say(host, lambda roster: [_said(entry, STARTED)])

    def pace(self, host: str, entry: Entry, pace: Pace) -> None:
        """Have a member answer some of its windows only."""
        self.say(host, lambda roster: [_said(entry, PACED, json.dumps([pace.every, pace.at_most]))])

    def refuse_if_used(self, host: str) -> None:
        members = len(self.catalog.hosted.roster(host).by_name)
        if members:
            raise CatalogError(
                "HOST_IS_USED",
                f'host "{host}" runs {members} {"query" if members == 1 else "queries"}',
                hint="DROP QUERY them first",
            )

    def say(self, host: str, rows: Callable[[Roster], Sequence[Said]]) -> Sequence[Said]:
        """Rows of the list, for a moment by this process: any may make and drop members.

        They are made when nobody else can write, of what is known of the members then.
        """
        with self._writer(host) as writer:
            said = rows(self.catalog.hosted.roster(host))
            if said:
                changes, members, names, bodies = zip(*said, strict=True)
                times = pa.array([0] * len(said)).cast(SCHEMA.arrow.field(0).type)
                writer.append(
                    pa.table([times, changes, pa.array(members, pa.int64()), names, bodies], schema=SCHEMA.arrow)
                )
            return said

    @contextlib.contextmanager
    def _writer(self, host: str) -> Iterator[StreamWriter]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                writer = StreamWriter(self.catalog.stream_storage(list_name(host)), self._settings, self._clock)
                break
            except StreamError as problem:
                if problem.name != BEING_WRITTEN or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        try:
            yield writer
        finally:
            writer.close()


def _said(entry: Entry, change: str, body: str = "") -> Said:
    return Said(change, entry.number, entry.name, body)
