"""Spark Structured Streaming: the queries of Nexmark it takes as SQL over streams, by event time, without any Python.

It reads the files that DuckDB reads, all there is at once, and throws its answer away; an answer that is counted is
that of a run of its own. Each query is asked for in append mode, then in update mode, whose answer is counted in
complete mode. Windows are over when something comes that is later, so for those a row an hour later does.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.java import prepare_environment
from benchmarks.peers.nexmark import Answer, Asked, Question
from benchmarks.progress import MicroBatch, micro_batches
from benchmarks.spark_peer import SETTINGS

STREAMS = ("person", "auction", "bid")
OWN_SETTINGS = {"spark.driver.memory": "6g", "spark.ui.enabled": "false", "spark.sql.ansi.enabled": "false"}
HOUR = 3_600_000_000


class Spark:
    """A session with the streams as views."""

    def __init__(self, asked: Asked, place: Path) -> None:
        prepare_environment()
        builder = SparkSession.builder.master(f"local[{asked.threads}]")
        options = {**SETTINGS, **OWN_SETTINGS, "spark.sql.shuffle.partitions": str(asked.threads)}
        for name, value in options.items():
            builder = builder.config(name, value)
        self._session = builder.getOrCreate()
        self._session.sparkContext.setLogLevel("ERROR")
        self._session.read.parquet(str(asked.file("side_input.parquet"))).createOrReplaceTempView("side_input")
        self._place = place
        self._runs = 0
        for name in STREAMS:
            for form in ("all", "closed"):
                (place / form / name).mkdir(parents=True)
                (place / form / name / "0.parquet").symlink_to(asked.file(f"{name}.parquet"))
            _later(asked.file(f"{name}.parquet"), place / "closed" / name / "1.parquet")

    def asked(self, question: Question) -> DataFrame:
        """The query over streams that begin."""
        form = "closed" if "window(" in question.sql else "all"
        for name in STREAMS:
            folder = str(self._place / form / name)
            schema = self._session.read.parquet(folder).schema
            stream = self._session.readStream.schema(schema).parquet(folder)
            stream.withWatermark("date_time", "0 seconds").createOrReplaceTempView(name)
        return self._session.sql(question.sql)

    def run(self, question: Question, mode: str, summed: list[tuple[int, int]] | None = None) -> list[MicroBatch]:
        """Take all in, and end; with `summed` each answer is counted and summed up into it."""
        self._runs += 1
        writer = self.asked(question).writeStream.outputMode(mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self._place / f"checkpoint-{self._runs}"))
        if summed is None:
            query = writer.format("noop").start()
        else:
            check = f"CAST(sum(CAST({question.check} AS BIGINT)) AS BIGINT)"

            def take(rows: DataFrame, _number: int) -> None:
                ((count, checksum),) = rows.selectExpr("count(*)", check).collect()
                summed.append((count, checksum or 0))

            query = writer.foreachBatch(take).start()
        query.awaitTermination()
        return micro_batches(query)


def _later(file: Path, to: Path) -> None:
    """The last row again, an hour later and of nobody."""
    rows = parquet.ParquetFile(file)
    last = rows.read_row_group(rows.num_row_groups - 1)
    last = last.slice(last.num_rows - 1)
    for number, field in enumerate(last.schema):
        if field.name == "date_time":
            later = pa.array([last.column(number).cast(pa.int64())[0].as_py() + HOUR])
            last = last.set_column(number, field, later.cast(field.type))
    parquet.write_table(last, to)


def _reason(text: str) -> str:
    """The last that Spark says by name, which is the cause of what it says before."""
    named = re.findall(r"\[[A-Z_.]+\] [^\n\[]*", text)
    return str(named[-1] if named else text.splitlines()[0])[:200].strip()


def _seconds(batches: list[MicroBatch]) -> float:
    return batches[-1].end - batches[0].began


def work(asked: Asked, place: Path) -> dict[str, Any]:
    spark = Spark(asked, place)
    answers, failed = {}, {}
    for question in (Question(**said) for said in asked.questions):
        problems = []
        for mode in ("append", "update"):
            try:
                summed: list[tuple[int, int]] = []
                spark.run(question, "complete" if mode == "update" else mode, summed)
                seconds = [_seconds(spark.run(question, mode)) for _ in range(asked.rounds)]
            except PySparkException as problem:
                problems.append(f"{mode}: {_reason(str(problem))}")
                continue
            told = summed[-1:] if mode == "update" else summed
            count, checksum = (sum(each) for each in zip(*told, strict=True))
            answers[question.name] = asdict(Answer(seconds, count, checksum))
            break
        else:
            failed[question.name] = "; ".join(problems)
    return {"version": __version__, "answers": answers, "failed": failed}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        print(json.dumps(work(Asked(**json.loads(sys.argv[1])), Path(folder))), flush=True)
