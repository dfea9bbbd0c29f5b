"""On Spark and by the machine's clock: windows of streams that stamp on arrival close in silence."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

import anabranch as ab


def test_five_seconds_after_a_row_though_no_other_comes(tmp_path: Path, spark: SparkSession) -> None:
    with ab.open(tmp_path / "db", spark=spark) as db:
        db.sql("CREATE STREAM l (x INT)")
        query = db.query("SELECT count(*) AS n FROM l WINDOW = INTERVAL 5 SECONDS")
        db.append("l", [{"x": 0}])
        query.wait(60)  # Spark is up

        def wait_for(answers: int) -> float:
            began = time.time()
            while query.table().num_rows < answers:
                assert time.time() < began + 60, "time stands still"
                time.sleep(0.01)
            return time.time()

        wait_for(1)
        waited = []
        for x in range(2):
            time.sleep(5 - time.time() % 5 + 0.2)  # at the beginning of a window
            db.append("l", [{"x": x}])
            end = (time.time() // 5 + 1) * 5
            waited.append(wait_for(x + 2) - end)
        assert query.table().column("n").to_pylist() == [1, 1, 1]
        assert min(waited) < 1.0, waited
