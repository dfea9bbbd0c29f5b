"""Where the answers of a host's members go: one log and one commit for all, each member's numbered by itself.

Members that cannot go on, or not with the others, are told to the list of members first, and then the answers of the
others are written: a micro-batch that is run again may fail otherwise, and what its members answer is what they did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from anabranch.catalog.hosted import list_name
from anabranch.clock import Clock
from anabranch.engine.protocol import Engine
from anabranch.log import lost
from anabranch.log.slices import SCHEMA, Payload, index_of, sliced
from anabranch.operators.budget import Budget
from anabranch.operators.offset import Offsets
from anabranch.operators.together import costs
from anabranch.operators.together.answered import forget_answered, note_answered
from anabranch.operators.together.changes import GOING_BACK
from anabranch.operators.together.failed import FAILED, FLOODED, Told
from anabranch.operators.together.roster import Roster
from anabranch.operators.work import Work
from anabranch.queries.finishing import Finishing
from anabranch.queries.holding import CALM, Batch, Holding, told_of
from anabranch.queries.host_upkeep import HostUpkeep
from anabranch.queries.hosts import Said
from anabranch.queries.member import Member
from anabranch.queries.member_numbers import MemberNumbers
from anabranch.queries.sink import StreamSink

Say = Callable[[Callable[[Roster], Sequence[Said]]], Sequence[Said]]
"""Writes rows of the list of members, of what is known of them then; gives what was said."""


class HostSink(StreamSink):
    """The one writer of a host's log."""

    def __init__(self, member: Member, clock: Clock, say: Say, engine: Callable[[], Engine]) -> None:
        super().__init__(member, clock)
        settings = member.settings
        self._member, self._clock, self._say = member, clock, say
        self._listing = list_name(member.name)
        self._holding = Holding(Budget(settings["member_rows"], settings["member_bytes"], settings["member_ms"]))
        roster = partial(member.catalog.hosted.roster, member.name)
        self._finishing = Finishing(engine, member.storage.child("staging"), roster)
        self._log = member.reader()
        self._numbers = MemberNumbers(member.storage, self._log, self.writer.info.id)
        self._numbers.follow(self._log, self.writer.next_row)
        self._upkeep = HostUpkeep(member, self.writer, self._numbers, clock)

    def take(self, rows: pa.Table, batch: int, start: Offsets, end: Offsets, reached: int, work: Work) -> None:
        if not self.has(start, end):
            self._take(rows, batch, start, end, reached, work)
        # Last of all: whoever reads it finds all answers in the log, and in the list who has gone back.
        note_answered(self.writer.storage, self._listing, end)

    def _take(self, rows: pa.Table, batch: int, start: Offsets, end: Offsets, reached: int, work: Work) -> None:
        version = end[self._listing].row
        failed, flooded = work.reports.get(FAILED, {}), work.reports.get(FLOODED, {})
        if failed or flooded:
            self._put_back(failed, flooded, version)
        rows, unfinished = self._finishing.finish(_without(rows, self._gone_back(version)))
        if unfinished:  # before the commit: a micro-batch that was taken is not finished once more
            said = {str(number): {"at": self._was_at(number, start), "why": why} for number, why in unfinished.items()}
            self._put_back(said, {}, version)
        rows = self._numbered(rows)
        if rows.num_rows:
            super().take(rows, batch, start, end, reached, work)
            self._numbers.row = self.writer.next_row
            self._numbers.note()
        self._upkeep.answered(rows, version)
        self._hold(Batch(self._listing, start, end), work)

    def _put_back(self, failed: Told, flooded: Told, version: int) -> None:
        now = self._clock.now_us()
        self._tell(lambda roster: self._holding.put_back(roster, failed, flooded, version, now))

    def _was_at(self, number: int, start: Offsets) -> dict[str, list[int]]:
        """Where a member was in the streams of its host when a micro-batch began."""
        listed = start[self._listing]
        entry = self._member.catalog.hosted.roster(self._member.name).entries[number]
        place = entry.place(listed.row)
        for cohort in listed.catching:
            if cohort.low <= place < cohort.high:
                return {name: list(at) for name, at in cohort.at.items()}
        return {name: list(offset.place) for name, offset in start.items() if name != self._listing}

    def _gone_back(self, version: int) -> set[int]:
        """Members whose answers in the micro-batch that ran a version of the list do not count."""
        reader = self._member.catalog.open_stream(self._listing)
        last = reader.end().row
        if last <= version:
            return set()
        rows = reader.read(version, last, ["change", "member", "body"]).to_pylist()
        return {
            row["member"]
            for row in rows
            if row["change"] in GOING_BACK and json.loads(row["body"]).get("at") is not None
        }

    def _hold(self, batch: Batch, work: Work) -> None:
        """Hold back those that flood, and let go of those that are calm."""
        measured = work.reports.get(costs.KIND)
        if measured is None:
            return
        kept = costs.Costs(self._member.progress.counts.reports.get(costs.KIND))
        roster = self._member.catalog.hosted.roster(self._member.name)
        version = roster.version
        wanted = self._holding.look(roster, measured, kept, batch, self._clock.now_us())
        if wanted:
            self._tell(lambda roster: [row for row in wanted if roster.is_as_of(version, row.member)])

    def _tell(self, rows: Callable[[Roster], Sequence[Said]]) -> None:
        progress = self._member.progress
        for event, text in told_of(self._say(rows)):
            (progress.note if event == CALM else progress.tell)(event, text)

    def _numbered(self, rows: pa.Table) -> pa.Table:
        """Rows of the log with the numbers of their members' answers, and times that count rows."""
        indices = [self._numbers.give(index_of(data.as_buffer())).tobytes() for data in rows.column("index")]
        first = self.writer.next_row
        times = pa.array(np.arange(first, first + rows.num_rows)).cast(SCHEMA.arrow.field(0).type)
        return pa.table([times, pa.array(indices, pa.binary()), rows.column("payload")], schema=SCHEMA.arrow)

    def begin_again(self) -> None:
        """Members' answers get the numbers they had; rows of the log get others, behind those that were let go."""
        anew = self.position() is None
        self.writer.begin_again(lost.kept_from(self.writer.storage) if anew else None)
        forget_answered(self.writer.storage)
        self._numbers.forget(first=anew)
        self._numbers.begin(self._log, self.writer.next_row)
        self._numbers.follow(self._log, self.writer.next_row)

    def look_after(self) -> None:
        self._upkeep.look()

    def close(self) -> None:
        self._upkeep.close()
        super().close()


def _without(rows: pa.Table, members: set[int]) -> pa.Table:
    """The rows of a log of many without those of some members."""
    if not members:
        return rows
    gone = np.array(sorted(members), np.int64)
    kept: list[tuple[bytes, Payload]] = []
    for index, payload in zip(rows.column("index").to_pylist(), rows.column("payload").to_pylist(), strict=True):
        parts = index_of(index)
        stays = ~np.isin(parts[:, 0], gone)
        if stays.all():
            kept.append((index, payload))
        elif stays.any():
            answers = ipc.open_stream(payload).read_all()
            mask = pa.array(np.repeat(stays, parts[:, 2]))
            kept.append(sliced(answers.filter(mask), parts[stays, 0], parts[stays, 2]))
    times = pa.array([0] * len(kept)).cast(SCHEMA.arrow.field(0).type)
    indices, payloads = ([part[place] for part in kept] for place in (0, 1))
    return pa.table([times, pa.array(indices, pa.binary()), pa.array(payloads, pa.binary())], schema=SCHEMA.arrow)
