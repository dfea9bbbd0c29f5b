"""Time goes on where a query waits for it, though no row comes.

Operators say what time they wait for (`Operator.due`). Streams whose rows we stamp go with the
clock: when it has come to the time wanted, it is claimed (`log.claim`), the query's next
micro-batch finds that time has moved, and answers. Streams with a time of their own that say IDLE
AFTER move on in silence. Nothing is done for a stream that nobody waits for.

Where a query reads another's answer, what it waits for is wanted of the streams that one reads.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from anabranch.catalog import Catalog
from anabranch.clock import Clock
from anabranch.errors import AnabranchError
from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.claim import Claimer
from anabranch.log.stream import INFO, StreamInfo

_AGAIN_US, _AGAIN_AT_MOST_US = 10_000, 1_000_000
"""When to try again where time was not moved as wanted: ever more rarely."""


class Waiting(Protocol):
    """What is to be known of a query to move time on for it."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def status(self) -> str: ...

    def due(self) -> dict[str, int]: ...

    def wanted_of_inputs(self, time: int) -> int | None: ...


class Wanted(NamedTuple):
    """A stream that is filled from outside, the time it is wanted to reach, and the time it has reached."""

    stream: str
    time: int
    reached: int


class Timekeeper:
    """Knows what time the queries of a database wait for, and moves streams there."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        query_of: Callable[[str], Waiting | None],
        writer_of: Callable[[str], StreamWriter | None],
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._query_of = query_of
        self._writer_of = writer_of
        self._mutex = threading.Lock()
        self._streams: dict[str, _Stream] = {}

    def keep(self, queries: Iterable[Waiting]) -> int | None:
        """Move time on for some queries; gives when, by the clock, there is something to do again (None: unknown)."""
        again: list[int] = []
        for query in queries:
            with contextlib.suppress(AnabranchError, OSError):  # the query itself will say so
                again += [time for wanted in self.wanted(query) if (time := self._move(wanted, query)) is not None]
        return min(again, default=None)

    def pending(self, query: Waiting, now: int) -> bool:
        """Whether the query has more to answer as of the time `now` of the clock; moves time there."""
        if not query.due() or not all(self._runs(name) for name in query.inputs):
            return False
        behind = [each for each in self.wanted(query) if each.reached < each.time]
        self.keep([query])
        return all(self._stream(each.stream).comes_by(each.time, now) for each in behind)

    def wanted(self, query: Waiting) -> list[Wanted]:
        """The streams whose time a query waits for, directly or through the answers of others."""
        return sorted({each for stream, time in query.due().items() for each in self._sources(stream, time)})

    def blocked(self, query: Waiting) -> Wanted | None:
        """The stream that has furthest to go until the query answers more, if time alone makes it."""
        behind = [each for each in self.wanted(query) if each.reached < each.time]
        return max(behind, key=lambda each: each.time - each.reached, default=None)

    def moves(self, stream: str) -> bool:
        """Whether time can go on by itself for a stream, or for one that it is made from."""
        upstream = self._upstream(stream)
        if upstream is not None:
            return any(self.moves(name) for name in upstream.inputs)
        return self._stream(stream).moves

    def _upstream(self, stream: str) -> Waiting | None:
        """The query whose answer a stream is."""
        return self._query_of(stream) if self._stream(stream).is_an_answer else None

    def _sources(self, stream: str, time: int) -> Iterator[Wanted]:
        upstream = self._upstream(stream)
        if upstream is None:
            yield Wanted(stream, time, self._stream(stream).reached())
            return
        wanted = upstream.wanted_of_inputs(time)
        for name in upstream.inputs if wanted is not None else ():
            assert wanted is not None
            yield from self._sources(name, wanted)

    def _runs(self, stream: str) -> bool:
        """Whether whoever fills a stream is at work, if it is an answer."""
        upstream = self._upstream(stream)
        if upstream is None:
            return True
        at_work = upstream.status in ("running", "starting", "elsewhere")
        return at_work and all(self._runs(name) for name in upstream.inputs)

    def _move(self, wanted: Wanted, query: Waiting) -> int | None:
        if wanted.reached >= wanted.time:
            return None
        return self._stream(wanted.stream).move(wanted.time, query.name)

    def _stream(self, name: str) -> _Stream:
        storage = self._catalog.stream_storage(name)
        with self._mutex:
            known = self._streams.get(name)
            if known is None or known.made != storage.made(INFO):
                known = self._streams[name] = _opened(storage, self._clock, lambda: self._writer_of(name))
            return known


class _Stream:
    """A stream that is filled from outside; this kind has a time of its own that only its rows move."""

    @property
    def moves(self) -> bool:
        """Whether this process can move its time on."""
        return False

    def __init__(self, storage: Storage, clock: Clock, writer: Callable[[], StreamWriter | None]) -> None:
        self.made = storage.made(INFO)
        self.is_an_answer = StreamInfo.load(storage).origin.startswith("query ")
        self._storage = storage
        self._clock = clock
        self._writer = writer
        self._reader: Any = None

    def reached(self) -> int:
        if self._reader is None:
            self._reader = StreamReader(self._storage)
        return int(self._reader.end().time)

    def comes_by(self, time: int, now: int) -> bool:
        """Whether it has moved, or can be moved, to a time once the clock has come to `now`."""
        return False

    def move(self, time: int, waiter: str) -> int | None:
        """Move it to a time if that has come; else when to try again, by the clock."""
        return None


class _Clocked(_Stream):
    """One whose rows we stamp."""

    @property
    def moves(self) -> bool:
        return self._claimer.may if self._storage.is_local else self._writer() is not None

    def __init__(self, storage: Storage, clock: Clock, writer: Callable[[], StreamWriter | None]) -> None:
        super().__init__(storage, clock, writer)
        self._claimer = Claimer(storage, clock)
        self._again = _AGAIN_US

    def comes_by(self, time: int, now: int) -> bool:
        return self.moves and time <= now

    def move(self, time: int, waiter: str) -> int | None:
        now = self._clock.now_us()
        if self.reached() <= now < time:
            return time
        if self._claim(time):
            self._again = _AGAIN_US
            return None
        # Rows are on their way, the directory is read-only, or the clock is behind the stream.
        self._again = min(2 * self._again, _AGAIN_AT_MOST_US)
        return now + self._again

    def _claim(self, time: int) -> bool:
        if self._storage.is_local:
            return self._claimer.claim(time)
        writer = self._writer()
        return writer is not None and writer.claim(time)


def _opened(storage: Storage, clock: Clock, writer: Callable[[], StreamWriter | None]) -> _Stream:
    kind = _Clocked if StreamInfo.load(storage).goes_with_the_clock else _Stream
    return kind(storage, clock, writer)
