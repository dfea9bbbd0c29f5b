"""TableJoin: rows of a stream, each beside the row of a table that was in force at its time.

What a stream's row meets can change no more once the table's time has passed that of the row: then it is answered, for
good. A table's time is the clock, which goes on though nothing is changed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.keyed import Places
from anabranch.kernels.values import integers, one_array
from anabranch.kernels.versions import versions_at
from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, Offset, Offsets, Operator, Task, first_time
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.table.keys import as_keys, present, true
from anabranch.operators.table.states import oldest_state, state_from, with_keys
from anabranch.schema import TIME_TYPE

ROWS_PER_TASK = 200_000
"""Below this, starting another task costs more than it gains."""
_ROWS_PER_READ = 1 << 18
_ROWS_PER_BATCH = 1 << 17
_TIME = "_time"


@dataclass(frozen=True)
class TableJoin(Operator):
    """Rows of `stream`, called `alias`, with the row of a table, called `table`, whose key `keys` say.

    `changes` is the log of the table's changes, after which a row is there if `comes` is true, a condition over its
    columns. `keys` are (SQL over the stream's columns, column of the table's key), `filter` is over the former, too;
    `conditions` are the others of ON, `where` those of WHERE, both over columns named `alias.column`, as `columns` are,
    (name, SQL), which may also use `_time`. A row that meets none is answered with NULLs if it is a `left` join.
    """

    kind: ClassVar[str] = "table_join"
    why_throw: ClassVar[str] = "rows that WHERE dropped, or that meet no row of the table"

    stream: str
    alias: str
    changes: str
    table: str
    keys: tuple[tuple[str, str], ...]
    comes: str
    join: Literal["inner", "left"]
    conditions: tuple[str, ...]
    where: str | None
    columns: tuple[tuple[str, str], ...]
    time: str
    filter: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.stream, self.changes)))

    def aliases(self) -> tuple[str, ...]:
        return (self.alias, self.table)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self._program(inputs).schema

    # -- plan and run ------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        low, high = self._answered(start, inputs), self._answered(end, inputs)
        if high <= low:
            return []
        count = max(1, min(parallelism, (high - low) // ROWS_PER_TASK))
        cuts = [low + (high - low) * i // count for i in range(count + 1)]
        return [Task(dict(start), dict(end), {"from": cuts[i], "to": cuts[i + 1]}) for i in range(count)]

    def _answered(self, at: Offsets, inputs: Inputs) -> int:
        """Rows of the stream before this one are answered: those that the table's time has passed."""
        time = at[self.changes].time
        reader = inputs.readers[self.stream]
        return reader.first_row() if time == MIN_TIME else reader.row_at_time(time, at[self.stream].row)

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        program, reader = self._program(inputs), inputs.readers[self.stream]
        for low in range(task.detail["from"], task.detail["to"], _ROWS_PER_READ):
            rows = reader.read(low, min(low + _ROWS_PER_READ, task.detail["to"]), program.reads)
            count = rows.num_rows
            inputs.work.rows_read += count
            inputs.work.bytes_read += rows.nbytes
            if program.filter is not None:
                rows = rows.filter(program.filter.evaluate(rows))
            answer = self._joined(program, rows.combine_chunks(), task.end[self.changes].row, inputs)
            inputs.work.rows_thrown += count - answer.num_rows
            yield from answer.to_batches(max_chunksize=_ROWS_PER_BATCH)

    def _joined(self, program: _Program, rows: pa.Table, end: int, inputs: Inputs) -> pa.Table:
        if not rows.num_rows:
            return program.schema.empty_table()
        met, table = self._met(program, rows, end, inputs)
        pairs = self._pairs(program, rows, table)
        for condition in program.conditions:
            met &= true(condition.evaluate(pairs))
        if self.join == "inner":
            pairs = pairs.filter(pa.array(met))
        elif program.conditions:
            pairs = self._pairs(program, rows, table.take(pa.array(np.arange(len(met)), mask=~met)))
        if program.where is not None:
            pairs = pairs.filter(pa.array(true(program.where.evaluate(pairs))))
        return project(pairs, program.columns, program.schema)

    def _met(self, program: _Program, rows: pa.Table, end: int, inputs: Inputs) -> tuple[NDArray[np.bool_], pa.Table]:
        """Which rows meet one of the table, and that, or NULLs, for each."""
        times = integers(rows.column(program.time))
        log = inputs.readers[self.changes]
        # Where older changes were let go, the oldest state there is stands for those before; what a query has yet to
        # answer holds that, so it stays the same.
        begin = max(log.row_at_time(int(times[0]), end), oldest_state(log))
        until = max(log.row_at_time(int(times[-1]) + 1, end), begin)
        state = state_from(log, begin, self._key, self.comes)
        changes = with_keys(log.read(begin, until, program.reads_of_changes), self._key).combine_chunks()
        inputs.work.rows_read += changes.num_rows
        given = [
            as_keys(one_array(value.evaluate(rows)), kind)
            for value, kind in zip(program.keys, program.key_types, strict=True)
        ]
        whole = np.flatnonzero(present(given, rows.num_rows))
        keys = [one_array(column.take(pa.array(whole))) for column in given]
        version = _versions(program, changes, keys, times[whole])
        places: Places = np.full(rows.num_rows, -1, np.int64)
        since_long = version < 0
        places[whole[since_long]] = state.find([column.filter(pa.array(since_long)) for column in keys])
        there = np.zeros(len(whole), np.bool_)
        there[~since_long] = true(program.comes.evaluate(changes))[version[~since_long]]
        source = np.arange(rows.num_rows)
        source[whole[there]] = rows.num_rows + version[there]
        names = program.reads_of_table
        both = pa.concat_tables([state.take(places, names), changes.select(names)])
        met = (places >= 0) | (source >= rows.num_rows)
        return met, both.combine_chunks().take(pa.array(source))

    def _pairs(self, program: _Program, rows: pa.Table, table: pa.Table) -> pa.Table:
        names = [f"{self.alias}.{name}" for name in rows.column_names]
        theirs = [f"{self.table}.{name}" for name in table.column_names]
        time = rows.column(program.time)
        return pa.table([*rows.columns, *table.columns, time], names=[*names, *theirs, _TIME])

    @property
    def _key(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.keys)

    def _program(self, inputs: Inputs) -> _Program:
        stream, changes = inputs.readers[self.stream], inputs.readers[self.changes]
        return _program_of(self, stream.schema, changes.schema, stream.time_column, changes.time_column)

    # -- what it has reached and needs -------------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        return min(end[name].time for name in self.inputs)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """A row waits until the table's time has passed its own."""
        waiting = first_time(inputs.readers[self.stream], at[self.changes].time, at[self.stream].row)
        return {} if waiting is None else {self.changes: waiting + 1}

    def needs(self, at: Offsets) -> dict[str, Floor]:
        floors = {self.changes: Floor(at[self.changes].row, self.reached(at))}
        if self.stream not in floors:
            floors[self.stream] = Floor(at[self.stream].row, at[self.changes].time)
        return floors

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        return {name: Offset(inputs.readers[name].first_logged_row()) for name in self.inputs}

    def keeps(self) -> Keeps | None:
        return Keeps("the table's rows, by key", "the keys of the table")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "join": self.join,
            "keys": {f"{self.table}.{name}": sql for sql, name in self.keys},
            "filter": self.filter,
            "conditions": list(self.conditions),
            "where": self.where,
            "columns": dict(self.columns),
            "time": self.time,
            "keeps": {"what": keeps.what, "bound": keeps.bound},
        }


def _versions(program: _Program, changes: pa.Table, keys: list[pa.Array], times: NDArray[np.int64]) -> Places:
    """For each key the last of the changes up to its time; -1 if there is none."""
    known = [one_array(changes.column(name)) for name in program.key_names]
    both = [pa.concat_arrays([ours, theirs]) for ours, theirs in zip(known, keys, strict=True)]
    codes = encode(both, len(both[0])).codes.astype(np.int64)
    count = changes.num_rows
    return versions_at(codes[:count], integers(changes.column(program.changed)), codes[count:], times)


@dataclass(frozen=True)
class _Program:
    """The operator bound to the columns of its stream and table."""

    keys: tuple[Bound, ...]
    key_names: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    comes: Bound
    filter: Bound | None
    conditions: tuple[Bound, ...]
    where: Bound | None
    columns: tuple[Bound, ...]
    schema: pa.Schema
    time: str
    changed: str
    reads: list[str]
    reads_of_table: list[str]
    reads_of_changes: list[str]


@functools.lru_cache(maxsize=256)
def _program_of(join: TableJoin, stream: pa.Schema, changes: pa.Schema, time: str, changed: str) -> _Program:
    ours = [pa.field(f"{join.alias}.{field.name}", field.type) for field in stream]
    theirs = [pa.field(f"{join.table}.{field.name}", field.type) for field in changes]
    joined = pa.schema([*ours, *theirs, pa.field(_TIME, TIME_TYPE)])
    columns = tuple(bind(sql, joined) for _, sql in join.columns)
    conditions = tuple(bind(sql, joined) for sql in join.conditions)
    where = None if join.where is None else bind(join.where, joined)
    keys = tuple(bind(sql, stream) for sql, _ in join.keys)
    key_names = tuple(name for _, name in join.keys)
    kept = None if join.filter is None else bind(join.filter, stream)
    comes = bind(join.comes, changes)
    used = set(columns_of([*columns, *conditions, *([where] if where else [])], joined))
    named = [field.name for field in stream if f"{join.alias}.{field.name}" in used]
    of_table = [field.name for field in changes if f"{join.table}.{field.name}" in used]
    schema = pa.schema([(name, column.type) for (name, _), column in zip(join.columns, columns, strict=True)])
    return _Program(
        keys,
        key_names,
        tuple(changes.field(name).type for name in key_names),
        comes,
        kept,
        conditions,
        where,
        columns,
        schema,
        time,
        changed,
        columns_of([*keys, *([kept] if kept else [])], stream, time, *named),
        of_table or list(key_names[:1]),
        columns_of([comes], changes, changed, *key_names, *of_table),
    )
