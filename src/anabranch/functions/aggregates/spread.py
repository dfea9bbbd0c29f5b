"""Variance and standard deviation, of a sample or of all there is.

The Windows paper counts variance among those that need every tuple; combining counts, means and squared differences
pairwise makes it algebraic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.expressions.functions.declaring import Example
from anabranch.functions.aggregates.declaring import Aggregate, AggregateFunction, Applied, Columns
from anabranch.kernels.fold import Moments


def _spread(less: int, root: bool) -> Callable[[Applied], Aggregate]:
    """Variance with divisor n - less, or its root."""

    def bind(applied: Applied) -> Aggregate:
        applied.number()

        def finish(columns: Columns) -> pa.Array:
            n, _, m2 = (c.to_numpy() for c in columns[0])
            variance: NDArray[np.float64] = m2 / np.maximum(n - less, 1)
            return pa.array(np.sqrt(variance) if root else variance, mask=n <= less)

        return Aggregate(pa.float64(), {"moments": Moments()}, finish)

    return bind


SPREAD = (
    AggregateFunction(
        "stddev",
        "The standard deviation, as a sample tells it (divided by n - 1); NULL also for one value.",
        ("std", "stddev_samp"),
        kind="algebraic",
        takes="numbers",
        gives="`DOUBLE`",
        bind=_spread(1, root=True),
        example=Example("stddev(x)", 2.70801280154532),
    ),
    AggregateFunction(
        "stddev_pop",
        "The standard deviation of just these values (divided by n).",
        kind="algebraic",
        takes="numbers",
        gives="`DOUBLE`",
        bind=_spread(0, root=True),
        example=Example("stddev_pop(x)", 2.345207879911715),
    ),
    AggregateFunction(
        "variance",
        "The variance, as a sample tells it (divided by n - 1); NULL also for one value.",
        ("var_samp",),
        kind="algebraic",
        takes="numbers",
        gives="`DOUBLE`",
        bind=_spread(1, root=False),
        example=Example("variance(x)", 7.333333333333333),
    ),
    AggregateFunction(
        "var_pop",
        "The variance of just these values (divided by n).",
        kind="algebraic",
        takes="numbers",
        gives="`DOUBLE`",
        bind=_spread(0, root=False),
        example=Example("var_pop(x)", 5.5),
    ),
)
