"""A standing query that is one of many in a host, as people hold it in their hands."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from anabranch.catalog.hosted import Hosted, list_name
from anabranch.errors import AnabranchError, QueryError, StreamError
from anabranch.operators.base import Inputs
from anabranch.operators.offset import Offset
from anabranch.operators.together.changes import FAILED, RUNNING, STOPPED
from anabranch.operators.together.families import family_of
from anabranch.queries.hosts import Hosts
from anabranch.queries.member import Member
from anabranch.queries.member_numbers import MemberNumbers
from anabranch.queries.query import Query
from anabranch.settings import Settings
from anabranch.sql.explain import as_json, as_text
from anabranch.sql.standing.standing_plan import StandingPlan

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

_FRESH_SECONDS = 0.2
"""A look at a host that is younger counts for all its members: ten thousand are looked at one after the other."""


class HostCounts:
    """How a host is doing, looked at once for all its members."""

    def __init__(self, host: Query) -> None:
        self._host = host
        self._log: Reader | None = None
        self._numbers: MemberNumbers | None = None
        self._stats: tuple[float, dict[str, Any]] | None = None
        self._looked = 0.0
        self._mutex = threading.Lock()

    def stats(self) -> dict[str, Any]:
        with self._mutex:
            if self._stats is None or time.monotonic() - self._stats[0] > _FRESH_SECONDS:
                self._stats = (time.monotonic(), self._host.stats())
            return self._stats[1]

    def answers_of(self, member: int) -> int:
        """How many answers a member has."""
        with self._mutex:
            if self._log is None or self._numbers is None:
                self._log = self._host._member.reader()
                self._numbers = MemberNumbers(self._host._member.storage, self._log, self._log.info.id)
            if time.monotonic() - self._looked > _FRESH_SECONDS:
                self._numbers.follow(self._log, self._log.end().row)
                self._looked = time.monotonic()
            return self._numbers.of(member)


class HostedQuery(Query):
    """A handle on a member of a host, which is a `Query` itself."""

    def __init__(self, found: Hosted, host: Query, counts: HostCounts, hosts: Hosts, settings: Settings) -> None:
        info = found.info
        self.name = info.name
        self.id = info.id
        self.sql = info.sql
        self.host: str = found.host
        self._found = found
        self._run_by = host
        self._counts = counts
        self._hosts = hosts
        self._catalog = hosts.catalog
        self._dropped = False
        self._settings = settings

    @functools.cached_property
    def _member(self) -> Member:  # type: ignore[override]
        plan = StandingPlan.from_json(self._found.entry.data["plan"])
        return Member(self._found.info, plan, self._catalog, self._settings)

    # -- life ----------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """As that of its host; `starting` until it has come up to the others.

        `failed` if it alone cannot go on, `stopped` if it alone stays where it is.
        """
        if self.failure is not None:
            return "failed"
        if self._state() == STOPPED:
            return "stopped"
        here = self._run_by.status
        return "starting" if here == "running" and self._position() is None else here

    @property
    def runs_here(self) -> bool:
        return False  # its host does

    @property
    def failure(self) -> AnabranchError | None:
        if self._state() == FAILED:
            return QueryError(
                "MEMBER_FAILED",
                f'query "{self.name}" cannot go on: {self._found.entry.why}',
                hint="DROP QUERY it and create it again; the others of its host go on",
            )
        return self._run_by.failure

    def _state(self) -> str:
        """What was last said of it."""
        with contextlib.suppress(AnabranchError, OSError):
            self._catalog.hosted.roster(self.host)  # takes in what was
        return self._found.entry.state

    def reevaluate(self, every: int = 1, at_most: int = 0) -> NoReturn:
        raise QueryError(
            "QUERY_IS_HOSTED",
            f'query "{self.name}" is a member of host "{self.host}", and answers as often as the others',
            hint="DROP QUERY it, and CREATE CONTINUOUS QUERY … ALONE AS …",
        )

    def stop(self) -> None:
        """Stay where it is from the next micro-batch on, while the others go on; `start` goes on from there."""
        if self._state() in RUNNING:
            self._hosts.stop(self.host, self._found.entry)

    def start(self, *, available_now: bool = False) -> None:
        """Go on, with its host; one that was stopped comes up to the others first."""
        self.start_soon(available_now=available_now)
        self._run_by.start(available_now=available_now)

    def start_soon(self, *, available_now: bool = False) -> None:
        if self._state() == FAILED and self.failure is not None:
            raise self.failure
        if self._state() == STOPPED:
            self._hosts.start(self.host, self._found.entry)
        if not self._run_by.runs_here and self._run_by.status != "elsewhere":
            self._run_by.start_soon(available_now=available_now)

    def halt(self) -> None:
        """Its host ends, or goes on without it."""

    def drop(self) -> None:
        self._dropped = True

    # -- time ----------------------------------------------------------------------------------------

    def due(self) -> dict[str, int]:
        return {}

    def wanted_of_inputs(self, time: int) -> int | None:
        return self._member.wanted_of_inputs(time, self._position() or {})

    def waits_for(self) -> dict[str, Any] | None:
        return self._run_by.waits_for()

    # -- answers -------------------------------------------------------------------------------------

    def _done(self) -> dict[str, Offset]:
        return self._position() or {}

    def _position(self) -> dict[str, Offset] | None:
        """How far it is; None while it has not come up to the others."""
        done = self._run_by._done()
        listed = done.get(list_name(self.host))
        if listed is None or listed.row <= self._found.entry.number:
            return None
        place = self._found.entry.place(listed.row)
        for cohort in listed.catching:
            if cohort.low <= place < cohort.high:
                return {name: Offset(*cohort.at[name]) for name in self.inputs} if cohort.stopped else None
        return {name: done[name] for name in self.inputs}

    def wait(self, timeout: float | None = None) -> Query:
        deadline = None if timeout is None else time.monotonic() + timeout
        target = self._member.ends()
        while (done := self._position()) is None or not self._member.has_reached(target, done):
            if self.failure is not None:
                raise self.failure
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise self._is_behind(target, timeout or 0)
            if self.status == "stopped":
                raise QueryError("QUERY_IS_STOPPED", f'query "{self.name}" is not running', hint="start it first")
            self._run_by._member.progress.wait_for(0.05)
        self._run_by.wait(None if deadline is None else max(deadline - time.monotonic(), 0.001))
        if self.failure is not None:
            raise self.failure
        return self

    def explain(self, format: str = "text") -> str:
        """The plan, and what of it is done together with the others of its host."""
        plan = self._member.plan.explain(Inputs(dict(self._member.readers())))
        plan["steps"][-1] |= {"host": self.host, **self._together()}
        return as_json(plan) if format == "json" else as_text(plan)

    def _together(self) -> dict[str, Any]:
        entry = self._found.entry
        if entry.is_selection:
            sorted_out: dict[str, list[str]] = {"looked up by": [], "computed once for all that say the same": []}
            looked_up, computed = sorted_out.values()
            for atom, sql in entry.atoms.items():
                (computed if atom.computed else looked_up).append(sql)
            return {"rows": "read once for all", **{key: value for key, value in sorted_out.items() if value}}
        family = family_of(entry, self._catalog.hosted.roster(self.host).by_name.values())
        if family is None:
            return {"windows": "by itself"}
        return {"windows": f"folded once, by {family[0]}, for {family[1]} queries that differ in it"}

    def stream(self, start: int = 0, *, follow: bool = False) -> Iterator[pa.RecordBatch]:
        try:
            for table in self._member.reader().tail(start, follow=follow):
                if follow and table.num_rows == 0:
                    if self.failure is not None:
                        raise self.failure
                    if self._dropped or self.status == "stopped":
                        return
                yield from (b for b in table.to_batches() if b.num_rows)
        except StreamError:
            if not self._dropped:
                raise

    def stats(self) -> dict[str, Any]:
        """What it has answered; what it takes in is read once for all members of its host."""
        host = self._counts.stats()
        rows = self._counts.answers_of(self._found.entry.number)
        operator = self._member.operator
        keeps = operator.keeps()
        nothing = {"rows": 0, "bytes": 0}
        return {
            "name": self.name,
            "status": self.status,
            "host": self.host,
            "rows_in": host["rows_in"],
            "bytes_in": host["bytes_in"],
            "batches": host["batches"],
            "rows_per_second": host["rows_per_second"],
            "last_batch_ms": host["last_batch_ms"],
            "behind_rows": host["behind_rows"],
            "waits_for": host["waits_for"],
            "stream": {"rows": rows, "bytes": None, "why": "answers that stay true"},
            "store": {**nothing, "why": operator.why_store},
            "scratch": {**nothing, "why": keeps.what if keeps else "nothing is kept"},
            "throw": {"rows": None, "bytes": None, "why": operator.why_throw},
        }

    def events(self) -> list[dict[str, Any]]:
        return []
