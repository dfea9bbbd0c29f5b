"""Archives of a database: made, filled, kept, vacuumed, dropped, and refused; no Spark."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import anabranch as ab
from anabranch.archive.declaration import archive_storage
from anabranch.errors import AnabranchError, StreamError
from anabranch.log.retention import HOLDS
from tests.archive.history import with_archives

BASE_US = 1_767_225_600_000_000
SECOND = 1_000_000


def rows(first: int, end: int, step_us: int = 1_000) -> pa.Table:
    numbers = np.arange(first, end)
    times = pa.array(BASE_US + numbers * step_us).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": numbers, "plate": [f"p{n % 7}" for n in numbers], "ts": times})


CREATE = "CREATE STREAM cars (id BIGINT, plate STRING, ts TIMESTAMP) TIMESTAMP BY ts"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ab.Database]:
    with ab.open(tmp_path / "db", queries=False, settings={"segment_bytes": 5_000}) as database:
        database.sql(f"{CREATE} RETAIN INTERVAL 1 SECOND")
        yield database


def ids(db: ab.Database, stream: str = "cars") -> list[int]:
    reader = db.reader(stream)
    found: list[int] = reader.read(reader.first_row(), reader.end().row, ["id"]).column("id").to_pylist()
    return found


def fails(name: str, action: Callable[[], object], *said: str) -> AnabranchError:
    with pytest.raises(AnabranchError) as caught:
        action()
    assert caught.value.name == name, caught.value
    for text in said:
        assert text in str(caught.value)
    return caught.value


# -- the log and the archive -------------------------------------------------------------------------


def test_rows_leave_the_log_only_once_they_are_archived(db: ab.Database) -> None:
    db.append("cars", rows(0, 100))
    db.create_archive("cars", "plain")
    db.create_archive("cars", "randomize_then_sort", "other")
    for first in range(100, 5000, 700):
        db.append("cars", rows(first, first + 700))
    assert db.reader("cars").first_logged_row() == 0  # seconds have passed, but nothing is archived

    db.archive("cars", "plain").append()
    db.append("cars", rows(5000, 5700))
    assert db.reader("cars").first_logged_row() == 0  # the other archive waits

    db.archive("cars", "other").append()
    db.append("cars", rows(5700, 6400))
    reader = db.reader("cars")
    assert reader.first_logged_row() > 3000
    assert reader.first_row() == 0
    assert ids(db) == list(range(6400))

    db.drop_archive("cars", "other")
    db.drop_archive("cars", "plain")
    assert db.reader("cars").first_row() > 3000
    assert db.catalog.stream_storage("cars").child(HOLDS).files() == {}


def test_an_archive_made_later_begins_with_what_its_sibling_holds(db: ab.Database) -> None:
    db.create_archive("cars", "plain")
    db.append("cars", rows(0, 3000))
    db.archive("cars").append()
    db.append("cars", rows(3000, 4500))
    assert db.reader("cars").first_logged_row() > 0
    info = db.create_archive("cars", "randomize_then_sort", by="PLATE")
    assert (info.first_row, info.by) == (0, "plate")
    db.archive("cars", "randomize_then_sort").append()
    db.drop_archive("cars", "plain")
    assert ids(db) == list(range(4500))


def test_an_archive_dropped_halfway_does_not_haunt_the_next_of_its_name(db: ab.Database) -> None:
    db.create_archive("cars", "plain")
    db.append("cars", rows(0, 3000))
    db.archive("cars").append()
    place = archive_storage(db.catalog.stream_storage("cars"), "plain")
    db.archives.archiver("cars").close()
    place.delete("archive.json")  # a process died here
    assert db.archives.infos() == []
    db.sql("DROP ARCHIVE IF EXISTS plain ON cars")
    db.append("cars", rows(3000, 4000))
    db.create_archive("cars", "plain")
    assert db.describe_archive("cars")["rows"] == 0
    db.archive("cars").append()
    assert ids(db) == list(range(db.reader("cars").first_row(), 4000))


def test_a_stream_and_its_archives_go_together(db: ab.Database) -> None:
    db.create_archive("cars", "plain")
    db.append("cars", rows(0, 100))
    db.archive("cars").append()
    db.drop_stream("cars")
    assert db.archives.infos() == []
    db.sql(CREATE)
    fails("ARCHIVE_NOT_FOUND", lambda: db.archive("cars"))
    assert db.reader("cars").first_row() == db.reader("cars").end().row == 0


# -- what goes ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_keep_lets_old_runs_go_and_reading_them_is_an_error(db: ab.Database) -> None:
    db.create_archive("cars", "on_write_replicate", keep_us=3 * SECOND, options={"run_rows": "1000"})
    archiver = db.archive("cars")
    for first in range(0, 10_000, 1000):
        db.append("cars", rows(first, first + 1000))
        archiver.append()
    assert archiver.let_go() == 6
    reader = with_archives(db.reader("cars"))
    assert reader.first_row() == 6000
    assert ids(db) == list(range(6000, 10_000))
    for read in (lambda: reader.read(5999, 7000), lambda: reader.read_sample(5999, 7000, ["id"], 0.5)):
        fails("ROWS_ARE_GONE", read)
    assert reader.row_at_time(BASE_US, 10_000) == 6000
    tables = db.describe_archive("cars")["tables"]
    assert {table["runs"] for table in tables.values()} == {4}
    assert archiver.let_go() == 0

    db.archives.alter("cars", keep_us=1 * SECOND)
    assert archiver.vacuum(0)["runs_let_go"] == 2
    assert db.reader("cars").first_row() == 8000
    db.advance("cars", BASE_US + 3600 * SECOND)
    assert archiver.vacuum(0)["runs_let_go"] == 2
    db.append("cars", rows(3_600_000, 3_600_100))
    archiver.append()
    assert with_archives(db.reader("cars")).archives[0].first == 10_000


@pytest.mark.slow
def test_vacuum_deletes_what_nothing_needs_and_keeps_the_rest(db: ab.Database) -> None:
    db.create_archive("cars", "plain")
    archiver = db.archive("cars")
    for first in range(0, 500, 100):
        db.append("cars", rows(first, first + 100))
        archiver.append()
    path = db.describe_archive("cars")["path"]

    def files() -> set[str]:
        return {name for name in os.listdir(path) if name.endswith(".parquet")}

    orphan = f"{path}/{sorted(files())[0][:-8]}-left-by-a-killed-process.parquet"
    Path(orphan).write_bytes(b"half")
    done = archiver.vacuum(1)  # an hour: earlier versions stay
    assert (done["runs_joined"], done["files_deleted"]) == (5, 0)
    assert len(files()) == 7
    assert DeltaTable(path, version=3).to_pyarrow_table().num_rows == 300

    done = archiver.vacuum(0)
    assert done["files_deleted"] == 6
    assert files() == {Path(uri).name for uri in DeltaTable(path).file_uris()}
    assert DeltaTable(path).to_pyarrow_table().num_rows == 500
    assert ids(db) == list(range(500))


def test_less_than_an_hour_of_retention_is_an_hour_and_not_nothing(db: ab.Database) -> None:
    db.create_archive("cars", "plain")
    for first in (0, 100):
        db.append("cars", rows(first, first + 100))
        db.archive("cars").append()
    assert "files deleted: 0" in str(db.sql("VACUUM ARCHIVE cars RETAIN INTERVAL 10 MINUTES").message)
    assert DeltaTable(db.describe_archive("cars")["path"], version=1).to_pyarrow_table().num_rows == 100


# -- looking at it -----------------------------------------------------------------------------------


def test_describe_and_show_say_what_there_is(db: ab.Database) -> None:
    db.create_archive("cars", "on_write_replicate", options={"levels": "50%, 90"}, keep_us=3600 * SECOND)
    db.append("cars", rows(0, 10_000))
    db.archive("cars").append()
    db.append("cars", rows(10_000, 10_010))
    about = db.describe_archive("cars")
    expected = {"archive": "on_write_replicate", "stream": "cars", "layout": "on_write_replicate", "rows": 10_000}
    assert {name: about[name] for name in expected} == expected
    assert (about["rows_waiting"], about["keep_us"]) == (10, 3600 * SECOND)
    assert (about["oldest_us"], about["newest_us"]) == (BASE_US, BASE_US + 9_999_000)
    assert about["age_us"] == 10_009_000
    fractions = [table["fraction"] for table in about["tables"].values()]
    assert fractions == pytest.approx([1.0, 0.5, 0.1], abs=0.02)
    assert about["bytes"] == sum(table["bytes"] for table in about["tables"].values())
    shown = db.sql("SHOW ARCHIVES").table().to_pylist()
    assert [(row["stream"], row["archive"], row["rows"]) for row in shown] == [("cars", "on_write_replicate", 10_000)]
    described = {row["property"]: row["value"] for row in db.sql("DESCRIBE ARCHIVE cars").table().to_pylist()}
    assert (described["layout"], described["age"], described["keep"]) == ("on_write_replicate", "0:00:10", "1 HOUR")


def test_levels_come_and_go(db: ab.Database) -> None:
    db.create_archive("cars", "on_write_replicate", options={"levels": "50"})
    db.append("cars", rows(0, 1000))
    db.archive("cars").append()
    assert db.archives.alter("cars", add_level=90).levels == (50, 90)
    assert db.describe_archive("cars")["tables"]["copies/90"]["rows"] < 200
    assert db.archives.alter("cars", drop_level=50).levels == (90,)
    assert list(db.describe_archive("cars")["tables"]) == ["table", "copies/90"]
    fails("ARCHIVE_OPTION_INVALID", lambda: db.archives.alter("cars", add_level=90), "has a copy")
    fails("ARCHIVE_OPTION_INVALID", lambda: db.archives.alter("cars", drop_level=50), "has no copy")
    fails("ARCHIVE_OPTION_INVALID", lambda: db.archives.alter("cars", add_level=100), "from 1 to 99")


# -- who may -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_second_archiver_is_refused_and_its_thread_stays_quiet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"archive_age_seconds": 0.01}
    with ab.open(tmp_path / "db", queries=False) as first:
        first.sql(CREATE)
        first.create_archive("cars", "plain")
        first.append("cars", rows(0, 100))
        first.archive("cars").append()
        first.append("cars", rows(100, 200))
        with ab.open(tmp_path / "db", settings=settings) as second:
            for action in (
                second.archive("cars").append,
                second.archive("cars").join_runs,
                second.archive("cars").vacuum,
                lambda: second.archives.alter("cars", keep_us=SECOND),
                lambda: second.drop_archive("cars"),
            ):
                problem = fails("ARCHIVE_IS_BEING_WRITTEN", action, f"process {os.getpid()}")
                assert problem.hint == "do it in that process, or stop it first"
            time.sleep(1.5)  # its thread looks twice in that time
            assert second.describe_archive("cars")["rows_waiting"] == 100
            assert not caplog.records
            first.archives.close()
            wait_until(lambda: second.describe_archive("cars")["rows_waiting"] == 0)
            assert not caplog.records
        assert ids(first) == list(range(200))


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_who_may_write_again_sees_what_another_changed_meanwhile(tmp_path: Path) -> None:
    with ab.open(tmp_path / "db", queries=False) as first, ab.open(tmp_path / "db", queries=False) as second:
        first.sql(CREATE)
        first.create_archive("cars", "on_write_replicate", options={"levels": "50"})
        first.archive("cars").close()
        second.archives.alter("cars", add_level=90)
        second.archive("cars").close()
        assert first.archives.alter("cars", keep_us=SECOND).levels == (50, 90)


# -- what goes wrong ---------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield place
    finally:
        # Mapped files that nobody has let go of yet keep a disk busy; it goes with the last of them.
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "free"),
    [("plain", 8_192), ("plain", 20_000), ("on_write_replicate", 100_000), ("randomize_then_sort", 100_000)],
)
def test_a_full_disk_loses_nothing_and_the_archive_goes_on_afterwards(tmp_path: Path, layout: str, free: int) -> None:
    with small_disk(tmp_path / "disk", "3m") as disk:
        with ab.open(disk / "db", queries=False, settings={"segment_bytes": 50_000}) as db:
            db.sql(CREATE)
            db.create_archive("cars", layout, options={"run_rows": "5000", "compression": "none"})
            end = 0
            for _ in range(4):
                db.append("cars", rows(end, end + 5000))
                end += 5000
            ballast = disk / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as out:
                while True:
                    out.write(bytes(4096))
            os.truncate(ballast, ballast.stat().st_size - free)
            used = [fill(db) for _ in range(4)]
            assert used[-1] <= used[0]  # attempts that fail leave nothing behind
            assert ids(db) == list(range(end))
            ballast.unlink()
            assert db.archive("cars").append() == end
            assert ids(db) == list(range(end))
            path = db.describe_archive("cars")["path"]
            numbers = DeltaTable(path).to_pyarrow_table(columns=["_row"]).column(0).to_pylist()
            assert sorted(numbers) == list(range(end))
        with ab.open(disk / "db", queries=False) as db:
            assert ids(db) == list(range(end))


def fill(db: ab.Database) -> int:
    """Try to archive on a disk that is full; gives the bytes in use."""
    with pytest.raises((AnabranchError, OSError)):
        db.archive("cars").append()
    at = os.statvfs(db.path)
    return (at.f_blocks - at.f_bfree) * at.f_frsize


def test_files_that_a_failed_append_wrote_are_taken_away(db: ab.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.archive.table import RunTable

    db.create_archive("cars", "plain", options={"run_rows": "100"})
    db.append("cars", rows(0, 250))
    db.archive("cars").append()
    db.append("cars", rows(250, 1000))

    def full(*_: Any, **__: Any) -> None:
        raise StreamError("DISK_IS_FULL", "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(RunTable, "commit", full)
        fails("DISK_IS_FULL", db.archive("cars").append)
    path = db.describe_archive("cars")["path"]
    there = {name for name in os.listdir(path) if name.endswith(".parquet")}
    assert there == {Path(uri).name for uri in DeltaTable(path).file_uris()}
    assert db.archive("cars").append() == 1000
    assert ids(db) == list(range(1000))


@pytest.mark.parametrize(
    ("arguments", "name", "said"),
    [
        ({"layout": "randomise_then_sort"}, "LAYOUT_NOT_FOUND", ['did you mean "randomize_then_sort"']),
        ({"layout": "quantum"}, "LAYOUT_NOT_FOUND", ["there are: plain, on_write_replicate"]),
        (
            {"layout": "plain", "by": "plate"},
            "ARCHIVE_OPTION_INVALID",
            ["BY belongs to the layout randomize_then_sort"],
        ),
        ({"layout": "plain", "every": SECOND}, "ARCHIVE_OPTION_INVALID", ["EVERY belongs to the layout windowed"]),
        ({"layout": "windowed_aggregation"}, "ARCHIVE_OPTION_INVALID", ["needs EVERY INTERVAL"]),
        ({"layout": "plain", "keep_us": 0}, "ARCHIVE_OPTION_INVALID", ["KEEP takes an interval above 0"]),
        ({"layout": "randomize_then_sort", "by": "plat"}, "COLUMN_NOT_FOUND", ['did you mean "plate"']),
        ({"layout": "plain", "options": {"bloks": "1"}}, "ARCHIVE_OPTION_INVALID", ['did you mean "blocks"']),
        ({"layout": "plain", "options": {"blocks": "9"}}, "ARCHIVE_OPTION_INVALID", ["belongs to the layout", "leave"]),
        ({"layout": "plain", "options": {"levels": "9"}}, "ARCHIVE_OPTION_INVALID", ["layout on_write_replicate"]),
        ({"layout": "plain", "options": {"threshold": "1"}}, "ARCHIVE_OPTION_INVALID", ["layout on_read_modify"]),
        ({"layout": "plain", "options": {"run_rows": "0"}}, "ARCHIVE_OPTION_INVALID", ["from 1 to 1073741824", '"0"']),
        ({"layout": "plain", "options": {"run_rows": "²"}}, "ARCHIVE_OPTION_INVALID", ["a whole number", '"²"']),
        ({"layout": "plain", "options": {"run_rows": -5}}, "ARCHIVE_OPTION_INVALID", ["a whole number", '"-5"']),
        ({"layout": "plain", "options": {"seed": "x"}}, "ARCHIVE_OPTION_INVALID", ["a whole number from 0"]),
        ({"layout": "plain", "options": {"compression": "rar"}}, "ARCHIVE_OPTION_INVALID", ["one of zstd, snappy"]),
        (
            {"layout": "on_read_modify", "options": {"threshold": "0"}},
            "ARCHIVE_OPTION_INVALID",
            ["above 0 and up to 1"],
        ),
        ({"layout": "on_read_modify", "options": {"threshold": "x"}}, "ARCHIVE_OPTION_INVALID", ['got "x"']),
        ({"layout": "on_read_modify", "options": {"threshold": "nan"}}, "ARCHIVE_OPTION_INVALID", ['got "nan"']),
        ({"layout": "on_write_replicate", "options": {"levels": "0"}}, "ARCHIVE_OPTION_INVALID", ["from 1 to 99"]),
        ({"layout": "on_write_replicate", "options": {"levels": "20;40"}}, "ARCHIVE_OPTION_INVALID", ["with commas"]),
        ({"layout": "on_write_replicate", "options": {"levels": ""}}, "ARCHIVE_OPTION_INVALID", ["in percent"]),
        ({"layout": "randomize_then_sort", "options": {"blocks": "65536"}}, "ARCHIVE_OPTION_INVALID", ["to 65535"]),
    ],
)
def test_a_wrong_declaration_says_what_is_wrong(
    db: ab.Database, arguments: dict[str, Any], name: str, said: list[str]
) -> None:
    fails(name, lambda: db.create_archive("cars", **arguments), *said)
    assert db.archives.infos() == []
    assert db.catalog.stream_storage("cars").child(HOLDS).files() == {}


def test_names_are_found_whatever_their_case_and_missing_ones_are_told_apart(db: ab.Database) -> None:
    fails("ARCHIVE_NOT_FOUND", lambda: db.archive("cars"), "has no archive", "CREATE ARCHIVE ON cars USING")
    fails("STREAM_NOT_FOUND", lambda: db.create_archive("car", "plain"), 'did you mean "cars"')
    db.create_archive("CARS", "PLAIN", "Old")
    assert db.archives.find("cars", "oLD").name == "Old"
    fails("NAME_EXISTS", lambda: db.create_archive("cars", "randomize_then_sort", "OLD"), "IF NOT EXISTS")
    fails("ARCHIVE_NOT_FOUND", lambda: db.archive("cars", "Olds"), 'did you mean "Old"')
    db.create_archive("cars", "plain", "strange / name. of ü")
    problem = fails("ARCHIVE_WANTED", lambda: db.archive("cars"), "several archives")
    assert problem.hint == "name one: ARCHIVE Old ON cars"
    db.append("cars", rows(0, 10))
    db.archive("cars", "strange / name. of ü").append()
    reader = db.reader("cars")
    from anabranch.archive.reader import HistoryReader

    assert isinstance(reader, HistoryReader)
    assert reader.only("STRANGE / name. of ü").read(0, 10).num_rows == 10
    fails("ARCHIVE_NOT_FOUND", lambda: reader.only("Olds"), 'did you mean "Old"')


def test_a_directory_no_delta_table_can_have_is_refused(tmp_path: Path) -> None:
    with ab.open(tmp_path / "100%25", queries=False) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        fails("ARCHIVE_NOT_POSSIBLE", lambda: db.create_archive("s", "plain"), "there is a % in it")
        assert db.archives.infos() == []


def test_streams_of_any_name_can_be_archived(db: ab.Database) -> None:
    db.sql("CREATE STREAM `odd. näme/` (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
    db.append("odd. näme/", [{"id": 1, "ts": "2026-01-01 00:00:00"}])
    db.create_archive("odd. näme/", "plain")
    assert db.archive("odd. näme/").append() == 1
    assert with_archives(db.reader("odd. näme/")).read_sample(0, 1, ["id"], 1.0).to_pydict() == {"_row": [0], "id": [1]}


def test_all_archives_of_a_stream_share_one_seed(db: ab.Database) -> None:
    seed = db.create_archive("cars", "plain").seed
    assert db.create_archive("cars", "randomize_then_sort").seed == seed
    fails(
        "ARCHIVE_OPTION_INVALID",
        lambda: db.create_archive("cars", "plain", "other", options={"seed": str(seed ^ 1)}),
        f"share one seed, {seed}",
        "leave the seed out",
    )
    fails("ARCHIVE_OPTION_INVALID", lambda: db.archives.alter("cars", "plain", add_level=5), "on_write_replicate")


def test_a_column_that_archives_need_for_themselves_is_refused(db: ab.Database) -> None:
    create = "CREATE STREAM odd (_row BIGINT, ts TIMESTAMP) TIMESTAMP BY ts"
    fails("COLUMN_RESERVED", lambda: db.sql(create), '"_row" is kept')


def test_an_archive_of_another_format_is_not_touched(db: ab.Database) -> None:
    db.create_archive("cars", "plain")
    place = archive_storage(db.catalog.stream_storage("cars"), "plain")
    place.write_json("archive.json", {**place.read_json("archive.json"), "format": 99})
    fails("FORMAT_NOT_KNOWN", lambda: db.archive("cars"), "made by another version")


def test_a_table_that_is_gone_is_told(db: ab.Database) -> None:
    db.create_archive("cars", "plain")
    db.append("cars", rows(0, 10))
    db.archive("cars").append()
    reader = db.reader("cars")
    archive_storage(db.catalog.stream_storage("cars"), "plain").child("table").delete_all()
    fails("ARCHIVE_NOT_FOUND", reader.refresh, "there is no Delta table")


# -- schema ------------------------------------------------------------------------------------------


def test_a_column_added_later_is_null_in_old_rows_and_survives_compaction(db: ab.Database) -> None:
    db.create_archive("cars", "randomize_then_sort", options={"run_rows": "1000"})
    db.append("cars", rows(0, 300))
    db.archive("cars").append()
    open_reader = db.reader("cars")
    db.add_column("cars", "lane", "STRING")
    db.append("cars", rows(300, 600).append_column("lane", pa.array(["left"] * 300)))
    for done in (lambda: None, db.archive("cars").append, lambda: db.archive("cars").join_runs(2)):
        done()
        lanes = db.reader("cars").read(0, 600, ["lane"]).column("lane").to_pylist()
        assert lanes == [None] * 300 + ["left"] * 300
        sample = with_archives(db.reader("cars")).read_sample(0, 600, ["lane", "id"], 0.5).to_pylist()
        assert all((row["lane"] is None) == (row["id"] < 300) for row in sample)
    assert open_reader.read(0, 600, ["id"]).num_rows == 600
    fails("COLUMN_EXISTS", lambda: db.add_column("cars", "LANE", "INT"))


def test_times_that_no_calendar_has_are_archived_all_the_same(tmp_path: Path) -> None:
    with ab.open(tmp_path / "db", queries=False) as db:
        db.sql(CREATE)
        db.create_archive("cars", "plain")
        times = pa.array([-(2**60), -5, 7]).cast(pa.timestamp("us", "UTC"))
        db.append("cars", pa.table({"id": [0, 1, 2], "plate": ["a"] * 3, "ts": times}))
        assert db.archive("cars").append() == 3
        assert ids(db) == [0, 1, 2]
        assert db.reader("cars").row_at_time(-5, 3) == 1


@pytest.mark.slow
def test_closing_waits_for_the_archiver_and_not_the_archiver_for_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = ab.open(tmp_path / "db", settings={"archive_age_seconds": 0.0})
    db.sql(CREATE)
    db.create_archive("cars", "plain")
    busy, closing = threading.Event(), threading.Event()
    close = type(db.archives).close

    def slowly(archiver: Any) -> None:
        busy.set()
        assert closing.wait(10)
        db.history("cars")

    def begun(archives: Any) -> None:
        closing.set()
        close(archives)

    monkeypatch.setattr("anabranch.queries.archiver.Archiver.append", slowly)
    monkeypatch.setattr("anabranch.queries.archives.Archives.close", begun)
    db.append("cars", rows(0, 10))
    assert busy.wait(10)
    closer = threading.Thread(target=db.close, daemon=True)
    closer.start()
    closer.join(10)
    assert not closer.is_alive()


def test_a_directory_that_cannot_be_written_is_told_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ab.open(tmp_path / "db", queries=False) as db:
        db.sql(CREATE)
        db.create_archive("cars", "plain")
        db.append("cars", rows(0, 100))
        db.archive("cars").append()
    opened = os.open

    def read_only(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) and str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", read_only)
    with ab.open(tmp_path / "db", queries=False) as db:
        answer = db.sql("SELECT count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0)").table().to_pylist()
        assert answer[0]["n"] == 100
        for action in (lambda: db.append("cars", rows(100, 101)), lambda: db.sql("VACUUM ARCHIVE cars")):
            fails("DIRECTORY_IS_READ_ONLY", action, "read-only file system. Hint: make it writable")
