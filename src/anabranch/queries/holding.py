"""Which members of a host are held back, and how much they take in at once: decided after each micro-batch.

A member is held back by itself when its answers were more than its budget (`operators.budget`), or when it took more
than its budget of time and half of all that the members took. It then goes on in pieces that keep it to half of that,
as measured, smaller ones at once and larger ones while it is behind. Once it has been where the others are for some
micro-batches, with as little as that, it goes on with them again; each time it has to wait twice as long for it.

What is decided is a row of the list of members; the next micro-batch finds it there, before it says where it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch.engine.cohorts import CATCH_UP_ROWS
from anabranch.operators.budget import Budget
from anabranch.operators.offset import Cohort, Offsets
from anabranch.operators.together.changes import FAILED, HELD, RELEASED, RUNNING, STANDING, STAYING
from anabranch.operators.together.costs import Costs
from anabranch.operators.together.costs import Said as Measured
from anabranch.operators.together.failed import Told
from anabranch.operators.together.roster import Entry, Roster
from anabranch.queries.hosts import Said

CALM = "member_released"
"""The event that mends itself: nobody has to be told."""
_SMALLER = 16
"""A member of which nothing is known but that its answers were too many takes in so much less at once."""
_LARGER = 4
_CALM = 10
"""Micro-batches for which a member must have been calm."""
_DOUBLED = 10
"""It has to be calm for twice as long each time, so many times."""
_LASTS = 0.95
_LEAST_FOR_TIME = 10_000
"""Smaller pieces do not take less time."""
_MEASURED = 5.0
"""About so many micro-batches have to have been measured: the first ones compile and read what later ones find."""
_MOST_OF_ALL = 0.5


class Batch(NamedTuple):
    """A micro-batch of a host, and which of its inputs is its list of members."""

    listing: str
    start: Offsets
    end: Offsets


@dataclass
class _Held:
    """What is known of a member that is held back."""

    rate: float = 0.0
    """How much of its budget it has needed at most for each row, lately."""
    calm: int = 0


class Holding:
    """Of the members of one host, in the process that runs it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._held: dict[int, _Held] = {}

    # -- what did not go along ---------------------------------------------------------------------

    def put_back(self, roster: Roster, failed: Told, flooded: Told, version: int, now: int) -> list[Said]:
        """Of members whose answers in a micro-batch, which ran a version of the list, do not count."""
        said = []
        for number, told in failed.items():
            entry = _standing(roster, number)
            if entry is not None:
                said.append(_row(entry, FAILED, {**told, "since": now}))
        for number, told in flooded.items():
            entry = _standing(roster, number)
            if entry is not None and not _is_said(entry, version):
                rows = max(told["rows"] // _SMALLER, 1)
                self._held[entry.number] = _Held(rate=1 / told["rows"])
                noted = {"at": told["at"], "rows": rows, "since": _since(entry, now), "again": entry.state == HELD}
                noted["why"] = f"more answers than its budget in a micro-batch of {told['rows']} rows"
                said.append(_row(entry, HELD, noted))
                if entry.state in STAYING:  # someone has stopped it meanwhile, or sent it elsewhere
                    said.append(Said(entry.state, entry.number, entry.name, entry.turns[-1].body))
        return said

    # -- what goes on otherwise --------------------------------------------------------------------

    def look(self, roster: Roster, measured: Measured, before: Costs, batch: Batch, now: int) -> list[Said]:
        """What is to be said after a micro-batch; `before` are the averages of those before it."""
        held = {entry.number: (entry, cohort) for entry, cohort in _held_in(roster, batch)}
        still = {number for number in self._held if (entry := roster.entries.get(number)) and entry.state == HELD}
        self._held = {number: self._held.get(number, _Held()) for number in {*still, *held}}
        said: list[Said] = []
        for number, cost in measured["members"].items():
            entry = roster.entries.get(int(number))
            if entry is not None and entry.state in RUNNING and entry.state != HELD:
                said += self._flooding(entry, cost, before, measured["all"][0], now)
        for number, (entry, cohort) in held.items():
            cost = measured["members"].get(str(number), [0.0] * 4)
            behind = any(tuple(batch.end[name].place) != tuple(place) for name, place in cohort.at.items())
            said += self._going_on(entry, cohort, cost, behind, now)
        return said

    def _flooding(self, entry: Entry, cost: list[float], before: Costs, members: float, now: int) -> Iterator[Said]:
        ms, rows, size, taken = cost
        answers, time, least = self._budget.exceeded(rows, size), 0.0, 1
        if members > 1 and before.weight > _MEASURED and before.of(entry.number).share > _MOST_OF_ALL:
            time = self._budget.exceeded(0, 0, min(ms, before.of(entry.number).ms))
        over, why = answers, f"{int(rows)} answers of {int(size)} bytes in a micro-batch"
        if time > answers:
            over, least, why = time, _LEAST_FOR_TIME, f"{int(ms)} ms of a micro-batch, more than all others together"
        piece = int(taken / len(entry.operator.inputs) / over / 2) if over else 0
        if over > 1 and (least == 1 or piece > least):
            noted = {"rows": max(piece, least), "why": why, "since": now}
            yield _row(entry, HELD, noted)

    def _going_on(self, entry: Entry, cohort: Cohort, cost: list[float], behind: bool, now: int) -> Iterator[Said]:
        known, piece = self._held[entry.number], cohort.rows
        ms, rows, size, _ = cost
        over = self._budget.exceeded(rows, size, ms if piece > _LEAST_FOR_TIME else 0.0)
        known.rate = max(over / piece, known.rate * _LASTS)
        wanted = min(int(0.5 / known.rate) if known.rate else CATCH_UP_ROWS, _LARGER * piece, CATCH_UP_ROWS)
        if over > 1 and piece > 1:
            yield _resized(entry, max(min(wanted, piece // 2), 1))
        elif behind and wanted >= 2 * piece:
            yield _resized(entry, wanted)
        known.calm = 0 if behind or over > 0.5 else known.calm + 1
        if known.calm >= _CALM << min(_times_released(entry), _DOUBLED):
            yield _row(entry, RELEASED, {"since": now})


def _standing(roster: Roster, number: str) -> Entry | None:
    """A member that has not failed yet, nor was dropped meanwhile."""
    entry = roster.entries.get(int(number))
    return entry if entry is not None and entry.state in STANDING and entry.state != FAILED else None


def _is_said(entry: Entry, version: int) -> bool:
    """Whether it was said before: the micro-batch is run again."""
    return any(turn.row >= version and turn.noted().get("at") is not None for turn in entry.turns[1:])


def _held_in(roster: Roster, batch: Batch) -> Iterator[tuple[Entry, Cohort]]:
    """Members that were held back in a micro-batch, and where they are now; nothing has been said of them since."""
    began = {cohort.low for cohort in batch.start[batch.listing].catching if cohort.rows}
    for cohort in batch.end[batch.listing].catching:
        number = roster.by_turn.get(cohort.low) if cohort.low in began else None
        if number is not None and roster.entries[number].turns[-1].row == cohort.low:
            yield roster.entries[number], cohort


def _row(entry: Entry, change: str, noted: dict[str, Any]) -> Said:
    return Said(change, entry.number, entry.name, json.dumps(noted))


def _resized(entry: Entry, rows: int) -> Said:
    """It goes on from where it is, with so many rows at once."""
    return _row(entry, HELD, {**_noted(entry), "at": None, "rows": rows, "again": True})


def _noted(entry: Entry) -> dict[str, Any]:
    return entry.turns[-1].noted()


def _since(entry: Entry, now: int) -> int:
    """Since when it is held back, if it is."""
    return int(_noted(entry)["since"]) if entry.state == HELD else now


def _times_released(entry: Entry) -> int:
    return sum(turn.change == RELEASED for turn in entry.turns)


def told_of(said: Iterable[Said]) -> Iterator[tuple[str, str]]:
    """What people should know of it: names of events, and what they mean."""
    for change, event, text in (
        (FAILED, "member_failed", "cannot go on; the others do"),
        (HELD, "member_held_back", "held back by itself, so that the others are not late"),
        (RELEASED, CALM, "goes on with the others again"),
    ):
        rows = [row for row in said if row.change == change and not json.loads(row.body).get("again")]
        if rows:
            more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
            why = json.loads(rows[0].body).get("why")
            names = ", ".join(f'"{row.name}"' for row in rows[:3])
            yield event, f"{names}{more}: {text}" + (f" ({why})" if why else "")
