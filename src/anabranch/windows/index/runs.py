"""RUNS: the basic windows as sorted lists of values, and lists of 8, 64, … basic windows merged from them.

Not one of the structures of L. Golab, S. Garg and M. T. Özsu (2003), who merge sorted basic windows
(AGGR, without an index) each time the query is evaluated, §7.2.2. Two things make that cheap. Any
window is made of a few lists, most of them of many basic windows; and a quantile needs no merging:
it is searched for in all the lists at once. Nothing is ever deleted from a list, so values that are
all different cost no more than others, and no tree has to be kept in balance.

A tuple is sorted once and merged once per level, O(log b + log n) for n basic windows of b tuples; a
quantile costs O(log n · log² N).
"""

from __future__ import annotations

import tempfile
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.sorted_lists import distinct_in_order, merge_lists, select_in_lists, uncount
from anabranch.kernels.values import frozen
from anabranch.windows.index.base import Codes, Counts, Groups

FAN = 8
"""Lists that are merged into one of the next level."""

_FIRST = 1 << 12
_ENTRY_BYTES = 20


class _Run(NamedTuple):
    """Where a sorted list lies in the arena."""

    start: int
    length: int


class SortedRuns:
    """The values of a window, per group, in the order of (group, value).

    >>> runs = SortedRuns()
    >>> runs.attach(0, np.array([5, 1, 5]), np.zeros(3, np.int32))
    >>> runs.attach(1, np.array([2, 9]), np.zeros(2, np.int32))
    >>> one = np.zeros(1, np.int32)
    >>> [int(runs.select(one, np.array([rank]))[0]) for rank in range(5)]
    [1, 2, 5, 5, 9]
    >>> runs.evict(1)
    >>> int(runs.select(one, np.array([0]))[0])
    2
    """

    def __init__(self, memory_bytes: int = 1 << 62) -> None:
        self._memory_bytes = memory_bytes
        """An arena larger than this lies in temporary files, mapped into memory."""
        self._codes = np.empty(_FIRST, np.int64)
        self._groups = np.empty(_FIRST, np.int32)
        self._before = np.empty(_FIRST, np.int64)
        """How many tuples of the list come before the entry; behind the last one, how many there are."""
        self._used = 0
        self._live = 0
        self._runs: dict[tuple[int, int], _Run] = {}
        """By level and number: level 0 is one basic window, level 1 are 8, and so on."""
        self._low, self._high = -(1 << 62), 0
        self._numbers: list[deque[int]] = [deque()]
        """Of each level, the numbers of its lists, ascending."""
        self._total = np.zeros(1, np.int64)
        self._cover: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    # -- keeping it up to date -------------------------------------------------------------------

    def reserve_groups(self, count: int) -> None:
        """Make room for groups 0 ≤ g < count."""
        if count > len(self._total):
            self._total = np.append(
                self._total, np.zeros(max(count, 2 * len(self._total)) - len(self._total), np.int64)
            )

    def attach(self, number: int, codes: Codes, groups: Groups) -> None:
        """Add tuples of a basic window that is not older than any before."""
        if (0, number) in self._runs:  # the rest of one that came in pieces
            self._unmerge(number)
            run = self._runs.pop((0, number))
            self._live -= run.length + 1
            self._add((0, number), *merge_lists(*self._arrays(run), *_frozen(_sorted(codes, groups))))
        else:
            if not self._numbers[0]:
                self._low = max(self._low, number)
            self._add((0, number), *_sorted(codes, groups))
            self._numbers[0].append(number)
        self._high = number + 1
        self._count(groups)
        self._cover = None

    def _unmerge(self, number: int) -> None:
        """Let go merged lists that hold the newest basic window, which has become another."""
        for level, numbers in enumerate(self._numbers[1:], start=1):
            if numbers and numbers[-1] == number // FAN**level:
                self._live -= self._runs.pop((level, numbers.pop())).length + 1

    def evict(self, before: int) -> None:
        """Let go the basic windows before one, and merged lists of nothing else."""
        if before <= self._low:
            return
        self._low, self._cover = before, None
        for level, numbers in enumerate(self._numbers):
            while numbers and (numbers[0] + 1) * FAN**level <= before:
                run = self._runs.pop((level, numbers.popleft()))
                self._live -= run.length + 1
                if level == 0:
                    uncount(self._total, *self._arrays(run)[1:])

    def merge(self) -> None:
        """Merge complete runs of 8 lists, level by level; lists already merged stay for windows that begin in them."""
        level = 0
        while FAN ** (level + 1) * 2 <= self._high - self._low:
            width = FAN ** (level + 1)
            if level + 1 == len(self._numbers):
                self._numbers.append(deque())
            done = self._numbers[level + 1]
            for block in self._new_blocks(level, done[-1] if done else None):
                if block * width >= self._low and (block + 1) * width <= self._high:
                    self._merge(level + 1, block)
            level += 1

    def _new_blocks(self, level: int, last: int | None) -> list[int]:
        """Blocks of lists of a level after the last one merged."""
        blocks: list[int] = []
        for number in reversed(self._numbers[level]):
            block = number // FAN
            if last is not None and block <= last:
                break
            if not blocks or blocks[-1] != block:
                blocks.append(block)
        return blocks[::-1]

    def rekey(self, old: Codes, new: Codes) -> None:
        """The codes `old`, ascending, are now `new`, ascending."""
        for run in self._runs.values():
            part = slice(run.start, run.start + run.length)
            self._codes[part] = new[np.searchsorted(old, self._codes[part])]

    # -- asking it -------------------------------------------------------------------------------

    def total(self, groups: Groups) -> Counts:
        """How many tuples each group has."""
        return self._total[groups]

    def select(self, groups: Groups, ranks: Counts) -> Codes:
        """The code of the rank-th smallest tuple, from 0, of each group."""
        starts, lengths = self._lists()
        codes: Codes = select_in_lists(
            frozen(np.ascontiguousarray(groups, np.int32)),
            frozen(np.ascontiguousarray(ranks, np.int64)),
            starts,
            lengths,
            self._codes,
            self._groups,
            self._before,
        )
        return codes

    def codes(self) -> Codes:
        """All codes in any list, ascending; longer lists may hold some that have left the window."""
        parts = [self._codes[run.start : run.start + run.length] for run in self._runs.values()]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return int(self._codes.nbytes + self._groups.nbytes + self._before.nbytes + self._total.nbytes)

    # -- lists -----------------------------------------------------------------------------------

    def _lists(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lists that together hold the window."""
        if self._cover is None:
            self.merge()
            chosen, covered = [], self._low
            for number in self._numbers[0]:
                if number >= covered:
                    level = self._widest(number)
                    chosen.append(self._runs[level, number // FAN**level])
                    covered = (number // FAN**level + 1) * FAN**level
            starts = np.array([run.start for run in chosen], np.int64)
            self._cover = frozen(starts), frozen(np.array([run.length for run in chosen], np.int64))
        return self._cover

    def _add(self, name: tuple[int, int], codes: Codes, groups: Groups, before: Counts) -> None:
        """Put a list into the arena; `before` has one entry more, which is the number of tuples."""
        length = len(codes)
        self._make_room(length + 1)
        start = self._used
        self._codes[start : start + length] = codes
        self._groups[start : start + length] = groups
        self._before[start : start + length + 1] = before
        self._used += length + 1
        self._live += length + 1
        self._runs[name] = _Run(start, length)

    def _widest(self, number: int) -> int:
        """The level of the longest list that begins in the window and has a basic window."""
        level = 0
        while True:
            block = number // FAN ** (level + 1)
            if block * FAN ** (level + 1) < self._low or (level + 1, block) not in self._runs:
                return level
            level += 1

    def _merge(self, level: int, block: int) -> None:
        names = [(level - 1, block * FAN + i) for i in range(FAN)]
        lists = [self._arrays(self._runs[name]) for name in names if name in self._runs]
        while len(lists) > 1:
            paired = [_frozen(merge_lists(*lists[i], *lists[i + 1])) for i in range(0, len(lists) - 1, 2)]
            lists = paired + lists[2 * len(paired) :]
        self._add((level, block), *lists[0])
        self._numbers[level].append(block)

    def _arrays(self, run: _Run) -> tuple[Codes, Groups, Counts]:
        end = run.start + run.length
        return _frozen((self._codes[run.start : end], self._groups[run.start : end], self._before[run.start : end + 1]))

    def _make_room(self, more: int) -> None:
        """Move the lists in use together, into an arena large enough."""
        if self._used + more <= len(self._codes):
            return
        size = max(2 * (self._live + more), _FIRST)
        make = np.empty if size * _ENTRY_BYTES <= self._memory_bytes else _mapped
        codes, groups, before = make(size, np.int64), make(size, np.int32), make(size, np.int64)
        at = 0
        for name, run in self._runs.items():
            codes[at : at + run.length], groups[at : at + run.length], before[at : at + run.length + 1] = self._arrays(
                run
            )
            self._runs[name] = _Run(at, run.length)
            at += run.length + 1
        self._codes, self._groups, self._before, self._used = codes, groups, before, at
        self._cover = None

    def _count(self, groups: Groups) -> None:
        if len(self._total) == 1:
            self._total[0] += len(groups)
        else:
            self._total += np.bincount(groups, minlength=len(self._total))


def _frozen(arrays: tuple[Codes, Groups, Counts]) -> tuple[Codes, Groups, Counts]:
    codes, groups, before = arrays
    return frozen(codes), frozen(groups), frozen(before)


def _mapped(size: int, dtype: type) -> NDArray[Any]:
    """An array in a file without a name, which is gone with the array."""
    with tempfile.TemporaryFile(prefix="anabranch-runs-") as file:
        file.truncate(size * np.dtype(dtype).itemsize)
        return np.asarray(np.memmap(file, dtype, mode="r+", shape=(size,)))


def _sorted(codes: Codes, groups: Groups) -> tuple[Codes, Groups, Counts]:
    """Distinct (group, code) in order, and how many tuples come before each."""
    if len(groups) and groups.any():
        order = np.lexsort((codes, groups))
        codes, groups = codes[order], groups[order]
    else:
        codes = np.sort(codes)
    distinct: tuple[Codes, Groups, Counts] = distinct_in_order(
        frozen(np.ascontiguousarray(codes)), frozen(np.ascontiguousarray(groups, np.int32))
    )
    return distinct
