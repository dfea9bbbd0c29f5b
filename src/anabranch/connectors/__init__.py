"""Connectors: where the rows of streams come from. One table lists them; each is a row here and a file."""

from __future__ import annotations

from anabranch.connectors.answers import Answers
from anabranch.connectors.appended import Appended
from anabranch.connectors.base import Connector, Declared, Option
from anabranch.connectors.changes import Changes, ViewChanges
from anabranch.connectors.dataspace import DataSpace
from anabranch.connectors.members import Members
from anabranch.connectors.rejected import Rejected
from anabranch.errors import CatalogError
from anabranch.log.stream import StreamInfo

__all__ = ["CONNECTORS", "Connector", "Declared", "Option", "connector_of", "sources"]

CONNECTORS: dict[str, Connector] = {
    connector.name: connector
    for connector in (Appended(), Answers(), Rejected(), Members(), Changes(), ViewChanges(), DataSpace())
}
"""Every connector by its name. The parser, the catalog, readers, SHOW, DESCRIBE and completion read this table."""


def sources() -> tuple[str, ...]:
    """The names of those that CREATE STREAM … FROM takes."""
    return tuple(name for name, connector in CONNECTORS.items() if connector.said)


def connector_of(info: StreamInfo) -> Connector:
    """The connector that fills a stream."""
    connector = CONNECTORS.get(info.origin)
    if connector is None:
        raise CatalogError(
            "SOURCE_NOT_AVAILABLE",
            f'stream "{info.name}" is filled by "{info.origin}", which this version does not know',
        )
    return connector
