"""The table of objects: what it says is all that statements know of them, and a new kind is a row and a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.objects import OBJECTS, sayings
from anabranch.sql.reading.objects import SAYINGS
from anabranch.sql.statements import STATEMENTS, Describe, Drop, Show
from anabranch.testing.sparkless import SparklessDatabase

from .notes import NOTE, Notes


@pytest.fixture
def db(tmp_path: Path) -> SparklessDatabase:
    return SparklessDatabase(tmp_path / "river")


def refused(db: SparklessDatabase, sql: str) -> str:
    with pytest.raises(AnabranchError) as caught:
        db.sql(sql)
    return str(caught.value)


def test_text_is_read_with_the_objects_of_the_table() -> None:
    assert sayings() == tuple(SAYINGS)
    assert list(OBJECTS) == [saying.kind for saying in SAYINGS]


def test_every_statement_about_an_object_is_done_by_one_kind() -> None:
    done = [statement for kind in OBJECTS.values() for statement in kind.statements]
    assert len(done) == len(set(done))
    said = {row.statement for row in STATEMENTS}
    assert set(done) <= said
    assert {Show, Describe, Drop} <= said


def test_a_new_kind_is_a_row_and_a_file(db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    with db:
        db.sql("CREATE STREAM cars (speed INT)")
        assert "NOT_IN_THE_LANGUAGE" in refused(db, "CREATE NOTE fast ABOUT cars AS 'mind the units'")
        monkeypatch.setitem(OBJECTS, NOTE, Notes())
        assert "STREAM_NOT_FOUND" in refused(db, "CREATE NOTE fast ABOUT trains AS 'none'")
        db.sql("CREATE NOTE Fast ABOUT cars AS 'mind the units'")
        assert db.sql("SHOW NOTES").table().to_pydict() == {"note": ["Fast"]}
        described = {"property": ["name", "about", "text"], "value": ["Fast", "cars", "mind the units"]}
        assert db.sql("DESCRIBE NOTE fast").table().to_pydict() == described
        assert db.sql("DESCRIBE fast").table().to_pydict() == described
        assert refused(db, "DROP STREAM cars") == (
            'STREAM_IS_USED stream "cars" is read by note "Fast". Hint: DROP NOTE Fast first'
        )
        assert "write DROP STREAM, DROP TABLE, DROP VIEW, DROP QUERY, DROP ARCHIVE or DROP NOTE" in refused(
            db, "DROP PIPE t"
        )
        assert db.sql("DROP NOTE fast").message == 'note "Fast" dropped'
        assert db.sql("DROP NOTE IF EXISTS fast").message == 'note "fast" does not exist'
        assert "NOTE_NOT_FOUND" in refused(db, "DESCRIBE NOTE fast")
        db.sql("DROP STREAM cars")


def test_what_is_dropped_takes_its_parts_along_and_asks_who_reads_any_of_them(db: SparklessDatabase) -> None:
    with db:
        db.sql("CREATE STREAM cars (speed INT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.sql("CREATE STREAM fast AS SELECT speed, ts FROM Cars WHERE speed > 100")
        db.sql("CREATE ARCHIVE hourly ON fast USING windowed_aggregation EVERY INTERVAL 1 HOUR")
        db.sql("CREATE STREAM bad AS SELECT _reason FROM cars.rejects")
        assert 'stream "cars" is read by query "fast" and query "bad". Hint: DROP QUERY fast first, or' in refused(
            db, "DROP STREAM cars"
        )
        assert (
            'query "fast.hourly" belongs to archive "hourly" of "fast". Hint: DROP ARCHIVE hourly ON fast'
            in refused(db, "DROP STREAM `fast.hourly`")
        )
        assert 'stream "cars.rejects" belongs to stream "cars". Hint: DROP STREAM cars' in refused(
            db, "DROP STREAM cars.rejects"
        )
        db.sql("DROP STREAM fast")
        assert [query.name for query in db.queries()] == ["bad"]
        assert db.sql("SHOW ARCHIVES").table().num_rows == 0
        assert 'stream "cars.rejects" is read by query "bad"' in refused(db, "DROP STREAM cars")
        db.sql("DROP QUERY bad; DROP STREAM cars")
        assert db.streams() == []


def test_an_archive_whose_summaries_are_read_stays(db: SparklessDatabase) -> None:
    with db:
        db.sql("CREATE STREAM cars (speed INT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.sql("CREATE ARCHIVE hourly ON cars USING windowed_aggregation EVERY INTERVAL 1 HOUR")
        db.sql("CREATE CONTINUOUS QUERY seen AS SELECT * FROM `cars.hourly`")
        for statement in ("DROP ARCHIVE hourly ON cars", "DROP STREAM cars"):
            assert 'query "cars.hourly" is read by query "seen". Hint: DROP QUERY seen first' in refused(db, statement)
        db.sql("DROP QUERY seen; DROP STREAM cars")
        assert db.streams() == []
        assert db.queries() == []
