"""Streams that hold the answers of a standing query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.connectors.base import Connector, Declared
from anabranch.dataspace.access import Access
from anabranch.log.offset import End
from anabranch.log.slices import HOST, SliceReader
from anabranch.log.storage import Storage
from anabranch.log.stream import ANSWERS, StreamInfo

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


class Answers(Connector):
    """Rows are what the query that owns the stream answers."""

    name = ANSWERS

    def declare(self, said: Declared, access: Access) -> StreamInfo:
        raise self.undeclarable()

    def open(self, info: StreamInfo, storage: Storage, access: Access | None, *, history: bool) -> Reader:
        if HOST in info.options:
            return SliceReader(storage, info)
        return super().open(info, storage, access, history=history)

    def look(self, info: StreamInfo, storage: Storage, access: Access | None) -> End | None:
        return SliceReader(storage, info).end() if HOST in info.options else super().look(info, storage, access)

    def filled_by(self, info: StreamInfo) -> str:
        return f"query {info.owner}"
