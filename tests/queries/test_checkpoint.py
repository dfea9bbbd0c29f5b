"""A query goes on from what its answers say, whatever became of Spark's checkpoint."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.errors import AnabranchError
from anabranch.log import reader as reading
from anabranch.testing.sparkless import SparklessDatabase
from tests.sampling import sampled

BASE_US = 1_767_225_600_000_000
QUERIES = {
    "picked": "SELECT id, ts FROM s WHERE id % 10 = 3",
    "counted": "SELECT count(*) AS n, sum(id) AS total FROM s WINDOW = INTERVAL 10 SECONDS SLIDE INTERVAL 2 SECONDS",
    "rarely": "SELECT id, ts FROM s WHERE id = 3",
}


def rows(first: int, end: int) -> pa.Table:
    ids = list(range(first, end))
    times = pa.array([BASE_US + i * 100_000 for i in ids]).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": ids, "ts": times})


def open_database(path: Path) -> SparklessDatabase:
    return SparklessDatabase(path, settings={"batch_rows": 300})


@pytest.fixture
def river(tmp_path: Path) -> Path:
    """A database whose queries have answered 1,000 rows in micro-batches of 300, and was closed."""
    path = tmp_path / "river"
    with open_database(path) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        for name, sql in QUERIES.items():
            db.query(sql, name=name)
        for first in range(0, 1000, 250):
            db.append("s", rows(first, first + 250))
            db.catch_up()
    return path


def expected(tmp_path: Path, upto: int) -> dict[str, pa.Table]:
    with open_database(tmp_path / "unharmed") as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append("s", rows(0, upto))
        queries = {name: db.query(sql, name=name) for name, sql in QUERIES.items()}
        db.catch_up()
        return {name: query.table() for name, query in queries.items()}


def newest(folder: Path) -> Path:
    # Spark may have been stopped while it wrote one more, which is left under a temporary name.
    return max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def lose_all(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)


def lose_metadata(checkpoint: Path) -> None:
    (checkpoint / "metadata").unlink()


def empty_offset(checkpoint: Path) -> None:
    newest(checkpoint / "offsets").write_bytes(b"")


def tear_offset(checkpoint: Path) -> None:
    file = newest(checkpoint / "offsets")
    file.write_bytes(file.read_bytes()[:-3])


def empty_commit(checkpoint: Path) -> None:
    newest(checkpoint / "commits").write_bytes(b"")


def lose_offsets(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "offsets")


def lose_commits(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "commits")


def go_back(checkpoint: Path) -> None:
    """As a power cut may leave it, or a copy of another time."""
    for log in ("offsets", "commits"):
        newest(checkpoint / log).unlink()


def run_last_again(checkpoint: Path) -> None:
    """No harm at all: killed before the commit."""
    newest(checkpoint / "commits").unlink()


HARM: list[Callable[[Path], None]] = [
    lose_all,
    lose_metadata,
    empty_offset,
    tear_offset,
    empty_commit,
    lose_offsets,
    lose_commits,
    go_back,
    run_last_again,
]


HARMED = sampled(itertools.product(HARM, (False, True)), 1, "harm", group=lambda case: case[0].__name__)


@pytest.mark.slow
@pytest.mark.parametrize(("harm", "without_progress"), HARMED)
def test_answers_go_on_where_they_ended(
    harm: Callable[[Path], None], without_progress: bool, river: Path, tmp_path: Path
) -> None:
    for name in QUERIES:
        harm(river / "queries" / name / "checkpoint")
        if without_progress:
            (river / "queries" / name / "progress.json").unlink()
    with open_database(river) as db:
        db.append("s", rows(1000, 2000))
        db.catch_up()
        for name, table in expected(tmp_path, 2000).items():
            assert db.get_query(name).status == "running"
            assert db.get_query(name).table().equals(table), name
    # And again, now that it was mended.
    with open_database(river) as db:
        db.append("s", rows(2000, 2500))
        db.catch_up()
        shutil.rmtree(tmp_path / "unharmed")
        for name, table in expected(tmp_path, 2500).items():
            assert db.get_query(name).table().equals(table), name


def test_that_a_checkpoint_was_renewed_is_an_event(river: Path) -> None:
    lose_all(river / "queries" / "picked" / "checkpoint")
    with open_database(river) as db:
        events = db.get_query("picked").events()
        assert [event["event"] for event in events] == ["checkpoint_was_renewed"]
        assert db.get_query("counted").events() == []


def test_answers_that_were_lost_are_computed_again_under_their_numbers(
    river: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_SECONDS", 0.05)
    for name in ("picked", "counted"):
        last = max((river / "streams" / name / "segments").iterdir())
        last.unlink()
    with open_database(river) as db:
        assert db.get_query("picked").events()[0]["event"] == "answers_were_lost"
        db.append("s", rows(1000, 2000))
        db.catch_up()
        for name, table in expected(tmp_path, 2000).items():
            assert db.get_query(name).table().equals(table), name
            assert not db.reader(name + ".rejects").end().row


def test_progress_of_another_time_is_not_believed(river: Path, tmp_path: Path) -> None:
    """A directory put back in parts: the answers are older than the counts."""
    kept = tmp_path / "kept"
    shutil.copytree(river / "streams" / "picked", kept)
    with open_database(river) as db:
        db.append("s", rows(1000, 1500))
        db.catch_up()
    shutil.rmtree(river / "streams" / "picked")
    shutil.copytree(kept, river / "streams" / "picked")
    with open_database(river) as db:
        db.catch_up()
        assert db.get_query("picked").table().equals(expected(tmp_path, 1500)["picked"])


def test_rows_that_are_needed_and_gone_fail_the_query(tmp_path: Path) -> None:
    path = tmp_path / "river"
    with SparklessDatabase(path, settings={"segment_bytes": 1}) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 5 SECONDS")
        db.query("SELECT id, ts FROM s WHERE id = 3", name="rarely")
        for first in range(0, 1000, 100):
            db.append("s", rows(first, first + 100))
            db.catch_up()
            db.sql("SHOW STREAMS")
        from anabranch.log import retention

        retention.hold(db.catalog.stream_storage("s"), "rarely", 1000, None)
        db.append("s", rows(1000, 1100))
    lose_all(path / "queries" / "rarely" / "checkpoint")
    (path / "queries" / "rarely" / "progress.json").unlink()
    with SparklessDatabase(path) as db:
        query = db.get_query("rarely")
        assert query.status == "failed"
        assert query.failure is not None
        assert query.failure.name == "CHECKPOINT_IS_LOST"
        with pytest.raises(AnabranchError, match="CHECKPOINT_IS_LOST"):
            query.wait(1)
        assert db.sql("SHOW QUERIES").table().column("status").to_pylist() == ["failed"]
