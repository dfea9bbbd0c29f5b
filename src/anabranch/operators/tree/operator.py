"""Tree: any question, answered by what changes.

An answer row says what became of a row of the answer: `_change` (insert, update_before, update_after, delete), the
columns, `_version` (how many rows of all inputs were taken in) and `_time`. Which changes are answered depends on where
micro-batches end, as each says the difference it has made; what they add up to does not. With `every` that does not
depend on them either: each period of the streams' time says the difference that it has made (`periods`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from anabranch.operators.offset import NOT_BEGUN
from anabranch.operators.tree.accounts import KIND, Account
from anabranch.operators.tree.answer import BEGINNING, answer_schema, told
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.checkpoints import rows_at
from anabranch.operators.tree.entering import (
    PARTS,
    Taken,
    all_of,
    at_time,
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
    with_row,
)
from anabranch.operators.tree.explain import described, explain_tree
from anabranch.operators.tree.flow import Flow, part_name
from anabranch.operators.tree.needed import needed_by_both
from anabranch.operators.tree.nodes import Expire, Node, Source, nodes_from_text
from anabranch.operators.tree.periods import Periods, whole_periods
from anabranch.operators.tree.remembered import Memory, Remembered, checkpoints_in, first_row, is_first
from anabranch.operators.windows.explain import measure
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
    answers_over_nothing: ClassVar[bool] = True
    named_in_a_host: ClassVar[str] = "views"
    why_stream: ClassVar[str] = "what changes of the answer"
    why_store: ClassVar[str] = "the rows of the answer"
    why_throw: ClassVar[str] = "rows that a step needs no more"

    nodes: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    time: str = "_time"
    is_one_row: bool = False
    """Whether the answer has one row at most: then its number, which is 0, is its key."""
    bounds: tuple[tuple[int, str], ...] = ()
    """For each node that keeps something, by its number, what bounds that."""
    every: int | None = None
    """How often (µs of the streams' time) it is answered what has changed; None: in each micro-batch."""

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
        if self.every is not None:
            return whole_periods(self.every, start) != whole_periods(self.every, end)
        if any(isinstance(node, Expire) for node in self.tree) and self.reached(start) != self.reached(end):
            return True
        return any(
            part.plan(of_part(part, start), of_part(part, end), inputs_of_part(number, part, inputs), 1)
            for number, part in parts_of(self.nodes).items()
        )

    def taken(self, at: Offsets, inputs: Inputs) -> Taken:
        """What is taken in at some offsets: all there is, or with `every` what is in whole periods."""
        if self.every is None:
            return all_of(self.nodes, at, self.reached(at))
        time = whole_periods(self.every, at)
        return all_of(self.nodes, at_time(time, at, inputs), time)

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        remembered = Remembered(self, inputs)
        memory = remembered.at(task.start)
        end, before = self.taken(task.end, remembered.inputs), dict(memory.flow.accounts)
        steps = self._steps if self.every is None else Periods(self.nodes, self.every).steps
        for until, changes in steps(memory, task.start, end, remembered.inputs):
            time = max(min(until.time, end.time), BEGINNING)
            answer = told(changes, memory.numbers, self, rows_at(until.streams), time)
            yield from answer.to_batches(max_chunksize=_ROWS_PER_BATCH)
        self._tell(memory.flow, before, inputs)
        memory.at, memory.taken = dict(task.end), end
        remembered.put_back(memory)
        inputs.work.keeps(memory.rows, memory.nbytes)

    def _steps(self, memory: Memory, start: Offsets, end: Taken, inputs: Inputs) -> Iterator[tuple[Taken, Changes]]:
        """What a micro-batch changes, window by window."""
        came = entering(self.nodes, memory.taken, end, inputs)
        if is_first(start):  # tables whose first changes are gone: their rows come all at once
            for name, rows in rows_of_tables(self.nodes, start, inputs).items():
                came[name] = together([rows, came[name]], rows.rows.schema) if name in came else rows
        for time, some in window_by_window(came, times_of_parts(self.nodes), end.time, least_stay(self.nodes)):
            yield end._replace(time=time), memory.flow.take(some, time)

    def _tell(self, flow: Flow, before: Mapping[int, Account], inputs: Inputs) -> None:
        """Say what each step has done since."""
        bounds, why, report = dict(self.bounds), flow.why(), {}
        for number, account in flow.accounts.items():
            counts = account.since(before.get(number, Account()))
            inputs.work.rows_thrown += counts["dropped"] + counts["forgotten"]
            report[str(number)] = {
                "does": described(self.tree[number]),
                **counts,
                "keeps": why[number],
                "bound": bounds.get(number, ""),
                "throws": flow.why_thrown(number),
            }
        if report:
            inputs.work.report(KIND, report)

    def flow(self, inputs: Inputs) -> Flow:
        """The steps of the tree, which remember nothing yet."""
        schemas = {stream: with_row(inputs.readers[stream].schema) for stream in sources_of(self.nodes)}
        schemas |= {part_name(number): part.schema(inputs) for number, part in parts_of(self.nodes).items()}
        return Flow(self.tree, schemas)

    # -- what it has reached and needs -------------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        """The time of its streams; that of tables is the clock, which says nothing of them, and feeds are tables.

        Parts with windows have come to the last window that they have answered, for which they count.
        """
        if self.every is not None:
            time = whole_periods(self.every, end)
            return time if time == MIN_TIME else time + self.every
        times = [end[name].time for name in rows_streams(self.nodes)]
        for part in parts_of(self.nodes).values():
            time, windows = part.reached(of_part(part, end)), part.answers_of_windows
            times.append(time if windows is None or time == MIN_TIME else time - windows[0])
        return min(times) if times else min(end[name].time for name in self.inputs)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        if self.every is not None:
            return self._period_due(self.every, at, inputs)
        return self._due(at, self.reached(at), inputs)

    def _due(self, at: Offsets, reached: int, inputs: Inputs) -> dict[str, int]:
        due: dict[str, int] = {}

        def wanted(streams: Iterable[str], time: int) -> None:
            for name in streams:
                due[name] = min(time, due.get(name, time))

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

    def _period_due(self, every: int, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """The end of the next period in which there is a row, or something goes."""
        time = whole_periods(every, at)
        taken = {name: offset._replace(time=time) for name, offset in at.items()}
        times = [wanted - 1 for wanted in self._due(taken, time, inputs).values()]
        waiting = first_time_of_any({name: at[name] for name in rows_streams(self.nodes)}, time, inputs)
        known = [max(moment, time) for moment in (*times, *([] if waiting is None else [waiting]))]
        return dict.fromkeys(self.inputs, (min(known) // every + 1) * every) if known else {}

    def _expiring(self) -> Iterator[tuple[str, int]]:
        """Streams whose rows go, and how long (µs) they count."""
        for node in self.tree:
            source = self.tree[node.input] if isinstance(node, Expire) else None
            if isinstance(node, Expire) and isinstance(source, Source):
                yield source.stream, node.after

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Rows that are not taken in, those that parts look back on, and those that count until they expire."""
        reached = self.reached(at) if self.every is None else whole_periods(self.every, at)
        floors = {name: Floor(row=at[name].row, time=self._waits_from(reached)) for name in self.inputs}
        for part in parts_of(self.nodes).values():
            own = of_part(part, at)
            if self.every is not None:
                own = {name: offset._replace(time=reached) for name, offset in own.items()}
            for name, floor in part.needs(own).items():
                floors[name] = needed_by_both(floors[name], floor)
        for stream, after in self._expiring():
            if reached > MIN_TIME:
                floors[stream] = needed_by_both(floors[stream], Floor(time=reached - after))
        return floors

    def _waits_from(self, reached: int) -> int | None:
        """The time from which on rows are not taken in yet; None: all are."""
        return None if self.every is None else reached

    def held(self, at: Offsets, inputs: Inputs) -> dict[str, Floor]:
        """The same as of the oldest checkpoint."""
        checkpoints = checkpoints_in(inputs)
        known = [] if checkpoints is None else checkpoints.all()
        return self.needs({name: min(known[0].at[name], at[name]) for name in at} if known else at)

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        """With the rows of streams that the log holds, and with tables as they are in the oldest state there is."""
        return {name: Offset(first_row(inputs.readers[name]), every=NOT_BEGUN) for name in self.inputs}

    def expendable(self, scratch: Storage) -> list[Storage]:
        return [scratch.child(PARTS)]

    def keeps(self) -> Keeps | None:
        bounds = list(dict.fromkeys(bound for _, bound in self.bounds))
        return Keeps("rows and totals that changes are compared with", "; ".join(bounds)) if bounds else None

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        said: dict[str, Any] = {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "answers": self.why_stream,
            "key": list(self.answer_key),
        }
        if keeps is not None:
            said["keeps"] = {"what": keeps.what, "bound": keeps.bound}
        flow = None if inputs is None else self.flow(inputs)
        if flow is not None:
            keep = flow.keep_rows()
            said["rows_of_what_it_reads"] = (
                f"kept by {', '.join(f'{number} {self.tree[number].kind}' for number in keep)}"
                if keep
                else "none are kept: the answer is maintained by itself and what comes"
            )
        if self.every is not None:
            said["every"] = measure("time", self.every)
        said["tree"] = explain_tree(self.tree, dict(self.bounds), flow.why() if flow else {}).splitlines()
        return said
