"""Plain Spark Structured Streaming: each statement is a streaming query of its own, triggered every second.

Files come at the speed of the rows' own time, one for each core and second. A row is late by the time from when its
file came to the end of the micro-batch that took it in, by Spark's own reports. Answers are counted and thrown away,
which costs least, and nothing of it is Python.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark import __version__
from pyspark.sql import SparkSession

from anabranch.spark.java import prepare_environment
from benchmarks.peers.statements import AskedInTime, Step
from benchmarks.spark_peer import SETTINGS

SCHEMAS = {
    "s": "k INT, code INT, b BIGINT, x DOUBLE, y DOUBLE, t STRING, flag BOOLEAN, at TIMESTAMP",
    "e": "k INT, level INT, at TIMESTAMP",
}
LATE = 2.0
WARM_UP_SECONDS = 4


def work(asked: AskedInTime) -> list[Step]:
    prepare_environment()
    builder = SparkSession.builder.master(f"local[{asked.threads}]")
    options = {
        **SETTINGS,
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(asked.threads),
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    statements, seconds = asked.statements("spark"), asked.rows // asked.per_second
    _run(session, asked, statements[:2], WARM_UP_SECONDS)
    return list(_climb(asked, lambda count: _run(session, asked, statements[:count], seconds)))


def _climb(asked: AskedInTime, run: Any) -> Iterator[Step]:
    """From where it is told, up while statements keep up, or down until they do."""
    place = asked.ladder.index(asked.count)
    step = run(asked.ladder[place])
    yield step
    direction = 1 if step.late <= LATE else -1
    while 0 <= (place := place + direction) < len(asked.ladder):
        step = run(asked.ladder[place])
        yield step
        if (step.late <= LATE) == (direction < 0):
            return


def _run(session: Any, asked: AskedInTime, statements: list[str], seconds: int) -> Step:
    """Start the queries, let the rows come, and see how late they are taken in."""
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        for name, schema in SCHEMAS.items():
            Path(folder, name).mkdir()
            frame = session.readStream.schema(schema).parquet(f"{folder}/{name}")
            frame.withWatermark("at", "0 seconds").createOrReplaceTempView(name)
        queries = [
            session.sql(text)
            .writeStream.format("noop")
            .option("checkpointLocation", f"{folder}/checkpoint/{number}")
            .trigger(processingTime="1 second")
            .start()
            for number, text in enumerate(statements)
        ]
        for query in queries:
            query.processAllAvailable()
        came = _feed(asked, Path(folder), seconds)
        for query in queries:
            query.processAllAvailable()
        reports = [[json.loads(report.json) for report in query.recentProgress] for query in queries]
        for query in queries:
            query.stop()
    late = max(_late(found, came, asked.per_second) for found in reports)
    counts = [sum(max(0, report["sink"]["numOutputRows"]) for report in found) for found in reports]
    return Step(len(statements), late, counts)


def _feed(asked: AskedInTime, folder: Path, seconds: int) -> list[float]:
    """Have the files of each second come at its end; gives when they came."""
    came = []
    began = time.time()
    for second in range(seconds):
        time.sleep(max(0.0, began + second + 1 - time.time()))
        for name in SCHEMAS:
            for file in sorted(asked.file(name).glob(f"{second:04d}-*.parquet")):
                os.link(file, folder / name / file.name)
        came.append(time.time())
    return came


def _late(reports: list[dict[str, Any]], came: list[float], per_second: int) -> float:
    """How late the rows of the second half were, at worst."""
    late, taken = 0.0, 0
    for report in reports:
        before = taken // per_second
        taken += next(source["numInputRows"] for source in report["sources"] if source["description"].endswith("/s]"))
        end = datetime.fromisoformat(report["timestamp"]).timestamp() + report["durationMs"]["triggerExecution"] / 1000
        waited = [end - moment for moment in came[max(before, len(came) // 2) : taken // per_second]]
        late = max([late, *waited])
    return late


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    steps = work(AskedInTime(**{**told, "ladder": tuple(told["ladder"])}))
    print(json.dumps({"steps": [asdict(step) for step in steps], "version": __version__}), flush=True)
