"""A table that is a copy of a file: the difference to the file is one version of its changes.

What the file was like when it was read last is kept beside the log of changes, with how far the log went then, and
written under the table's lock. So of several processes that look at the file one reads it, and one that died in
between is made up for by the next: it finds no difference, or all of it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import numpy as np

from anabranch.clock import Clock
from anabranch.dataspace.access import Access
from anabranch.errors import AnabranchError, DataError, StreamError
from anabranch.log.storage import Storage
from anabranch.tables.changes import Changes, deleted, united, upserted
from anabranch.tables.declaration import TableInfo
from anabranch.tables.file_reading import Read, read_file
from anabranch.tables.seen import look
from anabranch.tables.state import State
from anabranch.tables.writing import TableWriter

COPIED = "copied.json"


@dataclass(frozen=True)
class Copied:
    """What is known of the last reading of a table's file.

    `version` and `row` are the table's then, `at` when it was by the clock. `problem` is why it could not be read
    again since.
    """

    mark: str
    settled: bool
    version: int
    row: int
    at: int
    problem: str | None = None

    @staticmethod
    def of(changes: Storage) -> Copied | None:
        """What is written beside a log of changes, if that can be read."""
        said = changes.read_json(COPIED)
        try:
            return None if said is None else Copied(**said)
        except TypeError:
            return None

    def write(self, changes: Storage) -> None:
        changes.write_json(COPIED, self.__dict__)


def replaced(info: TableInfo, state: State, read: Read) -> Changes:
    """The difference between the rows of a table and those of its file."""
    try:
        comes = upserted(info, state, read.rows)
    except DataError as problem:
        assert info.origin is not None
        raise DataError(problem.name, f'"{info.origin.path}": {problem.message}', hint="mend the file") from None
    known = state.find([read.rows.column(name) for name in info.key])
    there = [piece.base + np.flatnonzero(piece.alive) for piece in state.pieces()]
    gone = np.setdiff1d(np.concatenate([np.zeros(0, np.int64), *there]), known)
    return united(deleted(gone), comes)


class Copier:
    """Keeps one table as its file is."""

    def __init__(self, changes: Storage, writer: TableWriter, access: Access, clock: Clock) -> None:
        assert writer.info.origin is not None
        self._changes = changes
        self._writer = writer
        self._access = access
        self._clock = clock
        self._origin = writer.info.origin

    def fill(self, read: Read) -> None:
        """The first rows of a new table, which were read already."""
        self._writer.copy(lambda state: replaced(self._writer.info, state, read), lambda *at: self._note(read, *at))

    def refresh(self) -> Changes:
        """Take over what is otherwise in the file; nothing where it is as it was."""
        if self._is_as_it_was(self._writer.end_row()):
            return Changes()
        found: list[Read | AnabranchError] = []

        def deciding(state: State) -> Changes:
            if self._is_as_it_was(state.row):  # another has read it meanwhile
                return Changes()
            try:
                read = read_file(self._origin, self._access, self._writer.info.schema)
                changes = replaced(self._writer.info, state, read)
            except AnabranchError as problem:
                found.append(problem)
                return Changes()
            found.append(read)
            return changes

        def done(version: int, row: int) -> None:
            for each in found:
                self._note(each, version, row) if isinstance(each, Read) else self._note_problem(each)

        changes = self._writer.copy(deciding, done)
        for each in found:
            if isinstance(each, AnabranchError):
                raise each
        return changes

    def _is_as_it_was(self, row: int) -> bool:
        """Whether the file is the one that was read last, and that is known for sure."""
        known = Copied.of(self._changes)
        if known is None or not known.settled or known.row != row or known.problem is not None:
            return False
        try:
            return look(self._origin, self._access)[1].mark == known.mark
        except AnabranchError:
            return False  # who reads it says why

    def _note(self, read: Read, version: int, row: int) -> None:
        self._write(Copied(read.seen.mark, read.seen.settled, version, row, self._clock.now_us()))

    def _note_problem(self, problem: AnabranchError) -> None:
        known = Copied.of(self._changes) or Copied("", False, 0, 0, 0)
        said = f"{problem.name} {problem.message}"
        if known.problem != said:
            self._write(replace(known, problem=said, at=self._clock.now_us()))

    def _write(self, copied: Copied) -> None:
        """What is not written is found out again: the file is read once more, and there is no difference."""
        with contextlib.suppress(OSError, StreamError):
            copied.write(self._changes)
