"""A data server on Arrow Flight: lists data sets, streams them in blocks, and answers range queries.

It is what M. Mazzucco et al. (2002, §5) call a DSTP server. Rows go from mapped Arrow files to
Flight without being copied by us. Any number of requests run at once, up to a limit, each a call of
Flight's. Before it stands the `gate`, which looks at how much a client sends; what it sends is checked in `requests`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from anabranch.dataspace import requests
from anabranch.dataspace.blocks import rows_per_block
from anabranch.dataspace.collection import Collection
from anabranch.dataspace.columns import QUERY, ROW
from anabranch.dataspace.data_set import DataSet
from anabranch.dataspace.failures import answering, answering_each
from anabranch.dataspace.gate import Gate, Limits
from anabranch.dataspace.open_streams import OpenStreams
from anabranch.dataspace.requests import Ranges, Scan
from anabranch.dataspace.security import Security, TokenGate, is_authorized
from anabranch.errors import AnabranchError, DataError, SetupError, StreamError, did_you_mean

_POLL_SECONDS = 0.02
_ALIVE_SECONDS = 1.0
"""A stream that follows says at least this often, with an empty block, that it is still there."""
_CUBES_AT_ONCE = 256
_ROWS_AT_ONCE = 1 << 22
"""Row numbers that are looked up before their rows are sent."""
_END_SECONDS = 5.0
_LOOK_SECONDS = 1.0
MOST_STREAMS = 64
MOST_FOLLOWING = 64
STALL_SECONDS = 60.0

Answer = Iterator[tuple[pa.RecordBatch, pa.Buffer | None]]


class DataServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves a collection from the moment it is made; `close` ends it."""

    def __init__(
        self,
        collection: Collection,
        host: str = "127.0.0.1",
        port: int = 0,
        security: Security | None = None,
        *,
        insecure: bool = False,
        most_streams: int = MOST_STREAMS,
        most_following: int = MOST_FOLLOWING,
        stall_seconds: float = STALL_SECONDS,
        limits: Limits | None = None,
    ) -> None:
        security = security or Security()
        security.check_address(host, insecure=insecure)
        self._collection = collection
        self._streams = OpenStreams(most_streams, most_following, stall_seconds)
        self._closed = threading.Event()
        self._host = host
        token = security.token
        certificate = (security.certificate, security.key) if security.certificate and security.key else None
        self._scheme = "grpc+tls" if certificate else "grpc"
        knows = functools.partial(is_authorized, token=token) if token else None
        try:
            self._gate = Gate(host, port, limits or Limits(), knows, certificate)
            with contextlib.ExitStack() as undo:
                undo.callback(self._gate.close)
                super().__init__(self._gate.server_url, middleware={"token": TokenGate(token)} if token else None)
                undo.pop_all()
        except (pa.ArrowException, OSError) as problem:
            said = str(problem).splitlines()
            raise SetupError(
                "ADDRESS_NOT_AVAILABLE",
                f"could not serve on {host}:{port}",
                detail=said[0][:200] if said else None,
                hint="another process may have the port; --port 0 takes a free one",
            ) from None
        self._gate.open()
        threading.Thread(target=self._look_after, name="anabranch-look-after", daemon=True).start()

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._gate.port

    @property
    def url(self) -> str:
        """What clients are given."""
        host = f"[{self._host}]" if ":" in self._host and not self._host.startswith("[") else self._host
        return f"{self._scheme}://{host}:{self.port}"

    def close(self) -> bool:
        """End all streams and the server; False if something holds it up."""
        self._closed.set()
        self._gate.close_listener()
        ending = threading.Thread(target=self.shutdown, daemon=True)
        ending.start()
        ending.join(_END_SECONDS)  # clients are told that it ends
        self._gate.close()  # those that do not listen are not waited for
        ending.join(_END_SECONDS)
        self._collection.close()
        return not ending.is_alive()

    def _look_after(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            self._gate.close_overdue()
            self._streams.close_stalled()

    # -- what there is -----------------------------------------------------------------------

    @answering
    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        infos = []
        for data_set in self._collection.readable()[0]:
            with contextlib.suppress(AnabranchError):  # one that broke must not keep the others from being found
                infos.append(self._info(data_set))
        return iter(infos)

    @answering
    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        return self._info(self._described(descriptor))

    def _described(self, descriptor: flight.FlightDescriptor) -> DataSet:
        path = descriptor.path or []
        if descriptor.descriptor_type == flight.DescriptorType.UNKNOWN:
            requests.refuse_empty("a descriptor")
        if descriptor.descriptor_type != flight.DescriptorType.PATH or len(path) != 1 or len(path[0]) > 4096:
            raise DataError("REQUEST_NOT_UNDERSTOOD", "a descriptor is a path of one part, the data set's name")
        return self._collection.get(path[0].decode("utf-8", "replace"))

    def _info(self, data_set: DataSet) -> flight.FlightInfo:
        known = data_set.describe()
        ticket = flight.Ticket(json.dumps({"dataset": data_set.name}).encode())
        return flight.FlightInfo(
            data_set.schema,
            flight.FlightDescriptor.for_path(data_set.name),
            [flight.FlightEndpoint(ticket, [])],
            known["rows"],
            -1,
            ordered=True,
            app_metadata=json.dumps(known).encode(),
        )

    @answering
    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return list(_ACTIONS.items())

    @answering
    def do_action(self, context: Any, action: flight.Action) -> Iterator[bytes]:
        kind = action.type
        if not kind:
            requests.refuse_empty("an action")
        if kind not in _ACTIONS:
            raise DataError(
                "REQUEST_NOT_UNDERSTOOD", f'there is no action "{kind[:80]}"', hint=did_you_mean(kind, _ACTIONS)
            )
        name, fields = requests.read_action(bytes(action.body))
        data_set = self._collection.get(name)
        answer: Any
        if kind == "position":
            column = requests.time_argument(fields)
            requests.nothing_else(fields)
            answer = data_set.position(column)
        else:
            column = requests.time_argument(fields, needed=True)
            at, end = requests.whole(fields, "at"), requests.whole(fields, "end")
            requests.nothing_else(fields)
            answer = {"row": data_set.row_at_time(column or "", at, end)}
        return iter([json.dumps(answer).encode()])

    # -- rows --------------------------------------------------------------------------------

    @answering
    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        request = requests.read_ticket(ticket.ticket)
        data_set = self._collection.get(request.dataset)
        if request.identity is not None and request.identity != data_set.identity:
            raise StreamError(
                "DATA_SET_CHANGED", f'data set "{data_set.name}" is not the one it was: its rows were replaced'
            )
        columns = data_set.schema.names if request.columns is None else request.columns
        data_set.check_columns(columns)
        schema = pa.schema([data_set.schema.field(name) for name in columns])
        if isinstance(request, Ranges):
            first = [pa.field(QUERY, pa.int32())] if request.several else []
            schema = pa.schema([*first, pa.field(ROW, pa.int64()), *schema])
            batches = self._found(data_set, request, columns, schema)
        else:
            batches = self._blocks(data_set, request, columns, schema, context)
        connection = self._gate.connection_of(context.peer())
        follows = isinstance(request, Scan) and request.follow
        return flight.GeneratorStream(
            schema, answering_each(self._streams.in_turn(batches, connection, follows=follows))
        )

    def _blocks(self, data_set: DataSet, scan: Scan, columns: list[str], schema: pa.Schema, context: Any) -> Answer:
        """Rows from a position on; with `follow`, as they come."""
        at = scan.start
        size = min(scan.block_rows or rows_per_block(schema), requests.MOST_BLOCK_ROWS)
        said = time.monotonic()
        while not self._closed.is_set() and not context.is_cancelled():
            end = data_set.end().row if scan.end is None else min(data_set.end().row, scan.end)
            while at < end and not self._closed.is_set():
                upto = min(end, (at // size + 1) * size)  # so that blocks are those of the file
                for batch in data_set.read(at, upto, columns).to_batches():
                    yield batch, None
                at = upto
                said = time.monotonic()
            if not scan.follow or (scan.end is not None and at >= scan.end):
                return
            if time.monotonic() - said > _ALIVE_SECONDS:
                yield _empty(schema), None
                said = time.monotonic()
            self._closed.wait(_POLL_SECONDS)
        if self._closed.is_set():
            raise flight.FlightUnavailableError("the data server ends")

    def _found(self, data_set: DataSet, asked: Ranges, columns: list[str], schema: pa.Schema) -> Answer:
        """The rows of each cube in turn; with the last of them, as metadata, whether there are more."""
        size = rows_per_block(schema)
        while data_set.prepare(asked.keys):
            yield _empty(schema), None  # a first index takes its time: the client must see that we live
        at_once = max(min(_CUBES_AT_ONCE, _ROWS_AT_ONCE // asked.limit), 1)
        for first in range(0, len(asked.lows), at_once):
            part = slice(first, first + at_once)
            cut = None if asked.without is None else (asked.without[0][part], asked.without[1][part])
            answers = data_set.ranges(
                asked.keys, asked.lows[part], asked.highs[part], asked.limit, asked.below, cut, asked.after[part]
            )
            numbers = np.concatenate([rows for rows, _ in answers])
            queries = np.repeat(np.arange(first, first + len(answers), dtype=np.int32), [len(r) for r, _ in answers])
            more = [bool(is_more) for _, is_more in answers]
            metadata = pa.py_buffer(json.dumps({"more": more if asked.several else more[0]}).encode())
            for at in range(0, max(len(numbers), 1), size):
                rows = numbers[at : at + size]
                arrays = _in_any_order(data_set, rows, columns).combine_chunks().columns if columns else []
                arrays = [pa.array(rows), *arrays]
                if asked.several:
                    arrays = [pa.array(queries[at : at + size]), *arrays]
                table = pa.Table.from_arrays(arrays, schema=schema).combine_chunks()
                batch = table.to_batches()[0] if table.num_rows else _empty(schema)
                yield batch, metadata if at + size >= len(numbers) else None


def _in_any_order(data_set: DataSet, rows: np.ndarray[Any, np.dtype[np.int64]], columns: list[str]) -> pa.Table:
    """Rows of several cubes, which may overlap: each row is fetched once."""
    if len(rows) < 2 or (np.diff(rows) > 0).all():
        return data_set.take(rows, columns)
    numbers, places = np.unique(rows, return_inverse=True)
    return data_set.take(numbers, columns).take(pa.array(places))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


_ACTIONS = {
    "position": "how many rows a data set has, and the time it has reached: {dataset, time: column or null}",
    "row_at_time": "the first row at a time or later: {dataset, time: column, at: µs, end: row}",
}
