"""How members of a host that do not go with the others come up to them: in cohorts, a piece in each micro-batch.

Members that are added begin with what the streams hold, or where they were elsewhere; those that are stopped or fail
stay where they are, and go on from there when they are started; those that are held back go on in smaller pieces, each
by itself. Which cohorts there are and how far each is stands in the offset of the list of members, beside the version
of the list; its time counts the micro-batches in which a cohort moved, so that it is seen to have gone on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Protocol, cast

from anabranch.engine.micro_batch import Ends, Limits, Log, end_of_batch
from anabranch.operators.base import LogReader
from anabranch.operators.offset import Cohort, Offset, Offsets
from anabranch.operators.opening import history_of
from anabranch.operators.together.changes import ADDED, HELD, STANDING, STAYING
from anabranch.operators.together.roster import Roster, roster_of


class LoggedRows(Log, LogReader, Protocol):
    """What is asked of a stream that members begin with."""


CATCH_UP_ROWS = 500_000
"""Of each stream, how many rows cohorts take in at most in one micro-batch, so that the others are not delayed."""


def next_members(begin: Offsets, ends: Ends, listing: str, streams: Offsets, logs: Mapping[str, LoggedRows]) -> Offset:
    """The offset of the list at the end of a micro-batch that takes the streams from `begin` to `streams`."""
    before = begin[listing]
    catching = sum(not cohort.stopped and not cohort.rows for cohort in before.catching)
    cohorts = [_gone_on(cohort, streams, logs, catching) for cohort in before.catching]
    version = max(before.row, ends[listing].row)
    now = [cohort for cohort in cohorts if cohort is not None]
    if version > before.row:
        roster = roster_of(logs[listing], version)
        now += _new_cohorts(begin, listing, version, roster, logs)
        places = sorted(place for place, _ in roster.members(version, version))
        now = [cohort for cohort in now if bisect_left(places, cohort.low) < bisect_left(places, cohort.high)]
    moved = tuple(now) != before.catching
    return before._replace(row=version, time=before.time + moved, catching=tuple(now))


def _gone_on(cohort: Cohort, target: Offsets, logs: Mapping[str, LoggedRows], cohorts: int) -> Cohort | None:
    """A cohort after one more piece; None once it is where the others are and goes on with them.

    One that is ahead waits for them.
    """
    if cohort.stopped:
        return cohort
    at = {name: Offset(*place) for name, place in cohort.at.items()}
    ends = {name: target[name].place for name in at}
    rows: dict[str, int | None] = dict.fromkeys(at, cohort.rows or max(CATCH_UP_ROWS // cohorts, 1))
    reached = end_of_batch(at, ends, _reaching_back(at, logs), Limits(rows))
    if not cohort.rows and all(reached[name].place == end for name, end in ends.items()):
        return None
    return cohort._replace(at={name: tuple(offset.place) for name, offset in reached.items()})


def _reaching_back(at: Offsets, logs: Mapping[str, LoggedRows]) -> Mapping[str, Log]:
    """The streams, with their archives where members are that have not come to the log yet."""
    return {
        name: cast(Log, history_of(log)) if at[name].row < log.first_logged_row() else log
        for name, log in logs.items()
        if name in at
    }


def _new_cohorts(
    begin: Offsets, listing: str, version: int, roster: Roster, logs: Mapping[str, LoggedRows]
) -> list[Cohort]:
    """What the rows of the list that a micro-batch takes in make; rows beside each other that say the same are one."""
    before = begin[listing]
    first_row = min(max(before.row, logs[listing].first_logged_row()), version)
    others = {name: tuple(offset.place) for name, offset in begin.items() if name != listing}
    first = {name: (logs[name].first_logged_row(), Offset().time) for name in others}
    made: list[Cohort] = []

    def was_at(member: int, row: int) -> dict[str, Any]:
        place = roster.entries[member].place(row)
        return next((c.at for c in (*before.catching, *made) if c.low <= place < c.high), others)

    def arrived_at(row: int) -> dict[str, Any]:
        at = roster.entries[row].begins_at if row in roster.entries else None
        return first if at is None else {**others, **{name: tuple(place) for name, place in at.items()}}

    first_row = min(max(before.row, logs[listing].first_logged_row()), version)  # those before say nothing any more
    changes = logs[listing].read(first_row, version, ["change", "member"])
    rows = zip(changes.column("change").to_pylist(), changes.column("member").to_pylist(), strict=True)
    for row, (change, member) in enumerate(rows, first_row):
        if change not in STANDING or (row if change == ADDED else member) not in roster.entries:
            continue  # of a member that is forgotten nothing is run
        if change == ADDED:
            new = Cohort(row, row + 1, arrived_at(row))
        else:
            turn = roster.entries[member].turn(row + 1)
            noted = turn.noted() if turn is not None and turn.row == row else {}
            at = _earlier(was_at(member, row), noted.get("at"))
            new = Cohort(row, row + 1, at, change in STAYING, noted.get("rows", 0) if change == HELD else 0)
        last = made[-1] if made else None
        if last is not None and not new.rows and last[2:] == new[2:]:
            made[-1] = last._replace(high=row + 1)
        else:
            made.append(new)
    return made


def _earlier(at: dict[str, Any], other: dict[str, Any] | None) -> dict[str, Any]:
    """The earlier of two places: where a member failed is where it is, unless all went back since, to answer again."""
    if other is None:
        return at
    return {name: min(tuple(place), tuple(other.get(name, place))) for name, place in at.items()}
