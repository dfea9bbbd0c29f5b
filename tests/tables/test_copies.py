"""Tables that are copies of files: made, refreshed, and as they were where a file is not what it should be."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from anabranch.errors import AnabranchError
from anabranch.tables import copying, file_reading
from anabranch.tables.copying import COPIED, Copied
from anabranch.tables.declaration import TableInfo
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import SparklessDatabase
from tests.sampling import SEED

Rows = list[dict[str, Any]]
SCHEMA = pa.schema([("k", pa.int64()), ("name", pa.string()), ("x", pa.float64())])
FIRST: Rows = [{"k": 1, "name": "a", "x": 0.5}, {"k": 2, "name": None, "x": None}, {"k": 3, "name": "c", "x": 2.0}]
SECOND: Rows = [{"k": 4, "name": "d", "x": 1.0}, {"k": 1, "name": "a", "x": 0.5}, {"k": 3, "name": "C", "x": 2.0}]


def written(place: Path, format: str, rows: Rows) -> Path:
    """A file of a format with some rows, in the place of what was there."""
    table = pa.Table.from_pylist(rows, SCHEMA)
    file = place / f"t.{format}"
    if format == "delta":
        deltalake.write_deltalake(str(file), table, mode="overwrite")
        return file
    made = place / "made"
    match format:
        case "parquet":
            pq.write_table(table, made)
        case "csv":
            arrow_csv.write_csv(table, made)
        case "csv.gz":
            plain = pa.BufferOutputStream()
            arrow_csv.write_csv(table, plain)
            made.write_bytes(gzip.compress(plain.getvalue().to_pybytes()))
        case _:
            made.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made.rename(file)
    return file


def old(file: Path) -> None:
    """As if a file had not been touched for long."""
    then = time.time() - 3600
    os.utime(file, (then, then))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-01 00:00:00")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def opened(tmp_path: Path, place: Path, clock: ManualClock) -> Iterator[Callable[..., SparklessDatabase]]:
    """Opens the database, any number of times."""
    known: list[SparklessDatabase] = []

    def open_it(**settings: Any) -> SparklessDatabase:
        settings = {"table_directories": str(place), **settings}
        known.append(SparklessDatabase(tmp_path / "db", settings=settings, clock=clock))
        return known[-1]

    yield open_it
    for db in known:
        db.close()


def rows_of(db: SparklessDatabase, table: str = "t") -> Rows:
    found: Rows = db.table(table).to_pylist()
    return found


def by_key(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row["k"])


def version(db: SparklessDatabase) -> int:
    return db.table_writer("t").state().version


def note(db: SparklessDatabase) -> str:
    return str(db.sql("SHOW TABLES LIKE 't'").table().column("note")[0])


def name_of(call: Callable[[], object]) -> str:
    with pytest.raises(AnabranchError) as problem:
        call()
    return problem.value.name


# -- what is in a file --------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["parquet", "csv", "csv.gz", "json", "delta"])
def test_a_table_is_its_file_and_the_difference_is_one_version(
    format: str, place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    written(place, format, FIRST)
    db = opened()
    said = db.sql(f"CREATE TABLE t PRIMARY KEY (k) FROM '{place}/t.{format}' REFRESH EVERY INTERVAL 1 MINUTE")
    assert said.message == f'table "t" created with 3 rows of {place}/t.{format}'
    assert rows_of(db) == FIRST
    assert version(db) == 1
    assert db.refresh_table("t") == 0
    written(place, format, SECOND)
    assert db.refresh_table("t") == 3
    assert rows_of(db) == by_key(SECOND)
    assert version(db) == 2
    changes = db.reader("t.changes")
    later = changes.read(3, changes.end().row).to_pylist()
    assert [(row["_change"], row["k"], row["name"], row["_version"]) for row in later] == [
        ("delete", 2, None, 2),
        ("update_before", 3, "c", 2),
        ("update_after", 3, "C", 2),
        ("insert", 4, "d", 2),
    ]


@pytest.mark.parametrize("format", ["parquet", "csv", "json", "delta"])
def test_columns_are_picked_by_name_and_cast(
    format: str, place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    written(place, format, FIRST)
    db = opened()
    db.sql(f"CREATE TABLE t (x DOUBLE, k INT PRIMARY KEY) FROM {format} 't.{format}' RETAIN INTERVAL 1 DAY")
    assert db.table("t").schema == pa.schema([("x", pa.float64()), ("k", pa.int32())])
    assert rows_of(db) == [{"x": row["x"], "k": row["k"]} for row in FIRST]
    assert db.sql("SHOW CREATE TABLE t").table().column(0).to_pylist() == [
        f"CREATE TABLE t (x DOUBLE, k INT) PRIMARY KEY (k) FROM {format} 't.{format}' RETAIN INTERVAL 1 DAY"
    ]
    assert name_of(lambda: db.sql(f"CREATE TABLE u (k TINYINT PRIMARY KEY, x INT) FROM 't.{format}'")) in (
        "TYPE_MISMATCH",
        "FILE_NOT_READABLE",
    )
    if format != "json":  # where a name that no object has is NULL
        assert name_of(lambda: db.sql(f"CREATE TABLE u (k INT PRIMARY KEY, y INT) FROM 't.{format}'")) == (
            "COLUMN_MISSING"
        )
    else:
        db.sql("CREATE TABLE u (k INT PRIMARY KEY, y INT) FROM 't.json'")
        assert db.table("u").column("y").null_count == 3


def test_names_match_in_any_case_and_text_says_times(place: Path, opened: Callable[..., SparklessDatabase]) -> None:
    (place / "t.csv").write_text('K,At,Word\n1,2026-01-01 00:00:00.5,007\n2,2026-01-01T02:00:00+02:00,""\n3,,\n')
    db = opened()
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, at TIMESTAMP, word STRING) FROM 't.csv'")
    assert [str(row["at"])[:21] for row in rows_of(db)] == ["2026-01-01 00:00:00.5", "2026-01-01 00:00:00+0", "None"]
    assert [row["word"] for row in rows_of(db)] == ["007", "", None]


def test_a_time_finer_than_a_microsecond_is_not_cut(place: Path, opened: Callable[..., SparklessDatabase]) -> None:
    db = opened()
    pq.write_table(pa.table({"k": [1], "t": pa.array([1500], pa.timestamp("ns"))}), place / "fine.parquet")
    (place / "fine.csv").write_text("k,t\n1,2026-01-01T00:00:00.1234567\n")
    (place / "whole.csv").write_text("k,t\n1,2026-01-01T00:00:00.1234560\n")
    assert name_of(lambda: db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 'fine.parquet'")) == "TYPE_MISMATCH"
    columns = "(k INT, t TIMESTAMP) PRIMARY KEY (k)"
    assert name_of(lambda: db.sql(f"CREATE TABLE t {columns} FROM 'fine.csv'")) == "TYPE_MISMATCH"
    db.sql(f"CREATE TABLE t {columns} FROM 'whole.csv'")


@pytest.mark.parametrize(
    ("text", "declared", "wanted"),
    [
        ("k,name\n1,a\n2,b\n1,c\n", "PRIMARY KEY (k)", "KEY_TWICE"),
        ("k,name\n1,a\n,b\n", "PRIMARY KEY (k)", "NULL_NOT_ALLOWED"),
        ("k,name\n1,a\n2,\n", "(k INT, name STRING NOT NULL) PRIMARY KEY (k)", "NULL_NOT_ALLOWED"),
        ("k,name\n1,a\n", "PRIMARY KEY (other)", "COLUMN_NOT_FOUND"),
        ("k,K\n1,2\n", "PRIMARY KEY (k)", "COLUMN_EXISTS"),
        ("k,k\n1,2\n", "(k INT) PRIMARY KEY (k)", "COLUMN_EXISTS"),
        ("k,_version\n1,2\n", "PRIMARY KEY (k)", "COLUMN_RESERVED"),
        ("k,at\n1,10:00:00\n", "PRIMARY KEY (k)", "TYPE_NOT_SUPPORTED"),
        ("k,name\n1,a,b\n", "PRIMARY KEY (k)", "FILE_NOT_READABLE"),
        ("k,name\nx,a\n", "(k INT) PRIMARY KEY (k)", "FILE_NOT_READABLE"),
        ("k,at\n1,noon\n", "(k INT, at TIMESTAMP) PRIMARY KEY (k)", "TYPE_MISMATCH"),
        ("", "(k INT) PRIMARY KEY (k)", "COLUMN_MISSING"),
        ("k\n1\n", "(k INT)", "KEY_WANTED"),
        ("k\n1\n", "(k INT PRIMARY KEY) PRIMARY KEY (k)", "SYNTAX_ERROR"),
    ],
)
def test_a_file_that_is_no_such_table_makes_none(
    text: str, declared: str, wanted: str, place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    (place / "t.csv").write_text(text)
    db = opened()
    assert name_of(lambda: db.sql(f"CREATE TABLE t {declared} FROM 't.csv'")) == wanted
    assert not db.catalog.has_table("t")
    assert db.check().fine


def test_the_key_that_comes_twice_is_named(place: Path, opened: Callable[..., SparklessDatabase]) -> None:
    (place / "t.csv").write_text("k\n1\n2\n2\n")
    with pytest.raises(AnabranchError, match=r'KEY_TWICE "t.csv": two rows have the key \(k = 2\)'):
        opened().sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'")


def test_statements_do_not_change_a_copy_and_read_it_like_any_table(
    place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    written(place, "csv", FIRST)
    db = opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'; CREATE TABLE own (k BIGINT PRIMARY KEY, name STRING)")
    for statement in (
        "INSERT INTO t VALUES (9, 'x', 1)",
        "UPSERT INTO t SELECT * FROM t",
        "UPDATE t SET x = 1",
        "DELETE FROM t",
        "MERGE INTO t USING own o ON t.k = o.k WHEN MATCHED THEN DELETE",
    ):
        assert name_of(lambda text=statement: db.sql(text)) == "TABLE_IS_A_COPY", statement  # type: ignore[misc]
    assert name_of(lambda: db.append("t", FIRST)) == "TABLE_IS_A_COPY"
    assert name_of(lambda: db.upsert("t", FIRST)) == "TABLE_IS_A_COPY"
    assert name_of(lambda: db.delete("t", [{"k": 1}])) == "TABLE_IS_A_COPY"
    assert name_of(lambda: db.refresh_table("own")) == "TABLE_IS_NO_COPY"
    db.sql("INSERT INTO own SELECT k, name FROM t WHERE x > 1")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(x) AS x FROM t")
    db.catch_up()
    assert rows_of(db, "v") == [{"n": 3, "x": 2.5}]
    written(place, "csv", SECOND)
    db.refresh_table("t")
    db.catch_up()
    assert rows_of(db, "v") == [{"n": 3, "x": 3.5}]
    assert rows_of(db, "own") == [{"k": 3, "name": "c"}]
    db.sql("DROP VIEW v; DROP TABLE t")
    assert not db.catalog.has_table("t")


# -- where files may lie ------------------------------------------------------------------------------


def test_no_file_is_read_where_none_is_allowed(
    tmp_path: Path, place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    written(place, "csv", FIRST)
    (tmp_path / "beside").mkdir()
    written(tmp_path / "beside", "csv", FIRST)
    (place / "out").symlink_to(tmp_path / "beside")
    (place / "out.csv").symlink_to(tmp_path / "beside" / "t.csv")
    (place / "in.csv").symlink_to(place / "t.csv")
    make = "CREATE TABLE t PRIMARY KEY (k) FROM csv '{}'"
    with pytest.raises(AnabranchError, match=r"FILE_NOT_ALLOWED.*table_directories"):
        opened(table_directories="").sql(make.format(place / "t.csv"))
    db = opened()
    for path in (
        tmp_path / "beside" / "t.csv",
        "../beside/t.csv",
        place / ".." / "beside" / "t.csv",
        "out/t.csv",
        "out.csv",
        "/etc/passwd",
        "nowhere/../../none",
        "a\0b",
    ):
        assert name_of(lambda path=path: db.sql(make.format(path))) == "FILE_NOT_ALLOWED", path  # type: ignore[misc]
    for path in ("nothing.csv", "deep/nothing.csv"):
        assert name_of(lambda path=path: db.sql(make.format(path))) == "FILE_NOT_FOUND"  # type: ignore[misc]
    assert name_of(lambda: db.sql("CREATE TABLE t PRIMARY KEY (k) FROM csv '.'")) == "FILE_NOT_ALLOWED"
    (place / "folder.csv").mkdir()
    assert name_of(lambda: db.sql(make.format("folder.csv"))) == "FILE_NOT_READABLE"
    os.mkfifo(place / "pipe.csv")
    assert name_of(lambda: db.sql(make.format("pipe.csv"))) == "FILE_NOT_READABLE"
    db.sql(make.format("in.csv"))
    assert rows_of(db) == FIRST
    db.settings.change(table_directories="")
    assert name_of(lambda: db.refresh_table("t")) == "FILE_NOT_ALLOWED"
    (tmp_path / "db" / "mine").mkdir()
    written(tmp_path / "db" / "mine", "csv", SECOND)
    db.settings.change(table_directories=f"{tmp_path}/none:mine")
    db.sql("CREATE TABLE u PRIMARY KEY (k) FROM 't.csv'")


def test_a_file_that_becomes_a_link_out_is_refused_at_the_next_refresh(
    tmp_path: Path, place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    written(place, "csv", FIRST)
    db = opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'")
    written(tmp_path, "csv", SECOND)
    (place / "t.csv").unlink()
    (place / "t.csv").symlink_to(tmp_path / "t.csv")
    assert name_of(lambda: db.refresh_table("t")) == "FILE_NOT_ALLOWED"
    assert rows_of(db) == FIRST
    assert "not refreshed: FILE_NOT_ALLOWED" in note(db)


def test_a_delta_table_that_leads_elsewhere_is_refused(
    tmp_path: Path, place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    table = written(place, "delta", FIRST)
    db = opened()
    (part,) = table.glob("*.parquet")
    part.rename(tmp_path / "part.parquet")
    part.symlink_to(tmp_path / "part.parquet")
    assert name_of(lambda: db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.delta'")) == "FILE_NOT_READABLE"
    part.unlink()
    assert name_of(lambda: db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.delta'")) == "FILE_NOT_READABLE"
    (tmp_path / "part.parquet").rename(part)
    (log,) = (table / "_delta_log").glob("*.json")
    log.rename(tmp_path / "log.json")
    log.symlink_to(tmp_path / "log.json")
    assert name_of(lambda: db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.delta'")) == "FILE_NOT_FOUND"
    log.unlink()
    (tmp_path / "log.json").rename(log)
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.delta'")
    assert rows_of(db) == FIRST


# -- refreshing ---------------------------------------------------------------------------------------


def test_it_is_refreshed_when_its_time_has_come(
    place: Path, opened: Callable[..., SparklessDatabase], clock: ManualClock
) -> None:
    written(place, "csv", FIRST)
    db = opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv' REFRESH EVERY INTERVAL 10 SECONDS")
    db.sql("CREATE TABLE still PRIMARY KEY (k) FROM 't.csv'")
    written(place, "csv", SECOND)
    clock.advance(9)
    db._refreshing.refresh()
    assert version(db) == 1
    clock.advance(1)
    db._refreshing.refresh()
    assert rows_of(db) == by_key(SECOND)
    assert rows_of(db, "still") == FIRST
    db.sql("DROP TABLE t; CREATE TABLE t (k INT PRIMARY KEY) FROM 't.csv' REFRESH EVERY INTERVAL 1 DAY")
    written(place, "csv", FIRST)
    clock.advance(60)
    db._refreshing.refresh()
    assert [row["k"] for row in rows_of(db)] == [1, 3, 4]
    db.close()
    clock.advance(86_400)
    again = opened()
    again._refreshing.refresh()
    assert [row["k"] for row in rows_of(again)] == [1, 2, 3]


@pytest.mark.slow
def test_a_process_refreshes_by_itself(tmp_path: Path, place: Path) -> None:
    written(place, "csv", FIRST)
    with SparklessDatabase(tmp_path / "db", settings={"table_directories": str(place)}) as db:
        db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv' REFRESH EVERY INTERVAL 100 MILLISECONDS")
        written(place, "csv", SECOND)
        deadline = time.monotonic() + 30
        while version(db) == 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert rows_of(db) == by_key(SECOND)


@pytest.mark.parametrize("format", ["parquet", "csv", "delta"])
def test_a_file_that_is_as_it_was_is_not_read(
    format: str, place: Path, opened: Callable[..., SparklessDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(place, format, FIRST)
    if format != "delta":
        old(file)
    db = opened()
    db.sql(f"CREATE TABLE t PRIMARY KEY (k) FROM 't.{format}'")
    reads: list[tuple[Any, ...]] = []
    read = file_reading.read_file

    def noted(*given: Any) -> file_reading.Read:
        reads.append(given)
        return read(*given)

    monkeypatch.setattr("anabranch.tables.copying.read_file", noted)
    assert db.refresh_table("t") == 0
    assert not reads
    other = opened()
    assert other.refresh_table("t") == 0
    assert not reads
    changes = db.catalog.stream_storage("t.changes")
    known = Copied.of(changes)
    assert known is not None
    replace(known, row=known.row - 1).write(changes)  # as if the log had been put back from a copy
    assert db.refresh_table("t") == 0
    assert len(reads) == 1
    reads.clear()
    written(place, format, FIRST)  # another file with the same rows is read, and is no version
    assert other.refresh_table("t") == 0
    assert db.refresh_table("t") == 0
    assert reads
    assert version(db) == 1


def test_a_file_just_written_may_be_written_again_in_the_same_moment(
    place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    file = place / "t.csv"
    file.write_text("k,v\n1,a\n")
    at = os.stat(file).st_mtime_ns
    db = opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'")
    with file.open("r+") as same:
        same.write("k,v\n1,b\n")
    os.utime(file, ns=(at, at))  # as large, as old, and the same file
    assert db.refresh_table("t") == 1
    assert rows_of(db) == [{"k": 1, "v": "b"}]


@pytest.mark.parametrize("what", ["gone", "torn", "other", "twice"])
def test_a_file_that_cannot_be_read_leaves_the_table_as_it_was(
    what: str, place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    file = written(place, "parquet", FIRST)
    db, other = opened(), opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.parquet' REFRESH EVERY INTERVAL 1 HOUR")
    whole = written(place, "parquet", SECOND).read_bytes()
    match what:
        case "gone":
            file.unlink()
        case "torn":
            file.write_bytes(whole[: len(whole) // 2])
        case "other":
            pq.write_table(pa.table({"k": ["x"], "name": ["y"], "x": [1.0]}), file)
        case _:
            written(place, "parquet", [*SECOND, SECOND[0]])
    wanted = {"gone": "FILE_NOT_FOUND", "torn": "FILE_NOT_READABLE", "other": "TYPE_MISMATCH", "twice": "KEY_TWICE"}
    assert name_of(lambda: db.refresh_table("t")) == wanted[what]
    for each in (db, other, opened()):
        assert rows_of(each) == FIRST
        assert f"refreshed every 1 hour; not refreshed: {wanted[what]}" in note(each)
    assert name_of(lambda: other.refresh_table("t")) == wanted[what]
    written(place, "parquet", FIRST)  # as it was at first: there is nothing new, and no problem any more
    assert other.refresh_table("t") == 0
    assert note(db) == "a copy of t.parquet, refreshed every 1 hour"
    file.write_bytes(whole)
    assert db.refresh_table("t") == 3
    assert rows_of(other) == by_key(SECOND)
    assert db.check().fine


def test_a_file_that_is_changed_while_it_is_read_is_read_again(
    place: Path, opened: Callable[..., SparklessDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place / "t.csv"
    file.write_text("k\n0\n")
    db = opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'")
    monkeypatch.setattr(file_reading, "_PAUSE_SECONDS", 0.0)
    read, times = file_reading._READERS["csv"], [2]

    def read_slowly(*given: Any) -> pa.Table:
        rows = read(*given)
        if times[0]:
            times[0] -= 1
            with file.open("a") as more:
                more.write(f"{10 + times[0]}\n")
        return rows

    monkeypatch.setitem(file_reading._READERS, "csv", read_slowly)
    assert db.refresh_table("t") == 2
    assert [row["k"] for row in rows_of(db)] == [0, 10, 11]
    times[0] = 1000
    assert name_of(lambda: db.refresh_table("t")) == "FILE_IS_CHANGING"
    assert [row["k"] for row in rows_of(db)] == [0, 10, 11]
    assert name_of(lambda: db.sql("CREATE TABLE u PRIMARY KEY (k) FROM 't.csv'")) == "FILE_IS_CHANGING"


def test_any_files_one_after_the_other(place: Path, opened: Callable[..., SparklessDatabase]) -> None:
    draw = random.Random(SEED)
    rows: Rows = []
    written(place, "parquet", rows)
    db = opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.parquet'")
    versions = 0
    for _ in range(25):
        keys = draw.sample(range(12), draw.randrange(12))
        before = by_key(rows)
        rows = [{"k": k, "name": draw.choice([None, "a", "b"]), "x": draw.choice([0.0, -0.0, 1.5])} for k in keys]
        written(place, "parquet", rows)
        touched = db.refresh_table("t")
        assert repr(rows_of(db)) == repr(by_key(rows))
        versions += repr(before) != repr(by_key(rows))
        assert (touched > 0) == (repr(before) != repr(by_key(rows)))
        assert version(db) == versions
        if draw.random() < 0.2:
            db.close()
            db = opened()


# -- what dies in between -----------------------------------------------------------------------------


def test_who_dies_before_it_is_noted_what_was_read_does_no_harm(
    tmp_path: Path, place: Path, opened: Callable[..., SparklessDatabase]
) -> None:
    old(written(place, "csv", FIRST))
    db = opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'")
    noted = tmp_path / "db/streams/t=2Echanges" / COPIED
    for damage in (noted.unlink, lambda: noted.write_text("{"), lambda: noted.write_text('{"mark": 1}')):
        damage()
        assert db.refresh_table("t") == 0
        known = Copied.of(db.catalog.stream_storage("t.changes"))
        assert known is not None
        assert (known.version, known.row, known.problem) == (1, 3, None)
    before = noted.read_bytes()
    old(written(place, "csv", SECOND))
    assert db.refresh_table("t") == 3
    noted.write_bytes(before)  # the version was written, and what was read for it was not noted
    assert opened().refresh_table("t") == 0
    assert version(db) == 2


def test_a_table_is_there_with_its_rows_or_not_at_all(
    tmp_path: Path, place: Path, opened: Callable[..., SparklessDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(place, "csv", FIRST)
    db = opened()

    def dies(*given: Any) -> None:
        assert not db.catalog.has_table("t")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(copying, "replaced", dies)
        with pytest.raises(KeyboardInterrupt):
            db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'")
    assert not db.catalog.has_table("t")
    assert not list((tmp_path / "db" / "dropped").iterdir())
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'")
    assert name_of(lambda: db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.csv'")) == "NAME_EXISTS"
    said = db.sql("CREATE TABLE IF NOT EXISTS t PRIMARY KEY (k) FROM 'nothing.csv'")
    assert said.message == 'table "t" exists already'
    info = opened().catalog.table("t")
    assert info == db.catalog.table("t")
    assert TableInfo.of(info.stream()).origin == info.origin


@pytest.mark.slow
def test_two_processes_read_a_file_once(tmp_path: Path, place: Path, opened: Callable[..., SparklessDatabase]) -> None:
    written(place, "parquet", FIRST)
    db = opened()
    db.sql("CREATE TABLE t PRIMARY KEY (k) FROM 't.parquet'")
    script = f"""
        import os, sys
        from anabranch.testing.sparkless import SparklessDatabase
        with SparklessDatabase({str(tmp_path / "db")!r}, settings={{"table_directories": {str(place)!r}}}) as db:
            print("begun", flush=True)
            while not os.path.exists({str(tmp_path / "stop")!r}):
                db.refresh_table("t")
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        for number in range(10):
            rows = [{"k": k, "name": str(number), "x": float(k)} for k in range(number, number + 200)]
            written(place, "parquet", rows)
            db.refresh_table("t")
            assert rows_of(db) == rows
            assert version(db) == number + 2
    finally:
        (tmp_path / "stop").touch()
        assert child.wait(60) == 0
    assert db.check().fine


def test_parquet_and_json_hold_arrays_and_structs_and_csv_does_not(
    opened: Callable[..., SparklessDatabase], place: Path
) -> None:
    db = opened()
    rows: Rows = [{"k": 1, "a": ["x", None], "o": {"n": 1}}, {"k": 2, "a": [], "o": None}]
    pq.write_table(pa.Table.from_pylist(rows), place / "t.parquet")
    (place / "t.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "t.csv").write_text("k,a\n1,x\n")
    for format in ("parquet", "json"):
        db.sql(f"CREATE TABLE {format}s PRIMARY KEY (k) FROM '{place}/t.{format}'")
        assert by_key(rows_of(db, f"{format}s")) == rows
    wanted = f"CREATE TABLE c (k INT, a ARRAY<STRING>, PRIMARY KEY (k)) FROM '{place}/t.csv'"
    assert name_of(lambda: db.sql(wanted)) == "TYPE_NOT_SUPPORTED"
