"""A client of data servers: what they have, their rows in blocks, and rows in n-cubes.

A server that goes away is asked again for a while, and reading goes on with the next row: nothing
comes twice and nothing is missing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import flight

from anabranch.dataspace.access import Access
from anabranch.dataspace.columns import QUERY
from anabranch.dataspace.range_index import Cube
from anabranch.dataspace.reading import Patience, Reading, WatchedStream
from anabranch.dataspace.security import read_secret
from anabranch.errors import DataError

T = TypeVar("T")
Description: TypeAlias = dict[str, Any]
Descriptions: TypeAlias = list[Description]
Found: TypeAlias = tuple[pa.Table, bool]
"""Rows in a cube, and whether there are more."""
FoundMany: TypeAlias = list[Found]
Notes: TypeAlias = list[dict[str, Any]]

PATIENCE_SECONDS = 30.0
_LARGEST = float(np.finfo(np.float64).max)
_CHANNEL = [
    ("grpc.use_local_subchannel_pool", 1),  # a new connection must not inherit the pause of a broken one
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class DataSpaceClient:
    """A connection to one server; safe to use from several threads, each of which may have requests in flight.

    `patience` is how many seconds a server may be away before DATA_SERVER_LOST is raised. `tls_root` is a file, or
    what is in it. With `access`, where the server is gets looked at.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        tls_root: str | bytes | None = None,
        patience: float = PATIENCE_SECONDS,
        access: Access | None = None,
    ) -> None:
        self.url = url
        self._scheme, self._host, self._port = _parts(url)
        self._token = token
        self._root = read_secret(tls_root, "TLS root") if isinstance(tls_root, str) else tls_root
        self._access = access
        self._connections = 0
        self.patience = patience
        self._mutex = threading.Lock()
        self._connection: flight.FlightClient | None = None

    def __repr__(self) -> str:
        return f"DataSpaceClient({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.forget_connection()

    # -- what there is -----------------------------------------------------------------------

    def list(self) -> Descriptions:
        """Every data set: columns, keys, extents, rows, time."""
        return self._patiently(
            lambda: [json.loads(i.app_metadata) for i in self._flight().list_flights(options=self._options())]
        )

    def describe(self, name: str) -> Description:
        """One data set."""
        descriptor = flight.FlightDescriptor.for_path(name)
        description: dict[str, Any] = self._patiently(
            lambda: json.loads(self._flight().get_flight_info(descriptor, self._options()).app_metadata)
        )
        return description

    def schema(self, name: str) -> pa.Schema:
        """The columns of a data set."""
        descriptor = flight.FlightDescriptor.for_path(name)
        return self._patiently(lambda: self._flight().get_flight_info(descriptor, self._options()).schema)

    def position(self, name: str, time: str | None = None) -> dict[str, Any]:
        """How many rows there are, and the time reached in a time column."""
        return self._act("position", {"dataset": name, "time": time})

    def row_at_time(self, name: str, column: str, at: int, end: int) -> int:
        """The first row below `end` at a time (µs) or later, else `end`."""
        return int(self._act("row_at_time", {"dataset": name, "time": column, "at": at, "end": end})["row"])

    def _act(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        action = flight.Action(kind, json.dumps(body).encode())
        reply: dict[str, Any] = self._patiently(
            lambda: json.loads(next(iter(self._flight().do_action(action, self._options()))).body.to_pybytes())
        )
        return reply

    # -- rows --------------------------------------------------------------------------------

    def read(
        self,
        name: str,
        start: int = 0,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        follow: bool = False,
        block_rows: int | None = None,
        identity: str | None = None,
    ) -> Reading:
        """Rows from `start` to `end` (None: all there are), in blocks; with `follow`, also those to come."""
        request = {
            "dataset": name,
            "columns": None if columns is None else list(columns),
            "end": end,
            "follow": follow,
            "block_rows": block_rows,
            "identity": identity,
        }
        return Reading(self, {key: value for key, value in request.items() if value is not None}, start)

    def follow(self, name: str, start: int, columns: Sequence[str] | None = None) -> Reading:
        """Rows from `start` on as they come, without end."""
        return self.read(name, start, columns=columns, follow=True)

    def range(
        self,
        name: str,
        keys: Sequence[str],
        low: Sequence[float] | NDArray[np.float64],
        high: Sequence[float] | NDArray[np.float64],
        limit: int,
        columns: Sequence[str] | None = None,
        *,
        below: int | None = None,
        without: Cube | None = None,
        after: int = -1,
        identity: str | None = None,
    ) -> Found:
        """The first rows inside a cube, their numbers (`_row`) first, and whether there are more."""
        fields = {
            "keys": list(keys),
            "low": _numbers(low),
            "high": _numbers(high),
            "limit": limit,
            "after": int(after),
            "below": below,
            "without": None if without is None else {"low": _numbers(without[0]), "high": _numbers(without[1])},
        }
        table, notes = self._ask(name, columns, identity, {"range": fields})
        return table, bool(notes[-1]["more"])

    def ranges(
        self,
        name: str,
        keys: Sequence[str],
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
        limit: int,
        columns: Sequence[str] | None = None,
        *,
        below: int | None = None,
        without: Cube | None = None,
        after: NDArray[np.int64] | None = None,
        identity: str | None = None,
    ) -> FoundMany:
        """The same for many cubes in one request."""
        if len(lows) == 0:
            return []
        fields = {
            "keys": list(keys),
            "low": _numbers(lows),
            "high": _numbers(highs),
            "limit": limit,
            "after": None if after is None else [int(row) for row in after],
            "below": below,
            "without": None if without is None else {"low": _numbers(without[0]), "high": _numbers(without[1])},
        }
        table, notes = self._ask(name, columns, identity, {"ranges": fields})
        more = [is_more for note in notes for is_more in note["more"]]
        queries = table.column(QUERY).to_numpy() if table.num_rows else np.empty(0, np.int32)
        bounds = np.searchsorted(queries, np.arange(len(lows) + 1))
        table = table.drop_columns([QUERY])
        return [(table.slice(bounds[i], bounds[i + 1] - bounds[i]), more[i]) for i in range(len(lows))]

    def _ask(
        self, name: str, columns: Sequence[str] | None, identity: str | None, asked: dict[str, Any]
    ) -> tuple[pa.Table, Notes]:
        request = {
            "dataset": name,
            "columns": None if columns is None else list(columns),
            "identity": identity,
            **asked,
        }
        ticket = flight.Ticket(json.dumps(request).encode())

        def ask() -> tuple[pa.Table, Notes]:
            stream = self.stream(ticket)
            batches, notes = [], []
            for chunk in stream:
                batches.append(chunk.data)
                if chunk.app_metadata is not None:
                    notes.append(json.loads(chunk.app_metadata.to_pybytes()))
            return pa.Table.from_batches(batches, stream.schema), notes

        return self._patiently(ask)

    # -- the connection ----------------------------------------------------------------------

    def stream(self, ticket: flight.Ticket) -> WatchedStream:
        """What a server sends for a ticket; no length of time is too long as long as it sends something."""
        return WatchedStream(self._flight().do_get(ticket, self._options(bounded=False)), self.patience)

    def forget_connection(self) -> None:
        """The next request makes a new one; requests in flight keep theirs."""
        with self._mutex:
            self._connection = None

    def _flight(self) -> flight.FlightClient:
        with self._mutex:
            if self._connection is None:
                named: dict[str, Any] = {"tls_root_certs": self._root} if self._root is not None else {}
                address = self._host
                if self._access is not None:
                    # One that does not answer is followed by the next when the connection is made again.
                    addresses = self._access.addresses(self._host, self._port)
                    address = addresses[self._connections % len(addresses)]
                    if address != self._host:
                        named["override_hostname"] = self._host
                url = f"{self._scheme}://{address}:{self._port}"
                self._connection = flight.FlightClient(url, generic_options=_CHANNEL, **named)
                self._connections += 1
            return self._connection

    def _options(self, *, bounded: bool = True) -> flight.FlightCallOptions:
        headers = [(b"authorization", b"Bearer " + self._token.encode())] if self._token else None
        return flight.FlightCallOptions(timeout=max(self.patience, 1.0) if bounded else None, headers=headers)

    def _patiently(self, ask: Callable[[], T]) -> T:
        patience = Patience(self)
        while True:
            try:
                return ask()
            except (pa.ArrowException, OSError) as problem:
                patience.bear(problem)


def _parts(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme not in ("grpc", "grpc+tcp", "grpc+tls") or not host or not (port.isdigit() and len(port) < 6):
        raise DataError(
            "URL_NOT_UNDERSTOOD",
            f'"{url[:200]}" is not the address of a data server',
            hint="write grpc://host:port, or grpc+tls://host:port",
        )
    return scheme, host, int(port)


def _numbers(corner: Sequence[Any] | NDArray[np.float64]) -> list[Any]:
    """Corners as JSON has them: numbers that JSON has not are as far away as numbers are."""
    values: list[Any] = np.clip(np.asarray(corner, np.float64), -_LARGEST, _LARGEST).tolist()
    return values
