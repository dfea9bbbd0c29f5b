"""What an expression becomes: a type and a function from a table to values.

Every rule builds its result with `apply`, which computes at once what depends on no column, so a
constant is worked out when the expression is compiled and never again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

Datum = Any
"""A pyarrow Scalar, Array or ChunkedArray: what compute kernels take and return."""


class NotEvaluable(Exception):
    """Arrow cannot evaluate the expression with Spark's meaning, so Spark has to; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Expr:
    """A typed expression over a table.

    `constant` is its value where no column is involved. `literal` is true for a number or text
    that stands in the SQL itself: Spark types `1 * 1.5` by the digits of the 1, but not
    `(1 + 0) * 1.5`.
    """

    type: pa.DataType
    run: Callable[[pa.Table], Datum]
    constant: pa.Scalar | None = None
    literal: bool = False

    @property
    def is_null(self) -> bool:
        """True for the untyped NULL."""
        return bool(pa.types.is_null(self.type))


Build = Callable[[exp.Expr], Expr]
"""Compiles a child of the node at hand."""

Handler = Callable[[Any, Build], Expr]
"""Compiles a node; raises NotEvaluable where Spark's meaning is out of reach."""


def column(name: str, type: pa.DataType) -> Expr:
    """The values of a column; text that Arrow holds in another form is brought to STRING."""

    def run(table: pa.Table) -> Datum:
        values = table.column(name)
        return values if values.type.equals(type) else values.cast(type)

    return Expr(type, run)


def constant(value: pa.Scalar, *, literal: bool = False) -> Expr:
    """The same value for every row."""
    return Expr(value.type, lambda _: value, value, literal)


def null(type: pa.DataType) -> Expr:
    """A NULL of a type."""
    return constant(pa.scalar(None, type))


def apply(type: pa.DataType, kernel: Callable[..., Datum], *operands: Expr) -> Expr:
    """`kernel` over the values of `operands`, giving values of `type`."""
    if all(operand.constant is not None for operand in operands):
        return constant(kernel(*(operand.constant for operand in operands)))
    if len(operands) == 1:
        only = operands[0].run
        return Expr(type, lambda table: kernel(only(table)))
    runs = tuple(operand.run for operand in operands)
    return Expr(type, lambda table: kernel(*(run(table) for run in runs)))
