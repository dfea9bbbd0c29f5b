"""What a client sends is looked at before the server takes it in: how much, from whom, and for how long."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from anabranch.dataspace.client import DataSpaceClient
from anabranch.dataspace.gate import Limits
from anabranch.dataspace.gate.headers import HeaderReader, HeadersInvalid
from anabranch.dataspace.gate.requests import GREETING, MOST_REQUEST_BYTES, MOST_UNKNOWN_BYTES, Refused, RequestFilter
from anabranch.dataspace.security import Security
from anabranch.errors import AnabranchError

from .conftest import Beside, serving, until

TOKEN = "correct horse battery"


def name_of(ask: Any) -> str:
    with pytest.raises(AnabranchError) as problem:
        ask()
    return problem.value.name


# -- headers ---------------------------------------------------------------------------------------

REQUESTS = {  # RFC 7541, C.3 and C.4: the same three requests, as they are and in Huffman's code
    "plain": [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ],
    "packed": [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ],
}


@pytest.mark.parametrize("way", REQUESTS)
def test_headers_are_read_as_the_standard_packs_them(way: str) -> None:
    reader = HeaderReader()
    found = [[h for h in reader.read(bytes.fromhex(block)) if h[1]] for block in REQUESTS[way]]
    authority = (b":authority", b"www.example.com")
    assert found == [
        [authority],
        [authority, (b"cache-control", b"no-cache")],
        [authority, (b"custom-key", b"custom-value")],
    ]


def test_headers_that_no_longer_fit_are_forgotten() -> None:
    """RFC 7541, C.5: a table of 256 bytes, where the fourth entry pushes out the first."""
    reader = HeaderReader()
    first = "3fe101" + "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54"
    reader.read(bytes.fromhex(first + "6e1768747470733a2f2f7777772e6578616d706c652e636f6d"))
    found = reader.read(bytes.fromhex("4803333037c1c0bf"))
    assert [value for _, value in found] == [
        b"307",
        b"private",
        b"Mon, 21 Oct 2013 20:13:21 GMT",
        b"https://www.example.com",
    ]
    with pytest.raises(HeadersInvalid):
        reader.read(bytes.fromhex("c2"))


@pytest.mark.slow
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_whatever_is_sent_is_read_or_refused(blocks: list[bytes]) -> None:
    reader = HeaderReader()
    try:
        for block in blocks:
            reader.read(block)
    except HeadersInvalid:
        pass


# -- requests --------------------------------------------------------------------------------------


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + content


def headers(stream: int, authorization: bytes = b"", flags: int = 4) -> bytes:
    block = b"\x83"
    if authorization:
        block += b"\x10\x0dauthorization" + bytes((len(authorization),)) + authorization
    return frame(1, flags, stream, block)


def message(length: int, compressed: bool = False, real: int | None = None) -> bytes:
    return bytes((compressed,)) + length.to_bytes(4) + b"x" * (length if real is None else real)


def data(stream: int, content: bytes, last: bool = True) -> bytes:
    pieces = [content[at : at + 16384] for at in range(0, len(content), 16384)]
    return b"".join(frame(0, int(last and i == len(pieces) - 1), stream, each) for i, each in enumerate(pieces))


def knows(value: str) -> bool:
    return value == "Bearer right"


def frames_of(passed: bytes) -> list[tuple[int, int, int, bytes]]:
    """The frames, with those of data that follow each other as one."""
    found: list[tuple[int, int, int, bytes]] = []
    at = len(GREETING)
    assert passed[:at] == GREETING
    while at < len(passed):
        length, kind, flags = int.from_bytes(passed[at : at + 3]), passed[at + 3], passed[at + 4]
        stream, content = int.from_bytes(passed[at + 5 : at + 9]), passed[at + 9 : at + 9 + length]
        at += 9 + length
        if found and kind == 0 and found[-1][0] == 0 and found[-1][2] == stream:
            content, flags = found[-1][3] + content, flags | found[-1][1]
            found.pop()
        found.append((kind, flags, stream, content))
    return found


RIGHT, WRONG = b"Bearer right", b"Bearer wrong"


@given(st.lists(st.integers(1, 40_000), max_size=12))
def test_what_may_pass_passes_however_it_arrives(cuts: list[int]) -> None:
    sent = GREETING + frame(4, 0, 0) + headers(1, RIGHT) + data(1, message(30_000)) + frame(6, 0, 0, b"12345678")
    sent += headers(3, RIGHT) + data(3, message(7)[:3], last=False) + data(3, message(7)[3:])
    requests, passed, at = RequestFilter(knows), b"", 0
    for cut in [*cuts, len(sent)]:
        passed += requests.take(sent[at : at + cut])
        at += cut
    assert frames_of(passed) == frames_of(sent)
    assert requests.unfinished_since() is None


@pytest.mark.parametrize(
    ("authorization", "content", "passes"),
    [
        (RIGHT, message(MOST_REQUEST_BYTES), True),
        (RIGHT, message(MOST_REQUEST_BYTES + 1, real=100), False),
        (RIGHT, message(400 << 20, real=100), False),
        (RIGHT, message(100, compressed=True), False),
        (WRONG, message(MOST_UNKNOWN_BYTES), True),
        (WRONG, message(MOST_UNKNOWN_BYTES + 1, real=100), False),
        (b"", message(MOST_UNKNOWN_BYTES + 1, real=100), False),
    ],
)
def test_in_the_place_of_a_request_that_is_too_large_stands_an_empty_one(
    authorization: bytes, content: bytes, passes: bool
) -> None:
    requests = RequestFilter(knows)
    passed = requests.take(GREETING + headers(1, authorization) + data(1, content, last=False))
    for _ in range(10):
        passed += requests.take(data(1, b"x" * 16384, last=False)) if not passes else b""
    passed += requests.take(frame(0, 1, 1))
    found = frames_of(passed)[-1]
    assert found == (0, 1, 1, content if passes else bytes(5))
    assert requests.is_admitted == (authorization == RIGHT)
    assert requests.unfinished_since() is None


def test_a_second_message_ends_the_first_one() -> None:
    requests = RequestFilter()
    passed = requests.take(GREETING + headers(1) + data(1, message(8), last=False) + data(1, message(1 << 20)))
    assert frames_of(passed)[-1] == (0, 1, 1, message(8))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n",
        GREETING + frame(0, 8, 1, b"\x01ab"),
        GREETING + frame(1, 0, 1, b"\x82") + frame(6, 0, 0, b"12345678"),
        GREETING + frame(9, 4, 1, b"\x82"),
        GREETING + frame(1, 0, 1, b"\x82") + frame(9, 0, 1, b"\x82" * 60_000) + frame(9, 0, 1, b"\x82" * 60_000),
        GREETING + (70_000).to_bytes(3) + bytes((4, 0)) + bytes(4),
        GREETING + headers(1) + headers(1),
        GREETING + b"".join(headers(n) for n in range(1, 1001, 2)),
        GREETING + b"".join(headers(n) + data(n, message(4 << 20, real=9), last=False) for n in range(1, 101, 2)),
        GREETING + frame(1, 0x0C, 1, b""),
        GREETING + frame(1, 0x24, 1, b"abc"),
    ],
)
def test_who_does_not_keep_to_the_rules_is_refused(sent: bytes) -> None:
    with pytest.raises(Refused):
        RequestFilter().take(sent)


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 255), st.integers(0, 5), st.binary(max_size=40))))
def test_whatever_frames_come_pass_or_are_refused(sent: list[tuple[int, int, int, bytes]]) -> None:
    requests = RequestFilter(knows)
    try:
        requests.take(GREETING + b"".join(frame(*each) for each in sent))
    except (Refused, HeadersInvalid):
        pass


# -- a server behind it ----------------------------------------------------------------------------


def growth_while(server: Beside, ask: Any) -> int:
    """By how many megabytes a server grows at most while something is asked."""
    process = psutil.Process(server._process.pid)
    before, most = process.memory_info().rss, 0
    for _ in ask():
        most = max(most, process.memory_info().rss - before)
    return int(max(most, process.memory_info().rss - before)) >> 20


@pytest.mark.slow
def test_large_requests_without_the_token_take_no_memory(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    server = Beside(folder, "--token-file", str(tmp_path / "token"))
    ticket = flight.Ticket(b"x" * (100 << 20))
    packing = [("grpc.default_compression_algorithm", 2)]  # gzip: 100 MB become 100 KB
    right = [(b"authorization", f"Bearer {TOKEN}".encode())]

    def ask() -> Iterator[None]:
        for headers, options, wanted in (([], [], "TOKEN_WRONG"), (right, packing, "REQUEST_TOO_LARGE")):
            with flight.FlightClient(server.url, generic_options=options) as client:
                call = flight.FlightCallOptions(timeout=60, headers=headers)
                with pytest.raises((flight.FlightError, pa.ArrowException), match=wanted):
                    list(client.do_get(ticket, call))
                with pytest.raises((flight.FlightError, pa.ArrowException), match=wanted):
                    list(client.do_action(flight.Action("position", ticket.ticket), call))
            yield

    try:
        assert growth_while(server, ask) < 50
        with DataSpaceClient(server.url, TOKEN, patience=5) as client:
            assert len(client.list()) == 4
    finally:
        assert server.end()[0] == 0


@pytest.mark.slow
def test_who_follows_keeps_nobody_out_who_does_not(folder: Path) -> None:
    with serving(folder, most_streams=2, most_following=4) as server, DataSpaceClient(server.url, patience=1) as client:
        following = [client.follow("floods", 0) for _ in range(2)]
        for each in following:
            next(each)
        assert name_of(lambda: next(client.follow("floods", 0))) == "TOO_MANY_STREAMS_OPEN"
        assert sum(batch.num_rows for batch in client.read("floods")) == 10_000
        for each in following:
            each.close()
        client.patience = 20
        with client.follow("floods", 0) as reading:
            next(reading)


def test_there_are_only_so_many_streams_for_all_clients(folder: Path) -> None:
    with (
        serving(folder, most_streams=1) as server,
        DataSpaceClient(server.url, patience=0.3) as client,
        client.read("floods", block_rows=1) as reading,
    ):
        next(reading)
        assert name_of(lambda: next(client.read("floods"))) == "DATA_SERVER_BUSY"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    place = tmp_path / "large"
    place.mkdir()
    table = pa.table({"n": np.arange(8 << 20)})
    with pa.ipc.new_file(place / "large.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=1 << 17)
    return place


@pytest.mark.slow
def test_a_stream_that_nobody_reads_is_ended_and_one_of_ours_goes_on_where_it_was(large: Path) -> None:
    with serving(large, most_streams=1, stall_seconds=0.5) as server:
        with flight.FlightClient(server.url) as silent:
            stream = silent.do_get(flight.Ticket(b'{"dataset": "large"}'))
            stream.read_chunk()
            with DataSpaceClient(server.url, patience=30) as client:
                assert next(client.read("large", 5, 8)).column("n").to_pylist() == [5, 6, 7]
        with DataSpaceClient(server.url, patience=30) as slow:
            reading = slow.read("large")
            rows = next(reading).num_rows
            time.sleep(3)  # long enough to be cut off
            assert rows + sum(batch.num_rows for batch in reading) == 8 << 20


def connect(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def is_closed(client: socket.socket) -> bool:
    """Until the server closes it; what it says before is passed over."""
    try:
        while client.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [
        b"",
        GREETING[:10],
        GREETING,
        GREETING + frame(4, 0, 0),
        GREETING + frame(4, 0, 0) + frame(1, 0, 1, b"\x83"),
        GREETING + frame(4, 0, 0) + headers(1, b"Bearer wrong") + data(1, message(1000, real=10), last=False),
    ],
)
def test_who_connects_and_never_shows_the_token_is_sent_away(folder: Path, said: bytes) -> None:
    with serving(folder, Security(token=TOKEN), limits=Limits(hello_seconds=0.2)) as server, connect(server) as client:
        client.sendall(said)
        assert is_closed(client)


@pytest.mark.slow
def test_a_request_that_does_not_arrive_is_not_waited_for(folder: Path) -> None:
    with serving(folder, limits=Limits(request_seconds=0.2)) as server, connect(server) as client:
        client.sendall(GREETING + frame(4, 0, 0) + headers(1) + data(1, message(1000, real=10), last=False))
        assert is_closed(client)


@pytest.mark.slow
def test_a_connection_that_is_not_used_is_closed_and_made_again(folder: Path) -> None:
    with serving(folder, limits=Limits(idle_seconds=0.3)) as server, DataSpaceClient(server.url, patience=10) as client:
        with client.follow("floods", 0) as following:
            next(following)
            until(lambda: len(server._gate._connections) == 1)
            time.sleep(2.5)  # the stream is open, so it is used
            assert len(server._gate._connections) == 1
        until(lambda: not server._gate._connections)
        assert len(client.list()) == 4


def test_no_client_takes_more_than_half_of_the_connections(folder: Path) -> None:
    with serving(folder, limits=Limits(most_connections=6)) as server:
        clients = [connect(server) for _ in range(4)]
        assert is_closed(clients[3])
        clients[0].close()
        until(lambda: len(server._gate._connections) == 2)
        with DataSpaceClient(server.url, patience=10) as client:
            assert len(client.list()) == 4
        for each in clients:
            each.close()


def test_a_server_that_ends_leaves_nothing_and_waits_for_nobody(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.dataspace.server._END_SECONDS", 0.5)
    with serving(large) as server, flight.FlightClient(server.url) as silent:
        place = Path(server._gate._place)
        assert place.stat().st_mode & 0o777 == 0o700
        silent.do_get(flight.Ticket(b'{"dataset": "large"}')).read_chunk()
    assert not place.exists()
