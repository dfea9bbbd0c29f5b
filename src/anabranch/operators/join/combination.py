"""Arithmetic of aggregates over different streams and joins, one period of time after the other.

The fraction of a link's traffic that comes from one customer is such a query: a count over a join
divided by a count over one stream (S. Babu and J. Widom, 2001, §3, Q2).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.values import Column, integers, one_array
from anabranch.operators.base import (
    MIN_TIME,
    Floor,
    Inputs,
    Keeps,
    Offset,
    Offsets,
    Operator,
    Task,
    first_time_of_any,
)
from anabranch.operators.columns import Bound, bind, project
from anabranch.operators.join.operator import at_time
from anabranch.operators.windows.explain import measure
from anabranch.schema import TIME_TYPE
from anabranch.windows.panes.axis import window_starts


@dataclass(frozen=True)
class WindowCombination(Operator):
    """Values of several aggregates of the same periods, combined.

    `parts` are (name, operator, the value where nothing came). An operator answers at most one row a
    period, which has a column of the part's name, and whose time is the end of the period. `columns`
    are the answer's (name, SQL over the parts' names, window_start and window_end).
    """

    kind: ClassVar[str] = "window_combination"
    why_store: ClassVar[str] = "the newest window"

    period: int
    parts: tuple[tuple[str, Operator, Any], ...]
    columns: tuple[tuple[str, str], ...]
    time: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for _, operator, _ in self.parts for name in operator.inputs))

    def canonical(self) -> WindowCombination:
        from anabranch.operators.canonical import numbered

        columns, time = numbered(self.columns, self.time)
        return replace(self, columns=columns, time=time)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self._program(inputs)[1]

    def _program(self, inputs: Inputs) -> tuple[tuple[Bound, ...], pa.Schema]:
        types = tuple(operator.schema(inputs).field(name).type for name, operator, _ in self.parts)
        return _bound(self, types)

    # -- plan and run ----------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = self._whole(start), self._whole(end)
        return [Task(dict(start), dict(end))] if low != high else []

    def _whole(self, at: Offsets) -> int:
        """The end of the last period that all streams have reached."""
        time = min(at[name].time for name in self.inputs)
        return time if time == MIN_TIME else time // self.period * self.period

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        low = at_time(self._whole(task.start), task.start, inputs)
        high = at_time(self._whole(task.end), task.end, inputs)
        operators = [operator for _, operator, _ in self.parts]
        answers = [self._answers(operator, low, high, inputs) for operator in operators]
        times = [integers(answer.column(operator.time)) for answer, operator in zip(answers, operators, strict=True)]
        ends = np.unique(np.concatenate([np.zeros(0, np.int64), *times]))
        if len(ends) == 0:
            return
        columns: dict[str, Column] = {}
        for (name, _, missing), answer, own in zip(self.parts, answers, times, strict=True):
            columns[name] = _at(ends, own, one_array(answer.column(name)), missing)
        columns["window_start"] = pa.array(window_starts(ends, self.period)).view(TIME_TYPE)
        columns["window_end"] = pa.array(ends).view(TIME_TYPE)
        outputs, schema = self._program(inputs)
        yield from project(pa.Table.from_pydict(columns), outputs, schema).to_batches()

    def _answers(self, operator: Operator, low: Offsets, high: Offsets, inputs: Inputs) -> pa.Table:
        own = operator.inputs
        alone = replace(inputs, readers={name: inputs.readers[name] for name in own}, gathers=False)
        tasks = operator.plan({name: low[name] for name in own}, {name: high[name] for name in own}, alone, 1)
        batches = [batch for task in tasks for batch in operator.run(task, alone)]
        return pa.Table.from_batches(batches, operator.schema(alone))

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        whole = self._whole(end)
        return whole if whole == MIN_TIME else whole + self.period

    @property
    def answers_of_windows(self) -> tuple[int, int] | None:
        return self.period, self.period

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """The end of the first period that has rows and is not answered, or in which a part has something due."""
        own = {name: at[name] for name in self.inputs}
        waiting = first_time_of_any(own, self._whole(at), inputs)
        taken_in = at_time(self._whole(at), own, inputs)
        times = [time - 1 for _, part, _ in self.parts for time in part.due(taken_in, inputs).values()]
        first = min([*times, *([] if waiting is None else [waiting])], default=None)
        return {} if first is None else dict.fromkeys(self.inputs, (first // self.period + 1) * self.period)

    def current(self, reached: int, newest: int, every: int = 1) -> int:
        return reached - self.period

    def needs(self, at: Offsets) -> dict[str, Floor]:
        whole = self._whole(at)
        floors: dict[str, Floor] = {}
        for _, operator, _ in self.parts:
            own = {name: Offset(at[name].row, whole) for name in operator.inputs}
            for name, floor in operator.needs(own).items():
                time = min(whole, whole if floor.time is None else floor.time)
                before = floors.get(name, Floor(floor.row, time))
                assert before.time is not None
                floors[name] = Floor(at[name].row, min(time, before.time), max(before.before, floor.before))
        return floors

    def keeps(self) -> Keeps | None:
        kept = [keeps for _, operator, _ in self.parts if (keeps := operator.keeps()) is not None]
        if not kept:
            return None
        return Keeps("; ".join(keeps.what for keeps in kept), "; ".join(keeps.bound for keeps in kept))

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "period": measure("time", self.period),
            "parts": {name: operator.explain(inputs) for name, operator, _ in self.parts},
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": None if keeps is None else {"what": keeps.what, "bound": keeps.bound},
        }

    def to_json(self) -> dict[str, Any]:
        parts = [[name, operator.to_json(), missing] for name, operator, missing in self.parts]
        return {**super().to_json(), "parts": parts}


@functools.lru_cache(maxsize=256)
def _bound(operator: WindowCombination, types: tuple[pa.DataType, ...]) -> tuple[tuple[Bound, ...], pa.Schema]:
    fields = [(name, type_) for (name, _, _), type_ in zip(operator.parts, types, strict=True)]
    inner = pa.schema([*fields, ("window_start", TIME_TYPE), ("window_end", TIME_TYPE)])
    columns = tuple(bind(sql, inner) for _, sql in operator.columns)
    answer = pa.schema([(name, column.type) for (name, _), column in zip(operator.columns, columns, strict=True)])
    return columns, answer


def _at(ends: NDArray[np.int64], own: NDArray[np.int64], values: pa.Array, missing: Any) -> pa.Array:
    """A part's values at the given ends; `missing` where it has none."""
    places = np.searchsorted(own, ends)
    there = places < len(own)
    there[there] = own[places[there]] == ends[there]
    taken = values.take(pa.array(np.where(there, places, 0), mask=~there))
    if missing is None or there.all():
        return taken
    return pc.if_else(pa.array(there), taken, pa.scalar(missing, values.type))
