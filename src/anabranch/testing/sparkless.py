"""A database whose standing queries run without Spark, in this process and only when told to.

Statements, catalog, log and queries are the real ones; in Spark's place stands an engine that runs
one micro-batch after the other, writes down offsets before and commits after, as Spark does, and can
be told to be unkind: small micro-batches, several tasks, scratch lost or damaged, every batch delivered twice.
What only Spark SQL can compute raises `NeedsSpark`, but for questions over whole views: something else may answer them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pyarrow as pa

from anabranch.clock import Clock
from anabranch.database import Database
from anabranch.engine.batches import MicroBatches
from anabranch.engine.cuts import Cuts
from anabranch.engine.micro_batch import end_as_before
from anabranch.engine.needs import hold_what_is_needed
from anabranch.engine.options import ArchivedFiles, SourceOptions
from anabranch.engine.protocol import Deliver, Job
from anabranch.engine.rests import Unfinished
from anabranch.errors import AnabranchError
from anabranch.log import Storage
from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs, Operator, Work
from anabranch.operators.live import Memories, exchange, forget_all
from anabranch.operators.offset import Offset, offsets_from_json
from anabranch.operators.opening import open_stream
from anabranch.queries.query import Query
from anabranch.testing.faults import flip_bits, lose_files
from anabranch.testing.harness import Workers, run_batch, same

T = TypeVar("T")
Evaluator = Callable[[str, Mapping[str, pa.Table]], pa.Table]
"""Answers a SELECT in Spark's SQL over views by their names."""


class NeedsSpark(Exception):
    """The statement needs Spark SQL, and there is none here."""


@dataclass(frozen=True)
class Unkindness:
    """What the engine does that an answer must not show."""

    forget: bool = False
    """The scratch is lost after every micro-batch, unless it is state."""
    replay: bool = False
    """Every micro-batch is run and delivered twice, as after a failure before its commit."""
    faults: bool = False
    """Large micro-batches of several tasks and small ones of one take turns; whenever one has run, files of the scratch
    are lost or damaged, unless it is state, or another process goes on."""


class SparklessDatabase(Database):
    """A database to test with; `catch_up` runs its queries as far as their streams go.

    `evaluator` answers questions that are asked anew as a whole, in the place of Spark SQL.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        unkindness: Unkindness | None = None,
        queries: bool = True,
        engine: Callable[[Unkindness], LocalEngine] | None = None,
        evaluator: Evaluator | None = None,
    ) -> None:
        unkindness = unkindness or Unkindness()
        self._local = LocalEngine(unkindness, evaluator) if engine is None else engine(unkindness)
        super().__init__(path, settings=settings, clock=clock, queries=queries)

    def engine(self) -> LocalEngine:
        self._check()
        return self._local

    def move_query(self, name: str, host: str | None) -> Query:
        moves = self._queries.moves
        moves.begin(name, host)
        while not moves.is_done(name, host):
            self.catch_up()
            moves.go_on()
        return self.get_query(name)

    def _wait_a_moment(self) -> None:
        self._local.catch_up()

    def catch_up(self) -> None:
        """Run all queries until none has anything left to take in, and none waits for time that has come."""
        now = self._clock.now_us()
        while self._local.catch_up() | any(self._time.pending(q, now) for q in self._queries.known() if q.runs_here):
            pass


class LocalEngine:
    """Stands where `anabranch.spark.engine.SparkEngine` does."""

    parallelism = 1

    def __init__(self, unkindness: Unkindness, evaluator: Evaluator | None = None) -> None:
        self._unkindness = unkindness
        self._evaluator = evaluator
        self._running: list[LocalRunning] = []

    def catch_up(self) -> bool:
        """Run all queries as far as their streams go; gives whether there was anything."""
        steps = -1
        total = 0
        while steps:
            self._running = [r for r in self._running if r.alive]
            steps = sum(running.step() for running in self._running)
            total += steps
        return total > 0

    def run(self, job: Job, deliver: Deliver) -> LocalRunning:
        if job.residual_sql is not None:
            raise NeedsSpark(job.residual_sql)
        running = LocalRunning(job, deliver, self._unkindness)
        self._running.append(running)
        if job.available_now:
            while running.step():
                pass
            running.stop()
        return running

    def read_once(self, options: SourceOptions) -> pa.Table:
        end = offsets_from_json(options.ends)
        operator, inputs = _opened(options)
        start = _start(options, inputs)
        begin = operator.beginning(inputs) if operator.begins_by_itself else start
        return run_batch(operator, inputs, begin, end, options.parallelism)

    def ask(self, work: Callable[[], T], seconds: float = 0.0) -> T:
        return work()

    def collect(self, frame: Any, reads_bytes: int) -> pa.Table:
        return frame

    def answer_schema(self, options: SourceOptions, residual_sql: str) -> NoReturn:
        raise NeedsSpark(residual_sql)

    def sql_once(
        self, sql: str, views: dict[str, SourceOptions], files: Mapping[str, ArchivedFiles] | None = None
    ) -> pa.Table:
        raise NeedsSpark(sql)

    def columns_of(self, sql: str, views: Mapping[str, SourceOptions]) -> pa.Schema:
        schemas = {
            name: operator.schema(inputs)
            for name, (operator, inputs) in zip(views, map(_opened, views.values()), strict=True)
        }
        return self._answered(sql, {name: schema.empty_table() for name, schema in schemas.items()}).schema

    def evaluate(self, sql: str, views: Mapping[str, SourceOptions]) -> pa.Table:
        return self._answered(sql, {name: _rows(options) for name, options in views.items()})

    def _answered(self, sql: str, views: Mapping[str, pa.Table]) -> pa.Table:
        if self._evaluator is None:
            raise NeedsSpark(sql)
        return self._evaluator(sql, views)

    def frame_of(self, table: pa.Table) -> pa.Table:
        return table

    def finish(self, parts: Sequence[Unfinished], staging: Storage) -> NoReturn:
        raise NeedsSpark("the rest of a query in Spark SQL")

    def stream(self, options: SourceOptions, residual_sql: str | None = None) -> NoReturn:
        raise NeedsSpark("a streaming DataFrame")

    def ingest(
        self, frame: Any, staging: Storage, checkpoint: Storage, deliver: Deliver, *, available_now: bool = False
    ) -> NoReturn:
        raise NeedsSpark("a streaming DataFrame")

    @property
    def spark(self) -> NoReturn:
        raise NeedsSpark("Spark's session")

    # Nothing runs beside the caller: there is nothing to wait for, and nothing to interrupt.

    def start(self) -> None:
        """It is ready."""

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        yield

    def cancel(self, tag: str) -> None:
        """Nothing is computed."""

    def interrupt(self) -> None:
        """Nothing is asked."""

    def close(self) -> None:
        """There is nothing to give back."""


def _opened(options: SourceOptions) -> tuple[Operator, Inputs]:
    """An operator that is asked once, with its streams as they are."""
    readers = {n: open_stream(Storage(path), options.access, history=True) for n, path in options.streams.items()}
    for reader in readers.values():
        reader.refresh()
    return operator_from_json(options.operator), Inputs(readers, window_memory=options.window_memory_bytes)


def _start(options: SourceOptions, inputs: Inputs) -> dict[str, Offset]:
    starts = options.starts
    return {name: Offset(max(reader.first_row(), starts.get(name, 0))) for name, reader in inputs.readers.items()}


def _rows(options: SourceOptions) -> pa.Table:
    """What a question reads under one name."""
    operator, inputs = _opened(options)
    tasks = operator.plan(_start(options, inputs), offsets_from_json(options.ends), inputs, options.parallelism)
    batches = [batch for task in tasks for batch in operator.run(task, inputs)]
    return pa.Table.from_batches(batches, operator.schema(inputs))


@dataclass(frozen=True)
class LocalBatch:
    """A micro-batch's answer, as queries take it."""

    number: int
    rows: pa.Table
    work: Work
    offsets: tuple[dict[str, Offset], dict[str, Offset]]

    def start(self) -> dict[str, Offset]:
        return self.offsets[0]

    def end(self) -> dict[str, Offset]:
        return self.offsets[1]

    def make_durable(self) -> None:
        """Its offsets are written before it runs."""


class LocalRunning:
    """A standing query inside the stand-in engine."""

    def __init__(self, job: Job, deliver: Deliver, unkindness: Unkindness) -> None:
        options, checkpoint = job.options(), job.checkpoint
        self._options = options
        self._operator = operator_from_json(options.operator)
        history = self._operator.reads_history
        self._readers = {
            n: open_stream(Storage(path), options.access, history=history) for n, path in options.streams.items()
        }
        self._workers = {
            n: Workers(Storage(path), history=history, access=options.access) for n, path in options.streams.items()
        }
        self._batches = MicroBatches(self._operator, options.current_pace)
        self._cuts = Cuts(options.cuts, options.holder)
        self._checkpoint = checkpoint
        self._take = deliver
        self._unkindness = unkindness
        self._other_process: Memories = {}
        self.failure: AnabranchError | None = None
        self.alive = True
        for log in ("offsets", "commits"):
            checkpoint.child(log).make()
        if not checkpoint.exists("metadata"):
            checkpoint.write_json("metadata", {"id": secrets.token_hex(8)}, durable=False)
        self._number = 0
        while checkpoint.exists(f"commits/{self._number}"):
            self._number += 1

    @property
    def status(self) -> str:
        if self.failure is not None:
            return "failed"
        return "running" if self.alive else "stopped"

    def started(self, timeout: float | None = None) -> None:
        """It is, as soon as it is made."""

    def run_to_end(self, timeout: float | None) -> bool:
        return not self.alive

    def stop(self) -> None:
        self.alive = False

    def step(self) -> bool:
        """Run one micro-batch, if there is anything to take in."""
        if not self.alive:
            return False
        start = self._offsets(self._number - 1)
        begun = self._checkpoint.exists(f"offsets/{self._number}")
        end = self._offsets(self._number) if begun else self._ends(start)
        if end == start:
            return False
        self._write("offsets", {}, end)
        try:
            self._deliver(start, end)
        except AnabranchError as problem:
            self.failure, self.alive = problem, False
            return False
        self._write("commits", {})
        self._number += 1
        self._forget()
        hold_what_is_needed(self._operator, end, self._readers, self._options.scratch, self._options)
        return True

    def _write(self, log: str, *lines: Any) -> None:
        """A file as Spark writes it to its checkpoint."""
        text = "\n".join(["v1", *map(json.dumps, lines)]).encode()
        self._checkpoint.child(log).write(lambda sink: sink.write(text), str(self._number), durable=False)

    def _deliver(self, start: dict[str, Offset], end: dict[str, Offset]) -> None:
        batches: list[LocalBatch] = []
        for turn in range(2 if self._unkindness.replay else 1):
            batches.append(self._batch(start, end))
            if self._unkindness.faults:
                self._strike(2 * self._number + turn)
        if not all(same(batch.rows, batches[0].rows) for batch in batches):
            raise AssertionError(f"a micro-batch from {start} to {end} gave another answer the second time")
        for batch in batches:
            self._take(batch)

    def _strike(self, turn: int) -> None:
        """One fault after the other."""
        chance = random.Random(turn)
        fault = ("other process", "lost", "new process", "flipped", "nothing")[turn % 5]
        if fault == "other process":
            self._other_process = exchange(self._other_process)
        elif fault != "nothing":
            forget_all()
        strike = {"lost": lose_files, "flipped": flip_bits}.get(fault)
        if strike is not None and self._options.scratch is not None:
            for folder in self._operator.expendable(Storage(self._options.scratch)):
                strike(Path(folder.path), chance)

    @property
    def _is_small(self) -> bool:
        return self._unkindness.faults and self._number % 2 == 1

    def _forget(self) -> None:
        """Lose the files and what the process remembers of them."""
        if self._unkindness.forget:
            forget_all()
            for folder in self._operator.expendable(Storage(self._options.scratch)) if self._options.scratch else ():
                folder.delete_all()

    def _batch(self, start: dict[str, Offset], end: dict[str, Offset]) -> LocalBatch:
        readers = {name: workers.next() for name, workers in self._workers.items()}
        options = self._options
        inputs = Inputs(
            readers, self._options.scratch, window_memory=options.window_memory_bytes, budget=options.budget
        )
        rows = run_batch(self._operator, inputs, start, end, 1 if self._is_small else self._options.parallelism)
        return LocalBatch(self._number, rows, inputs.work, (start, end))

    def _offsets(self, number: int) -> dict[str, Offset]:
        saved = self._checkpoint.child("offsets").read_bytes(str(number))
        if saved is None and self._options.begin is None:
            for reader in self._readers.values():
                reader.refresh()
            return self._operator.beginning(Inputs(self._readers))
        offsets = self._options.begin if saved is None else json.loads(saved.decode().splitlines()[-1])
        return offsets_from_json(offsets or {})

    def _ends(self, start: dict[str, Offset]) -> dict[str, Offset]:
        self._batches.done()
        if (again := end_as_before(start, self._options.again)) is not None:
            return again
        ends = self._cuts.limited(start, {name: reader.end() for name, reader in self._readers.items()})
        return self._batches.next_end(start, ends, self._readers, 1 if self._is_small else self._options.batch_rows)
