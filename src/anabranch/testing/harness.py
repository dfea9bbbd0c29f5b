"""Operators without Spark: micro-batches one by one, as a test wants them cut.

What Spark does to an operator can be done to it here: any cutting into micro-batches and tasks, a
micro-batch run again, scratch lost, the process gone. Every batch is checked against the contract
of `anabranch.operators.base` as it runs.
"""

from __future__ import annotations

import json
import pickle
import random
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.archive.facts import Aside
from anabranch.dataspace.access import Access
from anabranch.engine.micro_batch import Limits, end_of_batch
from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.offset import MIN_TIME, End
from anabranch.log.stream import StreamInfo
from anabranch.operators import operator_from_json
from anabranch.operators.base import Floor, HistoryLog, Inputs, LogReader, Offsets, Operator, Piece, Work
from anabranch.operators.live import Memories, exchange, forget_all
from anabranch.operators.offset import NOT_BEGUN, Offset
from anabranch.operators.opening import history_of, open_stream
from anabranch.operators.pace import Pace
from anabranch.operators.reports import REPORTS
from anabranch.operators.together.roster import Listing
from anabranch.schema import StreamSchema
from anabranch.settings import Settings
from anabranch.testing.clock import ManualClock
from anabranch.testing.faults import flip_bits, lose_files
from anabranch.testing.memory_log import MemoryLog

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


_FAR = 10**12
"""A time (µs) later than all that tests wait for."""


class ContractBroken(AssertionError):
    """An operator did what the contract of operators rules out."""


class OperatorHarness:
    """Drives one operator over streams that the test fills.

    The streams are kept in memory, or with `directory` in real logs below it.

    >>> from anabranch.operators.select import SelectRows
    >>> columns = StreamSchema.of({"v": "INT", "ts": "TIMESTAMP"}, time="ts")
    >>> harness = OperatorHarness(SelectRows("s", (("w", "v * 2"), ("ts", "ts")), "ts"), {"s": columns})
    >>> harness.push("s", [{"v": 1, "ts": "2026-01-01 00:00:00"}, {"v": 2, "ts": "2026-01-01 00:00:01"}])
    2
    >>> harness.step(rows=1).column("w").to_pylist(), harness.step().column("w").to_pylist()
    ([2], [4])
    """

    def __init__(
        self, operator: Operator, streams: Mapping[str, StreamSchema], *, directory: str | Path | None = None
    ) -> None:
        self.operator = operator
        self._logs: dict[str, _Log] = {
            name: _MemoryStream(schema)
            if directory is None
            else _DiskStream(name, schema, Path(directory), history=operator.reads_history)
            for name, schema in streams.items()
        }
        self._temporary = tempfile.TemporaryDirectory(prefix="anabranch-harness-")
        self.scratch = Path(self._temporary.name)
        self.work = Work()
        """What all micro-batches so far have cost."""
        self.every = 1
        """Of the windows that the next micro-batches complete, every k-th is answered."""
        self.keep = 1.0
        """The fraction of history that the next micro-batches read."""
        self._batches: list[tuple[dict[str, Offset], dict[str, Offset]]] = []
        self._answers: list[pa.Table] = []
        self._process = "first"
        self._processes: dict[str, Memories] = {}

    # -- the streams ---------------------------------------------------------------------------

    def push(self, stream: str, rows: Any) -> int:
        """Append rows to a stream (anything `Database.append` takes); gives the number of the next row."""
        return self._logs[stream].append(rows)

    def advance(self, stream: str, time: int) -> None:
        """A heartbeat: the stream's time has reached `time` (µs), though no row came."""
        self._logs[stream].advance(time)

    # -- micro-batches -------------------------------------------------------------------------

    @property
    def offsets(self) -> dict[str, Offset]:
        """How far the operator has taken in each stream."""
        begin = Offset(every=NOT_BEGUN) if self.operator.answers_over_nothing else Offset()
        return dict(self._batches[-1][1]) if self._batches else dict.fromkeys(self._logs, begin)

    def step(self, parallelism: int = 1, rows: int | None = None) -> pa.Table:
        """Run one micro-batch up to the end of the streams, or `rows` rows further; gives its answer."""
        start = self.offsets
        ends = {name: log.end() for name, log in self._logs.items()}
        limits = Limits(dict.fromkeys(start, rows), Pace(self.every), together=False)
        cut = end_of_batch(start, ends, self._logs, limits)
        end = {name: offset._replace(every=self.every, keep=self.keep) for name, offset in cut.items()}
        answer = self._run(start, end, parallelism)
        self._batches.append((start, end))
        self._answers.append(answer)
        return answer

    def run(self, parallelism: int = 1, rows: int | None = None) -> pa.Table:
        """Run micro-batches until the streams are taken in; gives what they answered together."""
        begin = len(self._answers)
        while True:
            at = self.offsets
            self.step(parallelism, rows)
            if self.offsets == at:
                return self._together(self._answers[begin:])

    def replay(self, parallelism: int = 1) -> pa.Table:
        """Run the last micro-batch again, as Spark does after a failure; its answer must be the same."""
        start, end = self._batches[-1]
        answer = self._run(start, end, parallelism)
        if not same(answer, self._answers[-1]):
            raise ContractBroken(f"the micro-batch from {start} to {end} gave another answer the second time")
        return answer

    def due(self) -> dict[str, int]:
        """What time the operator waits for, checked: before it nothing is answered, at it something, or more is due."""
        at = self.offsets
        due = self._due(at, str(self.scratch))
        if not due:
            later = {name: offset._replace(time=max(offset.time, _FAR)) for name, offset in at.items()}
            if self._aside(at, later)[0].num_rows:
                raise ContractBroken(f"at {at} nothing is due, and in time something is answered")
            return due
        if unknown := due.keys() - at.keys():
            raise ContractBroken(f"{unknown} are no inputs")
        if all(time <= at[name].time for name, time in due.items()):
            raise ContractBroken(f"at {at} what is due, {due}, is past")
        before = {n: o._replace(time=max(o.time, due.get(n, o.time + 1) - 1)) for n, o in at.items()}
        if self._aside(at, before)[0].num_rows:
            raise ContractBroken(f"at {at} something is answered before it is due, {due}")
        then = {name: offset._replace(time=max(offset.time, due.get(name, MIN_TIME))) for name, offset in at.items()}
        answer, next_due = self._aside(at, then)
        if not answer.num_rows and next_due == due:
            raise ContractBroken(f"at {at} nothing is answered when it is due, {due}, and nothing else is due then")
        return due

    def _due(self, at: dict[str, Offset], scratch: str) -> dict[str, int]:
        readers = {name: log.worker() for name, log in self._logs.items()}
        return self.operator.due(at, guarded(self.operator, Inputs(readers, scratch), at))

    def _aside(self, start: dict[str, Offset], end: dict[str, Offset]) -> tuple[pa.Table, dict[str, int]]:
        """What a micro-batch would answer, and what is due then; nothing of it is kept."""
        readers = {name: log.worker() for name, log in self._logs.items()}
        with tempfile.TemporaryDirectory(prefix="anabranch-harness-") as scratch:
            if self.scratch.exists():
                shutil.copytree(self.scratch, scratch, dirs_exist_ok=True)
            answer = run_batch(self.operator, Inputs(readers, scratch), start, end, 1)
            return answer, self._due(end, scratch)

    def store(self) -> pa.Table | None:
        """The current answer, where the operator says it."""
        readers = {name: log.worker() for name, log in self._logs.items()}
        at = self.offsets
        return self.operator.store(at, guarded(self.operator, Inputs(readers, str(self.scratch)), at))

    def answers(self) -> pa.Table:
        """All answers so far."""
        return self._together(self._answers)

    def reported(self, kind: str) -> Any:
        """What the operator has reported so far of one kind (`operators.reports`), as a query's statistics tell it."""
        return REPORTS[kind].told(self.work.reports.get(kind)).get(kind)

    # -- faults --------------------------------------------------------------------------------

    def forget(self) -> None:
        """Lose the scratch, on disk and what the process remembers of it; where that is state, only the latter."""
        self._move_scratch()
        for folder in self.operator.expendable(Storage(str(self.scratch))):
            folder.delete_all()

    def lose_files(self, chance: random.Random) -> None:
        """Lose some of the scratch's files, state or not, and what the process remembers."""
        forget_all()
        lose_files(self.scratch, chance)

    def flip_bits(self, chance: random.Random) -> None:
        """Damage some of the scratch's files, state or not, and lose what the process remembers."""
        forget_all()
        flip_bits(self.scratch, chance)

    def go_to(self, process: str) -> None:
        """Go on in another process, which has the same files and remembers what it did itself."""
        self._processes[self._process] = exchange(self._processes.pop(process, {}))
        self._process = process

    def restart(self) -> None:
        """Go on as a new process would: the operator from its JSON, the scratch from copies of its files."""
        self.operator = operator_from_json(json.loads(json.dumps(self.operator.to_json())))
        self._move_scratch()
        for log in self._logs.values():
            log.reopen()

    def _move_scratch(self) -> None:
        forget_all()
        fresh = tempfile.TemporaryDirectory(prefix="anabranch-harness-")
        if self.scratch.exists():
            shutil.copytree(self.scratch, fresh.name, dirs_exist_ok=True)
        self._temporary.cleanup()
        self._temporary, self.scratch = fresh, Path(fresh.name)

    # -- how -----------------------------------------------------------------------------------

    def _run(self, start: dict[str, Offset], end: dict[str, Offset], parallelism: int) -> pa.Table:
        readers = {name: log.worker() for name, log in self._logs.items()}
        inputs = Inputs(readers, str(self.scratch))
        answer = run_batch(self.operator, inputs, start, end, parallelism)
        kept, said = self.work.reports, inputs.work.reports
        self.work.add(replace(inputs.work, reports={}))
        self.work.reports = {**kept, **{kind: REPORTS[kind].after(kept.get(kind), said[kind]) for kind in said}}
        return answer

    def _together(self, tables: list[pa.Table]) -> pa.Table:
        schema = self.operator.schema(Inputs({name: log.worker() for name, log in self._logs.items()}))
        return pa.concat_tables([schema.empty_table(), *tables])


def run_batch(operator: Operator, inputs: Inputs, start: Offsets, end: Offsets, parallelism: int) -> pa.Table:
    """Plan and run one micro-batch as Spark would, task after task, and check the operator's contract."""
    schema = operator.schema(inputs)
    inputs = guarded(operator, inputs, start)
    tasks = operator.plan(start, end, inputs, parallelism)
    if len(tasks) > parallelism:
        raise ContractBroken(f"{len(tasks)} tasks were planned, {parallelism} were allowed")
    batches: list[pa.RecordBatch] = []
    for task in tasks:
        batches += operator.run(pickle.loads(pickle.dumps(task)), inputs)
    answer = operator.gather(pa.Table.from_batches(batches, batches[0].schema if batches else schema), inputs.work)
    if answer.schema != schema:
        raise ContractBroken(f"the answer has the columns {answer.schema}, said were {schema}")
    _check_time(operator, answer, start, end)
    return answer


def guarded(operator: Operator, inputs: Inputs, at: Offsets) -> Inputs:
    """The inputs of an operator with the rows alone that it said it needs after `at`."""
    needs = operator.held(at, inputs)
    readers = {n: _Guarded(reader, needs[n], at[n].row) for n, reader in inputs.readers.items() if n in needs}
    return replace(inputs, gathers=True, readers=readers)


def _check_time(operator: Operator, answer: pa.Table, start: Offsets, end: Offsets) -> None:
    before, after = operator.reached(start), operator.reached(end)
    if after < before:
        raise ContractBroken(f"the answer had reached {before} and is back at {after}")
    times = answer.column(operator.time).cast(pa.int64()).to_pylist()
    if times != sorted(times):
        raise ContractBroken("time goes back inside the answer")
    if times and times[0] < before:
        raise ContractBroken(f"an answer row has the time {times[0]}, the answer had reached {before} already")
    if times and before == MIN_TIME and after == MIN_TIME and not operator.answer_key:
        raise ContractBroken("rows were answered, and the answer has reached no time")


def same(table: pa.Table, other: pa.Table) -> bool:
    """True if both hold the same rows, floats to the last bit (any NaN is the same).

    >>> zeros, more = (pa.table({"x": [value, float("nan")]}) for value in (0.0, -0.0))
    >>> same(zeros, zeros), same(zeros, more)
    (True, False)
    """
    return table.schema == other.schema and all(map(_same_column, table.columns, other.columns))


def _same_column(column: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type):
        column, other = _bits(column), _bits(other)
    return bool(column.equals(other))


def _bits(column: pa.ChunkedArray) -> pa.Array:
    values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
    return pa.array(np.where(np.isnan(values), np.nan, values).view(np.int64), mask=column.is_null().to_numpy())


class _Guarded:
    """A log that has only the rows an operator said it still needs, as after retention."""

    def __init__(self, reader: LogReader, floor: Floor, at: int) -> None:
        self._reader = reader
        self._floor = floor
        self._at = at

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    @property
    def time_column(self) -> str:
        return self._reader.time_column

    @property
    def skew_us(self) -> int:
        return self._reader.skew_us

    @property
    def identity(self) -> str:
        return self._reader.identity

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        if start < end and start < self._least(end):
            raise ContractBroken(f"row {start} is read, and was said not to be needed ({self._floor})")
        return self._reader.read(start, end, columns)

    def _least(self, end: int) -> int:
        rows = [] if self._floor.row is None else [self._floor.row]
        if self._floor.time is not None:
            rows.append(self._reader.row_at_time(self._floor.time, end))
        return max(min(rows, default=0) - self._floor.before, 0)

    def row_at_time(self, time: int, end: int) -> int:
        return min(max(self._reader.row_at_time(time, end), self.first_row()), end)

    def first_row(self) -> int:
        return max(self._reader.first_row(), self._least(self._at))

    def first_logged_row(self) -> int:
        return self._reader.first_logged_row()

    def noted(self, name: str) -> Any:
        return cast(Listing, self._reader).noted(name)

    def history(self) -> HistoryLog:
        """For members of a host that read it; what others need of the log is no measure for them."""
        return history_of(self._reader)

    @property
    def log(self) -> LogReader:
        """What a table's states are made of: they stay, in snapshots, whatever an operator needs of the changes."""
        return cast(LogReader, getattr(self._reader, "log", self._reader))

    # What is archived stays, whatever an operator says that it needs of the log.

    def only(self, archive: str) -> HistoryLog:
        return self._history.only(archive)

    @property
    def seed(self) -> int:
        return self._history.seed

    def read_sample(
        self, start: int, end: int, columns: list[str], keep: float, by: str | None = None, again: bool = False
    ) -> pa.Table:
        return self._history.read_sample(start, end, columns, keep, by, again)

    def aside(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> Aside:
        return self._history.aside(start, end, columns, keep, by)

    def sample_bytes(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> int:
        return self._history.sample_bytes(start, end, columns, keep, by)

    def pieces(self, start: int, end: int) -> list[Piece]:
        return self._history.pieces(start, end)

    @property
    def _history(self) -> HistoryLog:
        return cast(HistoryLog, self._reader)


class Workers:
    """The readers of a stream in several worker processes, which take turns.

    None is told when the stream grows: a reader knows what was there when it last looked, which may
    be nothing, and must find out by itself that there is more.
    """

    def __init__(
        self, storage: Storage, count: int = 2, *, history: bool = False, access: Access | None = None
    ) -> None:
        self._readers = [open_stream(storage, access, history=history) for _ in range(count)]

    def next(self) -> Reader:
        self._readers.append(self._readers.pop(0))
        return self._readers[-1]


class _Log(Protocol):
    """A stream as the harness keeps it."""

    def worker(self) -> LogReader: ...
    def append(self, rows: Any) -> int: ...
    def advance(self, time: int) -> None: ...
    def end(self) -> End: ...
    def offset_at(self, row: int, limit: End) -> End: ...
    def row_at_time(self, time: int, end: int) -> int: ...
    def reopen(self) -> None: ...


class _MemoryStream:
    def __init__(self, schema: StreamSchema) -> None:
        self._log = MemoryLog(schema)
        self._beat = MIN_TIME

    def worker(self) -> LogReader:
        return self._log

    def append(self, rows: Any) -> int:
        return self._log.append(rows)

    def advance(self, time: int) -> None:
        self._beat = max(self._beat, time)

    def end(self) -> End:
        end = self._log.offset().place
        return End(end.row, max(end.time, self._beat))

    def offset_at(self, row: int, limit: End) -> End:
        return self._log.offset(row).place

    def row_at_time(self, time: int, end: int) -> int:
        return self._log.row_at_time(time, end)

    def reopen(self) -> None:
        """Memory is all there is."""


class _DiskStream:
    def __init__(self, name: str, schema: StreamSchema, directory: Path, *, history: bool) -> None:
        self._storage = Storage(str(directory / name))
        self._history = history
        self._settings = Settings({"future_limit_seconds": 0}, environment={})
        StreamInfo(name, schema).create(self._storage)
        self._open()

    def _open(self) -> None:
        self._writer = StreamWriter(self._storage, self._settings, ManualClock())
        self._reader = StreamReader(self._storage)
        self._workers = Workers(self._storage, history=self._history)

    def worker(self) -> LogReader:
        return self._workers.next()

    def append(self, rows: Any) -> int:
        return self._writer.append(rows)

    def advance(self, time: int) -> None:
        self._writer.advance(time)

    def end(self) -> End:
        return self._reader.end()

    def offset_at(self, row: int, limit: End) -> End:
        return self._reader.offset_at(row, limit)

    def row_at_time(self, time: int, end: int) -> int:
        return self._reader.row_at_time(time, end)

    def reopen(self) -> None:
        self._writer.close()
        self._open()
