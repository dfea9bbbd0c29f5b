"""Finding the results of a window join, from offsets to offsets.

Results are searched from new rows, their *drivers*, source by source: a result with several new
rows is found from that of the first source that has one, so the other sources before it give old
rows only. Where answers come in order of time, each result is found from its last row, and the
others give what came before it. Either way the work follows what is new.

Drivers are taken in slices of time. No later slice can have a result that is older than its
begin, so a slice's results can be put in order and leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.bounds import order_of_times, sort_ties
from anabranch.kernels.values import Column, frozen
from anabranch.operators.base import Inputs
from anabranch.operators.join.bands import BandStep
from anabranch.operators.join.order import JoinOrder
from anabranch.operators.join.partials import Drivers, PartialResults
from anabranch.operators.join.program import JoinProgram
from anabranch.operators.join.rows import Kept, KeyShare, SourceRows
from anabranch.operators.join.shedding import Policy, Shedder
from anabranch.operators.join.steps import HashStep, JoinStep, ScanStep, SortedStep
from anabranch.operators.join.windows import FOREVER
from anabranch.operators.windows.program import kept_rows

Ints = NDArray[np.int64]

DRIVERS = 1 << 17
"""Drivers that are taken at once, if they have few results."""
_WIDE = 512
"""Rows in a window below which sorting them does not pay."""


class Results(NamedTuple):
    """Results: the row of each source (or NO_ROW), the time of each, and the completeness around it."""

    rows: list[Ints]
    times: Ints
    completeness: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.times)

    def between(self, low: int, high: int) -> Results:
        return self.at(slice(low, high))

    def at(self, chosen: slice | NDArray[np.bool_] | Ints) -> Results:
        """Those at some places."""
        completeness = None if self.completeness is None else self.completeness[chosen]
        return Results([rows[chosen] for rows in self.rows], self.times[chosen], completeness)


@dataclass(frozen=True)
class Reach:
    """Which results are asked for.

    Row numbers are per source: rows below `end` are there, those below `start` were before.
    Results whose newest row has a time since ≤ t < until are found. `ordered`: each from its last row.
    """

    start: list[int]
    end: list[int]
    start_times: list[int]
    end_times: list[int]
    ordered: bool
    since: int = -FOREVER
    until: int = FOREVER


class JoinRun:
    """One task of a join; with a `purpose` its indices are for others of the same purpose only."""

    def __init__(
        self,
        program: JoinProgram,
        inputs: Inputs,
        reach: Reach,
        share: KeyShare,
        order: JoinOrder,
        policy: Policy | None = None,
        purpose: str = "",
    ) -> None:
        self._program = program
        self._reach = reach
        self._order = order
        self._purpose = purpose
        self._memory = inputs.window_memory
        key = program.shared_key() if share.parts > 1 else None
        self.sources = [
            SourceRows(
                alias, inputs.readers[stream], where, inputs.work, share if key else None, key[i].value if key else None
            )
            for i, (alias, stream, where) in enumerate(
                zip(program.aliases, program.streams, program.filters, strict=True)
            )
        ]
        self._shedding = None if policy is None else Shedder(policy, program, self.sources, reach.end)
        self._steps: dict[tuple[int, int, str], JoinStep] = {}
        self._work = inputs.work

    def results(self) -> Iterator[Results]:
        """All results, in order of their times and then of their rows."""
        waiting: list[Results] = []
        for until, slices in self._slices():
            parts = [part for piece in slices for part in self._found(*piece)]
            self._order.resize(sum(high - low for _, low, high in slices), sum(len(part) for part in parts))
            waiting += parts
            together = joined(waiting, self._program.count)
            ready = together.times < until
            if not ready.all():
                waiting = [together.at(~ready)]
                together = together.at(ready)
            else:
                waiting = []
            if len(together):
                yield in_order(together)
        if waiting:
            yield in_order(joined(waiting, self._program.count))

    def counts(self) -> Iterator[list[tuple[int, Kept, Ints]]]:
        """Where one equality of two sources is all there is: drivers, and how many results each has.

        In slices of time; each slice has the drivers of both sources.
        """
        for _, slices in self._slices():
            yield [self._counts(*piece) for piece in slices]

    def _counts(self, driver: int, low: int, high: int) -> tuple[int, Kept, Ints]:
        source, drivers = 1 - driver, self._new_rows(driver, low, high)
        partials = PartialResults.of(drivers)
        window = self._window(partials, source)
        step, _ = self._step(driver, source, [driver], *window)
        assert isinstance(step, HashStep)
        return driver, drivers.kept, step.counts(partials, *window)

    def rows_between(self, source: int, low: int, high: int) -> Iterator[Drivers]:
        """The rows of a source that pass its filter, some at a time, to look for what they meet."""
        for begin in range(low, high, DRIVERS):
            yield self._new_rows(source, begin, min(begin + DRIVERS, high))

    def rows_at(self, source: int, rows: Ints) -> Drivers:
        """Rows of a source that pass its filter, to look for what they meet."""
        return Drivers(source, self.sources[source].at(rows, self._asked_of(source)))

    def meet(self, drivers: Drivers) -> NDArray[np.bool_]:
        """Of rows of one of two sources, which of them have a result."""
        driver, source = drivers.source, 1 - drivers.source
        partials = PartialResults.of(drivers)
        window = self._window(partials, source)
        step, tested = self._step(driver, source, [driver], *window)
        if isinstance(step, HashStep) and tested is not None and len(self._program.conditions.tests) == 1:
            return step.counts(partials, *window) > 0
        found = np.zeros(len(partials), np.bool_)
        for probes, rows in step.candidates(partials, *window):
            longer = partials.extended(probes, source, rows, self.sources[source].times(rows))
            places = self._tested(longer, source, [driver], tested).places
            assert places is not None
            found[places] = True
        return found

    def columns(self, names: Sequence[str], results: Results) -> pa.Table:
        """Columns named `alias.column` of results."""
        columns: dict[str, Column] = {}
        for i, source in enumerate(self.sources):
            own = [name for name in names if self._program.source_of[name] == i]
            columns |= dict(zip(own, source.take(own, results.rows[i]), strict=True))
        if not columns:  # a table of constants still has to know how many rows it has
            columns = {"": pa.nulls(len(results))}
        return pa.Table.from_pydict(columns)

    def keep(self) -> set[str]:
        """Leave indices to the next run in this process; gives their names."""
        kept = set()
        for step in self._steps.values():
            self._work.keeps(step.rows, step.nbytes)
            kept.add(step.keep())
        return {name for name in kept if name is not None}

    # -- drivers -----------------------------------------------------------------------------------

    def _slices(self) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
        """For slices of time up to a time, the drivers in them: source, first and last row."""
        ranges = [self._drivers(i) for i in range(self._program.count)]
        while any(low < high for low, high in ranges):
            size = min(self._order.drivers, DRIVERS)
            until = min(
                (self._time(i, low + size) for i, (low, high) in enumerate(ranges) if high - low > size),
                default=FOREVER,
            )
            first = min(self._time(i, low) for i, (low, high) in enumerate(ranges) if low < high)
            until = max(until, first + 1)
            drivers: list[tuple[int, int, int]] = []
            for i, (low, high) in enumerate(ranges):
                cut = high if until == FOREVER else self.sources[i].row_at(until, high)
                steps = range(low, cut, 2 * size)  # many rows may share one time
                drivers += [(i, begin, min(begin + 2 * size, cut)) for begin in steps]
                ranges[i] = (max(low, cut), high)
            yield until, drivers

    def _time(self, source: int, row: int) -> int:
        return int(self.sources[source].times(np.array([row]))[0])

    def _drivers(self, i: int) -> tuple[int, int]:
        """The new rows of source i that may have results."""
        reach, most, count = self._reach, self._program.most, self._program.count
        low, high = reach.start[i], reach.end[i]
        since, until = reach.since, reach.until
        for j in range(count):
            if j == i or self._program.rows is not None:
                continue
            if not reach.ordered:
                if self._limit(i, j) <= 0:
                    return low, low
                last = reach.start_times[j] if j < i else reach.end_times[j]
                # Its partner is at most most[j][i] older than it, and at most most[i][j] younger.
                until = min(until, last + most[j][i] + 1)
        if not reach.ordered and since > -FOREVER:
            since -= max(0, *(most[i][j] for j in range(count) if j != i))
        if since > -FOREVER:
            low = max(low, self.sources[i].row_at(since, high))
        if until < FOREVER:
            high = min(high, self.sources[i].row_at(until, high))
        return low, max(low, high)

    def _limit(self, driver: int, source: int) -> int:
        """Rows of the source from here on are not for results found from this driver."""
        old_only = source < driver and not self._reach.ordered
        return self._reach.start[source] if old_only else self._reach.end[source]

    # -- from drivers to results ---------------------------------------------------------------------

    def _new_rows(self, driver: int, low: int, high: int) -> Drivers:
        """Drivers, with the columns that conditions ask of them."""
        return Drivers(driver, self.sources[driver].kept(low, high, self._asked_of(driver)))

    def _asked_of(self, source: int) -> list[str]:
        """The columns of a source that conditions ask for."""
        conditions = self._program.conditions
        sides = [side for equality in conditions.equalities for side in equality.sides if side.source == source]
        names = [name for side in sides for name in side.value.columns]
        names += [name for test in conditions.tests for name in test.value.columns]
        return list(dict.fromkeys(name for name in names if self._program.source_of[name] == source))

    def _found(self, driver: int, low: int, high: int) -> list[Results]:
        order = self._order.of(driver)
        drivers = self._new_rows(driver, low, high)
        parts = []
        for partials in self._extend(PartialResults.of(drivers), order):
            times = np.maximum.reduce([partials.times[i] for i in range(self._program.count)])
            completeness = None if self._shedding is None else self._shedding.completeness(partials)
            results = Results([partials.rows[i] for i in range(self._program.count)], times, completeness)
            wanted = (times >= self._reach.since) & (times < self._reach.until)
            parts.append(results if wanted.all() else results.at(wanted))
        self._order.learn(driver, {s.source: (s.asked, s.found) for (d, *_), s in self._steps.items() if d == driver})
        return [part for part in parts if len(part)]

    def _extend(self, partials: PartialResults, order: Sequence[int]) -> Iterator[PartialResults]:
        """Partial results with a row of each source in `order`."""
        if not order:
            yield partials
            return
        if len(partials) == 0:
            return
        source, placed = order[0], list(partials.rows)
        low, high = self._window(partials, source)
        step, tested = self._step(partials.drivers.source, source, placed, low, high)
        for probes, rows in step.candidates(partials, low, high):
            longer = partials.extended(probes, source, rows, self.sources[source].times(rows))
            longer = self._tested(longer, source, placed, tested)
            yield from self._extend(longer, order[1:])

    def _window(self, partials: PartialResults, source: int) -> tuple[Ints, Ints]:
        """Between which rows of the source the window of each partial result lies."""
        driver, most = partials.drivers.source, self._program.most
        own, limit = self.sources[source], self._limit(driver, source)
        # In order of time a row of an earlier source comes before one of the same time.
        before = partials.times[driver] if source < driver else partials.times[driver] - 1
        if self._program.rows is not None:
            place = own.first_at(frozen(before), 1, limit)
            return frozen(np.maximum(place - self._program.rows, 0)), frozen(place)
        least = np.maximum.reduce([times - most[source][i] for i, times in partials.times.items()])
        latest = np.minimum.reduce([times + most[i][source] for i, times in partials.times.items()])
        if self._reach.ordered:
            latest = np.minimum(latest, before)
        latest = np.maximum(latest, least - 1)  # an empty window must not ask for times of rows that have left
        low, high = own.first_at(frozen(least), 0, limit), own.first_at(frozen(latest), 1, limit)
        if self._shedding is not None and self._shedding.policy.shed == "oldest":
            low = np.maximum(low, own.first_at(frozen(before), 1, limit) - self._shedding.rows_kept)
        return frozen(low), frozen(high)

    def _step(self, driver: int, source: int, placed: list[int], low: Ints, high: Ints) -> tuple[JoinStep, int | None]:
        """How candidates are found, and the test that needs not be made any more."""
        equalities, bands, comparisons = self._program.finders(source, placed)
        make: tuple[str, type[JoinStep], tuple[object, ...]]
        tested = None
        if equalities:
            make = (repr([equality.sides for equality in equalities]), HashStep, (equalities,))
            exact = len(equalities) == 1 and equalities[0].kind == "integers"
            tested = equalities[0].test if exact else None
        elif bands:
            make = (repr(bands[0]), BandStep, (min(bands, key=lambda band: band.below + band.above),))
        elif comparisons and len(low) and float((high - low).mean()) >= _WIDE:
            make = (repr(comparisons[0]), SortedStep, (comparisons[0],))
        else:
            make = ("", ScanStep, ())
        key = (driver, source, f"{make[1].name} {make[0]}")
        if key not in self._steps:
            step = self._steps[key] = make[1](source, self.sources, self._memory, *make[2])
            if isinstance(step, HashStep):
                alike = [s.rows_by for s in self._steps.values() if isinstance(s, HashStep)]
                step.number = alike.count(step.rows_by)
                step.purpose = self._purpose
        return self._steps[key], tested

    def _tested(self, partials: PartialResults, source: int, placed: list[int], tested: int | None) -> PartialResults:
        """Those that pass every condition that can be tested now that the source is placed."""
        if self._program.rows is not None:
            partials = partials.where(self._within_rows(partials, source, placed))
        here = {*placed, source}
        for number, test in enumerate(self._program.conditions.tests):
            # Conditions on the driver alone, or on nothing, are tested with the first source beside it.
            now = source in test.sources or len(placed) == 1
            if number == tested or not now or not test.sources <= here:
                continue
            if len(partials) == 0:
                break
            names = test.value.columns
            columns = [partials.column(name, self._program.source_of[name], self.sources) for name in names]
            if not names:
                columns, names = [pa.nulls(len(partials))], ("",)
            partials = partials.where(kept_rows(test.value, pa.Table.from_arrays(columns, names=list(names))))
        return partials

    def _within_rows(self, partials: PartialResults, source: int, placed: list[int]) -> NDArray[np.bool_]:
        """Of two rows the later one must see the earlier among the last rows of its source."""
        within = np.ones(len(partials), np.bool_)
        assert self._program.rows is not None
        for other in placed:
            if other == partials.drivers.source:
                continue
            low, two = min(source, other), max(source, other)
            # The row of `two` is the later one if it is not older: at the same time the first source comes first.
            two_later = partials.times[two] >= partials.times[low]
            for late, early, mask in ((two, low, two_later), (low, two, ~two_later)):
                if mask.any():
                    shift = 1 if early < late else 0
                    place = self.sources[early].first_at(
                        frozen(partials.times[late][mask]), shift, self._reach.end[early]
                    )
                    within[mask] &= partials.rows[early][mask] >= place - self._program.rows
        return within


# -- results in order ----------------------------------------------------------------------------------


def joined(parts: Sequence[Results], count: int) -> Results:
    """The results of several parts, of a join of so many sources."""
    if len(parts) == 1:
        return parts[0]
    none = np.zeros(0, np.int64)
    return Results(
        [np.concatenate([none, *(part.rows[i] for part in parts)]) for i in range(count)],
        np.concatenate([none, *(part.times for part in parts)]),
        np.concatenate([part.completeness for part in parts if part.completeness is not None])
        if any(part.completeness is not None for part in parts)
        else None,
    )


def in_order(results: Results) -> Results:
    """By time, then by the row of each source."""
    if len(results) < 2:
        return results
    order = order_of_times(frozen(results.times))
    begin = sort_ties(frozen(results.times), order, frozen(np.stack(results.rows)))
    if begin < len(order):
        rest = order[begin:]
        order[begin:] = rest[np.lexsort([*(rows[rest] for rows in results.rows[::-1]), results.times[rest]])]
    return results.at(order)
