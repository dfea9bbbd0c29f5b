"""Subqueries as joins: EXISTS and IN are semi joins, their opposites anti joins, a value is a left join.

Where a subquery names columns of the query around it, equalities of both are keys of the join, and what it computes, it
computes for each of the keys. A test that stands under OR, or in the select list, is a left join with what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.tree.nodes import Aggregate, Call
from anabranch.sql.standing.columns import column, in_parentheses
from anabranch.sql.trees.draft import DraftRows, Place, as_they_are
from anabranch.sql.trees.joining import Attachment
from anabranch.sql.trees.unique import uniques

if TYPE_CHECKING:
    from anabranch.sql.trees.context import Context
    from anabranch.sql.trees.resolving import Resolver


@dataclass(frozen=True)
class Answered:
    """What a subquery is: a node, the columns it answers, and what it has to do with the row around it.

    `pairs`: (column of it, value of the row) that are equal; `mixed`: other conditions on both. `value`: what it
    answers, where that can only be told of the row and it together, and is there for every row.
    """

    node: int
    columns: tuple[str, ...]
    pairs: tuple[tuple[str, exp.Expr], ...] = ()
    mixed: tuple[exp.Expr, ...] = ()
    value: exp.Expr | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Its columns that are equal to something of the row."""
        return tuple(dict.fromkeys(name for name, _ in self.pairs))

    def equal(self) -> tuple[tuple[exp.Expr, str], ...]:
        return tuple((value, name) for name, value in self.pairs)


def is_any_or_all(node: exp.Expr) -> bool:
    return isinstance(node, exp.Any | exp.All)


def query_of(node: exp.Expr) -> exp.Expr:
    """The query of EXISTS, IN or a subquery."""
    inner: exp.Expr = node.args["query"] if isinstance(node, exp.In) else node.this
    return inner.unnest() if isinstance(inner, exp.Subquery) and not _has_more(inner) else inner


def _has_more(node: exp.Subquery) -> bool:
    return any(node.args.get(part) for part in ("order", "limit", "offset", "with_"))


# -- conditions ------------------------------------------------------------------------------------


def attached_where(
    resolver: Resolver, test: exp.Exists | exp.In, *, negated: bool
) -> tuple[exp.Expr | None, Attachment]:
    """EXISTS or IN, or its opposite, as a join of rows for which it is true; with IN of a total, as a comparison."""
    if isinstance(test, exp.Exists):
        inner = _answered(resolver, test, "exists")
        place = Place("NOT EXISTS" if negated else "EXISTS", test, "EXISTS")
        return None, Attachment("anti" if negated else "semi", inner.node, inner.equal(), place, inner.mixed)
    values = _values_of(test)
    inner = _answered(resolver, test, "in")
    place = Place("NOT IN" if negated else "IN", test)
    values = [resolver.visit(value) for value in values]
    if inner.value is not None:
        equal: exp.Expr = exp.EQ(this=in_parentheses(values[0]), expression=in_parentheses(inner.value))
        return exp.Not(this=exp.Paren(this=equal)) if negated else equal, _left(inner, place)
    _check_count(resolver, test, values, inner)
    compared = tuple(zip(values, inner.columns, strict=True))
    if not negated:
        return None, Attachment("semi", inner.node, (*inner.equal(), *compared), place, inner.mixed)
    about = tuple(exp.EQ(this=column(name), expression=in_parentheses(value)) for name, value in inner.pairs)
    return None, Attachment("not_in", inner.node, compared, place, (*about, *inner.mixed))


def attached_test(resolver: Resolver, test: exp.Exists | exp.In, *, positive: bool) -> exp.Expr:
    """EXISTS or IN as a value; with `positive` NULL may be taken for false."""
    context = resolver.context
    is_exists = isinstance(test, exp.Exists)
    values = [] if isinstance(test, exp.Exists) else _values_of(test)
    inner = _answered(resolver, test, "exists" if is_exists else "in", equal=True)
    values = [resolver.visit(value) for value in values]
    place = Place("EXISTS" if is_exists else "IN", test)
    if inner.mixed:
        raise context.refuse(
            f"{place.said} under OR, or as a value, can only compare columns of both queries by =", test,
            "put it under AND in WHERE, or write two queries with UNION",
        )  # fmt: skip
    if inner.value is not None:
        resolver.attached.append(_left(inner, place))
        return exp.Paren(this=exp.EQ(this=in_parentheses(values[0]), expression=in_parentheses(inner.value)))
    if values:
        _check_count(resolver, test, values, inner)
    if len(values) > 1:
        raise context.refuse(
            "IN of several columns cannot stand under OR, or be a value", test, "write EXISTS (SELECT … WHERE …)"
        )
    found, counted = _found(context, inner, values, place)
    resolver.attached.append(found)
    marker = context.schema(found.inner).names[-1]
    is_found = exp.Not(this=exp.Is(this=column(marker), expression=exp.Null()))
    if is_exists or positive:
        return exp.Paren(this=is_found)
    resolver.attached.append(counted)
    rows, there = context.schema(counted.inner).names[-2:]
    missing = exp.Is(this=in_parentheses(values[0]), expression=exp.Null())
    some_missing = exp.LT(this=column(there), expression=column(rows))
    return exp.Paren(
        this=exp.Case(
            ifs=[
                exp.If(this=is_found, true=exp.true()),
                exp.If(this=exp.EQ(this=_or_zero(rows), expression=exp.Literal.number(0)), true=exp.false()),
                exp.If(this=exp.Or(this=missing, expression=some_missing), true=exp.Null()),
            ],
            default=exp.false(),
        )
    )


def _found(
    context: Context, inner: Answered, values: Sequence[exp.Expr], place: Place
) -> tuple[Attachment, Attachment]:
    """What tells whether a value is among those of a subquery, and how many of these there are, NULL and not."""
    keys, columns = inner.keys, inner.columns if values else ()
    wanted = tuple(dict.fromkeys((*keys, *columns)))
    schema = context.schema(inner.node)
    fields = [schema.field(name) for name in wanted]
    calls = () if wanted else (Call(context.drafts.fresh("count"), "count"),)
    shape = pa.schema([*fields, *(pa.field(call.name, pa.int64()) for call in calls)])
    node = context.drafts.add(Aggregate(inner.node, wanted, calls), shape, place)
    if calls:
        some = exp.GT(this=column(calls[0].name), expression=exp.Literal.number(0))
        node = context.filtered(node, [(some, None)], place)
    marker = context.drafts.fresh("found")
    rows = DraftRows(node, (*as_they_are(wanted), (marker, exp.true())))
    node = context.drafts.add(rows, pa.schema([*fields, pa.field(marker, pa.bool_())]), place)
    pairs = (*inner.equal(), *zip(values, columns, strict=True))
    found = Attachment("left", node, pairs, place)
    if not values:
        return found, found
    return found, _counted(context, inner, place)


def _counted(context: Context, inner: Answered, place: Place) -> Attachment:
    """How many values a subquery has for each of its keys, and how many of them are not NULL."""
    schema, keys = context.schema(inner.node), inner.keys
    rows, there = context.drafts.fresh("rows"), context.drafts.fresh("there")
    renamed = {name: context.drafts.fresh(name) for name in dict.fromkeys((*keys, inner.columns[0]))}
    fields = [pa.field(new, schema.field(old).type) for old, new in renamed.items()]
    node = context.drafts.add(
        DraftRows(inner.node, tuple((new, column(old)) for old, new in renamed.items())), pa.schema(fields), place
    )
    counted = Aggregate(
        node, tuple(renamed[k] for k in keys), (Call(rows, "count"), Call(there, "count", (renamed[inner.columns[0]],)))
    )
    shape = pa.schema(
        [*(pa.field(renamed[k], schema.field(k).type) for k in keys), (rows, pa.int64()), (there, pa.int64())]
    )
    node = context.drafts.add(counted, shape, place)
    return Attachment("left", node, tuple((value, renamed[name]) for name, value in inner.pairs), place)


# -- values ----------------------------------------------------------------------------------------


def attached_value(resolver: Resolver, node: exp.Subquery) -> exp.Expr:
    """A subquery as a value: one row for each row, or none."""
    context = resolver.context
    inner = _answered(resolver, node, "value", equal=True)
    place = Place("a subquery", node)
    if len(inner.columns) != 1 and inner.value is None:
        raise context.select.error(
            "SUBQUERY_NOT_ONE_VALUE",
            f"a subquery that is a value has one column, this one {len(inner.columns)}",
            node,
            hint="select one column",
        )
    nodes, names = context.drafts.nodes, [schema.names for schema in context.drafts.schemas]
    single = any(one <= set(inner.keys) for one in uniques(nodes, names, context.keys)[inner.node])
    if inner.mixed:
        raise context.refuse(
            "a subquery that is a value can only compare columns of both queries by =", node,
            "join with it in FROM, and GROUP BY",
        )  # fmt: skip
    if not single:
        raise context.select.error(
            "SUBQUERY_NOT_ONE_VALUE",
            "this subquery may have many rows, and stands where one value is wanted",
            node,
            hint="put an aggregate such as max() around what it selects, or end it with LIMIT 1",
        )
    resolver.attached.append(_left(inner, place))
    return exp.Paren(this=inner.value) if inner.value is not None else column(inner.columns[0])


def _left(inner: Answered, place: Place) -> Attachment:
    return Attachment("left", inner.node, inner.equal(), place)


# -- what all have in common -----------------------------------------------------------------------


def _answered(resolver: Resolver, node: exp.Expr, use: str, *, equal: bool = False) -> Answered:
    from anabranch.sql.trees.block import plan_subquery

    return plan_subquery(resolver.context, query_of(node), resolver.scope, resolver.ctes, use, equal=equal)


def _values_of(test: exp.In) -> list[exp.Expr]:
    """What is looked for, one value or several."""
    this = test.this
    return [part.copy() for part in this.expressions] if isinstance(this, exp.Tuple) else [this.copy()]


def _check_count(resolver: Resolver, test: exp.Expr, values: Sequence[exp.Expr], inner: Answered) -> None:
    if len(values) != len(inner.columns):
        raise resolver.context.select.error(
            "SUBQUERY_NOT_ONE_VALUE",
            f"IN compares {len(values)} with {len(inner.columns)} columns",
            test,
            hint="select as many columns as stand before IN",
        )


def _or_zero(name: str) -> exp.Expr:
    return exp.Anonymous(this="coalesce", expressions=[column(name), exp.Literal.number(0)])
