"""Aggregates of rows that were read in part: each answer with its bounds, and the fraction that was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive.estimation.estimates import Sums, estimates, sums_of
from anabranch.archive.estimation.sums import FUNCTIONS
from anabranch.errors import QueryError, did_you_mean
from anabranch.operators.aggregates import aggregate
from anabranch.operators.columns import Bound, bind, columns_of
from anabranch.operators.window_explain import is_of_values
from anabranch.operators.window_program import ROW_TIME, WINDOW_END, WINDOW_START, Program
from anabranch.schema import TIME_TYPE

FRACTION = "_fraction"


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
        return [function for _, function, _ in self.aggregates]

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
    ) -> Sums:
        """The sums of a sample of the rows start ≤ n < end, see `archive.sums`; how many they are, if `sized`."""
        return sums_of(
            sample,
            start,
            end,
            keep,
            [key.evaluate(sample) for _, key in self.keys],
            [None if value is None else value.evaluate(sample) for _, _, value in self.aggregates],
            None if self.where is None else self.where.evaluate(sample),
            functions=self.functions,
            by=by,
            open=open,
            above=0.0 if sized else 1.0,
        )

    def answer(
        self, sums: Sums, confidence: float, starts: Sequence[int], ends: Sequence[int], fraction: float | None = None
    ) -> pa.Table:
        """One row per group that was seen, for each of several windows of which all this is true."""
        if int(sums.cells.rows.sum()) == 0:
            return self.schema.empty_table()
        # What a standing query gives is of the types it began with.
        found = estimates(sums, self.functions, confidence, whole_sums=False)
        values: dict[str, pa.Array] = dict(zip((name for name, _ in self.keys), found.groups, strict=True))
        for (name, _, _), (value, low, high) in zip(self.aggregates, found.columns, strict=True):
            values |= {name: value, f"{name}_low": low, f"{name}_high": high}
        read = found.fraction if fraction is None else fraction
        groups, windows = len(found.columns[0][0]) if found.columns else len(found.groups[0]), len(ends)
        again = pa.array(np.tile(np.arange(groups), windows))
        values = {name: column.take(again) for name, column in values.items()}
        for name, times in ((WINDOW_START, starts), (WINDOW_END, ends), (ROW_TIME, ends)):
            values[name] = pa.array(np.repeat(np.array(times, np.int64), groups)).view(TIME_TYPE)
        arrays = [column for _, source in self.columns for column in self._shown(source, values)]
        return pa.Table.from_arrays([*arrays, pa.array(np.full(groups * windows, read))], schema=self.schema)

    def _shown(self, source: str, values: dict[str, pa.Array]) -> list[pa.Array]:
        bounded = any(source == name for name, _, _ in self.aggregates)
        return [values[each] for each in ((source, f"{source}_low", f"{source}_high") if bounded else (source,))]


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
        if any(of == each for each, _, _ in bound):
            fields += [pa.field(f"{name}_low", types[of]), pa.field(f"{name}_high", types[of])]
    bound_where = None if where is None else bind(where, source)
    everything = [key for _, key in bound_keys] + [value for _, _, value in bound if value is not None]
    reads = columns_of([*everything, *([bound_where] if bound_where else [])], source, *more)
    return Bounded(
        bound_where, bound_keys, bound, columns, pa.schema([*fields, pa.field(FRACTION, pa.float64())]), reads
    )


def _type_of(function: str, type_: pa.DataType | None) -> pa.DataType:
    if function not in FUNCTIONS:
        raise QueryError(
            "NOT_ON_REDUCED_DATA",
            f"nothing can be said about {function} from part of the rows",
            hint=f"use one of {', '.join(FUNCTIONS)}, or leave REDUCE BY out",
        )
    found = aggregate(function, type_)  # complains about arguments it cannot take
    return found.type if function in ("min", "max") else pa.float64()


def with_time(columns: tuple[tuple[str, str], ...], time: str) -> tuple[tuple[str, str], ...]:
    """The columns of an answer, its time at the end unless it is there already."""
    return columns if time in dict(columns) else (*columns, (time, ROW_TIME))


def refuse_questions(program: Program, aggregates: tuple[tuple[str, str, str | None], ...]) -> None:
    """Aggregates that need every value are not for rows that are never kept together."""
    if program.questions:
        named = next(function for _, function, _ in aggregates if is_of_values(function))
        raise QueryError(
            "AGGREGATE_NOT_AVAILABLE",
            f"{named} needs all values at once, and here only sums are kept",
            hint="use count, sum, avg, min, max, stddev, variance or approx_count_distinct",
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
