"""Window join: rows of several streams that lie inside each other's windows and meet a condition.

The W-join of M. A. Hammad et al. (2002, §6.2): any number of streams, any condition, one window for
all pairs or another for each, some pairs without one. Each result comes once, with the micro-batch
that takes in its last row, or, `ordered`, when all streams have reached that row's time.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.kernels.values import integers
from anabranch.operators.base import (
    MIN_TIME,
    Floor,
    Inputs,
    Keeps,
    Offset,
    Offsets,
    Operator,
    Task,
    Work,
    first_time_of_any,
)
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.join import completeness
from anabranch.operators.join.explain import explain_join
from anabranch.operators.join.order import order_of
from anabranch.operators.join.program import COMPLETENESS, TIME, JoinProgram, bind_join
from anabranch.operators.join.rows import KeyShare
from anabranch.operators.join.run import JoinRun, Reach, Results, in_order
from anabranch.operators.join.shedding import Policy
from anabranch.operators.join.windows import FOREVER, latest, unbound
from anabranch.operators.windows.program import kept_rows
from anabranch.schema import TIME_TYPE

ROWS_PER_TASK = 100_000
"""Below this, starting another task costs more than it gains."""
_ROWS_PER_BATCH = 1 << 17
_PLACE = "__place_"


@dataclass(frozen=True)
class WindowJoin(Operator):
    """Results of joining `sources`, each (alias, stream, filter over the stream's columns or None).

    `windows` are (i, j, low, high): time(j) − time(i), in µs, is between low and high; for windows of
    rows (i, j, n, n). `conditions` must all be true, `columns` are (name, SQL); both are over columns
    named `alias.column`, and columns also over `_time`. With `memory`, windows take no more bytes than
    that, rows are shed as `shed` says, and columns may use `_completeness`.
    """

    kind: ClassVar[str] = "window_join"
    named_in_a_host: ClassVar[str] = "join"

    sources: tuple[tuple[str, str, str | None], ...]
    unit: Literal["time", "rows"]
    windows: tuple[tuple[int, int, int, int], ...]
    conditions: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    order: Literal["arrival", "time"] = "arrival"
    memory: int | None = None
    shed: Literal["random", "oldest", "matches"] | None = None

    def __post_init__(self) -> None:
        groups = unbound(len(self.sources), self.windows)
        if len(groups) > 1:
            named = [", ".join(self.sources[i][0] for i in group) for group in groups]
            raise QueryError("WINDOWS_NOT_CONNECTED", f"no window binds {named[0]} to {named[1]}")
        pairs, lengths = {frozenset(pair) for *pair, _, _ in self.windows}, {high for *_, high in self.windows}
        if self.unit == "rows" and (len(lengths) > 1 or len(pairs) < math.comb(len(self.sources), 2)):
            raise QueryError(
                "WINDOW_PAIR_INVALID",
                "windows of ROWS are the same for all pairs",
                detail=f"There are {len(self.sources)} streams, and windows of {len(pairs)} of their pairs.",
                hint=f"write WINDOW = {max(lengths)} ROWS",
            )

    @property
    def ordered(self) -> bool:
        """Whether results come in order of time: rows of windows and what is shed are only known then."""
        return self.order == "time" or self.unit == "rows" or self.memory is not None

    def aliases(self) -> tuple[str, ...]:
        return tuple(alias for alias, *_ in self.sources)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream for _, stream, _ in self.sources))

    def conditions_by_source(self) -> tuple[tuple[str | None, str], ...]:
        return tuple((where, stream) for _, stream, where in self.sources)

    def canonical(self) -> WindowJoin:
        from anabranch.operators.join.canonical import canonical_join

        return canonical_join(self)

    def however_cut(self) -> WindowJoin:
        return self if self.ordered else replace(self, order="time")

    def schema(self, inputs: Inputs) -> pa.Schema:
        return _outputs_of(self, self._program(inputs).schema).schema

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        return self.tasks(start, end, inputs, parallelism)

    def tasks(
        self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int, *, by_time: bool = True
    ) -> list[Task]:
        """The tasks that find the results; unless `by_time` each looks at all times."""
        low, high = self.sides(start, inputs), self.sides(end, inputs)
        rows = {name: high[name].row - low[name].row for name in self.inputs}
        if max(rows.values()) <= 0:
            return []
        parts = max(1, min(parallelism, sum(rows.values()) // ROWS_PER_TASK))
        details: list[dict[str, Any]] = [{"live": True}]
        cuts = self._cuts(low, high, inputs, parts) if by_time else []
        if cuts:
            edges = [-FOREVER, *cuts, FOREVER]
            details = [{"since": a, "until": b} for a, b in itertools.pairwise(edges)]
        elif parts > 1 and inputs.gathers and self._program(inputs).shared_key() is not None:
            details = [{"live": True, "part": i, "parts": parts} for i in range(parts)]
        return [Task(dict(start), dict(end), detail) for detail in details]

    def sides(self, at: Offsets, inputs: Inputs) -> dict[str, Offset]:
        """How far each stream is taken in: as far as it is, or in order of time as far as all are."""
        if not self.ordered:
            return dict(at)
        return at_time(min(at[name].time for name in self.inputs), at, inputs)

    def _cuts(self, low: Offsets, high: Offsets, inputs: Inputs, parts: int) -> list[int]:
        """Times that share the new rows out, if windows are short against what lies between them."""
        if parts < 2 or self.unit == "rows":
            return []
        name = max(self.inputs, key=lambda stream: high[stream].row - low[stream].row)
        reader, first, rows = inputs.readers[name], low[name].row, high[name].row - low[name].row
        places = [first + rows * i // parts for i in range(parts + 1)]
        places[-1] -= 1
        times = [int(integers(reader.read(row, row + 1, [reader.time_column]).column(0))[0]) for row in places]
        longest = max(max(row) for row in self.most())
        short = all(b - a > 2 * longest for a, b in itertools.pairwise(times))
        return times[1:-1] if short else []

    def most(self) -> list[list[int]]:
        """How much later than a row of one source that of another may be at most."""
        return latest(len(self.sources), self.windows)

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        run = self.started(task, inputs)
        yield from self.answered(run.results(), run, task, inputs)
        if task.detail.get("live"):
            run.keep()

    def answered(
        self, found: Iterable[Results], run: JoinRun, task: Task, inputs: Inputs, where: tuple[str, ...] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The answer rows of results for which `where` is true."""
        outputs = _outputs_of(self, self._program(inputs).schema, where)
        clock = None if self.ordered else max(offset.time for offset in task.start.values())
        for results in found:
            if results.completeness is not None:
                inputs.work.report(completeness.KIND, completeness.estimated(results.completeness))
            for low in range(0, len(results), _ROWS_PER_BATCH):
                part, answer = outputs.of(results.between(low, low + _ROWS_PER_BATCH), run, clock)
                if task.detail.get("parts", 1) > 1:
                    answer = _with_places(answer, part)
                yield from answer.to_batches()

    def started(self, task: Task, inputs: Inputs, program: JoinProgram | None = None) -> JoinRun:
        """The run of a task; a `program` is its own, save for which rows of the sources it leaves out."""
        low, high = self.sides(task.start, inputs), self.sides(task.end, inputs)
        streams = [stream for _, stream, _ in self.sources]
        reach = Reach(
            start=[low[name].row for name in streams],
            end=[high[name].row for name in streams],
            start_times=[low[name].time for name in streams],
            end_times=[high[name].time for name in streams],
            ordered=self.ordered,
            since=task.detail.get("since", -FOREVER),
            until=task.detail.get("until", FOREVER),
        )
        return self.searching(reach, task, inputs, program)

    def searching(
        self, reach: Reach, task: Task, inputs: Inputs, program: JoinProgram | None = None, purpose: str = ""
    ) -> JoinRun:
        """A run over some of the rows, for the same part of all keys as a task."""
        program = program or self._program(inputs)
        share = KeyShare(task.detail.get("part", 0), task.detail.get("parts", 1))
        return JoinRun(program, inputs, reach, share, order_of(repr(self), program), self._policy(), purpose)

    def _policy(self) -> Policy | None:
        return None if self.memory is None else Policy(self.memory, self.shed or "random")

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        hidden = [name for name in answers.column_names if name.startswith(_PLACE)]
        if not hidden:
            return answers
        times = integers(answers.column(hidden[0]))
        rows = [integers(answers.column(name)) for name in hidden[1:]]
        numbers = np.arange(answers.num_rows)
        order = in_order(Results([*rows, numbers], times)).rows[-1]
        return answers.drop_columns(hidden).take(pa.array(order))

    def _program(self, inputs: Inputs) -> JoinProgram:
        return program_of(self, tuple(inputs.readers[stream].schema for _, stream, _ in self.sources))

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        times = [end[name].time for name in self.inputs]
        return min(times) if self.ordered else max(times)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """In order of time a row waits until all streams have passed its time."""
        if not self.ordered:
            return {}
        own = {name: at[name] for name in self.inputs}
        waiting = first_time_of_any(own, min(offset.time for offset in own.values()), inputs)
        return {} if waiting is None else dict.fromkeys(self.inputs, waiting + 1)

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Rows leave when no row to come of any other stream can lie in their window."""
        axis = min(at[name].time for name in self.inputs)
        if self.unit == "rows":
            count = max(high for *_, high in self.windows)
            return {name: Floor(row=at[name].row, time=axis, before=count) for name in self.inputs}
        oldest: dict[str, int] = {}
        most = self.most()
        for i, (_, name, _) in enumerate(self.sources):
            times = [
                (axis if self.ordered else at[other].time) - most[i][j]
                for j, (_, other, _) in enumerate(self.sources)
                if i != j and at[other].time != MIN_TIME
            ]
            known = len(times) == len(self.sources) - 1 and axis != MIN_TIME
            time = min([*times, *([axis] if self.ordered else [])]) if known else MIN_TIME
            if known and self.memory is not None:  # what is shed depends on the rows of the windows before
                time -= 5 * max(max(row) for row in most)
            oldest[name] = min(time, oldest.get(name, time))
        return {name: Floor(at[name].row, time) for name, time in oldest.items()}

    def keeps(self) -> Keeps | None:
        bound = "the rows inside the windows" if self.memory is None else f"{self.memory} bytes, then rows are shed"
        return Keeps("rows of the windows, indexed by what joins them", bound)

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "reads": [{"stream": stream, "filter": where} for _, stream, where in self.sources],
            **explain_join(self, None if inputs is None else self._program(inputs), self.most()),
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }


def at_time(time: int, at: Offsets, inputs: Inputs) -> dict[str, Offset]:
    """The offsets at which all streams have reached a time: rows that are older."""
    if time == MIN_TIME:
        return {name: Offset(inputs.readers[name].first_row(), MIN_TIME) for name in at}
    return {name: Offset(inputs.readers[name].row_at_time(time, at[name].row), time) for name in at}


@functools.lru_cache(maxsize=256)
def program_of(join: WindowJoin, schemas: tuple[pa.Schema, ...]) -> JoinProgram:
    return bind_join(join.sources, join.unit, join.windows, join.conditions, schemas)


@dataclass(frozen=True)
class _Outputs:
    """The columns of the answer, of results for which all of `where` is true."""

    columns: tuple[Bound, ...]
    schema: pa.Schema
    reads: list[str]
    where: tuple[Bound, ...]

    def of(self, results: Results, run: JoinRun, clock: int | None) -> tuple[Results, pa.Table]:
        """Those of some results that are answered, and their answer rows; with `clock` they are no older than that."""
        table = rows_of(results, run, self.reads, clock)
        if results.completeness is not None:
            table = table.append_column(COMPLETENESS, pa.array(results.completeness))
        for condition in self.where:
            mask = kept_rows(condition, table)
            if not mask.all():
                results, table = results.at(mask), table.filter(pa.array(mask))
        return results, project(table, self.columns, self.schema)


@functools.lru_cache(maxsize=256)
def _outputs_of(join: WindowJoin, schema: pa.Schema, where: tuple[str, ...] = ()) -> _Outputs:
    if join.memory is not None:
        schema = schema.append(pa.field(COMPLETENESS, pa.float64()))
    columns = tuple(bind(sql, schema) for _, sql in join.columns)
    conditions = tuple(bind(sql, schema) for sql in where)
    answer = pa.schema([(name, column.type) for (name, _), column in zip(join.columns, columns, strict=True)])
    reads = [name for name in columns_of((*columns, *conditions), schema) if name not in (TIME, COMPLETENESS)]
    return _Outputs(columns, answer, reads, conditions)


def rows_of(results: Results, run: JoinRun, names: Sequence[str], clock: int | None) -> pa.Table:
    """Columns named `alias.column` of results, with their times; with `clock` they are no older than that."""
    times = results.times if clock is None else np.maximum(results.times, clock)
    return run.columns(names, results).append_column(TIME, pa.array(times, pa.int64()).view(TIME_TYPE))


def _with_places(answer: pa.Table, results: Results) -> pa.Table:
    """The answer with what `gather` puts it in order by."""
    places: Sequence[Any] = [results.times, *results.rows]
    for i, values in enumerate(places):
        answer = answer.append_column(f"{_PLACE}{i}", pa.array(values))
    return answer
