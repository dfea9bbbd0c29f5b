"""Together: the members of a host, run as one operator.

Its inputs are the streams that its members read, and the list of its members (`roster`): which members a micro-batch
runs is part of its offsets, like everything else it is a function of. Members that were added go into a *cohort*,
which begins with what the streams hold and comes up to the others in pieces; how far a cohort is stands in the offset
of the list.

What members keep is in the scratch by their numbers, or by what their family is, and can be computed again; state is
in a folder of its own (`families.state_of`).

A member that fails is reported and left out; the others lose nothing by it. So is one that has more answers than its
budget, unless it takes in a single row: it is to take in less at once.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.log.offset import End
from anabranch.log.slices import SCHEMA, index_of, row_of_log, sliced
from anabranch.log.storage import Storage
from anabranch.operators.base import Floor, Inputs, Keeps, LogReader, Offset, Offsets, Operator, Task, Work
from anabranch.operators.budget import ANY, Budget, OverBudget
from anabranch.operators.opening import history_of, of_log, refresh_archives
from anabranch.operators.pace import ALL, Pace
from anabranch.operators.reports import REPORTS
from anabranch.operators.state import STATES
from anabranch.operators.together import costs
from anabranch.operators.together.changes import ADDED, GOING_BACK
from anabranch.operators.together.costs import Meter
from anabranch.operators.together.failed import OF_THE_HOST, Troubles, without_those_that_fail
from anabranch.operators.together.families import Family, families_of, state_of
from anabranch.operators.together.parted import Members, parted
from anabranch.operators.together.rests import marked
from anabranch.operators.together.roster import Entry, roster_of
from anabranch.operators.together.selections import Selections, Slices

ROWS_PER_TASK = 500_000
_ROWS_PER_READ = 1 << 17


class _Growing(Protocol):
    """A log that is known to grow."""

    def end(self) -> End: ...


class Stretch(NamedTuple):
    """Some members, and from where to where they go in a micro-batch."""

    members: Members
    start: dict[str, Offset]
    end: dict[str, Offset]
    low: int = -1
    """Of a cohort, the first row of the list that made it."""
    stopped: bool = False
    """Whether they stay where they are."""
    pace: Pace = ALL
    """How many of their windows they answer."""

    @property
    def key(self) -> str:
        """A part of where they keep what they compute together: others are elsewhere, or answer other windows."""
        return str(self.low) if self.pace == ALL else f"{self.low}-{self.pace.every}-{self.pace.at_most}"


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
        nobody = Members(self.listing)
        ways = [Stretch(nobody, self._at(start), self._at(end))]
        for cohort in before.catching:
            last = then[cohort.low].at if cohort.low in then else end
            ways.append(Stretch(nobody, self._at(cohort.at), self._at(last), cohort.low, cohort.stopped))
        reader = inputs.readers[self.listing]
        parts = parted(reader.identity, roster_of(reader, after.row), before.row, after.row, before.catching)
        return [
            _with(members, pace, way, after)
            for way, part in zip(ways, parts, strict=True)
            for pace, members in part.items()
            if members
        ]

    def _at(self, offsets: Mapping[str, Any]) -> dict[str, Offset]:
        return {name: Offset(*offsets[name][:2]) for name in self.streams}

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        troubles, meter, members = Troubles(), Meter(), 0
        part, of = task.detail["part"], task.detail["of"]
        stretches = self._all_stretches(task.start, task.end, inputs)
        kept_at = self._kept_at(stretches, task.end)
        self._refresh_histories(stretches, inputs)
        for stretch in stretches:
            if stretch.stopped:
                continue
            members += len(stretch.members)
            rests = stretch.members.with_a_rest
            for entries, taken, answers in self._select(stretch, task, inputs, troubles):
                yield from _batches(meter.measured(entries.numbers, taken, answers), rests)
            families, singles = stretch.members.families
            for family in families[part::of]:
                places = replace(inputs, places=kept_at[family.folder])
                answers, taken = self._run_family(family, stretch, places, troubles), _rows(stretch, family.operator)
                yield from _batches(meter.measured(_numbers(family.entries), taken, answers), rests)
            for entry in singles[part::of]:
                answers, taken = self._run_one(entry, stretch, inputs, troubles), _rows(stretch, entry.operator)
                yield from _batches(meter.measured([entry.number], taken, answers), rests)
        for kind, said in {costs.KIND: meter.said(members), **troubles.reports()}.items():
            inputs.work.report(kind, said)

    def _select(
        self, stretch: Stretch, task: Task, inputs: Inputs, troubles: Troubles
    ) -> Iterator[tuple[Members, int, Iterator[Slices]]]:
        """Selections, by the stream they read: how many rows are this task's part of it, and what they answer."""
        part, of = task.detail["part"], task.detail["of"]
        for stream, entries in stretch.members.selections.items():
            low, high = stretch.start[stream].row, stretch.end[stream].row
            cuts = [low + (high - low) * place // of for place in (part, part + 1)]
            if cuts[0] < cuts[1]:
                answers = self._look_up(entries, stream, range(*cuts), stretch, inputs, troubles)
                yield entries, cuts[1] - cuts[0], answers

    def _look_up(
        self, entries: Members, stream: str, rows: range, stretch: Stretch, inputs: Inputs, troubles: Troubles
    ) -> Iterator[Slices]:
        """Answers of selections; where they cannot be looked up together, those that fail are found and left out."""
        reader = inputs.readers[stream]
        for low in rows[::_ROWS_PER_READ]:
            some_rows = (low, min(low + _ROWS_PER_READ, rows.stop))

            def answers(some: list[Entry], between: tuple[int, int] = some_rows) -> list[Slices]:
                selections = entries.together(reader.schema) if some is entries else Selections(some, reader.schema)
                for number, why in selections.failures.items():
                    troubles.fail(number, why, stretch.start)
                return list(selections.run(reader, *between, inputs.work))

            def failed(entry: Entry, problem: Exception) -> None:
                troubles.take(entry.number, problem, stretch.start, _rows(stretch))

            yield from without_those_that_fail(entries, answers, failed)

    def _run_one(self, entry: Entry, stretch: Stretch, inputs: Inputs, troubles: Troubles) -> Iterator[Slices]:
        """Any other operator, by itself."""
        operator, own = entry.operator, self._own(entry, inputs)
        start, end = ({name: at[name] for name in operator.inputs} for at in (stretch.start, stretch.end))
        taken = max(end[name].row - offset.row for name, offset in start.items())
        budget = inputs.budget if taken > 1 else ANY
        own = replace(own, work=Work())
        try:
            tasks = operator.plan(start, end, own, 1)
            batches = list(budget.within(batch for task in tasks for batch in operator.run(task, own)))
            if batches:
                rows = operator.gather(pa.Table.from_batches(batches), own.work)
                rows = rows.select(operator.schema(own).names)
                if rows.num_rows:
                    yield sliced(rows, np.array([entry.number]), np.array([rows.num_rows]))
        except Exception as problem:  # whatever it is, the others go on
            troubles.take(entry.number, problem, stretch.start, taken)
        finally:
            _account(own.work, inputs.work)

    def _run_family(self, family: Family, stretch: Stretch, inputs: Inputs, troubles: Troubles) -> Iterator[Slices]:
        """A family at once; where it fails, or does too much, each of its members by itself, to know which it is.

        So nothing is answered before all of it is.
        """
        streams = family.operator.inputs
        start, end = ({name: at[name] for name in streams} for at in (stretch.start, stretch.end))
        own = replace(self._of_family(family, stretch, inputs), work=Work())
        taken = max(end[name].row - offset.row for name, offset in start.items())
        budget = inputs.budget if taken > 1 else ANY

        def answers(some: list[Entry]) -> list[Slices]:
            parts = (part for same in families_of(some)[0] for part in same.run(start, end, own))
            return list(_within(budget, some, parts))

        def failed(entry: Entry, problem: Exception) -> None:
            troubles.take(entry.number, problem, stretch.start, taken)

        try:
            if family.operator.scratch_is_state:  # which is the family's: no member can be run without it
                yield from without_those_that_fail(family.entries, answers, failed)
                return
            found = list(family.run(start, end, own))
        except OF_THE_HOST:
            raise
        except Exception:
            for entry in family.entries:
                yield from self._run_one(entry, stretch, inputs, troubles)
        else:
            yield from found
        finally:
            _account(own.work, inputs.work)

    def _own(self, entry: Entry, inputs: Inputs) -> Inputs:
        """What one member is given of it."""
        return self._given(inputs, entry.operator, state_of(entry) or str(entry.number))

    def _of_family(self, family: Family, stretch: Stretch, inputs: Inputs) -> Inputs:
        """What a family is given of it."""
        operator = family.operator
        # A cohort is elsewhere than the others: it keeps what it keeps by itself; states are by offsets anyway.
        own = f"{STATES}/{family.folder}" if operator.scratch_is_state else f"{family.folder}-{stretch.key}"
        return self._given(inputs, operator, own)

    def _given(self, inputs: Inputs, operator: Operator, folder: str) -> Inputs:
        scratch = None if inputs.scratch is None else f"{inputs.scratch}/{folder}"
        readers = {name: _reader(inputs.readers[name], operator) for name in operator.inputs}
        return replace(inputs, readers=readers, scratch=scratch, gathers=True)

    def _kept_at(self, stretches: list[Stretch], end: Offsets) -> dict[str, tuple[Offsets, ...]]:
        """By the folder of a family, from where members may go on who share what it keeps."""
        ways = {stretch.low for stretch in stretches}
        new = [self._at(cohort.at) for cohort in end[self.listing].catching if cohort.low not in ways]
        places: dict[str, list[Offsets]] = defaultdict(list)
        for stretch in stretches:
            for family in stretch.members.families[0]:
                places[family.folder].append(stretch.start)
        return {folder: (*some, *new) for folder, some in places.items()}

    def _refresh_histories(self, stretches: list[Stretch], inputs: Inputs) -> None:
        """Archives may have been made, and their runs joined, since this process has last looked."""
        singles = (entry.operator for stretch in stretches for entry in stretch.members.families[1])
        families = (family.operator for stretch in stretches for family in stretch.members.families[0])
        for name in {name for operator in (*singles, *families) if operator.reads_history for name in operator.inputs}:
            refresh_archives(inputs.readers[name])

    # -- what it needs and waits for ---------------------------------------------------------------

    def _standing(
        self, stretches: list[Stretch], inputs: Inputs
    ) -> Iterator[tuple[Operator, dict[str, Offset], Inputs]]:
        """The operators that keep something or wait for something, how far each is, and what it is given."""
        for stretch in stretches:
            families, singles = stretch.members.families
            for family in families:
                position = {name: stretch.start[name] for name in family.operator.inputs}
                yield family.operator, position, self._of_family(family, stretch, inputs)
            for entry in singles:
                position = {name: stretch.start[name] for name in entry.operator.inputs}
                yield entry.operator, position, self._own(entry, inputs)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        due: dict[str, int] = {}
        for operator, position, own in self._standing(self.stretches(at, at, inputs), inputs):
            with contextlib.suppress(QueryError):  # one whose state is lost: it is told when it is to run
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
        stretches = [*self._all_stretches(at, at, inputs), *self._elsewhere(at, inputs)]
        for stretch in stretches:
            floors |= {name: _lower(floors[name], Floor(row=offset.row)) for name, offset in stretch.start.items()}
        for operator, position, own in self._standing(stretches, inputs):
            for stream, floor in operator.held(position, own).items():
                floors[stream] = _lower(floors[stream], of_log(floor, own.readers[stream]))
        return floors

    def _elsewhere(self, at: Offsets, inputs: Inputs) -> Iterator[Stretch]:
        """Members that did not go along with the last micro-batch, or begin, as the next one will find in the list."""
        reader, version = inputs.readers[self.listing], at[self.listing].row
        end = cast(_Growing, reader).end().row
        if end <= version:
            return
        entries, others = roster_of(reader, end).entries, self._at(at)
        rows = reader.read(version, end, ["change", "member", "body"]).to_pylist()
        for number, row in enumerate(rows, version):
            if row["change"] == ADDED:
                entry = entries.get(number)
                place = None if entry is None else entry.begins
            else:
                entry = entries.get(row["member"])
                place = json.loads(row["body"]).get("at") if row["change"] in GOING_BACK else None
            if entry is not None and place is not None:
                offsets = {**others, **self._at_some(place)}
                yield Stretch(Members(self.listing, [entry]), offsets, offsets)

    def _at_some(self, offsets: Mapping[str, Any]) -> dict[str, Offset]:
        return {name: Offset(*place[:2]) for name, place in offsets.items()}

    def expendable(self, scratch: Storage) -> list[Storage]:
        return [scratch.child(name) for name in scratch.directories() if name != STATES]

    def keeps(self) -> Keeps | None:
        return Keeps("what its members keep", "what bounds each of them")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        return {"operator": self.kind, "inputs": list(self.inputs), "time": self.time, "keeps": "what its members keep"}


def _with(members: Members, pace: Pace, way: Stretch, listed: Offset) -> Stretch:
    """Members that go some way and answer so many of their windows."""
    if pace == ALL:
        return way._replace(members=members)
    every = pace.at(listed.every)
    start, end = ({name: offset._replace(every=every) for name, offset in at.items()} for at in (way.start, way.end))
    return way._replace(members=members, start=start, end=end, pace=pace)


def _numbers(entries: list[Entry]) -> list[int]:
    return [entry.number for entry in entries]


def _rows(stretch: Stretch, operator: Operator | None = None) -> int:
    """How many rows are taken in, of the streams of an operator or of all."""
    streams = stretch.start if operator is None else operator.inputs
    return sum(stretch.end[name].row - stretch.start[name].row for name in streams)


def _lower(a: Floor, b: Floor) -> Floor:
    """What is needed where both are."""
    rows = [floor.row - floor.before for floor in (a, b) if floor.row is not None]
    times = [floor.time for floor in (a, b) if floor.time is not None]
    before = max(a.before, b.before) if times else 0
    return Floor(min(rows) if rows else None, min(times) if times else None, before)


def _reader(reader: LogReader, operator: Operator) -> LogReader:
    return history_of(reader) if operator.reads_history else reader


def _account(work: Work, total: Work) -> None:
    """What some members did as work of their host; what is about one of them alone is not told of all."""
    reports = {kind: said for kind, said in work.reports.items() if REPORTS[kind].of_many}
    total.add(replace(work, reports=reports))


def _within(budget: Budget, members: list[Entry], parts: Iterator[Slices]) -> Iterator[Slices]:
    """Answers of members as they come; raises `OverBudget` as soon as those of one are too many."""
    numbers = np.array(sorted(entry.number for entry in members), np.int64)
    rows, size = np.zeros(len(numbers)), np.zeros(len(numbers))
    for index, payload in parts:
        said = index_of(index)
        places = np.searchsorted(numbers, said[:, 0])
        np.add.at(rows, places, said[:, 2])
        np.add.at(size, places, said[:, 2] * (len(payload) / said[:, 2].sum()))
        if budget.exceeded(float(rows.max()), float(size.max())) > 1:
            raise OverBudget
        yield index, payload


def _batches(slices: Iterator[Slices], rests: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    for index, payload in marked(slices, rests):
        yield row_of_log(index, payload)
