"""Steps played by hand: rows as lists, changes as (row, weight)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.steps.base import Step
from tests.operators.tree.oracle_tree import Bag, bag_of

Entry = tuple[tuple[Any, ...], int]


def changes(schema: pa.Schema, *entries: Entry) -> Changes:
    columns = [pa.array([row[i] for row, _ in entries], column.type) for i, column in enumerate(schema)]
    weights = np.array([weight for _, weight in entries], np.int64)
    return Changes(pa.Table.from_arrays(columns, schema=schema), weights)


class Played:
    """A step with one input, and all it has answered so far."""

    def __init__(self, step: Step, schema: pa.Schema) -> None:
        self.step, self._schema = step, schema
        self.answer: Bag = Counter()
        self.last: Bag = Counter()

    def take(self, *entries: Entry) -> list[tuple[Any, ...]]:
        """The answer after some changes, in the order of its values as text."""
        change = self.step.take([changes(self._schema, *entries)], 0)
        assert change.rows.schema == self.step.schema
        self.last = bag_of(change.rows, change.weights.tolist())
        self.answer.update(self.last)
        self.answer = Counter({row: count for row, count in self.answer.items() if count})
        return sorted(self.answer.elements(), key=repr)

    def column(self, name: str, by: Sequence[str]) -> list[Any]:
        """The values of a column, in the order of others."""
        names = self.step.schema.names
        at, order = names.index(name), [names.index(other) for other in by]
        return [row[at] for row in sorted(self.answer.elements(), key=lambda row: [row[i] for i in order])]
