"""Who is a member of a host, as of any version of its list.

The list is a stream: each row adds a member or takes one away, and the number of rows is its version. Members have the
number of the row that added them.
"""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.operators import operator_from_json
from anabranch.operators.base import LogReader, Operator
from anabranch.operators.together.changes import ADDED, FAILED
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


@dataclass
class Entry:
    """A member, from the version that added it to the one that took it away."""

    number: int
    """The row that added it."""
    name: str
    body: str
    until: int | None = None
    """The version from which on it is no member any more."""
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

    def is_member(self, version: int) -> bool:
        return self.number < version and (self.until is None or version < self.until)


class Roster:
    """The members of one host; `follow` takes in what was added to its list."""

    def __init__(self) -> None:
        self.version = 0
        self.entries: dict[int, Entry] = {}
        """All that were not dropped, and those that were since this process has known of them, by number."""
        self.by_name: dict[str, Entry] = {}
        """Those that exist, by name in small letters."""
        self._mutex = threading.Lock()

    def follow(self, reader: LogReader, version: int) -> Roster:
        """Know all changes up to a version."""
        with self._mutex:
            if version > self.version:
                for row in reader.read(self.version, version).to_pylist():
                    self._take(row, self.version)
                    self.version += 1
            return self

    def _take(self, row: dict[str, Any], number: int) -> None:
        if row["change"] == ADDED:
            entry = Entry(number, row["name"], row["body"])
            self.entries[number] = entry
            self.by_name[row["name"].lower()] = entry
            return
        entry = self.entries[row["member"]]
        if entry.until is None:
            entry.until = number + 1
        if row["change"] == FAILED:
            entry.why = row["body"]
        elif self.by_name.get(entry.name.lower()) is entry:
            del self.by_name[entry.name.lower()]

    def members(self, version: int, low: int = 0, high: int | None = None) -> list[Entry]:
        """The members as of a version, of those that were added by the rows low ≤ n < high."""
        limit = self.version if high is None else high
        return [entry for number, entry in self.entries.items() if low <= number < limit and entry.is_member(version)]


_KEPT = 16
_rosters: OrderedDict[str, Roster] = OrderedDict()
_mutex = threading.Lock()


def roster_of(reader: LogReader, version: int) -> Roster:
    """The roster of a list in this process, up to a version at least."""
    with _mutex:
        roster = _rosters.setdefault(reader.identity, Roster())
        _rosters.move_to_end(reader.identity)
        while len(_rosters) > _KEPT:
            _rosters.popitem(last=False)
    return roster.follow(reader, version)
