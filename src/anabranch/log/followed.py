"""Following a stream as it grows, whatever its rows lie in."""

from __future__ import annotations

import time as _time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.log.stream import INFO, StreamInfo


class Followed(ABC):
    """What can be done with any stream that says how far it has come and gives rows by number."""

    def __init__(self, storage: Storage, info: StreamInfo) -> None:
        self.info = info
        self._storage = storage
        self._made = storage.made(INFO)
        self.with_archives: Any = None
        """What reads its archives, too, once someone has asked for that (`operators.opening`)."""

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def schema(self) -> pa.Schema:
        return self.info.schema.arrow

    @property
    def time_column(self) -> str:
        return self.info.schema.time

    def noted(self, name: str) -> Any:
        """What is written down beside its rows, in a small file; None if nothing is."""
        return self._storage.read_json(name)

    @abstractmethod
    def end(self) -> End:
        """How far the stream has come."""

    @abstractmethod
    def first_row(self) -> int:
        """The number of the oldest row still kept."""

    @abstractmethod
    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows numbered start ≤ n < end, in order."""

    def wait(self, after: End, timeout: float) -> End:
        """The end of the stream once it is beyond `after`, or as it is when time is up."""
        deadline = _time.monotonic() + timeout
        while True:
            end = self.end()
            left = deadline - _time.monotonic()
            if end != after or left <= 0:
                return end
            _time.sleep(min(0.004, left))

    def offset_at(self, row: int, limit: End) -> End:
        """The offset of a row number at or before `limit`."""
        if row >= limit.row:
            return limit
        if row <= self.first_row():
            return End(max(row, 0))
        times = self.read(row - 1, row, [self.time_column]).column(0)
        return End(row, times[0].value)

    def tail(self, since: int, *, follow: bool = False, poll: float = 0.2) -> Iterator[pa.Table]:
        """Rows from number `since` on; with `follow`, goes on as the stream grows.

        Rows that retention has taken are an error, and so is a stream that was dropped meanwhile.
        """
        at = since
        while True:
            end = self.end().row
            if self.was_dropped():
                raise StreamError("STREAM_NOT_FOUND", f'stream "{self.info.name}" was dropped')
            if end > at:
                yield self.read(at, end)
                at = end
            elif not follow:
                return
            else:
                self.wait(self.end(), poll)
                if self.end().row == at:
                    yield self.schema.empty_table()

    def was_dropped(self) -> bool:
        """Whether there is none any more, or another of the same name; one that got a column is the same."""
        made = self._storage.made(INFO)
        if made == self._made:
            return False
        declared = self._storage.read_json(INFO)
        if declared is None or not self.info.id or declared.get("id") != self.info.id:
            return True
        self._made = made
        return False
