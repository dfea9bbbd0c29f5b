"""A source that plays a script: values, silences, failures and ends exactly when a test wants them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from anabranch.clock import Clock
from anabranch.sources.base import END, NO_VALUE, NewValue, Reading, Signal, Source, Values
from anabranch.testing.clock import ManualClock


@dataclass(frozen=True)
class Pause:
    """Silence for a length of time by the source's clock: NO_VALUE until it has passed.

    With a `ManualClock` the test says when that is; without any clock a pause is one NO_VALUE.
    """

    seconds: float


class Abort(Exception):
    """The source dies here: what a script raises with ABORT."""


ABORT = Abort("the script aborts here")

Step: TypeAlias = NewValue | Values | Signal | Pause | BaseException | type[BaseException]


class ScriptedSource(Source):
    """Gives one step of its script per reading.

    A step is a value (a dict, Arrow rows, or a `NewValue` with its own time), NO_VALUE, `Pause`, an
    exception to raise (`ABORT` is one), or END. After an exception the next reading goes on with the
    next step, as a source does that was connected again; behind the last step the stream ends.
    `init_stream` starts the script from its beginning, unless `resume` keeps its place.

    >>> with ScriptedSource([{"v": 1}, NO_VALUE]) as source:
    ...     [source.read_stream() for _ in range(3)]
    [NewValue(values={'v': 1}, time=None), <Signal.NO_VALUE: ...>, <Signal.END: ...>]
    """

    def __init__(self, script: Iterable[Step], *, clock: Clock | None = None, resume: bool = False) -> None:
        self._script = list(script)
        self._clock = clock
        self._resume = resume
        self._at = 0
        self._silent_since: int | None = None
        self.opened = 0
        """How often the source was started."""
        self.is_open = False

    def init_stream(self) -> None:
        self.opened += 1
        self.is_open = True
        self._silent_since = None
        if not self._resume:
            self._at = 0

    def read_stream(self) -> Reading:
        if not self.is_open:
            raise RuntimeError("read_stream before init_stream or after close_stream")
        if self._at >= len(self._script):
            return END
        step = self._script[self._at]
        if isinstance(step, Pause):
            return self._pause(step)
        if step is END:
            return END
        self._at += 1
        if isinstance(step, BaseException) or (isinstance(step, type) and issubclass(step, BaseException)):
            raise step
        if step is NO_VALUE:
            return NO_VALUE
        assert not isinstance(step, Signal | type)
        return step if isinstance(step, NewValue) else NewValue(step)

    def _pause(self, pause: Pause) -> Reading:
        if self._clock is None:
            self._at += 1
            return NO_VALUE
        now = self._clock.now_us()
        if self._silent_since is None:
            self._silent_since = now
        if now - self._silent_since < pause.seconds * 1e6:
            return NO_VALUE
        self._silent_since = None
        self._at += 1
        return self.read_stream()

    def close_stream(self) -> None:
        self.is_open = False

    @property
    def left(self) -> int:
        """How many steps are still to come."""
        return len(self._script) - self._at


def at(time: int | str | dt.datetime, values: Values) -> NewValue:
    """A value with the time it happened, as a step of a script.

    >>> at("1970-01-01 00:00:01", {"v": 1})
    NewValue(values={'v': 1}, time=1000000)
    """
    return NewValue(values, ManualClock(time).now_us())
