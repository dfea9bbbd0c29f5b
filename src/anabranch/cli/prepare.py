"""`anabranch prepare`: done once, every later start of Spark takes about a third less."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
from anabranch.cli.running import run as run_beside_a_spinner
from anabranch.cli.terminal import seconds
from anabranch.spark.classes import archive_of, class_path, make_ready, recording
from anabranch.spark.java import JavaHome, find_java

if TYPE_CHECKING:
    from anabranch import Database


def run(args: argparse.Namespace) -> int:
    """The command: 0 if Spark's classes are ready."""
    began = time.monotonic()
    java = find_java()
    archive = archive_of(java)
    made = archive is None
    if archive is None:
        archive = run_beside_a_spinner(lambda: _make_ready(java), lambda: "making Spark's classes ready", lambda: None)
    took, size = time.monotonic() - began, archive.stat().st_size
    if args.json:
        print(json.dumps({"classes": str(archive), "made": made, "bytes": size, "seconds": round(took, 3)}))
    elif made:
        print(f"Spark's classes are ready after {seconds(took)}: {archive}, {size / 1e6:.0f} MB")
    else:
        print(f"Spark's classes were ready before: {archive}, {size / 1e6:.0f} MB")
    return 0


def _make_ready(java: JavaHome) -> Path:
    with tempfile.TemporaryDirectory(prefix="anabranch-") as folder:
        classes = Path(folder, "classes")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {recording(classes)}".strip()
        with anabranch.open(Path(folder, "db")) as db:
            _use(db)
            where = class_path(db.spark)
        return make_ready(java, classes, where)


def _use(db: Database) -> None:
    """What most people do first: a standing query of ours, one with a rest in Spark SQL, a question."""
    db.sql("CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY ts")
    db.sql("INSERT INTO s VALUES (TIMESTAMP '2026-01-01 00:00:00', 'a', 1), (TIMESTAMP '2026-01-01 00:00:01', 'b', 2)")
    queries = [db.query("SELECT k, x FROM s"), db.query("SELECT upper(k) AS k, sha2(k, 256) AS h FROM s WHERE x > 0")]
    for query in queries:
        query.wait()
    db.spark.range(10).selectExpr("id % 3 AS k", "id").groupBy("k").sum("id").orderBy("k").collect()
