"""Standing queries that start together take turns.

Spark starts a Python process for each query's source and gives it 10 s, most of which go to imports.
After a restart a database may start dozens of queries: all at once they would share the processor so
thinly that none is ready in time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

_AT_ONCE = max(2, os.cpu_count() or 2)
_TURN_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_turns = threading.BoundedSemaphore(_AT_ONCE)


def start_in_turn(
    start: Callable[[], StreamingQuery], given_up: Callable[[], bool] = lambda: False
) -> StreamingQuery | None:
    """Start a query as soon as few enough others are starting; does not wait for it to be ready.

    None if it is given up before its turn has come.
    """
    turns = _turns
    got = _take_turn(turns, given_up)
    try:
        query = None if given_up() else start()
    except BaseException:
        if got:
            turns.release()
        raise
    if query is None:
        if got:
            turns.release()
    elif got:
        threading.Thread(target=_pass_on, args=(query, turns), name="anabranch-starting", daemon=True).start()
    return query


def _take_turn(turns: threading.Semaphore, given_up: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _TURN_SECONDS
    while not given_up() and time.monotonic() < deadline:
        if turns.acquire(timeout=_LOOK_SECONDS):
            return True
    return False


def _pass_on(query: StreamingQuery, turns: threading.Semaphore) -> None:
    """The next one's turn comes when this query's source is there, or took far too long."""
    deadline = time.monotonic() + _TURN_SECONDS
    try:
        while query.isActive and _initializing(query) and time.monotonic() < deadline:
            time.sleep(0.05)
    except (PySparkException, Py4JError, OSError):
        pass  # the session is closing
    finally:
        turns.release()


def _initializing(query: StreamingQuery) -> bool:
    return str(query.status["message"]).startswith("Initializing")
