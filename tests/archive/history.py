"""Readers that know of archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.archive.reader import HistoryReader

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


def with_archives(reader: Reader) -> HistoryReader:
    """The reader of a stream whose rows are in the database, and so may be archived."""
    assert isinstance(reader, HistoryReader)
    return reader
