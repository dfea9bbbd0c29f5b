"""What happens by itself as time goes on: time moves on, lost queries are taken over, files copied."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import weakref

from anabranch.catalog import Catalog
from anabranch.catalog.writers import Writers
from anabranch.clock import Clock
from anabranch.connectors import connector_of
from anabranch.queries.idle import IdleWatch
from anabranch.queries.quietly import quietly
from anabranch.queries.refreshing import Refreshing
from anabranch.queries.standing import StandingQueries
from anabranch.queries.timekeeper import Timekeeper
from anabranch.settings import Settings

_EVERY = 1.0
"""Seconds after which what goes on by itself is looked at again, if nothing asks for it."""
_TOGETHER = 0.02
"""Seconds for which micro-batches that end together are waited for."""


class GoingOn:
    """What a thread of a database does until it is closed, or nobody has it any more."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        clock: Clock,
        writers: Writers,
        timekeeper: Timekeeper,
        refreshing: Refreshing,
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._writers = writers
        self._time = timekeeper
        self._refreshing = refreshing
        self._idle = IdleWatch(settings["idle_timeout_seconds"])
        self._joins_wait = bool(settings["idle_timeout_seconds"])
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._queries: StandingQueries | None = None
        self._takes_over = False
        self._looked = time.monotonic()

    def start(self, queries: StandingQueries, *, take_over: bool) -> None:
        self._queries = queries
        self._takes_over = take_over
        threading.Thread(
            target=_loop, args=(weakref.ref(self), self._closed, self._wake), name="anabranch-time", daemon=True
        ).start()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def wake(self) -> None:
        """Something has moved: look now."""
        self._wake.set()

    def close(self) -> None:
        self._closed.set()
        self._refreshing.close()
        self._wake.set()

    def look(self) -> float:
        """Do what is due; gives the seconds until there may be more."""
        assert self._queries is not None
        pause = _EVERY
        with contextlib.suppress(Exception):  # it may be tried again, and must not end the thread
            pause = self._keep_time(self._queries)
        if time.monotonic() - self._looked >= _EVERY:
            self._looked = time.monotonic()
            for writer in self._writers.all():
                quietly(writer.release_if_idle)
            quietly(lambda: self._time.serve(self._writers.all()))
            quietly(self.move_silent_streams)
            quietly(self._queries.look_after)
            if self._takes_over:
                quietly(self._queries.take_over)
                quietly(self._refreshing.look)
        return pause

    def _keep_time(self, queries: StandingQueries) -> float:
        """Let time go on where this process's queries wait for it."""
        again = self._time.keep([query for query in queries.known() if query.runs_here])
        return _EVERY if again is None else min(max((again - self._clock.now_us()) / 1e6, 0.0), _EVERY)

    def move_silent_streams(self) -> None:
        """Heartbeats for streams that are silent while those they are joined with go on (idle_timeout_seconds)."""
        if not self._joins_wait or self._queries is None:
            return
        groups = [query.inputs for query in self._queries.known() if len(query.inputs) > 1]
        ends = {name: self._catalog.open_stream(name).end() for group in groups for name in group}
        for name, reached in self._idle.silent(ends, groups, time.monotonic()).items():
            if connector_of(self._catalog.stream(name)).appendable:  # answers are moved on by their query
                quietly(functools.partial(self._writers.of(name).advance, reached))


def _loop(reference: weakref.ref[GoingOn], closed: threading.Event, wake: threading.Event) -> None:
    while not closed.wait(_TOGETHER):
        going_on = reference()
        if going_on is None:
            return
        wake.clear()
        pause = going_on.look()
        del going_on
        wake.wait(pause)
