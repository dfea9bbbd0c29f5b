"""A user's reducer, for tests of what SQL makes of one."""

from __future__ import annotations

from anabranch.archive.reducers import Reducer, Seen


class Weekends(Reducer):
    """Keeps whole keys of a column."""

    def __init__(self, fraction: float, column: str) -> None:
        self.fraction = fraction
        self.by = column

    def reduce(self, seen: Seen) -> float:
        return self.fraction
