"""Sizes of the merge's benchmark for tests."""

from __future__ import annotations

from benchmarks.merge.suite import Sizes

MERGE = Sizes(
    rows=20_000,
    windows=(1000, 2000),
    rounds=1,
    range_rows=8000,
    range_files=1,
    served_rows=20_000,
    line_rows=None,
    spark_rows=20_000,
    batch_rows=10_000,
    index_rows=5000,
    cubes=20,
    peers=None,
)
