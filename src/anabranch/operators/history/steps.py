"""Running totals as steps: what tasks find in their rows, in order, so that one place can add it up and answer.

A step holds the sums of rows that lie in one period of time. An answer at the end of a period is what all steps
up to there add up to, so whoever has the steps can answer, be it the task that made them or the driver that
gathers those of several tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from anabranch.archive.estimation.packing import PACKED, packed, unpacked
from anabranch.archive.estimation.sums import Sums
from anabranch.operators.state import SavedState

_ENDS_AT_ONCE = 4096


NO_PERIOD = -(1 << 62)
"""The period of steps that come before every other."""


class PeriodStep(NamedTuple):
    """Sums of rows of a period; what they are is the business of the totals that take them."""

    period: int
    kind: str
    content: pa.Table | Sums

    @property
    def table(self) -> pa.Table:
        return self.content.to_table() if isinstance(self.content, Sums) else self.content

    @property
    def sums(self) -> Sums:
        return self.content if isinstance(self.content, Sums) else Sums.from_table(self.content)


class Totals(Protocol):
    """What all rows so far add up to."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to answer yet."""
        ...

    def take(self, step: PeriodStep) -> None: ...

    def answer(self, ends: list[int]) -> pa.Table:
        """The answer rows at several times, between which nothing came."""
        ...


class Tally(Protocol):
    """Reads rows, and makes steps of them."""

    @property
    def totals(self) -> Totals: ...

    def steps(self, start: int, end: int, upto: int | None) -> Iterator[PeriodStep]:
        """Steps of the rows start ≤ n < end, when time has reached `upto`; None: others go on with the next rows."""
        ...

    def kept(self) -> list[PeriodStep]:
        """The totals as steps."""
        ...

    def state(self, start: int, steps: list[PeriodStep] | None) -> SavedState:
        """What is kept of a task that began with row `start`; `steps` are all it made, if it began with nothing."""
        ...

    def take_up(self, states: list[SavedState]) -> None:
        """Go on with what was kept, by however many tasks."""
        ...


@dataclass(frozen=True)
class Asked:
    """The times that are answered: multiples of `every` after `after` and up to `upto`."""

    every: int
    after: int
    upto: int
    pace: int = 1
    """Of them, every k-th is answered."""
    last: int | None = None
    """This one is always answered, and none comes after it."""

    @property
    def any(self) -> bool:
        return next(self.before(self.after, self.upto // self.every), None) is not None

    def before(self, after: int, period: int) -> Iterator[list[int]]:
        """Those after a time that are not later than the beginning of a period, some at once."""
        upto = min(period * self.every, self.upto if self.last is None else min(self.upto, self.last))
        step = self.every * self.pace
        ends = range((after // step + 1) * step, upto + 1, step)
        for low in range(0, len(ends), _ENDS_AT_ONCE):
            yield list(ends[low : low + _ENDS_AT_ONCE])
        if self.last is not None and after < self.last <= upto and self.last % step:
            yield [self.last]


def answered(totals: Totals, steps: Iterable[PeriodStep], asked: Asked) -> Iterator[pa.Table]:
    """Take steps in order, and answer at each time that is asked for once all steps before it are taken."""
    after = asked.after
    for step in steps:
        if not totals.empty:
            yield from map(totals.answer, asked.before(after, step.period))
        after = max(after, min(step.period * asked.every, asked.upto))
        totals.take(step)
    if not totals.empty:
        yield from map(totals.answer, asked.before(after, asked.upto // asked.every))


# -- on the way from tasks to the driver -----------------------------------------------------------


def heading(about: dict[str, Any], source: pa.Schema) -> list[pa.RecordBatch]:
    """What comes before all steps: what they are about, and the columns of the stream."""
    named = [("about", pa.table({"about": [json.dumps(about)]})), ("source", source.empty_table())]
    batches: list[pa.RecordBatch] = packed(named).to_batches()
    return batches


def sent(step: PeriodStep) -> list[pa.RecordBatch]:
    """A step as it is carried to the driver."""
    batches: list[pa.RecordBatch] = packed([(f"{step.period} {step.kind}", step.table)]).to_batches()
    return batches


def is_sent(answers: pa.Table) -> bool:
    return bool(answers.schema == PACKED)


def received(answers: pa.Table) -> tuple[dict[str, Any], pa.Schema, Iterator[PeriodStep]]:
    """What was sent: what it is about, the columns of the stream, and the steps."""
    parts = unpacked(answers)
    about: dict[str, Any] = json.loads(next(parts)[1].column(0)[0].as_py())
    source = next(parts)[1].schema
    named = ((name.partition(" "), table) for name, table in parts)
    return about, source, (PeriodStep(int(period), kind, table) for (period, _, kind), table in named)
