"""Changing a table: one statement after the other, whoever makes it, each one segment of the log or nothing.

The log's lock is taken for a statement and given back: so several processes change a table in turns, and each sees what
those before it have done. From time to time the writer leaves a snapshot, and lets go of what nobody needs any more.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from anabranch.clock import Clock
from anabranch.errors import CatalogError, StreamError
from anabranch.log.lock import BEING_WRITTEN, WriterLock
from anabranch.log.storage import Storage
from anabranch.log.writer import StreamWriter
from anabranch.settings import Settings
from anabranch.tables.changes import Changes
from anabranch.tables.declaration import TableInfo
from anabranch.tables.keeping import SnapshotKeeper
from anabranch.tables.reader import ChangesReader
from anabranch.tables.state import State
from anabranch.tables.versions import row_at_version

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.002

_log = logging.getLogger("anabranch.tables")


class TableWriter:
    """Changes one table. Any number of threads and processes may have one each."""

    def __init__(self, storage: Storage, settings: Settings, clock: Clock) -> None:
        self._storage = storage
        self._settings = settings
        self._clock = clock
        self._mutex = threading.Lock()
        self._reader = ChangesReader(storage)
        self._snapshots = SnapshotKeeper(storage, self._reader)
        self._lock = WriterLock(storage, self._reader.info.name, clock)
        self._log: StreamWriter | None = None
        self.info: TableInfo = self._reader.table

    def state(self) -> State:
        """The rows as they are now."""
        self._reader.refresh()
        return self._reader.state_at(self._reader.end().row)

    def state_at_version(self, version: int) -> State:
        """The rows as they were."""
        self._reader.refresh()
        return self._reader.state_at(row_at_version(self._reader, self.info.name, version))

    def change(self, deciding: Callable[[State], Changes]) -> Changes:
        """Make the changes that `deciding` finds for the rows as they are; on disk when it returns, all or none."""
        if self.info.origin is not None:
            raise CatalogError(
                "TABLE_IS_A_COPY",
                f'table "{self.info.name}" is a copy of "{self.info.origin.path}", and changes as that does',
                hint="change the file, or INSERT INTO another table SELECT … from this one",
            )
        return self._change(deciding, lambda version, row: None)

    def copy(self, deciding: Callable[[State], Changes], done: Callable[[int, int], None]) -> Changes:
        """The same of a table that is a copy; `done` is told the version and the log's row, before others go on."""
        return self._change(deciding, done)

    def end_row(self) -> int:
        """How many changes there are by now."""
        self._reader.refresh()
        return self._reader.end().row

    def _change(self, deciding: Callable[[State], Changes], done: Callable[[int, int], None]) -> Changes:
        with self._mutex, self._writing() as writer:
            self._reader.look_up_to(writer.next_row)
            state = self._reader.state_at(writer.next_row)
            changes = deciding(state)
            if changes.none:
                done(state.version, state.row)
                return changes
            version = state.version + 1
            self._lock.check()
            row = writer.append(changes.rows(state, version))
            self._reader.remember(changes.applied(state, row, version))
            done(version, row)
            # What was changed is safe from here on. A snapshot that fails (a full disk) is tried again next time.
            with contextlib.suppress(OSError, StreamError):
                self._snapshots.look(row)
            return changes

    @contextlib.contextmanager
    def _writing(self) -> Iterator[StreamWriter]:
        """The writer of the log, for as long as nobody else may have it."""
        self._take_lock()
        try:
            yield self._current()
        finally:
            self._lock.release()

    def _take_lock(self) -> None:
        """Become the one who changes the table, once those who do are through."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self._lock.take()
                return
            except StreamError as problem:
                if problem.name != BEING_WRITTEN:
                    raise
                if time.monotonic() > deadline:
                    raise StreamError(
                        "TABLE_IS_BEING_CHANGED",
                        f'table "{self.info.name}" could not be changed: another statement takes long',
                        detail=problem.message,
                        hint="try again when it is through",
                    ) from None
                time.sleep(_PAUSE_SECONDS)

    def _current(self) -> StreamWriter:
        """The writer that is kept from statement to statement, or a new one if others wrote since."""
        log = self._log
        if log is None or log.next_row != self._reader.end().row or not log.is_as_left():
            self._let_go()
            self._log = log = StreamWriter(self._storage, self._settings, self._clock, locked=False)
        return log

    def _let_go(self) -> None:
        if self._log is not None:
            self._log.close(release=False)
            self._log = None

    def close(self) -> None:
        with self._mutex:
            self._let_go()

    def claim(self) -> None:
        """Wait until nobody changes the table."""
        with self._mutex, self._writing():
            pass

    def snapshot(self) -> None:
        """Leave a snapshot of the rows as they are now."""
        with self._mutex, self._writing() as writer:
            self._reader.look_up_to(writer.next_row)
            self._snapshots.write(self._reader.state_at(writer.next_row))
