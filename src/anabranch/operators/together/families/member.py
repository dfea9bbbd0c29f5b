"""A windowed aggregate as a member of a family: what of it others have too, and what is its own."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import NamedTuple

from anabranch.expressions.atoms import Atom
from anabranch.functions.aggregates import row_of
from anabranch.operators.together.families.labels import is_point
from anabranch.operators.together.roster import Entry
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.windows.panes.axis import Panes

Asked = tuple[str, str | None]
"""An aggregate function and the SQL of its argument."""
_KIND = "folded"
_OWN = ("size", "slide", "filter", "aggregates", "columns", "having", "order", "limit", "time")
"""What members of a family may differ in."""
_OUTPUT = ("keys", "aggregates", "having", "order", "limit")
"""What says which groups are answered, and with the columns, what of them."""


class Fold(NamedTuple):
    """What members have in common that are folded together: rows, groups, and the column they differ in."""

    rows: str
    """Stream, unit of windows and keys, as text; the windows themselves where they have to be the same."""
    rest: tuple[Atom, ...]
    """The atoms of all of them."""
    column: str | None
    """The column that the other atoms are about; None: there are no others."""


class Way(NamedTuple):
    """How a member can be folded with others; `merges`: what they ask of a range follows from its values."""

    fold: Fold
    merges: bool


@dataclass(frozen=True)
class Member:
    """A member that may be in a family."""

    entry: Entry
    rows: str
    output: str
    """Members with the same text answer alike, but for the names of their columns."""
    names: tuple[str, ...]
    aggregates: tuple[Asked, ...]
    panes: Panes

    @functools.cached_property
    def operator(self) -> WindowAggregate:
        operator = self.entry.operator
        assert isinstance(operator, WindowAggregate)
        return operator

    @functools.cached_property
    def merges(self) -> bool:
        """Whether what it asks of a range of values follows from what is kept of each."""
        return all(row_of(function).merges for function, _ in self.aggregates)

    @functools.cached_property
    def ways(self) -> list[Way]:
        """How it can be folded with others, the likeliest first: by each of its columns, or as it is."""
        atoms = tuple(self.entry.atoms)
        windows = f"{self.rows} {self.panes}"
        found = []
        for column in dict.fromkeys(atom.of for atom in atoms if not atom.computed):
            own = self.own(column)
            if self.merges or (len(own) == 1 and is_point(own[0])):
                rest = tuple(atom for atom in atoms if atom not in own)
                found.append(Way(Fold(self.rows if self.merges else windows, rest, column), self.merges))
        found.sort(key=lambda way: not all(map(is_point, self.own(way.fold.column))))
        if self.merges:
            found.append(Way(Fold(self.rows, atoms, None), True))
        return [*found, Way(Fold(windows, atoms, None), False)]

    def own(self, column: str | None) -> tuple[Atom, ...]:
        """Its atoms about a column."""
        return tuple(atom for atom in self.entry.atoms if atom.of == column and not atom.computed)


def member_of(entry: Entry) -> Member | None:
    """A member by its entry, found out once; None if it is no windowed aggregate."""
    if _KIND not in entry.found_out:
        entry.found_out[_KIND] = _member_of(entry)
    member: Member | None = entry.found_out[_KIND]
    return member


def _member_of(entry: Entry) -> Member | None:
    plan = entry.data["plan"]["operator"]
    if plan["kind"] != WindowAggregate.kind:
        return None
    rows = json.dumps({name: value for name, value in plan.items() if name not in _OWN})
    names = tuple(name for name, _ in plan["columns"])
    told = names.index(plan["time"]) if plan["time"] in names else None
    output = json.dumps([[sql for _, sql in plan["columns"]], told, [plan[name] for name in _OUTPUT]])
    aggregates = tuple((function, sql) for _, function, sql in plan["aggregates"])
    return Member(entry, rows, output, names, aggregates, Panes(plan["size"], plan["slide"]))
