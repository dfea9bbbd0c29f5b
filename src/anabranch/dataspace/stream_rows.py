"""A stream of a database as numbered rows: its log, live."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator

import pyarrow as pa

from anabranch.dataspace.rows import read_values, scanned_extent
from anabranch.errors import StreamError
from anabranch.log.offset import End
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage
from anabranch.log.stream import INFO


class StreamRows:
    """The rows of a stream, by their numbers in it."""

    left_out: tuple[str, ...] = ()

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._reader = StreamReader(storage)
        self._made = storage.made(INFO)
        self._mutex = threading.Lock()
        self.schema = self._reader.schema
        self.time_column = self._reader.time_column
        self.identity = hashlib.sha256(self._reader.identity.encode()).hexdigest()[:16]

    def first(self) -> int:
        with self._mutex:
            self._reader.refresh()
            return self._reader.first_row()

    def end(self) -> End:
        with self._mutex:
            if self._storage.made(INFO) != self._made:
                raise StreamError("DATA_SET_CHANGED", f'stream "{self._reader.info.name}" was dropped')
            return self._reader.end()

    def read(self, start: int, end: int, columns: list[str]) -> pa.Table:
        with self._mutex:
            return self._reader.read(start, end, columns)

    def values(self, column: str, start: int, end: int) -> Iterator[pa.ChunkedArray]:
        return read_values(self, column, start, end)

    def extent(self, column: str, start: int, end: int) -> tuple[float, float] | None:
        return scanned_extent(self, column, start, end)
