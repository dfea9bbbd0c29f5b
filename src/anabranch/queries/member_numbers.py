"""How many answers each member of a host has: as it was last written down, and what its log has had since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anabranch.log.slices import Index, index_of
from anabranch.log.storage import Storage

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

_FILE = "numbers.json"
_EVERY = 256
"""After so many rows of the log the numbers are written down, to be found soon by the next who opens it."""


class MemberNumbers:
    """The next number of each member, by the member's own number, after the first `row` rows of the log."""

    def __init__(self, storage: Storage, log: Reader, of: str) -> None:
        self._storage = storage
        self._of = of
        self.begin(log)

    def begin(self, log: Reader) -> None:
        """What was written down, if it is of this log."""
        noted = self._storage.read_json(_FILE)
        known = isinstance(noted, dict) and noted.get("of") == self._of and noted["row"] <= log.end().row
        self.row = noted["row"] if known else log.first_row()
        self._numbers = np.array(noted["numbers"] if known else [], np.int64)
        self._noted = self.row

    def follow(self, log: Reader, end: int) -> None:
        """Take in what the log has had since."""
        if end > self.row:
            for data in log.read(self.row, end, ["index"]).column(0):
                index = index_of(data.as_buffer())
                self._make_room(index)
                self._numbers[index[:, 0]] = index[:, 1] + index[:, 2]
            self.row = end

    def give(self, index: Index) -> Index:
        """An index with the numbers that its members' rows get."""
        self._make_room(index)
        numbered = index.copy()
        numbered[:, 1] = self._numbers[index[:, 0]]
        self._numbers[index[:, 0]] += index[:, 2]
        return numbered

    def of(self, member: int) -> int:
        return int(self._numbers[member]) if member < len(self._numbers) else 0

    def _make_room(self, index: Index) -> None:
        wanted = int(index[:, 0].max(initial=-1)) + 1
        if wanted > len(self._numbers):
            more: NDArray[np.int64] = np.zeros(max(wanted, 2 * len(self._numbers)) - len(self._numbers), np.int64)
            self._numbers = np.concatenate([self._numbers, more])

    def note(self) -> None:
        """Write them down now and then."""
        if self.row - self._noted >= _EVERY:
            self._noted = self.row
            said = {"of": self._of, "row": self.row, "numbers": self._numbers.tolist()}
            self._storage.write_json(_FILE, said, durable=False)

    def forget(self) -> None:
        self._storage.delete(_FILE)
