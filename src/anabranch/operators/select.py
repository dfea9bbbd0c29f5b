"""Select: the rows of one stream that pass a filter, with computed columns."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.operators.base import Inputs, Offset, Offsets, Operator, Task
from anabranch.operators.columns import Bound, bind, columns_of, project

ROWS_PER_TASK = 500_000
"""Below this, starting another task costs more than it gains."""
_ROWS_PER_READ = 1 << 18
ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class SelectRows(Operator):
    """Rows of `stream` where `filter` is true, as `columns` of (name, SQL expression)."""

    kind: ClassVar[str] = "select"
    throws_what_it_leaves: ClassVar[bool] = True

    stream: str
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

    def condition(self) -> tuple[str | None, str]:
        return self.filter, self.stream

    def schema(self, inputs: Inputs) -> pa.Schema:
        return _program(self, inputs.readers[self.stream].schema).schema

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = start[self.stream], end[self.stream]
        rows = high.row - low.row
        if rows <= 0:
            return []
        count = max(1, min(parallelism, rows // ROWS_PER_TASK))
        cuts = [low, *(Offset(low.row + rows * i // count, low.time) for i in range(1, count)), high]
        return [Task({self.stream: a}, {self.stream: b}) for a, b in itertools.pairwise(cuts)]

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        reader = inputs.readers[self.stream]
        program = _program(self, reader.schema)
        begin, end = task.start[self.stream].row, task.end[self.stream].row
        for low in range(begin, end, _ROWS_PER_READ):
            table = reader.read(low, min(low + _ROWS_PER_READ, end), program.reads)
            rows = table.num_rows
            inputs.work.rows_read += rows
            inputs.work.bytes_read += table.nbytes
            if program.filter is not None:
                table = table.filter(program.filter.evaluate(table))
                inputs.work.rows_thrown += rows - table.num_rows
            if table.num_rows:
                yield from project(table, program.columns, program.schema).to_batches(max_chunksize=ROWS_PER_BATCH)

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
    """The operator bound to the schema of its stream."""

    filter: Bound | None
    columns: tuple[Bound, ...]
    schema: pa.Schema
    reads: list[str]


@functools.lru_cache(maxsize=256)
def _program(select: SelectRows, source: pa.Schema) -> _Program:
    columns = tuple(bind(sql, source) for _, sql in select.columns)
    kept = None if select.filter is None else bind(select.filter, source)
    schema = pa.schema([(name, column.type) for (name, _), column in zip(select.columns, columns, strict=True)])
    # A projection of constants still needs a column to know how many rows there are.
    reads = columns_of([*columns, *([kept] if kept else [])], source) or source.names[:1]
    return _Program(kept, columns, schema, reads)
