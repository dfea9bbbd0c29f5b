"""A question asked of Spark in a thread of its own: it can be interrupted, has a limit, and nobody else notices.

Whoever asks waits here and not inside a call of py4j, so that Ctrl-C finds nothing half sent. What is
interrupted is what Spark computes for this question, by its tag; standing queries go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from anabranch.errors import QueryError

T = TypeVar("T")

_LOOK_SECONDS = 0.2
_CANCEL_SECONDS = 10.0


class Question(Generic[T]):
    """`work` in its own thread; `cancel` ends what Spark does for it, `stuck` is called if that is of no use.

    Before it `prepare` may take the time it takes: Spark may have to be started.
    """

    def __init__(
        self, prepare: Callable[[], Any], work: Callable[[], T], cancel: Callable[[], Any], stuck: Callable[[], Any]
    ) -> None:
        self._prepare, self._work, self._cancel, self._stuck = prepare, work, cancel, stuck
        self._began: float | None = None
        self._done = threading.Event()
        self._outcome: list[T] = []
        self._problem: BaseException | None = None

    def ask(self, seconds: float, closing: threading.Event) -> T:
        """The answer; an error if it takes longer than `seconds` (0: no limit) or the database is closed."""
        threading.Thread(target=self._run, name="anabranch-question", daemon=True).start()
        try:
            while not self._done.wait(_LOOK_SECONDS):
                if seconds and self._began is not None and time.monotonic() > self._began + seconds:
                    raise QueryError(
                        "STATEMENT_TIMED_OUT",
                        f"the statement took longer than {seconds:g} s",
                        hint="ask for less, or raise the setting statement_timeout_seconds (0: no limit)",
                    )
                if closing.is_set():
                    raise QueryError("DATABASE_IS_CLOSED", "the database was closed while the statement ran")
        except BaseException:
            threading.Thread(target=self._end, name="anabranch-cancel", daemon=True).start()
            raise
        if self._problem is not None:
            raise self._problem
        return self._outcome[0]

    def _run(self) -> None:
        try:
            self._prepare()
            self._began = time.monotonic()
            self._outcome.append(self._work())
        except BaseException as problem:
            self._problem = problem
        finally:
            self._done.set()

    def _end(self) -> None:
        """Again and again for a while: what is to be cancelled may not have begun."""
        deadline = time.monotonic() + _CANCEL_SECONDS
        while time.monotonic() < deadline:
            self._cancel()
            if self._done.wait(_LOOK_SECONDS):
                return
        self._stuck()
