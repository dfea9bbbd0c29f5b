"""The contract of layouts: how rows become files, and which of them a reduced read touches.

After S. Chandrasekaran and M. Franklin, "Remembrance of Streams Past" (2004), §4.1. Whatever a layout
does, a reduced read gives the same rows (`kernels.sampling`); what differs is how many bytes it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.archive.declaration import ROW, ArchiveInfo
from anabranch.archive.facts import facts_of
from anabranch.archive.files import APART, write_run
from anabranch.archive.runs import Run, to_hold
from anabranch.archive.table import Written
from anabranch.kernels.sampling import kept, lots
from anabranch.kernels.values import integers
from anabranch.log.storage import Storage

PRIMARY = "table"
"""The table of all rows, which every layout has."""
ROWS_PER_GROUP = 1 << 17
"""Rows of a row group, where nothing else says how many."""


class ReadPlace(NamedTuple):
    """Where a reduced read of a run finds its rows: in which table, which file, and how many of its first blocks."""

    table: str
    run: Run
    blocks: int


@dataclass(frozen=True)
class Layout:
    """How an archive lies on disk."""

    name: ClassVar[str]

    info: ArchiveInfo
    time_column: str

    def tables(self) -> tuple[str, ...]:
        """The directories of its Delta tables below the archive's own, the one of all rows first."""
        return (PRIMARY,)

    def rate(self, table: str) -> float:
        """Which part of the rows goes to a table as it is written."""
        return 1.0

    def write_run(self, storage: Storage, table: str, rows: pa.Table, numbers: range, rate: float) -> Written:
        """Write the part `rate` of the rows numbered so as a run of a table.

        The rows come in order, all of them, with their numbers in the last column.
        """
        facts = facts_of(rows, self.measured(rows))
        far = np.zeros(rows.num_rows, bool)
        far[facts.far] = True
        apart = [rows.filter(pa.array(far))] if far.any() else []
        if rate < 1:  # what lies far out is in every copy
            held = far | kept(lots(integers(rows.column(ROW)), self.info.seed), to_hold(rate))
            rows, far = rows.filter(pa.array(held)), far[held]
        near = rows.filter(pa.array(~far)) if apart else rows
        groups = [near.slice(low, ROWS_PER_GROUP) for low in range(0, near.num_rows, ROWS_PER_GROUP)] or [near]
        return write_run(
            storage.child(table),
            rows,
            [*apart, *groups],
            range(APART if apart else 0, len(groups)),
            rows=numbers,
            of=len(groups),
            rate=rate,
            time_column=self.time_column,
            compression=self.info.compression,
            in_order=True,
            ranges=facts.ranges,
        )

    def measured(self, rows: pa.Table) -> list[str]:
        """The columns of which facts are kept: those of the stream but its time."""
        return [name for name in rows.column_names if name not in (ROW, self.time_column)]

    def choose(self, run: Run, keep: float, by: str | None, copies: Mapping[str, Mapping[int, Run]]) -> ReadPlace:
        """What to read of a run of the primary table; `copies` are the runs of the other tables by first row."""
        return ReadPlace(PRIMARY, run, run.blocks)

    @property
    def block(self) -> float:
        """The smallest part of the rows that is worth reading: less costs as much."""
        return 0.01

    def in_order(self, table: str) -> bool:
        """Whether the files of a table hold their rows in order, so that a part of a run is a part of its groups."""
        return True
