"""Calls of aggregates, as the nodes know them: the many ways to write one, and the type of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from anabranch.column_types import is_nested
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
_LISTS = {"collect_list": "collect_list", "array_agg": "collect_list", "collect_set": "collect_list"}
_TEXTS = ("string_agg", "listagg")
_EDGES = {"first": "first", "first_value": "first", "last": "last", "last_value": "last"}
_APPROXIMATE = ("approx_count_distinct", "approx_percentile")
KNOWN = (
    *_PLAIN, *_SHARES, "percentile_cont", "count_if", *_TRUTHS, *_BY, *_LISTS, *_TEXTS, *_EDGES, *_APPROXIMATE,
    "any_value",
)  # fmt: skip
"""What can be called; aliases such as `mean` and `std` can, too."""


@dataclass(frozen=True)
class AggregateCall:
    """A call over values that are not columns yet."""

    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    filter: exp.Expr | None = None
    options: tuple[tuple[str, Any], ...] = ()
    """What else is said, see `operators.tree.steps.functions`."""


def read_aggregate(select: Select, node: exp.Expr, read: Callable[[exp.Expr], exp.Expr]) -> AggregateCall:
    """What a node asks for; `read` resolves its arguments."""
    condition, ignores = None, False
    if isinstance(node, exp.Filter):
        condition, node = read(node.expression.this), node.this
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        ignores, node = isinstance(node, exp.IgnoreNulls), node.this
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
    if name in (*_LISTS, *_TEXTS, *_EDGES):
        return _in_order(select, node, name, condition, read, ignores=ignores)
    if ignores:
        raise select.error("FUNCTION_ARGUMENTS", f"{name}() cannot IGNORE NULLS", node, hint="leave it out")
    arguments, distinct = _arguments(call)
    if name == "approx_count_distinct":  # the different values are counted, which is as near as can be
        name, arguments, distinct = "count", arguments[:1], True
    if name == "approx_percentile":
        name, arguments = "percentile_disc", arguments[:2]
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


def _in_order(
    select: Select,
    node: exp.Expr,
    name: str,
    condition: exp.Expr | None,
    read: Callable[[exp.Expr], exp.Expr],
    *,
    ignores: bool,
) -> AggregateCall:
    """A call whose answer depends on the order of its values."""
    keys: list[exp.Expr] = []
    call = node
    if isinstance(node, exp.WithinGroup):
        call, keys = node.this, list(node.expression.expressions) if isinstance(node.expression, exp.Order) else []
    arguments = list(call.expressions)
    if arguments and isinstance(arguments[-1], exp.Order):  # f(x ORDER BY y): the parser puts it around the last
        keys += arguments[-1].expressions
        arguments[-1] = arguments[-1].this
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    if arguments and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
        ignores, arguments[0] = isinstance(arguments[0], exp.IgnoreNulls), arguments[0].this
    most = 1 if name in _LISTS else 2
    if not 1 <= len(arguments) <= most or isinstance(arguments[0], exp.Star):
        raise select.error("FUNCTION_ARGUMENTS", f"{name}() takes {'one argument' if most == 1 else 'a value'}", node)
    value, distinct = read(arguments[0]), distinct or name == "collect_set"
    options: list[tuple[str, Any]] = []
    if name in _TEXTS and len(arguments) > 1:
        options.append(("separator", _separator(select, name, arguments[1])))
    if name in _EDGES:
        if not keys:
            raise select.error(
                "ORDER_WANTED",
                f"{name}() without an order has no answer that rows coming and going leave as it is",
                node,
                hint=f"write {name}(x ORDER BY ts), or min_by(x, ts) and max_by(x, ts)",
            )
        if ignores or (len(arguments) > 1 and _is_true(arguments[1])):
            options.append(("ignore_nulls", True))
    order = [(read(key.this), bool(key.args.get("desc")), bool(key.args.get("nulls_first"))) for key in keys]
    if distinct and any(key.unnest() != value.unnest() for key, _, _ in order):
        raise select.error(
            "FUNCTION_ARGUMENTS", f"{name}(DISTINCT …) is in the order of its values alone", node,
            hint="order by the value, or leave DISTINCT out",
        )  # fmt: skip
    if order:
        options.append(("order", tuple((descending, first) for _, descending, first in order)))
    function = _LISTS.get(name) or _EDGES.get(name, "string_agg")
    only_once = distinct and name not in _EDGES
    return AggregateCall(function, (value, *(key for key, _, _ in order)), only_once, condition, tuple(options))


def _separator(select: Select, name: str, written: exp.Expr) -> str:
    try:
        found = constant_of(written)
    except (AnabranchError, NotEvaluable):
        found = 0
    if found is not None and not isinstance(found, str):
        raise select.error("FUNCTION_ARGUMENTS", f"what {name}() puts between is a text, got {shown(written)}", written)
    return found or ""


def _is_true(written: exp.Expr) -> bool:
    return isinstance(written, exp.Boolean) and bool(written.this)


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
        _type_of_ordered(types[1])
        return types[0]
    if function == "count":
        return pa.int64()
    if function == "collect_list":
        if pa.types.is_null(types[0]):
            raise QueryError("AGGREGATE_TYPE_MISMATCH", "an array of NULLs alone has no type")
        return pa.list_(types[0])
    if function == "string_agg":
        if not pa.types.is_string(types[0]):
            raise QueryError(
                "AGGREGATE_TYPE_MISMATCH", "string_agg() needs a STRING", hint="write string_agg(CAST(x AS STRING), …)"
            )
        return pa.string()
    if function in _EDGES.values():
        return types[0]
    if function in ("any_value", "min", "max"):
        return _type_of_ordered(types[0], "max" if function == "any_value" else function)
    return aggregate(function, types[0] if types else None).type


def _type_of_ordered(type_: pa.DataType, function: str = "max") -> pa.DataType:
    """A type whose values have an order, as those of arrays and structs have."""
    return type_ if is_nested(type_) else aggregate(function, type_).type
