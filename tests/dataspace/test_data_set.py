"""Data sets of every kind: their rows, columns, keys, extents and times, and how they grow and break."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from anabranch.dataspace.blocks import BlockCache
from anabranch.dataspace.collection import Collection
from anabranch.dataspace.columns import key_numbers, served_schema
from anabranch.dataspace.data_set import DataSet
from anabranch.errors import AnabranchError
from anabranch.log import Storage, StreamWriter
from anabranch.log.stream import StreamInfo
from anabranch.schema import StreamSchema

from .conftest import floods


def all_rows(data_set: DataSet) -> pa.Table:
    return data_set.read(0, data_set.end().row)


def error_of(action: Callable[[], object]) -> str:
    with pytest.raises(AnabranchError) as problem:
        action()
    return problem.value.name


def look_again(data_set: DataSet) -> None:
    """As if it had looked for new files long ago."""
    rows: Any = data_set._rows
    rows._looked = 0


@pytest.fixture
def collection(folder: Path) -> Iterator[Collection]:
    made = Collection(str(folder))
    yield made
    made.close()


def test_each_file_and_folder_is_a_data_set(collection: Collection) -> None:
    assert collection.names() == ["floods", "quakes", "rain", "snow"]
    assert all_rows(collection.get("quakes")).column("n").to_pylist() == list(range(3000))


@pytest.mark.parametrize("name", ["floods", "rain", "snow"])
def test_rows_are_those_of_the_file(collection: Collection, name: str) -> None:
    data_set = collection.get(name)
    wanted = floods(data_set.end().row).select(data_set.schema.names)
    got = all_rows(data_set)
    assert got.column("station").to_pylist() == wanted.column("station").to_pylist()
    assert got.column("lat").to_pylist() == pytest.approx(wanted.column("lat").to_pylist(), abs=1e-12)
    times = pc.cast(wanted.column("ts"), pa.timestamp("us", tz="UTC"))
    assert got.column("ts").equals(times)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 1), (1699, 1701), (1, 9999), (5000, 5000), (9999, 20_000)])
def test_any_stretch_can_be_read(collection: Collection, start: int, end: int) -> None:
    got = collection.get("floods").read(start, end, ["n", "station"])
    assert got.column_names == ["n", "station"]
    assert got.column("n").to_pylist() == list(range(start, min(end, 10_000)))


def test_rows_can_be_taken_by_number(collection: Collection) -> None:
    numbers = np.array([0, 1, 1699, 1700, 4242, 9999])
    got = collection.get("floods").take(numbers, ["station", "n"])
    assert got.column("n").to_pylist() == numbers.tolist()
    assert collection.get("floods").take(numbers[:0], ["n"]).num_rows == 0


def test_what_is_known_of_a_data_set(collection: Collection) -> None:
    known = collection.get("floods").describe()
    lat = floods(10_000).column("lat")
    assert known["rows"] == 10_000
    assert known["columns"] == [
        ["lat", "DOUBLE"],
        ["lon", "DOUBLE"],
        ["ts", "TIMESTAMP"],
        ["depth", "FLOAT"],
        ["station", "STRING"],
        ["n", "BIGINT"],
    ]
    assert known["keys"] == ["lat", "lon", "ts", "depth", "n"]
    assert known["extents"]["lat"] == (pc.min(lat).as_py(), pc.max(lat).as_py())
    assert known["extents"]["ts"] == (0.0, 9_999_000.0)
    assert (known["time"], known["in_order"]) == ("ts", {"ts": True})


def test_extents_without_statistics_are_found_by_looking(tmp_path: Path) -> None:
    table = floods(3000)
    pq.write_table(table, tmp_path / "a.parquet", write_statistics=False)
    pq.write_table(table, tmp_path / "b.parquet", row_group_size=100)
    collection = Collection(str(tmp_path))
    assert collection.get("a").describe()["extents"] == collection.get("b").describe()["extents"]
    collection.close()


def test_time_is_a_column_in_order_or_none(tmp_path: Path) -> None:
    def table(times: list[int | None]) -> pa.Table:
        return pa.table({"a": pa.array(times, pa.timestamp("ms")), "v": range(len(times))})

    pq.write_table(table([3, 1, 2]), tmp_path / "back.parquet")
    pq.write_table(table([1, 1, 2]), tmp_path / "order.parquet")
    pq.write_table(table([1, None, 2]), tmp_path / "null.parquet")
    collection = Collection(str(tmp_path))
    assert [collection.get(n).describe()["time"] for n in ("back", "order", "null")] == [None, "a", None]
    assert collection.get("order").position("a") == {
        "identity": collection.get("order").identity,
        "rows": 3,
        "first": 0,
        "time": 2000,
    }
    assert error_of(lambda: collection.get("back").position("a")) == "TIME_NOT_IN_ORDER"
    assert error_of(lambda: collection.get("back").position("v")) == "TIME_TYPE_MISMATCH"
    assert error_of(lambda: collection.get("back").position("w")) == "COLUMN_NOT_FOUND"
    collection.close()


def test_row_at_time_is_the_first_that_is_not_older(collection: Collection) -> None:
    data_set = collection.get("floods")
    for time in (-5, 0, 1, 1000, 1001, 5_000_500, 9_999_000, 9_999_001):
        wanted = next((n for n in range(10_000) if n * 1000 >= time), 10_000)
        assert data_set.row_at_time("ts", time, 10_000) == wanted
    assert data_set.row_at_time("ts", 5_000_000, 100) == 100


def test_types_that_streams_have_not_are_widened_or_left_out() -> None:
    given = pa.schema(
        [
            ("u8", pa.uint8()),
            ("u64", pa.uint64()),
            ("half", pa.float16()),
            ("text", pa.large_string()),
            ("category", pa.dictionary(pa.int8(), pa.string())),
            ("ns", pa.timestamp("ns", "Europe/Berlin")),
            ("day", pa.date64()),
            ("list", pa.list_(pa.int32())),
            ("map", pa.map_(pa.string(), pa.int32())),
            ("time", pa.time64("us")),
            ("_row", pa.int64()),
            ("TEXT", pa.string()),
        ]
    )
    schema, left_out = served_schema(given)
    assert [str(kind) for kind in schema.types] == [
        "int16",
        "decimal128(20, 0)",
        "float",
        "string",
        "string",
        "timestamp[us, tz=UTC]",
        "date32[day]",
        "list<item: int32>",
    ]
    assert left_out == ("map", "time", "_row", "TEXT")


def test_keys_are_numbers_of_the_right_unit() -> None:
    day = dt.date(1970, 1, 3)
    moment = dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)

    def numbers(values: list[object], kind: pa.DataType) -> list[float]:
        found: list[float] = key_numbers(pa.chunked_array([pa.array(values, kind)])).tolist()
        return found

    assert numbers([day], pa.date32()) == [2.0]
    assert numbers([moment], pa.timestamp("us", "UTC")) == [2e6]
    assert numbers([decimal.Decimal("1.5")], pa.decimal128(5, 2)) == [1.5]
    assert np.isnan(numbers([None, 1], pa.int32())).tolist() == [True, False]


def test_chosen_keys_must_be_columns_that_can_be_keys(folder: Path) -> None:
    def keys(*names: str) -> str:
        made = Collection(str(folder), {"floods": names})
        try:
            made.get("floods")
            return "fine"
        except AnabranchError as problem:
            return problem.name
        finally:
            made.close()

    assert keys("lat", "ts") == "fine"
    assert keys("station") == "KEY_TYPE_NOT_SUPPORTED"
    assert keys("nope") == "COLUMN_NOT_FOUND"
    assert error_of(lambda: Collection(str(folder), {"flood": ("lat",)})) == "DATA_SET_NOT_FOUND"


def test_new_files_of_a_folder_become_rows_behind_the_others(folder: Path, collection: Collection) -> None:
    quakes = collection.get("quakes")
    assert quakes.end().row == 3000
    pq.write_table(floods(10, 9000), folder / "quakes" / "0a.parquet")
    look_again(quakes)
    assert quakes.end().row == 3010
    assert all_rows(quakes).column("n").to_pylist() == [*range(3000), *range(9000, 9010)]
    index = quakes.ranges(("n",), np.array([[9000.0]]), np.array([[9003.0]]), 10)
    assert index[0][0].tolist() == [3000, 3001, 3002, 3003]


def test_a_file_that_is_still_written_is_waited_for(folder: Path, collection: Collection) -> None:
    quakes = collection.get("quakes")
    whole = folder / "whole"
    pq.write_table(floods(10, 3000), whole)
    part = folder / "quakes" / "7.parquet"
    part.write_bytes(whole.read_bytes()[:500])
    look_again(quakes)
    assert quakes.end().row == 3000
    os.replace(whole, part)
    look_again(quakes)
    assert quakes.end().row == 3010


@pytest.mark.parametrize("change", ["removed", "rewritten"])
def test_rows_from_a_file_that_was_changed_on_are_an_error(folder: Path, collection: Collection, change: str) -> None:
    quakes = collection.get("quakes")
    assert all_rows(quakes).num_rows == 3000
    middle = folder / "quakes" / "1.parquet"
    if change == "removed":
        middle.unlink()
    else:
        pq.write_table(floods(999), middle)
    look_again(quakes)
    assert quakes.end().row == 3000
    assert quakes.read(0, 1000, ["n"]).num_rows == 1000
    assert error_of(lambda: quakes.read(900, 1001, ["n"])) == "DATA_SET_CHANGED"
    assert error_of(lambda: quakes.read(2500, 2600, ["n"])) == "DATA_SET_CHANGED"


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "two"
    place.mkdir()
    pq.write_table(pa.table({"a": [1], "b": [1.5]}), place / "1.parquet")
    pq.write_table(pa.table({"a": [1]}), place / "2.parquet")
    collection = Collection(str(tmp_path))
    assert error_of(lambda: collection.get("two")) == "COLUMN_MISSING"
    pq.write_table(pa.table({"a": ["x"], "b": [1.5]}), place / "2.parquet")
    assert error_of(lambda: collection.get("two")) == "TYPE_MISMATCH"
    pq.write_table(pa.table({"b": pa.array([2.5], pa.float32()), "a": pa.array([7], pa.int8())}), place / "2.parquet")
    assert all_rows(collection.get("two")).to_pydict() == {"a": [1, 7], "b": [1.5, 2.5]}
    collection.close()


@pytest.mark.parametrize("name", ["broken.parquet", "broken.csv", "broken.arrow"])
def test_a_damaged_file_is_told_and_the_others_are_served(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\xff\xfe,nothing\n1,2,3\n" * 3)
    collection = Collection(str(folder))
    sets, failures = collection.readable()
    assert [each.name for each in sets] == ["floods", "quakes", "rain", "snow"]
    assert {key: problem.name for key, problem in failures.items()} == {"broken": "FILE_NOT_READABLE"}
    collection.close()


def test_what_is_no_data_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    assert error_of(lambda: Collection(str(tmp_path / "note.txt"))) == "FORMAT_NOT_KNOWN"
    assert error_of(lambda: Collection(str(tmp_path))) == "DATA_SET_NOT_FOUND"
    assert error_of(lambda: Collection(str(tmp_path / "none"))) == "FILE_NOT_FOUND"


def test_names_that_would_be_equal_keep_their_endings(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    pyarrow.csv.write_csv(pa.table({"a": [1]}), tmp_path / "x.csv")
    collection = Collection(str(tmp_path))
    assert collection.names() == ["x.csv", "x.parquet"]
    collection.close()


def test_a_folder_in_parts_is_one_data_set(tmp_path: Path) -> None:
    place = tmp_path / "table"
    place.mkdir()
    for i in range(2):
        pq.write_table(pa.table({"a": [i]}), place / f"part-{i:05}.parquet")
    collection = Collection(str(place))
    assert collection.names() == ["table"]
    assert all_rows(collection.get("table")).column("a").to_pylist() == [0, 1]
    collection.close()


# -- streams of a database ---------------------------------------------------------------------------


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[StreamWriter]:
    schema = StreamSchema.of({"v": "INT", "ts": "TIMESTAMP"}, time="ts")
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "anabranch.json").write_text('{"format": 1}')
    storage = Storage(str(tmp_path / "db" / "streams" / "packets"))
    StreamInfo("packets", schema).create(storage)
    made = StreamWriter(storage)
    yield made
    made.close()


def append(writer: StreamWriter, first: int, rows: int) -> None:
    times = pa.array(np.arange(first, first + rows) * 10, pa.timestamp("us", "UTC"))
    writer.append({"v": pa.array(np.arange(first, first + rows), pa.int32()), "ts": times})


def test_a_stream_is_served_live(writer: StreamWriter, tmp_path: Path) -> None:
    collection = Collection(str(tmp_path / "db"))
    packets = collection.get("packets")
    assert packets.end("ts").row == 0
    assert packets.describe()["extents"] == {"v": None, "ts": None}
    append(writer, 0, 100)
    assert all_rows(packets).column("v").to_pylist() == list(range(100))
    known = packets.describe()
    assert (known["time"], known["extents"]["v"]) == ("ts", (0.0, 99.0))
    append(writer, 100, 50)
    assert packets.position("ts")["time"] == 1490
    assert packets.describe()["extents"]["v"] == (0.0, 149.0)
    assert packets.ranges(("v",), np.array([[98.0]]), np.array([[101.0]]), 9)[0][0].tolist() == [98, 99, 100, 101]
    writer.advance(5000)
    assert packets.position("ts")["time"] == 5000
    collection.close()


def test_a_stream_that_was_made_anew_is_another_data_set(writer: StreamWriter, tmp_path: Path) -> None:
    collection = Collection(str(tmp_path / "db"))
    packets = collection.get("packets")
    append(writer, 0, 10)
    assert packets.end().row == 10
    os.utime(tmp_path / "db" / "streams" / "packets" / "stream.json", ns=(1, 1))
    assert error_of(packets.end) == "DATA_SET_CHANGED"
    collection.close()


# -- Delta -------------------------------------------------------------------------------------------


def test_a_delta_table_grows_by_versions(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")
    place = str(tmp_path / "table")
    deltalake.write_deltalake(place, floods(100).drop_columns(["n"]))
    collection = Collection(place)
    table = collection.get("table")
    assert all_rows(table).num_rows == 100
    deltalake.write_deltalake(place, floods(50, 100).drop_columns(["n"]), mode="append")
    look_again(table)
    assert all_rows(table).column("station").to_pylist() == [f"s{n % 7}" for n in range(150)]
    collection.close()


@pytest.mark.parametrize(
    "path", ["../secret.parquet", "%2e%2e/secret.parquet", "{place}/secret.parquet", "a/../../secret.parquet"]
)
def test_a_delta_table_serves_no_file_outside_of_its_folder(tmp_path: Path, path: str) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")
    place = tmp_path / "table"
    deltalake.write_deltalake(str(place), floods(100).drop_columns(["n"]))
    next(place.glob("*.parquet")).rename(tmp_path / "secret.parquet")
    log = next((place / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = path.format(place=tmp_path)
    log.write_text("\n".join(json.dumps(action) for action in actions))
    with pytest.raises(AnabranchError):
        all_rows(Collection(str(place)).get("table"))


# -- decoded blocks ----------------------------------------------------------------------------------


def test_decoded_files_are_let_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    cache = BlockCache(str(tmp_path), most_bytes=50_000)
    schema = pa.schema([("a", pa.int64())])
    tables = {str(i): pa.table({"a": np.arange(2000) + i}) for i in range(5)}
    first = cache.put("0", schema, iter([tables["0"]]))
    for name in "1234":
        cache.put(name, schema, iter([tables[name]]))
    assert [name for name in "01234" if cache.get(name) is not None] == ["2", "3", "4"]
    assert first.equals(tables["0"]), "whoever reads it keeps it"
    cache.close()
    assert list(tmp_path.iterdir()) == []


def test_folders_of_dead_processes_are_swept(tmp_path: Path) -> None:
    dead = tmp_path / "anabranch-blocks-999999999-abc"
    dead.mkdir()
    living = tmp_path / f"anabranch-blocks-{os.getpid()}-abc"
    living.mkdir()
    cache = BlockCache(str(tmp_path))
    assert not dead.exists()
    assert living.exists()
    cache.close()
