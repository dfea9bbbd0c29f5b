"""A data set of a server read like a stream of our own: by number, by time, as it grows, and by range.

What was fetched lately is kept, and when rows are read one stretch after the other, the next one is
fetched while the last is worked on (`prefetch` says why).
"""

from __future__ import annotations

import functools
import threading
import time as _time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.dataspace.access import Access
from anabranch.dataspace.client import PATIENCE_SECONDS, DataSpaceClient
from anabranch.dataspace.columns import POSITION, ROW
from anabranch.dataspace.range_index import Cube
from anabranch.dataspace.security import checked_token
from anabranch.errors import StreamError
from anabranch.log.offset import MIN_TIME, End
from anabranch.log.stream import StreamInfo
from anabranch.schema import TIME_TYPE

_KEPT_BYTES = 256 << 20
_AHEAD_BYTES = 64 << 20
_POLL_SECONDS = 0.02


class Place(NamedTuple):
    """Where the rows of a stream are: the options of CREATE STREAM … FROM dataspace."""

    url: str
    dataset: str
    token: str | None = None
    token_file: str | None = None
    tls_root: str | None = None
    identity: str | None = None

    def client(self, access: Access, patience: float = PATIENCE_SECONDS) -> DataSpaceClient:
        token = self.token
        if self.token_file is not None:
            token = checked_token(access.read(self.token_file, "token"))
        root = None if self.tls_root is None else access.read(self.tls_root, "TLS root")
        return DataSpaceClient(self.url, token, root, patience, access)


class _Stretch(NamedTuple):
    """Rows that were fetched."""

    start: int
    end: int
    columns: frozenset[str]


class RemoteReader:
    """The face of `log.reader.StreamReader` over a data server. Not for use by several threads at once."""

    skew_us = 0

    def __init__(self, info: StreamInfo, access: Access | None = None, patience: float = PATIENCE_SECONDS) -> None:
        self.info = info
        self._place = Place(**info.options)
        self._access = access or Access()
        self._patience = patience
        self._kept: OrderedDict[_Stretch, tuple[pa.Table, int]] = OrderedDict()
        self._ahead: tuple[_Stretch, Future[pa.Table]] | None = None
        self._last: _Stretch | None = None
        self._rows = 0
        self._first = 0
        self.bytes_read = 0

    @functools.cached_property
    def _client(self) -> DataSpaceClient:
        """Made when rows are asked for: what a stream is can be told without its server."""
        return self._place.client(self._access, self._patience)

    @property
    def schema(self) -> pa.Schema:
        return self.info.schema.arrow

    @property
    def time_column(self) -> str:
        return self.info.schema.time

    @property
    def identity(self) -> str:
        """The same for readers of the same rows only."""
        return f"{self._place.url}/{self._place.dataset}@{self._place.identity}"

    @property
    def _is_positional(self) -> bool:
        return self.time_column == POSITION

    # -- how far it has come -----------------------------------------------------------------

    @property
    def has_archives(self) -> bool:
        return False

    def end(self) -> End:
        position = self._client.position(self._place.dataset, None if self._is_positional else self.time_column)
        self._rows, self._first = int(position["rows"]), int(position["first"])
        if self._is_positional:
            return End(self._rows, self._rows - 1 if self._rows else MIN_TIME)
        return End(self._rows, MIN_TIME if position["time"] is None else int(position["time"]))

    def refresh(self) -> None:
        self.end()

    def first_row(self) -> int:
        """The number of the oldest row the server still has; 0 for files."""
        return self._first

    def first_logged_row(self) -> int:
        return self.first_row()

    def wait(self, after: End, timeout: float) -> End:
        """The end once it is beyond `after`, or as it is when time is up."""
        deadline = _time.monotonic() + timeout
        while True:
            end = self.end()
            left = deadline - _time.monotonic()
            if end != after or left <= 0:
                return end
            _time.sleep(min(_POLL_SECONDS, left))

    def offset_at(self, row: int, limit: End) -> End:
        """The offset of a row number at or before `limit`."""
        if row >= limit.row:
            return limit
        if row <= self._first:
            return End(max(row, 0))
        return End(row, self.read(row - 1, row, [self.time_column]).column(0)[0].value)

    def row_at_time(self, time: int, end: int) -> int:
        """The number of the first row below `end` whose time is ≥ `time`, else `end`."""
        if self._is_positional:
            return min(max(time, 0), end)
        return self._client.row_at_time(self._place.dataset, self.time_column, time, end)

    def size(self) -> int:
        """Bytes on disk here: none."""
        return 0

    # -- rows --------------------------------------------------------------------------------

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows numbered start ≤ n < end, in order."""
        names = self.schema.names if columns is None else columns
        end = max(end, start)
        wanted = _Stretch(start, end, frozenset(names))
        table = self._from_kept(wanted, names)
        self._fetch_ahead(wanted, table)
        self._last = wanted
        return table

    def _from_kept(self, wanted: _Stretch, names: list[str]) -> pa.Table:
        """What is kept of the rows, from the start as far as it goes, and the rest fetched."""
        pieces, at = [], wanted.start
        while at < wanted.end:
            known = self._known(at, wanted)
            if known is None:
                known = _Stretch(at, wanted.end, wanted.columns)
                self._keep(known, self._fetch(known, names))
            self._kept.move_to_end(known)
            upto = min(known.end, wanted.end)
            pieces.append(self._kept[known][0].select(names).slice(at - known.start, upto - at))
            at = upto
        return pa.concat_tables(pieces) if pieces else self._schema_of(names).empty_table()

    def _known(self, row: int, wanted: _Stretch) -> _Stretch | None:
        """What holds a row with all the columns wanted: kept, or on its way."""
        if self._ahead is not None and _holds(self._ahead[0], row, wanted):
            stretch, coming = self._ahead
            self._ahead = None
            self._keep(stretch, coming.result())
            return stretch
        return next((kept for kept in reversed(self._kept) if _holds(kept, row, wanted)), None)

    def _keep(self, stretch: _Stretch, table: pa.Table) -> None:
        self._kept[stretch] = (table, table.nbytes)
        while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)

    def _fetch_ahead(self, wanted: _Stretch, table: pa.Table) -> None:
        """When rows are read in order, begin with as many as were asked for last; not too many bytes."""
        last, rows = self._last, wanted.end - wanted.start
        goes_on = last is not None and last.end == wanted.start and last.columns == wanted.columns and rows > 0
        upto = min(wanted.end + rows, self._rows)
        if not goes_on or self._ahead is not None or upto <= wanted.end or table.nbytes > _AHEAD_BYTES:
            return
        ahead = _Stretch(wanted.end, upto, wanted.columns)
        if self._known(wanted.end, ahead) is None:
            self._ahead = (ahead, _fetchers().submit(self._fetch, ahead, table.column_names))

    def _fetch(self, stretch: _Stretch, names: list[str]) -> pa.Table:
        place, asked = self._place, [name for name in names if name != POSITION or not self._is_positional]
        rows = stretch.end - stretch.start
        batches = []
        # Without any column of its own a row still has a number.
        if asked:
            with self._client.read(
                place.dataset, stretch.start, stretch.end, asked, identity=place.identity
            ) as reading:
                batches = list(reading)
        table = pa.Table.from_batches(batches, self._schema_of(asked))
        if asked and table.num_rows != rows:
            raise StreamError(
                "DATA_SET_CHANGED",
                f'data set "{place.dataset}" of {place.url} has fewer rows than before',
                detail=f"rows {stretch.start + table.num_rows} to {stretch.end} are missing",
            )
        self.bytes_read += table.nbytes
        if len(asked) < len(names):
            numbers = pa.array(np.arange(stretch.start, stretch.start + rows)).cast(TIME_TYPE)
            table = table.append_column(POSITION, numbers) if asked else pa.table({POSITION: numbers})
        return table.select(names).cast(self._schema_of(names))

    def _schema_of(self, names: list[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])

    def tail(self, since: int, *, follow: bool = False, poll: float = 0.2) -> Iterator[pa.Table]:
        """Rows from number `since` on; with `follow`, goes on as the data set grows."""
        at = since
        while True:
            end = self.end()
            if end.row > at:
                yield self.read(at, end.row)
                at = end.row
            elif not follow:
                return
            elif self.wait(end, poll).row == at:
                yield self.schema.empty_table()

    # -- by range ----------------------------------------------------------------------------

    def ranges(self, keys: tuple[str, ...]) -> RemoteRanges:
        """Range queries over some columns, answered by the server."""
        return RemoteRanges(self._client, self._place, keys, self)


class RemoteRanges:
    """Range queries that a server answers, with the rows themselves."""

    def __init__(self, client: DataSpaceClient, place: Place, keys: tuple[str, ...], reader: RemoteReader) -> None:
        self._client = client
        self._place = place
        self._keys = keys
        self._reader = reader

    def query(
        self,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        limit: int,
        below: int | None = None,
        without: Cube | None = None,
        after: int = -1,
    ) -> tuple[NDArray[np.int64], bool]:
        """The numbers of the first rows inside a cube, ascending, and whether there are more."""
        table, more = self.query_rows(low, high, limit, [], below, without, after)
        return table.column(ROW).to_numpy(), more

    def query_rows(
        self,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        limit: int,
        columns: list[str],
        below: int | None = None,
        without: Cube | None = None,
        after: int = -1,
    ) -> tuple[pa.Table, bool]:
        """The first rows inside a cube with their numbers (`_row`) before their columns, and whether there are more."""
        place, names = self._place, list(dict.fromkeys(columns))
        asked = [name for name in names if name != POSITION]
        table, more = self._client.range(
            place.dataset,
            self._keys,
            low,
            high,
            limit,
            asked,
            below=below,
            without=without,
            after=after,
            identity=place.identity,
        )
        self._reader.bytes_read += table.nbytes
        if POSITION in names:
            table = table.append_column(POSITION, table.column(ROW).cast(TIME_TYPE))
        return table.select([ROW, *names]), more


def _holds(stretch: _Stretch, row: int, wanted: _Stretch) -> bool:
    return stretch.start <= row < stretch.end and stretch.columns >= wanted.columns


_pool: ThreadPoolExecutor | None = None
_pool_mutex = threading.Lock()


def _fetchers() -> ThreadPoolExecutor:
    """The threads of this process that fetch ahead."""
    global _pool
    with _pool_mutex:
        if _pool is None:
            _pool = ThreadPoolExecutor(4, thread_name_prefix="anabranch-ahead")
        return _pool
