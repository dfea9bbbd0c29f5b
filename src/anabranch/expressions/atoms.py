"""The parts of a condition by which many of them can be looked up together (`kernels.questions`).

A condition is cut into what must all be true. Of these, comparisons of a column with a constant, IN, BETWEEN, LIKE
'prefix%', IS [NOT] NULL, boolean columns, and NOT, AND and OR of such parts about one column are *atoms*: half-open
ranges of the column's keys for which they are TRUE (`truths`), NULL among them or not. Keys are integers of the order
that Spark compares values in (`kernels.values.compared_numbers`), or bytes of text. The rest stays an expression, as an
atom of its own: that its value is TRUE. Two conditions that are written differently and are cut into the same atoms are
the same.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.expressions.compile import compile
from anabranch.expressions.expr import NotEvaluable
from anabranch.expressions.reading import many_values, read, texts_of, whole_numbers_of
from anabranch.expressions.truths import (
    NULL_ALONE,
    Key,
    Range,
    Truth,
    Values,
    all_of,
    any_of,
    certain,
    compared,
    negated,
    unknown,
    values_in,
)
from anabranch.kernels.values import compared_numbers, has_order_number

_LEAST, _MOST = -(2**63), 2**63 - 1
_ONE_ROW = pa.table({"_": pa.array([0])})
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.NullSafeEQ: exp.NullSafeEQ,
    exp.NullSafeNEQ: exp.NullSafeNEQ,
}


class Atom(NamedTuple):
    """What a column's key must be: in one of the ranges, or if `null` NULL; `computed`: `of` is to be TRUE."""

    of: str
    ranges: tuple[Range, ...] = ()
    null: bool = False
    computed: bool = False


def atoms_of(condition: str | None, schema: pa.Schema) -> dict[Atom, str]:
    """The atoms of a condition over the columns of a schema, each once, in order, with the SQL of each.

    >>> schema = pa.schema([("k", pa.int32()), ("t", pa.string())])
    >>> for atom in atoms_of("5 = k AND t LIKE 'a%' AND k + 1 > 2", schema):
    ...     print(atom.of, atom.ranges, atom.computed)
    2 < k + 1 () True
    k ((5, 6),) False
    t (('61', '62'),) False
    """
    if condition is None:
        return {}
    parts = {_atom(part, schema): _text(part) for part in _conjuncts(read(condition))}
    return {atom: parts[atom] for atom in sorted(parts, key=repr)}


def atom_from_json(data: list[Any]) -> Atom:
    of, ranges, null, computed = data
    return Atom(of, tuple((low, high) for low, high in ranges), null, computed)


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    return _parts(node, exp.And)


def _parts(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """What a chain of AND or of OR is made of, in order; it may be longer than calls can be deep."""
    parts, left = [], [node]
    while left:
        part = left.pop()
        if isinstance(part, exp.Paren):
            left.append(part.this)
        elif isinstance(part, kind):
            left += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def _atom(node: exp.Expr, schema: pa.Schema) -> Atom:
    try:
        truth = _truth(node, schema)
        if truth is not None:
            return Atom(truth.column, truth.true.ranges, truth.true.null)
    except (NotEvaluable, AnabranchError, ValueError, OverflowError, pa.ArrowException):
        pass  # whoever evaluates it says what is wrong with it
    return Atom(_written(node), computed=True)


def _truth(node: exp.Expr, schema: pa.Schema) -> Truth | None:
    """For which values of one column a condition is TRUE and FALSE; None if it speaks of anything else."""
    for kind, together in ((exp.And, all_of), (exp.Or, any_of)):
        parts = _parts(node, kind)
        if len(parts) > 1:
            truths = [truth for truth in (_truth(part, schema) for part in parts) if truth is not None]
            same = len(truths) == len(parts) and len({truth.column for truth in truths}) == 1
            return together(truths) if same else None
    (node,) = parts
    if isinstance(node, exp.Not):
        truth = _truth(node.this, schema)
        return None if truth is None else negated(truth)
    truth = next((truth for rule in _RULES if (truth := rule(node, schema)) is not None), None)
    # NOT LIKE is a LIKE that is negated, and no Not around one.
    return negated(truth) if truth is not None and node.args.get("negate") else truth


def _written(node: exp.Expr) -> str:
    """The text of an expression; comparisons have their larger side on the right."""
    if isinstance(node, exp.GT | exp.GTE):
        node = _FLIPPED[type(node)](this=node.expression.copy(), expression=node.this.copy())
    return _text(node)


def _text(node: exp.Expr) -> str:
    return node.sql(dialect="spark", comments=False, normalize_functions="lower")


# -- what can be looked up -------------------------------------------------------------------------


def _comparison(node: exp.Expr, schema: pa.Schema) -> Truth | None:
    if type(node) not in _FLIPPED:
        return None
    kind, column, constant = type(node), _column(node.this, schema), node.expression
    if column is None:
        kind, column, constant = _FLIPPED[kind], _column(node.expression, schema), node.this
    if column is None:
        return None
    return _compared(kind, column, constant, schema)


def _compared(kind: type[exp.Expr], column: str, constant: exp.Expr, schema: pa.Schema) -> Truth | None:
    """A column beside a constant."""
    safe = kind in (exp.NullSafeEQ, exp.NullSafeNEQ)
    if _is_null(constant):
        truth = certain(column, NULL_ALONE) if safe else unknown(column)
    else:
        key = _key(constant, schema.field(column).type)
        if key is None:
            return None
        after = _after(key)
        behind: tuple[Range, ...] = ((after, None),) if after is not None else ()
        ranges: dict[type[exp.Expr], tuple[Range, ...]] = {
            exp.EQ: ((key, after),),
            exp.NEQ: ((None, key), *behind),
            exp.LT: ((None, key),),
            exp.LTE: ((None, after),),
            exp.GT: behind,
            exp.GTE: ((key, None),),
        }
        truth = certain(column, values_in(ranges[exp.EQ])) if safe else compared(column, ranges[kind])
    return negated(truth) if kind is exp.NullSafeNEQ else truth


def _between(node: exp.Expr, schema: pa.Schema) -> Truth | None:
    if not isinstance(node, exp.Between) or node.args.get("symmetric"):
        return None
    column = _column(node.this, schema)
    if column is None:
        return None
    low = _compared(exp.GTE, column, node.args["low"], schema)
    high = _compared(exp.LTE, column, node.args["high"], schema)
    return None if low is None or high is None else all_of([low, high])


def _in(node: exp.Expr, schema: pa.Schema) -> Truth | None:
    if not isinstance(node, exp.In) or node.args.get("query") or node.args.get("unnest"):
        return None
    column = _column(node.this, schema)
    if column is None:
        return None
    keys = _keys_of_list(node, schema.field(column).type)
    if keys is None:
        return None
    truth = compared(column, [(key, _after(key)) for key in keys])
    # What is not in a list that has NULL in it might be that one.
    return Truth(column, truth.true, Values()) if any(map(_is_null, node.expressions)) else truth


def _keys_of_list(node: exp.In, type_: pa.DataType) -> list[Any] | None:
    """The keys of a list, without NULL; None where they are compared as something else."""
    many = many_values(node)
    if many is not None:
        texts = texts_of(many)
        if texts is not None:
            return [text.encode().hex() for text in texts] if _is_text(type_) else None
        return list(whole_numbers_of(many) or ()) or None if pa.types.is_signed_integer(type_) else None
    keys = [_key(value, type_) for value in node.expressions if not _is_null(value)]
    return None if not node.expressions or any(key is None for key in keys) else keys


def _prefix(node: exp.Expr, schema: pa.Schema) -> Truth | None:
    if not isinstance(node, exp.Like) or node.args.get("escape"):
        return None
    column = _column(node.this, schema)
    if column is None or not _is_text(schema.field(column).type) or not isinstance(node.expression, exp.Literal):
        return None
    pattern = node.expression.name
    prefix = pattern[:-1]
    if not node.expression.is_string or not pattern.endswith("%") or any(c in prefix for c in "%_\\"):
        return None
    return compared(column, [(prefix.encode().hex(), _after_prefix(prefix.encode()))])


def _null(node: exp.Expr, schema: pa.Schema) -> Truth | None:
    if not isinstance(node, exp.Is) or not isinstance(node.expression, exp.Null):
        return None
    column = _column(node.this, schema)
    return None if column is None else certain(column, NULL_ALONE)


def _boolean(node: exp.Expr, schema: pa.Schema) -> Truth | None:
    column = _column(node, schema)
    if column is None or not pa.types.is_boolean(schema.field(column).type):
        return None
    return Truth(column, values_in([(1, 2)]), values_in([(0, 1)]))


_RULES: tuple[Callable[[exp.Expr, pa.Schema], Truth | None], ...] = (
    _comparison,
    _between,
    _in,
    _prefix,
    _null,
    _boolean,
)


# -- keys ------------------------------------------------------------------------------------------


def _column(node: exp.Expr | None, schema: pa.Schema) -> str | None:
    """The column of the schema that a node is, if its values have keys."""
    if not isinstance(node, exp.Column) or node.table:
        return None
    names = [name for name in schema.names if name.lower() == node.name.lower()]
    if len(names) != 1:
        return None
    type_ = schema.field(names[0]).type
    return names[0] if has_order_number(type_) or _is_text(type_) else None


def _is_null(node: exp.Expr) -> bool:
    """Whether it is written so: what comes to NULL otherwise may have a type that decides how others are compared."""
    return isinstance(node, exp.Null)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_))


def _key(node: exp.Expr, type_: pa.DataType) -> Key | None:
    """The key of a constant beside a column of a type; None where Spark compares them as something else."""
    compiled = compile(node, pa.schema([]))
    if compiled.columns:
        return None
    value = compiled.evaluate(_ONE_ROW)[0].as_py()
    if value is None:
        return None
    if _is_text(type_):
        return value.encode().hex() if isinstance(value, str) else None
    constant = _as(value, compiled.type, type_)
    return None if constant is None else int(compared_numbers(pa.array([constant], type_), 0)[0])


def _as(value: Any, type_: pa.DataType, wanted: pa.DataType) -> Any:
    """A constant as a value of a column's type, if it is compared as one."""
    numeric = pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_floating(type_)
    if pa.types.is_signed_integer(wanted) and (pa.types.is_integer(type_) or pa.types.is_decimal(type_)):
        whole = int(value)
        return whole if whole == value and _LEAST <= whole <= _MOST and _fits(whole, wanted) else None
    if pa.types.is_float64(wanted) and numeric:
        return float(value)
    if pa.types.is_float32(wanted) and numeric:
        # Whatever they are compared as, a number that both types have is the same in both.
        exact = pa.array([float(value)], pa.float32())[0].as_py()
        return exact if exact == value and Decimal(exact) == Decimal(value) else None
    return value if type_.equals(wanted) else None


def _fits(whole: int, type_: pa.DataType) -> bool:
    half = 1 << (type_.bit_width - 1)
    return bool(-half <= whole < half)


def _after(key: Any) -> Any:
    """The first key after another; None if there is none."""
    if isinstance(key, str):
        return key + "00"
    return key + 1 if key < _MOST else None


def _after_prefix(prefix: bytes) -> str | None:
    """The first bytes after all that begin with a prefix; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return (stem[:-1] + bytes([stem[-1] + 1])).hex() if stem else None
