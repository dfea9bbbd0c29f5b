"""Which nodes of a tree call an aggregate."""

from __future__ import annotations

from sqlglot import exp

from anabranch.functions.aggregates import AGGREGATES, AggregateFunction
from anabranch.sql.checking.safety import called


def aggregate_row(node: exp.Expr) -> AggregateFunction | None:
    """The aggregate a node calls, of windows or any of Spark's; None for anything else."""
    row = AGGREGATES.get(called(node.this if isinstance(node, exp.WithinGroup) else node))
    return row if row is not None and row.has_call else None


def aggregate_name(node: exp.Expr) -> str | None:
    """The name of the aggregate that a node calls."""
    row = aggregate_row(node)
    return None if row is None else row.name


def is_aggregate(tree: exp.Select) -> bool:
    """True if the query groups, or calls an aggregate."""
    if tree.args.get("group") is not None or tree.args.get("having") is not None:
        return True
    return any(aggregate_row(node) for item in tree.expressions for node in item.walk())
