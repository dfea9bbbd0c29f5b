"""Merges that differ only in WHERE and in what they select: one matching, in whose records each looks up its own.

Which records are merged depends on the rows that a merge began with, and what waits in its windows cannot be computed
again. So a family is those that began with the same rows, which is written down when a member is made; its state has
all columns, whoever is there, in a place that is named by what the family is, and is the same at an offset for all of
it, wherever its members are. A merge that is made is a family though it is the only one: others may come. One that was
moved here keeps a state of its own (`operators.merge`, which is the naive version, too).

What says how records are matched (keys, tolerances, policy, window, δ) makes another family: which partner a record
finds depends on all that were taken before.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.expressions.atoms import Atom, atom_from_json
from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.columns import bind
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.program import TIME, matched
from anabranch.operators.merge.step import MergeAnswers, Merged
from anabranch.operators.select import SelectRows
from anabranch.operators.together.families.base import Family, folder_of
from anabranch.operators.together.families.joins import Wanting
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Selections, Slices
from anabranch.operators.windows.program import kept_rows
from anabranch.schema import TIME_TYPE

_ROWS_PER_SLICE = 1 << 17
_KIND = "merges"


@dataclass(frozen=True, eq=False)  # found out once of each member, and known by that
class Matching:
    """What a member wants of a merge that others want, too."""

    common: Merge
    begins: dict[str, int]
    """The rows it began with."""
    first: tuple[str, ...]
    """Conditions to be looked at one after the other."""
    atoms: list[Atom]
    """What it is looked up by among the records that meet them."""
    columns: tuple[tuple[str, str], ...]

    @functools.cached_property
    def alike(self) -> str:
        """The same for all of a family."""
        return json.dumps([self.common.to_json(), sorted(self.begins.items())])


@dataclass(frozen=True)
class MergeFamily:
    """What its members have in common, and what each wants of it."""

    members: list[tuple[Entry, Matching]]
    _ready: dict[pa.Schema, list[_Lookup]] = field(default_factory=dict)

    @property
    def operator(self) -> Merge:
        return self.members[0][1].common

    @property
    def entries(self) -> list[Entry]:
        return [entry for entry, _ in self.members]

    @functools.cached_property
    def folder(self) -> str:
        return _folder(self.members[0][1])

    @property
    def told(self) -> str:
        if len(self.members) == 1:
            return "by itself: no other merges the same streams in the same way, from the same rows on"
        own = {atom.of for _, matching in self.members for atom in matching.atoms}
        looked_up = f"; merged records are looked up by {', '.join(sorted(own))}" if own else ""
        return f"merged once for {len(self.members)} queries{looked_up}"

    def run(self, start: dict[str, Offset], end: dict[str, Offset], inputs: Inputs) -> Iterator[Slices]:
        operator, begins = self.operator, self.members[0][1].begins
        if operator.is_beginning(start):
            _refuse_if_gone(start, begins)
        schema = operator.schema(inputs)
        if schema not in self._ready:
            self._ready[schema] = _lookups(self.members, schema)
        for task in operator.plan(start, end, inputs, 1):
            merged, answers = operator.merged(task, inputs)
            for low in range(0, len(answers), _ROWS_PER_SLICE):
                some = answers.at(slice(low, low + _ROWS_PER_SLICE))
                for lookup in self._ready[schema]:
                    yield from lookup.answers(merged, some)


def merge_families(entries: list[Entry]) -> tuple[list[Family], list[Entry]]:
    """The families among some members, and those that are in none."""
    alike: dict[str, list[tuple[Entry, Matching]]] = defaultdict(list)
    singles: list[Entry] = []
    for entry in entries:
        matching = _matching(entry)
        if matching is None:
            singles.append(entry)
        else:
            alike[matching.alike].append((entry, matching))
    return [MergeFamily(members) for members in alike.values()], singles


def folder_of_merge(entry: Entry) -> str | None:
    """Where a member's family keeps its state; None if the member keeps its own."""
    matching = _matching(entry)
    return None if matching is None else _folder(matching)


def _folder(matching: Matching) -> str:
    return folder_of(matching.common, matching.alike)


def _matching(entry: Entry) -> Matching | None:
    """What a member has in common with others of a family, and what is its own."""
    if entry.kind != Merge.kind:
        return None
    if _KIND not in entry.found_out:
        entry.found_out[_KIND] = _read(entry)
    matching: Matching | None = entry.found_out[_KIND]
    return matching


def _read(entry: Entry) -> Matching | None:
    said = entry.data.get("shared")
    if said is None:
        return None
    common = operator_from_json(said["operator"])
    assert isinstance(common, Merge)
    columns = tuple((name, sql) for name, sql in said["columns"])
    atoms = [atom_from_json(atom) for atom in said["atoms"]]
    return Matching(common, said["begins"], tuple(said["first"]), atoms, columns)


def _refuse_if_gone(start: dict[str, Offset], begins: dict[str, int]) -> None:
    for name, row in begins.items():
        if start[name].row != row:
            raise QueryError(
                "ROWS_ARE_GONE",
                f'rows {row} to {start[name].row} of stream "{name}", with which it was to begin, are gone',
                hint="drop the query and create it again: it begins with the rows there are",
            )


# -- looking up ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lookup:
    """Members that have the same conditions to be looked at first, and the lookup among those who are left."""

    first: tuple[str, ...]
    selections: Selections
    schema: pa.Schema

    def answers(self, merged: Merged, answers: MergeAnswers) -> Iterator[Slices]:
        for sql in self.first:
            condition = bind(sql, self.schema)
            answers = answers.at(kept_rows(condition, _table(merged, answers, condition.columns)).nonzero()[0])
        tested = _table(merged, answers, self.selections.tested)
        wanted = np.zeros(len(answers), np.bool_)
        for matches in self.selections.matches(tested):
            wanted[matches.row] = True
        some = answers.at(wanted.nonzero()[0])
        if len(some):
            yield from self.selections.answers(_table(merged, some, self.selections.reads))


def _lookups(members: Sequence[tuple[Entry, Matching]], schema: pa.Schema) -> list[_Lookup]:
    by_first: dict[tuple[str, ...], list[Wanting]] = defaultdict(list)
    for entry, matching in members:
        wanting = Wanting(entry.number, SelectRows("", matching.columns, ""), matching.atoms)
        by_first[matching.first].append(wanting)
    lookups = []
    for first, some in by_first.items():
        selections = Selections(some, schema)
        if selections.failures:
            raise QueryError("MEMBER_FAILED", "; ".join(selections.failures.values()))
        lookups.append(_Lookup(first, selections, schema))
    return lookups


def _table(merged: Merged, answers: MergeAnswers, names: Sequence[str]) -> pa.Table:
    """Some columns of the records that are answered."""
    table = matched(merged, answers, [name for name in names if name != TIME])
    return table.append_column(TIME, pa.array(answers.times, pa.int64()).view(TIME_TYPE))
