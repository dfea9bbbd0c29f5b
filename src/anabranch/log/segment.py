"""A segment: one immutable Arrow IPC file with rows in order of time.

It is the basic window of Golab, Garg and Özsu (2003, §3), the part of STEAM's StreamsQueue that
has overflowed to disk (Hammad et al. 2002), and Spark's replayable source, in one thing. Its name
says all that a reader must know to decide whether to open it: the number of its first row, how
many rows and bytes it has, and the times of its first and last row. A file whose size is not the
one in its name is torn or foreign, and passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyarrow import ipc

from anabranch.log.storage import Storage

_NAME = re.compile(r"seg-([0-9a-f]{16})-([0-9a-f]{10})-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{10})\.arrow")
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

    @property
    def end(self) -> int:
        return self.first + self.rows

    @property
    def name(self) -> str:
        times = f"{self.time_first + _BIAS:016x}-{self.time_last + _BIAS:016x}"
        return f"seg-{self.first:016x}-{self.rows:010x}-{times}-{self.size:010x}.arrow"

    @staticmethod
    def parse(name: str, size: int) -> Segment | None:
        """The segment of a file's name, or None if the file is not a whole segment."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        first, rows, time_first, time_last, named_size = (int(part, 16) for part in match.groups())
        if named_size != size or rows == 0:
            return None
        return Segment(first, rows, time_first - _BIAS, time_last - _BIAS, size)


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

    def name(size: int) -> str:
        made.append(Segment(first, table.num_rows, *times, size))
        return made[0].name

    storage.write(write, name)
    return made[0]


def open_segment(storage: Storage, segment: Segment, schema: pa.Schema) -> pa.Table:
    """The rows of a segment; on a local disk mapped, not read."""
    return with_columns(ipc.open_file(storage.open_file(segment.name)).read_all(), schema)


def with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns a stream has by now: those that came later are NULL, those not known yet are left out."""
    rows = rows.replace_schema_metadata(None)
    if rows.schema.names == schema.names:
        return rows
    there = set(rows.schema.names)
    columns = [rows.column(f.name) if f.name in there else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def read_notes(storage: Storage, segment: Segment) -> dict[str, Any]:
    """What the writer noted when it wrote the segment."""
    metadata = ipc.open_file(storage.open_file(segment.name)).schema.metadata or {}
    return cast("dict[str, Any]", json.loads(metadata.get(_NOTES, b"{}")))


def chain(segments: Iterable[Segment]) -> list[Segment]:
    """The segments in order, each row once.

    When parts are merged into one segment both are there for a moment, or for good if the writer
    died between; the longest that starts at a row stands for those it covers.
    """
    chosen: list[Segment] = []
    position = -1
    for segment in sorted(segments, key=lambda s: (s.first, -s.rows)):
        if segment.first >= position:
            chosen.append(segment)
            position = segment.end
    return chosen
