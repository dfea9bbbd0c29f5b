"""Where the answers of a host's members go: one log and one commit for all, each member's numbered by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.clock import Clock
from anabranch.log.slices import SCHEMA, index_of
from anabranch.log.storage import Storage
from anabranch.operators.offset import Offsets
from anabranch.operators.work import Work
from anabranch.queries.member import Member
from anabranch.queries.sink import StreamSink

_NUMBERS = "numbers.json"
_EVERY = 256
"""After so many rows of the log the numbers are written down, to be found soon by the next who opens it."""


class HostSink(StreamSink):
    """The one writer of a host's log; `fail` is told which members cannot go on, and why."""

    def __init__(self, member: Member, clock: Clock, fail: Callable[[dict[int, str]], None]) -> None:
        super().__init__(member, clock)
        self._storage: Storage = member.storage
        self._fail = fail
        self._log = member.reader()
        self._noted, self._numbers = self._recover()

    def _recover(self) -> tuple[int, NDArray[np.int64]]:
        """How many answers each member has: as it was noted, and what the log has had since."""
        noted = self._storage.read_json(_NUMBERS) or {}
        row = noted.get("row", 0) if noted.get("of") == self.writer.info.id else 0
        if not self._log.first_row() <= row <= self.writer.next_row:
            row, noted = self._log.first_row(), {}
        numbers = np.array(noted.get("numbers", []) if row else [], np.int64)
        for data in self._log.read(row, self.writer.next_row, ["index"]).column(0):
            index = index_of(data.as_buffer())
            numbers = _long_enough(numbers, index)
            numbers[index[:, 0]] = index[:, 1] + index[:, 2]
        return row, numbers

    def take(self, rows: pa.Table, batch: int, start: Offsets, end: Offsets, reached: int, work: Work) -> None:
        if rows.num_rows:
            before, numbers = self.writer.next_row, self._numbers.copy()
            super().take(self._numbered(rows), batch, start, end, reached, work)
            if self.writer.next_row == before:
                self._numbers = numbers  # it was taken before
            if self.writer.next_row - self._noted >= _EVERY:
                self._note()
        else:
            super().take(rows, batch, start, end, reached, work)
        failed = work.reports.get("failed")
        if failed:
            self._fail({int(number): why for number, why in failed.items()})

    def _numbered(self, rows: pa.Table) -> pa.Table:
        """Rows of the log with the numbers of their members' answers, and times that count rows."""
        indices = []
        for data in rows.column("index"):
            index = index_of(data.as_buffer()).copy()
            self._numbers = _long_enough(self._numbers, index)
            index[:, 1] = self._numbers[index[:, 0]]
            self._numbers[index[:, 0]] += index[:, 2]
            indices.append(index.tobytes())
        first = self.writer.next_row
        times = pa.array(np.arange(first, first + len(rows))).cast(SCHEMA.arrow.field(0).type)
        return pa.table([times, pa.array(indices, pa.binary()), rows.column("payload")], schema=SCHEMA.arrow)

    def _note(self) -> None:
        self._noted = self.writer.next_row
        said = {"of": self.writer.info.id, "row": self._noted, "numbers": self._numbers.tolist()}
        self._storage.write_json(_NUMBERS, said, durable=False)

    def begin_again(self) -> None:
        super().begin_again()
        self._storage.delete(_NUMBERS)
        self._noted, self._numbers = self._recover()


def _long_enough(numbers: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers with a place for each member of an index."""
    wanted = int(index[:, 0].max(initial=-1)) + 1
    if wanted <= len(numbers):
        return numbers
    return np.concatenate([numbers, np.zeros(max(wanted, 2 * len(numbers)) - len(numbers), np.int64)])
