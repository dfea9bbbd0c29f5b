"""The rows of a table after some of its changes, for operators."""

from __future__ import annotations

from typing import Protocol, cast

from anabranch.operators.base import LogReader
from anabranch.tables.state import State


class _Changes(Protocol):
    def state_at(self, row: int) -> State: ...


def state_of(reader: LogReader, row: int) -> State:
    """The state after the first `row` changes that a reader reads, also where archives might be read with them."""
    log = getattr(reader, "log", reader)
    return cast(_Changes, log).state_at(row)
