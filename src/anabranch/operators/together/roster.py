"""Who is a member of a host, as of any version of its list.

The list is a stream: each row adds a member or takes one away, and the number of rows is its version. Members have the
number of the row that added them.
"""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from anabranch.operators import operator_from_json
from anabranch.operators.base import Operator
from anabranch.operators.together.changes import ADDED, DROPPED, FAILED, STANDING
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


class Listing(Protocol):
    """A list of members, to be read."""

    @property
    def identity(self) -> str: ...

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table: ...


@dataclass
class Entry:
    """A member, from the version that added it to the one that took it away."""

    number: int
    """The row that added it."""
    name: str
    body: str
    turns: list[tuple[int, str]] = field(default_factory=list)
    """What became of it: rows of the list that speak of it, the first of which added it."""
    why: str = ""
    """Why it failed, if it did: a message."""

    @functools.cached_property
    def data(self) -> dict[str, Any]:
        """What was written down of it: its query, its plan, and its atoms if it is a selection."""
        data: dict[str, Any] = json.loads(self.body)
        return data

    @functools.cached_property
    def operator(self) -> Operator:
        return operator_from_json(self.data["plan"]["operator"])

    @property
    def is_selection(self) -> bool:
        kind: str = self.data["plan"]["operator"]["kind"]
        return kind == "select"

    @functools.cached_property
    def atoms(self) -> dict[Atom, str]:
        """By what it can be looked up together with others: the parts of its condition, with their SQL."""
        from anabranch.expressions.atoms import atom_from_json  # not for who only looks who there is

        return {atom_from_json(atom): sql for atom, sql in self.data["atoms"]}

    @property
    def state(self) -> str:
        """What was last said of it."""
        return self.turns[-1][1]

    def turn(self, version: int) -> tuple[int, str] | None:
        """The last row of its that a version of the list has, and what it says."""
        return next((turn for turn in reversed(self.turns) if turn[0] < version), None)

    def place(self, version: int) -> int:
        """The number of that row: by it a cohort knows its members."""
        turn = self.turn(version)
        return self.number if turn is None else turn[0]


class Roster:
    """The members of one host; `follow` takes in what was added to its list."""

    def __init__(self) -> None:
        self.version = 0
        self.entries: dict[int, Entry] = {}
        """All that were not dropped, and those that were since this process has known of them, by number."""
        self.by_name: dict[str, Entry] = {}
        """Those that exist, by name in small letters."""
        self._mutex = threading.Lock()

    def follow(self, reader: Listing, version: int) -> Roster:
        """Know all changes up to a version."""
        with self._mutex:
            if version > self.version:
                for row in reader.read(self.version, version).to_pylist():
                    self._take(row, self.version)
                    self.version += 1
            return self

    def _take(self, row: dict[str, Any], number: int) -> None:
        change = row["change"]
        if change == ADDED:
            entry = Entry(number, row["name"], row["body"], [(number, ADDED)])
            self.entries[number] = entry
            self.by_name[row["name"].lower()] = entry
            return
        entry = self.entries[row["member"]]
        if entry.state in STANDING or change == DROPPED:  # two may have said at once that it ended
            entry.turns.append((number, change))
        if change == FAILED:
            entry.why = row["body"]
        elif change == DROPPED and self.by_name.get(entry.name.lower()) is entry:
            del self.by_name[entry.name.lower()]

    def members(self, before: int, after: int) -> list[tuple[int, Entry]]:
        """Those that stand from one version to another, each with its place; those that change between them do not."""
        standing = []
        for number, entry in self.entries.items():
            turn = entry.turns[0] if len(entry.turns) == 1 else entry.turn(after)
            if number < before and turn is not None and turn[0] < before and turn[1] in STANDING:
                standing.append((turn[0], entry))
        return standing


_KEPT = 16
_rosters: OrderedDict[str, Roster] = OrderedDict()
_mutex = threading.Lock()


def roster_of(reader: Listing, version: int) -> Roster:
    """The roster of a list in this process, up to a version at least."""
    with _mutex:
        roster = _rosters.setdefault(reader.identity, Roster())
        _rosters.move_to_end(reader.identity)
        while len(_rosters) > _KEPT:
            _rosters.popitem(last=False)
    return roster.follow(reader, version)
