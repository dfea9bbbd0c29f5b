"""Ranked: rows with what window functions say of them, by touched part.

What is said of a row depends on all others of its part. So the rows of the parts that changes touch are put in order
once, with the weights they had and those they have now, what is said of them is computed for both, and where that
differs the row goes as it was and comes as it is. That takes time in proportion to the touched parts, so for one large
part (`OVER (ORDER BY …)` of everything) each call costs as much as all its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.keyed import differs
from anabranch.kernels.ranks import Standing
from anabranch.kernels.refining import bounds_of, positions
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Ranked
from anabranch.operators.tree.parts import InOrder, rows_of_parts, without_empty
from anabranch.operators.tree.steps.base import Step
from anabranch.operators.tree.steps.calls import compute, type_of
from anabranch.operators.tree.steps.touched import touched


class RankedStep(Step):
    """All rows are kept, by their part. See `calls` for the functions and what `Call.options` say."""

    only_comes = False
    """A row that comes may change what is said of others."""

    def __init__(self, node: Ranked, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        (self._read,) = schemas
        self._node = node
        self._said = pa.schema([(call.name, type_of(call, self._read)) for call in node.calls])
        self.schema = pa.schema([*self._read, *self._said])
        self._rows = Arrangement(self._read, node.partition)

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        (changes,) = inputs
        if not len(changes):
            return Changes.none(self.schema)
        parts = touched([changes.gathered.column(name) for name in self._node.partition], len(changes))
        found = rows_of_parts(self._rows, parts.keys, len(parts))
        self._rows.take_in(changes)
        both = together([found.changes, changes], self._read)
        part = np.concatenate([found.of, parts.of_row])
        order = InOrder.of(both.gathered, part, len(parts), self._node.partition, self._node.order)
        was = both.weights.copy()
        was[len(found.changes) :] = 0
        before = _Said(self, both.rows, order, order.sums(was))
        after = _Said(self, both.rows, order, order.sums(both.weights))
        return _difference(before, after, self.schema)

    def said(self, at: Standing, rows: pa.Table) -> list[pa.Array]:
        return [compute(call, at, rows) for call in self._node.calls]

    def needs(self) -> list[str]:
        """The columns that functions are about."""
        calls = self._node.calls
        named = {name for call in calls for name in (*call.arguments, call.filter) if name is not None}
        named |= {options["by"][0] for call in calls if "by" in (options := dict(call.options))}
        return [name for name in self._read.names if name in named]

    def kept(self) -> Mapping[str, Arrangement]:
        return {"rows": self._rows}

    def why(self) -> str:
        within = f"the parts by {', '.join(self._node.partition)}" if self._node.partition else "all rows, as one part"
        return f"per touched part: {within}; what is said of a row depends on the others of its part"


class _Said:
    """Rows at one time, a row of weight 2 twice, with what is said of each."""

    def __init__(self, step: RankedStep, rows: pa.Table, order: InOrder, weights: NDArray[np.int64]) -> None:
        self.rows = rows
        self.times = np.maximum(weights, 0)
        """How often each different row is there."""
        self.starts = bounds_of(self.times)
        """Where the first of each stands, and how many there are."""
        self.places = np.repeat(order.first, self.times)
        parts = without_empty(self.starts[order.among_different(order.parts)])
        peers = without_empty(self.starts[order.among_different(order.peers)])
        reads = rows.select(step.needs()).take(pa.array(self.places))
        self.columns = step.said(Standing(parts, peers), reads)

    def changes(self, places: NDArray[np.int64], weight: int, schema: pa.Schema) -> Changes:
        rows, chosen = self.rows.take(pa.array(self.places[places])), pa.array(places)
        columns = [*rows.columns, *(column.take(chosen) for column in self.columns)]
        return Changes.of(pa.Table.from_arrays(columns, schema=schema), weight)


def _difference(before: _Said, after: _Said, schema: pa.Schema) -> Changes:
    """The n-th of a row before is compared with the n-th of it after; further ones went or came."""
    common = np.minimum(before.times, after.times)
    olds, news = positions(before.starts[:-1], common), positions(after.starts[:-1], common)
    changed = np.zeros(len(olds), np.bool_)
    for old, new in zip(before.columns, after.columns, strict=True):
        changed |= differs(old.take(pa.array(olds)), new.take(pa.array(news)))
    gone = positions(before.starts[:-1] + common, before.times - common)
    come = positions(after.starts[:-1] + common, after.times - common)
    change = together(
        [
            before.changes(np.concatenate([olds[changed], gone]), -1, schema),
            after.changes(np.concatenate([news[changed], come]), 1, schema),
        ],
        schema,
    )
    # The n-th of a row may say now what the one before it said.
    return change.consolidated() if max(before.times.max(initial=0), after.times.max(initial=0)) > 1 else change
