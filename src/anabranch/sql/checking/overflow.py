"""Sums that do not fit their type are errors in a SELECT asked once, as they are in windows.

By itself Spark lets sums of whole numbers wrap around, and makes those of decimals NULL: ANSI mode, in which it
does not, would stop standing queries at every division by zero.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.sql.checking.safety import called
from anabranch.sql.standing.columns import sql_of

FAILS = "raise_error"
"""The function that is called for an overflow."""
_SAID = (
    "SUM_OVERFLOW a sum does not fit its type. "
    "Hint: write sum(CAST(… AS DECIMAL(38, 0))), or sum(CAST(… AS DOUBLE)) if it need not be exact"
)


def refuse_overflow(tree: exp.Expr) -> None:
    """Change each sum so that it fails where it overflows.

    Not in window functions and PIVOT, where nothing but an aggregate can stand.
    """
    sums = [node for node in tree.find_all(exp.Anonymous) if called(node) == "sum"]
    for node in sums:
        if node.find_ancestor(exp.Window, exp.Pivot) is None:
            _keep_name(node)
            _replace(node.parent if isinstance(node.parent, exp.Filter) else node)


def _keep_name(node: exp.Expr) -> None:
    """A column of the answer without a name is called as it was written."""
    item = node
    while item.parent is not None and not isinstance(item.parent, exp.Query | exp.Alias):
        item = item.parent
    if isinstance(item.parent, exp.Select) and item.arg_key == "expressions":
        named = exp.Alias(alias=exp.to_identifier(sql_of(item), quoted=True))
        item.replace(named)
        named.set("this", item)


def _replace(whole: exp.Expr) -> None:
    """`whole` is a sum, with its FILTER if it has one."""
    tried, counted = whole.copy(), whole.copy()
    for copy, function in ((tried, "try_sum"), (counted, "count")):
        (copy.this if isinstance(copy, exp.Filter) else copy).set("this", function)
    lost = exp.and_(exp.Is(this=tried, expression=exp.Null()), exp.GT(this=counted, expression=exp.Literal.number(0)))
    failing = exp.Anonymous(this=FAILS, expressions=[exp.Literal.string(_SAID)])
    whole.replace(exp.Case(ifs=[exp.If(this=lost, true=failing)], default=tried.copy()))
