"""Snapshots: all rows of a table at one version in one file, so that the changes before need not be read again.

A file is named by the row of the log up to which it goes, as a segment is by its rows: `snap-<row>-<version>-<rows>-
<bytes>-<sum>.arrow`. Rows are in the order of their keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from anabranch.log.storage import Storage
from anabranch.log.sums import read_whole
from anabranch.tables.state import Run, State

PLACE = "snapshots"
_NAME = re.compile(r"snap-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{10})-([0-9a-f]{10})-([0-9a-f]{16})\.arrow")


@dataclass(frozen=True, order=True)
class Snapshot:
    """What a snapshot's name says."""

    row: int
    version: int
    rows: int
    size: int
    sum: int

    @property
    def name(self) -> str:
        return f"snap-{self.row:016x}-{self.version:016x}-{self.rows:010x}-{self.size:010x}-{self.sum:016x}.arrow"

    @staticmethod
    def named(name: str) -> Snapshot | None:
        match = _NAME.fullmatch(name)
        return None if match is None else Snapshot(*(int(part, 16) for part in match.groups()))


def snapshots_of(changes: Storage) -> list[Snapshot]:
    """The whole snapshots beside a log of changes, oldest first; one of another size than its name says is none."""
    named = ((Snapshot.named(name), size) for name, size in changes.child(PLACE).files().items())
    return sorted(snapshot for snapshot, size in named if snapshot is not None and snapshot.size == size)


def write_snapshot(changes: Storage, state: State) -> Snapshot:
    """Write a state as a snapshot, durably."""
    storage = changes.child(PLACE)
    if not storage.exists():
        storage.make()
    storage.sweep()
    rows = state.table

    def write(sink: Any) -> None:
        with ipc.new_file(sink, rows.schema) as out:
            out.write_table(rows)

    made: list[Snapshot] = []

    def name(size: int, sum: int) -> str:
        made.append(Snapshot(state.row, state.version, rows.num_rows, size, sum))
        return made[0].name

    storage.write(write, name)
    return made[0]


def read_snapshot(changes: Storage, snapshot: Snapshot, schema: pa.Schema, key: tuple[str, ...]) -> State:
    """The state that a snapshot holds; ValueError says what is wrong with it."""
    rows = read_whole(changes.child(PLACE), snapshot.name, snapshot.sum)
    if rows.num_rows != snapshot.rows or rows.schema.names != schema.names:
        raise ValueError(f"it holds {rows.num_rows} rows of {rows.schema.names}")
    run = Run(rows.combine_chunks(), key, is_sorted=True)
    alive = np.ones(snapshot.rows, np.bool_)
    return State(schema, key, [run], [alive], snapshot.row, snapshot.version)


def drop_snapshot(changes: Storage, snapshot: Snapshot) -> None:
    changes.child(PLACE).delete(snapshot.name)
