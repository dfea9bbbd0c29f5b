"""Where a member's answers go: its Stream, rows that stay true for good, numbered and never twice."""

from __future__ import annotations

import pyarrow as pa

from anabranch.clock import Clock
from anabranch.log.lost import Loss
from anabranch.log.writer import StreamWriter
from anabranch.operators.offset import Offset, Offsets, offsets_from_json
from anabranch.operators.work import Work
from anabranch.queries.member import Member

_PRODUCER = "query"


class StreamSink:
    """The one writer of a member's Stream; while it is open no other process runs the member."""

    def __init__(self, member: Member, clock: Clock) -> None:
        storage = member.catalog.stream_storage(member.name)
        self.writer = StreamWriter(storage, member.settings, clock, computed=True)

    @property
    def schema(self) -> pa.Schema:
        return self.writer.info.schema.arrow

    @property
    def rows(self) -> int:
        """How many answers there have been."""
        return self.writer.next_row

    def take(self, rows: pa.Table, batch: int, start: Offsets, end: Offsets, reached: int, work: Work) -> None:
        """A micro-batch's answer; one that was taken before is passed over."""
        if rows.num_rows:
            self.writer.append(rows, producer=_PRODUCER, batch=batch, span=(start, end))
        self.writer.advance(reached, durable=False)

    def bring(self, rows: pa.Table, at: Offsets | None) -> None:
        """Answers that were given elsewhere; with the last of them, up to where streams are answered."""
        if at is None:
            self.writer.append(rows)
        else:
            self.writer.append(rows, producer=_PRODUCER, batch=0, span=({}, dict(at)))

    def has(self, start: Offsets, end: Offsets) -> bool:
        """Whether the answer of a micro-batch was taken before."""
        return self.writer.has(_PRODUCER, (start, end))

    def position(self) -> dict[str, Offset] | None:
        """Up to where streams are answered; None: it does not say."""
        position = self.writer.position(_PRODUCER)
        return None if position is None else offsets_from_json(position)

    def last_batch(self) -> int:
        return self.writer.batch(_PRODUCER)

    def missing(self, counted: int) -> Loss | None:
        """Answers at the end that were there: the log says so, or what was counted."""
        if self.writer.lost_end is not None:
            return self.writer.lost_end
        return Loss(self.rows, counted) if counted > self.rows else None

    def begin_again(self) -> None:
        """Give the numbers of lost answers to the same answers, computed again."""
        self.writer.begin_again()

    def look_after(self) -> None:
        """What is to be done now and then, beside micro-batches: nothing, the writer does it."""

    def close(self) -> None:
        self.writer.close()
