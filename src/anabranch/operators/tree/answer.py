"""The answer of a tree as rows of a log: what came, went, and is otherwise than before, by the key of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from anabranch.kernels.groups import encode
from anabranch.kernels.refining import Places, refined
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.gathered import Gathered
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE
from anabranch.tables.declaration import AFTER, BEFORE, CHANGE, DELETE, INSERT, NUMBER, VERSION, changes_schema

if TYPE_CHECKING:
    from anabranch.operators.tree.numbers import Numbers

BEGINNING = -62_135_596_800_000_000
"""The year 1, as the time of an answer before any stream has one."""


class Answered(Protocol):
    """What has an answer: its columns, and those of them that differ in each row, if any do."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def key(self) -> tuple[str, ...]: ...

    @property
    def is_one_row(self) -> bool: ...


def answer_schema(rows: pa.Schema, columns: tuple[str, ...], *, numbered: bool) -> pa.Schema:
    """The columns of the log of an answer whose last node has columns `rows`."""
    named = [pa.field(name, field.type) for name, field in zip(columns, rows, strict=True)]
    number = [pa.field(NUMBER, pa.int64())] if numbered else []
    return changes_schema(pa.schema([*named, *number]))


def told(changes: Changes, numbers: Numbers | None, tree: Answered, version: int, time: int) -> pa.Table:
    """Consolidated changes as rows of the log: what goes, then updates in pairs, then what comes.

    `numbers`, where the answer has no key, holds how often each row of the answer comes; the changes are taken in.
    """
    changes = changes.take(_order(changes.gathered, [tree.columns.index(name) for name in tree.key]))
    rows = changes.gathered
    if numbers is not None:
        return _logged(*_numbered(changes, numbers), tree, version, time)
    key = encode([rows.column(tree.columns.index(name)) for name in tree.key], len(changes))
    _refuse_twice(changes, key.codes, key.size)
    came = np.full(key.size, -1, np.int64)
    gone = np.full(key.size, -1, np.int64)
    places = np.arange(len(changes))
    came[key.codes[changes.weights > 0]] = places[changes.weights > 0]
    gone[key.codes[changes.weights < 0]] = places[changes.weights < 0]
    both = (came >= 0) & (gone >= 0)
    pairs = np.stack([gone[both], came[both]], axis=1).ravel()
    only_gone, only_came = gone[~both & (gone >= 0)], came[~both & (came >= 0)]
    order = np.concatenate([only_gone, pairs, only_came])
    said = pa.chunked_array(
        [
            pa.repeat(DELETE, len(only_gone)),
            pa.array([BEFORE, AFTER]).take(pa.array(np.tile([0, 1], len(pairs) // 2))),
            pa.repeat(INSERT, len(only_came)),
        ]
    )
    number = np.zeros(len(order), np.int64) if tree.is_one_row else None
    return _logged(rows.take(order), number, said, tree, version, time)


def _order(rows: Gathered, key: Sequence[int]) -> Places:
    """The rows in the order of the answer's key, or of all columns: how they lay in memory shows nowhere."""
    places, bounds = np.arange(len(rows)), np.array([0, len(rows)])
    for column in key or range(len(rows.schema)):
        places, bounds = refined(places, bounds, partial(rows.taken, column))
    return places


def _refuse_twice(changes: Changes, codes: np.ndarray, size: int) -> None:
    for sign in (1, -1):
        of_key = np.bincount(codes, weights=np.maximum(sign * changes.weights, 0), minlength=size)
        if (of_key > 1).any():
            raise AssertionError("two rows of the answer have one key")


def _numbered(changes: Changes, numbers: Numbers) -> tuple[Gathered, Places, pa.ChunkedArray]:
    """Each row as often as it comes or goes, with the numbers that it is given or gives back."""
    before = numbers.take_in(changes)
    if (changes.weights == 1).all():
        return changes.gathered, before, pa.chunked_array([pa.repeat(INSERT, len(changes))])
    after = before + changes.weights
    low, count = np.minimum(before, after), np.abs(changes.weights)
    places = np.repeat(np.arange(len(changes)), count)
    within = np.arange(len(places)) - np.repeat(np.cumsum(count) - count, count)
    number = low[places] + within
    order = np.argsort(changes.weights[places] > 0, kind="stable")
    said = pa.array([DELETE, INSERT]).take(pa.array((changes.weights[places[order]] > 0).astype(np.int64)))
    return changes.gathered.take(places[order]), number[order], pa.chunked_array([said])


def _logged(
    rows: Gathered, number: Places | None, said: pa.ChunkedArray, tree: Answered, version: int, time: int
) -> pa.Table:
    count = len(rows)
    columns = {CHANGE: said, **dict(zip(tree.columns, rows.columns(), strict=True))}
    if number is not None:
        columns[NUMBER] = pa.array(number)
    columns[VERSION] = pa.repeat(pa.scalar(version, pa.int64()), count)
    columns[ARRIVAL_COLUMN] = pa.repeat(pa.scalar(time, pa.int64()), count).cast(TIME_TYPE)
    return pa.table(columns)
