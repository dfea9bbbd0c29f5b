"""Who is a member of a host, as of any version of its list.

The list is a stream: each row adds a member or takes one away, and the number of rows is its version. Members have the
number of the row that added them.

Members that were dropped before a version that no micro-batch goes back to are forgotten: what the list says of them is
cleared (`listing`), once that version is written down beside it. Every process forgets the same ones, so that all tasks
of a micro-batch know of the same members.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators import operator_from_json
from anabranch.operators.base import Offset, Offsets, Operator
from anabranch.operators.pace import ALL, Pace
from anabranch.operators.together.changes import ADDED, DROPPED, GOING_BACK, HELD, LEAVING, PACED, STANDING
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema

if TYPE_CHECKING:
    from anabranch.expressions.atoms import Atom

SCHEMA = StreamSchema(
    pa.schema(
        [
            (ARRIVAL_COLUMN, TIME_TYPE),
            ("change", pa.string()),
            ("member", pa.int64()),
            ("name", pa.string()),
            ("body", pa.string()),
        ]
    ),
    ARRIVAL_COLUMN,
)
"""The columns of a list of members; its time stands still, as its rows are known by their number."""


class Rows(Protocol):
    """What is known of a list of members where it is one of many streams."""

    @property
    def identity(self) -> str: ...

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table: ...


class Listing(Rows, Protocol):
    """A list of members, to be read."""

    def first_row(self) -> int: ...

    def noted(self, name: str) -> Any: ...


FORGOTTEN = "forgotten.json"
"""Beside a list of members: the version before which those that were dropped are forgotten."""


class Turn(NamedTuple):
    """A row of the list that speaks of a member."""

    row: int
    change: str
    body: str = ""
    """What else it says, of some changes, as JSON (`noted`)."""

    def noted(self) -> dict[str, Any]:
        noted: dict[str, Any] = json.loads(self.body) if self.body else {}
        return noted


@dataclass(eq=False)
class Entry:
    """A member, from the version that added it to the one that took it away."""

    number: int
    """The row that added it."""
    name: str
    body: str
    turns: list[Turn] = field(default_factory=list)
    """What became of it: rows of the list that speak of it, the first of which added it."""
    paces: list[tuple[int, Pace]] = field(default_factory=list)
    """How many of its windows it answers, where that is not all, from which row of the list on."""

    @property
    def data(self) -> dict[str, Any]:
        """What was written down of it: its query, its plan, and its atoms if it is a selection.

        It is read each time: that takes 10 µs, and what was read 5 kB of each member in every process.
        """
        data: dict[str, Any] = json.loads(self.body)
        return data

    @property
    def retain_us(self) -> int | None:
        """How long its answers are kept; None: for good."""
        # Most say nothing of it, and are not read for that.
        retained: int | None = self.data.get("retain_us") if '"retain_us"' in self.body else None
        return retained

    @functools.cached_property
    def query(self) -> dict[str, Any]:
        """What the catalog knows of it."""
        query: dict[str, Any] = self.data["query"]
        return query

    @functools.cached_property
    def operator(self) -> Operator:
        return operator_from_json(self.data["plan"]["operator"])

    @functools.cached_property
    def kind(self) -> str:
        """The kind of its operator."""
        kind: str = self.data["plan"]["operator"]["kind"]
        return sys.intern(kind)

    @property
    def is_selection(self) -> bool:
        return self.kind == "select"

    @functools.cached_property
    def residual_sql(self) -> str | None:
        """The rest of it that Spark SQL computes, if any."""
        rest: str | None = self.data["plan"].get("residual_sql")
        return rest

    @functools.cached_property
    def atoms(self) -> dict[Atom, str]:
        """By what it can be looked up together with others: the parts of its condition, with their SQL."""
        from anabranch.expressions.atoms import atom_from_json  # not for who only looks who there is

        return {atom_from_json(atom): sql for atom, sql in self.data["atoms"]}

    @functools.cached_property
    def canonical(self) -> Operator:
        """Its operator as all have it who mean the same (`Operator.canonical`)."""
        said = self.data.get("canonical")
        return self.operator.canonical() if said is None else operator_from_json(said)

    @functools.cached_property
    def atoms_by_source(self) -> list[list[Atom]] | None:
        """Of one that searches rows of several sources: the parts of the condition on each, in the canonical order."""
        from anabranch.expressions.atoms import atom_from_json

        said = self.data.get("atoms_by_source")
        return None if said is None else [[atom_from_json(atom) for atom in atoms] for atoms in said]

    @functools.cached_property
    def found_out(self) -> dict[str, Any]:
        """What kinds of families have found out of it, by the name of each."""
        return {}

    @property
    def begins_at(self) -> dict[str, Any] | None:
        """How far it has come in each stream elsewhere, if it was a query before."""
        at: dict[str, Any] | None = self.data.get("at")
        return at

    @property
    def begins(self) -> dict[str, Any] | None:
        """With which rows it is to begin, where it must be these."""
        if '"at"' not in self.body and '"shared"' not in self.body:
            return None  # most say nothing of it, and are not read for that
        data = self.data
        begins = data.get("shared", {}).get("begins", {})
        at: dict[str, Any] | None = data.get("at") or {name: Offset(row).place for name, row in begins.items()} or None
        return at

    @property
    def first(self) -> int:
        """How many answers it had before it came."""
        return int(self.data.get("first", 0))

    @property
    def bound_for(self) -> dict[str, Any]:
        """Where to it leaves, if it does."""
        return self.turns[-1].noted() if self.state == LEAVING else {}

    @property
    def state(self) -> str:
        """What was last said of it."""
        return self.turns[-1].change

    def turn(self, version: int) -> Turn | None:
        """The last row of its that a version of the list has."""
        return next((turn for turn in reversed(self.turns) if turn.row < version), None)

    def pace(self, version: int) -> Pace:
        """How many of its windows it answers, as of a version of the list."""
        return next((pace for row, pace in reversed(self.paces) if row < version), ALL)

    @property
    def pace_now(self) -> Pace:
        """The same as of the newest version."""
        return self.paces[-1][1] if self.paces else ALL

    def place(self, version: int) -> int:
        """The number of that row: by it a cohort knows its members."""
        turn = self.turn(version)
        return self.number if turn is None else turn.row

    def position(self, listed: Offset, streams: Offsets) -> dict[str, Offset] | None:
        """How far it is where its host has come so far in the list and in the streams; None if it is nowhere.

        What the list says since of where it went back to, when a micro-batch was over, counts as well.
        """
        turn = self.turn(listed.row)
        if turn is None or turn.change not in STANDING:
            return None
        cohorts = (cohort.at for cohort in listed.catching if cohort.low <= turn.row < cohort.high)
        at: Mapping[str, Any] = next(cohorts, streams)
        for later in self.turns:
            if later.row >= listed.row and later.change in GOING_BACK:
                back = later.noted().get("at") or {}
                at = {name: min(tuple(place)[:2], tuple(back.get(name, place))[:2]) for name, place in at.items()}
        return {name: Offset(*at[name][:2]) for name in self.operator.inputs}


class Roster:
    """The members of one host; `follow` takes in what was added to its list."""

    def __init__(self) -> None:
        self.version = 0
        self.entries: dict[int, Entry] = {}
        """All that are not forgotten, by number."""
        self.by_name: dict[str, Entry] = {}
        """Those that exist, by name in small letters."""
        self.leaving: dict[int, Entry] = {}
        """Those of them that go on elsewhere."""
        self.held: dict[int, Entry] = {}
        """Those of them that are held back."""
        self.by_turn: dict[int, int] = {}
        """Whom the rows speak of that hold a member back."""
        self.paced: dict[int, Entry] = {}
        """Those of which it was said how many windows they answer."""
        self.retained: dict[int, Entry] = {}
        """Those that exist and whose answers are not kept for good."""
        self.dropped: list[Entry] = []
        """Those that are not forgotten and do not exist any more."""
        self.drops = 0
        """How many were dropped since this process has known of them."""
        self._mutex = threading.Lock()
        self._last: tuple[tuple[int, int], list[tuple[int, Entry]]] = ((0, 0), [])
        """Who was last asked for, of which versions."""

    def follow(self, reader: Listing, version: int) -> Roster:
        """Know all changes up to a version, and what is forgotten."""
        with self._mutex:
            if version > self.version:
                begin = max(self.version, reader.first_row())
                rows = reader.read(begin, version)
                said = pc.indices_nonzero(rows.column("change").is_valid())
                for number, row in zip(said.to_pylist(), rows.take(said).to_pylist(), strict=True):
                    self._take(row, begin + number)
                self.version = version
            if self.dropped:
                self._forget((reader.noted(FORGOTTEN) or {}).get("version", 0))
            return self

    def _forget(self, version: int) -> None:
        """Those that were dropped before a version."""
        gone = {entry.number for entry in self.dropped if entry.turns[-1].row < version}
        if gone:
            self.dropped = [entry for entry in self.dropped if entry.number not in gone]
            self.by_turn = {row: number for row, number in self.by_turn.items() if number not in gone}
            for number in gone:
                del self.entries[number]
                self.paced.pop(number, None)

    def _take(self, row: dict[str, Any], number: int) -> None:
        change = row["change"]
        if change == ADDED:
            entry = Entry(number, row["name"], row["body"], [Turn(number, ADDED)])
            self.entries[number] = entry
            self.by_name[row["name"].lower()] = entry
            if '"pace"' in row["body"] and "pace" in entry.data:
                self._set_pace(entry, number, entry.data["pace"])
            if entry.retain_us is not None:
                self.retained[number] = entry
            return
        if row["member"] not in self.entries:  # what added it is cleared, and this is not yet
            return
        entry = self.entries[row["member"]]
        if change == PACED:
            self._set_pace(entry, number, json.loads(row["body"]))
            return
        if entry.state in STANDING:  # two may have dropped it at once
            entry.turns.append(Turn(number, change, row["body"]))
            if change == HELD:
                self.by_turn[number] = entry.number
        for state, known in ((LEAVING, self.leaving), (HELD, self.held)):
            if entry.state == state:
                known[entry.number] = entry
            else:
                known.pop(entry.number, None)
        if change == DROPPED and self.by_name.get(entry.name.lower()) is entry:
            del self.by_name[entry.name.lower()]
            self.retained.pop(entry.number, None)
            self.dropped.append(entry)
            self.drops += 1

    def _set_pace(self, entry: Entry, row: int, said: list[int]) -> None:
        entry.paces.append((row, Pace(*said)))
        self.paced[entry.number] = entry

    def tolerance(self, version: int) -> int:
        """The largest k with which any member can do that stands, while its host is behind."""
        paces = (entry.pace(version) for entry in self.paced.values() if entry.state in STANDING)
        return max((pace.at_most for pace in paces), default=0)

    def is_as_of(self, version: int, member: int | None) -> bool:
        """Whether nothing was said of a member since a version."""
        return member in self.entries and self.entries[member].turns[-1].row < version

    def members(self, before: int, after: int) -> list[tuple[int, Entry]]:
        """Those that stand from one version to another, each with its place; those that change between them do not."""
        asked, standing = self._last
        if asked != (before, after):
            standing = self._members(before, after)
            self._last = ((before, after), standing)
        return standing

    def _members(self, before: int, after: int) -> list[tuple[int, Entry]]:
        standing = []
        with self._mutex:  # another thread may take in changes
            entries = list(self.entries.items())
        for number, entry in entries:
            turn = entry.turns[0] if len(entry.turns) == 1 else entry.turn(after)
            if number < before and turn is not None and turn.row < before and turn.change in STANDING:
                standing.append((turn.row, entry))
        return standing


_KEPT = 16
_rosters: OrderedDict[str, Roster] = OrderedDict()
_mutex = threading.Lock()


def roster_of(reader: Rows, version: int) -> Roster:
    """The roster of a list in this process, up to a version at least."""
    with _mutex:
        roster = _rosters.setdefault(reader.identity, Roster())
        _rosters.move_to_end(reader.identity)
        while len(_rosters) > _KEPT:
            _rosters.popitem(last=False)
    return roster.follow(cast(Listing, reader), version)
