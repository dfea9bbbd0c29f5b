"""How far a micro-batch goes in a stream, and what else it was decided to be before it ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from anabranch.log.offset import MIN_TIME, End


class Cohort(NamedTuple):
    """Members that do not go with the others, because of the rows low ≤ n < high of their list."""

    low: int
    high: int
    at: dict[str, Any]
    """How far they are in each stream."""
    stopped: bool = False
    """Whether they stay there."""
    rows: int = 0
    """So many of each stream they take in at most in a micro-batch: they are held back, and stay a cohort where the
    others are. 0: they come up to the others, and go on with them."""

    def has_more(self, ends: Mapping[str, End]) -> bool:
        """Whether there is anything for them to do."""
        if self.rows:
            return any(ends[name].row > row or ends[name].time > time for name, (row, time) in self.at.items())
        return not self.stopped


NOT_BEGUN = 0
"""Stands for the k of `Offset.every` where a query begins that has an answer over nothing: its first micro-batch is run
though nothing has come."""


class Offset(NamedTuple):
    """All rows numbered below `row`; no later row is older than `time` (`log.offset.End`).

    Where it is the end of a micro-batch, `every` says that of the windows that end in it every k-th
    is answered; standing in the offset, it is the same when the micro-batch is run again. So does
    `keep`: the fraction of history that a micro-batch reads, where a reducer says so (`archive.reducers`).
    """

    row: int = 0
    time: int = MIN_TIME
    every: int = 1
    keep: float = 1.0
    catching: tuple[Cohort, ...] = ()
    """In the offset of a list of members: those that do not go with the others (`operators.together`).

    There `every` is how far behind the host is; each of its members answers as many windows as it says that it may.
    """

    @property
    def has_begun(self) -> bool:
        """Whether there was a micro-batch before, where one is run in any case."""
        return self.every != NOT_BEGUN

    @property
    def place(self) -> End:
        """How far it is, whatever was decided of the micro-batch."""
        return End(self.row, self.time)

    @staticmethod
    def at(end: End) -> Offset:
        """The offset of all that a stream has."""
        return Offset(end.row, end.time)


Offsets = Mapping[str, Offset]
"""An offset for each input stream."""


def offsets_to_json(offsets: Offsets) -> dict[str, list[Any]]:
    return {name: _plain(offset) for name, offset in offsets.items()}


def _plain(offset: Offset) -> list[Any]:
    return [*offset[:-1], [list(cohort) for cohort in offset.catching]] if offset.catching else list(offset[:-1])


def offsets_from_json(saved: Mapping[str, Any]) -> dict[str, Offset]:
    return {name: _offset(*offset) for name, offset in saved.items()}


def _offset(row: int, time: int, every: int = 1, keep: float = 1.0, catching: Any = ()) -> Offset:
    cohorts = tuple(
        Cohort(low, high, {name: tuple(end) for name, end in at.items()}, *stopped)
        for low, high, at, *stopped in catching
    )
    return Offset(row, time, every, keep, cohorts)
