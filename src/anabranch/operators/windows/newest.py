"""The newest window that is complete: the current answer of a query that answers with changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from anabranch.operators.base import MIN_TIME, Inputs, Offset, Offsets

if TYPE_CHECKING:
    from anabranch.operators.windows.aggregate import WindowAggregate
    from anabranch.operators.windows.rows import WindowRows
    from anabranch.operators.windows.sets import WindowSetOperation

    Windowed: TypeAlias = WindowAggregate | WindowSetOperation | WindowRows


def newest_window(operator: Windowed, at: Offsets, inputs: Inputs) -> pa.Table:
    """The answer of the newest window that is complete at `at`."""
    schema = operator.schema(inputs)
    axis = axis_of(operator, at)
    end = 0 if axis is None else operator.panes.next_end(axis) - operator.slide
    if axis is None or (operator.unit == "rows" and end <= 0):
        return schema.empty_table()
    at, inputs = all_windows(at), replace(inputs, scratch=None)
    tasks = operator.plan(just_before(operator, at, end, inputs), at, inputs, 1)
    return pa.Table.from_batches([batch for task in tasks for batch in operator.run(task, inputs)], schema)


def axis_of(operator: Windowed, at: Offsets) -> int | None:
    """How far the answer can be: time, or the number of rows; None before the first row."""
    if operator.unit == "rows":
        return at[operator.inputs[0]].row
    axis = min(at[name].time for name in operator.inputs)
    return None if axis == MIN_TIME else axis


def just_before(operator: Windowed, at: Offsets, end: int, inputs: Inputs) -> dict[str, Offset]:
    """Offsets before `at` where the window that ends at `end` is the next one to be answered."""
    if operator.unit == "rows":
        return {name: Offset(end - 1, at[name].time) for name in operator.inputs}
    return {name: Offset(inputs.readers[name].row_at_time(end - 1, at[name].row), end - 1) for name in operator.inputs}


def all_windows(at: Offsets) -> dict[str, Offset]:
    return {name: offset._replace(every=1) for name, offset in at.items()}
