"""How far streams, tables and views are read so that all of them are of one moment.

A view is a micro-batch behind what it is made from, and two views are rarely at the same row of it. Where nothing is
going on they are; else the queries that keep them stop at a cut for as long as it takes all of them to get there
(`engine.cuts`). That they have is read off what each has written down: how far it has taken in its streams, and how
many rows it had answered then. So it is right whatever becomes of the cut.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from anabranch.engine.cuts import Cut
from anabranch.errors import AnabranchError, QueryError
from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.log.stream import changes_owner
from anabranch.queries.query import Query

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

SECONDS = 30.0
"""How long to wait for views that are behind."""
_RUNS = ("running", "elsewhere")
_STANDS_STILL = ("stopped", "failed", "lost")

Ends = dict[str, End]


class OneVersion:
    """Finds such ends. `near`: who has more rows than that to take in is waited for before others are stopped."""

    def __init__(
        self,
        cuts: Storage,
        query_of: Callable[[str], Query | None],
        reader_of: Callable[[str], Reader],
        near: Callable[[], int],
    ) -> None:
        self._cuts = cuts
        self._query_of = query_of
        self._reader_of = reader_of
        self._near = near

    def ends(self, streams: Iterable[str], pause: Callable[[], None], seconds: float = 0.0) -> Ends:
        """How far to read those of some streams that depend on the same ones; changes stand for tables and views.

        Names are in small letters. `pause` is called while queries get there, for so many seconds at most; 0: as long
        as is usual.
        """
        below = {name.lower(): self._below(name.lower()) for name in streams}
        together = [name for name in below if any(below[name] & below[other] for other in below if other != name)]
        if not together:
            return {}
        queries = self._queries(frozenset[str]().union(*(below[name] for name in together)))
        reading = _Reading(together, queries, self._reader_of)
        seconds = min(seconds or SECONDS, SECONDS)
        deadline = time.monotonic() + seconds
        with Cut(self._cuts, reading.queries) as cut:
            while True:
                there = reading.base_ends() if cut.ends is None else dict(cut.ends)
                placed = reading.placed_at(there)
                if placed is not None:
                    return placed
                reading.refuse_who_stands_still(there)
                if time.monotonic() > deadline:
                    raise reading.apart(f"they did not come to one place in {seconds:g} s", there)
                self._stop(cut, reading)
                pause()

    def _stop(self, cut: Cut, reading: _Reading) -> None:
        """Have the queries stop where the streams are now, once all are near; elsewhere, if some went past it."""
        if cut.ends is not None and not reading.is_past(cut.ends):
            cut.confirm()
            return
        now = reading.base_ends()
        if cut.ends is not None or reading.is_near(now, self._near()):
            cut.stand(now)

    def _below(self, stream: str) -> frozenset[str]:
        """All that a stream is made from, and itself."""
        found: set[str] = set()
        open_ones = [stream]
        while open_ones:
            name = open_ones.pop()
            if name not in found:
                found.add(name)
                query = self._stopping(name)
                if query is not None and not query.inputs:
                    raise _damaged(query)
                open_ones += () if query is None else _inputs(query)
        return frozenset(found)

    def _queries(self, streams: Iterable[str]) -> dict[str, Query]:
        return {name: query for name in streams if (query := self._stopping(name)) is not None}

    def _stopping(self, stream: str) -> Query | None:
        """The query that fills a stream and can be stopped; the answers of a host's members are as they come."""
        query = self._query_of(stream)
        return None if query is None or query.host is not None else query


class _Reading:
    """Streams that are to be read together, and the queries that they and those below them are filled by."""

    def __init__(self, asked: list[str], queries: dict[str, Query], reader_of: Callable[[str], Reader]) -> None:
        self.queries = queries
        self._asked = asked
        streams = dict.fromkeys([*asked, *(name for query in queries.values() for name in _inputs(query))])
        self._base = [name for name in streams if name not in queries]
        self._readers = {name: reader_of(name) for name in streams}

    def _end_of(self, stream: str) -> End:
        return self._readers[stream].end()

    def base_ends(self) -> Ends:
        """How far the streams have come that no query fills."""
        return {name: self._end_of(name) for name in self._base}

    def placed_at(self, there: Mapping[str, End]) -> Ends | None:
        """How far to read if all queries are at some ends of those streams, and at each other's; else None."""
        places = {name: _place(query) for name, query in self.queries.items()}
        ends = {**there, **{name: self._end_of(name) for name in self.queries}}
        for name, (done, answers) in places.items():
            if answers != ends[name].row and (done or ends[name] != End()):
                return None  # an answer is on its way
            if _lacks(self.queries[name], done, ends):
                return None
        return {name: ends[name] for name in self._asked}

    def is_past(self, ends: Mapping[str, End]) -> bool:
        """Whether a query has gone further than to some ends."""
        return any(
            end.row > ends[name].row or end.time > ends[name].time
            for query in self.queries.values()
            for name, end in _place(query)[0].items()
            if name in ends
        )

    def is_near(self, ends: Mapping[str, End], rows: int) -> bool:
        """Whether all queries run, and have not many rows to take in."""
        return all(query.status in _RUNS and self._behind(query, ends) <= rows for query in self.queries.values())

    def _behind(self, query: Query, ends: Mapping[str, End]) -> int:
        """How many rows a query has to take in."""
        done = _place(query)[0]
        return sum(max(end.row - done.get(name, End()).row, 0) for name, end in self._come(query, ends).items())

    def _come(self, query: Query, ends: Mapping[str, End]) -> Ends:
        """How far the streams of a query are to be taken in by now."""
        return {name: ends[name] if name in ends else self._end_of(name) for name in _inputs(query)}

    def refuse_who_stands_still(self, ends: Mapping[str, End]) -> None:
        for query in self.queries.values():
            status = query.status
            if status in _STANDS_STILL and _lacks(query, _place(query)[0], self._come(query, ends)):
                raise self.apart(f'"{_shown(query.name)}" is {status}', ends)

    def apart(self, why: str, ends: Mapping[str, End]) -> QueryError:
        """The error that names those that are elsewhere."""
        told = []
        for query in self.queries.values():
            rows = self._behind(query, ends)
            if rows or query.status in _STANDS_STILL:
                told.append(f'"{_shown(query.name)}" is {query.status}, {rows} rows behind{_reason(query)}')
        names = " and ".join(f'"{_shown(name)}"' for name in sorted(self._asked))
        return QueryError(
            "NOT_AT_ONE_VERSION",
            f"{names} cannot be read at one version: {why}",
            detail="; ".join(told) or None,
            hint="START QUERY <view>.changes what stands still and wait for what is behind, ask for one at a time, "
            "or say which version is read: FROM view FOR VERSION AS OF n",
        )


def _inputs(query: Query) -> list[str]:
    return [name.lower() for name in query.inputs]


def _place(query: Query) -> tuple[Ends, int | None]:
    """How far a query is in its streams, and how many answers it had there."""
    done, answers = query.place()
    return {name.lower(): offset.place for name, offset in done.items()}, answers


def _lacks(query: Query, done: Mapping[str, End], ends: Mapping[str, End]) -> bool:
    """Whether a query is elsewhere than at some ends of its streams; before its first micro-batch it is nowhere."""
    if not done and query.answers_over_nothing:
        return True
    return any(done.get(stream, End()) != ends[stream] for stream in _inputs(query))


def _shown(stream: str) -> str:
    """What people call it: a view, where it is the changes of one."""
    return changes_owner(stream) or stream


def _damaged(query: Query) -> QueryError:
    return QueryError(
        "NOT_AT_ONE_VERSION",
        f'"{_shown(query.name)}" cannot be read at one version with others: nobody knows what it is made from',
        detail=str(query.failure),
        hint="read it alone",
    )


def _reason(query: Query) -> str:
    failure: AnabranchError | None = None
    with contextlib.suppress(AnabranchError, OSError):
        failure = query.failure
    return "" if failure is None else f": {failure.message}"
