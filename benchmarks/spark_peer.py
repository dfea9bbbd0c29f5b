"""The same query written directly in Spark Structured Streaming, with settings that suit it.

Its session keeps the fast checkpoint of ours, and gets back what ours turns off: whole-stage code
generation. Nothing of it is Python: rows stay in the JVM from the Parquet files to the sink.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet
from pyspark.sql import functions as f

from benchmarks.packets import LENGTH_ABOVE, WINDOW
from benchmarks.progress import KEPT, MicroBatch, micro_batches

SETTINGS = {
    KEPT: "100000",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
SCHEMA = "ts TIMESTAMP, saddr STRING, daddr STRING, id BIGINT, length INT"


class SparkPeer:
    """Runs the query over files under `root`."""

    def __init__(self, session: Any, root: Path) -> None:
        self._session = session
        self._root = root
        self._input = root / "input"
        self._input.mkdir(parents=True)
        self._cores = int(session.sparkContext.defaultParallelism)
        for name, value in {**SETTINGS, "spark.sql.shuffle.partitions": str(self._cores)}.items():
            session.conf.set(name, value)

    def fill(self, batches: Iterator[pa.Table], batch_rows: int) -> None:
        """Write the rows as Parquet: a file for each core and micro-batch."""
        per_file = -(-batch_rows // self._cores)
        for number, table in enumerate(_recut(batches, batch_rows, per_file)):
            path = self._input / f"{number:06d}.parquet"
            parquet.write_table(table, path)
            # Spark takes files by the time of their last change: that must follow their numbers.
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def run(self, name: str) -> list[MicroBatch]:
        """Take in every file, and end. Gives its micro-batches that had rows."""
        rows = self._session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", self._cores)
        window = f.window("ts", f"{WINDOW // 1_000_000} seconds")
        counts = (
            rows.parquet(str(self._input))
            .where(f"length > {LENGTH_ABOVE}")
            .withWatermark("ts", "0 seconds")
            .groupBy(window.alias("w"), "saddr")
            .agg(f.count("*").alias("n"))
            .select("saddr", f.col("w.end").alias("window_end"), "n")
        )
        query = (
            counts.writeStream.format("parquet")
            .outputMode("append")
            .option("path", str(self._root / name / "answer"))
            .option("checkpointLocation", str(self._root / name / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [batch for batch in micro_batches(query) if batch.rows]

    def answer(self, name: str) -> pa.Table:
        """All rows it has written."""
        files = sorted((self._root / name / "answer").glob("*.parquet"))
        return dataset.dataset([str(file) for file in files], format="parquet").to_table()

    def forget(self, name: str) -> None:
        shutil.rmtree(self._root / name)


def _recut(batches: Iterator[pa.Table], batch_rows: int, per_file: int) -> Iterator[pa.Table]:
    """The same rows in tables of `per_file`, with a cut after each `batch_rows`."""
    held = None
    for table in batches:
        held = table if held is None else pa.concat_tables([held, table])
        while held.num_rows >= batch_rows:
            for low in range(0, batch_rows, per_file):
                yield held.slice(low, min(per_file, batch_rows - low))
            held = held.slice(batch_rows)
    if held is not None and held.num_rows:
        for low in range(0, held.num_rows, per_file):
            yield held.slice(low, per_file)
