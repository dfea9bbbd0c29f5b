"""The records of one side of a merge: those that wait from before, and those that are new."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.schema import TIME_TYPE

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_HIDDEN = _TIME, _OWN, _ROW, _MET, _IN_WINDOW = "__time", "__own", "__row", "__met", "__in_window"


@dataclass(frozen=True)
class Records:
    """Records with their time, their number in order of arrival, and whether they have merged before.

    Those in the window stand before those that are not read yet, group by group. `times` are those that streams
    keep pace by, see `pacing`; `own` is when a record came, and in a window since when it waits there.
    """

    table: pa.Table
    times: Ints
    own: Ints
    rows: Ints
    met: Flags
    in_window: Flags

    def __len__(self) -> int:
        return len(self.times)

    @staticmethod
    def new(table: pa.Table, times: Ints, first_row: int) -> Records:
        """Records that come in, in order of time."""
        count = table.num_rows
        none = np.zeros(count, np.bool_)
        return Records(table, times, times, np.arange(first_row, first_row + count), none, none)

    def followed_by(self, new: Records) -> Records:
        """All records as one list; none of the arrays is shared with those it came from."""
        return Records(
            pa.concat_tables([self.table, new.table]) if len(self) else new.table,
            np.concatenate([self.times, new.times]),
            np.concatenate([self.own, new.own]),
            np.concatenate([self.rows, new.rows]),
            np.concatenate([self.met, new.met]),
            np.concatenate([self.in_window, new.in_window]),
        )

    def at(self, places: Ints) -> Records:
        """Some of the records, in the given order."""
        return Records(
            self.table.take(pa.array(places)).combine_chunks(),
            self.times[places],
            self.own[places],
            self.rows[places],
            self.met[places],
            self.in_window[places],
        )

    def to_table(self) -> pa.Table:
        table = self.table
        for name, times in ((_TIME, self.times), (_OWN, self.own)):
            table = table.append_column(name, pa.array(times, pa.int64()).view(TIME_TYPE))
        for name, values in ((_ROW, self.rows), (_MET, self.met), (_IN_WINDOW, self.in_window)):
            table = table.append_column(name, pa.array(values))
        return table

    @staticmethod
    def from_table(table: pa.Table) -> Records:
        def values(name: str) -> NDArray[np.generic]:
            column = table.column(name).combine_chunks()
            if pa.types.is_timestamp(column.type):
                column = column.view(pa.int64())
            values: NDArray[np.generic] = column.to_numpy(zero_copy_only=False)
            return values

        return Records(
            table.drop_columns([name for name in _HIDDEN if name in table.column_names]),
            values(_TIME).astype(np.int64),
            values(_OWN if _OWN in table.column_names else _TIME).astype(np.int64),  # older states have none
            values(_ROW).astype(np.int64),
            values(_MET).astype(np.bool_),
            values(_IN_WINDOW).astype(np.bool_),
        )
