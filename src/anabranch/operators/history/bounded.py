"""Aggregates of rows that were read in part: each answer with its bounds, and the fraction that was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.estimates import Sums, estimates, sums_of
from anabranch.archive.estimation.reasons import counted
from anabranch.archive.estimation.sums import Drawn
from anabranch.archive.facts import ANYTHING, Range, Ranges
from anabranch.errors import QueryError, did_you_mean
from anabranch.expressions.ranges import range_of
from anabranch.functions.aggregates import aggregate, estimator_of, rows
from anabranch.kernels.values import integers
from anabranch.operators.base import MIN_TIME, Work
from anabranch.operators.columns import Bound, bind, columns_of
from anabranch.operators.history.withheld import KIND as WITHHELD
from anabranch.operators.windows.explain import is_of_values
from anabranch.operators.windows.program import ROW_TIME, WINDOW_END, WINDOW_START, WindowProgram
from anabranch.schema import TIME_TYPE

FRACTION = "_fraction"
LAST = "__last"
"""Where it is wanted, the last aggregate: the time of a group's newest row."""


@dataclass(frozen=True)
class Bounded:
    """What is summed up of rows, and the columns of the answer."""

    where: Bound | None
    keys: tuple[tuple[str, Bound], ...]
    aggregates: tuple[tuple[str, str, Bound | None], ...]
    columns: tuple[tuple[str, str], ...]
    schema: pa.Schema
    reads: list[str]

    @property
    def functions(self) -> list[str]:
        """What tells each aggregate from part of the rows."""
        return [estimator_of(function) for _, function, _ in self.aggregates]

    def sums(
        self,
        sample: pa.Table,
        start: int,
        end: int,
        keep: float,
        by: NDArray[np.uint64] | None = None,
        *,
        open: bool = False,
        sized: bool = True,
        far: NDArray[np.bool_] | None = None,
        earlier: NDArray[np.int64] | None = None,
        ranges: Sequence[Range] | None = None,
        told: bool = True,
    ) -> Sums:
        """The sums of a sample of the rows start ≤ n < end, see `archive.sums`; how many they are, if `sized`."""
        return sums_of(
            sample,
            Drawn(
                start,
                end,
                keep,
                by,
                open,
                above=0.0 if sized else 1.0,
                far=far,
                earlier=earlier,
                ranges=ranges,
                told=told,
            ),
            [key.evaluate(sample) for _, key in self.keys],
            [None if value is None else value.evaluate(sample) for _, _, value in self.aggregates],
            None if self.where is None else self.where.evaluate(sample),
            self.functions,
        )

    @property
    def estimates(self) -> bool:
        """Whether something is summed up whose values may lie far out."""
        return any(function in ("sum", "avg") for function in self.functions)

    def ranges(self, schema: pa.Schema, known: Ranges) -> list[Range]:
        """Between which values each argument lies, from the ranges of columns."""
        return [
            ANYTHING if argument is None else range_of(argument.sql, schema, known)
            for _, _, argument in self.aggregates
        ]

    def answer(
        self,
        sums: Sums,
        confidence: float,
        starts: Sequence[int],
        ends: Sequence[int],
        work: Work,
        fraction: float | None = None,
        since: int = MIN_TIME,
    ) -> pa.Table:
        """One row per group that was seen, for each of several windows of which all this is true.

        `since`: only groups of which a row was read that is not older.
        """
        if int(sums.cells.rows.sum()) == 0:
            return self.schema.empty_table()
        # What a standing query gives is of the types it began with.
        estimated = estimates(sums, self.functions, confidence, whole_sums=False)
        withheld = dict(zip((name for name, _, _ in self.aggregates), estimated.withheld, strict=True))
        for name, source in self.columns:
            for why, number in counted(withheld[source]).items() if source in withheld else ():
                work.report(WITHHELD, {f"{name}: {why}": number * len(ends)})
        values: dict[str, pa.Array] = dict(zip((name for name, _ in self.keys), estimated.groups, strict=True))
        for (name, _, _), (value, low, high) in zip(self.aggregates, estimated.columns, strict=True):
            values |= {name: value, f"{name}_low": low, f"{name}_high": high}
        read = estimated.fraction if fraction is None else fraction
        groups, windows = len(estimated.columns[0][0]) if estimated.columns else len(estimated.groups[0]), len(ends)
        again = pa.array(np.tile(np.arange(groups), windows))
        values = {name: column.take(again) for name, column in values.items()}
        for name, times in ((WINDOW_START, starts), (WINDOW_END, ends), (ROW_TIME, ends)):
            values[name] = pa.array(np.repeat(np.array(times, np.int64), groups)).view(TIME_TYPE)
        arrays = [column for _, source in self.columns for column in self._shown(source, values)]
        answer = pa.Table.from_arrays([*arrays, pa.array(np.full(groups * windows, read))], schema=self.schema)
        return answer if since == MIN_TIME else answer.filter(pa.array(integers(values[LAST]) >= since))

    def _shown(self, source: str, values: dict[str, pa.Array]) -> list[pa.Array]:
        bounded = any(source == name for name, _, _ in self.aggregates)
        return [values[column] for column in ((source, f"{source}_low", f"{source}_high") if bounded else (source,))]


def bind_bounded(
    source: pa.Schema,
    keys: tuple[tuple[str, str], ...],
    aggregates: tuple[tuple[str, str, str | None], ...],
    columns: tuple[tuple[str, str], ...],
    where: str | None,
    *more: str,
) -> Bounded:
    """Bind aggregates to the columns of a stream; `more` are columns that are read besides."""
    bound_keys = tuple((name, bind(sql, source)) for name, sql in keys)
    bound = tuple((name, function, None if sql is None else bind(sql, source)) for name, function, sql in aggregates)
    types = {name: key.type for name, key in bound_keys}
    types |= dict.fromkeys((WINDOW_START, WINDOW_END, ROW_TIME), TIME_TYPE)
    for name, function, value in bound:
        types[name] = _type_of(function, None if value is None else value.type)
    fields: list[pa.Field] = []
    for name, of in columns:
        fields.append(pa.field(name, types[of]))
        if any(of == name for name, _, _ in bound):
            fields += [pa.field(f"{name}_low", types[of]), pa.field(f"{name}_high", types[of])]
    bound_where = None if where is None else bind(where, source)
    everything = [key for _, key in bound_keys] + [value for _, _, value in bound if value is not None]
    reads = columns_of([*everything, *([bound_where] if bound_where else [])], source, *more)
    return Bounded(
        bound_where, bound_keys, bound, columns, pa.schema([*fields, pa.field(FRACTION, pa.float64())]), reads
    )


def _type_of(function: str, type_: pa.DataType | None) -> pa.DataType:
    estimator = estimator_of(function)
    computed = aggregate(function, type_)  # complains about arguments it cannot take
    return computed.type if estimator in ("min", "max") else pa.float64()


def with_time(columns: tuple[tuple[str, str], ...], time: str) -> tuple[tuple[str, str], ...]:
    """The columns of an answer, its time at the end unless it is there already."""
    return columns if time in dict(columns) else (*columns, (time, ROW_TIME))


def refuse_questions(program: WindowProgram, aggregates: tuple[tuple[str, str, str | None], ...]) -> None:
    """Aggregates that need every value are not for rows that are never kept together."""
    if program.questions:
        named = next(function for _, function, _ in aggregates if is_of_values(function))
        *others, last = (row.name for row in rows() if row.bind is not None and row.kind != "holistic")
        raise QueryError(
            "AGGREGATE_NOT_AVAILABLE",
            f"{named} needs all values at once, and here only sums are kept",
            hint=f"use {', '.join(others)} or {last}",
        )


def column_of(name: str | None, schema: pa.Schema) -> str | None:
    """A column as the stream spells it."""
    if name is None:
        return None
    names: list[str] = schema.names
    for known in names:
        if known.lower() == name.lower():
            return known
    raise QueryError("COLUMN_NOT_FOUND", f'column "{name}" does not exist', hint=did_you_mean(name, names))
