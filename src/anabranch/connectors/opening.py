"""A reader for any stream, wherever its rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.connectors import connector_of
from anabranch.dataspace.access import Access
from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


def open_stream(storage: Storage, access: Access | None = None, *, history: bool = False) -> Reader:
    """The reader of a stream wherever its rows are; with `history` also those that only archives hold.

    `access` says what a declaration may reach: servers of this machine only, unless it says otherwise.
    """
    info = StreamInfo.load(storage)
    return connector_of(info).open(info, storage, access, history=history)


def end_of(storage: Storage, access: Access | None = None) -> End | None:
    """How far a stream has come, for a look at it: None if its rows are on a server that is away."""
    info = StreamInfo.load(storage)
    return connector_of(info).look(info, storage, access)
