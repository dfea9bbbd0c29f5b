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
from anabranch.operators.base import Inputs, Keeps, Offsets, Task
from anabranch.operators.windows.folding import Share
from anabranch.operators.windows.last_rows_run import LastRowsRun
from anabranch.operators.windows.of_groups import OfGroups, bound
from anabranch.operators.windows.program import WindowProgram


@dataclass(frozen=True)
class LastRows(OfGroups):
    """Aggregates of the last `count` rows of each key of `stream`, for every row.

    `keys`, `aggregates`, `columns`, `filter` and `having` are those of `WindowAggregate`.
    """

    kind: ClassVar[str] = "last_rows"
    named_in_a_host: ClassVar[str] = "last rows"
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

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        if start[self.stream].row >= end[self.stream].row:
            return []
        return self.tasks(start, end, inputs, parallelism)

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        share = Share(task.detail["part"], task.detail["parts"])
        start, end = task.start[self.stream], task.end[self.stream]
        yield from LastRowsRun(self.program(inputs), repr(self), self.count, inputs, start, end, share).batches()

    def program(self, inputs: Inputs) -> WindowProgram:
        reader = inputs.readers[self.stream]
        return _bound(self, reader.schema, reader.time_column)

    def keeps(self) -> Keeps | None:
        return Keeps("what is aggregated of the last rows", f"{self.count - 1} rows per key")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        return self.explained({"last": f"{self.count} rows per key", "answers": "each row"})


@functools.lru_cache(maxsize=256)
def _bound(operator: LastRows, source: pa.Schema, time_column: str) -> WindowProgram:
    return bound(operator, source, time_column, "the last rows of a key", by_rows=True)
