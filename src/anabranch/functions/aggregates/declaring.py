"""What is said of an aggregate function, once: a row of the table, and what it becomes for an argument of a type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.expressions.functions.declaring import Example, InSpark
from anabranch.kernels.fold import State
from anabranch.kernels.values import has_order_number
from anabranch.schema import sql_type

Columns = Sequence[Sequence[pa.Array]]
"""The columns of each state an aggregate asked for."""

SAMPLE = (1, 2, 2, 7, None)
"""The values of the column `x` that examples are about."""


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function applied to an argument of one type, put together from partial answers of panes."""

    type: pa.DataType
    states: dict[str, State]
    """What it keeps, and how that folds and merges; by a name that is the same for aggregates that can share it."""
    finish: Callable[[Columns], pa.Array]


@dataclass(frozen=True)
class ValueAggregate:
    """An aggregate function that is read from the values in a window and how often each is there."""

    type: pa.DataType
    question: Literal["rank", "mode", "distinct"]
    """What the index is asked for."""
    fraction: float = 0.0
    """Where among the values in order; for ranks."""
    interpolated: bool = False
    """Between the two values beside the place, as a DOUBLE; else the first value that reaches it."""
    approximate: bool = False
    """From counts of ranges of values instead of values."""


@dataclass(frozen=True)
class Applied:
    """A function by the name it was asked for, the type of its argument (None: every row), and its constant."""

    name: str
    type: pa.DataType | None
    parameter: float = 0.0

    def number(self) -> pa.DataType:
        """The type, which has to be one of numbers."""
        type_ = self.type
        if not (pa.types.is_signed_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)):
            raise self.wrong_type("a number")
        return type_

    def ordered(self) -> pa.DataType:
        """The type, whose values have to have an order."""
        type_ = self.type
        if not (has_order_number(type_) or pa.types.is_string(type_) or pa.types.is_binary(type_)) and not (
            pa.types.is_decimal(type_)
        ):
            raise self.wrong_type("a value with an order")
        return type_

    def wrong_type(self, wanted: str) -> QueryError:
        shown = "NULL" if pa.types.is_null(self.type) else sql_type(self.type)
        return QueryError("AGGREGATE_TYPE_MISMATCH", f"{self.name} of {shown} was asked for, it needs {wanted}")


@dataclass(frozen=True)
class Parameter:
    """The one constant that a function takes; without a default it has to be given."""

    what: str
    low: float
    high: float
    default: float | None = None


Form = Literal["value", "condition", "value and share", "value, perhaps error", "within group", "distinct"]
"""How a call is written: f(x), f(condition), f(x, p), f(x[, e]), f(p) WITHIN GROUP (ORDER BY x), g(DISTINCT x)."""


@dataclass(frozen=True)
class AggregateFunction:
    """A row of the table. All aggregates skip NULL, which is why FILTER can stand behind each of them."""

    name: str
    """The one it is called by in plans, hints and names of columns."""
    doc: str
    aliases: tuple[str, ...] = ()
    kind: Literal["distributive", "algebraic", "holistic"] | None = None
    """Put together from answers of panes, from something of fixed size that panes keep, or only from all values.

    None where windows do not have it, and Spark SQL computes it when asked once.
    """
    takes: str = ""
    gives: str = ""
    """Of what, and which type, in the words of the documentation."""
    bind: Callable[[Applied], Aggregate | ValueAggregate] | None = None
    """What it is for an argument of a type; raises QueryError for types that it does not take."""
    stands_for: str | None = None
    """Another function in whose place it can be written, in a form of its own; it needs no `bind` then."""
    form: Form = "value"
    of_rows: bool = False
    """Whether f(*) means something: every row, NULL or not."""
    within_group: bool = False
    """Whether it may stand before WITHIN GROUP (ORDER BY x)."""
    parameter: Parameter | None = None
    constant: float | None = None
    """The parameter of the function it `stands_for`, where the form does not say it."""
    distinct: str | None = None
    """What f(DISTINCT x) is: the function of that name over x, or None where there is no such thing."""
    approximate: bool = False
    """Whether counts of ranges of values are enough for it; for holistic ones."""
    error: Callable[[float], str] | None = None
    """How far off an answer may be, given the parameter, in words; None: it is exact."""
    empty: int | None = None
    """Its value where there is none to aggregate."""
    any_order: bool = True
    """Whether rows may come in any order: the answer is the same, or as good."""
    merges: bool = False
    """Whether partial answers come to the same bits in whatever order they are merged."""
    estimator: str | None = None
    """What tells it from part of the rows, with bounds: one of `archive.estimation.sums.ESTIMATORS`."""
    in_spark: Mapping[str, InSpark | None] = field(default_factory=dict)
    """Those of its names that Spark does not have, and what it has instead, if anything."""
    example: Example | None = None
    """Over the values of `SAMPLE`."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def has_call(self) -> bool:
        """Whether it is called by its name; `count_distinct` is written in another way."""
        return self.form != "distinct"

    @property
    def in_windows(self) -> bool:
        return self.kind is not None


def first_column(columns: Columns) -> pa.Array:
    """The answer of a function that keeps just that."""
    return columns[0][0]


def null_without_rows(columns: Columns) -> pa.Array:
    """The second state, where the first, a count, says that there were values."""
    n, total = (c[0].to_numpy() for c in columns)
    return pa.array(total, mask=np.equal(n, 0))
