"""ORDER BY, LIMIT and OFFSET: the first rows of an order. An order alone says nothing of an answer that changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.expressions import NotEvaluable
from anabranch.operators.tree.nodes import Top
from anabranch.sql.trees.context import Context
from anabranch.sql.trees.draft import Place, names_of
from anabranch.sql.trees.typing import constant_of, shown

NO_ORDER = "ORDER BY without LIMIT is left out: an answer that changes has no order; order it where it is read"


@dataclass(frozen=True)
class Ordering:
    """What the first rows are by, (value, descending, NULLs first), how many, and from which on."""

    keys: tuple[tuple[exp.Expr, bool, bool], ...]
    limit: int | None
    offset: int
    place: Place

    @property
    def values(self) -> list[tuple[str, exp.Expr, exp.Expr | None]]:
        """The values as columns to be added."""
        return [("place", value, value) for value, _, _ in self.keys]


def read_ordering(context: Context, tree: exp.Expr, read: Callable[[exp.Expr], exp.Expr]) -> Ordering | None:
    """The order of a query and its limits; None if it has no limits."""
    order, limit, offset = (tree.args.get(part) for part in ("order", "limit", "offset"))
    if isinstance(limit, exp.Fetch):
        raise context.refuse("FETCH is not available", limit, "write LIMIT", "FETCH")
    count = None if limit is None or limit.expression.name.upper() == "ALL" else _number(context, limit, "LIMIT")
    first = 0 if offset is None else _number(context, offset, "OFFSET")
    written = list(order.expressions) if order is not None else []
    keys = [(read(key.this), bool(key.args.get("desc")), bool(key.args.get("nulls_first"))) for key in written]
    if count is None and not first:
        if written and NO_ORDER not in context.notes:
            context.notes.append(NO_ORDER)
        return None
    said = "LIMIT" if count is not None else "OFFSET"
    node = limit if count is not None else offset
    place = Place(said, node, said)
    return Ordering(tuple(key for key in keys if names_of(key[0])), count, first, place)


def topped(context: Context, node: int, ordering: Ordering, names: Sequence[str], partition: Sequence[str] = ()) -> int:
    """The first rows of a node, whose columns `names` are the values of the order."""
    seen: set[str] = set()
    order = []
    for name, (_, descending, first) in zip(names, ordering.keys, strict=True):
        if name not in seen:
            order.append((name, descending, first))
        seen.add(name)
    top = Top(node, tuple(partition), tuple(order), ordering.limit, ordering.offset)
    return context.drafts.add(top, context.schema(node), ordering.place)


def _number(context: Context, clause: exp.Expr, said: str) -> int:
    try:
        value = constant_of(clause.expression)
    except (AnabranchError, NotEvaluable):
        value = None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
        return value
    raise context.select.error(
        "SYNTAX_ERROR", f"{said} takes a whole number, got {shown(clause.expression)}", clause, keyword=said
    )
