"""TreeOfWindows: a question over answers of windows, answered for good window by window.

The windows of all its parts end together, and a window is answered when all streams have reached its end. Each row of
the tree carries the end of the window that it is of, and only rows of the same window meet (`sql.trees.windows`). So
windows have nothing to do with one another, nothing is remembered between micro-batches, and many are answered at once.
Windows in which no part has a row are not answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, Offset, Offsets, Operator, Task
from anabranch.operators.tree.entering import (
    Taken,
    all_of,
    at_time,
    entering,
    inputs_of,
    inputs_of_part,
    of_part,
    parts_of,
)
from anabranch.operators.tree.explain import explain_tree
from anabranch.operators.tree.final import final_rows, final_schema
from anabranch.operators.tree.flow import Flow, part_name
from anabranch.operators.tree.needed import kept_with_parts, needed_by_both
from anabranch.operators.tree.nodes import nodes_from_text
from anabranch.operators.windows.explain import measure

_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class TreeOfWindows(Operator):
    """The answer of `nodes`, with columns named `columns`, and the end of its window.

    That is `time`, one of the columns or one more. `order` sorts the rows of a window: (place of a column, descending,
    NULLs first).
    """

    kind: ClassVar[str] = "tree_of_windows"
    why_store: ClassVar[str] = "the newest window"

    nodes: str
    columns: tuple[str, ...]
    time: str
    order: tuple[tuple[int, bool, bool], ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return inputs_of(self.nodes)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return final_schema(self._flow(inputs).schema, self.columns, self.time)

    # -- plan and run ------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = self._time(start), self._time(end)
        return [Task(dict(start), dict(end))] if low != high else []

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        start, end = self._taken(task.start, inputs), self._taken(task.end, inputs)
        came = entering(self.nodes, start, end, inputs)
        if came:
            flow = self._flow(inputs)
            schema = final_schema(flow.schema, self.columns, self.time)
            answer = final_rows(flow.take(came, end.time), schema, self.order)
            yield from answer.to_batches(max_chunksize=_ROWS_PER_BATCH)

    def _time(self, at: Offsets) -> int:
        return min(at[name].time for name in self.inputs)

    def _taken(self, at: Offsets, inputs: Inputs) -> Taken:
        """What has come when all streams have reached the same time."""
        time = self._time(at)
        return all_of(self.nodes, at_time(time, {name: at[name] for name in self.inputs}, inputs), time)

    def _flow(self, inputs: Inputs) -> Flow:
        schemas = {part_name(number): part.schema(inputs) for number, part in parts_of(self.nodes).items()}
        return Flow(nodes_from_text(self.nodes), schemas)

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def _aligned(self, at: Offsets) -> dict[str, Offset]:
        time = self._time(at)
        return {name: at[name]._replace(time=time) for name in self.inputs}

    def reached(self, end: Offsets) -> int:
        """The end of the next window: no answer comes before that."""
        aligned = self._aligned(end)
        return min(part.reached(of_part(part, aligned)) for part in parts_of(self.nodes).values())

    @property
    def answers_of_windows(self) -> tuple[int, int]:
        windows = [part.answers_of_windows for part in parts_of(self.nodes).values()]
        known = [window for window in windows if window is not None]
        return known[0][0], max(size for _, size in known)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        aligned = self._aligned(at)
        times = [
            time
            for number, part in parts_of(self.nodes).items()
            for time in part.due(of_part(part, aligned), inputs_of_part(number, part, inputs)).values()
        ]
        return dict.fromkeys(self.inputs, min(times)) if times else {}

    def current(self, reached: int, newest: int, every: int = 1) -> int:
        slide = self.answers_of_windows[0]
        return (reached - slide) // (slide * every) * (slide * every)

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """What parts look back on, and rows of the very time that is reached, which are taken in later."""
        time, aligned = self._time(at), self._aligned(at)
        floors = {name: Floor(row=at[name].row, time=max(time, MIN_TIME)) for name in self.inputs}
        for part in parts_of(self.nodes).values():
            for name, floor in part.needs(of_part(part, aligned)).items():
                floors[name] = needed_by_both(floors[name], floor)
        return floors

    def keeps(self) -> Keeps | None:
        return kept_with_parts(None, self.nodes)

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        slide, size = self.answers_of_windows
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "window": {"size": measure("time", size), "slide": measure("time", slide)},
            "answers": "the whole answer of each window",
            "goes_on": "window by window, from the answers of its parts; nothing else is remembered",
            "tree": explain_tree(nodes_from_text(self.nodes)).splitlines(),
            "parts": {str(number): part.explain(inputs) for number, part in parts_of(self.nodes).items()},
            "time": self.time,
            "keeps": None if keeps is None else {"what": keeps.what, "bound": keeps.bound},
        }
