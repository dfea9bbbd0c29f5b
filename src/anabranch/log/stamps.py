"""The time of a stream whose rows we stamp: it is the clock, and goes on whether rows come or not.

Any process may *claim* the clock for such a stream: say that no row to come is older than now. It
does so under an exclusive lock, and writes the time claimed into the lock's file, where the writer
finds it. The writer holds the same lock, shared, from stamping rows until they can be read, and
stamps them no older than what was claimed. So a claim never overtakes rows on their way, and no row
is ever late because of one. Where files cannot be locked, only the writer's own process claims.

A clock that was set back, or was ahead when it stamped, is behind the stream's time. Then time in
the stream goes on at half the clock's pace until the clock has caught up: windows still close, and
rows keep their order.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator

from anabranch.clock import Clock
from anabranch.log.offset import MIN_TIME
from anabranch.log.storage import Storage

LOCK = "time.lock"
AHEAD_US = 5_000_000
"""A stream's time that is this much ahead of the clock is told."""
_BYTES = 8

_log = logging.getLogger("anabranch.log")


class StreamClock:
    """The clock as a stream sees it: never behind the time the stream has reached."""

    def __init__(self, clock: Clock, stream: str) -> None:
        self._clock = clock
        self._stream = stream
        self._since: tuple[int, int] | None = None
        self._told = False

    def now(self, reached: int) -> int:
        """The stream's time now, if it had come to `reached`."""
        now = self._clock.now_us()
        if now >= reached:
            self._since, self._told = None, False
            return now
        if self._since is None or now < self._since[0]:
            self._since = (now, reached)
            self._tell(reached - now)
        began, time = self._since
        return max(reached, time + (now - began) // 2)

    def _tell(self, ahead: int) -> None:
        if ahead > AHEAD_US and not self._told:
            self._told = True
            _log.warning(
                'CLOCK_WENT_BACK the time of stream "%s" is %s ahead of the clock; '
                "it goes on at half the clock's pace until the clock has caught up",
                self._stream,
                length_of_time(ahead),
            )


class Stamps:
    """The lock that stamping and claiming share, and the time that was claimed last."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._handle: int | None = None
        self._depth = 0

    @contextlib.contextmanager
    def stamping(self) -> Iterator[None]:
        """While rows are stamped and written nobody claims; may be nested."""
        self._depth += 1
        try:
            if self._depth == 1 and self._storage.is_local:
                fcntl.flock(self._open(), fcntl.LOCK_SH)
            yield
        finally:
            self._depth -= 1
            if self._depth == 0 and self._handle is not None:
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def claiming(self, *, wait: bool = False) -> Iterator[bool]:
        """True if nobody stamps or claims meanwhile; with `wait`, once rows on their way are written."""
        if not self._storage.is_local:
            yield False
            return
        try:
            fcntl.flock(self._open(), fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._open(), fcntl.LOCK_UN)

    @property
    def claimed(self) -> int:
        """The time claimed last; to be asked while stamping or claiming."""
        if not self._storage.is_local:
            return MIN_TIME
        data = os.pread(self._open(), _BYTES, 0)
        return int.from_bytes(data, "little", signed=True) if len(data) == _BYTES else MIN_TIME

    def note(self, time: int) -> None:
        """Write down what is claimed, while claiming."""
        os.pwrite(self._open(), time.to_bytes(_BYTES, "little", signed=True), 0)

    def _open(self) -> int:
        if self._handle is None:
            self._handle = self._storage.open_to_lock(LOCK)
        return self._handle

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def length_of_time(us: int) -> str:
    """A length of time as people write it.

    >>> length_of_time(86_380_000_000), length_of_time(90_061_500_000)
    ('23:59:40', '1 day 01:01:01')
    """
    days, seconds = divmod(us // 1_000_000, 86_400)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{days} day{'s' if days > 1 else ''} {clock}" if days else clock
