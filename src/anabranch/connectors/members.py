"""Streams that list the members of a host of standing queries."""

from __future__ import annotations

from anabranch.connectors.base import Connector, Declared
from anabranch.dataspace.access import Access
from anabranch.log.stream import StreamInfo


class Members(Connector):
    """Rows come from who makes and drops queries; see `operators.together.roster`."""

    name = "members"

    def declare(self, said: Declared, access: Access) -> StreamInfo:
        raise self.undeclarable()
