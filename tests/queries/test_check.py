"""`anabranch check` finds what is missing or damaged, and `--repair` does what is safe."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.cli.main import main
from anabranch.errors import AnabranchError
from anabranch.log import check as checking
from anabranch.log import reader as reading
from anabranch.log import sums
from anabranch.testing.sparkless import SparklessDatabase
from tests.log.conftest import killed
from tests.queries.test_checkpoint import lose_all, rows

SETTINGS = {"segment_bytes": 1}


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(checking, "_PATIENCE_SECONDS", 0.05)


def open_database(path: Path) -> SparklessDatabase:
    return SparklessDatabase(path, settings=SETTINGS)


@pytest.fixture
def river(tmp_path: Path) -> Path:
    path = tmp_path / "river"
    with open_database(path) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.query("SELECT id, ts FROM s WHERE id % 2 = 0", name="even")
        for first in range(0, 500, 100):
            db.append("s", rows(first, first + 100))
            db.catch_up()
    return path


def segments(path: Path, stream: str) -> list[Path]:
    return sorted((path / "streams" / stream / "segments").iterdir())


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def lose(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


def test_a_database_that_is_fine_is_called_fine(river: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(river)]) == 0
    assert "is as it was written" in capsys.readouterr().out
    assert main(["--db", str(river), "check", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["fine"]
    assert said["bytes"] > 0
    with open_database(river) as db:
        assert db.check().fine


@pytest.mark.parametrize("harm", [flip, lose, cut])
def test_rows_that_cannot_be_read_are_named_and_given_up_only_when_told(
    harm: Callable[[Path], None], river: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm(segments(river, "s")[2])
    assert main(["check", str(river)]) == 1
    assert 'rows 200 to 299 of stream "s" cannot be read' in capsys.readouterr().out
    sums._seen.clear()  # as in another process
    with open_database(river) as db, pytest.raises(AnabranchError, match=r"ROWS_ARE_MISSING|SEGMENT_IS_DAMAGED"):
        db.reader("s").read(0, 500)
    assert main(["check", str(river), "--repair"]) == 1
    assert "repaired: gives them up" in capsys.readouterr().out
    assert ab.check(river).fine
    with open_database(river) as db:
        reader = db.reader("s")
        assert reader.first_row() == 300
        assert reader.read(300, 500).column("id").to_pylist() == list(range(300, 500))
        with pytest.raises(AnabranchError, match=r"ROWS_ARE_GONE.*rows 200 to 299"):
            reader.read(250, 400)
        assert db.reader("s_until_200").read(0, 200).column("id").to_pylist() == list(range(200))
        assert "rows 200 to 299 were lost" in str(db.sql("DESCRIBE STREAM s").table().column("note").to_pylist())
        db.append("s", rows(500, 600))
        db.catch_up()
        assert db.get_query("even").table().column("id").to_pylist() == list(range(0, 600, 2))


def test_a_query_goes_on_after_what_was_given_up(river: Path) -> None:
    with SparklessDatabase(river, settings=SETTINGS) as db:
        db.get_query("even").stop()
        for first in range(500, 800, 100):
            db.append("s", rows(first, first + 100))
    lose(segments(river, "s")[6])
    assert not ab.check(river, repair=True).fine
    with open_database(river) as db:
        query = db.get_query("even")
        query.start()
        db.catch_up()
        assert query.status == "running"
        assert query.table().column("id").to_pylist() == [*range(0, 500, 2), *range(700, 800, 2)]
        assert "were lost and given up" in query.events()[-1]["text"]


def test_a_lost_end_is_given_up_and_its_numbers_are_not_given_again(river: Path) -> None:
    lose(segments(river, "s")[-1])
    report = ab.check(river, repair=True)
    assert [str(each.rows) for each in report.repaired] == ["rows 400 to 499"]
    assert ab.check(river).fine
    with open_database(river) as db:
        assert db.append("s", rows(500, 510)) == 510
        assert db.reader("s").read(500, 510).num_rows == 10
        db.catch_up()
        assert db.get_query("even").status == "running"


@pytest.mark.parametrize("harm", [flip, lose])
@pytest.mark.parametrize("which", [0, 2, 4])
def test_answers_are_computed_again(harm: Callable[[Path], None], which: int, river: Path) -> None:
    harm(segments(river, "even")[which])
    report = ab.check(river, repair=True)
    assert len(report.repaired) == 1
    with open_database(river) as db:
        db.append("s", rows(500, 600))
        db.catch_up()
        assert db.get_query("even").table().column("id").to_pylist() == list(range(0, 600, 2))
    assert ab.check(river).fine


@pytest.mark.parametrize("harm", [flip, lose])
def test_rows_come_back_from_an_archive(harm: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "river"
    with open_database(path) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.sql("CREATE ARCHIVE ON s USING plain")
        for first in range(0, 500, 100):
            db.append("s", rows(first, first + 100))
        db.archive("s").append()
    harm(segments(path, "s")[1])
    report = ab.check(path, repair=True)
    assert [each.remedy for each in report.repaired] == ['writes them again from archive "plain"']
    assert ab.check(path).fine
    from anabranch.log import Storage, StreamReader

    assert StreamReader(Storage(str(path / "streams" / "s"))).read(0, 500).equals(rows(0, 500))


def test_damage_of_archives_checkpoints_marks_and_declarations_is_found(river: Path) -> None:
    with open_database(river) as db:
        db.sql("CREATE ARCHIVE ON s USING plain")
        db.archive("s").append()
    run = next((river / "streams" / "s" / "archives" / "plain").rglob("run-*.parquet"))
    data = bytearray(run.read_bytes())
    data[60] ^= 1
    run.write_bytes(data)
    (river / "streams" / "s" / "segments" / "0123.tmp").write_bytes(b"half")
    (river / "streams" / "s" / "holds" / "even").write_bytes(b"")
    lose(river / "queries" / "even" / "checkpoint" / "metadata")
    (river / "queries" / "even" / "progress.json").write_text('{"batches"')
    (river / "streams" / "t" / "segments").mkdir(parents=True)
    (river / "streams" / "t" / "stream.json").write_text("{}")
    report = ab.check(river)
    found = sorted((each.what, Path(each.place).name) for each in report.findings)
    assert found == [
        ("checkpoint", "checkpoint"),
        ("file damaged", "even"),
        ("file damaged", "progress.json"),
        ("file damaged", run.name),
        ("file damaged", "stream.json"),
        ("left over", "0123.tmp"),
    ]
    ab.check(river, repair=True)
    assert not (river / "streams" / "s" / "segments" / "0123.tmp").exists()
    lose_all(river / "queries" / "even" / "checkpoint")


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("harm", [flip, lose])
def test_a_stream_goes_on_without_arrivals_that_were_lost(
    harm: Callable[[Path], None], which: int, tmp_path: Path
) -> None:
    path = tmp_path / "river"
    db = SparklessDatabase(path, settings=SETTINGS)
    db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts ALLOW SKEW INTERVAL 1 MINUTE")
    for batch in ([0, 1000], [1010], [1020]):
        db.append(
            "s", rows(batch[0], batch[0] + 1) if len(batch) == 1 else pa.concat_tables(rows(i, i + 1) for i in batch)
        )
    killed(db.writer("s"))
    arrivals = sorted((path / "streams" / "s" / "arrivals").iterdir())
    harm(arrivals[which])
    assert [each.stream for each in ab.check(path).findings] == ["s"]
    assert len(ab.check(path, repair=True).repaired) == 1
    assert ab.check(path).fine
    with open_database(path) as again:
        again.flush("s")
        ids = again.reader("s").read(0, again.reader("s").end().row).column("id").to_pylist()
        assert ids == [0, *(i for n, i in enumerate([1000, 1010, 1020]) if n != which)]


@pytest.mark.slow
def test_looking_while_others_write_raises_no_false_alarm(river: Path) -> None:
    ended = threading.Event()

    def write() -> None:
        with SparklessDatabase(river, settings={"segment_parts": 5}) as db:
            at = 500
            while not ended.is_set():
                db.append("s", rows(at, at + 3))
                at += 3

    writer = threading.Thread(target=write)
    writer.start()
    try:
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            report = ab.check(river)
            assert report.fine, report.findings
    finally:
        ended.set()
        writer.join()


def test_repairing_is_refused_while_another_writes(river: Path) -> None:
    lose(segments(river, "s")[2])
    with open_database(river) as db:
        db.writer("s")
        report = ab.check(river, repair=True)
        assert report.repaired == ()
        assert [problem.name for _, problem in report.failed] == ["STREAM_IS_BEING_WRITTEN"]


def test_rows_of_an_archive_whose_declaration_is_lost_are_missed(tmp_path: Path) -> None:
    path = tmp_path / "river"
    with open_database(path) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 1 SECOND")
        db.sql("CREATE ARCHIVE ON s USING plain")
        for first in range(0, 500, 100):
            db.append("s", rows(first, first + 100))
            db.archive("s").append()
        db.append("s", rows(500, 600))
        assert db.reader("s").first_logged_row() > 0
        assert db.reader("s").read(0, 600).num_rows == 600
    lose(path / "streams" / "s" / "archives" / "plain" / "archive.json")
    with open_database(path) as db, pytest.raises(AnabranchError, match="ARCHIVE_IS_DAMAGED"):
        db.reader("s").first_row()
    assert [Path(each.place).name for each in ab.check(path).findings] == ["archive.json"]


def test_a_commit_of_an_archive_that_is_empty_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "river"
    with open_database(path) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 1 SECOND")
        db.sql("CREATE ARCHIVE ON s USING plain")
        for first in range(0, 500, 100):
            db.append("s", rows(first, first + 100))
            db.archive("s").append()
    log = path / "streams" / "s" / "archives" / "plain" / "table" / "_delta_log"
    (log / f"{1:020}.json").write_bytes(b"")
    with open_database(path) as db, pytest.raises(AnabranchError, match="ARCHIVE_IS_DAMAGED"):
        db.reader("s").read(0, 500)
    assert "file damaged" in {each.what for each in ab.check(path).findings}
