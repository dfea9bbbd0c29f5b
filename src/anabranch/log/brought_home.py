"""The answers of a query wherever it is run: those of before are in its own log, those of now in that of its host.

When a query leaves a host, its answers are brought home, to the log that it has by itself; so at most two places hold
them, and a place it has left may go. A reader follows it wherever it goes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.log import lost
from anabranch.log.followed import Followed
from anabranch.log.offset import End, Piece
from anabranch.log.reader import StreamReader
from anabranch.log.slices import SliceReader
from anabranch.log.storage import Storage
from anabranch.log.stream import FIRST, HOST, INFO, StreamInfo, has_log

Reached = Callable[[Storage, StreamInfo], Callable[[], int]]
"""Gives what tells the time that a query has come to by what its host has written down."""
_Read = TypeVar("_Read", bound=Callable[..., Any])


def _wherever_it_is(method: _Read) -> _Read:
    """Once more, if the query has moved meanwhile: what it has left may be gone."""

    @functools.wraps(method)
    def read(self: AnswersReader, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except (StreamError, OSError):
            if not self._has_moved():
                raise
            return method(self, *arguments)

    return cast(_Read, read)


class AnswersReader(Followed):
    """The answers of a query, read like any stream (`log.reader.StreamReader`), whether or not a host runs it."""

    def __init__(self, storage: Storage, info: StreamInfo, reached: Reached) -> None:
        super().__init__(storage, info)
        self._reached = reached
        self._go_to(info)

    @property
    def has_archives(self) -> bool:
        """Whether rows are read that only archives hold."""
        return False

    def _go_to(self, info: StreamInfo) -> None:
        hosted = HOST in info.options
        self.info = info
        self._home = StreamReader(self._storage) if not hosted or has_log(self._storage) else None
        self._away = SliceReader(self._storage, info, self._reached(self._storage, info)) if hosted else None
        self._brought = int(info.options.get(FIRST, 0)) if hosted else None
        """How many answers are at home; None: all of them."""
        self._declared = self._storage.made(INFO)

    def _has_moved(self) -> bool:
        """Whether the query has gone elsewhere since the last look; then its answers are read from there."""
        made = self._storage.made(INFO)
        if made == self._declared:
            return False
        declared = self._storage.read_json(INFO)
        if declared is None or declared.get("id") != self.info.id:
            return False  # it was dropped, and says so where it is followed
        self._declared = made
        if declared.get("options") == self.info.options:
            return False
        self._go_to(StreamInfo.load(self._storage))
        return True

    @property
    def _newest(self) -> StreamReader | SliceReader:
        newest = self._away or self._home
        assert newest is not None
        return newest

    @property
    def skew_us(self) -> int:
        return 0

    @property
    def identity(self) -> str:
        return f"{self._storage.address}@{self.info.id}"

    @property
    def bytes_read(self) -> int:
        return sum(part.bytes_read for part in (self._home, self._away) if part is not None)

    # -- how far it has come -------------------------------------------------------------------------

    @_wherever_it_is
    def refresh(self) -> None:
        """Look what has been added, and where."""
        self._has_moved()
        for part in (self._home, self._away):
            if part is not None:
                part.refresh()

    @_wherever_it_is
    def end(self) -> End:
        self._has_moved()
        end = self._newest.end()
        if self._home is not None and self._away is not None:
            return End(end.row, max(end.time, self._home.end().time))
        return end

    @_wherever_it_is
    def arrived(self) -> int | None:
        return self._newest.arrived()

    @_wherever_it_is
    def first_row(self) -> int:
        newest = self._newest.first_row()
        if self._brought and self._home is not None and newest <= self._brought:
            return min(self._home.first_row(), newest)
        return newest

    def first_logged_row(self) -> int:
        return self.first_row()

    @_wherever_it_is
    def look_again(self) -> None:
        """Look, though nothing seems to have changed."""
        self._has_moved()
        for part in (self._home, self._away):
            if part is not None:
                part.look_again()

    def look_up_to(self, end: int) -> None:
        """Whoever asks for rows below `end` knows that they are there: look again if we do not."""
        self._newest.look_up_to(end)

    def missing(self, rows: lost.Loss) -> StreamError:
        """The error for rows that were there and are in no file now."""
        return self._newest.missing(rows)

    @_wherever_it_is
    def gaps(self) -> list[lost.Loss]:
        """Rows that no file holds."""
        return [gap for part in (self._home, self._away) if part is not None for gap in part.gaps()]

    # -- rows ----------------------------------------------------------------------------------------

    @_wherever_it_is
    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows numbered start ≤ n < end, in order."""
        return pa.concat_tables([part.read(low, high, columns) for part, low, high in self._parts(start, end)])

    @_wherever_it_is
    def row_at_time(self, time: int, end: int) -> int:
        """The number of the first row below `end` whose time is ≥ `time`, else `end`."""
        if self._brought and self._home is not None and self._away is not None:
            last = min(self._brought, end)
            row = self._home.row_at_time(time, last)
            if row < last or last == end:
                return row
        return self._newest.row_at_time(time, end)

    @_wherever_it_is
    def pieces(self, start: int, end: int) -> list[Piece]:
        """How the rows start ≤ n < end lie in files."""
        return [piece for part, low, high in self._parts(start, end) for piece in part.pieces(low, high)]

    @_wherever_it_is
    def bytes_of(self, start: int, end: int) -> int:
        """About how many bytes of files hold the rows start ≤ n < end."""
        return sum(part.bytes_of(low, high) for part, low, high in self._parts(start, end))

    def _parts(self, start: int, end: int) -> list[tuple[StreamReader | SliceReader, int, int]]:
        """Where the rows start ≤ n < end are."""
        if self._brought is None or self._home is None or start >= self._brought:
            return [(self._newest, start, end)]
        parts: list[tuple[StreamReader | SliceReader, int, int]] = [(self._home, start, min(end, self._brought))]
        return [*parts, (self._newest, self._brought, end)] if end > self._brought else parts

    @_wherever_it_is
    def size(self) -> int:
        """About how many bytes its rows take."""
        return sum(part.size() for part in (self._home, self._away) if part is not None)
