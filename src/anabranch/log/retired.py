"""Answers of a log of many that RETAIN has let go: from which number on those of each member are kept.

It is what `kept.json` is for a stream with a log of its own (`lost`): written before anything is deleted. Their space
is given back by and by (`compaction`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from anabranch.log.storage import Storage

RETIRED = "retired.json"
_SETTLED_NS = 50_000_000
"""A file's time of change is trusted only when it is this old: two changes may share one tick."""


class Retired:
    """What is written down beside a log of many; looked at again when it has changed."""

    def __init__(self, log: Storage) -> None:
        self._log = log
        self._made: int | None = None
        self._firsts: dict[int, int] = {}

    def firsts(self) -> Mapping[int, int]:
        """The first number that is kept, of each member of which answers were let go."""
        made = self._log.made(RETIRED)
        if made != self._made:
            said = self._log.read_json(RETIRED) if made else None
            if isinstance(said, dict):  # one that is damaged says nothing new
                self._firsts = dict(zip(said["members"], said["firsts"], strict=True))
            self._made = made if time.time_ns() - made > _SETTLED_NS else None
        return self._firsts

    def first(self, member: int) -> int:
        return self.firsts().get(member, 0)

    def note(self, firsts: Mapping[int, int]) -> None:
        """Write down, for good, what is kept of each member."""
        self._log.write_json(RETIRED, {"members": list(firsts), "firsts": list(firsts.values())})
        self._firsts, self._made = dict(firsts), None
