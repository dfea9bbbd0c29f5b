"""Unnest: a row for each element of an array, of changes as they are. What goes has the elements it came with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from anabranch.kernels.unnested import unnested
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Unnest
from anabranch.operators.tree.steps.base import Step


class UnnestStep(Step):
    """See the module."""

    keeps_rows = False

    def __init__(self, node: Unnest, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        (read,), (self.only_comes,) = schemas, only_come
        self._node = node
        place = [] if node.place is None else [pa.field(node.place, pa.int32())]
        self.schema = pa.schema([*read, *place, pa.field(node.element, read.field(node.array).type.value_type)])

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        (changes,) = inputs
        if not len(changes):
            return Changes.none(self.schema)
        of, items, places = unnested(changes.rows.column(self._node.array), outer=self._node.outer)
        rows = changes.rows.take(pa.array(of))
        place = [] if self._node.place is None else [places]
        columns = [*rows.columns, *(pa.chunked_array([column]) for column in (*place, items))]
        return Changes(pa.Table.from_arrays(columns, schema=self.schema), changes.weights[of])

    def kept(self) -> Mapping[str, Arrangement]:
        return {}

    def why(self) -> str:
        return "on changes as they are: each element comes and goes with its row"
