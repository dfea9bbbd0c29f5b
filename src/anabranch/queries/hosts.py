"""Hosts: which standing queries are run together, and how members come and go.

Members may be selections, windows and joins whose streams the host reads. What must stand alone: a query with a rest
in Spark SQL (its rows pass through a plan of Spark's own), one whose scratch is state (a merge), and one that
reads history or gives a reducer (how much of it is read is decided for each micro-batch by one query).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from anabranch.catalog import Catalog, QueryInfo
from anabranch.catalog.hosted import MEMBERS, list_name
from anabranch.catalog.planning import plan_query
from anabranch.catalog.readers import reads
from anabranch.clock import Clock
from anabranch.errors import AnabranchError, CatalogError, QueryError, StreamError
from anabranch.expressions.atoms import atoms_of
from anabranch.log.lock import BEING_WRITTEN
from anabranch.log.slices import SCHEMA as ANSWERS
from anabranch.log.stream import StreamInfo
from anabranch.log.writer import StreamWriter
from anabranch.operators.together.changes import ADDED, DROPPED, FAILED, RUNNING, STARTED, STOPPED
from anabranch.operators.together.roster import SCHEMA, Entry
from anabranch.operators.together.together import Together
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

    def __init__(self, catalog: Catalog, settings: Settings, clock: Clock) -> None:
        self.catalog = catalog
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
        paced = settings["reevaluate_every"] > 1 or settings["reevaluate_at_most"] > 0
        if not most or paced or _why_alone(plan) is not None or self.catalog.count_alone() < most:
            return None
        hosts = hosted.hosts()
        for host in hosts:
            if self.catalog.has_query(host) and set(plan.operator.inputs) <= set(_streams(self.catalog.query(host))):
                return host
        numbered = ("host", *(f"host_{number}" for number in range(2, len(hosts) + 10_000)))
        return next(name for name in numbered if not self.catalog.has_stream(name))

    def planned(self, name: str, select: Select, names: set[str]) -> Added:
        """A member to be, or an error if it cannot be one."""
        return self.member(name, select, plan_query(select, self.catalog), names)

    def member(self, name: str, select: Select, plan: StandingPlan, names: set[str]) -> Added:
        """The same for one that was planned; `names` are those of others that are to be."""
        if name.lower() in names or self.catalog.has_stream(name):
            raise CatalogError("NAME_EXISTS", f'"{name}" exists already', hint="choose another name, or DROP it first")
        why = _why_alone(plan)
        if why is not None:
            raise QueryError(
                "MUST_STAND_ALONE", f"the query cannot be a member of a host: {why}", hint="leave out host"
            )
        names.add(name.lower())
        read = reads(plan.operator.inputs, history=False)
        return Added(QueryInfo(name, select.source, reads=read), plan)

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

    def add(self, host: str, added: Sequence[Added]) -> None:
        """Have queries be members, from the next micro-batch on."""
        since = self.catalog.open_stream(host).end().row
        rows = [(ADDED, None, member.info.name, self._body(member, since)) for member in added]
        self.catalog.add_members([member.info for member in added], lambda: self._write(host, rows))

    def _body(self, member: Added, since: int) -> str:
        operator = member.plan.operator
        body: dict[str, Any] = {"query": member.info.to_json(), "plan": member.plan.to_json(), "since": since}
        condition, stream = operator.condition()
        atoms = atoms_of(condition, self.catalog.schema(stream).arrow) if condition is not None else {}
        return json.dumps({**body, "atoms": list(atoms.items())})

    def drop(self, host: str, number: int) -> int:
        """End a member; gives how many are left."""
        roster = self.catalog.hosted.roster(host)
        self._write(host, [(DROPPED, number, roster.entries[number].name, "")])
        return len(self.catalog.hosted.roster(host).by_name)

    def stop(self, host: str, entry: Entry) -> None:
        """Have a member stay where it is."""
        self._write(host, [(STOPPED, entry.number, entry.name, "")])

    def start(self, host: str, entry: Entry) -> None:
        """Have a member that was stopped go on from there."""
        self._write(host, [(STARTED, entry.number, entry.name, "")])

    def fail(self, host: str, failures: dict[int, str]) -> None:
        """Members cannot go on, and say why; the host goes on without them."""
        entries = self.catalog.hosted.roster(host).entries
        rows = [
            (FAILED, number, entries[number].name, why)
            for number, why in failures.items()
            if number in entries and entries[number].state in RUNNING
        ]
        if rows:
            self._write(host, rows)

    def refuse_if_used(self, host: str) -> None:
        members = len(self.catalog.hosted.roster(host).by_name)
        if members:
            raise CatalogError(
                "HOST_IS_USED",
                f'host "{host}" runs {members} {"query" if members == 1 else "queries"}',
                hint="DROP QUERY them first",
            )

    def _write(self, host: str, rows: Sequence[tuple[str, int | None, str, str]]) -> None:
        """Rows of the list, for a moment by this process: any may make and drop members."""
        changes, members, names, bodies = zip(*rows, strict=True)
        times = pa.array([0] * len(rows)).cast(SCHEMA.arrow.field(0).type)
        table = pa.table([times, changes, pa.array(members, pa.int64()), names, bodies], schema=SCHEMA.arrow)
        with self._writer(host) as writer:
            writer.append(table)

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


def _why_alone(plan: StandingPlan) -> str | None:
    operator = plan.operator
    if plan.residual_sql is not None:
        return "Spark SQL computes the rest of it"
    if operator.scratch_is_state:
        return "what it keeps cannot be computed again"
    if operator.reads_history or operator.reduction() is not None:
        return "it reads history"
    return None
