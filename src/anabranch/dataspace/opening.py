"""A reader for any stream: of this database, or of a data server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from anabranch.archive.reader import HistoryReader
from anabranch.dataspace.access import Access
from anabranch.errors import AnabranchError
from anabranch.log.offset import Offset
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage
from anabranch.log.stream import DATASPACE, StreamInfo

if TYPE_CHECKING:
    from anabranch.dataspace.remote_reader import RemoteReader

    Reader: TypeAlias = StreamReader | RemoteReader

_LOOK_SECONDS = 1.0


def open_stream(storage: Storage, access: Access | None = None, *, history: bool = False) -> Reader:
    """The reader of a stream wherever its rows are; with `history` also those that only archives hold.

    `access` says what a declaration may reach: servers of this machine only, unless it says otherwise.
    """
    info = StreamInfo.load(storage)
    if info.origin != DATASPACE:
        return HistoryReader(storage) if history else StreamReader(storage)
    # Flight takes a while to load, and most streams do without.
    from anabranch.dataspace.remote_reader import RemoteReader

    return RemoteReader(info, access)


def origin_of(info: StreamInfo) -> str:
    """Where the rows of a stream come from, without anything secret."""
    if info.origin != DATASPACE:
        return info.origin
    return f"{DATASPACE} {info.options.get('url')}/{info.options.get('dataset')}"


def end_of(storage: Storage, access: Access | None = None) -> Offset | None:
    """How far a stream has come, for a look at it: None if its rows are on a server that is away."""
    info = StreamInfo.load(storage)
    if info.origin != DATASPACE:
        return StreamReader(storage).end()
    from anabranch.dataspace.remote_reader import RemoteReader

    try:
        return RemoteReader(info, access, _LOOK_SECONDS).end()
    except AnabranchError:
        return None
