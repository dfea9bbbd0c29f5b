"""Which groups of an aggregate are kept, where these are so many: those whose newest rows are newest.

Row by row: one that comes to a group that is kept makes it the newest; one that does not begins a group, and the one
whose newest row is oldest is forgotten if there are too many. Rows are numbered as they come, so groups wait in the
order of the numbers of their newest rows; how many are newer than one follows from sums of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.recency import begin_anew
from anabranch.kernels.values import integers, one_array
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.steps.touched import Touched

Places = NDArray[np.int64]
Truths = NDArray[np.bool_]
NEWEST = pa.field("newest", pa.int64())
"""The number of the newest row of a group."""
_ASKED = 64


@dataclass(frozen=True)
class Turn:
    """What has become of groups by some rows.

    `counts`: for each row whether its group has not begun anew since. Of the groups that rows came to `newest` are the
    numbers of their newest rows; they have begun `anew`, or were `forgotten` since. `others` are the keys of groups to
    which no row came, and which are forgotten. `times`: how often a group was forgotten, row by row.
    """

    counts: Truths
    newest: Places
    anew: Truths
    forgotten: Truths
    others: list[pa.Array]
    times: int


class Recency:
    """See the module."""

    def __init__(self, keys: Sequence[pa.Field], most: int) -> None:
        self._most = most
        self.groups = Arrangement(pa.schema([NEWEST, *keys]), (NEWEST.name,), in_order=True)
        """Each group by the number of its newest row."""

    def turn(self, groups: Touched, of: Places, newest: Places) -> Turn:
        """Some rows come to `groups`, of which those at `of` are kept and had the `newest` rows."""
        rows, size = len(groups.of_row), len(groups)
        begin = self._next()
        now = np.zeros(size, np.int64)
        now[groups.of_row] = begin + np.arange(rows)  # the last one of each stays
        kept = int(self.groups.not_below(np.array([np.iinfo(np.int64).min]))[0])
        new = size - len(of)
        anew, counts, times = np.zeros(size, np.bool_), np.ones(rows, np.bool_), 0
        if kept + new > self._most:
            begins = begin_anew(groups.of_row, *self._held(size, of, newest), self._most)
            since = np.full(size, -1, np.int64)
            begun = np.flatnonzero(begins)
            since[groups.of_row[begun]] = begun
            anew, counts = since >= 0, np.arange(rows) >= since[groups.of_row]
            times = len(begun) - (min(kept + new, self._most) - kept)
        self._move(groups, of, newest, now)
        forgotten, others = self._forget(kept + new - self._most, begin, now)
        return Turn(counts, now, anew, forgotten, others, times)

    def _next(self) -> int:
        """The number of the next row: that of the last one is the newest of a group, which is kept."""
        last = self.groups.last_in_runs()
        return 0 if last is None else int(last.as_py()) + 1

    def _held(self, size: int, of: Places, newest: Places) -> tuple[Places, Places]:
        """The places of groups among those that are kept and have rows now, and how many others are newer."""
        order = np.argsort(newest)
        places = np.full(size, -1, np.int64)
        places[of[order]] = np.arange(len(of))
        return places, self.groups.not_below(newest[order] + 1) - np.arange(len(of))[::-1]

    def _move(self, groups: Touched, of: Places, before: Places, now: Places) -> None:
        at = pa.array(of)
        goes = [pa.array(before), *(key.take(at) for key in groups.keys)]
        comes = [pa.array(now), *groups.keys]
        schema = self.groups.schema
        parts = [
            Changes.of(pa.Table.from_arrays(goes, schema=schema), -1),
            Changes.of(pa.Table.from_arrays(comes, schema=schema)),
        ]
        self.groups.take_in(together(parts, schema))

    def _forget(self, count: int, begin: int, now: Places) -> tuple[Truths, list[pa.Array]]:
        """Forget so many groups; gives which of those with rows are among them, and the keys of the others."""
        schema = self.groups.schema
        if count <= 0:
            return np.zeros(len(now), np.bool_), [pa.array([], field.type) for field in list(schema)[1:]]
        bound = self._bound(count)
        gone = self.groups.take_out_before(pa.scalar(bound, pa.int64())).rows
        others = gone.filter(pa.array(integers(gone.column(NEWEST.name)) < begin))
        return now < bound, [one_array(column) for column in others.columns[1:]]

    def _bound(self, count: int) -> int:
        """The number below which so many groups have their newest row."""
        low, high = 0, self._next()
        kept = int(self.groups.not_below(np.array([low]))[0])
        while high - low > 1:
            asked = np.unique(np.linspace(low, high, _ASKED, dtype=np.int64))
            below = kept - self.groups.not_below(asked)
            place = int(np.searchsorted(below, count))  # the first with so many below it
            low, high = int(asked[place - 1]), int(asked[place])
        return high
