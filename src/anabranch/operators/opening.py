"""A reader for any stream, wherever its rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from anabranch.archive.reader import HistoryReader
from anabranch.connectors import connector_of
from anabranch.dataspace.access import Access
from anabranch.log.brought_home import AnswersReader
from anabranch.log.offset import MIN_TIME, End
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage
from anabranch.log.stream import ANSWERS, HOST, StreamInfo
from anabranch.operators.base import Floor

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.connectors.base import Reader
    from anabranch.operators.base import HistoryLog, LogReader


def open_stream(storage: Storage, access: Access | None = None, *, history: bool = False) -> Reader:
    """The reader of a stream wherever its rows are; with `history` also those that only archives hold.

    `access` says what a declaration may reach: servers of this machine only, unless it says otherwise.
    """
    info = StreamInfo.load(storage)
    if info.origin == ANSWERS:
        answers = AnswersReader(storage, info, _reached)
        return HistoryReader(storage, log=answers) if history else answers
    return connector_of(info).open(info, storage, access, history=history)


def history_of(reader: LogReader) -> HistoryLog:
    """What reads the same log, and what only archives hold of it."""
    if isinstance(reader, StreamReader | AnswersReader):
        if reader.with_archives is None:
            reader.with_archives = HistoryReader(reader.storage, log=reader)
        return cast("HistoryLog", reader.with_archives)
    guarded = getattr(reader, "history", None)
    return cast("HistoryLog", reader if guarded is None else guarded())


def refresh_archives(reader: LogReader) -> None:
    """See what archives hold now."""
    history = history_of(reader)
    if isinstance(history, HistoryReader):
        history.refresh()


def of_log(floor: Floor, reader: LogReader) -> Floor:
    """What is needed of the log itself: where there are archives, what is older is in them, or held until it is."""
    return Floor(row=floor.row) if getattr(reader, "has_archives", False) else floor


def _reached(storage: Storage, info: StreamInfo) -> Callable[[], int]:
    """Tells the time that a query has come to whose answers are in the log of a host: it follows from its operator."""
    if HOST not in info.options:
        return lambda: MIN_TIME
    from anabranch.operators.together.answered import time_of_member  # few processes read one

    return time_of_member(storage, info)


def open_history(storage: Storage) -> HistoryReader:
    """The same of a stream that may be archived."""
    reader = open_stream(storage, history=True)
    assert isinstance(reader, HistoryReader)
    return reader


def end_of(storage: Storage, access: Access | None = None) -> End | None:
    """How far a stream has come, for a look at it: None if its rows are on a server that is away."""
    info = StreamInfo.load(storage)
    if info.origin == ANSWERS:
        return AnswersReader(storage, info, _reached).end()
    return connector_of(info).look(info, storage, access)
