"""What the rest of the system asks of Spark: read once, stream, and run a standing query."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType, TimestampType

from anabranch.engine import protocol
from anabranch.engine.options import BEGIN, FORMAT, ArchivedFiles, SourceOptions
from anabranch.engine.protocol import Deliver, Job
from anabranch.engine.rests import Unfinished
from anabranch.errors import AnabranchError, QueryError
from anabranch.log.storage import Storage
from anabranch.operators.offset import Offset, offsets_from_json
from anabranch.operators.work import Work
from anabranch.spark.answers import Answers, arrow_schema, sealed
from anabranch.spark.failures import PLANNER_DIED, explain_failure, is_of_the_data
from anabranch.spark.question import Question
from anabranch.spark.repeatable import check_repeatable
from anabranch.spark.rests import Rests
from anabranch.spark.running import Running, Tries
from anabranch.spark.session import Session
from anabranch.spark.staging import clear, sweep, unseal
from anabranch.spark.within import within

T = TypeVar("T")
_PROBE_SECONDS = 30.0
_BROKEN = (ConnectionRefusedError, ConnectionResetError, BrokenPipeError)
"""What py4j raises where its JVM is gone."""
_PLANNING_PROCESSES = 3
"""Spark has one that looks up sources, one that makes them, one that plans what they read; each may be found dead."""
_POOL = "questions"
"""What questions are computed in: it gets its share of the processors beside that of the standing queries."""

INPUT_VIEW = "__input"
"""The name by which the part of a query that Spark SQL computes sees the operator's rows."""


def _read_once(spark: SparkSession, options: SourceOptions, format: str) -> DataFrame:
    return spark.read.format(format).options(**options.to_options()).load()


def _read_archived(spark: SparkSession, files: ArchivedFiles, options: SourceOptions, format: str) -> DataFrame:
    """The rows of files, and those that are not archived yet."""
    frame = _read_files(spark, files, cast(StructType, StructType.fromDDL(options.spark_schema)))
    if options.ends[files.stream][0] <= files.end:
        return frame
    return frame.union(_read_once(spark, replace(options, starts={files.stream: files.end}), format))


def _read_files(spark: SparkSession, files: ArchivedFiles, schema: StructType) -> DataFrame:
    """Rows of files with the columns of a schema; those that are younger than a file are NULL in it."""
    wanted = StructType(schema.fields)
    if files.time.lower() not in (name.lower() for name in schema.names):
        wanted = wanted.add(files.time, TimestampType())
    reader = spark.read.schema(wanted).options(recursiveFileLookup=True, datetimeRebaseMode="CORRECTED")
    frame, time = reader.parquet(*files.paths), sf.col(_quoted(files.time))
    if files.since is not None:
        frame = frame.where(time >= sf.timestamp_micros(sf.lit(files.since)))
    if files.until is not None:
        frame = frame.where(time < sf.timestamp_micros(sf.lit(files.until)))
    return frame.select(*map(_quoted, schema.names))


def _refuse_variants(frame: DataFrame) -> None:
    """A VARIANT is bytes that only Spark can read, and has no NULL in Arrow."""
    for field in frame.schema.fields:
        if '"variant"' in field.dataType.json():
            raise QueryError(
                "TYPE_NOT_SUPPORTED",
                f'column "{field.name}" of the answer is VARIANT',
                hint="write to_json(…), or variant_get(…, path, type)",
            )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


class SparkEngine:
    """Spark, as this system uses it (`engine.protocol.Engine`)."""

    def __init__(self, session: Session, answers: Answers | None = None) -> None:
        self.session = session
        self.format = FORMAT
        """The data source that operators are read through."""
        self._answers = answers
        self._views = threading.Lock()
        self._asking = _Asking()
        self._closing = threading.Event()
        self._rests: dict[str, Rests] = {}

    @property
    def parallelism(self) -> int:
        return self.session.parallelism

    @property
    def spark(self) -> SparkSession:
        return self.session.spark

    def start(self) -> None:
        """Have Spark ready."""
        _ = self.session.spark

    # -- questions -------------------------------------------------------------------------------------

    def ask(self, work: Callable[[], T], seconds: float = 0.0) -> T:
        """The value of `work`, which may use Spark: interrupted by Ctrl-C, by time, and when the database closes."""
        if self._asking.inside:
            return work()
        tag = self._asking.tag or f"question-{secrets.token_hex(8)}"

        def prepare() -> None:
            self._asking.inside, self._asking.tag = True, tag
            with self._explaining():
                self.start()

        def explained() -> T:
            with self._explaining():
                return work()

        def asked() -> T:
            for _ in range(_PLANNING_PROCESSES):
                try:
                    return explained()
                except QueryError as problem:  # Spark tries tasks again, and not what plans them
                    if problem.name != PLANNER_DIED:
                        raise
            return explained()

        return Question(prepare, asked, lambda: self.cancel(tag), self._end_if_stuck).ask(seconds, self._closing)

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (PySparkException, Py4JError, OSError, EOFError, pa.ArrowException) as problem:
            raise self._explained(problem) from problem

    def _explained(self, problem: Exception) -> Exception:
        life = self.session.last_life
        if life is not None and (life.lost_by(problem) or type(problem) in _BROKEN):
            return life.loss()
        return explain_failure(problem) if isinstance(problem, PySparkException | Py4JError) else problem

    def _end_if_stuck(self) -> None:
        """A JVM that no longer answers is ended, to be started again; one that only plans for long is left alone."""
        life = self.session.last_life
        if life is not None and not within(_PROBE_SECONDS, lambda: life.spark.sparkContext.defaultParallelism):
            life.kill()

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """What this thread asks meanwhile can be ended by `cancel`."""
        self._asking.tag = tag
        try:
            yield
        finally:
            self._asking.tag = None

    def cancel(self, tag: str) -> None:
        """End what Spark computes under a tag at this moment; there may be nothing."""
        life = self.session.last_life
        if life is not None and not life.lost:
            with contextlib.suppress(Py4JError, OSError):
                life.spark.sparkContext.cancelJobsWithTag(tag)

    def interrupt(self) -> None:
        """Interrupt all questions, of now and later."""
        self._closing.set()

    def close(self) -> None:
        """Give Spark back."""
        self.interrupt()
        self.session.close()

    def _spark_for_a_question(self, *, files: bool = False) -> SparkSession:
        spark = self.session.for_files if files else self.session.spark
        if self._asking.inside and self._asking.tag is not None and not self._asking.told:
            self._asking.told = True
            spark.sparkContext.addJobTag(self._asking.tag)
            # Standing queries share the default pool, where jobs run in the order in which they came.
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        return spark

    def read_once(self, options: SourceOptions) -> DataFrame:
        """The operator's answer over what its streams hold, as a DataFrame."""
        return _read_once(self._spark_for_a_question(), options, self.format)

    def sql_once(
        self, sql: str, views: dict[str, SourceOptions], files: Mapping[str, ArchivedFiles] | None = None
    ) -> DataFrame:
        """A one-time SELECT over views: each is the answer of an operator, and what `files` holds besides."""
        files = files or {}
        spark = self._spark_for_a_question(files=bool(files))
        try:
            with self._views:  # others may give other views the same names
                for name, options in views.items():
                    if name in files:
                        frame = _read_archived(spark, files[name], options, self.format)
                    else:
                        frame = _read_once(spark, options, self.format)
                    frame.createOrReplaceTempView(name)
                answer = spark.sql(sql)
            _refuse_variants(answer)
            return answer
        except (PySparkException, Py4JError, OSError) as problem:
            raise self._explained(problem) from problem

    def columns_of(self, sql: str, views: Mapping[str, SourceOptions]) -> pa.Schema:
        """See `engine.protocol.Engine`."""

        def asked() -> pa.Schema:
            frame = self._frame_over(sql, views)
            _refuse_variants(frame)
            check_repeatable(frame)
            return arrow_schema(frame)

        return self.ask(asked)

    def evaluate(self, sql: str, views: Mapping[str, SourceOptions]) -> pa.Table:
        """See `engine.protocol.Engine`; asked by the thread that takes a micro-batch in, like `finish`."""
        try:
            life = self.session.last_life
            if life is not None and life.lost:
                raise life.loss()
            return self.collect(self._frame_over(sql, views), sys.maxsize)
        except (PySparkException, Py4JError, OSError, EOFError, pa.ArrowException) as problem:
            raise self._explained(problem) from problem

    def _frame_over(self, sql: str, views: Mapping[str, SourceOptions]) -> DataFrame:
        """A SELECT over views, computed by one task after the other."""
        spark = self.session.in_order
        with self._views:
            for name, options in views.items():
                _read_once(spark, options, self.format).createOrReplaceTempView(name)
            return spark.sql(sql)

    def collect(self, frame: DataFrame, reads_bytes: int) -> pa.Table:
        """All rows of a one-time answer that is made from so many bytes."""
        return frame.toArrow() if self._answers is None else self._answers.collect(frame, reads_bytes)

    # -- standing queries ------------------------------------------------------------------------------

    def stream(self, options: SourceOptions, residual_sql: str | None = None) -> DataFrame:
        """The operator's answer as it grows, as a streaming DataFrame."""
        spark = self.session.spark
        frame = spark.readStream.format(self.format).options(**options.to_options()).load()
        if residual_sql is None or options.sealed:
            return frame
        view = f"{INPUT_VIEW}_{secrets.token_hex(8)}"  # others start at this moment, and all of them read INPUT_VIEW
        try:
            frame.createTempView(view)
            answer = spark.sql(f"WITH {INPUT_VIEW} AS (SELECT * FROM {view}) {residual_sql}")
            check_repeatable(answer)
            return answer
        except PySparkException as problem:
            raise self._explained(problem) from problem
        finally:
            with contextlib.suppress(Py4JError, OSError):  # Spark may be gone, and the view with it
                spark.catalog.dropTempView(view)

    def answer_schema(self, options: SourceOptions, residual_sql: str) -> pa.Schema:
        """The columns of an answer that Spark SQL computes the rest of."""
        return self.ask(lambda: arrow_schema(self.stream(replace(options, sealed=False), residual_sql)))

    def frame_of(self, table: pa.Table) -> DataFrame:
        """A table as a DataFrame."""
        return self.session.spark.createDataFrame(table)

    def finish(self, parts: Sequence[Unfinished], staging: Storage) -> list[pa.Table] | AnabranchError:
        """See `engine.protocol.Engine`.

        It is asked by the thread that takes a micro-batch in, which Spark waits for: what that thread asks is computed
        meanwhile, and ended when the query is.
        """
        try:
            life = self.session.last_life
            if life is not None and life.lost:
                raise life.loss()
            spark = self.session.spark
            rests = self._rests.get(staging.address)
            if rests is None or rests.spark is not spark:
                rests = self._rests[staging.address] = Rests(spark, staging)
            return rests.finish(parts)
        except (PySparkException, Py4JError, OSError, EOFError, pa.ArrowException) as problem:
            explained = self._explained(problem)
            if isinstance(explained, AnabranchError) and is_of_the_data(problem, explained):
                return explained
            raise explained from problem

    def run(self, job: Job, deliver: Deliver) -> Running:
        """Run a standing query: `deliver` gets each micro-batch's answer, in order.

        Does not wait for Spark.
        """
        tries, deliveries = Tries(), _Deliveries(deliver)

        def begin() -> StreamingQuery:
            options, deliver_here = deliveries.begin(job.options)
            if job.residual_sql is None:
                frame = self.stream(replace(options, sealed=True))
            else:
                rows = self.stream(replace(options, sealed=False), job.residual_sql)
                frame = sealed(rows, job.schema, _staging(options).address, options.inline_bytes)
            target = _Target(job.schema, _staging(options), job.checkpoint, job.available_now)
            return target.begin(frame, deliver_here, tries)

        return Running(begin, self.session, tries, in_batch=lambda: _in_batch(job.checkpoint), tell=job.tell)

    def ingest(
        self, frame: DataFrame, staging: Storage, checkpoint: Storage, deliver: Deliver, *, available_now: bool = False
    ) -> Running:
        """Deliver any streaming DataFrame's rows, in Arrow, one micro-batch after the other."""
        schema, tries = arrow_schema(frame), Tries()
        envelopes = sealed(frame, schema, staging.address, SourceOptions.inline_bytes)
        target = _Target(schema, staging, checkpoint, available_now)
        # The frame is a program's own; with its Spark gone only the program can make it anew.
        running = Running(lambda: target.begin(envelopes, deliver, tries), self.session, tries, restarts=False)
        running.started()
        return running


def _staging(options: SourceOptions) -> Storage:
    assert options.staging is not None
    return Storage(options.staging)


class _Target(NamedTuple):
    """Where the envelopes of a query go, and what Spark writes down about them."""

    schema: pa.Schema
    staging: Storage
    checkpoint: Storage
    available_now: bool

    def begin(self, envelopes: DataFrame, deliver: Deliver, tries: Tries) -> StreamingQuery:
        clear(self.staging)

        def take(frame: DataFrame, number: int) -> None:
            came = frame.toArrow()
            rows, work = unseal(came, self.schema, self.staging)
            deliver(Batch(number, rows, work, self.checkpoint))
            tries.worked()
            sweep(came, self.staging)

        writer = envelopes.writeStream.foreachBatch(take).option("checkpointLocation", self.checkpoint.address)
        writer = writer.trigger(availableNow=True) if self.available_now else writer.trigger(processingTime="0 seconds")
        return writer.start()


class _Deliveries:
    """Micro-batches that are taken one at a time, and only from the newest start of a query.

    A thread that was taking one in when Spark was lost may go on with it for a while.
    """

    def __init__(self, deliver: Deliver) -> None:
        self._take = deliver
        self._lock = threading.Lock()
        self._start = 0

    def begin(self, prepare: Callable[[], T]) -> tuple[T, Deliver]:
        """What is prepared for a start while nothing is delivered, and where it delivers."""
        with self._lock:
            self._start += 1
            return prepare(), functools.partial(self._deliver, self._start)

    def _deliver(self, start: int, batch: protocol.Batch) -> None:
        with self._lock:
            if start != self._start:
                raise QueryError("QUERY_IS_STOPPED", "the query was started again")
            self._take(batch)


class _Asking(threading.local):
    """What a thread asks at this moment."""

    inside = False
    told = False
    tag: str | None = None


def _in_batch(checkpoint: Storage) -> bool:
    """Whether a micro-batch was begun and not ended."""
    begun, ended = (
        max((int(name) for name in checkpoint.child(log).files() if name.isdigit()), default=-1)
        for log in ("offsets", "commits")
    )
    return begun > ended


class Batch:
    """A micro-batch's answer, with the offsets it is a function of."""

    def __init__(self, number: int, rows: pa.Table, work: Work, checkpoint: Storage) -> None:
        self.number = number
        self.rows = rows
        self.work = work
        self._checkpoint = checkpoint

    def make_durable(self) -> None:
        """Force Spark's note of its offsets to disk, which Spark does not: for sources that keep no position."""
        offsets = self._checkpoint.child("offsets")
        if self.number == 0:
            self._checkpoint.make()
            offsets.make()
            self._checkpoint.sync("metadata")
        offsets.sync(str(self.number))

    def end(self) -> dict[str, Offset]:
        """Up to where the micro-batch took in each stream."""
        return self._offsets(self.number)

    def start(self) -> dict[str, Offset]:
        if self.number:
            return self._offsets(self.number - 1)
        begin: dict[str, Any] = self._checkpoint.read_json(BEGIN) or {}
        return offsets_from_json(begin)

    def _offsets(self, number: int) -> dict[str, Offset]:
        """From Spark's own log of offsets, written before the micro-batch runs."""
        text = self._checkpoint.child("offsets").read_bytes(str(number))
        if text is None:
            return {}
        last: dict[str, Any] = json.loads(text.decode().strip().splitlines()[-1])
        return offsets_from_json(last)
