"""How far streams, tables and views are read so that all of them are of one moment.

A view is a micro-batch behind what it is made from, and two views are rarely at the same row of it. Mostly nothing is
going on, and they are; else the queries that keep them stop at a cut for as long as it takes all of them to get there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from anabranch.engine.cuts import Cut, Cuts
from anabranch.errors import QueryError
from anabranch.log.offset import End
from anabranch.operators.offset import Offset
from anabranch.operators.tree.checkpoints import rows_at

if TYPE_CHECKING:
    from anabranch.queries.query import Query

_SECONDS = 30.0
_STANDS_STILL = ("stopped", "failed", "lost")


class OneVersion:
    """Reads that are of one moment. `version_of` says after how many rows of its inputs an answer of a view was given."""

    def __init__(
        self,
        cuts: Cuts,
        query_of: Callable[[str], Query | None],
        end_of: Callable[[str], End],
        version_of: Callable[[str, int], int | None],
    ) -> None:
        self._cuts = cuts
        self._query_of = query_of
        self._end_of = end_of
        self._version_of = version_of

    def ends(self, streams: Iterable[str], pause: Callable[[], None], seconds: float = 0.0) -> dict[str, End]:
        """How far to read each stream; those of changes stand for their tables and views. 0: as long as is usual."""
        asked = list(streams)
        queries = self._queries_below(asked)
        if not queries:
            return {name: self._end_of(name) for name in asked}
        base = {name for query in queries.values() for name in query.inputs if name not in queries}
        base |= {name for name in asked if name not in queries}
        deadline = time.monotonic() + (seconds or _SECONDS)
        cut: Cut | None = None
        try:
            while True:
                ends = self._ends(asked, queries, base, cut)
                if ends is not None:
                    return ends
                cut = self._stopped(cut, queries, base)
                self._refuse_if_still(queries, cut)
                if time.monotonic() > deadline:
                    raise _apart(queries, f"they did not get to one place in {seconds or _SECONDS:g} s")
                pause()
        finally:
            if cut is not None:
                self._cuts.end(cut)

    def _queries_below(self, streams: Iterable[str]) -> dict[str, Query]:
        """The queries whose answers are read, also by each other, and that can be stopped."""
        found: dict[str, Query] = {}
        open_ones = list(streams)
        while open_ones:
            name = open_ones.pop()
            query = None if name in found else self._query_of(name)
            if query is not None and query.host is None:
                found[name] = query
                open_ones += query.inputs
        return found

    def _ends(
        self, asked: list[str], queries: Mapping[str, Query], base: set[str], cut: Cut | None
    ) -> dict[str, End] | None:
        """How far to read if all are in one place: at the cut, or where there is none, at what there is."""
        answers = {name: self._end_of(name) for name in queries}
        done = {name: query.done() for name, query in queries.items()}
        there = {name: self._end_of(name) for name in base} if cut is None else cut.ends
        if cut is not None and self._cuts.confirm(cut) is None:
            return None
        if not all(_is_at(position, {**there, **answers}) for position in done.values()):
            return None
        if {name: self._end_of(name) for name in queries} != answers:
            return None
        for name, position in done.items():
            version = self._version_of(name, answers[name].row)
            if version is not None and version > rows_at(position):
                return None  # it was on its way when it was stopped
        return {name: answers[name] if name in answers else there[name] for name in asked}

    def _stopped(self, cut: Cut | None, queries: Mapping[str, Query], base: set[str]) -> Cut | None:
        """The cut at which they stop; another one where some have gone past it. None: others have to stop elsewhere."""
        if cut is not None:
            if not any(_is_past(query.done(), cut.ends) for query in queries.values()):
                return self._cuts.confirm(cut)
            self._cuts.end(cut)
        if self._cuts.now() is not None:
            return None
        return self._cuts.make(frozenset(queries), {name: self._end_of(name) for name in base})

    def _refuse_if_still(self, queries: Mapping[str, Query], cut: Cut | None) -> None:
        for name, query in queries.items() if cut is not None else ():
            behind = any(name in query.inputs and not _has(query.done(), name, end) for name, end in cut.ends.items())
            if behind and query.status in _STANDS_STILL:
                raise _apart({name: query}, f'query "{query.name}" is {query.status}')


def _has(done: Mapping[str, Offset], name: str, end: End) -> bool:
    return end == End() or (name in done and done[name].place >= end)


def _is_at(done: Mapping[str, Offset], there: Mapping[str, End]) -> bool:
    return bool(done) and all(offset.place == there[name] for name, offset in done.items())


def _is_past(done: Mapping[str, Offset], ends: Mapping[str, End]) -> bool:
    return any(name in ends and offset.place > ends[name] for name, offset in done.items())


def _apart(queries: Mapping[str, Query], why: str) -> QueryError:
    return QueryError(
        "NOT_AT_ONE_VERSION",
        f"what is read together cannot be read at one version: {why}",
        detail="; ".join(f'"{name}" is {query.status}' for name, query in queries.items()),
        hint="START QUERY what stands still, or read one at a time",
    )
