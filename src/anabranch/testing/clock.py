"""A clock that stands still until a test turns it."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from anabranch.schema import TIME_TYPE


class ManualClock:
    """Wall-clock time that only `set` and `advance` change; give it to `Database(…, clock=…)`.

    >>> clock = ManualClock("2026-01-01 00:00:00")
    >>> clock.advance(dt.timedelta(seconds=90))
    >>> str(clock)
    '2026-01-01 00:01:30+00:00'
    """

    def __init__(self, now: int | str | dt.datetime = 0) -> None:
        self._now = _micros(now)

    def now_us(self) -> int:
        """The time in microseconds since 1970, UTC."""
        return self._now

    def set(self, now: int | str | dt.datetime) -> None:
        """Turn the clock to a time: microseconds, a datetime, or ISO 8601 text (UTC unless it says otherwise)."""
        self._now = _micros(now)

    def advance(self, by: int | float | dt.timedelta) -> None:
        """Turn the clock on by a length of time, given in seconds or as a timedelta; it may go back."""
        self._now += round(by.total_seconds() * 1e6) if isinstance(by, dt.timedelta) else round(by * 1e6)

    def __str__(self) -> str:
        return str(dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=self._now))


def _micros(time: int | str | dt.datetime) -> int:
    if isinstance(time, str):
        time = dt.datetime.fromisoformat(time)
    if isinstance(time, dt.datetime):
        time = time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time
        return int(pa.scalar(time, TIME_TYPE).value)
    return time
