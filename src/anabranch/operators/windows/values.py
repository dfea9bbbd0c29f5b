"""The values inside the current window under an index: what median, mode and count(DISTINCT) are read from.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §4.2
and §5: such functions need all of the window's values, unless a histogram of them is kept; then an
answer costs what came in and what went out since the one before.

The index is kept in the memory of the process, between batches too, and is never written down:
what it holds follows from the window's rows, which are in the log. A process that has an index of
an earlier batch takes in the rows it has missed; one that has none reads the window once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.functions.aggregates import ValueAggregate
from anabranch.functions.aggregates.quantiles import APPROXIMATE_BITS
from anabranch.kernels.groups import encode
from anabranch.kernels.spans import pane_runs
from anabranch.kernels.values import Column, frozen, one_array, valid
from anabranch.operators.base import MIN_TIME
from anabranch.operators.live import Live
from anabranch.windows.basic.spill import Spilled, SpillFile
from anabranch.windows.basic.values import Domain
from anabranch.windows.cost import Choice, choose, estimated_distinct
from anabranch.windows.index import Ranges, SetIndex, make_index
from anabranch.windows.index.runs import SortedRuns
from anabranch.windows.panes.axis import FinePanes, Panes
from anabranch.windows.storage import Entries, Storage, make_storage

_FEWEST_PANES = 32
_FEWEST_ZEROS = 1024
RUNS = "RUNS"
"""Not an index of the paper; see `windows.index.runs`."""
_NEEDS = {"rank": "quantile", "mode": "mode", "distinct": "count"}
"""What the cost model calls the questions."""
_NO_NODES = np.empty(0, np.int32)


@dataclass(frozen=True)
class Hints:
    """What the query says should be used; None leaves it to the cost model."""

    storage: str | None = None
    index: str | None = None


NO_HINTS = Hints()


@dataclass(frozen=True)
class ValueQuestion:
    """One argument whose values are indexed, and what is asked of them."""

    argument: int
    type: pa.DataType
    aggregates: tuple[ValueAggregate, ...]

    @property
    def approximate(self) -> bool:
        return self.aggregates[0].approximate

    @property
    def asks(self) -> frozenset[str]:
        return frozenset(aggregate.question for aggregate in self.aggregates)


def fine_panes(panes: Panes) -> Panes:
    """Panes cut finer where windows have few, so that rows are taken in as they come, not all when a window ends.

    >>> fine_panes(Panes(3600, 3600)).length, fine_panes(Panes(100, 1)).length
    (100, 1)
    """
    parts = -(-_FEWEST_PANES * panes.length // panes.size)
    fitting = next((n for n in range(parts, 4 * parts + 1) if panes.length % n == 0), 1)
    return FinePanes(panes.size, panes.slide, fitting)


class _Pane(NamedTuple):
    """What one pane has in the index of one question, or where that waits."""

    number: int
    nodes: NDArray[np.int32]
    counts: NDArray[np.int64] | None
    spilled: Spilled | None = None

    @property
    def nbytes(self) -> int:
        return self.nodes.nbytes + (0 if self.counts is None else self.counts.nbytes)


class _Indexed:
    """The values of one question in the window."""

    def __init__(self, question: ValueQuestion, hints: Hints) -> None:
        self.question = question
        self.domain = Domain(question.type)
        self.choice: Choice | None = None
        self._hints = hints
        self._index: SetIndex | SortedRuns | None = None
        self._storage: Storage | None = None
        self._panes: deque[_Pane] = deque()
        self._remembered = 0
        self.budget = 1 << 62
        """Bytes of memory it may take, apart from an index of nodes."""

    @property
    def index(self) -> Any:
        """A SetIndex, or SortedRuns where only ranks are asked for."""
        assert self._index is not None
        return self._index

    @property
    def rows(self) -> int:
        return sum(len(pane.nodes) for pane in self._panes)

    @property
    def nbytes(self) -> int:
        return sum(pane.nbytes for pane in self._panes) + (0 if self._index is None else self._index.nbytes)

    def encode(self, values: pa.Array, pending: deque[_Piece], at: int) -> NDArray[np.int64]:
        """Codes of values; where that gives others new codes, the index and what is pending follow."""
        codes, moved = self.domain.encode(values)
        if moved is not None:
            if self._index is not None:
                self._index.rekey(moved.old, moved.new)
            for piece in pending:
                piece.codes[at] = moved.of(piece.codes[at])
        return codes

    def settle(self, codes: NDArray[np.int64], groups: NDArray[np.int32], panes: int, basic_windows: int) -> None:
        """Choose storage and index from the first rows seen: `codes` of `panes` panes."""
        if self._index is not None:
            return
        pairs = codes * np.int64(31) + groups
        sample = pairs[:: max(1, len(pairs) // 65_536)]
        tuples = max(1, len(codes) * basic_windows // max(panes, 1))
        distinct = estimated_distinct(len(np.unique(sample)), len(sample), most=tuples)
        self.choice = chosen(self.question, self._hints, tuples, distinct, basic_windows)
        if self.choice.index == RUNS:
            self._index = SortedRuns(self.budget)
            return
        options = {}
        if self.question.approximate:
            options["ranges"] = Ranges.relative(APPROXIMATE_BITS, self.question.type)
        self._index = make_index(self.choice.index, **options)
        self._storage = make_storage(self.choice.storage, **options)

    def attach(self, number: int, codes: NDArray[np.int64], groups: NDArray[np.int32]) -> None:
        if len(codes) == 0:
            return
        if isinstance(self._index, SortedRuns):
            self._index.attach(number, codes, groups)
            return
        assert self._storage is not None
        entries: Entries = self._storage.build(codes, groups)
        nodes = self.index.locate(entries.codes, entries.groups)
        self.index.add(nodes, entries.counts)
        self._panes.append(_Pane(number, nodes, entries.counts))

    def evict(self, before: int, file: SpillFile) -> None:
        """Take out the panes before one."""
        if isinstance(self._index, SortedRuns):
            self._index.evict(before)
        panes = self._panes
        while panes and panes[0].number < before:
            pane = panes.popleft()
            nodes, counts = (pane.nodes, pane.counts) if pane.spilled is None else file.read(pane.spilled)
            self.index.subtract(nodes, counts)

    def purge(self, pending: deque[_Piece], at: int) -> None:
        """Forget values that have gone, once they are as many as those that are there (the paper's §5.5)."""
        index = self._index
        if isinstance(index, SetIndex) and index.zeros > _FEWEST_ZEROS and index.zeros * 2 > index.live:
            index.purge()
        if index is not None and len(self.domain) > 2 * self._remembered + _FEWEST_ZEROS:
            waiting = [piece.codes[at] for piece in pending]
            self.domain.retain(np.unique(np.concatenate([index.codes(), *waiting])))
            self._remembered = len(self.domain)

    def spill(self, file: SpillFile) -> None:
        """Keep the oldest panes, which are needed first, and let the others wait in a file."""
        held = 0
        for i, pane in enumerate(self._panes):
            held += pane.nbytes
            if held > self.budget and pane.spilled is None:
                self._panes[i] = _Pane(pane.number, _NO_NODES, None, file.write(pane.nodes, pane.counts))
                held -= pane.nbytes

    # -- answers ---------------------------------------------------------------------------------------

    def ask(self, aggregate: ValueAggregate, groups: NDArray[np.int32]) -> _Found:
        """What the index says of each group of the window that it holds."""
        index = self.index
        if aggregate.question == "distinct":
            return _Found(index.distinct(groups))
        totals = index.total(groups)
        present = totals > 0
        if not present.all():
            groups, totals = groups[present], totals[present]
        if aggregate.question == "mode":
            return _Found(index.mode(groups)[0], present)
        if not aggregate.interpolated:
            return _Found(index.select(groups, disc_ranks(totals, aggregate.fraction)), present)
        place = (totals - 1) * aggregate.fraction
        below = place.astype(np.int64)
        upper = below + (place > below)
        codes = index.select(groups, below)
        above = codes if np.array_equal(below, upper) else index.select(groups, upper)
        return _Found(codes, present, above, place)

    def settled(self, said: _Found) -> _Found:
        """Values instead of codes where codes may change their meaning before the answer is written."""
        if not self.domain.remapping or said.present is None:
            return said
        above = None if said.above is None else self.domain.decode(said.above)
        return said._replace(codes=self.domain.decode(said.codes), above=above)

    def answer(self, aggregate: ValueAggregate, windows: Sequence[_Found]) -> pa.Array:
        """The aggregate of all groups that were asked for, one window after the other."""
        if aggregate.question == "distinct":
            return pa.array(np.concatenate([window.codes for window in windows]))
        present = np.concatenate([window.present for window in windows])
        if aggregate.interpolated:
            low, high = self._doubles([f.codes for f in windows]), self._doubles([f.above for f in windows])
            place = np.concatenate([f.place for f in windows])
            below, above = np.floor(place), np.ceil(place)
            with np.errstate(invalid="ignore"):
                middle = (above - place) * low + (place - below) * high
            values = pa.array(np.where((below == above) | (low == high), low, middle))
        elif self.domain.remapping:
            values = pa.concat_arrays([window.codes for window in windows])
        else:
            values = self.domain.decode(np.concatenate([window.codes for window in windows]))
        if present.all():
            return values
        return values.take(pa.array(np.maximum(np.cumsum(present) - 1, 0), mask=~present))

    def _doubles(self, codes: Sequence[NDArray[np.int64] | pa.Array]) -> NDArray[np.float64]:
        if self.domain.remapping:
            values = pa.concat_arrays(codes)
        else:
            values = self.domain.decode(np.concatenate(codes))
        doubles: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy()
        return doubles


class _Found(NamedTuple):
    """What an index said of some groups: codes (or numbers), for those of the groups that are present."""

    codes: NDArray[np.int64] | pa.Array
    present: NDArray[np.bool_] | None = None
    above: NDArray[np.int64] | pa.Array | None = None
    place: NDArray[np.float64] | None = None


def disc_ranks(totals: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    """The rank of the first of n values in order that at least `fraction` of them do not exceed."""
    ranks: NDArray[np.int64] = np.maximum(np.ceil(totals * fraction).astype(np.int64) - 1, 0)
    return ranks


def chosen(question: ValueQuestion, hints: Hints, tuples: float, distinct: float, basic_windows: int) -> Choice:
    """Storage and index for a question, from the hints or the cost model."""
    if question.approximate:
        return Choice("GROUP", "G", None, "counts of ranges of values are enough for an approximate answer")
    if question.asks == {"rank"} and hints == NO_HINTS:
        return Choice(
            "AGGR", RUNS, None, "sorted basic windows are merged by eights, and ranks searched in all lists at once"
        )
    best = choose(tuples, distinct, basic_windows, [_NEEDS[question_kind] for question_kind in question.asks])
    if hints == NO_HINTS:
        return best
    storage, index = hints.storage or best.storage, hints.index or best.index
    return Choice(storage, index, None, "the hint says so")


class _Piece(NamedTuple):
    """Rows of one pane that are read and not yet attached: codes and groups for each question."""

    pane: int
    codes: list[NDArray[np.int64]]
    groups: list[NDArray[np.int32]]


class WindowValues:
    """The indexed values of all questions of one query, for one window after the other."""

    def __init__(
        self, panes: Panes, questions: Sequence[ValueQuestion], key_types: Sequence[pa.DataType], hints: Hints
    ):
        self._fine = fine_panes(panes)
        self._indexed = [_Indexed(question, hints) for question in questions]
        self._known = [pa.array([], type_) for type_ in key_types]
        self._groups = 1
        self._pending: deque[_Piece] = deque()
        self._spill = SpillFile()
        self.next_row = 0
        """The rows of the stream before this one are taken, from the start of the newest window on."""
        self.reached = MIN_TIME
        """How far on the axis it has come: earlier windows cannot be asked for any more."""

    def limit(self, budget: int) -> None:
        """Let it take no more than so many bytes of memory, apart from indices of nodes."""
        for indexed in self._indexed:
            indexed.budget = budget // len(self._indexed)

    @property
    def rows(self) -> int:
        """How many values the indices hold."""
        return sum(indexed.rows for indexed in self._indexed)

    @property
    def nbytes(self) -> int:
        return sum(indexed.nbytes for indexed in self._indexed)

    @property
    def choices(self) -> list[Choice | None]:
        return [indexed.choice for indexed in self._indexed]

    # -- rows come in ----------------------------------------------------------------------------------

    def take(self, axis: NDArray[np.int64], keys: Sequence[Column], arguments: Sequence[Column], next_row: int) -> None:
        """Rows that follow those taken before, up to `next_row`; they are in no answer until `reach`."""
        self.next_row = next_row
        if len(axis) == 0:
            return
        length = self._fine.length
        panes, bounds = pane_runs(frozen(axis), length)
        ids = self.ids(keys, len(axis))
        codes: list[NDArray[np.int64]] = []
        groups: list[NDArray[np.int32]] = []
        cuts: list[NDArray[np.int64]] = []
        for at, indexed in enumerate(self._indexed):
            column = arguments[indexed.question.argument]
            own, where = ids, bounds
            if column.null_count:
                kept = valid(column)
                column, own = pc.drop_null(column), ids[kept]
                where = np.append(0, np.cumsum(kept))[bounds]
            encoded = indexed.encode(one_array(column), self._pending, at)
            indexed.settle(encoded, own, len(panes), self._fine.size // length)
            indexed.index.reserve_groups(self._groups)
            codes.append(encoded)
            groups.append(own)
            cuts.append(where)
        for i, pane in enumerate(panes.tolist()):
            self._pending.append(
                _Piece(
                    pane,
                    [c[w[i] : w[i + 1]] for c, w in zip(codes, cuts, strict=True)],
                    [g[w[i] : w[i + 1]] for g, w in zip(groups, cuts, strict=True)],
                )
            )

    def ids(self, keys: Sequence[Column], length: int) -> NDArray[np.int32]:
        """The number of each row's group; groups not seen before get the next numbers."""
        if not self._known:
            return np.zeros(length, np.int32)
        joined = [pa.chunked_array([k, *_chunks(c)], k.type) for k, c in zip(self._known, keys, strict=True)]
        groups = encode(joined, self._groups_known + length)
        ids: NDArray[np.int32] = groups.codes[self._groups_known :]
        if groups.size > self._groups_known:
            self._known = groups.keys(np.arange(groups.size, dtype=np.int32))
            self._groups = max(groups.size, 1)
        return ids

    @property
    def _groups_known(self) -> int:
        return len(self._known[0]) if self._known else 0

    @property
    def crowded(self) -> bool:
        """True if most of the groups it knows have gone; then it is better made anew."""
        if self._groups_known < 4096 or not self._indexed or self._indexed[0].choice is None:
            return False
        totals = self._indexed[0].index.total(np.arange(self._groups, dtype=np.int32))
        return int(np.count_nonzero(totals)) * 4 < self._groups_known

    # -- windows slide ---------------------------------------------------------------------------------

    def reach(self, end: int) -> None:
        """Let the index hold the window that ends at `end` (or would, between the ends of two windows)."""
        self.reached = max(self.reached, end)
        pane, low = end // self._fine.length, (end - self._fine.size) // self._fine.length
        while self._pending and self._pending[0].pane < pane:
            piece = self._pending.popleft()
            if piece.pane >= low:
                for indexed, codes, groups in zip(self._indexed, piece.codes, piece.groups, strict=True):
                    indexed.attach(piece.pane, codes, groups)
        for at, indexed in enumerate(self._indexed):
            indexed.evict(low, self._spill)
            indexed.purge(self._pending, at)

    def fit(self) -> None:
        """Keep no more in memory than the budget allows, apart from the index itself."""
        for indexed in self._indexed:
            indexed.spill(self._spill)

    def ask(self, groups: NDArray[np.int32]) -> list[_Found]:
        """What every aggregate of every question is read from in the window reached, for each of the groups."""
        asked = []
        for indexed in self._indexed:
            if indexed.choice is None:  # no value of it was ever seen
                indexed.settle(np.zeros(0, np.int64), np.zeros(0, np.int32), 1, 1)
            indexed.index.reserve_groups(self._groups)
            asked += [indexed.settled(indexed.ask(aggregate, groups)) for aggregate in indexed.question.aggregates]
        return asked

    def answers(self, windows: Sequence[Sequence[_Found]]) -> list[pa.Array]:
        """Every aggregate of every question, from what was asked window by window."""
        asked = [(indexed, aggregate) for indexed in self._indexed for aggregate in indexed.question.aggregates]
        return [
            indexed.answer(aggregate, [window[number] for window in windows])
            for number, (indexed, aggregate) in enumerate(asked)
        ]


live: Live[WindowValues] = Live()


def _chunks(column: Column) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
