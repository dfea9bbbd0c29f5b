"""A toy aggregate and a toy function: what one writes to have a new one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions.expr import Datum, Expr, apply
from anabranch.expressions.functions.declaring import Example, Rule, ScalarFunction, of_one
from anabranch.expressions.types import DOUBLE, cast, require_number
from anabranch.functions.aggregates.declaring import Aggregate, AggregateFunction, Applied, null_without_rows
from anabranch.kernels.fold import Count, Slots
from anabranch.kernels.values import Column, floats, valid


class Product:
    """The product of what is not NULL."""

    types = (pa.float64(),)

    def fold(self, slots: Slots, seed: Sequence[pa.Array], values: Column | None) -> list[pa.Array]:
        assert values is not None
        products = np.ones(slots.count)
        products[: len(seed[0])] = seed[0].to_numpy()
        np.multiply.at(products, slots.of_entry[len(seed[0]) :], np.where(valid(values), floats(values), 1.0))
        return [pa.array(products)]

    def combine(self, slots: Slots, partials: Sequence[pa.Array]) -> list[pa.Array]:
        products = np.ones(slots.count)
        np.multiply.at(products, slots.of_entry, floats(partials[0]))
        return [pa.array(products)]


def _product(applied: Applied) -> Aggregate:
    applied.number()
    return Aggregate(pa.float64(), {"count": Count(), "product": Product()}, null_without_rows)


PRODUCT = AggregateFunction(
    "product",
    "The product.",
    kind="distributive",
    takes="numbers",
    gives="`DOUBLE`",
    bind=_product,
    in_spark={"product": None},
    example=Example("product(x)", 28.0),
)


def _celsius(operand: Expr) -> Expr:
    def kernel(degrees: Datum) -> Datum:
        return pc.divide(pc.multiply(pc.subtract(degrees, 32.0), 5.0), 9.0)

    return apply(DOUBLE, kernel, cast(require_number(operand, "CELSIUS"), DOUBLE))


CELSIUS = ScalarFunction(
    "celsius",
    "Degrees of Fahrenheit in those of Celsius.",
    group="numbers",
    rules={exp.Anonymous: Rule(of_one(_celsius), "number: DOUBLE", ("this", "expressions"))},
    in_spark={"celsius": None},
    example=Example("celsius(212)", 100.0),
)
