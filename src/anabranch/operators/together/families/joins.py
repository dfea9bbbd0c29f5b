"""Window joins that differ in constants of conditions on one stream's rows, and in what they select: one search.

`… WHERE A.k = B.k AND A.c = 1` and `… WHERE A.k = B.k AND A.c = 2` are a family: the join is searched without what each
says of one stream's rows alone, and every result is looked up among them, as rows of a stream are for selections. Rows
that nobody wants are left out before the search (`together.wanted`). What the search keeps in memory is named by what
is left out, so it is made again from the rows of the windows when others are wanted.

A result's place in the answer follows from its time and its rows, never from how it was found: so a member has its
results in the order that it has by itself. Joins that shed are not shared, as each keeps to a memory of its own.

The naive version runs each member by itself (`operators.join.operator`).
"""

from __future__ import annotations

import functools
import itertools
import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.expressions.atoms import Atom
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.join.conditions import Equality, SourceExpression
from anabranch.operators.join.operator import WindowJoin, program_of, rows_of
from anabranch.operators.join.program import TIME, JoinProgram
from anabranch.operators.join.run import JoinRun, Results, in_order, joined
from anabranch.operators.join.steps import live
from anabranch.operators.select import SelectRows
from anabranch.operators.together.families.base import Family, folder_of
from anabranch.operators.together.families.waste import Waste
from anabranch.operators.together.meeting import parts_of
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Selections, Slices
from anabranch.operators.together.wanted import wanted_by

LEAST = 2
"""So many members make a family."""
_ROWS_PER_SLICE = 1 << 17
_KIND = "joins"


@dataclass(frozen=True, eq=False)  # found out once of each member, and known by that
class Searching:
    """What a member wants of a join that others want, too."""

    common: WindowJoin
    """The join without its own conditions; sources are in the order of their names."""
    places: tuple[int, ...]
    """Where its own first, second, … source is among those of the common join."""
    own: tuple[frozenset[Atom], ...]
    """Its own conditions on the rows of each source of the common join, in the stream's own names."""
    columns: tuple[tuple[str, str], ...]
    """What it answers with, over the columns of the common join."""

    @functools.cached_property
    def alike(self) -> str:
        """The same for all of a family: the join, and which sources have conditions of their own."""
        return json.dumps([self.common.to_json(), [bool(atoms) for atoms in self.own]])

    @property
    def atoms(self) -> list[Atom]:
        """Its own conditions, over the columns of the common join."""
        aliases = self.common.aliases()
        return [
            atom._replace(of=f"{alias}.{atom.of}")
            for alias, atoms in zip(aliases, self.own, strict=True)
            for atom in sorted(atoms, key=repr)
        ]


@dataclass(frozen=True)
class JoinFamily:
    """What its members have in common, and what each wants of it."""

    members: list[tuple[Entry, Searching]]

    @property
    def operator(self) -> WindowJoin:
        return self.members[0][1].common

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
        schemas = tuple(inputs.readers[stream].schema for _, stream, _ in operator.sources)
        asked = tuple((entry.number, searching) for entry, searching in self.members)
        search = _search(asked, schemas)
        search.waste.begin(start, end)
        for task in operator.plan(start, end, inputs, 1):
            run = operator.started(task, inputs, search.program)
            clock = None if operator.ordered else max(offset.time for offset in task.start.values())
            found = [_Found(lookup, run, clock) for lookup in search.lookups]
            for results in run.results():
                search.waste.found(len(results), max(each.take(results) for each in found))
            for each in found:
                yield from each.answers()
            keep(run, inputs)


def join_families(entries: list[Entry]) -> tuple[list[Family], list[Entry]]:
    """The families among some members, and those that are in none."""
    alike: dict[str, list[tuple[Entry, Searching]]] = defaultdict(list)
    singles: list[Entry] = []
    for entry in entries:
        if _KIND not in entry.found_out:
            entry.found_out[_KIND] = _searching(entry)
        searching: Searching | None = entry.found_out[_KIND]
        if searching is None:
            singles.append(entry)
        else:
            alike[searching.alike].append((entry, searching))
    families: list[Family] = []
    for members in alike.values():
        if len(members) < LEAST:
            singles += [entry for entry, _ in members]
        else:
            families.append(JoinFamily(members))
    return families, singles


def _searching(entry: Entry) -> Searching | None:
    """What a member has in common with others of a family, and what is its own."""
    if entry.kind != WindowJoin.kind:
        return None
    canonical, atoms = entry.canonical, entry.atoms_by_source
    assert isinstance(canonical, WindowJoin)
    if canonical.memory is not None or atoms is None:
        return None
    places = places_of(canonical)
    if places is None:
        return None
    common = replace(in_places(canonical, places, atoms), columns=((TIME, TIME),), time=TIME)
    written = entry.operator
    assert isinstance(written, WindowJoin)
    columns = tuple((name, sql) for (name, _), (_, sql) in zip(written.columns, canonical.columns, strict=True))
    return Searching(common, places, own_atoms(atoms, places), columns)


def places_of(canonical: WindowJoin) -> tuple[int, ...] | None:
    """The place of each source among those of a join that all share who name the same streams, if there is such."""
    aliases = canonical.aliases()
    ordered = [f"s{place}" for place in range(len(aliases))]
    if set(aliases) != set(ordered):
        return None
    # Windows of rows go by which source comes first where rows have the same time.
    return tuple(ordered.index(alias) for alias in aliases) if canonical.unit == "time" else tuple(range(len(aliases)))


def own_atoms(atoms: Sequence[Sequence[Atom]], places: Sequence[int]) -> tuple[frozenset[Atom], ...]:
    """What can be looked up of the conditions on each source."""
    own = {
        place: frozenset(atom for atom in some if not atom.computed) for place, some in zip(places, atoms, strict=True)
    }
    return tuple(own[place] for place in range(len(own)))


def in_places(canonical: WindowJoin, places: Sequence[int], atoms: Sequence[Sequence[Atom]]) -> WindowJoin:
    """A join with its sources in other places, of whose conditions only what cannot be looked up is left."""
    sources = {}
    for (alias, stream, _), place, some in zip(canonical.sources, places, atoms, strict=True):
        rest = sorted(atom.of for atom in some if atom.computed)
        sources[place] = (alias, stream, " AND ".join(f"({sql})" for sql in rest) or None)
    windows = [
        (places[i], places[j], low, high) if places[i] < places[j] else (places[j], places[i], -high, -low)
        for i, j, low, high in canonical.windows
    ]
    return replace(
        canonical, sources=tuple(sources[place] for place in range(len(places))), windows=tuple(sorted(windows))
    )


def searched_once(members: Sequence[Searching]) -> str:
    """What EXPLAIN says of a search that is shared."""
    streams = [stream for _, stream, _ in members[0].common.sources]
    own = {
        f"{stream}.{atom.of}"
        for each in members
        for stream, atoms in zip(streams, each.own, strict=True)
        for atom in atoms
    }
    looked_up = f"; results are looked up by {', '.join(sorted(own))}" if own else ""
    return f"searched once for {len(members)} queries{looked_up}"


def keep(run: JoinRun, inputs: Inputs) -> None:
    """Leave indices to the next micro-batch, and forget those that were made for others than are there now."""
    names, place = run.keep(), str(inputs.scratch)
    for name in _kept.pop(place, set()) - names:
        live.take(name)
    _kept[place] = names
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)


_kept: OrderedDict[str, set[str]] = OrderedDict()
"""The names of indices, by the folder of the family that left them."""
_MOST_KEPT = 1024


# -- made ready once per process -----------------------------------------------------------------------


@dataclass(frozen=True)
class Wanting:
    """A member as one who selects of the joined rows."""

    number: int
    operator: SelectRows
    atoms: list[Atom]


@dataclass(frozen=True)
class _Lookup:
    """Who wants which result, of members that name the streams in the same order."""

    places: tuple[int, ...]
    selections: Selections


@dataclass(frozen=True)
class _Search:
    program: JoinProgram
    lookups: list[_Lookup]
    waste: Waste


def filtered(
    common: WindowJoin, own: Sequence[tuple[frozenset[Atom], ...]], schemas: tuple[pa.Schema, ...]
) -> JoinProgram:
    """The program of a join for some who share it: rows that none of them wants, or wants together, are left out."""
    program = program_of(common, schemas)
    wanted = [frozenset(atoms[place] for atoms in own) for place in range(len(schemas))]
    filters = (wanted_by(*each) for each in zip(wanted, program.filters, schemas, strict=True))
    parts = parts_of(own, common.aliases(), schemas)
    pairs = [(i, j) for i, j in itertools.combinations(sorted(parts), 2) if _is_by_key(program, i, j)]
    sides = ((SourceExpression(i, parts[i]), SourceExpression(j, parts[j])) for i, j in pairs)
    more = tuple(Equality(pair, "integers", None) for pair in sides)
    conditions = replace(program.conditions, equalities=(*program.conditions.equalities, *more))
    return replace(program, filters=tuple(filters), conditions=conditions)


def _is_by_key(program: JoinProgram, i: int, j: int) -> bool:
    """Whether rows of two sources find each other by a key, or only by looking at all: not by a band."""
    equalities, bands, _ = program.finders(i, [j])
    return bool(equalities) or not bands


def selections_of(members: Iterable[Wanting], program: JoinProgram) -> Selections:
    """The lookup of members among the results of a join; an error if one cannot be looked up."""
    selections = Selections(members, program.schema)
    if selections.failures:
        raise QueryError("MEMBER_FAILED", "; ".join(selections.failures.values()))
    return selections


@functools.lru_cache(maxsize=64)
def _search(asked: tuple[tuple[int, Searching], ...], schemas: tuple[pa.Schema, ...]) -> _Search:
    program = filtered(asked[0][1].common, [searching.own for _, searching in asked], schemas)
    by_places: dict[tuple[int, ...], list[Wanting]] = defaultdict(list)
    for number, searching in asked:
        by_places[searching.places].append(Wanting(number, SelectRows("", searching.columns, ""), searching.atoms))
    lookups = [_Lookup(places, selections_of(some, program)) for places, some in by_places.items()]
    return _Search(program, lookups, Waste(len(asked)))


# -- the answers of a micro-batch ------------------------------------------------------------------------


class _Found:
    """The results of a micro-batch that members want, and who wants which."""

    def __init__(self, lookup: _Lookup, run: JoinRun, clock: int | None) -> None:
        self._lookup = lookup
        self._run = run
        self._clock = clock
        self._results: list[Results] = []

    def take(self, results: Results) -> int:
        """Keep of some results those that are wanted; gives how many."""
        selections, count = self._lookup.selections, 0
        for low in range(0, len(results), _ROWS_PER_SLICE):
            part = results.between(low, low + _ROWS_PER_SLICE)
            is_wanted = np.zeros(len(part), np.bool_)
            for matches in selections.matches(self._table(part, selections.tested)):
                is_wanted[matches.row] = True
            wanted = part.at(is_wanted)
            self._results.append(wanted)
            count += len(wanted)
        return count

    def answers(self) -> Iterator[Slices]:
        """What members answer: in the same pieces, however many results were found at once."""
        results = self._in_order(joined(self._results, len(self._lookup.places)))
        selections = self._lookup.selections
        for low in range(0, len(results), _ROWS_PER_SLICE):
            part = results.between(low, low + _ROWS_PER_SLICE)
            yield from selections.answers(self._table(part, selections.reads))

    def _in_order(self, results: Results) -> Results:
        """By time, then by the rows of sources as these members name them."""
        places = self._lookup.places
        if places == tuple(range(len(places))):
            return results
        numbers = np.arange(len(results))
        rows = [results.rows[place] for place in places]
        return results.at(in_order(Results([*rows, numbers], results.times)).rows[-1])

    def _table(self, results: Results, names: Sequence[str]) -> pa.Table:
        return rows_of(results, self._run, [name for name in names if name != TIME], self._clock)
