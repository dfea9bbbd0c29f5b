"""Tree: any question, answered by what changes.

An answer row says what became of a row of the answer: `_change` (insert, update_before, update_after, delete), the
columns, `_version` (how many rows of all inputs were taken in) and `_time`. Which changes are answered depends on where
micro-batches end, as each says the difference it has made; what they add up to does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.log.storage import Storage
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
    first_time_of_any,
)
from anabranch.operators.tree.answer import BEGINNING, answer_schema, told
from anabranch.operators.tree.changes import together
from anabranch.operators.tree.checkpoints import rows_at
from anabranch.operators.tree.entering import (
    PARTS,
    entering,
    inputs_of,
    inputs_of_part,
    least_stay,
    of_part,
    parts_of,
    rows_of_tables,
    rows_streams,
    sources_of,
    times_of_parts,
    window_by_window,
)
from anabranch.operators.tree.explain import explain_tree
from anabranch.operators.tree.flow import Flow, part_name
from anabranch.operators.tree.nodes import Aggregate, Expire, Node, Source, nodes_from_text
from anabranch.operators.tree.remembered import Remembered, checkpoints_in, first_row, is_first
from anabranch.tables.declaration import NUMBER

_ROWS_PER_BATCH = 1 << 17


@dataclass(frozen=True)
class Tree(Operator):
    """The answer of `nodes`, as `nodes_to_text` writes them; the last one is the answer, with columns named `columns`.

    `key` are those of them that differ in each row; without it all columns and a number do, for rows that come twice.
    """

    kind: ClassVar[str] = "tree"
    scratch_is_state: ClassVar[bool] = True
    is_cut_anew: ClassVar[bool] = True
    named_in_a_host: ClassVar[str] = "views"
    why_stream: ClassVar[str] = "what changes of the answer"
    why_store: ClassVar[str] = "the rows of the answer"

    nodes: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    time: str = "_time"
    is_one_row: bool = False
    """Whether the answer has one row at most: then its number, which is 0, is its key."""
    bounds: tuple[tuple[int, str], ...] = ()
    """For each node that keeps something, by its number, what bounds that."""

    @property
    def why_throw(self) -> str:  # type: ignore[override]
        keeps = any(isinstance(node, Aggregate) and node.keep is not None for node in self.tree)
        return "rows that WHERE dropped" + (", and groups past those that are kept" if keeps else "")

    @property
    def tree(self) -> tuple[Node, ...]:
        return nodes_from_text(self.nodes)

    @property
    def inputs(self) -> tuple[str, ...]:
        return inputs_of(self.nodes)

    @property
    def answer_key(self) -> tuple[str, ...]:
        """The columns by which a row of the answer is known."""
        return (NUMBER,) if self.is_one_row else self.key or (*self.columns, NUMBER)

    @property
    def is_numbered(self) -> bool:
        """Whether rows of the answer may be there twice, and are told apart by numbers."""
        return not (self.key or self.is_one_row)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return answer_schema(self.flow(inputs).schema, self.columns, numbered=not self.key)

    # -- plan and run ------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        moved = any(start[name].row != end[name].row for name in self.inputs)
        if not (moved or is_first(start)) and not self._answers_in_silence(start, end, inputs):
            return []
        return [Task(dict(start), dict(end))]

    def _answers_in_silence(self, start: Offsets, end: Offsets, inputs: Inputs) -> bool:
        if any(isinstance(node, Expire) for node in self.tree) and self.reached(start) != self.reached(end):
            return True
        return any(
            part.plan(of_part(part, start), of_part(part, end), inputs_of_part(number, part, inputs), 1)
            for number, part in parts_of(self.nodes).items()
        )

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        remembered = Remembered(self, inputs)
        memory = remembered.at(task.start)
        came, end = entering(self.nodes, task.start, task.end, remembered.inputs), self.reached(task.end)
        if is_first(task.start):  # tables whose first changes are gone: their rows come all at once
            for name, rows in rows_of_tables(self.nodes, task.start, inputs).items():
                came[name] = together([rows, came[name]], rows.rows.schema) if name in came else rows
        thrown = memory.flow.thrown
        for time, some in window_by_window(came, times_of_parts(self.nodes), end, least_stay(self.nodes)):
            changes = memory.flow.take(some, time)
            answer = told(changes, memory.numbers, self, rows_at(task.end), max(min(time, end), BEGINNING))
            yield from answer.to_batches(max_chunksize=_ROWS_PER_BATCH)
        inputs.work.rows_thrown += memory.flow.thrown - thrown
        memory.at = dict(task.end)
        remembered.put_back(memory)
        inputs.work.keeps(memory.rows, memory.nbytes)

    def flow(self, inputs: Inputs) -> Flow:
        """The steps of the tree, which remember nothing yet."""
        schemas = {stream: inputs.readers[stream].schema for stream in sources_of(self.nodes)}
        schemas |= {part_name(number): part.schema(inputs) for number, part in parts_of(self.nodes).items()}
        return Flow(self.tree, schemas)

    # -- what it has reached and needs -------------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        """The time of its streams; that of tables is the clock, which says nothing of them, and feeds are tables.

        Parts with windows have come to the last window that they have answered, for which they count.
        """
        times = [end[name].time for name in rows_streams(self.nodes)]
        for part in parts_of(self.nodes).values():
            time, windows = part.reached(of_part(part, end)), part.answers_of_windows
            times.append(time if windows is None or time == MIN_TIME else time - windows[0])
        return min(times) if times else min(end[name].time for name in self.inputs)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        due: dict[str, int] = {}

        def wanted(streams: Iterable[str], time: int) -> None:
            for name in streams:
                due[name] = min(time, due.get(name, time))

        reached = self.reached(at)
        for number, part in parts_of(self.nodes).items():
            own = of_part(part, at)
            for name, time in part.due(own, inputs_of_part(number, part, inputs)).items():
                wanted([name], time)
            windows = part.answers_of_windows
            if windows is not None and reached > MIN_TIME:
                # What the last window held goes when the next one is over.
                slide, size = windows
                if first_time_of_any(own, reached - size, inputs) is not None:
                    wanted(part.inputs, reached + slide)
        for stream, after in self._expiring():
            oldest = first_time(inputs.readers[stream], reached - after, at[stream].row)
            if oldest is not None:
                wanted(rows_streams(self.nodes), oldest + after + 1)
        return due

    def _expiring(self) -> Iterator[tuple[str, int]]:
        """Streams whose rows go, and how long (µs) they count."""
        for node in self.tree:
            source = self.tree[node.input] if isinstance(node, Expire) else None
            if isinstance(node, Expire) and isinstance(source, Source):
                yield source.stream, node.after

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Rows that are not taken in, those that parts look back on, and those that count until they expire."""
        floors = {name: Floor(row=at[name].row) for name in self.inputs}
        for part in parts_of(self.nodes).values():
            for name, floor in part.needs(of_part(part, at)).items():
                floors[name] = _both(floors[name], floor)
        for stream, after in self._expiring():
            if (reached := self.reached(at)) > MIN_TIME:
                floors[stream] = _both(floors[stream], Floor(time=reached - after))
        return floors

    def held(self, at: Offsets, inputs: Inputs) -> dict[str, Floor]:
        """The same as of the oldest checkpoint."""
        checkpoints = checkpoints_in(inputs)
        known = [] if checkpoints is None else checkpoints.all()
        return self.needs({name: min(known[0].at[name], at[name]) for name in at} if known else at)

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        """With the rows of streams that the log holds, and with tables as they are in the oldest state there is."""
        return {name: Offset(first_row(inputs.readers[name])) for name in self.inputs}

    def expendable(self, scratch: Storage) -> list[Storage]:
        return [scratch.child(PARTS)]

    def keeps(self) -> Keeps | None:
        bounds = list(dict.fromkeys(bound for _, bound in self.bounds))
        return Keeps("rows and totals that changes are compared with", "; ".join(bounds)) if bounds else None

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        said: dict[str, Any] = {"operator": self.kind, "inputs": list(self.inputs), "key": list(self.answer_key)}
        if keeps is not None:
            said["keeps"] = {"what": keeps.what, "bound": keeps.bound}
        why = {} if inputs is None else self.flow(inputs).why()
        said["tree"] = explain_tree(self.tree, dict(self.bounds), why).splitlines()
        return said


def _both(floor: Floor, other: Floor) -> Floor:
    """What is needed by one or the other."""
    rows = [row for row in (floor.row, other.row) if row is not None]
    times = [time for time in (floor.time, other.time) if time is not None]
    return Floor(min(rows, default=None), min(times, default=None), max(floor.before, other.before))
