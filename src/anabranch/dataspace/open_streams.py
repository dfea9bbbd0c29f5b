"""How many streams a server has open at once, for whom, and which of them nobody reads.

Streams that follow have a number of their own: they have no end, and must not take the place of requests that do.
No client has more than half of either, so that none keeps the others out.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from anabranch.dataspace.gate.connections import Connection
from anabranch.errors import StreamError

T = TypeVar("T")


@dataclass(eq=False)
class _Turn:
    """A stream that is open."""

    connection: Connection | None
    handed_over: float | None = None
    """Since when what was handed over waits to be taken."""

    @property
    def client(self) -> str:
        return "" if self.connection is None else self.connection.address


class OpenStreams:
    """Gives turns to streams, of which there are so many."""

    def __init__(self, most: int, most_following: int, stall_seconds: float) -> None:
        self._most = {False: most, True: most_following}
        self._stall_seconds = stall_seconds
        self._open: dict[bool, set[_Turn]] = {False: set(), True: set()}
        self._mutex = threading.Lock()

    def in_turn(self, values: Iterator[T], connection: Connection | None, *, follows: bool) -> Iterator[T]:
        """The values, as one of the streams there may be; an error if there is no room for it."""
        turn = self._begin(connection, follows)
        try:
            for value in values:
                turn.handed_over = time.monotonic()
                yield value
                turn.handed_over = None
        finally:
            with self._mutex:
                self._open[follows].discard(turn)
                if connection is not None:
                    connection.streams -= 1

    def _begin(self, connection: Connection | None, follows: bool) -> _Turn:
        turn, most = _Turn(connection), self._most[follows]
        what = "streams that follow" if follows else "streams"
        with self._mutex:
            each_has = Counter(opened.client for opened in self._open[follows])
            if each_has.total() >= most:
                raise StreamError(
                    "DATA_SERVER_BUSY", f"the data server has {most} {what} open, as many as it may", hint="try later"
                )
            if each_has[turn.client] >= max(most // 2, 1):
                raise StreamError(
                    "TOO_MANY_STREAMS_OPEN",
                    f"the data server has {each_has[turn.client]} {what} open for this client, half of all it may",
                    hint="close some of them, or try later",
                )
            self._open[follows].add(turn)
            if connection is not None:
                connection.streams += 1
        return turn

    def close_stalled(self) -> None:
        """Close connections of which a stream is not read; called now and then. Clients go on where they were."""
        now = time.monotonic()
        with self._mutex:
            turns = [*self._open[False], *self._open[True]]
        for turn in turns:
            since = turn.handed_over
            if since is not None and now - since > self._stall_seconds and turn.connection is not None:
                turn.connection.close()
