"""The clock, passed in wherever time is asked for, so that tests can turn it by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time in microseconds since 1970, UTC."""

    def now_us(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000
