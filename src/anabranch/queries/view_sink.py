"""Where the changes of a view go: its log of changes, with snapshots, so that changes need not be kept for good."""

from __future__ import annotations

import contextlib

from anabranch.clock import Clock
from anabranch.errors import StreamError
from anabranch.queries.member import Member
from anabranch.queries.sink import StreamSink
from anabranch.tables.keeping import SnapshotKeeper
from anabranch.tables.reader import ChangesReader


class ViewSink(StreamSink):
    """The one writer of a view."""

    def __init__(self, member: Member, clock: Clock) -> None:
        super().__init__(member, clock)
        self._reader = ChangesReader(member.catalog.stream_storage(member.name))
        self._snapshots = SnapshotKeeper(self.writer.storage, self._reader)

    def look_after(self) -> None:
        """Leave a snapshot now and then. One that fails (a full disk) is tried again next time."""
        with contextlib.suppress(OSError, StreamError):
            self._reader.refresh()
            self._snapshots.look(self._reader.end().row)
