"""How far the streams of a merge are read: up to the same time, or as many rows of each.

By rows (M. Mazzucco et al., 2002, §4.1), rows are counted from where the query began. The n-th rows of all streams
belong together, and their time is when the last of them came: the streams keep pace by it however unequal their own
times are. A stream that is ahead waits in the log, but for as many rows as its window may be filled with meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from anabranch.kernels.merge import LAST, NEVER
from anabranch.kernels.values import integers
from anabranch.log.offset import MAX_TIME, MIN_TIME
from anabranch.operators.base import Floor, Inputs, Offsets
from anabranch.operators.merge.records import Ints, Records


class Pacing(Protocol):
    """What of the streams is taken in at an offset."""

    @property
    def by_rows(self) -> bool: ...

    @property
    def base(self) -> Mapping[str, int] | None:
        """The row of each stream that the query began with, if rows are counted from there."""
        ...

    def rows(self, at: Offsets) -> dict[str, int]:
        """Up to which row each stream is taken in."""
        ...

    def known(self, at: Offsets) -> int:
        """Up to which time rounds are known."""
        ...

    def sure(self, at: Offsets) -> int:
        """Up to which time it is known which rows of the streams came."""
        ...

    def clock(self, start: Offsets, end: Offsets) -> RecordClock:
        """What gives rows that are taken in between two offsets their times."""
        ...

    def newest(self, at: Offsets) -> int:
        """The time of the newest row, where records do not tell it themselves."""
        ...


class RecordClock(Protocol):
    """Gives records their times."""

    def timed(self, stream: str, records: Records) -> Records: ...


@dataclass(frozen=True)
class ByTime:
    """All streams are read up to the time that all have reached."""

    inputs: Inputs
    by_rows: ClassVar[bool] = False
    base: ClassVar[None] = None

    def rows(self, at: Offsets) -> dict[str, int]:
        time = self.known(at)
        if time == MIN_TIME:
            return {name: self.inputs.readers[name].first_row() for name in at}
        return {name: self.inputs.readers[name].row_at_time(time, offset.row) for name, offset in at.items()}

    def known(self, at: Offsets) -> int:
        return min(offset.time for offset in at.values())

    def sure(self, at: Offsets) -> int:
        return self.known(at)

    def clock(self, start: Offsets, end: Offsets) -> RecordClock:
        return _OwnTimes()

    def newest(self, at: Offsets) -> int:
        return MIN_TIME


class _OwnTimes:
    def timed(self, stream: str, records: Records) -> Records:
        return records


@dataclass(frozen=True)
class ByRows:
    """As many rows of each stream, counted from `base`; of one that is ahead up to `ahead` more."""

    inputs: Inputs
    base: Mapping[str, int]
    ahead: int
    by_rows: ClassVar[bool] = True

    def count(self, stream: str, at: Offsets) -> int:
        return max(at[stream].row - self.base[stream], 0)

    def together(self, at: Offsets) -> int:
        """How many rows all streams have."""
        return min(self.count(name, at) for name in self.base)

    def rows(self, at: Offsets) -> dict[str, int]:
        most = self.together(at) + self.ahead
        all_rows = _have_ended(at)
        return {
            name: base + (self.count(name, at) if all_rows else min(self.count(name, at), most))
            for name, base in self.base.items()
        }

    def known(self, at: Offsets) -> int:
        """The next rows of all streams cannot be together before this time."""
        if _have_ended(at):
            return MAX_TIME
        together, times = self.together(at), [MIN_TIME]
        for name, base in self.base.items():
            if self.count(name, at) > together:
                times.append(int(self._times(name, base + together, base + together + 1)[0]))
            elif at[name].time != MAX_TIME:
                times.append(at[name].time)
        return max(times)

    def sure(self, at: Offsets) -> int:
        """Of a stream that is ahead, the next row is read when the one that many before it is together with others."""
        return min(max(at[name].time, self._together_at(self.count(name, at) - self.ahead, at)) for name in self.base)

    def _together_at(self, place: int, at: Offsets) -> int:
        """When the rows with a place were together."""
        if place < 0:
            return MIN_TIME
        if place >= self.together(at):
            return NEVER
        return max(int(self._times(name, base + place, base + place + 1)[0]) for name, base in self.base.items())

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """The rows of each stream that are still to be read, and those that tell their times."""
        together = self.together(at)
        return {name: Floor(base + together, before=self.ahead) for name, base in self.base.items()}

    def clock(self, start: Offsets, end: Offsets) -> RecordClock:
        first, together = max(self.together(start) - self.ahead, 0), self.together(end)
        times = np.full(together - first, MIN_TIME, np.int64)
        for name, base in self.base.items():
            times = np.maximum(times, self._times(name, base + first, base + together))
        return _TimesTogether(self.base, self.ahead, first, times, LAST if _have_ended(end) else NEVER)

    def newest(self, at: Offsets) -> int:
        last = [int(self._times(name, at[name].row - 1, at[name].row)[0]) for name in self.base if self.count(name, at)]
        return max(last, default=MIN_TIME)

    def _times(self, stream: str, first: int, end: int) -> Ints:
        reader = self.inputs.readers[stream]
        return integers(reader.read(first, end, [reader.time_column]).column(0))


def _have_ended(at: Offsets) -> bool:
    return all(offset.time == MAX_TIME for offset in at.values())


@dataclass(frozen=True)
class _TimesTogether:
    """When the n-th rows of all streams were there, from the `first` one on; others are `later`."""

    base: Mapping[str, int]
    ahead: int
    first: int
    times: Ints
    later: int

    def timed(self, stream: str, records: Records) -> Records:
        """Records of a stream with their times, if these were not known before."""
        places = records.rows - self.base[stream] - self.first
        unknown = records.times == NEVER
        times = np.where(unknown, self._at(places, self.later), records.times)
        # One that is ahead by no more than it may be: so long after the row that many before it.
        own = np.where(unknown, np.maximum(records.own, self._at(places - self.ahead, self.later)), records.own)
        return replace(records, times=times, own=own)

    def _at(self, places: Ints, beyond: int) -> Ints:
        known = (places >= 0) & (places < len(self.times))
        times: Ints = np.where(places < 0, MIN_TIME, np.int64(beyond))
        times[known] = self.times[places[known]]
        return times
