"""What the rest of the system asks of Spark: read once, stream, and run a standing query."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType, TimestampType

from anabranch.errors import AnabranchError
from anabranch.log.offset import Offset
from anabranch.log.storage import Storage
from anabranch.operators.base import Work
from anabranch.spark.failures import WORKER_DID_NOT_START, explain_failure
from anabranch.spark.options import FORMAT, ArchivedFiles, SourceOptions
from anabranch.spark.repeatable import check_repeatable
from anabranch.spark.session import Session
from anabranch.spark.staging import ENVELOPE_DDL, clear, seal, sweep, unseal
from anabranch.spark.starting import start_in_turn

_TRIES = 4

INPUT_VIEW = "__input"
"""The name by which the part of a query that Spark SQL computes sees the operator's rows."""


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame in Arrow's types."""
    return to_arrow_schema(frame.schema, timezone="UTC")


class Running:
    """A standing query inside Spark; one whose Python worker did not start in time is started again."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self._tries = 0
        self._stopped = False
        self._query = self._begin()

    def _begin(self) -> StreamingQuery:
        while True:
            self._tries += 1
            try:
                return start_in_turn(self._start)
            except PySparkException as problem:
                failure = explain_failure(problem)
                if failure.name != WORKER_DID_NOT_START or self._tries >= _TRIES:
                    raise failure from problem

    @property
    def alive(self) -> bool:
        return self.failure() is None and bool(self._query.isActive)

    def failure(self) -> AnabranchError | None:
        """Why it stopped by itself, if it did."""
        problem = self._query.exception()
        if problem is None:
            return None
        failure = explain_failure(problem)
        if failure.name == WORKER_DID_NOT_START and self._tries < _TRIES and not self._stopped:
            self._query = self._begin()
            return None
        return failure

    def stop(self) -> None:
        self._stopped = True
        with contextlib.suppress(PySparkException):
            self._query.stop()

    def run_to_end(self, timeout: float | None) -> bool:
        """For a query that takes what is there and ends: wait for its end."""
        try:
            # Spark's type hint says whole seconds; it takes fractions.
            return bool(self._query.awaitTermination(timeout)) if timeout is not None else self._forever()  # type: ignore[arg-type]
        except PySparkException as problem:
            raise explain_failure(problem) from problem

    def _forever(self) -> bool:
        self._query.awaitTermination()
        return True


def _read_once(spark: SparkSession, options: SourceOptions) -> DataFrame:
    return spark.read.format(FORMAT).options(**options.to_options()).load()


def _read_archived(spark: SparkSession, files: ArchivedFiles, options: SourceOptions) -> DataFrame:
    """The rows of files, and those that are not archived yet."""
    frame = _read_files(spark, files, cast(StructType, StructType.fromDDL(options.spark_schema)))
    if options.ends[files.stream][0] <= files.end:
        return frame
    return frame.union(_read_once(spark, replace(options, starts={files.stream: files.end})))


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


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


class Engine:
    """Spark, as this system uses it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._spark = session.spark
        self._views = threading.Lock()

    @property
    def parallelism(self) -> int:
        return self.session.parallelism

    def read_once(self, options: SourceOptions) -> DataFrame:
        """The operator's answer over what its streams hold, as a DataFrame."""
        return _read_once(self._spark, options)

    def sql_once(
        self, sql: str, views: dict[str, SourceOptions], files: Mapping[str, ArchivedFiles] | None = None
    ) -> DataFrame:
        """A one-time SELECT over views: each is the answer of an operator, and what `files` holds besides."""
        files = files or {}
        spark = self.session.for_files if files else self._spark
        try:
            with self._views:  # others may give other views the same names
                for name, options in views.items():
                    if name in files:
                        frame = _read_archived(spark, files[name], options)
                    else:
                        frame = _read_once(spark, options)
                    frame.createOrReplaceTempView(name)
                return spark.sql(sql)
        except PySparkException as problem:
            raise explain_failure(problem) from problem

    def collect(self, frame: DataFrame) -> pa.Table:
        """All rows of a one-time answer."""
        try:
            return frame.toArrow()
        except (PySparkException, Py4JError) as problem:
            raise explain_failure(problem) from problem

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """What this thread asks of Spark meanwhile can be ended by `cancel`."""
        self._spark.sparkContext.addJobTag(tag)
        try:
            yield
        finally:
            self._spark.sparkContext.removeJobTag(tag)

    def cancel(self, tag: str) -> None:
        """End what Spark computes under a tag at this moment; there may be nothing."""
        self._spark.sparkContext.cancelJobsWithTag(tag)

    def stream(self, options: SourceOptions, residual_sql: str | None = None) -> DataFrame:
        """The operator's answer as it grows, as a streaming DataFrame."""
        frame = self._spark.readStream.format(FORMAT).options(**options.to_options()).load()
        if residual_sql is None or options.sealed:
            return frame
        view = f"{INPUT_VIEW}_{secrets.token_hex(8)}"  # others start at this moment, and all of them read INPUT_VIEW
        try:
            frame.createTempView(view)
            answer = self._spark.sql(f"WITH {INPUT_VIEW} AS (SELECT * FROM {view}) {residual_sql}")
            check_repeatable(answer)
            return answer
        except PySparkException as problem:
            raise explain_failure(problem) from problem
        finally:
            self._spark.catalog.dropTempView(view)

    def answer_schema(self, options: SourceOptions, residual_sql: str) -> pa.Schema:
        """The columns of an answer that Spark SQL computes the rest of."""
        return arrow_schema(self.stream(replace(options, sealed=False), residual_sql))

    def run(
        self,
        options: SourceOptions,
        residual_sql: str | None,
        schema: pa.Schema,
        checkpoint: Storage,
        on_batch: Callable[[Batch], None],
        *,
        available_now: bool = False,
    ) -> Running:
        """Run a standing query: `on_batch` gets each micro-batch's answer, in order."""
        if residual_sql is None:
            sealed = self.stream(replace(options, sealed=True))
        else:
            sealed = self._sealed(self.stream(replace(options, sealed=False), residual_sql), schema, options)
        return self._start(sealed, schema, options, checkpoint, on_batch, available_now)

    def ingest(
        self,
        frame: DataFrame,
        options: SourceOptions,
        checkpoint: Storage,
        on_batch: Callable[[Batch], None],
        *,
        available_now: bool = False,
    ) -> Running:
        """Deliver any streaming DataFrame's rows, in Arrow, one micro-batch after the other."""
        schema = arrow_schema(frame)
        sealed = self._sealed(frame, schema, options)
        return self._start(sealed, schema, options, checkpoint, on_batch, available_now)

    def _sealed(self, frame: DataFrame, schema: pa.Schema, options: SourceOptions) -> DataFrame:
        staging, limit = options.staging, options.inline_bytes
        assert staging is not None

        def put(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            task = context.partitionId() if context is not None else 0
            casted = (b.cast(schema) for b in batches)
            yield seal(casted, task, staging, limit, Work())

        return frame.mapInArrow(put, ENVELOPE_DDL)

    def _start(
        self,
        sealed: DataFrame,
        schema: pa.Schema,
        options: SourceOptions,
        checkpoint: Storage,
        on_batch: Callable[[Batch], None],
        available_now: bool,
    ) -> Running:
        assert options.staging is not None
        staging = Storage(options.staging)
        clear(staging)

        def take(frame: DataFrame, number: int) -> None:
            envelopes = frame.toArrow()
            rows, work = unseal(envelopes, schema, staging)
            on_batch(Batch(number, rows, work, checkpoint))
            sweep(envelopes, staging)

        writer = sealed.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint.address)
        writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
        return Running(writer.start)


class Batch:
    """A micro-batch's answer, with the offsets it is a function of."""

    def __init__(self, number: int, rows: pa.Table, work: Work, checkpoint: Storage) -> None:
        self.number = number
        self.rows = rows
        self.work = work
        self._checkpoint = checkpoint.child("offsets")

    def end(self) -> dict[str, Offset]:
        """Up to where the micro-batch took in each stream."""
        return self._offsets(self.number)

    def start(self) -> dict[str, Offset]:
        return self._offsets(self.number - 1) if self.number else {}

    def _offsets(self, number: int) -> dict[str, Offset]:
        """From Spark's own log of offsets, written before the micro-batch runs."""
        text = self._checkpoint.read_bytes(str(number))
        if text is None:
            return {}
        last: dict[str, Any] = json.loads(text.decode().strip().splitlines()[-1])
        return {name: Offset(*offset) for name, offset in last.items()}
