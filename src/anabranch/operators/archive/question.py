"""Questions to archives: how much has to be read for an answer, decided as it is being read.

`WITH ERROR`: a pilot says how far the rows differ, and from that follows how many are needed. It is a little more
than the pilot suggests, since a pilot that happens to see rows that are alike suggests too little; for the same reason
a pilot is believed to be enough only if it is so with room to spare. Only rows that the pilot did not have are added
to it. Groups far smaller than the others (a tenth of the average) do not decide how much is read, or a handful
of rows would force a full read: they are answered with the bounds they have, and `_met` says where these are too wide.
Groups of which no row was read are not in the answer.

`WITHIN`: larger and larger parts, as long as the next one should be done in time.

`REDUCE BY`: one pass over what the reducer leaves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.estimates import Estimates, Sums, estimates
from anabranch.archive.estimation.reasons import notices
from anabranch.archive.estimation.sums import TWO_SIDED
from anabranch.archive.reducers import Spec
from anabranch.functions.aggregates import estimator_of
from anabranch.operators.archive.aggregate import ArchiveAggregate
from anabranch.operators.windows.ordering import ranks

FRACTION, MET = "_fraction", "_met"

PILOT_ROWS = 20_000
PILOT_PART = 0.01
"""A pilot reads so many rows, and this part at least where nobody says how large the blocks of an archive are."""
_SPARE = 1.25
"""How much more variance than the pilot showed is reckoned with."""
_PILOT_ENOUGH = 0.9
"""A pilot is enough if its error is no more than this part of the one allowed."""
_LARGEST_STEP = 8.0
"""So many times as much at most is read next where the pilot cannot tell (an estimate of zero)."""
_NEARLY_ALL = 0.85
"""From here on everything is read: what is left out saves too little."""
_ROUNDS = 12
_SMALL_GROUP = 0.1

Clock = Callable[[], float]
Run = Callable[[ArchiveAggregate], Sums]


class Question(Protocol):
    """What is asked (`sql.history.archives.ArchiveQuestion`); `error` is in percent, `within` in microseconds."""

    @property
    def stream(self) -> str: ...
    @property
    def archive(self) -> str | None: ...
    @property
    def since(self) -> int | None: ...
    @property
    def until(self) -> int | None: ...
    @property
    def keys(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def aggregates(self) -> tuple[tuple[str, str, str | None], ...]: ...
    @property
    def columns(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def filter(self) -> str | None: ...
    @property
    def order(self) -> tuple[tuple[str, bool, bool], ...]: ...
    @property
    def limit(self) -> int | None: ...
    @property
    def reducer(self) -> Spec | None: ...
    @property
    def error(self) -> float | None: ...
    @property
    def within(self) -> int | None: ...
    @property
    def confidence(self) -> float: ...


@dataclass(frozen=True)
class Round:
    """One pass: which part of the rows is read when it is done, how many that is, and how long the pass took."""

    keep: float
    rows_read: int
    seconds: float


@dataclass(frozen=True)
class Answer:
    """The answer to a question, and the passes it took."""

    table: pa.Table
    rounds: list[Round]
    notices: list[str] = field(default_factory=list)
    """Where it has no bounds, and why."""


def answer(question: Question, run: Run, rows: int, clock: Clock = time.monotonic, block: float = PILOT_PART) -> Answer:
    """Answer a question about `rows` rows, as far as is known; `run` reads what an operator says.

    `block` is the part of all rows that comes at once: to read less of them costs as much.
    """
    reading = _Reading(question, run, clock, block)
    if question.error is not None:
        answer = _within_error(reading, rows, question.error / 100)
    elif question.within is not None:
        answer = _within_time(reading, rows, question.within / 1e6)
    else:
        answer = reading.estimates(reading.once())
    met = None
    if question.error is not None:
        met = _met(answer, reading.functions, question.error / 100)
    return Answer(_table(question, answer, met), reading.rounds, _notices(question, answer))


def _notices(question: Question, answer: Estimates) -> list[str]:
    withheld = dict(zip((name for name, _, _ in question.aggregates), answer.withheld, strict=True))
    return notices({name: withheld[source] for name, source in question.columns if source in withheld})


class _Reading:
    """The passes over the archive so far."""

    def __init__(self, question: Question, run: Run, clock: Clock, block: float) -> None:
        self.question = question
        self.functions = [estimator_of(function) for _, function, _ in question.aggregates]
        self.rounds: list[Round] = []
        self._run = run
        self._clock = clock
        self._sums: Sums | None = None
        self.block = block
        self.keep = 0.0
        self._plain = ArchiveAggregate(
            question.stream,
            question.since,
            question.until,
            question.keys,
            question.aggregates,
            question.filter,
            archive=question.archive,
        )
        self.begin: float | None = None
        """The part to begin with, where the question says one."""
        if question.reducer is not None and question.reducer[0] == "by_key":
            column, dropped = question.reducer[1]
            self.begin = 1 - dropped
            self._plain = replace(self._plain, by=column)

    def once(self) -> Sums:
        """One pass as the reducer says."""
        reducer = self.question.reducer
        if reducer is None:
            return self.upto(1.0)
        if self.begin is not None:
            return self.upto(self.begin)
        if reducer[0] == "uniform":
            return self.upto(1 - reducer[1][0])
        return self._pass(replace(self._plain, reducer=reducer))

    def upto(self, keep: float) -> Sums:
        """The sums of a larger part: those there are, and those of the rows between."""
        return self._pass(replace(self._plain, keep=keep, above=self.keep))

    def _pass(self, operator: ArchiveAggregate) -> Sums:
        begun = self._clock()
        more = self._run(operator)
        if self._sums is not None and more.apart != self._sums.apart:
            # Runs were joined meanwhile, and other rows lie far out in them: what was read does not fit any more.
            self._sums, more = None, self._run(replace(operator, above=0.0))
        self._sums = more if self._sums is None else replace(self._sums.raised(operator.keep), apart=0) + more
        self.keep = operator.keep
        rows = self._sums.rows_read
        part = self.keep if operator.reducer is None else rows / max(self._sums.rows_there, 1)
        self.rounds.append(Round(part, rows, self._clock() - begun))
        return self._sums

    def estimates(self, sums: Sums) -> Estimates:
        return estimates(sums, self.functions, self.question.confidence)


def _pilot(reading: _Reading, rows: int) -> float:
    """The part to begin with."""
    part = max(reading.block, PILOT_ROWS / max(rows, 1)) if reading.begin is None else reading.begin
    return _rounded(part)


def _rounded(part: float) -> float:
    return 1.0 if part >= _NEARLY_ALL else part


def _within_error(reading: _Reading, rows: int, error: float) -> Estimates:
    bounded = any(function in TWO_SIDED for function in reading.functions)
    # Of a minimum alone no error is known but that of everything.
    keep = _pilot(reading, rows) if bounded else 1.0
    allowed = error * _PILOT_ENOUGH
    for _ in range(_ROUNDS):
        estimated = reading.estimates(reading.upto(keep))
        worst = _worst(estimated, reading.functions)
        if keep >= 1 or worst <= allowed:
            return estimated
        keep, allowed = _next(keep, worst / error), error
    return reading.estimates(reading.upto(1.0))


def _next(keep: float, times: float) -> float:
    """The part with an error so many times smaller: the square of an error goes with (1 − part) / part."""
    odds = keep / (1 - keep) * min(max(times, 1.0) ** 2 * _SPARE, _LARGEST_STEP**2)
    if not np.isfinite(times):
        odds = keep / (1 - keep) * _LARGEST_STEP
    return _rounded(odds / (1 + odds))


def _worst(estimated: Estimates, functions: list[str]) -> float:
    """The largest error of a group that is not far smaller than the others."""
    errors = _errors(estimated, functions)
    if not errors.size:
        return np.inf  # no group was found yet
    decides = estimated.rows >= _SMALL_GROUP * estimated.rows.mean()
    return float(errors[:, decides].max(initial=0.0))


def _errors(estimated: Estimates, functions: list[str]) -> NDArray[np.float64]:
    """By aggregate with two bounds and by group, how far the bounds are from the value, as a part of it."""
    errors = []
    for function, (value, low, high) in zip(functions, estimated.columns, strict=True):
        if function not in TWO_SIDED:
            continue
        at, below, above = (column.to_numpy(zero_copy_only=False).astype(np.float64) for column in (value, low, high))
        reach = np.maximum(above - at, at - below)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(reach == 0, 0.0, reach / np.abs(at))
        # Where there is no value there is nothing to be wrong about; where there are no bounds, everything.
        errors.append(np.where(np.isnan(at), 0.0, np.where(np.isnan(error), np.inf, error)))
    return np.array(errors).reshape(len(errors), len(estimated.rows))


def _met(estimated: Estimates, functions: list[str], error: float) -> pa.Array:
    errors = _errors(estimated, functions)
    if errors.size:
        return pa.array((errors <= error).all(axis=0))
    return pa.array(np.full(len(estimated.rows), estimated.fraction >= 1))


def _within_time(reading: _Reading, rows: int, seconds: float) -> Estimates:
    keep, spent = _pilot(reading, rows), 0.0
    while True:
        sums = reading.upto(keep)
        took = max(reading.rounds[-1].seconds, 1e-6)
        spent += took
        # A pass may well touch again what the last one did, and takes longer than hoped now and then.
        grown = keep * min(4.0, (seconds - spent) / (1.2 * took))
        if keep >= 1 or grown < min(1.5 * keep, 1.0):
            return reading.estimates(sums)
        keep = 1.0 if grown >= 1 else min(grown, _NEARLY_ALL)


def _table(question: Question, estimated: Estimates, met: pa.Array | None) -> pa.Table:
    """The answer in the order of its columns: each aggregate with its bounds, and what part was read at the end."""
    keys = dict(zip((name for name, _ in question.keys), estimated.groups, strict=True))
    aggregates = dict(zip((name for name, _, _ in question.aggregates), estimated.columns, strict=True))
    columns: dict[str, pa.Array] = {}
    for name, source in question.columns:
        if source in keys:
            columns[name] = keys[source]
        else:
            columns |= dict(zip((name, f"{name}_low", f"{name}_high"), aggregates[source], strict=True))
    if met is not None:
        columns[MET] = met
    columns[FRACTION] = pa.array(np.full(len(estimated.rows), estimated.fraction))
    table = pa.table(columns)
    order = [ranks(table.column(name), descending, first) for name, descending, first in reversed(question.order)]
    if order:
        table = table.take(pa.array(np.lexsort(order)))
    return table if question.limit is None else table.slice(0, question.limit)
