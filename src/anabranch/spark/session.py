"""The Spark session a database runs on: its own, one handed in, or one at a master's address."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors import SetupError
from anabranch.settings import Settings
from anabranch.spark.java import prepare_environment
from anabranch.spark.source import AnabranchSource

# What a session of ours is started with. Each line is worth measured milliseconds or a right answer.
STARTED_WITH: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # TCP between the JVM and its Python workers waits 40 ms for a delayed acknowledgement per task.
    "spark.python.unix.domain.socket.enabled": "true",
    # Hadoop's default local file system forks a chmod per file: ~150 ms a batch for the checkpoint.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.scheduler.mode": "FAIR",
}

# A Spark inside this machine talks to nobody else: whoever reaches the driver's port could have it run anything.
# The secret is drawn by Spark anew each time it starts. A cluster must be reachable: docs/security.md says what to set.
CLOSED: dict[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
}

# What every session we use runs with, also one that was handed in.
RUNS_WITH: dict[str, str] = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A standing query must not die of a division by zero: NULL, as in Spark before ANSI mode.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Text such as '${env:HOME}' in a query must stay text.
    "spark.sql.variable.substitute": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A kill while the first offsets are written leaves a temporary file behind, which must not stop the query for good.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.minBatchesToRetain": "20",
}

# PySpark logs every SQL error with its whole Java stack on stderr; `failures` says it in one line.
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

_lock = threading.Lock()
_users = 0
_ours: SparkSession | None = None


class Session:
    """A Spark session for one database; several databases of a process share one Spark context."""

    def __init__(self, settings: Settings, log_path: str | None, given: SparkSession | None = None) -> None:
        global _users, _ours
        self._given = given
        with _lock:
            if given is not None:
                base = given
            else:
                if _ours is None or _ours.sparkContext._jsc is None:
                    _ours = SparkSession.getActiveSession() or _start(settings, log_path)
                    _users = 0
                base = _ours
                _users += 1
            self.spark = _prepared(base)
        self._closed = False

    @functools.cached_property
    def for_files(self) -> SparkSession:
        """A session that compiles its plans: what that takes is soon won where Spark reads many rows by itself."""
        spark = _prepared(self.spark)
        spark.conf.set("spark.sql.codegen.wholeStage", "true")
        return spark

    @property
    def parallelism(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    def warm_up(self) -> None:
        """Start the Python workers and let them import what tasks need, before rows wait for it."""

        def touch(batches: Iterator[Any]) -> Iterator[Any]:
            import anabranch.spark.source  # noqa: F401
            from anabranch.operators.warm import warm_up

            warm_up()
            yield from batches

        count = self.parallelism
        self.spark.range(0, count, 1, count).mapInArrow(touch, "id BIGINT").toArrow()

    def close(self) -> None:
        """Stop Spark if this was the last database that used a session we started."""
        global _users, _ours
        with _lock:
            if self._closed or self._given is not None:
                return
            self._closed = True
            _users -= 1
            if _users <= 0 and _ours is not None:
                _ours.stop()
                _ours = None


def _prepared(base: SparkSession) -> SparkSession:
    """A session of our own beside another."""
    spark = base.newSession()
    cores = spark.sparkContext.defaultParallelism
    for name, value in {**RUNS_WITH, "spark.sql.shuffle.partitions": str(cores)}.items():
        spark.conf.set(name, value)
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make our source known to a session; one made from a session that knows it already does."""
    try:
        spark.dataSource.register(AnabranchSource)
    except AnalysisException as problem:
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def is_embedded(master: str) -> bool:
    """Whether Spark runs in one JVM of this process's own, so that nobody else has to reach it.

    >>> is_embedded("local[*,4]"), is_embedded("local-cluster[2,1,1024]"), is_embedded("spark://head:7077")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def _start(settings: Settings, log_path: str | None) -> SparkSession:
    java = prepare_environment(os.environ)
    master = settings["master"]
    if master.startswith("local[") and "," not in master:
        master = master[:-1] + ",4]"  # a task whose worker dies is tried again, as on a cluster
    builder = SparkSession.builder.master(master).appName("anabranch")
    builder = builder.config("spark.driver.memory", settings["driver_memory"])
    builder = builder.config("spark.pyspark.python", sys.executable)
    for name, value in {**STARTED_WITH, **(CLOSED if is_embedded(master) else {}), **RUNS_WITH}.items():
        builder = builder.config(name, value)
    try:
        with _stderr_to(log_path):
            spark = builder.getOrCreate()
    except Exception as problem:
        raise SetupError(
            "SPARK_COULD_NOT_START",
            f"Spark could not start with Java {java.version} on {master}",
            detail=str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__,
            hint=f"see {log_path}" if log_path else None,
        ) from problem
    spark.sparkContext.setLogLevel("WARN")
    # A task that ends with Spark itself cuts off what it says of its accumulators, and PySpark would print a stack.
    accumulators: Any = spark.sparkContext._accumulatorServer
    accumulators.handle_error = lambda *_: None
    return spark


@contextlib.contextmanager
def _stderr_to(path: str | None) -> Iterator[None]:
    """What the JVM and its workers say goes to a file, not between a user's tables."""
    if path is None:
        yield
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
        os.close(target)
