"""Members that stay too heavy for their host go to places of their own by themselves, and come back when light.

A host holds a heavy member back (`queries.holding`): the others are not late, but it is, and ever more. One that has
been held back and behind for a while moves (`queries.moving`) to stand alone, and its answers go on there. When it has
been light and not behind for as long, it moves back; each time it has to be so twice as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from anabranch.catalog import Catalog
from anabranch.errors import AnabranchError
from anabranch.queries.hosts import HOST
from anabranch.queries.moving import Moves
from anabranch.queries.query import Query
from anabranch.settings import Settings

_DOUBLED = 6
"""It has to be light for twice as long each time, so many times."""
_LIGHT = 0.25
"""Of `member_ms`: with micro-batches as short as that it is light."""


class _Seen(NamedTuple):
    """A query, and since when it has been heavy, or light again."""

    query: Query
    since: float


class Balance:
    """Of the queries that this process runs."""

    def __init__(
        self, catalog: Catalog, settings: Settings, moves: Moves, query_of: Callable[[str], Query | None]
    ) -> None:
        self._catalog = catalog
        self._moves = moves
        self._query_of = query_of
        self._seconds: float = settings["heavy_seconds"]
        self._light_ms = settings["member_ms"] * _LIGHT
        self._heavy: dict[str, _Seen] = {}
        self._light: dict[str, _Seen] = {}

    def look(self, here: Iterable[Query]) -> None:
        """Move those whose time has come; `here` are the queries that this process runs, hosts among them."""
        if not self._seconds:
            return
        running = list(here)
        hosts = [query for query in running if query._member.info.kind == HOST]
        self._heavy = self._seen(self._heavy, (member for host in hosts for member in self._held_and_behind(host)))
        self._light = self._seen(self._light, filter(self._is_light, running))
        now = time.monotonic()
        for name, seen in list(self._heavy.items()):
            if now - seen.since >= self._seconds:
                self._move(name, None)
        for name, seen in list(self._light.items()):
            if now - seen.since >= self._seconds * (1 << min(seen.query._member.info.times_left, _DOUBLED)):
                self._move(name, seen.query._member.info.came_from)

    def _seen(self, before: dict[str, _Seen], now: Iterable[Query]) -> dict[str, _Seen]:
        return {query.name: before.get(query.name) or _Seen(query, time.monotonic()) for query in now}

    def _held_and_behind(self, host: Query) -> Iterable[Query]:
        for entry in list(self._catalog.hosted.roster(host.name).held.values()):
            member = self._query_of(entry.name)
            if member is not None and member.stats()["behind_rows"]:
                yield member

    def _is_light(self, query: Query) -> bool:
        info = query._member.info
        if info.came_from is None:
            return False
        stats = query.stats()
        return not stats["behind_rows"] and stats["last_batch_ms"] < self._light_ms

    def _move(self, name: str, to: str | None) -> None:
        self._heavy.pop(name, None)
        self._light.pop(name, None)
        try:
            self._moves.begin(name, to, by_itself=True)
        except AnabranchError:  # it is on its way, or what it reads is no longer there
            return
