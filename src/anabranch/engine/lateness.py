"""Which windows the members of a host give up while it falls behind: those that say how many they can do without.

A host is behind while more rows wait than two micro-batches take, as a query is that stands alone, or while its
micro-batches take long: with thousands of members that is so long before many rows wait. The k with which the next
micro-batch is answered stands in the offset of the list of members; none answers fewer windows than it says it may.
"""

from __future__ import annotations

import time

from anabranch.operators.offset import Offset
from anabranch.operators.pace import Pace

LATE_SECONDS = 1.0
"""A micro-batch that takes longer makes the answers of all members that much late."""


class Lateness:
    """Of the micro-batches that one process plans."""

    def __init__(self) -> None:
        self._planned: float | None = None
        self._took = 0.0

    def done(self) -> None:
        """The engine has done what was planned last, and asks for more."""
        self._took = 0.0 if self._planned is None else time.monotonic() - self._planned
        self._planned = None

    def planned(self) -> None:
        """There is a micro-batch to do."""
        self._planned = time.monotonic()

    def level(self, before: Offset, at_most: int, waiting: int, batch: int) -> int:
        """The k of the next micro-batch, where members say that they can do with every `at_most`-th at most."""
        if self._took > LATE_SECONDS:
            waiting = max(waiting, 2 * batch + 1)
        elif self._took > LATE_SECONDS / 2:
            waiting = max(waiting, batch + 1)
        return Pace(1, at_most).next(before.every, waiting, batch)
