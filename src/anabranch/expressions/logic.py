"""AND, OR, NOT, and choosing between values: CASE, IF, COALESCE, NULLIF, GREATEST, LEAST."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions.comparisons import compare, is_not_null, ordered
from anabranch.expressions.expr import Build, Datum, Expr, Handler, NotEvaluable, apply, null
from anabranch.expressions.types import BOOLEAN, coerce, common_type, condition, is_decimal, is_floating, require


def connective(kernel: Callable[..., Datum], word: str) -> Handler:
    """AND and OR, where NULL is a truth not known; a long chain of them is one step."""

    def handler(node: exp.Connector, build: Build) -> Expr:
        terms = [condition(build(term), word) for term in node.flatten()]
        return apply(BOOLEAN, lambda *truths: functools.reduce(kernel, truths), *terms)

    return handler


def not_(node: exp.Not, build: Build) -> Expr:
    return apply(BOOLEAN, pc.invert, condition(build(node.this), "NOT"))


def case(node: exp.Case, build: Build) -> Expr:
    conditions, results = [], []
    for branch in node.args["ifs"]:
        test = build(branch.this)
        if node.this is not None:
            test = compare(build(node.this), test, "=")
        conditions.append(require(test, BOOLEAN, "CASE"))
        results.append(build(branch.args["true"]))
    default = node.args.get("default")
    return _choose(conditions, results, build(default) if default is not None else null(pa.null()))


def if_(node: exp.If, build: Build) -> Expr:
    if node.args.get("false") is None:
        raise NotEvaluable("IF is evaluated with three arguments")
    chosen = require(build(node.this), BOOLEAN, "IF")
    return _choose([chosen], [build(node.args["true"])], build(node.args["false"]))


def nvl2(node: exp.Nvl2, build: Build) -> Expr:
    return _choose([is_not_null(build(node.this))], [build(node.args["true"])], build(node.args["false"]))


def nullif(node: exp.Nullif, build: Build) -> Expr:
    value = build(node.this)
    return _choose([compare(value, build(node.expression), "=")], [null(pa.null())], value)


def _choose(conditions: Sequence[Expr], results: Sequence[Expr], otherwise: Expr) -> Expr:
    """The result of the first condition that is true; a thousand of them are one step."""
    type = common_type([*results, otherwise], "CASE", nested=True)
    count = len(conditions)

    def kernel(*values: Datum) -> Datum:
        chosen = values[-1]
        for test, result in zip(reversed(values[:count]), reversed(values[count:-1]), strict=True):
            chosen = pc.if_else(pc.fill_null(test, False), result, chosen)
        return chosen

    return apply(type, kernel, *conditions, *(coerce(result, type) for result in (*results, otherwise)))


def coalesce(node: exp.Coalesce, build: Build) -> Expr:
    values = [build(value) for value in (node.this, *node.expressions)]
    type = common_type(values, "COALESCE", nested=True)
    return apply(type, pc.coalesce, *(coerce(value, type) for value in values))


def extreme(sign: str) -> Handler:
    """GREATEST (`>`) and LEAST (`<`): NULLs are passed over, of equals the first one stays."""

    def handler(node: exp.Func, build: Build) -> Expr:
        values = [build(value) for value in (node.this, *node.expressions)]
        word = "GREATEST" if sign == ">" else "LEAST"
        if len(values) < 2:
            raise NotEvaluable(f"{word} wants two values or more")
        type = common_type(values, word)
        if pa.types.is_null(type) or is_decimal(type):
            raise NotEvaluable(f"{word} of {type} is not evaluated here")
        better = ordered(sign, type)

        def kernel(best: Datum, value: Datum) -> Datum:
            replace = pc.or_kleene(pc.is_null(best), pc.fill_null(better(value, best), False))
            return pc.if_else(replace, value, best)

        return apply(type, lambda *all_: functools.reduce(kernel, all_), *(coerce(value, type) for value in values))

    return handler


def is_nan(node: exp.IsNan, build: Build) -> Expr:
    operand = build(node.this)
    if not is_floating(operand.type):
        raise NotEvaluable("ISNAN is evaluated for FLOAT and DOUBLE")
    return apply(BOOLEAN, lambda a: pc.fill_null(pc.is_nan(a), False), operand)
