"""Summaries that a standing query fills as windows close (the eager form of the paper's section 4.2.1).

The layout `windowed_aggregation` is a standing query whose answer has the columns of summaries, so its Stream is
the copy: `eager_select` is its text, `EagerSummaries` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from anabranch.archive.summaries.rollups import Shape, is_value
from anabranch.archive.summaries.time_spans import Span, whole_windows
from anabranch.kernels.values import integers
from anabranch.log.offset import End
from anabranch.schema import StreamSchema


class Answers(Protocol):
    """What is asked of the Stream of the standing query."""

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table: ...

    def row_at_time(self, time: int, end: int) -> int: ...

    def first_row(self) -> int: ...

    def end(self) -> End: ...


def eager_shape(schema: StreamSchema, every: int, keys: Sequence[str], values: Sequence[str] | None = None) -> Shape:
    """What an eager copy keeps: all numbers that are not keys, unless `values` says which."""
    if values is None:
        values = [f.name for f in schema.arrow if f.name not in keys and is_value(f.type)]
    return Shape(every, tuple(keys), tuple(values))


def eager_select(
    stream: str, schema: StreamSchema, every: int, keys: Sequence[str], values: Sequence[str] | None = None
) -> str:
    """The SELECT of the standing query that fills an eager copy.

    >>> cars = StreamSchema.of({"plate": "STRING", "kmh": "INT", "ts": "TIMESTAMP"}, time="ts")
    >>> print(eager_select("cars", cars, 60_000_000, ["plate"]))
    SELECT window_start, window_end, `plate`, count(*) AS `rows`, count(`kmh`) AS `kmh_count`, sum(`kmh`) AS `kmh_sum`,
      min(`kmh`) AS `kmh_min`, max(`kmh`) AS `kmh_max`
      FROM `cars` WINDOW = INTERVAL 60000000 MICROSECONDS GROUP BY `plate`
    """
    shape = eager_shape(schema, every, keys, values)
    written = ["count(*)"]
    for value in shape.values:
        column = _quoted(value)
        # A sum of BIGINTs that does not fit one would stop the query, and with it the copy.
        large = pa.types.is_int64(schema.arrow.field(value).type)
        written += [f"count({column})", f"sum(CAST({column} AS DECIMAL(20, 0)))" if large else f"sum({column})"]
        written += [f"min({column})", f"max({column})"]
    named = [f"{text} AS {_quoted(name)}" for text, name in zip(written, shape.names[shape.rows_at :], strict=True)]
    columns = ["window_start", "window_end", *map(_quoted, shape.keys), *named]
    grouped = f" GROUP BY {', '.join(map(_quoted, shape.keys))}" if shape.keys else ""
    return f"SELECT {', '.join(columns)} FROM {_quoted(stream)} WINDOW = INTERVAL {every} MICROSECONDS{grouped}"


def summaries_of_answer(answer: pa.Table, shape: Shape) -> pa.Table:
    """Answer rows of the standing query as summaries."""
    return answer.select(shape.names)


class EagerSummaries:
    """The summaries in the Stream of a standing query.

    `since`: from which time on the query has seen all rows of the stream; None: from its very first.
    """

    def __init__(self, answers: Answers, shape: Shape, since: int | None = None) -> None:
        self._answers = answers
        self._shape = shape
        self._since = since

    def shapes(self) -> list[Shape]:
        return [self._shape]

    def covered(self, shape: Shape) -> list[Span]:
        first, end = self._answers.first_row(), self._answers.end()
        if shape != self._shape or end.row <= first:
            return []
        (oldest,) = integers(self._answers.read(first, first + 1, ["window_end"]).column(0)).tolist()
        # Of windows that end together some may have gone, or be still to come.
        low = oldest - shape.every if first == 0 else oldest
        span = whole_windows((low if self._since is None else max(low, self._since), end.time - 1), shape.every)
        return [span] if span[0] < span[1] else []

    def read(self, shape: Shape, span: Span) -> pa.Table | None:
        end = self._answers.end().row
        start, stop = (self._answers.row_at_time(time + 1, end) for time in span)
        return summaries_of_answer(self._answers.read(start, stop, shape.names), shape)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
