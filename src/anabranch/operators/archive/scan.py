"""ArchiveScan: rows of a stream's past, all of them or those that a reducer leaves."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.archive.reducers import Spec
from anabranch.operators.archive.pieces import HistoryScan, told
from anabranch.operators.base import Inputs, Offsets, Operator, Task
from anabranch.operators.columns import Bound, bind, columns_of, project

FRACTION = "_fraction"
"""The column that says of which part of the rows a row is one."""
_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class ArchiveScan(Operator):
    """Rows of `stream` from `since` to before `until` (µs) where `filter` is true, as `columns` of (name, SQL).

    With a `reducer` only a part of them; `_fraction` says for each row how large that part was where it comes from.
    """

    kind: ClassVar[str] = "archive_scan"
    reads_history: ClassVar[bool] = True
    asked_once: ClassVar[bool] = True

    stream: str
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None
    since: int | None = None
    until: int | None = None
    reducer: Spec | None = None
    archive: str | None = None
    """The name of the archive to read; None: whichever has least to read."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return _program(self, inputs.readers[self.stream].schema).answer

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        log = inputs.history(self.stream, self.archive)
        program = _program(self, log.schema)
        return program.scan.plan(self.stream, start[self.stream], end[self.stream], log, parallelism)

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        log = inputs.history(self.stream, self.archive)
        program = _program(self, log.schema)
        for sample in program.scan.samples(task, task.end[self.stream].time, log, inputs.work):
            rows = sample.rows
            if program.filter is not None:
                rows = rows.filter(program.filter.evaluate(rows))
                inputs.work.rows_thrown += sample.rows.num_rows - rows.num_rows
            if not rows.num_rows:
                continue
            answer = project(rows, program.columns, program.schema)
            if self.reducer is not None:
                answer = answer.append_column(program.answer.field(FRACTION), pa.repeat(sample.keep, rows.num_rows))
            yield from answer.to_batches(max_chunksize=_ROWS_PER_BATCH)

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "archive": self.archive,
            "since": self.since,
            "until": self.until,
            "reducer": told(self.reducer),
            "filter": self.filter,
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": None,
        }


@dataclass(frozen=True)
class _Program:
    """An ArchiveScan bound to the schema of its stream."""

    filter: Bound | None
    columns: tuple[Bound, ...]
    schema: pa.Schema
    answer: pa.Schema
    scan: HistoryScan


@functools.lru_cache(maxsize=256)
def _program(scan: ArchiveScan, source: pa.Schema) -> _Program:
    columns = tuple(bind(sql, source) for _, sql in scan.columns)
    kept = None if scan.filter is None else bind(scan.filter, source)
    schema = pa.schema([(name, column.type) for (name, _), column in zip(scan.columns, columns, strict=True)])
    answer = schema if scan.reducer is None else schema.append(pa.field(FRACTION, pa.float64()))
    reads = columns_of([*columns, *([kept] if kept else [])], source)
    return _Program(kept, columns, schema, answer, HistoryScan(scan.since, scan.until, reads, scan.reducer))
