"""Questions that summaries answer exactly, and their answers.

An answer has the columns of every reduced read: the keys, for each aggregate x also `x_low` and `x_high`, which are x
itself here, and `_fraction`. That is what was read, rows of summaries and of the stream alike, per row the range has: 1
the first time, next to nothing once all windows are summarised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.archive.summaries.reads import Summarised
from anabranch.archive.summaries.rollups import Shape, is_value, totals
from anabranch.kernels.values import Column, integers
from anabranch.schema import TIME_TYPE

FUNCTIONS = ("count", "sum", "avg", "min", "max")
"""What summaries can tell."""
FRACTION = "_fraction"


@dataclass(frozen=True)
class SummaryQuestion:
    """Aggregates of a range of a stream by plain columns or windows.

    `keys` are output names, each with a column, or with the length in µs of windows whose start is the key.
    `aggregates` are output name, function, and column (None: count(*)). `filter_columns` are those a filter looks at.
    """

    keys: tuple[tuple[str, str | int], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    filter_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns that must be keys of summaries: those of groups and of the filter."""
        grouped = [column for _, column in self.keys if isinstance(column, str)]
        return list(dict.fromkeys([*grouped, *self.filter_columns]))

    @property
    def values(self) -> list[str]:
        """The columns that must be summarised."""
        return list(dict.fromkeys(column for _, _, column in self.aggregates if column is not None))

    def shape(self, every: int) -> Shape:
        """The summaries it needs, and no more; in an order of its own, so that equal needs are equal shapes."""
        return Shape(every, tuple(sorted(self.columns)), tuple(sorted(self.values)))


def why_not(question: SummaryQuestion, shape: Shape, schema: pa.Schema) -> str | None:
    """Why summaries of this shape cannot answer the question exactly; None if they can."""
    for _, function, column in question.aggregates:
        if function not in FUNCTIONS:
            return f"summaries of windows tell {', '.join(FUNCTIONS)}, not {function}"
        if column is not None and (column not in schema.names or not is_value(schema.field(column).type)):
            return f'summaries of windows are of numbers, and "{column}" is none'
    for key in question.columns:
        if key not in shape.keys:
            return f'the summaries are not grouped by "{key}"'
    for value in question.values:
        if value not in shape.values:
            return f'"{value}" is not summarised'
    for name, length in question.keys:
        if isinstance(length, int) and length % shape.every:
            return f'the windows of "{name}" are not made of whole windows of the summaries'
    return None


def answers(question: SummaryQuestion, shapes: Iterable[Shape], schema: pa.Schema) -> Shape | None:
    """Of several summaries those that answer the question exactly with the fewest rows; None if none do."""
    able = [shape for shape in shapes if why_not(question, shape, schema) is None]
    return min(able, key=lambda shape: (-shape.every, len(shape.keys), len(shape.values)), default=None)


def question_by_summaries(
    question: SummaryQuestion, summarised: Summarised, where: Callable[[pa.Table], Column] | None = None
) -> pa.Table:
    """The answer, by keys in order with NULL first. `where` gives true for the summaries whose keys pass the filter."""
    shape, table = summarised.shape, summarised.table
    if where is not None:
        table = table.filter(where(table))
    keys = [_key(table, shape, column) for _, column in question.keys]
    answer, columns = totals(table, shape, keys)
    if not question.keys and not table.num_rows:
        # Without groups there is an answer also about nothing.
        counts = {0, *(shape.value_at(value, "count") - shape.rows_at for value in shape.values)}
        columns = [pa.array([0 if at in counts else None], column.type) for at, column in enumerate(columns)]
    names = [name for name, _ in question.keys]
    for name, function, column in question.aggregates:
        value = _value(columns, shape, function, column)
        names += [name, f"{name}_low", f"{name}_high"]
        answer += [value, value, value]
    rows = len(columns[0])
    return pa.table([*answer, pa.array(np.full(rows, summarised.fraction))], names=[*names, FRACTION])


def _key(table: pa.Table, shape: Shape, column: str | int) -> Column:
    if isinstance(column, str):
        return table.column(2 + shape.keys.index(column))
    return pa.array(integers(table.column(0)) // column * column).view(TIME_TYPE)


def _value(columns: list[pa.Array], shape: Shape, function: str, column: str | None) -> pa.Array:
    if column is None:
        return _double(columns[0])
    first = shape.value_at(column, "count") - shape.rows_at
    count, total, smallest, largest = columns[first : first + 4]
    match function:
        case "count":
            return _double(count)
        case "sum":
            return _double(total)
        case "avg":
            return pc.divide(_double(total), _double(pc.if_else(pc.equal(count, 0), None, count)))
        case "min":
            return smallest
    return largest


def _double(column: pa.Array) -> pa.Array:
    return column if pa.types.is_float64(column.type) else column.cast(pa.float64(), safe=False)
