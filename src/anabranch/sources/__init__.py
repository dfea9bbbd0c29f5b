"""Where tuples enter: the stream data type and the kinds of source there are."""

from __future__ import annotations

from anabranch.sources.base import END, NO_VALUE, NewValue, Reading, Signal, Source, values_of
from anabranch.sources.files import FORMATS, FileSource, open_file
from anabranch.sources.generator import Packets, PacketSource

__all__ = [
    "END",
    "FORMATS",
    "NO_VALUE",
    "FileSource",
    "NewValue",
    "PacketSource",
    "Packets",
    "Reading",
    "Signal",
    "Source",
    "open_file",
    "values_of",
]
