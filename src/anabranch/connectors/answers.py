"""Streams that hold the answers of a standing query; they are opened by `operators.opening`, wherever it is run."""

from __future__ import annotations

from anabranch.connectors.base import Connector, Declared
from anabranch.dataspace.access import Access
from anabranch.log.stream import ANSWERS, StreamInfo


class Answers(Connector):
    """Rows are what the query that owns the stream answers."""

    name = ANSWERS

    def declare(self, said: Declared, access: Access) -> StreamInfo:
        raise self.undeclarable()

    def filled_by(self, info: StreamInfo) -> str:
        return f"query {info.owner}"
