"""Streams that are silent while others they are joined with go on.

Without a time-out, rows that a silent stream may still meet are kept (in the log, on disk) for as
long as it takes. With one, a stream that has not moved for that long is taken to have reached the
time of the others: windows move on, and rows that come later than that are late, like any others,
and go to the stream's rejects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.log.offset import MIN_TIME, End


class IdleWatch:
    """Notices which streams have not moved.

    >>> watch = IdleWatch(30.0)
    >>> watch.silent({"a": End(1, 10), "b": End(1, 10)}, [("a", "b")], now=0.0)
    {}
    >>> watch.silent({"a": End(5, 90), "b": End(1, 10)}, [("a", "b")], now=31.0)
    {'b': 90}
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._moved: dict[str, tuple[End, float]] = {}

    def silent(self, ends: Mapping[str, End], groups: Iterable[tuple[str, ...]], now: float) -> dict[str, int]:
        """Streams that are silent, each with the time it is taken to have reached.

        `ends` are how far streams have come, `groups` those that are joined with each other.
        """
        for name, end in ends.items():
            if name not in self._moved or self._moved[name][0].row != end.row:
                self._moved[name] = (end, now)
        times: dict[str, int] = {}
        for group in groups:
            still = [name for name in group if now - self._moved[name][1] >= self._timeout]
            reached = [ends[name].time for name in group if name not in still]
            if not reached or min(reached) == MIN_TIME:
                continue
            for name in still:
                if ends[name].time < min(reached):
                    times[name] = max(times.get(name, MIN_TIME), min(reached))
        return times
