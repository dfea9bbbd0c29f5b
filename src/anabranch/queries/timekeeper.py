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
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from anabranch.catalog import Catalog
from anabranch.clock import Clock
from anabranch.connectors import connector_of
from anabranch.errors import StreamError
from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.brought_home import AnswersReader
from anabranch.log.claim import Claimer
from anabranch.log.lock import BEING_WRITTEN
from anabranch.log.storage import encoded_name
from anabranch.log.stream import ANSWERS, INFO, VIEW, StreamInfo
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

_AGAIN_US, _AGAIN_AT_MOST_US = 10_000, 1_000_000
"""When to try again where time was not moved as wanted: ever more rarely."""
_WAITS = "waits"
"""The folder of a stream where those who cannot move it themselves say what time they wait for."""


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
        settings: Settings,
        clock: Clock,
        query_of: Callable[[str], Waiting | None],
        writer_of: Callable[[str], StreamWriter | None],
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._clock = clock
        self._query_of = query_of
        self._writer_of = writer_of
        self._mutex = threading.Lock()
        self._streams: dict[str, _Stream] = {}

    def keep(self, queries: Iterable[Waiting]) -> int | None:
        """Move time on for some queries; gives when, by the clock, there is something to do again (None: unknown)."""
        again: list[int] = []
        for query in queries:
            with contextlib.suppress(Exception):  # the query itself will say so, and the others go on
                again += self._moved_for(query)
        return min(again, default=None)

    def _moved_for(self, query: Waiting) -> list[int]:
        if not self._moves_for(query):
            return []
        for name in query.inputs:
            self._stream(name).release()
        return [time for wanted in self.wanted(query) if (time := self._move(wanted, query)) is not None]

    def pending(self, query: Waiting, now: int) -> bool:
        """Whether the query has more to answer as of the time `now` of the clock; moves time there."""
        if not self._moves_for(query):
            return False
        self.keep([query])
        if not query.due() or not all(self._runs(name) for name in query.inputs):
            return False
        behind = [want for want in self.wanted(query) if want.reached < want.time]
        return all(self._stream(want.stream).comes_by(want.time, now) for want in behind)

    def wanted(self, query: Waiting) -> list[Wanted]:
        """The streams whose time a query waits for, directly or through the answers of others."""
        return sorted({want for stream, time in query.due().items() for want in self._sources(stream, time)})

    def blocked(self, query: Waiting) -> Wanted | None:
        """The stream that has furthest to go until the query answers more, if time alone makes it."""
        if any(self._stream(name).is_remote for name in query.inputs):
            return None  # whoever just looks does not ask servers
        behind = [want for want in self.wanted(query) if want.reached < want.time]
        return max(behind, key=lambda want: want.time - want.reached, default=None)

    def _moves_for(self, query: Waiting) -> bool:
        return any(self.moves(name) for name in query.inputs)

    def moves(self, stream: str) -> bool:
        """Whether time can go on by itself for a stream, or for one that it is made from."""
        upstream = self._upstream(stream)
        if upstream is not None:
            return any(self.moves(name) for name in upstream.inputs)
        return self._stream(stream).moves

    def _upstream(self, stream: str) -> Waiting | None:
        """The query whose answer a stream is."""
        return self._query_of(stream) if self._stream(stream).is_an_answer else None

    def arrived(self, stream: str) -> int | None:
        """When the newest rows of a stream came."""
        return self._stream(stream).arrived()

    def serve(self, writers: Iterable[StreamWriter]) -> None:
        """Move streams on that other processes wait for, and only their writer may move."""
        for writer in writers:
            if writer.info.idle_us is not None or (writer.info.goes_with_the_clock and not writer.storage.is_local):
                _serve(writer)

    def _sources(self, stream: str, time: int) -> Iterator[Wanted]:
        upstream = self._upstream(stream)
        if upstream is None:
            yield Wanted(stream, time, self._stream(stream).reached())
            return
        wanted = upstream.wanted_of_inputs(time) if upstream.inputs else None
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
                place = _Place(
                    storage,
                    self._settings,
                    self._clock,
                    lambda: self._writer_of(name),
                    lambda: self._catalog.open_stream(name),
                )
                known = self._streams[name] = _kind(StreamInfo.load(storage))(place)
            return known


@dataclass(frozen=True)
class _Place:
    """Where a stream lies, and how it is written and read."""

    storage: Storage
    settings: Settings
    clock: Clock
    writer: Callable[[], StreamWriter | None]
    """Its writer, if this process has it."""
    reader: Callable[[], Reader]


class _Stream:
    """A stream that is filled from outside; this kind has a time of its own that only its rows move."""

    @property
    def moves(self) -> bool:
        """Whether this process can move its time on."""
        return False

    def __init__(self, place: _Place) -> None:
        info = StreamInfo.load(place.storage)
        self.made = place.storage.made(INFO)
        self.is_an_answer = info.origin in (ANSWERS, VIEW)
        self.is_remote = not connector_of(info).logged
        self._place = place
        self._storage = place.storage
        self._clock = place.clock
        self._reader: Reader | None = None

    @property
    def _log(self) -> Reader:
        if self._reader is None:
            self._reader = self._place.reader()
        return self._reader

    def reached(self) -> int:
        return self._log.end().time

    def arrived(self) -> int | None:
        return self._log.arrived() if isinstance(self._log, StreamReader | AnswersReader) else None

    def release(self) -> None:
        """Let go of rows that it holds back though it is silent."""

    def comes_by(self, time: int, now: int) -> bool:
        """Whether it has moved, or can be moved, to a time once the clock has come to `now`."""
        return False

    def move(self, time: int, waiter: str) -> int | None:
        """Move it to a time if that has come; else when to try again, by the clock."""
        return None

    def _leave_word(self, time: int, waiter: str) -> int:
        """Let the process that writes the stream know; gives when to look again."""
        with contextlib.suppress(StreamError, OSError):
            waits = self._storage.child(_WAITS)
            if (waits.read_json(encoded_name(waiter)) or {}).get("time") != time:
                waits.make()
                waits.write_json(encoded_name(waiter), {"time": time}, durable=False)
        return self._clock.now_us() + _AGAIN_AT_MOST_US


class _Clocked(_Stream):
    """One whose rows we stamp."""

    @property
    def moves(self) -> bool:
        return self._claimer.may

    def __init__(self, place: _Place) -> None:
        super().__init__(place)
        self._claimer = Claimer(place.storage, place.clock)
        self._again = _AGAIN_US

    def comes_by(self, time: int, now: int) -> bool:
        mine = self._storage.is_local or self._place.writer() is not None
        return mine and self._claimer.may and time <= now

    def move(self, time: int, waiter: str) -> int | None:
        now = self._clock.now_us()
        if self.reached() <= now < time:
            return time
        if not self._storage.is_local and self._place.writer() is None:
            return self._leave_word(time, waiter)
        if self._claim(time):
            self._again = _AGAIN_US
            return None
        # Rows are on their way, the directory is read-only, or the clock is behind the stream.
        self._again = min(2 * self._again, _AGAIN_AT_MOST_US)
        return now + self._again

    def _claim(self, time: int) -> bool:
        if self._storage.is_local:
            return self._claimer.claim(time)
        writer = self._place.writer()
        return writer is not None and writer.claim(time)


class _Idle(_Stream):
    """One with a time of its own that goes on after a silence."""

    def __init__(self, place: _Place) -> None:
        super().__init__(place)
        self._opened = place.clock.now_us()
        self._later = (0, 0)

    @property
    def moves(self) -> bool:
        return True

    def release(self) -> None:
        writer = self._place.writer()
        if writer is not None:
            writer.release_if_idle()

    def move(self, time: int, waiter: str) -> int | None:
        tried, again = self._later
        if time >= tried and self._clock.now_us() < again:
            return again
        next_try = self._moved(time, waiter)
        self._later = (time, next_try or 0)
        return next_try

    def _moved(self, time: int, waiter: str) -> int | None:
        writer = self._place.writer()
        if writer is not None:
            return writer.go_on_in_silence(time)
        try:
            writer = StreamWriter(self._storage, self._place.settings, self._clock)
        except StreamError as problem:
            if problem.name != BEING_WRITTEN:
                raise
            return self._leave_word(time, waiter)
        try:  # nobody writes it: be the writer for a moment
            return writer.go_on_in_silence(time, self._opened)
        finally:
            writer.close(release=False)


def _kind(info: StreamInfo) -> type[_Stream]:
    if info.goes_with_the_clock:
        return _Clocked
    return _Stream if info.idle_us is None else _Idle


def _serve(writer: StreamWriter) -> None:
    waits = writer.storage.child(_WAITS)
    for name in waits.files():
        wanted = (waits.read_json(name) or {}).get("time")
        if isinstance(wanted, int):
            again = writer.go_on_in_silence(wanted) if writer.info.idle_us is not None else not writer.claim(wanted)
            if again:
                continue
        waits.delete(name)
