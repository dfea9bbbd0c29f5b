"""Conditions and the joins they are put into: as far down as they can be, equalities as keys.

Inner joins are put in an order in which each is by keys, where there is one; FROM may name sources in any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions import NotEvaluable
from anabranch.operators.tree.nodes import JoinKind
from anabranch.schema import sql_type
from anabranch.sql.standing.columns import column
from anabranch.sql.standing.rows import type_name
from anabranch.sql.trees.context import Context
from anabranch.sql.trees.draft import DraftJoin, Place, both, names_of
from anabranch.sql.trees.scope import Relation
from anabranch.sql.trees.typing import check_boolean, common_type, is_evaluable, null_of, shown, type_of


@dataclass(frozen=True)
class Attachment:
    """A subquery that rows are joined with: a node, equalities (value of the row, column of it), other conditions."""

    join: JoinKind
    inner: int
    pairs: tuple[tuple[exp.Expr, str], ...]
    place: Place
    condition: tuple[exp.Expr, ...] = ()

    def outer(self, context: Context) -> frozenset[str]:
        """The columns of the row that it is about."""
        own = frozenset(context.schema(self.inner).names)
        return (names_of(*(value for value, _ in self.pairs)) | names_of(*self.condition)) - own

    def brings(self, context: Context) -> frozenset[str]:
        """The columns that the row gets from it."""
        return frozenset(context.schema(self.inner).names) if self.join == "left" else frozenset()


@dataclass(frozen=True)
class Condition:
    """Something that must be true of a row; `value` None: what is attached says it all."""

    value: exp.Expr | None
    written: exp.Expr
    attached: tuple[Attachment, ...] = ()

    def needs(self, context: Context) -> frozenset[str]:
        """The columns of the row that it is about."""
        needed = frozenset() if self.value is None else names_of(self.value)
        for attachment in self.attached:
            needed |= attachment.outer(context)
        return needed.difference(*(attachment.brings(context) for attachment in self.attached))


@dataclass(frozen=True)
class Joined:
    """Two sides of FROM before they are nodes; `more` is what is computed of both, such as the columns of USING."""

    left: Item
    right: Item
    kind: JoinKind
    conditions: tuple[Condition, ...]
    place: Place
    more: tuple[tuple[str, exp.Expr], ...] = ()


Item = Joined | Relation


def columns_of(context: Context, item: Item) -> frozenset[str]:
    """The columns of all sources of an item."""
    if isinstance(item, Relation):
        return frozenset(context.schema(item.node).names)
    right = frozenset[str]() if item.kind in ("semi", "anti") else columns_of(context, item.right)
    return columns_of(context, item.left) | right | {name for name, _ in item.more}


def build(context: Context, item: Item, conditions: Sequence[Condition] = ()) -> int:
    """The node of an item's rows for which the conditions, about its columns alone, hold."""
    if isinstance(item, Relation):
        return applied(context, item.node, conditions)
    if item.kind == "inner":
        return _inner(context, item, conditions)
    left_names, right_names = columns_of(context, item.left), columns_of(context, item.right)
    if item.kind == "right":
        flipped = Joined(item.right, item.left, "left", item.conditions, item.place, item.more)
        return build(context, flipped, conditions)
    on_left, rest = _split(context, conditions, left_names if item.kind != "full" else frozenset())
    to_right, on = _split(context, item.conditions, right_names if item.kind != "full" else frozenset())
    if item.kind == "semi":
        to_left, on = _split(context, on, left_names)
        on_left += to_left
    left = build(context, item.left, on_left)
    right = build(context, item.right, to_right)
    for condition in on:
        if condition.attached:
            raise context.refuse(
                "the ON of an outer join cannot hold a subquery about its left side", condition.written,
                "put it into WHERE, or join with a subquery in FROM",
            )  # fmt: skip
    pairs, others = equalities(context, left, right, [(c.value, c.written) for c in on if c.value is not None])
    node = joined(context, left, right, item.kind, pairs, others, item.place)
    if item.more:
        node = _with_more(context, node, item)
    return applied(context, node, rest)


def _with_more(context: Context, node: int, item: Joined) -> int:
    schema = context.schema(node)
    columns = [*((name, column(name)) for name in schema.names), *item.more]
    return context.named(node, columns, item.place)


def _split(
    context: Context, conditions: Iterable[Condition], names: frozenset[str]
) -> tuple[list[Condition], list[Condition]]:
    """The conditions that are about these columns alone, and the others."""
    own: list[Condition] = []
    others: list[Condition] = []
    for condition in conditions:
        needs = condition.needs(context)
        (own if needs and needs <= names else others).append(condition)
    return own, others


# -- inner joins -----------------------------------------------------------------------------------


def _inner(context: Context, item: Joined, conditions: Sequence[Condition]) -> int:
    items, all_conditions, place = _flat(item)
    waiting = [*all_conditions, *conditions]
    parts: list[tuple[int, Place]] = []
    for part, at in zip(items, place, strict=True):
        own, waiting = _split(context, waiting, columns_of(context, part))
        parts.append((build(context, part, own), at))
    current, _ = parts.pop(0)
    while parts:
        number = _next(context, current, [node for node, _ in parts], waiting)
        right, at = parts.pop(number)
        names = frozenset(context.schema(current).names) | frozenset(context.schema(right).names)
        here, waiting = _split(context, waiting, names)
        plain = [(c.value, c.written) for c in here if c.value is not None and not c.attached]
        pairs, others = equalities(context, current, right, plain)
        current = joined(context, current, right, "inner", pairs, [], at)
        current = context.filtered(current, others, Place("WHERE"))
        current = applied(context, current, [c for c in here if c.attached])
    return applied(context, current, waiting)


def _flat(item: Item) -> tuple[list[Item], list[Condition], list[Place]]:
    """The sources of joins that can be done in any order, their conditions, and the join each source is of."""
    if not isinstance(item, Joined) or item.kind != "inner":
        return [item], [], [Place("FROM")]
    left, left_conditions, left_places = _flat(item.left)
    right, right_conditions, right_places = _flat(item.right)
    places = [*left_places, *[item.place] * len(right_places)]
    return [*left, *right], [*left_conditions, *right_conditions, *item.conditions], places


def _next(context: Context, current: int, nodes: Sequence[int], conditions: Sequence[Condition]) -> int:
    """The first that has an equality with what is there, else the first."""
    have = frozenset(context.schema(current).names)
    for number, node in enumerate(nodes):
        own = frozenset(context.schema(node).names)
        if any(c.value is not None and not c.attached and sides_of(c.value, have, own) for c in conditions):
            return number
    return 0


def applied(context: Context, node: int, conditions: Sequence[Condition]) -> int:
    """The rows of a node for which conditions hold, those without subqueries first."""
    plain = [(c.value, c.written) for c in conditions if c.value is not None and not c.attached]
    node = context.filtered(node, plain, Place("WHERE"))
    for condition in conditions:
        if condition.attached:
            node = attached(context, node, condition.attached)
            if condition.value is not None:
                node = context.filtered(node, [(condition.value, condition.written)], Place("WHERE"))
    return node


def attached(context: Context, node: int, attachments: Iterable[Attachment]) -> int:
    """The rows of a node joined with subqueries."""
    for each in attachments:
        pairs = [(value, column(name), each.place.node) for value, name in each.pairs]
        node = joined(context, node, each.inner, each.join, pairs, [(c, None) for c in each.condition], each.place)
    return node


# -- joins with keys -------------------------------------------------------------------------------

Pair = tuple[exp.Expr, exp.Expr, exp.Expr | None]
"""Two sides of an equality, left and right, and where it was written."""


def sides_of(value: exp.Expr, left: frozenset[str], right: frozenset[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """The sides of an equality of something of the left with something of the right."""
    value = value.unnest()
    if not isinstance(value, exp.EQ):
        return None
    for one, other in ((value.this, value.expression), (value.expression, value.this)):
        ours, theirs = names_of(one), names_of(other)
        if ours and theirs and ours <= left and theirs <= right:
            return one, other
    return None


def equalities(
    context: Context, left: int, right: int, conditions: Sequence[tuple[exp.Expr, exp.Expr | None]]
) -> tuple[list[Pair], list[tuple[exp.Expr, exp.Expr | None]]]:
    """The equalities of both sides among conditions, and the other conditions."""
    ours, theirs = frozenset(context.schema(left).names), frozenset(context.schema(right).names)
    pairs: list[Pair] = []
    others: list[tuple[exp.Expr, exp.Expr | None]] = []
    for value, written in conditions:
        sides = sides_of(value, ours, theirs)
        if sides is None:
            others.append((value, written))
        else:
            pairs.append((*sides, written))
    return pairs, others


def joined(
    context: Context,
    left: int,
    right: int,
    kind: JoinKind,
    pairs: Sequence[Pair],
    conditions: Sequence[tuple[exp.Expr, exp.Expr | None]],
    place: Place,
) -> int:
    """A join whose keys are computed on each side; equalities of one type, which Spark gives both sides."""
    typed = [_of_one_type(context, left, right, pair) for pair in pairs]
    left, ours = context.extended(left, [("key", value, written) for value, _, written in typed], place)
    right, theirs = context.extended(right, [("key", value, written) for _, value, written in typed], place)
    whole = both(context.schema(left), context.schema(right))
    for value, written in conditions:
        check_boolean(context.select, value, whole, written)
    keys = tuple(dict.fromkeys(zip(ours, theirs, strict=True)))
    node = DraftJoin(left, right, kind, keys, tuple(value for value, _ in conditions))
    schema = context.schema(left) if kind in ("semi", "anti", "not_in") else whole
    return context.drafts.add(node, schema, place)


def _of_one_type(context: Context, left: int, right: int, pair: Pair) -> Pair:
    ours, theirs, written = pair
    schemas = context.schema(left), context.schema(right)
    types = [
        type_of(context.select, value, schema, written) for value, schema in zip((ours, theirs), schemas, strict=True)
    ]
    if types[0].equals(types[1]):
        return pair
    try:
        type_ = common_type(types[0], types[1])
    except NotEvaluable:
        said = shown(written) if isinstance(written, exp.EQ) else f"{shown(ours)} = {shown(theirs)}"
        raise context.select.error(
            "JOIN_KEYS_DIFFER",
            f"{said} compares {type_name(types[0])} with {type_name(types[1])}",
            written if written is not None else ours,
            hint="CAST one of them to the type of the other",
        ) from None
    one, other = (
        _cast(value, type_, to) for value, type_, to in zip((ours, theirs), types, (type_, type_), strict=True)
    )
    if not (is_evaluable(one, schemas[0]) and is_evaluable(other, schemas[1])):
        type_of(context.select, one, schemas[0], written)
        type_of(context.select, other, schemas[1], written)
    return one, other, written


def _cast(value: exp.Expr, type_: pa.DataType, to: pa.DataType) -> exp.Expr:
    if type_.equals(to):
        return value
    return null_of(to) if pa.types.is_null(type_) else exp.cast(value.copy(), sql_type(to), dialect="spark")
