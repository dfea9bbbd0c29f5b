"""Reading from a server that may go away: what is waited for, for how long, and where reading goes on."""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import flight

from anabranch.dataspace.failures import known_error, may_pass
from anabranch.errors import AnabranchError, StreamError

if TYPE_CHECKING:
    from anabranch.dataspace.client import DataSpaceClient

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LOOK_SECONDS = 0.25
_BUSY = ("DATA_SERVER_BUSY", "TOO_MANY_STREAMS_OPEN")
"""Errors that pass when others, or we, have read what they asked for."""


class Patience:
    """Decides what becomes of an error: ours are raised, a server that is away or busy is waited for, up to a time."""

    def __init__(self, client: DataSpaceClient) -> None:
        self._client = client
        self._pause = _FIRST_PAUSE
        self._since: float | None = None

    def renew(self) -> None:
        """The server has answered."""
        self._since, self._pause = None, _FIRST_PAUSE

    def bear(self, problem: BaseException) -> None:
        """Wait a little and return to try again, or raise."""
        known = known_error(problem)
        if known is not None and known.name not in _BUSY:
            raise known from None
        url, said = self._client.url, (str(problem).splitlines() or [""])[0][:200]
        if isinstance(problem, flight.FlightUnauthenticatedError):
            raise StreamError(
                "TOKEN_WRONG",
                f"the data server {url} wants a token, and got none or another one",
                hint="give the option token or token_file",
            ) from None
        if known is None and not may_pass(problem):
            raise AnabranchError("DATA_SERVER_FAILED", f"the data server {url} failed", detail=said) from None
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since + self._pause > self._client.patience:
            raise known or StreamError(
                "DATA_SERVER_LOST",
                f"the data server {url} could not be reached for {self._client.patience:g} s",
                detail=said,
                hint="start it again, or check the url; reading can go on where it was",
            ) from None
        if known is None:
            self._client.forget_connection()
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


class WatchedStream:
    """What a server sends. A connection cut without a word is noticed: a server that lives sends something."""

    def __init__(self, reader: flight.FlightStreamReader, silence: float) -> None:
        self._reader = reader
        self._silence = silence
        self._waiting_since: float | None = None
        _watch.add(self)

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def __iter__(self) -> Iterator[flight.FlightStreamChunk]:
        return self

    def __next__(self) -> flight.FlightStreamChunk:
        self._waiting_since = time.monotonic()
        try:
            return self._reader.read_chunk()
        finally:
            self._waiting_since = None

    def cancel(self) -> None:
        self._reader.cancel()

    def cancel_if_silent(self, now: float) -> None:
        since = self._waiting_since
        if since is not None and now - since > self._silence:
            self.cancel()


class _Watch:
    """One thread that looks after all streams of the process."""

    def __init__(self) -> None:
        self._streams: weakref.WeakSet[WatchedStream] = weakref.WeakSet()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, stream: WatchedStream) -> None:
        with self._mutex:
            self._streams.add(stream)
            if self._thread is None or not self._thread.is_alive():  # a forked process has no thread yet
                self._thread = threading.Thread(target=self._look, name="anabranch-watch", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._mutex:
                streams = list(self._streams)
            now = time.monotonic()
            for stream in streams:
                stream.cancel_if_silent(now)
            del streams[:]


_watch = _Watch()


class Reading:
    """Rows as they are read, block by block; goes on by itself after the server was away. Close it if not used up."""

    def __init__(self, client: DataSpaceClient, request: dict[str, Any], start: int) -> None:
        self._client = client
        self._request = request
        self._follows = bool(request.get("follow"))
        self.next_row = start
        """The number of the row that comes next."""
        self._patience = Patience(client)
        self._stream: WatchedStream | None = None
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while not self._closed.is_set():
            try:
                stream = self._stream = self._stream or self._begin()
                batch = next(stream).data
            except StopIteration:
                self._stream = None
                if not self._follows:
                    self._closed.set()
                continue  # what follows has no end: the server went away in good order, or comes to it
            except (pa.ArrowException, OSError) as problem:
                self._stream = None
                if self._closed.is_set():
                    break
                self._patience.bear(problem)
                continue
            self._patience.renew()
            if batch.num_rows:
                self.next_row += batch.num_rows
                return batch
        raise StopIteration

    def _begin(self) -> WatchedStream:
        request = {**self._request, "start": self.next_row}
        return self._client.stream(flight.Ticket(json.dumps(request).encode()))

    def close(self) -> None:
        """Ask for no more rows; from any thread."""
        self._closed.set()
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
