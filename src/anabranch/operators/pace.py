"""How many of its windows a query answers: all of them, every k-th, or fewer while it is behind.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §3.3:
a query that falls behind is evaluated again only after every second, third, … basic window, while
the window itself goes on. The k of a micro-batch stands in its end offset, where Spark writes it
down before anything is computed: run again, the micro-batch answers the same windows.
"""

from __future__ import annotations

from dataclasses import dataclass

PACE = "pace.json"
"""The file beside a query that says its pace, if that was changed while it runs."""


@dataclass(frozen=True)
class Pace:
    """Every `every`-th window is answered; with `at_most` above it, down to every `at_most`-th while behind."""

    every: int = 1
    at_most: int = 0

    def at(self, level: int) -> int:
        """The k of a member of a host that is so far behind that it would answer every `level`-th window.

        >>> [Pace(2, 8).at(level) for level in (1, 4, 16)], Pace(3).at(16)
        ([2, 4, 8], 3)
        """
        return min(max(level, self.every), max(self.at_most, self.every))

    def next(self, last: int, waiting: int, batch: int) -> int:
        """The k of the next micro-batch, after one of `last`, when `waiting` rows wait and one takes `batch`.

        >>> Pace(1, 8).next(1, waiting=500, batch=100), Pace(1, 8).next(8, waiting=50, batch=100)
        (2, 4)
        >>> Pace(3).next(1, waiting=10**9, batch=1)
        3
        """
        if self.at_most <= self.every:
            return self.every
        if waiting > 2 * batch:
            last *= 2
        elif waiting <= batch:
            last //= 2
        return min(max(last, self.every), self.at_most)


ALL = Pace()
"""Every window is answered."""
