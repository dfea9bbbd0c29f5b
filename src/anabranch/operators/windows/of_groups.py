"""What operators have in common that keep something of each group of one stream, in a file for each offset.

It is state: rows that a group has had may be gone long before it is asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from anabranch.operators.base import Floor, Inputs, Offsets, Operator, Task, Work
from anabranch.operators.windows.explain import refuse_values
from anabranch.operators.windows.program import ROW_TIME, Grouping, WindowProgram, bind_program, gather

ROWS_PER_TASK = 500_000
"""A batch is shared out by groups only if each task gets about this many rows."""


@dataclass(frozen=True)
class OfGroups(Operator):
    """`keys`, `aggregates`, `columns`, `filter` and `having` are those of `WindowAggregate`."""

    scratch_is_state: ClassVar[bool] = True

    if TYPE_CHECKING:
        # Fields of the operators themselves, which say in which order.
        @property
        def stream(self) -> str: ...
        @property
        def keys(self) -> tuple[tuple[str, str], ...]: ...
        @property
        def aggregates(self) -> tuple[tuple[str, str, str | None], ...]: ...
        @property
        def columns(self) -> tuple[tuple[str, str], ...]: ...
        @property
        def filter(self) -> str | None: ...
        @property
        def having(self) -> str | None: ...

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

    def condition(self) -> tuple[str | None, str]:
        return self.filter, self.stream

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self.program(inputs).schema

    def program(self, inputs: Inputs) -> WindowProgram:
        """The operator bound to the columns of its stream."""
        raise NotImplementedError

    def tasks(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        """Those of a micro-batch that has something to do: each has some of the groups."""
        low, high = start[self.stream], end[self.stream]
        parts = 1
        if inputs.gathers and self.keys:
            parts = max(1, min(parallelism, (high.row - low.row) // ROWS_PER_TASK))
        return [Task({self.stream: low}, {self.stream: high}, {"part": i, "parts": parts}) for i in range(parts)]

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        return gather(answers, (), None)

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """No row that was taken in: what it needs of them is kept."""
        return {self.stream: Floor(row=at[self.stream].row)}

    def explained(self, window: dict[str, Any], more: dict[str, Any] | None = None) -> dict[str, Any]:
        """What EXPLAIN tells: `window` says what its windows are, `more` comes last."""
        keeps = self.keeps()
        assert keeps is not None
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "window": window,
            "filter": self.filter,
            "keys": dict(self.keys),
            "aggregates": {name: f"{function} of {sql or '*'}" for name, function, sql in self.aggregates},
            "having": self.having,
            "columns": dict(self.columns),
            "time": self.time,
            **(more or {}),
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }


def bound(
    operator: OfGroups, source: pa.Schema, time_column: str, what: str, *, by_rows: bool = False
) -> WindowProgram:
    """Its program; `what` its windows are, for an error where values of rows would have to be kept."""
    columns = operator.columns
    if operator.time == ROW_TIME and ROW_TIME not in dict(columns):
        columns = (*columns, (ROW_TIME, ROW_TIME))
    program = bind_program(
        Grouping(operator.keys, operator.aggregates, columns, where=operator.filter, having=operator.having),
        source=source,
        stream=operator.stream,
        time_column=time_column,
        by_rows=by_rows,
        identity=repr(operator),
    )
    refuse_values(program, operator.aggregates, what)
    return program
