"""How far a host has answered, beside its log: from it follows the time that each of its members has come to.

It is written after each micro-batch, when its answers are in the log and the members that have gone back in it are in
the list: what it says of time stays true. Whoever reads a member's answers by its directory alone finds it there.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from anabranch.log.offset import MIN_TIME
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage, encoded_name
from anabranch.log.stream import HOST, MEMBER
from anabranch.operators.offset import Offset, Offsets, offsets_from_json, offsets_to_json
from anabranch.operators.together.roster import Roster, roster_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.log.stream import StreamInfo

ANSWERED = "answered.json"
_HOSTS = 64


def note_answered(log: Storage, listing: str, end: Offsets) -> None:
    """All answers up to `end` are in the log of a host with a list of members."""
    log.write_json(ANSWERED, {"list": listing, "end": offsets_to_json(end)}, durable=False)


def forget_answered(log: Storage) -> None:
    """Answers are computed again: nothing that was said holds."""
    log.delete(ANSWERED)


class Answered:
    """What a host has written down, read again when it has changed."""

    def __init__(self, log: Storage) -> None:
        self._log = log
        self._read: bytes | None = None
        self._listed = Offset()
        self._streams: dict[str, Offset] = {}
        self._roster: Roster | None = None
        self._list: StreamReader | None = None
        self._mutex = threading.Lock()

    def reached(self, member: int) -> int:
        """The time that no later answer of a member is before; `MIN_TIME` where nothing is known of it."""
        with self._mutex:
            self._look()
            entry = None if self._roster is None else self._roster.entries.get(member)
            position = None if entry is None else entry.position(self._listed, self._streams)
            return MIN_TIME if entry is None or position is None else entry.operator.reached(position)

    def _look(self) -> None:
        data = self._log.read_bytes(ANSWERED)
        if data == self._read:
            return
        said: Any = None if data is None else self._log.read_json(ANSWERED)
        self._read, self._roster = data, None
        if not isinstance(said, dict):  # it is damaged, and written again soon
            return
        end = offsets_from_json(said["end"])
        listing = said["list"]
        if self._list is None or self._list.was_dropped():
            self._list = StreamReader(self._log.beside(encoded_name(listing)))
        # After it was read: members whose answers in the micro-batch do not count are in the list by now.
        self._roster = roster_of(self._list, self._list.end().row)
        self._listed, self._streams = end.pop(listing), end


@functools.lru_cache(maxsize=_HOSTS)
def _answered(address: str) -> Answered:
    return Answered(Storage(address))


def time_of_member(storage: Storage, info: StreamInfo) -> Callable[[], int]:
    """Tells what time a member has come to whose answers are declared in a directory."""
    log, member = storage.beside(info.options[HOST]), int(info.options[MEMBER])
    return lambda: _answered(log.address).reached(member)
