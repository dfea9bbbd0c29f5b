"""Sizes of the windows benchmark for tests."""

from __future__ import annotations

from benchmarks.windows.bars import BarSizes
from benchmarks.windows.cells import Effort
from benchmarks.windows.figures import FigureSizes
from benchmarks.windows.spark import SparkSizes

FIGURES_SIZES = FigureSizes(
    window=1000, large_window=2000, basic_windows=(5, 20), distinct=(10, 100), effort=Effort(rounds=1, seconds=0)
)
BARS = BarSizes(windows=(2000, 5000), rounds=1, slides=10, peer_slides=2, flat_rows=20_000, least_tuples=4000)
SPARK = SparkSizes(
    median_rows=4000,
    median_windows=((1000, 500),),
    peer_slides=2,
    overlap_rows=20_000,
    peer_rows=2000,
    batch_rows=2000,
    rounds=1,
)
