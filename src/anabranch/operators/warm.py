"""Run the operators once on a handful of rows, so that a fresh process has loaded and compiled all they need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.kernels.ends import Ends
from anabranch.kernels.questions import Intervals, QuestionIndex
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.schema import TIME_TYPE

_ROWS = 8


class _FewRows:
    """A log of a few rows in memory."""

    time_column = "ts"
    skew_us = 0
    identity = "a few rows"
    table = pa.table(
        {
            "key": [str(i % 2) for i in range(_ROWS)],
            "whole": list(range(_ROWS)),
            "real": [i / 2 for i in range(_ROWS)],
            "ts": pa.array(range(_ROWS), pa.int64()).cast(TIME_TYPE),
        }
    )

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        rows = self.table.slice(start, end - start)
        return rows if columns is None else rows.select(columns)

    def row_at_time(self, time: int, end: int) -> int:
        return min(max(time, 0), end)

    def first_row(self) -> int:
        return 0

    def first_logged_row(self) -> int:
        return 0


def warm_up() -> int:
    """Compile the kernels of windowed aggregates, joins and selections; gives the number of answers, for a test."""
    functions = [("sum", "whole"), ("sum", "real"), ("min", "whole"), ("max", "real"), ("stddev", "real")]
    aggregates = tuple((f"a{i}", name, column) for i, (name, column) in enumerate(functions))
    operator = WindowAggregate(
        stream="warm",
        unit="time",
        size=4,
        slide=2,
        keys=(("key", "key"),),
        aggregates=(("n", "count", None), *aggregates),
        columns=(("key", "key"), ("n", "n"), ("_time", "window_end")),
        time="_time",
        filter="whole >= 0",
    )
    join = WindowJoin(
        (("A", "warm", None), ("B", "warm", None)),
        "time",
        ((0, 1, -1, 1),),
        ("`A.whole` = `B.whole`",),
        (("key", "`A.key`"), ("_time", "_time")),
        "_time",
    )
    inputs = Inputs({"warm": _FewRows()})
    answers = 0
    for warmed in (operator, join):
        for task in warmed.plan({"warm": Offset()}, {"warm": Offset(_ROWS, _ROWS)}, inputs, 1):
            answers += sum(batch.num_rows for batch in warmed.run(task, inputs))
    return answers + warm_up_selections()


def warm_up_selections() -> int:
    """Compile the kernels by which the selections of a host are looked up; gives the number of answers."""
    codes = Ends(np.arange(1, _ROWS)).codes(np.arange(_ROWS))
    asked = Intervals(*np.array([(0, 0, 3, 3), (1, 0, 2, 5), (1, 1, 2, 4)], np.int64).T)
    return len(QuestionIndex(2, asked).match([codes, codes]).row)
