"""How many answers each member of a host has: as it was last written down, and what its log has had since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anabranch.log.slices import Index, entries_of
from anabranch.log.storage import Storage

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

_FILE = "numbers.json"
_FIRST = "first_numbers.json"
"""The same where the log begins, once its first rows were let go."""
_EVERY = 256
"""After so many rows of the log the numbers are written down, to be found soon by the next who opens it."""


class MemberNumbers:
    """The next number of each member, by the member's own number, after the first `row` rows of the log."""

    def __init__(self, storage: Storage, log: Reader, of: str) -> None:
        self._storage = storage
        self._of = of
        self.begin(log, log.end().row)

    def begin(self, log: Reader, end: int) -> None:
        """What was written down, if it is of this log, of rows before `end`."""
        nothing: dict[str, Any] = {"row": 0, "numbers": []}
        said = [self._said(_FILE, end) or nothing, self._said(_FIRST, end) or nothing]
        noted = max(said, key=lambda known: int(known["row"]))
        self.row: int = noted["row"]
        self._numbers = np.array(noted["numbers"], np.int64)
        self._noted = self.row

    def _said(self, file: str, end: int) -> dict[str, Any] | None:
        said = self._storage.read_json(file)
        known = isinstance(said, dict) and said.get("of") == self._of and said["row"] <= end
        return said if known else None

    def follow(self, log: Reader, end: int) -> None:
        """Take in what the log has had since."""
        begin = max(self.row, log.first_row())
        if end > begin:
            _, index = entries_of(log.read(begin, end, ["index"]).column(0))
            self._make_room(index)
            np.maximum.at(self._numbers, index[:, 0], index[:, 1] + index[:, 2])
        self.row = max(self.row, end)

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
            self._write(_FILE, durable=False)

    def _write(self, file: str, *, durable: bool) -> None:
        said = {"of": self._of, "row": self.row, "numbers": self._numbers.tolist()}
        self._storage.write_json(file, said, durable=durable)

    def forget(self, *, first: bool) -> None:
        """What was written down is of answers that are lost; with `first` also what was where the log begins."""
        self._storage.delete(_FILE)
        if first:
            self._storage.delete(_FIRST)


def note_first_numbers(storage: Storage, log: Reader, of: str, row: int) -> None:
    """Before the rows of a log before `row` are let go: write down, for good, what numbers members have there."""
    numbers = MemberNumbers(storage, log, of)
    numbers.begin(log, row)
    numbers.follow(log, row)
    numbers._write(_FIRST, durable=True)
