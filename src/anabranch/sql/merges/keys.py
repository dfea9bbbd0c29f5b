"""The ON of a MERGE JOIN: which keys must nearly agree, how nearly, and which values must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.expressions import NotEvaluable
from anabranch.expressions.types import DATE, is_decimal, is_number, widest
from anabranch.operators.merge.keys import Tolerance
from anabranch.schema import TIME_TYPE, sql_type
from anabranch.sql.checking.safety import WITHIN, called
from anabranch.sql.joins.scope import JoinScope, listed
from anabranch.sql.merges.tolerances import Kind, read_tolerance
from anabranch.sql.standing.columns import conjuncts, in_parentheses, sql_of
from anabranch.sql.standing.rows import type_name
from anabranch.sql.windows.windowed import type_in_window

_ALLOWED = "ON of MERGE JOIN holds within(x, y, tolerance) and x = y, joined by AND"
_IN_WHERE = "put it in WHERE, which is applied to what was merged"


@dataclass(frozen=True)
class MergeOn:
    """For one further stream: keys (earlier SQL, its SQL, tolerance) and equalities (earlier SQL, its SQL)."""

    keys: tuple[tuple[str, str, Tolerance], ...]
    by: tuple[tuple[str, str], ...]


def read_on(scope: JoinScope, join: exp.Join) -> MergeOn:
    """What binds the last source that `scope` sees to those before it."""
    condition = join.args.get("on")
    keys: list[tuple[str, str, Tolerance]] = []
    by: list[tuple[str, str]] = []
    for part in conjuncts(condition) if condition is not None and condition != exp.true() else ():
        if called(part) == WITHIN and isinstance(part, exp.Anonymous):
            keys.append(_key(scope, part))
        elif isinstance(part, exp.EQ) and not _holds_within(part):
            by.append(_equality(scope, part))
        else:
            raise _not_allowed(scope, part)
    if not keys:
        aliases = [source.alias for source in scope.sources[: scope.visible]]
        raise scope.select.error(
            "MERGE_CONDITION_INVALID",
            f"nothing says how near {listed(aliases)} must be",
            join.this if condition is None or condition == exp.true() else condition,
            hint=f"add within({aliases[0]}.…, {aliases[-1]}.…, tolerance) to ON",
        )
    return MergeOn(tuple(keys), tuple(by))


def _key(scope: JoinScope, call: exp.Anonymous) -> tuple[str, str, Tolerance]:
    if len(call.expressions) != 3 or any(_holds_within(argument) for argument in call.expressions):
        raise scope.select.error(
            "FUNCTION_ARGUMENTS", "within takes two keys and a tolerance", call, hint="write within(a.x, b.x, 0.5)"
        )
    left, right = _sides(scope, call, call.expressions[:2])
    types = [type_in_window(scope, side, call) for side in (left, right)]
    kinds = [_kind(type_) for type_ in types]
    shown = " and ".join(dict.fromkeys(map(_shown, types)))
    if kinds[0] is None and kinds[1] is None:
        raise scope.select.error(
            "MERGE_KEY_INVALID",
            f"{shown} keys have no distance; within takes numbers, TIMESTAMP or DATE",
            call,
            hint=f"merge equal values: {sql_of(call.expressions[0])} = {sql_of(call.expressions[1])}",
        )
    if kinds[0] is None or kinds[0] != kinds[1]:
        raise scope.select.error(
            "MERGE_KEYS_DIFFER",
            f"the keys of within are {shown}; both must be numbers, TIMESTAMP or DATE",
            call,
            hint="CAST one of them",
        )
    return sql_of(left), sql_of(right), read_tolerance(scope.select, call, kinds[0])


def _equality(scope: JoinScope, part: exp.EQ) -> tuple[str, str]:
    """Both sides in the type in which Spark would compare them, so that equal values are equal as they are."""
    sides = _sides(scope, part, [part.this, part.expression])
    types = [type_in_window(scope, side, part) for side in sides]
    try:
        wanted = widest(*types)
        left, right = (_cast(scope, side, own, wanted) for side, own in zip(sides, types, strict=True))
    except NotEvaluable:
        raise scope.select.error(
            "MERGE_KEYS_DIFFER",
            f"{' and '.join(map(_shown, types))} cannot be compared for equality here",
            part,
            hint="CAST one of them",
        ) from None
    return sql_of(left), sql_of(right)


def _cast(scope: JoinScope, value: exp.Expr, own: pa.DataType, wanted: pa.DataType) -> exp.Expr:
    if own.equals(wanted):
        return value
    cast = exp.cast(in_parentheses(value), sql_type(wanted), dialect="spark")
    scope.compile(cast)
    return cast


def _sides(scope: JoinScope, part: exp.Expr, written: Sequence[exp.Expr]) -> tuple[exp.Expr, exp.Expr]:
    """The side over earlier streams and that over the new one, in this order."""
    first, second = (scope.resolve(side.unnest()) for side in written)
    new = scope.sources[scope.visible - 1]
    owners = [{scope.owners[node.name][0] for node in side.find_all(exp.Column)} for side in (first, second)]
    if owners[1] == {new} and owners[0] and new not in owners[0]:
        return first, second
    if owners[0] == {new} and owners[1] and new not in owners[1]:
        return second, first
    earlier, alias = listed([source.alias for source in scope.sources[: scope.visible - 1]], "or"), new.alias
    raise scope.select.error(
        "MERGE_CONDITION_INVALID",
        f"one side must be over {earlier}, the other over {alias}",
        part,
        hint=f"{_IN_WHERE}, or filter a stream before with CREATE STREAM … AS SELECT … WHERE …"
        if isinstance(part, exp.EQ)
        else f"write within({scope.sources[0].alias}.…, {alias}.…, tolerance)",
    )


def _holds_within(node: exp.Expr) -> bool:
    return any(called(inner) == WITHIN for inner in node.walk())


def _not_allowed(scope: JoinScope, part: exp.Expr) -> SqlError:
    hint = "leave OR and NOT around within out" if _holds_within(part) else _IN_WHERE
    return scope.select.error("MERGE_CONDITION_INVALID", _ALLOWED, part, hint=hint)


def _kind(type_: pa.DataType) -> Kind | None:
    if is_number(type_) or is_decimal(type_):
        return "number"
    return "TIMESTAMP" if type_.equals(TIME_TYPE) else "DATE" if type_.equals(DATE) else None


def _shown(type_: pa.DataType) -> str:
    return "NULL" if pa.types.is_null(type_) else type_name(type_)
