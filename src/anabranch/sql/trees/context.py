"""What all parts of a tree's planner share: the query, what is known of its sources, and the nodes so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import sql_of
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.tree import Select
from anabranch.sql.trees.draft import DraftRows, Drafts, Place, as_they_are, picked
from anabranch.sql.trees.scope import Relation, Scope
from anabranch.sql.trees.typing import check_boolean, type_of


class TableColumns(NamedTuple):
    """A table or view: its columns, and those that say which row is which."""

    schema: pa.Schema
    key: tuple[str, ...]


Tables = Callable[[str], TableColumns | None]
"""The columns of a table or view by its name; None if none has it."""


@dataclass
class Cte:
    """A query of WITH: planned once, where it is first read."""

    name: str
    relation: Relation
    read: bool = False


Ctes = Mapping[str, Cte]
"""Those that can be read at some place, by their names in lower case."""


@dataclass
class Context:
    """See the module; `query` plans a whole query, and `keys` are those of the tables that are read."""

    select: Select
    lookup: Lookup
    tables: Tables
    reducers: Registered
    query: Callable[[Context, exp.Expr, Ctes], Relation]
    drafts: Drafts = field(default_factory=Drafts)
    sources: dict[str, Relation] = field(default_factory=dict)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def schema(self, node: int) -> pa.Schema:
        return self.drafts.schemas[node]

    def extended(
        self, node: int, values: Sequence[tuple[str, exp.Expr, exp.Expr | None]], place: Place
    ) -> tuple[int, list[str]]:
        """A node with more columns, and their names; each is (wanted name, value, where it was written).

        What is a column already stays one.
        """
        schema, names = self.schema(node), list[str]()
        added: list[tuple[str, exp.Expr]] = []
        fields: list[pa.Field] = []
        known: dict[str, str] = {}
        for wanted, value, written in values:
            plain = value.unnest()
            if isinstance(plain, exp.Column) and plain.name in schema.names:
                names.append(plain.name)
                continue
            text = sql_of(plain)
            if text not in known:
                type_ = type_of(self.select, plain, schema, written)
                known[text] = self.drafts.fresh(wanted)
                added.append((known[text], plain))
                fields.append(pa.field(known[text], type_))
            names.append(known[text])
        if not added:
            return node, names
        rows = DraftRows(node, (*as_they_are(schema.names), *added))
        return self.drafts.add(rows, pa.schema([*schema, *fields]), place), names

    def filtered(self, node: int, conditions: Sequence[tuple[exp.Expr, exp.Expr | None]], place: Place) -> int:
        """The rows of a node for which conditions, each with where it was written, are true."""
        if not conditions:
            return node
        schema = self.schema(node)
        for value, written in conditions:
            check_boolean(self.select, value, schema, written)
        rows = DraftRows(node, as_they_are(schema.names), tuple(value for value, _ in conditions))
        return self.drafts.add(rows, schema, place)

    def named(self, node: int, columns: Sequence[tuple[str, exp.Expr]], place: Place) -> int:
        """A node with just these columns."""
        schema = self.schema(node)
        if [(name, value.name) for name, value in columns if isinstance(value, exp.Column)] == [
            (name, name) for name in schema.names
        ] and len(columns) == len(schema.names):
            return node
        fields = [pa.field(name, type_of(self.select, value, schema)) for name, value in columns]
        return self.drafts.add(DraftRows(node, tuple(columns)), pa.schema(fields), place)

    def only(self, node: int, names: Sequence[str], place: Place) -> int:
        """A node with just these of its columns, in this order."""
        if list(names) == self.schema(node).names:
            return node
        return self.drafts.add(DraftRows(node, as_they_are(names)), picked(self.schema(node), names), place)

    def refuse(self, message: str, node: exp.Expr | None, hint: str | None, keyword: str | None = None) -> SqlError:
        return self.select.error("NOT_IN_THE_LANGUAGE", message, node, hint=hint, keyword=keyword)

    def scope(self, relation: Relation, outer: Scope | None = None) -> Scope:
        return Scope(self.select, relation.fields, outer)
