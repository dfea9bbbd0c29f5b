"""A limit on how fast archives are read holds, and without one nobody waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.archive.allowance import ALLOWANCE
from anabranch.schema import TIME_TYPE
from anabranch.testing.sparkless import SparklessDatabase

ROWS = 20_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts")
        db.create_archive("s", "randomize_then_sort", options={"run_rows": str(ROWS)})
        values = np.random.default_rng(1).integers(0, 1 << 60, ROWS)
        db.append("s", pa.table({"ts": pa.array(np.arange(ROWS)).cast(TIME_TYPE), "v": pa.array(values)}))
        db.archive("s").append(all_rows=True)
        yield db
    ALLOWANCE.limit(0)


def seconds_of(db: SparklessDatabase, reduced_by: float) -> float:
    began = time.monotonic()
    db.sql(f"SELECT sum(v) AS total FROM ARCHIVE s REDUCE BY uniform({reduced_by})")
    return time.monotonic() - began


def test_reads_take_as_long_as_the_limit_says_and_reduced_ones_less(db: SparklessDatabase) -> None:
    seconds_of(db, 0.0)
    db.settings = db.settings.but(archive_bytes_per_second=400_000)
    # 20,000 values of 8 bytes are 160,000 bytes, and those of numbers and times come on top.
    assert seconds_of(db, 0.0) > 0.25
    time.sleep(0.2)
    assert seconds_of(db, 0.9) < 0.2
    db.settings = db.settings.but(archive_bytes_per_second=0)
    assert seconds_of(db, 0.0) < 0.2
