"""Time goes on for a DataFrame, too, which a program runs and no database looks after.

For standing queries `queries.timekeeper` does that. Here the process that plans the micro-batches claims the
clock, for streams whose rows we stamp and when the operator waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.clock import Clock, SystemClock
from anabranch.log.claim import Claimer
from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.offset import Offsets


class Claiming:
    """Claims the clock for the streams of one operator."""

    def __init__(self, operator: Operator, streams: Mapping[str, str], clock: Clock | None = None) -> None:
        self._operator = operator
        self._clock = clock or SystemClock()
        storages = {name: Storage(address) for name, address in streams.items()}
        self._claimers = {
            name: Claimer(storage, self._clock)
            for name, storage in storages.items()
            if storage.is_local and StreamInfo.load(storage).goes_with_the_clock
        }
        self._due: tuple[Offsets, dict[str, int]] = ({}, {})

    def claim(self, at: Offsets, ends: Mapping[str, End], inputs: Inputs) -> bool:
        """Whether the time that is waited for after `at` has come, and was claimed."""
        if not self._claimers:
            return False
        if self._due[0] != at:
            self._due = (at, self._operator.due(at, inputs))
        now = self._clock.now_us()
        claimed = [
            self._claimers[name].claim(time)
            for name, time in self._due[1].items()
            # A stream that is ahead of the clock goes on, too, more slowly.
            if name in self._claimers and ends[name].time < time and (time <= now or ends[name].time > now)
        ]
        return any(claimed)
