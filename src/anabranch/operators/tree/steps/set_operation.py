"""INTERSECT and EXCEPT: how often a row is there on each side says how often it is in the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import integers
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import SetOperation
from anabranch.operators.tree.replaced import Replaced
from anabranch.operators.tree.steps.base import Step
from anabranch.operators.tree.steps.touched import touched
from anabranch.operators.tree.steps.union import by_place

Counts = NDArray[np.int64]


class SetOperationStep(Step):
    """See the module."""

    def __init__(self, node: SetOperation, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        self.schema = schemas[0]
        self._node = node
        self.only_comes = node.operation == "intersect" and all(only_come)
        keys = [pa.field(f"column {i}", field.type) for i, field in enumerate(self.schema)]
        counts = [pa.field("left", pa.int64()), pa.field("right", pa.int64())]
        self._counts = Replaced(pa.schema([*keys, *counts]), [key.name for key in keys])

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        left, right = inputs
        both = together([left, right.with_rows(by_place(right.rows, self.schema))], self.schema)
        if not len(both):
            return Changes.none(self.schema)
        rows = touched(both.rows.columns, len(both))
        latest, of = self._counts.latest(rows.keys, rows.codes)
        is_left = np.arange(len(both)) < len(left)
        before, after = [], []
        for name, mine in (("left", is_left), ("right", ~is_left)):
            known = np.zeros(len(rows), np.int64)
            known[of] = integers(latest.column(name))
            before.append(known)
            after.append(known + rows.sums(np.where(mine, both.weights, 0)))
        counts = [pa.array(each) for each in after]
        kept = pa.Table.from_arrays([*rows.keys, *counts], schema=self._counts.schema)
        self._counts.put(kept, rows.codes, (after[0] != 0) | (after[1] != 0))
        weights = self._times(*after) - self._times(*before)
        return Changes(pa.Table.from_arrays(rows.keys, schema=self.schema), weights).filter(weights != 0)

    def _times(self, left: Counts, right: Counts) -> Counts:
        if not self._node.all:
            left, right = (left > 0).astype(np.int64), (right > 0).astype(np.int64)
        return np.minimum(left, right) if self._node.operation == "intersect" else np.maximum(left - right, 0)

    def kept(self) -> Mapping[str, Arrangement]:
        return {"counts": self._counts}

    def why(self) -> str:
        return "per touched row: of each row it is kept how often it is there on either side"
