"""Replaced: an arrangement in which each key has one row, and a row that comes takes the place of the one before.

What is known of a group changes with each row that comes to it, so that to write down what went and what came would
be twice the work: here the newest run that has a key says what its row is. A weight of 0 says that there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.same_rows import same_rows
from anabranch.kernels.sorted_codes import Codes, in_order, merged, pairs
from anabranch.operators.tree.arrangement import Arrangement, Found
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.runs import Run, joined

Places = NDArray[np.int64]


class Latest(NamedTuple):
    """The rows of some keys, and the place of each one's key among those that were asked for."""

    rows: pa.Table
    of: Places


class Replaced(Arrangement):
    """See the module; the codes that are asked for are those of `runs.hashed`. Rows stand as their entries do."""

    def latest(self, keys: Sequence[pa.Array], codes: Codes) -> Latest:
        """The rows that are there, of keys that may be the same."""
        parts: list[pa.Table] = []
        of: list[Places] = []
        left = np.arange(len(codes))
        for run in reversed(self._runs):
            found = pairs(run.codes, codes[left])
            asked = left[found.asked]
            same = same_rows([run.rows.column(name) for name in self.key], found.found, keys, asked)
            if not same.all():
                asked, found = asked[same], type(found)(found.asked[same], found.found[same])
            if not len(asked):
                continue
            open_ = np.ones(len(left), np.bool_)
            open_[found.asked] = False
            left = left[open_]
            there = run.weights[found.found] != 0
            places = found.found if there.all() else found.found[there]
            of.append(asked if there.all() else asked[there])
            parts.append(run.rows.take(pa.array(places)))
        if not parts:
            return Latest(self.schema.empty_table(), np.zeros(0, np.int64))
        if len(parts) == 1:
            return Latest(parts[0], of[0])
        return Latest(pa.concat_tables(parts).combine_chunks(), np.concatenate(of))

    def put(self, rows: pa.Table, codes: Codes, stays: NDArray[np.bool_]) -> None:
        """Rows take the place of those with their keys, which are all different; those that do not stay only go."""
        if not len(codes):
            return
        weights = stays.astype(np.int64)
        if (codes[1:] < codes[:-1]).any():
            order = in_order(codes, codes)
            rows, weights, codes = rows.take(pa.array(order)), weights[order], codes[order]
        run = Run.of(rows, weights, codes, codes)
        self._runs = joined([*self._runs, run], self._join) if self._runs else joined([_alive(run)], self._join)

    def take_in(self, changes: Changes) -> None:
        """Rows that come, one of each key, in the place of those before; rows that go where none comes."""
        comes = np.flatnonzero(changes.weights > 0)
        gone = np.flatnonzero(changes.weights < 0)
        places = np.concatenate([comes, gone])
        rows = changes.rows.take(pa.array(places))
        columns = [rows.column(name).combine_chunks() for name in self.key]
        groups = encode(columns, len(places))
        first = np.full(groups.size, len(places), np.int64)
        np.minimum.at(first, groups.codes, np.arange(len(places)))
        some = rows.take(pa.array(first))
        codes = self._code_of([some.column(name) for name in self.key], len(first))
        self.put(some, codes, first < len(comes))

    def all(self) -> Changes:
        """All rows."""
        if not self._runs:
            return Changes.none(self.schema)
        whole = self._runs[-1]
        for number in range(len(self._runs) - 2, -1, -1):
            whole = self._join(self._runs[number], whole, number == 0)
        return _alive(whole).changes()

    def found(self, keys: Sequence[pa.Array], count: int) -> Found:
        """The rows of some keys."""
        rows, of = self.latest(keys, self._code_of(keys, count))
        return Found(Changes.of(rows), of)

    def meeting(self, keys: Sequence[pa.Array], count: int) -> Iterator[tuple[Places, Changes]]:
        """The row beside each of some keys, which may be the same."""
        rows, of = self.latest(keys, self._code_of(keys, count))
        yield of, Changes.of(rows)

    def _join(self, older: Run, newer: Run, oldest: bool) -> Run:
        found = pairs(older.codes, newer.codes)
        columns = [[run.rows.column(name) for name in self.key] for run in (older, newer)]
        same = same_rows(columns[0], found.found, columns[1], found.asked)
        stays = np.ones(len(older) + len(newer), np.bool_)
        stays[found.found[same]] = False
        if oldest:
            stays[: len(older)] &= older.weights != 0
            stays[len(older) :] = newer.weights != 0
        order = merged(older.codes, older.ranks, newer.codes, newer.ranks)
        order = order[stays[order]]
        rows = pa.concat_tables([older.rows, newer.rows]).combine_chunks().take(pa.array(order))
        weights = np.concatenate([older.weights, newer.weights])[order]
        codes = np.concatenate([older.codes, newer.codes])[order]
        return Run.of(rows, weights, codes, codes)


def _alive(run: Run) -> Run:
    stays = run.weights != 0
    if stays.all():
        return run
    rows = run.rows.filter(pa.array(stays))
    return Run.of(rows, run.weights[stays], run.codes[stays], run.ranks[stays])
