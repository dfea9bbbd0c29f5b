"""Streams that hold the changes of a table, which its own statements change, or of a view, which a query keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.archive.reader import HistoryReader
from anabranch.connectors.base import Connector, Declared
from anabranch.dataspace.access import Access
from anabranch.log.storage import Storage
from anabranch.log.stream import TABLE, VIEW, StreamInfo
from anabranch.tables.reader import ChangesReader

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


class Changes(Connector):
    """Rows come from who changes the table; see `tables.writing`."""

    name = TABLE

    def declare(self, said: Declared, access: Access) -> StreamInfo:
        raise self.undeclarable()

    def open(self, info: StreamInfo, storage: Storage, access: Access | None, *, history: bool) -> Reader:
        changes = ChangesReader(storage)
        return HistoryReader(storage, log=changes) if history else changes

    def filled_by(self, info: StreamInfo) -> str:
        return f"table {info.owner}"


class ViewChanges(Changes):
    """Rows are the answers of the query that keeps a view; see `operators.tree`."""

    name = VIEW

    def filled_by(self, info: StreamInfo) -> str:
        return f"view {info.owner}"
