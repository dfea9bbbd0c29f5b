"""Claiming the clock for a stream whose rows we stamp (`stamps`): from any process that has its directory."""

from __future__ import annotations

from anabranch.clock import Clock
from anabranch.errors import StreamError
from anabranch.log.reader import StreamReader
from anabranch.log.stamps import Stamps, StreamClock
from anabranch.log.storage import Storage
from anabranch.log.writer import beat


class Claimer:
    """Moves the time of one stream on to the clock."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._reader = StreamReader(storage)
        self._stamps = Stamps(storage)
        self._clock = StreamClock(clock, self._reader.info.name)

    def now(self) -> int:
        """What the stream's time would be, if it was claimed now."""
        return self._clock.now(self._reader.end().time)

    def claim(self, at_least: int) -> bool:
        """Say that no row to come is older than now, if the clock has come to `at_least`.

        False if it has not, if rows are on their way (they bring time themselves), or where the
        directory is read-only.
        """
        with self._stamps.claiming() as may:
            if not may:
                return False
            reached = max(self._reader.end().time, self._stamps.claimed)
            now = self._clock.now(reached)
            if now < at_least:
                return False
            try:
                beat(self._storage, now, self._stamps, durable=False)
            except StreamError:
                return False
            return True
