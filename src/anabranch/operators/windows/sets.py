"""INTERSECT, EXCEPT and UNION of two windowed queries.

Each side counts, window by window, how often each row is there; a window is answered once both
sides have reached its end (L. Golab, S. Garg and M. T. Özsu, 2003, §4.2: set expressions become
incremental with a histogram of each window).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.values import integers, one_array
from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, Offset, Offsets, Operator, Task
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.windowed import window_due
from anabranch.schema import TIME_TYPE
from anabranch.windows.panes.axis import Panes
from anabranch.windows.panes.partials import key_order

COUNT = "__n"
"""The column of a side without aggregates that says how often a row is in the window."""
END = "__end"
"""The column of answers that says which window they are of."""
_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class WindowSetOperation(Operator):
    """Rows of two windowed queries whose windows end together, taken as sets (with `all` as bags).

    Of each side's columns the first are compared, in order and as many as there are `names`; then
    comes `__n` if the side has no aggregates, and its time. The answer has `names` and `time`.
    """

    kind: ClassVar[str] = "window_set_operation"
    why_store: ClassVar[str] = "the newest window"

    operation: Literal["intersect", "except", "union"]
    all: bool
    left: WindowAggregate
    right: WindowAggregate
    names: tuple[str, ...]
    time: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.left.stream, self.right.stream)))

    @property
    def panes(self) -> Panes:
        return self.left.panes

    @property
    def unit(self) -> str:
        return self.left.unit

    @property
    def slide(self) -> int:
        return self.left.slide

    @property
    def size(self) -> int:
        return self.left.size

    def schema(self, inputs: Inputs) -> pa.Schema:
        types = self.left.schema(inputs).types[: len(self.names)]
        return pa.schema([*zip(self.names, types, strict=True), (self.time, TIME_TYPE)])

    # -- plan and run ----------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        return [Task(dict(start), dict(end))] if dict(start) != dict(end) else []

    def _sides(self, at: Offsets, inputs: Inputs) -> dict[str, Offset]:
        """The offsets at which both streams have reached the same time."""
        if self.unit == "rows":
            return dict(at)
        time = self._axis(at)
        every = max(offset.every for offset in at.values())
        if time == MIN_TIME:
            return {name: Offset(inputs.readers[name].first_row(), MIN_TIME, every) for name in self.inputs}
        return {name: Offset(inputs.readers[name].row_at_time(time, at[name].row), time, every) for name in self.inputs}

    def _axis(self, at: Offsets) -> int:
        return min(at[name].time for name in self.inputs)

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        answers = self.answers(task.start, task.end, inputs).drop_columns([END])
        yield from answers.to_batches(max_chunksize=_ROWS_PER_BATCH)

    def answers(self, start: Offsets, end: Offsets, inputs: Inputs) -> pa.Table:
        """The answers from one offset to another, with the end of each row's window."""
        schema = self.schema(inputs)
        if self.unit == "time" and self._axis(end) == MIN_TIME:
            return schema.append(pa.field(END, pa.int64())).empty_table()
        low, high = self._sides(start, inputs), self._sides(end, inputs)
        left, right = (answers_of(side, low, high, inputs) for side in (self.left, self.right))
        return self._combined(left, right, schema)

    def _combined(self, left: pa.Table, right: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows of both sides, each as often as the operation says."""
        ends = np.concatenate([integers(left.column(END)), integers(right.column(END))])
        times = np.concatenate([integers(left.column(self.left.time)), integers(right.column(self.right.time))])
        columns = [
            pa.chunked_array([one_array(table.column(i)).cast(schema.field(i).type) for table in (left, right)])
            for i in range(len(self.names))
        ]
        groups = encode([pa.array(ends), *columns], len(ends))
        split = left.num_rows
        counts = self._multiplicity(
            _counts(left, groups.codes[:split], groups.size), _counts(right, groups.codes[split:], groups.size)
        )
        first = np.full(groups.size, len(ends), np.int64)
        np.minimum.at(first, groups.codes, np.arange(len(ends)))
        first = first[counts > 0]
        values = [one_array(column).take(pa.array(first)) for column in columns]
        order = key_order(ends[first], values)
        rows = np.repeat(order, counts[counts > 0][order])
        arrays = [value.take(pa.array(rows)) for value in values]
        stamp = pa.array(times[first][rows], pa.int64()).view(TIME_TYPE)
        end = pa.array(ends[first][rows], pa.int64())
        return pa.Table.from_arrays([*arrays, stamp, end], schema=schema.append(pa.field(END, pa.int64())))

    def _multiplicity(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self.all:
            left, right = np.minimum(left, 1), np.minimum(right, 1)
        counts: NDArray[np.int64]
        if self.operation == "intersect":
            counts = np.minimum(left, right)
        elif self.operation == "except":
            counts = np.maximum(left - right, 0)
        else:
            counts = left + right if self.all else np.maximum(left, right)
        return counts

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        axis = self._axis(end)
        return axis if self.unit == "rows" or axis == MIN_TIME else self.panes.next_end(axis)

    @property
    def answers_of_windows(self) -> tuple[int, int] | None:
        return self.left.answers_of_windows

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        return window_due(self, at, inputs, self.size)

    def current(self, reached: int, newest: int, every: int = 1) -> int:
        return self.left.current(reached, newest, every)

    def needs(self, at: Offsets) -> dict[str, Floor]:
        if self.unit == "rows":
            return self.left.needs(at)
        axis = self._axis(at)
        # Rows of the very time that is reached are taken in with the next batch.
        time = MIN_TIME if axis == MIN_TIME else min(axis, self.panes.first_needed(axis) * self.panes.length)
        return {name: Floor(row=at[name].row, time=time) for name in self.inputs}

    def keeps(self) -> Keeps | None:
        keeps = self.left.keeps()
        return Keeps("how often each row is in each pane, for both sides", keeps.bound if keeps else "")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "operation": f"{self.operation}{' all' if self.all else ''}",
            "left": self.left.explain(inputs),
            "right": self.right.explain(inputs),
            "names": list(self.names),
            "time": self.time,
            "keeps": None if keeps is None else {"what": keeps.what, "bound": keeps.bound},
        }

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "left": self.left.to_json(), "right": self.right.to_json()}


def answers_of(operator: WindowAggregate, start: Offsets, end: Offsets, inputs: Inputs) -> pa.Table:
    """The answers of an aggregate from one offset to another, with the end of each row's window."""
    asked = dataclasses.replace(operator, columns=(*operator.columns, (END, "window_end")))
    stream = operator.stream
    alone = dataclasses.replace(inputs, readers={stream: inputs.readers[stream]}, gathers=False)
    tasks = asked.plan({stream: start[stream]}, {stream: end[stream]}, alone, 1)
    batches = [batch for task in tasks for batch in asked.run(task, alone)]
    answers = pa.Table.from_batches(batches, asked.schema(alone))
    at = answers.column_names.index(END)
    return answers.set_column(at, END, pa.array(integers(answers.column(END))))


def _counts(table: pa.Table, codes: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """How often each code is in the table."""
    weights = integers(table.column(COUNT)) if COUNT in table.column_names else np.ones(len(codes), np.int64)
    counts = np.zeros(size, np.int64)
    np.add.at(counts, codes, weights)
    return counts
