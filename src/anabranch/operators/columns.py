"""SQL expressions bound to the columns they are computed from.

A bare column name is passed through as it is; everything else is compiled by
`anabranch.expressions`, once per process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from anabranch.kernels.values import Column


@dataclass(frozen=True)
class Bound:
    """An expression that can be evaluated on tables of a schema."""

    sql: str
    columns: tuple[str, ...]
    type: pa.DataType
    evaluate: Callable[[pa.Table], Column]

    @property
    def is_column(self) -> bool:
        """Whether it is a column as it is."""
        return len(self.columns) == 1 and self.sql in (self.columns[0], f"`{self.columns[0].replace('`', '``')}`")


def bind(sql: str, schema: pa.Schema) -> Bound:
    """The expression `sql` over tables with the columns of `schema`."""
    if sql.isidentifier() and sql in schema.names:
        return Bound(sql, (sql,), schema.field(sql).type, lambda table: table.column(sql))
    from anabranch import expressions

    compiled = expressions.compile(sql, schema)
    return Bound(sql, tuple(compiled.columns), compiled.type, compiled.evaluate)


def columns_of(bound: Iterable[Bound], schema: pa.Schema, *more: str) -> list[str]:
    """The columns of the schema that any of the expressions reads, and `more`, in the schema's order."""
    wanted = {name for expression in bound for name in expression.columns} | set(more)
    return [name for name in schema.names if name in wanted]


def project(table: pa.Table, columns: Iterable[Bound], schema: pa.Schema) -> pa.Table:
    """The values of the expressions as a table of `schema`."""
    arrays = []
    for column, field in zip(columns, schema, strict=True):
        values = column.evaluate(table)
        arrays.append(values if values.type == field.type else values.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
