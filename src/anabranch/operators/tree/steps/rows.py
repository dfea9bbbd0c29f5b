"""Rows: a filter and computed columns, of changes as they are. What goes is computed as it was when it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.values import one_array
from anabranch.operators.columns import Bound, bind
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Rows
from anabranch.operators.tree.steps.base import Step


class RowsStep(Step):
    """Answers each change by itself; expressions are functions of a row, so a row that goes meets what it was."""

    keeps_rows = False
    why_thrown = "WHERE was not true for them"

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
            kept = one_array(self._where.evaluate(_read_by(self._where, changes))).fill_null(False)
            kept = kept.to_numpy(zero_copy_only=False)
            self.dropped += len(kept) - int(np.count_nonzero(kept))
            changes = changes.filter(kept)
        if not len(changes):
            return Changes.none(self.schema)
        read = changes.gathered
        columns: list[int | pa.Array] = []
        for column, field in zip(self._columns, self.schema, strict=True):
            if column.is_column:
                columns.append(read.schema.get_field_index(column.columns[0]))
            else:
                values = column.evaluate(_read_by(column, changes))
                columns.append(one_array(values if values.type == field.type else values.cast(field.type)))
        return changes.with_rows(read.with_columns(self.schema, columns))

    def kept(self) -> Mapping[str, Arrangement]:
        return {}

    def why(self) -> str:
        return "on changes as they are: it looks at one row at a time and remembers nothing"


def _read_by(expression: Bound, changes: Changes) -> pa.Table:
    """The rows with the columns that an expression is about; one that is about none is asked of each row, too."""
    if not expression.columns:
        return pa.table({"": pa.nulls(len(changes))})
    return changes.gathered.table(expression.columns)
