"""When a search that is shared finds so much that nobody wants that each member had better search by itself.

Alone a member looks at every row, and finds what it wants. Constants of several streams that go together in no way
(`meeting`) can leave far more results than that.
"""

from __future__ import annotations

from anabranch.operators.base import Offsets

FOR_NOTHING = 1 << 20
"""Results that nobody wants in a micro-batch, up to which it does not matter."""
_ROWS_PER_RESULT = 32
"""Looking up a result takes as long as filtering so many rows, as was measured: 2.6 µs against 80 ns."""


class RunApart(Exception):
    """Each member is to be run by itself."""


class Waste:
    """What one family's searches have found, in this process, for who is in it now."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._wastes = False
        self._left = 0

    def begin(self, start: Offsets, end: Offsets) -> None:
        """Another micro-batch; raises if the one before was better left."""
        if self._wastes:
            raise RunApart
        rows = sum(end[stream].row - start[stream].row for stream in start)
        self._left = FOR_NOTHING + rows * self._members // _ROWS_PER_RESULT

    def found(self, results: int, wanted: int) -> None:
        """So many results were found, of which so many are wanted; raises where it is too much."""
        self._left -= results - wanted
        if self._left < 0:
            self._wastes = True
            raise RunApart
