"""Writing runs of an archive: each job gives one file, and what the table's next commit has to know of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from anabranch.archive.declaration import ROW
from anabranch.archive.reader import HistoryReader
from anabranch.errors import CatalogError
from anabranch.operators.base import Inputs, Offsets, Operator, Task

WRITTEN = pa.schema(
    [
        ("job", pa.int32()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("records", pa.int64()),
        ("stats", pa.string()),
    ]
)


@dataclass(frozen=True)
class ArchiveWrite(Operator):
    """Runs of the archive `archive` of `stream`; `jobs` are (table, first row, end, part of the rows)."""

    kind: ClassVar[str] = "archive_write"
    reads_history: ClassVar[bool] = True
    asked_once: ClassVar[bool] = True

    stream: str
    archive: str
    jobs: tuple[tuple[str, int, int, float], ...]
    time: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return WRITTEN

    def bytes_to_read(self, end: Offsets, inputs: Inputs) -> int:
        reader = inputs.history(self.stream)
        names = reader.schema.names
        return sum(reader.sample_bytes(low, high, names, 1.0) for _, low, high, _ in self.jobs)

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        return [Task({}, {}, {"job": number}) for number in range(len(self.jobs))]

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        number = task.detail["job"]
        table, first, end, rate = self.jobs[number]
        reader = inputs.readers[self.stream]
        assert isinstance(reader, HistoryReader)
        archive = next((a for a in reader.archives if a.info.name == self.archive), None)
        if archive is None:
            raise CatalogError("ARCHIVE_NOT_FOUND", f'stream "{self.stream}" has no archive "{self.archive}"')
        rows = reader.read(first, end)
        inputs.work.rows_read += rows.num_rows
        inputs.work.bytes_read += rows.nbytes
        numbered = rows.append_column(ROW, pa.array(np.arange(first, end)))
        written = archive.layout.write_run(archive.storage, table, numbered, range(first, end), rate)
        values = [[number], *([value] for value in written)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(v, field.type) for v, field in zip(values, WRITTEN, strict=True)], schema=WRITTEN
        )

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        return {"operator": self.kind, "inputs": list(self.inputs), "archive": self.archive, "jobs": len(self.jobs)}
