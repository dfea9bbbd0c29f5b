"""A segment: one immutable Arrow IPC file with rows in order of time.

It is the basic window of Golab, Garg and Özsu (2003, §3), the part of STEAM's StreamsQueue that
has overflowed to disk (Hammad et al. 2002), and Spark's replayable source, in one thing. Its name
says all that a reader must know to decide whether to open it: the number of its first row, how
many rows and bytes it has, the times of its first and last row, and the sum of its bytes (XXH3).
A file whose size is not the one in its name is no segment, so its rows are missing; one whose bytes
have another sum is damaged, which is found out when a process first opens it. Segments that older
versions have written have no sum in their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyarrow import ipc

from anabranch.errors import StreamError
from anabranch.log.storage import Storage
from anabranch.log.sums import read_whole

_NAME = re.compile(
    r"seg-([0-9a-f]{16})-([0-9a-f]{10})-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{10})(?:-([0-9a-f]{16}))?\.arrow"
)
_BIAS = 2**63
_NOTES = b"anabranch"
MAX_ROWS = 2**40 - 1


@dataclass(frozen=True, order=True)
class Segment:
    """What a segment's name says: rows first ≤ n < end, from time_first to time_last."""

    first: int
    rows: int
    time_first: int
    time_last: int
    size: int
    sum: int | None = None
    """Of all its bytes; None where an older version wrote it."""

    @property
    def end(self) -> int:
        return self.first + self.rows

    @property
    def name(self) -> str:
        times = f"{self.time_first + _BIAS:016x}-{self.time_last + _BIAS:016x}"
        summed = "" if self.sum is None else f"-{self.sum:016x}"
        return f"seg-{self.first:016x}-{self.rows:010x}-{times}-{self.size:010x}{summed}.arrow"

    @staticmethod
    def named(name: str) -> Segment | None:
        """What a file's name says, whatever the file holds; None if it is not a segment's."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        first, rows, time_first, time_last, size = (int(part, 16) for part in match.groups()[:5])
        if rows == 0:
            return None
        return Segment(
            first, rows, time_first - _BIAS, time_last - _BIAS, size, int(match[6], 16) if match[6] else None
        )

    @staticmethod
    def parse(name: str, size: int) -> Segment | None:
        """The segment of a file's name, or None if the file is not a whole segment."""
        segment = Segment.named(name)
        return segment if segment is not None and segment.size == size else None


def write_segment(
    storage: Storage, table: pa.Table, first: int, times: tuple[int, int], notes: dict[str, Any]
) -> Segment:
    """Write the rows as a segment, durably. `notes` is the writer's own memory (who wrote what)."""
    metadata = {_NOTES: json.dumps(notes).encode()}
    table = table.replace_schema_metadata(metadata)

    def write(sink: Any) -> None:
        with ipc.new_file(sink, table.schema) as out:
            out.write_table(table)

    made: list[Segment] = []

    def name(size: int, sum: int) -> str:
        made.append(Segment(first, table.num_rows, *times, size, sum))
        return made[0].name

    storage.write(write, name)
    return made[0]


def open_segment(storage: Storage, segment: Segment, schema: pa.Schema, stream: str) -> pa.Table:
    """The rows of a segment, whole or none; on a local disk mapped, not read."""
    table = _open(storage, segment, stream)
    if table.num_rows != segment.rows:
        raise damaged(storage, segment, stream, f"it holds {table.num_rows} rows")
    return with_columns(table, schema)


def _open(storage: Storage, segment: Segment, stream: str) -> pa.Table:
    try:
        return read_whole(storage, segment.name, segment.sum)
    except ValueError as problem:
        raise damaged(storage, segment, stream, str(problem)) from None


def damaged(storage: Storage, segment: Segment, stream: str, what: str) -> StreamError:
    """The error where a segment is there and its rows are not."""
    return StreamError(
        "SEGMENT_IS_DAMAGED",
        f'rows {segment.first} to {segment.end - 1} of stream "{stream}" cannot be read',
        detail=f"{storage.full(segment.name)}: {what}",
        hint="anabranch check says what else is damaged, anabranch check --repair what can be done",
    )


def with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns a stream has by now: those that came later are NULL, those not known yet are left out."""
    rows = rows.replace_schema_metadata(None)
    if rows.schema.names == schema.names:
        return rows
    there = set(rows.schema.names)
    columns = [rows.column(f.name) if f.name in there else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def read_notes(storage: Storage, segment: Segment, stream: str) -> dict[str, Any]:
    """What the writer noted when it wrote the segment."""
    metadata = _open(storage, segment, stream).schema.metadata or {}
    return cast("dict[str, Any]", json.loads(metadata.get(_NOTES, b"{}")))


def chain(segments: Iterable[Segment]) -> list[Segment]:
    """The segments in order, each row once.

    When parts are merged into one segment both are there for a moment, or for good if the writer
    died between; the longest that starts at a row stands for those it covers. Of two with the same rows the smaller
    one stands: it was written without what nobody can read any more (`compaction`).
    """
    chosen: list[Segment] = []
    position = -1
    for segment in sorted(segments, key=lambda s: (s.first, -s.rows, s.size)):
        if segment.first >= position:
            chosen.append(segment)
            position = segment.end
    return chosen
