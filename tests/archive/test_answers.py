"""The answers of a standing query are a stream, and so can be archived; and runs are written by Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import anabranch as ab
from anabranch.errors import AnabranchError
from anabranch.log.retention import HOLDS
from anabranch.testing.sparkless import SparklessDatabase

BASE_US = 1_767_225_600_000_000


def rows(first: int, end: int) -> pa.Table:
    numbers = np.arange(first, end)
    times = pa.array(BASE_US + numbers * 1_000).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": numbers, "key": [f"k{n % 3}" for n in numbers], "ts": times})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "db", settings={"archive_age_seconds": 3600}) as database:
        database.sql("CREATE STREAM s (id BIGINT, key STRING, ts TIMESTAMP) TIMESTAMP BY ts")
        database.sql(
            "CREATE CONTINUOUS QUERY q AS SELECT key, count(*) AS n FROM s "
            "WINDOW = INTERVAL 100 MILLISECONDS GROUP BY key"
        )
        yield database


def test_the_answers_of_a_query_are_archived_like_any_stream(db: SparklessDatabase) -> None:
    db.append("s", rows(0, 1001))
    db.catch_up()
    db.create_archive("q", "randomize_then_sort", options={"run_rows": "10", "blocks": "2"})
    assert db.archive("q").append() == 30
    db.append("s", rows(1001, 2001))
    db.catch_up()
    assert db.archive("q").append() == 60
    table = DeltaTable(db.describe_archive("q")["path"]).to_pyarrow_table().sort_by("_row")
    answers = db.get_query("q").table()
    assert table.select(answers.column_names).cast(answers.schema).equals(answers)
    assert sum(answers.column("n").to_pylist()) == 2000


def test_a_query_that_goes_takes_the_archive_of_its_answers_along(db: SparklessDatabase) -> None:
    db.append("s", rows(0, 1001))
    db.catch_up()
    db.create_archive("q", "plain")
    db.archive("q").append()
    db.sql("DROP QUERY q")
    assert db.archives.infos() == []
    db.sql("CREATE CONTINUOUS QUERY q AS SELECT id, ts FROM s")
    db.catch_up()
    with pytest.raises(AnabranchError, match="ARCHIVE_NOT_FOUND"):
        db.archive("q")
    reader = db.reader("q")
    assert (reader.first_row(), reader.end().row) == (0, 1001)
    assert db.catalog.stream_storage("q").child(HOLDS).files() == {}
    db.create_archive("q", "plain")
    assert db.archive("q").append() == 1001


@pytest.mark.usefixtures("spark")
def test_runs_that_are_large_are_written_and_joined_by_tasks_of_spark(tmp_path: Path) -> None:
    settings = {"archive_local_bytes": 0, "warm_up": 0, "archive_age_seconds": 3600}
    with ab.open(tmp_path / "db", settings=settings) as db:
        db.sql("CREATE STREAM s (id BIGINT, key STRING, ts TIMESTAMP) TIMESTAMP BY ts")
        db.create_archive("s", "on_write_replicate", options={"run_rows": "1000", "levels": "50"})
        db.append("s", rows(0, 2500))
        assert db.archive("s").append() == 2500
        db.append("s", rows(2500, 2900))
        assert db.archive("s").append() == 2900
        assert db.archive("s").join_runs(2) == 2
        about = db.describe_archive("s")["tables"]
        assert [table["runs"] for table in about.values()] == [3, 3]
        reader = db.reader("s")
        assert reader.read(0, 2900, ["id"]).column("id").to_pylist() == list(range(2900))
        found = db.sql("SELECT count(*) AS n, sum(id) AS total FROM s").table().to_pylist()
        assert found == [{"n": 2900, "total": 2900 * 2899 // 2}]
