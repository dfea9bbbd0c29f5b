"""On Spark: a checkpoint that is lost or not whole costs no answer, and no other query."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from tests.queries.test_checkpoint import empty_commit, empty_offset, lose_all, lose_metadata, rows

pytestmark = pytest.mark.usefixtures("spark")

HARM: list[Callable[[Path], None]] = [lose_all, lose_metadata, empty_offset, empty_commit]
SELECT = "SELECT id, id * 2 AS twice, ts FROM s"


def test_answers_are_whole_after_checkpoints_were_lost(tmp_path: Path) -> None:
    path = tmp_path / "river"
    with ab.open(path, settings={"batch_rows": 500, "warm_up": 0}) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        queries = [db.query(SELECT, name=harm.__name__) for harm in HARM]
        db.append("s", rows(0, 1000))
        for query in queries:
            query.wait(120)
    for harm in HARM:
        harm(path / "queries" / harm.__name__ / "checkpoint")
    shutil.rmtree(path / "queries" / "lose_all" / "scratch", ignore_errors=True)
    with ab.open(path, settings={"batch_rows": 500, "warm_up": 0}) as db:
        db.append("s", rows(1000, 4000))
        for harm in HARM:
            query = db.get_query(harm.__name__)
            query.wait(120)
            table: pa.Table = query.table()
            assert table.column("id").to_pylist() == list(range(4000)), harm.__name__
            assert query.status == "running"
            # On a busy machine it may also have been started again.
            assert "checkpoint_was_renewed" in [event["event"] for event in query.events()]
