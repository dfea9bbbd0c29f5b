"""ArchiveAggregate: sums of a part of a stream's past, from which aggregates over all of it are estimated."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.packing import PACKED
from anabranch.archive.estimation.sums import Drawn, Sums, number_of, sums_of, together
from anabranch.archive.facts import ANYTHING, Aside, Range, places_in, with_aside
from anabranch.archive.reducers import Spec, reducer_of
from anabranch.expressions.ranges import range_of
from anabranch.functions.aggregates import estimator_of
from anabranch.kernels.hashing import hashes
from anabranch.kernels.sampling import kept, key_lots, lots
from anabranch.kernels.values import one_array
from anabranch.operators.archive.pieces import HistoryScan, Sample, told
from anabranch.operators.base import HistoryLog, Inputs, Offsets, Operator, Task, Work
from anabranch.operators.columns import Bound, bind, columns_of

LEAST_ROWS = 64
"""A reducer leaves about so many rows of each piece at least: of what no row was read nothing can be said."""
_SUMS_AT_ONCE = 16


@dataclass(frozen=True)
class ArchiveAggregate(Operator):
    """Sums of the part `keep` of the rows of `stream` from `since` to before `until` (µs), to be estimated from.

    `keys` are (name, SQL), `aggregates` (name, function, SQL of the argument or None). `by`: whole keys of that column
    are kept. `reducer` says how much of each piece is kept, in place of `keep` and `by`. `above`: only the rows that
    a read of that smaller part does not have, to be added to its sums (`Sums.raised`).

    The answer is one packed `Sums`.
    """

    kind: ClassVar[str] = "archive_aggregate"
    reads_history: ClassVar[bool] = True
    asked_once: ClassVar[bool] = True

    stream: str
    since: int | None
    until: int | None
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    filter: str | None = None
    keep: float = 1.0
    by: str | None = None
    archive: str | None = None
    above: float = 0.0
    reducer: Spec | None = None
    time: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

    def schema(self, inputs: Inputs) -> pa.Schema:
        return PACKED

    def bytes_to_read(self, end: Offsets, inputs: Inputs) -> int:
        log = inputs.history(self.stream, self.archive)
        return _program(self, log.schema).scan.bytes_to_read(log, end[self.stream].row)

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        log = inputs.history(self.stream, self.archive)
        scan = _program(self, log.schema).scan
        tasks = scan.plan(self.stream, start[self.stream], end[self.stream], log, parallelism)
        # Also of nothing there are sums: a count of it is zero.
        return tasks or [Task(dict(start), dict(end), {"portions": []})]

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        log = inputs.history(self.stream, self.archive)
        program = _program(self, log.schema)
        nothing = log.schema.empty_table().add_column(0, "_row", pa.array([], pa.int64()))
        sums = [program.sums(Sample(0, 0, self.keep, nothing), log)]
        for sample in program.scan.samples(task, task.end[self.stream].time, log, inputs.work):
            sums.append(program.sums(sample, log))
            if len(sums) >= _SUMS_AT_ONCE:
                sums = [together(sums)]
        yield from together(sums).to_table().to_batches()

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        return Sums.from_table(answers).to_table()

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "archive": self.archive,
            "since": self.since,
            "until": self.until,
            "reducer": told(self.reducer),
            "keep": self.keep,
            "by": self.by,
            "filter": self.filter,
            "keys": dict(self.keys),
            "aggregates": {name: f"{function}({argument or '*'})" for name, function, argument in self.aggregates},
            "keeps": None,
        }


@dataclass(frozen=True)
class _Program:
    """An ArchiveAggregate bound to the schema of its stream."""

    filter: Bound | None
    keys: tuple[Bound, ...]
    functions: tuple[str, ...]
    values: tuple[Bound | None, ...]
    by: str | None
    above: float
    scan: HistoryScan

    def sums(self, sample: Sample, log: HistoryLog) -> Sums:
        """The sums of one sample."""
        rows, far = self._with_aside(sample)
        if self.above > 0 and rows.num_rows:
            drawn = (
                lots(one_array(rows.column("_row")).to_numpy(), log.seed)
                if self.by is None
                else key_lots(rows.column(self.by), log.seed)
            )
            # What lies far out was all read before.
            rows = rows.filter(pa.array(kept(drawn, 1.0, self.above) & ~far))
        # The same argument of several functions is computed once.
        arguments = {value.sql: value.evaluate(rows) for value in self.values if value is not None}
        sums = sums_of(
            rows,
            Drawn(
                sample.start,
                sample.end,
                sample.keep,
                by=None if self.by is None else np.ascontiguousarray(hashes(rows.column(self.by))),
                above=self.above,
                complete=self.whole_keys,
                far=None if self.above > 0 else far,
                ranges=None if sample.aside is None else self._ranges(sample.aside, log.schema),
                told=sample.aside is None or sample.aside.told,
            ),
            [key.evaluate(rows) for key in self.keys],
            [None if value is None else arguments[value.sql] for value in self.values],
            None if self.filter is None else self.filter.evaluate(rows),
            self.functions,
        )
        if self.above <= 0 or sample.aside is None:
            return sums
        return replace(sums, apart=number_of(one_array(sample.aside.rows.column("_row")).to_numpy()))

    @property
    def whole_keys(self) -> bool:
        """Whether groups are keys that are kept whole."""
        return self.by is not None and any(key.is_column and key.columns[0] == self.by for key in self.keys)

    @staticmethod
    def _with_aside(sample: Sample) -> tuple[pa.Table, NDArray[np.bool_]]:
        """The rows of a sample and those that lie far out, each once, and which of them do."""
        rows = sample.rows
        if sample.aside is None or not sample.aside.rows.num_rows:
            return rows, np.zeros(rows.num_rows, bool)
        if sample.keep >= 1:
            return rows, places_in(rows.column("_row"), sample.aside.rows.column("_row"))
        return with_aside(rows, sample.aside.rows)

    def _ranges(self, aside: Aside, schema: pa.Schema) -> list[Range]:
        """Between which values each argument lies, of rows that do not lie far out."""
        return [ANYTHING if value is None else range_of(value.sql, schema, aside.ranges) for value in self.values]


@functools.lru_cache(maxsize=256)
def _program(aggregate: ArchiveAggregate, source: pa.Schema) -> _Program:
    keys = tuple(bind(sql, source) for _, sql in aggregate.keys)
    values = tuple(None if sql is None else bind(sql, source) for _, _, sql in aggregate.aggregates)
    kept_rows = None if aggregate.filter is None else bind(aggregate.filter, source)
    by = aggregate.by if aggregate.reducer is None else reducer_of(aggregate.reducer).by
    bound = [*keys, *(value for value in values if value is not None), *([kept_rows] if kept_rows else [])]
    reads = columns_of(bound, source, *([] if by is None else [by]))
    functions = tuple(estimator_of(function) for _, function, _ in aggregate.aggregates)
    scan = HistoryScan(
        aggregate.since, aggregate.until, reads, aggregate.reducer, aggregate.keep, aggregate.by, LEAST_ROWS
    )
    program = _Program(kept_rows, keys, functions, values, by, aggregate.above, scan)
    estimated = any(function in ("sum", "avg") for function in functions) and not program.whole_keys
    return replace(program, scan=replace(scan, estimates=estimated))
