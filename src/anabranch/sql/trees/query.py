"""A query of any form as nodes: one SELECT, a set operation, a query in parentheses, or a part of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.expressions import NotEvaluable
from anabranch.operators.tree.nodes import Aggregate, SetOperation, Union
from anabranch.sql.standing.columns import column
from anabranch.sql.standing.rows import type_name
from anabranch.sql.trees.block import plan_block
from anabranch.sql.trees.context import Context, Ctes
from anabranch.sql.trees.draft import Place, picked
from anabranch.sql.trees.ordering import read_ordering, topped
from anabranch.sql.trees.parts import is_part, plan_part
from anabranch.sql.trees.resolving import Resolver
from anabranch.sql.trees.scope import Field, Relation
from anabranch.sql.trees.typing import common_type, converted
from anabranch.sql.trees.with_clause import with_ctes

_WORDS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def plan_query(context: Context, tree: exp.Expr, ctes: Ctes) -> Relation:
    """The node of a query that is about nothing around it, and what its columns are called."""
    if isinstance(tree, exp.Subquery):
        inner = with_ctes(context, tree, ctes)
        return _ordered(context, tree, plan_query(context, tree.this, inner), inner)
    if is_part(context.select, tree):
        _refuse_ctes(context, tree, ctes)
        return plan_part(context, tree)
    if isinstance(tree, exp.Select):
        return plan_block(context, tree, ctes)
    if isinstance(tree, exp.SetOperation):
        inner = with_ctes(context, tree, ctes)
        return _ordered(context, tree, _SetPlanner(context, tree, inner).plan(), inner)
    said = "VALUES" if isinstance(tree, exp.Values) else tree.key.upper()
    raise context.refuse(f"{said} cannot be read where answers change", tree, "put the rows into a table", said)


def _refuse_ctes(context: Context, tree: exp.Expr, ctes: Ctes) -> None:
    for table in tree.find_all(exp.Table):
        if not table.db and table.name.lower() in ctes:
            raise context.refuse(
                "windows are over streams, not over a query of WITH", table,
                "make it a stream with CREATE STREAM … AS SELECT …",
            )  # fmt: skip


def _ordered(context: Context, tree: exp.Expr, relation: Relation, ctes: Ctes) -> Relation:
    """The first rows of a query, where ORDER BY and LIMIT stand behind all of it."""
    resolver = Resolver(context, context.scope(relation), ctes, "ORDER BY")

    def read(written: exp.Expr) -> exp.Expr:
        if isinstance(written, exp.Literal) and not written.is_string:
            if written.name.isdigit() and 1 <= int(written.name) <= len(relation.fields):
                return column(relation.fields[int(written.name) - 1].column)
            raise context.select.error(
                "SYNTAX_ERROR", f"there is no column {written.name} in the select list", written, keyword="ORDER"
            )
        return resolver.read(written)

    ordering = read_ordering(context, tree, read)
    if ordering is None:
        return relation
    if resolver.attached:
        raise context.refuse(
            "ORDER BY behind a set operation cannot hold a subquery", tree.args["order"], None, "ORDER"
        )
    node, names = context.extended(relation.node, ordering.values, Place("ORDER BY"))
    return relation.at(topped(context, node, ordering, names))


class _SetPlanner:
    """UNION, INTERSECT and EXCEPT; unions in a row are one node."""

    def __init__(self, context: Context, tree: exp.SetOperation, ctes: Ctes) -> None:
        self.context, self.tree, self.ctes = context, tree, ctes
        self.said = _WORDS[type(tree)]
        for part in ("by_name", "side", "kind", "on"):
            if tree.args.get(part):
                raise context.refuse(f"{self.said} cannot have {part.upper().replace('_', ' ')}", tree, None)

    @property
    def place(self) -> Place:
        said = self.said if self.tree.args.get("distinct") else f"{self.said} ALL"
        return Place(said, self.tree.expression, self.said)

    def plan(self) -> Relation:
        sides = [plan_query(self.context, side, self.ctes) for side in self._sides()]
        nodes, schema = self._of_one_shape(sides)
        node: Union | SetOperation
        distinct = bool(self.tree.args.get("distinct"))
        if isinstance(self.tree, exp.Union):
            node = Union(tuple(nodes))
        else:
            operation = "intersect" if isinstance(self.tree, exp.Intersect) else "except"
            node = SetOperation(nodes[0], nodes[1], "intersect" if operation == "intersect" else "except", not distinct)
        number = self.context.drafts.add(node, schema, self.place)
        if isinstance(self.tree, exp.Union) and distinct:
            number = self.context.drafts.add(Aggregate(number, tuple(schema.names)), schema, self.place)
        fields = sides[0].fields
        return Relation(number, tuple(Field(f.name, own) for f, own in zip(fields, schema.names, strict=True)))

    def _sides(self) -> list[exp.Expr]:
        """The sides; unions of one kind in a row are taken together."""
        sides: list[exp.Expr] = []
        rest: exp.Expr = self.tree
        while type(rest) is type(self.tree) and isinstance(rest, exp.Union) and self._is_alike(rest):
            sides.insert(0, rest.expression)
            rest = rest.this
        return [rest, *sides] if sides else [self.tree.this, self.tree.expression]

    def _is_alike(self, other: exp.Expr) -> bool:
        own = other is self.tree or not any(other.args.get(part) for part in ("order", "limit", "offset", "with_"))
        return own and bool(other.args.get("distinct")) == bool(self.tree.args.get("distinct"))

    def _of_one_shape(self, sides: Sequence[Relation]) -> tuple[list[int], pa.Schema]:
        """The sides with as many columns, of the same types; and the columns of all."""
        context = self.context
        for side in sides[1:]:
            if len(side.fields) != len(sides[0].fields):
                raise self._differ(
                    f"{self.said} needs as many columns on both sides, got {len(sides[0].fields)} and "
                    f"{len(side.fields)}", "select the columns that are to be put together",
                )  # fmt: skip
        types = [self._shared(number, sides) for number in range(len(sides[0].fields))]
        nodes: list[int] = []
        for side in sides:
            columns: list[tuple[str, exp.Expr]] = []
            for field, to in zip(side.fields, types, strict=True):
                value = converted(field.column, context.schema(side.node).field(field.column).type, to)
                taken = {name for name, _ in columns}
                own = isinstance(value, exp.Column) and field.column not in taken
                columns.append((field.column if own else context.drafts.fresh(field.name), value))
            nodes.append(context.named(side.node, columns, self.place))
        first = context.schema(nodes[0])
        return nodes, picked(first, first.names)

    def _shared(self, number: int, sides: Sequence[Relation]) -> pa.DataType:
        types = [self.context.schema(side.node).field(side.fields[number].column).type for side in sides]
        shared = types[0]
        for type_ in types[1:]:
            try:
                shared = shared if shared.equals(type_) else common_type(shared, type_)
            except NotEvaluable:
                raise self._differ(
                    f"column {number + 1} of {self.said} is {type_name(shared)} on the left and {type_name(type_)} on "
                    "the right", "CAST one of them to the type of the other",
                ) from None  # fmt: skip
        return shared

    def _differ(self, message: str, hint: str) -> SqlError:
        return self.context.select.error("SET_COLUMNS_DIFFER", message, self.tree.expression, hint=hint)
