"""A windowed aggregate bound to the columns of its stream: what is read, folded and put out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.functions.aggregates import Aggregate, ValueAggregate, aggregate
from anabranch.kernels.fold import State
from anabranch.kernels.values import Column, one_array
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.windows.ordering import SortKey, first_of_each
from anabranch.operators.windows.values import ValueQuestion
from anabranch.schema import TIME_TYPE
from anabranch.windows.panes.axis import window_starts
from anabranch.windows.panes.partials import Partials, key_order

WINDOW_START, WINDOW_END, ROW_TIME = "window_start", "window_end", "_time"
LINE = "__line"
_PLACE = "__place_"
"""Beginning of the names of columns that say where a partial answer belongs."""
_FORMAT = "5"
"""Part of the name of the scratch folder: raise it when the kept tables change their meaning."""


class Windows(NamedTuple):
    """The windows of some entries; by lines answers are ordered and limited."""

    lines: NDArray[np.int64]
    ends: NDArray[np.int64]
    size: int | NDArray[np.int64]
    """Of all, or of each."""
    times: NDArray[np.int64]


@dataclass(frozen=True)
class Output:
    """Which groups of a window are answered, and in which order."""

    names: tuple[str, ...]
    """Those of the keys, the aggregates, the beginning and end of the window, and its time."""
    by_rows: bool
    having: Bound | None
    order: tuple[SortKey, ...]
    limit: int | None

    def filled(self, keys: Sequence[Column], aggregates: Sequence[Column], windows: Windows) -> pa.Table:
        """The groups that are answered, line by line: those HAVING keeps, ordered by key or as asked, and the line."""
        axis = pa.int64() if self.by_rows else TIME_TYPE
        starts = window_starts(windows.ends, windows.size, self.by_rows)
        told = [pa.array(starts).view(axis), pa.array(windows.ends).view(axis), pa.array(windows.times).view(TIME_TYPE)]
        columns = [*keys, *aggregates, *told, pa.array(windows.lines)]
        table = pa.Table.from_arrays(columns, names=[*self.names, LINE])
        table = table.take(pa.array(key_order(windows.lines, keys)))
        if self.having is not None:
            table = table.filter(self.having.evaluate(table))
        if self.order or self.limit is not None:
            table = table.take(first_of_each(table, table.column(LINE), self.order, self.limit))
        return table


@dataclass(frozen=True)
class WindowProgram:
    """Everything about a windowed aggregate that does not depend on a batch."""

    stream: str
    time_column: str
    by_rows: bool
    reads: list[str]
    where: Bound | None
    keys: tuple[Bound, ...]
    arguments: tuple[Bound, ...]
    partials: Partials
    aggregates: tuple[tuple[Aggregate | None, tuple[int, ...]], ...]
    """Each aggregate with the numbers of the states it is read from; None: the number of an answer from values."""
    questions: tuple[ValueQuestion, ...]
    """Arguments whose values are kept under an index, and what is asked of them."""
    output: Output
    columns: tuple[Bound, ...]
    schema: pa.Schema
    fingerprint: str
    """Different for operators whose partial answers differ."""

    def answer(
        self,
        entries: pa.Table,
        ends: NDArray[np.int64],
        size: int | NDArray[np.int64],
        times: NDArray[np.int64],
        values: Sequence[pa.Array] = (),
        partial: bool = False,
    ) -> pa.Table:
        """The answer rows of window entries; `ends` and `times` are each entry's window end and time.

        `values` are the answers to all questions, in order. A `partial` answer is of some of the
        groups, and carries what `gather` needs to put it among the others.
        """
        keys = self.partials.keys(entries)
        aggregates = self.finished(self.partials.state_columns(entries), values)
        table = self.output.filled(keys, aggregates, Windows(ends, ends, size, times))
        answer = project(table, self.columns, self.schema)
        return self._with_places(answer, table) if partial else answer

    def finished(self, states: Sequence[Sequence[pa.Array]], values: Sequence[pa.Array] = ()) -> list[Column]:
        """What each aggregate is for each of some entries, by the columns of each state."""
        return [
            values[numbers[0]] if kind is None else kind.finish([states[i] for i in numbers])
            for kind, numbers in self.aggregates
        ]

    def _with_places(self, answer: pa.Table, table: pa.Table) -> pa.Table:
        answer = answer.append_column(f"{_PLACE}end", table.column(WINDOW_END).cast(pa.int64()))
        for i, key in enumerate(self.output.order):
            answer = answer.append_column(f"{_PLACE}order{i}", key.value.evaluate(table))
        for i in range(len(self.keys)):
            answer = answer.append_column(f"{_PLACE}key{i}", table.column(i))
        return answer


def gather(answers: pa.Table, order: Sequence[tuple[str, bool, bool]], limit: int | None) -> pa.Table:
    """Partial answers as the one answer: windows in order, and in each the groups in order."""
    hidden = [name for name in answers.column_names if name.startswith(_PLACE)]
    if not hidden:
        return answers
    ends = answers.column(f"{_PLACE}end")
    keys = [answers.column(name) for name in hidden if name.startswith(f"{_PLACE}key")]
    answers = answers.take(pa.array(key_order(one_array(ends).to_numpy(), keys)))
    if order or limit is not None:
        names = [f"{_PLACE}order{i}" for i in range(len(order))]
        orders = [SortKey(bind(n, answers.schema), *how[1:]) for n, how in zip(names, order, strict=True)]
        answers = answers.take(first_of_each(answers, answers.column(f"{_PLACE}end"), orders, limit))
    return answers.drop_columns(hidden)


@dataclass(frozen=True)
class Grouping:
    """What is asked of the rows of each window, in SQL: keys and aggregates by name, and what is answered of them."""

    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    where: str | None = None
    having: str | None = None
    order: tuple[tuple[str, bool, bool], ...] = ()
    limit: int | None = None


def bind_program(
    grouping: Grouping, *, source: pa.Schema, stream: str, time_column: str, by_rows: bool = False, identity: str
) -> WindowProgram:
    """Bind the parts of a windowed aggregate to the columns of its stream."""
    keys, aggregates, columns = grouping.keys, grouping.aggregates, grouping.columns
    bound_where = None if grouping.where is None else bind(grouping.where, source)
    bound_keys = tuple(bind(sql, source) for _, sql in keys)
    texts = list(dict.fromkeys(sql for _, _, sql in aggregates if sql is not None))
    arguments = tuple(bind(sql, source) for sql in texts)
    plans = [aggregate(f, None if sql is None else arguments[texts.index(sql)].type) for _, f, sql in aggregates]
    uses = [None if sql is None else texts.index(sql) for _, _, sql in aggregates]
    states: dict[tuple[str, int | None], State] = {}
    asked: dict[tuple[int, bool, str], list[ValueAggregate]] = {}
    for plan, at in zip(plans, uses, strict=True):
        if isinstance(plan, Aggregate):
            for kept, state in plan.states.items():
                states.setdefault((kept, at), state)
        else:
            assert at is not None
            asked.setdefault((at, plan.approximate, plan.question), []).append(plan)
    numbers = {key: i for i, key in enumerate(states)}
    asked_in_order = [(question, plan) for question, asking in asked.items() for plan in asking]
    places = {question_and_plan: place for place, question_and_plan in enumerate(asked_in_order)}
    inner = _inner_schema(
        [(name, key.type) for (name, _), key in zip(keys, bound_keys, strict=True)]
        + [(name, plan.type) for (name, _, _), plan in zip(aggregates, plans, strict=True)],
        by_rows,
    )
    outputs = tuple(bind(sql, inner) for _, sql in columns)
    everything = [*bound_keys, *arguments, *([bound_where] if bound_where else [])]
    return WindowProgram(
        stream=stream,
        time_column=time_column,
        by_rows=by_rows,
        reads=columns_of(everything, source, time_column),
        where=bound_where,
        keys=bound_keys,
        arguments=arguments,
        partials=Partials(tuple(key.type for key in bound_keys), tuple(states.values()), tuple(at for _, at in states)),
        aggregates=tuple(
            (plan, tuple(numbers[kept, at] for kept in plan.states))
            if isinstance(plan, Aggregate)
            else (None, (places[(at, plan.approximate, plan.question), plan],))  # type: ignore[index]
            for plan, at in zip(plans, uses, strict=True)
        ),
        questions=tuple(ValueQuestion(at, arguments[at].type, tuple(asking)) for (at, _, _), asking in asked.items()),
        output=Output(
            names=tuple(inner.names),
            by_rows=by_rows,
            having=None if grouping.having is None else bind(grouping.having, inner),
            order=tuple(SortKey(bind(sql, inner), *directions) for sql, *directions in grouping.order),
            limit=grouping.limit,
        ),
        columns=outputs,
        schema=pa.schema([(name, column.type) for (name, _), column in zip(columns, outputs, strict=True)]),
        fingerprint=hashlib.sha256(f"{_FORMAT}\n{identity}\n{source}".encode()).hexdigest()[:16],
    )


def _inner_schema(fields: list[tuple[str, pa.DataType]], by_rows: bool) -> pa.Schema:
    axis = pa.int64() if by_rows else TIME_TYPE
    fields = [*fields, (WINDOW_START, axis), (WINDOW_END, axis), (ROW_TIME, TIME_TYPE)]
    names = [name for name, _ in fields]
    for name in names:
        if names.count(name) > 1:
            raise QueryError("COLUMN_EXISTS", f'"{name}" is the name of two keys, aggregates or window columns')
    return pa.schema(fields)


def kept_rows(where: Bound, table: pa.Table) -> NDArray[np.bool_]:
    """Where the condition is true; NULL is not true."""
    mask = where.evaluate(table)
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    kept: NDArray[np.bool_] = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return kept
