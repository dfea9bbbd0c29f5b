"""The last rows of each key: for every row, aggregates over it and the rows of its key before it, up to a count.

These are CQL's windows `[PARTITION BY k ROWS n]`. Each row that WHERE keeps has one answer, at once and for good, in
the order of the rows.

What is kept are the last rows of each key, one less than the window has, in a file for each offset. They are state: the
last row of a key that has gone silent may be arbitrarily old, and gone from the log. So what is kept grows with the
number of keys, as totals do (`SINCE`), and not with time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.operators.base import Floor, Inputs, Keeps, Offsets, Operator, Task, Work
from anabranch.operators.windows.explain import refuse_values
from anabranch.operators.windows.folding import Share
from anabranch.operators.windows.last_rows_run import LastRowsRun
from anabranch.operators.windows.program import ROW_TIME, Grouping, WindowProgram, bind_program, gather

ROWS_PER_TASK = 500_000
"""A batch is shared out by keys only if each task gets about this many rows."""


@dataclass(frozen=True)
class LastRows(Operator):
    """Aggregates of the last `count` rows of each key of `stream`, for every row.

    `keys`, `aggregates`, `columns`, `filter` and `having` are those of `WindowAggregate`.
    """

    kind: ClassVar[str] = "last_rows"
    named_in_a_host: ClassVar[str] = "last rows"
    scratch_is_state: ClassVar[bool] = True
    throws_what_it_leaves: ClassVar[bool] = True
    why_throw: ClassVar[str] = "rows that WHERE or HAVING dropped"

    stream: str
    count: int
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None
    having: str | None = None

    def __post_init__(self) -> None:
        if self.count <= 0:
            raise QueryError("WINDOW_SIZE_INVALID", f"the last {self.count} rows were asked for, it must be above 0")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

    def condition(self) -> tuple[str | None, str]:
        return self.filter, self.stream

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self._program(inputs).schema

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = start[self.stream], end[self.stream]
        if low.row >= high.row:
            return []
        parts = 1
        if inputs.gathers and self.keys:
            parts = max(1, min(parallelism, (high.row - low.row) // ROWS_PER_TASK))
        return [Task({self.stream: low}, {self.stream: high}, {"part": i, "parts": parts}) for i in range(parts)]

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        share = Share(task.detail["part"], task.detail["parts"])
        start, end = task.start[self.stream], task.end[self.stream]
        yield from LastRowsRun(self._program(inputs), repr(self), self.count, inputs, start, end, share).batches()

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        return gather(answers, (), None)

    def _program(self, inputs: Inputs) -> WindowProgram:
        reader = inputs.readers[self.stream]
        return _bound(self, reader.schema, reader.time_column)

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """No row that was taken in: the last ones are kept."""
        return {self.stream: Floor(row=at[self.stream].row)}

    def keeps(self) -> Keeps | None:
        return Keeps("what is aggregated of the last rows", f"{self.count - 1} rows per key")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "window": {"last": f"{self.count} rows per key", "answers": "each row"},
            "filter": self.filter,
            "keys": dict(self.keys),
            "aggregates": {name: f"{function} of {sql or '*'}" for name, function, sql in self.aggregates},
            "having": self.having,
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }


@functools.lru_cache(maxsize=256)
def _bound(operator: LastRows, source: pa.Schema, time_column: str) -> WindowProgram:
    columns = operator.columns
    if operator.time == ROW_TIME and ROW_TIME not in dict(columns):
        columns = (*columns, (ROW_TIME, ROW_TIME))
    program = bind_program(
        Grouping(operator.keys, operator.aggregates, columns, where=operator.filter, having=operator.having),
        source=source,
        stream=operator.stream,
        time_column=time_column,
        by_rows=True,
        identity=repr(operator),
    )
    refuse_values(program, operator.aggregates, "the last rows of a key")
    return program
