"""Between which values an expression lies, from the ranges of its columns: interval arithmetic.

What is not known here may be anything, and so may whatever could leave the range of its type or is rounded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.archive.facts import ANYTHING, NOTHING, Range, Ranges

_Find = Callable[[exp.Expr], Range]


def range_of(sql: str, schema: pa.Schema, ranges: Ranges) -> Range:
    """The range of an expression over the columns of a schema.

    >>> schema = pa.schema([("x", pa.float64()), ("n", pa.int32())])
    >>> known = {"x": Range(-1.0, 4.0), "n": Range(0.0, 9.0)}
    >>> range_of("CASE WHEN n > 3 THEN x END", schema, known), range_of("x / n", schema, known) == ANYTHING
    (Range(low=-1.0, high=4.0), True)
    >>> [round(end, 9) for end in range_of("-2 * x + 1", schema, known)]
    [-7.0, 3.0]
    """
    tree = _tree(sql)
    if tree is None:
        return ANYTHING
    return _Reading({name.lower(): schema.field(name).type for name in schema.names}, ranges).find(tree)


@functools.lru_cache(maxsize=256)
def _tree(sql: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(sql, read="spark")
    except SqlglotError:
        return None


class _Reading:
    """One expression over columns of these types (by name in small letters) and ranges."""

    def __init__(self, types: Mapping[str, pa.DataType], ranges: Ranges) -> None:
        self._types = types
        self._ranges = {name.lower(): values for name, values in ranges.items()}
        self._rules: dict[type[exp.Expr], _Find] = {
            exp.Paren: lambda node: self.find(node.this),
            exp.Column: self._column,
            exp.Literal: self._literal,
            exp.Null: lambda node: NOTHING,
            exp.Neg: lambda node: self._computed(node, lambda a, _: (-a.high, -a.low)),
            exp.Add: lambda node: self._computed(node, lambda a, b: (a.low + b.low, a.high + b.high)),
            exp.Sub: lambda node: self._computed(node, lambda a, b: (a.low - b.high, a.high - b.low)),
            exp.Mul: lambda node: self._computed(node, _product),
            exp.Abs: lambda node: self._computed(node, _size),
            exp.Case: self._case,
            exp.If: self._if,
            exp.Coalesce: lambda node: self._either([node.this, *node.expressions]),
        }

    def find(self, node: exp.Expr) -> Range:
        rule = self._rules.get(type(node))
        return ANYTHING if rule is None else rule(node)

    def _column(self, node: exp.Expr) -> Range:
        return self._ranges.get(node.name.lower(), ANYTHING)

    @staticmethod
    def _literal(node: exp.Expr) -> Range:
        if not isinstance(node, exp.Literal) or node.is_string:
            return ANYTHING
        try:
            return Range(float(node.name), float(node.name))
        except ValueError:  # with a suffix that says its type
            return ANYTHING

    def _case(self, node: exp.Expr) -> Range:
        default = node.args.get("default")
        return self._either([*(branch.args["true"] for branch in node.args["ifs"]), *([default] if default else [])])

    def _if(self, node: exp.Expr) -> Range:
        otherwise = node.args.get("false")
        return self._either([node.args["true"], *([otherwise] if otherwise else [])])

    def _either(self, nodes: list[exp.Expr]) -> Range:
        return functools.reduce(Range.with_, (self.find(node) for node in nodes), NOTHING)

    def _computed(self, node: exp.Expr, ends: Callable[[Range, Range], tuple[float, float]]) -> Range:
        left = self.find(node.this)
        right = self.find(node.expression) if isinstance(node, exp.Binary) else left
        if NOTHING in (left, right):
            return NOTHING
        if not all(map(math.isfinite, (*left, *right))):
            return ANYTHING
        low, high = ends(left, right)
        limit = self._limit(node)
        if not -limit < low <= high < limit:
            return ANYTHING
        return Range(np.nextafter(low, -np.inf).item(), np.nextafter(high, np.inf).item())

    def _limit(self, node: exp.Expr) -> float:
        """How far values may go that are computed of such columns: integers wrap around, others are rounded."""
        limit = math.inf
        for column in node.find_all(exp.Column):
            type_ = self._types.get(column.name.lower(), pa.null())
            if pa.types.is_signed_integer(type_):
                limit = min(limit, 2.0 ** (type_.bit_width - 1))
            elif not pa.types.is_float64(type_):
                return 0.0
        return limit


def _product(a: Range, b: Range) -> tuple[float, float]:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _size(a: Range, _: Range) -> tuple[float, float]:
    low = 0.0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return low, max(abs(a.low), abs(a.high))
