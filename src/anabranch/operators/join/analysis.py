"""Conditions of a join told apart by what they say (`conditions`).

Loaded when a join is bound: processes that only plan offsets do without the parser, which takes long to load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions.reading import amount, read
from anabranch.expressions.types import FLOAT, widest
from anabranch.operators.columns import bind
from anabranch.operators.join.conditions import Band, Comparison, Conditions, Equality, KeyKind, SourceExpression, Test


def analyse(conditions: Sequence[str], schema: pa.Schema, source_of: Mapping[str, int]) -> Conditions:
    """Conditions over columns named `alias.column`; `source_of` says which source a column is of."""
    return _Analysis(schema, source_of).of(conditions)


class _Analysis:
    def __init__(self, schema: pa.Schema, source_of: Mapping[str, int]) -> None:
        self._schema = schema
        self._source_of = source_of
        self._equalities: list[Equality] = []
        self._bands: list[Band] = []
        self._comparisons: list[tuple[exp.Expr, exp.Expr]] = []

    def of(self, conditions: Sequence[str]) -> Conditions:
        tests: list[Test] = []
        for number, sql in enumerate(conditions):
            value = bind(sql, self._schema)
            tests.append(Test(value, frozenset(self._source_of[name] for name in value.columns)))
            self._look_at(_bare(read(sql)), number)
        self._add_implied()
        self._add_bands()
        pairs = (self._pair(low, high) for low, high in self._comparisons)
        comparisons = tuple(Comparison(sides) for sides in pairs if sides is not None and _ordered(sides))
        return Conditions(tuple(tests), tuple(self._equalities), tuple(self._bands), comparisons)

    def _look_at(self, node: exp.Expr, number: int) -> None:
        if isinstance(node, exp.EQ):
            sides = self._pair(node.this, node.expression)
            kind = None if sides is None else _kind(sides[0].value.type, sides[1].value.type)
            if sides is not None and kind is not None:
                self._equalities.append(Equality(sides, kind, number))
        elif isinstance(node, exp.LTE | exp.LT):
            self._compare(node.this, node.expression)
        elif isinstance(node, exp.GTE | exp.GT):
            self._compare(node.expression, node.this)
        elif isinstance(node, exp.Between):
            self._compare(node.args["low"], node.this)
            self._compare(node.this, node.args["high"])

    def _compare(self, low: exp.Expr, high: exp.Expr) -> None:
        """Low ≤ high; `abs(a - b) <= c` bounds the distance of a and b."""
        low, high = _bare(low), _bare(high)
        inner, most = _distance_in(low), _number(high)
        if inner is not None and most is not None and most >= 0:
            sides = self._pair(inner.this, inner.expression)
            if sides is not None and _numeric(sides):
                self._bands.append(Band(sides, most, most))
            return
        self._comparisons.append((low, high))

    def _side(self, node: exp.Expr) -> SourceExpression | None:
        """The expression, if it is over one source."""
        value = bind(_bare(node).sql(dialect="spark"), self._schema)
        sources = {self._source_of[name] for name in value.columns}
        return SourceExpression(sources.pop(), value) if len(sources) == 1 else None

    def _pair(self, left: exp.Expr, right: exp.Expr) -> tuple[SourceExpression, SourceExpression] | None:
        first, second = self._side(left), self._side(right)
        return (first, second) if first and second and first.source != second.source else None

    def _add_implied(self) -> None:
        """A = b and b = c give a = c, so that a and c can be joined before b comes in."""
        groups: list[dict[tuple[int, str], SourceExpression]] = []
        for equality in self._equalities:
            if equality.kind in ("floats", "numbers"):  # equal as numbers of different types: not passed on
                continue
            names = {(side.source, side.value.sql): side for side in equality.sides}
            touched = [group for group in groups if group.keys() & names.keys()]
            groups = [group for group in groups if not group.keys() & names.keys()]
            groups.append({key: side for group in [*touched, names] for key, side in group.items()})
        known = {frozenset((s.source, s.value.sql) for s in equality.sides) for equality in self._equalities}
        for group in groups:
            sides = sorted(group.items())
            for at, (key, side) in enumerate(sides):
                for other_key, side_after in sides[at + 1 :]:
                    kind = _kind(side.value.type, side_after.value.type)
                    new = key[0] != other_key[0] and frozenset((key, other_key)) not in known
                    if new and kind is not None and side.value.type == side_after.value.type:
                        self._equalities.append(Equality((side, side_after), kind, None))

    def _add_bands(self) -> None:
        """Comparisons of two values, shifted by constants, that together bound their difference on both sides."""
        most: dict[tuple[str, str], float] = {}
        nodes: dict[str, exp.Expr] = {}
        for low, high in self._comparisons:
            (low_side, low_shift), (high_side, high_shift) = _unshifted(low), _unshifted(high)
            key = (low_side.sql(dialect="spark"), high_side.sql(dialect="spark"))
            nodes |= {key[0]: low_side, key[1]: high_side}
            most[key] = min(most.get(key, float("inf")), high_shift - low_shift)
        for (one_sql, other_sql), above in most.items():
            below = most.get((other_sql, one_sql))
            if below is None or one_sql > other_sql or above + below < 0:
                continue
            sides = self._pair(nodes[one_sql], nodes[other_sql])
            if sides is not None and _numeric(sides):
                self._bands.append(Band(sides, below, above))


def _bare(node: exp.Expr) -> exp.Expr:
    return _bare(node.this) if isinstance(node, exp.Paren) else node


def _number(node: exp.Expr) -> float | None:
    node = _bare(node)
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string:
        return amount(node.name)
    return None


def _unshifted(node: exp.Expr) -> tuple[exp.Expr, float]:
    """An expression and the constant that is added to it."""
    if isinstance(node, exp.Add | exp.Sub):
        shift = _number(node.expression)
        if shift is not None:
            inner, more = _unshifted(_bare(node.this))
            return inner, more + (shift if isinstance(node, exp.Add) else -shift)
    return node, 0.0


def _distance_in(node: exp.Expr) -> exp.Sub | None:
    """The difference inside abs()."""
    inner: exp.Expr | None = node.this if isinstance(node, exp.Abs) else None
    if isinstance(node, exp.Anonymous) and node.name.lower() == "abs" and len(node.expressions) == 1:
        inner = node.expressions[0]
    inner = None if inner is None else _bare(inner)
    return inner if isinstance(inner, exp.Sub) else None


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _numeric(sides: tuple[SourceExpression, SourceExpression]) -> bool:
    """Whether both are numbers that keep their distance as doubles."""
    first, second = (side.value.type for side in sides)
    return _is_number(first) and _is_number(second) and not _rounds(first, second)


def _rounds(first: pa.DataType, second: pa.DataType) -> bool:
    """Whether digits are lost where two DECIMALs are compared, so that unequal ones may be equal."""
    scales = [type_.scale if pa.types.is_decimal(type_) else 0 for type_ in (first, second)]
    shared = widest(first, second)
    return bool(pa.types.is_decimal(shared) and shared.scale < max(scales))


def _ordered(sides: tuple[SourceExpression, SourceExpression]) -> bool:
    """Whether both can be turned into doubles that keep their order."""
    first, second = (side.value.type for side in sides)
    return _numeric(sides) or (first == second and (pa.types.is_timestamp(first) or pa.types.is_date32(first)))


def _kind(first: pa.DataType, second: pa.DataType) -> KeyKind | None:
    """As what two types are compared for equality; None if only the expression itself can say."""
    if pa.types.is_integer(first) and pa.types.is_integer(second):
        return "integers"
    if first == second:
        whole = pa.types.is_boolean(first) or pa.types.is_date32(first) or pa.types.is_timestamp(first)
        return "integers" if whole else None if pa.types.is_nested(first) or pa.types.is_null(first) else "values"
    if _is_number(first) and _is_number(second):
        return None if _rounds(first, second) else "floats" if widest(first, second).equals(FLOAT) else "numbers"
    if all(pa.types.is_timestamp(type_) or pa.types.is_date32(type_) for type_ in (first, second)):
        return "times"
    return None
