"""Rows: a filter and computed columns, of changes as they are. What goes is computed as it was when it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from anabranch.kernels.values import one_array
from anabranch.operators.columns import bind, project
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Rows
from anabranch.operators.tree.steps.base import Step


class RowsStep(Step):
    """Answers each change by itself; expressions are functions of a row, so a row that goes meets what it was."""

    keeps_rows = False
    why_thrown: ClassVar[str] = "WHERE was not true for them"

    def __init__(self, node: Rows, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        (read,), (self.only_comes,) = schemas, only_come
        self._where = None if node.where is None else bind(node.where, read)
        self._columns = tuple(bind(sql, read) for _, sql in node.columns)
        self.schema = pa.schema(
            [(name, column.type) for (name, _), column in zip(node.columns, self._columns, strict=True)]
        )

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        (changes,) = inputs
        if self._where is not None and len(changes):
            kept = one_array(self._where.evaluate(changes.rows)).fill_null(False).to_numpy(zero_copy_only=False)
            self.dropped += len(kept) - int(np.count_nonzero(kept))
            changes = changes.filter(kept)
        if not len(changes):
            return Changes.none(self.schema)
        return changes.with_rows(project(changes.rows, self._columns, self.schema))

    def kept(self) -> Mapping[str, Arrangement]:
        return {}

    def why(self) -> str:
        return "on changes as they are: it looks at one row at a time and remembers nothing"
