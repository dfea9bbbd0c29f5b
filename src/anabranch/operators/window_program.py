"""A windowed aggregate bound to the columns of its stream: what is read, folded and put out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.fold import State
from anabranch.kernels.values import Column
from anabranch.operators.aggregates import Aggregate, aggregate
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.schema import TIME_TYPE
from anabranch.windows.partials import Partials, key_order

WINDOW_START, WINDOW_END, ROW_TIME = "window_start", "window_end", "_time"
_FORMAT = "1"
"""Part of the name of the scratch folder: raise it when the kept tables change their meaning."""


@dataclass(frozen=True)
class Program:
    """Everything about a windowed aggregate that does not depend on a batch."""

    stream: str
    time_column: str
    by_rows: bool
    reads: list[str]
    where: Bound | None
    keys: tuple[Bound, ...]
    arguments: tuple[Bound, ...]
    partials: Partials
    aggregates: tuple[tuple[Aggregate, tuple[int, ...]], ...]
    """Each aggregate with the numbers of the states it is read from."""
    names: tuple[str, ...]
    having: Bound | None
    columns: tuple[Bound, ...]
    schema: pa.Schema
    fingerprint: str
    """Different for operators whose partial answers differ."""

    def answer(self, entries: pa.Table, ends: NDArray[np.int64], size: int, times: NDArray[np.int64]) -> pa.Table:
        """The answer rows of window entries; `ends` and `times` are each entry's window end and time."""
        order = key_order(ends, self.partials.keys(entries))
        states = self.partials.state_columns(entries)
        columns: list[Column] = list(self.partials.keys(entries))
        columns += [kind.finish([states[i] for i in numbers]) for kind, numbers in self.aggregates]
        axis = pa.int64() if self.by_rows else TIME_TYPE
        starts = np.maximum(ends - size, 0) if self.by_rows else ends - size
        columns += [pa.array(starts).view(axis), pa.array(ends).view(axis), pa.array(times).view(TIME_TYPE)]
        table = pa.Table.from_arrays(columns, names=list(self.names)).take(pa.array(order))
        if self.having is not None:
            table = table.filter(self.having.evaluate(table))
        return project(table, self.columns, self.schema)


def bind_program(
    *,
    source: pa.Schema,
    stream: str,
    time_column: str,
    by_rows: bool,
    keys: tuple[tuple[str, str], ...],
    aggregates: tuple[tuple[str, str, str | None], ...],
    columns: tuple[tuple[str, str], ...],
    where: str | None,
    having: str | None,
    identity: str,
) -> Program:
    """Bind the parts of a windowed aggregate to the columns of its stream."""
    bound_where = None if where is None else bind(where, source)
    bound_keys = tuple(bind(sql, source) for _, sql in keys)
    texts = list(dict.fromkeys(sql for _, _, sql in aggregates if sql is not None))
    arguments = tuple(bind(sql, source) for sql in texts)
    states: dict[tuple[str, int | None], State] = {}
    plans = []
    for _, function, sql in aggregates:
        at = None if sql is None else texts.index(sql)
        plan = aggregate(function, None if at is None else arguments[at].type)
        for kept, state in plan.states.items():
            states.setdefault((kept, at), state)
        plans.append((plan, [(kept, at) for kept in plan.states]))
    numbers = {key: i for i, key in enumerate(states)}
    inner = _inner_schema(
        [(name, one.type) for (name, _), one in zip(keys, bound_keys, strict=True)]
        + [(name, plan.type) for (name, _, _), (plan, _) in zip(aggregates, plans, strict=True)],
        by_rows,
    )
    outputs = tuple(bind(sql, inner) for _, sql in columns)
    everything = [*bound_keys, *arguments, *([bound_where] if bound_where else [])]
    return Program(
        stream=stream,
        time_column=time_column,
        by_rows=by_rows,
        reads=columns_of(everything, source, time_column),
        where=bound_where,
        keys=bound_keys,
        arguments=arguments,
        partials=Partials(tuple(one.type for one in bound_keys), tuple(states.values()), tuple(at for _, at in states)),
        aggregates=tuple((plan, tuple(numbers[key] for key in needed)) for plan, needed in plans),
        names=tuple(inner.names),
        having=None if having is None else bind(having, inner),
        columns=outputs,
        schema=pa.schema([(name, one.type) for (name, _), one in zip(columns, outputs, strict=True)]),
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
