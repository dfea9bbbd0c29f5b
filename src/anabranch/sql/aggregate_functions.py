"""Which functions are aggregates, and which of them windows can compute.

The classes are those of L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line
Data Streams" (2003), § 4.2: what can be put together from partial values of panes, and what needs a
histogram of the window.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.sql.safety import called

FUNCTIONS: dict[str, str] = {
    "count": "count",
    "count_if": "count_if",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "avg": "avg",
    "mean": "avg",
    "stddev": "stddev",
    "std": "stddev",
    "stddev_samp": "stddev",
    "stddev_pop": "stddev_pop",
    "variance": "variance",
    "var_samp": "variance",
    "var_pop": "var_pop",
    "median": "median",
    "percentile": "percentile",
    "quantile": "percentile",
    "percentile_cont": "percentile_cont",
    "percentile_disc": "percentile_disc",
    "mode": "mode",
    "approx_percentile": "approx_percentile",
    "percentile_approx": "approx_percentile",
    "approx_median": "approx_median",
    "approx_count_distinct": "approx_count_distinct",
}
"""The aggregates of windows by all names there are for them, and the one they are called by."""

AVAILABLE = ", ".join(sorted(set(FUNCTIONS.values())))
"""The aggregates of windows, as hints list them."""

EXACT_WITH_HISTOGRAM = ("median", "percentile", "percentile_disc", "mode", "count_distinct")
"""The operator's functions that need the values of the window and how often each is there."""

APPROXIMATE_WITH_HISTOGRAM = ("approx_percentile",)
"""Those for which counts of ranges of values are enough."""

_OTHER = """
any any_value approx_top_k array_agg bit_and bit_or bit_xor
bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set corr
count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric
hll_sketch_agg hll_union_agg kurtosis last last_value listagg max_by min_by
regr_avgx regr_avgy regr_count regr_intercept regr_r2
regr_slope regr_sxx regr_sxy regr_syy skewness some string_agg theta_sketch_agg theta_union_agg try_avg try_sum
"""
OTHER_AGGREGATES = frozenset(_OTHER.split())
"""Spark's other aggregates, which a one-time SELECT can use."""


def aggregate_name(node: exp.Expr) -> str | None:
    """The aggregate a node calls, ours or any of Spark's; None for anything else."""
    name = called(node.this if isinstance(node, exp.WithinGroup) else node)
    return FUNCTIONS.get(name, name if name in OTHER_AGGREGATES else None)


def is_aggregate(tree: exp.Select) -> bool:
    """True if the query groups, or calls an aggregate."""
    if tree.args.get("group") is not None or tree.args.get("having") is not None:
        return True
    return any(aggregate_name(node) for item in tree.expressions for node in item.walk())
