"""Aggregates over a window join, one period of time after the other.

A result counts in the period of its newest row, and a period is answered when all streams have
reached its end. Of the joined rows only what is asked for is looked at, and where only counts
are asked for, not even which rows meet.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.spans import LEVELS, pane_runs
from anabranch.kernels.values import Column, frozen, one_array
from anabranch.operators.base import (
    MIN_TIME,
    Floor,
    Inputs,
    Keeps,
    Offset,
    Offsets,
    Operator,
    Task,
    first_time_of_any,
)
from anabranch.operators.join import completeness
from anabranch.operators.join.operator import WindowJoin, at_time, program_of
from anabranch.operators.join.program import TIME, JoinProgram
from anabranch.operators.join.run import JoinRun
from anabranch.operators.windows.explain import measure
from anabranch.operators.windows.program import Grouping, WindowProgram, bind_program

_ROWS_PER_BATCH = 1 << 17
_COUNT = "__count"
Rows = tuple[NDArray[np.int64], list[Column], list[Column]]
"""Times, keys and arguments, in order of time."""


@dataclass(frozen=True)
class WindowJoinAggregate(Operator):
    """Aggregates of the results of `join` per `period` (µs) and group.

    `keys` are (name, SQL), `aggregates` (name, function, SQL of the argument or None), both over
    columns named `alias.column`; `columns` are the answer's (name, SQL over the names of keys and
    aggregates, window_start and window_end).
    """

    kind: ClassVar[str] = "window_join_aggregate"
    named_in_a_host: ClassVar[str] = "join"
    why_store: ClassVar[str] = "the newest window"

    join: WindowJoin
    period: int
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    having: str | None = None

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise QueryError("WINDOW_SIZE_INVALID", f"a period of {self.period} was asked for, it must be above 0")

    @property
    def in_order_of_time(self) -> WindowJoin:
        """The join whose results are aggregated."""
        return self.join if self.join.order == "time" else replace(self.join, order="time")

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.join.inputs

    def conditions_by_source(self) -> tuple[tuple[str | None, str], ...]:
        return self.join.conditions_by_source()

    def canonical(self) -> WindowJoinAggregate:
        from anabranch.operators.join.canonical import canonical_aggregate

        return canonical_aggregate(self)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self._program(inputs).schema

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = self.whole_periods(start, inputs), self.whole_periods(end, inputs)
        tasks = self.in_order_of_time.plan(low, high, inputs, parallelism)
        if len(tasks) < 2 or "until" not in tasks[0].detail:
            return [Task(low, high, {"live": True})] if tasks else []
        # Each task takes whole periods, so that no group is in two.
        cuts = sorted({task.detail["until"] // self.period * self.period for task in tasks[:-1]})
        edges = [tasks[0].detail["since"], *cuts, tasks[-1].detail["until"]]
        return [Task(low, high, {"since": a, "until": b}) for a, b in itertools.pairwise(edges)]

    def whole_periods(self, at: Offsets, inputs: Inputs) -> dict[str, Offset]:
        """How far the streams are taken in: to the end of the last period that all have reached."""
        return at_time(self._whole(at), {name: at[name] for name in self.inputs}, inputs)

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        run = self.in_order_of_time.started(task, inputs)
        program = self._program(inputs)
        yield from self.folded(program, self._rows(run, program, inputs))
        if task.detail.get("live"):
            run.keep()

    def folded(self, program: WindowProgram, rows: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
        """The answer for what is aggregated."""
        period = program.partials.schema.empty_table()
        for times, keys, values in rows:
            if len(times) == 0:
                continue
            panes, bounds = pane_runs(frozen(times), self.period)
            entries = program.partials.fold(period, panes, bounds, keys, values)
            # The last period may go on with the next rows.
            split = int(np.searchsorted(one_array(entries.column("node")).to_numpy(), panes[-1] * LEVELS))
            yield from self._answer(program, entries.slice(0, split))
            period = entries.slice(split)
        yield from self._answer(program, period)

    def _answer(self, program: WindowProgram, entries: pa.Table) -> Iterator[pa.RecordBatch]:
        if entries.num_rows:
            ends = (one_array(entries.column("node")).to_numpy() // LEVELS + 1) * self.period
            yield from program.answer(entries, ends, self.period, ends).to_batches(max_chunksize=_ROWS_PER_BATCH)

    def _rows(self, run: JoinRun, program: WindowProgram, inputs: Inputs) -> Iterator[Rows]:
        """What is aggregated, in order of time."""
        counted = self._counted(inputs)
        if counted is None:
            names = [name for name in program.reads if name != TIME]
            for results in run.results():
                if results.completeness is not None:
                    inputs.work.report(completeness.KIND, completeness.estimated(results.completeness))
                table = run.columns(names, results)
                keys = [key.evaluate(table) for key in program.keys]
                yield results.times, keys, [value.evaluate(table) for value in program.arguments]
            return
        for drivers in run.counts():
            times = np.concatenate([np.zeros(0, np.int64), *(kept.times for _, kept, _ in drivers)])
            counts = np.concatenate([np.zeros(0, np.int64), *(matches for _, _, matches in drivers)])
            order = np.argsort(times, kind="stable")
            order = order[counts[order] > 0]
            keys = [
                _stacked([kept.table.column(names[driver]) for driver, kept, _ in drivers]).take(pa.array(order))
                for names in counted
            ]
            yield times[order], keys, [pa.array(counts[order])]

    def _program(self, inputs: Inputs) -> WindowProgram:
        joined = self._join_program(inputs)
        return program_over(self, joined.schema, self._counted(inputs) is not None)

    def _join_program(self, inputs: Inputs) -> JoinProgram:
        return program_of(
            self.in_order_of_time, tuple(inputs.readers[stream].schema for _, stream, _ in self.join.sources)
        )

    def _counted(self, inputs: Inputs) -> list[tuple[str, str]] | None:
        """If counting is enough: for each key the column of either source; else None.

        It is where two streams are joined by the equality of two integers and nothing else, and
        only results are counted, all of them or by the value that is equal.
        """
        program = self._join_program(inputs)
        tests, equalities = program.conditions.tests, program.conditions.equalities
        plain = len(self.join.sources) == 2 and len(tests) == len(equalities) == 1 and self.join.memory is None
        if not plain or equalities[0].kind != "integers" or self.join.unit == "rows":
            return None
        if any((function, argument) != ("count", None) for _, function, argument in self.aggregates):
            return None
        sides = {side.source: side.value for side in equalities[0].sides}
        first, second = sides[0], sides[1]
        if first.type != second.type or len(first.columns) != 1 or len(second.columns) != 1:
            return None
        names = (first.columns[0], second.columns[0])
        if first.sql.strip("`") != names[0] or second.sql.strip("`") != names[1]:
            return None
        return [names for _ in self.keys] if all(sql.strip("`") in names for _, sql in self.keys) else None

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        """The end of the next period: no answer comes before that."""
        whole = self._whole(end)
        return whole if whole == MIN_TIME else whole + self.period

    @property
    def answers_of_windows(self) -> tuple[int, int] | None:
        return self.period, self.period

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """The end of the first period that has rows and is not answered."""
        own = {name: at[name] for name in self.inputs}
        waiting = first_time_of_any(own, self._whole(at), inputs)
        return {} if waiting is None else dict.fromkeys(self.inputs, (waiting // self.period + 1) * self.period)

    def _whole(self, at: Offsets) -> int:
        """The end of the last period that all streams have reached."""
        time = min(at[name].time for name in self.inputs)
        return time if time == MIN_TIME else time // self.period * self.period

    def current(self, reached: int, newest: int, every: int = 1) -> int:
        return reached - self.period

    def needs(self, at: Offsets) -> dict[str, Floor]:
        aligned = {name: Offset(at[name].row, self._whole(at)) for name in self.inputs}
        return self.in_order_of_time.needs(aligned)

    def keeps(self) -> Keeps | None:
        inner = self.join.keeps()
        assert inner is not None
        return Keeps(inner.what, f"{inner.bound}, and one period of {measure('time', self.period)}")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        told = {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "join": self.in_order_of_time.explain(inputs),
            "period": measure("time", self.period),
            "keys": dict(self.keys),
            "aggregates": {name: f"{function} of {sql or '*'}" for name, function, sql in self.aggregates},
            "having": self.having,
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }
        if inputs is not None:
            counted = self._counted(inputs) is not None
            told["materialises"] = "counts of matches only" if counted else "numbers of matching rows"
        return told

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "join": self.join.to_json()}


@functools.lru_cache(maxsize=256)
def program_over(operator: WindowJoinAggregate, schema: pa.Schema, counted: bool = False) -> WindowProgram:
    """An aggregate bound to the columns of what it aggregates; `counted`: rows have how many results they met."""
    aggregates = operator.aggregates
    if counted:  # each row stands for as many results as it met
        schema = schema.append(pa.field(_COUNT, pa.int64()))
        aggregates = tuple((name, "sum", _COUNT) for name, _, _ in aggregates)
    return bind_program(
        Grouping(keys=operator.keys, aggregates=aggregates, columns=operator.columns, having=operator.having),
        source=schema,
        stream=operator.join.sources[0][1],
        time_column=TIME,
        identity=repr(operator),
    )


def _stacked(columns: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
