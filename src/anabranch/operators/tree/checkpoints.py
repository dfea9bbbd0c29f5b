"""What a tree remembers, written down now and then: which offsets, and which runs of which arrangement.

    checkpoint-<rows>.json    for a number of rows taken in: the offsets, the names of runs, what else is to be known
    runs/                     the runs, each written once (`run_files`)

What a tree remembers follows from the rows up to an offset, however they were cut. So who goes on from an offset takes
the newest checkpoint before it and the rows since, and checkpoints need not be many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.log.storage import Storage
from anabranch.operators.offset import Offset, Offsets, offsets_from_json
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.run_files import read_run, runs_in, write_run

_KEPT = 3
"""A micro-batch may be repeated after the checkpoint at its end was written, and another process read an older one."""


@dataclass(frozen=True)
class Checkpoint:
    """One of them, as its file says."""

    at: dict[str, Offset]
    runs: dict[str, list[str]]
    """The names of the runs of each arrangement."""

    @property
    def rows(self) -> int:
        return rows_at(self.at)

    def fits(self, at: Offsets) -> bool:
        """Whether what was remembered is a part of what is at some offsets."""
        return all(self.at[name].row <= at[name].row and self.at[name].time <= at[name].time for name in self.at)


def rows_at(at: Offsets) -> int:
    """How many rows were taken in at some offsets, of all inputs."""
    return sum(offset.row for offset in at.values())


class Checkpoints:
    """Those of one query."""

    def __init__(self, folder: Storage) -> None:
        self._folder = folder
        self._runs = folder.child("runs")

    def all(self) -> list[Checkpoint]:
        """Oldest first; one that cannot be read is none."""
        found = []
        for name in self._folder.names():
            if name.startswith("checkpoint-"):
                said = self._folder.read_json(name)
                if said:
                    found.append(Checkpoint(offsets_from_json(said["at"]), said["runs"]))
        return sorted(found, key=lambda checkpoint: checkpoint.rows)

    def write(self, at: Offsets, kept: Mapping[str, Arrangement]) -> None:
        """Write one, durably, and let go of those that nobody goes back to."""
        if not self._folder.exists():
            self._folder.make()
        runs = {name: [write_run(self._runs, run) for run in arrangement.runs()] for name, arrangement in kept.items()}
        said = {"at": {name: list(offset) for name, offset in at.items()}, "runs": runs}
        self._folder.write_json(_file(at), said)
        self._let_go()

    def read(self, checkpoint: Checkpoint, kept: Mapping[str, Arrangement]) -> None:
        """Fill arrangements with what a checkpoint holds; ValueError says what is wrong with it."""
        if checkpoint.runs.keys() != kept.keys():
            raise ValueError("it is of another tree")
        for name, arrangement in kept.items():
            arrangement.take_runs([read_run(self._runs, run) for run in checkpoint.runs[name]])

    def _let_go(self) -> None:
        known = self.all()
        for checkpoint in known[:-_KEPT]:
            self._folder.delete(_file(checkpoint.at))
        stay = {run for checkpoint in known[-_KEPT:] for runs in checkpoint.runs.values() for run in runs}
        for run in runs_in(self._runs):
            if run not in stay:
                self._runs.delete(run)


def _file(at: Offsets) -> str:
    return f"checkpoint-{rows_at(at):016x}.json"
