"""The Python face over a real Spark session: queries, ingestion, DataFrames, and what goes wrong."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ab.Database]:
    with ab.open(tmp_path / "river", settings={"warm_up": 0}) as database:
        database.sql("CREATE STREAM packets (id BIGINT, key STRING, length INT, ts TIMESTAMP) TIMESTAMP BY ts")
        yield database


def packets(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "key": f"k{i % 3}", "length": 10 * i, "ts": START + dt.timedelta(seconds=i)} for i in ids]


def test_a_windowed_query_has_its_stream_store_scratch_and_throw(db: ab.Database) -> None:
    db.append("packets", packets(*range(25)))
    q = db.query(
        "SELECT key, count(*) AS n FROM packets WINDOW = INTERVAL 10 SECONDS WHERE id <> 3 GROUP BY key", name="w"
    )
    q.wait(60)
    assert [(r["key"], r["n"]) for r in q.table().to_pylist()] == [
        ("k0", 3), ("k1", 3), ("k2", 3), ("k0", 3), ("k1", 4), ("k2", 3)
    ]  # fmt: skip
    assert [(r["key"], r["n"]) for r in q.store().to_pylist()] == [("k0", 3), ("k1", 4), ("k2", 3)]
    stats = q.stats()
    assert (stats["rows_in"], stats["stream"]["rows"], stats["store"]["rows"]) == (25, 6, 3)
    assert stats["throw"]["rows"] == 1
    assert stats["scratch"]["bytes"] > 0
    assert stats["behind_rows"] == 0
    # The answers go on live, from any number, and a closed window's Store empties when time goes on without rows.
    db.append("packets", packets(25, 31))
    q.wait(60)
    assert [b.num_rows for b in q.stream(start=6)] == [3]
    db.advance("packets", START + dt.timedelta(seconds=100))
    q.wait(60)
    assert q.store().num_rows == 0
    assert q.table().num_rows == 10


def test_asking_again_for_a_query_gives_the_same_one_and_another_select_is_refused(db: ab.Database) -> None:
    q = db.query("SELECT id, ts FROM packets", name="all")
    assert db.query("SELECT id,  ts FROM packets", name="ALL") is q
    with pytest.raises(AnabranchError, match="NAME_EXISTS"):
        db.query("SELECT id FROM packets", name="all")
    with pytest.raises(AnabranchError, match='STREAM_IS_USED stream "packets" is read by query "all"'):
        db.sql("DROP STREAM packets")
    with pytest.raises(AnabranchError, match="STREAM_IS_AN_ANSWER"):
        db.append("all", packets(1))


def test_a_query_can_be_dropped_and_made_anew_under_its_name(db: ab.Database) -> None:
    db.append("packets", packets(*range(4)))
    for low in (1, 2):
        q = db.query(f"SELECT id, ts FROM packets WHERE id >= {low}", name="q")
        assert q.wait(60).table().column("id").to_pylist() == list(range(low, 4))
        db.sql("DROP QUERY q")
    assert db.sql("SHOW QUERIES").table().num_rows == 0


def test_a_kill_while_the_first_offsets_were_written_does_not_stop_a_query_for_good(
    db: ab.Database, tmp_path: Path
) -> None:
    db.append("packets", packets(*range(4)))
    left = tmp_path / "river" / "queries" / "q" / "checkpoint" / "offsets"
    left.mkdir(parents=True)
    (left / ".0.e3b0c442-98fc-4c14-9afb-f4c8996fb924.tmp").write_text("v1\n{")
    q = db.query("SELECT id, ts FROM packets", name="q")
    assert q.wait(60).table().column("id").to_pylist() == list(range(4))


def test_following_a_query_ends_when_it_is_dropped(db: ab.Database) -> None:
    db.append("packets", packets(*range(4)))
    q = db.query("SELECT id, ts FROM packets", name="q").wait(60)
    answers = q.stream(follow=True)
    assert next(answers).num_rows == 4
    q.drop()
    assert list(answers) == []


def test_a_wrong_question_prints_no_stack(db: ab.Database, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnabranchError, match="SQL_NOT_UNDERSTOOD"):
        db.sql("SELECT count(*) AS n FROM packets WHERE ts > 0")
    said = capfd.readouterr()
    assert said.out == said.err == ""


def test_what_arrow_cannot_evaluate_spark_does(db: ab.Database) -> None:
    db.append("packets", packets(*range(4)))
    q = db.query(
        "SELECT upper(key) AS key, date_format(ts, 'ss') AS s FROM packets WHERE length > 0 AND key RLIKE '[12]'"
    )
    q.wait(60)
    assert [(r["key"], r["s"], r["_time"]) for r in q.table().to_pylist()] == [
        ("K1", "01", START + dt.timedelta(seconds=1)), ("K2", "02", START + dt.timedelta(seconds=2))
    ]  # fmt: skip


def test_a_query_that_fails_says_why_without_a_java_stack(db: ab.Database) -> None:
    db.append("packets", [{"id": 2**62, "key": "k", "length": 1, "ts": START}] * 3 + packets(60))
    q = db.query("SELECT sum(id) AS total FROM packets WINDOW = INTERVAL 10 SECONDS", name="much")
    with pytest.raises(AnabranchError) as caught:
        q.wait(60)
    assert caught.value.name == "SUM_OVERFLOW"
    assert "java" not in str(caught.value)
    assert q.status == "failed"


def test_a_value_of_100_mb_goes_through_a_query(db: ab.Database) -> None:
    db.append("packets", [{"id": 1, "key": "x" * 100_000_000, "length": 1, "ts": START}])
    q = db.query("SELECT key, ts FROM packets WHERE length = 1", name="huge")
    assert len(q.wait(120).table().column("key")[0].as_py()) == 100_000_000


def test_one_time_questions_use_all_of_spark_sql(db: ab.Database) -> None:
    db.append("packets", packets(*range(10)))
    result = db.sql("""
        WITH big AS (SELECT key, max(length) AS most FROM packets GROUP BY key)
        SELECT p.id, row_number() OVER (ORDER BY p.id DESC) AS place
        FROM packets p JOIN big b ON p.key = b.key AND p.length = b.most ORDER BY place LIMIT 2""")
    assert list(result) == [{"id": 9, "place": 1}, {"id": 8, "place": 2}]
    windows = db.sql("SELECT count(*) AS n FROM packets WINDOW = 4 ROWS")
    assert [r["n"] for r in windows] == [4, 4]
    with pytest.raises(AnabranchError, match="TABLE_NOT_ALLOWED"):
        db.sql("SELECT * FROM csv.`/etc/passwd`")


def test_any_streaming_dataframe_is_ingested_exactly_once(db: ab.Database, spark: Any, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()

    def deliver(name: str, *ids: int) -> None:
        import pyarrow.parquet as pq

        schema = db.catalog.schema("packets").arrow
        pq.write_table(pa.Table.from_pylist(packets(*ids), schema=schema), files / f"{name}.parquet")

    def run() -> None:
        frame = spark.readStream.schema("id BIGINT, key STRING, length INT, ts TIMESTAMP").parquet(str(files))
        db.ingest(frame, "packets", available_now=True).wait(60)

    deliver("a", 3, 1, 2)
    run()
    deliver("b", 4, 5)
    run()
    run()
    assert db.tail("packets", 10).column("id").to_pylist() == [1, 2, 3, 4, 5]
    with pytest.raises(AnabranchError, match='COLUMN_NOT_FOUND column "value"'):
        db.ingest(spark.readStream.format("rate").load().selectExpr("value"), "packets")
    with pytest.raises(AnabranchError, match="FRAME_IS_NOT_STREAMING"):
        db.ingest(spark.range(3), "packets")


def test_a_select_is_a_streaming_dataframe_for_spark_programs(db: ab.Database, tmp_path: Path) -> None:
    db.append("packets", packets(*range(5)))
    frame = db.dataframe("SELECT id, length * 2 AS twice, ts FROM packets WHERE id > 2")
    assert frame.isStreaming
    seen: list[tuple[int, int]] = []

    def take(batch: Any, number: int) -> None:
        seen.extend((r.id, r.twice) for r in batch.collect())

    stream = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "c"))
    stream.trigger(availableNow=True).start().awaitTermination(60)
    assert seen == [(3, 60), (4, 80)]


def test_a_second_process_reads_but_does_not_write_or_run(db: ab.Database) -> None:
    db.append("packets", packets(1, 2))
    db.query("SELECT id, ts FROM packets", name="all").wait(60)
    code = """
import sys, anabranch as ab
with ab.open(sys.argv[1]) as db:
    print(db.tail("all").column("id").to_pylist(), db.get_query("all").status)
    for statement in ("STOP QUERY all", "DROP QUERY all", "START QUERY all", "INSERT INTO packets (id) VALUES (1)"):
        try:
            db.sql(statement)
        except ab.AnabranchError as problem:
            print(problem.name)
    print("pyspark" in sys.modules)
"""
    said = subprocess.run([sys.executable, "-c", code, db.path], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "[1, 2] elsewhere", "QUERY_RUNS_ELSEWHERE", "QUERY_RUNS_ELSEWHERE", "QUERY_RUNS_ELSEWHERE",
        "STREAM_IS_BEING_WRITTEN", "False",
    ]  # fmt: skip
    assert db.get_query("all").status == "running"


def test_a_session_that_was_handed_in_is_used_and_left_running(spark: Any, tmp_path: Path) -> None:
    with ab.open(tmp_path / "r", spark=spark) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append("s", [{"id": 7, "ts": START}])
        assert db.query("SELECT id, ts FROM s", name="q").wait(60).table().column("id").to_pylist() == [7]
    assert spark.range(3).count() == 3


def test_rows_a_query_has_yet_to_read_outlive_retention(tmp_path: Path) -> None:
    with ab.open(tmp_path / "r", settings={"warm_up": 0, "segment_parts": 1}) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 10 SECONDS")
        q = db.query("SELECT count(*) AS n, min(id) AS first FROM s WINDOW = INTERVAL 1 MINUTE", name="q")
        q.wait(60)
        q.stop()
        for i in range(60):
            db.append("s", [{"id": i, "ts": START + dt.timedelta(seconds=3 * i)}])
        q.start()
        assert [(r["n"], r["first"]) for r in q.wait(60).table().to_pylist()] == [(20, 0), (20, 20)]
        # Now the past may go.
        for i in range(60, 70):
            db.append("s", [{"id": i, "ts": START + dt.timedelta(seconds=3 * i)}])
            q.wait(60)
        assert db.reader("s").end().row == 70
        reader = db.reader("s")
        reader.refresh()
        assert reader.first_row() > 30


def test_options_of_a_stream_are_its_own_settings(db: ab.Database) -> None:
    db.sql("CREATE STREAM free (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts OPTIONS (future_limit_seconds '0')")
    db.append("free", [{"id": 1, "ts": dt.datetime(2999, 1, 1, tzinfo=dt.UTC)}])
    assert db.tail("free").num_rows == 1
    with pytest.raises(AnabranchError, match='SETTING_NOT_FOUND "segment_byte" is not an option of a stream'):
        db.sql("CREATE STREAM other (id BIGINT) OPTIONS (segment_byte '1')")


def test_queries_with_a_rest_in_spark_sql_that_start_together_each_see_their_own_rows(
    db: ab.Database, spark: SparkSession
) -> None:
    for number in range(4):
        db.sql(f"CREATE STREAM s{number} (c{number} STRING, at TIMESTAMP) TIMESTAMP BY at")
    numbers = [number % 4 for number in range(24)]
    before = {table.name for table in spark.catalog.listTables()}
    with ThreadPoolExecutor(8) as threads:
        frames = threads.map(lambda n: db.dataframe(f"SELECT soundex(c{n}) AS x{n} FROM s{n}"), numbers)
        assert [frame.columns for frame in frames] == [[f"x{n}", "_time"] for n in numbers]
    assert {table.name for table in spark.catalog.listTables()} == before
