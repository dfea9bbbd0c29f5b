"""Together: the members of a host, run as one operator.

Its inputs are the streams that its members read, and the list of its members (`roster`): which members a micro-batch
runs is part of its offsets, like everything else it is a function of. Members that were added go into a *cohort*,
which begins with what the streams hold and comes up to the others in pieces; how far a cohort is stands in the offset
of the list.

A member that fails is reported and left out; the others lose nothing by it.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa

from anabranch.errors import AnabranchError
from anabranch.log.offset import End
from anabranch.log.slices import SCHEMA, sliced
from anabranch.operators.base import Floor, Inputs, Keeps, Offset, Offsets, Operator, Task
from anabranch.operators.together import failed
from anabranch.operators.together.families import Family, families_of, run_family
from anabranch.operators.together.roster import Entry, roster_of
from anabranch.operators.together.selections import Selections, Slices

ROWS_PER_TASK = 500_000
_FAILURES = (AnabranchError, pa.ArrowException, ArithmeticError, ValueError, TypeError)
"""What makes a member fail, and not its host."""


class _Growing(Protocol):
    """A log that is known to grow."""

    def end(self) -> End: ...


class Stretch(NamedTuple):
    """Some members, and from where to where they go in a micro-batch."""

    members: list[Entry]
    start: dict[str, Offset]
    end: dict[str, Offset]
    low: int = -1
    """Of a cohort, the first row of the list that made it."""
    stopped: bool = False
    """Whether they stay where they are."""


@dataclass(frozen=True)
class Together(Operator):
    """The members that `listing` tells of, over `streams`."""

    kind: ClassVar[str] = "together"
    why_store: ClassVar[str] = "nothing: each member has its own"
    why_throw: ClassVar[str] = "nothing: each member has its own"

    listing: str
    streams: tuple[str, ...]
    time: str = SCHEMA.time

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.listing, *self.streams)

    @property
    def members_list(self) -> str | None:
        return self.listing

    def schema(self, inputs: Inputs) -> pa.Schema:
        return SCHEMA.arrow

    # -- where micro-batches end -------------------------------------------------------------------

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        """Where the streams are now: members that are added begin with what there is, in a cohort."""
        now = {name: Offset.at(cast(_Growing, inputs.readers[name]).end()) for name in self.streams}
        return {self.listing: Offset(0, 0), **now}

    def reached(self, end: Offsets) -> int:
        """The time of the log of answers counts its rows; each member has a time of its own."""
        return 0

    # -- micro-batches -----------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        stretches = self.stretches(start, end, inputs)
        if not stretches:
            return []
        rows = max(_rows(stretch) for stretch in stretches)
        count = max(1, min(parallelism, rows // ROWS_PER_TASK))
        return [Task(dict(start), dict(end), {"part": part, "of": count}) for part in range(count)]

    def stretches(self, start: Offsets, end: Offsets, inputs: Inputs) -> list[Stretch]:
        """Who goes from where to where in a micro-batch; those that stay where they are not."""
        return [stretch for stretch in self._all_stretches(start, end, inputs) if not stretch.stopped]

    def _all_stretches(self, start: Offsets, end: Offsets, inputs: Inputs) -> list[Stretch]:
        before, after = start[self.listing], end[self.listing]
        then = {cohort.low: cohort for cohort in after.catching}
        ways = [Stretch([], self._at(start), self._at(end))]
        for cohort in before.catching:
            last = then[cohort.low].at if cohort.low in then else end
            ways.append(Stretch([], self._at(cohort.at), self._at(last), cohort.low, cohort.stopped))
        lows = [cohort.low for cohort in before.catching]
        highs = [cohort.high for cohort in before.catching]
        for place, entry in roster_of(inputs.readers[self.listing], after.row).members(before.row, after.row):
            at = bisect.bisect_right(lows, place) - 1
            ways[at + 1 if at >= 0 and place < highs[at] else 0].members.append(entry)
        return [way for way in ways if way.members]

    def _at(self, offsets: Mapping[str, Any]) -> dict[str, Offset]:
        return {name: Offset(*offsets[name][:2]) for name in self.streams}

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        failures: dict[int, str] = {}
        part, of = task.detail["part"], task.detail["of"]
        for stretch in self.stretches(task.start, task.end, inputs):
            selections = [entry for entry in stretch.members if entry.is_selection]
            if selections:
                yield from _batches(self._select(selections, stretch, task, inputs, failures))
            families, singles = _sorted_out(stretch.members)
            for family in families[part::of]:
                yield from _batches(self._run_family(family, stretch, inputs, failures))
            for entry in singles[part::of]:
                yield from _batches(self._run_one(entry, stretch, inputs, failures))
        if failures:
            inputs.work.report(failed.KIND, {str(number): why for number, why in failures.items()})

    def _select(
        self, members: list[Entry], stretch: Stretch, task: Task, inputs: Inputs, failures: dict[int, str]
    ) -> Iterator[Slices]:
        """Selections, of this task's part of the rows."""
        by_stream: dict[str, list[Entry]] = {}
        for entry in members:
            by_stream.setdefault(entry.operator.inputs[0], []).append(entry)
        for stream, entries in by_stream.items():
            reader = inputs.readers[stream]
            low, high = stretch.start[stream].row, stretch.end[stream].row
            part, of = task.detail["part"], task.detail["of"]
            cuts = [low + (high - low) * place // of for place in (part, part + 1)]
            if cuts[0] < cuts[1]:
                numbers = tuple(entry.number for entry in entries)
                asked = _Asked(inputs.readers[self.listing].identity, numbers, entries)
                together = _selections(asked, reader.schema)
                failures.update(together.failures)
                yield from together.run(reader, cuts[0], cuts[1], inputs.work)

    def _run_one(self, entry: Entry, stretch: Stretch, inputs: Inputs, failures: dict[int, str]) -> Iterator[Slices]:
        """Any other operator, by itself."""
        operator, own = entry.operator, self._own(entry, inputs)
        start, end = ({name: at[name] for name in operator.inputs} for at in (stretch.start, stretch.end))
        try:
            tasks = operator.plan(start, end, own, 1)
            batches = [batch for task in tasks for batch in operator.run(task, own)]
            if batches:
                rows = operator.gather(pa.Table.from_batches(batches), inputs.work)
                rows = rows.select(operator.schema(own).names)
                if rows.num_rows:
                    yield sliced(rows, np.array([entry.number]), np.array([rows.num_rows]))
        except _FAILURES as problem:
            failures[entry.number] = str(problem)

    def _run_family(
        self, family: Family, stretch: Stretch, inputs: Inputs, failures: dict[int, str]
    ) -> Iterator[Slices]:
        """A family at once; where it fails, each of its members by itself, to know which it is."""
        streams = family.operator.inputs
        start, end = ({name: at[name] for name in streams} for at in (stretch.start, stretch.end))
        try:
            # A cohort is elsewhere than the others: it keeps what it keeps by itself.
            yield from run_family(family, start, end, self._given(inputs, streams, f"{family.folder}-{stretch.low}"))
        except _FAILURES:
            for entry, _ in family.members:
                yield from self._run_one(entry, stretch, inputs, failures)

    def _own(self, entry: Entry, inputs: Inputs) -> Inputs:
        """What one member is given of it."""
        return self._given(inputs, entry.operator.inputs, str(entry.number))

    def _given(self, inputs: Inputs, streams: tuple[str, ...], folder: str) -> Inputs:
        scratch = None if inputs.scratch is None else f"{inputs.scratch}/{folder}"
        return replace(inputs, readers={name: inputs.readers[name] for name in streams}, scratch=scratch, gathers=True)

    # -- what it needs and waits for ---------------------------------------------------------------

    def _standing(
        self, stretches: list[Stretch], inputs: Inputs
    ) -> Iterator[tuple[Operator, dict[str, Offset], Inputs]]:
        """The operators that keep something or wait for something, how far each is, and what it is given."""
        for stretch in stretches:
            families, singles = _sorted_out(stretch.members)
            for family in families:
                streams = family.operator.inputs
                position = {name: stretch.start[name] for name in streams}
                yield family.operator, position, self._given(inputs, streams, f"{family.folder}-{stretch.low}")
            for entry in singles:
                position = {name: stretch.start[name] for name in entry.operator.inputs}
                yield entry.operator, position, self._own(entry, inputs)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        due: dict[str, int] = {}
        for operator, position, own in self._standing(self.stretches(at, at, inputs), inputs):
            for stream, time in operator.due(position, own).items():
                due[stream] = min(due.get(stream, time), time)
        return due

    def needs(self, at: Offsets) -> dict[str, Floor]:
        floors = {name: Floor(row=at[name].row) for name in self.streams}
        for cohort in at[self.listing].catching:
            floors = {name: _lower(floor, Floor(row=cohort.at[name][0])) for name, floor in floors.items()}
        return {self.listing: Floor(row=0), **floors}

    def held(self, at: Offsets, inputs: Inputs) -> dict[str, Floor]:
        floors = self.needs(at)
        for operator, position, own in self._standing(self._all_stretches(at, at, inputs), inputs):
            for stream, floor in operator.held(position, own).items():
                floors[stream] = _lower(floors[stream], floor)
        return floors

    def keeps(self) -> Keeps | None:
        return Keeps("what its members keep", "what bounds each of them")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        return {"operator": self.kind, "inputs": list(self.inputs), "time": self.time, "keeps": "what its members keep"}


def _sorted_out(members: list[Entry]) -> tuple[list[Family], list[Entry]]:
    """Families, and members that run by themselves; selections are neither."""
    return families_of(entry for entry in members if not entry.is_selection)


def _rows(stretch: Stretch) -> int:
    return sum(stretch.end[name].row - offset.row for name, offset in stretch.start.items())


def _lower(a: Floor, b: Floor) -> Floor:
    """What is needed where both are."""
    rows = [floor.row - floor.before for floor in (a, b) if floor.row is not None]
    times = [floor.time for floor in (a, b) if floor.time is not None]
    before = max(a.before, b.before) if times else 0
    return Floor(min(rows) if rows else None, min(times) if times else None, before)


def _batches(slices: Iterator[Slices]) -> Iterator[pa.RecordBatch]:
    """Rows of the log of answers; their time is given to them when they go there."""
    for index, payload in slices:
        yield pa.RecordBatch.from_arrays(
            [pa.array([0]).cast(SCHEMA.arrow.field(0).type), pa.array([index], pa.binary()),
             pa.array([payload], pa.binary())], schema=SCHEMA.arrow)  # fmt: skip


@dataclass(frozen=True)
class _Asked:
    """Members of a list, known by their numbers in it."""

    listing: str
    numbers: tuple[int, ...]
    entries: list[Entry] = field(compare=False)


@functools.lru_cache(maxsize=16)
def _selections(asked: _Asked, source: pa.Schema) -> Selections:
    """The selections of some members, made ready once per process."""
    return Selections(asked.entries, source)
