"""Unnest: the rows of one stream, once for each element of an array of theirs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.kernels.unnested import unnested
from anabranch.operators.base import Inputs, Task
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.select import ROWS_PER_BATCH, SelectRows

_ROWS_PER_READ = 1 << 15
"""Fewer than without arrays: each row may become many."""


@dataclass(frozen=True)
class UnnestRows(SelectRows):
    """Rows as `SelectRows` has them, over those of the stream beside the elements of arrays.

    `arrays` are (SQL, name of the element, name of its place or None, whether a row without elements stays), one
    after the other: a later one may be of an earlier one's elements.
    """

    kind: ClassVar[str] = "unnest"
    throws_what_it_leaves: ClassVar[bool] = False

    arrays: tuple[tuple[str, str, str | None, bool], ...] = ()

    def condition(self) -> tuple[str | None, str]:
        return None, self.stream  # the filter may be about elements

    def schema(self, inputs: Inputs) -> pa.Schema:
        return _program(self, inputs.readers[self.stream].schema).schema

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        reader = inputs.readers[self.stream]
        program = _program(self, reader.schema)
        begin, end = task.start[self.stream].row, task.end[self.stream].row
        for low in range(begin, end, _ROWS_PER_READ):
            table = reader.read(low, min(low + _ROWS_PER_READ, end), program.reads)
            inputs.work.rows_read += table.num_rows
            inputs.work.bytes_read += table.nbytes
            for (_, element, place, outer), array in zip(self.arrays, program.arrays, strict=True):
                found = unnested(array.evaluate(table), outer=outer)
                table = table.take(pa.array(found.of)).append_column(element, found.items)
                if place is not None:
                    table = table.append_column(place, found.places)
            if program.filter is not None:
                rows = table.num_rows
                table = table.filter(program.filter.evaluate(table))
                inputs.work.rows_thrown += rows - table.num_rows
            if table.num_rows:
                yield from project(table, program.columns, program.schema).to_batches(max_chunksize=ROWS_PER_BATCH)

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        arrays = {element: sql for sql, element, _, _ in self.arrays}
        reads = [{"stream": self.stream, "filter": None}]
        return {**super().explain(inputs), "arrays": arrays, "reads": reads}


@dataclass(frozen=True)
class _Program:
    """The operator bound to the schema of its stream."""

    arrays: tuple[Bound, ...]
    filter: Bound | None
    columns: tuple[Bound, ...]
    schema: pa.Schema
    reads: list[str]


@functools.lru_cache(maxsize=256)
def _program(operator: UnnestRows, source: pa.Schema) -> _Program:
    whole, arrays = source, []
    for sql, element, place, _ in operator.arrays:
        arrays.append(bind(sql, whole))
        whole = whole.append(pa.field(element, arrays[-1].type.value_type))
        if place is not None:
            whole = whole.append(pa.field(place, pa.int32()))
    columns = tuple(bind(sql, whole) for _, sql in operator.columns)
    kept = None if operator.filter is None else bind(operator.filter, whole)
    schema = pa.schema([(name, column.type) for (name, _), column in zip(operator.columns, columns, strict=True)])
    used = columns_of([*arrays, *columns, *([kept] if kept else [])], whole)
    return _Program(tuple(arrays), kept, columns, schema, [name for name in used if name in source.names])
