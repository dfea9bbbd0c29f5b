"""One writer per stream, fenced.

On a local disk the kernel holds the lock (`flock`), so a dead owner's lock is free at once, and
the file's text only says who the owner is. On other file systems the lock is a lease: a file with
the owner and a time, renewed as the owner writes, that may be taken over once it has run out.
Before every write the owner checks that the lock still bears its mark: a writer that was taken
for dead and comes back finds another's mark and is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
import time
from typing import Any

from anabranch.clock import Clock
from anabranch.errors import StreamError
from anabranch.log.storage import Storage

LOCK = "writer.lock"
LEASE_US = 30_000_000
_ATTEMPTS, _PAUSE = 6, 0.02
BEING_WRITTEN = "STREAM_IS_BEING_WRITTEN"
"""The name of the error where another has the lock."""


def owner_of(storage: Storage, clock: Clock) -> dict[str, Any] | None:
    """Who writes the stream in a directory now, or None."""
    owner: dict[str, Any] | None = storage.read_json(LOCK)
    if not storage.is_local:
        return owner if owner and owner.get("until", 0) > clock.now_us() else None
    try:
        handle = os.open(storage.full(LOCK), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return owner or {}
    finally:
        os.close(handle)
    return None


def _locked(handle: int) -> bool:
    """Whether the lock could be had; a query that moves a silent stream on has it for a moment only."""
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            time.sleep(_PAUSE if attempt < _ATTEMPTS - 1 else 0)
    return False


class WriterLock:
    """The right to write one stream, from `take` until `release` or death."""

    def __init__(self, storage: Storage, stream: str, clock: Clock) -> None:
        self._storage = storage
        self._stream = stream
        self._clock = clock
        self._mark = secrets.token_hex(8)
        self._handle: int | None = None
        self._renewed = 0

    def take(self) -> None:
        """Become the writer, or say who is."""
        if self._storage.is_local:
            handle = self._storage.open_to_lock(LOCK)
            if not _locked(handle):
                os.close(handle)
                raise self._taken()
            self._handle = handle
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(self._owner()).encode(), 0)
            return
        owner = self._storage.read_json(LOCK)
        if owner and owner.get("until", 0) > self._clock.now_us():
            raise self._taken()
        self._renew()
        if (self._storage.read_json(LOCK) or {}).get("mark") != self._mark:
            raise self._taken()

    def check(self) -> None:
        """Refuse to write once another process has become the writer."""
        if self._handle is not None:
            try:
                same = os.fstat(self._handle).st_ino == os.stat(self._storage.full(LOCK)).st_ino
            except FileNotFoundError:
                same = False
            if not same:
                raise self._lost()
            return
        if (self._storage.read_json(LOCK) or {}).get("mark") != self._mark:
            raise self._lost()
        if self._clock.now_us() - self._renewed > LEASE_US // 3:
            self._renew()

    def release(self) -> None:
        """Give the right back."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, 0)
                os.close(self._handle)
            self._handle = None
        elif not self._storage.is_local:
            with contextlib.suppress(OSError, StreamError):
                if (self._storage.read_json(LOCK) or {}).get("mark") == self._mark:
                    self._storage.delete(LOCK)

    def _owner(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "host": socket.gethostname(), "mark": self._mark}

    def _renew(self) -> None:
        self._renewed = self._clock.now_us()
        self._storage.write_json(LOCK, {**self._owner(), "until": self._renewed + LEASE_US})

    def _taken(self) -> StreamError:
        owner = self._storage.read_json(LOCK) or {}
        who = f"process {owner.get('pid', '?')} on {owner.get('host', '?')}"
        return StreamError(
            BEING_WRITTEN,
            f'stream "{self._stream}" is being written by {who}',
            hint="append through that process, or stop it first",
        )

    def _lost(self) -> StreamError:
        return StreamError(
            "WRITER_WAS_REPLACED",
            f'another process took over writing stream "{self._stream}"',
            hint="open the database again",
        )
