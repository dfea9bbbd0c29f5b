"""Whole: a question that is asked anew as a whole whenever something has changed, and compared with the answer before.

The change of any query is the difference between its answers before and after. What cannot be kept by what changes
(a function that only Spark SQL has, say) is answered so: an engine is asked over all rows there are at the end of a
micro-batch, and what came and went since the answer before is the answer of the micro-batch. It costs what the
question costs, however little has changed.

Here is which rows these are; `queries.differences` asks, and compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from anabranch.operators.base import (
    MIN_TIME,
    Floor,
    Inputs,
    Keeps,
    Offset,
    Offsets,
    Operator,
    Task,
    first_time,
)
from anabranch.operators.offset import NOT_BEGUN
from anabranch.operators.select import SelectRows
from anabranch.operators.table.scan import TableScan
from anabranch.operators.table.states import oldest_state
from anabranch.operators.tree.answer import BEGINNING, answer_schema
from anabranch.schema import arrow_type
from anabranch.tables.declaration import NUMBER

HOW = "re-evaluated: asked anew of Spark SQL, over all rows there are, when anything has changed"


class There(NamedTuple):
    """Of an input: the number of the first row that counts, and of the first that is not taken in."""

    first: int
    end: int


@dataclass(frozen=True)
class Whole(Operator):
    """The answer of `sql`, which reads views: (name of the view, what reads its rows).

    `types`: the columns of the answer, (name, SQL type). `key` are those of them that differ in each row; without it
    all columns and a number do. `after`: rows of streams go once they are so much (µs) older than the time that all
    streams have reached; None: they stay. `why`: what of the question cannot be kept by what changes.
    """

    kind: ClassVar[str] = "whole"
    is_cut_anew: ClassVar[bool] = True
    answers_over_nothing: ClassVar[bool] = True
    asked_by_its_host: ClassVar[bool] = True
    reads_history: ClassVar[bool] = True
    why_stream: ClassVar[str] = "what changes of the answer"
    why_store: ClassVar[str] = "the rows of the answer"
    why_throw: ClassVar[str] = "nothing: all rows are read again"

    sql: str
    views: tuple[tuple[str, SelectRows | TableScan], ...]
    types: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    why: str
    after: int | None = None
    is_one_row: bool = False
    time: str = "_time"

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(read.inputs[0] for _, read in self.views))

    @property
    def _streams(self) -> tuple[str, ...]:
        """Those whose rows come and stay; the others are changes of tables."""
        return tuple(dict.fromkeys(read.stream for _, read in self.views if isinstance(read, SelectRows)))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.types)

    @property
    def rows(self) -> pa.Schema:
        """The columns of the answer."""
        return pa.schema([pa.field(name, arrow_type(sql)) for name, sql in self.types])

    @property
    def answer_key(self) -> tuple[str, ...]:
        return (NUMBER,) if self.is_one_row else self.key or (*self.columns, NUMBER)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return answer_schema(self.rows, self.columns, numbered=not self.key)

    # -- what is asked -----------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        return []  # an engine is asked, not its tasks

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        yield from ()

    def changes(self, start: Offsets, end: Offsets, inputs: Inputs) -> bool:
        """Whether anything has come or gone in a micro-batch; in the first one there is an answer in any case."""
        begins = not any(offset.has_begun for offset in start.values())
        return begins or self.there(start, inputs) != self.there(end, inputs)

    def there(self, at: Offsets, inputs: Inputs) -> dict[str, There]:
        """All rows there are at some offsets, by input."""
        oldest = self._oldest(at)
        there = {name: There(0, offset.row) for name, offset in at.items()}
        if oldest is not None:
            for name in self._streams:
                there[name] = There(inputs.readers[name].row_at_time(oldest, at[name].row), at[name].row)
        return there

    def rows_of_streams(self, at: Offsets, inputs: Inputs) -> int:
        """How many rows of streams that are; tables have theirs in any case."""
        there = self.there(at, inputs)
        return sum(there[name].end - max(there[name].first, inputs.readers[name].first_row()) for name in self._streams)

    def _oldest(self, at: Offsets) -> int | None:
        """The time from which on rows of streams count; None: all do."""
        reached = self.reached(at)
        return None if self.after is None or reached == MIN_TIME else reached - self.after

    # -- what it has reached and needs -------------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        """The time of its streams; that of tables is the clock, which says nothing of them."""
        return min(end[name].time for name in self._streams or self.inputs)

    def time_of_answer(self, end: Offsets) -> int:
        """What is written beside what changes."""
        return max(self.reached(end), BEGINNING)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        oldest = self._oldest(at)
        if oldest is None or self.after is None:
            return {}
        times = [first_time(inputs.readers[name], oldest, at[name].row) for name in self._streams]
        known = [time for time in times if time is not None]
        return dict.fromkeys(self._streams, min(known) + self.after + 1) if known else {}

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """All rows of streams that count, and of tables the state at `at`."""
        oldest = self._oldest(at)
        floors = {name: Floor(row=at[name].row) for name in self.inputs}
        return floors | {name: Floor(at[name].row, MIN_TIME if oldest is None else oldest) for name in self._streams}

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        """With the rows that streams and their archives hold, and with tables as they are in the oldest state."""
        readers = {name: inputs.readers[name] for name in self.inputs}
        return {
            name: Offset(max(reader.first_row(), oldest_state(reader)), every=NOT_BEGUN)
            for name, reader in readers.items()
        }

    def keeps(self) -> Keeps:
        if not self._streams:
            return Keeps("nothing: tables and views that are read again have their rows", "their keys")
        bound = "until they expire" if self.after is not None else "ACCEPT UNBOUNDED"
        return Keeps(f"all rows of {', '.join(self._streams)}, which are read again", bound)

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "views": [[view, read.to_json()] for view, read in self.views]}

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "goes_on": HOW,
            "because": self.why,
            "sql": self.sql,
            "key": list(self.answer_key),
            "reads": [{"stream": read.inputs[0], "filter": read.filter} for _, read in self.views],
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }
