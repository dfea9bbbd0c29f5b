"""A standing query inside Spark, looked after by a thread of its own.

The thread starts it, waits for its end without asking anything, and starts it again after what is no
fault of its own: Spark was lost, a Python process of it died or did not start in time. What others want
to know (`status`, `failure`) is known here: nobody has to ask a JVM that may be gone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

from anabranch.errors import AnabranchError, QueryError
from anabranch.spark.failures import PLANNER_DIED, WORKER_DID_NOT_START, WORKER_DIED, explain_failure
from anabranch.spark.life import ENGINE_LOST, Life
from anabranch.spark.session import SPARK_COULD_NOT_START, Session
from anabranch.spark.starting import start_in_turn
from anabranch.spark.within import within

_STOP_SECONDS = 30.0
_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each further start; after as many failures in a row a query has failed."""
_BUSY_PAUSES = (*_PAUSES, *(10.0,) * 25)
"""The same where a worker did not start in time: a machine may be busy for minutes."""
_LONG_LIFE = 300.0
"""A query that has run for so long does not fail in a row with what was before."""


class Tries:
    """How often in a row a query may end by what is no fault of its own."""

    def __init__(self) -> None:
        self._count = 0
        self._began = time.monotonic()

    @property
    def count(self) -> int:
        return self._count

    def begin(self) -> None:
        self._began = time.monotonic()

    def worked(self) -> None:
        """A micro-batch is done: what came before is forgotten."""
        self._count = 0

    def failed(self, pauses: tuple[float, ...] | None = None) -> float | None:
        """Seconds to wait before the next try; None if there is none."""
        pauses = pauses or _PAUSES
        if time.monotonic() - self._began > _LONG_LIFE:
            self._count = 0
        self._count += 1
        return pauses[self._count - 1] if self._count <= len(pauses) else None


class Running:
    """See the module. `begin` starts the query in Spark as it is then; `tell` is told why it was started again."""

    def __init__(
        self,
        begin: Callable[[], StreamingQuery],
        session: Session,
        tries: Tries,
        *,
        restarts: bool = True,
        in_batch: Callable[[], bool] = lambda: True,
        tell: Callable[[str, str], None] = lambda name, text: None,
    ) -> None:
        self._begin = begin
        self._session = session
        self._tries = tries
        self._restarts = restarts
        self._in_batch = in_batch
        self._tell = tell
        self._status = "starting"
        self._failure: AnabranchError | None = None
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._life: Life | None = None
        self._query: StreamingQuery | None = None
        self._ran = False
        self._thread = threading.Thread(target=self._live, name="anabranch-query", daemon=True)
        self._thread.start()

    # -- what is known -----------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """`starting` (also again), `running`, `stopped` or `failed`."""
        return self._status

    @property
    def alive(self) -> bool:
        return self._status in ("starting", "running")

    @property
    def failure(self) -> AnabranchError | None:
        """Why it stopped by itself, if it did."""
        return self._failure

    def started(self, timeout: float | None = None) -> None:
        """Until Spark has started it; raises why it could not."""
        self._wait_while(("starting",), timeout)

    def run_to_end(self, timeout: float | None) -> bool:
        """For a query that takes what is there and ends: wait for its end; False if that took too long."""
        return self._wait_while(("starting", "running"), timeout)

    def _wait_while(self, statuses: tuple[str, ...], timeout: float | None) -> bool:
        with self._changed:
            ended = self._changed.wait_for(lambda: self._status not in statuses, timeout)
        if self._failure is not None:
            raise self._failure
        return ended

    # -- the thread ----------------------------------------------------------------------------------

    def _live(self) -> None:
        while not self._stopping.is_set():
            try:
                self._run()
                break
            except Exception as problem:
                if self._stopping.is_set():
                    break
                failure = self._explained(problem)
                pause = self._pause_after(failure)
                if pause is None:
                    self._failure = self._given_up(failure)
                    self._become("failed")
                    return
                self._become("starting")
                with contextlib.suppress(Exception):  # a disk that is full must not end the query for good
                    self._tell(failure.name.lower(), f"{failure.message}; the query goes on from where it was")
                self._stopping.wait(pause)
        self._become("stopped")

    def _run(self) -> None:
        """From its start in Spark to its end there."""
        self._query = None
        self._life = self._session.life()
        self._tries.begin()
        query = start_in_turn(self._begin, self._stopping.is_set)
        if query is None:
            return
        self._query = query
        if self._stopping.is_set():
            query.stop()
            return
        self._ran = True
        self._become("running")
        query.awaitTermination()
        if self._life.lost and not self._stopping.is_set():
            raise self._life.loss()

    def _become(self, status: str) -> None:
        with self._changed:
            self._status = status
            self._changed.notify_all()

    # -- failures ------------------------------------------------------------------------------------

    def _explained(self, problem: Exception) -> AnabranchError:
        if isinstance(problem, AnabranchError):
            return problem
        if self._life is not None and self._life.lost_by(problem):
            return self._life.loss()
        failure = explain_failure(problem)
        failure.__cause__ = problem
        return failure

    def _pause_after(self, failure: AnabranchError) -> float | None:
        """Seconds after which it is started again; None if it is not."""
        if not self._restarts:
            return None
        if failure.name == ENGINE_LOST:
            if self._life is not None and self._life.handed_in:
                return None
            # Whoever had nothing to do when Spark was lost is not the one it was lost by.
            return self._tries.failed() if self._in_batch() else 0.0
        if failure.name == SPARK_COULD_NOT_START and not self._ran:
            return None  # it never could
        if failure.name == WORKER_DID_NOT_START:
            return self._tries.failed(_BUSY_PAUSES)
        if failure.name in (WORKER_DIED, PLANNER_DIED, SPARK_COULD_NOT_START):
            return self._tries.failed()
        return None

    def _given_up(self, failure: AnabranchError) -> AnabranchError:
        if self._tries.count <= len(_PAUSES):
            return failure
        often = f"it was started {self._tries.count - 1} times more and got no further"
        return QueryError(failure.name, failure.message, detail=often, hint=failure.hint)

    # -- the end -------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End it, in bounded time."""
        self._stopping.set()
        query = self._query
        if query is not None and self.alive:
            within(_STOP_SECONDS, query.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)
