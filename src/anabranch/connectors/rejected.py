"""Streams that hold the rows which another stream refused."""

from __future__ import annotations

from anabranch.connectors.base import Connector, Declared
from anabranch.dataspace.access import Access
from anabranch.log.stream import REJECTS, StreamInfo


class Rejected(Connector):
    """Rows come from the writer of the stream that owns this one; see `log.stream.rejects_info`."""

    name = REJECTS

    def declare(self, said: Declared, access: Access) -> StreamInfo:
        raise self.undeclarable()
