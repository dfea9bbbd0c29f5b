"""The rows of a table after some of its changes, for operators."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.operators.base import LogReader
from anabranch.operators.columns import bind
from anabranch.operators.table.keys import present, true
from anabranch.tables.changes import comes as is_there
from anabranch.tables.declaration import RESERVED
from anabranch.tables.state import State


def state_of(reader: LogReader, row: int) -> State:
    """The state after the first `row` changes that a reader reads, also where archives might be read with them."""
    log: Any = getattr(reader, "log", reader)
    state: State = log.state_at(row)
    return state


def store_of(reader: LogReader, row: int, key: tuple[str, ...]) -> State:
    """What the first `row` changes of an answer come to, which has no snapshots; by its key."""
    log: Any = getattr(reader, "log", reader)
    if log.first_row() > 0:
        raise QueryError(
            "CHANGES_ARE_GONE",
            f'the first changes that query "{log.info.name}" has answered were removed by RETAIN',
            hint="CREATE MATERIALIZED VIEW keeps the rows themselves",
        )
    changes = log.read(0, row)
    kept = pa.schema([field for field in changes.schema if field.name not in RESERVED])
    return State(kept, key).replayed(changes, is_there(changes), row, 0)


def oldest_state(reader: LogReader) -> int:
    """The number of changes at the oldest state there is."""
    log: Any = getattr(reader, "log", reader)
    return int(log.oldest_state()) if hasattr(log, "oldest_state") else 0


def state_from(reader: LogReader, row: int, key: tuple[str, ...], comes: str) -> State:
    """The same of any log whose rows say by a condition whether what they are about is there from then on.

    Those of a table are found by snapshots; others, which have none, are read from the beginning.
    """
    log: Any = getattr(reader, "log", reader)
    if hasattr(log, "state_at"):
        return state_of(reader, row)
    changes = with_keys(log.read(0, row), key)
    state = State(log.schema, key)
    return state.replayed(changes, true(bind(comes, changes.schema).evaluate(changes)), row, 0)


def with_keys(changes: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The changes that say which row they are about."""
    whole = present([changes.column(name) for name in key], changes.num_rows)
    return changes if whole.all() else changes.filter(pa.array(whole))
