"""Running totals as steps: what tasks find in their rows, in order, so that one place can add it up and answer.

A step holds the sums of rows that lie in one period of time. An answer at the end of a period is what all steps
up to there add up to, so whoever has the steps can answer, be it the task that made them or the driver that
gathers those of several tasks. Which groups it is about follows from the times of their newest rows: those that
had one since the answer before. Where nothing came there is nothing to say, however long that lasts.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from anabranch.archive.estimation.packing import PACKED, packed, unpacked
from anabranch.archive.estimation.sums import Sums
from anabranch.log.offset import MIN_TIME
from anabranch.operators.state import SavedState

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
    """What all rows so far add up to, and what they added up to when they were answered last."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to answer yet."""
        ...

    @property
    def told(self) -> int | None:
        """The time of the answer that is remembered as the last one; None: of none."""
        ...

    drawn: int
    """As `Asked.drawn`: what was asked before says so for what is asked now."""

    def take(self, step: PeriodStep) -> None: ...

    def answer(self, end: int, since: int, whole: bool) -> pa.Table:
        """The answer rows at a time: of groups with a row since another; if there is any, of all, if `whole`."""
        ...

    def mark(self, end: int) -> None:
        """Remember what there is as the answer of a time."""
        ...

    def shown(self, end: int) -> pa.Table:
        """The whole answer that is remembered."""
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

    def take_up(self, states: list[SavedState], at: int) -> None:
        """Go on with what was kept, by however many tasks, when time had come to `at`."""
        ...


@dataclass(frozen=True)
class Asked:
    """The times that are answered: multiples of `every` after `after` and up to `upto`."""

    every: int
    after: int
    upto: int
    told: int
    """The last of them before, or where counting began."""
    pace: int = 1
    """Of them, every k-th is answered."""
    last: int | None = None
    """This one is always answered, and none comes after it."""
    drawn: int = MIN_TIME
    """Answers after one that is not later are of all groups, if any changed: the estimates of all do."""

    @property
    def newest(self) -> int:
        """The last that is answered, or that was before."""
        ends = self.between(self.after, self.upto)
        return self.told if ends is None else ends[1]

    def between(self, after: int, upto: int) -> tuple[int, int] | None:
        """The first and the last of those after a time and up to another."""
        upto = min(upto, self.upto if self.last is None else min(self.upto, self.last))
        step = self.every * self.pace
        first, latest = (after // step + 1) * step, upto // step * step
        if self.last is not None and after < self.last <= upto:
            return min(first, self.last), self.last
        return (first, latest) if first <= latest else None


def counted(totals: Totals, steps: Iterable[PeriodStep], asked: Asked) -> Iterator[tuple[int, int]]:
    """Take steps in order, and stop at each time that may say something new, once all steps before it are taken.

    Gives that time and the one of the answer before. Of several between which nothing came it is the first.
    """
    totals.drawn = max(totals.drawn, asked.drawn)
    after, told, marked = asked.after, asked.told, totals.told == asked.told
    for step in itertools.chain(steps, [None]):
        begin = asked.upto if step is None else min(step.period * asked.every, asked.upto)
        if not marked and begin >= told:
            totals.mark(told)
            marked = True
        ends = asked.between(after, begin)
        if ends is not None:
            yield ends[0], told
            after = told = ends[1]
            totals.mark(told)
        if step is not None:
            totals.take(step)


def answered(totals: Totals, steps: Iterable[PeriodStep], asked: Asked) -> Iterator[pa.Table]:
    """The answers while steps are taken."""
    for end, since in counted(totals, steps, asked):
        if not totals.empty:
            yield totals.answer(end, since, since <= asked.drawn)


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
