"""Where the answers of a host's members go: one log and one commit for all, each member's numbered by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from anabranch.clock import Clock
from anabranch.log.slices import SCHEMA, index_of
from anabranch.operators.offset import Offsets
from anabranch.operators.together.failed import KIND
from anabranch.operators.work import Work
from anabranch.queries.member import Member
from anabranch.queries.member_numbers import MemberNumbers
from anabranch.queries.sink import StreamSink


class HostSink(StreamSink):
    """The one writer of a host's log; `fail` is told which members cannot go on, and why."""

    def __init__(self, member: Member, clock: Clock, fail: Callable[[dict[int, str]], None]) -> None:
        super().__init__(member, clock)
        self._fail = fail
        self._log = member.reader()
        self._numbers = MemberNumbers(member.storage, self._log, self.writer.info.id)
        self._numbers.follow(self._log, self.writer.next_row)

    def take(self, rows: pa.Table, batch: int, start: Offsets, end: Offsets, reached: int, work: Work) -> None:
        if rows.num_rows and not self.has(start, end):
            super().take(self._numbered(rows), batch, start, end, reached, work)
            self._numbers.row = self.writer.next_row
            self._numbers.note()
        failures = work.reports.get(KIND)
        if failures:
            self._fail({int(number): why for number, why in failures.items()})

    def _numbered(self, rows: pa.Table) -> pa.Table:
        """Rows of the log with the numbers of their members' answers, and times that count rows."""
        indices = [self._numbers.give(index_of(data.as_buffer())).tobytes() for data in rows.column("index")]
        first = self.writer.next_row
        times = pa.array(np.arange(first, first + rows.num_rows)).cast(SCHEMA.arrow.field(0).type)
        return pa.table([times, pa.array(indices, pa.binary()), rows.column("payload")], schema=SCHEMA.arrow)

    def begin_again(self) -> None:
        super().begin_again()
        self._numbers.forget()
        self._numbers.begin(self._log)
        self._numbers.follow(self._log, self.writer.next_row)
