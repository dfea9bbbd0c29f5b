"""One life of Spark: from its start until its JVM ends, for whatever reason."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from anabranch.errors import AnabranchError, QueryError
from anabranch.spark.failures import said
from anabranch.spark.gateway import process_of

ENGINE_LOST = "ENGINE_LOST"
"""Spark ended under what it was doing."""

OUT_OF_MEMORY = 3
"""The code a JVM ends with when it was told to end at its first OutOfMemoryError."""

_ENDING_SECONDS = 3.0
"""A connection breaks a moment before the process counts as ended."""
_STOPPED = re.compile(
    r"stopped SparkContext|SparkContext (was|has been|is) (shut ?down|stopped)|SparkContext.*shut down"
)


class Life:
    """A Spark session with the JVM it lives in.

    One that was `handed_in` cannot be started again, and one that was not `started` here is not stopped.
    """

    def __init__(self, spark: SparkSession, *, started: bool = True, handed_in: bool = False, memory: str = "") -> None:
        self.spark = spark
        self.started = started and not handed_in
        self.handed_in = handed_in
        self._memory = memory
        self._context = spark.sparkContext
        self._process = process_of(self._context._gateway)
        self._known_lost = False
        # Where Spark ends it cuts off what a task says of its accumulators, and PySpark would print a stack.
        accumulators: Any = self._context._accumulatorServer
        if accumulators is not None:
            accumulators.handle_error = lambda *_: None

    @property
    def jvm_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def lost(self) -> bool:
        return self._known_lost or self.jvm_ended or self._context._jsc is None

    def lost_by(self, problem: BaseException) -> bool:
        """Whether an exception came because this life has ended."""
        if not self.lost and self._may_mean_loss(problem):
            if self._process is None:
                self._known_lost = isinstance(problem, ConnectionError)
            else:
                try:
                    self._process.wait(_ENDING_SECONDS)
                except subprocess.TimeoutExpired:
                    self._known_lost = bool(_STOPPED.search(said(problem)))
        return self.lost

    @staticmethod
    def _may_mean_loss(problem: BaseException) -> bool:
        broken = isinstance(problem, ConnectionError | EOFError | pa.ArrowException)
        unanswered = isinstance(problem, Py4JError) and not isinstance(problem, Py4JJavaError)
        return broken or unanswered or bool(_STOPPED.search(said(problem)))

    def loss(self) -> AnabranchError:
        """The error for what was cut off."""
        code = self._process.poll() if self._process is not None else None
        if self.handed_in:
            how = "ended" if code is not None else "was stopped or cannot be reached"
            hint = "open the database again with a new session; what needs no Spark goes on"
            return QueryError(ENGINE_LOST, f"the Spark session that was handed in {how}", hint=hint)
        if code == OUT_OF_MEMORY:
            message = f"Spark ran out of memory ({self._memory} for its JVM); it is started again"
            return QueryError(ENGINE_LOST, message, hint="ask for less at once, or raise the setting driver_memory")
        how = f"was ended by signal {-code}" if code is not None and code < 0 else "ended"
        message = f"Spark's JVM {how}; it is started again"
        return QueryError(ENGINE_LOST, message, hint="try again; spark.log has what it said last")

    def kill(self) -> None:
        """End a JVM that no longer answers."""
        if self.started and self._process is not None:
            self._process.kill()
            self._process.wait()
