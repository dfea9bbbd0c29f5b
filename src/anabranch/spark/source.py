"""One Spark data source that hosts every operator, for streams and for one-time reads.

Spark calls `latestOffset` and `partitions` in a process beside the driver, and `read` in Python
workers on the executors. The operator arrives as JSON; the rows come from memory-mapped segments
and do not pass through the JVM before the operator has seen them.

With `sealed` the answer leaves in envelopes (see `staging`), for our own queries. Without it the
rows themselves leave as Arrow batches, for Spark SQL and for users' DataFrames.
"""

from __future__ import annotations

import functools
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from anabranch.dataspace.access import Access
from anabranch.engine.batches import MicroBatches, has_moved
from anabranch.engine.claiming import Claiming
from anabranch.engine.cuts import Cuts
from anabranch.engine.micro_batch import end_as_before
from anabranch.engine.needs import hold_what_is_needed
from anabranch.engine.options import FORMAT, SourceOptions
from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.log.stream import INFO
from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs, Operator, Task, Work
from anabranch.operators.offset import Offset, offsets_from_json, offsets_to_json
from anabranch.operators.opening import open_stream
from anabranch.spark.staging import ENVELOPE_DDL, seal

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


@dataclass
class TaskPartition(InputPartition):
    """A task of a micro-batch, with its place among the others."""

    index: int
    task: Task


class AnabranchSource(DataSource):
    """`spark.readStream.format("anabranch")`; see the module."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        options = SourceOptions.from_options(self.options)
        return ENVELOPE_DDL if options.sealed else options.spark_schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return OnceReader(SourceOptions.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamingReader(SourceOptions.from_options(self.options))


class _Host:
    """Runs the tasks of one operator: shared by one-time and streaming reads."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @property
    def _operator(self) -> Operator:
        return _operator(json.dumps(self._options.operator))

    def _inputs(self) -> Inputs:
        readers = {name: self._reader(name) for name in self._options.streams}
        # Only our own queries bring the answers of all tasks together on the driver.
        options = self._options
        return Inputs(
            readers,
            options.scratch,
            Work(),
            gathers=options.sealed,
            window_memory=options.window_memory_bytes,
            budget=options.budget,
        )

    @property
    def _history(self) -> bool:
        """Whether rows that only archives hold are read as well."""
        return True

    def _reader(self, name: str) -> Reader:
        return open_reader(self._options.streams[name], self._options.access, history=self._history)

    def _refresh(self) -> None:
        """A worker's reader may have last looked before an archive was made or its runs were joined."""
        if self._history:
            for name in self._options.streams:
                self._reader(name).refresh()

    def _plan(self, start: dict[str, Offset], end: dict[str, Offset]) -> list[TaskPartition]:
        tasks = self._operator.plan(start, end, self._inputs(), self._options.parallelism)
        return [TaskPartition(i, task) for i, task in enumerate(tasks)]

    def _run(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TaskPartition):
            return  # Spark reads one empty partition where there are no tasks
        self._refresh()
        inputs = self._inputs()
        batches = self._operator.run(partition.task, inputs)
        if self._options.sealed:
            options = self._options
            assert options.staging is not None
            yield seal(batches, partition.index, options.staging, options.inline_bytes, inputs.work)
        else:
            yield from batches
        _freeze_once()


class OnceReader(_Host, DataSourceReader):
    """Reads what the streams hold up to given ends."""

    def partitions(self) -> list[TaskPartition]:
        end = offsets_from_json(self._options.ends)
        self._refresh()
        readers = {name: self._reader(name) for name in self._options.streams}
        if self._operator.begins_by_itself:
            return self._plan(self._operator.beginning(self._inputs()), end)
        starts = self._options.starts
        start = {name: Offset(max(reader.first_row(), starts.get(name, 0))) for name, reader in readers.items()}
        return self._plan(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._run(partition)


class StreamingReader(_Host, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the streams as they grow, one micro-batch after the other."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._target: dict[str, End] | None = None
        self._batches = MicroBatches(self._operator, options.current_pace)
        self._patience = _Patience()
        self._cuts = Cuts(options.cuts, options.holder)
        self._claiming = Claiming(self._operator, options.streams) if options.claims_time else None

    @property
    def _history(self) -> bool:
        return self._operator.reads_history

    def initialOffset(self) -> dict[str, Any]:
        if self._options.begin is not None:
            return self._options.begin
        for name in self._options.streams:
            self._reader(name).refresh()
        return offsets_to_json(self._operator.beginning(self._inputs()))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.batch_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = offsets_from_json(start)
        self._batches.done()
        if (again := end_as_before(begin, self._options.again)) is not None:
            return offsets_to_json(again)
        ends = self._target or self._wait(begin)
        most = None if isinstance(limit, ReadAllAvailable) else getattr(limit, "max_rows", self._options.batch_rows)
        logs = {name: self._reader(name) for name in begin}
        return offsets_to_json(self._batches.next_end(begin, ends, logs, most))

    def reportLatestOffset(self) -> dict[str, Any]:
        return {name: list(Offset.at(end)) for name, end in self._ends().items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TaskPartition]:
        return self._plan(offsets_from_json(start), offsets_from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._run(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell retention what may be read again after this micro-batch."""
        readers = {name: self._reader(name) for name in self._options.streams}
        hold_what_is_needed(self._operator, offsets_from_json(end), readers, self._options.scratch, self._options)

    def _ends(self) -> dict[str, End]:
        return {name: self._reader(name).end() for name in self._options.streams}

    def _wait(self, begin: dict[str, Offset]) -> dict[str, End]:
        """The ends of the streams; if none has moved, look again for a short while.

        Spark asks again soon anyway, but each of its rounds costs more than a look at a directory.
        """
        deadline = time.monotonic() + self._patience.round(self._options.poll_ms / 1000)
        while True:
            ends = self._cuts.limited(begin, self._ends())
            if has_moved(begin, ends):
                self._patience.moved()
                return ends
            if self._claiming is not None and self._claiming.claim(begin, ends, self._inputs()):
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                return ends
            time.sleep(min(self._patience.pause(), left))


class _Patience:
    """How often to look for new rows: often while they come, ever more rarely while none do.

    Looking every 4 ms all the time, 37 idle queries kept two cores busy.
    """

    _PAUSE, _LONGEST_PAUSE = 0.004, 0.025
    _LONGEST_ROUND = 5  # times the setting

    def __init__(self) -> None:
        self.moved()

    def moved(self) -> None:
        """Rows came."""
        self._since = time.monotonic()

    @property
    def _idle(self) -> float:
        return time.monotonic() - self._since

    def pause(self) -> float:
        """Seconds between two looks."""
        return min(max(self._PAUSE, self._idle / 100), self._LONGEST_PAUSE)

    def round(self, shortest: float) -> float:
        """Seconds after which Spark may ask again."""
        return min(max(shortest, self._idle / 10), shortest * self._LONGEST_ROUND)


_readers: dict[tuple[str, bool, Access, int], Reader] = {}
_operators: dict[str, Operator] = {}


def open_reader(path: str, access: Access, *, history: bool = False) -> Reader:
    """The reader of a stream in this process, kept open from task to task."""
    storage = Storage(path)
    # A stream that was dropped and made anew has another declaration file.
    key = (path, history, access, storage.made(INFO))
    if key not in _readers:
        for old in [k for k in _readers if k[:2] == key[:2]]:
            del _readers[old]
        _readers[key] = open_stream(storage, access, history=history)
    return _readers[key]


@functools.cache
def _freeze_once() -> None:
    """Take what is loaded by now out of the garbage collector's sight.

    Spark's worker collects garbage after every task, and going through all the modules we import
    takes longer than most tasks.
    """
    gc.collect()
    gc.freeze()


def _operator(text: str) -> Operator:
    if text not in _operators:
        if len(_operators) > 256:
            _operators.clear()
        _operators[text] = operator_from_json(json.loads(text))
    return _operators[text]
