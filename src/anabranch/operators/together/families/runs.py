"""Which entries of a fold each member wants, and what they come to.

Entries have a line, which is a window and a group, and a code, which is where their value lies among the ends that
members name. What a member wants of a line is a run of its entries in the order of codes, or some runs. Where all
members together want few entries, each looks up its own (`kernels.questions`); where they want more than there are
members and lines, runs are put together from blocks (`kernels.dyadic`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.dyadic import blocks_of_runs, level_sizes
from anabranch.kernels.fold import Slots, State
from anabranch.kernels.questions import NOTHING, NULL, Codes, Intervals, QuestionIndex
from anabranch.kernels.values import one_array

Ints = NDArray[np.int64]
States = list[list[pa.Array]]
"""The columns of each state."""

_PARTS_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class Wanted:
    """The closed intervals of codes that members want, ordered by member; those of one are disjoint."""

    members: int
    member: Ints
    low: Codes
    high: Codes

    @functools.cached_property
    def index(self) -> QuestionIndex:
        nothing = np.setdiff1d(np.arange(self.members), self.member)
        member = np.append(self.member, nothing)
        low, high = (np.append(ends, np.full(len(nothing), NOTHING)) for ends in (self.low, self.high))
        return QuestionIndex(self.members, Intervals(member, np.zeros_like(member), low, high))

    @functools.cached_property
    def _wishes(self) -> Ints:
        """How many members want each code, from NULL on; the last one is behind all ends."""
        wishes = np.zeros(int(self.high.max(initial=0)) - NULL + 3, np.int64)
        np.add.at(wishes, self.low - NULL, 1)
        np.add.at(wishes, self.high - NULL + 1, -1)
        return np.cumsum(wishes)

    def wishes(self, codes: Codes) -> Ints:
        """How many members want each of some entries."""
        return self._wishes[np.minimum(codes - NULL, len(self._wishes) - 1)]


class Found(NamedTuple):
    """What members have of lines, ordered by member, then line: parts bounds[i] ≤ n < bounds[i + 1]."""

    member: Ints
    line: Ints
    parts: Ints
    bounds: Ints


def looked_up(wanted: Wanted, codes: Codes, lines: Ints) -> Found:
    """Entries, found one by one."""
    matches = wanted.index.match([codes], len(codes))
    pair = matches.question * (int(lines.max(initial=0)) + 1) + lines[matches.row]
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    rows, questions = matches.row[order], matches.question[order]
    return Found(questions[first], lines[rows[first]], rows, np.append(first, len(pair)))


def runs_of(wanted: Wanted, codes: Codes, lines: Ints) -> Found:
    """Blocks of entries that are ordered by line, then code; lines are 0 ≤ n ≤ the last one's."""
    width = max(int(codes.max()), int(wanted.high.max(initial=0))) - NULL + 2
    keys = lines * width + (codes - NULL)
    bases = np.arange(int(lines[-1]) + 1) * width - NULL
    low = np.searchsorted(keys, (bases + wanted.low[:, None]).ravel())
    high = np.searchsorted(keys, (bases + wanted.high[:, None]).ravel(), "right")
    some = np.flatnonzero(low < high)
    blocks, bounds = blocks_of_runs(low[some], high[some], len(codes))
    interval, line = np.divmod(some, len(bases))
    member = wanted.member[interval]
    pair = member * len(bases) + line
    order = np.argsort(pair, kind="stable")  # intervals of a member lie side by side, its lines do not
    first = np.flatnonzero(np.diff(pair[order], prepend=-1))
    lengths = np.diff(bounds)[order]
    ends = np.append(0, np.cumsum(lengths))
    parts = blocks[spread(bounds[:-1][order], lengths)]
    return Found(member[order][first], line[order][first], parts, np.append(ends[first], ends[-1]))


def spread(first: Ints, lengths: Ints) -> Ints:
    """The numbers of some stretches that begin somewhere and are so long, one after the other.

    >>> spread(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    numbers: Ints = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - lengths), lengths)
    return numbers


def blocks_over(states: Sequence[State], columns: States) -> States:
    """The states of all blocks of a list of entries, in the order of their numbers."""
    sizes = level_sizes(len(columns[0][0]))
    levels = [columns]
    for size, above in itertools.pairwise(sizes):
        halves = np.arange(size, dtype=np.int32) // 2
        slots = Slots(halves, np.zeros(above, np.int32), np.array([0, above]))
        levels.append([state.combine(slots, own) for state, own in zip(states, levels[-1], strict=True)])
    return [
        [pa.concat_arrays([one_array(level[at][i]) for level in levels]) for i in range(len(own))]
        for at, own in enumerate(columns)
    ]


def put_together(states: Sequence[State], columns: States, found: Found) -> States:
    """What the parts of each pair come to."""
    pairs = len(found.member)
    made = []
    begin = 0
    while begin < pairs:
        limit = found.bounds[begin] + _PARTS_AT_ONCE
        end = max(begin + 1, int(np.searchsorted(found.bounds, limit, "right")) - 1)
        low, high = found.bounds[begin], found.bounds[end]
        of = np.repeat(np.arange(end - begin, dtype=np.int32), np.diff(found.bounds[begin : end + 1]))
        slots = Slots(of, np.zeros(end - begin, np.int32), np.array([0, end - begin]))
        taken = pa.array(found.parts[low:high])
        picked = [[column.take(taken) for column in own] for own in columns]
        made.append([state.combine(slots, own) for state, own in zip(states, picked, strict=True)])
        begin = end
    return [
        [pa.concat_arrays([one_array(piece[at][i]) for piece in made]) for i in range(len(own))]
        for at, own in enumerate(columns)
    ]


def everyone(members: int) -> Wanted:
    """All of some members want the one code there is."""
    return Wanted(members, np.arange(members), *np.zeros((2, members), np.int64))
