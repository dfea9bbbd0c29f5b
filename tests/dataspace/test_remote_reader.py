"""A data set read like a stream: everything a local reader says, a remote one says too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from anabranch.connectors import CONNECTORS, Declared, connector_of
from anabranch.dataspace.access import Access
from anabranch.dataspace.client import DataSpaceClient
from anabranch.dataspace.ranges import ranges_of
from anabranch.dataspace.remote_reader import RemoteReader
from anabranch.errors import AnabranchError
from anabranch.log import MIN_TIME, End, Storage, StreamReader, StreamWriter
from anabranch.log.offset import MAX_TIME
from anabranch.log.stream import StreamInfo
from anabranch.operators.base import Inputs
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.operators.offset import Offset
from anabranch.operators.opening import end_of, open_stream
from anabranch.schema import StreamSchema
from anabranch.testing.harness import run_batch
from anabranch.testing.memory_log import MemoryLog
from anabranch.testing.sparkless import SparklessDatabase
from tests.sampling import examples

from .conftest import floods, serving

ROWS = 5000


def declared(name: str, options: dict[str, str]) -> StreamInfo:
    """A stream that is a data set, with its columns."""
    return CONNECTORS["dataspace"].declare(Declared(name, (), options=options), Access())


class Pair:
    """A stream, and a reader of it at each end of the network."""

    def __init__(self, place: Path) -> None:
        (place / "db").mkdir(parents=True)
        (place / "db" / "anabranch.json").write_text('{"format": 1}')
        self.storage = Storage(str(place / "db" / "streams" / "floods"))
        columns = {"lat": "DOUBLE", "lon": "DOUBLE", "station": "STRING", "n": "BIGINT", "ts": "TIMESTAMP"}
        StreamInfo("floods", StreamSchema.of(columns, time="ts")).create(self.storage)
        self.writer = StreamWriter(self.storage)
        self._serving = serving(place / "db")
        self.server = self._serving.__enter__()
        self.local = StreamReader(self.storage)
        options = {"url": self.server.url, "dataset": "floods"}
        self.info = declared("remote", options)
        self.remote = RemoteReader(self.info, patience=5)

    def append(self, first: int, rows: int) -> None:
        table = floods(rows, first, seed=first)
        self.writer.append(table.select(["lat", "lon", "station", "n", "ts"]))

    def close(self) -> None:
        self._serving.__exit__(None, None, None)
        self.writer.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"))
    for first in range(0, ROWS, 1000):
        made.append(first, 1000)
    yield made
    made.close()


def test_what_is_declared_is_what_is_served(pair: Pair) -> None:
    assert pair.remote.schema == pair.local.schema
    assert pair.remote.time_column == pair.local.time_column == "ts"
    assert pair.remote.end() == pair.local.end()
    assert (pair.remote.skew_us, pair.remote.first_row(), pair.remote.size()) == (0, 0, 0)


@given(start=st.integers(0, ROWS), rows=st.integers(0, 2000), columns=st.sampled_from([None, ["n"], ["ts", "station"]]))
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_stretch_is_the_same_from_both(pair: Pair, start: int, rows: int, columns: list[str] | None) -> None:
    end = min(start + rows, ROWS)
    assert pair.remote.read(start, end, columns).equals(pair.local.read(start, end, columns))


@pytest.mark.parametrize("step", [1, 700, 1250, 5000])
def test_reading_in_order_fetches_ahead_and_gives_every_row_once(pair: Pair, step: int) -> None:
    remote = RemoteReader(pair.info, patience=5)
    remote.end()
    upto = ROWS if step > 1 else 50
    pieces = [remote.read(at, min(at + step, upto), ["n"]) for at in range(0, upto, step)]
    assert pa.concat_tables(pieces).column("n").to_pylist() == list(range(upto))
    if 1 < step < ROWS:
        assert remote.bytes_read <= ROWS * 8 + step * 8, "nothing is fetched twice"


def test_rows_read_again_are_not_fetched_again(pair: Pair) -> None:
    remote = RemoteReader(pair.info, patience=5)
    remote.read(1000, 3000)
    fetched = remote.bytes_read
    assert remote.read(1500, 2500, ["n"]).column("n").to_pylist() == list(range(1500, 2500))
    assert remote.bytes_read == fetched
    assert remote.read(2500, 3500, ["n"]).num_rows == 1000
    assert remote.bytes_read == fetched + 500 * 8


def test_times_and_offsets_are_the_same_from_both(pair: Pair) -> None:
    end = pair.local.end()
    for row in (0, 1, 999, 1000, 4999, 5000, 9999):
        assert pair.remote.offset_at(row, end) == pair.local.offset_at(row, end)
    for time in (-1, 0, 1, 1_000_000, 1_000_001, 4_999_000, 10**9):
        assert pair.remote.row_at_time(time, ROWS) == pair.local.row_at_time(time, ROWS)
    assert pair.remote.row_at_time(2_000_000, 100) == pair.local.row_at_time(2_000_000, 100) == 100


def test_ranges_find_the_same_here_and_there(pair: Pair) -> None:
    here, there = ranges_of(pair.local, ("lat", "lon")), ranges_of(pair.remote, ("lat", "lon"))
    random = np.random.default_rng(8)
    for _ in range(20):
        low = random.random(2) * [80, 160]
        high = low + random.random(2) * 30
        cut = (low + 1, low + 5) if random.random() < 0.5 else None
        after, below, limit = (
            int(random.integers(-1, 4000)),
            int(random.integers(4000, ROWS)),
            int(random.integers(1, 40)),
        )
        local = here.query_rows(low, high, limit, ["n", "station"], below, cut, after)
        remote = there.query_rows(low, high, limit, ["n", "station"], below, cut, after)
        assert local[0].equals(remote[0])
        assert local[1] == remote[1]
    numbers, more = pair.remote.ranges(("n",)).query(np.array([10.0]), np.array([19.0]), 4)
    assert (numbers.tolist(), more) == ([10, 11, 12, 13], True)
    unbounded, _ = pair.remote.ranges(("lat",)).query(np.array([-np.inf]), np.array([np.inf]), 10_000)
    assert len(unbounded) == ROWS


def test_a_stream_that_grows_is_followed(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    try:
        assert pair.remote.end() == End(0, MIN_TIME)
        assert pair.remote.read(0, 0).num_rows == 0
        pair.append(0, 10)
        assert pair.remote.wait(End(), 5) == End(10, 9000)
        assert pair.remote.wait(End(10, 9000), 0.05) == End(10, 9000)
        following = pair.remote.tail(4, follow=True, poll=0.01)
        assert next(following).column("n").to_pylist() == [4, 5, 6, 7, 8, 9]
        assert next(following).num_rows == 0
        pair.append(10, 5)
        assert next(t for t in following if t.num_rows).column("n").to_pylist() == [10, 11, 12, 13, 14]
        assert [t.num_rows for t in pair.remote.tail(0)] == [15]
        pair.writer.advance(50_000)
        assert pair.remote.end() == End(15, 50_000)
    finally:
        pair.close()


def test_a_data_set_without_time_has_positions(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [5, 3, 9], "w": ["a", "b", None]}), tmp_path / "plain.parquet")
    with serving(tmp_path) as server:
        info = declared("plain", {"url": server.url, "dataset": "plain"})
        reader = RemoteReader(info, patience=5)
        assert info.schema.names == ["v", "w", "_position"]
        assert (reader.time_column, reader.end()) == ("_position", End(3, 2))
        assert reader.read(1, 3).column("_position").cast(pa.int64()).to_pylist() == [1, 2]
        assert reader.read(0, 3, ["_position"]).num_rows == 3
        assert reader.read(0, 2, ["_position", "v"]).column_names == ["_position", "v"]
        assert [reader.row_at_time(t, 3) for t in (-5, 0, 2, 7)] == [0, 0, 2, 3]
        assert reader.offset_at(2, reader.end()) == End(2, 1)
        found, _ = reader.ranges(("v",)).query_rows(np.array([4.0]), np.array([9.0]), 5, ["_position", "w"])
        assert found.column_names == ["_row", "_position", "w"]
        assert found.column("_row").to_pylist() == [0, 2]


def test_a_data_set_with_fewer_rows_than_before_is_told(pair: Pair) -> None:
    with pytest.raises(AnabranchError, match="DATA_SET_CHANGED"):
        RemoteReader(pair.info, patience=5).read(ROWS - 10, ROWS + 10)


def test_decimals_of_a_data_server_are_merged_exactly(tmp_path: Path) -> None:
    """Its index has doubles, which are the same for all of these numbers."""
    ninety = [Decimal(f"12345678901234567890.{n:010}") for n in range(90)]
    pq.write_table(pa.table({"k": pa.array(ninety, pa.decimal128(38, 10))}), tmp_path / "plain.parquet")
    here = MemoryLog(StreamSchema.of({"k": "DECIMAL(38,12)", "ts": "TIMESTAMP"}, time="ts"))
    here.append({"k": [ninety[n] for n in (0, 40, 89)], "ts": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 3})
    columns = (("x", "`a.k`"), ("y", "`b.k`"), ("_time", "_time"))
    with serving(tmp_path) as server:
        there = RemoteReader(declared("plain", {"url": server.url, "dataset": "plain"}), patience=5)
        inputs, start = Inputs({"here": here, "there": there}), dict.fromkeys(("here", "there"), Offset())
        policy: Any
        for policy, far in (("all", 2), ("nearest", 0), ("first", 0)):
            keys = ((("`a.k`", "`b.k`", f"0.00000000{far:02}9"),),)
            merge = RangeMerge(
                (("a", "here"), ("b", "there")), keys, ((),), ("inner",), (), columns, "_time",
                policy=policy, window=7, waits=False,
            )  # fmt: skip
            found = run_batch(merge, inputs, start, {"here": Offset(3, MAX_TIME), "there": Offset.at(there.end())}, 1)
            x, y = ([ninety.index(value) for value in found[name].to_pylist()] for name in "xy")
            wanted = [(n, m) for n in (0, 40, 89) for m in range(90) if abs(n - m) <= far]
            assert sorted(zip(x, y, strict=True)) == wanted, policy


# -- CREATE STREAM … FROM dataspace --------------------------------------------------------------------


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "river") as made:
        yield made


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with serving(folder) as server:
        yield server.url


def refused(db: SparklessDatabase, sql: str) -> str:
    with pytest.raises(AnabranchError) as problem:
        db.sql(sql)
    return problem.value.name


def test_a_stream_from_a_dataspace_is_read_like_any_other(db: SparklessDatabase, url: str) -> None:
    db.sql(f"CREATE STREAM floods FROM dataspace OPTIONS (url '{url}', dataset 'floods')")
    assert db.reader("floods").end() == End(10_000, 9_999_000)
    assert db.tail("floods", 2).column("n").to_pylist() == [9998, 9999]
    columns = db.sql("DESCRIBE floods").table().to_pydict()
    assert columns["column"] == ["lat", "lon", "ts", "depth", "station", "n"]
    assert columns["note"][2] == f"time, from dataspace {url}/floods"
    shown = db.sql("SHOW STREAMS").table().to_pylist()
    assert [(s["stream"], s["filled_by"], s["rows"]) for s in shown] == [("floods", f"dataspace {url}/floods", 10_000)]
    assert refused(db, "INSERT INTO floods VALUES (1, 2, TIMESTAMP '2026-01-01', 4, 'x', 6)") == "STREAM_IS_AN_ANSWER"
    assert next(iter(db.follow("floods", 9990))).num_rows == 10
    db.sql("DROP STREAM floods")
    assert db.streams() == []


def test_a_standing_query_over_a_remote_stream_gives_its_rows_and_those_to_come(
    db: SparklessDatabase, folder: Path, url: str
) -> None:
    db.sql(f"CREATE STREAM quakes FROM dataspace OPTIONS (url '{url}', dataset 'quakes')")
    db.sql("CREATE CONTINUOUS QUERY some AS SELECT n, station, ts FROM quakes WHERE n % 10 = 0")
    db.catch_up()
    query = db.get_query("some")
    assert query.table().column("n").to_pylist() == list(range(0, 3000, 10))
    pq.write_table(floods(100, 3000), folder / "quakes" / "3.parquet")
    db.reader("quakes").wait(End(3000, 2_999_000), 5)
    db.catch_up()
    assert query.table().column("n").to_pylist() == list(range(0, 3100, 10))
    assert refused(db, "DROP STREAM quakes") == "STREAM_IS_USED"
    assert query.stats()["behind_rows"] == 0
    db.sql("DROP QUERY some")
    db.sql("DROP STREAM quakes")


def test_columns_and_time_may_be_declared_if_they_are_the_servers(db: SparklessDatabase, url: str) -> None:
    options = f"OPTIONS (url '{url}', dataset 'floods')"
    db.sql(f"CREATE STREAM a (LAT DOUBLE, ts TIMESTAMP) FROM dataspace TIMESTAMP BY ts {options}")
    assert (db.reader("a").schema.names, db.reader("a").time_column) == (["lat", "ts"], "ts")
    db.sql(f"CREATE STREAM b (lat DOUBLE) FROM dataspace {options}")
    assert db.reader("b").schema.names == ["lat", "_position"]
    db.sql(f"CREATE STREAM c FROM dataspace TIMESTAMP BY ts {options}")
    assert db.reader("c").time_column == "ts"
    assert refused(db, f"CREATE STREAM d (lat INT) FROM dataspace {options}") == "TYPE_MISMATCH"
    assert refused(db, f"CREATE STREAM d (lap DOUBLE) FROM dataspace {options}") == "COLUMN_NOT_FOUND"
    assert refused(db, f"CREATE STREAM d FROM dataspace TIMESTAMP BY lat {options}") == "TIME_TYPE_MISMATCH"
    assert refused(db, f"CREATE STREAM d FROM dataspace TIMESTAMP BY nope {options}") == "COLUMN_NOT_FOUND"


def test_a_time_that_goes_back_is_refused_with_a_way_out(db: SparklessDatabase, folder: Path, url: str) -> None:
    times = pa.array([3, 1, 2], pa.timestamp("us"))
    pq.write_table(pa.table({"at": times, "v": [1, 2, 3]}), folder / "mixed.parquet")
    options = f"OPTIONS (url '{url}', dataset 'mixed')"
    assert refused(db, f"CREATE STREAM m FROM dataspace TIMESTAMP BY at {options}") == "TIME_NOT_IN_ORDER"
    db.sql(f"CREATE STREAM m FROM dataspace {options}")
    assert db.reader("m").time_column == "_position"


def test_wrong_options_are_told(db: SparklessDatabase, url: str) -> None:
    create = "CREATE STREAM s FROM dataspace"
    assert refused(db, f"{create} OPTIONS (url '{url}')") == "OPTION_MISSING"
    assert refused(db, create) == "OPTION_MISSING"
    assert refused(db, f"{create} OPTIONS (url 'u', dataset 'd', token 'a', token_file 'b')") == "OPTIONS_CONTRADICT"
    assert refused(db, f"{create} OPTIONS (url '{url}', dataset 'x', adress 'y')") == "SETTING_NOT_FOUND"
    assert refused(db, f"{create} OPTIONS (url '{url}', dataset 'nope')") == "DATA_SET_NOT_FOUND"
    assert refused(db, f"{create} OPTIONS (url 'http://x', dataset 'nope')") == "URL_NOT_UNDERSTOOD"
    assert refused(db, f"{create} ALLOW SKEW INTERVAL 1 SECOND OPTIONS (url 'u', dataset 'd')") == "NOT_IN_THE_LANGUAGE"
    assert refused(db, f"{create} RETAIN INTERVAL 1 DAY OPTIONS (url 'u', dataset 'd')") == "NOT_IN_THE_LANGUAGE"
    assert refused(db, "CREATE STREAM s TIMESTAMP BY x") == "SYNTAX_ERROR"
    assert refused(db, "CREATE STREAM s FROM mqtt") == "SOURCE_NOT_AVAILABLE"
    assert db.streams() == []


def test_a_token_is_used_and_never_shown(db: SparklessDatabase, folder: Path, tmp_path: Path) -> None:
    from anabranch.dataspace.security import Security

    secret = "very-secret-token"
    (tmp_path / "river" / "secrets").mkdir()
    (tmp_path / "river" / "secrets" / "token").write_text(secret)
    with serving(folder, Security(token=secret)) as server:
        options = f"url '{server.url}', dataset 'floods'"
        assert refused(db, f"CREATE STREAM a FROM dataspace OPTIONS ({options})") == "TOKEN_WRONG"
        said = [str(db.sql(f"CREATE STREAM a FROM dataspace OPTIONS ({options}, token '{secret}')").message)]
        db.sql(f"CREATE STREAM b FROM dataspace OPTIONS ({options}, token_file 'token')")
        assert [db.reader(name).end().row for name in "ab"] == [10_000, 10_000]
        said += [
            str(db.sql(text).table().to_pydict()) for text in ("SHOW STREAMS", "DESCRIBE a", "EXPLAIN SELECT n FROM a")
        ]
        said += [repr(db.streams()), str(db.overview())]
        place = tmp_path / "river" / "streams" / "a"
        assert place.stat().st_mode & 0o077 == 0, "what is on disk is for its owner"
        assert not (place / "segments").exists()
        with pytest.raises(AnabranchError) as problem:
            db.append("a", {"n": [1]})
        said.append(str(problem.value))
    with pytest.raises(AnabranchError, match="DATA_SERVER_LOST") as problem:
        RemoteReader(db.catalog.stream("a"), patience=0.5).end()
    said.append(str(problem.value))
    assert [text for text in said if secret in text] == []


@pytest.mark.slow
def test_a_server_that_is_away_does_not_keep_streams_from_being_shown(db: SparklessDatabase, folder: Path) -> None:
    with serving(folder) as server:
        db.sql(f"CREATE STREAM floods FROM dataspace OPTIONS (url '{server.url}', dataset 'floods')")
    storage = db.catalog.stream_storage("floods")
    assert end_of(storage) is None
    assert isinstance(open_stream(storage), RemoteReader)
    assert connector_of(floods := db.catalog.stream("floods")).filled_by(floods) == f"dataspace {server.url}/floods"
    assert db.sql("SHOW STREAMS").table().column("filled_by")[0].as_py().endswith("(away)")
    db.sql("DROP STREAM floods")


def test_several_servers_are_asked_by_one_client_each(folder: Path) -> None:
    with serving(folder) as one, serving(folder) as two:
        clients = [DataSpaceClient(server.url, patience=5) for server in (one, two)]
        assert [sum(b.num_rows for b in client.read("quakes")) for client in clients] == [3000, 3000]
