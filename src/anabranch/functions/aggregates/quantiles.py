"""What is read from the values of a window in their order: medians, percentiles, and the most frequent value."""

from __future__ import annotations

import pyarrow as pa

from anabranch.expressions.functions.declaring import Example, InSpark
from anabranch.functions.aggregates.declaring import AggregateFunction, Applied, Parameter, ValueAggregate

APPROXIMATE_BITS = 7
"""Ranges of values for approx_ functions: a value is off by at most 2^-7 of itself."""

SHARE = Parameter("the share p", 0.0, 1.0)


def _median(applied: Applied) -> ValueAggregate:
    applied.number()
    return ValueAggregate(pa.float64(), "rank", 0.5, interpolated=True)


def _percentile(applied: Applied) -> ValueAggregate:
    applied.number()
    return ValueAggregate(pa.float64(), "rank", applied.parameter, interpolated=True)


def _percentile_disc(applied: Applied) -> ValueAggregate:
    return ValueAggregate(applied.ordered(), "rank", applied.parameter)


def _approx_percentile(applied: Applied) -> ValueAggregate:
    type_ = applied.number()
    if pa.types.is_decimal(type_):
        raise applied.wrong_type("an integer or a DOUBLE")
    return ValueAggregate(type_, "rank", applied.parameter, approximate=True)


def _mode(applied: Applied) -> ValueAggregate:
    return ValueAggregate(applied.ordered(), "mode")


def _range_error(share: float) -> str:
    return f"at most {100 / 2**APPROXIMATE_BITS:.2g} % of the value"


QUANTILES = (
    AggregateFunction(
        "median",
        "The value in the middle, or between the two there.",
        kind="holistic",
        takes="numbers",
        gives="`DOUBLE`",
        bind=_median,
        example=Example("median(x)", 2.0),
    ),
    AggregateFunction(
        "percentile",
        "The value that a share p of all does not exceed, between the two values beside the place.",
        ("quantile",),
        kind="holistic",
        takes="numbers",
        gives="`DOUBLE`",
        bind=_percentile,
        form="value and share",
        parameter=SHARE,
        in_spark={"quantile": InSpark("percentile")},
        example=Example("percentile(x, 0.5)", 2.0),
    ),
    AggregateFunction(
        "percentile_cont",
        "The same as `percentile`, as standard SQL writes it.",
        kind="holistic",
        takes="numbers",
        gives="`DOUBLE`",
        stands_for="percentile",
        form="within group",
        within_group=True,
        parameter=SHARE,
        example=Example("percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", 2.0),
    ),
    AggregateFunction(
        "percentile_disc",
        "The first value that a share p of all does not exceed.",
        kind="holistic",
        takes="anything with an order",
        gives="its type",
        bind=_percentile_disc,
        form="within group",
        within_group=True,
        parameter=SHARE,
        example=Example("percentile_disc(0.9) WITHIN GROUP (ORDER BY x)", 7),
    ),
    AggregateFunction(
        "mode",
        "The most frequent value, of equally frequent ones the smallest.",
        kind="holistic",
        takes="anything with an order",
        gives="its type",
        bind=_mode,
        within_group=True,
        any_order=False,  # of several modes Spark takes the one it meets first
        example=Example("mode(x)", 2),
    ),
    AggregateFunction(
        "approx_percentile",
        "About what `percentile_disc` gives, from counts of ranges of values.",
        ("percentile_approx",),
        kind="holistic",
        takes="whole numbers, `FLOAT`, `DOUBLE`",
        gives="its type",
        bind=_approx_percentile,
        form="value and share",
        parameter=SHARE,
        approximate=True,
        error=_range_error,
        example=Example("approx_percentile(x, 0.5)", 2),
    ),
    AggregateFunction(
        "approx_median",
        "About the value in the middle: `approx_percentile(x, 0.5)`.",
        kind="holistic",
        takes="whole numbers, `FLOAT`, `DOUBLE`",
        gives="its type",
        stands_for="approx_percentile",
        constant=0.5,
        approximate=True,
        error=_range_error,
        in_spark={"approx_median": InSpark("percentile_approx", behind=(0.5,))},
        example=Example("approx_median(x)", 2),
    ),
)
