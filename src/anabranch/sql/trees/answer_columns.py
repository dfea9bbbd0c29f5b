"""The columns of an answer that is kept: names that differ, none that its log needs itself, types that streams hold."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.schema import sql_type
from anabranch.sql.tree import Select
from anabranch.tables.declaration import NUMBER, RESERVED


def refuse_same_names(select: Select, names: Sequence[str]) -> None:
    """Two columns of one name, in upper or lower case."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise select.error(
                "COLUMN_EXISTS",
                f'column "{name}" comes twice in the answer',
                _second(select.tree, name),
                hint="give one of them another name with AS",
            )
        seen.add(name.lower())


def _second(tree: exp.Expr, name: str) -> exp.Expr:
    """Where a name is given for the second time."""
    items = [item for item in getattr(tree, "expressions", ()) if item.alias_or_name.lower() == name.lower()]
    return items[1] if len(items) > 1 else tree


def refuse_reserved_names(select: Select, names: Sequence[str]) -> None:
    """Names that the changes of an answer need for themselves."""
    for name in names:
        if name.lower() in (*RESERVED, NUMBER):
            raise select.error(
                "COLUMN_RESERVED",
                f'column "{name}" is kept for the changes of the answer',
                select.tree,
                hint="name the columns that are wanted, and give this one another name with AS",
            )


def refuse_types(select: Select, schema: pa.Schema) -> None:
    """Types that no column of a stream has."""
    for field in schema:
        try:
            sql_type(field.type)
        except AnabranchError:
            nested = pa.types.is_nested(field.type)
            raise select.error(
                "TYPE_NOT_SUPPORTED",
                f'column "{field.name}" of the answer is {field.type}, which a stream cannot hold',
                select.tree,
                hint="write to_json(…), or array_join(…)" if nested else "give it a type with CAST",
            ) from None
