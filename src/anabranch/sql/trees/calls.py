"""Calls of aggregates, as the nodes know them: the many ways to write one, and the type of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError, QueryError
from anabranch.expressions import NotEvaluable
from anabranch.functions.aggregates import aggregate
from anabranch.sql.checking.safety import called
from anabranch.sql.standing.columns import in_parentheses, joined
from anabranch.sql.tree import Select
from anabranch.sql.trees.typing import constant_of, shown
from anabranch.sql.windows.aggregate_functions import aggregate_row

_TRUTHS = {"bool_and": "bool_and", "every": "bool_and", "bool_or": "bool_or", "any": "bool_or", "some": "bool_or"}
_BY = ("max_by", "min_by")
_SHARES = ("percentile", "percentile_disc")
_PLAIN = ("count", "sum", "avg", "min", "max", "median", "mode", "stddev", "stddev_pop", "variance", "var_pop")
KNOWN = (*_PLAIN, *_SHARES, "percentile_cont", "count_if", *_TRUTHS, *_BY)
"""What can be called; aliases such as `mean` and `std` can, too."""


@dataclass(frozen=True)
class AggregateCall:
    """A call over values that are not columns yet."""

    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    filter: exp.Expr | None = None


def read_aggregate(select: Select, node: exp.Expr, read: Callable[[exp.Expr], exp.Expr]) -> AggregateCall:
    """What a node asks for; `read` resolves its arguments."""
    condition = None
    if isinstance(node, exp.Filter):
        condition, node = read(node.expression.this), node.this
    row = aggregate_row(node)
    assert row is not None
    call = node.this if isinstance(node, exp.WithinGroup) else node
    condition = None if condition is None else joined([condition])
    name = row.name if row.name in _PLAIN or row.stands_for or row.bind is not None else called(call)
    if name not in KNOWN:
        raise select.error(
            "AGGREGATE_NOT_AVAILABLE",
            f"{called(call)}() is not available where answers change",
            node,
            hint=f"there are: {', '.join(sorted({*KNOWN} - {'every', 'any', 'some'}))}",
        )
    arguments, distinct = _arguments(call)
    share = 0.0
    if isinstance(node, exp.WithinGroup):
        arguments, distinct = [*_within(select, node), *arguments], False
    if name in (*_SHARES, "percentile_cont"):
        arguments, share = _share(select, node, name, arguments)
        name = "percentile" if name == "percentile_cont" else name
    values = [argument for argument in arguments if not isinstance(argument, exp.Star)]
    if name == "count_if":
        _check(select, node, name, values, 1)
        holds = read(values[0])
        both = joined([in_parentheses(condition), in_parentheses(holds)]) if condition is not None else holds
        if distinct:
            raise select.error("AGGREGATE_NOT_AVAILABLE", "count_if(DISTINCT …) is not available", node)
        return AggregateCall("count", (), filter=both)
    if name == "count":
        return _count(select, node, arguments, distinct, condition, read)
    if len(values) < len(arguments):
        raise select.error("FUNCTION_ARGUMENTS", f"{name}(*) means nothing", node, hint="name a column")
    _check(select, node, name, values, 2 if name in _BY else 1)
    function = f"{name}({share!r})" if name in _SHARES else _TRUTHS.get(name, name)
    idle = function in ("min", "max", *_TRUTHS.values())
    return AggregateCall(function, tuple(map(read, values)), distinct and not idle, condition)


def _arguments(call: exp.Expr) -> tuple[list[exp.Expr], bool]:
    first = next(iter(call.expressions), None)
    if isinstance(first, exp.Distinct):
        return list(first.expressions), True
    return list(call.expressions), False


def _count(
    select: Select,
    node: exp.Expr,
    arguments: Sequence[exp.Expr],
    distinct: bool,
    condition: exp.Expr | None,
    read: Callable[[exp.Expr], exp.Expr],
) -> AggregateCall:
    stars = [argument for argument in arguments if isinstance(argument, exp.Star)]
    if stars and (len(arguments) > 1 or distinct):
        raise select.error("FUNCTION_ARGUMENTS", "count(*) has no other argument", node, hint="name the columns")
    if not arguments:
        raise select.error("FUNCTION_ARGUMENTS", "count() takes * or a value", node, hint="write count(*)")
    if stars or (len(arguments) == 1 and not distinct and _is_there(arguments[0])):
        return AggregateCall("count", (), filter=condition)
    values = [read(argument) for argument in arguments]
    if len(values) > 1 and not distinct:
        there = [exp.Not(this=exp.Is(this=in_parentheses(value), expression=exp.Null())) for value in values]
        both = joined([*([in_parentheses(condition)] if condition is not None else []), *there])
        return AggregateCall("count", (), filter=both)
    return AggregateCall("count", tuple(values), distinct, condition)


def _is_there(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal | exp.Boolean)


def _within(select: Select, node: exp.WithinGroup) -> list[exp.Expr]:
    keys = node.expression.expressions if isinstance(node.expression, exp.Order) else []
    if len(keys) != 1 or called(node.this) not in ("percentile_cont", "percentile_disc", "mode"):
        raise select.error(
            "FUNCTION_ARGUMENTS",
            f"{called(node.this)}() cannot stand like this before WITHIN GROUP",
            node,
            hint="write percentile_cont(0.5), percentile_disc(0.5) or mode() WITHIN GROUP (ORDER BY x)",
        )
    if keys[0].args.get("desc"):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "WITHIN GROUP goes from the smallest value up",
            keys[0],
            hint="leave DESC out; percentile_cont(p) DESC is percentile_cont(1 - p)",
        )
    return [keys[0].this]


def _share(select: Select, node: exp.Expr, name: str, arguments: list[exp.Expr]) -> tuple[list[exp.Expr], float]:
    if len(arguments) != 2:
        within = name != "percentile"
        raise select.error(
            "FUNCTION_ARGUMENTS",
            f"{name}() says within which order" if within else f"{name}() takes a value and a share from 0 to 1",
            node,
            hint=f"write {name}(0.5) WITHIN GROUP (ORDER BY x)" if within else f"write for example {name}(x, 0.95)",
        )
    try:
        share = float(str(constant_of(arguments[1])))
    except (AnabranchError, NotEvaluable, ValueError):
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise select.error(
            "FUNCTION_ARGUMENTS",
            f"the share p is a constant from 0 to 1, got {shown(arguments[1])}",
            arguments[1],
        )
    return arguments[:1], share


def _check(select: Select, node: exp.Expr, name: str, values: Sequence[exp.Expr], count: int) -> None:
    if len(values) != count:
        raise select.error(
            "FUNCTION_ARGUMENTS", f"{name}() takes {'one argument' if count == 1 else 'two arguments'}", node
        )


def type_of_call(function: str, types: Sequence[pa.DataType]) -> pa.DataType:
    """The type of what is called, of arguments of some types; raises QueryError for those it does not take."""
    if function in _TRUTHS.values():
        if not (pa.types.is_boolean(types[0]) or pa.types.is_null(types[0])):
            raise QueryError("AGGREGATE_TYPE_MISMATCH", f"{function}() needs a BOOLEAN")
        return pa.bool_()
    if function in _BY:
        aggregate("max", types[1])
        return types[0]
    if function == "count":
        return pa.int64()
    return aggregate(function, types[0] if types else None).type
