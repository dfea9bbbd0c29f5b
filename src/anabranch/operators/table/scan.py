"""TableScan: the rows of a table, asked once."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.operators.base import Inputs, Offset, Offsets, Operator, Task
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.table.states import state_of, store_of
from anabranch.tables.declaration import RESERVED
from anabranch.tables.state import State

ROWS_PER_TASK = 500_000
_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class TableScan(Operator):
    """Rows of the table whose changes are `changes`, in the order of their keys, where `filter` is true.

    They are those after the changes up to the offset at which it is asked; `columns` are (name, SQL expression).
    `key`: of an answer that changes, which has no states of its own.
    """

    kind: ClassVar[str] = "table_scan"
    asked_once: ClassVar[bool] = True

    changes: str
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None
    key: tuple[str, ...] = ()

    def _state(self, at: Offsets, inputs: Inputs) -> State:
        reader, row = inputs.readers[self.changes], at[self.changes].row
        return store_of(reader, row, self.key) if self.key else state_of(reader, row)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.changes,)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return _program(self, _of_rows(inputs.readers[self.changes].schema)).schema

    def bytes_to_read(self, end: Offsets, inputs: Inputs) -> int:
        return 0  # whoever changes tables has their rows at hand

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        rows = len(self._state(end, inputs))
        count = max(1, min(parallelism, rows // ROWS_PER_TASK)) if rows else 0
        at = {self.changes: Offset(end[self.changes].row, end[self.changes].time)}
        return [Task(at, at, {"from": rows * i // count, "to": rows * (i + 1) // count}) for i in range(count)]

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        table = self._state(task.end, inputs).table
        program = _program(self, table.schema)
        table = table.slice(task.detail["from"], task.detail["to"] - task.detail["from"]).select(program.reads)
        inputs.work.rows_read += table.num_rows
        if program.filter is not None:
            table = table.filter(program.filter.evaluate(table))
        if table.num_rows:
            yield from project(table, program.columns, program.schema).to_batches(max_chunksize=_ROWS_PER_BATCH)

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "filter": self.filter,
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": None,
        }


@dataclass(frozen=True)
class _Program:
    """The operator bound to the columns of its table."""

    filter: Bound | None
    columns: tuple[Bound, ...]
    schema: pa.Schema
    reads: list[str]


def _of_rows(changes: pa.Schema) -> pa.Schema:
    """The columns of a table, by those of its changes."""
    return pa.schema([field for field in changes if field.name not in RESERVED])


@functools.lru_cache(maxsize=256)
def _program(scan: TableScan, rows: pa.Schema) -> _Program:
    columns = tuple(bind(sql, rows) for _, sql in scan.columns)
    kept = None if scan.filter is None else bind(scan.filter, rows)
    schema = pa.schema([(name, column.type) for (name, _), column in zip(scan.columns, columns, strict=True)])
    reads = columns_of([*columns, *([kept] if kept else [])], rows) or rows.names[:1]
    return _Program(kept, columns, schema, reads)
