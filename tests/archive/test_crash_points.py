"""A process that dies at each change of the disk in turn: what it leaves is right, and another goes on from there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from anabranch.archive.table import RunTable
from anabranch.log.storage import Storage
from anabranch.queries.archiver import Archiver
from tests.archive.life import LAYOUTS, Life
from tests.sampling import sampled

STEPS = ((RunTable, "commit"), (RunTable, "create"), (RunTable, "sweep"), (Storage, "delete_all"), (Storage, "write"))

STRIDE = int(os.environ.get("CRASH_STRIDE", "4"))
"""Every how many changes one of the longer lives ends; 1 tries all, in a minute or two."""


class Killed(BaseException):
    """Nothing in the code under test is to catch it."""


def append(life: Life, name: str) -> None:
    life.push(150)
    life.archivers[name].append()


def join(life: Life, name: str) -> None:
    life.archivers[name].join_runs(2)


def read(keep: float, times: int = 1) -> Callable[[Life, str], None]:
    def action(life: Life, name: str) -> None:
        reader = life.reader(name)
        for _ in range(times):
            reader.read_sample(0, life.end, ["v"], keep)

    return action


def vacuum(life: Life, name: str) -> None:
    life.archivers[name].vacuum(0)


def levels(life: Life, name: str) -> None:
    archiver = life.archivers[name]
    if 20 in archiver.info.levels:
        archiver.drop_level(replace(archiver.info, levels=(50,)), 20)
    else:
        archiver.add_level(replace(archiver.info, levels=(20, 50)), 20)


ANEW = (read(0.9, 16), vacuum, read(0.5), vacuum)
"""The copy of OnReadModify is missed too often, and made anew."""
LIVES: dict[str, tuple[Callable[[Life, str], None], ...]] = {
    "plain": (append, append, join, append, vacuum),
    "replicate": (append, append, levels, append, join, levels, append, vacuum),
    "modify": (append, read(0.2), vacuum, append, read(0.1), vacuum, append, join, *ANEW, append),
}


def new_life(path: Path, name: str) -> Life:
    layout, options, by = LAYOUTS[name]
    options = {"levels": "50"} if name == "replicate" else options
    return Life(path, {name: (layout, options, by)}, run_rows=400, segment_bytes=4_000)


def dying_at(patch: pytest.MonkeyPatch, number: int, seen: list[int]) -> None:
    """The `number`-th change is not made: before it, the process is dead."""
    for kind, name in STEPS:
        real: Any = getattr(kind, name)

        def step(place: Any, *arguments: Any, real: Any = real, **named: Any) -> Any:
            if "/segments" not in str(place):  # those are the log's
                seen[0] += 1
                if seen[0] == number:
                    raise Killed
            return real(place, *arguments, **named)

        patch.setattr(kind, name, step)


def another_process(life: Life, name: str) -> None:
    """The lock of a dead process is free, and what it knew is gone."""
    old = life.archivers[name]
    old.close()
    info = life.reader(name).archives[0].info
    life.archivers[name] = Archiver(old._stream, old._storage, info, old._run, old._clock)


def check(life: Life, name: str) -> None:
    reader = life.reader(name)
    assert reader.first_row() == 0
    assert reader.read(0, life.end).equals(life.rows(0, life.end))
    for keep in (0.1, 0.5, 0.8):
        assert reader.read_sample(0, life.end, ["v"], keep).equals(life.sample(0, life.end, ["v"], keep))
    for table in reader.archives[0].tables().values():
        numbers = DeltaTable(table.storage.path).to_pyarrow_table(columns=["_row"]).column(0).to_pylist()
        assert len(set(numbers)) == len(numbers), "a row is twice in the table"
        assert sum(run.rows for run in table.runs) == (table.end or 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIVES)
def test_a_death_at_any_change_of_the_disk_loses_nothing_and_stops_nothing(tmp_path: Path, name: str) -> None:
    whole = new_life(tmp_path / "whole", name)
    seen = [0]
    with pytest.MonkeyPatch.context() as patch:
        dying_at(patch, 0, seen)
        for action in LIVES[name]:
            action(whole, name)
    whole.close()
    deaths = range(1, seen[0] + 1, 1 if name == "plain" else STRIDE)
    for number in sampled(deaths, 12, name):
        life = new_life(tmp_path / str(number), name)
        counted = [0]
        died = False
        for action in LIVES[name]:
            with pytest.MonkeyPatch.context() as patch:
                dying_at(patch, 0 if died else number, counted)
                try:
                    action(life, name)
                except Killed:
                    died = True
            if died:
                another_process(life, name)
                check(life, name)
        life.archivers[name].append()
        check(life, name)
        life.close()
    assert seen[0] > 10
