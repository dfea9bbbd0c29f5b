"""What servers answer: lists, blocks, ranges, several at once; and what they refuse, however it is asked."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyarrow import flight

from anabranch.dataspace import requests
from anabranch.dataspace.client import DataSpaceClient
from anabranch.dataspace.security import Security, read_token
from anabranch.errors import AnabranchError, SetupError
from tests.sampling import examples

from .conftest import asking, floods, serving, until


def raw(url: str, ticket: bytes, **options: Any) -> pa.Table:
    with flight.connect(url) as client:
        return client.do_get(flight.Ticket(ticket), **options).read_all()


def name_of(action: Any) -> str:
    with pytest.raises(AnabranchError) as problem:
        action()
    return problem.value.name


def test_data_sets_are_listed_with_columns_keys_and_extents(folder: Path) -> None:
    with asking(folder) as client:
        known = {each["dataset"]: each for each in client.list()}
        assert list(known) == ["floods", "quakes", "rain", "snow"]
        assert known["floods"] == client.describe("floods")
        assert known["rain"]["keys"] == ["lat", "ts"]
        assert client.schema("rain").names == ["lat", "ts", "station"]


def test_rows_come_in_blocks_from_a_position_on(folder: Path) -> None:
    with asking(folder) as client:
        blocks = list(client.read("floods", 1234, 5678, ["n"], block_rows=1000))
        assert [n for block in blocks for n in block.column(0).to_pylist()] == list(range(1234, 5678))
        assert max(block.num_rows for block in blocks) <= 1000
        everything = pa.Table.from_batches(client.read("floods"))
        assert everything.num_rows == 10_000
        assert everything.column("lat").to_pylist() == floods(10_000).column("lat").to_pylist()
        assert list(client.read("floods", 10_000)) == []
        assert list(client.read("floods", 99_999)) == []


def test_a_range_query_gives_rows_with_their_numbers(folder: Path) -> None:
    table = floods(10_000)
    lat, lon = table.column("lat").to_numpy(), table.column("lon").to_numpy()
    wanted = np.flatnonzero((lat >= 10) & (lat <= 20) & (lon >= 30) & (lon <= 60))
    with asking(folder) as client:
        found, more = client.range("floods", ["lat", "lon"], [10, 30], [20, 60], 10_000, ["station", "lat"])
        assert (found.column_names, more) == (["_row", "station", "lat"], False)
        assert found.column("_row").to_pylist() == wanted.tolist()
        assert found.column("lat").to_pylist() == lat[wanted].tolist()
        only, more = client.range("floods", ["lon", "lat"], [30, 10], [60, 20], 7, [])
        assert (only.column_names, only.column("_row").to_pylist(), more) == (["_row"], wanted[:7].tolist(), True)
        rest, _ = client.range("floods", ["lat", "lon"], [10, 30], [20, 60], 9999, [], after=int(wanted[6]), below=5000)
        assert rest.column("_row").to_pylist() == [n for n in wanted[7:] if n < 5000]
        cut = (np.array([12.0, 30.0]), np.array([18.0, 60.0]))
        left, _ = client.range("floods", ["lat", "lon"], [10, 30], [20, 60], 9999, [], without=cut)
        assert left.column("_row").to_pylist() == [n for n in wanted if not 12 <= lat[n] <= 18]


def test_many_cubes_in_one_request_answer_like_one_after_the_other(folder: Path) -> None:
    random = np.random.default_rng(3)
    lows = random.random((700, 2)) * 80
    highs = lows + random.random((700, 2)) * 20
    after = random.integers(-1, 10_000, 700)
    with asking(folder) as client:
        many = client.ranges("floods", ["lat", "lon"], lows, highs, 15, ["n"], after=after, below=9000)
        assert len(many) == 700
        for i in range(0, 700, 29):
            alone = client.range(
                "floods", ["lat", "lon"], lows[i], highs[i], 15, ["n"], after=int(after[i]), below=9000
            )
            assert many[i][0].equals(alone[0])
            assert many[i][1] == alone[1]
        assert sum(table.num_rows for table, _ in many) > 1000
        assert client.ranges("floods", ["lat"], lows[:0], highs[:0], 5) == []


def test_a_range_that_matches_everything_is_cut_to_what_a_server_gives(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(requests, "MOST_ROWS", 4000)
    with asking(folder) as client:
        after, seen = -1, 0
        for wanted in (4000, 4000, 2000):
            found, more = client.range("floods", ["lat"], [-np.inf], [np.inf], 10**9, ["station"], after=after)
            assert found.num_rows == wanted
            after, seen = found.column("_row")[-1].as_py(), seen + found.num_rows
        assert (seen, more) == (10_000, False)


def test_several_requests_are_in_flight_at_once(folder: Path) -> None:
    with asking(folder) as client, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(client.range, "floods", ["n"], [i * 100], [i * 100 + 9], 99, ["n"]) for i in range(50)]
        read = [threads.submit(lambda: sum(b.num_rows for b in client.read("floods"))) for _ in range(4)]
        for i, each in enumerate(asked):
            assert each.result()[0].column("n").to_pylist() == list(range(i * 100, i * 100 + 10))
        assert [each.result() for each in read] == [10_000] * 4


def test_rows_that_come_later_are_sent_to_open_streams(folder: Path) -> None:
    with asking(folder) as client:
        reading = client.follow("quakes", 2990, ["n"])
        got: list[int] = []

        def gather() -> None:
            for block in reading:
                got.extend(block.column(0).to_pylist())

        thread = threading.Thread(target=gather)
        thread.start()
        until(lambda: len(got) == 10)
        pq.write_table(floods(5, 3000), folder / "quakes" / "3.parquet")
        until(lambda: len(got) == 15)
        pq.write_table(floods(5, 3005), folder / "quakes" / "4.parquet")
        until(lambda: len(got) == 20)
        reading.close()
        thread.join(10)
        assert not thread.is_alive()
        assert got == list(range(2990, 3010))


def test_a_stream_past_a_file_that_was_removed_ends_with_an_error(folder: Path) -> None:
    with asking(folder) as client:
        reading = client.read("quakes", 0, None, ["n"], block_rows=100)
        assert next(reading).num_rows == 100
        (folder / "quakes" / "2.parquet").unlink()
        time.sleep(0.2)
        assert name_of(lambda: list(client.read("quakes", 2000))) == "DATA_SET_CHANGED"
        assert client.position("quakes")["rows"] == 3000


def test_a_data_set_that_was_replaced_is_not_taken_for_the_old_one(folder: Path) -> None:
    with asking(folder) as client:
        identity = client.describe("floods")["identity"]
        assert next(client.read("floods", identity=identity)).num_rows
        assert name_of(lambda: next(client.read("floods", identity="another"))) == "DATA_SET_CHANGED"


# -- hostile and malformed requests -------------------------------------------------------------------

RANGE = {"keys": ["lat"], "low": [0], "high": [1], "limit": 5}
BAD_TICKETS: list[tuple[Any, str]] = [
    (b"", "REQUEST_TOO_LARGE"),
    (b"\xff\x00\x01", "REQUEST_NOT_UNDERSTOOD"),
    (b"[" * 100_000, "REQUEST_NOT_UNDERSTOOD"),
    (b'{"dataset": ' + b'"x' * 10, "REQUEST_NOT_UNDERSTOOD"),
    (b" " * (requests.MOST_BYTES + 1), "REQUEST_TOO_LARGE"),
    ([], "REQUEST_NOT_UNDERSTOOD"),
    ({}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": None}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": ["floods"]}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "nope"}, "DATA_SET_NOT_FOUND"),
    ({"dataset": "../floods"}, "DATA_SET_NOT_FOUND"),
    ({"dataset": "/etc/passwd"}, "DATA_SET_NOT_FOUND"),
    ({"dataset": "floods.parquet"}, "DATA_SET_NOT_FOUND"),
    ({"dataset": "x" * 10_000}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "columns": ["nope"]}, "COLUMN_NOT_FOUND"),
    ({"dataset": "floods", "columns": []}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "columns": ["lat", "lat"]}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "columns": "lat"}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "columns": [1]}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "start": -1}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "start": 1.5}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "start": True}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "start": 2**70}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "end": "all"}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "follow": 1}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "block_rows": 0}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "block_rows": 10**9}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "sql": "DROP"}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": None}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": []}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": RANGE, "start": 0}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "keys": []}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "keys": ["station"]}}, "KEY_NOT_FOUND"),
    ({"dataset": "floods", "range": {**RANGE, "keys": ["nope"]}}, "KEY_NOT_FOUND"),
    ({"dataset": "floods", "range": {**RANGE, "keys": ["lat"] * 2, "low": [0, 0]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "keys": [f"k{i}" for i in range(99)]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "low": [0, 1]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "low": 0}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "low": ["0"]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "low": [None]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "low": [[0]]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "low": [float("nan")]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "high": [float("inf")]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "high": [10**400]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "limit": 0}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "limit": -5}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "after": -2}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "after": "x"}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "below": -1}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "without": [0, 1]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "without": {"low": [0]}}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "range": {**RANGE, "mystery": 1}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "ranges": RANGE}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "ranges": {**RANGE, "low": [[0], [1]], "high": [[1]]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "ranges": {**RANGE, "low": [[0], [1, 2]], "high": [[1], [2]]}}, "REQUEST_NOT_UNDERSTOOD"),
    ({"dataset": "floods", "ranges": {**RANGE, "low": [], "high": []}}, "REQUEST_NOT_UNDERSTOOD"),
    (
        {"dataset": "floods", "ranges": {**RANGE, "low": [[0]] * 10_001, "high": [[1]] * 10_001}},
        "REQUEST_NOT_UNDERSTOOD",
    ),
]


@pytest.fixture(scope="module")
def shared_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("served")
    pq.write_table(floods(2000), place / "floods.parquet")
    with serving(place) as server:
        yield server.url


@pytest.mark.slow
@pytest.mark.parametrize(("ticket", "wanted"), BAD_TICKETS, ids=lambda v: str(v)[:60] if not isinstance(v, str) else v)
def test_bad_tickets_are_refused_by_name_and_without_a_stack(shared_url: str, ticket: Any, wanted: str) -> None:
    with pytest.raises(flight.FlightServerError) as problem:
        raw(shared_url, ticket if isinstance(ticket, bytes) else json.dumps(ticket).encode())
    text = str(problem.value)
    assert text.startswith(f"{wanted} ")
    assert "Traceback" not in text
    assert ".py" not in text
    assert raw(shared_url, b'{"dataset": "floods", "end": 3}').num_rows == 3, "and it goes on serving"


@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(
                        ["dataset", "columns", "range", "ranges", "keys", "low", "high", "limit", "start", "x"]
                    ),
                    inner,
                )
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_ticket_is_anything_but_understood_or_refused(data: bytes) -> None:
    refused = None
    try:
        requests.read_ticket(data)
    except AnabranchError as problem:
        refused = problem.name
    assert refused in (None, "REQUEST_NOT_UNDERSTOOD" if data else "REQUEST_TOO_LARGE")


@pytest.mark.parametrize(
    "descriptor",
    [
        flight.FlightDescriptor.for_path(),
        flight.FlightDescriptor.for_path("a", "b"),
        flight.FlightDescriptor.for_path("../floods"),
        flight.FlightDescriptor.for_path("x" * 100_000),
        flight.FlightDescriptor.for_command(b"floods"),
    ],
)
def test_bad_descriptors_are_refused(shared_url: str, descriptor: flight.FlightDescriptor) -> None:
    wanted = r"^(REQUEST_NOT_UNDERSTOOD|DATA_SET_NOT_FOUND) "
    with flight.connect(shared_url) as client, pytest.raises(flight.FlightServerError, match=wanted):
        client.get_flight_info(descriptor)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("nonsense", b"{}"),
        ("position", b""),
        ("position", b'{"dataset": "floods", "time": 5}'),
        ("position", b'{"dataset": "floods", "time": "lat"}'),
        ("position", b'{"dataset": "floods", "other": 1}'),
        ("row_at_time", b'{"dataset": "floods"}'),
        ("row_at_time", b'{"dataset": "floods", "time": "ts", "at": 1e400, "end": 5}'),
        ("row_at_time", b'{"dataset": "floods", "time": "ts", "at": 5, "end": "x"}'),
    ],
)
def test_bad_actions_are_refused(shared_url: str, kind: str, body: bytes) -> None:
    with flight.connect(shared_url) as client, pytest.raises(flight.FlightServerError) as problem:
        list(client.do_action(flight.Action(kind, body)))
    assert str(problem.value).split(" ")[0].isupper()
    assert "Traceback" not in str(problem.value)


def test_what_is_not_offered_is_refused(shared_url: str) -> None:
    place = flight.FlightDescriptor.for_path("floods")

    def put(client: flight.FlightClient) -> None:
        writer, _ = client.do_put(place, pa.schema([("a", pa.int32())]))
        writer.close()

    def exchange(client: flight.FlightClient) -> None:
        writer, reader = client.do_exchange(place)
        writer.done_writing()
        reader.read_all()

    with flight.connect(shared_url) as client:
        for ask in (put, exchange, lambda c: c.get_schema(place)):
            with pytest.raises((flight.FlightError, pa.ArrowException, NotImplementedError)):
                ask(client)
    assert raw(shared_url, b'{"dataset": "floods", "end": 3}').num_rows == 3


def test_there_are_only_so_many_streams_at_once_and_those_left_make_room(folder: Path) -> None:
    with serving(folder, most_streams=6) as server, DataSpaceClient(server.url, patience=0.3) as client:
        open_ones = [client.read("floods", block_rows=1) for _ in range(3)]
        for each in open_ones:
            next(each)
        assert name_of(lambda: next(client.read("floods"))) == "TOO_MANY_STREAMS_OPEN"
        for each in open_ones:
            each.close()
        client.patience = 20
        for _ in range(10):  # each waits until there is room
            with client.read("floods", block_rows=10) as reading:
                next(reading)


# -- who may ask ---------------------------------------------------------------------------------------


def test_a_token_is_wanted_of_every_kind_of_call(folder: Path) -> None:
    with serving(folder, Security(token="correct horse")) as server:
        with DataSpaceClient(server.url, "correct horse", patience=5) as client:
            assert len(client.list()) == 4
            assert next(client.read("floods", 0, 5)).num_rows == 5
        for token in (None, "correct hors", "correct horse ", "wrong"):
            with DataSpaceClient(server.url, token, patience=5) as client:
                for ask in (
                    client.list,
                    lambda c=client: c.describe("floods"),
                    lambda c=client: next(c.read("floods")),
                    lambda c=client: c.position("floods"),
                    lambda c=client: c.range("floods", ["lat"], [0], [1], 5),
                ):
                    assert name_of(ask) == "TOKEN_WRONG"


def test_a_wrong_token_is_not_told_back(folder: Path) -> None:
    with serving(folder, Security(token="correct horse")) as server:
        with DataSpaceClient(server.url, "my secret", patience=5) as client, pytest.raises(AnabranchError) as problem:
            client.list()
        assert "secret" not in str(problem.value)
        assert "correct" not in str(problem.value)
    assert "horse" not in repr(Security(token="correct horse"))


def test_without_a_token_only_this_machine_may_ask() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.com"):
        with pytest.raises(SetupError, match="TOKEN_MISSING"):
            Security().check_address(host)
        Security().check_address(host, insecure=True)
        Security(token="12345678").check_address(host)
    for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"):
        Security().check_address(host)


def test_tokens_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("  abcdefgh\n")
    assert read_token(str(tmp_path / "token"), {"ANABRANCH_TOKEN": "other-token"}) == "abcdefgh"
    assert read_token(None, {"ANABRANCH_TOKEN": "other-token"}) == "other-token"
    assert read_token(None, {}) is None
    for bad in ("", "short", "line\nbreak in it", "ümlaut-token"):
        (tmp_path / "token").write_text(bad)
        with pytest.raises(SetupError, match="TOKEN_INVALID"):
            read_token(str(tmp_path / "token"))
    with pytest.raises(SetupError, match="FILE_NOT_FOUND"):
        read_token(str(tmp_path / "none"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("tls")
    made = place / "cert.pem", place / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(made[0]), "-keyout", str(made[1])]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"no certificate can be made here: {problem}")
    return made


@pytest.mark.slow
def test_tls_with_a_token(folder: Path, certificate: tuple[Path, Path]) -> None:
    security = Security("correct horse", *(path.read_bytes() for path in certificate))
    with serving(folder, security) as server:
        assert server.url.startswith("grpc+tls://")
        with DataSpaceClient(server.url, "correct horse", str(certificate[0]), patience=5) as client:
            assert sum(batch.num_rows for batch in client.read("floods")) == 10_000
        with DataSpaceClient(server.url, "wrong", str(certificate[0]), patience=5) as client:
            assert name_of(client.list) == "TOKEN_WRONG"
        with DataSpaceClient(server.url, "correct horse", patience=1) as client:  # not signed by anyone known
            assert name_of(client.list) == "DATA_SERVER_LOST"
        plain = server.url.replace("grpc+tls", "grpc")
        with DataSpaceClient(plain, "correct horse", patience=1) as client:
            assert name_of(client.list) == "DATA_SERVER_LOST"
    assert ssl.OPENSSL_VERSION  # the library that made the certificate is there


def test_a_port_that_is_taken_is_told(folder: Path) -> None:
    with (
        serving(folder) as server,
        pytest.raises(SetupError, match="ADDRESS_NOT_AVAILABLE"),
        serving(folder, port=server.port),
    ):
        pass


@pytest.mark.parametrize("url", ["", "localhost:80", "http://x:1", "grpc://", "grpc://x", "grpc://x:y", "file:///etc"])
def test_addresses_that_are_none_are_told(url: str) -> None:
    assert name_of(lambda: DataSpaceClient(url)) == "URL_NOT_UNDERSTOOD"


def test_errors_of_a_bug_say_no_inner_workings(folder: Path, monkeypatch: Any) -> None:
    with serving(folder) as server:
        monkeypatch.setattr(server._collection, "get", lambda name: {}[name])
        with pytest.raises(flight.FlightServerError) as problem:
            raw(server.url, b'{"dataset": "floods"}')
        assert str(problem.value).startswith("INTERNAL_ERROR KeyError")
        assert os.sep + "src" not in str(problem.value)


def test_a_data_set_that_broke_does_not_hide_the_others(folder: Path) -> None:
    with serving(folder) as server, DataSpaceClient(server.url, patience=5) as client:
        assert len(client.list()) == 4
        pq.write_table(floods(7), folder / "quakes" / "0.parquet")
        time.sleep(0.2)
        assert name_of(lambda: list(client.read("quakes"))) == "DATA_SET_CHANGED"
        (folder / "rain.csv").unlink()
        assert {"floods", "snow"} <= {each["dataset"] for each in client.list()}


def test_many_cubes_around_everything_take_little_memory(folder: Path) -> None:
    """A thousand cubes of ten thousand rows each are ten million numbers; the server holds four million at most."""
    psutil = pytest.importorskip("psutil")
    lows, highs = np.full((1000, 1), -1.0), np.full((1000, 1), 100.0)
    with serving(folder) as server, DataSpaceClient(server.url, patience=30) as client:
        client.range("floods", ["lat"], [0], [1], 5, [])
        request = {"keys": ["lat"], "low": lows.tolist(), "high": highs.tolist(), "limit": 1_000_000}
        ticket = flight.Ticket(json.dumps({"dataset": "floods", "columns": [], "ranges": request}).encode())
        before, most, rows = psutil.Process().memory_info().rss, 0, 0
        for chunk in client.stream(ticket):
            rows += chunk.data.num_rows
            most = max(most, psutil.Process().memory_info().rss - before)
        assert rows == 10_000_000
        assert most < 150 << 20
