"""Union: the changes of all inputs are its changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Union
from anabranch.operators.tree.steps.base import Step


class UnionStep(Step):
    """See the module."""

    keeps_rows = False

    def __init__(self, node: Union, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        self.schema = schemas[0]
        self.only_comes = all(only_come)

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        return together([self._named(changes) for changes in inputs], self.schema)

    def kept(self) -> Mapping[str, Arrangement]:
        return {}

    def why(self) -> str:
        return "on changes as they are: a row that comes or goes does so whatever else there is"

    def _named(self, changes: Changes) -> Changes:
        if changes.rows.schema.equals(self.schema):
            return changes
        return changes.with_rows(by_place(changes.rows, self.schema))


def by_place(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the names and types of a schema, column by column."""
    columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)
