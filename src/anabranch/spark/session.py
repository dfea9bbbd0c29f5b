"""The Spark session a database runs on: its own, one handed in, or one at a master's address."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from anabranch.errors import QueryError, SetupError
from anabranch.settings import Settings
from anabranch.spark.classes import ready_classes
from anabranch.spark.gateway import forget, launch
from anabranch.spark.java import prepare_environment
from anabranch.spark.life import Life
from anabranch.spark.python import worker_python
from anabranch.spark.source import AnabranchSource
from anabranch.spark.within import within

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
    "spark.scheduler.allocation.file": Path(__file__).with_name("pools.xml").as_uri(),
}

# One thread out of memory may leave a JVM that neither works nor ends; ended, it is started again.
JAVA_OPTIONS = "-XX:+ExitOnOutOfMemoryError"

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

PLANNER_VARIABLES = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")
"""What Spark tells the process that plans a standing query by its environment."""

# PySpark logs every SQL error with its whole Java stack on stderr; `failures` says it in one line.
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

_lock = threading.RLock()
_closing = threading.Condition(_lock)
_users = 0
_life: Life | None = None
_losses: list[float] = []
_not_before = 0.0

_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds before Spark is started again, by how often it was lost lately."""
_LATELY = 30.0
_STOP_SECONDS = 30.0

SPARK_COULD_NOT_START = "SPARK_COULD_NOT_START"


class Session:
    """Spark for one database, started when first used; several databases of a process share one Spark context.

    One that was lost is started again by whoever needs it next: standing queries notice by themselves.
    """

    def __init__(
        self,
        settings: Settings,
        log_path: str | None,
        given: SparkSession | None = None,
        *,
        warm_up: bool = False,
    ) -> None:
        global _users
        self._warms_up = warm_up
        self._settings = settings
        self._log_path = log_path
        self._given = Life(given, handed_in=True) if given is not None else None
        self._mine: tuple[Life, SparkSession] | None = None
        self._others: dict[str, tuple[Life, SparkSession]] = {}
        self._closed = False
        if given is None:
            with _lock:
                _users += 1

    def life(self) -> Life:
        """The life of Spark as it is now; begun if there is none, or if the last one has ended."""
        with _lock:
            if self._given is not None:
                if self._given.lost:
                    raise self._given.loss()
                return self._given
            return self._shared()

    def _shared(self) -> Life:
        global _life, _not_before
        if _life is not None and not _life.lost:
            return _life
        if _life is not None:
            lost, _life = _life, None
            now = time.monotonic()
            _losses[:] = [at for at in _losses if now - at < _LATELY] + [now]
            _not_before = now + _PAUSES[min(len(_losses), len(_PAUSES)) - 1]
            _discard(lost)
        _closing.wait_for(lambda: self._closed, max(_not_before - time.monotonic(), 0))
        if self._closed:
            raise QueryError("DATABASE_IS_CLOSED", "the database is closed")
        if _life is None:  # nobody was faster
            running = SparkSession._instantiatedSession
            if running is not None and running.sparkContext._jsc is not None:
                _life = Life(running, started=False)
            else:
                _life = _start(self._settings, self._log_path)
        return _life

    @property
    def last_life(self) -> Life | None:
        """The life of Spark that was used last."""
        return self._mine[0] if self._mine is not None else self._given

    @property
    def spark(self) -> SparkSession:
        """A session of its own beside the others of the same Spark."""
        with _lock:
            life = self.life()
            if self._mine is None or self._mine[0] is not life:
                self._mine = (life, _prepared(life.spark))
                if self._warms_up:
                    threading.Thread(target=self._warm_up, name="anabranch-warm-up", daemon=True).start()
            return self._mine[1]

    @property
    def for_files(self) -> SparkSession:
        """A session that compiles its plans: what that takes is soon won where Spark reads many rows by itself."""
        return self._other("for_files", {"spark.sql.codegen.wholeStage": "true"})

    @property
    def in_order(self) -> SparkSession:
        """A session that adds up one row after the other, so that sums come to the same bits each time.

        How it goes about it depends on the question alone: not on how much there is of what.
        """
        plain = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
        return self._other("in_order", {"spark.sql.shuffle.partitions": "1", **plain})

    def _other(self, name: str, settings: dict[str, str]) -> SparkSession:
        """Another session of the same Spark, kept under a name."""
        with _lock:
            life = self.life()
            known = self._others.get(name)
            if known is None or known[0] is not life:
                spark = _prepared(life.spark)
                for setting, value in settings.items():
                    spark.conf.set(setting, value)
                known = self._others[name] = (life, spark)
            return known[1]

    @property
    def parallelism(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    def _warm_up(self) -> None:
        """Start the Python workers and let them import what tasks need, before rows wait for it."""

        def touch(batches: Iterator[Any]) -> Iterator[Any]:
            import anabranch.spark.source  # noqa: F401
            from anabranch.operators.warm import warm_up

            warm_up()
            yield from batches

        with contextlib.suppress(Exception):  # who needs the workers next starts them
            count = self.parallelism
            self.spark.range(0, count, 1, count).mapInArrow(touch, "id BIGINT").toArrow()

    def close(self) -> None:
        """Stop Spark if this was the last database that used one we started."""
        global _users, _life
        with _lock:
            if self._closed:
                return
            self._closed = True
            _closing.notify_all()
            if self._given is not None:
                if self._given.jvm_ended:
                    forget()  # so that the program can make another
                return
            _users -= 1
            if _users <= 0 and _life is not None:
                life, _life = _life, None
                _discard(life)


def _discard(life: Life) -> None:
    """End a life: with its JVM still there stop Spark in it, without it forget what PySpark knows of it."""
    if life.started and not life.jvm_ended and not within(_STOP_SECONDS, life.spark.stop):
        life.kill()
    forget()


def _prepared(base: SparkSession) -> SparkSession:
    """A session of our own beside another."""
    spark = base.newSession()
    cores = spark.sparkContext.defaultParallelism
    for name, value in {**RUNS_WITH, "spark.sql.shuffle.partitions": str(cores)}.items():
        spark.conf.set(name, value)
    register(spark)
    return spark


def register(spark: SparkSession, source: type[DataSource] = AnabranchSource) -> None:
    """Make our source known to a session; one made from a session that knows it already does."""
    try:
        with _all_names_in(spark.sparkContext.environment), _active(spark):
            spark.dataSource.register(source)
    except AnalysisException as problem:
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


@contextlib.contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Meanwhile a session is the one of this thread.

    Spark looks there for what is known already: in a thread that takes a micro-batch in, at the session of its query.
    """
    sessions = SparkSession._get_j_spark_session_class(spark._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextlib.contextmanager
def _all_names_in(environment: dict[str, str]) -> Iterator[None]:
    """Meanwhile the variables of Python workers have the names that Spark gives values later.

    All queries that read a source share its map of variables, which Spark writes to at the start of each and sends
    with every task. It is a HashMap: two that add a name at once leave it with a size that is not its own for good,
    and no task that it is sent with can be read. A name that is there gets another value, which harms nobody.
    """
    missing = [name for name in PLANNER_VARIABLES if name not in environment]
    environment.update(dict.fromkeys(missing, ""))
    try:
        yield
    finally:
        for name in missing:
            del environment[name]


def is_embedded(master: str) -> bool:
    """Whether Spark runs in one JVM of this process's own, so that nobody else has to reach it.

    >>> is_embedded("local[*,4]"), is_embedded("local-cluster[2,1,1024]"), is_embedded("spark://head:7077")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def _start(settings: Settings, log_path: str | None) -> Life:
    java = prepare_environment(os.environ)
    master = settings["master"]
    if master.startswith("local[") and "," not in master:
        master = master[:-1] + ",4]"  # a task whose worker dies is tried again, as on a cluster
    if is_embedded(master):
        os.environ["PYSPARK_PYTHON"] = worker_python(os.environ)
    wanted = {
        "spark.master": master,
        "spark.app.name": "anabranch",
        "spark.driver.memory": settings["driver_memory"],
        "spark.pyspark.python": os.environ["PYSPARK_PYTHON"],
        "spark.driver.defaultJavaOptions": " ".join([JAVA_OPTIONS, *ready_classes(java)]),
        **STARTED_WITH,
        **(CLOSED if is_embedded(master) else {}),
        **RUNS_WITH,
    }
    builder = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    try:
        forget()
        launch(wanted, log_path)
        with _interrupts_left_alone():
            spark = builder.getOrCreate()
    except Exception as problem:
        raise SetupError(
            SPARK_COULD_NOT_START,
            f"Spark could not start with Java {java.version} on {master}",
            detail=str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__,
            hint=f"see {log_path}" if log_path else None,
        ) from problem
    spark.sparkContext.setLogLevel("WARN")
    return Life(spark, memory=settings["driver_memory"])


@contextlib.contextmanager
def _interrupts_left_alone() -> Iterator[None]:
    """PySpark would have Ctrl-C cancel all jobs, those of standing queries among them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
