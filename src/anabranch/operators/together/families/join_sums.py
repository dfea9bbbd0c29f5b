"""Aggregates over window joins that differ in constants of conditions on one stream's rows: one search, one fold.

As in families of joins (`families.joins`) each result is looked up among the members' conditions. It is folded once for
each member that wants it, with the member as one more group: in the order that the member has by itself, so that sums
are the same to the last bit.

The naive version runs each member by itself (`operators.join.aggregate`).
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.expressions.atoms import Atom
from anabranch.log.slices import sliced
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.join.aggregate import Rows, WindowJoinAggregate, program_over
from anabranch.operators.join.program import TIME, JoinProgram
from anabranch.operators.join.run import JoinRun, Results
from anabranch.operators.select import SelectRows
from anabranch.operators.together.families.base import Family, folder_of
from anabranch.operators.together.families.equal import names_of
from anabranch.operators.together.families.joins import (
    Searching,
    Wanting,
    filtered,
    in_places,
    keep,
    places_of,
    searched_once,
    selections_of,
)
from anabranch.operators.together.families.waste import Waste
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Selections, Slices
from anabranch.operators.windows.program import WindowProgram

LEAST = 4
"""So many members make a family: below, counting results without looking at them may cost less."""
_MEMBER = "_family"
_ROWS_AT_ONCE = 1 << 17
_KIND = "join_sums"


@dataclass(frozen=True)
class JoinSumFamily:
    """What its members have in common, and what each wants of it."""

    operator: WindowJoinAggregate
    members: list[tuple[Entry, Searching]]

    @property
    def entries(self) -> list[Entry]:
        return [entry for entry, _ in self.members]

    @property
    def folder(self) -> str:
        return folder_of(self.operator)

    @property
    def told(self) -> str:
        return searched_once([searching for _, searching in self.members])

    def run(self, start: dict[str, Offset], end: dict[str, Offset], inputs: Inputs) -> Iterator[Slices]:
        operator = self.operator
        schemas = tuple(inputs.readers[stream].schema for _, stream, _ in operator.join.sources)
        search = _search(operator, tuple(searching for _, searching in self.members), schemas)
        search.waste.begin(start, end)
        batches: list[pa.RecordBatch] = []
        for task in operator.plan(start, end, inputs, 1):
            run = operator.in_order_of_time.started(task, inputs, search.joined)
            batches += operator.folded(search.program, _rows(search, run))
            keep(run, inputs)
        if batches:
            yield from self._handed_out(pa.Table.from_batches(batches))

    def _handed_out(self, rows: pa.Table) -> Iterator[Slices]:
        """Each member's rows, under the names that it wrote."""
        place = rows.column(_MEMBER).to_numpy()
        rows = rows.drop_columns([_MEMBER]).combine_chunks()
        by_names: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, (entry, _) in enumerate(self.members):
            by_names[names_of(entry, rows.schema)].append(number)
        for names, numbers in by_names.items():
            mine = np.flatnonzero(np.isin(place, numbers))
            mine = mine[np.argsort(place[mine], kind="stable")]
            if len(mine):
                whose, counts = np.unique(place[mine], return_counts=True)
                members = np.array([entry.number for entry, _ in self.members])[whose]
                yield sliced(rows.take(pa.array(mine)).rename_columns(list(names)), members, counts)


def join_sum_families(entries: list[Entry]) -> tuple[list[Family], list[Entry]]:
    """The families among some members, and those that are in none."""
    alike: dict[str, list[tuple[Entry, _Summing]]] = defaultdict(list)
    singles: list[Entry] = []
    for entry in entries:
        if _KIND not in entry.found_out:
            entry.found_out[_KIND] = _summing(entry)
        summing: _Summing | None = entry.found_out[_KIND]
        if summing is None:
            singles.append(entry)
        else:
            alike[summing.alike].append((entry, summing))
    families: list[Family] = []
    for members in alike.values():
        if len(members) < LEAST:
            singles += [entry for entry, _ in members]
        else:
            searching = [(entry, summing.searching) for entry, summing in members]
            families.append(JoinSumFamily(members[0][1].operator, searching))
    return families, singles


@dataclass(frozen=True, eq=False)
class _Summing:
    """What a member has in common with others: an aggregate by member; and what is its own."""

    operator: WindowJoinAggregate
    searching: Searching

    @functools.cached_property
    def alike(self) -> str:
        return json.dumps([self.operator.to_json(), self.searching.alike])


def _summing(entry: Entry) -> _Summing | None:
    if entry.kind != WindowJoinAggregate.kind:
        return None
    canonical, atoms = entry.canonical, entry.atoms_by_source
    assert isinstance(canonical, WindowJoinAggregate)
    if canonical.join.memory is not None or atoms is None or places_of(canonical.join) is None:
        return None
    # What is summed up in another order is not the same to the last bit: sources stay where they are.
    places = tuple(range(len(atoms)))
    common = in_places(canonical.join, places, atoms)
    own: tuple[frozenset[Atom], ...] = tuple(frozenset(atom for atom in some if not atom.computed) for some in atoms)
    operator = replace(
        canonical,
        join=common,
        keys=((_MEMBER, _MEMBER), *canonical.keys),
        columns=((_MEMBER, _MEMBER), *canonical.columns),
    )
    return _Summing(operator, Searching(common, places, own, ()))


# -- made ready once per process -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Search:
    joined: JoinProgram
    selections: Selections
    program: WindowProgram
    reads: list[str]
    waste: Waste


@functools.lru_cache(maxsize=64)
def _search(operator: WindowJoinAggregate, members: tuple[Searching, ...], schemas: tuple[pa.Schema, ...]) -> _Search:
    joined = filtered(operator.in_order_of_time, [searching.own for searching in members], schemas)
    asking = [Wanting(place, SelectRows("", (), ""), searching.atoms) for place, searching in enumerate(members)]
    program = program_over(operator, joined.schema.append(pa.field(_MEMBER, pa.int64())))
    reads = [name for name in program.reads if name not in (TIME, _MEMBER)]
    return _Search(joined, selections_of(asking, joined), program, reads, Waste(len(members)))


def _rows(search: _Search, run: JoinRun) -> Iterator[Rows]:
    """What is folded: each result as often as members want it, with the member as its first key."""
    for results in run.results():
        for low in range(0, len(results), _ROWS_AT_ONCE):
            part = results.between(low, low + _ROWS_AT_ONCE)
            wanted = 0
            for matches in search.selections.matches(run.columns(search.selections.tested, part)):
                is_wanted = np.zeros(len(part), np.bool_)
                is_wanted[matches.row] = True
                count = int(np.count_nonzero(is_wanted))
                wanted += count
                if count:
                    by_row = np.argsort(matches.row, kind="stable")
                    place = (np.cumsum(is_wanted) - 1)[matches.row[by_row]]
                    yield _as_often(search, run, part.at(is_wanted), place, matches.question[by_row])
            search.waste.found(len(part), wanted)


def _as_often(
    search: _Search, run: JoinRun, results: Results, place: NDArray[np.int64], member: NDArray[np.int64]
) -> Rows:
    """Results at some places, each for a member."""
    table, places = run.columns(search.reads, results), pa.array(place)
    keys = [key.evaluate(table).take(places) for key in search.program.keys[1:]]
    values = [value.evaluate(table).take(places) for value in search.program.arguments]
    return results.times[place], [pa.array(member), *keys], values
