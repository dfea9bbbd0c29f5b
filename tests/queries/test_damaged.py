"""A declaration that cannot be read costs one query or stream, not the database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError, QueryError
from anabranch.log import Storage
from anabranch.queries.checkpoint import mend_ingest
from anabranch.testing.sparkless import SparklessDatabase
from tests.queries.test_checkpoint import rows


@pytest.fixture
def river(tmp_path: Path) -> Path:
    path = tmp_path / "river"
    with SparklessDatabase(path) as db:
        for stream in ("s", "t"):
            db.sql(f"CREATE STREAM {stream} (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
            db.append(stream, rows(0, 100))
            db.query(f"SELECT id, ts FROM {stream} WHERE id < 10", name=f"of_{stream}")
        db.catch_up()
    return path


def flip(file: Path) -> None:
    """One letter of a name becomes another: still JSON."""
    text = file.read_text()
    assert '"id"' in text or '"sql"' in text
    file.write_text(text.replace("id", "ie"))


def empty(file: Path) -> None:
    file.write_bytes(b"")


def lose(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("harm", [flip, empty, lose])
def test_a_query_whose_declaration_is_damaged_has_failed_and_the_rest_opens(
    harm: Callable[[Path], None], river: Path
) -> None:
    harm(river / "queries" / "of_s" / "query.json")
    with SparklessDatabase(river) as db:
        shown = {row["query"]: row["status"] for row in db.sql("SHOW QUERIES").table().to_pylist()}
        assert shown == {"of_s": "failed", "of_t": "running"}
        query = db.get_query("of_s")
        with pytest.raises(AnabranchError, match="DECLARATION_IS_DAMAGED"):
            query.start()
        assert db.reader("of_s").end().row == 10
        db.append("t", rows(100, 101))
        db.drop_query("of_s")
        assert [each.name for each in db.queries()] == ["of_t"]


@pytest.mark.parametrize("harm", [flip, empty, lose])
def test_a_stream_whose_declaration_is_damaged_says_so_and_is_not_made_anew(
    harm: Callable[[Path], None], river: Path
) -> None:
    harm(river / "streams" / "s" / "stream.json")
    with SparklessDatabase(river) as db:
        origins = {row["name"]: row["origin"] for row in db.overview()["streams"]}
        assert origins["s"].startswith("damaged")
        shown = {row["query"]: row["status"] for row in db.sql("SHOW QUERIES").table().to_pylist()}
        assert shown == {"of_s": "failed", "of_t": "running"}
        with pytest.raises(AnabranchError, match="DECLARATION_IS_DAMAGED"):
            db.append("s", rows(100, 101))
        with pytest.raises(AnabranchError, match="NAME_EXISTS"):
            db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.catch_up()
        db.append("t", rows(100, 101))


def spark_checkpoint(path: Path, batches: int) -> Storage:
    for log in ("offsets", "commits"):
        (path / log).mkdir(parents=True)
        for number in range(batches):
            (path / log / str(number)).write_text('v1\n{}\n{"logOffset":1}')
    (path / "metadata").write_text('{"id":"x"}')
    return Storage(str(path))


def test_an_ingestion_whose_checkpoint_is_lost_is_refused(tmp_path: Path) -> None:
    mend_ingest(Storage(str(tmp_path / "new")), "i", -1)
    with pytest.raises(QueryError, match="CHECKPOINT_IS_LOST"):
        mend_ingest(Storage(str(tmp_path / "new")), "i", 3)
    mend_ingest(spark_checkpoint(tmp_path / "a", 4), "i", 3)
    with pytest.raises(QueryError, match="CHECKPOINT_IS_LOST"):
        mend_ingest(spark_checkpoint(tmp_path / "b", 3), "i", 3)


def test_what_a_power_cut_left_of_an_ingestion_is_removed(tmp_path: Path) -> None:
    checkpoint = spark_checkpoint(tmp_path / "c", 5)
    (tmp_path / "c" / "commits" / "4").write_bytes(b"")
    (tmp_path / "c" / "offsets" / "4").write_bytes(b"")
    mend_ingest(checkpoint, "i", 3)
    assert not (tmp_path / "c" / "offsets" / "4").exists()
    assert not (tmp_path / "c" / "commits" / "4").exists()
    (tmp_path / "c" / "offsets" / "3").write_bytes(b"")
    with pytest.raises(QueryError, match="CHECKPOINT_IS_LOST"):
        mend_ingest(checkpoint, "i", 3)
