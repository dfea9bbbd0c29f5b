"""Snapshots are left as the log of changes grows, and what nobody needs any more is let go.

Who writes the log does it: the writer of a table, or the query that keeps a view.
"""

from __future__ import annotations

from anabranch.log import retention
from anabranch.log.offset import MAX_TIME
from anabranch.log.storage import Storage
from anabranch.tables.reader import ChangesReader
from anabranch.tables.snapshots import drop_snapshot, snapshots_of, write_snapshot
from anabranch.tables.state import State

SNAPSHOTS = "/snapshots"
"""Who holds the log from the oldest snapshot on."""
_LEAST_TAIL = 50_000
_KEPT = 2
"""Snapshots that stay: who has begun to read the one before the newest can go on."""


class SnapshotKeeper:
    """Of one log of changes."""

    def __init__(self, storage: Storage, reader: ChangesReader) -> None:
        self._storage = storage
        self._reader = reader
        self._last: int | None = None

    def look(self, row: int) -> None:
        """Leave a snapshot once the changes since the last one are many, and not few beside the rows there are."""
        if self._last is None:
            known = snapshots_of(self._storage)
            self._last = known[-1].row if known else 0
        tail = row - self._last
        if tail >= _LEAST_TAIL:
            state = self._reader.state_at(row)
            if tail >= len(state) // 2:
                self.write(state)

    def write(self, state: State) -> None:
        self._last = state.row
        if any(snapshot.row == state.row for snapshot in snapshots_of(self._storage)):
            return
        write_snapshot(self._storage, state)
        self._reader.remember(state.as_one_run())
        known = snapshots_of(self._storage)
        kept = min(known[-_KEPT:][0].row, self._needed())
        oldest = max((snapshot.row for snapshot in known if snapshot.row <= kept), default=0)
        for snapshot in known:
            if snapshot.row < oldest:
                drop_snapshot(self._storage, snapshot)
        retention.hold(self._storage, SNAPSHOTS, oldest, None, durable=True)

    def _needed(self) -> int:
        """The first change that someone may still ask for the state before: a query, or who was promised it."""
        end, retain = self._reader.end(), self._reader.table.retain_us
        promised = retention.Needed(end.row, MAX_TIME if retain is None else end.time - retain)
        needed = retention.needed(
            self._storage, promised, lambda time: self._reader.row_at_time(time, end.row), besides=SNAPSHOTS
        )
        return 0 if needed is None else min(needed.row, self._reader.row_at_time(needed.time, end.row))


def hold_all(storage: Storage) -> None:
    """Of a new log: as long as there is no snapshot, nothing of it may go."""
    retention.hold(storage, SNAPSHOTS, 0, None, durable=True)
