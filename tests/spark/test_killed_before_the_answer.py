"""A process is killed when a micro-batch has kept its scratch and its answer is not yet written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as ab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

MINUTES_OF_BACKLOG = 87.5
ROWS_A_MINUTE = 12_000
SETTINGS = {"warm_up": 0, "parallelism": 2, "batch_rows": 2_000_000}

_LIFE = """
import os, sys
import numpy as np
import pyarrow as pa
import anabranch as ab
from tests.spark.test_killed_before_the_answer import MINUTES_OF_BACKLOG, ROWS_A_MINUTE, SETTINGS

def rows(first, end):
    n = np.arange(first, end)
    times = pa.array(n * (60_000_000 // ROWS_A_MINUTE)).cast(pa.timestamp("us", "UTC"))
    return pa.table({"k": pa.array(n % 2), "ts": times})

backlog = int(MINUTES_OF_BACKLOG * ROWS_A_MINUTE)
db = ab.open(sys.argv[1], settings=SETTINGS)
db.sql("CREATE STREAM s (k BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
db.append("s", rows(0, backlog))
query = db.query(
    "SELECT window_end, k, count(*) AS n FROM s WINDOW = INTERVAL 1 HOUR SLIDE INTERVAL 1 MINUTE GROUP BY k", name="q"
)
query.wait(300)
assert query.stats()["batches"] == 1, query.stats()
query._host._sink.take = lambda *answer: os.kill(os.getpid(), 9)
db.append("s", rows(backlog, backlog + 8_000))
query.wait(300)
"""


def test_a_small_micro_batch_after_a_large_one_of_two_tasks(tmp_path: Path, spark: SparkSession) -> None:
    """What it kept itself the first time speaks for less than it needs when it is run again."""
    killed = subprocess.run(
        [sys.executable, "-c", _LIFE, str(tmp_path)], stderr=subprocess.PIPE, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    scratch = next((tmp_path / "queries" / "q" / "scratch").iterdir())
    assert len(list(scratch.glob("*-of-2"))) == 2, os.listdir(scratch)
    with ab.open(tmp_path, settings=SETTINGS, queries=False) as before:
        answered = before.reader("q").end().row
    with ab.open(tmp_path, settings=SETTINGS) as db:
        table = db.get_query("q").wait(300).table()
    assert answered == 2 * int(MINUTES_OF_BACKLOG)
    assert table.num_rows == answered + 2
    a_key = ROWS_A_MINUTE // 2
    whole = [(end, k, min(end, 60) * a_key) for end in range(1, int(MINUTES_OF_BACKLOG) + 2) for k in (0, 1)]
    ends = [int(end.timestamp()) // 60 for end in table["window_end"].to_pylist()]
    assert list(zip(ends, table["k"].to_pylist(), table["n"].to_pylist(), strict=True)) == whole
