"""A stream without what nobody can read any more: segments of which at least half is dead are written again.

Rows keep their numbers, so a row of which nothing is left stays as one that says nothing, unless it is among the first
of the stream. A segment is written beside the old one, which is deleted then: whoever has that mapped goes on with it,
and whoever lists both takes the smaller one (`segment.chain`). Small ones that lie beside each other become one.

What is dead is for others to say (`Contents`): `clearing` knows a log of many, `operators.together.listing` a list of
members.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Protocol

import pyarrow as pa

from anabranch.log.segment import Segment, open_segment
from anabranch.log.writer import StreamWriter


class Contents(Protocol):
    """What is known of the rows of a stream."""

    def wants(self, first: int) -> bool:
        """Whether the segment that begins with a row is to be looked at."""
        ...

    def look(self, first: int, rows: pa.Table) -> int:
        """About how many bytes of the rows from number `first` on are dead."""
        ...

    def cleared(self, first: int, rows: pa.Table) -> pa.Table:
        """As many rows, without those bytes."""
        ...

    def is_empty(self, first: int, rows: pa.Table) -> bool:
        """Whether nothing is left in any of them."""
        ...

    def letting_go(self, end: int) -> None:
        """The rows before `end` are about to be deleted."""
        ...


class Compaction:
    """One round through the closed segments of a stream, a segment in each step."""

    def __init__(self, writer: StreamWriter) -> None:
        self._left = deque(segment.first for segment in writer.closed())

    def step(self, writer: StreamWriter, contents: Contents) -> bool:
        """Look at one more segment; False once all were looked at, and those that are empty let go."""
        closed = writer.closed()
        at = {segment.first: place for place, segment in enumerate(closed)}
        while self._left:
            place = at.get(self._left.popleft())
            if place is not None and contents.wants(closed[place].first):
                _look_at(closed, place, writer, contents)
                return True
        self._let_go(closed, writer, contents)
        return False

    @staticmethod
    def _let_go(closed: list[Segment], writer: StreamWriter, contents: Contents) -> None:
        """Those at the beginning of which nothing is left."""
        empty = list(itertools.takewhile(lambda part: contents.is_empty(part.first, _rows(writer, part)), closed))
        if empty:
            contents.letting_go(empty[-1].end)
            writer.let_go(empty)


def _look_at(closed: list[Segment], place: int, writer: StreamWriter, contents: Contents) -> None:
    """Write a segment again if it pays; with the one before it if both are small."""
    segment = closed[place]
    rows = _rows(writer, segment)
    if 2 * contents.look(segment.first, rows) < segment.size:
        return
    rows, group = contents.cleared(segment.first, rows), [segment]
    before = closed[place - 1] if place else None
    if before is not None and before.end == segment.first and before.size + rows.nbytes <= writer.segment_bytes // 2:
        older = _rows(writer, before)
        # What is empty may be let go one day, and does not become part of what is not.
        if contents.is_empty(before.first, older) == contents.is_empty(segment.first, rows):
            rows, group = pa.concat_tables([older, rows]), [before, segment]
    writer.rewrite(group, rows.combine_chunks())


def _rows(writer: StreamWriter, segment: Segment) -> pa.Table:
    return open_segment(writer.storage.child("segments"), segment, writer.info.schema.arrow, writer.info.name)
