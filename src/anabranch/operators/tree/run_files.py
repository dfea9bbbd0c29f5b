"""Runs in files, so that what a tree remembers is there when another process goes on.

A file holds a run as it is and is mapped when it is read. It is named by what is in it, `run-<rows>-<bytes>-<sum>
.arrow`: a run that has been written once is there, whoever writes it again, and what is damaged is seen by its name.
"""

from __future__ import annotations

import re
from typing import Any

from pyarrow import ipc

from anabranch.log.storage import Storage
from anabranch.log.sums import read_whole
from anabranch.operators.tree.runs import Run

_NAME = re.compile(r"run-([0-9a-f]{10})-([0-9a-f]{10})-([0-9a-f]{16})\.arrow")


def write_run(storage: Storage, run: Run) -> str:
    """Write a run durably, unless it is there; the name of its file."""
    if run.name is not None and is_there(storage, run.name):
        return run.name

    def write(sink: Any) -> None:
        with ipc.new_file(sink, run.table.schema) as out:
            out.write_table(run.table)

    def name(size: int, sum: int) -> str:
        return f"run-{len(run):010x}-{size:010x}-{sum:016x}.arrow"

    if not storage.exists():
        storage.make()
    run.name = storage.write(write, name)
    return run.name


def read_run(storage: Storage, name: str, *, again: bool = False) -> Run:
    """The run in a file, mapped where it is local; ValueError says what is wrong with it.

    `again`: look whether it is whole, even if this process has looked before.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is not the name of a run")
    rows, _, sum = (int(part, 16) for part in match.groups())
    try:
        table = read_whole(storage, name, sum, again=again)
    except FileNotFoundError:
        raise ValueError(f"{storage.full(name)} is gone") from None
    except ValueError as problem:
        raise ValueError(f"{storage.full(name)} is damaged: {problem}") from None
    if table.num_rows != rows:
        raise ValueError(f"{storage.full(name)} is damaged: it holds {table.num_rows} rows, written were {rows}")
    run = Run(table)
    run.name = name
    return run


def is_there(storage: Storage, name: str) -> bool:
    """Whether a file of that name is there, as large as it says."""
    match = _NAME.fullmatch(name)
    info = storage.filesystem.get_file_info(storage.full(name))
    return match is not None and info.is_file and int(match[2], 16) == info.size


def runs_in(storage: Storage) -> list[str]:
    """The names of all files of runs, so that those that nobody wants any more can go."""
    return sorted(name for name in storage.names() if _NAME.fullmatch(name))
