"""Top: the first rows of each part in an order, or those from a place on.

Of a part only its beginning is looked at. `first` holds that, `rest` what comes behind, and one thing is always so:

    Each row in `first` comes before each row of its part in `rest`. And if in `first` a part has fewer rows than are
    asked for (`limit` + `offset`), it has none in `rest`.

So a change belongs to `first` if it does not come behind the last row there, or if the part is short there; else to
`rest`, where nobody looks at it. Only when a part has become short are its rows in `rest` put in order, and enough of
them moved that this will not happen soon again; when it has too many, the last are moved back. What is in which of the
two depends on how changes were cut; the answer does not.

Where rows only come, what lies behind the rows asked for is never asked for, and is not kept.
Without a limit the answer is all rows but the first: the changes less those of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.refining import bounds_of, order_codes
from anabranch.kernels.values import has_order_number, valid
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.gathered import Gathered
from anabranch.operators.tree.nodes import Top
from anabranch.operators.tree.parts import InOrder, rows_of_parts
from anabranch.operators.tree.steps.base import Step
from anabranch.operators.tree.steps.touched import touched

Numbers = NDArray[np.int64]

_LOWEST, _HIGHEST = np.int64(-(2**63)), np.int64(2**63 - 1)
SPARE, SPARE_OF_ALL = 64, 1024
"""So many rows of a part are kept in `first` beyond those asked for, at first. More cost time with each change of the
part, fewer are used up sooner, which costs as much as sorting the part; of a part that is all rows there is but one."""


class TopStep(Step):
    """See the module."""

    why_thrown = "they come behind the first, and none of those can go"

    def __init__(self, node: Top, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        (self.schema,), (self._grows,) = schemas, only_come
        self._node = node
        self._asked = node.offset + (node.limit or 0)
        self._few = self._many = self._asked
        if not self._grows:
            spare = SPARE if node.partition else SPARE_OF_ALL
            self._few, self._many = 2 * self._asked + spare, 4 * self._asked + 4 * spare
        self._first = Arrangement(self.schema, node.partition)
        self._rest = Arrangement(self.schema, node.partition)
        self.only_comes = self._grows and self._passes_all
        self.keeps_rows = not (self._grows or self._passes_all)

    @property
    def _passes_all(self) -> bool:
        return self._node.limit is None and self._node.offset == 0

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        (changes,) = inputs
        if self._passes_all or not len(changes):
            return changes
        if self._asked == 0:
            return Changes.none(self.schema)
        change = self._change_of_first(changes)
        return change if self._node.limit is not None else together([changes, change.negated()], self.schema)

    def _change_of_first(self, changes: Changes) -> Changes:
        """The change of the rows that are shown; without a limit of those that are not."""
        parts = touched([changes.gathered.column(name) for name in self._node.partition], len(changes))
        part, size = parts.of_row, len(parts)
        found = rows_of_parts(self._first, parts.keys, size)
        short = _sums(found.of, found.changes.weights, size) < self._asked
        near = ~self._surely_behind(found.changes.gathered, found.of, short, changes.gathered, part)
        aside = changes.filter(~near)
        both = together([found.changes, changes.filter(near)], self.schema)
        order = self._in_order(both.gathered, np.concatenate([found.of, part[near]]), size)
        was = both.weights.copy()
        was[len(found.changes) :] = 0
        of, before, now = order.part_of_different, order.sums(was), order.sums(both.weights)
        inside = short[of] | (np.arange(len(of)) <= _last(of, before, size)[of])
        after = np.where(inside, now, 0)
        counts = _sums(of, np.maximum(after, 0), size)
        stays = inside & ((counts <= self._many)[of] | (_standing_before(of, after) < self._few))
        rows = both.gathered.take(order.first)
        moved, shown = np.where(stays, now, 0) - before, self._shown(of, after) - self._shown(of, before)
        moves = _some(rows, moved)
        self._first.take_in(moves)
        change = moves if np.array_equal(moved, shown) else _some(rows, shown)
        if self._grows:
            self.dropped += int(changes.weights.sum()) - int(moved[moved > 0].sum())
            self.forgotten -= int(moved[moved < 0].sum())
            return change
        self._rest.take_in(together([aside, _some(rows, np.where(stays, 0, now))], self.schema))
        dry = np.flatnonzero(~short & (counts < self._asked))
        if not len(dry):
            return change
        keys = [key.take(pa.array(dry)) for key in parts.keys]
        return together([change, self._refilled(keys, counts[dry])], self.schema)

    def _refilled(self, keys: Sequence[pa.Array], counts: Numbers) -> Changes:
        """Moves rows to the front of parts of which only so many are left there, and says which of them are shown."""
        found = rows_of_parts(self._rest, keys, len(counts))
        order = self._in_order(found.changes.gathered, found.of, len(counts))
        of, weights = order.part_of_different, order.sums(found.changes.weights)
        weights = np.where(counts[of] + _standing_before(of, weights) < self._few, weights, 0)
        rows = found.changes.gathered.take(order.first)
        moved = _some(rows, weights)
        self._first.take_in(moved)
        self._rest.take_in(moved.negated())
        return _some(rows, self._shown(of, weights, counts[of]))

    def _in_order(self, rows: Gathered, part: Numbers, size: int) -> InOrder:
        return InOrder.of(rows, part, size, self._node.partition, self._node.order)

    def _shown(self, of: Numbers, weights: Numbers, others: Numbers | int = 0) -> Numbers:
        """How often each row is among those asked for; `others` stand before all of its part."""
        begin = others + _standing_before(of, weights)
        low = 0 if self._node.limit is None else self._node.offset
        shown: Numbers = np.minimum(begin + np.maximum(weights, 0), self._asked) - np.maximum(begin, low)
        return np.maximum(shown, 0)

    def _surely_behind(
        self, first: Gathered, of: Numbers, short: NDArray[np.bool_], rows: Gathered, part: Numbers
    ) -> NDArray[np.bool_]:
        """Which rows come behind the last one of their part by the first column of the order: they need no sorting."""
        if not self._node.order or not has_order_number(self.schema.field(self._node.order[0][0]).type):
            return np.zeros(len(rows), np.bool_)
        last = np.full(len(short), _LOWEST)
        np.maximum.at(last, of, self._numbers(first))
        last[short] = _HIGHEST
        return self._numbers(rows) > last[part]

    def _numbers(self, rows: Gathered) -> Numbers:
        """Of what is first in the order; NULL is at its end of the numbers, perhaps beside one."""
        name, descending, nulls_first = self._node.order[0]
        numbers = order_codes(rows.column(name))
        numbers = ~numbers if descending else numbers
        return np.where(valid(rows.column(name)), numbers, _LOWEST if nulls_first else _HIGHEST)

    def kept(self) -> Mapping[str, Arrangement]:
        return {"first": self._first} if self._grows else {"first": self._first, "rest": self._rest}

    def why(self) -> str:
        if self._passes_all:
            return "on changes as they are: all rows are asked for"
        whose = "of each touched part" if self._node.partition else "of all rows"
        if self._grows:
            return f"by the first {self._asked} rows {whose}; as rows only come, no others are kept"
        return f"by the first rows {whose}, more than the {self._asked} asked for; others wait until they are used up"


def _sums(of: Numbers, weights: Numbers, size: int) -> Numbers:
    """The weights of each part."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, of, weights)
    return sums


def _standing_before(of: Numbers, weights: Numbers) -> Numbers:
    """How many rows of the same part stand before each; parts stand together."""
    before = bounds_of(np.maximum(weights, 0))[:-1]
    begins = np.flatnonzero(np.diff(of, prepend=-1))
    return before - np.repeat(before[begins], np.diff(begins, append=len(of)))


def _last(of: Numbers, weights: Numbers, size: int) -> Numbers:
    """The last row of each part that is there, -1 for none."""
    last = np.full(size, -1, np.int64)
    there = np.flatnonzero(weights)
    last[of[there]] = there
    return last


def _some(rows: Gathered, weights: Numbers) -> Changes:
    """Those of the rows that have a weight."""
    some = np.flatnonzero(weights)
    return Changes(rows.take(some), weights[some])
