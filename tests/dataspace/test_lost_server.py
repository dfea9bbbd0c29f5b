"""A server that dies in the middle and comes back: nothing is lost or comes twice; one that stays away is told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import flight

from anabranch.dataspace.client import DataSpaceClient
from anabranch.dataspace.prefetch import prefetch
from anabranch.dataspace.reading import WatchedStream
from anabranch.errors import StreamError

from .conftest import Beside, floods

ROWS = 1_000_000


class Counting(DataSpaceClient):
    """Counts how often it had to ask for a stream."""

    streams = 0

    def stream(self, ticket: flight.Ticket) -> WatchedStream:
        self.streams += 1
        return super().stream(ticket)


@pytest.fixture
def many(folder: Path) -> Path:
    pq.write_table(floods(ROWS), folder / "floods.parquet")
    return folder


@pytest.mark.slow
def test_reading_goes_on_at_the_next_row_after_a_kill(many: Path) -> None:
    server = Beside(many)
    try:
        with contextlib.closing(Counting(server.url, patience=60)) as client:
            got: list[int] = []
            killed = 0
            for block in client.read("floods", block_rows=1000):
                got += block.column("n").to_pylist()
                if killed < 3 and len(got) >= (killed + 1) * ROWS // 5:
                    server.kill()
                    server.start()
                    killed += 1
            assert killed == 3
            assert client.streams >= 3, "the kills came in the middle of the transfer"
            assert got == list(range(ROWS))
    finally:
        server.kill()


@pytest.mark.slow
def test_a_prefetched_stream_survives_a_kill_too(many: Path) -> None:
    server = Beside(many)
    try:
        with contextlib.closing(Counting(server.url, patience=60)) as client:
            seen = 0
            with prefetch(client.read("floods", block_rows=5000), 200_000) as ahead:
                for block in ahead:
                    assert block.column("n")[0].as_py() == seen
                    seen += block.num_rows
                    if seen == 100_000:
                        server.kill()
                        server.start()
            assert client.streams >= 2
            assert seen == ROWS
    finally:
        server.kill()


@pytest.mark.slow
def test_following_goes_on_after_a_kill(folder: Path) -> None:
    server = Beside(folder)
    got: list[int] = []
    with DataSpaceClient(server.url, patience=60) as client:
        reading = client.follow("quakes", 0, ["n"])

        def gather() -> None:
            for block in reading:
                got.extend(block.column(0).to_pylist())

        thread = threading.Thread(target=gather)
        thread.start()
        try:
            _wait_for(got, 3000)
            server.kill()
            pq.write_table(floods(7, 3000), folder / "quakes" / "3.parquet")
            server.start()
            _wait_for(got, 3007)
        finally:
            reading.close()
            server.kill()
            thread.join(10)
    assert got == list(range(3007))


def _wait_for(got: list[int], rows: int) -> None:
    deadline = time.monotonic() + 60
    while len(got) < rows:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_ranges_are_asked_again_after_a_kill(many: Path) -> None:
    server = Beside(many)
    try:
        with DataSpaceClient(server.url, patience=60) as client:
            before = client.range("floods", ["lat"], [10], [10.5], 1000)
            server.kill()
            server.start()
            after = client.range("floods", ["lat"], [10], [10.5], 1000)
            assert before[0].equals(after[0])
    finally:
        server.kill()


@pytest.mark.slow
def test_a_server_that_stays_away_is_told(folder: Path) -> None:
    server = Beside(folder)
    with DataSpaceClient(server.url, patience=1) as client:
        reading = client.follow("quakes", 0)
        next(reading)
        server.kill()
        started = time.monotonic()
        with pytest.raises(StreamError, match="DATA_SERVER_LOST") as problem:
            pa.Table.from_batches(reading)
        assert time.monotonic() - started < 10
        assert server.url in str(problem.value)
        with pytest.raises(StreamError, match="DATA_SERVER_LOST"):
            client.list()


@pytest.mark.slow
def test_a_connection_cut_without_a_word_is_noticed(folder: Path) -> None:
    """Between client and server stands somebody who stops passing things on, and closes nothing."""
    server = Beside(folder)
    listener = socket.create_server(("127.0.0.1", 0))
    silent = threading.Event()
    connections: list[socket.socket] = []

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not silent.is_set():
                    target.sendall(data)

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
            except OSError:
                return
            connections.extend((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=pass_on, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        with DataSpaceClient(f"grpc://127.0.0.1:{listener.getsockname()[1]}", patience=3) as client:
            reading = client.follow("quakes", 0)
            next(reading)
            silent.set()
            started = time.monotonic()
            with pytest.raises(StreamError, match="DATA_SERVER_LOST"):
                pa.Table.from_batches(reading)
            assert time.monotonic() - started < 30
    finally:
        listener.close()
        server.kill()
        for each in connections:
            each.close()
