"""Reading a table: the log of its changes like any stream, and its rows as they were after any of them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from anabranch.errors import StreamError
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage
from anabranch.tables.changes import comes
from anabranch.tables.declaration import CHANGE, VERSION, TableInfo
from anabranch.tables.snapshots import read_snapshot, snapshots_of
from anabranch.tables.state import State

_STATES = 2
"""How many states a reader remembers: where a batch begins, and where it ends."""
_ROWS_AT_ONCE = 1 << 20
_LOOKS = 3


class ChangesReader(StreamReader):
    """A reader of a table's changes that also knows its states."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.table = TableInfo.of(self.info)
        self._states: OrderedDict[int, State] = OrderedDict()
        self._remembering = threading.Lock()

    def state_at(self, row: int) -> State:
        """The rows after the first `row` changes: those of a snapshot, and the changes since."""
        with self._remembering:
            state = self._states.get(row)
            if state is None:
                state = self._states[row] = self._computed(row)
            self._states.move_to_end(row)
            while len(self._states) > _STATES:
                self._states.popitem(last=False)
            return state

    def oldest_state(self) -> int:
        """How many changes there were at the oldest state that is still known."""
        first = self.first_row()
        if first == 0:
            return 0
        return next((snapshot.row for snapshot in snapshots_of(self._storage) if snapshot.row >= first), first)

    def remember(self, state: State) -> None:
        """A state that is known already."""
        with self._remembering:
            self._states[state.row] = state
            while len(self._states) > _STATES:
                self._states.popitem(last=False)

    def _computed(self, row: int) -> State:
        for _ in range(_LOOKS):
            try:
                return self._followed(row)
            except StreamError as problem:
                if problem.name != "ROWS_ARE_GONE":
                    raise
            self.look_again()  # changes were let go while we looked: a newer snapshot is there
        return self._followed(row)

    def _followed(self, row: int) -> State:
        first = self.first_row()
        known = max((known for known in self._states if first <= known <= row), default=None)
        state = self._begun(row) if known is None else self._states[known]
        while state.row < row:
            state = self._gone_on(state, min(row, state.row + _ROWS_AT_ONCE))
        return state

    def _begun(self, row: int) -> State:
        """The nearest state that is on disk: a snapshot that is whole, or the beginning of the log."""
        problems: list[str] = []
        for _ in range(_LOOKS):  # the writer may let go of a snapshot while we look
            first = self.first_row()
            for snapshot in reversed([known for known in snapshots_of(self._storage) if first <= known.row <= row]):
                try:
                    return read_snapshot(self._storage, snapshot, self.table.schema, self.table.key)
                except FileNotFoundError:
                    break
                except ValueError as problem:
                    problems.append(f"{snapshot.name}: {problem}")
            else:
                break
        if self.first_row() > 0:
            raise StreamError(
                "TABLE_IS_DAMAGED",
                f'the rows of table "{self.table.name}" cannot be read',
                detail="; ".join(problems) or f"no snapshot in {self._storage.path} goes back to row {row}",
                hint="put the snapshot back from a copy of the database",
            )
        return State(self.table.schema, self.table.key)

    def _gone_on(self, state: State, row: int) -> State:
        changes = self.read(state.row, row, [CHANGE, *self.table.schema.names, VERSION])
        version = changes.column(VERSION)[-1].as_py()
        return state.replayed(changes, comes(changes), row, version)
