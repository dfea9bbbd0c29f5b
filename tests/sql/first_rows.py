"""A toy operator and its shape of SELECT: what one writes to have a new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.base import Inputs, Offsets, Operator, Task
from anabranch.sql import StandingPlan
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.sources import Lookup, scope_of
from anabranch.sql.tree import Select


@dataclass(frozen=True)
class FirstRows(Operator):
    """The first `count` rows of a stream."""

    kind: ClassVar[str] = "first_rows"

    source: str
    count: int
    time: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.source,)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return inputs.readers[self.source].schema

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        return [Task(dict(start), dict(end))] if start[self.source].row < self.count else []

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        low, high = task.start[self.source].row, min(task.end[self.source].row, self.count)
        yield from inputs.readers[self.source].read(low, high).to_batches()

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        reads = [{"stream": self.source, "filter": f"number < {self.count}"}]
        return {"operator": self.kind, "inputs": [self.source], "reads": reads, "time": self.time, "keeps": None}


def is_of_first_rows(select: Select) -> bool:
    return isinstance(select.tree, exp.Select) and select.window is None and bool(select.tree.args.get("limit"))


def plan_first_rows(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    assert isinstance(select.tree, exp.Select)
    scope = scope_of(select, select.tree, lookup)
    count = int(select.tree.args["limit"].expression.name)
    return StandingPlan(FirstRows(scope.stream, count, scope.schema.time), None, scope.schema, scope.schema.time)
