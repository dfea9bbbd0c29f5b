"""Windowed aggregates over the same rows and groups: one fold answers all of them.

`… WHERE k = 1 AND x > 5 WINDOW = …`, `… WHERE k BETWEEN 2 AND 9 AND x > 5 WINDOW = …` and so on are a family: the
rows with x > 5 are folded once, with k as one more group (`families.labels`), and by all aggregates that any of them
asks for. A member has of each window what its values of k have. Where that is one entry, it is its answer; where it is
many, they are a run of the entries in the order of k, and a run is put together from blocks of 2, 4, 8, … entries that
are merged once for all members (`kernels.dyadic`): O(log n) merges for each, and no subtraction. So every aggregate
will do whose partial answers come to the same bits in whatever order they are merged (`AggregateFunction.merges`); of
the others, members that ask for one value each can be together.

Members whose conditions are the same, and differ in what they ask or how they answer, are a family without a column.

Where all aggregates merge in any order, it does not matter either how long panes are: members with windows of several
sizes share panes that are the common divisor of theirs, unless those of one of them would be cut into too many.

The naive version runs each member by itself (`operators.windows.aggregate`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.log.slices import SCHEMA, row_of_log
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.together.families.answering import Answering, Cut, Entries
from anabranch.operators.together.families.base import Family
from anabranch.operators.together.families.folding import folding_of
from anabranch.operators.together.families.member import Fold, Member, Way, member_of
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Slices
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.explain import measure
from anabranch.operators.windows.program import Grouping, WindowProgram, Windows, bind_program
from anabranch.operators.windows.run import Asked, WindowRun, WindowShare
from anabranch.operators.windows.values import Hints
from anabranch.windows.panes.axis import FinePanes, Panes
from anabranch.windows.panes.scratch import Scratch

LEAST = 8
"""So many members make a family by a column: below, folding groups that nobody asks for may cost more than it saves."""
LEAST_ALIKE = 2
"""So many that have the same condition."""
MOST_PARTS = 16
"""A pane that a member would have by itself is cut into no more parts: so many times as much is kept at most."""


@dataclass(frozen=True)
class FoldedFamily:
    """Members that are folded together; `merges`: what they ask of a range follows from its values."""

    fold: Fold
    members: list[Member]
    merges: bool

    @property
    def entries(self) -> list[Entry]:
        return [member.entry for member in self.members]

    @functools.cached_property
    def operator(self) -> WindowAggregate:
        """What it reads, keeps and waits for: of windows of several sizes, the longest at the end of each pane."""
        rest = [self.members[0].entry.atoms[atom] for atom in self.fold.rest]
        where = " AND ".join(f"({part})" for part in rest) or None
        common = replace(self.members[0].operator, filter=where, columns=(), having=None, order=(), limit=None)
        if len(self._sizes) == 1:
            return common
        return replace(common, size=max(panes.size for panes in self._sizes), slide=next(iter(self._sizes)).length)

    @functools.cached_property
    def _sizes(self) -> dict[FinePanes, list[Member]]:
        """Windows, in panes that are as long for all of them, and who asks for them."""
        sizes: dict[Panes, list[Member]] = {}
        for member in self.members:
            sizes.setdefault(member.panes, []).append(member)
        length = math.gcd(*(panes.length for panes in sizes))
        return {FinePanes(panes.size, panes.slide, panes.length // length): members for panes, members in sizes.items()}

    @functools.cached_property
    def folder(self) -> str:
        said = json.dumps([*self.fold, self.merges])
        return f"family-{hashlib.sha256(said.encode()).hexdigest()[:16]}"

    @functools.cached_property
    def told(self) -> str:
        count, sizes, column = len(self.members), len(self._sizes), self.fold.column
        by = "" if column is None else f", by {column},"
        differ = "have the same condition" if column is None else "differ in it"
        panes = measure(self.operator.unit, next(iter(self._sizes)).length)
        shared = f", into panes of {panes} for windows of {sizes} sizes" if sizes > 1 else ""
        return f"folded once{by} for {count} queries that {differ}{shared}"

    def run(self, start: dict[str, Offset], end: dict[str, Offset], inputs: Inputs) -> Iterator[Slices]:
        if not self.operator.plan(start, end, inputs, 1):
            return
        reader = inputs.readers[self.operator.stream]
        asked = self._programs(reader.schema, reader.time_column)
        try:
            answers = list(self._run(asked, start, end, inputs))
        except Cut:
            # Members have come with ends that cut what was kept: what it was made of is read once more.
            program = asked[0].program
            folder = inputs.folder(program.fingerprint)
            if folder is not None:
                Scratch(folder, program.partials.schema).clear()
            answers = list(self._run(asked, start, end, inputs))
        yield from answers

    def _run(
        self, asked: list[Asked], start: dict[str, Offset], end: dict[str, Offset], inputs: Inputs
    ) -> Iterator[Slices]:
        operator = self.operator
        begin, reached = start[operator.stream], end[operator.stream]
        share = WindowShare(reached.every, hints=Hints(operator.storage, operator.index))
        for batch in WindowRun(asked, inputs, begin, reached, share).batches(keep=True):
            for index, payload in zip(batch.column("index"), batch.column("payload"), strict=True):
                yield index.as_py(), payload.as_buffer()

    # -- what is folded ----------------------------------------------------------------------------

    @functools.cached_property
    def _known(self) -> dict[tuple[pa.Schema, str], list[Asked]]:
        return {}

    def _programs(self, source: pa.Schema, time_column: str) -> list[Asked]:
        """What is folded, and how each size of windows is answered; made ready once for a stream."""
        known = self._known
        if (source, time_column) not in known:
            known[source, time_column] = self._bound(source, time_column)
        return known[source, time_column]

    def _bound(self, source: pa.Schema, time_column: str) -> list[Asked]:
        operator, column = self.operator, self.fold.column
        functions = sorted({asked for member in self.members for asked in member.aggregates}, key=repr)
        length = next(iter(self._sizes)).length
        program = bind_program(
            Grouping(
                keys=tuple((f"__key{i}", sql) for i, (_, sql) in enumerate(operator.keys)),
                aggregates=tuple((f"__asked{i}", *asked) for i, asked in enumerate(functions)),
                columns=(),
                where=operator.filter,
            ),
            source=source,
            stream=operator.stream,
            time_column=time_column,
            by_rows=operator.unit == "rows",
            identity=repr((self.fold, self.merges, functions, length)),
        )
        folding = folding_of(program, self.members, column, self.merges, source)
        parts = {field.name: getattr(program, field.name) for field in dataclasses.fields(program)}
        parts |= {"keys": folding.keys, "arguments": folding.arguments, "partials": folding.partials}
        parts["reads"] = [name for name in source.names if name in {*program.reads, column}]
        asked = []
        for panes, members in self._sizes.items():
            answering = Answering(members, functions, program, folding, source, time_column)
            asked.append(Asked(panes, _Program(**parts, answering=answering)))
        return asked


@dataclass(frozen=True)
class _Program(WindowProgram):
    """A fold whose windows are answered for many members at once: as rows of the log of answers."""

    answering: Answering

    def answer(
        self,
        entries: pa.Table,
        ends: NDArray[np.int64],
        size: int | NDArray[np.int64],
        times: NDArray[np.int64],
        values: Sequence[pa.Array] = (),
        partial: bool = False,
    ) -> pa.Table:
        taken = Entries(self.partials.keys(entries), self.partials.state_columns(entries), values)
        made = self.answering.slices(taken, Windows(ends, ends, size, times))
        return pa.Table.from_batches([row_of_log(*answers) for answers in made], SCHEMA.arrow)


def folded_families(entries: list[Entry]) -> tuple[list[Family], list[Entry]]:
    """The families among some members, and those that are in none.

    Each member goes where most others can go with it.
    """
    members = [member for entry in entries if (member := member_of(entry)) is not None]
    able: dict[Way, list[Member]] = {}
    for member in sorted(members, key=lambda member: member.entry.number):
        for way in member.ways:
            able.setdefault(way, []).append(member)
    families: list[Family] = []
    placed: set[int] = set()
    for way, candidates in sorted(able.items(), key=lambda item: -len(item[1])):
        least = LEAST_ALIKE if way.fold.column is None else LEAST
        if len(candidates) < least:
            continue
        left = [member for member in candidates if member.entry.number not in placed]
        for some in sharing_panes(left):
            if len(some) >= least:
                families.append(FoldedFamily(way.fold, some, way.merges))
                placed.update(member.entry.number for member in some)
    return families, [entry for entry in entries if entry.number not in placed]


def sharing_panes(members: list[Member]) -> list[list[Member]]:
    """Members whose windows can be of the same panes, those with the shortest panes first."""
    by_length: dict[int, list[Member]] = {}
    for member in members:
        by_length.setdefault(member.panes.length, []).append(member)
    together: list[list[int]] = []
    for length in sorted(by_length):
        for lengths in together:
            if math.gcd(length, *lengths) * MOST_PARTS >= max(length, *lengths):
                lengths.append(length)
                break
        else:
            together.append([length])
    numbered = [[member for length in lengths for member in by_length[length]] for lengths in together]
    return [sorted(some, key=lambda member: member.entry.number) for some in numbered]
