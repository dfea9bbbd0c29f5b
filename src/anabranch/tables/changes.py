"""What a statement does to a table, and how that is written to the log of changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import DataError
from anabranch.kernels.groups import encode
from anabranch.kernels.keyed import Places, differs, first_repeated
from anabranch.kernels.values import Column, valid
from anabranch.tables.declaration import AFTER, BEFORE, CHANGE, DELETE, INSERT, VERSION, TableInfo
from anabranch.tables.state import Mask, State

_NOWHERE: Places = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Changes:
    """Rows of a state that go, rows that are as `after` says from now on, and rows that come.

    `counts`: how many rows were inserted, updated and deleted, as people count: a row that is told to be what it was is
    updated, though that is no change.
    """

    gone: Places = field(default_factory=lambda: _NOWHERE)
    updated: Places = field(default_factory=lambda: _NOWHERE)
    after: pa.Table | None = None
    came: pa.Table | None = None
    counts: tuple[int, int, int] = (0, 0, 0)

    @property
    def none(self) -> bool:
        return not self.touched

    @property
    def touched(self) -> int:
        """How many rows are otherwise than before, gone or new."""
        return len(self.gone) + len(self.updated) + (0 if self.came is None else self.came.num_rows)

    def rows(self, state: State, version: int) -> pa.Table:
        """As rows of the log, without their time: what goes, then updates in pairs, then what comes."""
        parts, said = [], []
        if len(self.gone):
            parts.append(state.take(self.gone))
            said.append(pa.repeat(DELETE, len(self.gone)))
        if len(self.updated):
            assert self.after is not None
            count = len(self.updated)
            both = pa.concat_tables([state.take(self.updated), self.after]).combine_chunks()
            pairs = np.arange(2 * count).reshape(2, count).T.ravel()
            parts.append(both.take(pa.array(pairs)))
            said.append(pa.array([BEFORE, AFTER]).take(pa.array(np.tile([0, 1], count))))
        if self.came is not None and self.came.num_rows:
            parts.append(self.came)
            said.append(pa.repeat(INSERT, self.came.num_rows))
        rows = pa.concat_tables(parts)
        columns = {CHANGE: pa.chunked_array(said), **{name: rows.column(name) for name in rows.column_names}}
        return pa.table({**columns, VERSION: pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows)})

    def applied(self, state: State, row: int, version: int) -> State:
        """The state after it."""
        came = [part for part in (self.after, self.came) if part is not None]
        rows = pa.concat_tables(came) if came else state.schema.empty_table()
        return state.changed(np.concatenate([self.gone, self.updated]), rows, row, version)


def inserted(info: TableInfo, state: State, rows: pa.Table) -> Changes:
    """Rows come; a key that is there already, or comes twice, is an error."""
    check_rows(info, rows)
    if len(state):
        _refuse_known(info, rows, state.find(_keys(info, rows)) >= 0)
    return Changes(came=rows, counts=(rows.num_rows, 0, 0))


def upserted(info: TableInfo, state: State, rows: pa.Table) -> Changes:
    """Rows come, or stand in the place of those that have their keys."""
    check_rows(info, rows)
    places = state.find(_keys(info, rows))
    known = places >= 0
    return united(
        updated(info, state, places[known], rows.filter(pa.array(known))),
        Changes(came=rows.filter(pa.array(~known)), counts=(int((~known).sum()), 0, 0)),
    )


def updated(info: TableInfo, state: State, places: Places, after: pa.Table) -> Changes:
    """Rows at some places are from now on as `after` says; one that gets another key goes, and comes under that."""
    after = after.combine_chunks()
    check_rows(info, after)
    before = state.take(places)
    other_key = _differing(before, after, info.key)
    other = np.flatnonzero(_differing(before, after, info.schema.names) & ~other_key)
    moved = np.flatnonzero(other_key)
    counts = (0, len(places), 0)
    if not len(moved):
        return Changes(updated=places[other], after=after.take(pa.array(other)), counts=counts)
    came = after.take(pa.array(moved))
    taken = state.find(_keys(info, came))
    _refuse_known(info, came, (taken >= 0) & ~np.isin(taken, places[moved]))
    return Changes(places[moved], places[other], after.take(pa.array(other)), came, counts)


def deleted(places: Places) -> Changes:
    """Rows at some places go."""
    return Changes(gone=places, counts=(0, 0, len(places)))


def found_and_deleted(info: TableInfo, state: State, keys: pa.Table) -> Changes:
    """The rows of some keys go; a key that no row has is passed over."""
    check_keys(info, keys)
    places = state.find(_keys(info, keys))
    return deleted(places[places >= 0])


def united(*changes: Changes) -> Changes:
    """Changes of different rows as those of one statement."""
    tables = {
        name: [part for each in changes if (part := getattr(each, name)) is not None] for name in ("after", "came")
    }
    return Changes(
        np.concatenate([each.gone for each in changes]),
        np.concatenate([each.updated for each in changes]),
        pa.concat_tables(tables["after"]) if tables["after"] else None,
        pa.concat_tables(tables["came"]) if tables["came"] else None,
        (
            sum(each.counts[0] for each in changes),
            sum(each.counts[1] for each in changes),
            sum(each.counts[2] for each in changes),
        ),
    )


def check_rows(info: TableInfo, rows: pa.Table) -> None:
    """An error if a row has NULL where that may not be, or two have one key."""
    _refuse_null(info, rows, info.required)
    check_keys(info, rows)


def check_keys(info: TableInfo, rows: pa.Table) -> None:
    """The same of the keys alone."""
    _refuse_null(info, rows, info.key)
    groups = encode(_keys(info, rows), rows.num_rows)
    again = first_repeated(groups.codes, groups.size)
    if again is not None:
        raise DataError(
            "KEY_TWICE",
            f'two rows have the key {key_text(info, rows, again)} of table "{info.name}"',
            hint="give each key once in a statement",
        )


def _refuse_null(info: TableInfo, rows: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        column = rows.column(name)
        if column.null_count:
            what = "the key" if name in info.key else "NOT NULL"
            row = int(np.flatnonzero(~valid(column))[0])
            raise DataError(
                "NULL_NOT_ALLOWED",
                f'column "{name}" of table "{info.name}" is {what}, and NULL in row {row}',
                hint="give it a value",
            )


def key_text(info: TableInfo, rows: pa.Table, row: int) -> str:
    """The key of a row in words.

    >>> info = TableInfo("t", pa.schema([("a", pa.int32())]), ("a",), ("a",))
    >>> key_text(info, pa.table({"a": [3, 4]}), 1)
    '(a = 4)'
    """
    return "(" + ", ".join(f"{name} = {rows.column(name)[row].as_py()!s}" for name in info.key) + ")"


def _refuse_known(info: TableInfo, rows: pa.Table, known: Mask) -> None:
    if known.any():
        raise DataError(
            "KEY_EXISTS",
            f'table "{info.name}" has a row with the key {key_text(info, rows, int(np.flatnonzero(known)[0]))}',
            hint="write UPSERT INTO to replace it, or UPDATE it",
        )


def _keys(info: TableInfo, rows: pa.Table) -> list[Column]:
    return [rows.column(name) for name in info.key]


def _differing(before: pa.Table, after: pa.Table, names: Sequence[str]) -> Mask:
    unlike = np.zeros(before.num_rows, np.bool_)
    for name in names:
        unlike |= differs(before.column(name), after.column(name))
    return unlike


def comes(changes: pa.Table) -> Mask:
    """Which changes are those after which the row is there."""
    said = changes.column(CHANGE)
    there: Mask = pc.or_(pc.equal(said, INSERT), pc.equal(said, AFTER)).combine_chunks().to_numpy(zero_copy_only=False)
    return there
