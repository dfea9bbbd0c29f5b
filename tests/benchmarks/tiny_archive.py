"""Sizes of the archives' benchmark for tests."""

from __future__ import annotations

from benchmarks.archive.overload import OverloadSizes
from benchmarks.archive.suite import Sizes

ARCHIVE = Sizes(
    rows=60_000,
    run_rows=20_000,
    rounds=1,
    together_rows=20_000,
    together_run_rows=10_000,
    queries=(0, 1, 4),
    trials=4,
    overload=OverloadSizes(
        cars=2000,
        run_rows=60_000,
        blocks=10,
        batch_rows=100,
        calibration_days=12,
        calibration_seconds=3,
        seconds=3,
        seconds_without=2,
        most_days=100,
    ),
    large_rows=50_000,
    large_run_rows=20_000,
    peers=None,
)
