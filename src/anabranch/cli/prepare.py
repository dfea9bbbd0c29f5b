"""`anabranch prepare`: done once, later starts of Spark take a third less, and no query waits for a compiler."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anabranch
from anabranch.cli.kernels import compile_beside
from anabranch.cli.running import run as run_beside_a_spinner
from anabranch.cli.terminal import seconds
from anabranch.spark.classes import archive_of, class_path, make_ready, recording
from anabranch.spark.java import JavaHome, find_java

if TYPE_CHECKING:
    from anabranch import Database

T = TypeVar("T")


def run(args: argparse.Namespace) -> int:
    """The command: 0 if both are ready."""
    began = time.monotonic()
    compiling = compile_beside()
    try:
        java = find_java()
        archive = archive_of(java)
        made = archive is None
        if archive is None:
            archive = _beside_a_spinner(lambda: _make_ready(java), "making Spark's classes ready")
    finally:  # also where Spark has none: merges are not worse for it
        compiled = not any(_beside_a_spinner(lambda: [process.wait() for process in compiling], "compiling"))
    took, size = time.monotonic() - began, archive.stat().st_size
    if args.json:
        said = {"classes": str(archive), "made": made, "bytes": size, "compiled": compiled, "seconds": round(took, 3)}
        print(json.dumps(said))
    else:
        when = f"after {seconds(took)}" if made else "since before"
        print(f"Spark's classes are ready {when}: {archive}, {size / 1e6:.0f} MB")
        print("all loops are compiled" if compiled else "loops are compiled when they are first called")
    return 0


def _beside_a_spinner(work: Callable[[], T], saying: str) -> T:
    return run_beside_a_spinner(work, lambda: saying, lambda: None)


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
