"""Which rows of two sides meet: keys are found by arrangement, then a condition is asked of each pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels.same_rows import same_rows
from anabranch.kernels.values import one_array, valid
from anabranch.operators.columns import bind
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.gathered import Gathered
from anabranch.operators.tree.nodes import Join

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]
Met = Iterator[tuple[Places, Changes]]
"""Rows of the other side, and the place of the row of this side that each of them meets."""


class Side:
    """The rows of one side, by key. `loose`: those with a NULL in a key count, too, and stand on their own.

    `apart`: rows only come, and are only met.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str], *, loose: bool = False, apart: bool = False) -> None:
        self.schema = schema
        self.key = tuple(key)
        self.keyed = Arrangement(schema, key, apart=apart)
        self.loose = Arrangement(schema, ()) if loose else None

    def take_in(self, changes: Changes) -> None:
        whole = self.whole_keys(changes.gathered)
        self.keyed.take_in(changes.filter(whole))
        if self.loose is not None and not whole.all():
            self.loose.take_in(changes.filter(~whole))

    def whole_keys(self, rows: Gathered) -> Mask:
        """Which rows have no NULL in their keys."""
        whole = np.ones(len(rows), np.bool_)
        for name in self.key:
            whole &= valid(rows.column(name))
        return whole

    def keys(self, rows: Gathered) -> list[pa.Array]:
        return [rows.column(name) for name in self.key]


class Meeting:
    """What it takes for rows of two sides to meet."""

    def __init__(self, node: Join, left: pa.Schema, right: pa.Schema) -> None:
        for ours, theirs in node.keys:
            assert left.field(ours).type == right.field(theirs).type, f"{ours} and {theirs} have different types"
        self._keys = node.keys
        both = pa.schema([*left, *right]) if node.condition is not None else None
        self._condition = None if both is None or node.condition is None else bind(node.condition, both)
        wanted = () if self._condition is None else self._condition.columns
        self._wanted = tuple([name for name in side.names if name in wanted] for side in (left, right))

    @property
    def has_condition(self) -> bool:
        return self._condition is not None

    def met(self, rows: Gathered, mine: Side, other: Side, *, left: bool) -> Met:
        """What some rows of the side `mine`, which is the left or the right one, meet on the other."""
        whole = mine.whole_keys(rows)
        places = np.flatnonzero(whole)
        yield from self._asked(rows, places, other.keyed.meeting(mine.keys(rows.filter(whole)), len(places)), left)
        if other.loose is not None:  # a NULL says neither that keys are equal nor that they are not
            yield from self._loosely(rows, places, other.loose, left)
            with_null = np.flatnonzero(~whole)
            for arrangement in (other.keyed, other.loose):
                yield from self._loosely(rows, with_null, arrangement, left)

    def counts(self, rows: Gathered, mine: Side, other: Side, *, left: bool) -> Places:
        """How many rows of the other side each of some rows meets."""
        sums = np.zeros(len(rows), np.int64)
        for places, others in self.met(rows, mine, other, left=left):
            np.add.at(sums, places, others.weights)
        return sums

    def _loosely(self, rows: Gathered, places: Places, others: Arrangement, left: bool) -> Met:
        if not len(places):
            return
        for at, found in self._asked(rows, places, others.beside(len(places)), left):
            may = np.ones(len(at), np.bool_)
            turn = np.arange(len(at))
            for pair in self._keys:
                mine, theirs = pair if left else pair[::-1]
                one, other = rows.taken(mine, at), found.gathered.column(theirs)
                may &= same_rows([one], turn, [other], turn) | ~valid(one) | ~valid(other)
            yield at[may], found.filter(may)

    def _asked(self, rows: Gathered, places: Places, found: Iterable[tuple[Places, Changes]], left: bool) -> Met:
        """Pairs for which the condition is true; `places`: those of the rows that were looked for."""
        for asked, others in found:
            at = places[asked]
            if self._condition is not None:
                holds = self._holds(rows, at, others.gathered, left)
                if not holds.all():
                    at, others = at[holds], others.filter(holds)
            if len(at):
                yield at, others

    def _holds(self, rows: Gathered, at: Places, others: Gathered, left: bool) -> Mask:
        assert self._condition is not None
        mine, theirs = self._wanted if left else self._wanted[::-1]
        columns = {name: rows.taken(name, at) for name in mine}
        columns |= {name: others.column(name) for name in theirs}
        # A condition about no column is asked of each pair, too.
        holds = self._condition.evaluate(pa.table(columns or {"": pa.nulls(len(at))}))
        true: Mask = one_array(pc.fill_null(holds, False)).to_numpy(zero_copy_only=False)
        return true
