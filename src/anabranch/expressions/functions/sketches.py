"""Sketches: what tells about many values in little room."""

from __future__ import annotations

from anabranch.expressions.functions.declaring import ScalarFunction, left_to_spark

GROUP = "sketches"
_NUMBERS = ("bigint", "double", "float")
_SUMMARIES = ("double", "integer")
_KLL = """
kll_merge_agg: KLL sketches put together.
kll_sketch_agg: A KLL sketch of the values, for quantiles.
kll_sketch_get_n: How many values a KLL sketch has seen.
kll_sketch_get_quantile: About the value that a share of all does not exceed.
kll_sketch_get_rank: About the share of values that do not exceed one.
kll_sketch_merge: Two KLL sketches as one.
kll_sketch_to_string: A KLL sketch for people to read.
"""
_TUPLES = """
tuple_difference: A tuple sketch of the keys that are in the first and not in the second.
tuple_difference_theta: A tuple sketch of the keys that are not in a theta sketch.
tuple_intersection: A tuple sketch of the keys that are in both.
tuple_intersection_agg: A tuple sketch of the keys that are in all.
tuple_intersection_theta: A tuple sketch of the keys that are in a theta sketch, too.
tuple_sketch_agg: A tuple sketch of keys with a number each.
tuple_sketch_estimate: About how many keys a tuple sketch has.
tuple_sketch_summary: About the sum, or another summary, of the numbers of a tuple sketch.
tuple_sketch_theta: Which share of keys a tuple sketch holds.
tuple_union: A tuple sketch of the keys that are in either.
tuple_union_agg: Tuple sketches put together.
tuple_union_theta: A tuple sketch of the keys that are in it or in a theta sketch.
"""


def _each(lines: str, types: tuple[str, ...]) -> list[ScalarFunction]:
    """A row for each line and type: `kll_sketch_get_n_bigint`."""
    split = [line.partition(": ") for line in lines.strip().splitlines()]
    return [ScalarFunction(f"{name}_{type_}", doc, group=GROUP) for name, _, doc in split for type_ in types]


SKETCHES = (
    *left_to_spark(
        GROUP,
        """
approx_top_k_accumulate: A sketch of the most frequent values.
approx_top_k_combine: Sketches of the most frequent values put together.
approx_top_k_estimate: The most frequent values of a sketch.
hll_sketch_estimate: About how many different values a HyperLogLog sketch has seen.
hll_union: Two HyperLogLog sketches as one.
theta_difference: A theta sketch of the values that are in the first and not in the second.
theta_intersection: A theta sketch of the values that are in both.
theta_intersection_agg: A theta sketch of the values that are in all.
theta_sketch_estimate: About how many different values a theta sketch has seen.
theta_union: Two theta sketches as one.
""",
    ),
    *_each(_KLL, _NUMBERS),
    *_each(_TUPLES, _SUMMARIES),
)
