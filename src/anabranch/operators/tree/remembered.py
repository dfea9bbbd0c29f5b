"""What a tree remembers between micro-batches: in memory, else made again from a checkpoint and the rows since."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from anabranch.errors import QueryError
from anabranch.operators.base import Inputs, LogReader, Offset, Offsets
from anabranch.operators.live import Live
from anabranch.operators.table.states import oldest_state
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.checkpoints import Checkpoints, rows_at
from anabranch.operators.tree.entering import Taken, entering, parts_of, rows_of_tables
from anabranch.operators.tree.flow import Flow
from anabranch.operators.tree.numbers import Numbers

if TYPE_CHECKING:
    from anabranch.operators.tree.operator import Tree

_LEAST_BETWEEN = 200_000
"""Rows between two checkpoints, at least."""
_SHARE, _QUICK = 10, 0.1
"""A checkpoint that took longer (s) than the second is written again when so many times as long has passed: a query
that catches up takes in what it has to, and is not kept from it by what would be old in a moment."""
_ROWS_AT_ONCE = 1 << 19


def checkpoints_in(inputs: Inputs) -> Checkpoints | None:
    """Those of a tree, if it has scratch."""
    folder = inputs.folder("tree")
    return None if folder is None else Checkpoints(folder)


def first_row(reader: LogReader) -> int:
    """The first row that a tree can begin with."""
    return max(reader.first_row(), oldest_state(reader))


def is_first(at: Offsets) -> bool:
    """Whether there was no micro-batch before."""
    return not any(offset.has_begun for offset in at.values())


def is_table(reader: LogReader) -> bool:
    """Whether what was there before some change is known, too."""
    return hasattr(getattr(reader, "log", reader), "state_at")


@dataclass
class Memory:
    """What a tree remembers at some offsets, and what was taken in until then.

    `numbers` are the rows of an answer without a key.
    """

    flow: Flow
    numbers: Numbers | None
    at: dict[str, Offset]
    taken: Taken
    rests_until: float = 0.0
    """Until when no checkpoint is written, by the monotonic clock."""

    def kept(self) -> dict[str, Arrangement]:
        return {**self.flow.kept(), **({} if self.numbers is None else {"answer": self.numbers.kept})}

    @property
    def rows(self) -> int:
        return sum(arrangement.entries for arrangement in self.kept().values())

    @property
    def nbytes(self) -> int:
        return sum(arrangement.nbytes for arrangement in self.kept().values())


_live: Live[Memory] = Live()


class Remembered:
    """Finds what a tree remembers at some offsets, and keeps it for the next micro-batch."""

    def __init__(self, tree: Tree, inputs: Inputs) -> None:
        self._tree = tree
        self._checkpoints = checkpoints_in(inputs)
        self._known = [] if self._checkpoints is None else self._checkpoints.all()
        places = (place for checkpoint in self._known for place in self._places(checkpoint.at, inputs))
        self.inputs = self._inputs = replace(inputs, places=tuple(places))
        identities = " ".join(inputs.readers[name].identity for name in tree.inputs)
        self._name = f"{inputs.scratch} {tree!r} {identities}"

    def _places(self, at: Offsets, inputs: Inputs) -> Iterator[Offsets]:
        """Where parts are when the tree is at some offsets."""
        return ({**at, **own} for own in self._tree.taken(at, inputs).parts.values())

    def at(self, at: Offsets) -> Memory:
        if is_first(at):
            return self._empty(at)  # the first micro-batch answers with what there is
        memory = _live.take(self._name)
        if memory is None or not _precedes(memory.at, at):
            memory = self._from_disk(at)
        self._catch_up(memory, at)
        return memory

    def put_back(self, memory: Memory) -> None:
        _live.put(self._name, memory)
        if self._checkpoints is None:
            return
        since = rows_at(memory.at) - (self._known[-1].rows if self._known else 0)
        if not self._known:
            self._write(self._checkpoints, memory)
        elif since >= max(_LEAST_BETWEEN, memory.rows // 2) and monotonic() >= memory.rests_until:
            with contextlib.suppress(OSError):  # a full disk: it is tried again, and the rows since are held
                self._write(self._checkpoints, memory)

    @staticmethod
    def _write(checkpoints: Checkpoints, memory: Memory) -> None:
        began = monotonic()
        checkpoints.write(memory.at, memory.kept())
        took = monotonic() - began
        memory.rests_until = began + took * _SHARE if took > _QUICK else 0.0

    def _empty(self, at: Offsets) -> Memory:
        flow = self._tree.flow(self._inputs)
        numbers = Numbers(flow.schema, only_comes=flow.only_comes) if self._tree.is_numbered else None
        return Memory(flow, numbers, dict(at), self._tree.taken(at, self._inputs))

    def _from_disk(self, at: Offsets) -> Memory:
        """The newest checkpoint that is whole; without one from the beginning, if all rows are there."""
        problems = []
        for checkpoint in reversed([known for known in self._known if known.fits(at)]):
            memory = self._empty(checkpoint.at)
            try:
                assert self._checkpoints is not None
                self._checkpoints.read(checkpoint, memory.kept())
            except (ValueError, FileNotFoundError) as problem:
                problems.append(str(problem))
            else:
                return memory
        return self._begun(at, problems)

    def _begun(self, at: Offsets, problems: list[str]) -> Memory:
        """From nothing: with tables as they were in the oldest state, and the rows of streams from the first on."""
        readers = self._inputs.readers
        begins = {name: Offset(min(first_row(readers[name]), at[name].row)) for name in at}
        for name, offset in begins.items():
            if offset.row > 0 and not is_table(readers[name]):
                raise QueryError(
                    "STATE_LOST",
                    f'what was kept of the rows of stream "{name}" is lost, and its first rows are gone',
                    detail="; ".join(problems) or None,
                    hint="drop the query and create it again: it begins with the rows there are",
                )
        memory = self._empty(begins)
        self._take_in(memory, rows_of_tables(self._tree.nodes, begins, self._inputs), memory.taken)
        return memory

    def _catch_up(self, memory: Memory, at: Offsets) -> None:
        """Take in the rows up to some offsets; what they have changed was answered before.

        In pieces, which end in the middle of a time: for parts, which answer by time, they would be no micro-batches.
        """
        target = self._tree.taken(at, self._inputs)
        while memory.taken != target:
            until = self._piece(memory.taken, target)
            self._take_in(memory, entering(self._tree.nodes, memory.taken, until, self._inputs, again=True), until)
        memory.at = dict(at)

    def _piece(self, begin: Taken, target: Taken) -> Taken:
        """The next rows on the way."""
        if parts_of(self._tree.nodes):
            return target
        left, until = _ROWS_AT_ONCE, dict(begin.streams)
        for name, offset in target.streams.items():
            row = min(offset.row, until[name].row + left)
            left -= row - until[name].row
            until[name] = offset if row == offset.row else until[name]._replace(row=row)
        return target if until == target.streams else Taken(until, {}, begin.time)

    def _take_in(self, memory: Memory, came: dict[str, Changes], until: Taken) -> None:
        changes = memory.flow.take(came, until.time)
        if memory.numbers is not None:
            memory.numbers.take_in(changes)
        memory.taken = until


def _precedes(before: Offsets, at: Offsets) -> bool:
    return all(before[name].row <= at[name].row and before[name].time <= at[name].time for name in at)
