"""What is done now and then for the log and the list of a host: what nobody can read any more is let go.

Whoever runs the host does it, a little at a time, beside its micro-batches. First it is written down, for good, what
goes: which answers RETAIN has let go (`log.retired`), which members are forgotten (`operators.together.roster`). Then
the space is given back where that pays (`log.compaction`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.catalog.hosted import list_name
from anabranch.clock import Clock
from anabranch.errors import StreamError
from anabranch.log import clearing, retention
from anabranch.log.compaction import Compaction, Contents
from anabranch.log.lock import WriterLock
from anabranch.log.reader import StreamReader
from anabranch.log.retired import Retired
from anabranch.log.slices import entries_of, payload_rows
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo, has_rows
from anabranch.log.writer import StreamWriter
from anabranch.operators.together.listing import ListContents
from anabranch.operators.together.roster import FORGOTTEN, Entry, Roster
from anabranch.queries.member import Member
from anabranch.queries.member_numbers import MemberNumbers, note_first_numbers
from anabranch.queries.scratch_upkeep import ScratchUpkeep

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

_AT_ONCE_SECONDS = 0.05
"""How long a look takes at most, but for the last segment it rewrites; there is one a second."""
_FORGET_FROM = 256
"""So many members must have been dropped, and half as many as there are, before they are forgotten."""


class HostUpkeep:
    """See the module. `answered` is told of answers as they come, from whichever thread; `look` does what is due."""

    def __init__(self, member: Member, writer: StreamWriter, numbers: MemberNumbers, clock: Clock) -> None:
        self._member = member
        self._catalog = member.catalog
        self._list = member.catalog.stream_storage(list_name(member.name))
        self._clock = clock
        self._writer = writer
        self._log = StreamReader(writer.storage)
        self._numbers = numbers
        self._scratch = ScratchUpkeep(Storage(member.scratch))
        self._retired = Retired(writer.storage)
        self._newest: dict[int, int] = {}
        self._due: dict[int, int] = {}
        self._listed = 0
        self._seen: tuple[int, int] | None = None
        self._round: Compaction | None = None
        self._all = True
        self._list_round: Compaction | None = None
        self._list_is_due = True  # the process before may have died over it
        self._closed = False
        self._mutex = threading.Lock()

    def answered(self, rows: pa.Table, listed: int) -> None:
        """Rows that are in the log now, of a micro-batch that goes up to a version of the list."""
        self._listed = listed
        retained = self._catalog.hosted.roster(self._member.name).retained
        for part in _parts(rows, dict(retained)):
            self._newest[part.member] = part.time_last

    def close(self) -> None:
        """No look goes on, and none begins."""
        with self._mutex:
            self._closed = True

    def look(self) -> None:
        """Do a piece of what is due; another look that is at work is not waited for."""
        if not self._mutex.acquire(blocking=False):
            return
        try:
            if self._closed:
                return
            deadline = time.monotonic() + _AT_ONCE_SECONDS
            roster = self._catalog.hosted.roster(self._member.name)
            self._scratch.look(roster, self._listed)
            self._look_at_answers(roster, deadline)
            self._look_at_list(roster, deadline)
        finally:
            self._mutex.release()

    # -- answers -------------------------------------------------------------------------------------

    def _look_at_answers(self, roster: Roster, deadline: float) -> None:
        if self._round is None:
            seen = (roster.drops, self._writer.closed_end if roster.retained else 0)
            if seen == self._seen:
                return
            self._all = self._seen is None or seen[0] != self._seen[0]
            self._seen = seen
            self._due = {} if self._all else self._due
            self._round = Compaction(self._writer)
            self._retire_at_home(roster)
        contents = _Answers(self, roster)
        while self._round is not None and time.monotonic() < deadline:
            if not self._round.step(self._writer, contents):
                self._round = None

    def wants(self, first: int) -> bool:
        """Whether something may be dead in the segment that begins with a row."""
        return self._all or self._due.get(first, 0) < max(self._newest.values(), default=0)

    def living(self, roster: Roster) -> clearing.Living:
        until = roster.version
        members = np.sort(np.fromiter((entry.number for entry in list(roster.by_name.values())), np.int64))
        firsts = np.zeros(len(members), np.int64)
        for member, first in self._retired.firsts().items():
            at = int(np.searchsorted(members, member))
            if at < len(members) and members[at] == member:
                firsts[at] = first
        return clearing.Living(members, firsts, until)

    def retire(self, first: int, rows: pa.Table, roster: Roster) -> bool:
        """What members have in a closed segment leaves if they do not promise it any more, and nobody needs it."""
        retained, known = dict(roster.retained), self._retired.firsts()
        parts = [part for part in _parts(rows, retained) if part.end > known.get(part.member, 0)]
        gone = {part.member: part.end for part in parts if self._may_leave(part, retained[part.member])}
        due = [p.time_last + (retained[p.member].retain_us or 0) for p in parts if p.member not in gone]
        self._due[first] = min(due, default=np.iinfo(np.int64).max)
        if gone:
            there = {member: known[member] for member in known if member in roster.entries}
            self._retired.note({**there, **gone})
        return bool(gone)

    def _may_leave(self, part: _Part, entry: Entry) -> bool:
        """The newest answers always stay."""
        newest = self._newest.get(part.member)
        if newest is None or entry.retain_us is None:
            return False
        part = part._replace(end=entry.first + part.end)
        promised = retention.Needed(entry.first + self._numbers.of(part.member) - 1, newest - entry.retain_us)
        if promised.wants(part):
            return False
        stream = self._catalog.stream_storage(entry.name)
        needed = retention.needed(stream, promised, lambda time: self._row_at(entry, time))
        return needed is not None and not needed.wants(part)

    def _retire_at_home(self, roster: Roster) -> None:
        """The same for answers of before, which members that came from elsewhere have in logs of their own."""
        for entry in list(roster.retained.values()):
            stream, newest = self._catalog.stream_storage(entry.name), self._newest.get(entry.number)
            if entry.first and newest is not None and has_rows(stream):
                lock = WriterLock(stream, entry.name, self._clock)
                with contextlib.suppress(StreamError):  # it moves at this moment
                    lock.take()
                    try:
                        retention.apply(stream, stream.child("segments"), StreamInfo.load(stream), newest)
                    finally:
                        lock.release()

    def _row_at(self, entry: Entry, time: int) -> int:
        reader: Reader = self._catalog.open_stream(entry.name)
        return reader.row_at_time(time, reader.end().row)

    def letting_go(self, end: int) -> None:
        note_first_numbers(self._member.storage, self._log, self._writer.info.id, end)

    # -- the list ------------------------------------------------------------------------------------

    def _look_at_list(self, roster: Roster, deadline: float) -> None:
        """Forget members that were dropped before the last micro-batch: no other goes back to them."""
        if self._list_round is None:
            gone = sum(entry.turns[-1][0] < self._listed for entry in list(roster.dropped))
            if gone >= max(_FORGET_FROM, len(roster.by_name) // 2):
                self._list.write_json(FORGOTTEN, {"version": self._listed})
                roster = self._catalog.hosted.roster(self._member.name)
                self._list_is_due = True
        contents = ListContents(roster)
        while self._list_is_due and time.monotonic() < deadline:
            try:
                writer = StreamWriter(self._list, self._member.settings, self._clock)
            except StreamError:  # someone makes or drops members at this moment
                return
            try:
                self._list_round = self._list_round or Compaction(writer)
                if not self._list_round.step(writer, contents):
                    self._list_round, self._list_is_due = None, False
            finally:
                writer.close()


class _Part(NamedTuple):
    """What a member has in a segment."""

    member: int
    end: int
    """The number after its last answer there."""
    time_last: int


def _parts(rows: pa.Table, members: dict[int, Entry]) -> list[_Part]:
    """What some members have in rows of the log."""
    if not members or not rows.num_rows:
        return []
    row, entries = entries_of(rows.column("index"))
    numbers: NDArray[np.int64] = np.fromiter(members, np.int64)
    mine = np.flatnonzero(np.isin(entries[:, 0], numbers) & (entries[:, 2] > 0))
    last: dict[int, int] = dict(zip(entries[mine, 0].tolist(), mine.tolist(), strict=True))
    ends = np.cumsum(entries[:, 2])
    before = np.searchsorted(row, np.arange(rows.num_rows))
    opened: dict[int, pa.Table] = {}
    parts = []
    for member, place in sorted(last.items(), key=lambda item: item[1]):
        at = int(row[place])
        if at not in opened:
            opened = {at: payload_rows(rows.column("payload")[at].as_buffer())}
        begin = ends[before[at] - 1] if before[at] else 0
        times = opened[at].column(members[member].data["plan"]["schema"]["time"])
        newest = int(times[int(ends[place] - begin) - 1].value)
        parts.append(_Part(member, int(entries[place, 1] + entries[place, 2]), newest))
    return parts


class _Answers(Contents):
    """What compaction is told of the log of a host."""

    def __init__(self, upkeep: HostUpkeep, roster: Roster) -> None:
        self._upkeep = upkeep
        self._roster = roster
        self._living = upkeep.living(roster)

    def wants(self, first: int) -> bool:
        return self._upkeep.wants(first)

    def look(self, first: int, rows: pa.Table) -> int:
        if self._upkeep.retire(first, rows, self._roster):
            self._living = self._upkeep.living(self._roster)
        return clearing.dead_bytes(rows, self._living)

    def cleared(self, first: int, rows: pa.Table) -> pa.Table:
        return clearing.cleared(rows, self._living)

    def is_empty(self, first: int, rows: pa.Table) -> bool:
        return clearing.is_empty(rows, self._living)

    def letting_go(self, end: int) -> None:
        self._upkeep.letting_go(end)
