"""A PySpark program around a stream database: `db.ingest` takes a streaming DataFrame in, `db.dataframe` gives one out.

Files of clicks come in through Spark (it could be Kafka as well), windows of them go out, and PySpark joins these with
a table of its own.

Prints:
    12:01 Ann  2
    12:01 Ben  1
    12:02 Ann  1
"""

import json
import tempfile
from pathlib import Path

import anabranch as ab

CLICKS = [("a", "12:00:05"), ("b", "12:00:20"), ("a", "12:00:40"), ("a", "12:01:10"), ("b", "12:02:00")]

with tempfile.TemporaryDirectory() as directory, ab.open(f"{directory}/river") as db:
    files = Path(directory, "clicks")
    files.mkdir()
    lines = [json.dumps({"who": who, "at": f"2026-11-15T{time}Z"}) for who, time in CLICKS]
    (files / "first.json").write_text("\n".join(lines))

    db.sql("CREATE STREAM clicks (who STRING, at TIMESTAMP) TIMESTAMP BY at")
    counts = db.dataframe("SELECT who, count(*) AS n FROM clicks WINDOW = INTERVAL 1 MINUTE GROUP BY who")
    spark = counts.sparkSession  # the one the database has started; ab.open(…, spark=…) takes yours

    arriving = spark.readStream.schema("who STRING, at TIMESTAMP").json(str(files))
    db.ingest(arriving, "clicks", available_now=True).wait(60)  # each row exactly once, however often this is run

    names = spark.createDataFrame([("a", "Ann"), ("b", "Ben")], "who STRING, name STRING")
    result = counts.join(names, "who").writeStream.format("memory").queryName("per_minute")
    result.trigger(availableNow=True).start().awaitTermination(60)
    for row in sorted(spark.table("per_minute").collect(), key=lambda row: (row._time, row.name)):
        print(f"{row._time:%H:%M} {row.name:4} {row.n}")
