"""How the members of a family are answered from what is folded for all of them (`families.folded`)."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.expressions.atoms import Atom
from anabranch.kernels.groups import encode
from anabranch.kernels.questions import Codes
from anabranch.kernels.values import Column
from anabranch.log.slices import sliced
from anabranch.operators.columns import project
from anabranch.operators.together.coding import both
from anabranch.operators.together.families.folding import Folding
from anabranch.operators.together.families.labels import Labels
from anabranch.operators.together.families.member import Asked, Member
from anabranch.operators.together.families.runs import (
    Found,
    States,
    Wanted,
    blocks_over,
    everyone,
    looked_up,
    put_together,
    runs_of,
    spread,
)
from anabranch.operators.together.families.waste import RunApart
from anabranch.operators.together.selections import Slices
from anabranch.operators.windows.program import LINE, WindowProgram, Windows

Ints = NDArray[np.int64]

_PAIRS_AT_ONCE = 1 << 20
"""Of members and lines, so many are looked at in one go: it bounds the memory that many windows take."""


class Cut(Exception):
    """An end that a member names lies within an entry that was kept."""


class Entries(NamedTuple):
    """What was folded, in the order of windows."""

    keys: Sequence[Column]
    states: States
    values: Sequence[pa.Array]


class _Shape(NamedTuple):
    """Members that answer alike."""

    members: Ints
    """Their places among all, ascending."""
    names: dict[tuple[str, ...], Ints]
    """What they call their columns; of each, the places of those who do."""
    asked: list[int]
    """Which of the family's aggregates they ask for."""
    program: WindowProgram


class Answering:
    """What each of some members has of a fold; `asked` are the aggregates that `program` finishes."""

    def __init__(
        self,
        members: Sequence[Member],
        asked: Sequence[Asked],
        program: WindowProgram,
        folding: Folding,
        source: pa.Schema,
        time_column: str,
    ) -> None:
        self._program = program
        self._folding = folding
        self._numbers = np.array([member.entry.number for member in members], np.int64)
        self._shapes = list(_shapes(members, asked, source, time_column))
        self._labels, self._wanted = folding.labels, everyone(len(members))
        if folding.labels is not None:
            self._wanted = _wanted([member.own(folding.column) for member in members], folding.labels)

    def slices(self, entries: Entries, windows: Windows) -> Iterator[Slices]:
        """The answers of all members for some windows, a few at a time."""
        count = len(windows.ends)
        if count == 0:
            return
        codes, keys = np.zeros(count, np.int64), list(entries.keys)
        if self._labels is not None:
            more = len(self._folding.states) + len(self._folding.guards)
            found = self._labels.codes(keys[0], [column.to_numpy() for (column,) in entries.states[more:]])
            if found is None:
                raise Cut
            codes, keys = found, keys[1:]
        self._check(entries.states, windows.ends)
        for low, high in self._portions(codes, windows.ends):
            part, length = slice(low, high), high - low
            some = Entries(
                [key.slice(low, length) for key in keys],
                [[column.slice(low, length) for column in own] for own in entries.states[: len(self._folding.states)]],
                [value.slice(low, length) for value in entries.values],
            )
            ends, times = windows.ends[part], windows.times[part]
            yield from self._answers(codes[part], some, Windows(ends, ends, windows.size, times))

    def _check(self, states: States, ends: Ints) -> None:
        """Whether what was added up could be added up in any order."""
        window = np.unique(ends, return_inverse=True)[1]
        for guard, (column,) in zip(self._folding.guards, states[len(self._folding.states) :], strict=False):
            if not (np.bincount(window, column.to_numpy()) < guard.limit).all():
                raise RunApart("a sum comes near the end of its type, where it depends on the order of rows")

    def _portions(self, codes: Codes, ends: Ints) -> Iterator[tuple[int, int]]:
        """Whole windows, as many as can be looked at in one go."""
        begins = np.flatnonzero(np.diff(ends, prepend=ends[0] - 1))
        lengths = np.diff(np.append(begins, len(ends)))
        wishes = np.add.reduceat(self._wanted.wishes(codes), begins)
        pairs = np.cumsum(np.minimum(wishes, lengths * len(self._wanted.member)))
        low = 0
        while low < len(begins):
            before = pairs[low - 1] if low else 0
            high = max(low + 1, int(np.searchsorted(pairs, before + _PAIRS_AT_ONCE, "right")))
            yield int(begins[low]), int(begins[high]) if high < len(begins) else len(ends)
            low = high

    def _answers(self, codes: Codes, entries: Entries, windows: Windows) -> Iterator[Slices]:
        lines = _lines(entries.keys, windows.ends)
        if self._runs_pay(codes, lines):
            order = np.lexsort((codes, lines))
            taken = pa.array(order)
            ordered = [[column.take(taken) for column in own] for own in entries.states]
            found, states = (
                runs_of(self._wanted, codes[order], lines[order]),
                blocks_over(self._folding.states, ordered),
            )
        else:
            found, states = looked_up(self._wanted, codes, lines), entries.states
        if not len(found.member):
            return
        first = _first_of(lines)[found.line]
        finished = self._finished(states, entries.values, found)
        keys = [key.take(pa.array(first)) for key in entries.keys]
        window = np.cumsum(np.diff(windows.ends, prepend=windows.ends[0]) != 0)
        for shape in self._shapes:
            some = np.flatnonzero(np.isin(found.member, shape.members)) if len(self._shapes) > 1 else None
            at = first if some is None else first[some]
            member = found.member if some is None else found.member[some]
            if not len(at):
                continue
            taken = None if some is None else pa.array(some)
            own = [finished[number] for number in shape.asked]
            width = int(window[-1]) + 1
            table = shape.program.output.filled(
                keys if taken is None else [key.take(taken) for key in keys],
                own if taken is None else [column.take(taken) for column in own],
                Windows(member * width + window[at], windows.ends[at], windows.size, windows.times[at]),
            )
            if table.num_rows:
                answer = project(table, shape.program.columns, shape.program.schema)
                yield from self._handed_out(answer, table.column(LINE).to_numpy() // width, shape)

    def _handed_out(self, answer: pa.Table, owner: Ints, shape: _Shape) -> Iterator[Slices]:
        """Answers that are ordered by owner, under the names that each has given its columns."""
        for names, members in shape.names.items():
            own, of = answer, owner
            if len(shape.names) > 1:
                begins, ends = np.searchsorted(owner, members), np.searchsorted(owner, members, "right")
                rows = spread(begins, ends - begins)
                own, of = answer.take(pa.array(rows)), owner[rows]
            if len(of):
                owners, counts = np.unique(of, return_counts=True)
                named = own.rename_columns([*names, *own.column_names[len(names) :]])
                yield sliced(named, self._numbers[owners], counts)

    def _runs_pay(self, codes: Codes, lines: Ints) -> bool:
        """Whether members want more entries than there are members and lines."""
        wishes = int(self._wanted.wishes(codes).sum())
        return len(self._folding.states) > 0 and wishes > 2 * len(self._wanted.member) * (int(lines.max()) + 1)

    def _finished(self, states: States, values: Sequence[pa.Array], found: Found) -> list[Column]:
        """What each aggregate is for each of those found."""
        if len(found.parts) > len(found.member):
            return self._program.finished(put_together(self._folding.states, states, found))
        taken = pa.array(found.parts)
        return [column.take(taken) for column in self._program.finished(states, values)]


def _wanted(own: Sequence[Sequence[Atom]], labels: Labels) -> Wanted:
    atoms = list(dict.fromkeys(atom for some in own for atom in some))
    spans = dict(zip(atoms, labels.spans(atoms), strict=True))
    rows = [
        (place, low, high)
        for place, some in enumerate(own)
        for low, high in functools.reduce(both, (spans[atom] for atom in some))
    ]
    return Wanted(len(own), *np.array(rows, np.int64).reshape(-1, 3).T)


def _shapes(members: Sequence[Member], asked: Sequence[Asked], source: pa.Schema, time_column: str) -> Iterator[_Shape]:
    at = {one: number for number, one in enumerate(asked)}
    alike: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        alike.setdefault(member.output, []).append(place)
    for places in alike.values():
        member = members[places[0]]
        program = member.operator.program(source, time_column)
        names: dict[tuple[str, ...], list[int]] = {}
        for place in places:
            names.setdefault(members[place].names, []).append(place)
        named = {called: np.array(some) for called, some in names.items()}
        yield _Shape(np.array(places), named, [at[one] for one in member.aggregates], program)


def _lines(keys: Sequence[Column], ends: Ints) -> Ints:
    """The line of each entry: which window and group it is of, counted from 0 in the order of windows."""
    groups = encode(keys, len(ends))
    window = np.cumsum(np.diff(ends, prepend=ends[0]) != 0)
    lines: Ints = np.unique(window * groups.size + groups.codes, return_inverse=True)[1]
    return lines


def _first_of(lines: Ints) -> Ints:
    """An entry of each line."""
    first: Ints = np.unique(lines, return_index=True)[1]
    return first
