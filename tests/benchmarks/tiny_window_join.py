"""Sizes of the window join's benchmark for tests."""

from __future__ import annotations

from benchmarks.window_join.figure7 import FigureSizes
from benchmarks.window_join.memory import MemorySizes
from benchmarks.window_join.suite import Sizes

FIGURE7 = FigureSizes(days=2, sales=600, items=60, rounds=1, capacity=1 << 14)
MEMORY = MemorySizes(rows=400_000, rate=5000, window_seconds=4, keys=20_000, step=100_000)
JOIN = Sizes(
    rows=6000,
    keys=5000,
    batch_rows=2000,
    backlog_batch_rows=6000,
    rounds=1,
    slow_rows=1000,
    chain_rows=4000,
    chain_keys=2000,
    chain_batch_rows=2000,
    band_rows=3000,
    dense_band_rows=1000,
    growth_rows=30_000,
    growth=2,
    figure7=FIGURE7,
    peers=None,
)
