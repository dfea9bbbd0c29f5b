"""Spark's other aggregates: a one-time SELECT can use them, windows do not have them."""

from __future__ import annotations

from anabranch.functions.aggregates.declaring import AggregateFunction

_ANY_ORDER = ("any", "bool_and", "bool_or", "every", "some")
_ROWS = """
any_value: Some value, NULL or not.
approx_top_k: About the most frequent values, with their counts.
array_agg, collect_list: All values in an array, in no order.
bit_and: The bits that are set in all values.
bit_or: The bits that are set in any value.
bit_xor: The bits that are set in an odd number of values.
bitmap_and_agg: The bits that are set in all bitmaps.
bitmap_construct_agg: A bitmap of the positions given.
bitmap_or_agg: The bits that are set in any bitmap.
bool_and, every: Whether the condition always holds.
bool_or, any, some: Whether the condition holds for any row.
collect_set: The different values in an array, in no order.
corr: How two columns go together, from -1 to 1 (Pearson).
count_min_sketch: A sketch of how often values are there.
covar_pop: The covariance of just these pairs.
covar_samp: The covariance, as a sample tells it.
first, first_value: The first value, in whatever order rows come.
grouping: Whether a column of GROUPING SETS is left out of this group.
grouping_id: Which columns of GROUPING SETS are left out, as bits.
histogram_numeric: A histogram of so many bars.
hll_sketch_agg: A HyperLogLog sketch of different values.
hll_union_agg: HyperLogLog sketches put together.
kurtosis: How heavy the tails of the values are.
last, last_value: The last value, in whatever order rows come.
listagg, string_agg: All texts in one, with something between them.
max_by: The value of the row in which another is largest.
min_by: The value of the row in which another is smallest.
regr_avgx: The average of x in pairs without NULL.
regr_avgy: The average of y in pairs without NULL.
regr_count: How many pairs are without NULL.
regr_intercept: Where the line of least squares meets x = 0.
regr_r2: How much of y the line of least squares tells.
regr_slope: How steep the line of least squares is.
regr_sxx: The sum of squared differences of x from its average.
regr_sxy: The sum of products of both differences from their averages.
regr_syy: The sum of squared differences of y from its average.
skewness: How lopsided the values lie.
theta_sketch_agg: A theta sketch of different values.
theta_union_agg: Theta sketches put together.
try_avg: The average, or NULL where it overflows.
try_sum: The sum, or NULL where it overflows.
"""


def _rows(line: str) -> list[AggregateFunction]:
    names, _, doc = line.partition(": ")
    return [AggregateFunction(name, doc, any_order=name in _ANY_ORDER) for name in names.split(", ")]


SPARK_ONLY = tuple(row for line in _ROWS.strip().splitlines() for row in _rows(line))
