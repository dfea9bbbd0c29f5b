"""Change feeds: streams whose rows say what became of a row of some table elsewhere.

A column says it, by the words that databases' feeds use for it; the columns of a key say of which row. A feed may
give a row as it was before it was updated, or leave that out: what is true of a key is what its last row says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.errors import DataError, did_you_mean
from anabranch.schema import is_nested, sql_type

Mask = NDArray[np.bool_]

NOT_KNOWN, NO_KEY = "CHANGE_NOT_KNOWN", "KEY_IS_NULL"
"""Why a feed refuses a row."""

COMES = ("c", "r", "u", "i", "insert", "update", "upsert", "update_after", "+i", "+u")
"""After these the row is there. c, r and u are Debezium's, r being the table as it was when the feed began."""
GOES = ("d", "delete", "-d")
"""After these it is not."""
BEFORE = ("update_before", "-u")
"""These say how the row was before an update, whose own row comes next; they change nothing."""

WORDS = (*COMES, *GOES, *BEFORE)


@dataclass(frozen=True)
class Feed:
    """The column that says what became of a row, and those that say of which."""

    change: str
    key: tuple[str, ...]

    @staticmethod
    def declare(change: str, key: Sequence[str], schema: pa.Schema) -> Feed:
        """A feed by the names of its columns, in any case."""
        column = change_column(schema, change)
        return Feed(column, key_columns(schema, column, key))

    def refused(self, rows: pa.Table) -> dict[str, Mask]:
        """For each reason which rows are refused: those whose change is not known, and those without a whole key."""
        known = _is_one_of(rows.column(self.change), WORDS)
        whole = np.ones(rows.num_rows, np.bool_)
        for name in self.key:
            column = rows.column(name)
            if column.null_count:
                whole &= column.is_valid().to_numpy()
        refused = {NOT_KNOWN: ~known, NO_KEY: known & ~whole}
        return {reason: mask for reason, mask in refused.items() if mask.any()}


def change_column(schema: pa.Schema, name: str) -> str:
    """The column that says what became of a row, by its name in any case."""
    column = _known(schema, name)
    if not pa.types.is_string(kind := schema.field(column).type):
        raise DataError(
            "CHANGE_TYPE_MISMATCH",
            f'column "{column}" is to say what became of a row, and is {sql_type(kind)}, not STRING',
            hint="name the column that holds words such as insert, update and delete",
        )
    return column


def key_columns(schema: pa.Schema, change: str, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that say of which row it says so."""
    key = tuple(_known(schema, name) for name in names)
    if not key:
        raise DataError("KEY_WANTED", "a feed of changes has a key", hint="write CHANGES BY column KEY (column, …)")
    if len(set(key)) < len(key):
        raise DataError("COLUMN_EXISTS", "a column comes twice in the key")
    if change in key:
        raise DataError(
            "KEY_INVALID",
            f'column "{change}" says what became of a row, and cannot be part of its key',
            hint="name the columns that say which row it is",
        )
    refuse_nested_keys(schema, key)
    return key


def refuse_nested_keys(schema: pa.Schema, key: Sequence[str]) -> None:
    """A key that people give rows is of plain values."""
    for column in key:
        if is_nested(kind := schema.field(column).type):
            raise DataError(
                "KEY_INVALID",
                f'column "{column}" is {sql_type(kind)}, and cannot be part of a key',
                hint="name columns that hold one value each",
            )


def goes(change: pa.ChunkedArray) -> Mask:
    """After which changes the row is not there."""
    return _is_one_of(change, GOES)


def says_before(change: pa.ChunkedArray) -> Mask:
    """Which changes only say how the row was before."""
    return _is_one_of(change, BEFORE)


def _is_one_of(change: pa.ChunkedArray, words: tuple[str, ...]) -> Mask:
    found: Mask = pc.is_in(pc.utf8_lower(change), value_set=pa.array(words, change.type), skip_nulls=True).to_numpy()
    return found


def _known(schema: pa.Schema, column: str) -> str:
    by_lower: dict[str, str] = {name.lower(): name for name in schema.names}
    if column.lower() not in by_lower:
        raise DataError(
            "COLUMN_NOT_FOUND",
            f'column "{column}" is not among the columns',
            hint=did_you_mean(column, list(schema.names)),
        )
    return by_lower[column.lower()]
