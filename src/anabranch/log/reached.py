"""How far a writer had come, told apart from the log itself, so that a lost last segment is missed.

The mark is written after each part of the log, without waiting for the disk (2 µs where a forced write takes a
millisecond); it is forced to disk when the writer is closed. So it outlasts the death of processes exactly; after a
loss of power it may be older than the log, never ahead of it. Local disks only: others keep their files themselves.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import NamedTuple

import xxhash

from anabranch.log.storage import Storage

REACHED = "reached.mark"
_FIELDS = struct.Struct("<4q")
_SUM = struct.Struct("<Q")


class Reached(NamedTuple):
    """The next row's number, the newest time seen, the time up to which rows were released, the next arrival."""

    row: int
    newest: int
    released: int
    arrival: int


def reached(stream: Storage) -> Reached | None:
    """How far the writer of a stream had come; None if it is not known."""
    data = stream.read_bytes(REACHED) if stream.is_local else None
    if data is None or len(data) != _FIELDS.size + _SUM.size:
        return None
    fields, (sum,) = data[: _FIELDS.size], _SUM.unpack(data[_FIELDS.size :])
    return Reached(*_FIELDS.unpack(fields)) if xxhash.xxh3_64_intdigest(fields) == sum else None


class ReachedMark:
    """The writing side; one writer has it, who holds the stream's lock."""

    def __init__(self, stream: Storage) -> None:
        self._stream = stream
        self._handle = stream.open_to_lock(REACHED) if stream.is_local else None

    def write(self, mark: Reached) -> None:
        if self._handle is not None:
            fields = _FIELDS.pack(*mark)
            os.pwrite(self._handle, fields + _SUM.pack(xxhash.xxh3_64_intdigest(fields)), 0)

    def close(self) -> None:
        """Force the last mark to disk."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None
