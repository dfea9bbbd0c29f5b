"""TreeOfRows: a question all of whose answers stay: rows of streams selected, put together, joined, made different.

Rows of one stream are answered in its order. Those of several are answered in order of time, when all streams have
passed it. So the answer is the same however micro-batches are cut: each row carries the time (and of one stream the
number) of the row that has completed it (`sql.trees.stamped`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, Offset, Offsets, Task, first_time_of_any
from anabranch.operators.tree.entering import (
    ROW,
    Taken,
    all_of,
    at_time,
    entering,
    inputs_of_part,
    of_part,
    parts_of,
    sources_of,
)
from anabranch.operators.tree.final import final_rows, final_schema
from anabranch.operators.tree.needed import kept_with_parts, needed_by_both
from anabranch.operators.tree.operator import Tree
from anabranch.operators.tree.remembered import Remembered

_ROWS_PER_BATCH = 1 << 17
_LONGEST = 1 << 50
"""A part is at most this much (µs) behind its streams."""


@dataclass(frozen=True)
class TreeOfRows(Tree):
    """The answer of `nodes`, with columns named `columns`, and `time`, one of them or one more."""

    kind: ClassVar[str] = "tree_of_rows"
    is_cut_anew: ClassVar[bool] = False
    answers_over_nothing: ClassVar[bool] = False
    why_stream: ClassVar[str] = "answers that stay true"
    why_store: ClassVar[str] = "nothing: every answer stays true"

    @property
    def scratch_is_state(self) -> bool:  # type: ignore[override]  # of some it is: those that remember, or whose parts do
        return bool(self.bounds) or any(part.scratch_is_state for part in parts_of(self.nodes).values())

    @property
    def answer_key(self) -> tuple[str, ...]:
        return ()

    @property
    def why_alone(self) -> str | None:
        return "it remembers rows, each query its own" if self.bounds else None

    @property
    def is_numbered(self) -> bool:
        return False

    @property
    def _is_of_one(self) -> bool:
        """Whether rows of one stream are answered as they come."""
        return any(ROW in columns for _, columns in sources_of(self.nodes).values())

    def schema(self, inputs: Inputs) -> pa.Schema:
        return final_schema(self.flow(inputs).schema, self.columns, self.time)

    # -- plan and run ------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = (self.taken(at, inputs) for at in (start, end))
        return [Task(dict(start), dict(end))] if low != high else []

    def taken(self, at: Offsets, inputs: Inputs) -> Taken:
        """All rows of one stream; of several those that are older than what all have reached."""
        if self._is_of_one:
            return all_of(self.nodes, at, self.reached(at))
        time = self.reached(at)
        parts = {
            number: at_time(self._time_of_part(number, at, time), of_part(part, at), inputs)
            for number, part in parts_of(self.nodes).items()
        }
        return Taken(at_time(time, {name: at[name] for name in self.inputs}, inputs), parts, time)

    def _time_of_part(self, number: int, at: Offsets, reached: int) -> int:
        """The last time of the streams of a part up to which it has reached no more than the others."""
        part = parts_of(self.nodes)[number]
        own = of_part(part, at)
        high = min(offset.time for offset in own.values())

        if high == MIN_TIME or part.reached(_at(own, high)) <= reached:
            return high
        low = max(high - _LONGEST, MIN_TIME)
        while low < high - 1:
            middle = (low + high) // 2
            low, high = (middle, high) if part.reached(_at(own, middle)) <= reached else (low, middle)
        return low

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        start, end = self.taken(task.start, inputs), self.taken(task.end, inputs)
        if not self.bounds:  # nothing is remembered
            flow = self.flow(inputs)
            changes = flow.take(entering(self.nodes, start, end, inputs), end.time)
            self._tell(flow, {}, inputs)
        else:
            remembered = Remembered(self, inputs)
            memory = remembered.at(task.start)
            flow, before = memory.flow, dict(memory.flow.accounts)
            changes = flow.take(entering(self.nodes, start, end, remembered.inputs), end.time)
            self._tell(flow, before, inputs)
            memory.at, memory.taken = dict(task.end), end
            remembered.put_back(memory)
            inputs.work.keeps(memory.rows, memory.nbytes)
        answer = final_rows(changes, final_schema(flow.schema, self.columns, self.time))
        yield from answer.to_batches(max_chunksize=_ROWS_PER_BATCH)

    # -- what it has reached and needs -------------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        times = [end[name].time for name in sources_of(self.nodes)]
        return min([*times, *(part.reached(of_part(part, end)) for part in parts_of(self.nodes).values())])

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """When all streams have passed the oldest row that waits, or a part answers."""
        own = {name: at[name] for name in self.inputs}
        taken = self.taken(own, inputs)
        wanted: list[int] = []
        if not self._is_of_one:
            waiting = first_time_of_any({name: own[name] for name in sources_of(self.nodes)}, taken.time, inputs)
            wanted += [] if waiting is None else [waiting + 1]
        for number, part in parts_of(self.nodes).items():
            time = min(offset.time for offset in taken.parts[number].values())
            clamped = _at(of_part(part, own), time)
            times = list(part.due(clamped, inputs_of_part(number, part, inputs)).values())
            if not times and (waiting := first_time_of_any(clamped, time, inputs)) is not None:
                times = [waiting + 1]
            wanted += [part.reached(_at(clamped, time)) for time in times]
        return dict.fromkeys(self.inputs, self._time_to_reach(min(wanted), own)) if wanted else {}

    def _time_to_reach(self, wanted: int, at: Offsets) -> int:
        """The first time of all streams at which the answer has reached a time."""
        low, high = wanted, wanted + _LONGEST
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.reached(_at(at, middle)) >= wanted else (middle + 1, high)
        return high

    def needs(self, at: Offsets) -> dict[str, Floor]:
        floors = {name: Floor(row=at[name].row) for name in self.inputs}
        if self._is_of_one:
            return floors
        reached = self.reached(at)
        for name in sources_of(self.nodes):
            floors[name] = needed_by_both(floors[name], Floor(time=reached))
        for number, part in parts_of(self.nodes).items():
            time = self._time_of_part(number, at, reached)
            for name, floor in part.needs(_at(of_part(part, at), time)).items():
                floors[name] = needed_by_both(needed_by_both(floors[name], floor), Floor(time=time))
        return floors

    def held(self, at: Offsets, inputs: Inputs) -> dict[str, Floor]:
        return super().held(at, inputs) if self.bounds else self.needs(at)

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        return {name: Offset(inputs.readers[name].first_row()) for name in self.inputs}

    def keeps(self) -> Keeps | None:
        return kept_with_parts(super().keeps(), self.nodes)

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        said = {"keeps": None, **super().explain(inputs)}
        del said["key"]
        return {**said, "time": self.time}


def _at(offsets: Offsets, time: int) -> dict[str, Offset]:
    """Offsets as if all streams had come to a time."""
    return {name: offset._replace(time=time) for name, offset in offsets.items()}
