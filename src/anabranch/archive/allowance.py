"""How fast this process may read from archives, where somebody set a limit: the disk is not theirs alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_BURST_SECONDS = 0.1
"""What was not used is saved up for so long."""


class Allowance:
    """So many bytes per second; 0: as fast as they come. Who takes more waits until that much time has passed.

    >>> slept = []
    >>> allowance = Allowance(clock=lambda: sum(slept), sleep=slept.append)
    >>> allowance.limit(1000)
    >>> allowance.take(1100); allowance.take(500); slept
    [1.0, 0.5]
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._per_second = 0
        self._used_up_to = clock() - _BURST_SECONDS
        self._mutex = threading.Lock()

    def limit(self, per_second: int) -> None:
        self._per_second = per_second

    def take(self, size: int) -> None:
        """Wait for what was just read."""
        if not self._per_second:
            return
        with self._mutex:
            now = self._clock()
            self._used_up_to = max(self._used_up_to, now - _BURST_SECONDS) + size / self._per_second
            wait = self._used_up_to - now
        if wait > 0:
            self._sleep(wait)


ALLOWANCE = Allowance()
