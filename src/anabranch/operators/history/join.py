"""History join: live rows that were also seen in several portions of history.

Query 2 of S. Chandrasekaran and M. Franklin (2004): cars seen at an exit now that were seen there at this hour on
each of the last seven days. A portion lies a whole number of periods before the live row, so each moves along
with the live rows, and history is read at the pace at which they come (§5.1).

Rows dropped from history at random would make a live row look as if it had never been seen. So a reduced join
keeps whole keys: of those that are kept all is known, and live rows of the others are not answered.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.reducers import Spec, reducer_of
from anabranch.errors import QueryError
from anabranch.kernels.values import frozen, integers
from anabranch.log.offset import MAX_TIME
from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, Offset, Offsets, Operator, Task, time_of_row
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.history.equal import Equal, keys_of
from anabranch.operators.history.past import PastProgram, PastReader
from anabranch.operators.history.slices import Slices, live
from anabranch.operators.windows.explain import measure
from anabranch.operators.windows.program import kept_rows
from anabranch.schema import sql_type

ROWS_PER_TASK = 200_000
"""Below this, starting another task costs more than it gains."""
_ROWS_PER_READ = 1 << 18
_ROWS_PER_BATCH = 1 << 17

PORTIONS, MATCHES, FRACTION = "_portions", "_matches", "_fraction"
_FOUND = (pa.field(PORTIONS, pa.int32()), pa.field(MATCHES, pa.int64()), pa.field(FRACTION, pa.float64()))


@dataclass(frozen=True)
class HistoryJoin(Operator):
    """Rows of `stream` with partners in `history`, one `period` (µs) ago, two periods ago and so on.

    A partner of portion d = 1 … `portions` has a time at most `within` away from d periods before the live row,
    and is equal in each pair of `on` (SQL over the live, SQL over the past columns). `match`: "each" portion has a
    partner, or "any". `columns` are (name, SQL over the live columns, _portions, _matches and _fraction): how
    many portions and how many rows of them were met, and how much of history was read.
    """

    kind: ClassVar[str] = "history_join"
    named_in_a_host: ClassVar[str] = "history"
    reads_history: ClassVar[bool] = True

    stream: str
    alias: str
    history: str
    on: tuple[tuple[str, str], ...]
    period: int
    portions: int
    within: int
    match: Literal["each", "any"]
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None
    history_filter: str | None = None
    reducer: Spec | None = None

    def __post_init__(self) -> None:
        if self.period <= 0 or self.portions <= 0 or not 0 <= self.within < self.period:
            raise QueryError(
                "WINDOW_SIZE_INVALID",
                f"{self.portions} portions of history every {measure('time', self.period)}, within "
                f"{measure('time', self.within)}, were asked for",
                hint="ask for at least one, with a WITHIN that is shorter than the interval between them",
            )

    def archives_wanted(self) -> tuple[str, ...]:
        return (self.history,)

    def reduction(self) -> Spec | None:
        return self.reducer

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.stream, self.history)))

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self._program(inputs).schema

    def _program(self, inputs: Inputs) -> _Program:
        live, past = inputs.readers[self.stream], inputs.readers[self.history]
        return _program_of(self, (live.schema, live.time_column), (past.schema, past.time_column))

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        """Where the logs begin; of history all that is archived is known, and live rows need not wait for it."""
        begin = super().beginning(inputs)
        first = begin[self.history].row
        if self.history != self.stream and inputs.history(self.history).first_row() < first:
            begin[self.history] = Offset(first, time_of_row(inputs.readers[self.history], first - 1))
        return begin

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        return self.planned(self.ready(start, inputs), self.ready(end, inputs), start, end, inputs, parallelism)

    def planned(
        self, first: int, last: int, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int
    ) -> list[Task]:
        """Tasks for the live rows first ≤ n < last."""
        if first >= last:
            return []
        reader = inputs.readers[self.stream]
        parts = max(1, min(parallelism, (last - first) // ROWS_PER_TASK))
        cuts = [first + (last - first) * i // parts for i in range(parts + 1)]
        times = [time_of_row(reader, min(row, last - 1)) for row in cuts] if parts > 1 else []
        if any(b - a <= 2 * self.within for a, b in itertools.pairwise(times)):
            cuts = [first, last]  # the tasks would read the same history
        ranges = list(itertools.pairwise(cuts))
        return [Task(dict(start), dict(end), {"rows": rows, "last": rows == ranges[-1]}) for rows in ranges]

    def ready(self, at: Offsets, inputs: Inputs) -> int:
        """The row after the last live row whose history is there."""
        row = at[self.stream].row
        if self.stream == self.history:
            return row
        reader = inputs.readers[self.stream]
        known = self._answerable(at)
        if known == MIN_TIME:
            return reader.first_logged_row()
        return max(reader.row_at_time(known, row), min(reader.first_logged_row(), row))

    def _answerable(self, at: Offsets) -> int:
        """Live rows before this time have all their history."""
        time = at[self.history].time
        return time if time == MIN_TIME else min(time + self.period - self.within, MAX_TIME)

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        program = self._program(inputs)
        first, last = task.detail["rows"]
        for table, counts in self.found(task, inputs, first, last, program.reads):
            met = self.met(counts)
            answer = with_found(table.filter(pa.array(met)), counts[:, met], self.keep(task.end))
            yield from project(answer, program.columns, program.schema).to_batches(max_chunksize=_ROWS_PER_BATCH)

    def met(self, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which live rows are answered, from how many rows they met in each portion."""
        least = self.portions if self.match == "each" else 1
        met: NDArray[np.bool_] = np.count_nonzero(counts, axis=0) >= least
        return met

    def found(
        self, task: Task, inputs: Inputs, first: int, last: int, reads: list[str]
    ) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
        """The live rows first ≤ n < last that pass the filter, and how many rows they met in each portion."""
        program = self._program(inputs)
        reader = inputs.readers[self.stream]
        past = PastReader(program.past, inputs.history(self.history), task.end[self.history].row, inputs.work)
        name = f"{inputs.scratch} {self!r} {reader.identity} {inputs.readers[self.history].identity}"
        slices = live.take(name) if task.detail["last"] else None
        for low in range(first, last, _ROWS_PER_READ):
            table = reader.read(low, min(low + _ROWS_PER_READ, last), [*dict.fromkeys([*reads, *program.looks_at])])
            rows = table.num_rows
            inputs.work.rows_read += rows
            inputs.work.bytes_read += table.nbytes
            if program.filter is not None:
                table = table.filter(pa.array(kept_rows(program.filter, table)))
                inputs.work.rows_thrown += rows - table.num_rows
            if table.num_rows == 0:
                continue
            times = frozen(integers(table.column(reader.time_column)))
            if slices is None or slices.reached > times[0]:
                slices = Slices(self.period, self.portions, self.within, len(self.on))
            slices.reduce_to(self.keep(task.end))
            sides = [pair.live.evaluate(table) for pair in program.equal]
            keys, present = keys_of(sides, [pair.type for pair in program.equal], table.num_rows)
            for part, counts in slices.look_up(keys, present, times, past):
                yield table.slice(part.start, part.stop - part.start), counts
        if task.detail["last"] and slices is not None:
            inputs.work.keeps(slices.rows, slices.nbytes)
            live.put(name, slices)

    def by(self, inputs: Inputs) -> Bound:
        """The live side of the keys that a reducer keeps whole."""
        program = self._program(inputs)
        return next(pair.live for pair in program.equal if pair.past.columns == (program.past.by,))

    def keep(self, end: Offsets) -> float:
        """The fraction of history's keys that a micro-batch reads."""
        return 1.0 if self.reducer is None else min(end[name].keep for name in self.inputs)

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        time = end[self.stream].time
        return time if self.stream == self.history else min(time, self._answerable(end))

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """A live row waits until its newest portion of history is there."""
        row = self.ready(at, inputs)
        if row >= at[self.stream].row:
            return {}
        return {self.history: self.history_due(time_of_row(inputs.readers[self.stream], row) + 1)}

    def history_due(self, time: int) -> int:
        """The time history must have reached for live rows before `time` to be answered."""
        return time if self.stream == self.history else time - self.period + self.within

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Live rows that are not answered yet, and all portions of those to come."""
        return self.needs_from(self.reached(at), at)

    def needs_from(self, time: int, at: Offsets) -> dict[str, Floor]:
        """What is needed to answer live rows from a time on."""
        oldest = time if time == MIN_TIME else time - self.portions * self.period - self.within
        past = {self.history: Floor(at[self.history].row, oldest)}
        return past if self.stream == self.history else {self.stream: Floor(at[self.stream].row, time), **past}

    def keeps(self) -> Keeps | None:
        lengths = f"{self.portions} × {measure('time', 2 * self.within)}"
        return Keeps("keys and times of the portions of history, in memory", f"the rows of {lengths}")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        told: dict[str, Any] = {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "reads": [
                {"stream": self.stream, "filter": self.filter},
                {"stream": self.history, "filter": self.history_filter},
            ],
            "live": {"stream": self.stream, "alias": self.alias, "filter": self.filter},
            "history": {
                "stream": self.history,
                "portions": f"{self.portions}, every {measure('time', self.period)}",
                "within": measure("time", self.within),
                "match": f"in {self.match}",
                "filter": self.history_filter,
            },
            "on": [f"{live} = {past}" for live, past in self.on],
            "reducer": None if self.reducer is None else f"{self.reducer[0]}{self.reducer[1]!r}",
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }
        return told


@dataclass(frozen=True)
class _Program:
    """A join bound to the columns of its streams."""

    filter: Bound | None
    equal: tuple[Equal, ...]
    past: PastProgram
    columns: tuple[Bound, ...]
    schema: pa.Schema
    reads: list[str]
    """Live columns that the answer is made of."""
    looks_at: list[str]
    """Live columns that say whether a row is in the answer."""


@functools.lru_cache(maxsize=256)
def _program_of(join: HistoryJoin, live: tuple[pa.Schema, str], past: tuple[pa.Schema, str]) -> _Program:
    (live_schema, live_time), (past_schema, past_time) = live, past
    equal = tuple(Equal.of(bind(live, live_schema), bind(past, past_schema)) for live, past in join.on)
    by = None if join.reducer is None else _kept_whole(join.reducer, equal, past_schema)
    where = None if join.filter is None else bind(join.filter, live_schema)
    past_where = None if join.history_filter is None else bind(join.history_filter, past_schema)
    columns = tuple(bind(sql, live_with_found(live_schema)) for _, sql in join.columns)
    past_reads = [*(pair.past for pair in equal), *([past_where] if past_where else [])]
    return _Program(
        filter=where,
        equal=equal,
        past=PastProgram(
            past_where,
            tuple(pair.past for pair in equal),
            tuple(pair.type for pair in equal),
            by,
            columns_of(past_reads, past_schema, past_time),
        ),
        columns=columns,
        schema=pa.schema([(name, column.type) for (name, _), column in zip(join.columns, columns, strict=True)]),
        reads=columns_of(columns, live_schema),
        looks_at=columns_of([*(pair.live for pair in equal), *([where] if where else [])], live_schema, live_time),
    )


def _kept_whole(reducer: Spec, equal: tuple[Equal, ...], past: pa.Schema) -> str:
    """The column whose values a reducer keeps whole, which must be one that is joined by."""
    by = reducer_of(reducer).by
    if by is None:
        first = next((pair.past.columns[0] for pair in equal if pair.past.is_column), "column")
        raise QueryError(
            "NOT_ON_REDUCED_DATA",
            f"{reducer[0]} drops rows of history at random, so rows that were seen would count as not seen",
            hint=f"keep whole keys: REDUCE BY by_key({first}, 0.9) or load(INTERVAL 5 SECONDS, {first})",
        )
    for pair in equal:
        if pair.past.is_column and pair.past.columns[0].lower() == by.lower():
            live_type, past_type = pair.live.type, pair.past.type
            if live_type == past_type or (pa.types.is_integer(live_type) and pa.types.is_integer(past_type)):
                return pair.past.columns[0]
            raise QueryError(
                "NOT_ON_REDUCED_DATA",
                f'"{by}" is compared as {sql_type(pair.type)}, and as that its keys may not be kept whole',
                hint=f"CAST the live side to {sql_type(past_type)}",
            )
    raise QueryError(
        "NOT_ON_REDUCED_DATA",
        f'{reducer[0]} keeps the values of "{by}" whole, and the join is not by that column',
        hint="name a column of history that is joined by equality",
    )


def live_with_found(schema: pa.Schema) -> pa.Schema:
    """The live columns, and what is known of each row's partners."""
    for field in _FOUND:
        schema = schema.append(field)
    return schema


def with_found(table: pa.Table, counts: NDArray[np.int64], keep: float) -> pa.Table:
    """Live rows with what was found of them in each portion."""
    portions = np.count_nonzero(counts, axis=0).astype(np.int32)
    values = (portions, counts.sum(axis=0), np.full(table.num_rows, keep))
    for field, column in zip(_FOUND, values, strict=True):
        table = table.append_column(field, pa.array(column))
    return table
