"""Expressions as everybody writes them who means the same, for operators that are compared by what they do.

Loaded when a query is made: processes that only run operators do without the parser, which takes long to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from anabranch.expressions.reading import read

Naming = Callable[[str], str]
"""What a column is called instead."""
Columns = tuple[tuple[str, str], ...]
"""Of an answer: (name, SQL)."""

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_COMMUTE = (exp.EQ, exp.NEQ, exp.NullSafeEQ)


def numbered(columns: Columns, time: str) -> tuple[Columns, str]:
    """The columns of an answer, and the one that is its time, by numbers in place of names.

    >>> numbered((("k", "k"), ("at", "ts")), "at")
    ((('c0', 'k'), ('c1', 'ts')), 'c1')
    """
    names = {name: f"c{place}" for place, (name, _) in enumerate(columns)}
    return tuple((names[name], sql) for name, sql in columns), names.get(time, time)


def tells_apart(aliases: Iterable[str]) -> bool:
    """Whether the name of a column says whose it is, as it begins with the alias of one source only."""
    written = list(aliases)
    return not any(f"{other}.".startswith(f"{alias}.") for alias in written for other in written if alias != other)


def by_alias(aliases: Mapping[str, str]) -> Naming:
    """Columns of sources that are called otherwise."""

    def named(name: str) -> str:
        alias = next((alias for alias in aliases if name.startswith(f"{alias}.")), None)
        return name if alias is None else f"{aliases[alias]}{name[len(alias) :]}"

    return named


def as_named(sql: str, naming: Naming) -> str:
    """An expression over columns that are called otherwise.

    >>> as_named("`A.x` + 1", lambda name: name.replace("A.", "s0."))
    '`s0.x` + 1'
    """
    return _text(_renamed(read(sql), naming))


def condition(sql: str, naming: Naming = str) -> str:
    """A condition: what may stand on either side of a comparison has a fixed one.

    >>> condition("b = a"), condition("b > a"), condition("a > b")
    ('a = b', 'a < b', 'b < a')
    """
    return _condition(_renamed(read(sql), naming))


def conjunction(sql: str | None) -> str | None:
    """A condition whose parts must all be true: they have a fixed order, and each is there once.

    >>> conjunction("b > a AND (c = 1 AND a < b)")
    '(1 = c) AND (a < b)'
    """
    if sql is None:
        return None
    parts = {_condition(part): None for part in _conjuncts(read(sql))}
    return " AND ".join(f"({part})" for part in sorted(parts))


def _condition(node: exp.Expr) -> str:
    while isinstance(node, exp.Paren):
        node = node.this
    if type(node) in _FLIPPED:
        node = _FLIPPED[type(node)](this=node.expression.copy(), expression=node.this.copy())
    elif isinstance(node, _COMMUTE):
        first, second = sorted((node.this, node.expression), key=_text)
        node = type(node)(this=first.copy(), expression=second.copy())
    return _text(node)


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Paren):
        return _conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    return [node]


def _renamed(node: exp.Expr, naming: Naming) -> exp.Expr:
    def renamed(inner: exp.Expr) -> exp.Expr:
        if not isinstance(inner, exp.Column) or inner.table or naming(inner.name) == inner.name:
            return inner
        return exp.Column(this=exp.Identifier(this=naming(inner.name), quoted=True))

    return node.transform(renamed)


def _text(node: exp.Expr) -> str:
    return node.sql(dialect="spark", comments=False, normalize_functions="lower")
