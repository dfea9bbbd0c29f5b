"""Tree: any question, answered by what changes.

An answer row says what became of a row of the answer: `_change` (insert, update_before, update_after, delete), the
columns, `_version` (how many rows of all inputs were taken in) and `_time`. Which changes are answered depends on where
micro-batches end, as each says the difference it has made; what they add up to does not.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.values import integers
from anabranch.log.storage import Storage
from anabranch.operators import operator_from_json
from anabranch.operators.base import (
    MIN_TIME,
    Floor,
    Inputs,
    Keeps,
    LogReader,
    Offset,
    Offsets,
    Operator,
    Task,
    first_time,
    first_time_of_any,
)
from anabranch.operators.live import Live
from anabranch.operators.table.states import oldest_state, state_of
from anabranch.operators.tree.answer import answer_schema, told
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.checkpoints import Checkpoints, rows_at
from anabranch.operators.tree.explain import explain_tree
from anabranch.operators.tree.flow import Flow, part_name
from anabranch.operators.tree.nodes import Expire, Node, Part, Source, nodes_from_text
from anabranch.tables.changes import comes
from anabranch.tables.declaration import CHANGE, NUMBER

_LEAST_BETWEEN = 200_000
"""Rows between two checkpoints, at least."""
_ROWS_AT_ONCE = 1 << 19
_ROWS_PER_BATCH = 1 << 17
_PARTS, _STATES = "parts", "states"
"""In the scratch: what parts keep that can be computed again, and what cannot. The latter stays for each checkpoint."""
_BEGINNING = -62_135_596_800_000_000
"""The year 1, as the time of an answer before any stream has one."""


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
    why_throw: ClassVar[str] = "rows that WHERE dropped"

    nodes: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    time: str = "_time"
    is_one_row: bool = False
    """Whether the answer has one row at most: then its number, which is 0, is its key."""
    bounds: tuple[tuple[int, str], ...] = ()
    """For each node that keeps something, by its number, what bounds that."""

    @property
    def tree(self) -> tuple[Node, ...]:
        return nodes_from_text(self.nodes)

    @property
    def inputs(self) -> tuple[str, ...]:
        return _inputs_of(self.nodes)

    @property
    def answer_key(self) -> tuple[str, ...]:
        """The columns by which a row of the answer is known."""
        return (NUMBER,) if self.is_one_row else self.key or (*self.columns, NUMBER)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return answer_schema(self.flow(inputs).schema, self.columns, numbered=not self.key)

    # -- plan and run ------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        moved = any(start[name].row != end[name].row for name in self.inputs)
        if not (moved or _is_first(start)) and not self._answers_in_silence(start, end, inputs):
            return []
        return [Task(dict(start), dict(end))]

    def _answers_in_silence(self, start: Offsets, end: Offsets, inputs: Inputs) -> bool:
        if any(isinstance(node, Expire) for node in self.tree) and self.reached(start) != self.reached(end):
            return True
        return any(part.plan(_of(part, start), _of(part, end), inputs, 1) for part in _parts(self.nodes).values())

    def _begins_with_rows(self, start: Offsets) -> bool:
        """Whether a first micro-batch finds tables whose first changes are gone: their rows come all at once."""
        tables = (start[name].row for name, (form, _) in _sources(self.nodes).items() if form == "changes")
        return _is_first(start) and any(tables)

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        kept = _Kept(self, inputs)
        inputs = kept.inputs
        memory = kept.at(task.start)
        came, end = self._entering(task.start, task.end, inputs), self.reached(task.end)
        if self._begins_with_rows(task.start):
            for name, rows in self._rows_of_tables(task.start, inputs).items():
                came[name] = together([rows, came[name]], rows.rows.schema) if name in came else rows
        thrown = memory.flow.thrown
        for time, some in _window_by_window(came, self._part_times(), end, self._stays()):
            changes = memory.flow.take(some, time)
            answer = told(changes, memory.numbers, self, rows_at(task.end), max(min(time, end), _BEGINNING))
            yield from answer.to_batches(max_chunksize=_ROWS_PER_BATCH)
        inputs.work.rows_thrown += memory.flow.thrown - thrown
        memory.at = dict(task.end)
        kept.put_back(memory)
        inputs.work.keeps(memory.rows, memory.nbytes)

    def _part_times(self) -> dict[str, str]:
        """Of each part with a window its name among streams, and the column that is the time of its answers."""
        parts = _parts(self.nodes).items()
        return {part_name(number): part.time for number, part in parts if part.answers_of_windows is not None}

    def _stays(self) -> int:
        """How long all that expires counts at least."""
        return min((node.after for node in self.tree if isinstance(node, Expire)), default=0)

    def _entering(self, start: Offsets, end: Offsets, inputs: Inputs, *, again: bool = False) -> dict[str, Changes]:
        """What comes in from one offset to another: of streams and tables by their names, of parts by their numbers.

        Parts find what they have kept in a folder of their own. What is of micro-batches does not help where rows are
        taken in `again`, as these are cut otherwise.
        """
        came: dict[str, Changes] = {}
        for stream, (form, columns) in _sources(self.nodes).items():
            low, high = start[stream].row, end[stream].row
            if low < high:
                rows = inputs.readers[stream].read(low, high, [*([CHANGE] if form == "changes" else []), *columns])
                inputs.work.rows_read += high - low
                inputs.work.bytes_read += rows.nbytes
                came[stream] = _as_changes(rows, form)
        for number, part in _parts(self.nodes).items():
            own = inputs
            if inputs.scratch is not None:
                folder = Storage(inputs.scratch).child(_STATES if part.scratch_is_state else _PARTS, str(number))
                own = replace(inputs, scratch=None if again and not part.scratch_is_state else folder.address)
            tasks = part.plan(_of(part, start), _of(part, end), own, 1)
            batches = [batch for task in tasks for batch in part.run(task, own)]
            if batches:
                came[part_name(number)] = Changes.of(part.gather(pa.Table.from_batches(batches)))
        return came

    def _rows_of_tables(self, at: Offsets, inputs: Inputs) -> dict[str, Changes]:
        """The rows that tables have at some offsets, as rows that come."""
        return {
            name: Changes.of(state_of(inputs.readers[name], at[name].row).table.select(columns))
            for name, (form, columns) in _sources(self.nodes).items()
            if form == "changes" and at[name].row
        }

    def flow(self, inputs: Inputs) -> Flow:
        """The steps of the tree, which remember nothing yet."""
        schemas = {stream: inputs.readers[stream].schema for stream in _sources(self.nodes)}
        schemas |= {part_name(number): part.schema(inputs) for number, part in _parts(self.nodes).items()}
        return Flow(self.tree, schemas)

    # -- what it has reached and needs -------------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        """The time of its streams; that of tables is the clock, which says nothing of them, and feeds are tables.

        Parts with windows have come to the last window that they have answered, for which they count.
        """
        times = [end[name].time for name, (form, _) in _sources(self.nodes).items() if form == "rows"]
        for part in _parts(self.nodes).values():
            time, windows = part.reached(_of(part, end)), part.answers_of_windows
            times.append(time if windows is None or time == MIN_TIME else time - windows[0])
        return min(times) if times else min(end[name].time for name in self.inputs)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        due: dict[str, int] = {}

        def wanted(streams: Iterable[str], time: int) -> None:
            for name in streams:
                due[name] = min(time, due.get(name, time))

        reached = self.reached(at)
        for part in _parts(self.nodes).values():
            own = _of(part, at)
            for name, time in part.due(own, inputs).items():
                wanted([name], time)
            windows = part.answers_of_windows
            if windows is not None and reached > MIN_TIME:
                # What the last window held goes when the next one is over.
                slide, size = windows
                if first_time_of_any(own, reached - size, inputs) is not None:
                    wanted(part.inputs, reached + slide)
        streams = [name for name, (form, _) in _sources(self.nodes).items() if form == "rows"]
        for node in self.tree:
            source = self.tree[node.input] if isinstance(node, Expire) else None
            if isinstance(node, Expire) and isinstance(source, Source):
                oldest = first_time(inputs.readers[source.stream], reached - node.after, at[source.stream].row)
                if oldest is not None:
                    wanted(streams, oldest + node.after + 1)
        return due

    def needs(self, at: Offsets) -> dict[str, Floor]:
        return self._with_parts(at, {name: Floor(row=at[name].row) for name in self.inputs})

    def held(self, at: Offsets, inputs: Inputs) -> dict[str, Floor]:
        """The rows since the oldest checkpoint."""
        begins = dict(at)
        if (folder := inputs.folder("tree")) is not None and (known := Checkpoints(folder).all()):
            begins = {name: min(known[0].at[name], at[name]) for name in at}
        return self._with_parts(begins, {name: Floor(row=begins[name].row) for name in self.inputs})

    def _with_parts(self, at: Offsets, floors: dict[str, Floor]) -> dict[str, Floor]:
        for part in _parts(self.nodes).values():
            for name, floor in part.needs(_of(part, at)).items():
                known = floors[name]
                row = None if floor.row is None or known.row is None else min(floor.row, known.row)
                floors[name] = Floor(row, floor.time, max(floor.before, known.before))
        return floors

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        """With the rows of streams that the log holds, and with tables as they are in the oldest state there is."""
        return {name: Offset(_first(inputs.readers[name])) for name in self.inputs}

    def current(self, reached: int, newest: int, every: int = 1) -> int | None:
        return None

    def expendable(self, scratch: Storage) -> list[Storage]:
        return [scratch.child(_PARTS)]

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


def _as_changes(rows: pa.Table, form: str) -> Changes:
    """Rows of a log as changes; those of a table's changes are what came or went."""
    if form != "changes":
        return Changes.of(rows)
    weights = np.where(comes(rows), 1, -1).astype(np.int64)
    return Changes(rows.drop_columns([CHANGE]).combine_chunks(), weights)


def _window_by_window(
    came: dict[str, Changes], times_of: dict[str, str], end: int, stays: int
) -> Iterator[tuple[int, dict[str, Changes]]]:
    """What came, as it is taken in: answers of windows one window after the other, and what is no answer first of all.

    So what is combined of windows is answered for each of them, however many are over at once. Windows of which nothing
    goes before the last of them is over (`stays`) are taken in together.
    """
    stamped = {name: integers(came[name].rows.column(column)) for name, column in times_of.items() if name in came}
    moments = np.unique(np.concatenate([np.zeros(0, np.int64), *stamped.values()]))
    others = {name: changes for name, changes in came.items() if name not in stamped}
    begin = 0
    while begin < len(moments):
        after = int(np.searchsorted(moments, moments[begin] + stays, "right"))
        first, last = int(moments[begin]), int(moments[after - 1])
        some = {
            name: changes.filter(_between(stamped[name], first, last))
            for name, changes in came.items()
            if name in stamped
        }
        yield last, {**others, **some}
        others, begin = {}, after
    if others or not len(moments) or moments[-1] < end:
        yield end, others


def _is_first(at: Offsets) -> bool:
    """Whether nothing was taken in before."""
    return all(offset.time == MIN_TIME for offset in at.values())


def _between(times: NDArray[np.int64], first: int, last: int) -> NDArray[np.bool_]:
    return (times >= first) & (times <= last)


def _is_table(reader: LogReader) -> bool:
    """Whether what was there before some change is known, too."""
    return hasattr(getattr(reader, "log", reader), "state_at")


def _first(reader: LogReader) -> int:
    return max(reader.first_row(), oldest_state(reader))


def _of(part: Operator, at: Offsets) -> dict[str, Offset]:
    return {name: at[name] for name in part.inputs}


@functools.lru_cache(maxsize=4096)
def _inputs_of(nodes: str) -> tuple[str, ...]:
    parts = (name for part in _parts(nodes).values() for name in part.inputs)
    return tuple(dict.fromkeys([*_sources(nodes), *parts]))


@functools.lru_cache(maxsize=4096)
def _sources(nodes: str) -> dict[str, tuple[str, list[str]]]:
    """Of each stream that is read as it is, in which form, and its columns that are wanted."""
    wanted: dict[str, tuple[str, list[str]]] = {}
    for node in nodes_from_text(nodes):
        if isinstance(node, Source):
            columns = wanted.setdefault(node.stream, (node.form, []))[1]
            columns += [column for _, column in node.columns if column not in columns]
    return wanted


@functools.lru_cache(maxsize=4096)
def _parts(nodes: str) -> dict[int, Operator]:
    """The operators inside the tree, by the numbers of their nodes."""
    known = enumerate(nodes_from_text(nodes))
    return {number: operator_from_json(node.operator) for number, node in known if isinstance(node, Part)}


# -- what is remembered ------------------------------------------------------------------------------


@dataclass
class _Memory:
    """What a tree remembers at some offsets; `numbers` are the rows of an answer without a key."""

    flow: Flow
    numbers: Arrangement | None
    at: dict[str, Offset]

    def kept(self) -> dict[str, Arrangement]:
        return {**self.flow.kept(), **({} if self.numbers is None else {"answer": self.numbers})}

    @property
    def rows(self) -> int:
        return sum(arrangement.entries for arrangement in self.kept().values())

    @property
    def nbytes(self) -> int:
        return sum(arrangement.nbytes for arrangement in self.kept().values())


_live: Live[_Memory] = Live()


class _Kept:
    """Finds what a tree remembers at some offsets, and keeps it for the next micro-batch."""

    def __init__(self, tree: Tree, inputs: Inputs) -> None:
        self._tree = tree
        folder = inputs.folder("tree")
        self._checkpoints = None if folder is None else Checkpoints(folder)
        known = [] if self._checkpoints is None else self._checkpoints.all()
        self.inputs = self._inputs = replace(inputs, places=tuple(checkpoint.at for checkpoint in known))
        identities = " ".join(inputs.readers[name].identity for name in tree.inputs)
        self._name = f"{inputs.scratch} {tree!r} {identities}"

    def at(self, at: Offsets) -> _Memory:
        memory = _live.take(self._name)
        if memory is None or not _precedes(memory.at, at):
            memory = self._from_disk(at)
        self._catch_up(memory, at)
        return memory

    def put_back(self, memory: _Memory) -> None:
        _live.put(self._name, memory)
        if self._checkpoints is None:
            return
        known = self._checkpoints.all()
        since = rows_at(memory.at) - (known[-1].rows if known else 0)
        if not known:
            self._checkpoints.write(memory.at, memory.kept())
        elif since >= max(_LEAST_BETWEEN, memory.rows // 2):
            with contextlib.suppress(OSError):  # a full disk: it is tried again, and the rows since are held
                self._checkpoints.write(memory.at, memory.kept())

    def _empty(self, at: Offsets) -> _Memory:
        flow = self._tree.flow(self._inputs)
        is_known = bool(self._tree.key) or self._tree.is_one_row
        numbers = None if is_known else Arrangement(flow.schema, flow.schema.names)
        return _Memory(flow, numbers, dict(at))

    def _from_disk(self, at: Offsets) -> _Memory:
        """The newest checkpoint that is whole; without one from the beginning, if all rows are there."""
        problems = []
        known = [] if self._checkpoints is None else self._checkpoints.all()
        for checkpoint in reversed([one for one in known if one.fits(at)]):
            memory = self._empty(checkpoint.at)
            try:
                assert self._checkpoints is not None
                self._checkpoints.read(checkpoint, memory.kept())
            except (ValueError, FileNotFoundError) as problem:
                problems.append(str(problem))
            else:
                return memory
        return self._begun(at, problems)

    def _begun(self, at: Offsets, problems: list[str]) -> _Memory:
        """From nothing: with tables as they were in the oldest state, and the rows of streams from the first on."""
        readers = self._inputs.readers
        if _is_first(at):
            return self._empty(at)  # the first micro-batch answers with what there is
        begins = {name: Offset(min(_first(readers[name]), at[name].row)) for name in at}
        for name, offset in begins.items():
            if offset.row > 0 and not _is_table(readers[name]):
                raise QueryError(
                    "STATE_LOST",
                    f'what was kept of the rows of stream "{name}" is lost, and its first rows are gone',
                    detail="; ".join(problems) or None,
                    hint="drop the query and create it again: it begins with the rows there are",
                )
        memory = self._empty(begins)
        self._take_in(memory, self._tree._rows_of_tables(begins, self._inputs), begins)
        return memory

    def _catch_up(self, memory: _Memory, at: Offsets) -> None:
        """Take in the rows up to some offsets, in pieces; what they have changed was answered before."""
        while memory.at != dict(at):
            left, until = _ROWS_AT_ONCE, dict(memory.at)
            for name, offset in at.items():
                row = min(offset.row, until[name].row + left)
                left -= row - until[name].row
                until[name] = offset if row == offset.row else until[name]._replace(row=row)
            self._take_in(memory, self._tree._entering(memory.at, until, self._inputs, again=True), until)

    def _take_in(self, memory: _Memory, came: dict[str, Changes], at: dict[str, Offset]) -> None:
        changes = memory.flow.take(came, self._tree.reached(at))
        if memory.numbers is not None:
            memory.numbers.take_in(changes)
        memory.at = at


def _precedes(before: Offsets, at: Offsets) -> bool:
    return all(before[name].row <= at[name].row and before[name].time <= at[name].time for name in at)
