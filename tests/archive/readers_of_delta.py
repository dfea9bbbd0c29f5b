"""A program of its own: reads a Delta table with Spark and Delta's own jar, and says what it found as JSON."""

from __future__ import annotations

import json
import sys


def main(table: str, package: str) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", package)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    spark.read.format("delta").load(table).createOrReplaceTempView("archive")
    rows = spark.sql("SELECT count(*), sum(v), count(v), min(_row), max(_row), count(lane) FROM archive").first()
    assert rows is not None
    versions = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").count()
    first = spark.read.format("delta").option("versionAsOf", 1).load(table).count()
    print(json.dumps({"rows": list(rows), "versions": versions, "first": first}))


if __name__ == "__main__":
    main(*sys.argv[1:])
