"""One source of a join: its rows by number and time, with columns named `alias.column`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.bounds import first_at_least
from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.values import Column, frozen, integers
from anabranch.operators.base import LogReader, Work
from anabranch.operators.columns import Bound
from anabranch.operators.windows.program import kept_rows

Ints = NDArray[np.int64]
NO_ROW = -1
"""In place of a row's number: there is none."""


def named(alias: str, schema: pa.Schema) -> pa.Schema:
    """The columns of a source as conditions call them."""
    return pa.schema([field.with_name(f"{alias}.{field.name}") for field in schema])


class Kept(NamedTuple):
    """Rows that pass the source's filter: their numbers, and what was asked of them."""

    rows: Ints
    times: Ints
    table: pa.Table


@dataclass(frozen=True)
class KeyShare:
    """The part of a task: rows by the hash of a key that all sources share."""

    part: int = 0
    parts: int = 1


class Shed(Protocol):
    """Which rows are not kept for those to come; see `shedding`."""

    @property
    def name(self) -> str: ...

    def keeps(self, rows: Ints, times: Ints, table: pa.Table) -> NDArray[np.bool_]: ...

    @property
    def columns(self) -> Sequence[str]: ...


class SourceRows:
    """Reads the rows of a source."""

    def __init__(
        self,
        alias: str,
        reader: LogReader,
        where: Bound | None,
        work: Work,
        share: KeyShare | None = None,
        key: Bound | None = None,
    ) -> None:
        self.alias = alias
        self._reader = reader
        self._where = where
        self._work = work
        self._share = share
        self._key = key
        self.shed: Shed | None = None

    @property
    def identity(self) -> str:
        """Which rows others can be joined with, for whoever keeps something about them."""
        part = "" if self._share is None or self._key is None else f" part {self._share} of {self._key.sql}"
        shed = "" if self.shed is None else f" {self.shed.name}"
        return f"{self.filtered}{part}{shed}"

    @property
    def filtered(self) -> str:
        """Which rows pass the source's filter."""
        return f"{self._reader.identity} where {self._where.sql if self._where else 'all'}"

    def _own(self, columns: Sequence[str]) -> list[str]:
        return [name[len(self.alias) + 1 :] for name in columns]

    def partners(self, low: int, high: int, columns: Sequence[str] = ()) -> Kept:
        """Rows low ≤ n < high that later rows are joined with."""
        if self.shed is None:
            return self.kept(low, high, columns)
        more = [*columns, *(name for name in self.shed.columns if name not in columns)]
        kept = self.kept(low, high, more)
        mask = self.shed.keeps(kept.rows, kept.times, kept.table)
        table = kept.table.select(list(columns))
        return Kept(frozen(kept.rows[mask]), frozen(kept.times[mask]), table.filter(pa.array(mask)))

    def kept(self, low: int, high: int, columns: Sequence[str] = (), *, all_parts: bool = False) -> Kept:
        """Rows low ≤ n < high that pass the filter, with their times and some columns."""
        own, time = self._own(columns), self._reader.time_column
        tested = list(self._where.columns) if self._where else []
        shared = self._own(self._key.columns) if self._key else []
        table = self._reader.read(low, high, list(dict.fromkeys([time, *own, *tested, *shared])))
        self._work.rows_read += table.num_rows
        self._work.bytes_read += table.nbytes
        rows = np.arange(low, low + table.num_rows)
        if self._where is not None:
            keep = kept_rows(self._where, table)
            if not keep.all():
                table, rows = table.filter(pa.array(keep)), rows[keep]
        if self._share is not None and self._key is not None and not all_parts:
            prefixed = table.rename_columns([f"{self.alias}.{name}" for name in table.column_names])
            hashed = hashes_of_rows([self._key.evaluate(prefixed)], table.num_rows)
            mine = hashed % np.uint64(self._share.parts) == np.uint64(self._share.part)
            table, rows = table.filter(pa.array(mine)), rows[mine]
        times = integers(table.column(time))
        return Kept(frozen(rows), times, table.select(own).rename_columns(list(columns)))

    def take(self, columns: Sequence[str], rows: Ints) -> list[Column]:
        """Columns of the given rows, in any order; all NULL where it is NO_ROW."""
        there = rows if len(rows) == 0 or rows.min() >= 0 else rows[rows != NO_ROW]
        if len(there) == 0:
            schema = named(self.alias, self._reader.schema)
            return [pa.nulls(len(rows), schema.field(name).type) for name in columns]
        if not columns:
            return []
        low, high = int(there.min()), int(there.max()) + 1
        table = self._reader.read(low, high, self._own(columns))
        places = pa.array(rows - low, mask=None if there is rows else rows == NO_ROW)
        return [column.take(places) for column in table.columns]

    def at(self, rows: Ints, columns: Sequence[str]) -> Kept:
        """Some columns of the given rows, of which it is known that they pass the filter."""
        time = f"{self.alias}.{self._reader.time_column}"
        times, *taken = self.take([time, *columns], rows)
        return Kept(frozen(rows), frozen(integers(times)), pa.Table.from_arrays(taken, names=list(columns)))

    def values(self, value: Bound, rows: Ints) -> Column:
        """An expression over this source's columns, for the given rows."""
        names = value.columns
        table = pa.Table.from_arrays(self.take(names, rows), names=list(names))
        return value.evaluate(table)

    def times(self, rows: Ints) -> Ints:
        """The times of rows."""
        return integers(self.take([f"{self.alias}.{self._reader.time_column}"], rows)[0])

    def first_at(self, times: Ints, shift: int, end: int) -> Ints:
        """For each time + shift the first row below `end` that is not older, else `end`."""
        firsts = np.empty(len(times), np.int64)
        if len(times) == 0:
            return firsts
        low = self._reader.row_at_time(int(times.min()) + shift, end)
        high = self._reader.row_at_time(int(times.max()) + shift, end)
        ordered = integers(self._reader.read(low, high, [self._reader.time_column]).column(0))
        first_at_least(ordered, frozen(times), shift, firsts)
        firsts += low
        return firsts

    def row_at(self, time: int, end: int) -> int:
        return self._reader.row_at_time(time, end)
