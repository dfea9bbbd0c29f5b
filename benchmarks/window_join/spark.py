"""Spark's own stream-stream joins of the same rows: two streams, and chains of them.

They are given what suits them: state on the heap backed by files (RocksDB was slower when tried before),
as many partitions as cores, no micro-batches without rows, code generation, and rows that stay in the JVM.
A chain may carry one event time, that of the stream joined last; times of the streams before it go along as numbers,
for the windows that bind them.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet

from anabranch.database import Database
from benchmarks.harness import check
from benchmarks.progress import MicroBatch, micro_batches
from benchmarks.spark_peer import SETTINGS
from benchmarks.window_join.data import Answer, answer_of
from benchmarks.window_join.runs import Ran, Windows

STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
LATENESS = "1 second"
"""Rows as old as the watermark are dropped, so it is kept a little behind."""


class SparkJoins:
    """Runs joins over Parquet files under `root`, a file of each stream per micro-batch."""

    def __init__(self, db: Database, root: Path) -> None:
        self._session = db.spark.newSession()
        self._root = root
        cores = int(self._session.sparkContext.defaultParallelism)
        for name, value in {**SETTINGS, **STATE, "spark.sql.shuffle.partitions": str(cores)}.items():
            self._session.conf.set(name, value)

    def fill(self, name: str, tables: Sequence[pa.Table], batch_rows: int) -> None:
        for stream, table in enumerate(tables):
            folder = self._root / name / str(stream)
            folder.mkdir(parents=True)
            for number, low in enumerate(range(0, table.num_rows, batch_rows)):
                path = folder / f"{number:06d}.parquet"
                parquet.write_table(table.slice(low, batch_rows), path)
                # Spark takes files by the time of their last change: that must follow their numbers.
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def run(self, name: str, windows: Windows, rows: int, expected: Answer) -> Ran:
        """Take in all files of `rows` rows in all, and end."""
        place = self._root / name / "run"
        shutil.rmtree(place, ignore_errors=True)
        streams = 1 + max(j for _, j in windows)
        began = time.time()
        query = (
            self._joined(self._root / name, streams, windows)
            .writeStream.format("parquet")
            .outputMode("append")
            .option("path", str(place / "answer"))
            .option("checkpointLocation", str(place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        batches = [batch for batch in micro_batches(query) if batch.rows]
        files = [str(file) for file in sorted((place / "answer").glob("*.parquet"))]
        answer = dataset.dataset(files, format="parquet").to_table([f"v{i}" for i in range(streams)])
        got = answer_of(answer.columns)
        check(got == expected, f"Spark's join of {streams} streams answered {got}, not {expected}")
        shutil.rmtree(place)
        return Ran(rows, batches[0].rows * streams, batches[-1].end - began, batches)

    def refuses(self, name: str, windows: Windows) -> str | None:
        """Why Spark does not take a join, or None if it does."""
        from pyspark.errors import AnalysisException

        place = self._root / name / "tried"
        joined = self._joined(self._root / name, 1 + max(j for _, j in windows), windows)
        try:
            query = joined.writeStream.format("noop").option("checkpointLocation", str(place)).start()
            query.stop()
        except AnalysisException as problem:
            return str(problem).splitlines()[0]
        return None

    def _joined(self, folder: Path, streams: int, windows: Windows) -> Any:
        from pyspark.sql import functions as f

        def stream(number: int) -> Any:
            rows = self._session.readStream.schema("k BIGINT, v BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
            return rows.parquet(str(folder / str(number))).withWatermark("ts", LATENESS)

        left = stream(0).withColumnRenamed("v", "v0")
        for j in range(1, streams):
            right = stream(j).toDF("key", f"v{j}", "time")
            near = windows[j - 1, j]
            bound = f"time BETWEEN ts - INTERVAL {near} MILLISECONDS AND ts + INTERVAL {near} MILLISECONDS"
            further = [
                f"abs(unix_millis(time) - t{i}) <= {window}"
                for (i, to), window in windows.items()
                if to == j and i < j - 1
            ]
            joined = left.join(right, f.expr(" AND ".join(["k = key", bound, *further])))
            carried = [f"t{i}" for i in range(j - 1)]
            values = [f"v{i}" for i in range(j + 1)]
            now = [f"unix_millis(ts) AS t{j - 1}"] if j < streams - 1 else []
            left = joined.selectExpr("k", *values, *carried, *now, "time AS ts")
        return left.select("k", *(f"v{i}" for i in range(streams)))


def breakdown(batches: list[MicroBatch]) -> list[int]:
    """Milliseconds of each micro-batch."""
    return [batch.milliseconds["triggerExecution"] for batch in batches]
