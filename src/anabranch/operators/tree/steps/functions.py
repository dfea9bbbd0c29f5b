"""The aggregate functions that follow changes: what each keeps of a group, and its answer from that.

They give what `functions.aggregates` gives, and of Spark's others those whose answer does not depend on the order in
which rows came.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.column_types import is_nested
from anabranch.errors import QueryError, did_you_mean
from anabranch.functions.aggregates import AGGREGATES, aggregate, parts_of
from anabranch.functions.aggregates.declaring import Applied
from anabranch.kernels import long_sums
from anabranch.kernels.fold import overflow
from anabranch.kernels.values import integers
from anabranch.operators.tree.nodes import Call
from anabranch.operators.tree.steps.arguments import About, Argument
from anabranch.operators.tree.steps.collected import (
    Collected,
    Made,
    as_list,
    as_text,
    order_of,
    the_first,
    the_last,
    without_nothing,
)
from anabranch.operators.tree.steps.states import Best, Counted, Placed, State, Summed

Parts = Sequence[Sequence[pa.Array]]
"""The columns of each state of a call."""
S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Answer:
    """The type of a call, what it keeps, and how its answer is made of that."""

    type: pa.DataType
    states: Sequence[State]
    finish: Callable[[Parts], pa.Array]


class Making:
    """Arguments and states of the calls of a node, each made once for all calls that it serves."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str], *, only_come: bool) -> None:
        self.schema = schema
        self.only_come = only_come
        self.arguments: dict[About, Argument] = {}
        self.states: list[State] = []
        self._keys = keys
        self._known: dict[tuple[Any, ...], State] = {}

    def argument(self, about: About) -> Argument:
        if about not in self.arguments:
            self.arguments[about] = Argument(about, self.schema, self._keys)
        return self.arguments[about]

    def state(self, kind: Callable[..., S], about: About, *more: Any, **options: Any) -> S:
        key = (kind, about, more, tuple(sorted(options.items())))
        if key not in self._known:
            self._known[key] = kind(self.argument(about), *more, **options)
            self.states.append(self._known[key])
        return self._known[key]  # type: ignore[return-value]


@dataclass(frozen=True)
class Asked:
    """A call, by the name and with the constant of its function."""

    call: Call
    name: str
    parameter: str | None
    making: Making

    def type(self, number: int = 0) -> pa.DataType:
        if number >= len(self.call.arguments):
            raise QueryError(
                "AGGREGATE_ARGUMENT_MISSING", f"{self.name} needs an argument", hint=f"write {self.name}(column)"
            )
        return self.making.schema.field(self.call.arguments[number]).type

    @property
    def written(self) -> str:
        return self.name if self.parameter is None else f"{self.name}({self.parameter})"

    @property
    def filters(self) -> tuple[str, ...]:
        return () if self.call.filter is None else (self.call.filter,)

    def values(self, *, distinct: bool | None = None) -> About:
        """The arguments where none is NULL."""
        names = self.call.arguments
        return About(names, names, self.filters, self.call.distinct if distinct is None else distinct)

    def count(self) -> Counted:
        return self.making.state(Counted, self.values())


def answer_of(call: Call, making: Making) -> Answer:
    """What a call keeps and answers; QueryError for a function that cannot follow changes."""
    name, parameter = parts_of(call.function)
    row = AGGREGATES.get(name)
    if row is not None and name not in FUNCTIONS:  # another name, or another way to write one
        name, parameter = row.stands_for or row.name, parameter if row.constant is None else f"{row.constant:g}"
    build = FUNCTIONS.get(name)
    if build is None:
        raise QueryError(
            "AGGREGATE_NOT_AVAILABLE" if row is not None else "AGGREGATE_NOT_FOUND",
            f"{name} cannot be kept up to date while rows come and go",
            hint=did_you_mean(name, FUNCTIONS) or "use one of " + ", ".join(FUNCTIONS),
        )
    return build(Asked(call, name, parameter, making))


def _count(asked: Asked) -> Answer:
    return Answer(pa.int64(), [asked.count()], lambda parts: parts[0][0])


def _count_if(asked: Asked) -> Answer:
    return Answer(pa.int64(), [_true(asked)], lambda parts: parts[0][0])


def _true(asked: Asked) -> Counted:
    if not pa.types.is_boolean(asked.type()):
        raise Applied(asked.name, asked.type()).wrong_type("a condition")
    about = About((), (), (asked.call.arguments[0], *asked.filters))
    if asked.call.distinct:
        about = asked.values()._replace(filters=about.filters)
    return asked.making.state(Counted, about)


def _bool_and(asked: Asked) -> Answer:
    def finish(parts: Parts) -> pa.Array:
        true, count = (integers(columns[0]) for columns in parts)
        return pa.array(true == count, mask=count == 0)

    return Answer(pa.bool_(), [_true(asked), asked.count()], finish)


def _bool_or(asked: Asked) -> Answer:
    def finish(parts: Parts) -> pa.Array:
        true, count = (integers(columns[0]) for columns in parts)
        return pa.array(true > 0, mask=count == 0)

    return Answer(pa.bool_(), [_true(asked), asked.count()], finish)


def _sum(asked: Asked) -> Answer:
    type_ = asked.type()
    wanted = aggregate("sum", type_).type
    about, state = asked.values(), asked.making.state
    if pa.types.is_integer(type_):
        return Answer(wanted, [asked.count(), state(Summed, about, long_sums.parts_of_integers)], _whole_sum)
    if pa.types.is_decimal(type_):

        def decimal_sum(parts: Parts) -> pa.Array:
            try:
                sums = long_sums.as_decimals(parts[1][0], wanted.scale)
            except pa.ArrowInvalid:
                raise overflow(f"DECIMAL(38,{wanted.scale})", "sum(CAST(… AS DOUBLE))") from None
            return _where(sums, integers(parts[0][0]) != 0)

        return Answer(wanted, [asked.count(), state(Summed, about, long_sums.parts_of_decimals)], decimal_sum)

    def double_sum(parts: Parts) -> pa.Array:
        return pa.array(_doubles(parts[1][0]), mask=integers(parts[0][0]) == 0)

    return Answer(wanted, [asked.count(), state(Summed, about, long_sums.parts_of_doubles)], double_sum)


def _whole_sum(parts: Parts) -> pa.Array:
    sums, fits = long_sums.as_integers(parts[1][0])
    if not fits:
        raise overflow("BIGINT", "sum(CAST(… AS DECIMAL(38, 0)))")
    return pa.array(sums, mask=integers(parts[0][0]) == 0)


def _avg(asked: Asked) -> Answer:
    wanted = aggregate("avg", asked.type()).type

    def finish(parts: Parts) -> pa.Array:
        count = integers(parts[0][0])
        return pa.array(_doubles(parts[1][0]) / np.maximum(count, 1), mask=count == 0)

    total = asked.making.state(Summed, asked.values(), long_sums.parts_of_doubles)
    return Answer(wanted, [asked.count(), total], finish)


def _doubles(sums: pa.Array) -> NDArray[np.float64]:
    return long_sums.as_doubles(sums, long_sums.DOUBLES)


def _spread(less: int, *, root: bool) -> Callable[[Asked], Answer]:
    """Variance with divisor n - less, or its root; NULL without enough values."""

    def build(asked: Asked) -> Answer:
        wanted = aggregate("variance", asked.type()).type

        def finish(parts: Parts) -> pa.Array:
            count = integers(parts[0][0])
            together = long_sums.squared_differences(count, parts[1][0], parts[2][0])
            variance = together / np.maximum(count, 1) / np.maximum(count - less, 1)
            return pa.array(np.sqrt(variance) if root else variance, mask=count <= less)

        total = asked.making.state(Summed, asked.values(), long_sums.parts_of_doubles)
        squares = asked.making.state(Summed, asked.values(), long_sums.parts_of_squares)
        return Answer(wanted, [asked.count(), total, squares], finish)

    return build


def _ordered(asked: Asked, number: int = 0) -> pa.DataType:
    """The type of an argument whose values have to have an order; arrays and structs have one here."""
    type_ = asked.type(number)
    return type_ if is_nested(type_) else Applied(asked.name, type_).ordered()


def _extreme(*, largest: bool) -> Callable[[Asked], Answer]:
    def build(asked: Asked) -> Answer:
        wanted = _ordered(asked)
        best = _best(asked, asked.values(distinct=False), largest)
        return Answer(wanted, [best], lambda parts: parts[0][0])

    return build


def _extreme_by(*, largest: bool) -> Callable[[Asked], Answer]:
    """The first argument where the second is largest or smallest; of several the smallest."""

    def build(asked: Asked) -> Answer:
        _ordered(asked, 1)
        wanted, (value, by) = asked.type(), asked.call.arguments
        best = _best(asked, About((by, value), (by,), asked.filters), largest)
        return Answer(wanted, [best], lambda parts: parts[0][1])

    return build


def _any_value(asked: Asked) -> Answer:
    """Any value will do, NULL or not; the smallest is the same whatever came first."""
    _ordered(asked)
    best = _best(asked, asked.values(distinct=False), largest=False)
    return Answer(asked.type(), [best], lambda parts: parts[0][0])


def _best(asked: Asked, about: About, largest: bool) -> Best:
    return asked.making.state(Best, about, largest=largest, only_come=asked.making.only_come)


def _placed(asked: Asked) -> Answer:
    bound: Any = aggregate(asked.written, asked.type())
    question = "mode" if bound.question == "mode" else "between" if bound.interpolated else "value"
    about = asked.values(distinct=False)
    placed = asked.making.state(Placed, about, question, bound.fraction, once=asked.call.distinct)
    return Answer(bound.type, [placed], lambda parts: parts[0][0])


def _list(asked: Asked) -> Answer:
    """Arrays are there without values, too."""
    item = asked.type()
    collected = _collected(asked, as_list, pa.list_(item), once=asked.call.distinct)
    return Answer(pa.list_(item), [collected], lambda parts: without_nothing(parts[0][0]))


def _text(asked: Asked) -> Answer:
    if not pa.types.is_string(asked.type()):
        raise Applied(asked.name, asked.type()).wrong_type("text")
    made = _made_text(dict(asked.call.options).get("separator", ""))
    collected = _collected(asked, made, pa.string(), once=asked.call.distinct)
    return Answer(pa.string(), [collected], lambda parts: parts[0][0])


_made_text = functools.cache(as_text)
"""The same for the same separator, so that calls that say the same share what they keep."""


def _edge(made: Made) -> Callable[[Asked], Answer]:
    """The first or the last value in an order, NULL or not unless it is to be passed over."""

    def build(asked: Asked) -> Answer:
        ignores = bool(dict(asked.call.options).get("ignore_nulls"))
        collected = _collected(asked, made, asked.type(), nulls=not ignores)
        return Answer(asked.type(), [collected], lambda parts: parts[0][0])

    return build


def _collected(asked: Asked, made: Made, type_: pa.DataType, *, once: bool = False, nulls: bool = False) -> Collected:
    names = asked.call.arguments
    about = About(names, () if nulls else names[:1], asked.filters)
    order = order_of(dict(asked.call.options).get("order", ()))
    return asked.making.state(Collected, about, order, made, type_, once=once)


def _count_distinct(asked: Asked) -> Answer:
    count = asked.making.state(Counted, asked.values(distinct=True))
    return Answer(pa.int64(), [count], lambda parts: parts[0][0])


def _where(values: pa.Array, there: NDArray[np.bool_]) -> pa.Array:
    return values if there.all() else values.take(pa.array(np.arange(len(there)), mask=~there))


FUNCTIONS: dict[str, Callable[[Asked], Answer]] = {
    "count": _count,
    "count_if": _count_if,
    "bool_and": _bool_and,
    "every": _bool_and,
    "bool_or": _bool_or,
    "any": _bool_or,
    "some": _bool_or,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(largest=False),
    "max": _extreme(largest=True),
    "min_by": _extreme_by(largest=False),
    "max_by": _extreme_by(largest=True),
    "any_value": _any_value,
    "variance": _spread(1, root=False),
    "var_pop": _spread(0, root=False),
    "stddev": _spread(1, root=True),
    "stddev_pop": _spread(0, root=True),
    "median": _placed,
    "percentile": _placed,
    "percentile_disc": _placed,
    "approx_percentile": _placed,
    "mode": _placed,
    "count_distinct": _count_distinct,
    "collect_list": _list,
    "string_agg": _text,
    "first": _edge(the_first),
    "last": _edge(the_last),
    "approx_count_distinct": _count_distinct,
}
"""By the name that `functions.aggregates` has for it. What is approximate elsewhere is exact here.

`Call.options`: of `collect_list`, `string_agg`, `first` and `last` the `order`, (descending, NULLs first) for each
argument behind the first; `separator`; `ignore_nulls`.
"""
