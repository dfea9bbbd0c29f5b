"""The parts of a combination: each subquery is one aggregate over one stream, or over a join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from anabranch.functions.aggregates import row_of
from anabranch.operators.base import Operator
from anabranch.sql.checking.join_clauses import refuse_join_clauses
from anabranch.sql.joins.aggregates import join_aggregate_of
from anabranch.sql.joins.join import read_join
from anabranch.sql.standing.columns import Scope
from anabranch.sql.standing.rows import Output
from anabranch.sql.standing.sources import KEYWORDS, Lookup, plain_select, scope_of
from anabranch.sql.tree import Select, Window
from anabranch.sql.windows.aggregate_functions import is_aggregate
from anabranch.sql.windows.aggregates import aggregate_of


@dataclass(frozen=True)
class Part:
    """An operator that gives one value per period; its type, and what it is in periods where nothing came."""

    operator: Operator
    type: pa.DataType
    empty: int | None


def plan_part(select: Select, node: exp.Subquery, name: str, lookup: Lookup) -> Part:
    """The part a subquery of a combination is; its value is called `name`."""
    assert select.every is not None
    tree = _checked(select, node)
    item = tree.expressions[0]
    own = replace(select.subquery(tree), emit=select.emit)
    renamed = tree.copy()
    renamed.set("expressions", [exp.alias_(item.unalias().copy(), name)])
    own = replace(own, tree=renamed)
    if tree.args.get("joins"):
        join, plain = read_join(own, lookup)
        joined = join_aggregate_of(own, join, plain)
        empty = _empty(join.scope, joined.operator.aggregates, joined.outputs, joined.inner, item)
        return Part(joined.operator, joined.schema.arrow.field(name).type, empty)
    refuse_join_clauses(replace(own, emit=None))
    if own.window is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "EMIT EVERY says the window of a stream here",
            start=own.window.start,
            hint="leave WINDOW out; only joins have their own",
        )
    own = replace(own, window=Window("time", select.every, select.every), emit=None)
    scope = scope_of(own, plain_select(own), lookup)
    aggregated = aggregate_of(scope, renamed)
    empty = _empty(scope, aggregated.operator.aggregates, aggregated.outputs, aggregated.inner, item)
    return Part(aggregated.operator, aggregated.schema.arrow.field(name).type, empty)


def _checked(select: Select, node: exp.Subquery) -> exp.Select:
    """The subquery, if it gives one aggregated value."""
    tree = node.unnest()
    if not isinstance(tree, exp.Select) or any(value for name, value in node.args.items() if name != "this" and value):
        raise select.error(
            "NOT_IN_THE_LANGUAGE", "each subquery here is one SELECT", node, hint="write (SELECT count(*) FROM …)"
        )
    if len(tree.expressions) != 1:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a value wants a subquery of one column, this one has {len(tree.expressions)}",
            tree.expressions[1],
            hint="write a subquery for each",
        )
    for clause in ("group", "having", "distinct", "order", "limit"):
        written = tree.args.get(clause)
        if written:
            said = KEYWORDS[clause] + (" BY" if clause in ("group", "order") else "")
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                f"a value has no {said}",
                written,
                hint="leave it out: each subquery gives one value per period",
                keyword=KEYWORDS[clause],
            )
    if not is_aggregate(tree):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a subquery here gives one value per period",
            tree.expressions[0],
            hint="put the column in an aggregate such as max()",
        )
    return tree


def _empty(
    scope: Scope,
    aggregates: Sequence[tuple[str, str, str | None]],
    outputs: Sequence[Output],
    inner: pa.Schema,
    written: exp.Expr,
) -> int | None:
    """The value where there are no rows: counts are 0 then, other aggregates NULL."""
    empty = {name: row_of(function).empty for name, function, _ in aggregates}
    nothing = pa.table([pa.array([empty.get(f.name)], f.type) for f in inner], schema=inner)
    value = scope.compile(outputs[0].value, inner).evaluate(nothing)[0].as_py()
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float | Decimal) and value == int(value):
        return int(value)
    raise scope.select.error(
        "NOT_IN_THE_LANGUAGE",
        "this subquery has a value even where there are no rows, and it is not a whole number",
        written,
        hint="let the subquery give the aggregate alone, and compute with it outside",
    )
