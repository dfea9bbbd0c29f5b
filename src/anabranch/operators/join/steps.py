"""How a join finds the rows of one more source: by hash, by band (`bands`), by sorted blocks, or one by one.

Each step is asked with partial results and, for each, the row numbers between which its window
lies; it answers with candidates, which are then tested. Partial results come in the order of the
rows they began with, so windows move on and each step takes in its source's rows as they do
(M. A. Hammad et al., 2002, §6.2.2 and §6.2.3).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels.bounds import pairs_in_blocks, pairs_in_ranges
from anabranch.kernels.chains import ChainEntries, Probes
from anabranch.kernels.values import Column, frozen, valid
from anabranch.operators.join.conditions import Comparison, Equality, SourceExpression
from anabranch.operators.join.keys import doubles, equality_keys, is_single
from anabranch.operators.join.partials import PartialResults
from anabranch.operators.join.rows import SourceRows
from anabranch.operators.live import Live
from anabranch.windows.index.chains import LEAST_ROOM, ChainIndex

Ints = NDArray[np.int64]
Pairs: TypeAlias = tuple[Ints, Ints]

ROOM = 1 << 18
"""Candidates found before they are tested."""
_BLOCK = 2_048
_TOO_FAR = 1 << 18
"""Rows between an index and a window past which beginning anew is cheaper."""

live: Live[ChainIndex] = Live()
"""Indices of this process, by stream, filter and key: every query that joins by the same key shares one."""


class JoinStep(ABC):
    """Finds candidates of one source."""

    name: ClassVar[str]

    def __init__(self, source: int, sources: Sequence[SourceRows], memory: int) -> None:
        self.source = source
        self._sources = sources
        self._own = sources[source]
        self._memory = memory
        self._probes = np.empty(ROOM, np.int64)
        self._rows = np.empty(ROOM, np.int64)
        self.asked = self.found = 0

    def candidates(self, partials: PartialResults, low: Ints, high: Ints) -> Iterator[Pairs]:
        """Pairs of a partial result's place and a row of the source, low ≤ row < high."""
        self.asked += len(partials)
        for probes, rows in self._candidates(partials, low, high):
            self.found += len(rows)
            yield probes, rows

    @abstractmethod
    def _candidates(self, partials: PartialResults, low: Ints, high: Ints) -> Iterator[Pairs]: ...

    def _copied(self, count: int) -> Pairs:
        return frozen(self._probes[:count].copy()), frozen(self._rows[:count].copy())

    def keep(self) -> str | None:
        """Leave what was built to whoever joins next, and give its name; most steps begin anew."""
        return None

    @property
    def rows(self) -> int:
        """Rows that are left to whoever joins next."""
        return 0

    @property
    def nbytes(self) -> int:
        return 0


class HashStep(JoinStep):
    """Equality: rows chained by their key."""

    name = "hash"

    def __init__(self, source: int, sources: Sequence[SourceRows], memory: int, equalities: Sequence[Equality]) -> None:
        super().__init__(source, sources, memory)
        ordered = sorted(equalities, key=lambda equality: side_of(equality.sides, source).value.sql)
        self._kinds = [equality.kind for equality in ordered]
        self._own_sides = [side_of(equality.sides, source) for equality in ordered]
        self._other_sides = [other_side(equality.sides, source) for equality in ordered]
        columns = {name: None for side in self._own_sides for name in side.value.columns}
        self._columns = list(columns)
        self._index: ChainIndex | None = None
        self._fresh = False
        self.number = 0
        """Tells indices of one run apart that have the same rows by the same key."""
        self.purpose = ""

    @property
    def live_name(self) -> str:
        return f"{self.rows_by} {self.purpose}#{self.number}"

    @property
    def rows_by(self) -> str:
        """Which rows are in its index, and by which key."""
        keys = ", ".join(f"{side.value.sql} {kind}" for side, kind in zip(self._own_sides, self._kinds, strict=True))
        # Sources are told apart by alias in expressions, but not in what they read.
        return f"{self._own.identity} by {self.name} {keys.replace(f'`{self._own.alias}.', '`')}"

    @property
    def rows(self) -> int:
        return 0 if self._index is None else self._index.rows

    @property
    def nbytes(self) -> int:
        return 0 if self._index is None else self._index.nbytes

    def keep(self) -> str | None:
        if self._index is None or self._fresh:
            return None
        live.put(self.live_name, self._index)
        self._index = None
        return self.live_name

    def _index_for(self, low: int, high: int) -> ChainIndex:
        """An index with all rows from `low` on, and not many beyond `high`, which chains would lead through."""
        index = self._index or live.take(self.live_name)
        if index is not None:
            ahead = index.next_row - high
            if index.covers_from <= low and ahead <= max(4 * (high - low), _TOO_FAR):
                index.skip_to(low)
                self._index = index
                return index
            # One that is ahead belongs to those who are; what is made here is for this run only.
            self._fresh = ahead > 0
            if self._fresh:
                live.put(self.live_name, index)
        self._index = self._new_index(low, LEAST_ROOM if index is None else index.room)
        return self._index

    def _new_index(self, first_row: int, room: int) -> ChainIndex:
        return ChainIndex(first_row, self._memory, room)

    def _ready(self, probes: Probes) -> tuple[ChainIndex, ChainEntries, int]:
        """An index for the probes, with the rows that it has yet to take in, up to a row number."""
        low, high = int(probes.low.min()), int(probes.high.max())
        index = self._index_for(low, high)
        end = max(index.next_row, high)
        entries = self._entries(index.next_row, end)
        index.begin()
        return index, entries, end

    def counts(self, partials: PartialResults, low: Ints, high: Ints) -> Ints:
        """How many rows each partial result meets, without finding out which."""
        counts = np.zeros(len(partials), np.int64)
        asked, probes = self._asked(partials, low, high)
        if len(probes.low):
            index, entries, end = self._ready(probes)
            counts[slice(None) if asked is None else asked] = index.count(entries, probes)
            index.enter_rest(entries, end)
        return counts

    def _candidates(self, partials: PartialResults, low: Ints, high: Ints) -> Iterator[Pairs]:
        asked, probes = self._asked(partials, low, high)
        if len(probes.low) == 0:
            return
        index, entries, end = self._ready(probes)
        if index.odd:
            index.enter_rest(entries, end)
            yield from ScanStep(self.source, self._sources, self._memory).candidates(partials, low, high)
            return
        while not index.done(len(probes.low)):
            count = index.join(entries, probes, self._probes, self._rows)
            if count:
                copied, numbers = self._copied(count)
                yield (copied if asked is None else frozen(asked[copied])), numbers
        index.enter_rest(entries, end)

    def _asked(self, partials: PartialResults, low: Ints, high: Ints) -> tuple[Ints | None, Probes]:
        """The places of the partial results that can have candidates (None: all), and what they ask for."""
        values = [
            (partials.value(side, self._sources), kind)
            for side, kind in zip(self._other_sides, self._kinds, strict=True)
        ]
        keys, present = equality_keys(values, len(partials))
        asked, keys, low, high = _chosen(keys, present & (low < high), low, high)
        return asked, Probes.by_key(keys, low, high)

    def _entries(self, low: int, high: int) -> ChainEntries:
        """Rows of the source for its index."""
        kept = self._own.partners(low, max(low, high), self._columns)
        values = [
            (side.value.evaluate(kept.table), kind) for side, kind in zip(self._own_sides, self._kinds, strict=True)
        ]
        keys, present = equality_keys(values, len(kept.rows))
        if present.all():
            return ChainEntries.by_key(keys, kept.rows)
        return ChainEntries.by_key(frozen(keys[present]), frozen(kept.rows[present]))


class ScanStep(JoinStep):
    """Any condition: every row of the window (nested loop)."""

    name = "nested loop"

    def _candidates(self, partials: PartialResults, low: Ints, high: Ints) -> Iterator[Pairs]:
        some = low < high
        if not some.any():
            return
        rows = self._own.partners(int(low[some].min()), int(high[some].max())).rows
        state = np.array([0, -2, 0], np.int64)
        while state[0] < len(low):
            count = pairs_in_ranges(state, low, high, rows, self._probes, self._rows)
            if count:
                yield self._copied(count)


class SortedStep(JoinStep):
    """A comparison: blocks of rows, each sorted by value, of which only the part that may pass is looked at."""

    name = "merge"

    def __init__(self, source: int, sources: Sequence[SourceRows], memory: int, comparison: Comparison) -> None:
        super().__init__(source, sources, memory)
        self._own_side = side_of(comparison.sides, source)
        self._other_side = other_side(comparison.sides, source)
        self._below = self._own_side is comparison.sides[0]
        """True if the source's value must not be above the other's."""
        self._columns = list(self._own_side.value.columns)
        self._single = is_single([side.value.type for side in comparison.sides])

    def _candidates(self, partials: PartialResults, low: Ints, high: Ints) -> Iterator[Pairs]:
        column = partials.value(self._other_side, self._sources)
        asked, bounds, low, high = _chosen(_ordered(column, self._single), (low < high) & valid(column), low, high)
        if len(low) == 0:
            return
        values, rows, limits, first_rows = self._blocks(int(low.min()), int(high.max()))
        far = np.full(len(low), math.inf)
        least, most = (-far, bounds) if self._below else (bounds, far)
        state = np.array([0, -1, -1], np.int64)
        while state[0] < len(low):
            count = pairs_in_blocks(
                state, low, high, frozen(least), frozen(most), values, rows, limits, first_rows,
                self._probes, self._rows,
            )  # fmt: skip
            if count:
                copied, numbers = self._copied(count)
                yield (copied if asked is None else frozen(asked[copied])), numbers

    def _blocks(self, low: int, high: int) -> tuple[NDArray[np.float64], Ints, Ints, Ints]:
        kept = self._own.partners(low, high, self._columns)
        column = self._own_side.value.evaluate(kept.table)
        present = valid(column)
        values, rows = _ordered(column, self._single)[present], kept.rows[present]
        limits = np.append(np.arange(0, len(rows), _BLOCK), len(rows)).astype(np.int64)
        first_rows = rows[limits[:-1]]
        order = np.lexsort((values, np.arange(len(rows)) // _BLOCK))
        return frozen(values[order]), frozen(rows[order]), frozen(limits), frozen(first_rows)


def _ordered(column: Column, single: bool) -> NDArray[np.float64]:
    """Doubles in SQL's order: NaN is above all."""
    values = doubles(column, single=single)
    return np.where(np.isnan(values), math.inf, values)


def _chosen(
    keys: NDArray[Any], mask: NDArray[np.bool_], low: Ints, high: Ints
) -> tuple[Ints | None, NDArray[Any], Ints, Ints]:
    if mask.all():
        return None, frozen(keys), low, high
    places = np.flatnonzero(mask)
    return places, frozen(keys[places]), frozen(low[places]), frozen(high[places])


def side_of(sides: tuple[SourceExpression, SourceExpression], source: int) -> SourceExpression:
    """The side that is of a source."""
    return sides[0] if sides[0].source == source else sides[1]


def other_side(sides: tuple[SourceExpression, SourceExpression], source: int) -> SourceExpression:
    """The side that is not of a source."""
    return sides[1] if sides[0].source == source else sides[0]
