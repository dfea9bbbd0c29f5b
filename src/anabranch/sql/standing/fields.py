"""Fields of structs in names: `at.lat`, `s.at.lat`, where the parser sees a column of a source."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

Has = Callable[[str | None, str], bool]
"""Whether a source, or if None any of them, has a column of a name."""


def with_fields(node: exp.Expr, has: Has) -> exp.Expr:
    """An expression in which names that reach into a column say so: `(at).lat`; subqueries are left as they are.

    What may be a column of a source is that, as in Spark.
    """
    if isinstance(node, exp.Query):
        return node
    if isinstance(node, exp.Column):
        return _reaching(node, has)
    for part in list(node.iter_expressions()):
        changed = with_fields(part, has)
        if changed is not part:
            part.replace(changed)
    return node


def _reaching(node: exp.Column, has: Has) -> exp.Expr:
    parts = node.parts
    if len(parts) < 2 or not all(isinstance(part, exp.Identifier) for part in parts):
        return node
    if has(parts[0].name, parts[1].name):
        column, fields = exp.Column(this=parts[1], table=parts[0]), parts[2:]
    elif has(None, parts[0].name):
        column, fields = exp.Column(this=parts[0]), parts[1:]
    else:
        return node
    value: exp.Expr = column
    for field in fields:
        inner = exp.Paren(this=value) if isinstance(value, exp.Column) else value
        value = exp.Dot(this=inner, expression=field)
    return value


def last_field(value: exp.Expr) -> str | None:
    """The field that an expression ends with, which names it in an answer."""
    value = value.unnest()
    return value.expression.name if isinstance(value, exp.Dot) else None
