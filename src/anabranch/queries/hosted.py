"""A standing query that is one of many in a host, as people hold it in their hands."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from anabranch.catalog.hosted import Hosted, list_name
from anabranch.errors import AnabranchError, QueryError, StreamError
from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.operators.base import Inputs
from anabranch.operators.offset import Cohort, Offset
from anabranch.operators.pace import ALL, Pace
from anabranch.operators.together.changes import (
    DROPPED,
    FAILED,
    HELD,
    LEAVING,
    RELEASED,
    RUNNING,
    STAYING,
    STOPPED,
)
from anabranch.operators.together.costs import Costs
from anabranch.operators.together.families import family_of, state_of
from anabranch.operators.together.selective import newest, share
from anabranch.queries.costs import costs_of
from anabranch.queries.hosts import Hosts
from anabranch.queries.member import Ends, Member
from anabranch.queries.member_numbers import MemberNumbers
from anabranch.queries.query import Query, goes_along, moment
from anabranch.settings import Settings
from anabranch.sql.explain import as_json, as_text
from anabranch.sql.standing.standing_plan import StandingPlan

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader
    from anabranch.expressions.atoms import Atom

_EVENTS = {
    FAILED: ("member_failed", "it cannot go on"),
    HELD: ("member_held_back", "it is held back"),
    RELEASED: ("member_released", "it goes on with the others again"),
}
_FRESH_SECONDS = 0.2
"""A look at a host that is younger counts for all its members: ten thousand are looked at one after the other."""

_MOST_TOLD = 1024


class HostSeen(NamedTuple):
    """How a host was doing when it was last looked at."""

    stats: dict[str, Any]
    costs: Costs
    """What its members cost it."""
    done: dict[str, Offset]
    """How far it is in its streams, and how far those have come:"""
    ends: dict[str, End]


class HostCounts:
    """How a host is doing, looked at once for all its members."""

    def __init__(self, host: Query) -> None:
        self._host = host
        self._log: Reader | None = None
        self._numbers: MemberNumbers | None = None
        self._seen: tuple[float, HostSeen] | None = None
        self._looked = 0.0
        self._told: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._mutex = threading.Lock()

    def seen(self) -> HostSeen:
        with self._mutex:
            if self._seen is None or time.monotonic() - self._seen[0] > _FRESH_SECONDS:
                host = self._host
                ends = host._member.known_ends() if host.inputs else {}
                seen = HostSeen(host.stats(), costs_of(host), host._counted().done(), ends)
                self._seen = (time.monotonic(), seen)
            return self._seen[1]

    def told(self, of: tuple[Any, ...], tell: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What follows from what some members have in common, told once for as long as they are where they are."""
        if of not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told[of] = tell()
        return self._told[of]

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

    def __init__(
        self,
        found: Hosted,
        host: Query,
        counts: HostCounts,
        hosts: Hosts,
        settings: Settings,
        upstream: Callable[[str], Query | None],
    ) -> None:
        info = found.info
        self.name = info.name
        self.id = info.id
        self.sql = info.sql
        self._found = found
        self._run_by = host
        self._counts = counts
        self._hosts = hosts
        self._catalog = hosts.catalog
        self._dropped = False
        self._settings = settings
        self._upstream = upstream
        self._moved = None

    def _is_handle_of(self, found: Hosted) -> bool:
        """Whether it is one of a certain member, as this process knows it."""
        known, here = self._found.entry, found.entry
        return (self.id, self._found.host, known.number) == (here.data["query"]["id"], found.host, here.number)

    @functools.cached_property
    def _member(self) -> Member:  # type: ignore[override]
        plan = StandingPlan.from_json(self._found.entry.data["plan"])
        return Member(self._found.info, plan, self._catalog, self._settings)

    @property
    def host(self) -> str | None:
        now = self._now()
        return self._found.host if now is self else now.host

    def _has_left(self) -> bool:
        return self._state() in (LEAVING, DROPPED)

    # -- life ----------------------------------------------------------------------------------------

    @property
    @goes_along
    def status(self) -> str:
        """As that of its host; `starting` until it has come up to the others.

        `failed` if it alone cannot go on, `stopped` if it alone stays where it is.
        """
        if self.failure is not None:
            return "failed"
        if self._state() in STAYING:
            return "stopped"
        here = self._run_by.status
        return "starting" if here == "running" and self._position() is None else here

    @property
    def runs_here(self) -> bool:
        return False  # its host does

    @property
    @goes_along
    def failure(self) -> AnabranchError | None:
        if self._state() == FAILED:
            return QueryError(
                "MEMBER_FAILED",
                f'query "{self.name}" cannot go on: {self._found.entry.turns[-1].noted()["why"]}',
                hint="START QUERY has it try again from there; the others of its host go on",
            )
        return self._run_by.failure

    def _state(self) -> str:
        """What was last said of it."""
        with contextlib.suppress(AnabranchError, OSError):
            self._catalog.hosted.roster(self._found.host)  # takes in what was
        return self._found.entry.state

    def _set_pace(self, pace: Pace) -> None:
        self._hosts.pace(self._found.host, self._found.entry, pace)

    @goes_along
    def stop(self) -> None:
        """Stay where it is from the next micro-batch on, while the others go on; `start` goes on from there."""
        if self._state() in RUNNING:
            self._hosts.stop(self._found.host, self._found.entry)

    @goes_along
    def start(self, *, available_now: bool = False) -> None:
        """Go on, with its host; one that was stopped comes up to the others first."""
        self.start_soon(available_now=available_now)
        self._run_by.start(available_now=available_now)

    @goes_along
    def start_soon(self, *, available_now: bool = False) -> None:
        if self._state() in (STOPPED, FAILED):
            self._hosts.start(self._found.host, self._found.entry)
        if not self._run_by.runs_here and self._run_by.status != "elsewhere":
            self._run_by.start_soon(available_now=available_now)

    def halt(self) -> None:
        """Its host ends, or goes on without it."""

    def _look_after(self) -> None:
        """Its host does."""

    def drop(self) -> None:
        self._dropped = True

    # -- time ----------------------------------------------------------------------------------------

    def due(self) -> dict[str, int]:
        return {}

    def wanted_of_inputs(self, time: int) -> int | None:
        return self._member.wanted_of_inputs(time, self._position() or {})

    @goes_along
    def waits_for(self) -> dict[str, Any] | None:
        return self._run_by.waits_for()

    # -- answers -------------------------------------------------------------------------------------

    @goes_along
    def _done(self) -> dict[str, Offset]:
        return self._position() or {}

    def _position(self) -> dict[str, Offset] | None:
        """How far it is; None while it has not come up to the others."""
        place, cohort = self._place(self._run_by._done())
        return place if cohort is None or cohort.stopped or cohort.rows else None

    def _place(self, done: dict[str, Offset]) -> tuple[dict[str, Offset] | None, Cohort | None]:
        """How far it is, if its host has taken it in, and with whom if it does not go with the others."""
        listed = done.get(list_name(self._found.host))
        if listed is None or listed.row <= self._found.entry.number:
            return None, None
        row = self._found.entry.place(listed.row)
        cohort = next((cohort for cohort in listed.catching if cohort.low <= row < cohort.high), None)
        every = self._found.entry.pace(listed.row).at(listed.every)
        at = {name: done[name].place if cohort is None else cohort.at[name] for name in self.inputs}
        return {name: Offset(row, time, every) for name, (row, time) in at.items()}, cohort

    @goes_along
    def wait(self, timeout: float | None = None, until: Ends | None = None) -> Query:
        deadline = None if timeout is None else time.monotonic() + timeout
        target = self._member.ends() if until is None else until
        while (done := self._position()) is None or not self._member.has_reached(target, done):
            if self.failure is not None:
                raise self.failure
            if self._now() is not self:
                return self._now().wait(None if deadline is None else max(deadline - time.monotonic(), 0.001), until)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise self._is_behind(target, timeout or 0)
            if self.status == "stopped":
                raise QueryError("QUERY_IS_STOPPED", f'query "{self.name}" is not running', hint="start it first")
            self._run_by._member.progress.wait_for(0.05)
        if until is None:
            self._run_by.wait(None if deadline is None else max(deadline - time.monotonic(), 0.001))
        if self.failure is not None:
            raise self.failure
        return self

    @goes_along
    def explain(self, format: str = "text") -> str:
        """The plan, and what of it is done together with the others of its host."""
        plan = self._member.plan.explain(Inputs(dict(self._member.readers())))
        plan["steps"][-1] |= {"host": self._found.host, **self._together()}
        for step in plan["steps"][:-1]:
            step["is"] = "computed together with the rests of others"
        return as_json(plan) if format == "json" else as_text(plan)

    def _together(self) -> dict[str, Any]:
        entry = self._found.entry
        if entry.is_selection:
            told = {
                "rows": "read once for all",
                **self._looked_up_by({atom: sql for atom, sql in entry.atoms.items() if not atom.computed}),
                "computed once for all that say the same": [sql for atom, sql in entry.atoms.items() if atom.computed],
            }
            return {key: value for key, value in told.items() if value}
        roster = self._catalog.hosted.roster(self._found.host)
        version, others = roster.version, roster.by_name.values()
        family = family_of(entry, (other for other in others if other.pace(version) == entry.pace(version)))
        return {entry.operator.named_in_a_host: "by itself" if family is None else family.told}

    def _looked_up_by(self, parts: dict[Atom, str]) -> dict[str, Any]:
        """Parts of its condition, the one first that leaves the fewest of the newest rows, if there is a choice."""
        (reader,) = self._member.readers().values()
        if len(parts) < 2 or reader.end().row <= reader.first_logged_row():
            return {"looked up by": list(parts.values())}
        rows = newest(reader, parts)
        left = {atom: share(atom, rows) for atom in parts}
        ranked = sorted(parts, key=lambda atom: left[atom])
        leaves = ", ".join(f"{left[atom]:.2%}" for atom in ranked)
        return {
            "looked up by": [parts[atom] for atom in ranked],
            "which of them": f"the one that leaves the fewest rows: {leaves} of the newest {rows.num_rows:,}; "
            "measured again where it runs, on the rows it takes in, and by bits of all where none leaves few",
        }

    @goes_along
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

    @goes_along
    def stats(self) -> dict[str, Any]:
        """What it has answered; what it takes in is read once for all members of its host."""
        seen = self._counts.seen()
        host, cost = seen.stats, seen.costs.of(self._found.entry.number)
        rows = self._counts.answers_of(self._found.entry.number)
        operator = self._member.operator
        keeps = operator.keeps()
        nothing = {"rows": 0, "bytes": 0}
        return {
            "name": self.name,
            "status": self.status,
            "host": self._found.host,
            "rows_in": host["rows_in"],
            "bytes_in": host["bytes_in"],
            "batches": host["batches"],
            "rows_per_second": host["rows_per_second"],
            "last_batch_ms": host["last_batch_ms"],
            "behind_rows": self._behind_rows(seen),
            "share": round(cost.share, 4),
            "ms": round(cost.ms, 3),
            "answers_per_batch": round(cost.rows, 3),
            "held_back": self._held_back(),
            "reevaluate": self._reevaluated(seen.done),
            "waits_for": host["waits_for"],
            "stream": {"rows": rows, "bytes": None, "why": "answers that stay true"},
            "store": {**nothing, "why": operator.why_store},
            "scratch": {**nothing, "why": keeps.what if keeps else "nothing is kept"},
            "throw": {"rows": None, "bytes": None, "why": operator.why_throw},
            **self._told(seen.done),
        }

    def _told(self, done: dict[str, Offset]) -> dict[str, Any]:
        """What follows from what it keeps."""
        place, _ = self._place(done)
        kept = state_of(self._found.entry)
        if place is None or kept is None:
            return {}
        operator = self._member.operator

        def told() -> dict[str, Any]:
            scratch = Storage(self._run_by._member.scratch).child(*kept.split("/")).address
            return operator.told(place, Inputs(self._member.readers(), scratch))

        return self._counts.told((kept, str(place), operator.aliases()), told)

    def _behind_rows(self, seen: HostSeen) -> int:
        place, _ = self._place(seen.done)
        ends = {name: end for name, end in seen.ends.items() if name in self.inputs}
        return self._member.behind(ends, place or {})

    def _held_back(self) -> dict[str, Any] | None:
        """Since when, and why it goes on by itself, and how many rows it takes in at once; None: it does not."""
        if self._state() != HELD:
            return None
        noted = self._found.entry.turns[-1].noted()
        return {"since": moment(noted["since"]), "why": noted["why"], "rows_at_once": noted["rows"]}

    def _reevaluated(self, done: dict[str, Offset]) -> dict[str, int] | None:
        """Every how many-th window it answers, at most while its host is behind, and now; None: it answers all."""
        listed = done.get(list_name(self._found.host), Offset())
        pace = self._found.entry.pace(listed.row)
        return None if pace == ALL else {**asdict(pace), "now": pace.at(listed.every)}

    @goes_along
    def events(self) -> list[dict[str, Any]]:
        """That it failed, was held back, or goes on with the others again: what its host has said of it."""
        self._state()
        told = []
        for turn in self._found.entry.turns:
            noted = turn.noted()
            if turn.change in _EVENTS and not noted.get("again"):
                event, text = _EVENTS[turn.change]
                told.append({"at": noted["since"] / 1e6, "event": event, "text": noted.get("why", text)})
        return told
