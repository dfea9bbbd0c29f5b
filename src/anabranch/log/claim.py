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
        self.may = True
        """False once it turned out that nothing can be written here."""

    def claim(self, at_least: int) -> bool:
        """Say that no row to come is older than now, if the clock has come to `at_least`.

        False if it has not, if rows are on their way (they bring time themselves), or where the
        directory is read-only.
        """
        try:
            with self._stamps.claiming() as alone:
                return alone and self._claim(at_least)
        except StreamError:
            self.may = False
            return False

    def _claim(self, at_least: int) -> bool:
        now = self._clock.now(max(self._reader.end().time, self._stamps.claimed))
        if now < at_least:
            return False
        beat(self._storage, now, self._stamps, durable=False)
        return True
